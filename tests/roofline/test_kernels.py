"""Kernels of mathematical libraries: what they reach, and which is a ceiling."""

from __future__ import annotations

from npc.roofline.ceilings import find_ceilings
from npc.roofline.kernels import kernel_rates
from tests.made.measured import peak, products


def test_a_rate_is_that_of_the_best_size_repeated_enough() -> None:
    lucky = [*products("BLIS", 900e9, n=4096)][:2]
    measured = [*products("BLIS", 90e9, n=512), *products("BLIS", 100e9, n=1536), *lucky]
    (rate,) = kernel_rates(measured)
    assert (rate.flops.median, rate.size, rate.threads, rate.version) == (100e9, 24 * 1536**2, 2, "1.0")
    assert kernel_rates(peak("peakflops_avx", 1e9)) == []


def test_the_best_library_is_a_ceiling_whose_note_has_the_others() -> None:
    measured = [
        *peak("peakflops_avx", 110e9), *products("OpenBLAS", 100e9), *products("BLIS", 90e9),
        *products("BLIS", 53e9, threads=1), *products("BLIS", 95e9, routine="zgemm"),
    ]  # fmt: skip
    double, dgemm = find_ceilings(measured).of_kind("compute")
    assert (double.name, dgemm.name, dgemm.value) == ("peak double", "dgemm", 100e9)
    assert dgemm.precision == "double" and dgemm.params["library"] == "OpenBLAS"
    assert dgemm.note == (
        "100 GFLOP/s by OpenBLAS 1.0 with 2 threads; 90 GFLOP/s by BLIS 1.0 with 2 threads, 53 GFLOP/s with "
        "1 thread; zgemm reaches 95 GFLOP/s by BLIS 1.0 with 2 threads"
    )
