"""Hotspots in mathematical libraries: their names, and what a program loses by its own."""

from __future__ import annotations

import pytest

from npc.observe.hotspots.kernels import faster_library, kernel_lines, kernel_of, kernel_shares
from npc.observe.hotspots.records import Hotspot
from npc.roofline.kernels import kernel_rates
from tests.made.measured import products, records


def hotspot(function: str, module: str, share: float) -> Hotspot:
    return Hotspot(function, module, share, share, share, "unknown", "no counters")


@pytest.mark.parametrize(
    ("function", "module", "kernel"),
    [
        ("dgemm_kernel_HASWELL", "libopenblasp-r0.3.21.so", ("dgemm", "OpenBLAS")),
        ("zgemm_kernel_n_SKYLAKEX", "libscipy_openblas64_-8fb3d286.so", ("zgemm", "OpenBLAS")),
        ("dgemm_itcopy_COOPERLAKE", "libopenblas.so.0", ("dgemm", "OpenBLAS")),
        ("dgemm_kernel_ZEN", "xhpl", ("dgemm", "OpenBLAS")),
        ("bli_dgemm_haswell_asm_6x8", "libblis.so.4", ("dgemm", "BLIS")),
        ("bli_zgemm_haswell_asm_3x4", "app", ("zgemm", "BLIS")),
        ("mkl_blas_avx2_dgemm_kernel_0", "libmkl_avx2.so.2", ("dgemm", "MKL")),
        ("mkl_blas_avx512_xdgemm_par", "app", ("dgemm", "MKL")),
        ("cblas_dgemm", "libmkl_rt.so.2", ("dgemm", "MKL")),
        ("mkl_dft_avx2_xz_radix4", "libmkl_avx2.so.2", ("fft", "MKL")),
        ("n1_64", "libfftw3.so.3.6.10", ("fft", "FFTW")),
        ("0x24f10", "libfftw3_threads.so.3", ("fft", "FFTW")),
        ("dgemm_", "libblas.so.3.11.0", ("dgemm", "")),
        ("cblas_zgemm", "app", ("zgemm", "")),
        ("n1_64", "libfftw3f.so.3", None),
        ("sgemm_kernel_HASWELL", "libopenblas.so.0", None),
        ("dgemv_n_HASWELL", "libopenblas.so.0", None),
        ("my_dgemm_loop", "app", None),
        ("dgemmt_", "libopenblas.so.0", None),
        ("0x1f2e0", "libopenblas.so.0", ("", "OpenBLAS")),
        ("0x1f2e0", "app", None),
        ("main", "app", None),
    ],
)
def test_a_kernel_is_known_by_its_name_or_its_file(
    function: str, module: str, kernel: tuple[str, str] | None
) -> None:
    assert kernel_of(function, module) == kernel


def test_packing_and_multiplying_are_one_part_of_the_time() -> None:
    found = kernel_shares([
        hotspot("dgemm_itcopy_ZEN", "libopenblas.so.0", 0.06),
        hotspot("dgemm_kernel_ZEN", "libopenblas.so.0", 0.4),
        hotspot("main", "app", 0.5),
        hotspot("zgemm_kernel_n_ZEN", "libopenblas.so.0", 0.01),
    ])  # fmt: skip
    (share,) = found
    assert (share.routine, share.library, share.share) == ("dgemm", "OpenBLAS", pytest.approx(0.46))
    assert share.functions == ("dgemm_kernel_ZEN", "dgemm_itcopy_ZEN")


def test_a_faster_library_is_one_beyond_both_intervals_with_as_many_threads() -> None:
    (share,) = kernel_shares([hotspot("bli_dgemm_haswell_asm_6x8", "libblis.so.4", 0.5)])
    slow, fast = [*products("BLIS", 50e9)], [*products("OpenBLAS", 100e9)]
    faster = faster_library(share, kernel_rates([*slow, *fast]))
    assert faster is not None
    assert (faster.own.library, faster.other.library) == ("BLIS", "OpenBLAS")
    # the upper end of one interval over the lower end of the other: 110/45
    assert faster.factor == pytest.approx(110 / 45)
    # half of the time by 110/45: 1/(0.5 + 0.5·45/110)
    assert share.speedup(faster.factor) == pytest.approx(1 / (0.5 + 0.5 * 45 / 110))
    too_few = [*products("OpenBLAS", 200e9)][:5]
    other_routine = products("OpenBLAS", 200e9, routine="zgemm")
    for others in (products("OpenBLAS", 55e9), products("OpenBLAS", 200e9, 1), other_routine, too_few):
        assert faster_library(share, kernel_rates([*slow, *others])) is None


def test_a_paragraph_says_the_share_the_rates_and_the_bound() -> None:
    measured = [
        *products("OpenBLAS", 100e9, version="0.3.21"), *products("OpenBLAS", 52e9, 1, version="0.3.21"),
        *products("BLIS", 50e9, version="0.9.0"), *products("BLIS", 53e9, 1, version="0.9.0"),
    ]  # fmt: skip
    of_blis = [hotspot("bli_dgemm_haswell_asm_6x8", "libblis.so.4", 0.5)]
    assert kernel_lines(measured, of_blis) == [
        "50% of the time is in dgemm by BLIS (bli_dgemm_haswell_asm_6x8). Here dgemm reaches 100 GFLOP/s by "
        "OpenBLAS 0.3.21 with 2 threads, 52 GFLOP/s with 1 thread; 50 GFLOP/s by BLIS 0.9.0 with 2 threads, "
        "53 GFLOP/s with 1 thread. With OpenBLAS the program would be at most 1.42 times as fast."
    ]
    (line,) = kernel_lines(measured, [hotspot("dgemm_kernel_ZEN", "libopenblas.so.0", 0.3)])
    assert line.endswith("No other library is faster beyond the intervals of both.")
    (line,) = kernel_lines([], of_blis)
    assert line.endswith("What libraries reach here was not measured: npc characterise --benchmark blas.")
    (line,) = kernel_lines(measured, [hotspot("dgemm_", "libblas.so.3", 0.3)])
    assert "in dgemm, by a library that no name tells (dgemm_). Here dgemm reaches" in line
    assert "times as fast" not in line
    (line,) = kernel_lines(measured, [hotspot("0x390e0", "libblis.so.4", 0.3)])
    assert line.startswith(
        "30% of the time is in functions of BLIS without a symbol (0x390e0; which routine that is is "
        "not known). Here dgemm reaches 100 GFLOP/s"
    )
    assert "the program would" not in line and "No other library" not in line
    assert kernel_lines(measured, [hotspot("main", "app", 1.0)]) == []


def test_transforms_are_told_with_nominal_rates_and_not_compared() -> None:
    params = {"library": "FFTW", "threads": "1", "n": "64", "place": "out", "planner": "measure"}
    measured = records(
        "fft", "fft_3d", 12e9, metric="flops", params=params, size=4194304, tool_version="3.3.10"
    )
    (line,) = kernel_lines(measured, [hotspot("n1_64", "libfftw3.so.3", 0.3)])
    assert "30% of the time is in transforms by FFTW (n1_64)." in line
    assert "fft_3d reaches 12 GFLOP/s (nominal) by FFTW 3.3.10 with 1 thread." in line
