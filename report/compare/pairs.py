"""Which series of two sides belong together, what each pair says, and why others cannot be compared."""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from functools import lru_cache
from statistics import median
from typing import Final, Literal, NamedTuple

from npc import catalogue
from npc.records.record import Record
from npc.records.series import DISTURBED, MOVED, Series, circumstances, share_taken, test_name
from npc.records.units import METRICS, format_size
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
from npc.report.compare.sides import Side
from npc.statistics.medians import false_discovery
from npc.validity.disturbance import in_words

Change = Literal["better", "worse", "different", "same", "not comparable"]
#: Expected share of wrong ones among the differences that are called (Benjamini, Hochberg).
FALSE_DISCOVERY: Final = 0.05
#: Less is of no interest to anybody, even where it is certain.
LEAST_EFFECT: Final = 0.02
#: Tools have message sizes of their own (60 KiB here, 64000 bytes there): those nearest to each other are a
#: pair, up to this factor.
NEAR: Final = 2.0
#: Up to this factor two sizes are one: LIKWID rounds a working set to whole loops of this CPU's kernel.
ALIKE: Final = 1.001


class PairKey(NamedTuple):
    """What series have to share to be a pair; params are sorted (name, value) pairs."""

    test: str
    metric: str
    size: int | None
    nodes: int
    version: str
    params: tuple[tuple[str, str], ...]


class _Sample(NamedTuple):
    """The observations of one series on one side, and the records' raw files.

    circumstances: every value of each. mixed: variants of the kernel that one run measured side by side.
    disturbed: how many disturbed records were left out; where there are no others, usable is 0, and they are
    the observations that are shown.
    """

    key: PairKey
    platform: str
    observations: tuple[LaunchValue, ...]
    raw: tuple[str, ...]
    circumstances: dict[str, str]
    mixed: tuple[str, ...]
    usable: int
    disturbed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedSide:
    """One side of a pair: message size, median in SI units, launches, runs, raw files.

    disturbed: launches that were left out, because others used the CPUs meanwhile. The median is of the rest;
    where there is none, of them.
    """

    size: int | None
    median: float
    launches: int
    runs: int
    raw: tuple[str, ...]
    disturbed: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """One series on two sides.

    ratio: B over A; low, high: its 95 % interval; p: two-sided, adjusted: after Benjamini and Hochberg. None
    where there is none. verdict: of B, as seen from A. size: None where the halves have not the same one.
    run_to_run: the standard deviation between runs of the machine that is in them, as a share; None where it
    is not known. reason: why it is not comparable, or neither better nor worse; ignore: what ``--ignore`` has
    to name so that it may be. circumstances: those in which the sides differ, name → (A's, B's).
    """

    test: str
    metric: str
    unit: str
    size: int | None
    nodes: int
    params: dict[str, str]
    verdict: Change
    a: ComparedSide | None = None
    b: ComparedSide | None = None
    ratio: float | None = None
    low: float | None = None
    high: float | None = None
    p: float | None = None
    adjusted: float | None = None
    run_to_run: float | None = None
    reason: str = ""
    ignore: tuple[str, ...] = ()
    circumstances: dict[str, tuple[str, str]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """All pairs of two sides, what matters first. unused: records that were not ``ok``, by side.

    drift: of each side, how many launches count as one. earlier: how many other runs of each side's platform
    were there to say how its runs differ. disturbed: what is to be said of disturbed records of each side.
    environment: what the runs' environments differ in, None where they are not known.
    """

    a: str
    b: str
    pairs: tuple[Pair, ...]
    drift: tuple[float, float]
    runs: tuple[int, int]
    earlier: tuple[int, int]
    unused: tuple[int, int]
    disturbed: tuple[str, str]
    environment: tuple[EnvironmentDifference, ...] | None = None

    def of(self, *verdicts: Change) -> list[Pair]:
        """Pairs of some verdicts, in order."""
        return [pair for pair in self.pairs if pair.verdict in verdicts]


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """by: the field that tells the sides apart, ``""`` for none. ignore: params that may differ, and
    ``size``, ``nodes``, ``version``; with ``disturbed``, disturbed records are used, too.

    statistics: also percentiles and the like, not only headline numbers. least_effect: smaller ones are
    "same". run_to_run: standard deviation between medians of runs, as a share, where no runs say it.
    """

    by: str = ""
    ignore: Collection[str] = ()
    statistics: bool = False
    least_effect: float = LEAST_EFFECT
    run_to_run: float | None = None


def compare_sides(a: Side, b: Side, choice: Choice, earlier: Mapping[str, Side] | None = None) -> Comparison:
    """All series of two sides, paired and judged.

    earlier: platform → other runs of it (`npc.report.compare.earlier`), which say how its runs differ.
    """
    found_a, found_b = (_samples(side, choice) for side in (a, b))
    drift = _drift(found_a), _drift(found_b)
    unusable = _unusable(a, choice), _unusable(b, choice)
    past = {platform: _samples(side, choice) for platform, side in (earlier or {}).items()}
    pairs: list[Pair] = []
    comparable: list[tuple[int, _Sample, _Sample, Sequence[RunSpread | None]]] = []
    for key_a, key_b in _matched(found_a, found_b, _most_apart(choice)):
        key = key_a or key_b
        assert key is not None
        of_a, of_b = (found_a[key_a] if key_a else []), (found_b[key_b] if key_b else [])
        if key_a is None or key_b is None:
            others, names = found_b if key_a else found_a, (a.name, b.name)
            reason, ignore = _why_alone(key, others, names, bool(key_a), choice)
            if key in (of_other := unusable[bool(key_a)]):
                reason, ignore = f"{of_other[key]} in {names[bool(key_a)]} (npc check says why)", ()
            pairs.append(replace(_alone(key, of_a, of_b, reason), ignore=ignore))
        elif len(of_a) > 1 or len(of_b) > 1:
            pairs.append(_alone(key, of_a, of_b, _why_several(of_a if len(of_a) > 1 else of_b)))
        elif mixed := of_a[0].mixed or of_b[0].mixed:
            pairs.append(_alone(key, of_a, of_b, f"several kernels in one run: {' and '.join(mixed)}"))
        else:
            spreads = _spreads(of_a[0], of_b[0], (key_a, key_b), past, choice)
            comparable.append((len(pairs), of_a[0], of_b[0], spreads))
            pairs.append(_alone(key, of_a, of_b, ""))
    apart = sorted(
        each for *_, spreads in comparable for spread in set(spreads) if spread for each in spread.apart
    )
    for place, one, other, spreads in comparable:
        noise_a, noise_b = (RunNoise(drift=each, spread=of) for each, of in zip(drift, spreads, strict=True))
        pairs[place] = _pair(pairs[place], one, other, noise_a, noise_b, apart)
    return Comparison(
        a=a.name,
        b=b.name,
        pairs=tuple(_sorted(_called(pairs, choice.least_effect))),
        drift=drift,
        runs=(len(a.records), len(b.records)),
        earlier=(_others(a, earlier), _others(b, earlier)),
        unused=(a.unused, b.unused),
        disturbed=(_disturbed(a), _disturbed(b)),
        environment=environments_differ(a, b),
    )


def _most_apart(choice: Choice) -> float:
    """The factor up to which two sizes are a pair."""
    if "size" in choice.ignore:
        return math.inf
    return NEAR if choice.by == "benchmark" else ALIKE


def _matched(
    ours: Iterable[PairKey], theirs: Iterable[PairKey], most: float
) -> Iterator[tuple[PairKey | None, PairKey | None]]:
    """Every key once: with the one of the other side that differs in size alone, nearest first; or alone."""
    of_a, of_b = dict.fromkeys(ours), dict.fromkeys(theirs)
    by_rest: defaultdict[PairKey, list[PairKey]] = defaultdict(list)
    for key in of_b:
        by_rest[key._replace(size=None)].append(key)
    couples = [
        (factor, mine, its)
        for mine in of_a
        for its in by_rest[mine._replace(size=None)]
        if (factor := _factor(mine.size, its.size)) <= most
    ]
    for _, mine, its in sorted(couples, key=lambda couple: couple[0]):
        if mine in of_a and its in of_b:
            del of_a[mine], of_b[its]
            yield mine, its
    yield from ((mine, None) for mine in of_a)
    yield from ((None, its) for its in of_b)


def _factor(one: int | None, other: int | None) -> float:
    """How many times the larger size is the smaller one."""
    if one == other:
        return 1.0
    return max(one, other) / min(one, other) if one and other else math.inf


def _samples(side: Side, choice: Choice) -> dict[PairKey, list[_Sample]]:
    """PairKey → the series that have it: more than one where what is ignored has several values."""
    series: defaultdict[PairKey, defaultdict[PairKey, list[tuple[str, Record]]]]
    series = defaultdict(lambda: defaultdict(list))
    for run, record in side.all_records():
        if record.ok and record.value is not None and (choice.statistics or "statistic" not in record.params):
            whole = _whole_key(record)
            key = _key(whole, record, choice)
            if key is not None:
                series[key][whole].append((run, record))
    alone = DISTURBED not in choice.ignore
    return {key: [_sample(whole, some, alone) for whole, some in by.items()] for key, by in series.items()}


def _unusable(side: Side, choice: Choice) -> dict[PairKey, str]:
    """PairKey → ``invalid`` or the like, of the series that have records but no usable one."""
    found = {}
    for _, record in side.all_records():
        if not record.ok and (key := _key(_whole_key(record), record, choice)):
            found[key] = record.status.partition(":")[0]
    return found


def _sample(key: PairKey, found: Sequence[tuple[str, Record]], alone: bool) -> _Sample:
    """alone: without disturbed records, as long as there are others."""
    kept = [(run, record) for run, record in found if not alone or not share_taken(record)]
    disturbed = len(found) - len(kept)
    found = kept or found
    observations = tuple(LaunchValue(record.time, run, record.value or 0.0) for run, record in found)
    seen: defaultdict[str, dict[str, None]] = defaultdict(dict)
    kernels: defaultdict[str, dict[str, None]] = defaultdict(dict)
    for run, record in found:
        for name, text in circumstances(record).items():
            seen[name][text] = None
            if name == "kernel":
                kernels[run][text] = None
    for counted in (DISTURBED, MOVED):  # another figure in each launch
        seen.pop(counted, None)
    return _Sample(
        key,
        found[0][1].platform,
        observations,
        tuple(dict.fromkeys(record.raw for _, record in found)),
        {name: ", ".join(texts) for name, texts in seen.items()},
        next((tuple(names) for names in kernels.values() if len(names) > 1), ()),
        len(kept),
        disturbed,
    )


def _whole_key(record: Record) -> PairKey:
    series = Series.of(record)
    test = test_name(series.benchmark, series.case)
    return PairKey(
        test, series.metric, series.size, series.nodes, record.tool_version, _sorted_params(series.params)
    )


@lru_cache(maxsize=4096)
def _sorted_params(text: str) -> tuple[tuple[str, str], ...]:
    """Those of `Series.params`: a run's many records have few different ones."""
    return tuple(sorted(json.loads(text).items()))


def _key(whole: PairKey, record: Record, choice: Choice) -> PairKey | None:
    """What has to agree; None for a test that has no counterpart in other tools where these are compared."""
    ignored = {choice.by.removeprefix("params."), *choice.ignore}
    if choice.by == "benchmark":
        kind = catalogue.alike(record)
        if not kind or (record.params.get("side") == "send" and record.benchmark != "sockperf"):
            return None
        kept = tuple((k, v) for k, v in whole.params if k in ("statistic", "mpi", "direction"))
        whole = whole._replace(test=kind, version="", params=kept)
    return whole._replace(
        nodes=0 if "nodes" in ignored else whole.nodes,
        version="" if "version" in ignored else whole.version,
        params=tuple((name, value) for name, value in whole.params if name not in ignored),
    )


def _drift(found: Mapping[PairKey, Sequence[_Sample]]) -> float:
    """The design effect of a side."""
    cases: defaultdict[tuple[str, str], list[list[LaunchValue]]] = defaultdict(list)
    for key, samples in found.items():
        for sample in samples:
            runs: defaultdict[str, list[LaunchValue]] = defaultdict(list)
            for each in sample.observations:
                runs[each.run].append(each)
            for run, some in runs.items():
                cases[key.test, run].append(some)
    return design_effect(cases.values())


def _spreads(
    a: _Sample,
    b: _Sample,
    keys: tuple[PairKey, PairKey],
    past: Mapping[str, Mapping[PairKey, Sequence[_Sample]]],
    choice: Choice,
) -> Sequence[RunSpread | None]:
    """How runs differ on either side: by the runs of both sides and earlier ones, where test and platform are
    the same, else by each side's own."""
    groups = [
        [
            run_medians(sample.observations),
            *(
                run_medians(other.observations)
                for other in past.get(sample.platform, {}).get(key, ())
                if other.usable and other.key.test == sample.key.test
            ),
        ]
        for sample, key in zip((a, b), keys, strict=True)
    ]
    if (a.platform, keys[0], a.key.test) == (b.platform, keys[1], b.key.test):
        spreads = [spread_of_runs([*groups[0], groups[1][0]])] * 2
    else:
        spreads = [spread_of_runs(each) for each in groups]
    if choice.run_to_run is not None:
        spreads = [each or RunSpread(choice.run_to_run) for each in spreads]
    return spreads


def _others(side: Side, earlier: Mapping[str, Side] | None) -> int:
    """How many earlier runs there are of the side's platforms."""
    platforms = {record.platform for _, record in side.all_records()}
    return sum(len(runs.records) for platform, runs in (earlier or {}).items() if platform in platforms)


def _disturbed(side: Side) -> str:
    return in_words(record for _, record in side.all_records())


def _half(sample: _Sample) -> ComparedSide:
    values = [each.value for each in sample.observations]
    return ComparedSide(
        size=sample.key.size,
        median=median(values),
        launches=sample.usable,
        runs=len({each.run for each in sample.observations}),
        raw=sample.raw,
        disturbed=sample.disturbed,
    )


def _alone(key: PairKey, of_a: Sequence[_Sample], of_b: Sequence[_Sample], reason: str) -> Pair:
    return Pair(
        test=key.test,
        metric=key.metric,
        unit=METRICS[key.metric].unit,
        size=key.size,
        nodes=key.nodes,
        params=dict(key.params),
        verdict="not comparable",
        a=_half(of_a[0]) if len(of_a) == 1 else None,
        b=_half(of_b[0]) if len(of_b) == 1 else None,
        reason=reason,
    )


def _pair(
    pair: Pair, a: _Sample, b: _Sample, noise_a: RunNoise, noise_b: RunNoise, apart: Sequence[float]
) -> Pair:
    """The pair with what its halves tell."""
    names = sorted(a.circumstances.keys() | b.circumstances.keys())
    both = {name: (a.circumstances.get(name, ""), b.circumstances.get(name, "")) for name in names}
    pair = replace(
        pair,
        size=pair.size if _factor(a.key.size, b.key.size) <= ALIKE else None,
        circumstances={name: texts for name, texts in both.items() if texts[0] != texts[1]},
    )
    few = [side for side, sample in (("A", a), ("B", b)) if sample.usable < LEAST_LAUNCHES]
    by_others = [side for side in few if (a if side == "A" else b).disturbed]
    if by_others:
        enough = min(a.usable + a.disturbed, b.usable + b.disturbed) >= LEAST_LAUNCHES
        reason = f"disturbed: others used the CPUs in {' and '.join(by_others)}"
        return replace(pair, reason=reason, ignore=(DISTURBED,) if enough else ())
    if few:
        found = f"{a.usable} and {b.usable} launches"
        needed = f"{LEAST_LAUNCHES} each are needed (npc characterise --set samples={LEAST_LAUNCHES})"
        return replace(pair, reason=f"too few samples: {found}, {needed}")
    told = compare_samples(a.observations, b.observations, noise_a, noise_b, apart)
    return replace(
        pair,
        verdict="same",
        ratio=told.ratio,
        low=told.low,
        high=told.high,
        p=told.p,
        run_to_run=told.run_to_run,
        reason=_between(a, b) if told.run_to_run is None else "",
    )


def _between(a: _Sample, b: _Sample) -> str:
    """Between how many runs a difference is that no runs of the machine explain."""
    runs = [{each.run for each in sample.observations} for sample in (a, b)]
    if runs[0] == runs[1] and len(runs[0]) == 1:
        return "within one single run"
    if len(runs[0]) == len(runs[1]) == 1:
        return "between two single runs"
    return f"between {len(runs[0])} and {len(runs[1])} runs"


def _called(pairs: Sequence[Pair], least_effect: float) -> Iterator[Pair]:
    """The pairs with their verdicts: differences that many tests alone do not explain."""
    tested = [place for place, pair in enumerate(pairs) if pair.p is not None]
    adjusted = dict(zip(tested, false_discovery([pairs[place].p or 0.0 for place in tested]), strict=True))
    for place, pair in enumerate(pairs):
        if place not in adjusted:
            yield pair
            continue
        pair = replace(pair, adjusted=adjusted[place])
        differs = _differs(pair, least_effect)
        yield replace(pair, verdict=_verdict(pair)) if differs else replace(pair, reason="")


def _differs(pair: Pair, least_effect: float) -> bool:
    if pair.adjusted is None or pair.adjusted > FALSE_DISCOVERY:
        return False
    if pair.ratio is None or pair.low is None or pair.high is None:
        return True  # zeros have no ratio; the rank test has spoken
    excludes_one = pair.low > 1 or pair.high < 1
    return excludes_one and max(pair.ratio, 1 / pair.ratio) >= 1 + least_effect


def _verdict(pair: Pair) -> Change:
    assert pair.a is not None and pair.b is not None
    return "different" if pair.run_to_run is None else direction(pair)


def direction(pair: Pair) -> Change:
    """Whether what B shows is better or worse, chance or not; ``different`` where it is neither."""
    assert pair.a is not None and pair.b is not None
    better = METRICS[pair.metric].better
    if better == "neither":
        return "different"
    more = pair.ratio > 1 if pair.ratio is not None else pair.b.median > pair.a.median
    return "better" if more == (better == "higher") else "worse"


def _sorted(pairs: Iterable[Pair]) -> list[Pair]:
    """Differences first, the largest first; what cannot be compared last."""

    def place(pair: Pair) -> tuple[int, float, int]:
        rank = {"same": 1, "not comparable": 2}.get(pair.verdict, 0)
        effect = max(pair.ratio, 1 / pair.ratio) if pair.ratio else float("inf") if rank == 0 else 1.0
        return rank, -round(effect, 6), pair.verdict != "worse"

    return sorted(pairs, key=place)


def _why_alone(
    key: PairKey, others: Iterable[PairKey], names: tuple[str, str], of_a: bool, choice: Choice
) -> tuple[str, tuple[str, ...]]:
    """What keeps a series (of A, else of B) from the nearest one of the other side, and what ``--ignore``
    would have to name; names: of A and B."""
    near = [other for other in others if (other.test, other.metric) == (key.test, key.metric)]
    if not near:
        return f"only in {names[0] if of_a else names[1]}", ()
    nearest = min(near, key=lambda other: (len(_differences(key, other)), _factor(key.size, other.size)))
    differences = _differences(key, nearest) if of_a else _differences(nearest, key)
    what, in_a, in_b = differences[0]
    ignore = tuple({"node count": "nodes"}.get(name, name) for name, _, _ in differences)
    ignored = set(ignore) & set(choice.ignore)
    return f"other {what}: {in_a} in {names[0]}, {in_b} in {names[1]}", () if ignored else ignore


def _differences(key: PairKey, other: PairKey) -> list[tuple[str, str, str]]:
    """(what, one's, the other's) of all that differs; the first is the one to name."""
    params, theirs = dict(key.params), dict(other.params)
    found = [
        ("node count", str(key.nodes), str(other.nodes)),
        ("version", key.version or "unknown", other.version or "unknown"),
        *(
            (name, params.get(name, "none"), theirs.get(name, "none"))
            for name in sorted(params.keys() | theirs.keys())
        ),
        ("size", *_two_sizes(key.size, other.size)),
    ]
    return [each for each in found if each[1] != each[2]]


def _two_sizes(one: int | None, other: int | None) -> tuple[str, str]:
    """In words, in bytes where they would read alike."""
    told = format_size(one) or "none", format_size(other) or "none"
    return (f"{one} B", f"{other} B") if told[0] == told[1] and one != other else told


def _why_several(samples: Sequence[_Sample]) -> str:
    """What differs among the series of one side that are one without what is ignored."""
    what, one, other = (
        *_differences(samples[0].key, samples[1].key),
        ("test", samples[0].key.test, samples[1].key.test),
    )[0]
    return f"several series on one side: {what} {one} and {other}"


def narrowed(side: Side, patterns: Sequence[str]) -> Side:
    """Only tests whose ``case``, ``benchmark`` or ``benchmark/case`` matches one of `patterns`."""
    if not patterns:
        return side

    def wanted(record: Record) -> bool:
        names = (record.case, record.benchmark, f"{record.benchmark}/{record.case}")
        return any(fnmatchcase(name, pattern) for name in names for pattern in patterns)

    return replace(
        side, records={run: [r for r in records if wanted(r)] for run, records in side.records.items()}
    )
