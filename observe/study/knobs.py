"""What a study changes on a node, and how it is put back: competing processes, the CPUs' clock, the network.

Only the standard library and what `npc.observe.rank` has too, since it starts once a rank.
"""

from __future__ import annotations

import math
import os
import re
import shutil
import signal
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from npc.machine import sysfs
from npc.machine.command import exit_words
from npc.processes import die_with_parent

#: What the kernel gives an interface by itself: nobody's setting is lost with it.
_OWN_QDISCS: Final = ("noqueue", "fq_codel", "pfifo_fast", "mq", "fq")
#: A bucket holds what is sent between two ticks of the kernel's clock (tc-tbf(8)), and a few large packets.
_TICK_S: Final = 0.004
_LEAST_BURST: Final = 65536

Undo = Callable[[], None]


class CannotChange(Exception):
    """This cannot be changed here; the message says why, and what would allow it."""


def kept_free(cpus: frozenset[int], number: int, root: Path = sysfs.SYSTEM) -> list[list[int]]:
    """The CPUs of the last `number` cores of each NUMA node, where nothing of the program runs.

    Raises `CannotChange` where a NUMA node has no more cores than that among `cpus`.
    """
    if not number:
        return []
    domains = [
        sysfs.parse_cpus(sysfs.text(node / "cpulist") or "") & cpus for node in root.glob("node/node[0-9]*")
    ]
    free = []
    for domain in sorted(filter(None, domains), key=min) or [cpus]:
        cores = sysfs.cores_of(domain, root)
        if len(cores) <= number:
            raise CannotChange(
                f"{number} competing processes on each NUMA node leave no core of CPU "
                f"{sysfs.format_cpus(domain)} to the program"
            )
        free += cores[-number:]
    return free


def compete(program: Path, cores: Sequence[Sequence[int]], intensity: float, reserved: int) -> None:
    """Start competing processes on the cores that are kept free, and wait until they have begun.

    intensity: processes on each NUMA node, the last one perhaps for a part of the time; `reserved` cores are
    kept free on each. They end with this process.
    """
    shares = [min(1.0, intensity - begun) for begun in range(math.ceil(intensity))]
    started = []
    for place in range(0, len(cores), reserved):
        for core, share in zip(cores[place : place + reserved], shares, strict=False):
            started.append(_competitor(program, core[0], share))
    for process in started:
        assert process.stdout is not None
        if not process.stdout.readline():
            raise CannotChange(f"the competing process ended at once: {exit_words(process.wait())}")


def _competitor(program: Path, cpu: int, share: float) -> subprocess.Popen[bytes]:
    def begin() -> None:
        die_with_parent(signal.SIGKILL)
        os.sched_setaffinity(0, {cpu})

    return subprocess.Popen(
        [str(program), f"{share:g}"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, preexec_fn=begin
    )


def set_frequency(hertz: float, root: Path = sysfs.SYSTEM) -> Undo:
    """Hold all CPUs at a clock (Linux: Documentation/admin-guide/pm/cpufreq.rst); how to undo it.

    Raises `CannotChange`.
    """
    policies = sorted((root / "cpu/cpufreq").glob("policy[0-9]*"))
    if not policies:
        raise CannotChange(f"frequency: {root}/cpu/cpufreq has no policy: is this a virtual machine?")
    khz = round(hertz / 1e3)
    before: list[tuple[Path, int, int]] = []
    for policy in policies:
        low, high, *was = (
            sysfs.number(policy / f"{name}_freq") or 0
            for name in ("cpuinfo_min", "cpuinfo_max", "scaling_min", "scaling_max")
        )
        if not low <= khz <= high:
            raise CannotChange(f"frequency: {policy.name} has {low / 1e6:g} to {high / 1e6:g} GHz")
        before.append((policy, was[0], was[1]))

    def undo() -> None:
        for policy, low, high in before:
            _clock(policy, low, high)

    try:
        for policy, _, _ in before:
            _clock(policy, khz, khz)
    except OSError as error:
        raise CannotChange(
            f"frequency: {error.strerror}: it needs root on the nodes, or srun as the platform's starter"
        ) from None
    return undo


def _clock(policy: Path, low: int, high: int) -> None:
    """The kernel refuses a minimum above the maximum: whichever moves away from the other goes first."""
    order = [("max", high), ("min", low)]
    if high < (sysfs.number(policy / "scaling_min_freq") or 0):
        order.reverse()
    for end, khz in order:
        (policy / f"scaling_{end}_freq").write_text(f"{khz}\n")


def shape(rate: float, interface: str) -> Undo:
    """Limit what this node sends to `rate` bytes/s by a token bucket (tc-tbf(8)); how to undo it.

    interface: empty for the only one that has a carrier. Raises `CannotChange`.
    """
    device = interface or _only_interface()
    if shutil.which("tc") is None:
        raise CannotChange("network: no tc in PATH: install iproute2")
    shown = _tc("qdisc", "show", "dev", device, "root")
    if shown.stdout and shown.stdout.split()[1] not in _OWN_QDISCS:
        raise CannotChange(f"network: {device} has a queue discipline of somebody's: {shown.stdout.strip()}")
    burst = max(_LEAST_BURST, round(rate * _TICK_S))
    bucket = ["tbf", "rate", f"{8 * rate:.0f}bit", "burst", str(burst), "latency", "50ms"]
    done = _tc("qdisc", "replace", "dev", device, "root", *bucket)
    if done.returncode:
        why = done.stderr.strip().replace("\n", " ")
        raise CannotChange(f"network: tc on {device}: {why}: it needs root on the nodes")

    def undo() -> None:
        _tc("qdisc", "del", "dev", device, "root")

    return undo


def _only_interface() -> str:
    shown = subprocess.run(
        ["ip", "-o", "link", "show", "up"], capture_output=True, text=True, timeout=20
    ).stdout
    # "2: eth0@if3: <BROADCAST,MULTICAST,UP,LOWER_UP> …": LOWER_UP is the carrier (ip-link(8))
    routes: list[tuple[str, str]] = re.findall(r"^\d+: ([^@:\s]+)[^<]*<([^>]*)>", shown, re.MULTILINE)
    up = [name for name, flags in routes if "LOWER_UP" in flags and "LOOPBACK" not in flags]
    if len(up) != 1:
        raise CannotChange(f"network: which of the interfaces ({', '.join(up) or 'none is up'})? --interface")
    return up[0]


def _tc(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["tc", *words], capture_output=True, text=True, timeout=20)


def triad(text: str) -> float | None:
    """Bytes/s of STREAM's triad, whose MB are 10^6 bytes; None where the result does not validate."""
    match = re.search(r"^Triad:\s+([\d.]+)", text, re.MULTILINE)
    return float(match[1]) * 1e6 if match and "Solution Validates" in text else None
