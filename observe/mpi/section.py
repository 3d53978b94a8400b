"""Inside MPI: where observed programs spend their time, rank by rank, and who waits for whom."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from statistics import fmean
from typing import Final, NamedTuple

from npc.figures.grid import Grid
from npc.observe.mpi.figure import (
    MOST_NARROW,
    MOST_ROWS,
    RankRow,
    calls_grid,
    drawn_variables,
    kind_of,
    peers_grid,
    rows_of,
    snapshots_grid,
)
from npc.observe.mpi.launches import profile_in
from npc.observe.mpi.records import CollectiveAlgorithm, PairTraffic, Profile, Rank
from npc.observe.mpi.summary import summary
from npc.observe.mpi.wait_records import CollectiveWait, MessageWait, Waits
from npc.page.blocks import (
    BELOW,
    LONG,
    Block,
    Cell,
    Column,
    Figure,
    Table,
    Text,
    count,
    grid_figure,
    quantity,
)
from npc.records.units import format_quantity, format_size
from npc.report.observed import Observed
from npc.report.programs import programs
from npc.report.runs import Report, Run
from npc.report.sections import present

TITLE = "Inside MPI"
PLACE = 80
#: Most counters of a program that are drawn.
_MOST_COUNTERS: Final = 4
#: Most rows of the table of calls; most ranks that have a row of their own.
_MOST_CALLS: Final = 12
_MOST_RANKS: Final = 512
_PLURAL: Final = {"rank": "ranks", "node": "nodes", "group of nodes": "groups of nodes"}
_CALLS = (
    "rows are {kind}, columns calls, those that took longest first; darker is longer. A row that is pale in "
    "the first column computes longer than the others, which wait for it in the calls where they are dark."
)
_PEERS = "rows send, columns receive, darker is more, on a logarithmic scale. Grey sent nothing."
_COUNTERS = "rows are {kind}, time goes to the right; darker is more. Grey is not known."


def build(report: Report) -> Iterator[Block]:
    """Program by program the newest run."""
    blocks = programs(report, profile_in, _program)
    none = "no program was run by npc observe with its MPI looked into (npc observe -- mpirun …)"
    return present(blocks, none)


def _program(report: Report, _run: Run, observed: Observed, profile: Profile) -> Iterator[Block]:
    name = observed.name
    yield observed.heading((*summary(profile), *_notes(profile)))
    rows = rows_of(profile, report.topology, most=MOST_NARROW)
    calls = calls_grid(profile, rows, report.ident(), f"Seconds inside MPI: {name}")
    reading = _CALLS.format(kind=_PLURAL[kind_of(rows)])
    yield _figure(calls, reading, _ranks(profile, rows, observed))
    yield from _waits(profile, observed)
    yield from _algorithms(profile)
    peers = peers_grid(profile, report.topology, report.ident(), f"Bytes sent: {name}")
    if peers:
        yield _figure(peers, _PEERS, _pairs(profile))
    yield from _counters(report, profile, name)


def _figure(grid: Grid, reading: str, table: Table) -> Figure:
    described = replace(grid, text=f"{grid.text} {BELOW}")
    return grid_figure(described, grid.text, reading, table)


def _notes(profile: Profile) -> Iterator[str]:
    """What the summary does not say: ranks without an end, and what ranks noted."""
    if profile.finalized < profile.profiles:
        yield f"{profile.profiles - profile.finalized} of {profile.profiles} ranks never came to MPI_Finalize"
    yield from profile.notes[:3]


def _ranks(profile: Profile, rows: Sequence[RankRow], observed: Observed) -> Table:
    """Where the time of each rank went, or of each row where there are too many ranks."""
    if len(profile.ranks) <= _MOST_RANKS:
        rows = [RankRow(f"rank {rank.rank}", rank.host, (rank,)) for rank in profile.ranks]
    by_rank = profile.waits.by_rank if profile.waits else {}

    def mean(name: str, seconds: Callable[[Rank], float]) -> Column[RankRow]:
        return Column(
            name,
            lambda row: quantity(sum(map(seconds, row.ranks)) / len(row.ranks), "s", (observed.ident,)),
        )

    columns: list[Column[RankRow]] = [
        Column(kind_of(rows), lambda row: row.name),
        Column("on", lambda row: row.place),
        Column("ranks", lambda row: count(len(row.ranks))),
        mean("time", lambda rank: rank.seconds),
        mean("outside MPI", lambda rank: rank.computing),
        mean("inside MPI", lambda rank: rank.mpi),
        mean("waited", lambda rank: by_rank.get(rank.rank, (0.0, 0.0))[0]),
        mean("others waited for it", lambda rank: by_rank.get(rank.rank, (0.0, 0.0))[1]),
    ]
    return Table.of("Numbers: means of a rank", rows, columns, folded=True, filtered=len(rows) > LONG)


class _WaitsInCall(NamedTuple):
    """What ranks waited in one kind of call."""

    #: Its name and its ranks, or who was late.
    call: str
    #: Calls, or messages.
    number: int
    #: Spent in it by all ranks (s).
    seconds: float
    #: Part of `seconds` spent waiting, or why it is not known.
    waited: float | str
    #: Whom they waited for, in words; empty where nothing tells.
    late: str


def _waits(profile: Profile, observed: Observed) -> Iterator[Block]:
    """Collectives and messages in which ranks waited, and the ranks that were waited for."""
    if profile.waits is None:
        return
    records = (observed.ident,)
    collectives, messages = profile.waits.collectives, profile.waits.messages
    calls = [
        *(_in_collective(profile.hosts, wait) for wait in collectives[:_MOST_CALLS]),
        *(_in_messages(profile.waits, wait) for wait in messages[:_MOST_CALLS]),
    ]
    columns: list[Column[_WaitsInCall]] = [
        Column("call", lambda waits: waits.call),
        Column("how many", lambda waits: count(waits.number)),
        Column("seconds of all ranks", lambda waits: quantity(waits.seconds, "s", records)),
        Column("of these waiting", lambda waits: _waited(waits.waited, records)),
        Column("for whom", lambda waits: waits.late),
    ]
    if calls:
        yield Table.of("Who waits for whom", calls, columns)
    if profile.waits.notes:
        yield Text(f"{'; '.join(profile.waits.notes)}.", "note")


def _in_collective(hosts: Mapping[int, str], wait: CollectiveWait) -> _WaitsInCall:
    late = "; ".join(
        f"rank {rank.rank} ({hosts.get(rank.rank, '?')}) in {rank.times:.4g}, "
        f"{format_quantity(rank.seconds, 's', 3)}"
        for rank in wait.late[:3]
    )
    waited = wait.reason if wait.waited is None else wait.waited
    return _WaitsInCall(f"{wait.call} of {wait.ranks} ranks", wait.calls, wait.seconds, waited, late)


def _in_messages(waits: Waits, wait: MessageWait) -> _WaitsInCall:
    pair = next((pair for pair in waits.pairs if (pair.kind, pair.call) == (wait.kind, wait.call)), None)
    late = f"rank {pair.awaited}: rank {pair.waiting} {format_quantity(pair.seconds, 's', 3)}" if pair else ""
    return _WaitsInCall(f"{wait.call}: {wait.kind}", wait.messages, wait.seconds, wait.waited, late)


def _waited(waited: float | str, records: Sequence[str]) -> Cell:
    return Cell(waited, kind="faint") if isinstance(waited, str) else quantity(waited, "s", records)


def _algorithms(profile: Profile) -> Iterator[Block]:
    """The algorithms of the collectives, as far as their messages show them."""
    algorithms = profile.algorithms
    if algorithms is None:
        return
    unknown = "; ".join(f"{operation}: {reason}" for operation, reason in algorithms.reasons.items())
    columns: list[Column[CollectiveAlgorithm]] = [
        Column("collective", _collective),
        Column("calls", lambda calls: count(calls.calls)),
        Column("sizes", lambda calls: Cell(_sizes(calls.first, calls.last), sort=calls.first or 0)),
        Column("algorithm", lambda calls: calls.name),
    ]
    if algorithms.ran:
        title = "Algorithms of collectives, by their messages"
        yield Table.of(title, algorithms.ran, columns, note=unknown)
    elif unknown:
        yield Text(f"Algorithms of collectives: {unknown}.", "note")


def _collective(calls: CollectiveAlgorithm) -> str:
    root = "" if calls.root is None else f" from {calls.root}"
    return f"{calls.operation} of {calls.ranks} ranks{root}"


def _sizes(first: int | None, last: int | None) -> str:
    if first is None or last is None:
        return ""
    return f"{format_size(first)} … {format_size(last + 1)}" if last else "none"


def _pairs(profile: Profile) -> Table:
    """The pairs with the most bytes."""
    peers = profile.peers
    ordered = sorted(peers.rows, key=lambda pair: -pair.bytes)[:MOST_ROWS]
    names = dict(enumerate(peers.names))
    hosts = profile.hosts

    def end(number: int) -> str:
        return names.get(number) or f"rank {number} ({hosts.get(number, 'unknown')})"

    columns: list[Column[PairTraffic]] = [
        Column("from", lambda pair: end(pair.source)),
        Column("to", lambda pair: end(pair.target)),
        Column("bytes", lambda pair: quantity(pair.bytes, "B")),
        Column("messages", lambda pair: count(pair.messages)),
    ]
    left = len(peers.rows) + peers.left_out[0] - len(ordered)
    note = f"{left} more pairs sent less." if left else ""
    return Table.of("Numbers: the pairs with the most bytes", ordered, columns, folded=True, note=note)


def _counters(report: Report, profile: Profile, name: str) -> Iterator[Block]:
    """The counters of the MPI library over time."""
    variables = drawn_variables(profile)
    for variable in variables[:_MOST_COUNTERS]:
        grid = snapshots_grid(profile, variable, report.ident(), f"{variable} over time: {name}")
        kind = profile.snapshots.of if profile.snapshots else ""
        yield _figure(grid, _COUNTERS.format(kind=kind), _courses(grid))
    others = variables[_MOST_COUNTERS:]
    if others:
        yield Text(
            f"{len(others)} more counters have snapshots in the observation ({', '.join(others[:8])}"
            f"{' …' if len(others) > 8 else ''}).",
            "note",
        )


class _Course(NamedTuple):
    """How a counter went in one row of its picture. Amounts are in the picture's unit."""

    #: The row's.
    name: str
    #: Over all moments.
    mean: float
    #: At any moment.
    most: float
    #: When it was most, as the column's heading has it (s).
    second: str


def _courses(grid: Grid) -> Table:
    """Of each row, the mean over time and the moment with most."""
    courses = []
    for place, name in enumerate(grid.rows):
        cells = [cell for cell in grid.cells if cell.row == place]
        if cells:
            most = max(cells, key=lambda cell: cell.value or 0.0)
            mean = fmean(cell.value or 0.0 for cell in cells)
            courses.append(_Course(name, mean, most.value or 0.0, grid.columns[most.column]))
    columns: list[Column[_Course]] = [
        Column("of", lambda course: course.name),
        Column("mean of a moment", lambda course: quantity(course.mean, grid.scale.unit)),
        Column("most", lambda course: quantity(course.most, grid.scale.unit)),
        Column("at second", lambda course: course.second),
    ]
    return Table.of("Numbers", courses, columns, folded=True)
