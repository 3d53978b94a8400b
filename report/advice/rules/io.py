"""What storage takes of the time of programs that ran below `npc observe`."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from npc.records.record import Record
from npc.records.series import OBSERVED, WRITERS
from npc.records.units import format_quantity, format_size
from npc.report.advice.rule import Judgement, hint, rule
from npc.report.runs import Run
from npc.roofline.applications import DIRECTIONS, Direction, by_launch, program_of, stored
from npc.roofline.points import storage, stored_part

#: Storage that takes less of the time is not what to work on.
_WORTH: Final = 0.1
#: Bytes of a call on average, below which the calls and not the bytes are what costs: file systems and
#: disks reach their bandwidth at 1 MiB (Carns et al., ACM Transactions on Storage 7(3), 2011).
_SMALL: Final = 65536
#: Fewer bytes than this cost no time that matters.
_MUCH: Final = 10e6
#: Storage must have got so much of what the calls moved, or these were pipes, sockets, or the page cache.
_MOSTLY: Final = 0.5
#: System calls on names.
_NAMES: Final = frozenset(
    ("access", "creat", "faccessat", "faccessat2", "getdents64", "link", "lstat", "mkdir", "mkdirat",
     "newfstatat", "open", "openat", "readlink", "rename", "renameat", "renameat2", "rmdir", "stat", "statx",
     "unlink", "unlinkat", "utimensat")
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Program:
    """A launch whose I/O was counted."""

    #: What the program is called.
    name: str
    #: How long the whole program took, in s.
    seconds: float
    #: Direction → bytes from or to storage, of a node.
    stored: dict[Direction, float]
    #: Direction → bytes that calls moved and the number of calls, of a node.
    calls: dict[Direction, tuple[float, float]]
    #: Time in calls on names of files, in s: the mean of the ranks.
    names: float
    #: How many of its ranks wrote to storage.
    writers: int
    #: How many ranks `writers` was counted among; 0 where it was not counted.
    ranks: int
    #: Files of the records that this is from.
    raw: tuple[str, ...]

    def part(self, run: Run) -> float | None:
        """The least part of its time that storage takes."""
        return stored_part(self.stored, self.seconds, storage(run.roofline))


def _programs(run: Run) -> Iterator[_Program]:
    names: defaultdict[tuple[str, str], float] = defaultdict(float)
    for record in run.records:
        if _on_names(record):
            names[record.run, record.raw] += record.value or 0.0
    for launch in by_launch(run.records):
        seconds = [r for r in launch if (r.case, r.metric) == (OBSERVED, "time") and "part" not in r.params]
        moved = stored(launch)
        if moved is None or not seconds or not seconds[0].value:
            continue
        io = [r for r in launch if r.params.get("layer") == "io"]
        params_of_ranks = [r.params for r in io if {WRITERS, "ranks"} <= r.params.keys()]
        yield _Program(
            program_of(seconds[0]),
            seconds[0].value,
            moved,
            {way: (_sum(io, "traffic", way), _sum(io, "events", way)) for way in moved},
            names[seconds[0].run, seconds[0].raw],
            sum(int(params[WRITERS]) for params in params_of_ranks),
            sum(int(params["ranks"]) for params in params_of_ranks),
            tuple(sorted({r.raw for r in io})),
        )


def _sum(io: list[Record], metric: str, way: str) -> float:
    calls = [
        r for r in io if (r.metric, r.params.get("part"), r.params.get("direction")) == (metric, "calls", way)
    ]
    return math.fsum(r.value or 0.0 for r in calls)


def _on_names(record: Record) -> bool:
    """Whether it is the seconds that a rank was in calls on names, as the mean of a node's ranks."""
    params = record.params
    return (
        record.metric == "time"
        and params.get("part") == "syscalls"
        and params.get("statistic") == "mean"
        and params.get("kind") in _NAMES
    )


def _amount(program: _Program) -> str:
    read, written = (format_quantity(program.stored[way], "B", 3) for way in DIRECTIONS)
    return f"{program.name} read {read} from storage and wrote {written} to it in {program.seconds:.3g} s"


@rule("io_bound")
def io_bound(run: Run) -> Judgement:
    """Programs whose bytes of storage alone need a tenth of their time or more at the measured rates."""
    programs = list(_programs(run))
    if not programs:
        return "no program whose I/O was counted (npc observe)"
    if not run.roofline.of_kind("io"):
        return "no bandwidth of a file system (tag io)"
    hints = []
    for program in programs:
        part = program.part(run)
        if part is not None and _WORTH <= part < 1:
            evidence = f"{_amount(program)}: at the measured rates {100 * part:.2g} % of its time"
            hints.append(hint("io_bound", evidence, 1 / (1 - part), program.raw, application=program.name))
    return hints


@rule("io_cached")
def io_cached(run: Run) -> Judgement:
    """Programs that moved more than the measured file systems can: memory had it."""
    programs = list(_programs(run))
    if not programs or not run.roofline.of_kind("io"):
        return "no program whose I/O was counted (npc observe) beside a bandwidth of a file system (tag io)"
    return [
        hint(
            "io_cached",
            f"{_amount(program)}, {part:.3g} times what the measured file systems move in that time",
            None,
            program.raw,
            application=program.name,
        )
        for program in programs
        if sum(program.stored.values()) > _MUCH and (part := program.part(run) or 0.0) > 1
    ]


@rule("small_io")
def small_io(run: Run) -> Judgement:
    """Programs that reach storage in small blocks."""
    programs = list(_programs(run))
    if not programs:
        return "no program whose I/O was counted (npc observe)"
    hints = []
    for program in programs:
        for way, (moved, calls) in program.calls.items():
            reached = program.stored[way]
            if reached > _MUCH and reached > _MOSTLY * moved and moved < _SMALL * calls:
                size = format_size(moved / calls)
                evidence = f"{_amount(program)}: {calls:,.0f} calls {way} {size} each on average"
                hints.append(hint("small_io", evidence, None, program.raw, application=program.name))
    return hints


@rule("one_writer")
def one_writer(run: Run) -> Judgement:
    """Programs of which one rank alone writes."""
    programs = list(_programs(run))
    if not programs:
        return "no program whose I/O was counted (npc observe)"
    hints = []
    for program in programs:
        part = program.part(run)
        if (
            program.writers == 1 < program.ranks
            and program.stored["write"] > _MUCH
            and (part is None or part >= _WORTH)
        ):
            evidence = f"{_amount(program)}, by one of its {program.ranks} ranks"
            hints.append(hint("one_writer", evidence, None, program.raw, application=program.name))
    return hints


@rule("metadata")
def metadata(run: Run) -> Judgement:
    """Programs that spend a tenth of their time or more on names of files."""
    programs = [program for program in _programs(run) if program.names]
    if not programs:
        return "no program whose system calls were counted beside its I/O (npc observe --probe syscalls)"
    hints = []
    for program in programs:
        part = program.names / program.seconds
        if _WORTH <= part < 1:
            evidence = (
                f"{program.name}: its ranks are in calls on names of files for {100 * part:.2g} % of the run"
            )
            hints.append(hint("metadata", evidence, 1 / (1 - part), program.raw, application=program.name))
    return hints
