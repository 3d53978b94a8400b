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
from pathlib import PurePath
from typing import Final

from npc.records.reading import OK, Reading, failed
from parsers.text.lines import NUMBER, WHOLE, complete_lines, sections
from parsers.text.tables import rows_of

_TITLE: Final = re.compile(r"\n# (OSU )?(MPI[^\n]*?) Test(?: v(\S+))?[ \t]*(?=\n)")
_HEADING: Final = re.compile(r"\n# (Size[^\n]{0,400}|[^\n]{0,400}[(\[]us[)\]][^\n]{0,400})(?=\n)")
_COLUMN: Final = re.compile(
    r"Size(?: \[B\])?|Iterations|Validation|Transmit Size|MB/s|Messages/s"
    r"|\S[^()\[\]]{0,40}?[(\[](?:us|MB/s|%)[)\]]|\S+"
)
_VARIED: Final = re.compile(r"([A-Za-z][\w ]{0,40}): ([^\s\]]{0,80}[^\s\].])")
_INIT: Final = re.compile(
    rf"\nnprocs: ({WHOLE}), min: ({WHOLE}) ms, max: ({WHOLE}) ms, avg: ({WHOLE}) ms(?=\n)"
)
_ERROR: Final = re.compile(r"\n(This test requires[^\n]*|[^\n]*exited with non-zero status[^\n]*)")
_PROGRAM: Final = re.compile(r"osu_\w+")
_STATISTIC: Final = re.compile(r"(Min|Max|P\d+)\b")
#: Words of titles, longer ones first → what programs are called after.
_NAMES: Final = {
    "bi-directional bandwidth": "bibw",
    "multiple bandwidth / message rate": "mbw_mr",
    "multi latency": "multi_lat",
    "multi-threaded latency": "latency_mt",
    "multi-process latency": "latency_mp",
    "bandwidth": "bw",
    "hello world": "hello",
    "non-blocking ": "i",
    " personalized exchange": "",
    "all-to-all": "alltoall",
    "broadcast": "bcast",
    "accumulate": "acc",
    "compare_and_swap": "cas",
    "fetch_and_op": "fop",
}


def parse(text: str, argv: Sequence[str] = ()) -> Iterator[Reading]:
    """Readings of one or several tables, column by column; the failure of a run without a table."""
    text = complete_lines(text)
    tables = list(sections(_TITLE, text))
    for title, body in tables:
        yield from _table(title, body)
    program, error = _program(argv), _ERROR.search(text)
    if not tables and (program or error):
        yield _failure(program or "osu", error[1] if error else "no table was printed")


def _table(title: re.Match[str], body: str) -> Iterator[Reading]:
    """Readings of what stands between one title and the next."""
    case, version = _case(title[2]), title[3] or ""
    heading = _HEADING.search(body)
    if heading is None:
        yield from _start_up(case, version, body)
        return
    varied = _VARIED.findall(body, 0, heading.start())
    params = {key.strip().lower().replace(" ", "_"): value for key, value in varied}
    accelerator = title[2].partition(" ")[0].partition("-")[2]
    if accelerator:  # MPI-CUDA Latency: buffers in its memory
        params["accelerator"] = accelerator.lower()
    names = _COLUMN.findall(heading[1])
    if not title[1] and title[2].endswith("Bandwidth"):  # mpi4py heads MB/s with "Latency [us]"
        names = [name.replace("Latency [us]", "MB/s") for name in names]
    rows = rows_of(body[heading.end() :], map(_cell, names))
    if not rows:
        yield _failure(case, "the table has no row")
    sized = heading[1].startswith("Size") and case != "osu_barrier"
    for place, name in enumerate(names):
        metric, power, own = _quantity(name)
        for row in rows if metric else ():
            word = row[names.index("Validation")] if "Validation" in names else "Pass"
            status = OK if word == "Pass" else f"invalid: validation: {word}"
            value, size = float(row[place] + power), int(row[0]) if sized else None
            yield Reading(case, metric, value, size, status, {**params, **own}, version)


def _start_up(case: str, version: str, body: str) -> Iterator[Reading]:
    """Readings of osu_init; osu_hello measures nothing; any other test without a table has failed."""
    times = _INIT.search(body)
    if times:
        ranks, *numbers = times.groups()
        for number, statistic in zip(numbers, ("min", "max", ""), strict=True):
            params = {"ranks": ranks, **({"statistic": statistic} if statistic else {})}
            yield Reading(case, "time", int(number) / 1e3, params=params, tool_version=version)
    elif case != "osu_hello":
        yield _failure(case, "no table was printed")


def _cell(name: str) -> str:
    """What the cells of the column `name` are like."""
    if name == "Validation":
        return "[A-Za-z]+"
    return WHOLE if name.startswith(("Size", "Iterations", "Transmit")) else NUMBER


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
    title = title.lower()
    for words, name in _NAMES.items():
        title = title.replace(words, name)
    kind, _, name = title.partition(" ")
    if kind.startswith("mpi_"):  # one-sided: MPI_Put Latency → osu_put_latency
        name = f"{kind[4:]}_{name}"
    return "osu_" + name.removesuffix(" latency").replace(" ", "_")


def _program(argv: Sequence[str]) -> str:
    """The C program or port that a command line starts, or the test that NPC's own ``osu.py`` is told; empty
    if none."""
    for word, following in zip(argv, [*argv[1:], ""], strict=False):
        name = PurePath(word).name
        if name == "osu.py" and re.fullmatch(r"\w+", following):
            return f"osu_{following}"
        if program := _PROGRAM.match(name):
            return program[0]
    return ""


def _failure(case: str, reason: str) -> Reading:
    return failed(case, "bandwidth" if "bw" in case else "latency", reason)
