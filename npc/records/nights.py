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
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from statistics import median
from types import MappingProxyType

from npc.records.history import HistoryRow
from npc.records.nodes import Hosts
from npc.records.record import OK, moment
from npc.records.series import Series


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
        groups: dict[Hosts, list[HistoryRow]] = {}
        for row in every:
            if row.status == OK and row.value is not None:
                groups.setdefault(row.hosts, []).append(row)
        violations = _invalid_first(every) - invalid_by_others(every)
        first: list[HistoryRow] = []
        again: list[HistoryRow] = []
        for hosts, usable in groups.items():
            counting = [row for row in usable if not row.disturbed] or usable
            violates = tuple(sorted(hosts)) in violations and all(row.remeasured for row in usable)
            if all(row.remeasured for row in counting) and not violates:
                first += counting
            else:
                first += [row for row in counting if not row.remeasured]
                again += [row for row in counting if row.remeasured]
        return cls(every, tuple(first), tuple(again))

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
    groups: dict[Series, dict[str, list[HistoryRow]]] = {}
    for row in rows:
        groups.setdefault(row.key, {}).setdefault(row.run, []).append(row)
    return {
        series: {run: SeriesNight.of(of_night) for run, of_night in nights.items()}
        for series, nights in groups.items()
    }


def begun(rows: Iterable[HistoryRow], also: Mapping[str, str] = MappingProxyType({})) -> dict[str, str]:
    """Night → the time of its first row, the oldest first. also: night → time, of nights that may have no
    row."""
    first: dict[str, str] = {}
    for row in rows:
        first[row.run] = min(first.get(row.run, row.time), row.time, key=moment)
    return dict(sorted({**also, **first}.items(), key=lambda night: (moment(night[1]), night[0])))


def invalid_by_others(rows: Iterable[HistoryRow]) -> set[Hosts]:
    """On which hosts, sorted, the first measurement is invalid because others took too much of the CPUs."""
    return _invalid_first(rows, "invalid: others used")


def _invalid_first(rows: Iterable[HistoryRow], status: str = "invalid") -> set[Hosts]:
    """On which hosts, sorted, a row of the first measurement has a status that begins so."""
    return {
        tuple(sorted(row.hosts))
        for row in rows
        if row.hosts and not row.remeasured and row.status.startswith(status)
    }
