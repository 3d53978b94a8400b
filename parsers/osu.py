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
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import chain, repeat
from pathlib import PurePath
from typing import Final, NamedTuple

from npc.records.reading import OK, Reading, failed
from parsers.text.lines import NUMBER, WHOLE, complete_lines
from parsers.text.readings import Column
from parsers.text.tables import Cell, by_layout, is_long, rows_of_tables

#: A title with the comments and empty lines below it, of which the last is usually the heading.
_HEAD: Final = re.compile(
    r"\n# ((?:OSU )?MPI[^\n]*? Test(?: v\S+)?[ \t]*(?=\n)(?:\n(?:#(?! (?:OSU )?MPI)[^\n]*)?(?=\n))*)"
)
_TITLE: Final = re.compile(r"(OSU )?(MPI[^\n]*?) Test(?: v(\S+))?[ \t]*(?=\n)")
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
#: The starter of this project, whose first argument is the test.
_STARTER: Final = "osu.py"
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
#: One-sided operations whose programs are named shorter than MPI's functions.
_OPERATIONS: Final = {
    "accumulate": "acc",
    "get_accumulate": "get_acc",
    "compare_and_swap": "cas",
    "fetch_and_op": "fop",
}


class _Layout(NamedTuple):
    """A table: its program, a row's cells, the measured columns with their places, the place of sizes."""

    case: str
    cells: tuple[Cell, ...]
    measured: list[tuple[int, Column]]
    sizes: int | None


def parse(text: str, argv: Sequence[str] = ()) -> Iterator[Reading]:
    """Readings of one or several tables, column by column; the failure of a run without a table."""
    text = complete_lines(text)
    parts = _HEAD.split(text)
    if len(parts) > 1:
        tables, long = by_layout(map(_table, parts[1::2], parts[2::2])), is_long(text)
        readings = (_readings(head, bodies, long) for head, bodies in tables.items())
        return chain.from_iterable(chain.from_iterable(readings))
    program = _program(argv)
    error = _ERROR.search(text)
    if error or program:
        return _failure(program or "osu", error[1] if error else "no table was printed")
    return iter(())


def _table(head: str, body: str) -> tuple[str, str]:
    """What a table's layout follows from, and its lines: of what stands between one title and the next."""
    if _layout(head) is None:  # other lines stand above the heading, or there is none
        heading = _HEADING.search(body)
        if heading:
            return head + body[: heading.end()], body[heading.end() :]
    return head, body


def _readings(head: str, tables: list[str], together: bool) -> Iterator[Iterator[Reading]]:
    """Readings of tables of one layout, column by column."""
    layout = _layout(head)
    if layout is None:
        for body in tables:
            yield _start_up(head + "\n", body)
        return
    for rows in rows_of_tables(tables, layout.cells, together):
        if not any(rows.of_tables):
            yield _failure(layout.case, "the table has no row")
            continue
        sizes = rows.columns[layout.sizes] if layout.sizes is not None else repeat(None)
        validated = [OK if word == "Pass" else f"invalid: validation: {word}" for (word,) in rows.words]
        statuses = list(map(validated.__getitem__, rows.kinds))
        for place, column in layout.measured:
            yield column.readings(rows.columns[place], sizes, statuses)


def _start_up(head: str, body: str) -> Iterator[Reading]:
    """Readings of osu_init; osu_hello measures nothing; any other test without a table has failed."""
    _, title, version = _TITLE.findall(head)[0]
    case = _case(title)
    times = _INIT.search(body)
    if times:
        ranks, *numbers = times.groups()
        statistics: tuple[dict[str, str], ...] = ({"statistic": "min"}, {"statistic": "max"}, {})
        return (
            Reading(case, "time", int(number) / 1e3, params={"ranks": ranks, **params}, tool_version=version)
            for number, params in zip(numbers, statistics, strict=True)
        )
    return iter(()) if case == "osu_hello" else _failure(case, "no table was printed")


@lru_cache(maxsize=1024)
def _layout(head: str) -> _Layout | None:
    """The table's columns; `head` goes from the title to the heading. None without a heading."""
    head += "\n"
    title = _TITLE.match(head)
    heading = _HEADING.search(head, title.end()) if title else None
    if title is None or heading is None:
        return None
    varied = {
        key.strip().lower().replace(" ", "_"): value
        for key, value in _VARIED.findall(head, title.end(), heading.start())
    }
    accelerator = title[2].partition(" ")[0].partition("-")[2]
    if accelerator:  # MPI-CUDA Latency: buffers in its memory
        varied["accelerator"] = accelerator.lower()
    names = _COLUMN.findall(heading[1])
    if not title[1] and title[2].endswith("Bandwidth"):  # mpi4py heads MB/s with "Latency [us]"
        names = [name.replace("Latency [us]", "MB/s") for name in names]
    case = _case(title[2])
    cells: list[Cell] = []
    measured: list[tuple[int, Column]] = []
    for place, name in enumerate(names):
        metric, power, params = _quantity(name)
        if metric:
            measured.append((place, Column(case, metric, {**varied, **params}, title[3] or "")))
        pattern = WHOLE if name.startswith(("Size", "Iterations", "Transmit")) else NUMBER
        cells.append(Cell(_WORD if name == "Validation" else pattern, power))
    sizes = 0 if heading[1].startswith("Size") and case != "osu_barrier" else None
    return _Layout(case, tuple(cells), measured, sizes)


def _quantity(name: str) -> tuple[str, str, dict[str, str]]:
    """What the column `name` holds: metric, if any, the power of ten that makes SI units, qualifiers."""
    statistic = _STATISTIC.match(name)
    params = {"statistic": statistic[1].lower()} if statistic else {}
    if name.startswith(("Overall", "Compute")):
        return "time", "e-6", {"part": name[:7].lower()}
    if name.startswith("Overlap"):
        return "overlap", "e-2", params
    if "MB/s" in name:
        return "bandwidth", "e6", params
    if name == "Messages/s":
        return "message_rate", "", params
    if "Lat" in name or name.startswith("Pure Comm"):
        return "latency", "e-6", params
    return "", "", {}


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
        return f"osu_{_OPERATIONS.get(kind[4:], kind[4:])}_{_NAMES.get(name, name)}"
    name = _NAMES.get(name, name)
    if name not in ("latency", "latency_mt", "latency_mp", "multi_lat"):
        name = name.removesuffix("_latency")
    return f"osu_{'i' if nonblocking else ''}{name}"


def _program(argv: Sequence[str]) -> str:
    """The name of the C program or port that a command line starts; empty if none."""
    for word, following in zip(argv, [*argv[1:], ""], strict=False):
        name = PurePath(word).name
        if name == _STARTER and re.fullmatch(r"\w+", following):
            return f"osu_{following}"
        if program := _PROGRAM.match(name):
            return program[0]
    return ""


def _failure(case: str, reason: str) -> Iterator[Reading]:
    return iter((failed(case, "bandwidth" if "bw" in case else "latency", reason),))
