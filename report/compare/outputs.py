"""A comparison as table, Markdown, CSV and JSON. docs/compare.md describes the keys of the last two."""

from __future__ import annotations

import csv
import io
import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

from npc.units import format_quantity, format_size
from report.compare.pairs import FALSE_DISCOVERY, Comparison, Half, Pair, enough_runs, params_text

if TYPE_CHECKING:
    from rich.table import Table

SCHEMA: Final = 1
_DIGITS: Final = 3
_COLOURS: Final = {"worse": "red", "better": "green", "different": "yellow"}
_HEADER: Final = (
    "verdict",
    "test",
    "size",
    "nodes",
    "median of A",
    "median of B",
    "B/A",
    "95 % interval",
    "n",
)
CSV_COLUMNS: Final = (
    "a", "b", "verdict", "test", "metric", "unit", "size", "nodes", "params", "median_a", "median_b", "ratio",
    "low", "high", "p", "adjusted", "launches_a", "launches_b", "runs_a", "runs_b", "reason",
)  # fmt: skip


def to_document(comparisons: Sequence[Comparison], by: str) -> dict[str, Any]:
    """What ``--json`` prints."""
    return {
        "schema": SCHEMA,
        "by": by or None,
        "comparisons": [
            {
                "a": each.a,
                "b": each.b,
                "runs": {"a": each.runs[0], "b": each.runs[1]},
                "unused": {"a": each.unused[0], "b": each.unused[1]},
                "noise": {"a": asdict(each.noise_a), "b": asdict(each.noise_b)},
                "counts": dict(Counter(pair.verdict for pair in each.pairs)),
                "pairs": [asdict(pair) for pair in each.pairs],
            }
            for each in comparisons
        ],
    }


def to_json(comparisons: Sequence[Comparison], by: str) -> str:
    """`to_document` as text."""
    return json.dumps(to_document(comparisons, by), indent=1)


def to_csv(comparisons: Sequence[Comparison]) -> str:
    """One row a pair, SI units, empty cells where there is no value."""
    stream = io.StringIO()
    writer = csv.DictWriter(stream, CSV_COLUMNS, lineterminator="\n", extrasaction="ignore")
    writer.writeheader()
    for comparison in comparisons:
        for pair in comparison.pairs:
            row = asdict(pair) | {"a": comparison.a, "b": comparison.b, "params": json.dumps(pair.params)}
            for side, half in (("a", pair.a), ("b", pair.b)):
                if half is not None:
                    row |= {
                        f"median_{side}": half.median,
                        f"launches_{side}": half.launches,
                        f"runs_{side}": half.runs,
                    }
            writer.writerow({name: "" if row.get(name) is None else row[name] for name in CSV_COLUMNS})
    return stream.getvalue()


def to_markdown(comparison: Comparison, everything: bool) -> str:
    """For an issue, a wiki, a mail."""
    rows = [_cells(pair) for pair in _shown(comparison, everything)]
    parts = [f"### {comparison.b} against {comparison.a}", headline(comparison)]
    if rows:
        lines = [_HEADER, tuple("---" for _ in _HEADER), *rows]
        cells = [[cell.replace("|", "\\|") for cell in line] for line in lines]
        parts.append("\n".join(f"| {' | '.join(line)} |" for line in cells))
    parts += [f"- {line}" for line in remarks(comparison, everything)]
    return "\n\n".join(parts[:3]) + "\n\n" + "\n".join(parts[3:])


def to_table(comparison: Comparison, everything: bool) -> Table | None:
    """A rich table of the pairs worth showing; None where there are none."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    pairs = _shown(comparison, everything)
    if not pairs:
        return None
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for place, title in enumerate(_HEADER):
        table.add_column(title, justify="left" if place in (0, 1) else "right", overflow="fold")
    for pair in pairs:
        style = _COLOURS.get(pair.verdict, "")
        table.add_row(*(Text(cell, style=style) for cell in _cells(pair)))
    return table


def _shown(comparison: Comparison, everything: bool) -> list[Pair]:
    chosen = comparison.of("better", "worse", "different")
    return [*chosen, *comparison.of("same", "not comparable")] if everything else chosen


def _cells(pair: Pair) -> tuple[str, ...]:
    params = params_text(pair.params)
    return (
        pair.verdict,
        f"{pair.test} {pair.metric}{f' ({params})' if params else ''}",
        "" if pair.size is None else format_size(pair.size),
        str(pair.nodes),
        _median(pair.a, pair.unit),
        _median(pair.b, pair.unit),
        "" if pair.ratio is None else _ratio(pair.ratio),
        _interval(pair) or pair.reason,
        _launches(pair),
    )


def _median(half: Half | None, unit: str) -> str:
    return "" if half is None else format_quantity(half.median, unit, _DIGITS)


def _ratio(ratio: float) -> str:
    return f"{ratio:.3f}" if ratio < 10 else f"{ratio:.3g}"


def _interval(pair: Pair) -> str:
    return "" if pair.low is None or pair.high is None else f"[{_ratio(pair.low)}, {_ratio(pair.high)}]"


def _launches(pair: Pair) -> str:
    return "/".join("–" if half is None else str(half.launches) for half in (pair.a, pair.b))


def headline(comparison: Comparison) -> str:
    """The comparison in a sentence."""
    counts = Counter[str](pair.verdict for pair in comparison.pairs)
    words = [
        f"{counts[verdict]} {verdict}"
        for verdict in ("worse", "better", "different", "same", "not comparable")
        if counts[verdict]
    ]
    return f"B = {comparison.b} against A = {comparison.a}: {', '.join(words) or 'no series at all'}."


def remarks(comparison: Comparison, everything: bool = False) -> list[str]:
    """What to know of the rows that are shown, and of those that are not."""
    found = []
    same = comparison.of("same")
    if same and not everything:
        widest = max(same, key=lambda pair: (pair.high or 1) / (pair.low or 1))
        found.append(
            f"{len(same)} series are the same: launches, drift and runs explain what differs "
            f"(widest interval: {widest.test} {_interval(widest)})."
        )
    apart = comparison.of("not comparable")
    if apart and not everything:
        reasons = Counter(pair.reason for pair in apart).most_common()
        told = [f"{count} × {reason}" for reason, count in reasons[:4]]
        rest = sum(count for _, count in reasons[4:])
        found.append(f"Not comparable: {'; '.join(told)}{f'; {rest} others' if rest else ''}.")
    if enough_runs(comparison):
        found.append("The medians of runs were compared: a run is the unit of repetition.")
    elif same or comparison.of("better", "worse", "different"):
        few = "One run a side cannot show" if comparison.runs == (1, 1) else "So few runs hardly show"
        between = max(comparison.noise_a.run_to_run, comparison.noise_b.run_to_run)
        found.append(
            f"{few} how runs of one machine differ: {between:.1%} is in the intervals for that "
            "(--run-to-run); four runs a side or more need no such figure."
        )
    drift = max(comparison.noise_a.drift, comparison.noise_b.drift)
    if drift > 1.5:
        found.append(
            f"A run drifted while it measured: {drift:.1f} launches count as one, so intervals are wider."
        )
    for name, unused in zip((comparison.a, comparison.b), comparison.unused, strict=True):
        if unused:
            found.append(f"{unused} records of {name} are not ok and were not used (npc check).")
    if comparison.of("better", "worse", "different"):
        found.append(
            f"Of the differences called, {FALSE_DISCOVERY:.0%} at most may be wrong (Benjamini, Hochberg)."
        )
    return found
