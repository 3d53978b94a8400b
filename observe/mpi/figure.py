"""Pictures of what went on inside a program's MPI: calls by rank, who sent to whom, counters over time.

Pictures are for two ranks and for thousands: a row is a rank; a node, where there are too many ranks; where
there are too many nodes, the nodes of a leaf switch, or neighbours where no topology is known.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import groupby, pairwise
from statistics import fmean
from typing import TYPE_CHECKING, Final, NamedTuple

from npc.figures.grid import Grid, GridCell
from npc.figures.scale import linear_scale, log_scale
from npc.machine.fabric import in_order, neighbours, places
from npc.observe.mpi.records import Profile, Rank
from npc.records.units import format_quantity

if TYPE_CHECKING:
    from npc.machine.fabric import Topology

#: Most rows of a picture; of one with few columns, so that a single slow node still has a row of its own.
MOST_ROWS: Final = 64
MOST_NARROW: Final = 256
#: Up to this number of rows → their height in pixels; the width of a column of calls in pixels.
_HEIGHTS: Final = {24: 26.0, 64: 14.0, MOST_NARROW: 6.0}
_WIDE: Final = 26.0
#: Columns of calls, and of moments, at most.
_MOST_CALLS: Final = 16
_MOST_MOMENTS: Final = 40
#: Calls that take a smaller share of all ranks' time have no column.
_LEAST: Final = 0.002
#: Kinds of counters that only grow; of these the increase since the moment before is shown (MPI-4.1, section
#: 15.3.7).
_GROWING: Final = frozenset(("aggregate", "counter", "timer"))
#: Units as MPI libraries write them → SI.
_UNITS: Final = {"bytes": "B", "byte": "B", "seconds": "s", "second": "s", "s": "s", "B": "B"}
_ALL: Final = "all of MPI"


class RankRow(NamedTuple):
    """A row of a picture."""

    #: ``rank 3``, or the name of a node or of a group of nodes.
    name: str
    #: A rank's node, or a node's place in the fabric; empty where nothing tells it, and of ranks on one node.
    place: str
    #: Those that it stands for.
    ranks: tuple[Rank, ...]


def rows_of(
    profile: Profile, topology: Topology | None = None, by_host: bool = False, most: int = MOST_ROWS
) -> list[RankRow]:
    """Ranks, nodes or groups of nodes: the first of these of which there are at most `most`. by_host: not
    ranks."""
    ordered = sorted(profile.ranks, key=lambda rank: rank.rank)
    hosts = {rank.host for rank in ordered}
    if len(ordered) <= most and not by_host:
        several = len(hosts) > 1
        return [RankRow(f"rank {rank.rank}", rank.host if several else "", (rank,)) for rank in ordered]
    of_host: defaultdict[str, list[Rank]] = defaultdict(list)
    for rank in ordered:
        of_host[rank.host].append(rank)
    names = in_order(hosts, topology)
    if len(names) <= most:
        known = places(names, topology)
        rank_rows = [RankRow(name, known.get(name, ""), tuple(of_host[name])) for name in names]
        return sorted(rank_rows, key=lambda row: row.place) if known else rank_rows
    return [
        RankRow(name, "", tuple(rank for member in members for rank in of_host[member]))
        for name, members in neighbours(names, topology, most)
    ]


def calls_grid(profile: Profile, rows: Sequence[RankRow], ident: str, title: str) -> Grid:
    """Row × call: seconds, as the mean of the row's ranks; the first column is all of MPI."""
    seconds = profile.by_call
    longest = [name for name in seconds if seconds[name] >= _LEAST * profile.total]
    names = [_ALL, *longest[:_MOST_CALLS]]
    cells = [
        GridCell(place, column, amount, tip)
        for place, row in enumerate(rows)
        for column, name in enumerate(names)
        for amount, tip in [_spent(row, name)]
    ]
    number = len(profile.ranks)
    longest_calls = ", ".join(f"{name} {format_quantity(seconds[name] / number, 's', 3)}" for name in longest)
    amounts = [cell.value or 0.0 for cell in cells]
    return Grid(
        ident=ident,
        title=title,
        text=f"Seconds inside MPI by {kind_of(rows)} and call. On average: {longest_calls}.",
        rows=tuple(row.name for row in rows),
        columns=tuple(name.removeprefix("MPI_") for name in names),
        cells=tuple(cells),
        groups=_groups(rows),
        side=next(height for most, height in _HEIGHTS.items() if len(rows) <= most),
        wide=_WIDE,
        scale=linear_scale(amounts, "s", "seconds a rank"),
    )


def _spent(row: RankRow, name: str) -> tuple[float, str]:
    """The mean seconds of the row's ranks in a call, and all that is known of it in words."""
    number = len(row.ranks)
    lasted = fmean(rank.seconds for rank in row.ranks)
    if name == _ALL:
        inside = fmean(rank.mpi for rank in row.ranks)
        outside = format_quantity(fmean(rank.computing for rank in row.ranks), "s", 3)
        words = f"inside MPI {_part(inside, lasted)}, outside {outside}"
        return inside, "\n".join(filter(None, (_called(row), words)))
    made = [rank.calls[name] for rank in row.ranks if name in rank.calls]
    seconds = sum(stats.seconds for stats in made) / number
    calls, size = sum(stats.calls for stats in made), sum(stats.bytes for stats in made)
    words = f"{name} {_part(seconds, lasted)}\n{calls} calls, {format_quantity(size, 'B', 3)}"
    return seconds, f"{_called(row)}\n{words}"


def _part(seconds: float, whole: float) -> str:
    share = f" ({100 * seconds / whole:.3g} %)" if whole else ""
    return f"{format_quantity(seconds, 's', 3)}{share}"


def _called(row: RankRow) -> str:
    ranks = f", {len(row.ranks)} ranks" if len(row.ranks) > 1 else ""
    return f"{row.name}{f' on {row.place}' if row.place else ''}{ranks}"


def peers_grid(profile: Profile, topology: Topology | None, ident: str, title: str) -> Grid | None:
    """Sender × receiver: bytes, on a logarithmic scale; None where nothing was sent."""
    rows = rows_of(profile, topology, by_host=profile.peers.of == "hosts")
    place = {
        (rank.rank if profile.peers.of == "ranks" else rank.host): number
        for number, row in enumerate(rows)
        for rank in row.ranks
    }
    sums: defaultdict[tuple[int, int], list[int]] = defaultdict(lambda: [0, 0])
    for pair in profile.peers.rows:
        names = profile.peers.names
        ends = (pair.source, pair.target) if not names else (names[pair.source], names[pair.target])
        if all(end in place for end in ends):
            traffic = sums[place[ends[0]], place[ends[1]]]
            traffic[0] += pair.bytes
            traffic[1] += pair.messages
    if not sums:
        return None
    cells = []
    for (source, target), (size, messages) in sums.items():
        words = f"{format_quantity(size, 'B', 3)} in {messages} messages"
        tip = f"{_called(rows[source])} → {_called(rows[target])}\n{words}"
        cells.append(GridCell(source, target, float(size), tip))
    within = sum(size for (source, target), (size, _) in sums.items() if rows[source] == rows[target])
    whole = sum(size for size, _ in sums.values())
    kind = kind_of(rows)
    own = f", {format_quantity(within, 'B', 3)} of it within a {kind}" if kind != "rank" else ""
    return Grid(
        ident=ident,
        title=title,
        text=f"Bytes from {kind} to {kind}: {format_quantity(whole, 'B', 3)} in all{own}.",
        rows=tuple(row.name for row in rows),
        columns=tuple(row.name for row in rows),
        cells=tuple(cells),
        row_title="" if _groups(rows) else "sender",
        column_title="receiver",
        filled=True,
        groups=_groups(rows),
        scale=log_scale((cell.value or 0.0 for cell in cells), "B", "bytes"),
    )


def drawn_variables(profile: Profile) -> list[str]:
    """The counters with snapshots, those that tell ranks apart most first."""
    if profile.snapshots is None:
        return []
    values = profile.snapshots.values
    growing = {variable.name for variable in profile.variables if variable.kind in _GROWING}

    def spread(name: str) -> float:
        # a queue may be empty at the end
        reached = [
            (
                row[-1]
                if name in growing
                else max((reading for reading in row if reading is not None), default=0.0)
            )
            or 0.0
            for row in values[name]
            if row
        ]
        mean = fmean(reached) if reached else 0.0
        return -max((abs(value - mean) for value in reached), default=0.0) / abs(mean) if mean else 0.0

    return sorted(values, key=spread)


def snapshots_grid(profile: Profile, name: str, ident: str, title: str) -> Grid:
    """Rank, node or group × time: by how much a counter grew since the moment before, or a level as it was
    read. Raises KeyError for a counter without snapshots."""
    snapshots = profile.snapshots
    if snapshots is None:
        raise KeyError(name)
    variable = next((one for one in profile.variables if one.name == name), None)
    growing = variable is not None and variable.kind in _GROWING
    unit_name = (variable.unit if variable else "") or "count"
    unit = _UNITS.get(unit_name, "1")
    every = -(-len(snapshots.times) // _MOST_MOMENTS)
    places = list(range(len(snapshots.times)))[::-1][::every][::-1]
    step = -(-len(snapshots.names) // MOST_ROWS)
    rows = [
        _mean_row(snapshots.values[name][first : first + step])
        for first in range(0, len(snapshots.names), step)
    ]
    names = [snapshots.names[first] for first in range(0, len(snapshots.names), step)]
    names = [f"rank {member}" if snapshots.of == "ranks" else member for member in names]
    begins = [0.0, *(snapshots.times[at] for at in places)]
    cells = []
    for place, row in enumerate(rows):
        shown = list(_gains([row[at] for at in places]) if growing else [row[at] for at in places])
        for column, amount in enumerate(shown):
            if amount is not None:
                when = f"{begins[column]:.4g} to {begins[column + 1]:.4g} s"
                tip = f"{names[place]}, {when}\n{name}: {format_quantity(amount, unit, 4)}"
                cells.append(GridCell(place, column, max(0.0, amount), tip))
    what = "What it gained" if growing else "Its value"
    words = (variable.description or name) if variable else name
    return Grid(
        ident=ident,
        title=title,
        text=f"{name}: {words}. {what} by {snapshots.of} and time.",
        rows=tuple(names),
        columns=tuple(f"{snapshots.times[at]:.3g}" for at in places),
        cells=tuple(cells),
        column_title="seconds since the begin",
        filled=True,
        side=20.0,
        scale=linear_scale([cell.value or 0.0 for cell in cells], unit, unit_name),
    )


def _mean_row(rows: Sequence[Sequence[float | None]]) -> list[float | None]:
    """The mean of neighbouring rows at each moment."""
    rates: list[float | None] = []
    for values in zip(*rows, strict=True):
        known = [value for value in values if value is not None]
        rates.append(fmean(known) if known else None)
    return rates


def _gains(values: Sequence[float | None]) -> Iterator[float | None]:
    """The increase since the moment before; of the first moment, since the begin."""
    yield values[0]
    for before, after in pairwise(values):
        yield None if after is None else after - (before or 0.0)


def kind_of(rows: Sequence[RankRow]) -> str:
    """What the rows are: ``rank``, ``node`` or ``group of nodes``."""
    if all(row.name.startswith("rank ") for row in rows):
        return "rank"
    return "node" if all(len({rank.host for rank in row.ranks}) == 1 for row in rows) else "group of nodes"


def _groups(rows: Sequence[RankRow]) -> tuple[tuple[str, int], ...]:
    """The places of rows that follow each other; none where there is only one, or every row has its own."""
    spans = tuple((place, len(list(members))) for place, members in groupby(rows, key=lambda row: row.place))
    return spans if 1 < len(spans) < len(rows) else ()
