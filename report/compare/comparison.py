"""Two sides compared: what is better, worse or the same in B, beyond chance."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Final, NamedTuple

from npc.records.series import DISTURBED
from npc.records.units import METRICS
from npc.report.compare.compared_series import Change, ComparedSeries, ComparedSide, direction
from npc.report.compare.difference import (
    LEAST_LAUNCHES,
    LaunchValue,
    RunNoise,
    RunSpread,
    compare_samples,
    design_effect,
    run_medians,
    spread_of_runs,
)
from npc.report.compare.environments import EnvironmentDifference, environments_differ
from npc.report.compare.matching import (
    ALIKE,
    Choice,
    SeriesKey,
    SideSeries,
    matched,
    most_apart,
    series_of,
    size_ratio,
    unusable,
    why_alone,
    why_several,
)
from npc.report.compare.sides import Side
from npc.statistics.medians import false_discovery
from npc.validity.disturbance import in_words

#: Expected share of wrong ones among the differences that are called (Benjamini, Hochberg).
FALSE_DISCOVERY: Final = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """All series of two sides, what matters first."""

    #: Name of the first side.
    a: str
    #: Name of the second side.
    b: str
    #: What was measured on either side, what matters first.
    series: tuple[ComparedSeries, ...]
    #: How many launches that follow each other count as one, for each side; 1 is no drift.
    drift: tuple[float, float]
    #: How many runs each side has.
    runs: tuple[int, int]
    #: How many other runs of each side's platform were there to say how its runs differ.
    earlier: tuple[int, int]
    #: How many records of each side were not ``ok``.
    unused: tuple[int, int]
    #: What is to be said of disturbed records of each side, in words; empty for nothing.
    disturbed: tuple[str, str]
    #: What the runs' environments differ in; None where they are not known.
    environment: tuple[EnvironmentDifference, ...] | None = None

    def of(self, *verdicts: Change) -> list[ComparedSeries]:
        """Series of some verdicts, in order."""
        return [series for series in self.series if series.verdict in verdicts]


class _Comparable(NamedTuple):
    """Two series that can be compared."""

    #: Where it is among all series of the comparison, from 0.
    place: int
    #: What A measured.
    a: SideSeries
    #: What B measured.
    b: SideSeries
    #: How runs of the machine differ on either side; None where nothing says it.
    spreads: Sequence[RunSpread | None]


def compare_sides(a: Side, b: Side, choice: Choice, earlier: Mapping[str, Side] | None = None) -> Comparison:
    """All series of two sides, each beside its counterpart and judged.

    earlier: platform → other runs of it (`npc.report.compare.earlier`), which say how its runs differ.
    """
    series_a, series_b = series_of(a, choice), series_of(b, choice)
    unusable_a, unusable_b = unusable(a, choice), unusable(b, choice)
    past = {platform: series_of(side, choice) for platform, side in (earlier or {}).items()}
    names = a.name, b.name
    compared: list[ComparedSeries] = []
    comparable: list[_Comparable] = []
    for key_a, key_b in matched(series_a, series_b, most_apart(choice)):
        key = key_a or key_b
        assert key is not None
        of_a, of_b = (series_a[key_a] if key_a else []), (series_b[key_b] if key_b else [])
        ignore: tuple[str, ...] = ()
        if key_b is None:
            reason, ignore = why_alone(key, series_b, unusable_b, names, True, choice)
        elif key_a is None:
            reason, ignore = why_alone(key, series_a, unusable_a, names, False, choice)
        elif not (reason := _why_not(of_a, of_b)):
            spreads = _spreads(of_a[0], of_b[0], (key_a, key_b), past, choice)
            comparable.append(_Comparable(len(compared), of_a[0], of_b[0], spreads))
        compared.append(_beside(key, of_a, of_b, reason, ignore))
    drift = _drift(series_a), _drift(series_b)
    apart = sorted(
        times for pair in comparable for spread in set(pair.spreads) if spread for times in spread.apart
    )
    for pair in comparable:
        compared[pair.place] = _judged(compared[pair.place], pair, drift, apart)
    return Comparison(
        a=a.name,
        b=b.name,
        series=tuple(sorted(_called(compared, choice.least_effect), key=_importance)),
        drift=drift,
        runs=(len(a.records), len(b.records)),
        earlier=(_runs_of_platforms(a, earlier), _runs_of_platforms(b, earlier)),
        unused=(a.unused, b.unused),
        disturbed=(_disturbed(a), _disturbed(b)),
        environment=environments_differ(a, b),
    )


def _why_not(of_a: Sequence[SideSeries], of_b: Sequence[SideSeries]) -> str:
    """Why series of one key cannot be compared; empty where they can."""
    if several := next((series for series in (of_a, of_b) if len(series) > 1), None):
        return why_several(several)
    mixed = of_a[0].mixed or of_b[0].mixed
    return f"several kernels in one run: {' and '.join(mixed)}" if mixed else ""


def _beside(
    key: SeriesKey,
    of_a: Sequence[SideSeries],
    of_b: Sequence[SideSeries],
    reason: str,
    ignore: tuple[str, ...],
) -> ComparedSeries:
    """The series of a key beside each other, not compared. reason, ignore: as `ComparedSeries` has them."""
    return ComparedSeries(
        test=key.test,
        metric=key.metric,
        unit=METRICS[key.metric].unit,
        size=key.size,
        nodes=key.nodes,
        params=dict(key.params),
        verdict="not comparable",
        a=_side(of_a[0]) if len(of_a) == 1 else None,
        b=_side(of_b[0]) if len(of_b) == 1 else None,
        reason=reason,
        ignore=ignore,
    )


def _side(series: SideSeries) -> ComparedSide:
    return ComparedSide(
        size=series.key.size,
        median=median(observation.value for observation in series.observations),
        launches=series.usable,
        runs=len(series.runs),
        raw=series.raw,
        disturbed=series.disturbed,
    )


def _drift(by_key: Mapping[SeriesKey, Sequence[SideSeries]]) -> float:
    """The design effect of a side."""
    cases: defaultdict[tuple[str, str], list[list[LaunchValue]]] = defaultdict(list)
    for key, several in by_key.items():
        for series in several:
            by_run: defaultdict[str, list[LaunchValue]] = defaultdict(list)
            for observation in series.observations:
                by_run[observation.run].append(observation)
            for run, observations in by_run.items():
                cases[key.test, run].append(observations)
    return design_effect(cases.values())


def _spreads(
    a: SideSeries,
    b: SideSeries,
    keys: tuple[SeriesKey, SeriesKey],
    past: Mapping[str, Mapping[SeriesKey, Sequence[SideSeries]]],
    choice: Choice,
) -> Sequence[RunSpread | None]:
    """How runs differ on either side: by the runs of both sides and earlier ones, where test and platform are
    the same, else by each side's own."""
    medians = [
        [
            run_medians(series.observations),
            *(
                run_medians(other.observations)
                for other in past.get(series.platform, {}).get(key, ())
                if other.usable and other.key.test == series.key.test
            ),
        ]
        for series, key in zip((a, b), keys, strict=True)
    ]
    if (a.platform, keys[0], a.key.test) == (b.platform, keys[1], b.key.test):
        spreads = [spread_of_runs([*medians[0], medians[1][0]])] * 2
    else:
        spreads = [spread_of_runs(of_side) for of_side in medians]
    if choice.run_to_run is not None:
        spreads = [spread or RunSpread(choice.run_to_run) for spread in spreads]
    return spreads


def _judged(
    series: ComparedSeries, pair: _Comparable, drift: tuple[float, float], apart: Sequence[float]
) -> ComparedSeries:
    """The series with what its sides tell. apart: as `compare_samples` takes it."""
    a, b = pair.a, pair.b
    names = sorted(a.circumstances.keys() | b.circumstances.keys())
    both = {name: (a.circumstances.get(name, ""), b.circumstances.get(name, "")) for name in names}
    series = replace(
        series,
        size=series.size if size_ratio(a.key.size, b.key.size) <= ALIKE else None,
        circumstances={name: texts for name, texts in both.items() if texts[0] != texts[1]},
    )
    few = {name: side for name, side in (("A", a), ("B", b)) if side.usable < LEAST_LAUNCHES}
    disturbed = [name for name, side in few.items() if side.disturbed]
    if disturbed:
        enough = min(a.usable + a.disturbed, b.usable + b.disturbed) >= LEAST_LAUNCHES
        reason = f"disturbed: others used the CPUs in {' and '.join(disturbed)}"
        return replace(series, reason=reason, ignore=(DISTURBED,) if enough else ())
    if few:
        needed = f"{LEAST_LAUNCHES} each are needed (npc characterise --set samples={LEAST_LAUNCHES})"
        reason = f"too few samples: {a.usable} and {b.usable} launches, {needed}"
        return replace(series, reason=reason)
    noise_a, noise_b = (
        RunNoise(drift=of_side, spread=spread) for of_side, spread in zip(drift, pair.spreads, strict=True)
    )
    difference = compare_samples(a.observations, b.observations, noise_a, noise_b, apart)
    return replace(
        series,
        verdict="same",
        ratio=difference.ratio,
        low=difference.low,
        high=difference.high,
        p=difference.p,
        run_to_run=difference.run_to_run,
        reason=_between(a.runs, b.runs) if difference.run_to_run is None else "",
    )


def _between(runs_a: set[str], runs_b: set[str]) -> str:
    """Between how many runs a difference is that no runs of the machine explain."""
    if runs_a == runs_b and len(runs_a) == 1:
        return "within one single run"
    if len(runs_a) == len(runs_b) == 1:
        return "between two single runs"
    return f"between {len(runs_a)} and {len(runs_b)} runs"


def _called(compared: Sequence[ComparedSeries], least_effect: float) -> Iterator[ComparedSeries]:
    """The series with their verdicts: differences that many tests alone do not explain."""
    tested = [place for place, series in enumerate(compared) if series.p is not None]
    p_values = [compared[place].p or 0.0 for place in tested]
    adjusted = dict(zip(tested, false_discovery(p_values), strict=True))
    for place, series in enumerate(compared):
        if place not in adjusted:
            yield series
        elif _differs(series := replace(series, adjusted=adjusted[place]), least_effect):
            yield replace(series, verdict="different" if series.run_to_run is None else direction(series))
        else:
            yield replace(series, reason="")


def _differs(series: ComparedSeries, least_effect: float) -> bool:
    if series.adjusted is None or series.adjusted > FALSE_DISCOVERY:
        return False
    if series.ratio is None or series.low is None or series.high is None:
        return True  # zeros have no ratio; the rank test has spoken
    excludes_one = series.low > 1 or series.high < 1
    return excludes_one and max(series.ratio, 1 / series.ratio) >= 1 + least_effect


def _importance(series: ComparedSeries) -> tuple[int, float, bool]:
    """To sort by: differences first, the largest first; what cannot be compared last."""
    rank = {"same": 1, "not comparable": 2}.get(series.verdict, 0)
    effect = max(series.ratio, 1 / series.ratio) if series.ratio else float("inf") if rank == 0 else 1.0
    return rank, -round(effect, 6), series.verdict != "worse"


def _runs_of_platforms(side: Side, earlier: Mapping[str, Side] | None) -> int:
    """How many earlier runs there are of the side's platforms."""
    platforms = {record.platform for _, record in side.all_records()}
    return sum(len(runs.records) for platform, runs in (earlier or {}).items() if platform in platforms)


def _disturbed(side: Side) -> str:
    return in_words(record for _, record in side.all_records())
