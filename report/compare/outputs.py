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
from npc.records.units import format_quantity, format_size, plural
from npc.report.compare.difference import ENOUGH_RUNS, LEAST_FREEDOM
from npc.report.compare.pairs import FALSE_DISCOVERY, Comparison, Pair
from npc.terminal import styled

T = TypeVar("T")
Row = tuple[str, ...]

SCHEMA: Final = 2
_DIGITS: Final = 3
#: What a comparison has of A and of B.
_OF_SIDES: Final = ("runs", "unused", "disturbed", "drift", "earlier")
_COLOURS: Final = {"worse": "red", "better": "green", "different": "yellow"}
_HEADER: Final = (
    "verdict", "test", "size", "A", "B", "B/A", "95 % interval", "n", "why",
)  # fmt: skip
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
            for side, half in (("a", pair.a), ("b", pair.b)):
                if half is not None:
                    row |= {f"{name}_{side}": value for name, value in asdict(half).items()}
            writer.writerow({name: "" if row.get(name) is None else row[name] for name in CSV_COLUMNS})
    return stream.getvalue()


def to_markdown(comparison: Comparison, everything: bool) -> str:
    """For an issue, a wiki, a mail."""
    pairs, facts = (
        _markdown_table(header, rows) for header, rows in (_pairs(comparison, everything), _facts(comparison))
    )
    parts = (
        f"### {comparison.b} against {comparison.a}",
        headline(comparison),
        pairs,
        "\n".join(f"- {line}" for line in remarks(comparison, everything)),
        facts,
    )
    return "\n\n".join(filter(None, parts))


def _markdown_table(header: Row, rows: Sequence[Row]) -> str:
    lines = [header, ["---"] * len(header), *rows] if rows else []
    cells = [[cell.replace("|", "\\|") for cell in line] for line in lines]
    return "\n".join(f"| {' | '.join(line)} |" for line in cells)


def show(comparison: Comparison, everything: bool) -> None:
    """For the terminal."""
    click.echo(sentences(headline(comparison)))
    _print_table(*_pairs(comparison, everything))
    for line in remarks(comparison, everything):
        click.echo(sentences(line))
    _print_table(*_facts(comparison))


def _print_table(header: Row, rows: Sequence[Row]) -> None:
    if not rows:
        return
    numbers = {at for at, title in enumerate(header) if title in _HEADER[2:-1]}
    heading, *lines = columns([header, *rows], keep_empty=False, right=numbers)
    click.echo(styled(f"\n{heading}", bold=True))
    for row, line in zip(rows, lines, strict=True):
        click.echo(styled(line, fg=_COLOURS.get(row[0])))
    click.echo()


def _facts(comparison: Comparison) -> tuple[Row, list[Row]]:
    """What the environments differ in."""
    header = ("environments differ in", f"A = {comparison.a}", f"B = {comparison.b}")
    facts = comparison.environment or ()
    return header, [(fact.what, " | ".join(fact.a), " | ".join(fact.b)) for fact in facts]


def _pairs(comparison: Comparison, everything: bool) -> tuple[Row, list[Row]]:
    """The pairs worth showing."""
    chosen = comparison.of("better", "worse", "different")
    rest = comparison.of("same", "not comparable") if everything else []
    return _HEADER, [cells(pair) for pair in (*chosen, *rest)]


def cells(pair: Pair) -> Row:
    """The row of a pair, for people."""
    of_test = [plural(pair.nodes, "node")] if pair.nodes != 1 else []
    of_test += [f"{name} {value}" for name, value in sorted(pair.params.items())]
    return (
        pair.verdict,
        f"{pair.test} {pair.metric}" + (f" ({', '.join(of_test)})" if of_test else ""),
        _sizes(pair),
        *(
            "" if half is None else format_quantity(half.median, pair.unit, _DIGITS)
            for half in (pair.a, pair.b)
        ),
        "" if pair.ratio is None else _ratio(pair.ratio),
        _interval(pair),
        _launches(pair),
        pair.reason,
    )


def _launches(pair: Pair) -> str:
    """How many, of A and of B, and how many disturbed ones were left out."""
    halves = pair.a, pair.b
    counts = "/".join("–" if half is None else str(half.launches) for half in halves)
    left_out = "/".join("–" if half is None else str(half.disturbed) for half in halves)
    return f"{counts}, {left_out} disturbed" if any(half and half.disturbed for half in halves) else counts


def _sizes(pair: Pair) -> str:
    """The size, or those of the two halves where these differ."""
    halves = [half.size for half in (pair.a, pair.b) if half]
    sizes = halves if pair.size is None else [pair.size]
    return "/".join(format_size(size) for size in sizes if size is not None)


def _ratio(ratio: float) -> str:
    return f"{ratio:.3f}" if ratio < 10 else f"{ratio:.3g}"


def _interval(pair: Pair) -> str:
    return "" if pair.low is None or pair.high is None else f"[{_ratio(pair.low)}, {_ratio(pair.high)}]"


def headline(comparison: Comparison) -> str:
    """The comparison in a sentence."""
    counts = Counter((pair.verdict, pair.reason) for pair in comparison.pairs)
    words = []
    for verdict in ("worse", "better", "different", "same", "not comparable"):
        of_verdict = {reason: number for (each, reason), number in counts.items() if each == verdict}
        if verdict == "different":
            words += [_differ(number, reason) for reason, number in of_verdict.items()]
        elif of_verdict:
            words.append(f"{sum(of_verdict.values())} {verdict}")
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
