"""Inside MPI: where observed programs spend their time, rank by rank, and who waits for whom."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from statistics import fmean
from typing import Final

from npc.figures.chart import Grid
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
from npc.observe.mpi.summary import summary
from npc.page.blocks import (
    Block,
    Cell,
    Figure,
    Table,
    Text,
    amounts_figure,
    count,
    quantity,
)
from npc.records.mpi_profile import Profile
from npc.records.units import format_quantity, format_size
from npc.report.observed import Observed
from npc.report.programs import programs
from npc.report.runs import Report, Run
from npc.report.sections import present

TITLE = "Inside MPI"
PLACE = 80
#: Counters of a program that are drawn.
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
    blocks = programs(report, lambda launch: launch.profile if launch.profile.ranks else None, _program)
    none = "no program was run by npc observe with its MPI looked into (npc observe -- mpirun …)"
    return present(blocks, none)


def _program(report: Report, _run: Run, observed: Observed, profile: Profile) -> Iterator[Block]:
    name = observed.name
    yield observed.heading((*summary(profile), *_notes(profile)))
    rows = rows_of(profile, report.topology, most=MOST_NARROW)
    calls = calls_grid(profile, rows, report.ident(), f"Seconds inside MPI: {name}")
    reading = _CALLS.format(kind=_PLURAL[kind_of(rows)])
    yield _figure(calls, reading, "seconds a rank", _ranks(profile, rows, observed))
    yield from _waits(profile, observed)
    yield from _algorithms(profile)
    peers = peers_grid(profile, report.topology, report.ident(), f"Bytes sent: {name}")
    if peers:
        yield _figure(peers, _PEERS, "bytes", _pairs(profile))
    yield from _counters(report, profile, name)


def _figure(grid: Grid, reading: str, scale: str, table: Table) -> Figure:
    told = replace(grid, text=f"{grid.text} The table below has the numbers.")
    return amounts_figure(told, grid.text, reading, scale, table)


def _notes(profile: Profile) -> Iterator[str]:
    """What the summary does not say: ranks without a profile or an end, and what they noted."""
    if profile.finalized < profile.profiles:
        yield f"{profile.profiles - profile.finalized} of {profile.profiles} ranks never came to MPI_Finalize"
    yield from profile.notes[:3]


def _ranks(profile: Profile, rows: Sequence[RankRow], observed: Observed) -> Table:
    """Where the time of each rank went, or of each row where there are too many ranks."""
    if len(profile.ranks) <= _MOST_RANKS:
        rows = [RankRow(f"rank {each.rank}", each.host, (each,)) for each in profile.ranks]
    by_rank = profile.waits.by_rank if profile.waits else {}
    records = (observed.ident,)
    found = []
    for row in rows:
        number = len(row.ranks)
        waits = [by_rank.get(each.rank, (0.0, 0.0)) for each in row.ranks]
        seconds = (
            sum(each.seconds for each in row.ranks),
            sum(each.computing for each in row.ranks),
            sum(each.mpi for each in row.ranks),
            sum(waited for waited, _ in waits),
            sum(awaited for _, awaited in waits),
        )
        cells = [quantity(each / number, "s", records) for each in seconds]
        found.append((Cell(row.name), Cell(row.place), count(number), *cells))
    names = (
        kind_of(rows),
        "on",
        "ranks",
        "time",
        "outside MPI",
        "inside MPI",
        "waited",
        "others waited for it",
    )
    return Table("Numbers: means of a rank", names, tuple(found), folded=True, filtered=len(found) > 16)


def _waits(profile: Profile, observed: Observed) -> Iterator[Block]:
    """Collectives and messages in which ranks waited, and the ranks that were waited for."""
    if profile.waits is None:
        return
    records = (observed.ident,)
    rows = []
    for each in profile.waits.collectives[:_MOST_CALLS]:
        late = "; ".join(
            f"rank {one.rank} ({profile.hosts.get(one.rank, '?')}) in {one.times:.4g}, "
            f"{format_quantity(one.seconds, 's', 3)}"
            for one in each.late[:3]
        )
        waited = (
            Cell(each.reason, kind="faint") if each.waited is None else quantity(each.waited, "s", records)
        )
        name = f"{each.call} of {each.ranks} ranks"
        rows.append((Cell(name), count(each.calls), quantity(each.seconds, "s", records), waited, Cell(late)))
    for wait in profile.waits.messages[:_MOST_CALLS]:
        pair = next((p for p in profile.waits.pairs if (p.kind, p.call) == (wait.kind, wait.call)), None)
        most = (
            f"rank {pair.awaited}: rank {pair.waiting} {format_quantity(pair.seconds, 's', 3)}"
            if pair
            else ""
        )
        rows.append((
            Cell(f"{wait.call}: {wait.kind}"), count(wait.messages), quantity(wait.seconds, "s", records),
            quantity(wait.waited, "s", records), Cell(most),
        ))  # fmt: skip
    if rows:
        names = ("call", "how many", "seconds of all ranks", "of these waiting", "for whom")
        yield Table("Who waits for whom", names, tuple(rows))
    if profile.waits.notes:
        yield Text(f"{'; '.join(profile.waits.notes)}.", "note")


def _algorithms(profile: Profile) -> Iterator[Block]:
    """What the collectives ran by, as far as their messages tell."""
    found = profile.algorithms
    if found is None:
        return
    rows = tuple(
        (
            Cell(
                f"{each.operation} of {each.ranks} ranks"
                + ("" if each.root is None else f" from {each.root}")
            ),
            count(each.calls),
            Cell(_sizes(each.first, each.last), sort=each.first or 0),
            Cell(each.name),
        )
        for each in found.ran
    )
    unknown = [f"{operation}: {reason}" for operation, reason in found.reasons.items()]
    if rows:
        names = ("collective", "calls", "sizes", "algorithm")
        yield Table("Algorithms of collectives, by their messages", names, rows, note="; ".join(unknown))
    elif unknown:
        yield Text(f"Algorithms of collectives: {'; '.join(unknown)}.", "note")


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

    rows = tuple(
        (Cell(end(pair.source)), Cell(end(pair.target)), quantity(pair.bytes, "B"), count(pair.messages))
        for pair in ordered
    )
    left = len(peers.rows) + peers.left_out[0] - len(rows)
    note = f"{left} more pairs sent less." if left else ""
    names_ = ("from", "to", "bytes", "messages")
    return Table("Numbers: the pairs with the most bytes", names_, rows, folded=True, note=note)


def _counters(report: Report, profile: Profile, name: str) -> Iterator[Block]:
    """The counters of the MPI library over time."""
    found = drawn_variables(profile)
    for variable in found[:_MOST_COUNTERS]:
        grid = snapshots_grid(profile, variable, report.ident(), f"{variable} over time: {name}")
        kind = profile.snapshots.of if profile.snapshots else ""
        unit = next((each.unit for each in profile.variables if each.name == variable), "") or "count"
        yield _figure(grid, _COUNTERS.format(kind=kind), unit, _courses(grid))
    others = found[_MOST_COUNTERS:]
    if others:
        yield Text(
            f"{len(others)} more counters have snapshots in the observation ({', '.join(others[:8])}"
            f"{' …' if len(others) > 8 else ''}).",
            "note",
        )


def _courses(grid: Grid) -> Table:
    """Of each row the mean over time, and when it was most."""
    rows = []
    for place, name in enumerate(grid.rows):
        cells = [cell for cell in grid.cells if cell.row == place]
        if cells:
            most = max(cells, key=lambda cell: cell.amount or 0.0)
            mean = fmean(cell.amount or 0.0 for cell in cells)
            amounts = (quantity(value, grid.scale.unit) for value in (mean, most.amount or 0.0))
            rows.append((Cell(name), *amounts, Cell(grid.columns[most.column])))
    return Table("Numbers", ("of", "mean of a moment", "most", "at second"), tuple(rows), folded=True)
