"""Hotspots in mathematical libraries: which library it is, and what a faster one would gain.

A hotspot is a share of the time and not a rate in FLOP/s, so only an upper bound can be given: a program that
spends the share p of its time in a routine would be at most 1/(1 − p + p/f) times as fast with a library that
is f times as fast here (Amdahl, AFIPS 1967), for matrices like those that were measured. f is the upper end
of the faster library's interval over the lower end of the other's; it is given only where the intervals do
not overlap.

Kernels are known by the names of their functions: OpenBLAS (``dgemm_kernel_HASWELL``), BLIS
(``bli_dgemm_haswell_asm_6x8``), MKL (``mkl_blas_avx2_dgemm_kernel_0``). FFTW has too many names, so it is
known by its file. Packing of a product's matrices (``dgemm_itcopy_HASWELL``) belongs to the product.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from npc.observe.hotspots.records import Hotspot
from npc.records.record import Record
from npc.roofline.kernels import PRODUCTS, KernelRate, kernel_rates, measured_text

#: Name of a file → library; of FFTW the one in double precision.
_FILES: Final = (
    (re.compile(r"openblas", re.IGNORECASE), "OpenBLAS"),
    (re.compile(r"libblis"), "BLIS"),
    (re.compile(r"libmkl_"), "MKL"),
    (re.compile(r"libfftw3(?:_threads|_omp|_mpi)?\.so"), "FFTW"),
)
#: Function → library, also where it is linked into the program.
_FUNCTIONS: Final = (
    (re.compile(r"bli_"), "BLIS"),
    (re.compile(r"mkl_"), "MKL"),
    (re.compile(r"[sdcz]gemm_(?:small_)?(?:kernel|[io][nt]?copy|beta|nn|nt|tn|tt)"), "OpenBLAS"),
)
_PRODUCT: Final = re.compile(r"(?:^|_)x?([dz]gemm)(?=_|\d|$)")
_MKL_TRANSFORM: Final = re.compile(r"mkl_dft_")
#: Names of the interface, for libraries that neither file nor function tells.
_INTERFACE: Final = re.compile(r"(?:cblas_)?[dz]gemm_?")
#: A smaller share of the time is not worth a line.
_WORTH: Final = 0.02


class KernelShare(NamedTuple):
    """The part of a program's time in one routine of one library."""

    #: ``dgemm``, ``fft``, …; empty where no name tells it.
    routine: str
    #: ``OpenBLAS``, …; empty where no name tells it.
    library: str
    #: Share of all samples (0 to 1).
    share: float
    #: Its hotspots, the hottest first.
    functions: tuple[str, ...]

    def speedup(self, factor: float) -> float:
        """How many times as fast the program would be, at most, if the routine were `factor` times as fast
        (Amdahl's law)."""
        return 1.0 / (1.0 - self.share + self.share / factor)


class FasterLibrary(NamedTuple):
    """A library that does a routine faster than another one with as many threads."""

    #: Of the program's library.
    own: KernelRate
    #: Of the faster one.
    other: KernelRate
    #: How many times as fast it is, at most.
    factor: float


def kernel_of(function: str, module: str) -> tuple[str, str] | None:
    """(routine, library) of a hotspot that is a kernel; None of others. A transform is ``fft``, since no name
    tells its dimensions. The routine is empty where a function of a BLAS has no symbol (Debian's BLIS), the
    library where no name tells it."""
    library = next((name for pattern, name in _FUNCTIONS if pattern.match(function)), "")
    library = library or next((name for pattern, name in _FILES if pattern.search(module)), "")
    if function.startswith("0x") and library and library != "FFTW":
        return "", library
    if library == "FFTW" or (library == "MKL" and _MKL_TRANSFORM.match(function)):
        return "fft", library
    product = _PRODUCT.search(function)
    if product and (library or _INTERFACE.fullmatch(function)):
        return product[1], library
    return None


def kernel_shares(hotspots: Iterable[Hotspot]) -> list[KernelShare]:
    """The parts of the time in known kernels, the largest first."""
    by_routine: defaultdict[tuple[str, str], list[Hotspot]] = defaultdict(list)
    for hotspot in hotspots:
        kernel = kernel_of(hotspot.function, hotspot.module)
        if kernel is not None:
            by_routine[kernel].append(hotspot)
    shares = []
    for (routine, library), of in by_routine.items():
        hottest = sorted(of, key=lambda hotspot: -hotspot.share)
        names = tuple(dict.fromkeys(hotspot.function for hotspot in hottest))
        shares.append(KernelShare(routine, library, sum(hotspot.share for hotspot in of), names))
    return sorted(
        (share for share in shares if share.share >= _WORTH), key=lambda kernel_share: -kernel_share.share
    )


def faster_library(share: KernelShare, rates: Sequence[KernelRate]) -> FasterLibrary | None:
    """The library that is most times as fast as the program's own with as many threads. None where no
    interval lies above the own library's, or that was not measured. Transforms are not compared: their
    sizes differ too much."""
    quicker = [
        FasterLibrary(own, other, other.flops.high / own.flops.low)
        for own in rates
        for other in rates
        if (own.routine, own.library) == (share.routine, share.library)
        and (other.routine, other.threads) == (own.routine, own.threads)
        and own.flops.low is not None and own.flops.high is not None
        and other.flops.low is not None and other.flops.high is not None
        and other.flops.low > own.flops.high
    ]  # fmt: skip
    return max(quicker, key=lambda library: library.factor, default=None)


def kernel_lines(records: Iterable[Record], hotspots: Sequence[Hotspot]) -> list[str]:
    """A paragraph about each kernel among a program's hotspots."""
    rates = kernel_rates(records)
    return [" ".join(_kernel_line(share, rates)) for share in kernel_shares(hotspots)]


def _kernel_line(share: KernelShare, rates: Sequence[KernelRate]) -> Iterator[str]:
    what = "transforms" if share.routine == "fft" else share.routine
    by = f" by {share.library}" if share.library else ", by a library that no name tells"
    names = ", ".join(share.functions[:3]) + (", …" if len(share.functions) > 3 else "")
    if not share.routine:
        what, by = f"functions of {share.library} without a symbol", ""
        names += "; which routine that is is not known"
    yield f"{share.share:.0%} of the time is in {what}{by} ({names})."
    wanted = share.routine or "dgemm"
    measured = [rate for rate in rates if rate.routine.startswith(wanted)]
    if not measured:
        step = "fft" if share.routine == "fft" else "blas"
        yield f"What libraries reach here was not measured: npc characterise --benchmark {step}."
        return
    yield f"Here {measured_text(measured)}."
    if share.routine in PRODUCTS:
        faster = faster_library(share, measured)
        if faster is not None:
            yield (
                f"With {faster.other.library} the program would be at most "
                f"{share.speedup(faster.factor):.3g} times as fast."
            )
        elif any(rate.library != share.library for rate in measured) and share.library:
            yield "No other library is faster beyond the intervals of both."
