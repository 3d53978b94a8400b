"""OSU Micro-Benchmarks: the C programs (3.x to 7.x) and mpi4py's ports of them (``demo/osu_*.py``).

A title names the test (``# OSU MPI Bandwidth Test v7.4``, ``# MPI Bandwidth Test``), ``#`` lines tell what
was varied, the last of them heads the columns, one row a message size. MB is 10^6 bytes, times are µs;
latency is half the round trip in the point-to-point tests and the mean over the ranks in collectives.

- The columns count by their headings (``-f`` adds min, max and iterations, ``-c`` validation, ``-z``
  percentiles), except in mpi4py's ports, whose osu_bw.py and osu_bibw.py head MB/s with "Latency [us]":
  there the test's name decides.
- A row whose validation is not ``Pass`` is invalid.
- Of non-blocking collectives the latency is the pure communication; overall and compute are times, and the
  overlap is the part of the communication that the computation hides.
- Barrier and start-up tests have no size; mpi4py's barrier prints 0 for it.

`case` is the program's name (``osu_latency``); ``# Datatype: MPI_CHAR.`` and the like become params.

Source: the benchmarks' README; headings in ``c/util/osu_util_mpi.c``; mpi4py ``demo/osu_*.py``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import chain, repeat
from pathlib import PurePath
from typing import Final, Literal, NamedTuple

from npc.record import OK, Reading
from parsers import NUMBER, WHOLE, cells_of_rows, column, complete_lines, failed, whole_numbers

_TITLE: Final = re.compile(r"\n# (OSU )?(MPI[^\n]*?) Test(?: v(\S+))?[ \t]*(?=\n)")
_HEADING: Final = re.compile(r"\n# (Size[^\n]{0,400}|[^\n]{0,400}[(\[]us[)\]][^\n]{0,400})(?=\n)")
_COLUMN: Final = re.compile(
    r"Size(?: \[B\])?|Iterations|Validation|Transmit Size|MB/s|Messages/s"
    r"|\S[^()\[\]]{0,40}?[(\[](?:us|MB/s|%)[)\]]|\S+"
)
_VARIED: Final = re.compile(r"([A-Za-z][\w ]{0,40}): ([^\s\]]{0,80}[^\s\].])")
_INIT: Final = re.compile(
    rf"\nnprocs: ({WHOLE}), min: ({WHOLE}) ms, max: ({WHOLE}) ms, avg: ({WHOLE}) ms(?=\n|\Z)"
)
_ERROR: Final = re.compile(r"\n(This test requires[^\n]*|[^\n]*exited with non-zero status[^\n]*)")
_PROGRAM: Final = re.compile(r"osu_\w+")
_WORD: Final = "[A-Za-z]+"
_STATISTIC: Final = re.compile(r"(Min|Max|P\d+)\b")
_NAMES: Final = {
    "bandwidth": "bw",
    "bi-directional_bandwidth": "bibw",
    "multiple_bandwidth_/_message_rate": "mbw_mr",
    "multi_latency": "multi_lat",
    "multi-threaded_latency": "latency_mt",
    "multi-process_latency": "latency_mp",
    "hello_world": "hello",
}


class _Column(NamedTuple):
    """A measured column: its place, the metric, what one printed unit is, and its qualifiers."""

    place: int
    metric: str
    unit: Literal["us", "MB/s", "1/s", "%"]
    params: dict[str, str]


class _Layout(NamedTuple):
    """A table: the patterns of a row's cells, the measured columns, the place of the validation."""

    cells: tuple[str, ...]
    columns: list[_Column]
    validation: int | None


def parse(text: str, argv: Sequence[str] = ()) -> Iterator[Reading]:
    """Readings of one or several tables, column by column; the failure of a run without a table."""
    text = complete_lines(text)
    parts = _TITLE.split(text)
    if len(parts) > 1:
        return chain.from_iterable(map(_table, parts[1::4], parts[2::4], parts[3::4], parts[4::4]))
    program = next((name[0] for word in argv if (name := _PROGRAM.match(PurePath(word).name))), "")
    error = _ERROR.search(text)
    if error or program:
        return _failure(program or "osu", error[1] if error else "no table was printed")
    return iter(())


def _table(osu: str | None, title: str, version: str | None, body: str) -> Iterable[Reading]:
    """Readings of what stands between one title and the next; `body` begins with the title's line end."""
    case = _case(title)
    heading = _HEADING.search(body)
    if heading is None:
        return _start_up(case, version or "", body)
    layout = _layout(heading[1], body[: heading.start()], title, bool(osu))
    cells = cells_of_rows(body[heading.end() :], layout.cells)
    if not cells:
        return _failure(case, "the table has no row")
    width = len(layout.cells)
    sizes: Iterable[int | None] = repeat(None)
    if heading[1].startswith("Size") and case != "osu_barrier":
        sizes = whole_numbers(" ".join(cells[::width]))
    statuses: list[str] | None = None
    if layout.validation is not None:
        words = cells[layout.validation :: width]
        statuses = [OK if word == "Pass" else f"invalid: validation: {word}" for word in words]
    return chain.from_iterable(
        [
            column(case, metric, _in_si(cells[place::width], unit), sizes, statuses, params, version or "")
            for place, metric, unit, params in layout.columns
        ]
    )


def _in_si(cells: Iterable[str], unit: str) -> list[float]:
    """The printed numbers in the SI base unit."""
    if unit == "us":
        return [value / 1e6 for value in map(float, cells)]
    if unit == "MB/s":
        return [value * 1e6 for value in map(float, cells)]
    if unit == "%":
        return [value / 100 for value in map(float, cells)]
    return list(map(float, cells))


def _start_up(case: str, version: str, body: str) -> Iterator[Reading]:
    """Readings of osu_init; osu_hello measures nothing; any other test without a table has failed."""
    times = _INIT.search(body)
    if times:
        ranks, *numbers = times.groups()
        statistics: tuple[dict[str, str], ...] = ({"statistic": "min"}, {"statistic": "max"}, {})
        return (
            Reading(case, "time", int(number) / 1e3, params={"ranks": ranks, **params}, tool_version=version)
            for number, params in zip(numbers, statistics, strict=True)
        )
    return iter(()) if case == "osu_hello" else _failure(case, "no table was printed")


@lru_cache
def _layout(heading: str, header: str, title: str, osu: bool) -> _Layout:
    """The table's columns; `header` holds the lines between title and heading."""
    varied = {key.strip().lower().replace(" ", "_"): value for key, value in _VARIED.findall(header)}
    names = _COLUMN.findall(heading)
    if not osu and title.endswith("Bandwidth"):  # mpi4py heads MB/s with "Latency [us]"
        names = [name.replace("Latency [us]", "MB/s") for name in names]
    columns = [
        _Column(place, metric, unit, {**varied, **params})
        for place, name in enumerate(names)
        for metric, unit, params in _quantity(name)
    ]
    whole = [place for place, name in enumerate(names) if name.startswith(("Size", "Iterations", "Transmit"))]
    cells = [NUMBER] * len(names)
    for place in whole:
        cells[place] = WHOLE
    validation = names.index("Validation") if "Validation" in names else None
    if validation is not None:
        cells[validation] = _WORD
    return _Layout(tuple(cells), columns, validation)


def _quantity(name: str) -> Iterator[tuple[str, Literal["us", "MB/s", "1/s", "%"], dict[str, str]]]:
    """What the column `name` holds: nothing, or metric, unit and qualifiers."""
    statistic = _STATISTIC.match(name)
    params = {"statistic": statistic[1].lower()} if statistic else {}
    if name.startswith(("Overall", "Compute")):
        yield "time", "us", {"part": name[:7].lower()}
    elif name.startswith("Overlap"):
        yield "overlap", "%", params
    elif "MB/s" in name:
        yield "bandwidth", "MB/s", params
    elif name == "Messages/s":
        yield "message_rate", "1/s", params
    elif "Lat" in name or name.startswith("Pure Comm"):
        yield "latency", "us", params


@lru_cache
def _case(title: str) -> str:
    """The program's name, from the title: ``MPI Non-Blocking Broadcast Latency`` → ``osu_ibcast``."""
    kind, _, name = title.lower().partition(" ")
    name = (
        name.replace(" personalized exchange", "")
        .replace("all-to-all", "alltoall")
        .replace("broadcast", "bcast")
    )
    nonblocking = name.startswith("non-blocking ")
    name = name.removeprefix("non-blocking ").replace(" ", "_")
    if kind.startswith("mpi_"):  # one-sided: MPI_Put Latency → osu_put_latency
        return f"osu_{kind[4:]}_{_NAMES.get(name, name)}"
    name = _NAMES.get(name, name)
    if name not in ("latency", "latency_mt", "latency_mp", "multi_lat"):
        name = name.removesuffix("_latency")
    return f"osu_{'i' if nonblocking else ''}{name}"


def _failure(case: str, reason: str) -> Iterator[Reading]:
    return iter((failed(case, "bandwidth" if "bw" in case else "latency", reason),))
