"""Which series of two sides belong together, and what keeps the others apart."""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, NamedTuple

from npc import catalogue
from npc.records.record import Record
from npc.records.series import DISTURBED, MOVED, Series, circumstances, share_taken, test_name
from npc.records.units import format_size
from npc.report.compare.difference import LaunchValue
from npc.report.compare.sides import Side

#: A smaller difference, as a share, does not matter even where it is certain.
LEAST_EFFECT: Final = 0.02
#: Tools have message sizes of their own (60 KiB here, 64000 bytes there): those nearest to each other are
#: compared, up to this factor.
NEAR: Final = 2.0
#: Up to this factor two sizes are one: LIKWID rounds a working set to whole loops of this CPU's kernel.
ALIKE: Final = 1.001


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """What is compared with what, and how small a difference is none."""

    #: The field that tells the sides apart, ``""`` for none.
    by: str = ""
    #: What may differ: params, ``size``, ``nodes``, ``version``; ``disturbed``: disturbed records are used.
    ignore: Collection[str] = ()
    #: Whether percentiles and the like are compared as well as headline numbers.
    statistics: bool = False
    #: A smaller difference is "same"; a share of the value.
    least_effect: float = LEAST_EFFECT
    #: Standard deviation between medians of runs, as a share, where no runs say it.
    run_to_run: float | None = None


class SeriesKey(NamedTuple):
    """What series of two sides have to share to be compared."""

    #: The benchmark and its case; of different tools, what they measure.
    test: str
    #: What was measured: a key of `npc.records.units.METRICS`.
    metric: str
    #: Size of the message or working set in bytes; None where it has none.
    size: int | None
    #: How many nodes take part; 0 where that may differ.
    nodes: int
    #: Version of the tool; empty where it may differ.
    version: str
    #: Settings and qualifiers: (name, value), sorted.
    params: tuple[tuple[str, str], ...]


class SideSeries(NamedTuple):
    """One series as one side measured it."""

    #: What was measured, with all that may differ.
    key: SeriesKey
    #: Name of the platform that it was measured on.
    platform: str
    #: Values of the launches, in the metric's unit; of disturbed ones only where there are no others.
    observations: tuple[LaunchValue, ...]
    #: Files of the records.
    raw: tuple[str, ...]
    #: Name of a circumstance → all its values, in one text.
    circumstances: dict[str, str]
    #: Variants of the kernel that one run measured side by side; empty where there are not several.
    mixed: tuple[str, ...]
    #: How many records are not disturbed, or all where they are used.
    usable: int
    #: How many disturbed records were left out.
    disturbed: int

    @property
    def runs(self) -> set[str]:
        """Names of the runs that it was measured in."""
        return {observation.run for observation in self.observations}


def series_of(side: Side, choice: Choice) -> dict[SeriesKey, list[SideSeries]]:
    """Key → the series that have it: more than one where what is ignored has several values."""
    records: defaultdict[SeriesKey, defaultdict[SeriesKey, list[tuple[str, Record]]]]
    records = defaultdict(lambda: defaultdict(list))
    for run, record in side.all_records():
        if record.ok and record.value is not None and (choice.statistics or "statistic" not in record.params):
            whole = _whole_key(record)
            key = _key(whole, record, choice)
            if key is not None:
                records[key][whole].append((run, record))
    used = DISTURBED in choice.ignore
    return {key: [_series(*entry, used) for entry in by_whole.items()] for key, by_whole in records.items()}


def unusable(side: Side, choice: Choice) -> dict[SeriesKey, str]:
    """SeriesKey → ``invalid`` or the like, of the series that have records but no usable one."""
    statuses = {}
    for _, record in side.all_records():
        if not record.ok and (key := _key(_whole_key(record), record, choice)):
            statuses[key] = record.status.partition(":")[0]
    return statuses


def _series(key: SeriesKey, records: Sequence[tuple[str, Record]], use_disturbed: bool) -> SideSeries:
    """The series of some records, each with the name of its run. Disturbed ones are not used unless they are
    to be, or there are no others."""
    undisturbed = [(run, record) for run, record in records if use_disturbed or not share_taken(record)]
    used = undisturbed or records
    values: defaultdict[str, dict[str, None]] = defaultdict(dict)
    kernels: defaultdict[str, dict[str, None]] = defaultdict(dict)
    for run, record in used:
        for name, text in circumstances(record).items():
            values[name][text] = None
            if name == "kernel":
                kernels[run][text] = None
    for counted in (DISTURBED, MOVED):  # another figure in each launch
        values.pop(counted, None)
    return SideSeries(
        key=key,
        platform=used[0][1].platform,
        observations=tuple(LaunchValue(record.time, run, record.value or 0.0) for run, record in used),
        raw=tuple(dict.fromkeys(record.raw for _, record in used)),
        circumstances={name: ", ".join(texts) for name, texts in values.items()},
        mixed=next((tuple(names) for names in kernels.values() if len(names) > 1), ()),
        usable=len(undisturbed),
        disturbed=len(records) - len(undisturbed),
    )


def _whole_key(record: Record) -> SeriesKey:
    series = Series.of(record)
    test = test_name(series.benchmark, series.case)
    return SeriesKey(
        test, series.metric, series.size, series.nodes, record.tool_version, _sorted_params(series.params)
    )


@lru_cache(maxsize=4096)
def _sorted_params(text: str) -> tuple[tuple[str, str], ...]:
    """Those of `Series.params`: a run's many records have few different ones."""
    return tuple(sorted(json.loads(text).items()))


def _key(whole: SeriesKey, record: Record, choice: Choice) -> SeriesKey | None:
    """What has to agree; None for a test that has no counterpart in other tools where these are compared."""
    ignored = {choice.by.removeprefix("params."), *choice.ignore}
    if choice.by == "benchmark":
        kind = catalogue.alike(record)
        if not kind or (record.params.get("side") == "send" and record.benchmark != "sockperf"):
            return None
        shared = tuple(
            (name, value) for name, value in whole.params if name in ("statistic", "mpi", "direction")
        )
        whole = whole._replace(test=kind, version="", params=shared)
    return whole._replace(
        nodes=0 if "nodes" in ignored else whole.nodes,
        version="" if "version" in ignored else whole.version,
        params=tuple((name, value) for name, value in whole.params if name not in ignored),
    )


def most_apart(choice: Choice) -> float:
    """The factor up to which two sizes are compared."""
    if "size" in choice.ignore:
        return math.inf
    return NEAR if choice.by == "benchmark" else ALIKE


def matched(
    keys_a: Iterable[SeriesKey], keys_b: Iterable[SeriesKey], most: float
) -> Iterator[tuple[SeriesKey | None, SeriesKey | None]]:
    """Every key once: with the one of the other side that differs in size alone, nearest first; or alone.
    most: the factor up to which sizes may differ."""
    of_a, of_b = dict.fromkeys(keys_a), dict.fromkeys(keys_b)
    by_rest: defaultdict[SeriesKey, list[SeriesKey]] = defaultdict(list)
    for key in of_b:
        by_rest[key._replace(size=None)].append(key)
    couples = [
        (a, b) for a in of_a for b in by_rest[a._replace(size=None)] if size_ratio(a.size, b.size) <= most
    ]
    for a, b in sorted(couples, key=lambda couple: size_ratio(couple[0].size, couple[1].size)):
        if a in of_a and b in of_b:
            del of_a[a], of_b[b]
            yield a, b
    yield from ((a, None) for a in of_a)
    yield from ((None, b) for b in of_b)


def size_ratio(size: int | None, other: int | None) -> float:
    """How many times the larger size is the smaller one."""
    if size == other:
        return 1.0
    return max(size, other) / min(size, other) if size and other else math.inf


def why_alone(
    key: SeriesKey,
    others: Iterable[SeriesKey],
    unusable: Mapping[SeriesKey, str],
    names: tuple[str, str],
    of_a: bool,
    choice: Choice,
) -> tuple[str, tuple[str, ...]]:
    """What keeps a series (of A, else of B) from the nearest one of the other side, and what ``--ignore``
    would have to name. others, unusable: of the other side. names: of A and B."""
    if key in unusable:
        return f"{unusable[key]} in {names[1] if of_a else names[0]} (npc check says why)", ()
    near = [other for other in others if (other.test, other.metric) == (key.test, key.metric)]
    if not near:
        return f"only in {names[0] if of_a else names[1]}", ()
    nearest = min(near, key=lambda other: (len(_differences(key, other)), size_ratio(key.size, other.size)))
    differences = _differences(key, nearest) if of_a else _differences(nearest, key)
    what, in_a, in_b = differences[0]
    ignore = tuple({"node count": "nodes"}.get(name, name) for name, _, _ in differences)
    ignored = set(ignore) & set(choice.ignore)
    return f"other {what}: {in_a} in {names[0]}, {in_b} in {names[1]}", () if ignored else ignore


def _differences(key: SeriesKey, other: SeriesKey) -> list[tuple[str, str, str]]:
    """(what, one's, the other's) of all that differs; the first is the one to name."""
    params, other_params = dict(key.params), dict(other.params)
    parts = [
        ("node count", str(key.nodes), str(other.nodes)),
        ("version", key.version or "unknown", other.version or "unknown"),
        *(
            (name, params.get(name, "none"), other_params.get(name, "none"))
            for name in sorted(params.keys() | other_params.keys())
        ),
        ("size", *_two_sizes(key.size, other.size)),
    ]
    return [(what, own, others) for what, own, others in parts if own != others]


def _two_sizes(one: int | None, other: int | None) -> tuple[str, str]:
    """In words, in bytes where they would read alike."""
    texts = format_size(one) or "none", format_size(other) or "none"
    return (f"{one} B", f"{other} B") if texts[0] == texts[1] and one != other else texts


def why_several(series: Sequence[SideSeries]) -> str:
    """What differs among the series of one side that are one without what is ignored."""
    key, other_key = series[0].key, series[1].key
    what, one, other = (*_differences(key, other_key), ("test", key.test, other_key.test))[0]
    return f"several series on one side: {what} {one} and {other}"
