"""What identifies a series: what was asked for, and not where it ran or what was seen."""

from __future__ import annotations

import json

import pytest

from npc.records.reading import Reading, with_note
from npc.records.record import Record, replace
from npc.records.series import Series, circumstances, identity, neutral_case, qualifiers, role, test_name
from tests.captured import outputs, read

# not a test of its own, whatever pytest thinks of its name
test_name.__test__ = False  # type: ignore[attr-defined]

RECORD = Record(
    time="2026-11-20T02:30:00+00:00", platform="fuchs", benchmark="qperf", case="tcp_bw", metric="bandwidth",
    value=1.1e9, unit="B/s", size=65536, nodes=2, hosts=("n1", "n2"), run="night0", params={"runtime": "2"},
)  # fmt: skip


@pytest.mark.parametrize(
    "seen",
    [
        {"server_cpus": "0-3"},
        {"client_cpus": "0"},
        {"thread_cpus": "0,2"},
        {"received": "0.987"},
        {"interface": "eth0"},
        {"device": "mlx5_1"},
        {"mpi_library": "Open MPI v5.0.1"},
        {"blas": "/usr/lib/libopenblas.so.0"},
        {"remeasured": "1"},
        {"msg_size": "64K"},
    ],
    ids=lambda seen: next(iter(seen)),
)
def test_where_it_ran_and_what_was_seen_are_no_part_of_a_series(seen: dict[str, str]) -> None:
    assert Series.of(replace(RECORD, params={**RECORD.params, **seen})) == Series.of(RECORD)


@pytest.mark.parametrize(
    "changes",
    [
        {"size": 1},
        {"nodes": 3},
        {"case": "tcp_lat"},
        {"platform": "localhost"},
        {"params": {"runtime": "3"}},
        {"params": {"runtime": "2", "msg_size": "32K"}},
        {"params": {"runtime": "2", "statistic": "p99"}},
        {"params": {"runtime": "2", "side": "send"}},
        {"params": {"runtime": "2", "an option that nobody thought of": "1"}},
    ],
    ids=str,
)
def test_what_was_asked_for_and_which_number_it_is_make_another_series(changes: dict[str, object]) -> None:
    assert Series.of(replace(RECORD, **changes)) != Series.of(RECORD)


def test_time_sample_hosts_value_and_status_make_no_other_series() -> None:
    again = replace(
        RECORD, time="2026-11-21T02:30:00Z", sample=4, value=None, status="failed: no route", raw="x",
        hosts=("n7", "n9"), job="17", run="night1", tool_version="2",
    )  # fmt: skip
    assert Series.of(again) == Series.of(RECORD)
    assert len({Series.of(RECORD), Series.of(again)}) == 1


def test_params_are_told_apart() -> None:
    params = {"threads": "2", "statistic": "p99", "thread_cpus": "0-1"}
    assert identity(params) == {"threads": "2", "statistic": "p99"}
    assert qualifiers(params) == {"statistic": "p99"}
    assert circumstances(replace(RECORD, params=params)) == {"thread_cpus": "0-1"}
    assert [role(name) for name in params] == ["setting", "qualifier", "circumstance"]


def test_a_note_makes_no_other_series() -> None:
    reading = with_note(with_note(Reading("tcp", "bandwidth", 1e9, params={"streams": "4"}), "one"), "two")
    assert (dict(reading.params), reading.status) == ({"streams": "4", "note": "one; two"}, "ok")
    assert identity(reading.params) == {"streams": "4"}


@pytest.mark.parametrize(
    ("kernel", "neutral"),
    [
        ("load", "load"),
        ("load_avx512", "load"),
        ("load_mem", "load_mem"),
        ("copy_mem_avx", "copy_mem"),
        ("triad_avx512_fma", "triad"),
        ("peakflops_sp_avx_fma", "peakflops"),
        ("stream_sp_mem_sse_fma", "stream_mem"),
        ("FLOPS_DP", "FLOPS_DP"),
    ],
)
def test_the_variant_of_a_likwid_kernel_is_a_circumstance(kernel: str, neutral: str) -> None:
    assert neutral_case("likwid", kernel) == neutral
    assert neutral_case("other", kernel) == kernel
    seen = circumstances(replace(RECORD, benchmark="likwid", case=kernel))
    assert seen == ({} if kernel == neutral else {"kernel": kernel})


def test_single_and_double_precision_are_two_series() -> None:
    double = replace(RECORD, benchmark="likwid", case="peakflops_avx", metric="flops", unit="FLOP/s")
    single = replace(double, case="peakflops_sp_avx")
    assert json.loads(Series.of(single).params)["precision"] == "single"
    assert Series.of(single) != Series.of(double)
    assert Series.of(single) == Series.of(replace(single, params={**single.params, "precision": "single"}))


@pytest.mark.parametrize(
    ("benchmark", "params", "used", "asked"),
    [
        ("likwid", {"workgroup": "-w N:400kB:2"}, 399936, 400_000),
        ("likwid", {"workgroup": "-W S0:65kB:2:1:2"}, 64904, 65_000),
        ("likwid", {"workgroup": "-w N:200kB:1 -w N:200kB:1"}, 399936, 400_000),
        ("likwid", {"workgroup": "-w M0:1GB"}, 999_999_936, 1_000_000_000),
        ("likwid", {"workgroup": "-w N"}, 399936, 399936),
        ("likwid", {}, 399936, 399936),
        ("likwid", {"workgroup": "-w N:400kB:2"}, None, None),
        ("hpcg", {"nx": "32", "ny": "32", "nz": "32"}, 46_887_300, None),
        ("hpcg", {}, 46_887_300, 46_887_300),
        ("stream", {"array_size": "40000000"}, 960_000_000, 960_000_000),
    ],
)
def test_a_series_has_the_size_that_was_asked_for(
    benchmark: str, params: dict[str, str], used: int | None, asked: int | None
) -> None:
    record = replace(RECORD, benchmark=benchmark, params=params, size=used)
    series = Series.of(record)
    assert (record.size, series.size) == (used, asked)
    old = series._asdict() | {"size": used}
    assert Series.of_row(old) == Series.of_row(series._asdict()) == series, "what was accepted joins"


def test_what_likwid_was_asked_for_is_one_series_however_it_rounds() -> None:
    """Variants of a kernel round in their own ways: what was captured of LIKWID with one setting is one
    series."""
    by_settings: dict[tuple[str, ...], set[Series]] = {}
    used: dict[tuple[str, ...], set[int | None]] = {}
    for path in outputs("likwid"):
        for reading in read("likwid", path):
            if reading.value is not None and "workgroup" in reading.params:
                record = Record.of(reading, time=RECORD.time, platform="fuchs", benchmark="likwid")
                series = Series.of(record)
                asked = series.case, series.metric, series.params
                by_settings.setdefault(asked, set()).add(series)
                used.setdefault(asked, set()).add(record.size)
    assert max(map(len, used.values())) > 1, "LIKWID rounded somewhere"
    assert {len(series) for series in by_settings.values()} == {1}


def test_every_kernel_that_likwid_lists_has_a_neutral_name() -> None:
    (listed,) = [path for path in outputs("likwid") if path.name == "bench_a.txt"]
    kernels = [line.split(" - ")[0] for line in listed.read_text().splitlines() if " - " in line]
    neutral = {neutral_case("likwid", kernel) for kernel in kernels}
    assert len(kernels) > 100
    assert neutral <= set(kernels) | {"daxpy_mem", "triad_mem"}, "their plain variants do not exist"
    assert not {name for name in neutral if "avx" in name or "sse" in name or "_sp" in name}


def test_readings_of_one_output_are_different_series_or_repeats_of_one_row() -> None:
    """A circumstance that told two numbers of a tool apart would be a qualifier."""
    for folder in ("perftest", "sockperf", "qperf", "iperf3", "nuttcp", "hpcc", "hpcg", "imb", "osu"):
        for path in outputs(folder):
            whole: dict[Series, dict[str, str]] = {}
            for reading in read(folder, path):
                of = (folder, reading.case, reading.metric, reading.size, 1)
                params = dict(reading.params)
                assert whole.setdefault(Series.of_fields("p", *of, params), params) == params, path


def test_a_test_s_name_does_not_say_the_benchmark_twice() -> None:
    assert test_name("osu", "osu_bw") == "osu_bw"
    assert test_name("qperf", "tcp_bw") == "qperf tcp_bw"
    assert test_name("hpcg", "") == "hpcg"


def test_the_table_knows_every_param_by_one_role() -> None:
    assert role("threads") == role("no such param") == "setting"
    assert role("percentile") == role("level") == role("precision") == "qualifier"
