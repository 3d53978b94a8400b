"""Readings made: one of a failure, those of a table's column."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import repeat
from typing import Final

from npc.records.reading import OK, Reading

_NO_PARAMS: Final[Mapping[str, str]] = Reading("", "", None).params


class Column:
    """What the readings of a table's column share, made once for all tables of a layout."""

    __slots__ = ("_case", "_metric", "_params", "_status", "_tool_version")

    def __init__(
        self,
        case: str,
        metric: str,
        params: Mapping[str, str] = _NO_PARAMS,
        tool_version: str = "",
        status: str = OK,
    ) -> None:
        self._case = repeat(case)
        self._metric = repeat(metric)
        self._params = repeat(params)
        self._status = repeat(status)
        self._tool_version = repeat(tool_version)

    def readings(
        self,
        values: Iterable[float],
        sizes: Iterable[int | None],
        statuses: Sequence[str] = (),
        params: Sequence[Mapping[str, str]] = (),
    ) -> Iterator[Reading]:
        """One reading a value, made without a Python call each: tables have millions of rows.

        statuses, params: those of each, where they are not all the column's.
        """
        return map(
            Reading,
            self._case,
            self._metric,
            values,
            sizes,
            statuses or self._status,
            params or self._params,
            self._tool_version,
        )
