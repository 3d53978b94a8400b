"""STREAM 5.x (McCalpin) and programs that print its customary table: memory bandwidth of four kernels.

The rate is the best of the repetitions without the first; MB is 10^6 bytes, and the bytes are those the
kernel names (two arrays for copy and scale, three for add and triad), not the write-allocate traffic.
`case` is the kernel, size the bytes of all three arrays; {"stores": "non-temporal"} where the program says
that it stores past the caches (``Stores = …``, NPC's own source).

A rate is invalid where the text itself tells so: the arrays did not validate, or the text ends before they
were checked; the printed MiB are not those of the array size; rate × best time is not what the kernel moves
(of doubles 16 bytes an element for copy and scale, 24 for add and triad); other threads ran than were asked
for; more threads are bound to some CPUs than these are; a test took less than 20 ticks of the clock, STREAM's
own limit. Whether the arrays exceed the caches (four times the last level, STREAM's rule 1) the text does not
tell.

Where the OpenMP library prints each thread's place (`AFFINITY_FORMAT`, with OMP_DISPLAY_AFFINITY; GCC's says
nothing of a single thread), the CPUs of all threads are {"thread_cpus": "0-3"}.

Source: stream.c 5.10; OpenMP 5.0, sections 6.13 and 6.14; https://www.cs.virginia.edu/stream/ref.html.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import chain
from typing import Final, NamedTuple

from npc.machine.sysfs import format_cpus, parse_cpus
from npc.records.reading import OK, Reading, failed
from npc.validity.arithmetic import contradiction
from parsers.text.lines import NUMBER, WHOLE, complete_lines
from parsers.text.shapes import by_shape

_VERSION: Final = re.compile(r"\nSTREAM version (?:\$Revision: )?([^\s$]+)[^\n]*(?=\n)")
_RATE: Final = re.compile(rf"\n(Copy|Scale|Add|Triad): +({NUMBER}) +{NUMBER} +({NUMBER}) +{NUMBER} *(?=\n)")
_ELEMENT: Final = re.compile(rf"\nThis system uses ({WHOLE}) bytes per array element\.(?=\n)")
_LENGTH: Final = re.compile(rf"\nArray size = ({WHOLE}) \(elements\)")
_PER_ARRAY: Final = re.compile(rf"\nMemory per array = ({NUMBER}) MiB")
_TOTAL: Final = re.compile(rf"\nTotal memory required = ({NUMBER}) MiB")
_STORES: Final = re.compile(r"\nStores = ([a-z-]{1,20})\.(?=\n)")
_THREADS: Final = re.compile(rf"\nNumber of Threads (requested|counted) = ({WHOLE})(?=\n)")
_TICKS: Final = re.compile(rf"\n +\(= ({WHOLE}) clock ticks\)(?=\n)")
#: OMP_AFFINITY_FORMAT of what is read here; libraries differ in the format they have by default.
AFFINITY_FORMAT: Final = "OpenMP thread %n of %N on CPUs %A"
_PLACE: Final = re.compile(
    r"\nOpenMP thread ([0-9]{1,5}) of ([0-9]{1,5}) on CPUs ([0-9,-]{1,4000})[ \t]*(?=\n)"
)
_CPU_LIST: Final = re.compile(r"[0-9]{1,5}(?:-[0-9]{1,5})?(?:,[0-9]{1,5}(?:-[0-9]{1,5})?)*")
#: Kernel → its case, how many of the three arrays it moves.
_KERNELS: Final = {"Copy": ("copy", 2), "Scale": ("scale", 2), "Add": ("add", 3), "Triad": ("triad", 3)}
_LEAST_TICKS: Final = 20
#: MiB are printed with one digit after the point.
_ROUNDING_MIB: Final = 0.051
_NOWHERE: Final = slice(0, 0)
_NO_RATE: Final = (_NOWHERE, 0.0, _NOWHERE, 0.0)


class _Layout(NamedTuple):
    """Where the numbers are in the texts of runs that differ in their digits only, and what these share."""

    #: Bytes of an element, elements, MiB of an array and of all, threads requested and counted.
    settings: tuple[slice, ...]
    ticks: slice
    #: Kernel → its rate, one unit of the last digit of that (B/s), its best time, one unit of that (s).
    rates: dict[str, tuple[slice, float, slice, float]]
    #: How it stores past the caches, if it does.
    stores: str
    #: What the check of the arrays says against the rates.
    status: str


def parse(text: str, argv: Sequence[str] = ()) -> Iterator[Reading]:
    """Readings of one or several runs, kernel by kernel; a run without a kernel's rate has failed."""
    text = complete_lines(text)
    parts = _VERSION.split(text)
    places = _places(text) if len(parts) <= 3 else {}  # of several runs nobody knows whose they are
    runs = zip(parts[1::2] or [""], parts[2::2] or parts, strict=True)
    return chain.from_iterable(_run(version, body, places) for version, body in runs)


def _places(text: str) -> dict[int, frozenset[int]]:
    """The CPUs that each thread is bound to; empty unless each of them is known."""
    found = _PLACE.findall(text)
    if not all(_CPU_LIST.fullmatch(cpus) for _, _, cpus in found):
        return {}
    places = {int(thread): parse_cpus(cpus) for thread, _, cpus in found}
    complete = all(int(of) == len(places) == len(found) for _, of, _ in found)
    return places if complete and set(places) == set(range(len(places))) else {}


def _run(version: str, body: str, places: dict[int, frozenset[int]]) -> list[Reading]:
    """Readings of one run; nothing if it shows neither STREAM's banner nor its table."""
    body += "\n"
    if not version and not _RATE.search(body):
        return []
    layout = _layout(body)
    printed = [body[place] for place in layout.settings]
    bound = list(places.values()) if str(len(places)) == printed[-1] else []
    cpus = format_cpus(chain.from_iterable(bound)) if bound else ""
    size, params, status = _settings(layout.stores, cpus, *printed)
    ticks = body[layout.ticks]
    if layout.status != OK:
        status = layout.status
    elif status == OK and ticks and int(ticks) < _LEAST_TICKS:
        status = f"invalid: a test takes {ticks} clock ticks, STREAM asks for at least {_LEAST_TICKS}"
    elif status == OK:
        status = _sharing(bound)
    found = []
    for kernel, (case, arrays) in _KERNELS.items():
        rate_place, rate_step, best_place, best_step = layout.rates.get(kernel, _NO_RATE)
        rate = float(body[rate_place] or 0) * 1e6
        own = status
        if not rate:
            found.append(failed(case, "bandwidth", "no rate was printed", size, params))
            continue
        if status == OK and size:
            wrong = contradiction(rate, size * arrays / 3, float(body[best_place]), rate_step, best_step)
            own = f"invalid: {wrong}" if wrong else OK
        found.append(Reading(case, "bandwidth", rate, size, own, params, version))
    return found


@by_shape
def _layout(text: str) -> _Layout:
    """The layout of a run's text."""
    found = [pattern.search(text) for pattern in (_ELEMENT, _LENGTH, _PER_ARRAY, _TOTAL, _TICKS)]
    *settings, ticks = (slice(*match.span(1)) if match else _NOWHERE for match in found)
    threads = {match[1]: slice(*match.span(2)) for match in _THREADS.finditer(text)}
    settings += (threads.get(which, _NOWHERE) for which in ("requested", "counted"))
    rates = {
        row[1]: (slice(*row.span(2)), _last_digit(row[2]) * 1e6, slice(*row.span(3)), _last_digit(row[3]))
        for row in _RATE.finditer(text)
    }
    stores = _STORES.search(text)
    past_caches = stores[1] if stores and stores[1] != "ordinary" else ""
    status = OK
    if "\nFailed Validation" in text:
        status = "invalid: the arrays failed STREAM's validation"
    elif "\nSolution Validates" not in text:
        status = "invalid: the text ends before the arrays were validated"
    return _Layout(tuple(settings), ticks, rates, past_caches, status)


def _last_digit(printed: str) -> float:
    """One unit of the last digit of a printed number."""
    return 10.0 ** -len(printed.partition(".")[2])


def _sharing(places: list[frozenset[int]]) -> str:
    """Invalid where more threads are bound to some CPUs than these are."""
    for cpus in set(places):
        threads = sum(place <= cpus for place in places)
        if threads > len(cpus):
            return f"invalid: {threads} threads took turns on CPU {format_cpus(cpus)}"
    return OK


@lru_cache
def _settings(stores: str, cpus: str, *printed: str) -> tuple[int | None, dict[str, str], str]:
    """Bytes of all arrays, params and the status that follow from what `_Layout.settings` gives."""
    element, length, per_array, total, requested, counted = printed
    size = 3 * int(element) * int(length) if element and length else None
    params = {
        "array_size": length,
        "precision": "single" if element == "4" else "",
        "threads": counted or requested,
        "thread_cpus": cpus,
        "stores": stores,
    }
    params = {name: value for name, value in params.items() if value}
    if size is None:
        return size, params, "invalid: the array size is not printed"
    for name, mib, arrays in (("Memory per array", per_array, 1), ("Total memory required", total, 3)):
        if mib and abs(float(mib) - size * arrays / 3 / 2**20) > _ROUNDING_MIB:
            wrong = f"an array is of {size / 3 / 2**20:.1f} MiB, but: {name} = {mib} MiB"
            return size, params, f"invalid: {wrong}"
    if counted and requested and counted != requested:
        return size, params, f"invalid: {counted} threads ran, {requested} were asked for"
    return size, params, OK
