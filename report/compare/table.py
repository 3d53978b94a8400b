"""The tables of a comparison: its series, and what the environments differ in; for terminal and page."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from npc.page.blocks import NOTHING, Cell, Column, Table
from npc.records.units import between, format_quantity, format_size, plural
from npc.report.compare.compared_series import ComparedSeries, ComparedSide
from npc.report.compare.comparison import Comparison
from npc.report.compare.environments import EnvironmentDifference

_DIGITS: Final = 3
#: Classes of the style sheet.
_KINDS: Final = {"worse": "bad", "better": "good", "different": "note"}


def facts_table(comparison: Comparison) -> Table:
    """What the environments differ in."""
    facts: list[Column[EnvironmentDifference]] = [
        Column("environments differ in", lambda fact: fact.what),
        Column(f"A = {comparison.a}", lambda fact: " | ".join(fact.a)),
        Column(f"B = {comparison.b}", lambda fact: " | ".join(fact.b)),
    ]
    return Table.of("", comparison.environment or (), facts)


def series_table(comparison: Comparison, everything: bool) -> Table:
    """The series worth showing; all of them with `everything`."""
    chosen = comparison.of("better", "worse", "different")
    rest = comparison.of("same", "not comparable") if everything else []
    return Table.of("", (*chosen, *rest), COLUMNS)


def series_columns(
    a: Column[ComparedSeries], b: Column[ComparedSeries], *, ratio: str, launches: str
) -> list[Column[ComparedSeries]]:
    """What is told of a series, on terminal and page. a, b: the columns of the sides' medians. ratio,
    launches: what these columns are called."""
    return [
        Column("verdict", lambda series: Cell(series.verdict, kind=_KINDS.get(series.verdict, ""))),
        Column("test", _test),
        Column("size", lambda series: Cell(sizes_text(series), sort=series.size or 0, kind="number")),
        a,
        b,
        Column(ratio, lambda series: Cell(_ratio(series.ratio), sort=series.ratio or "", kind="number")),
        Column("95 % interval", lambda series: Cell(interval_text(series), kind="number")),
        Column(launches, lambda series: Cell(_launches(series), kind="number")),
        Column("why", lambda series: series.reason),
    ]


def _median(side: ComparedSide | None, unit: str) -> Cell:
    return NOTHING if side is None else Cell(format_quantity(side.median, unit, _DIGITS), kind="number")


def _test(series: ComparedSeries) -> str:
    """The test and its metric, with what else tells it from others."""
    of_test = [plural(series.nodes, "node")] if series.nodes != 1 else []
    of_test += [f"{name} {value}" for name, value in sorted(series.params.items())]
    return f"{series.test} {series.metric}" + (f" ({', '.join(of_test)})" if of_test else "")


def _launches(series: ComparedSeries) -> str:
    """How many, of A and of B, and how many disturbed ones were left out."""
    sides = series.a, series.b
    counts = "/".join("–" if side is None else str(side.launches) for side in sides)
    left_out = "/".join("–" if side is None else str(side.disturbed) for side in sides)
    return f"{counts}, {left_out} disturbed" if any(side and side.disturbed for side in sides) else counts


def sizes_text(series: ComparedSeries) -> str:
    """The size, or those of the two sides where these differ."""
    of_sides = [side.size for side in (series.a, series.b) if side]
    sizes = of_sides if series.size is None else [series.size]
    return "/".join(format_size(size) for size in sizes if size is not None)


def _ratio(ratio: float | None) -> str:
    if ratio is None:
        return ""
    return f"{ratio:.3f}" if ratio < 10 else f"{ratio:.3g}"


def interval_text(series: ComparedSeries) -> str:
    return between(series.low, series.high, _ratio, "[{}, {}]")


#: Those of the terminal.
COLUMNS: Final[Sequence[Column[ComparedSeries]]] = series_columns(
    Column("A", lambda series: _median(series.a, series.unit)),
    Column("B", lambda series: _median(series.b, series.unit)),
    ratio="B/A",
    launches="n",
)
