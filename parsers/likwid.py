"""likwid-bench and likwid-perfctr (LIKWID 4 and 5): rates of small assembly kernels, printed and counted.

``MByte/s`` and ``MFlops/s`` are 10^6 a second, over all threads; bytes are those the kernel loads and stores,
without write-allocate. A rate of zero (``load`` has no FLOP) is no measurement and gives no reading.
`case` is the kernel (``load_avx512``), size the working set that was used: the asked one rounded to the
kernel's loop stride and thread count (``Size (Byte)``). ``-w`` has one thread initialise each stream, ``-W``
each thread its part.

- Threads that share a hardware thread spoil the rate (more threads than CPUs run at a fraction of a
  percent of the speed): invalid, told from the lines that place the threads.
- A bandwidth that contradicts the printed data volume and time, or a volume that is not what the kernel loads
  and stores in its updates, is invalid.
- LIKWID 4.0 and 4.1 print ``Size`` for what the kernel moves: size is None. Some count all threads' data
  anew for each work group: invalid, told from the loops and bytes of a thread.
- FLOP/s have ``{"precision": "single"}`` or ``double`` after the kernel's name.
- Errors are on stderr; a run that shows no rate has failed.

A table of likwid-perfctr gives what its group counted, told by the table's header and the units in its rows:
`case` is the group (``MEM``), {"counted": "Memory read bandwidth"} what it was, {"region": …} where.
Rates and volumes are the sum over the hardware threads (a socket's count stands at one of its threads, 0 at
the others), the clock is their mean, the run time the longest. A count of zero gives no reading, as above.

Source: likwid-bench(1), likwid-perfctr(1), https://github.com/RRZE-HPC/likwid/wiki/Likwid-Bench;
``printOutput`` in likwid.lua.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final

from npc.parsers.text.lines import DECIMAL_2, NUMBER, SCIENTIFIC, WHOLE, complete_lines, sections
from npc.parsers.text.options import option, words_after
from npc.parsers.text.runs import of_one_run
from npc.records.reading import OK, Reading, failed
from npc.validity.arithmetic import contradiction

_TEST: Final = re.compile(r"\nTest: (\w+)[ \t]*(?=\n)")
_RATE: Final = re.compile(rf"\n(MFlops|MByte)/s:[ \t]*({DECIMAL_2})[ \t]*(?=\n)")
_SIZE: Final = re.compile(rf"\nSize \(Byte\):[ \t]*({WHOLE})[ \t]*(?=\n)")
_TIME: Final = re.compile(rf"\nTime:[ \t]*({SCIENTIFIC}) sec[ \t]*(?=\n)")
_VOLUME: Final = re.compile(rf"\nData volume \(Byte\):[ \t]*({WHOLE})[ \t]*(?=\n)")
#: Of LIKWID 4.0 and 4.1: the loops of a thread, and the bytes that it moves in one.
_OF_A_THREAD: Final = re.compile(
    rf"\nIterations per thread:[ \t]*({WHOLE})[ \t]*(?:\nInner loop [^\n]*)?\nSize:[ \t]*{WHOLE}[ \t]*"
    rf"\nSize per thread:[ \t]*({WHOLE})[ \t]*(?=\n)"
)
#: One step of a rate's last digit, in B/s.
_STEP: Final = 1e4
_OF_AN_UPDATE: Final = re.compile(
    rf"\n(Cycles(?: per update)?|Load bytes per element|Store bytes per elem\.):[ \t]*({NUMBER})(?=\n)"
)
#: The part of an update's bytes by which rounding may change them.
_PART: Final = 0.01
_THREADS: Final = re.compile(rf"\nUsing ({WHOLE}) threads(?=\n)")
_PLACE: Final = re.compile(r"\nGroup: \d+ Thread \d+ Global Thread \d+ running on (?:hwthread|core) (\d+) ")
_ERROR: Final = re.compile(
    r"\n(Error: [^\n]*|Cannot find domain [^\n]*|Misformated workgroup string[^\n]*|Unknown test case[^\n]*)"
)
_CSV: Final = re.compile(r"\nTABLE,(?:Region [^,\n]{1,100},)?Group [0-9]+ [A-Z]")
#: The title of likwid-perfctr's tables (region, group), and their rows (name, cells).
_TITLE: Final = re.compile(r"\n(?:Region (\S{1,100}), Group|Group) [0-9]+: (\w{1,40})[ \t]*(?=\n)")
_ROW: Final = re.compile(r"\n\|([^|\n]{1,100})\|(.*)\|[ \t]*(?=\n)")
_NAME: Final = re.compile(r"(.+) \[([^]]+)\](?: STAT)?")
#: Unit → metric, that unit in SI, and the column of a table over several threads that tells it.
_COUNTED: Final = {
    "MFLOP/s": ("flops", 1e6, "Sum"),
    "MBytes/s": ("bandwidth", 1e6, "Sum"),
    "GBytes": ("traffic", 1e9, "Sum"),
    "MHz": ("clock", 1e6, "Avg"),
    "s": ("time", 1.0, "Max"),
}
#: Of these units only this row: others are derived (unhalted time) or of a part (the uncore's clock).
_ONLY: Final = {"MHz": "Clock", "s": "Runtime (RDTSC)"}
PROGRAMS: Final = r"likwid-\w+"
MARKS: Final = (
    r"LIKWID MICRO BENCHMARK|Test: \w+[ \t]*$|Allocate: Process running on "
    r"|Threaded Memory Hierarchy Benchmark|Running without Marker API"
    r"|(?:Region \S+, )?Group [0-9]+: \w+[ \t]*$|TABLE,|Warning: Sanitizing vector length "
    r"|(?:Cannot find domain |Error: Cannot use desired domain |Misformated workgroup string"
    r"|Error: (?:At least one workgroup|Unknown test case|The given vector length))"
)
ROWS: Final = r"(?:MByte|MFlops)/s:[ \t]|\|[ \t]*(?:Metric|Runtime \(RDTSC\) \[s\])[ \t]*\|"


def parse(text: str, argv: Sequence[str] = ()) -> Iterator[Reading]:
    """Readings of one or several runs, FLOP/s before bandwidth before what was counted; the failure of a run
    without a rate."""
    words = words_after(argv, "likwid-bench")
    groups = [f"{flag} {value}" for flag, value in pairwise(words) if flag in ("-w", "-W")]
    params = {"workgroup": " ".join(groups)} if groups else {}
    text, kernel = complete_lines(text), option(words, "-t")
    runs = list(sections(_TEST, text))
    for test, body in runs:
        yield from of_one_run(_run(test[1], body, params))
    for title, tables in sections(_TITLE, text):
        own = {**params, "kernel": kernel} if kernel else params
        yield from of_one_run(_counted(title, tables, own))
    if _CSV.search(text):
        yield _failure("likwid-perfctr", "its CSV (-O) is not read", params)
    error = _ERROR.search(text)
    if not runs and (kernel or error):
        yield _failure(kernel or "likwid-bench", error[1] if error else "no result was printed", params)


def _run(kernel: str, body: str, params: dict[str, str]) -> Iterator[Reading]:
    """Readings of what follows a kernel's name."""
    threads, size = _THREADS.search(body), _SIZE.search(body)
    if threads:
        params = {**params, "threads": threads[1]}
    rates = [(name, float(rate)) for name, rate in _RATE.findall(body) if float(rate)]
    if not rates:
        error = _ERROR.search(body)
        yield _failure(kernel, error[1] if error else "no result was printed", params)
        return
    places = _PLACE.findall(body)
    shared = len(places) - len(set(places))
    doubt = f"invalid: {shared + 1} threads or more share a hardware thread" if shared else OK
    bytes_used = int(size[1]) if size else None
    time, volume, of_a_thread = (pattern.search(body) for pattern in (_TIME, _VOLUME, _OF_A_THREAD))
    if of_a_thread and volume and threads:
        moved = int(of_a_thread[1]) * int(of_a_thread[2]) * int(threads[1])
        if moved and int(volume[1]) > 1.5 * moved:
            doubt = f"invalid: its data are counted {int(volume[1]) / moved:.0f} times"
    for name, rate in rates:
        status = doubt
        if name == "MByte" and status == OK and time and volume:
            wrong = contradiction(rate * 1e6, float(volume[1]), float(time[1]), _STEP)
            status = f"invalid: {wrong}" if wrong else _bytes_an_update(body, int(volume[1]))
        if name == "MFlops":
            precision = {"precision": "single" if "_sp" in kernel else "double"}
            yield Reading(kernel, "flops", rate * 1e6, bytes_used, status, {**params, **precision})
        else:
            yield Reading(kernel, "bandwidth", rate * 1e6, bytes_used, status, params)


def _bytes_an_update(body: str, volume: int) -> str:
    """The status of a bandwidth by the bytes that the kernel loads and stores in an update; `volume` is those
    of all updates in bytes, and the cycles tell their number."""
    numbers = dict(_OF_AN_UPDATE.findall(body))
    cycles, of_one = float(numbers.get("Cycles", 0)), float(numbers.get("Cycles per update", 0))
    printed = [numbers.get("Load bytes per element"), numbers.get("Store bytes per elem.")]
    if not (cycles and of_one and all(printed)):
        return OK
    expected, counted = sum(float(number or 0) for number in printed), volume * of_one / cycles
    if abs(counted - expected) <= _PART * expected:
        return OK
    return f"invalid: {counted:.3g} B are counted an update, {expected:.0f} B are loaded and stored"


def _counted(title: re.Match[str], tables: str, params: dict[str, str]) -> Iterator[Reading]:
    """Readings of likwid-perfctr's tables of metrics: one hardware thread's, or the statistics of several."""
    if title[1] is not None:
        params = {**params, "region": title[1]}
    header: list[str] = []
    for row_name, row_cells in _ROW.findall(tables):
        name, cells = row_name.strip(), [cell.strip() for cell in row_cells.split("|")]
        if name in ("Metric", "Event", "Region Info"):
            known = name == "Metric" and (len(cells) == 1 or {"Sum", "Max", "Avg"} <= set(cells))
            header = cells if known else []  # a column for each thread is not read
        elif len(cells) == len(header) and name.endswith(" STAT") == (len(header) > 1):
            yield from _count(title[2], name, dict(zip(header, cells, strict=True)), params)


def _count(group: str, name: str, cells: dict[str, str], params: dict[str, str]) -> Iterator[Reading]:
    """The reading of a row, if its unit is known and anything was counted."""
    named = _NAME.fullmatch(name)
    if not named or named[2] not in _COUNTED or _ONLY.get(named[2], named[1]) != named[1]:
        return
    metric, factor, statistic = _COUNTED[named[2]]
    cell = cells.get(statistic) or next(iter(cells.values()))
    if re.fullmatch(SCIENTIFIC, cell) and float(cell):
        precision = {"DP": "double", "SP": "single"}.get(named[1].rpartition(" ")[2])
        more = {"counted": named[1], **({"precision": precision} if precision else {})}
        yield Reading(group, metric, float(cell) * factor, None, OK, {**params, **more})


def _failure(kernel: str, reason: str, params: dict[str, str]) -> Reading:
    return failed(kernel, "flops" if kernel.startswith("peakflops") else "bandwidth", reason, params=params)
