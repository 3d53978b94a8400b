"""STREAM 5.x (McCalpin), ``stream_mpi.c`` and programs that print its customary table: memory bandwidth.

The rate is the best of the repetitions without the first; MB is 10^6 bytes (the heading may say GB, or MiB
for 2^20), and the bytes are those the kernel names (two arrays for copy and scale, three for add and triad),
not the write-allocate traffic. `case` is the kernel, size the bytes of all three arrays, over all ranks;
{"stores": "non-temporal"} where the program says that it stores past the caches (``Stores = …``, NPC's own
source). Several tables in one run are told apart, each with its own threads. STREAM in Fortran is not read.

A rate is invalid where the text itself tells so: the arrays did not validate, or no validation is printed
(NVIDIA's STREAM has none); several programs wrote one table; the printed MiB are not
those of the array size; rate × best time is not what the kernel moves (of doubles 16 bytes an element for
copy and scale, 24 for add and triad); other threads ran than were asked for; more threads are bound to some
CPUs than these are; a test took less than 20 ticks of the clock, STREAM's own limit. Whether arrays exceed
the caches (four times the last level, STREAM's rule 1) the text does not tell.

Where the OpenMP library prints each thread's place (`AFFINITY_FORMAT`, with OMP_DISPLAY_AFFINITY; GCC's says
nothing of a single thread), the CPUs of all threads are {"thread_cpus": "0-3"}.

Source: stream.c 5.10; OpenMP 5.0, sections 6.13 and 6.14; https://www.cs.virginia.edu/stream/ref.html.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, pairwise
from typing import Final

from npc.machine.sysfs import format_cpus, parse_cpus
from npc.parsers.text.lines import NUMBER, WHOLE, complete_lines, sections
from npc.records.reading import OK, Reading, failed
from npc.records.units import PREFIXES
from npc.validity.arithmetic import row_contradiction

_VERSION: Final = re.compile(
    r"\n(?:STREAM version (?:\$Revision: )?([^\s$]+)[^\n]*| *STREAM Benchmark implementation in CUDA *)(?=\n)"
)
_NVIDIA: Final = "NVIDIA"
_FORTRAN: Final = re.compile(r"\n *You are running each test ")
_RATE: Final = re.compile(rf"\n(Copy|Scale|Add|Triad): +({NUMBER}) +{NUMBER} +({NUMBER}) +{NUMBER} *(?=\n)")
_ELEMENT: Final = re.compile(
    rf"\nThis system uses ({WHOLE}) bytes per (?:array element|DOUBLE PRECISION word)\.(?=\n)"
)
_LENGTH: Final = re.compile(
    rf"\n(?:(?:Total Aggregate )?Array size = ({WHOLE})(?:,| \(elements\))"
    rf"| *Array size \(double\)=({WHOLE})\*)"
)
_PER_ARRAY: Final = re.compile(rf"\n(?:Total Aggregate )?Memory per array = ({NUMBER}) MiB")
#: The MB of STREAM 5.9 are of 2^20 bytes.
_TOTAL: Final = re.compile(rf"\nTotal (?:Aggregate )?memory required = ({NUMBER}) Mi?B")
_RANKS: Final = re.compile(rf"\nData is distributed across ({WHOLE}) MPI ranks(?=\n)")
_STORES: Final = re.compile(r"\nStores = ([a-z-]{1,20})\.(?=\n)")
#: Of several ranks it is the threads of each.
_THREADS: Final = re.compile(
    rf"\nNumber of Threads (requested|counted)(?: for each MPI rank| for rank 0)? = ({WHOLE})(?=\n)"
)
_TICKS: Final = re.compile(rf"\n *\(= ({WHOLE}) (?:clock|timer) ticks\)(?=\n)")
#: OMP_AFFINITY_FORMAT of what is read here; libraries differ in the format they have by default.
AFFINITY_FORMAT: Final = "OpenMP thread %n of %N on CPUs %A"
_CPU: Final = r"[0-9]{1,5}(?:-[0-9]{1,5})?"
_PLACE: Final = re.compile(
    rf"\nOpenMP thread ([0-9]{{1,5}}) of ([0-9]{{1,5}}) on CPUs ({_CPU}(?:,{_CPU})*)[ \t]*(?=\n)"
)
_HEADING: Final = re.compile(r"\nFunction +(?:Best +)?Rate \(?([MGT]i?)B/s\b")
#: Kernel → how many of the three arrays it moves.
_KERNELS: Final = {"Copy": 2, "Scale": 2, "Add": 3, "Triad": 3}
_LEAST_TICKS: Final = 20
#: MiB are printed with one digit after the point.
_ROUNDING_MIB: Final = 0.051
PROGRAMS: Final = r"stream(?:_\w+)?"
MARKS: Final = (
    r"STREAM version |OpenMP thread [0-9]+ of | STREAM Benchmark implementation in CUDA"
    r"|Function +(?:Best +)?Rate \(?[MGT]i?B/s| *You are running each test "
)
ROWS: Final = r"(?:Copy|Scale|Add|Triad): +[0-9]"


def parse(text: str, argv: Sequence[str] = ()) -> Iterator[Reading]:
    """Readings of one or several runs, kernel by kernel; a run without a kernel's rate has failed."""
    text = complete_lines(text)
    runs = [(version[1] or _NVIDIA, body) for version, body in sections(_VERSION, text)]
    if not runs and _FORTRAN.search(text):
        for kernel in _KERNELS:
            yield failed(kernel.lower(), "bandwidth", "STREAM in Fortran is not read")
        return
    places = _places(text) if len(runs) <= 1 else {}  # of several runs nobody knows whose they are
    for version, body in runs or [("", text)]:
        tables = _tables(body)
        for table in tables:
            yield from _run(version, table, places if len(tables) == 1 else {})


def _tables(body: str) -> list[str]:
    """The lines of each table of a run, from the threads above its heading on; the first has all above it,
    and what that says of the arrays holds for the others as well."""
    starts = [0]
    for heading, following in pairwise(_HEADING.finditer(body)):
        rows = list(_RATE.finditer(body, heading.end(), following.start() + 1))
        if rows:  # else two programs wrote one table
            threads = _THREADS.search(body, rows[-1].end(), following.start() + 1)
            starts.append(threads.start() if threads else following.start())
    of_arrays = (_ELEMENT, _LENGTH, _PER_ARRAY, _TOTAL, _STORES, _RANKS)
    above = [pattern.search(body, 0, starts[1]) for pattern in of_arrays if len(starts) > 1]
    shared = "".join(match[0] for match in above if match)
    tables = [body[start:end] for start, end in pairwise([*starts, len(body)])]
    return [tables[0], *(f"{table.rstrip()}{shared}\n" for table in tables[1:])]


def _places(text: str) -> dict[int, frozenset[int]]:
    """The CPUs that each thread is bound to; empty unless each of them is known."""
    lines = _PLACE.findall(text)
    places = {int(thread): parse_cpus(cpus) for thread, _, cpus in lines}
    complete = all(int(of) == len(places) == len(lines) for _, of, _ in lines)
    return places if complete and set(places) == set(range(len(places))) else {}


def _run(version: str, body: str, places: Mapping[int, frozenset[int]]) -> Iterator[Reading]:
    """Readings of one run; nothing if it shows neither STREAM's banner nor its table."""
    rows = list(_RATE.finditer(body))
    rates = {row[1]: (row[2], row[3]) for row in rows}
    if not rates and not version:
        return
    element, array, stores, ranks = (pattern.search(body) for pattern in (_ELEMENT, _LENGTH, _STORES, _RANKS))
    length = array[1] or array[2] if array else ""
    element_bytes = int(element[1]) if element else 8 if version == _NVIDIA else 0
    # Those below the rows are of a next table, which has none yet.
    threads = dict(_THREADS.findall(body, 0, rows[0].start() + 1 if rows else len(body)))
    number = threads.get("counted") or threads.get("requested", "")
    bound = list(places.values()) if str(len(places)) == number else []
    size = 3 * element_bytes * int(length) if element_bytes and length else None
    params = {
        "array_size": length,
        "precision": "single" if element_bytes == 4 else "",
        "ranks": ranks[1] if ranks else "",
        "threads": number,
        "thread_cpus": format_cpus(chain.from_iterable(bound)),
        "stores": stores[1] if stores and stores[1] != "ordinary" else "",
    }
    params = {name: value for name, value in params.items() if value}
    status = _validity(body, size, threads, bound)
    if version == _NVIDIA:
        status = "invalid: NVIDIA's STREAM does not validate its arrays"
    elif len(rows) > len(rates):
        status = "invalid: several programs wrote this table, or one several tables"
    heading = _HEADING.search(body)
    unit = PREFIXES[heading[1]] if heading else 1e6
    for kernel, arrays in _KERNELS.items():
        printed, best = rates.get(kernel, ("0", "0"))
        rate, own = float(printed) * unit, status
        if not rate:
            yield failed(kernel.lower(), "bandwidth", "no rate was printed", size, params)
            continue
        if status == OK and size:
            wrong = row_contradiction(printed, unit, size * arrays / 3, best, 1.0)
            own = f"invalid: {wrong}" if wrong else OK
        yield Reading(kernel.lower(), "bandwidth", rate, size, own, params, version)


def _validity(
    body: str, size: int | None, threads: Mapping[str, str], bound: Sequence[frozenset[int]]
) -> str:
    """The status that the text gives its own rates."""
    if "\nFailed Validation" in body:
        return "invalid: the arrays failed STREAM's validation"
    if "\nSolution Validates" not in body:
        return "invalid: no validation of the arrays is printed"
    if size is None:
        return "invalid: the array size is not printed"
    for printed, arrays in ((_PER_ARRAY.search(body), 1), (_TOTAL.search(body), 3)):
        if printed and abs(float(printed[1]) - size * arrays / 3 / 2**20) > _ROUNDING_MIB:
            return f"invalid: an array is of {size / 3 / 2**20:.1f} MiB, but: {printed[0].strip()}"
    if len(set(threads.values())) > 1:
        return f"invalid: {threads['counted']} threads ran, {threads['requested']} were asked for"
    if reason := too_few_ticks(body):
        return f"invalid: {reason}"
    for cpus in set(bound):
        sharing = sum(place <= cpus for place in bound)
        if sharing > len(cpus):
            return f"invalid: {sharing} threads took turns on CPU {format_cpus(cpus)}"
    return OK


def too_few_ticks(body: str) -> str:
    """Why the clock was too coarse for STREAM; empty if it was not."""
    ticks = _TICKS.search(body)
    if not ticks or int(ticks[1]) >= _LEAST_TICKS:
        return ""
    return f"a test takes {ticks[1]} clock ticks, STREAM asks for at least {_LEAST_TICKS}"
