"""A comparison as table, Markdown, CSV and JSON. docs/compare.md describes the keys of the last two."""

from __future__ import annotations

import csv
import io
import json
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict
from statistics import median
from typing import Final, TypeVar

import click

from npc.columns import columns, sentences
from npc.page.blocks import NOTHING, Cell, Column, Table
from npc.records.units import format_quantity, format_size, plural
from npc.report.compare.difference import ENOUGH_RUNS, LEAST_FREEDOM
from npc.report.compare.environments import EnvironmentDifference
from npc.report.compare.pairs import FALSE_DISCOVERY, ComparedSide, Comparison, Pair
from npc.terminal import styled

T = TypeVar("T")

SCHEMA: Final = 2
_DIGITS: Final = 3
#: What a comparison has of A and of B.
_OF_SIDES: Final = ("runs", "unused", "disturbed", "drift", "earlier")
_COLOURS: Final = {"worse": "red", "better": "green", "different": "yellow"}
#: Classes of the style sheet.
_KINDS: Final = {"worse": "bad", "better": "good", "different": "note"}
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
                "a": each.a,
                "b": each.b,
                **{name: dict(zip("ab", getattr(each, name), strict=True)) for name in _OF_SIDES},
                "environment": None
                if each.environment is None
                else [fact._asdict() for fact in each.environment],
                "counts": dict(Counter(pair.verdict for pair in each.pairs)),
                "pairs": [asdict(pair) for pair in each.pairs],
            }
            for each in comparisons
        ],
    }
    return json.dumps(document, indent=1)


def to_csv(comparisons: Sequence[Comparison]) -> str:
    """One row a pair, SI units, empty cells where there is no value."""
    stream = io.StringIO()
    writer = csv.DictWriter(stream, CSV_COLUMNS, lineterminator="\n", extrasaction="ignore")
    writer.writeheader()
    for comparison in comparisons:
        for pair in comparison.pairs:
            row = asdict(pair) | {"a": comparison.a, "b": comparison.b, "params": json.dumps(pair.params)}
            for letter, side in (("a", pair.a), ("b", pair.b)):
                if side is not None:
                    row |= {f"{name}_{letter}": value for name, value in asdict(side).items()}
            writer.writerow({name: "" if row.get(name) is None else row[name] for name in CSV_COLUMNS})
    return stream.getvalue()


def to_markdown(comparison: Comparison, everything: bool) -> str:
    """For an issue, a wiki, a mail."""
    parts = (
        f"### {comparison.b} against {comparison.a}",
        headline(comparison),
        _markdown_table(_pairs(comparison, everything)),
        "\n".join(f"- {line}" for line in remarks(comparison, everything)),
        _markdown_table(_facts(comparison)),
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
    _print_table(_pairs(comparison, everything))
    for line in remarks(comparison, everything):
        click.echo(sentences(line))
    _print_table(_facts(comparison))


def _print_table(table: Table) -> None:
    if not table.rows:
        return
    numbers = {place for place, cells in enumerate(zip(*table.rows, strict=True)) if _are_numbers(cells)}
    heading, *lines = columns(table.texts(), keep_empty=False, right=numbers)
    click.echo(styled(f"\n{heading}", bold=True))
    for row, line in zip(table.rows, lines, strict=True):
        click.echo(styled(line, fg=_COLOURS.get(row[0].text)))
    click.echo()


def _are_numbers(cells: Sequence[Cell]) -> bool:
    return all("number" in cell.kind for cell in cells)


def _facts(comparison: Comparison) -> Table:
    """What the environments differ in."""
    facts: list[Column[EnvironmentDifference]] = [
        Column("environments differ in", lambda fact: fact.what),
        Column(f"A = {comparison.a}", lambda fact: " | ".join(fact.a)),
        Column(f"B = {comparison.b}", lambda fact: " | ".join(fact.b)),
    ]
    return Table.of("", comparison.environment or (), facts)


def _pairs(comparison: Comparison, everything: bool) -> Table:
    """The pairs worth showing."""
    chosen = comparison.of("better", "worse", "different")
    rest = comparison.of("same", "not comparable") if everything else []
    return Table.of("", (*chosen, *rest), COLUMNS)


def pair_columns(a: Column[Pair], b: Column[Pair], *, ratio: str, launches: str) -> list[Column[Pair]]:
    """What is told of a pair, on terminal and page. a, b: the columns of the sides' medians. ratio, launches:
    what these columns are called."""
    return [
        Column("verdict", lambda pair: Cell(pair.verdict, kind=_KINDS.get(pair.verdict, ""))),
        Column("test", _test),
        Column("size", lambda pair: Cell(_sizes(pair), sort=pair.size or 0, kind="number")),
        a,
        b,
        Column(ratio, lambda pair: Cell(_ratio(pair.ratio), sort=pair.ratio or "", kind="number")),
        Column("95 % interval", lambda pair: Cell(_interval(pair), kind="number")),
        Column(launches, lambda pair: Cell(_launches(pair), kind="number")),
        Column("why", lambda pair: pair.reason),
    ]


def _median(side: ComparedSide | None, unit: str) -> Cell:
    return NOTHING if side is None else Cell(format_quantity(side.median, unit, _DIGITS), kind="number")


def _test(pair: Pair) -> str:
    """The test and its metric, with what else tells it from others."""
    of_test = [plural(pair.nodes, "node")] if pair.nodes != 1 else []
    of_test += [f"{name} {value}" for name, value in sorted(pair.params.items())]
    return f"{pair.test} {pair.metric}" + (f" ({', '.join(of_test)})" if of_test else "")


def _launches(pair: Pair) -> str:
    """How many, of A and of B, and how many disturbed ones were left out."""
    sides = pair.a, pair.b
    counts = "/".join("–" if side is None else str(side.launches) for side in sides)
    left_out = "/".join("–" if side is None else str(side.disturbed) for side in sides)
    return f"{counts}, {left_out} disturbed" if any(side and side.disturbed for side in sides) else counts


def _sizes(pair: Pair) -> str:
    """The size, or those of the two sides where these differ."""
    of_sides = [side.size for side in (pair.a, pair.b) if side]
    sizes = of_sides if pair.size is None else [pair.size]
    return "/".join(format_size(size) for size in sizes if size is not None)


def _ratio(ratio: float | None) -> str:
    if ratio is None:
        return ""
    return f"{ratio:.3f}" if ratio < 10 else f"{ratio:.3g}"


def _interval(pair: Pair) -> str:
    return "" if pair.low is None or pair.high is None else f"[{_ratio(pair.low)}, {_ratio(pair.high)}]"


#: Those of the terminal.
COLUMNS: Final[Sequence[Column[Pair]]] = pair_columns(
    Column("A", lambda pair: _median(pair.a, pair.unit)),
    Column("B", lambda pair: _median(pair.b, pair.unit)),
    ratio="B/A",
    launches="n",
)


def headline(comparison: Comparison) -> str:
    """The comparison in a sentence."""
    counts = Counter((pair.verdict, pair.reason) for pair in comparison.pairs)
    words = []
    for verdict in ("worse", "better", "different", "same", "not comparable"):
        reasons = {reason: number for (name, reason), number in counts.items() if name == verdict}
        if verdict == "different":
            words += [_differ(number, reason) for reason, number in reasons.items()]
        elif reasons:
            words.append(f"{sum(reasons.values())} {verdict}")
    return f"B = {comparison.b} against A = {comparison.a}: {', '.join(words) or 'no series at all'}."


def _differ(number: int, reason: str) -> str:
    """``4 differ between two single runs``."""
    return f"{number} {'differs' if number == 1 else 'differ'} {reason}" if reason else f"{number} different"


def remarks(comparison: Comparison, everything: bool = False) -> list[str]:
    """What to know of the rows that are shown, and of those that are not."""
    found = []
    same = comparison.of("same")
    if same and not everything:
        widest = max(same, key=lambda pair: (pair.high or 1) / (pair.low or 1))
        found.append(
            f"{len(same)} series {'is' if len(same) == 1 else 'are'} the same: "
            f"launches{'' if any(pair.run_to_run is None for pair in same) else ', drift and runs'} explain "
            f"what differs "
            f"(widest interval: {widest.test} {_interval(widest)})."
        )
    apart = Counter((pair.reason, pair.ignore) for pair in comparison.of("not comparable"))
    if apart and not everything:
        told = _most(apart, lambda number, why: f"{number} × {why[0]}{_hint(why[1])}")
        found.append(f"Not comparable: {told}.")
    other_sizes = (pair for pair in comparison.pairs if pair.a and pair.b and pair.a.size != pair.b.size)
    near = [pair for pair in other_sizes if pair.size is None]  # with a size the two are one
    if near:
        some = ", ".join(f"{pair.test} {_sizes(pair)}" for pair in near[:3])
        found.append(
            f"{plural(len(near), 'pair')} {'is' if len(near) == 1 else 'are'} of the nearest sizes, not of "
            f"one ({some}{', …' if len(near) > 3 else ''}): part of what differs there is the size."
        )
    differing = Counter(
        (name, *texts) for pair in comparison.pairs for name, texts in pair.circumstances.items()
    )
    if differing:
        told = _most(
            differing,
            lambda number, each: f"{plural(number, 'pair')} with {each[0]} {each[1] or 'not told'} in A, "
            f"{each[2] or 'not told'} in B",
        )
        found.append(f"Measured in other circumstances: {told}.")
    found += _about_runs(comparison)
    drift = max(comparison.drift)
    if drift > 1.5:
        found.append(
            f"A run drifted while it measured: {drift:.1f} launches count as one, so intervals are wider."
        )
    for name, unused in zip((comparison.a, comparison.b), comparison.unused, strict=True):
        if unused:
            are, were = ("is", "was") if unused == 1 else ("are", "were")
            found.append(
                f"{plural(unused, 'record')} of {name} {are} not ok and {were} not used (npc check)."
            )
    if comparison.environment is None:
        found.append(
            "Whether machine and software are the same is not known: no environment.json lies with the "
            "records of one side at least."
        )
    left_out = any(half and half.disturbed for pair in comparison.pairs for half in (pair.a, pair.b))
    for name, disturbed in zip((comparison.a, comparison.b), comparison.disturbed, strict=True):
        if disturbed:
            how = "left out" if left_out else "used nevertheless (--ignore disturbed)"
            found.append(f"Disturbed in {name}, and {how}: {disturbed} (npc check says by whom).")
    called = [pair for pair in comparison.of("better", "worse", "different") if not pair.reason]
    if called:
        tools = sorted({pair.test.split(" ")[0] for pair in called})
        found.append(
            f"Where nothing changed, about {FALSE_DISCOVERY:.0%} of comparisons show a difference "
            "(Benjamini, Hochberg), and more where single runs are bad now and then. Sizes and kernels of "
            "one run go up and down together: what differs is of "
            f"{plural(len(tools), 'benchmark')} ({', '.join(tools)})."
        )
    return found


def _about_runs(comparison: Comparison) -> list[str]:
    """What is known of how runs of the machine differ, which launches cannot show."""
    if min(comparison.runs) >= ENOUGH_RUNS:
        return ["The medians of runs were compared: a run is the unit of repetition."]
    compared = comparison.of("better", "worse", "different", "same")
    known = sorted(pair.run_to_run for pair in compared if pair.run_to_run is not None)
    unknown = [pair for pair in compared if pair.run_to_run is None]
    found = []
    if known:
        found.append(
            f"How runs of this machine differ is in the intervals of {len(known)} series: "
            f"{median(known):.1%} as their median, {known[-1]:.1%} at most (standard deviation)"
            f"{f', by {_counted(comparison.earlier)}' if any(comparison.earlier) else ''}."
        )
    if unknown:
        differ = sum(pair.verdict == "different" for pair in unknown)
        none = (
            f"so none of the {differ} that differ is called better or worse"
            if differ > 1
            else (
                "so what differs is not called better or worse"
                if differ
                else "so the intervals are of these runs only"
            )
        )
        found.append(
            f"How runs of this machine differ is not known for {len(unknown)} series, {none}. It takes four "
            f"runs a side, or {LEAST_FREEDOM + 1} earlier runs beside these or in the platform's history "
            f"(there are {_counted(comparison.earlier)}), or --run-to-run."
        )
    return found


def _counted(earlier: tuple[int, int]) -> str:
    both = str(earlier[0]) if earlier[0] == earlier[1] else f"{earlier[0]} and {earlier[1]}"
    return f"{both} earlier run{'' if both == '1' else 's'}"


def _most(counts: Counter[T], words: Callable[[int, T], str]) -> str:
    """The four things that are most often, in words, and how many others there are."""
    told = [words(number, each) for each, number in counts.most_common(4)]
    rest = counts.total() - sum(number for _, number in counts.most_common(4))
    return "; ".join([*told, plural(rest, "other")] if rest else told)


def _hint(ignore: Sequence[str]) -> str:
    """The options that would make a pair of it."""
    return f" ({' '.join(f'--ignore {name}' for name in ignore)})" if ignore else ""
