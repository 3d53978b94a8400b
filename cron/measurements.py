"""What nights have of series besides values: who measured, what went wrong. It is looked up night by night.

A thousand nodes tried a dozen benchmarks in each of 365 nights: as objects that would be more than all else,
and only the last nights are ever asked for. So what is here is made of the columns when it is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache, lru_cache
from typing import Final, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from npc.catalogue import sender
from npc.records.history_columns import HistoryColumns
from npc.records.nights import counting, invalid_by_others
from npc.records.record import OK
from npc.records.series import Series
from npc.statistics.arrays import Integers
from npc.statistics.groups import stable_order

#: Which of two hosts sends, by its role (`npc.catalogue.sender`); empty where that is not known.
ENDS: Final = ("", "server", "client")


class HostGroup(NamedTuple):
    """Some hosts that were measured together."""

    #: Of two, the sender first where `directed`; else sorted.
    hosts: tuple[str, ...]
    #: Whether the first of two hosts sent to the other one.
    directed: bool

    @classmethod
    def of(cls, hosts: tuple[str, ...], end: str) -> HostGroup:
        """Of a record's hosts, the server first. end: one of `ENDS`."""
        if len(hosts) != 2 or not end:
            return cls(tuple(sorted(hosts)), directed=False)
        return cls(hosts if end == "server" else hosts[::-1], directed=True)


@cache
def sending_end(key: Series) -> str:
    """Which of two hosts sends in a series: one of `ENDS`."""
    return sender(key.benchmark, key.case, key.metric, key.by_name)


class NightMeasurement(NamedTuple):
    """What one night has of one series besides its values."""

    #: Those that are not ``ok``, each once.
    statuses: tuple[str, ...] = ()
    #: Where it was measured, in the order of their appearance.
    hosts: tuple[str, ...] = ()
    #: Share of the CPUs that others took during all samples that count; 0 if any was without them.
    disturbed: float = 0.0
    #: Groups of hosts on which others did so, each once; or took so much that nothing is valid there.
    disturbed_on: tuple[tuple[str, ...], ...] = ()


class BenchmarkAttempt(NamedTuple):
    """Whether a benchmark worked in a night on some hosts."""

    #: Name of what was run.
    benchmark: str
    #: Where it was run: names of hosts.
    hosts: tuple[str, ...]
    #: Whether none of its samples worked.
    failed: bool


class NightMeasurements(Mapping[tuple[int, int], NightMeasurement]):
    """`NightMeasurement` by numbers of series and night."""

    def __init__(self, rows: HistoryColumns, codes: Integers, nights: int) -> None:
        """rows: by series and night. codes: by row, the number of its series times `nights`, and of its
        night."""
        self._rows, self._nights = rows, nights
        begins = np.flatnonzero(np.diff(codes, prepend=-1))
        ends = [*begins[1:].tolist(), len(codes)]
        self._slices = dict(zip(codes[begins].tolist(), map(slice, begins.tolist(), ends), strict=True))
        self._of = lru_cache(maxsize=2**10)(self._measurement)

    def __getitem__(self, place: tuple[int, int]) -> NightMeasurement:
        if place not in self:
            raise KeyError(place)
        return self._of(place[0] * self._nights + place[1])

    def __contains__(self, place: object) -> bool:
        series, night = cast("tuple[int, int]", place)
        return 0 <= night < self._nights and series * self._nights + night in self._slices

    def __iter__(self) -> Iterator[tuple[int, int]]:
        return (divmod(code, self._nights) for code in self._slices)

    def __len__(self) -> int:
        return len(self._slices)

    def _measurement(self, code: int) -> NightMeasurement:
        rows = self._rows.take(self._slices[code])
        first, again = counting(rows)
        conditions = (rows.conditions[number] for number in _once(rows.condition))
        statuses = dict.fromkeys(condition.status for condition in conditions if condition.status != OK)
        hosts = dict.fromkeys(host for place in _once(rows.place) for host in rows.places[place])
        disturbed_on: dict[tuple[str, ...], None] = {}
        end = sending_end(rows.keys[rows.series[0]])
        disturbed, shares = rows.disturbed, []
        for counts in (first, again):
            shares += disturbed[counts].tolist()
            # A row that others disturbed counts only where they disturbed all rows of its hosts.
            places = _once(rows.place[counts & (disturbed > 0)])
            disturbed_on |= dict.fromkeys(
                HostGroup.of(rows.places[place], end).hosts for place in places if rows.places[place]
            )
        if invalid := invalid_by_others(rows) if statuses else set():
            count = rows.place[first | again]
            invalid -= {tuple(sorted(rows.places[place])) for place in _once(count)}
        return NightMeasurement(
            statuses=tuple(statuses),
            hosts=tuple(hosts),
            disturbed=max(shares, default=0.0) if all(shares) else 0.0,
            disturbed_on=(*disturbed_on, *sorted(invalid)),
        )


class NightAttempts(Mapping[str, Sequence[BenchmarkAttempt]]):
    """By night, which benchmarks were tried where."""

    def __init__(self, rows: HistoryColumns) -> None:
        self._rows = rows
        self._order = stable_order(rows.run).astype(np.int32)  # it is held as long as the rows
        self._begins = np.append(0, np.cumsum(np.bincount(rows.run, minlength=len(rows.runs))))
        self._numbers = {run: number for number, run in enumerate(rows.runs)}
        self._of = lru_cache(maxsize=2**4)(self._attempts)

    def __getitem__(self, run: str) -> Sequence[BenchmarkAttempt]:
        return self._of(self._numbers[run])

    def __iter__(self) -> Iterator[str]:
        return iter(self._numbers)

    def __len__(self) -> int:
        return len(self._numbers)

    def _attempts(self, number: int) -> Sequence[BenchmarkAttempt]:
        rows = self._rows.take(self._order[self._begins[number] : self._begins[number + 1]])
        worked: dict[tuple[str, tuple[str, ...], bool], bool] = {}
        columns = (column.tolist() for column in (rows.series, rows.place, rows.condition))
        for series, place, condition in dict.fromkeys(zip(*columns, strict=True)):
            status, again, _ = rows.conditions[condition]
            if hosts := rows.places[place]:
                tried = rows.keys[series].benchmark, hosts, again
                worked[tried] = worked.get(tried, False) or _worked(status)
        return [BenchmarkAttempt(name, hosts, not well) for (name, hosts, _), well in worked.items()]


def broken_benchmarks(rows: HistoryColumns) -> dict[str, dict[str, tuple[str, ...]]]:
    """By night and benchmark, the statuses that are not ``ok``, each once."""
    bad = np.array([condition.status != OK for condition in rows.conditions], dtype=bool)
    of_bad = np.flatnonzero(bad[rows.condition])
    broken: dict[str, dict[str, dict[str, None]]] = {}
    columns = (column[of_bad].tolist() for column in (rows.run, rows.series, rows.condition))
    for run, series, condition in dict.fromkeys(zip(*columns, strict=True)):
        of_night = broken.setdefault(rows.runs[run], {})
        of_night.setdefault(rows.keys[series].benchmark, {})[rows.conditions[condition].status] = None
    return {
        run: {benchmark: tuple(statuses) for benchmark, statuses in of_night.items()}
        for run, of_night in broken.items()
    }


def _worked(status: str) -> bool:
    """Whether the hosts answered: an ``unavailable`` tool and an invalid number are no failure of theirs."""
    return not status.startswith(("failed", "timeout"))


def _once(numbers: NDArray[np.int32]) -> list[int]:
    """Each number once, in the order of appearance."""
    different, first = np.unique(numbers, return_index=True)
    once: list[int] = different[np.argsort(first)].tolist()
    return once
