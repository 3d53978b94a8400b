"""Pictures of a program's memory: size and use of structures, who touches which page, sharing over time.

They follow the figures of Tabarnac and Moca (Beniamine, Analyzing the memory behavior of parallel scientific
applications, 2016, sections 4.1.3 and 6.2.2). Here reads and writes have a picture each, in which the thread
that touched a page first is marked, to compare it with those that use the page.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from npc.figures.axes import Axis, Tick, linear_ticks
from npc.figures.chart import Chart, Trace
from npc.figures.scale import Scale, log_scale
from npc.observe.memory.records import Density, Sharing, SharingInterval, Structure
from npc.records.units import format_quantity, format_size

#: Rows of threads and columns of pages at most; columns are those of all panels.
MOST_ROWS: Final = 256
MOST_COLUMNS: Final = 256
#: Structures with bars, and letters of a name beside them.
_MOST_BARS: Final = 24
_LETTERS: Final = 14
_BAR: Final = 26
_BAR_POINTS: Final = 8.0
#: Bars below this share of the longest one are not drawn.
_LEAST_BAR: Final = 0.01
_BARS: Final = {"size": "grey", "reads": "blue", "writes": "vermillion"}
#: Each kind of sharing: its colour, and what it means.
SHARING_COLOURS: Final[dict[Sharing, str]] = {
    "private": "grey",
    "read-shared": "sky",
    "write-shared": "orange",
    "false-shared": "vermillion",
}

Amounts = npt.NDArray[np.float64]
Depths = npt.NDArray[np.uint8]


# --- who touches which page --------------------------------------------------------------------------------


class AccessPanel(NamedTuple):
    """The picture of the reads, or of the writes."""

    #: ``reads`` or ``writes``.
    name: str
    #: Number of the colour, by row and column.
    depths: Depths
    #: The same of the mean of all threads, in one row.
    mean: Depths
    #: What is known of each column, as text.
    tips: tuple[str, ...]


class FirstTouch(NamedTuple):
    """Neighbouring columns that were touched first by a thread of one row."""

    #: The first column.
    begin: int
    #: The column after the last.
    end: int
    #: The thread's.
    row: int
    #: What is known of them, as text.
    tip: str


@dataclass(frozen=True, slots=True)
class DensityMap:
    """Accesses of each thread (rows) to each page (columns)."""

    #: Its id on the page, as of a chart.
    ident: str
    #: Above it.
    title: str
    #: What it shows, in words, for those who do not see it.
    text: str
    #: Of the rows.
    names: tuple[str, ...]
    #: What is known of each row, as text.
    tips: tuple[str, ...]
    #: Of reads, of writes; without a kind that never happened.
    panels: tuple[AccessPanel, ...]
    #: Who touched the columns first.
    first: tuple[FirstTouch, ...]
    #: Their number, in each panel.
    columns: int
    #: Pages of all columns together.
    pages: int
    #: Of accesses by one thread to one page.
    scale: Scale

    def ticks(self) -> tuple[Tick, ...]:
        """Of the axis of pages, in a panel."""
        values = linear_ticks(0, self.pages, 9 // len(self.panels) + 1)
        return tuple(Tick(value, f"{value:.0f}") for value in values if value == int(value))


class ThreadAccesses(NamedTuple):
    """A row of a density in numbers."""

    #: Its thread or threads.
    name: str
    #: Accesses to all pages.
    reads: int
    #: Accesses to all pages.
    writes: int
    #: Pages of the columns that it touched first.
    first: int
    #: First and last page of the column with most accesses.
    busiest: tuple[int, int]


def density_map(density: Density, ident: str, title: str) -> DensityMap | None:
    """The picture; None where no access was seen. Where rows or columns are too many, neighbours are
    merged."""
    kinds = {name: np.array(rows, dtype=float) for name, rows in _kinds(density).items()}
    kinds = {name: amounts for name, amounts in kinds.items() if amounts.any()}
    if not kinds:
        return None
    bins = len(density.first)
    across = -(-bins // (MOST_COLUMNS // len(kinds)))
    down = -(-len(density.threads) // MOST_ROWS)
    threads = density.threads[::down]
    names = tuple(_row_names(density, down))
    columns = range(0, bins, across)
    pages = [density.pages * (min(column + across, bins) - column) for column in columns]
    held = [min(row + down, len(density.threads)) - row for row in range(0, len(density.threads), down)]
    # Threads × pages that a cell stands for.
    share_of_cell = np.outer(held, pages).astype(float) * density.group
    whole = {name: _merged(amounts, down, across) for name, amounts in kinds.items()}
    means = {name: amounts / share_of_cell for name, amounts in whole.items()}
    scale = log_scale(np.concatenate([amounts.ravel() for amounts in means.values()]).tolist(), "")
    first = [_most_common(density.first[column : column + across]) for column in columns]
    wide = density.pages * across
    touched = tuple(_first_touches(first, threads, wide, names))
    numbers = thread_accesses(density)
    texts = " and ".join(f"{format_quantity(amounts.sum(), '', 4)} {name}" for name, amounts in kinds.items())
    return DensityMap(
        ident,
        title,
        f"{texts}. {_first_words(first, touched, names)}",
        names,
        tuple(_tip(numbers[row * down : (row + 1) * down], name) for row, name in enumerate(names)),
        tuple(_panel(name, whole[name], means[name], share_of_cell, wide, scale) for name in whole),
        touched,
        len(first),
        bins * density.pages,
        scale,
    )


def thread_accesses(density: Density) -> list[ThreadAccesses]:
    """The rows of a density in numbers."""
    firsts = Counter(_row(density.threads, thread) for thread in density.first)
    figures_of_structures = []
    for row, name in enumerate(_row_names(density, 1)):
        reads, writes = density.reads[row], density.writes[row]
        every = [a + b for a, b in zip(reads, writes, strict=True)]
        most = max(range(len(every)), key=every.__getitem__, default=0)
        busiest = (most * density.pages, (most + 1) * density.pages - 1)
        figures_of_structures.append(
            ThreadAccesses(name, sum(reads), sum(writes), firsts[row] * density.pages, busiest)
        )
    return figures_of_structures


def _kinds(density: Density) -> dict[str, Sequence[Sequence[int]]]:
    return {"reads": density.reads, "writes": density.writes}


def _row_names(density: Density, step: int) -> Iterator[str]:
    """The threads of each row, or of each `step` rows."""
    last = len(density.threads) - 1
    for row in range(0, last + 1, step):
        begin = density.threads[row]
        end = density.threads[min(row + step - 1, last)] + density.group - 1
        yield f"thread {begin}" if begin == end else f"threads {begin}–{end}"


def _row(threads: Sequence[int], thread: int) -> int:
    """The row of a thread; −1 where it has none."""
    return bisect_right(threads, thread) - 1 if thread >= 0 else -1


def _merged(amounts: Amounts, down: int, across: int) -> Amounts:
    """The sums of blocks of `down` rows and `across` columns."""
    rows = np.add.reduceat(amounts, np.arange(0, amounts.shape[0], down), axis=0)
    return np.asarray(np.add.reduceat(rows, np.arange(0, amounts.shape[1], across), axis=1))


def _most_common(threads: Sequence[int]) -> int:
    known = [thread for thread in threads if thread >= 0]
    return Counter(known).most_common(1)[0][0] if known else -1


def _panel(
    name: str, amounts: Amounts, means: Amounts, per_cell: Amounts, pages: int, scale: Scale
) -> AccessPanel:
    sums, users = amounts.sum(axis=0), (amounts > 0).sum(axis=0).tolist()
    tips = []
    for column, total in enumerate(sums.tolist()):
        by = f" by {users[column]} of {len(amounts)} rows" if total else ""
        where = _pages(column * pages, (column + 1) * pages - 1)
        tips.append(f"{where}\n{format_quantity(total, '', 4)} {name}{by}")
    return AccessPanel(
        name, _depths(means, scale), _depths([sums / per_cell.sum(axis=0)], scale), tuple(tips)
    )


def _depths(rows: Iterable[Amounts], scale: Scale) -> Depths:
    return np.array([[scale.depth(amount) for amount in row.tolist()] for row in rows], np.uint8)


def _first_touches(
    first: Sequence[int], threads: Sequence[int], pages: int, names: Sequence[str]
) -> Iterator[FirstTouch]:
    """Columns of one row that follow each other, as one."""
    end = 0
    for row, run in groupby(_row(threads, thread) for thread in first):
        begin, end = end, end + len(list(run))
        if row >= 0:
            where = _pages(begin * pages, end * pages - 1)
            yield FirstTouch(begin, end, row, f"{where}\nfirst touched by {names[row]}")


def _first_words(first: Sequence[int], touched: Sequence[FirstTouch], names: Sequence[str]) -> str:
    """A sentence about which threads touched how much of it first."""
    sums: Counter[int] = Counter()
    for touch in touched:
        sums[touch.row] += touch.end - touch.begin
    if not sums:
        return "Who touched it first was not seen."
    row, most = sums.most_common(1)[0]
    if len(sums) == 1:
        return f"All of it was first touched by {names[row]}."
    kind = "groups of threads" if any("–" in name for name in names) else "threads"
    share = 100 * most / sum(thread >= 0 for thread in first)
    return f"First touched by {len(sums)} {kind}, {share:.3g} % of it by {names[row]}."


def _tip(rows: Sequence[ThreadAccesses], name: str) -> str:
    reads, writes, first = (
        sum(amount) for amount in zip(*((row.reads, row.writes, row.first) for row in rows), strict=True)
    )
    lines = [name, f"{format_quantity(reads, '', 4)} reads, {format_quantity(writes, '', 4)} writes"]
    if reads or writes:
        lines.append(f"most in {_pages(*max(rows, key=lambda row: row.reads + row.writes).busiest)}")
    if first:
        lines.append(f"touched some {first} pages first")
    return "\n".join(lines)


def _pages(begin: int, end: int) -> str:
    return f"page {begin}" if begin == end else f"pages {begin} to {end}"


# --- what is large, and what is used -----------------------------------------------------------------------


def structure_bars(structures: Sequence[Structure], ident: str, title: str) -> Chart:
    """Bars of each structure: its share of all bytes, and its share of all accesses, first reads, then
    writes. Only the structures with the longest bars. Raises ValueError without structures."""
    size = sum(structure.bytes for structure in structures) or 1
    accesses = sum(structure.reads + structure.writes for structure in structures) or 1

    def parts(structure: Structure) -> tuple[float, float, float]:
        return structure.bytes / size, structure.reads / accesses, structure.writes / accesses

    def longest(structure: Structure) -> float:
        held, read, written = parts(structure)
        return max(held, read + written)

    if not structures:
        raise ValueError("no structures")
    first, *rest = sorted(structures, key=longest, reverse=True)[:_MOST_BARS]
    least = _LEAST_BAR * longest(first)
    shown = [first, *(structure for structure in rest if max(parts(structure)) > least)]
    bars: dict[str, list[Trace]] = {"size": [], "reads": [], "writes": []}
    for place, structure in enumerate(shown):
        y = len(shown) - place - 0.5
        held, read, written = parts(structure)
        writes = f"{format_quantity(structure.writes, '', 4)} writes"
        amounts = (
            ("size", y + 0.19, 0.0, held, format_size(structure.bytes), "bytes"),
            ("reads", y - 0.19, 0.0, read, f"{format_quantity(structure.reads, '', 4)} reads", "accesses"),
            ("writes", y - 0.19, read, written, writes, "accesses"),
        )
        for name, at, begin, share, words, of in amounts:
            if share > least:
                tip = f"{structure.name} {structure.where}\n{words}, {_part(share)} of all {of}"
                line = (begin, at), (begin + share, at)
                bars[name].append(Trace(name, _BARS[name], (line,), width=_BAR_POINTS, tip=tip))
    high = 1.03 * longest(first) or 1.0
    largest = "; ".join(
        f"{structure.name} {_part(structure.bytes / size)} of the bytes, "
        f"{_part((structure.reads + structure.writes) / accesses)} of the accesses"
        for structure in shown[:4]
    )
    return Chart(
        ident,
        title,
        f"{largest}.",
        Axis("part of all bytes, and of all accesses", 0, high, False, tuple(_percents(high))),
        Axis("", 0, len(shown), False, tuple(_names(shown))),
        tuple(replace(bar, over=tuple(others)) for bar, *others in filter(None, bars.values())),
        height=60 + _BAR * len(shown),
    )


def _percents(high: float) -> Iterator[Tick]:
    return (Tick(value, f"{100 * value:.3g} %") for value in linear_ticks(0, high))


def _names(shown: Sequence[Structure]) -> Iterator[Tick]:
    return (Tick(len(shown) - place - 0.5, _cut(bar.name)) for place, bar in enumerate(shown))


def _part(share: float) -> str:
    return f"{100 * share:.3g} %" if share >= 1e-4 or not share else "less than 0.01 %"


def _cut(name: str) -> str:
    return name if len(name) <= _LETTERS else f"{name[:5]}…{name[6 - _LETTERS :]}"


# --- sharing over time -------------------------------------------------------------------------------------


class Moment(NamedTuple):
    """How pages were shared in a part of the run."""

    #: Since the rank's start (s).
    begin: float
    #: Since the rank's start (s).
    end: float
    #: How threads share touched pages → pages.
    pages: dict[Sharing, int]


def moments(intervals: Iterable[SharingInterval], structure: str = "") -> list[Moment]:
    """The intervals of a structure, or of all together."""
    moments_by_time: dict[tuple[float, float], Counter[Sharing]] = {}
    for interval in intervals:
        if structure in ("", interval.structure):
            moments_by_time.setdefault((interval.begin, interval.end), Counter()).update(interval.sharing)
    return [Moment(*when, dict(pages)) for when, pages in sorted(moments_by_time.items())]


def sharing_chart(moments: Sequence[Moment], seconds: float, ident: str, title: str, height: int) -> Chart:
    """Pages by sharing, one kind above the other, over the seconds of the run. Raises ValueError where there
    is none."""
    if not moments:
        raise ValueError("no intervals")
    most = max(sum(moment.pages.values()) for moment in moments)
    floors = [0.0] * len(moments)
    traces = []

    def edge(heights: Sequence[float]) -> list[tuple[float, float]]:
        return [
            (at, y) for moment, y in zip(moments, heights, strict=True) for at in (moment.begin, moment.end)
        ]

    for kind, colour in SHARING_COLOURS.items():
        heights = [floor + moment.pages.get(kind, 0) for floor, moment in zip(floors, moments, strict=True)]
        if heights != floors:
            band = (*edge(heights), *reversed(edge(floors)))
            traces.append(Trace(kind, colour, bands=(band,), solid=True))
        floors = heights
    sums: Counter[Sharing] = Counter()
    for moment in moments:
        sums.update(moment.pages)
    whole = sum(sums.values()) or 1
    texts = ", ".join(f"{_part(sums[kind] / whole)} {kind}" for kind in SHARING_COLOURS if sums[kind])
    high = max(1.05 * most, 1.0)
    return Chart(
        ident,
        title,
        f"Of the pages touched in an interval: {texts}.",
        Axis("seconds since the begin", 0, seconds, False, _ticks(seconds, "s", 9)),
        Axis("touched pages", 0, high, False, _ticks(high, "", height // 40)),
        tuple(traces),
        height,
    )


def _ticks(high: float, unit: str, most: int) -> tuple[Tick, ...]:
    values = [value for value in linear_ticks(0, high, most) if unit or value == int(value)]
    return tuple(Tick(value, format_quantity(value, unit, 3)) for value in values)
