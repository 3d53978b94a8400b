"""What a bpftrace program counted, by rank and with names, as this node knows them.

Only the standard library.
"""

from __future__ import annotations

import platform
import re
from collections.abc import Callable, Iterator
from configparser import ConfigParser
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

from npc.machine.mounts import mounts
from npc.observe.probes.bpftrace import Maps
from npc.observe.probes.catalogue import FUNCTION, USDT, RequestedProbe
from npc.observe.probes.records import ProbeRow

#: What the second number of a key says: programs/scheduler.bt, faults.bt, io.bt.
_SCHEDULER: Final = ("involuntary switches", "wake-ups", "voluntary switches")
_FAULTS: Final = ("minor faults", "major faults")
_IO: Final = {0: "read", 1: "write", 2: "flush", 10: "read", 11: "write", 12: "flush", 13: "discard"}
_BLOCK: Final = 10
_PIPES, _SOCKETS = 2**40 + 1, 2**40 + 2
#: dev_t as the kernel has it inside, and as tracepoints tell it (MINORBITS in include/linux/kdev_t.h).
_MINOR_BITS: Final = 20
#: What the kernel itself calls where a function is watched.
_OF_PROBES: Final = ("uretprobe", "uprobe")


class SystemCalls(NamedTuple):
    """System calls by number, and the numbers of those that io.bt counts."""

    #: Number → name of each call; empty where nobody has written them down for this kind of machine.
    names: dict[int, str]
    #: Numbers of the calls that read from a file; empty where `names` is.
    reads: tuple[int, ...]
    #: Numbers of the calls that write to a file; empty where `names` is.
    writes: tuple[int, ...]
    #: Numbers of the calls that bring a file to its disk; empty where `names` is.
    flushes: tuple[int, ...]


@cache
def calls() -> SystemCalls:
    """Those of this machine; without names where nobody has written them down."""
    tables = ConfigParser()
    tables.read(Path(__file__).with_name("syscalls.ini"), encoding="utf-8")
    machine = platform.machine()
    generic = machine in ("aarch64", "riscv64", "loongarch64")
    table = machine if tables.has_section(machine) else "generic" if generic else ""
    pairs = (pair.split(":") for pair in tables[table]["calls"].split()) if table else ()
    names = {int(number): name for number, name in pairs}

    def of(pattern: str) -> tuple[int, ...]:
        return tuple(number for number, name in names.items() if re.fullmatch(pattern, name))

    return SystemCalls(names, of(r"p?read(v2?|64)?"), of(r"p?write(v2?|64)?"), of("fsync|fdatasync"))


def rows_of(wanted: RequestedProbe, maps: Maps) -> tuple[ProbeRow, ...]:
    """All rows, by rank and the most time or events first."""
    if wanted.kind == "tcp":
        peers = maps.get("@peers", {})
        rows = [ProbeRow(-1, _address(str(key[0])), value) for key, value in peers.items()]
    else:
        untimed = 0 if wanted.kind == FUNCTION else None
        rows = [row for row in _by_rank(maps, _name(wanted), untimed) if row.name not in _OF_PROBES]
    return tuple(sorted(rows, key=lambda row: (row.rank, -(row.seconds or 0), -row.events, row.name)))


def _by_rank(maps: Maps, name: Callable[..., str], untimed: int | None) -> Iterator[ProbeRow]:
    """untimed: what `timed` is of events without durations."""
    events, durations = maps.get("@events", {}), maps.get("@durations", {})
    seconds, size = maps.get("@seconds", {}), maps.get("@bytes", {})
    for key in dict.fromkeys((*events, *durations)):
        classes: dict[int, int] = durations.get(key, {})
        timed = sum(classes.values()) if key in durations else untimed
        rank, *what = key
        yield ProbeRow(
            rank=int(rank) - 1,
            name=name(*what),
            # a snapshot prints one map after the other, and the program goes on meanwhile
            events=max(events.get(key, 0), timed or 0),
            timed=timed,
            seconds=seconds.get(key, 0) * 1e-9 if timed is not None else None,
            bytes=size.get(key, 0) if "@bytes" in maps else None,
            durations=dict(sorted(classes.items())),
        )


def _name(wanted: RequestedProbe) -> Callable[..., str]:
    if wanted.kind in (FUNCTION, USDT):
        return lambda _what: wanted.name
    systems = _file_systems() if wanted.kind == "io" else {}
    names: dict[str, Callable[..., str]] = {
        "syscalls": lambda number: calls().names.get(number, f"system call {number}"),
        "scheduler": lambda what: _SCHEDULER[what],
        "faults": lambda what: _FAULTS[what],
        "softirq": lambda _what: "NET_RX",
        "io": lambda what, where: f"{_IO[what]} {_place(what, where, systems)}",
    }
    return names[wanted.kind]


def _place(what: int, where: int, systems: dict[str, str]) -> str:
    """A file system with where it is mounted, or a block device."""
    if where in (_PIPES, _SOCKETS):
        return "pipes" if where == _PIPES else "sockets"
    device = f"{where >> _MINOR_BITS}:{where & ((1 << _MINOR_BITS) - 1)}"
    if what < _BLOCK:
        return systems.get(device, f"file system {device}")
    try:
        return Path(f"/sys/dev/block/{device}").readlink().name
    except OSError:
        return f"block device {device}"


def _file_systems() -> dict[str, str]:
    """``MAJOR:MINOR`` → type and first place where it is mounted, as this process sees them."""
    systems: dict[str, str] = {}
    for mount in mounts():
        known = systems.get(mount.number)
        if known is None or len(mount.place) < len(known.split(" ", 1)[1]):
            systems[mount.number] = f"{mount.kind} {mount.place}"
    return systems


def _address(text: str) -> str:
    return text.removeprefix("::ffff:")
