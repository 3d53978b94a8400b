"""NPC's driver of BLAS libraries (``benchmarks/blas/blas.c``): one row a routine and order.

`case` is the routine (``dgemm``, ``zgemm``) of square matrices, size the bytes of its three matrices, ``n``
their order. The rate is 2 N³ FLOP (of ``zgemm`` 8 N³) by the median of the launch's calls. {"library":
"OpenBLAS"} is the one that was asked for, ``kernel`` what it chose for this CPU, ``threads`` how many it
was told to use, ``thread_cpus`` the CPUs that it might use; the library's own version is the record's.

A row is invalid whose product is not that of its matrices (the driver's check: benchmarks/blas/README.md),
whose rate contradicts its time, that kept more CPUs busy than it was to have threads, or whose library says
that it has other threads. Threads that have fewer CPUs take turns on them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from npc.parsers.text.kernels import ERROR, readings_of, status_of
from npc.parsers.text.lines import NUMBER, WHOLE
from npc.parsers.text.tables import rows_of
from npc.records.reading import Reading

_ROW: Final = ("[dz]gemm", WHOLE, WHOLE, WHOLE, NUMBER, NUMBER, NUMBER, NUMBER, ERROR)
#: FLOP of a routine by N³: a complex product has four real ones and two sums.
_FLOP: Final = {"dgemm": 2, "zgemm": 8}
MARKS: Final = r"BLAS driver of NPC: "


def parse(text: str, argv: Sequence[str] = ()) -> Iterator[Reading]:
    """Readings of one or several launches; the failure of one that was not ended, or of none."""
    yield from readings_of(text, "blas", "dgemm", _rows)


def _rows(lines: str, params: dict[str, str], version: str, wrong: str) -> Iterator[Reading]:
    threads = int(params.get("threads", 0))
    for routine, order, size, _, median, least, rate, busy, error in rows_of(lines, _ROW):
        flop = _FLOP[routine] * int(order) ** 3
        own = status_of(rate, flop, median, least, busy, error, threads)
        status = f"invalid: {wrong}" if wrong else own
        yield Reading(
            routine, "flops", float(f"{rate}e9"), int(size), status, {**params, "n": order}, version
        )
