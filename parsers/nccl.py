"""nccl-tests and rccl-tests (2.x): collectives among GPUs, their text and JSON (``-J``; rccl's ``-Z json``).

Lines with the version, the test and ``nThread`` begin a run, ``Rank`` lines list the GPUs, a heading heads
the columns, one row a size, with the numbers of two buffers: {"place": "out-of-place"} and "in-place". Times
are µs of one call, GB is 10^9 bytes.

- {"counted": "algbw"} is size by time; {"counted": "busbw"} is that × 2(n-1)/n (all-reduce), (n-1)/n
  (all-gather, reduce-scatter, all-to-all, gather, scatter) or 1 of n ranks: what each GPU's link carries. A
  row whose numbers contradict that is invalid; so is one with wrong elements. Hypercube and all-to-all-v
  count otherwise.
- Up to 2.10 each row prints an error, and the run's end whether one was too large: without that it is
  invalid.
- ``cputime`` (-C) ends when the call returns, and is no latency.

`case` is the program (``all_reduce_perf``), which the text names since 2.17, else the command line; where
neither does it is ``collective``. The size is the tool's: the whole of what is gathered or scattered.

Source: ``src/util.cu``, ``src/common.cu`` and ``doc/PERFORMANCE.md`` of nccl-tests, ``src/common.cpp`` of
rccl-tests.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from pathlib import PurePath
from typing import Any, Final

from npc.document import below
from npc.files import parse_json
from npc.parsers.text.endings import why_ended
from npc.parsers.text.lines import NUMBER, WHOLE, complete_lines, sections
from npc.parsers.text.runs import of_one_run
from npc.parsers.text.tables import rows_of
from npc.records.reading import OK, Reading, failed
from npc.validity.arithmetic import row_contradiction

#: Lines of others (mpirun, NCCL_DEBUG) in between.
_OTHERS: Final = r"[^\n]*(?:\n(?!# )[^\n]*){0,200}"
#: Up to three lines, of which a text has at least one.
_TITLE: Final = re.compile(
    r"(?=\n# (?:[nr]ccl-tests version |Collective test starting: |nThreads?:? ))"
    rf"(?:\n# [nr]ccl-tests version (\S{{1,60}}){_OTHERS})?"
    rf"(?:\n# Collective test starting: (\S{{1,200}}){_OTHERS})?"
    r"(?:\n# nThreads?:? [^\n]*)?(?=\n)"
)
_HEADING: Final = re.compile(r"\n#[ \t]+(size[ \t]+count[ \t][^\n]{1,400})(?=\n)")
_RANK: Final = re.compile(r"\n#[ \t]+Rank[ \t]+([0-9]{1,7})[ \t]")
_CHECKED: Final = re.compile(r"\n#[ \t]+Out of bounds values[ \t]*:[ \t]*([0-9]+) (?:OK|FAILED)")
_ERROR: Final = re.compile(r"\n[^\n]{0,200}?(Test [A-Z]{3,4} failure [^\n]*|Invalid number of GPUs: [^\n]*)")
_CSV: Final = re.compile(r"\nnumCycle,collective,")
_PROGRAM: Final = re.compile(r"([a-z_]+)_perf(?:_mpi)?")
_NUMBER: Final = rf"{NUMBER}(?:e[-+][0-9]{{2}})?"
_CELLS: Final = {
    **dict.fromkeys(("time", "cputime", "algbw", "busbw", "i_min", "i_max", "i_p99", "i_cv%"), _NUMBER),
    **dict.fromkeys(("#wrong", "error"), rf"{_NUMBER}|N/A|-?nan|inf"),
    **dict.fromkeys(("size", "count"), WHOLE),
    "root": r"-?[0-9]{1,7}",
    "timestamp": r"[0-9-]{10} [0-9:]{8}",
}
_WORD: Final = r"\S{1,40}"
#: Column → the statistic of a call's time.
_TIMES: Final = {"time": "", "i_min": "min", "i_max": "max", "i_p99": "p99"}
#: Collective → what busbw is: algbw × this × (n-1)/n, or algbw itself (0).
_BUS: Final = {
    "all_reduce": 2, "all_gather": 1, "reduce_scatter": 1, "alltoall": 1, "gather": 1, "scatter": 1,
    "broadcast": 0, "reduce": 0, "sendrecv": 0,
}  # fmt: skip
_PLACES: Final = ("out-of-place", "in-place")
#: What the JSON of nccl-tests and of rccl-tests is known by; our columns → their keys.
_KEYS: Final = ('"nccl_version"', '"numCycle"')
_JSON: Final = re.compile(r"^[ \t]*(?:\{|\[\s*\{)", re.MULTILINE)
_NCCL: Final = {"time": "time", "algbw": "alg_bw", "busbw": "bus_bw", "#wrong": "nwrong"}
_RCCL: Final = {"size": "size", "type": "type", "redop": "redop", "time": "time", "algbw": "algBw",
                "busbw": "busBw", "#wrong": "wrong"}  # fmt: skip
PROGRAMS: Final = (
    r"(?:all_reduce|all_gather|broadcast|reduce|reduce_scatter|alltoallv?|scatter|gather|sendrecv"
    r"|hypercube)_perf(?:_mpi)?|[nr]ccl-tests"
)
MARKS: Final = (
    r'# [nr]ccl-tests version |# Collective test starting: |# nThreads?:? [0-9]|\[?\s{0,9}\{"numCycle": '
    r"|numCycle,collective,|#[ \t]+size[ \t]+count[ \t]|[^\n]*: Test (?:NCCL|CUDA) failure "
    r'|\{[^\n]*"args": \["[^"]*_perf'
)
ROWS: Final = (
    r"[ \t]*[0-9]+ +[0-9]+ +(?:float|double|half|bfloat16|u?int[0-9]+|fp8_\w+) +(?:(?:sum|prod|min|max"
    r"|avg|mulsum|none) +)?-?[0-9]"
)


def parse(text: str, argv: Sequence[str] = ()) -> Iterator[Reading]:
    """Readings of one or several runs, row by row; the failure of a run without a row or with an error."""
    expected = _case("", argv)
    if any(key in text for key in _KEYS) and (begin := _JSON.search(text)):
        yield from _document(text[begin.start() : max(text.rfind("}"), text.rfind("]")) + 1], argv)
        return
    text = complete_lines(text)
    runs = [(*title.groups(""), body) for title, body in sections(_TITLE, text)]
    if not runs and _HEADING.search(text):
        runs = [("", "", text)]
    for version, program, body in runs:
        yield from of_one_run(_run(version, _case(program, argv), body))
    error = _ERROR.search(text)
    if not runs and _CSV.search(text):
        yield failed(expected, "bandwidth", "the CSV of rccl-tests is not read; its text and JSON are")
    elif not runs and (error or expected != "collective"):
        yield failed(expected, "bandwidth", error[1] if error else "no table was printed")


def _run(version: str, case: str, body: str) -> Iterator[Reading]:
    """Readings of what stands between one title and the next."""
    headings, error, checked = list(_HEADING.finditer(body)), _ERROR.search(body), _CHECKED.search(body)
    if error or not headings:
        yield failed(case, "bandwidth", error[1] if error else "no table was printed")
    if len(headings) > 1:
        yield failed(case, "bandwidth", "lines of several runs in one another")
    if len(headings) != 1:
        return
    names = headings[0][1].split()
    starts = [place for place, name in enumerate(names) if name in ("time", "cputime")]
    if len(starts) not in (1, 2) or not len(starts) == names.count("algbw") == names.count("busbw"):
        yield failed(case, "bandwidth", f"unknown columns: {headings[0][1]}")
        return
    if names[-1] not in ("#wrong", "error"):
        yield failed(case, "bandwidth", "its heading ends before the column #wrong: it was wrapped or cut")
        return
    lines = body[headings[0].end() :]
    rows = rows_of(lines, [_CELLS.get(name, _WORD) for name in names])
    if not rows and "redop" in names:  # blank where a collective reduces nothing
        place = names.index("redop")
        without = [*names[:place], *names[place + 1 :]]
        rows = rows_of(lines, [_CELLS.get(name, _WORD) for name in without])
        rows = [[*row[:place], "none", *row[place:]] for row in rows]
    if not rows and not error:
        yield failed(case, "bandwidth", why_ended(lines) or "no row is whole")
    listed = {int(rank) for rank in _RANK.findall(body)}
    ranks = max(listed, default=-1) + 1
    sure = len(listed) == ranks and "..." not in body[: headings[0].start()]
    status = OK
    if "error" in names and (checked is None or int(checked[1])):
        status = (
            f"invalid: {checked[1]} values out of bounds" if checked else "invalid: ends before the check"
        )
    for row in rows:
        places = _PLACES if len(starts) == 2 else ("",)  # of one alone nobody knows which
        for place, start, end in zip(places, starts, [*starts[1:], len(row)], strict=True):
            cells = dict(
                zip([*names[: starts[0]], *names[start:]], row[: starts[0]] + row[start:end], strict=False)
            )
            own = OK if checked is None and cells.get("error") == "N/A" else status  # nothing to be checked
            yield from _readings(case, {**cells, "place": place}, ranks, version, own, judge_bus=sure)


def _readings(
    case: str,
    cells: Mapping[str, str],
    ranks: int,
    version: str = "",
    status: str = OK,
    *,
    judge_bus: bool = False,
) -> Iterator[Reading]:
    """Readings of a row's numbers of one buffer. judge_bus: whether `ranks` is sure enough for that."""
    size, wrong = int(cells["size"]), cells.get("#wrong", "N/A")
    if not size:  # fewer elements than ranks: nothing is sent
        return
    params = {"ranks": str(ranks)} if ranks else {}
    params |= {name: cells[name] for name in ("type", "place", "redop", "root") if name in cells}
    params = {name: word for name, word in params.items() if word not in ("", "none", "-1")}
    if wrong != "N/A" and float(wrong):
        status = f"invalid: #wrong is {wrong}"
    elif status == OK and (reason := _contradiction(case, cells, ranks if judge_bus else 0)):
        status = f"invalid: {reason}"
    for name, statistic in _TIMES.items():
        if seconds := float(Decimal(cells.get(name, 0)).scaleb(-6)):
            own = {**params, "statistic": statistic} if statistic else params
            yield Reading(case, "latency", seconds, size, status, own, version)
    for name in ("algbw", "busbw"):
        if rate := float(Decimal(cells[name]).scaleb(9)):
            yield Reading(case, "bandwidth", rate, size, status, {**params, "counted": name}, version)


def _contradiction(case: str, cells: Mapping[str, str], ranks: int) -> str:
    """Why algbw, and busbw of `ranks` if any are known, are not what size and time make."""
    collective, size, time = case.removesuffix("_perf"), int(cells["size"]), cells.get("time")
    if time is None or (collective not in _BUS and cells.get("redop", "none") == "none"):
        return ""
    reason = row_contradiction(cells["algbw"], 1e9, size, time, 1e-6)
    if reason or ranks < 2 or collective not in _BUS:
        return reason
    factor = _BUS[collective] * (ranks - 1) / ranks or 1.0
    reason = row_contradiction(cells["busbw"], 1e9, factor * size, time, 1e-6)
    return f"busbw of {ranks} ranks: {reason}" if reason else ""


def _document(text: str, argv: Sequence[str]) -> Iterator[Reading]:
    """Readings of the JSON of nccl-tests or rccl-tests."""
    try:
        document = parse_json(text)
    except (ValueError, RecursionError):
        yield failed(_case("", argv), "bandwidth", "the JSON is not whole")
        return
    rows = list(_of_rccl(document, argv) if isinstance(document, list) else _of_nccl(document, argv))
    for case, cells, ranks in rows:
        yield from _readings(case, cells, ranks)
    errors = below(document, "errors")
    if errors or not rows:
        yield failed(_case("", argv), "bandwidth", str(errors) if errors else "the JSON has no result")


def _of_nccl(document: Any, argv: Sequence[str]) -> Iterator[tuple[str, dict[str, str], int]]:
    """Case, cells and ranks of each row and buffer; devices are listed once a process."""
    words, results = below(document, "args"), below(document, "results")
    case = _case("", [*argv, *map(str, words if isinstance(words, list) else ())])
    devices, *counts = (below(document, "config", key) for key in ("devices", "nthreads", "ngpus"))
    known = isinstance(devices, list) and all(isinstance(count, int) for count in counts)
    ranks = len(devices) * counts[0] * counts[1] if known else 0
    for entry in results if isinstance(results, list) else ():
        common = _cells(entry, {name: name for name in ("size", "type", "redop", "root")})
        for place, key in zip(_PLACES, ("out_of_place", "in_place"), strict=True):
            if common and (cells := _cells(below(entry, key), _NCCL)):
                yield case, {**common, **cells, "place": place}, ranks


def _of_rccl(entries: Sequence[Any], argv: Sequence[str]) -> Iterator[tuple[str, dict[str, str], int]]:
    """The same, of a list of entries; ranks with several GPUs are not counted."""
    names = {name.replace("_", ""): f"{name}_perf" for name in _BUS}
    for entry in entries:
        ranks = below(entry, "ranks") if below(entry, "gpusPerRank") == 1 else below(entry, "gpus")
        if cells := _cells(entry, _RCCL):
            cells["place"] = _PLACES[bool(below(entry, "inPlace"))]
            case = _case(names.get(str(below(entry, "name")).lower(), ""), argv)
            yield case, cells, ranks if isinstance(ranks, int) else 0


def _cells(entry: Any, keys: Mapping[str, str]) -> dict[str, str]:
    """The cells of a row by their columns, as a text has them; empty if one is not like that."""
    cells = {
        name: str(below(entry, key)).strip() for name, key in keys.items() if below(entry, key) is not None
    }
    like = all(re.fullmatch(_CELLS.get(name, _WORD), cell) for name, cell in cells.items())
    return cells if like and keys.keys() & {"size", "algbw", "busbw"} <= cells.keys() else {}


def _case(program: str, argv: Sequence[str]) -> str:
    """The program that the text or else the command line names."""
    names = (_PROGRAM.fullmatch(PurePath(word).name) for word in (program, *argv))
    return next((f"{name[1]}_perf" for name in names if name), "collective")
