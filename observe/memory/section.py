"""Memory: what observed programs keep there, which thread uses which page, and what threads contend for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Final, NamedTuple

from npc.observe.memory.density_picture import density_figure
from npc.observe.memory.figures import (
    Moment,
    ThreadAccesses,
    density_map,
    moments,
    sharing_chart,
    structure_bars,
    thread_accesses,
)
from npc.observe.memory.records import (
    MEMORY,
    SHARINGS,
    MemoryHint,
    MemoryUse,
    NumaUse,
    RankMemory,
    SharedLine,
    Sharing,
    Structure,
)
from npc.page.blocks import (
    BELOW,
    Block,
    Cell,
    Column,
    Figure,
    Listing,
    Table,
    Text,
    chart_figure,
    count,
    percent,
    quantity,
    size_cell,
)
from npc.records.units import format_size, plural, several
from npc.report.observed import Observed, overhead_lines
from npc.report.programs import programs
from npc.report.runs import Report, Run
from npc.report.sections import present

TITLE = "Memory"
PLACE = 110
#: Structures with a map of their accesses, and with their sharing over time.
_MOST_MAPS: Final = 12
_MOST_COURSES: Final = 4
#: Structures with less of all accesses have a map only if something is wrong with them.
_LEAST: Final = 0.01
#: Rows of tables, and rows that are not folded; users of a cache line that are named.
_MOST_ROWS: Final = 512
_UNFOLDED: Final = 12
_MOST_WORDS: Final = 6
#: Bytes of a word of a cache line.
_WORD: Final = 8
_BARS = (
    "the grey bar of a structure is its part of all bytes, the one below it its part of all accesses: "
    "reads, then writes; the table has what is too small for a bar. A small structure with a long bar is "
    "hot; one that is only read could have a copy on each NUMA node."
)
_MAP = (
    "a row is a thread, a column a page, reads are on the left, writes on the right; darker is more, on a "
    "logarithmic scale, grey is nothing. The strip above is the mean of the threads. The red line is the "
    "thread that touched a page first, so on whose NUMA node it lies: where the line is not on dark places, "
    "the page may be far from those that use it. Threads that are dark in the same columns share these "
    "pages. Point at a row for its numbers, at the strip for a column's."
)
_COURSE = (
    "pages that were touched in an interval, by how threads share them. Write-shared: some threads write "
    "what others use. False-shared: some write, but each other words of the page."
)
_AS_ABOVE = "as the one above."
_LINES_NOTE = (
    "A write takes the line away from the caches of the other threads. False-shared: they use other words "
    "of it; with a line for each of them the contention ends."
)
_NUMA_NOTE = (
    "Remote: from a CPU of another NUMA node than the page's. If interleaved: pages spread evenly over the "
    "nodes. If by its users: each page where most of its accesses come from."
)


def build(report: Report) -> Iterator[Block]:
    """Program by program the newest run."""
    blocks = programs(report, lambda launch: launch.part(MEMORY, MemoryUse), _program)
    return present(blocks, "the memory of no program was looked at (npc observe --memory -- ./app)")


def _program(report: Report, _run: Run, launch: Observed, use: MemoryUse) -> Iterator[Block]:
    if use.status != "ok" or not use.ranks:
        reason = use.status if use.status != "ok" else "no rank left anything"
        yield Text(f"Its accesses to memory are not known: {reason}.", "note")
        return
    rank = max(use.ranks, key=lambda rank: rank.reads + rank.writes)
    yield launch.heading((*_lines(use, rank), *overhead_lines(launch.overhead)))
    yield _hints(use.hints)
    yield from _ranks(use)
    name = f"{launch.name}, rank {rank.rank}" if len(use.ranks) > 1 else launch.name
    yield from _structures(report, use, rank, name, launch.ident)
    yield from _contended(use)
    yield from _maps(report, use, rank, name)
    yield from _courses(report, rank, name)
    yield from _numa(rank)


def _lines(use: MemoryUse, rank: RankMemory) -> Iterator[str]:
    """How accesses were seen, and how far the numbers can be trusted."""
    if use.mode == "counting":
        yield f"{use.source}, by pages of {use.page_bytes} and cache lines of {use.line_bytes} B"
    else:
        part = f", of {100 * rank.guarded:.3g} % of the pages at a time" if rank.guarded < 1 else ""
        yield f"{use.source}{part}: numbers say who shares what, and not how often"
    slower = f", {use.slower}" if use.slower else ""
    yield (
        f"so observed it ran {rank.seconds:.4g} s{slower}: take the pattern from here and times from other "
        "runs (analyse small, time large)"
    )
    if use.ranks_seen > len(use.ranks):
        yield f"{len(use.ranks)} of {use.ranks_seen} ranks are kept in detail"
    yield from dict.fromkeys((*use.notes, *rank.notes))


def _hints(hints: Sequence[MemoryHint]) -> Block:
    if not hints:
        return Text("Nothing looks wrong, by the rules of docs/memory.md.", "good")
    by_rule: dict[tuple[str, str], list[MemoryHint]] = {}
    for hint in hints:
        by_rule.setdefault((hint.rule, hint.do), []).append(hint)
    return Listing("What looks wrong, and what to do", tuple(map(_hint, by_rule.values())), "note")


def _hint(same: Sequence[MemoryHint]) -> Cell:
    """Hints of one rule, with what to do once."""
    evidence = []
    for hint in same:
        ranks = f" (rank {hint.rank} and {hint.ranks - 1} more)" if hint.ranks > 1 else ""
        evidence.append(f"{hint.structure}{ranks}: {hint.evidence}")
    gains = "; ".join(dict.fromkeys(hint.gain for hint in same if hint.gain))
    gain = f" Gain at most: {gains}." if gains else ""
    return Cell(f"{same[0].rule}. {'. '.join(evidence)}. To do: {same[0].do}.{gain}")


def _ranks(use: MemoryUse) -> Iterator[Block]:
    """The ranks that are kept in detail, where there are several."""
    if len(use.ranks) < 2:
        return
    columns: list[Column[RankMemory]] = [
        Column("rank", lambda rank: Cell(f"rank {rank.rank}", sort=rank.rank, kind="stamp")),
        Column("on", lambda rank: rank.host),
        Column("time", lambda rank: quantity(rank.seconds, "s")),
        Column("threads", lambda rank: count(rank.threads)),
        Column("bytes", lambda rank: size_cell(sum(structure.bytes for structure in rank.structures))),
        Column("reads", lambda rank: quantity(rank.reads, "")),
        Column("writes", lambda rank: quantity(rank.writes, "")),
        Column("contended lines", lambda rank: count(len(rank.lines))),
    ]
    many = len(use.ranks) > _UNFOLDED
    yield Table.of("Ranks that are kept in detail", use.ranks, columns, folded=many, most=_MOST_ROWS)
    if use.rest:
        yield replace(_numbers("All other ranks together", use, use.rest), folded=True)


def _structures(report: Report, use: MemoryUse, rank: RankMemory, name: str, ident: str) -> Iterator[Block]:
    """What is large and what is used."""
    if not rank.structures:
        yield Text("No structure was touched.", "note")
        return
    bars = structure_bars(rank.structures, report.ident(), f"Size and use: {name}")
    left = len(rank.structures) - len(bars.y.ticks)
    more = f" {plural(left, 'smaller one')} {'is' if left == 1 else 'are'} in the table." if left else ""
    table = _numbers("Numbers", use, rank.structures, (ident,))
    yield chart_figure(replace(bars, text=f"{bars.text} {BELOW}"), f"{bars.text}{more}", _BARS, table)


def _numbers(
    caption: str, use: MemoryUse, structures: Sequence[Structure], records: Sequence[str] = ()
) -> Table:
    """Size and use of structures; records: ids of the series that they lead to."""
    accesses = sum(map(_accesses, structures)) or 1

    def used(structure: Structure) -> Cell:
        bytes_of_lines = structure.lines * use.line_bytes
        return percent(structure.words * _WORD / bytes_of_lines if structure.lines else None)

    columns: list[Column[Structure]] = [
        Column("structure", lambda structure: Cell(structure.name, records, kind="stamp")),
        Column("kind", lambda structure: structure.kind),
        Column("where", lambda structure: structure.where),
        Column("bytes", lambda structure: size_cell(structure.bytes)),
        Column("allocations", lambda structure: count(structure.allocations)),
        Column("reads", lambda structure: quantity(structure.reads, "")),
        Column("writes", lambda structure: quantity(structure.writes, "")),
        Column("of all accesses", lambda structure: percent(_accesses(structure) / accesses)),
        Column("threads", lambda structure: count(structure.threads)),
        Column("pages", lambda structure: count(structure.pages)),
        Column("of these shared", _shared),
        Column("first touched by", _first),
        Column("used of touched lines", used),
    ]
    title = f"{caption}: {plural(len(structures), 'structure')}"
    many = len(structures) > _UNFOLDED
    return Table.of(title, structures, columns, folded=many, filtered=many, most=_MOST_ROWS)


def _accesses(structure: Structure) -> int:
    return structure.reads + structure.writes


def _shared(structure: Structure) -> Cell:
    shared = {kind: structure.sharing.get(kind, 0) for kind in SHARINGS if kind != "private"}
    words = ", ".join(f"{pages} {kind}" for kind, pages in shared.items() if pages)
    return Cell(words, sort=float(sum(shared.values())), kind="stamp")


def _first(structure: Structure) -> Cell:
    if structure.first_thread < 0 or not structure.pages:
        return Cell("")
    words = f"thread {structure.first_thread}: {100 * structure.first_share:.3g} %"
    return Cell(words, sort=structure.first_share, kind="stamp")


class _LineOfRank(NamedTuple):
    """A cache line that threads contend for."""

    #: The rank whose threads they are.
    rank: int
    #: What is known of it.
    line: SharedLine


def _contended(use: MemoryUse) -> Iterator[Block]:
    """Cache lines that several threads write, with who uses which word."""
    lines = [_LineOfRank(rank.rank, line) for rank in use.ranks for line in rank.lines]
    lines.sort(key=lambda of_rank: -(of_rank.line.reads + of_rank.line.writes))

    def place(of_rank: _LineOfRank) -> Cell:
        words = f"{of_rank.line.structure} + {of_rank.line.offset} B"
        return Cell(f"rank {of_rank.rank}: {words}" if len(use.ranks) > 1 else words, kind="stamp")

    columns: list[Column[_LineOfRank]] = [
        Column("cache line", place),
        Column("where", lambda of_rank: of_rank.line.where),
        Column("kind", lambda of_rank: Cell(of_rank.line.kind, kind="stamp")),
        Column("threads", lambda of_rank: _threads(of_rank.line.threads)),
        Column("reads", lambda of_rank: quantity(of_rank.line.reads, "")),
        Column("writes", lambda of_rank: quantity(of_rank.line.writes, "")),
        Column("who uses what", lambda of_rank: _users(of_rank.line.words)),
    ]
    if lines:
        many = len(lines) > _UNFOLDED
        yield Table.of(
            "Cache lines that threads contend for", lines, columns,
            folded=many, filtered=many, note=_LINES_NOTE, most=_MOST_ROWS,
        )  # fmt: skip


def _threads(threads: Sequence[int]) -> Cell:
    return Cell(several([str(thread) for thread in threads], 8), sort=len(threads))


def _users(words: Sequence[str]) -> str:
    shown, left = "; ".join(words[:_MOST_WORDS]), len(words) - _MOST_WORDS
    return f"{shown}; {left} more" if left > 0 else shown


def _maps(report: Report, use: MemoryUse, rank: RankMemory, name: str) -> Iterator[Block]:
    """Who touches which page, for the structures that are used most or that have a hint."""
    wrong = {hint.structure for hint in use.hints} | {line.structure for line in rank.lines}
    least = _LEAST * (rank.reads + rank.writes)
    known = [
        structure for structure in rank.structures if structure.name in wrong or _accesses(structure) >= least
    ]
    known.sort(key=lambda structure: (structure.name not in wrong, -_accesses(structure)))
    figures = filter(None, (_map(report, structure, name) for structure in known))
    for number, figure in enumerate(islice(figures, _MOST_MAPS)):
        yield replace(figure, reading=_AS_ABOVE) if number else figure


def _map(report: Report, structure: Structure, name: str) -> Figure | None:
    """The map of a structure of several pages."""
    density = structure.density
    if density is None or len(density.first) < 2:
        return None
    picture = density_map(density, report.ident(), f"Threads and pages of {structure.name}: {name}")
    if picture is None:
        return None
    columns: list[Column[tuple[int, ThreadAccesses]]] = [
        Column("thread", lambda row: Cell(row[1].name, sort=row[0], kind="stamp")),
        Column("reads", lambda row: quantity(row[1].reads, "")),
        Column("writes", lambda row: quantity(row[1].writes, "")),
        Column("pages touched first", lambda row: count(row[1].first)),
        Column("most in pages", lambda row: _pages(*row[1].busiest)),
    ]
    threads = thread_accesses(density)
    table = Table.of(
        f"Numbers by thread: {structure.name}", enumerate(threads), columns,
        folded=True, filtered=len(threads) > _UNFOLDED, most=_MOST_ROWS,
    )  # fmt: skip
    what = f"{structure.kind}, {structure.where}" if structure.where else structure.kind
    used = f"{format_size(structure.bytes)}, used by {plural(structure.threads, 'thread')}"
    shows = f"{structure.name} ({what}): {used}. {picture.text}"
    return density_figure(replace(picture, text=f"{picture.text} {BELOW}"), shows, _MAP, table)


def _pages(first: int, last: int) -> Cell:
    return Cell(f"{first} to {last}", sort=first, kind="number")


def _courses(report: Report, rank: RankMemory, name: str) -> Iterator[Block]:
    """Sharing over time, of all structures and of those that are shared most."""
    if not rank.intervals:
        return
    yield _course(report, rank, name)
    written: Counter[str] = Counter()
    for interval in rank.intervals:
        sharing = interval.sharing
        written[interval.structure] += sharing.get("write-shared", 0) + sharing.get("false-shared", 0)
    for structure, pages in written.most_common(_MOST_COURSES) if len(written) > 1 else ():
        if pages:
            yield replace(_course(report, rank, name, structure), reading=_AS_ABOVE)


def _course(report: Report, rank: RankMemory, name: str, structure: str = "") -> Figure:
    course = moments(rank.intervals, structure)
    seconds, height = max(rank.seconds, course[-1].end), 200 if structure else 260
    title = f"Sharing{f' of {structure}' if structure else ''} over time: {name}"
    chart = sharing_chart(course, seconds, report.ident(), title, height)
    columns: list[Column[Moment]] = [Column("when", _when), *map(_pages_shared, SHARINGS)]
    step = -(-len(course) // _MOST_ROWS)
    table = Table.of(
        f"Numbers: touched pages of {structure or 'all structures'}", course[::step], columns,
        folded=True, note=f"One of {step} intervals." if step > 1 else "",
    )  # fmt: skip
    return chart_figure(replace(chart, text=f"{chart.text} {BELOW}"), chart.text, _COURSE, table)


def _when(moment: Moment) -> Cell:
    return Cell(f"{moment.begin:.4g} to {moment.end:.4g} s", sort=moment.begin, kind="stamp")


def _pages_shared(sharing: Sharing) -> Column[Moment]:
    return Column(sharing, lambda moment: count(moment.pages.get(sharing, 0)))


def _numa(rank: RankMemory) -> Iterator[Block]:
    """Where pages lie on a node with several NUMA nodes, or why that is not known."""
    columns: list[Column[NumaUse]] = [
        Column("structure", lambda use: Cell(use.structure, kind="stamp")),
        Column("pages by NUMA node", lambda use: _nodes(use.pages)),
        Column("remote accesses", lambda use: percent(use.remote)),
        Column("if interleaved", lambda use: percent(use.interleaved)),
        Column("if by its users", lambda use: percent(use.local)),
    ]
    if rank.numa:
        many = len(rank.numa) > _UNFOLDED
        yield Table.of("Where pages lie", rank.numa, columns, filtered=many, note=_NUMA_NOTE, most=_MOST_ROWS)
    elif rank.numa_reason:
        yield Text(f"It is not known on which NUMA nodes pages lie: {rank.numa_reason}.", "note")


def _nodes(pages: Mapping[int, int]) -> str:
    return ", ".join(f"node {node}: {number}" for node, number in sorted(pages.items()))
