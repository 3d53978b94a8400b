"""Ceilings and ridge points from records made by hand, with the values worked out by hand."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from npc.machine.platform import GpuLimits, Interface, Platform, read_platform
from npc.records.record import Record, replace
from npc.roofline.ceilings import find_ceilings
from npc.roofline.model import attainable
from npc.roofline.result import Ceiling, Roofline
from npc.roofline.scene import compose
from npc.roofline.table import notes
from tests.made.measured import level, peak, records
from tests.paths import ROOT


def named(roofline: Roofline) -> dict[str, Ceiling]:
    return {ceiling.name: ceiling for ceiling in roofline.ceilings}


def test_a_ceiling_is_the_median_with_its_interval_and_its_sources() -> None:
    found = find_ceilings([*peak("peakflops_avx_fma", 100e9, size=40_000)])
    (ceiling,) = found.ceilings
    assert (ceiling.kind, ceiling.name, ceiling.precision) == ("compute", "peak double", "double")
    assert ceiling.value == 100e9
    assert (ceiling.low, ceiling.high) == (90e9, pytest.approx(110e9))
    assert ceiling.coverage == 1 - 2 / 2**6  # as if somebody had looked after six already
    assert (ceiling.n, ceiling.size, ceiling.unit) == (7, 40_000, "FLOP/s")
    assert ceiling.raw == tuple(f"raw/likwid-peakflops_avx_fma-{sample}.out" for sample in range(7))
    assert found.hosts == ("node1",)
    assert (found.first[:10], found.last[:10]) == ("2026-11-20", "2026-11-26")


def test_precision_follows_the_parameter_or_the_kernels_name() -> None:
    found = find_ceilings(
        [
            *peak("peakflops_sp_avx512_fma", 200e9),
            *peak("peakflops_avx512_fma", 100e9, params={"precision": "double"}),
        ]
    )
    assert [(c.name, c.value) for c in found.ceilings] == [("peak double", 100e9), ("peak single", 200e9)]


def test_the_best_simd_variant_is_the_ceiling() -> None:
    found = find_ceilings(
        [*peak("peakflops", 10e9), *peak("peakflops_avx", 60e9), *peak("peakflops_sse", 30e9)]
    )
    assert [ceiling.case for ceiling in found.ceilings] == ["peakflops_avx"]


def test_a_ceiling_is_taken_at_the_size_with_the_best_median_and_not_at_the_best_sample() -> None:
    found = find_ceilings(
        [
            *records("qperf", "tcp_bw", 2e9, size=1024),
            *records("qperf", "tcp_bw", 3e9, size=4096),
            # The single best value of all is here, but its median is low.
            *records("qperf", "tcp_bw", 1e9, size=65536, spread=(1, 1, 1, 1, 1, 1, 9)),
        ]
    )
    (ceiling,) = found.ceilings
    assert (ceiling.value, ceiling.size) == (3e9, 4096)


def test_a_size_with_fewer_than_six_samples_does_not_win_over_repeated_ones() -> None:
    found = find_ceilings(
        [
            *records("qperf", "tcp_bw", 3e9, size=4096),
            *records("qperf", "tcp_bw", 9e9, size=65536, spread=(1.0,)),
        ]
    )
    assert found.ceilings[0].value == 3e9


def test_below_six_samples_there_is_no_interval() -> None:
    found = find_ceilings([*records("osu", "osu_bw", 5e9, spread=(1.0, 1.1, 0.9, 1.0, 1.0))])
    (ceiling,) = found.ceilings
    assert ceiling.value == 5e9
    assert (ceiling.low, ceiling.high, ceiling.coverage) == (None, None, None)


@pytest.mark.parametrize("status", ["failed: no server", "invalid: nothing was received", "timeout: 9 s"])
def test_records_that_are_not_ok_are_counted_and_never_used(status: str) -> None:
    good = list(records("qperf", "tcp_bw", 1e9, size=64))
    bad = list(records("qperf", "tcp_bw", 99e9, size=64, status=status))
    worse = list(peak("peakflops_avx", 99e9, status=status))
    found = find_ceilings(good + bad + worse)
    (ceiling,) = found.ceilings
    assert (ceiling.value, ceiling.n) == (1e9, 7)
    assert found.dropped == {status.split(":")[0]: 14}
    assert not find_ceilings(bad).ceilings


def test_a_zero_is_no_ceiling() -> None:
    found = find_ceilings([*records("qperf", "tcp_bw", 0.0)])
    assert not found.ceilings
    assert found.dropped == {"zero": 7}
    assert "Records not used: 7 below the tool's resolution (printed as 0)." in notes(found)


@pytest.mark.parametrize(
    "params",
    [
        {"statistic": "max"},
        {"direction": "bidir_forward"},
        {"direction": "bidir_reverse"},
        {"bitrate": "1048576"},
        {"mps": "1000"},
    ],
)
def test_extremes_both_directions_and_throttled_senders_are_no_ceiling(params: dict[str, str]) -> None:
    assert not find_ceilings([*records("iperf3", "tcp", 9e9, params=params)]).ceilings
    assert find_ceilings([*records("iperf3", "tcp", 9e9)]).ceilings


def test_a_test_that_counts_both_directions_is_no_ceiling() -> None:
    assert not find_ceilings([*records("osu", "osu_bibw", 9e9)]).ceilings


def test_what_arrived_counts_and_not_what_was_sent() -> None:
    found = find_ceilings(
        [
            *records("qperf", "udp_bw", 9e9, params={"side": "send"}),
            *records("qperf", "udp_bw", 2e9),
            *records("sockperf", "udp_throughput", 1e9, params={"side": "send"}),
        ]
    )
    ceilings = named(found)
    assert ceilings["qperf udp_bw"].value == 2e9
    assert ceilings["qperf udp_bw"].note == ""
    assert ceilings["sockperf udp_throughput"].note == "counts what was sent, not what arrived"


def test_loads_are_a_levels_ceiling_and_the_other_kernels_are_kept_beside() -> None:
    found = find_ceilings(
        [
            *level("MEM", "load_avx", 30e9),
            *level("L1", "load_avx", 300e9),
            *level("L1", "triad_avx_fma", 250e9),
            *level("L1", "copy_avx", 500e9),
            *level("L2", "copy_avx", 90e9),
            *records("stream", "triad", 25e9),
            *records("stream", "copy", 26e9),
            *records("likwid", "peakflops_avx", 10e9, params={"level": "L1"}),
        ]
    )
    ceilings = named(found)
    assert list(ceilings) == ["L1 load", "L2 copy", "MEM load", "STREAM triad"]
    assert ceilings["L1 load"].value == 300e9
    assert ceilings["L1 load"].note == "loads alone are not the limit here: copy_avx reached 500 GB/s"
    assert ceilings["L2 copy"].note == "no load kernel was measured"
    assert ceilings["MEM load"].note == ""
    assert [kernel.name for kernel in found.kernels] == ["L1 copy", "L1 triad", "STREAM copy"]


def test_a_bandwidth_of_an_unknown_level_is_no_ceiling() -> None:
    assert not find_ceilings([*records("likwid", "load_avx", 30e9)]).ceilings
    assert not find_ceilings([*level("L2?", "load_avx", 30e9)]).ceilings


def test_a_parameter_that_repeats_the_size_does_not_split_a_curve() -> None:
    sweep = [
        record
        for size in (1024, 4096)
        for record in records(
            "qperf", "tcp_bw", size * 1e6, size=size, params={"msg_size": str(size // 1024) + "K"}
        )
    ]
    (curve,) = find_ceilings(sweep).curves
    assert [(point.size, point.summary.median) for point in curve.points] == [
        (1024, 1024e6),
        (4096, 4096e6),
    ]
    assert curve.params == {}


def test_placements_are_curves_of_their_own_under_one_ceiling() -> None:
    found = find_ceilings(
        [
            *records("qperf", "tcp_bw", 2.9e9, params={"client_cpus": "0"}),
            *records("qperf", "tcp_bw", 1.7e9, params={"client_cpus": "1"}),
        ]
    )
    assert [ceiling.value for ceiling in found.ceilings] == [2.9e9]
    assert found.ceilings[0].params == {"client_cpus": "0"}
    assert len(found.curves) == 2


def test_one_node_and_two_are_two_ceilings() -> None:
    found = find_ceilings([*records("osu", "osu_bw", 9e9), *records("osu", "osu_bw", 6e9, nodes=2)])
    assert {name: ceiling.nodes for name, ceiling in named(found).items()} == {
        "osu_bw, 1 node": 1,
        "osu_bw, 2 nodes": 2,
    }


def test_latencies_are_taken_at_the_smallest_size() -> None:
    found = find_ceilings(
        [
            *records("osu", "osu_latency", 2e-6, metric="latency", size=8),
            *records("osu", "osu_latency", 1e-6, metric="latency", size=1),
            *records("sockperf", "tcp_ping_pong", 9e-6, metric="latency", size=14),
            *records(
                "sockperf", "tcp_ping_pong", 99e-6, metric="latency", size=14, params={"statistic": "p99"}
            ),
            *records("sockperf", "udp_under_load", 5e-6, metric="latency", size=14),
        ]
    )
    assert [(each.name, each.value, each.size) for each in found.latencies] == [
        ("osu_latency", 1e-6, 1),
        ("sockperf tcp_ping_pong", 9e-6, 14),
    ]
    assert not found.ceilings


def test_a_latency_within_a_node_and_one_between_nodes_have_names_of_their_own() -> None:
    measured = [
        record
        for nodes, seconds in ((1, 7e-6), (2, 30e-6))
        for record in records("qperf", "tcp_lat", seconds, metric="latency", nodes=nodes)
    ]
    assert [(each.name, each.value) for each in find_ceilings(measured).latencies] == [
        ("qperf tcp_lat, 1 node", 7e-6),
        ("qperf tcp_lat, 2 nodes", 30e-6),
    ]


def test_ridge_points_are_peak_over_bandwidth_with_combined_intervals() -> None:
    found = find_ceilings([*peak("peakflops_avx", 100e9), *level("MEM", "load_avx", 25e9)])
    (ridge,) = found.ridges
    assert (ridge.compute, ridge.bandwidth) == ("peak double", "MEM load")
    assert ridge.intensity == 4.0
    assert ridge.performance == 100e9
    assert ridge.low == pytest.approx(90 / 27.5)
    assert ridge.high == pytest.approx(110 / 22.5)
    assert ridge.coverage == pytest.approx(1 - 4 / 2**6)


def test_a_ridge_point_without_both_intervals_has_none() -> None:
    found = find_ceilings([*peak("peakflops_avx", 100e9, spread=(1.0,)), *level("L1", "load", 50e9)])
    (ridge,) = found.ridges
    assert (ridge.intensity, ridge.low, ridge.coverage) == (2.0, None, None)


def gpu_records() -> list[Record]:
    """Two GPUs: the second a tenth slower."""
    made = []
    for gpu, factor in (("0", 1.0), ("1", 0.9)):
        params = {"gpu": gpu}
        for case, value, size, more in (
            ("load", 3.1e12, 2**30, {"level": "MEM"}),
            ("load", 10e12, 2**23, {"level": "L2"}),
            ("triad", 3e12, 2**30, {"level": "MEM"}),
            ("copy", 3e12, 2**30, {"level": "MEM"}),
            ("to_gpu", 55e9, 2**28, {"host_memory": "pinned"}),
            ("to_gpu", 60e9, 2**28, {"host_memory": "pageable"}),
        ):
            made += records("gpu", case, value * factor, size=size, params=params | more)
        product = params | {"precision": "double", "n": "4096"}
        made += records("gpu", "gemm", 60e12 * factor, metric="flops", size=3 * 2**27, params=product)
    return made


def test_gpus_have_a_roof_of_their_own() -> None:
    alone = find_ceilings([*peak("peakflops_avx", 1e11), *level("MEM", "load_avx", 3e10)])
    both = find_ceilings([*peak("peakflops_avx", 1e11), *level("MEM", "load_avx", 3e10), *gpu_records()])
    gpu = [ceiling for ceiling in both.ceilings if ceiling not in alone.ceilings]
    assert [(ceiling.name, ceiling.value) for ceiling in gpu] == [
        ("GPU double", 60e12), ("GPU L2 load", 10e12), ("GPU MEM load", 3.1e12), ("GPU MEM triad", 3e12),
        ("host to GPU", 55e9),
    ]  # fmt: skip
    assert gpu[0].note == "the best of 2 GPUs; the slowest, 1 of node1, has 54 TFLOP/s"
    met = {(ridge.compute, ridge.bandwidth) for ridge in both.ridges} - {
        (ridge.compute, ridge.bandwidth) for ridge in alone.ridges
    }
    assert met == {("GPU double", ceiling.name) for ceiling in gpu[1:]}
    scene = compose(both)
    assert scene is not None
    roofs = {line.ceiling.name: line.roof for line in scene.lines}
    assert roofs["MEM load"] == 1e11 and roofs["GPU MEM load"] == 60e12


def test_a_gpus_share_is_of_its_data_sheet() -> None:
    platform = Platform(
        name="x", gpu=GpuLimits(memory_bandwidth=3.35e12, link_bandwidth=63e9, double_flops=67e12)
    )
    found = named(find_ceilings(gpu_records(), platform))
    shares = {
        name: found[name].share for name in ("GPU double", "GPU MEM load", "GPU L2 load", "host to GPU")
    }
    assert shares == {
        "GPU double": 60 / 67, "GPU MEM load": 3.1 / 3.35, "GPU L2 load": None, "host to GPU": 55 / 63
    }  # fmt: skip


def test_the_published_roofline_of_fuchs_and_its_impossible_network_ceiling() -> None:
    """Peaks and network as printed there: 6939.56 MB/s are 6618.08 MiB/s, above FDR's 6818 MB/s."""
    fuchs = read_platform(ROOT / "platforms/fuchs-csc/platform.toml")
    found = find_ceilings(
        [
            *peak("peakflops_avx", 418059.51e6),
            *peak("peakflops_sp_avx", 836260.77e6),
            *records("qperf", "rc_bw", 6939.56e6, size=4 * 2**20, nodes=2),
        ],
        fuchs,
    )
    ceilings = named(found)
    assert found.theoretical == {"double": 400e9, "single": 800e9}
    assert ceilings["peak double"].share == pytest.approx(1.04515, rel=1e-5)
    assert "clocked higher" in ceilings["peak double"].note
    assert ceilings["qperf rc_bw"].share == pytest.approx(1.0178, rel=1e-4)
    assert "cannot be" in ceilings["qperf rc_bw"].note
    assert [ridge.intensity for ridge in found.ridges] == [
        pytest.approx(60.243, rel=1e-4),
        pytest.approx(120.506, rel=1e-4),
    ]
    # HPCG on two nodes, per node: 468 FLOP/byte, right of the ridge point: the network does not bound it.
    hpcg = 582831000000.0 / 2 / (4 * (77766288 + 77766599))
    assert attainable(418059.51e6, [(hpcg, 6939.56e6)]) == pytest.approx(418059.51e6)


def test_a_link_is_only_compared_where_it_was_used() -> None:
    platform = Platform(name="fuchs", interfaces={"eth0": Interface("eth0", "10 GbE", 1.25e9)})
    within = find_ceilings([*records("osu", "osu_bw", 9e9)], platform)
    between = find_ceilings([*records("osu", "osu_bw", 1e9, nodes=2)], platform)
    assert within.ceilings[0].share is None
    assert between.ceilings[0].share == 0.8


def test_with_several_interfaces_the_record_says_which_was_used() -> None:
    platform = Platform(
        name="fuchs",
        interfaces={"eth0": Interface("eth0", "10 GbE", 1.25e9), "ib0": Interface("ib0", "4x EDR", 12.5e9)},
    )
    found = find_ceilings(
        [
            *records("qperf", "tcp_bw", 1e9, nodes=2, params={"interface": "eth0"}),
            *records("qperf", "tcp_bw", 5e9, nodes=2, params={"interface": "ib0"}),
            *records("osu", "osu_bw", 9e9, nodes=2),
        ],
        platform,
    )
    assert {name: ceiling.share for name, ceiling in named(found).items()} == {
        "osu_bw": None,
        "qperf tcp_bw, 2 nodes, ib0": 0.4,
        "qperf tcp_bw, 2 nodes, eth0": 0.8,
    }


positive = st.floats(min_value=1e-3, max_value=1e15)
paths = st.lists(st.tuples(positive, positive), max_size=4)


@given(positive, paths, st.floats(min_value=1, max_value=1e3))
def test_attainable_performance_never_falls_when_a_limit_rises(
    top: float, ways: list[tuple[float, float]], factor: float
) -> None:
    before = attainable(top, ways)
    assert before <= top
    assert all(before <= intensity * bandwidth for intensity, bandwidth in ways)
    assert attainable(top * factor, ways) >= before
    for place, (intensity, bandwidth) in enumerate(ways):
        others = ways[:place] + ways[place + 1 :]
        assert attainable(top, [*others, (intensity, bandwidth * factor)]) >= before
        assert attainable(top, [*others, (intensity * factor, bandwidth)]) >= before
        assert attainable(top, others) >= before


@given(positive, positive)
def test_left_of_the_ridge_point_the_bandwidth_limits_and_right_of_it_the_peak(
    top: float, bandwidth: float
) -> None:
    ridge = top / bandwidth
    assert attainable(top, [(ridge / 2, bandwidth)]) == pytest.approx(top / 2)
    assert attainable(top, [(ridge * 2, bandwidth)]) == top


def test_a_kernel_that_sends_nothing_is_not_limited_by_the_network() -> None:
    assert attainable(100e9, [(2.0, 25e9), (math.inf, 1e9)]) == 50e9


def test_dgemm_of_several_nodes_is_a_ceiling_of_one_and_their_hpl_is_none() -> None:
    measured = [
        *records("hpcc", "StarDGEMM", 80e9, metric="flops", nodes=2, params={"statistic": "sum"}),
        *records("hpcc", "HPL", 60e9, metric="flops", nodes=2),
    ]
    (ceiling,) = find_ceilings(measured).of_kind("compute")
    assert (ceiling.name, ceiling.value, ceiling.nodes) == ("DGEMM", 40e9, 2)
    assert (ceiling.low, ceiling.high) == (pytest.approx(36e9), pytest.approx(44e9))
    assert "the mean of 2 nodes" in ceiling.note


def test_dgemm_and_hpl_of_one_node_are_ceilings_below_the_peak() -> None:
    """DGEMM is the sum over the processes; of more nodes neither is a ceiling of one."""
    total = {"statistic": "sum", "processes": "2"}
    measured = [
        *peak("peakflops_avx_fma", 100e9),
        *records("hpcc", "StarDGEMM", 45e9, metric="flops", params={"processes": "2"}),
        *records("hpcc", "StarDGEMM", 90e9, metric="flops", params=total),
        *records("hpcc", "HPL", 70e9, metric="flops", size=8 * 7000**2, params={"n": "7000"}),
        *records("hpcc", "HPL", 130e9, metric="flops", nodes=2, params={"n": "10000"}),
        *records("hpcc", "MPIFFT", 5e9, metric="flops"),
    ]
    compute = [ceiling for ceiling in find_ceilings(measured).ceilings if ceiling.kind == "compute"]
    assert [(ceiling.name, ceiling.value) for ceiling in compute] == [
        ("peak double", 100e9),
        ("DGEMM", 90e9),
        ("HPL", 70e9),
    ]
    for ceiling in compute:
        assert ceiling.n == 7 and ceiling.low is not None and ceiling.precision == "double" and ceiling.raw


def test_what_was_seen_makes_no_ceiling_of_its_own() -> None:
    """Each launch has a share of its own that arrived; together they are the samples of one ceiling."""
    seen = [
        replace(record, params={"received": f"0.99{record.sample}"})
        for record in records("sockperf", "udp_throughput", 1e9)
    ]
    (ceiling,) = find_ceilings(seen).ceilings
    assert ceiling.n == len(seen) > 1
