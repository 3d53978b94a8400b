"""On the node: what probes saw of observed programs, by rank beside what MPI says, and what that cost."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Final

from npc.observe.probes.inside_mpi import RankInMpi, inside_mpi
from npc.observe.probes.probe_blocks import probe_blocks
from npc.observe.probes.records import PROBES, NodeRow, Probes
from npc.page.blocks import LONG, Block, Cell, Column, Listing, Table, count, percent, quantity
from npc.records.units import format_quantity, several
from npc.report.observed import Observed, overhead_lines
from npc.report.programs import programs
from npc.report.runs import Report, Run
from npc.report.sections import present

TITLE = "On the node"
PLACE = 100
#: Rows of ranks.
_MOST_RANKS: Final = 512
#: A late rank is explained by what takes this part of the time that others waited for it.
_EXPLAINS: Final = 0.1
_THREADS = "Times on the node are of all threads of a rank together, those of its MPI library included."
#: Columns of the table of ranks: (probe, names or all, what to sum) by title.
_SUMS: Final[Mapping[str, tuple[str, str, str]]] = {
    "in system calls": ("syscalls", "", "seconds"),
    "waiting for a CPU": ("scheduler", "", "seconds"),
    "of this after losing it": ("scheduler", "involuntary switches", "seconds"),
    "involuntary switches": ("scheduler", "involuntary switches", "events"),
    "minor faults": ("faults", "minor faults", "events"),
    "major faults": ("faults", "major faults", "events"),
}


def build(report: Report) -> Iterator[Block]:
    """Program by program the newest run."""
    blocks = programs(report, lambda launch: launch.part(PROBES, Probes), _program)
    return present(blocks, "no program had probes on its nodes (npc observe --probe syscalls -- mpirun …)")


def _program(report: Report, _run: Run, launch: Observed, probes: Probes) -> Iterator[Block]:
    wanted = list(dict.fromkeys(node.probe for node in probes.nodes))
    probed = f"probes: {', '.join(wanted)}"
    yield launch.heading((probed, *overhead_lines(launch.overhead), *_statuses(probes)))
    yield from _pairs(launch)
    yield from _ranks(launch, probes)
    yield from _late(launch, probes)
    for what in wanted:
        node_rows = [NodeRow(node, row) for node in probes.nodes if node.probe == what for row in node.rows]
        if node_rows:
            yield from probe_blocks(report, launch, what, node_rows)


def _pairs(launch: Observed) -> Iterator[Block]:
    """The runs with and without watching, where that was checked."""
    measured = launch.overhead.measured if launch.overhead else None
    if measured is None or not measured.seconds:
        return
    columns: list[Column[tuple[int, tuple[float, float]]]] = [
        Column("pair", lambda pair: count(pair[0])),
        Column("without", lambda pair: quantity(pair[1][0], "s")),
        Column("with watching", lambda pair: quantity(pair[1][1], "s")),
        Column("longer by", lambda pair: percent(pair[1][1] / pair[1][0] - 1)),
    ]
    yield Table.of("The observer effect, measured", enumerate(measured.seconds, 1), columns, folded=True)


def _statuses(probes: Probes) -> Iterator[str]:
    """Probes that were not attached all the time, with the reason; nodes of one reason together."""
    hosts: defaultdict[str, list[str]] = defaultdict(list)
    for node in probes.nodes:
        if node.status != "attached":
            hosts[f"{node.probe} {node.status}: {node.reason}"].append(node.host)
        elif node.share < 0.995:
            hosts[f"{node.probe} was attached for {node.share:.0%} of the run"].append(node.host)
        for note in node.notes:
            hosts[f"{node.probe}: {note}"].append(node.host)
    for words, names in hosts.items():
        yield f"{words} ({several(sorted(set(names)))})"


# --- by rank -----------------------------------------------------------------------------------------------


def _rows_of_ranks(probes: Probes, probe: str) -> Iterator[NodeRow]:
    """The rows of ranks that a probe has."""
    for node in probes.nodes:
        yield from (NodeRow(node, row) for row in node.rows if node.probe == probe and row.rank >= 0)


def _sum(probes: Probes, title: str) -> dict[int, float]:
    """A column of the table of ranks: rank → seconds or events; empty where no probe tells it."""
    probe, name, kind = _SUMS[title]
    sums: defaultdict[int, float] = defaultdict(float)
    for node_row in _rows_of_ranks(probes, probe):
        if name in ("", node_row.row.name):
            sums[node_row.row.rank] += node_row.row.events if kind == "events" else node_row.seconds
    return dict(sums)


def _ranks(launch: Observed, probes: Probes) -> Iterator[Block]:
    """What MPI and the probes say of each rank, side by side."""
    sums = {title: by_rank for title in _SUMS if (by_rank := _sum(probes, title))}
    mpi = inside_mpi(launch)
    inside = {rank.rank: rank for rank in mpi.ranks}
    ranks = sorted({*inside, *(rank for by_rank in sums.values() for rank in by_rank)})
    if not sums or not ranks:
        return
    waited = mpi.waited
    hosts = mpi.hosts or _hosts(probes)

    def seconds(value: float) -> Cell:
        return quantity(value, "s", (launch.ident,))

    def summed(title: str, by_rank: Mapping[int, float]) -> Column[int]:
        if _SUMS[title][2] == "events":
            return Column(title, lambda rank: count(round(by_rank.get(rank, 0.0))))
        return Column(title, lambda rank: seconds(by_rank.get(rank, 0.0)))

    columns: list[Column[int]] = [
        Column("rank", lambda rank: Cell(f"rank {rank}", sort=rank, kind="stamp")),
        Column("on", lambda rank: hosts.get(rank, "")),
    ]
    if inside:
        columns += [
            Column("inside MPI", lambda rank: percent(_inside_mpi(inside.get(rank)))),
            Column("waited", lambda rank: seconds(waited.get(rank, (0.0, 0.0))[0])),
            Column("others waited for it", lambda rank: seconds(waited.get(rank, (0.0, 0.0))[1])),
        ]
    columns += [summed(title, by_rank) for title, by_rank in sums.items()]
    yield Table.of(
        "Each rank inside MPI and on its node", ranks, columns, filtered=len(ranks) > LONG, note=_THREADS,
        most=_MOST_RANKS, rest="{} more ranks are in the observation.",
    )  # fmt: skip


def _inside_mpi(rank: RankInMpi | None) -> float:
    """The share of its time that a rank is inside MPI; 0 where nothing is known of it."""
    return rank.mpi / rank.seconds if rank and rank.seconds else 0.0


def _hosts(probes: Probes) -> dict[int, str]:
    return {row.rank: node.host for node in probes.nodes for row in node.rows}


def _late(launch: Observed, probes: Probes) -> Iterator[Block]:
    """For ranks that others waited for: what of their time the probes know."""
    mpi = inside_mpi(launch)
    lines = []
    waits = sorted(mpi.waited.items(), key=lambda entry: -entry[1][1])
    for rank, (_, awaited) in waits[:4]:
        causes = list(_causes(len(mpi.ranks), probes, rank, awaited)) if awaited > 0 else []
        if causes:
            late = f"rank {rank} ({mpi.hosts.get(rank, '?')})"
            waited = format_quantity(awaited, "s", 3)
            lines.append(Cell(f"others waited {waited} for {late}, which {' and '.join(causes)}"))
    if lines:
        yield Listing("Late ranks, by what the probes know of them", tuple(lines))


def _causes(ranks: int, probes: Probes, rank: int, awaited: float) -> Iterator[str]:
    """What the rank has more of than the others of all `ranks` on the average, by a part of what these waited
    for it."""
    others = max(ranks - 1, 1)
    needed = _EXPLAINS * awaited / others

    def more(title: str) -> float:
        by_rank = _sum(probes, title)
        rest = sum(value for of, value in by_rank.items() if of != rank) / others
        return float(by_rank.get(rank, 0.0) - rest)

    if more("waiting for a CPU") > needed:
        seconds = _sum(probes, "waiting for a CPU")[rank]
        switches = round(_sum(probes, "involuntary switches").get(rank, 0))
        yield (
            f"had no CPU for {format_quantity(seconds, 's', 3)} though it could run "
            f"({switches} involuntary switches)"
        )
    calls = _more_calls(probes, rank, others)
    if calls and calls[1] > needed:
        row = calls[0].row
        yield (
            f"was in {row.name} for {format_quantity(calls[0].seconds, 's', 3)} ({row.events} calls), "
            f"{format_quantity(calls[1], 's', 3)} more than the others"
        )
    if more("major faults") > 0:
        yield f"had {round(_sum(probes, 'major faults')[rank])} major faults"


def _more_calls(probes: Probes, rank: int, others: int) -> tuple[NodeRow, float] | None:
    """The system call in which a rank is longest beyond the mean of the others, and by how much."""
    rest: defaultdict[str, float] = defaultdict(float)
    for node_row in _rows_of_ranks(probes, "syscalls"):
        rest[node_row.row.name] += node_row.seconds / others * (node_row.row.rank != rank)
    own = [node_row for node_row in _rows_of_ranks(probes, "syscalls") if node_row.row.rank == rank]
    more = [(node_row, node_row.seconds - rest[node_row.row.name]) for node_row in own]
    return max(more, key=lambda pair: pair[1], default=None)
