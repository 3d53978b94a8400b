"""What a hotspot waits for, by the frames of its stacks and by hardware counters where there are any.

Frames of MPI (its functions and libraries) are looked for first, since MPI reads and writes sockets and
files, too; then system calls of files. All other time is computing or waiting for memory, which only counters
can tell apart. This module uses the standard library alone.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import PurePath
from typing import TYPE_CHECKING, Final, Literal

from npc.machine.libraries import MPI
from npc.observe.hotspots.stacks import KERNEL

if TYPE_CHECKING:
    from npc.observe.hotspots.records import Bound

CYCLES: Final = "cycles"
INSTRUCTIONS: Final = "instructions"
LLC_MISSES: Final = "LLC-load-misses"
EVENTS: Final = (CYCLES, INSTRUCTIONS, LLC_MISSES)

#: A function waits for what more than this share of its samples have a frame of.
_MOST: Final = 0.5
#: A load from memory takes at least this long on servers since 2017 (80 to 140 ns to the own socket's
#: memory as `lmbench lat_mem_rd` and Intel's MLC measure it). A lower value claims less.
_MEMORY_LATENCY_S: Final = 80e-9
#: Instructions per cycle from which on a function computes: half of four slots per cycle then retire, so less
#: than half can be waiting (Yasin, A Top-Down Method for Performance Analysis and Counters Architecture,
#: ISPASS 2014, section III: Retiring).
_BUSY_IPC: Final = 2.0
#: With fewer samples nothing is decided: the relative error of a count by n samples is 1/√n.
_LEAST_SAMPLES: Final = 30

_MPI_FUNCTION: Final = re.compile(r"P?MPIX?_[A-Z]\w*")
_FILE_CALL: Final = re.compile(
    r"_*(GI_+|libc_)*(p?(read|write)v?(64)?2?|f(data)?sync|sync_file_range|open(at)?(64)?|close|l?seek(64)?"
    r"|f?truncate(64)?|copy_file_range|sendfile(64)?|getdents(64)?|unlink(at)?|rename(at2?)?|msync|io_submit"
    r"|io_getevents|io_uring_enter|f?stat(at|x)?(64)?)(_nocancel)?"
)
_FILE_SYSTEM: Final = re.compile(
    r"(__x64_sys_|__arm64_sys_|ksys_|vfs_|do_)(p?(read|write)v?(64)?2?|f(data)?sync|sync_file_range|open\w*"
    r"|truncate\w*|getdents(64)?|unlink\w*|rename\w*|statx?|fsync|io_submit|sendfile(64)?|copy_file_range)"
    r"|iomap_\w+|(ext4|xfs|btrfs|nfs|nfs4|ll|ceph|fuse|gpfs|beegfs|pvfs2|tmpfs|shmem|generic)_file_\w+"
)
_SOCKET: Final = re.compile(r"(sock|tcp|udp|inet6?|unix)_\w+|__sys_(send|recv)\w+")

Kind = Literal["mpi", "io", "network", ""]


def kind_of(stack: list[tuple[str, str]]) -> Kind:
    """Whether a stack of (function, module) is in MPI, in files, or in a socket without frames of MPI; empty
    otherwise."""
    network = files = False
    for function, module in stack:
        if module == KERNEL:
            network = network or _SOCKET.fullmatch(function) is not None
            files = files or _FILE_SYSTEM.fullmatch(function) is not None
        elif is_mpi(function, module):
            return "mpi"
        else:
            files = files or _FILE_CALL.fullmatch(function) is not None
    return "network" if network else "io" if files else ""


def is_mpi(function: str, module: str) -> bool:
    """Whether a frame is MPI's: its interface, its libraries, or libraries that it is built on."""
    return bool(_MPI_FUNCTION.fullmatch(function) or MPI.fullmatch(PurePath(module).name))


def bound_of(
    samples: int, kinds: Mapping[str, int], events: Mapping[str, int], rate: float, without: str
) -> tuple[Bound, str, dict[str, float]]:
    """What bounds a function, the evidence, and metrics of its counters.

    samples: its own, taken `rate` times a second; kinds: how many of them are in MPI, files, sockets; events:
    how often hardware events happened in it. without: why there are no events.

    Where stacks do not decide, counters do. *memory*: by Little's law at least one load from memory is under
    way all the time, that is, misses of the last-level cache × latency / time ≥ 1. (These misses do not
    include hardware prefetches, so few misses prove nothing.) *compute*: at least two instructions retire per
    cycle.
    """
    evidence: tuple[tuple[Kind, Bound, str], ...] = (
        ("mpi", "mpi", "MPI"),
        ("io", "io", "system calls of files"),
        ("network", "io", "sockets, and no MPI"),
    )
    for kind, bound, name in evidence:
        part = kinds.get(kind, 0) / max(samples, 1)
        if part > _MOST:
            return bound, f"{name} in {part:.0%} of its stacks", {}
    metrics = metrics_of(events, samples / rate)
    if not metrics:
        return "unknown", without or "no events were counted in it", {}
    text = ", ".join(f"{name.replace('_', ' ')} {value:.3g}" for name, value in metrics.items())
    if samples < _LEAST_SAMPLES:
        return "unknown", f"{text}: of {samples} samples, too few", metrics
    if metrics.get("loads_from_memory", 0.0) >= 1.0:
        return "memory", f"{text}: a load from memory is under way all the time", metrics
    if metrics.get("ipc", 0.0) >= _BUSY_IPC:
        return "compute", f"{text}: {_BUSY_IPC:g} instructions a cycle or more", metrics
    return "unknown", f"{text}: neither busy nor full of misses", metrics


def metrics_of(events: Mapping[str, int], seconds: float) -> dict[str, float]:
    """ipc; llc_misses_per_instruction; loads_from_memory: under way at a time, in the mean."""
    values: dict[str, float] = {}
    cycles, instructions, misses = (events.get(name) for name in EVENTS)
    if cycles and instructions:
        values["ipc"] = instructions / cycles
    if instructions and misses is not None:
        values["llc_misses_per_instruction"] = misses / instructions
    if misses is not None and seconds > 0:
        values["loads_from_memory"] = misses * _MEMORY_LATENCY_S / seconds
    return values
