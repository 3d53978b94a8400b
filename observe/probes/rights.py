"""bpftrace on this machine: its version, and whether it may attach probes.

Only the standard library, since ranks ask it.
"""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path
from typing import Final

from npc.machine.command import MISSING, last_words, run
from npc.processes import capabilities

#: From here on, `pid` and `tid` are those of bpftrace's own PID namespace, while tracepoints tell those of
#: the kernel's; these stand in its structures, too.
NAMESPACES: Final = (0, 22)
#: And from here on it asks for capabilities, where it insisted on root (bpftrace's pull request 4773).
_CAPABILITIES: Final = (0, 25)
_TRACEFS: Final = (Path("/sys/kernel/tracing"), Path("/sys/kernel/debug/tracing"))
_TYPES: Final = Path("/sys/kernel/btf/vmlinux")
_PATIENCE_S: Final = 10.0


class NoProbes(Exception):
    """Probes cannot be had here; the message says why and what would allow them."""


def version() -> tuple[int, ...]:
    """bpftrace's. Raises `NoProbes` where there is none, or no right to use it."""
    ended = run(["bpftrace", "--version"], timeout_s=_PATIENCE_S)
    if ended.returncode == MISSING:
        raise NoProbes("no bpftrace: apt-get install bpftrace (dnf install bpftrace)")
    number = re.search(r"v?(\d+)\.(\d+)", ended.stdout)
    if number is None:
        raise NoProbes(f"bpftrace says no version: {last_words(ended)}")
    return tuple(map(int, number.groups()))


def refusal(types: bool = False) -> str:
    """Why no probe can be attached here, with the line that would allow it; empty where one can. types: it
    reads the kernel's structures. It looks and attaches nothing."""
    try:
        release = version()
    except NoProbes as reason:
        return str(reason)
    if os.geteuid() and release < _CAPABILITIES:
        return "no right to attach probes: bpftrace before 0.25 runs as root alone (sudo)"
    if os.geteuid() and not _has_capabilities():
        allow = "setcap cap_bpf,cap_perfmon,cap_dac_read_search+ep $(command -v bpftrace)"
        return f"no right to attach probes: as root, or {allow}"
    if not any((path / "events").is_dir() for path in _TRACEFS):
        return "no tracefs: mount -t tracefs tracefs /sys/kernel/tracing"
    if types and not _TYPES.exists():
        return f"this kernel has no type information ({_TYPES}): build it with CONFIG_DEBUG_INFO_BTF"
    return ""


def _has_capabilities() -> bool:
    """Whether this process, or bpftrace by its file's capabilities, may use BPF and perf events."""
    wanted = 1 << 38 | 1 << 39  # CAP_PERFMON, CAP_BPF: include/uapi/linux/capability.h
    if capabilities() & wanted == wanted:
        return True
    try:
        return "security.capability" in os.listxattr(shutil.which("bpftrace") or "")
    except OSError:
        return False
