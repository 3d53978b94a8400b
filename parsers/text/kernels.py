"""What NPC's drivers of mathematical libraries print alike: the library, and how a row is judged."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Final

from npc.machine.sysfs import parse_cpus
from npc.parsers.text.lines import SCIENTIFIC, WHOLE, complete_lines, sections
from npc.parsers.text.runs import of_one_run
from npc.records.reading import OK, Reading, failed
from npc.validity.arithmetic import row_contradiction

_LIBRARY: Final = re.compile(r"\nLibrary = ([^\n,]{1,80}), [^\n]*(?=\n)")
_VERSION: Final = re.compile(r"\nVersion = [^\n]*?([0-9]{1,5}(?:\.[0-9]{1,9}){1,4})[^\n]*(?=\n)")
_KERNELS: Final = re.compile(r"\nKernels = (\w{1,40})(?=\n)")
_CPUS: Final = re.compile(r"\nCPUs = ([0-9][0-9,-]{0,400})(?=\n)")
_REQUESTED: Final = re.compile(rf"\nThreads requested = ({WHOLE})(?=\n)")
_USED: Final = re.compile(rf"\nThreads of the library = ({WHOLE})(?=\n)")
#: The error of a result in parts of what rounding explains; a failed one has no number.
ERROR: Final = rf"{SCIENTIFIC}|-?nan|inf"
_END: Final = "\nComplete\n"
_UNKNOWN: Final = "unknown"
#: CPUs that may be busy beyond the threads asked for: rounding, and the driver's own thread.
_SPARE: Final = 0.2
#: Below it a call is too short for the clock, whose calls take some tens of ns.
_SHORTEST_S: Final = 1e-6


#: The readings of a launch's table: of its text, its params, the library's version and what is wrong with it.
Rows = Callable[[str, dict[str, str], str, str], Iterator[Reading]]


def readings_of(text: str, driver: str, case: str, rows: Rows) -> Iterator[Reading]:
    """Those of one or several launches of a driver (``blas``, ``fft``); the failure, as `case`, of one that
    was not ended, or of none."""
    text = complete_lines(text)
    error = re.search(rf"\n((?:{driver}|usage): [^\n]+)(?=\n)", text)
    reason = error[1].removeprefix(f"{driver}: ") if error else ""
    title = re.compile(rf"\n{driver.upper()} driver of NPC:[^\n]*(?=\n)")
    launches = [lines for _, lines in sections(title, text)]
    for lines in launches:
        params, version, wrong = _library_of(lines)
        yield from of_one_run(rows(lines, params, version, wrong))
        if _END not in lines:
            yield failed(case, "flops", reason or "the table was not ended", params=params)
    if error and not launches:
        yield failed(case, "flops", reason)


def _library_of(lines: str) -> tuple[dict[str, str], str, str]:
    """(params, version, what is wrong with the threads) of the lines above the table."""
    matches = {
        "library": _LIBRARY.search(lines),
        "kernel": _KERNELS.search(lines),
        "threads": _REQUESTED.search(lines),
        "thread_cpus": _CPUS.search(lines),
    }
    params = {name: match[1] for name, match in matches.items() if match and match[1] != _UNKNOWN}
    version, threads_used = _VERSION.search(lines), _USED.search(lines)
    wrong, threads = "", int(params.get("threads", 0))
    if threads_used and int(threads_used[1]) != threads:
        wrong = f"the library has {threads_used[1]} threads, {threads} were asked for"
    elif "thread_cpus" in params:
        try:
            few = len(parse_cpus(params["thread_cpus"])) < threads
        except ValueError:  # half a list is none
            del params["thread_cpus"]
        else:
            wrong = f"{threads} threads took turns on CPU {params['thread_cpus']}" if few else ""
    return params, version[1] if version else "", wrong


def status_of(rate: str, flop: float, seconds: str, least: str, busy: str, error: str, threads: int) -> str:
    """The status of a row by its own cells; `rate` in GFLOP/s."""
    if not float(error) <= 1:  # NaN too
        return f"invalid: the result is wrong: its error is {error} times what rounding explains"
    if float(seconds) < float(least):
        return f"invalid: the least time is {least} s"
    if float(seconds) < _SHORTEST_S:
        return f"invalid: a call of {seconds} s is too short for the clock"
    if threads and float(busy) > threads + _SPARE:
        return f"invalid: {busy} CPUs were busy, {threads} threads were asked for"
    contradicts = row_contradiction(rate, 1e9, flop, seconds, 1.0)
    return f"invalid: {contradicts.replace('B/s', 'FLOP/s').replace(' B ', ' FLOP ')}" if contradicts else OK
