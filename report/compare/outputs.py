"""A comparison as table, Markdown, CSV and JSON. docs/compare.md describes the keys of the last two."""

from __future__ import annotations

import csv
import io
import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from typing import Final

import click

from npc.columns import columns, sentences
from npc.page.blocks import Cell, Table
from npc.report.compare.comparison import Comparison
from npc.report.compare.remarks import headline, remarks
from npc.report.compare.table import facts_table, series_table
from npc.terminal import styled

SCHEMA: Final = 2
#: What a comparison has of A and of B.
_OF_SIDES: Final = ("runs", "unused", "disturbed", "drift", "earlier")
_COLOURS: Final = {"worse": "red", "better": "green", "different": "yellow"}
CSV_COLUMNS: Final = (
    "a", "b", "verdict", "test", "metric", "unit", "size", "nodes", "params", "median_a", "median_b", "ratio",
    "low", "high", "p", "adjusted", "launches_a", "launches_b", "runs_a", "runs_b", "reason",
    "size_a", "size_b", "disturbed_a", "disturbed_b", "run_to_run",
)  # fmt: skip


def to_json(comparisons: Sequence[Comparison], by: str) -> str:
    """Everything, with the keys that docs/compare.md describes."""
    document = {
        "schema": SCHEMA,
        "by": by or None,
        "comparisons": [
            {
                "a": comparison.a,
                "b": comparison.b,
                **{name: dict(zip("ab", getattr(comparison, name), strict=True)) for name in _OF_SIDES},
                "environment": None
                if comparison.environment is None
                else [fact._asdict() for fact in comparison.environment],
                "counts": dict(Counter(series.verdict for series in comparison.series)),
                "pairs": [asdict(series) for series in comparison.series],
            }
            for comparison in comparisons
        ],
    }
    return json.dumps(document, indent=1)


def to_csv(comparisons: Sequence[Comparison]) -> str:
    """One row a series, SI units, empty cells where there is no value."""
    stream = io.StringIO()
    writer = csv.DictWriter(stream, CSV_COLUMNS, lineterminator="\n", extrasaction="ignore")
    writer.writeheader()
    for comparison in comparisons:
        for series in comparison.series:
            row = asdict(series) | {"a": comparison.a, "b": comparison.b, "params": json.dumps(series.params)}
            for letter, side in (("a", series.a), ("b", series.b)):
                if side is not None:
                    row |= {f"{name}_{letter}": value for name, value in asdict(side).items()}
            writer.writerow({name: "" if row.get(name) is None else row[name] for name in CSV_COLUMNS})
    return stream.getvalue()


def to_markdown(comparison: Comparison, everything: bool) -> str:
    """For an issue, a wiki, a mail."""
    parts = (
        f"### {comparison.b} against {comparison.a}",
        headline(comparison),
        _markdown_table(series_table(comparison, everything)),
        "\n".join(f"- {line}" for line in remarks(comparison, everything)),
        _markdown_table(facts_table(comparison)),
    )
    return "\n\n".join(filter(None, parts))


def _markdown_table(table: Table) -> str:
    header, *rows = table.texts()
    lines = [header, ["---"] * len(header), *rows] if rows else []
    cells = [[cell.replace("|", "\\|") for cell in line] for line in lines]
    return "\n".join(f"| {' | '.join(line)} |" for line in cells)


def show(comparison: Comparison, everything: bool) -> None:
    """For the terminal."""
    click.echo(sentences(headline(comparison)))
    _print_table(series_table(comparison, everything))
    for line in remarks(comparison, everything):
        click.echo(sentences(line))
    _print_table(facts_table(comparison))


def _print_table(table: Table) -> None:
    if not table.rows:
        return
    numbers = {place for place, cells in enumerate(zip(*table.rows, strict=True)) if _are_numbers(cells)}
    heading, *lines = columns(table.texts(), keep_empty=False, right=numbers)
    click.echo(styled(f"\n{heading}", bold=True))
    for row, line in zip(table.rows, lines, strict=True):
        click.echo(styled(line, _COLOURS.get(row[0].text, "")))
    click.echo()


def _are_numbers(cells: Sequence[Cell]) -> bool:
    return all("number" in cell.kind for cell in cells)
