"""What a night says of a series: one definition for verdicts, tables, pictures and pages.

A night may measure a series twice: what is suspicious, or was disturbed, is measured again (`REMEASURED`).
Which of its rows count is decided for each group of hosts by itself:

- a row is *usable* if its status is ``ok`` and it has a value; no other row ever counts;
- of the usable rows those count that others did not disturb, or all where others disturbed all of them;
- where all of these are of the second measurement, because others disturbed the first one, or it failed, or
  there is none, the second stands for the first; else the two are kept apart;
- where a rule of validity caught the first measurement (``invalid`` for another reason than others on the
  CPUs) and nothing of it is usable, the second does not stand for it: what cannot be true does not become
  true by measuring it again.

The night's *value* is the median of all samples of the first measurement that count, over all groups of
hosts, and what was *measured again* that of the second. Where nothing is usable there is no value: neither a
zero, nor the value of another night.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import compress
from statistics import median
from types import MappingProxyType
from typing import Final

import numpy as np
from numpy.typing import NDArray

from npc.records.history import HistoryRow
from npc.records.history_columns import HistoryColumns
from npc.records.nodes import Hosts
from npc.records.series import Series
from npc.statistics.arrays import Booleans, Integers

#: What the status of a measurement begins with that is invalid because others took too much of the CPUs.
BY_OTHERS: Final = "invalid: others used"


@dataclass(frozen=True, slots=True)
class SeriesNight:
    """One series in one night."""

    #: All of its rows, those that do not count too.
    rows: tuple[HistoryRow, ...]
    #: Rows of its first measurement that count; each has a value.
    first: tuple[HistoryRow, ...]
    #: Rows of its second measurement that count; each has a value. Empty where there was none, or where it
    #: stands for the first.
    again: tuple[HistoryRow, ...]

    @classmethod
    def of(cls, rows: Iterable[HistoryRow]) -> SeriesNight:
        """Of all rows of one series in one night."""
        every = tuple(rows)
        return cls._of(every, *counting(HistoryColumns.of(every)))

    @classmethod
    def _of(cls, rows: Sequence[HistoryRow], first: Booleans, again: Booleans) -> SeriesNight:
        return cls(tuple(rows), *(tuple(compress(rows, counts.tolist())) for counts in (first, again)))

    @property
    def samples(self) -> list[float]:
        """The values of `first`."""
        return samples_of(self.first)

    @property
    def value(self) -> float | None:
        """The night's value, in the metric's unit; None where nothing is usable."""
        return median(self.samples) if self.first else None

    @property
    def levels(self) -> tuple[float, float, float]:
        """The night's value, and the lowest and the highest of its samples; NaN where nothing is usable."""
        samples = self.samples
        return (median(samples), min(samples), max(samples)) if samples else (math.nan,) * 3

    @property
    def value_again(self) -> float | None:
        """The same of its second measurement; None without one."""
        return median(samples_of(self.again)) if self.again else None

    @property
    def by_hosts(self) -> dict[Hosts, list[float]]:
        """The samples of its first measurement by the hosts that they were measured on, where these are
        known."""
        groups: dict[Hosts, list[float]] = {}
        for row in self.first:
            if row.hosts and row.value is not None:
                groups.setdefault(row.hosts, []).append(row.value)
        return groups


def samples_of(rows: Iterable[HistoryRow]) -> list[float]:
    """The values of some rows, of those that have one."""
    return [row.value for row in rows if row.value is not None]


def series_nights(rows: Iterable[HistoryRow]) -> dict[Series, dict[str, SeriesNight]]:
    """All series, and their nights by name, in the order of the rows."""
    columns = HistoryColumns.of(rows)
    every, counts = list(columns), counting(columns)
    groups: dict[tuple[int, int], list[int]] = {}
    for number, place in enumerate(zip(columns.series.tolist(), columns.run.tolist(), strict=True)):
        groups.setdefault(place, []).append(number)
    nights: dict[Series, dict[str, SeriesNight]] = {}
    for (series, run), numbers in groups.items():
        of_night = SeriesNight._of([every[number] for number in numbers], *(mask[numbers] for mask in counts))
        nights.setdefault(columns.keys[series], {})[columns.runs[run]] = of_night
    return nights


def begun(rows: Iterable[HistoryRow], also: Mapping[str, str] = MappingProxyType({})) -> dict[str, str]:
    """Night → the time of its first row, the oldest first. also: night → time, of nights that may have no
    row."""
    return HistoryColumns.of(rows).begun(also)


def counting(rows: HistoryColumns) -> tuple[Booleans, Booleans]:
    """By row, whether it counts for its night's first measurement, and whether for the second."""
    usable, again, disturbed = rows.usable, rows.remeasured, rows.disturbed > 0
    first, second = usable.copy(), np.zeros(len(rows), dtype=bool)
    # Without a row that was disturbed, or measured again, all that is usable counts.
    odd = np.flatnonzero(_together(rows, again | disturbed))
    if not len(odd):
        return first, second
    usable, again, disturbed = usable[odd], again[odd], disturbed[odd]
    codes, group = np.unique(_group(rows)[odd], return_inverse=True)

    def none_of(chosen: Booleans) -> Booleans:
        none: Booleans = np.bincount(group, chosen, len(codes)) == 0
        return none[group]

    counts = usable & (~disturbed | none_of(usable & ~disturbed))
    stands_for_first = none_of(counts & ~again)
    only_again = stands_for_first & none_of(usable & ~again)
    if only_again.any():
        stands_for_first &= ~(only_again & _in_violation(rows, odd))
    first[odd] = counts & (stands_for_first | ~again)
    second[odd] = counts & ~stands_for_first & again
    return first, second


def _group(rows: HistoryColumns) -> NDArray[np.int64]:
    """By row, the number of its series, night and hosts."""
    code = rows.series.astype(np.int64)
    return (code * max(len(rows.runs), 1) + rows.run) * max(len(rows.places), 1) + rows.place


def _together(rows: HistoryColumns, chosen: Booleans) -> Booleans:
    """By row, whether one of those with its series, night and hosts is chosen."""
    if not chosen.any():
        return chosen
    group = _group(rows)
    together: Booleans = np.isin(group, np.unique(group[chosen]))
    return together


def _in_violation(rows: HistoryColumns, chosen: Integers) -> Booleans:
    """By chosen row, whether a rule of validity, but for the one about others on the CPUs, caught the first
    measurement of its series on its hosts."""
    invalid = _invalid_first(rows)
    violations = invalid - _invalid_first(rows, BY_OTHERS)
    places = [tuple(sorted(hosts)) for hosts in rows.places] if violations else []
    columns = (column[chosen].tolist() for column in (rows.series, rows.run, rows.place))
    return np.array(
        [bool(violations) and (s, t, places[p]) in violations for s, t, p in zip(*columns, strict=True)], bool
    )


def invalid_by_others(rows: HistoryColumns) -> set[Hosts]:
    """On which hosts, sorted, the first measurement is invalid because others took too much of the CPUs."""
    return {hosts for _, _, hosts in _invalid_first(rows, BY_OTHERS)}


def _invalid_first(rows: HistoryColumns, status: str = "invalid") -> set[tuple[int, int, Hosts]]:
    """Series, night, and hosts (sorted), by number, on which a row of the first measurement has a status that
    begins so."""
    bad = np.array([c.status.startswith(status) and not c.remeasured for c in rows.conditions], dtype=bool)
    chosen = np.flatnonzero(bad[rows.condition])
    columns = (column[chosen].tolist() for column in (rows.series, rows.run, rows.place))
    return {
        (series, run, tuple(sorted(rows.places[place])))
        for series, run, place in set(zip(*columns, strict=True))
        if rows.places[place]
    }
