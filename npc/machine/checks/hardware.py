"""Cards and links: RDMA, PCI Express, Ethernet, GPUs, and what counts their work."""

from __future__ import annotations

import os
from collections.abc import Iterator

from npc.machine.counters import is_full
from npc.machine.energy import RIGHT
from npc.machine.interfaces import with_lanes
from npc.machine.pcie import narrow
from npc.machine.preflight import ENOUGH_MEMLOCK, Environment, MpiTrial, check
from npc.records.units import format_size


@check(
    "warning",
    "RDMA registers its buffers as locked memory; without it verbs fail or MPI falls back to TCP",
    "memlock unlimited in /etc/security/limits.d, and LimitMEMLOCK=infinity for slurmd",
)
def memlock(environment: Environment, trial: MpiTrial) -> Iterator[str]:
    """Too little memory may be locked for RDMA."""
    limits = environment["limits"]
    devices = sorted({port["device"] for port in environment["rdma"]})
    if devices and not limits["memlock_unlimited"] and limits["memlock_bytes"] < ENOUGH_MEMLOCK:
        yield f"ulimit -l is {format_size(limits['memlock_bytes'])} ({', '.join(devices)})"


@check(
    "note",
    "tools that take the first device may take one of these",
    "name the device (-d for perftest, UCX_NET_DEVICES for MPI), or look at the cable and subnet manager",
)
def rdma_down(environment: Environment, trial: MpiTrial) -> Iterator[str]:
    """RDMA ports whose link is not up."""
    down = [port for port in environment["rdma"] if port["state"] != "ACTIVE"]
    if down:
        names = ", ".join(f"{port['device']}/{port['port']} {port['state']}" for port in down)
        yield f"RDMA ports not active: {names}"


@check(
    "warning",
    "it carries that part of what it could: a bad contact, a worn or wrong cable, a slot that is too small",
    "reseat card and cable, or another slot; lspci -vv shows LnkCap and LnkSta",
)
def narrow_pcie(environment: Environment, trial: MpiTrial) -> Iterator[str]:
    """A card on fewer or slower PCI Express lanes than it has."""
    yield from narrow(environment["pcie"])


@check(
    "warning",
    "what it computes takes time and memory from what is measured",
    "wait for it or end it; nvidia-smi shows its processes",
)
def busy_gpu(environment: Environment, trial: MpiTrial) -> Iterator[str]:
    """Somebody else's process on a GPU."""
    for gpu in environment["gpus"]:
        if names := ", ".join(f"{process['name']} ({process['pid']})" for process in gpu["processes"]):
            yield f"GPU {gpu['index']} is used by {names}"
        elif gpu["utilisation"]:
            yield f"GPU {gpu['index']} is {gpu['utilisation']:.0%} busy, and does not tell with whom"


@check(
    "warning",
    "it computes slower than others of its kind",
    "power cap: nvidia-smi -q -d POWER; application clocks: nvidia-smi -rac; heat: look at its fans and air",
)
def slow_gpu(environment: Environment, trial: MpiTrial) -> Iterator[str]:
    """A GPU with a lower power limit than it left the factory with, or with clocks that are held down."""
    for gpu in environment["gpus"]:
        limit, default = gpu["power_limit_w"], gpu["default_power_limit_w"]
        if limit and default and limit < default:
            yield f"GPU {gpu['index']} may take {limit:g} of {default:g} W"
        if gpu["held_down_by"]:
            yield f"the clock of GPU {gpu['index']} is held down by: {', '.join(gpu['held_down_by'])}"


@check(
    "note",
    "the driver is loaded anew for every program, which takes seconds and forgets clocks that were set",
    "nvidia-smi -pm 1, or the service nvidia-persistenced",
)
def gpu_persistence(environment: Environment, trial: MpiTrial) -> Iterator[str]:
    """A GPU without persistence mode."""
    off = [str(gpu["index"]) for gpu in environment["gpus"] if gpu["persistence"] is False]
    if off:
        yield f"persistence mode is off: GPU {', '.join(off)}"


@check(
    "warning",
    "its results cannot be trusted",
    "take the node out and have the GPU tested; nvidia-smi -q -d ECC shows where the errors are",
)
def gpu_errors(environment: Environment, trial: MpiTrial) -> Iterator[str]:
    """Uncorrected memory errors since the driver was loaded."""
    for gpu in environment["gpus"]:
        if gpu["uncorrected_errors"]:
            yield f"GPU {gpu['index']} has {gpu['uncorrected_errors']} uncorrected memory errors"


@check(
    "note",
    "what is measured over it has this limit, not the card's",
    "look at cable, transceiver and the switch's port: ethtool DEV",
)
def slow_interface(environment: Environment, trial: MpiTrial) -> Iterator[str]:
    """An Ethernet link below the highest rate that both card and transceiver support."""
    for interface in environment["interfaces"]:
        speed, most = interface["speed_bit_s"], interface["supported_bit_s"]
        if interface["state"] == "up" and speed and most and speed < most:
            yield f"{interface['name']} runs at {speed / 1e9:g} of {most / 1e9:g} Gbit/s"


@check(
    "warning",
    "three of its four lanes are dead: a quarter of its bandwidth",
    "reseat or change the cable; iblinkinfo shows what both ends could do",
    name="rdma_lanes",
)
def one_lane(environment: Environment, trial: MpiTrial) -> Iterator[str]:
    """An InfiniBand link of one lane."""
    yield from with_lanes(environment["rdma"], 1)


@check(
    "note",
    "right for HDR100 and NDR200 by a splitter cable; else half of what the port could carry",
    "iblinkinfo shows what both ends could do",
    name="rdma_lanes",
)
def two_lanes(environment: Environment, trial: MpiTrial) -> Iterator[str]:
    """An InfiniBand link of two lanes."""
    yield from with_lanes(environment["rdma"], 2)


@check(
    "note",
    "they stay at their largest value: errors that come now are not seen, not by npc either",
    "perfquery -R DEV PORT sets them to 0 (root)",
)
def full_counters(environment: Environment, trial: MpiTrial) -> Iterator[str]:
    """Counters of a port that have reached the end of their field."""
    full = [name for name, value in environment["counters"].items() if is_full(name, value)]
    if full:
        yield f"{len(full)} counter(s) are full: {', '.join(full[:4])}"


def _shows_counters(environment: Environment) -> bool | None:
    """Whether the CPU has hardware counters; None where LIKWID would not look for them."""
    if environment["cpu"]["architecture"] != "x86_64" or environment["tools"].get("likwid-perfctr") is None:
        return None
    # Intel announces its counters as arch_perfmon, AMD as perfctr_core (arch/x86/include/asm/cpufeatures.h)
    return bool({"arch_perfmon", "perfctr_core"} & set(environment["cpu"]["flags"] or []))


@check(
    "note",
    "likwid-perfctr cannot count FLOP or memory traffic; likwid-bench does not need them",
    "count on the bare machine, or let the hypervisor pass the counters on (virtual PMU)",
)
def no_counters(environment: Environment, trial: MpiTrial) -> Iterator[str]:
    """A CPU without hardware counters."""
    if _shows_counters(environment) is False:
        yield "the CPU shows no performance counters, as in most virtual machines"


@check(
    "note",
    "likwid-perfctr cannot count FLOP or memory traffic",
    "LIKWID's access daemon, or sysctl kernel.perf_event_paranoid=0 (root)",
    name="no_counters",
)
def forbidden_counters(environment: Environment, trial: MpiTrial) -> Iterator[str]:
    """Hardware counters out of reach."""
    paranoid = environment["kernel"]["perf_event_paranoid"]
    readable = os.access("/dev/cpu/0/msr", os.R_OK) or (paranoid is not None and paranoid <= 0)
    if _shows_counters(environment) and os.geteuid() != 0 and not readable:
        yield f"performance counters are forbidden (perf_event_paranoid {paranoid})"


@check(
    "note",
    "without it there are no joules and watts of a launch, and no ceilings a watt",
    RIGHT,
)
def energy(environment: Environment, trial: MpiTrial) -> Iterator[str]:
    """Energy counters that this user may not read."""
    from npc.machine.energy import refusal

    if reason := refusal():
        yield f"no energy: {reason.removeprefix('unavailable: ')}"
