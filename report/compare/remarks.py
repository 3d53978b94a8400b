"""A comparison in sentences: how many series are better or worse, and what to know of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from statistics import median
from typing import TypeVar

from npc.records.units import plural
from npc.report.compare.comparison import FALSE_DISCOVERY, Comparison
from npc.report.compare.difference import ENOUGH_RUNS, LEAST_FREEDOM
from npc.report.compare.table import interval_text, sizes_text

T = TypeVar("T")


def headline(comparison: Comparison) -> str:
    """The comparison in a sentence."""
    counts = Counter((series.verdict, series.reason) for series in comparison.series)
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
    """What to know of the rows that are shown, and of those that are not; all are with `everything`."""
    return [
        *([] if everything else _not_shown(comparison)),
        *_sizes_and_circumstances(comparison),
        *_runs(comparison),
        *_records(comparison),
        *_chance(comparison),
    ]


def _not_shown(comparison: Comparison) -> Iterator[str]:
    """What is the same, and what cannot be compared."""
    same = comparison.of("same")
    if same:
        widest = max(same, key=lambda series: (series.high or 1) / (series.low or 1))
        runs_known = all(series.run_to_run is not None for series in same)
        yield (
            f"{len(same)} series {'is' if len(same) == 1 else 'are'} the same: "
            f"launches{', drift and runs' if runs_known else ''} explain what differs "
            f"(widest interval: {widest.test} {interval_text(widest)})."
        )
    reasons = Counter((series.reason, series.ignore) for series in comparison.of("not comparable"))
    if reasons:
        words = _most_frequent(reasons, lambda number, why: f"{number} × {why[0]}{_hint(why[1])}")
        yield f"Not comparable: {words}."


def _sizes_and_circumstances(comparison: Comparison) -> Iterator[str]:
    """In what the sides of a series are not the same."""
    near = [
        series
        for series in comparison.series
        if series.size is None and series.a and series.b and series.a.size != series.b.size
    ]
    if near:
        examples = ", ".join(f"{series.test} {sizes_text(series)}" for series in near[:3])
        yield (
            f"{plural(len(near), 'pair')} {'is' if len(near) == 1 else 'are'} of the nearest sizes, not of "
            f"one ({examples}{', …' if len(near) > 3 else ''}): part of what differs there is the size."
        )
    differing = Counter(
        (name, *texts) for series in comparison.series for name, texts in series.circumstances.items()
    )
    if differing:
        words = _most_frequent(
            differing,
            lambda number, texts: f"{plural(number, 'pair')} with {texts[0]} {texts[1] or 'not told'} in A, "
            f"{texts[2] or 'not told'} in B",
        )
        yield f"Measured in other circumstances: {words}."


def _runs(comparison: Comparison) -> Iterator[str]:
    """What is known of how runs of the machine differ, and of drift within them."""
    yield from _run_to_run(comparison)
    drift = max(comparison.drift)
    if drift > 1.5:
        yield f"A run drifted while it measured: {drift:.1f} launches count as one, so intervals are wider."


def _run_to_run(comparison: Comparison) -> Iterator[str]:
    """What is known of how runs of the machine differ, which launches cannot show."""
    if min(comparison.runs) >= ENOUGH_RUNS:
        yield "The medians of runs were compared: a run is the unit of repetition."
        return
    compared = comparison.of("better", "worse", "different", "same")
    known = sorted(series.run_to_run for series in compared if series.run_to_run is not None)
    unknown = [series for series in compared if series.run_to_run is None]
    if known:
        yield (
            f"How runs of this machine differ is in the intervals of {len(known)} series: "
            f"{median(known):.1%} as their median, {known[-1]:.1%} at most (standard deviation)"
            f"{f', by {_counted(comparison.earlier)}' if any(comparison.earlier) else ''}."
        )
    if unknown:
        differ = sum(series.verdict == "different" for series in unknown)
        if differ > 1:
            consequence = f"so none of the {differ} that differ is called better or worse"
        elif differ:
            consequence = "so what differs is not called better or worse"
        else:
            consequence = "so the intervals are of these runs only"
        yield (
            f"How runs of this machine differ is not known for {len(unknown)} series, {consequence}. It "
            f"takes four runs a side, or {LEAST_FREEDOM + 1} earlier runs beside these or in the platform's "
            f"history (there are {_counted(comparison.earlier)}), or --run-to-run."
        )


def _records(comparison: Comparison) -> Iterator[str]:
    """Records that were not used, and what is not known of the machine."""
    for name, unused in zip((comparison.a, comparison.b), comparison.unused, strict=True):
        if unused:
            are, were = ("is", "was") if unused == 1 else ("are", "were")
            yield f"{plural(unused, 'record')} of {name} {are} not ok and {were} not used (npc check)."
    if comparison.environment is None:
        yield (
            "Whether machine and software are the same is not known: no environment.json lies with the "
            "records of one side at least."
        )
    sides = (side for series in comparison.series for side in (series.a, series.b))
    left_out = any(side and side.disturbed for side in sides)
    for name, disturbed in zip((comparison.a, comparison.b), comparison.disturbed, strict=True):
        if disturbed:
            how = "left out" if left_out else "used nevertheless (--ignore disturbed)"
            yield f"Disturbed in {name}, and {how}: {disturbed} (npc check says by whom)."


def _chance(comparison: Comparison) -> Iterator[str]:
    """How many of the differences may be chance."""
    called = [series for series in comparison.of("better", "worse", "different") if not series.reason]
    if called:
        tools = sorted({series.test.split(" ")[0] for series in called})
        yield (
            f"Where nothing changed, about {FALSE_DISCOVERY:.0%} of comparisons show a difference "
            "(Benjamini, Hochberg), and more where single runs are bad now and then. Sizes and kernels of "
            "one run go up and down together: what differs is of "
            f"{plural(len(tools), 'benchmark')} ({', '.join(tools)})."
        )


def _counted(earlier: tuple[int, int]) -> str:
    both = str(earlier[0]) if earlier[0] == earlier[1] else f"{earlier[0]} and {earlier[1]}"
    return f"{both} earlier run{'' if both == '1' else 's'}"


def _most_frequent(counts: Counter[T], words: Callable[[int, T], str]) -> str:
    """The four things that are most often, in words, and how many others there are."""
    texts = [words(number, thing) for thing, number in counts.most_common(4)]
    rest = counts.total() - sum(number for _, number in counts.most_common(4))
    return "; ".join([*texts, plural(rest, "other")] if rest else texts)


def _hint(ignore: Sequence[str]) -> str:
    """The options with which it would be compared."""
    return f" ({' '.join(f'--ignore {name}' for name in ignore)})" if ignore else ""
