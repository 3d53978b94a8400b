"""NPC's GPU benchmark (``benchmarks/gpu``): for each GPU of the node one table, one row a number.

`case`, size in bytes, and what tells them apart; ``gpu`` is the GPU's number:

- ``load``, ``copy``, ``scale``, ``add``, ``triad``: bandwidth of a GPU's memory ({"level": "MEM"}) and of its
  L2 cache ({"level": "L2"}), by bytes that the kernel asks for; the size is that of an array.
- ``to_gpu``, ``to_host``, ``host_both``: bandwidth between host and GPU, by what {"host_memory": "pinned"} it
  is; latency of 8 bytes.
- ``launch``: time from one start of an empty kernel to the next; ``launch_and_wait`` until it has ended;
  ``wait``: of a synchronisation alone.
- ``gemm``: FLOP/s of a matrix product of order ``n`` by the vendor's BLAS, in each ``precision``.
- ``peer``, ``peer_both``: bandwidth from one GPU to another ({"gpu": "0", "to_gpu": "1"}); ``path`` is direct
  or through the host.
- ``clock``: of the multiprocessors while the rows above it were measured, and what held it down.

Invalid is what the program itself found wrong in the result; a median below its row's least time; a rate
above what bus width and clock of the memory allow (CUDA C++ Best Practices Guide, "Theoretical Bandwidth
Calculation": 2 · clock · width), or above what the multiprocessors can do at their highest clock (NVIDIA's
whitepapers of V100, A100 and H100: dense, with tensor cores); an L2 that is slower than the memory.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from npc.parsers.text.lines import NUMBER, SCIENTIFIC, WHOLE, complete_lines, sections
from npc.parsers.text.runs import of_one_run
from npc.parsers.text.tables import rows_of
from npc.records.reading import OK, Reading, failed
from npc.records.units import format_quantity

_TITLE: Final = re.compile(r"\nGPU of NPC: (memory|host|launch|gemm|peers)(?=\n)")
_GPU: Final = re.compile(rf"\nGPU = ({WHOLE}), ([^\n]{{1,100}}), (\S{{1,30}})(?=\n)")
_CORES: Final = re.compile(
    rf"\nCompute capability = ({NUMBER}), multiprocessors = ({WHOLE}), at most ({NUMBER}) MHz(?=\n)"
)
_MEMORY: Final = re.compile(
    rf"\nMemory = {WHOLE} bytes, ({WHOLE}) bits wide, at most ({NUMBER}) MHz, ECC (on|off)(?=\n)"
)
_REASONS: Final = (
    "application clocks|power cap|hardware slowdown|sync boost|thermal slowdown|hardware thermal slowdown"
    "|power brake|display clocks"
)
_CLOCK: Final = re.compile(
    rf"Clock = ({NUMBER}) MHz, of the memory {NUMBER} MHz\n"
    rf"Held down by = (nothing|(?:{_REASONS})(?:, (?:{_REASONS}))*)\n"
)
_OTHERS: Final = re.compile(rf"\nOthers = ({WHOLE})(?=\n)")
_ERROR: Final = re.compile(r"\n((?:gpu|usage|unavailable): [^\n]+)(?=\n)")
_END: Final = "\nComplete\n"
#: Part → case and metric of its failure.
_FAILURES: Final[Mapping[str, tuple[str, str]]] = {
    "memory": ("load", "bandwidth"),
    "host": ("to_gpu", "bandwidth"),
    "launch": ("launch", "latency"),
    "gemm": ("gemm", "flops"),
    "peers": ("peer", "bandwidth"),
}
_KERNELS: Final = "load|copy|scale|add|triad"
_DIRECTIONS: Final = {"to the GPU": "to_gpu", "to the host": "to_host", "both": "host_both"}
_DIRECTION: Final = re.compile(
    rf"\n(pinned|pageable) +(to the GPU|to the host|both) +({WHOLE}) +({SCIENTIFIC}) +({SCIENTIFIC})"
    rf" +({NUMBER}) +({WHOLE})(?=\n)"
)
_STARTS: Final[Mapping[str, tuple[str, int | None]]] = {
    "launch in a row": ("launch", None),
    "launch and wait": ("launch_and_wait", None),
    "wait for nothing": ("wait", None),
    "8 B to the GPU": ("to_gpu", 8),
    "8 B to the host": ("to_host", 8),
}
_START: Final = re.compile(rf"\n({'|'.join(_STARTS)}) +({NUMBER}) +({NUMBER})(?=\n)")
#: Precision → bytes of a number.
_PRECISIONS: Final = {"double": 8, "single": 4, "tf32": 4, "half": 2, "bfloat16": 2}
#: Compute capability → FLOP a cycle and multiprocessor by precision.
_A_CYCLE: Final[Mapping[str, Mapping[str, int]]] = {
    "7.0": {"double": 64, "single": 128, "half": 1024},
    "8.0": {"double": 128, "single": 128, "tf32": 1024, "half": 2048, "bfloat16": 2048},
    "9.0": {"double": 256, "single": 256, "tf32": 2048, "half": 4096, "bfloat16": 4096},
}
#: Rounds of a rate at its limit differ by less.
_ABOVE: Final = 1.01

Readings = Iterator[Reading]


class _Sheet(NamedTuple):
    """What the hardware allows."""

    #: The most that its memory allows, in B/s; infinite where it is not known.
    bandwidth: float = math.inf
    #: The most FLOP/s that it can do, by precision; without an entry or infinite where not known.
    flops: Mapping[str, float] = {}


MARKS: Final = r"GPU of NPC: "


def parse(text: str, argv: Sequence[str] = ()) -> Readings:
    """Readings of one or several launches; the failure of a part that was not ended, or of none."""
    text = complete_lines(text)
    error = _ERROR.search(text)
    reason = error[1].removeprefix("gpu: ") if error else ""
    launches = [(title[1], lines) for title, lines in sections(_TITLE, text)]
    for part, lines in launches:
        case, metric = _FAILURES[part]
        if part == "peers":
            yield from of_one_run(_peers(lines))
        for gpu, below in sections(_GPU, lines):
            yield from of_one_run(_of_gpu(part, gpu, below))
            if _END not in below:
                yield failed(case, metric, reason or f"{part} was not ended", params={"gpu": gpu[1]})
        if _END not in lines and not _GPU.search(lines):
            yield failed(case, metric, reason or f"{part} was not ended")
    if error and not launches:
        yield failed("load", "bandwidth", reason)


def _of_gpu(part: str, gpu: re.Match[str], lines: str) -> Readings:
    """What one GPU gave; each clock is that of the rows above it."""
    cores, memory, others = _CORES.search(lines), _MEMORY.search(lines), _OTHERS.search(lines)
    head, sheet = {"gpu": gpu[1], "gpu_model": gpu[2]}, _Sheet()
    if cores:
        a_second = int(cores[2]) * float(cores[3]) * 1e6 or math.inf  # some drivers do not tell a clock
        sheet = _Sheet(
            flops={name: a_cycle * a_second for name, a_cycle in _A_CYCLE.get(cores[1], {}).items()}
        )
    if memory:
        head["ecc"] = memory[3]
        sheet = sheet._replace(bandwidth=2 * float(memory[2]) * 1e6 * int(memory[1]) / 8 or math.inf)
    if others:
        head["gpu_processes"] = others[1]
    rows: list[Reading] = []
    for stretch in re.split(r"(?<=\n)(?=Clock = )", lines):
        clock = _CLOCK.match(stretch)
        if clock and rows and float(clock[1]):
            of = {**head, "part": rows[-1].params.get("precision", part), "held_down_by": clock[2]}
            if cores:
                of["highest_clock"] = f"{cores[3]}e6"
            yield Reading("clock", "clock", float(f"{clock[1]}e6"), params=of)
        rows = list(_READ[part](stretch, head, sheet))
        yield from rows


def _status(wrong: str, median: str, least: str, limit: str = "") -> str:
    if int(wrong):
        return f"invalid: {wrong} elements of the result are wrong"
    if float(least) > float(median):
        return f"invalid: the least time is {least}"
    return f"invalid: {limit}" if limit else OK


def _rate(case: str, rate: str, size: int, params: Mapping[str, str], status: str) -> Reading:
    """The bandwidth of a row, in MB/s."""
    if float(rate):
        return Reading(case, "bandwidth", float(f"{rate}e6"), size, status, params)
    return failed(case, "bandwidth", "no rate was printed", size, params)


def _memory(lines: str, params: Mapping[str, str], sheet: _Sheet) -> Readings:
    rows = rows_of(lines, ("MEM|L2", _KERNELS, WHOLE, SCIENTIFIC, SCIENTIFIC, NUMBER, WHOLE))
    loads = {level: float(rate) for level, kernel, *_, rate, _ in rows if kernel == "load"}
    for level, kernel, size, median, least, rate, wrong in rows:
        limit = ""
        if level == "MEM" and float(rate) * 1e6 > _ABOVE * sheet.bandwidth:
            limit = f"the memory's bus and clock allow {format_quantity(sheet.bandwidth, 'B/s', 4)}"
        elif level == "L2" and float(rate) < loads.get("MEM", 0):
            limit = "slower than the memory: something else ran"
        yield _rate(kernel, rate, int(size), {**params, "level": level}, _status(wrong, median, least, limit))


def _host(lines: str, params: Mapping[str, str], _: _Sheet) -> Readings:
    for kind, direction, size, median, least, rate, wrong in _DIRECTION.findall(lines):
        status = _status(wrong, median, least)
        yield _rate(_DIRECTIONS[direction], rate, int(size), {**params, "host_memory": kind}, status)


def _starts(lines: str, params: Mapping[str, str], _: _Sheet) -> Readings:
    for what, median, least in _START.findall(lines):
        case, size = _STARTS[what]
        of = {**params, "host_memory": "pinned"} if size else params
        if float(median):
            yield Reading(case, "latency", float(f"{median}e-6"), size, _status("0", median, least), of)
        else:
            yield failed(case, "latency", "no time was printed", size, of)


def _products(lines: str, params: Mapping[str, str], sheet: _Sheet) -> Readings:
    precisions = "|".join(_PRECISIONS)
    for precision, n, median, least, rate, wrong in rows_of(
        lines, (precisions, WHOLE, SCIENTIFIC, SCIENTIFIC, NUMBER, WHOLE)
    ):
        of = {**params, "precision": precision, "n": n}
        size = 3 * int(n) ** 2 * _PRECISIONS[precision]
        most, limit = sheet.flops.get(precision, math.inf), ""
        if float(rate) * 1e9 > _ABOVE * most:
            limit = f"{format_quantity(most, 'FLOP/s', 4)} is what it can do at its highest clock"
        if float(rate):
            yield Reading("gemm", "flops", float(f"{rate}e9"), size, _status(wrong, median, least, limit), of)
        else:
            yield failed("gemm", "flops", "no rate was printed", size, of)


def _peers(lines: str) -> Readings:
    cells = (WHOLE, WHOLE, "direct|host", "one|both", WHOLE, SCIENTIFIC, SCIENTIFIC, NUMBER, WHOLE)
    for one, other, path, way, size, median, least, rate, wrong in rows_of(lines, cells):
        case = "peer_both" if way == "both" else "peer"
        of = {"gpu": one, "to_gpu": other, "path": path}
        limit = f"GPU {one} with itself" if one == other else ""
        yield _rate(case, rate, int(size), of, _status(wrong, median, least, limit))


_READ: Final[Mapping[str, Callable[[str, Mapping[str, str], _Sheet], Readings]]] = {
    "memory": _memory,
    "host": _host,
    "launch": _starts,
    "gemm": _products,
}
