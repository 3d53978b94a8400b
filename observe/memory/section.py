"""Memory: what observed programs keep there, which thread uses which page, and what threads contend for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Final

from npc.figures.memory_use import (
    density_map,
    moments,
    sharing_chart,
    structure_bars,
    thread_accesses,
)
from npc.page.blocks import (
    Block,
    Cell,
    Figure,
    Listing,
    Table,
    Text,
    chart_figure,
    count,
    density_figure,
    percent,
    quantity,
    size_cell,
)
from npc.records.memory_use import SHARINGS, MemoryHint, MemoryUse, RankMemory, Structure
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
_BELOW = " The table below has the numbers."
_STRUCTURES: Final = (
    "structure", "kind", "where", "bytes", "allocations", "reads", "writes", "of all accesses",
    "threads", "pages", "of these shared", "first touched by", "used of touched lines",
)  # fmt: skip
_LINES: Final = ("cache line", "where", "kind", "threads", "reads", "writes", "who uses what")
_LINES_NOTE = (
    "A write takes the line away from the caches of the other threads. False-shared: they use other words "
    "of it, so a line for each of them ends it."
)
_NUMA: Final = ("structure", "pages by NUMA node", "remote accesses", "if interleaved", "if by its users")
_NUMA_NOTE = (
    "Remote: from a CPU of another NUMA node than the page's. If interleaved: pages spread evenly over the "
    "nodes. If by its users: each page where most of its accesses come from."
)


def build(report: Report) -> Iterator[Block]:
    """Program by program the newest run."""
    blocks = programs(report, lambda launch: launch.memory, _program)
    return present(blocks, "the memory of no program was looked at (npc observe --memory -- ./app)")


def _program(report: Report, _run: Run, launch: Observed, found: MemoryUse) -> Iterator[Block]:
    if found.status != "ok" or not found.ranks:
        reason = found.status if found.status != "ok" else "no rank left anything"
        yield Text(f"Nothing of its memory: {reason}.", "note")
        return
    rank = max(found.ranks, key=lambda each: each.reads + each.writes)
    yield launch.heading((*_lines(found, rank), *overhead_lines(launch.overhead)))
    yield _hints(found.hints)
    yield from _ranks(found)
    name = f"{launch.name}, rank {rank.rank}" if len(found.ranks) > 1 else launch.name
    yield from _structures(report, found, rank, name, launch.ident)
    yield from _contended(found)
    yield from _maps(report, found, rank, name)
    yield from _courses(report, rank, name)
    yield from _numa(rank)


def _lines(found: MemoryUse, rank: RankMemory) -> Iterator[str]:
    """How it was looked at, and how far the numbers can be believed."""
    if found.mode == "counting":
        yield f"{found.source}, by pages of {found.page_bytes} and cache lines of {found.line_bytes} B"
    else:
        part = f", of {100 * rank.guarded:.3g} % of the pages at a time" if rank.guarded < 1 else ""
        yield f"{found.source}{part}: numbers say who shares what, and not how often"
    slower = f", {found.slower}" if found.slower else ""
    yield (
        f"so observed it ran {rank.seconds:.4g} s{slower}: take the pattern from here and times from other "
        "runs (analyse small, time large)"
    )
    if found.ranks_seen > len(found.ranks):
        yield f"{len(found.ranks)} of {found.ranks_seen} ranks are kept in detail"
    yield from dict.fromkeys((*found.notes, *rank.notes))


def _hints(hints: Sequence[MemoryHint]) -> Block:
    if not hints:
        return Text("Nothing looks wrong, by the rules of docs/memory.md.", "good")
    by_rule: dict[tuple[str, str], list[MemoryHint]] = {}
    for each in hints:
        by_rule.setdefault((each.rule, each.do), []).append(each)
    return Listing("What looks wrong, and what to do", tuple(map(_hint, by_rule.values())), "note")


def _hint(same: Sequence[MemoryHint]) -> Cell:
    """Hints of one rule, with what to do once."""
    seen = []
    for each in same:
        ranks = f" (rank {each.rank} and {each.ranks - 1} more)" if each.ranks > 1 else ""
        seen.append(f"{each.structure}{ranks}: {each.evidence}")
    gains = "; ".join(dict.fromkeys(each.gain for each in same if each.gain))
    gain = f" Gain at most: {gains}." if gains else ""
    return Cell(f"{same[0].rule}. {'. '.join(seen)}. To do: {same[0].do}.{gain}")


def _ranks(found: MemoryUse) -> Iterator[Block]:
    """Each rank that is kept, where there are several."""
    if len(found.ranks) < 2:
        return
    rows = tuple(
        (
            Cell(f"rank {each.rank}", sort=each.rank, kind="stamp"),
            Cell(each.host),
            quantity(each.seconds, "s"),
            count(each.threads),
            size_cell(sum(one.bytes for one in each.structures)),
            quantity(each.reads, ""),
            quantity(each.writes, ""),
            count(len(each.lines)),
        )
        for each in found.ranks[:_MOST_ROWS]
    )
    names = ("rank", "on", "time", "threads", "bytes", "reads", "writes", "contended lines")
    yield Table("Ranks that are kept in detail", names, rows, folded=len(rows) > _UNFOLDED)
    if found.rest:
        yield replace(_numbers("All other ranks together", found, found.rest), folded=True)


def _structures(report: Report, found: MemoryUse, rank: RankMemory, name: str, ident: str) -> Iterator[Block]:
    """What is large and what is used."""
    if not rank.structures:
        yield Text("No structure was touched.", "note")
        return
    bars = structure_bars(rank.structures, report.ident(), f"Size and use: {name}")
    left = len(rank.structures) - len(bars.y.ticks)
    more = f" {plural(left, 'smaller one')} {'is' if left == 1 else 'are'} in the table." if left else ""
    table = _numbers("Numbers", found, rank.structures, (ident,))
    yield chart_figure(replace(bars, text=bars.text + _BELOW), f"{bars.text}{more}", _BARS, table)


def _numbers(
    caption: str, found: MemoryUse, structures: Sequence[Structure], records: Sequence[str] = ()
) -> Table:
    accesses = sum(each.reads + each.writes for each in structures) or 1
    rows = tuple(
        (
            Cell(each.name, records, kind="stamp"),
            Cell(each.kind),
            Cell(each.where),
            size_cell(each.bytes),
            count(each.allocations),
            quantity(each.reads, ""),
            quantity(each.writes, ""),
            percent((each.reads + each.writes) / accesses),
            count(each.threads),
            count(each.pages),
            _shared(each),
            _first(each),
            percent(each.words * _WORD / (each.lines * found.line_bytes) if each.lines else None),
        )
        for each in structures[:_MOST_ROWS]
    )
    many = len(rows) > _UNFOLDED
    return Table(f"{caption}: {plural(len(structures), 'structure')}", _STRUCTURES, rows, many, many)


def _shared(each: Structure) -> Cell:
    shared = {kind: each.sharing.get(kind, 0) for kind in SHARINGS if kind != "private"}
    words = ", ".join(f"{pages} {kind}" for kind, pages in shared.items() if pages)
    return Cell(words, sort=float(sum(shared.values())), kind="stamp")


def _first(each: Structure) -> Cell:
    if each.first_thread < 0 or not each.pages:
        return Cell("")
    words = f"thread {each.first_thread}: {100 * each.first_share:.3g} %"
    return Cell(words, sort=each.first_share, kind="stamp")


def _contended(found: MemoryUse) -> Iterator[Block]:
    """Cache lines that several threads write, with who uses which word."""
    lines = [(rank.rank, line) for rank in found.ranks for line in rank.lines]
    lines.sort(key=lambda each: -(each[1].reads + each[1].writes))
    rows = []
    for rank, line in lines[:_MOST_ROWS]:
        place = f"{line.structure} + {line.offset} B"
        words, more = "; ".join(line.words[:_MOST_WORDS]), len(line.words) - _MOST_WORDS
        rows.append((
            Cell(f"rank {rank}: {place}" if len(found.ranks) > 1 else place, kind="stamp"),
            Cell(line.where),
            Cell(line.kind, kind="stamp"),
            Cell(several([str(each) for each in line.threads], 8), sort=len(line.threads)),
            quantity(line.reads, ""),
            quantity(line.writes, ""),
            Cell(f"{words}; {more} more" if more > 0 else words),
        ))  # fmt: skip
    if rows:
        many = len(rows) > _UNFOLDED
        title = "Cache lines that threads contend for"
        yield Table(title, _LINES, tuple(rows), many, many, _LINES_NOTE)


def _maps(report: Report, found: MemoryUse, rank: RankMemory, name: str) -> Iterator[Block]:
    """Who touches which page, of what is used most and of what is wrong."""
    wrong = {each.structure for each in found.hints} | {each.structure for each in rank.lines}
    least = _LEAST * (rank.reads + rank.writes)
    known = [each for each in rank.structures if each.name in wrong or each.reads + each.writes >= least]
    known.sort(key=lambda each: (each.name not in wrong, -(each.reads + each.writes)))
    drawn = islice(filter(None, (_map(report, each, name) for each in known)), _MOST_MAPS)
    for number, figure in enumerate(drawn):
        yield replace(figure, reading=_AS_ABOVE) if number else figure


def _map(report: Report, each: Structure, name: str) -> Figure | None:
    """The map of a structure of several pages."""
    density = each.density
    if density is None or len(density.first) < 2:
        return None
    picture = density_map(density, report.ident(), f"Threads and pages of {each.name}: {name}")
    if picture is None:
        return None
    rows = tuple(
        (
            Cell(row.name, sort=number, kind="stamp"),
            quantity(row.reads, ""),
            quantity(row.writes, ""),
            count(row.first),
            Cell(f"{row.busiest[0]} to {row.busiest[1]}", sort=row.busiest[0], kind="number"),
        )
        for number, row in enumerate(thread_accesses(density)[:_MOST_ROWS])
    )
    names = ("thread", "reads", "writes", "pages touched first", "most in pages")
    table = Table(f"Numbers by thread: {each.name}", names, rows, True, len(rows) > _UNFOLDED)
    what = f"{each.kind}, {each.where}" if each.where else each.kind
    used = f"{format_size(each.bytes)}, used by {plural(each.threads, 'thread')}"
    return density_figure(
        replace(picture, text=picture.text + _BELOW),
        f"{each.name} ({what}): {used}. {picture.text}",
        _MAP,
        table,
    )


def _courses(report: Report, rank: RankMemory, name: str) -> Iterator[Block]:
    """Sharing over time, of all structures and of those that are shared most."""
    if not rank.intervals:
        return
    yield _course(report, rank, name)
    written: Counter[str] = Counter()
    for each in rank.intervals:
        written[each.structure] += each.sharing.get("write-shared", 0) + each.sharing.get("false-shared", 0)
    for structure, pages in written.most_common(_MOST_COURSES) if len(written) > 1 else ():
        if pages:
            yield replace(_course(report, rank, name, structure), reading=_AS_ABOVE)


def _course(report: Report, rank: RankMemory, name: str, structure: str = "") -> Figure:
    found = moments(rank.intervals, structure)
    seconds, height = max(rank.seconds, found[-1].end), 200 if structure else 260
    title = f"Sharing{f' of {structure}' if structure else ''} over time: {name}"
    chart = sharing_chart(found, seconds, report.ident(), title, height)
    step = -(-len(found) // _MOST_ROWS)
    rows = tuple(
        (
            Cell(f"{each.begin:.4g} to {each.end:.4g} s", sort=each.begin, kind="stamp"),
            *(count(each.pages.get(kind, 0)) for kind in SHARINGS),
        )
        for each in found[::step]
    )
    note = f"One of {step} intervals." if step > 1 else ""
    caption = f"Numbers: touched pages of {structure or 'all structures'}"
    table = Table(caption, ("when", *SHARINGS), rows, True, note=note)
    return chart_figure(replace(chart, text=chart.text + _BELOW), chart.text, _COURSE, table)


def _numa(rank: RankMemory) -> Iterator[Block]:
    """Where pages lie on a node with several NUMA nodes, or why that is not told."""
    rows = tuple(
        (
            Cell(each.structure, kind="stamp"),
            Cell(_nodes(each.pages)),
            percent(each.remote),
            percent(each.interleaved),
            percent(each.local),
        )
        for each in rank.numa[:_MOST_ROWS]
    )
    if rows:
        yield Table("Where pages lie", _NUMA, rows, filtered=len(rows) > _UNFOLDED, note=_NUMA_NOTE)
    elif rank.numa_reason:
        yield Text(f"On which NUMA nodes pages lie is not told: {rank.numa_reason}.", "note")


def _nodes(pages: Mapping[int, int]) -> str:
    return ", ".join(f"node {node}: {number}" for node, number in sorted(pages.items()))
