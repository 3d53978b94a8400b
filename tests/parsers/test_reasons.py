"""Outputs of versions and variants that people send: what is in them is read, or the true reason is given."""

from __future__ import annotations

import re

import pytest

from npc import parsers
from npc.records.reading import OK, Reading
from tests.captured import text_of


def statuses(readings: list[Reading]) -> set[str]:
    return {reading.status for reading in readings}


AMD_HPL = (
    "HPLinpack 2.3  --  High-Performance Linpack benchmark  --   December 2, 2018\n"
    "T/V                N    NB     P     Q               Time                 Gflops\n"
    + "-"
    * 80
    + "\nWRC11C2R4o 002 92160   384     1     1              61.24             8.5220e+03\n"
    "||Ax-b||_oo/(eps*(||A||_oo*||x||_oo+||b||_oo)*N)=   6.1e-05 ...... PASSED\n"
)


def test_amd_s_hpl_has_a_column_more_for_its_grid() -> None:
    flops, time, _ = parsers.parse("hpl", AMD_HPL)
    assert (flops.value, time.value, flops.status) == (8.5220e12, 61.24, OK)
    assert flops.params == {"n": "92160", "nb": "384", "p": "1", "q": "1", "variant": "WRC11C2R4o"}


@pytest.mark.parametrize(
    "title",
    [
        "n104-2p-4t version: V3.1\nRelease date: March 28, 2019\n",
        "Optimized HPCG of a vendor, build 2023\nversion: 3.1\nRun of node n01\n",
        "",
    ],
)
def test_a_result_file_of_hpcg_is_known_by_its_summary_of_the_machine(title: str) -> None:
    text = text_of("hpcg-formats", "intel_3.0_quickpath.txt")
    begin = text.index("Machine Summary")
    rates = {r.value for r in parsers.parse("hpcg", title + text[begin:]) if r.metric == "flops" and r.value}
    assert rates
    assert rates == {r.value for r in parsers.parse("hpcg", text) if r.metric == "flops" and r.value}


def gpu_stream(version: str) -> str:
    """A rate of 10^6 bytes a second of arrays of 100 · 2^20 bytes."""
    rows = ((name, arrays * 100 * 2**20 / 0.001 / 1e6) for name, arrays in (("Copy", 2), ("Triad", 3)))
    return (
        f"GPU-STREAM\nVersion: {version}\nImplementation: CUDA\nRunning kernels 10 times\nPrecision: double\n"
        "Array size: 100.0 MB (=0.1 GB)\nTotal size: 300.0 MB (=0.3 GB)\nUsing CUDA device a GPU\n"
        "Function    MBytes/sec  Min (sec)   Max         Average\n"
        + "".join(f"{name:<12}{rate:<12.3f}0.00100     0.00101     0.00100\n" for name, rate in rows)
    )


def test_the_mb_of_gpu_stream_s_array_are_of_2_to_the_20() -> None:
    for early in ("0.9", "1.0"):
        copy, triad = parsers.parse("babelstream", gpu_stream(early))
        assert statuses([copy, triad]) == {OK}
        assert copy.size == 300 * 2**20
    later = statuses(parsers.parse("babelstream", gpu_stream("3.4")))
    assert all(status.startswith("invalid: ") for status in later)


NVBANDWIDTH = (
    "nvbandwidth Version: v0.7\nBuilt from Git version: v0.7\n\nDevice 0: a GPU (00000000:34:00)\n\n"
)


@pytest.mark.parametrize(
    ("lines", "case", "status"),
    [
        (
            "Running device_to_device_memcpy_read_ce.\n Invalid value when checking the pattern at 0x70a6\n",
            "device_to_device_memcpy_read_ce",
            "failed: Invalid value when checking the pattern",
        ),
        (
            "Waiving device_to_device_memcpy_write_ce.\n",
            "device_to_device_memcpy_write_ce",
            "unavailable: the test was waived",
        ),
        ("Running host_to_device_memcpy_ce.\nWaived: \n", "host_to_device_memcpy_ce",
         "unavailable: the test was waived"),
    ],
)  # fmt: skip
def test_nvbandwidth_says_why_it_has_no_matrix(lines: str, case: str, status: str) -> None:
    (reading,) = parsers.parse("nvbandwidth", NVBANDWIDTH + lines)
    assert (reading.case, reading.status) == (case, status)


def test_an_error_of_nvbandwidth_is_that_of_the_test_that_printed_it() -> None:
    lines = (
        "Running host_to_device_memcpy_ce.\n"
        "Running one_to_all_read_sm.\n Invalid value when checking the pattern\n"
    )
    readings = parsers.parse("nvbandwidth", NVBANDWIDTH + lines)
    assert [(reading.case, reading.status) for reading in readings] == [
        ("host_to_device_memcpy_ce", "failed: no matrix was printed"),
        ("one_to_all_read_sm", "failed: Invalid value when checking the pattern"),
    ]


def test_a_matrix_of_nvbandwidth_belongs_to_the_test_that_its_sum_names() -> None:
    text = text_of("nvbandwidth", "v0.10_seven_gpus.txt")
    first, second = re.findall(r"(?m)^Running (\w+)\.$", text)[:2]
    before, _, below = text.partition(f"Running {first}.\n")
    cut = f"{before}Running {first}.\n" + below.partition(f"Running {second}.\n")[2]
    readings = [r for r in parsers.parse("nvbandwidth", cut) if r.case == first]
    assert statuses(readings) == {"invalid: its sum is lacking, as of a matrix that was not ended"}


NCCL = (
    "# nccl-tests version 2.13.9\n# nThread 1 nGpus 2 minBytes 1048576 maxBytes 2097152 step: 2(factor)\n"
    "#       size         count      type   redop    root     time   algbw   busbw #wrong"
    "     time   algbw   busbw #wrong\n"
    "#        (B)    (elements)                               (us)  (GB/s)  (GB/s)"
    "            (us)  (GB/s)  (GB/s)\n"
)
NCCL_ROW = (
    "     1048576        131072     float              -1    50.00   20.97   10.49{0:>7}"
    "    50.00   20.97   10.49    N/A\n"
)


def test_a_collective_that_reduces_nothing_leaves_its_column_blank() -> None:
    readings = parsers.parse("nccl", NCCL + NCCL_ROW.format(0), ["alltoall_perf"])
    assert statuses(readings) == {OK}
    assert {"redop"} & set(readings[0].params) == set()
    assert {r.value for r in readings if r.params.get("counted") == "algbw"} == {20.97e9}


def test_rows_that_lost_their_last_column_are_no_rows_without_a_reduction() -> None:
    row = (
        NCCL_ROW.format(0).replace("    N/A", "").replace(" float              -1", " float    none       0")
    )
    (reading,) = parsers.parse("nccl", NCCL + row, ["broadcast_perf"])
    assert (reading.value, reading.status) == (None, "failed: no row is whole")


def test_rows_that_are_all_wrong_are_invalid_and_not_missing() -> None:
    readings = parsers.parse("nccl", NCCL + NCCL_ROW.format(96), ["hypercube_perf"])
    out_of_place = [r for r in readings if r.params["place"] == "out-of-place"]
    assert out_of_place and statuses(out_of_place) == {"invalid: #wrong is 96"}


CANCELLED = "slurmstepd: error: *** {} CANCELLED AT 2026-11-23T01:53:04{} ***\n"


@pytest.mark.parametrize(
    ("ended", "reason"),
    [
        (CANCELLED.format("STEP 4711.0 ON gpu1", " DUE TO TIME LIMIT"), "Slurm cancelled it: time limit"),
        (CANCELLED.format("JOB 4711", ""), "Slurm cancelled it: no reason is printed"),
        (
            CANCELLED.format("JOB 4711 ON n1", " DUE TO NODE FAILURE, SEE SLURMCTLD LOG FOR DETAILS"),
            "Slurm cancelled it: node failure",
        ),
        ("slurmstepd: error: Detected 1 oom_kill event in StepId=4711.0.\n", "it was killed: out of memory"),
        ("srun: error: n1: task 0: Out Of Memory\n", "it was killed: out of memory"),
    ],
)
def test_a_job_that_slurm_ended_says_so(ended: str, reason: str) -> None:
    banner = "HPLinpack 2.3  --  High-Performance Linpack benchmark  --   December 2, 2018\n"
    for tool, text in (("nccl", NCCL), ("hpl", banner)):
        (reading,) = parsers.parse(tool, text + ended)
        assert reading.status == f"failed: {reason}"


def test_a_gpu_without_memory_was_not_killed() -> None:
    (reading,) = parsers.parse("nccl", NCCL + "gpu1: CUDA failure: out of memory\n")
    assert reading.status == "failed: no row is whole"


def test_each_table_of_stream_has_its_own_threads() -> None:
    """STREAM 5.9, started by a loop whose heading was kept once."""
    text = text_of("stream", "stream_10M_t2.txt")
    threads, table = text.index("Number of Threads requested"), text.index("Function")
    of_one = text[threads:].replace(" = 2\n", " = 1\n")
    one, two = (
        {r.params.get("threads") for r in parsers.parse("stream", part) if r.status == OK}
        for part in (text[:threads] + of_one, text)
    )
    both = parsers.parse("stream", text[: text.rindex("Solution Validates")] + of_one)
    assert table > threads and one != two
    assert {r.params.get("threads") for r in both} == one | two


def test_a_run_of_ior_without_its_summary_fails_as_the_operation_that_it_was() -> None:
    lines = (
        text_of("ior", "v4.0.0_O_direct.txt").partition("Summary of all tests")[0].splitlines(keepends=True)
    )
    assert any(line.startswith("read ") for line in lines)
    (reading,) = parsers.parse("ior", "".join(line for line in lines if not line.startswith("write")))
    assert (reading.case, reading.value, reading.status) == ("read", None, "failed: no summary was printed")
