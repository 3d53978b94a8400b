"""NPC's memory benchmark (``benchmarks/memory``): one table a part, one row a number or two.

`case` and size (working set):

- ``load``: one dependent load after another. {"pages": "huge"} is what was asked for, {"huge_pages": "0.998"}
  the part of the memory that lay in some; {"level": "L2"} where the set is the one that stands for a cache or
  main memory. ``clock`` is the clock of that core meanwhile.
- ``numa``: such loads from ``cpu_node`` of the memory of ``memory_node``.
- ``loaded``: such loads while other ``cores`` stream, and the bandwidth of these streams, by the pause
  ``delay_ns`` after each 4 KiB (``idle``: no streams).
- ``core_to_core``: one way of a line between the two CPUs ``thread_cpus``, by their ``relation``.
- ``sharing``: an increment by each of two threads whose counters lie on as many ``lines``.
- ``align``: a load that waits for the one before, by where it lies.
- ``stride``: bytes that one thread asks for, in words, by ``access`` and ``stride``.
- ``touch``: bandwidth of all threads at memory that was first ``touched_by`` one of them or each.
- ``product``: a matrix product by the order of its ``loops``.

Times are medians of a launch's rounds, in ns. Invalid is a median below its row's least time, and what
contradicts another row: a set that takes longer than a larger one, a level without its cache, loads beside
streams that are quicker than alone, a line that goes from a CPU to itself, memory that lay elsewhere, a wrong
product.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from npc.parsers.text.lines import (
    DECIMAL_1,
    DECIMAL_2,
    DECIMAL_3,
    NUMBER,
    SCIENTIFIC,
    WHOLE,
    complete_lines,
    sections,
)
from npc.parsers.text.runs import of_one_run
from npc.parsers.text.tables import rows_of
from npc.records.reading import OK, Reading, failed

_TITLE: Final = re.compile(r"\nMemory of NPC: (\w{1,20})(?=\n)")
_LADDER: Final = re.compile(r"\nPages = (?=huge|small)")
_HEAD: Final[Mapping[str, re.Pattern[str]]] = {
    "thread_cpus": re.compile(rf"\nCPU = ({WHOLE}), of "),
    "cpus": re.compile(rf"\nCPU = {WHOLE}, of ({WHOLE}) that may be used(?=\n)"),
    "line": re.compile(rf"\nLine = ({WHOLE}) bytes(?=\n)"),
}
_CLOCK: Final = re.compile(rf"\nClock = ({NUMBER}) GHz(?=\n)")
_CACHE: Final = re.compile(rf"\n(L[1-9]) = ({WHOLE}) bytes(?=\n)")
_PAGES: Final = re.compile(rf"\s*(?:Pages = )?(huge|small), ({NUMBER}) of the memory in huge ones(?=\n)")
_SET: Final = re.compile(rf"\nSet = ({WHOLE}) bytes")
_STREAMS: Final = re.compile(rf"\nStreams = ({WHOLE}),")
_THREADS: Final = re.compile(rf"\nSet = {WHOLE} bytes, ({WHOLE}) threads")
_ORDER: Final = re.compile(rf"\nOrder = ({WHOLE})(?=\n)")
_RELATION: Final = "same-core|shared-cache|same-socket|other-socket"
_ERROR: Final = re.compile(r"\n((?:memory|usage|unavailable): [^\n]+)(?=\n)")
_END: Final = "\nComplete\n"
#: Factor up to which a smaller set may take longer than a larger one, loads beside streams be faster than
#: alone, a stride reach more than words in a row: rounds differ.
_LONGER: Final = 1.25
_QUICKER: Final = 0.9
#: The same of memory beside streams: clocks of caches and memory controllers rise with the load (uncore
#: frequency scaling: Hackenberg et al., IPDPSW 2015), which made a tenth on a machine that was measured.
_QUICKER_LOADED: Final = 0.75
#: The least part of a set that has to lie on the NUMA node that was asked for.
_THERE: Final = 0.9

Readings = Iterator[Reading]
MARKS: Final = r"Memory of NPC: "


def parse(text: str, argv: Sequence[str] = ()) -> Readings:
    """Readings of one or several launches; the failure of a part that was not ended, or of none."""
    text = complete_lines(text)
    error = _ERROR.search(text)
    reason = error[1].removeprefix("memory: ") if error else ""
    launches = [(title[1], lines) for title, lines in sections(_TITLE, text) if title[1] in _PARTS]
    for part, lines in launches:
        case, metric, read = _PARTS[part]
        params = {name: match[1] for name, pattern in _HEAD.items() if (match := pattern.search(lines))}
        yield from of_one_run(read(lines, params))
        if _END not in lines:
            yield failed(case, metric, reason or f"{part} was not ended", params=params)
    if error and not launches:
        yield failed("load", "latency", reason)


def _row(
    case: str, median: str, least: str, size: int | None, params: Mapping[str, str], wrong: str = ""
) -> Reading:
    """The latency of a row, in ns."""
    if not float(median):
        return failed(case, "latency", "no time was printed", size, params)
    if not float(least) <= float(median):
        wrong = f"the least time is {least} ns"
    return Reading(case, "latency", float(f"{median}e-9"), size, f"invalid: {wrong}" if wrong else OK, params)


def _rate(
    case: str, rate: str, size: int | None, params: Mapping[str, str], status: str = OK, zero: str = ""
) -> Reading:
    """The bandwidth of a row, in MB/s; zero: what it means that there is none."""
    if float(rate):
        return Reading(case, "bandwidth", float(f"{rate}e6"), size, status, params)
    return failed(case, "bandwidth", zero or "no rate was printed", size, params)


def _size(lines: str) -> int | None:
    match = _SET.search(lines)
    return int(match[1]) if match else None


def _ladder(lines: str, params: Mapping[str, str]) -> Readings:
    clock = _CLOCK.search(lines)
    if clock and float(clock[1]) and _LADDER.search(lines):
        yield Reading("clock", "clock", float(f"{clock[1]}e9"), params=params)
    caches = {name: int(size) for name, size in _CACHE.findall(lines)}
    for _, ladder in sections(_LADDER, lines):
        pages = _PAGES.match(ladder)
        of = {**params, "pages": pages[1], "huge_pages": pages[2]} if pages else params
        rows = rows_of(ladder, (WHOLE, WHOLE, DECIMAL_3, DECIMAL_3, DECIMAL_2, r"-|L[1-9]|MEM"))
        for place, (size, _, median, least, _, level) in enumerate(rows):
            quickest = min(rows[place:], key=lambda row: float(row[2]))
            wrong = ""
            if float(median) > _LONGER * float(quickest[2]):
                wrong = f"a larger set, of {quickest[0]} B, took {quickest[2]} ns: something else ran"
            elif level != "-":
                wrong = _no_such_level(level, int(size), caches)
            named = of if level == "-" else {**of, "level": level}
            yield _row("load", median, least, int(size), named, wrong)


def _no_such_level(level: str, size: int, caches: Mapping[str, int]) -> str:
    """Why a set cannot stand for a level; nothing where it can."""
    last = max(caches.values(), default=0)
    if level == "MEM":
        return "" if last and size >= 2 * last else f"the last-level cache has {last} B, which may hold it"
    if level not in caches:
        return f"there is no {level}"
    return "" if size <= caches[level] else f"{level} has {caches[level]} B"


def _numa(lines: str, params: Mapping[str, str]) -> Readings:
    rows = rows_of(lines, (WHOLE, WHOLE, rf"-?{DECIMAL_3}", DECIMAL_3, DECIMAL_3, DECIMAL_2))
    head = {name: text for name, text in params.items() if name != "thread_cpus"}
    for cpu_node, memory_node, there, median, least, _ in rows:
        of = {**head, "cpu_node": cpu_node, "memory_node": memory_node}
        elsewhere = 0 <= float(there) < _THERE
        wrong = f"{there} of the memory lay on NUMA node {memory_node}" if elsewhere else ""
        yield _row("numa", median, least, _size(lines), of, wrong)


def _loaded(lines: str, params: Mapping[str, str]) -> Readings:
    streams, size, pages = _STREAMS.search(lines), _size(lines), _PAGES.search(lines)
    head = dict(params)
    if streams:
        head["cores"] = streams[1]
    if pages:
        head["huge_pages"] = pages[2]
    idle = 0.0
    for delay, median, least, rate in rows_of(lines, (f"idle|{WHOLE}", DECIMAL_3, DECIMAL_3, DECIMAL_1)):
        of, wrong = {**head, "delay_ns": delay}, ""
        if delay == "idle":
            idle = float(median)
        elif float(median) < _QUICKER_LOADED * idle:
            wrong = f"quicker than without streams, {idle:g} ns: something else ran then"
        yield _row("loaded", median, least, size, of, wrong)
        if delay != "idle":
            yield _rate("loaded", rate, size, of, zero="nothing was streamed")


def _cores(lines: str, params: Mapping[str, str]) -> Readings:
    for one, other, relation, median, least in rows_of(
        lines, (WHOLE, WHOLE, _RELATION, DECIMAL_2, DECIMAL_2)
    ):
        of = {**params, "thread_cpus": f"{one},{other}", "relation": relation}
        wrong = f"CPU {one} with itself" if one == other else ""
        yield _row("core_to_core", median, least, None, of, wrong)


def _sharing(lines: str, params: Mapping[str, str]) -> Readings:
    cells = (WHOLE, WHOLE, _RELATION, "plain|atomic", DECIMAL_3, DECIMAL_3, DECIMAL_2)
    for one, other, relation, kind, together, apart, _ in rows_of(lines, cells):
        of = {**params, "thread_cpus": f"{one},{other}", "relation": relation, "increment": kind}
        wrong = f"CPU {one} with itself" if one == other else ""
        if float(together) < _QUICKER * float(apart):
            wrong = f"one line took {together} ns, two lines {apart} ns: something else ran"
        for number, median in (("1", together), ("2", apart)):
            yield _row("sharing", median, median, None, {**of, "lines": number}, wrong)


def _align(lines: str, params: Mapping[str, str]) -> Readings:
    aligned = 0.0
    kinds = "aligned|in-line|line-crossing|page-crossing"
    for kind, _, median, least, _ in rows_of(lines, (kinds, WHOLE, DECIMAL_3, DECIMAL_3, DECIMAL_2)):
        aligned = float(median) if kind == "aligned" else aligned
        quicker = float(median) < _QUICKER * aligned
        wrong = f"quicker than an aligned one, {aligned:g} ns: something else ran then" if quicker else ""
        yield _row("align", median, least, None, {**params, "load": kind}, wrong)


def _stride(lines: str, params: Mapping[str, str]) -> Readings:
    in_a_row = [0.0, 0.0]
    for kind, stride, *rates in rows_of(lines, ("strided|random", WHOLE, DECIMAL_1, DECIMAL_1)):
        if kind == "strided" and not any(in_a_row):
            in_a_row = [float(rate) for rate in rates]
        for access, rate, most in zip(("read", "write"), rates, in_a_row, strict=True):
            of = {**params, "access": access, "stride": "random" if kind == "random" else stride}
            above = float(rate) > _LONGER * most
            status = f"invalid: more than words in a row, {most:g} MB/s" if above else OK
            yield _rate("stride", rate, _size(lines), of, status)


def _touch(lines: str, params: Mapping[str, str]) -> Readings:
    threads = _THREADS.search(lines)
    head = {name: text for name, text in params.items() if name != "thread_cpus"}
    if threads:
        head["cores"] = threads[1]
    for by, rate in rows_of(lines, ("one|each", DECIMAL_1)):
        yield _rate("touch", rate, _size(lines), {**head, "touched_by": by})


def _product(lines: str, params: Mapping[str, str]) -> Readings:
    order = _ORDER.search(lines)
    size = 3 * 8 * int(order[1]) ** 2 if order else None
    head = {**params, "n": order[1]} if order else params
    for loops, median, least, error in rows_of(
        lines, ("ijk|ikj", NUMBER, NUMBER, rf"-?(?:{SCIENTIFIC}|nan|inf)")
    ):
        of, status = {**head, "loops": loops}, OK
        if float(error) != 0:  # NaN too
            status = f"invalid: the product is wrong by {error}"
        elif float(least) > float(median):
            status = f"invalid: the least time is {least} s"
        if float(median):
            yield Reading("product", "time", float(median), size, status, of)
        else:
            yield failed("product", "time", "no time was printed", size, of)


#: Part → case and metric of its failure, and what reads it.
_PARTS: Final[Mapping[str, tuple[str, str, Callable[[str, Mapping[str, str]], Readings]]]] = {
    "ladder": ("load", "latency", _ladder),
    "numa": ("numa", "latency", _numa),
    "loaded": ("loaded", "latency", _loaded),
    "cores": ("core_to_core", "latency", _cores),
    "sharing": ("sharing", "latency", _sharing),
    "align": ("align", "latency", _align),
    "stride": ("stride", "bandwidth", _stride),
    "touch": ("touch", "bandwidth", _touch),
    "product": ("product", "time", _product),
}
