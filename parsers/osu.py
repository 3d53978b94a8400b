"""OSU Micro-Benchmarks: the C programs (2.x to 7.x) and mpi4py's ports of them (``demo/osu_*.py``).

A title names the test (``# OSU MPI Bandwidth Test v7.4``, ``# MPI Bandwidth Test``), ``#`` lines tell what
was varied, one heads the columns (5.x heads osu_ibarrier without its ``#``), one row a message size. Each
datatype of ``-T`` has a table of its own, named above its heading since 7.3 and below it before.
MB is 10^6 bytes, times are µs;
latency is half the round trip in the point-to-point tests and the mean over the ranks in collectives.

- The columns count by their headings (``-f`` adds min, max and iterations, ``-c`` validation, ``-z``
  percentiles), except in mpi4py's ports, whose osu_bw.py and osu_bibw.py head MB/s with "Latency [us]":
  there the test's name decides.
- A row whose validation is not ``Pass`` is invalid.
- Of non-blocking collectives the latency is the pure communication; overall and compute are times, and the
  overlap is the part of the communication that the computation hides.
- Barrier and start-up tests have no size; mpi4py's barrier prints 0 for it.
- Buffers of a GPU: {"accelerator": "cuda"} from the title, {"buffers": "D H"} of sender and receiver from the
  line that tells them, or from the command line, where the program prints none (since 7.3).

`case` is the program's name (``osu_latency``); ``# Datatype: MPI_CHAR.`` and the like become params. Tests of
NCCL have theirs in the case (``osu_nccl_allreduce``); those of OpenSHMEM and UPC, and osu_mbw_mr over several
window sizes (``-V``), are not read.

Source: the benchmarks' README; headings in ``c/util/osu_util_mpi.c``; mpi4py ``demo/osu_*.py``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import PurePath
from typing import Final

from npc.parsers.text.lines import DECIMAL_2, WHOLE, complete_lines, sections
from npc.parsers.text.runs import of_one_run
from npc.parsers.text.tables import whole_rows
from npc.records.reading import OK, Reading, failed
from npc.validity.arithmetic import message_contradiction

_TITLE: Final = re.compile(
    r"\n# (OSU )?(?:One Sided )?((?:MPI|NCCL|RCCL|XCCL)[^\n]*?) Test"
    r"(?: v(\S+)| \(Version (\S+)\))?[ \t]*(?=\n)"
)
_USING: Final = re.compile(r"\n#Using ([NR]CCL)[ \t]*(?=\n)")
_NOT_READ: Final = re.compile(r"\n# (OSU (?:OpenSHMEM|UPC)[^\n]{0,100}) Test")
_HEADING: Final = re.compile(
    r"\n(?:# |[ \t]*(?=Overall\())(Size[^\n]{0,400}|[^\n]{0,400}[(\[]us[)\]][^\n]{0,400})(?=\n)"
)
#: A heading or the datatype of the rows below it.
_PART: Final = re.compile(_HEADING.pattern + r"|\n# Datatype: ([^\n]{0,80}[^\n.])\.?[ \t]*(?=\n)")
_BUFFERS: Final = re.compile(
    r"\n# (?:Send Buffer|Rank 0 Memory) on \w+ \((\w+)\)"
    r" and (?:Receive Buffer|Rank 1 Memory) on \w+ \((\w+)\)"
)
_BUFFER: Final = re.compile("[DHM]|M[DH]")
_VARIED_WINDOW: Final = re.compile(r"\n# Uni-directional Bandwidth \(MB/sec\)")
_COLUMN: Final = re.compile(
    r"Size(?: \[B\])?|Iterations|Validation|Transmit Size|MB/s|Messages/s"
    r"|\S[^()\[\]]{0,40}?[(\[](?:us|MB/s|%)[)\]]|\S+"
)
_VARIED: Final = re.compile(r"([A-Za-z][\w ]{0,40}): ([^\s\]]{0,80}[^\s\].])")
_INIT: Final = re.compile(
    rf"\nnprocs: ({WHOLE}), min: ({WHOLE}) ms, max: ({WHOLE}) ms, avg: ({WHOLE}) ms(?=\n)"
)
_ERROR: Final = re.compile(
    r"\n(This test requires[^\n]*|MPI_Init_thread must return[^\n]*|\w+ support not enabled[^\n]*"
    r"|[^\n]*exited with non-zero status[^\n]*)"
)
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
    "neighborhood ": "neighbor_",
    "neighbor ": "neighbor_",
}
PROGRAMS: Final = r"osu_\w+(?:\.py)?|osu\.py"
MARKS: Final = r"# OSU |# MPI [A-Z][^\n]* Test$|#Using [NR]CCL"
ROWS: Final = r"# (?:Size|Min Latency|Avg Latency)\b[^\n]*(?:[(\[](?:us|MB/s)[)\]]|MB/s)|#? +Overall\(us\)"


def parse(text: str, argv: Sequence[str] = ()) -> Iterator[Reading]:
    """Readings of one or several tables, column by column; the failure of a run without a table."""
    text = complete_lines(text)
    tables = list(sections(_TITLE, text))
    for title, body in tables:
        kind = title[2].partition(" ")[0].partition("-")[2].lower()  # MPI-CUDA Latency: buffers in its memory
        if not title[1] and title[2].endswith("Bandwidth"):  # mpi4py heads MB/s with "Latency [us]"
            body = body.replace("Latency [us]", "MB/s")
        yield from of_one_run(_tables(_case(title[2]), title[3] or title[4] or "", kind, body, argv))
    program, error, other = _program(argv), _ERROR.search(text), _NOT_READ.search(text)
    if tables:
        return
    if other:
        yield _failure(program or "osu", f"{other[1]} is not read, nor are others of that kind")
    elif "xccl" in program and (using := _USING.search(text)) and _HEADING.search(text):
        case = program.replace("xccl", using[1].lower())  # between two ranks they print no title
        yield from of_one_run(_tables(case, "", {"NCCL": "cuda", "RCCL": "rocm"}[using[1]], text, argv))
    elif _HEADING.search(text) and (program or _BUFFERS.search(text)):
        yield _failure(program or "osu", "the title line is missing")
    elif program or error:
        yield _failure(program or "osu", error[1] if error else "no table was printed")


def _tables(case: str, version: str, accelerator: str, body: str, argv: Sequence[str]) -> Iterator[Reading]:
    """Readings of what stands between one title and the next: a table for each datatype."""
    if _VARIED_WINDOW.search(body):
        yield _failure(case, "a table of several window sizes (-V) is not read")
        return
    heading = _HEADING.search(body)
    if heading is None:
        yield from _start_up(case, version, body)
        return
    varied = _VARIED.findall(body, 0, heading.start())
    params = {key.strip().lower().replace(" ", "_"): value for key, value in varied}
    if accelerator:
        params["accelerator"] = accelerator
        if buffers := _buffers(body, argv):
            params["buffers"] = buffers
    names: list[str] = []
    read = 0
    for part, lines in sections(_PART, body):
        if part[1] and names not in ([], _COLUMN.findall(part[1])):
            yield _failure(case, "another heading in its table: a title is missing")
            return
        if part[1]:
            names = _COLUMN.findall(part[1])
        else:
            params = {**params, "datatype": part[2]}
        if not names:
            continue
        rows, wrong = whole_rows(
            lines, [_cell(name) for name in names], (0,) if names[0].startswith("Size") else ()
        )
        read += len(rows) + bool(wrong)
        yield from _columns(case, names, rows, params, version)
        if wrong:
            yield _failure(case, wrong)
    if not read:
        yield _failure(case, "the table has no row")


def _columns(
    case: str, names: list[str], rows: list[list[str]], params: dict[str, str], version: str
) -> Iterator[Reading]:
    """Readings of one table, column by column."""
    sized = names[:1] == ["Size"] or names[:1] == ["Size [B]"]
    for place, name in enumerate(names):
        metric, power, own = _quantity(name)
        for row in rows if metric else ():
            value, size = float(row[place] + power), int(row[0]) if sized and case != "osu_barrier" else None
            yield Reading(case, metric, value, size, _status(names, row), {**params, **own}, version)


def _status(names: list[str], row: list[str]) -> str:
    """The status of a row: what it says of its validation, and whether its numbers contradict each other."""
    cells = dict(zip(names, row, strict=True))
    if cells.get("Validation", "Pass") != "Pass":
        return f"invalid: validation: {cells['Validation']}"
    if {"Size", "MB/s", "Messages/s"} <= cells.keys() and "Transmit Size" not in cells:
        reason = message_contradiction(cells["MB/s"], 1e6, int(cells["Size"]), cells["Messages/s"])
        return f"invalid: {reason}" if reason else OK
    return OK


def _buffers(body: str, argv: Sequence[str]) -> str:
    """Where the buffers of sender and receiver are, ``D H``; empty where nothing tells."""
    buffers, last = _BUFFERS.search(body), argv[-2:]
    if buffers:
        return f"{buffers[1]} {buffers[2]}"
    return " ".join(last) if len(last) == 2 and all(map(_BUFFER.fullmatch, last)) else ""


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
    return WHOLE if name.startswith(("Size", "Iterations", "Transmit")) else DECIMAL_2


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
    elif not kind.startswith("mpi"):  # NCCL-CUDA Allreduce Latency → osu_nccl_allreduce
        name = f"{kind.partition('-')[0]}_{name}"
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
