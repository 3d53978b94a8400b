"""``npc compare``: the statistics of a pair, which series are pairs, what is said, and how it ends."""

from __future__ import annotations

import csv
import io
import json
import math
import random
import shutil
import subprocess
from collections.abc import Sequence
from itertools import combinations
from math import comb
from pathlib import Path
from statistics import stdev

import pytest
from hypothesis import given
from hypothesis import strategies as st

from npc.page.blocks import Table, Text
from npc.records.history import History, of_night
from npc.records.record import Record, replace, save_csv, write_csv
from npc.records.run import read_run
from npc.report.compare.compared_series import ComparedSeries
from npc.report.compare.comparison import compare_sides
from npc.report.compare.difference import (
    LaunchValue,
    RunNoise,
    compare_samples,
    design_effect,
    spread_of_runs,
)
from npc.report.compare.earlier import EarlierRuns
from npc.report.compare.matching import Choice
from npc.report.compare.plots import sweeps_of
from npc.report.compare.remarks import headline, remarks
from npc.report.compare.sides import NoSide, Side, read_side, split_side
from npc.report.compare.table import COLUMNS
from npc.report.runs import Report, read_runs
from npc.report.sections.comparison import build
from npc.statistics.medians import false_discovery
from npc.statistics.rank_sum import rank_test, shift_interval
from tests.bench.compare import called, found, side, wrong, wrong_single
from tests.lab import in_process
from tests.made.launch_noise import NOISES, RUN_NOISES, simulated
from tests.made.measured import records
from tests.paths import ROOT

#: How much runs differ on a machine without earlier runs.
STEADY = ("--run-to-run", "0.005")
EXAMPLE = ROOT / "docs" / "example" / "localhost"
CAPTURED = ROOT / "tests/data" / "compare"
VALUES = st.lists(st.floats(1e-9, 1e12), min_size=4, max_size=9)


def observations(values: Sequence[float], run: str = "0") -> list[LaunchValue]:
    return [LaunchValue(f"2026-11-21T08:00:{number:02d}", run, value) for number, value in enumerate(values)]


def compared(a: Sequence[Record], b: Sequence[Record], **choice: object) -> tuple[ComparedSeries, ...]:
    """The pairs of two runs of a machine whose runs are all alike, if nothing else is said."""
    chosen = Choice(**{"run_to_run": 0.0, **choice})  # type: ignore[arg-type]
    return compare_sides(side("A", a), side("B", b), chosen).series


def cells(pair: ComparedSeries) -> list[str]:
    """The row of a pair on a terminal."""
    return [column.cell(pair).text for column in COLUMNS]


# --- one pair -----------------------------------------------------------------------------------------


def rank_sums(values: Sequence[float], n: int) -> list[float]:
    """The rank sum of every choice of n of the values, by counting."""
    ranks = [
        sum(other < value for other in values) + (sum(other == value for other in values) + 1) / 2
        for value in values
    ]
    return [sum(chosen) for chosen in combinations(ranks, n)]


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ([1, 2, 3, 4], [5, 6, 7, 8]),
        ([1, 5, 3, 9, 2], [4, 6, 7, 8]),
        ([0, 0, 0, 1], [0, 2, 2, 3, 0]),
        ([0, 0, 0, 0], [0, 0, 0, 0]),
    ],
)
def test_the_rank_test_is_the_share_of_choices_as_far_from_the_middle(a: list[float], b: list[float]) -> None:
    sums = rank_sums([*a, *b], len(a))
    middle = len(a) * (len(a) + len(b) + 1) / 2
    extreme = [total for total in sums if abs(total - middle) >= abs(sums[0] - middle)]
    assert rank_test(a, b) == pytest.approx(len(extreme) / len(sums))


@pytest.mark.parametrize(("n", "m"), [(4, 4), (5, 4), (6, 6), (8, 7)])
def test_the_interval_leaves_out_as_many_differences_as_its_level_allows(n: int, m: int) -> None:
    """With a = 0, 1, …, and b far apart from each other, the ends say how many differences are left out."""
    a, b = list(range(n)), [1000.0 * (place + 1) for place in range(m)]
    low, _, high = shift_interval(a, b)
    differences = sorted(y - x for x in a for y in b)
    left_out = differences.index(low)
    assert differences[::-1].index(high) == left_out
    below = [total - n * (n + 1) / 2 for total in rank_sums([float(x) for x in range(n + m)], n)]

    def missed(k: int) -> float:
        return 2 * sum(u <= k for u in below) / comb(n + m, n)

    assert missed(left_out) <= 0.05 < missed(left_out + 1)


@given(VALUES, VALUES, st.floats(0.1, 10))
def test_the_ratio_follows_the_unit_and_the_order(a: list[float], b: list[float], factor: float) -> None:
    difference = compare_samples(observations(a), observations(b), RunNoise(), RunNoise())
    scaled = compare_samples(observations(a), observations([x * factor for x in b]), RunNoise(), RunNoise())
    turned = compare_samples(observations(b), observations(a), RunNoise(), RunNoise())
    assert (
        difference.ratio
        and difference.low
        and difference.high
        and scaled.ratio
        and turned.ratio
        and turned.high
    )
    assert difference.low <= difference.ratio * (1 + 1e-9) and difference.ratio <= difference.high * (
        1 + 1e-9
    )
    assert scaled.ratio == pytest.approx(difference.ratio * factor, rel=1e-6)
    assert turned.ratio == pytest.approx(1 / difference.ratio, rel=1e-6)
    assert turned.high == pytest.approx(1 / difference.low, rel=1e-6)
    assert 0 <= difference.p <= 1 and turned.p == pytest.approx(difference.p, abs=1e-9)


def test_beyond_the_counted_ranks_the_normal_limit_agrees() -> None:
    rng = random.Random(8)
    for n, m in ((20, 21), (6, 36)):
        few = ([rng.gauss(0, 1) for _ in range(n)], [rng.gauss(0.6, 1) for _ in range(m)])
        fewer = (few[0], few[1][:-2])
        assert rank_test(*few) == pytest.approx(rank_test(*fewer), abs=0.1)
        normal, exact = shift_interval(*few), shift_interval(*fewer)
        assert normal[2] - normal[0] == pytest.approx(exact[2] - exact[0], rel=0.25)


def test_yuens_test_on_a_worked_example() -> None:
    """Six values a side: one cut at each end, Winsorised sums of squares over h(h − 1), h = 4 (Yuen 1974)."""
    a, b = [0.0, 1.0, 2.0, 3.0, 4.0, 9.0], [2.0, 4.0, 5.0, 6.0, 7.0, 8.0]
    # Winsorised: 1 1 2 3 4 4 and 4 4 5 6 7 7, squares about their means 9.5 each
    t = (5.5 - 2.5) / math.sqrt(9.5 / 12 + 9.5 / 12)
    exact = compare_samples(
        observations([math.exp(x) for x in a]),
        observations([math.exp(x) for x in b]),
        RunNoise(),
        RunNoise(),
    )
    # Student's t with 6 degrees of freedom: tables have 1.943 for 10 % and 2.447 for 5 %
    assert t == pytest.approx(2.384, abs=0.001)
    assert exact.p == pytest.approx(0.0545, abs=0.0002)


def test_zeros_have_no_ratio_but_a_rank() -> None:
    lossless, lossy = observations([0.0] * 6), observations([0.01, 0.02, 0.05, 0.01, 0.03, 0.02])
    assert compare_samples(lossless, lossless, RunNoise(), RunNoise()) == (
        compare_samples(lossless, observations([0.0] * 6), RunNoise(), RunNoise())
    )
    difference = compare_samples(lossless, lossy, RunNoise(), RunNoise())
    assert difference.ratio is None and difference.p == pytest.approx(2 / comb(12, 6))


def test_too_few_launches_are_refused() -> None:
    with pytest.raises(ValueError, match="3 and 6 launches, at least 4 each"):
        compare_samples(observations([1, 2, 3]), observations([1] * 6), RunNoise(), RunNoise())


def test_drift_widens_and_independent_launches_do_not() -> None:
    rng = random.Random(3)

    def cases(drift: float) -> list[list[list[LaunchValue]]]:
        levels = [drift * place for place in range(6)]
        return [[observations([math.exp(rng.gauss(level, 0.01)) for level in levels])] for _ in range(40)]

    assert design_effect(cases(0.0)) < 1.7
    assert design_effect(cases(0.02)) > 4
    assert design_effect(cases(0.02)[:3]) == 1.0  # three cases tell nothing


def test_the_spread_of_runs_is_that_of_their_medians() -> None:
    rng = random.Random(4)
    group = [math.exp(rng.gauss(0, 0.05)) for _ in range(30)]
    spread = spread_of_runs([group, [2 * value for value in group[:5]], [7.0]])
    assert spread and spread.sd == pytest.approx(0.05, rel=0.3)
    assert len(spread.apart) == comb(30, 2) + comb(5, 2)
    few = [math.exp(rng.gauss(0, 0.05)) for _ in range(14)]
    assert spread_of_runs([few]) is None, "13 degrees of freedom"
    assert spread_of_runs([few, few[:2]]) is not None


@given(st.lists(st.floats(-1, 1), min_size=15, max_size=18), st.integers(0, 15), st.integers(0, 15))
def test_two_runs_are_measured_by_the_spread_of_the_others(logs: list[float], i: int, j: int) -> None:
    i, j = sorted((i % len(logs), j % len(logs)))
    spread = spread_of_runs([[math.exp(x) for x in logs]])
    assert spread
    place = list(combinations(range(len(logs)), 2)).index((i, j)) if i < j else None
    if place is not None:
        sd = max(stdev([x for k, x in enumerate(logs) if k not in (i, j)]), 1e-4)
        assert spread.apart[place] == pytest.approx(
            abs(logs[i] - logs[j]) / sd / math.sqrt(2), rel=1e-3, abs=1e-3
        )


@given(st.lists(st.floats(0, 1), min_size=1, max_size=30))
def test_adjusted_p_values_reject_what_the_procedure_rejects(p: list[float]) -> None:
    adjusted = false_discovery(p)
    for level in (0.01, 0.05, 0.5):
        ordered = sorted(p)
        passed = [k for k in range(1, len(p) + 1) if ordered[k - 1] <= level * k / len(p)]
        limit = ordered[max(passed) - 1] if passed else -1.0
        for value, after in zip(p, adjusted, strict=True):
            assert (after <= level) == (value <= limit) or after == pytest.approx(level)


# --- series -------------------------------------------------------------------------------------------


def test_what_is_better_depends_on_the_metric() -> None:
    a = [
        *records("osu", "osu_bw", 1e9, size=8),
        *records("osu", "osu_latency", 1e-6, metric="latency", size=8),
        *records("observed", "observed", 1e6, metric="traffic"),
        *records("stream", "triad", 2e10),
    ]
    b = [
        replace(record, value=(record.value or 0) * (1.0 if record.case == "triad" else 1.5)) for record in a
    ]
    pairs = compared(a, b)
    assert {(pair.test, pair.verdict) for pair in pairs} == {
        ("osu_bw", "better"),
        ("osu_latency", "worse"),
        ("observed", "different"),
        ("stream triad", "same"),
    }
    assert [pair.ratio for pair in pairs] == pytest.approx([1.5, 1.5, 1.5, 1.0])
    assert pairs[0].verdict == "worse"
    assert all(pair.low and pair.high and pair.low < 1.5 < pair.high for pair in pairs[:3])


def test_small_differences_are_the_same_however_certain() -> None:
    spread = [1 + place * 1e-5 for place in range(9)]
    a = list(records("osu", "osu_bw", 1e9, size=8, spread=spread))
    b = list(records("osu", "osu_bw", 1.015e9, size=8, spread=spread))
    assert [pair.verdict for pair in compared(a, b)] == ["same"]
    assert [pair.verdict for pair in compared(a, b, least_effect=0.01)] == ["better"]


def kernel(case: str, **fields: object) -> list[Record]:
    params = {"level": "L1", "precision": "double", "threads": "2"}
    return list(records("likwid", case, 9e10, size=32768, params={**params, **fields}))


def test_builds_of_likwid_with_other_kernels_are_comparable_and_the_kernels_are_named() -> None:
    (pair,) = compared(kernel("load_avx"), kernel("load_avx512"))
    assert (pair.test, pair.verdict) == ("likwid load", "same")
    assert pair.circumstances == {"kernel": ("load_avx", "load_avx512")}
    comparison = compare_sides(side("A", kernel("load_avx")), side("B", kernel("load_avx512")), Choice())
    assert any("1 pair with kernel load_avx in A, load_avx512 in B" in line for line in remarks(comparison))


def test_variants_of_a_kernel_that_one_run_measured_are_not_mixed() -> None:
    every = [*kernel("load_sse"), *kernel("load_avx")]
    (pair,) = compared(every, every)
    assert pair.verdict == "not comparable"
    assert pair.reason == "several kernels in one run: load_sse and load_avx"
    measured = [*kernel("load_sse", variant="sse"), *kernel("load_avx", variant="avx")]
    assert [pair.verdict for pair in compared(measured, measured)] == ["same", "same"]


def test_where_processes_ran_is_said_and_keeps_no_pair_apart() -> None:
    a, b = (list(records("qperf", "tcp_bw", 1e9, params={"server_cpus": cpus})) for cpus in ("0-3", "4"))
    (pair,) = compared(a, b)
    assert (pair.verdict, pair.params, pair.circumstances) == ("same", {}, {"server_cpus": ("0-3", "4")})


@pytest.mark.parametrize(
    ("change", "reason", "ignore"),
    [
        ({"size": 16}, "other size: 8 B in A, 16 B in B", "size"),
        ({"nodes": 4}, "other node count: 1 in A, 4 in B", "nodes"),
        ({"tool_version": "7.5"}, "other version: 7.4 in A, 7.5 in B", "version"),
        ({"params": {"ranks": "4"}}, "other ranks: 2 in A, 4 in B", "ranks"),
    ],
)
def test_what_is_not_comparable_says_why_and_may_be_ignored(
    change: dict[str, object], reason: str, ignore: str
) -> None:
    a = list(records("osu", "osu_bw", 1e9, size=8, tool_version="7.4", params={"ranks": "2"}))
    b = [replace(record, **change) for record in a]
    pairs = compared(a, b)
    assert {pair.verdict for pair in pairs} == {"not comparable"}
    assert reason in {pair.reason for pair in pairs}
    assert [pair.verdict for pair in compared(a, b, ignore=[ignore])] == ["same"]


def test_other_reasons_not_to_compare() -> None:
    a = list(records("osu", "osu_bw", 1e9, size=8))
    alone = compared([*a, *records("qperf", "tcp_bw", 1e9)], a)
    assert [(pair.verdict, pair.reason) for pair in alone] == [
        ("same", ""),
        ("not comparable", "only in A"),
    ]
    few = compared(a, a[:3])
    needed = "4 each are needed (npc characterise --set samples=4)"
    assert few[0].reason == f"too few samples: 7 and 3 launches, {needed}"
    several = compared([*a, *(replace(record, nodes=2) for record in a)], a, ignore=["nodes"])
    assert several[0].reason == "several series on one side: node count 1 and 2"


def test_a_reason_is_the_same_from_both_sides_and_names_what_to_ignore(tmp_path: Path) -> None:
    a = [
        record
        for size in (8, 16)
        for record in records("osu", "osu_bw", 1e9, size=size, tool_version="7.4", params={"ranks": "2"})
    ]
    b = [replace(record, tool_version="") for record in a]
    pairs = compared(a, b)
    assert {(pair.reason, pair.ignore) for pair in pairs} == {
        ("other version: 7.4 in A, unknown in B", ("version",))
    }
    (remark,) = [
        line
        for line in remarks(compare_sides(side("A", a), side("B", b), Choice()))
        if line.startswith("Not comparable")
    ]
    assert remark == ("Not comparable: 4 × other version: 7.4 in A, unknown in B (--ignore version).")
    c = [replace(record, nodes=2) for record in b]
    assert {pair.ignore for pair in compared(a, c)} == {("nodes", "version")}
    assert {pair.verdict for pair in compared(a, c, ignore=("nodes", "version"))} == {"same"}


def test_a_working_set_that_a_kernel_rounds_is_one_size_and_others_are_told_apart() -> None:
    """LIKWID's L3 of 16777 kB: 16776960 B with one kernel, 16776704 B with another."""
    a = [*records("likwid", "load", 1e9, size=16776960)]
    (pair,) = compared(a, records("likwid", "load", 1e9, size=16776704))
    assert (pair.verdict, pair.size) == ("same", 16776960)
    both = compared(a, records("likwid", "load", 1e9, size=16800000))
    assert {pair.reason for pair in both} == {"other size: 16776960 B in A, 16800000 B in B"}


def test_tools_with_other_sizes_are_compared_at_the_nearest() -> None:
    of_run = [
        *records("qperf", "tcp_bw", 1e9, size=4096),
        *records("qperf", "tcp_bw", 2e9, size=61440),
        *records("sockperf", "tcp_throughput", 1e9, size=64000, params={"side": "send"}),
        *records("iperf3", "tcp", 1e9, size=131072),
    ]
    iperf3, qperf, sockperf = split_side([Side("run", {"run": of_run})], "benchmark")
    comparison = compare_sides(qperf, sockperf, Choice(by="benchmark", run_to_run=0.01))
    near = comparison.series[0]
    assert near.verdict == "worse" and near.ratio == pytest.approx(0.5) and near.size is None
    assert near.a and near.b and (near.a.size, near.b.size) == (61440, 64000)
    assert [pair.size for pair in comparison.series[1:]] == [4096]
    assert any(
        line.startswith("1 pair is of the nearest sizes, not of one (TCP bandwidth 60 KiB/62.5 KiB)")
        for line in remarks(comparison)
    )
    # more than twice as large is another size, unless told to ignore that
    apart = compare_sides(iperf3, qperf, Choice(by="benchmark")).series
    assert {pair.reason for pair in apart} == {
        "other size: 128 KiB in iperf3, 60 KiB in qperf",
        "other size: 128 KiB in iperf3, 4 KiB in qperf",
    }
    assert {pair.ignore for pair in apart} == {("size",)}
    compared_series = compare_sides(
        iperf3, qperf, Choice(by="benchmark", ignore=["size"], run_to_run=0.01)
    ).series
    assert [(pair.verdict, pair.b and pair.b.size) for pair in compared_series] == [
        ("better", 61440),
        ("not comparable", 4096),
    ]
    assert compared_series[1].ignore == ()


def test_runs_of_one_test_are_compared_at_the_same_size_only() -> None:
    a = list(records("osu", "osu_bw", 1e9, size=1000))
    assert [pair.verdict for pair in compared(a, [replace(record, size=1024) for record in a])] == [
        "not comparable",
        "not comparable",
    ]


def test_only_usable_headline_numbers_count_and_placement_does_not() -> None:
    a = list(records("osu", "osu_bw", 1e9, size=8))
    b = [
        *(replace(record, params={"client_cpus": "3", "remeasured": "1"}) for record in a),
        *(replace(record, value=9e9, status="invalid: loaded") for record in a),
        *(replace(record, value=9e9, params={"statistic": "max"}) for record in a),
    ]
    assert [(pair.verdict, pair.ratio) for pair in compared(a, b)] == [("same", pytest.approx(1.0))]
    assert len(compared(a, b, statistics=True)) == 2


def test_sides_by_what_records_say() -> None:
    spread = {"openmpi": 1.0, "mpich": 0.5}
    of_run = [
        record
        for mpi, factor in spread.items()
        for record in records("osu", "osu_bw", factor * 1e9, size=8, params={"mpi": mpi})
    ]
    split = split_side([Side("run", {"run": of_run})], "params.mpi")
    assert [part.name for part in split] == ["mpich", "openmpi"]
    (pair,) = compare_sides(split[0], split[1], Choice(by="params.mpi")).series
    assert (pair.verdict, pair.reason) == ("different", "within one single run")
    (pair,) = compare_sides(split[0], split[1], Choice(by="params.mpi", run_to_run=0.01)).series
    assert (pair.verdict, pair.ratio, pair.reason) == ("better", pytest.approx(2.0), "")
    with pytest.raises(NoSide, match="only openmpi"):
        split_side([Side("run", {"run": of_run[:7]})], "params.mpi")
    with pytest.raises(NoSide, match="there are platform, night"):
        split_side([Side("run", {"run": of_run})], "colour")


def test_tools_are_compared_by_what_they_measure() -> None:
    of_run = [
        *records("osu", "osu_latency", 1e-6, metric="latency", size=8, params={"ranks": "2"}),
        *records("imb", "PingPong", 1.4e-6, metric="latency", size=8, tool_version="2021"),
        *records("imb", "PingPong", 1e9, metric="bandwidth", size=8),
        *records("stream", "triad", 1e10),
    ]
    imb, osu = split_side([Side("run", {"run": of_run})], "benchmark")[:2]
    pairs = compare_sides(osu, imb, Choice(by="benchmark", run_to_run=0.01)).series
    assert [(pair.test, pair.verdict) for pair in pairs] == [("MPI half round trip", "worse")]


def test_with_enough_runs_the_run_is_the_unit() -> None:
    """Launches that agree to a hair within a run, in runs that differ by 5 %: nothing is known of 3 %."""
    rng = random.Random(5)

    def runs(level: float) -> list[list[Record]]:
        return [
            list(
                records(
                    "osu", "osu_bw", level * math.exp(rng.gauss(0, 0.05)), size=8, spread=[1.0, 1.0001] * 3
                )
            )
            for _ in range(5)
        ]

    a, b = side("A", *runs(1e9)), side("B", *runs(1.03e9))
    (pair,) = compare_sides(a, b, Choice()).series
    assert pair.verdict == "same" and pair.low and pair.high and pair.high / pair.low > 1.05
    (far,) = compare_sides(a, side("B", *runs(1.5e9)), Choice()).series
    assert far.verdict == "better" and far.a and far.a.runs == 5


# --- disturbed records --------------------------------------------------------------------------------


def disturbed(measured: Sequence[Record], number: int, share: str = "0.40") -> list[Record]:
    """The records, the first `number` of them at half the value, while others used the CPUs."""
    return [
        replace(record, value=(record.value or 0) / 2, params={**record.params, "disturbed": share})
        if place < number
        else record
        for place, record in enumerate(measured)
    ]


def test_disturbed_launches_are_left_out_and_counted() -> None:
    a = list(records("osu", "osu_bw", 1e9, size=8))
    assert len(a) == 7
    comparison = compare_sides(side("A", a), side("B", disturbed(a, 3)), Choice(run_to_run=0.0))
    (pair,) = comparison.series
    assert pair.verdict == "same" and pair.b and (pair.b.launches, pair.b.disturbed) == (4, 3)
    assert comparison.disturbed == (
        "",
        "3 of 7 usable records were measured while others took 40 % of the CPUs",
    )
    assert any(line.startswith("Disturbed in B, and left out: 3 of 7") for line in remarks(comparison))
    assert cells(pair)[-2] == "7/4, 0/3 disturbed"


def test_what_is_left_with_too_few_launches_is_not_comparable() -> None:
    a = list(records("osu", "osu_bw", 1e9, size=8))
    for b in (disturbed(a, 4), disturbed(a, 7)):
        (pair,) = compared(a, b)
        assert pair.verdict == "not comparable" and pair.ratio is None
        assert (pair.reason, pair.ignore) == ("disturbed: others used the CPUs in B", ("disturbed",))
    (few,) = compared(a, disturbed(a[:3], 3))
    assert (few.reason, few.ignore) == ("disturbed: others used the CPUs in B", ())
    (both,) = compared(disturbed(a, 7), disturbed(a, 7))
    assert both.reason == "disturbed: others used the CPUs in A and B"
    (used,) = compared(a, disturbed(a, 7), ignore=["disturbed"])
    assert (used.verdict, used.ratio) == ("worse", pytest.approx(0.5))
    chosen = Choice(ignore=["disturbed"])
    sentences = remarks(compare_sides(side("A", a), side("B", disturbed(a, 7)), chosen))
    assert any(
        line.startswith("Disturbed in B, and used nevertheless (--ignore disturbed): 7 of 7")
        for line in sentences
    )


def test_a_series_without_a_usable_record_says_so() -> None:
    a = list(records("osu", "osu_bw", 1e9, size=8))
    b = [replace(record, status="invalid: others used 1.2 of the 2 CPUs meanwhile") for record in a]
    assert [pair.reason for pair in compared(a, b)] == ["invalid in B (npc check says why)"]
    assert [pair.reason for pair in compared(b, a)] == ["invalid in A (npc check says why)"]


# --- single runs --------------------------------------------------------------------------------------


def stream(level: float, day: int = 1) -> list[Record]:
    """A run of STREAM whose six launches agree to a percent."""
    return [
        replace(record, time=f"2026-11-{day:02d}T08:{record.sample:02d}:00+00:00")
        for kernel in ("copy", "scale", "add", "triad")
        for record in records("stream", kernel, level, spread=[1.0, 1.002, 0.998, 1.004, 0.996, 1.001])
    ]


def test_single_runs_differ_and_are_never_worse() -> None:
    """All kernels of one STREAM run a fifth below those of the other, with launches that agree."""
    a = stream(1e10)
    b = [replace(record, value=(record.value or 0) * 0.8) for record in a]
    comparison = compare_sides(side("A", a), side("B", b), Choice())
    assert {(pair.verdict, pair.reason, pair.run_to_run) for pair in comparison.series} == {
        ("different", "between two single runs", None)
    }
    assert headline(comparison) == "B = B against A = A: 4 differ between two single runs."
    assert cells(comparison.series[0])[-1] == "between two single runs"
    (sentence,) = [line for line in remarks(comparison) if line.startswith("How runs of this machine differ")]
    assert "is not known for 4 series, so none of the 4 that differ is called better or worse" in sentence
    assert "15 earlier runs" in sentence and "(there are 0 earlier runs)" in sentence


@pytest.fixture(scope="module")
def beside(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Seventeen runs of one machine that differ by 2 %, the last at 85 % of the usual, one night each."""
    folder = tmp_path_factory.mktemp("runs")
    rng = random.Random(11)
    for number in range(17):
        level = 1e10 * math.exp(rng.gauss(0, 0.02)) * (0.85 if number == 16 else 1.0)
        (folder / f"{number:06d}").mkdir()
        save_csv(stream(level, number + 1), folder / f"{number:06d}" / "records.csv")
    return folder


def test_runs_beside_them_say_how_single_runs_differ(beside: Path, tmp_path: Path) -> None:
    last, before = beside / "000016", beside / "000015"
    worse = npc(before, last, cwd=tmp_path).stdout
    assert worse.startswith("B = 000016 against A = 000015: 4 worse.\n")
    assert "in the intervals of 4 series" in worse and "by 15 earlier runs" in worse
    assert "what differs is of 1 benchmark (stream)" in worse
    # two runs that differ as runs of this machine do, and two before which there was nothing to know
    sides = [read_side(str(beside / name), tmp_path) for name in ("000013", "000014", "000000", "000001")]
    past = EarlierRuns(sides, tmp_path)
    assert list(past.before(sides[2], sides[3])) == []
    assert {name: len(side.records) for name, side in past.before(*sides[:2]).items()} == {"fuchs": 13}


def test_nights_of_the_history_say_how_single_runs_differ(beside: Path, tmp_path: Path) -> None:
    history = History(tmp_path / "history" / "fuchs")
    for run in sorted(beside.iterdir())[:15]:
        measured = [replace(record, platform="fuchs") for record in read_run(run)]
        history.append(of_night(measured, run.name))
    for name in ("000015", "000016"):
        (tmp_path / name).mkdir()
        measured = [replace(record, platform="fuchs") for record in read_run(beside / name)]
        save_csv(measured, tmp_path / name / "records.csv")
    ended = npc("000015", "000016", cwd=tmp_path)
    assert "4 worse" in ended.stdout and "by 15 earlier runs" in ended.stdout, ended.stdout + ended.stderr
    # each night with the first: none that is compared is among those that say how nights differ
    parts = npc("fuchs@2026-11", "--by", "night", "--case", "triad", "--json", cwd=tmp_path)
    comparisons = json.loads(parts.stdout)["comparisons"]
    assert [comparison["earlier"]["b"] for comparison in comparisons] == list(range(14))


# --- how often it is wrong ----------------------------------------------------------------------------


def test_identical_runs_compare_as_the_same() -> None:
    assert wrong(10, NOISES["normal"]) <= 0.05
    assert wrong(10, NOISES["outliers"], drift=0.02) <= 0.05


def test_a_difference_of_a_tenth_is_seen() -> None:
    assert found(8, NOISES["normal"], 0.1) >= 0.9


@pytest.mark.slow
@pytest.mark.parametrize("noise", NOISES)
def test_of_identical_runs_few_series_are_called_different(noise: str) -> None:
    """`make bench-compare` has more pairs."""
    assert wrong(15, NOISES[noise]) <= 0.05
    assert wrong(15, NOISES[noise], drift=0.02) <= 0.05
    assert wrong(8, NOISES[noise], runs=5, between=0.02) <= 0.05


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["heavy-tailed", "7 % bad runs", "two levels", "resembling"])
def test_single_runs_with_any_noise_between_runs_are_seldom_called_worse(kind: str) -> None:
    """`make bench-compare` has the other kinds, too."""
    assert wrong_single(20, RUN_NOISES[kind]) <= 0.05


# --- the command --------------------------------------------------------------------------------------


def npc(*words: str | Path, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return in_process.npc("compare", *words, cwd=cwd)


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Two runs; in the second, two tests are 20 % slower."""
    folder = tmp_path_factory.mktemp("compared")
    rng = random.Random(6)
    slower = {"test3": 1.2, "test7": 1.2}
    for name, factors in (("first", {}), ("second", slower)):
        (folder / name).mkdir()
        save_csv(simulated(rng, NOISES["normal"], factors=factors), folder / name / "records.csv")
    return folder / "first", folder / "second"


def test_the_table_shows_the_differences_and_counts_the_rest(two: tuple[Path, Path]) -> None:
    ended = npc(*two, *STEADY)
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.startswith("B = second against A = first: 8 worse, 40 same.\n")
    rows = [line for line in ended.stdout.splitlines() if line.strip().startswith("worse")]
    assert len(rows) == 8 and all("osu" in row for row in rows)
    assert "40 series are the same" in ended.stdout
    assert npc(*two, "--all").stdout.count("\nsame ") >= 40


def test_every_format_has_the_same_pairs(two: tuple[Path, Path]) -> None:
    document = json.loads(npc(*two, *STEADY, "--json").stdout)
    (comparison,) = document["comparisons"]
    assert document["schema"] == 2 and comparison["counts"] == {"worse": 8, "same": 40}
    rows = list(csv.DictReader(io.StringIO(npc(*two, *STEADY, "--format", "csv").stdout)))
    assert [row["verdict"] for row in rows] == [pair["verdict"] for pair in comparison["pairs"]]
    for row, pair in zip(rows, comparison["pairs"], strict=True):
        assert float(row["ratio"]) == pair["ratio"] and float(row["median_b"]) == pair["b"]["median"]
        assert pair["low"] < pair["ratio"] < pair["high"] and len(pair["a"]["raw"]) == 6
    ratios = [max(pair["ratio"], 1 / pair["ratio"]) for pair in comparison["pairs"]]
    assert ratios[:8] == sorted(ratios[:8], reverse=True)
    shown = npc(*two, *STEADY, "--format", "markdown").stdout
    lines = [line for line in shown.splitlines() if line.startswith("|")]
    assert len(lines) == 2 + 8 and len({line.count("|") for line in lines}) == 1


def test_the_page_has_each_number_below_its_heading(two: tuple[Path, Path]) -> None:
    tables = [block for block in build(Report(read_runs([*two]), two[0].parent)) if isinstance(block, Table)]
    shown = [dict(zip(table.columns, row, strict=True)) for table in tables for row in table.rows]
    (comparison,) = json.loads(npc(*two, "--json").stdout)["comparisons"]
    assert len(shown) == len(comparison["pairs"]) == 48
    pairs = {(f"{pair['test']} {pair['metric']}", pair["size"]): pair for pair in comparison["pairs"]}
    for row in shown:
        pair = pairs[row["test"].text.partition(" (")[0], row["size"].sort or None]
        texts = {heading: row[heading].text for heading in ("verdict", "95 % interval", "launches", "why")}
        assert texts == {
            "verdict": pair["verdict"],
            "95 % interval": f"[{pair['low']:.3f}, {pair['high']:.3f}]",
            "launches": "6/6",
            "why": pair["reason"],
        }
        for heading, value in ((tables[0].columns[3], "a"), (tables[0].columns[4], "b")):
            assert row[heading].sort == pair[value]["median"]
        assert row["ratio"].sort == pair["ratio"]


@pytest.mark.slow
def test_how_it_ends(two: tuple[Path, Path], tmp_path: Path) -> None:
    first, second = two
    assert npc(first, second, *STEADY, "--fail-on", "worse").returncode == 7
    assert npc(second, first, *STEADY, "--fail-on", "worse").returncode == 0
    assert npc(second, first, *STEADY, "--fail-on", "different").returncode == 7
    assert npc(second, first, "--fail-on", "worse").returncode == 0  # what differs cannot be worse
    undecided = npc(first, second, "--fail-on", "worse")
    assert undecided.returncode == 1
    assert "--fail-on worse cannot be answered: 8 series differ between two single runs" in undecided.stderr
    nothing = npc(first, second, "--case", "no_such_test")
    assert nothing.returncode == 1 and "no test is called no_such_test; there are osu/" in nothing.stderr
    for words, message in (
        ((first,), "name two sides to compare"),
        (
            (first, tmp_path / "nowhere"),
            "does not exist: npc characterise makes a run (nights: PLATFORM@DATE)",
        ),
        ((first, "fuchs@2026-11-20"), "there is no history"),
        ((first, second, "--reference", "third"), "there are first, second"),
        ((first, second, "--by", "colour"), "there are platform, night"),
    ):
        ended = npc(*words, cwd=tmp_path)
        assert ended.returncode == 2 and message in " ".join(ended.stderr.split()), ended.stderr
        assert "Traceback" not in ended.stderr


@pytest.mark.slow
def test_what_environments_differ_in(two: tuple[Path, Path], tmp_path: Path) -> None:
    """Another Open MPI, another qperf, and a variable that tunes MPI; the same machine otherwise."""
    environment = json.loads((EXAMPLE / "environment.json").read_text())
    for place, run in enumerate(two):
        shutil.copytree(run, tmp_path / run.name)
        tools = environment["tools"] | {"qperf": {"path": None, "version": f"0.4.{place}"}}
        mpi = {"launcher": f"Open MPI 4.1.{place}", "library": None}
        tuned = {"OMPI_MCA_btl": "tcp,self"} if place else {}
        variables = {"PATH": f"/bin{place}", "SLURM_JOB_ID": str(place), "UCX_TLS": "rc", **tuned}
        known = environment | {"tools": tools, "mpi": mpi, "command": f"npc {place}", "variables": variables}
        (tmp_path / run.name / "environment.json").write_text(json.dumps(known))
    printed = npc("first", "second", cwd=tmp_path).stdout
    table = [line.split() for line in printed[printed.index("environments differ in") :].splitlines()]
    assert table[1:4] == [
        ["MPI", "Open", "MPI", "4.1.0", "Open", "MPI", "4.1.1"],
        ["qperf", "0.4.0", "0.4.1"],
        ["OMPI_MCA_btl", "not", "set", "tcp,self"],
    ]
    document = json.loads(npc("first", "second", "--json", cwd=tmp_path).stdout)
    assert document["comparisons"][0]["environment"] == [
        {"what": "MPI", "a": ["Open MPI 4.1.0"], "b": ["Open MPI 4.1.1"]},
        {"what": "qperf", "a": ["0.4.0"], "b": ["0.4.1"]},
        {"what": "OMPI_MCA_btl", "a": ["not set"], "b": ["tcp,self"]},
    ]
    markdown = npc("first", "second", "--format", "markdown", cwd=tmp_path).stdout
    assert "\n| MPI | Open MPI 4.1.0 | Open MPI 4.1.1 |\n" in markdown
    texts = [
        block.text
        for block in build(Report(read_runs([tmp_path / "first", tmp_path / "second"]), tmp_path))
        if isinstance(block, Text)
    ]
    assert any(
        text.startswith("Their environments differ in MPI, qperf, OMPI_MCA_btl: see") for text in texts
    )
    # the records.csv of a run has the run's environment; parts of one run have one and the same
    rows = npc("first/records.csv", "second/records.csv", "--format", "markdown", cwd=tmp_path).stdout
    assert "| qperf | 0.4.0 | 0.4.1 |" in rows
    unknown = "no environment.json lies with"
    assert "environments differ" not in npc("first", "first", cwd=tmp_path).stdout
    assert unknown not in printed and unknown in npc(*two).stdout
    assert json.loads(npc(*two, "--json").stdout)["comparisons"][0]["environment"] is None


def test_markdown_without_rows_is_one_list(two: tuple[Path, Path], tmp_path: Path) -> None:
    shutil.copytree(two[0], tmp_path / "a")
    failed = replace(next(records("osu", "osu_bw", 1e9)), status="failed: it ended with 1")
    with (tmp_path / "a" / "records.csv").open("a") as stream:
        write_csv([failed], stream, header=False)
    printed = npc(tmp_path / "a", two[0], "--format", "markdown").stdout
    bullets = [part for part in printed.strip().split("\n\n") if "- " in part]
    assert len(bullets) == 1 and bullets[0].count("\n- ") >= 2
    assert "1 record of a is not ok and was not used" in printed


def test_nights_of_a_history_are_runs(tmp_path: Path) -> None:
    rng = random.Random(7)
    folder = tmp_path / "history" / "fuchs"
    folder.mkdir(parents=True)
    nights = [
        replace(record, time=f"2026-11-{night:02d}{record.time[10:]}")
        for night in range(1, 13)
        for record in simulated(
            rng, NOISES["normal"], run=f"{night:06d}", factors={"test3": 1.2} if night > 6 else {}
        )
    ]
    save_csv(nights, folder / "2026-11.csv")
    with (folder / "2026-11.csv").open("a") as stream:
        stream.write("2026-11-12T08:00:00+00:00,fuchs,osu,test3,lat")  # of a writer that was killed
    ended = npc("fuchs@2026-11-01..2026-11-06", "fuchs@2026-11-07..2026-11-12", cwd=tmp_path)
    assert "4 worse, 44 same" in ended.stdout, ended.stdout + ended.stderr
    assert "The medians of runs were compared" in ended.stdout
    assert len(read_side("fuchs@2026-11-03", tmp_path / "history").records) == 1
    assert len(read_side("fuchs@2026-11", tmp_path / "history").records) == 12
    with pytest.raises(NoSide, match="no night of that date"):
        read_side("fuchs@2026-12", tmp_path / "history")
    with (folder / "2026-11.csv").open("a") as stream:
        stream.write("\n")  # now it is a row, which cannot be true
    ended = npc("fuchs@2026-11-01..2026-11-06", "fuchs@2026-11-07..2026-11-12", cwd=tmp_path)
    assert "4 worse, 44 same" in ended.stdout
    assert "left out:" in ended.stderr and "2026-11.csv" in ended.stderr


def test_what_the_history_writes_is_read(tmp_path: Path) -> None:
    """A night, its re-measurement, and a night of the next month."""
    rng = random.Random(9)
    history = History(tmp_path / "history" / "fuchs")
    for time, name, again in (
        ("2026-11-30", "n1", False), ("2026-11-30", "n1", True), ("2026-12-01", "n2", False)
    ):  # fmt: skip
        made = [replace(record, time=time + record.time[10:]) for record in simulated(rng, NOISES["normal"])]
        history.append(of_night(made, name, remeasured=again))
    read = read_side("fuchs@2026-11-30..2026-12-01", tmp_path / "history")
    assert {run: len(records) for run, records in read.records.items()} == {"n1": 576, "n2": 288}
    comparison = compare_sides(read, read_side("fuchs@2026-12", tmp_path / "history"), Choice())
    assert {pair.verdict for pair in comparison.series} == {"same"}
    assert {pair.a.launches for pair in comparison.series if pair.a} == {18}


@pytest.mark.slow
def test_pictures_of_both_sides(two: tuple[Path, Path], tmp_path: Path) -> None:
    more = [*records("likwid", "peakflops_avx", 1e11, metric="flops"), *records("osu", "osu_bw", 1e9, size=8)]
    for size in (1024, 65536):
        more += records("osu", "osu_bw", 1e9 * size, size=size)
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        save_csv(more, tmp_path / name / "records.csv")
    ended = npc(tmp_path / "a", tmp_path / "b", "--plot", tmp_path / "pictures")
    assert ended.returncode == 0, ended.stderr
    names = [f"compare-{kind}.{suffix}" for kind in ("sizes", "rooflines") for suffix in ("png", "svg")]
    assert sorted(path.name for path in (tmp_path / "pictures").iterdir()) == sorted(names)
    drawn = (tmp_path / "pictures" / "compare-sizes.svg").read_text()
    assert "osu_bw · a" in drawn and "osu_bw · b" in drawn


def test_lines_of_a_picture_are_named_once() -> None:
    of_run = [
        record
        for mpi in ("mpich", "openmpi")
        for size in (8, 64)
        for record in records("osu", "osu_bw", 1e9, size=size, params={"mpi": mpi})
    ]
    split = split_side([Side("run", {"run": of_run})], "params.mpi")
    assert [sweep.name for sweep in sweeps_of(split)] == ["osu_bw · mpich", "osu_bw · openmpi"]
    assert [sweep.name for sweep in sweeps_of([side("B", of_run)])] == [
        "osu_bw · mpich · B",
        "osu_bw · openmpi · B",
    ]


def test_real_runs_of_one_machine_compare_as_the_same() -> None:
    """Runs of a busy virtual machine, six launches each, every two against each other."""
    sides = [read_side(str(path), CAPTURED) for path in sorted(CAPTURED.glob("run*.csv"))]
    shares = [called(compare_sides(a, b, Choice())) for a, b in combinations(sides, 2)]
    assert len(shares) >= 50
    assert sum(shares) / len(shares) <= 0.05


def test_runs_of_a_shared_machine_are_not_called_worse() -> None:
    """STREAM and qperf on a virtual machine on which others computed all the time, and nobody looked.

    Runs a quarter of an hour apart: alone, and by how the others differ.
    """
    runs = {path.name: read_run(path) for path in sorted((CAPTURED / "shared").iterdir())}
    names = list(runs)
    alone, known, bad = [], [], 0
    for one, other in zip(names, names[11:], strict=False):
        a, b = Side("A", {one: runs[one]}), Side("B", {other: runs[other]})
        rest = Side("here", {name: runs[name] for name in names if name not in (one, other)})
        alone += compare_sides(a, b, Choice()).series
        comparison = compare_sides(a, b, Choice(), {"here": rest})
        known += comparison.series
        bad += bool(comparison.of("better", "worse"))
    assert len(alone) == 8 * 11
    # by their launches, many differ
    assert {pair.verdict for pair in alone} == {"same", "different"}
    assert sum(pair.verdict == "different" for pair in alone) > len(alone) / 10
    assert {pair.run_to_run is None for pair in known} == {False}
    assert sum(pair.verdict != "same" for pair in known) <= 0.05 * len(known) and bad <= 1


def test_nights_of_an_older_schema_are_read(tmp_path: Path) -> None:
    """Without the columns unit, nodes, sample and status, which follow or have a meaning when missing."""
    folder = tmp_path / "history" / "fuchs"
    folder.mkdir(parents=True)
    (folder / "2026-11.csv").write_text(
        "time,platform,benchmark,case,metric,value,size,run\n"
        "2026-11-20T02:00:00.000+00:00,fuchs,osu,osu_bw,bandwidth,1e9,8,n1\n"
    )
    (record,) = read_side("fuchs@2026-11-20", tmp_path / "history").records["n1"]
    assert (record.value, record.unit, record.nodes, record.status) == (1e9, "B/s", 1, "ok")
