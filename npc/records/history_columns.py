"""The rows of a history, by column: millions of rows as arrays, or a few as objects.

A year of a thousand nodes has five million rows. As objects they would take gigabytes and minutes; as columns
they take 28 bytes each, and medians by series, night and hosts take seconds.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from npc.records.history_index import FileIndex, RowCondition, time_text
from npc.records.record import OK, moment
from npc.records.series import Series
from npc.statistics.arrays import Booleans, Floats, Integers
from npc.statistics.groups import stable_order

T = TypeVar("T")


class HistoryRow(NamedTuple):
    """One row of the history, as far as judging needs it."""

    #: The series that the record belongs to.
    key: Series
    #: Name of the night.
    run: str
    #: When it was measured, ISO 8601 with offset.
    time: str
    #: In the metric's SI unit; None where nothing was measured.
    value: float | None
    #: ``ok``, or why the value must not be used.
    status: str
    #: Where it was measured, in the order of their roles; empty if not known.
    hosts: tuple[str, ...]
    #: Whether it belongs to the night's second measurement.
    remeasured: bool
    #: Share of the CPUs (of 1) that others took during the launch; 0 where none is known.
    disturbed: float = 0.0


@dataclass(frozen=True, eq=False, kw_only=True)
class HistoryColumns:
    """Rows of a history; it can be gone through as `HistoryRow`s."""

    #: By number, a series.
    keys: Sequence[Series]
    #: By number, the name of a night.
    runs: Sequence[str]
    #: By number, a group of hosts.
    places: Sequence[tuple[str, ...]]
    #: By number, whether and how a row counts.
    conditions: Sequence[RowCondition]
    #: By row, the number of its series.
    series: NDArray[np.int32]
    #: By row, the number of its night.
    run: NDArray[np.int32]
    #: By row, the number of its group of hosts.
    place: NDArray[np.int32]
    #: By row, the number of its condition.
    condition: NDArray[np.int32]
    #: By row, in the metric's SI unit; NaN where nothing was measured.
    value: Floats
    #: By row, when it was measured: microseconds since 1970; where `texts` are given, a number in these.
    time: NDArray[np.int64]
    #: The different times, ISO 8601, the earliest first; None for those of `time`.
    texts: Sequence[str] | None = None

    @classmethod
    def of(cls, rows: Iterable[HistoryRow]) -> HistoryColumns:
        """Those rows, in their order."""
        if isinstance(rows, HistoryColumns):
            return rows
        every = list(rows)
        texts = sorted(dict.fromkeys(row.time for row in every), key=moment)
        order = {text: number for number, text in enumerate(texts)}
        keys, series = _numbered(row.key for row in every)
        runs, run = _numbered(row.run for row in every)
        places, place = _numbered(row.hosts for row in every)
        conditions, condition = _numbered(
            RowCondition(row.status, row.remeasured, row.disturbed) for row in every
        )
        return cls(
            keys=keys, runs=runs, places=places, conditions=conditions, series=series, run=run, place=place,
            condition=condition, value=np.array([row.value for row in every], dtype=np.float64),
            time=np.array([order[row.time] for row in every], dtype=np.int64), texts=texts,
        )  # fmt: skip

    @classmethod
    def of_files(cls, indexes: Sequence[FileIndex], nights: Iterable[str]) -> HistoryColumns:
        """The rows of some nights, by series, night and time; what is alike in these is in the order of the
        files."""
        runs = tuple(sorted(set(nights)))
        of_run = {name: number for number, name in enumerate(runs)}
        parts: dict[str, list[NDArray[Any]]] = {name: [] for name in _COLUMNS}
        tables: dict[str, dict[Any, int]] = {"series": {}, "place": {}, "condition": {}}
        for index in indexes:
            night = np.array([of_run.get(name, -1) for name in index.tables.nights], dtype=np.int32)
            if not np.any(night >= 0):
                continue
            columns = {name: index.column(name) for name in _COLUMNS}
            index.forget()
            columns["night"] = night[columns["night"]]
            for name, entries in (
                ("series", index.tables.series), ("place", index.tables.places),
                ("condition", index.tables.conditions),
            ):  # fmt: skip
                table = tables[name]
                numbers = [table.setdefault(entry, len(table)) for entry in entries]
                columns[name] = np.array(numbers, dtype=np.int32)[columns[name]]
            chosen = columns["night"] >= 0
            for name, column in columns.items():
                parts[name].append(column if chosen.all() else column[chosen])
        keys = sorted(tables["series"], key=lambda key: key.order)
        new = {key: number for number, key in enumerate(keys)}
        by_number = np.array([new[key] for key in tables["series"]], dtype=np.int32)
        parts["series"] = [by_number[part] for part in parts["series"]]
        whole = {name: _joined(parts.pop(name), dtype) for name, dtype in _COLUMNS.items()}
        order = _order(whole["series"], whole["night"], whole["time"])
        series, run, place, condition, value, time = (whole.pop(name)[order] for name in _COLUMNS)
        return cls(
            keys=tuple(keys), runs=runs, places=tuple(tables["place"]),
            conditions=tuple(tables["condition"]), series=series, run=run, place=place, condition=condition,
            value=value, time=time,
        )  # fmt: skip

    def __len__(self) -> int:
        return len(self.value)

    def __iter__(self) -> Iterator[HistoryRow]:
        for begin in range(0, len(self), _AT_A_TIME):
            end = begin + _AT_A_TIME
            columns = (self.series, self.run, self.time, self.value, self.condition, self.place)
            for series, run, time, value, condition, place in zip(
                *(column[begin:end].tolist() for column in columns), strict=True
            ):
                status, again, disturbed = self.conditions[condition]
                yield HistoryRow(
                    self.keys[series], self.runs[run], self.time_text(time),
                    None if value != value else value, status, self.places[place], again, disturbed,
                )  # fmt: skip

    def time_text(self, time: int) -> str:
        """The text of a number in `time`, ISO 8601."""
        return time_text(time) if self.texts is None else self.texts[time]

    def take(self, rows: Booleans | Integers | NDArray[np.int32] | slice) -> HistoryColumns:
        """Some of the rows."""
        return replace(
            self, series=self.series[rows], run=self.run[rows], place=self.place[rows],
            condition=self.condition[rows], value=self.value[rows], time=self.time[rows],
        )  # fmt: skip

    def where(self, chosen: Booleans) -> HistoryColumns:
        """The chosen rows; all of them are not copied."""
        return self if chosen.all() else self.take(chosen)

    def of_series(self, chosen: Iterable[bool]) -> HistoryColumns:
        """The rows of some series. chosen: by number of a series."""
        return self.take(np.array(list(chosen), dtype=bool)[self.series])

    def of_nights(self, chosen: Iterable[bool]) -> HistoryColumns:
        """The rows of some nights. chosen: by number of a night."""
        return self.where(np.array(list(chosen), dtype=bool)[self.run])

    def by_series(self) -> Iterator[tuple[Series, HistoryColumns]]:
        """The rows of each series, the series in the order of their first rows."""
        ordered = (
            self if np.all(self.series[1:] >= self.series[:-1]) else self.take(stable_order(self.series))
        )
        numbers, begins = np.unique(ordered.series, return_index=True)
        ends = np.append(begins[1:], len(ordered))
        first = np.unique(self.series, return_index=True)[1]
        for place in np.argsort(first).tolist():
            yield self.keys[numbers[place]], ordered.take(slice(begins[place], ends[place]))

    def measured_where(self) -> Iterator[tuple[str, str, tuple[str, ...]]]:
        """Benchmark, night and hosts of all rows, each of these once."""
        benchmarks = sorted({key.benchmark for key in self.keys})
        of_key = np.array([benchmarks.index(key.benchmark) for key in self.keys], dtype=np.int64)
        runs, places = max(len(self.runs), 1), max(len(self.places), 1)
        codes = np.unique((of_key[self.series] * runs + self.run) * places + self.place)
        for code in codes:
            rest, place = divmod(int(code), places)
            yield benchmarks[rest // runs], self.runs[rest % runs], self.places[place]

    @property
    def hosts(self) -> set[str]:
        """All hosts of these rows."""
        return {host for place in np.unique(self.place).tolist() for host in self.places[place]}

    def begun(self, also: Mapping[str, str] = MappingProxyType({})) -> dict[str, str]:
        """Night → the time of its first row, the oldest first. also: night → time, of nights that may have no
        row."""
        first = np.full(len(self.runs), np.iinfo(np.int64).max)
        np.minimum.at(first, self.run, self.time)
        known = np.flatnonzero(np.bincount(self.run, minlength=len(self.runs))).tolist()
        times = {self.runs[run]: self.time_text(first[run].item()) for run in known}
        return dict(sorted({**also, **times}.items(), key=lambda night: (moment(night[1]), night[0])))

    # By row, what its condition says.

    @property
    def usable(self) -> Booleans:
        """Whether its status is ``ok`` and it has a value."""
        return self.ok & ~np.isnan(self.value)

    @property
    def ok(self) -> Booleans:
        """Whether its status is ``ok``."""
        return self._by_condition([status == OK for status, _, _ in self.conditions])

    @property
    def remeasured(self) -> Booleans:
        """Whether it belongs to the night's second measurement."""
        return self._by_condition([again for _, again, _ in self.conditions])

    @property
    def disturbed(self) -> Floats:
        """Share of the CPUs (of 1) that others took; 0 where none is known."""
        return np.array([disturbed for _, _, disturbed in self.conditions], dtype=np.float64)[self.condition]

    def _by_condition(self, chosen: list[bool]) -> Booleans:
        return np.array(chosen, dtype=bool)[self.condition]


#: The columns of an index that judging needs.
_COLUMNS = {
    "series": np.int32, "night": np.int32, "place": np.int32, "condition": np.int32, "value": np.float64,
    "time": np.int64,
}  # fmt: skip
#: Rows that are made objects of at a time.
_AT_A_TIME = 2**14


def _numbered(entries: Iterable[T]) -> tuple[tuple[T, ...], NDArray[np.int32]]:
    """The different entries, and by entry its number among them."""
    numbers: dict[T, int] = {}
    column = np.array([numbers.setdefault(entry, len(numbers)) for entry in entries], dtype=np.int32)
    return tuple(numbers), column


def _joined(parts: Sequence[NDArray[Any]], dtype: type) -> NDArray[Any]:
    return np.concatenate(parts) if parts else np.zeros(0, dtype=dtype)


def _order(series: NDArray[Any], run: NDArray[Any], time: NDArray[Any]) -> Integers:
    """What sorts rows by series, run and time, and leaves what is alike in its order."""
    code = series.astype(np.int64) * (run.max(initial=0) + 1) + run
    order: Integers = stable_order(code)
    code, moments = code[order], time[order]
    if np.any((code[1:] == code[:-1]) & (moments[1:] < moments[:-1])):
        order = np.lexsort((time, run, series))  # not as a night writes them: merged, or by another tool
    return order
