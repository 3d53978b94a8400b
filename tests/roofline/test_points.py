"""Applications under the ceilings: the paper's five points, and sentences worked out by hand."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace as replace_roofline
from typing import Any

import pytest

from npc.machine.platform import Platform
from npc.records.record import Record, replace
from npc.records.series import CACHED, RANK_CPUS, REMEASURED
from npc.records.units import METRICS
from npc.roofline.applications import Application, find_applications
from npc.roofline.ceilings import find_ceilings
from npc.roofline.points import bounds, own_link, verdict
from npc.roofline.result import Roofline
from npc.roofline.scene import compose
from tests.made.measured import level, peak, records
from tests.made.observed import launch

#: The companion repository of Bartelheimer, Zhu, Neuwirth 2023, FUCHS-CSC: program, nodes, MFLOP/s and FLOP
#: of all nodes, 4-byte words that one node's InfiniBand port received and sent; and the point that they make,
#: worked out by hand.
PAPER = [
    ("HimenoXL", 2, 43833.567657, 2630044846800, 155560702, 155559946, 1056.7, 21.917e9),
    ("HimenoXL", 4, 148353.345638, 6697124506800, 396221147, 396221147, 528.19, 37.088e9),
    ("HPCG", 2, 8215.53, 582831e9, 77766288, 77766599, 468.42e3, 4.1078e9),
    ("HPCG", 4, 16395.0, 1169780e9, 156832664, 156832621, 233.08e3, 4.0988e9),
    ("HPCG", 8, 32651.7, 2343670e9, 156886095, 156886445, 233.41e3, 4.0815e9),
]


@pytest.mark.parametrize(("name", "nodes", "mflops", "flop", "received", "sent", "x", "y"), PAPER)
def test_the_paper_s_points_come_out_of_its_counters(
    name: str, nodes: int, mflops: float, flop: float, received: int, sent: int, x: float, y: float
) -> None:
    (point,) = find_applications(launch(name, nodes, mflops * 1e6, flop, 4 * received, 4 * sent))
    assert point.intensity is not None
    assert float(f"{point.intensity.median:.4g}") == pytest.approx(float(f"{x:.4g}"), rel=1e-3)
    assert point.intensity.median == pytest.approx(flop / nodes / (4 * (received + sent)), rel=1e-12)
    assert point.flops.median == pytest.approx(y, rel=5e-5)


def machine(**network: Any) -> Roofline:
    """Peak 100 GFLOP/s, memory 50 GB/s, network 1 GB/s between two nodes."""
    return find_ceilings([
        *peak("peakflops_avx_fma", 100e9),
        *level("MEM", "load", 50e9),
        *records("qperf", "tcp_bw", 1e9, nodes=2),
    ])  # fmt: skip


def one(**more: float) -> Application:
    """10 s on two nodes, 20 GFLOP/s in all; each node receives 1 GB and sends 0.5 GB."""
    (found,) = find_applications(launch("app", 2, 20e9, 200e9, 1e9, 0.5e9, **more))
    return found


def test_the_point_counts_both_directions_and_the_bound_the_busier_one() -> None:
    application = one()
    assert application.intensity is not None
    assert application.intensity.median == pytest.approx(100e9 / 1.5e9)
    allowed = {bound.ceiling.name: bound.flops for bound in bounds(application, machine())}
    assert allowed == {"peak double": 100e9, "qperf tcp_bw": pytest.approx(100e9 / 1e9 * 1e9)}


def test_a_sentence_says_what_bounds_it_and_what_the_network_costs() -> None:
    words = verdict(one(), machine())
    assert words.startswith("app on 2 nodes: 10 GFLOP/s a node. The tightest ceiling known is")
    assert "reaches 10 % of that" in words
    assert "not more than 10 times as fast" in words
    assert "memory may bound it lower" in words
    # 1 GB at 1 GB/s is 1 s of 10 s: without it at least 1/0.9, and no more than the peak over the rate
    assert "at least 10 % of its time" in words
    assert "at least 1.111 times as fast" in words
    assert "at most 10 times, for there peak double is the limit" in words


def sizes(*counts: tuple[int, float], ranks: int = 2) -> Iterator[Record]:
    """What MPI counted of `launch`'s run: (least bytes of a class, messages of all ranks)."""
    (model,) = [r for r in launch("app", 2, 20e9, 200e9, 1.0, 0.0) if r.params.get("direction") == "sent"]
    params = {"layer": "mpi", "kind": "by size", "ranks": str(ranks), "program": "app"}
    for size, count in counts:
        yield replace(model, metric="messages", unit="1", value=count, size=size, params=params)


def sweep(*curve: tuple[int, float]) -> Roofline:
    """`machine` with a network test of a bandwidth at each size instead."""
    return find_ceilings([
        *peak("peakflops_avx_fma", 100e9),
        *(r for size, bandwidth in curve for r in records("osu", "osu_bw", bandwidth, nodes=2, size=size)),
    ])  # fmt: skip


def test_small_messages_are_judged_by_what_the_network_does_with_small_messages() -> None:
    """Network: 768 B at 50 MB/s, 3 MiB at 1 GB/s. Program: messages of 512 to 1023 B, 0.1 GB in 10 s."""
    network = sweep((768, 50e6), (3 * 2**20, 1e9))
    run = [*launch("app", 2, 20e9, 200e9, 0.1e9, 0.1e9)]
    (large,) = find_applications(run)
    (small,) = find_applications([*run, *sizes((512, 1000.0))])
    assert bounds(large, network)[-1].flops == pytest.approx(100e9 / 0.1e9 * 1e9)
    assert bounds(small, network)[0].flops == pytest.approx(100e9 / 0.1e9 * 50e6)
    words = verdict(small, network)
    # 0.1 GB take 2 s at 50 MB/s, of 10 s, and 0.1 s at 1 GB/s
    assert "osu_bw at its own message sizes, which allows 50 GFLOP/s; it reaches 20 % of that" in words
    assert "At the 50 MB/s of osu_bw with its own message sizes (768 B on average)" in words
    assert "at least 20 % of its time" in words
    assert "at least 1.25 times as fast" in words
    assert (
        f"Large messages alone, at the 1 GB/s that they reach, would make it at least {1 / 0.81:.4g}" in words
    )


def test_ranks_that_send_at_once_share_what_the_link_does_at_best() -> None:
    network = sweep((768, 50e6), (3 * 2**20, 1e9))
    run = [*launch("app", 2, 20e9, 200e9, 0.1e9, 0.1e9)]
    for ranks, bandwidth in ((8, 4 * 50e6), (2000, 1e9)):
        (found,) = find_applications([*run, *sizes((512, 1000.0), ranks=ranks)])
        link = own_link(found, network)
        assert link is not None
        assert link.bandwidth == pytest.approx(bandwidth)


def test_a_mix_of_sizes_takes_the_sum_of_its_messages_times() -> None:
    network = sweep((768, 50e6), (768 * 1024, 1e9))
    (found,) = find_applications(
        [*launch("app", 2, 20e9, 200e9, 0.1e9, 0.1e9), *sizes((0, 99.0), (512, 1024.0), (512 * 1024, 1.0))]
    )
    link = own_link(found, network)
    assert link is not None
    # as many bytes in small messages as in the large one: the harmonic mean
    assert link.bandwidth == pytest.approx(2 / (1 / 50e6 + 1 / 1e9))
    assert link.own_sizes


def test_a_rate_over_the_whole_run_makes_no_flop() -> None:
    """3 s of start, 0.5 s of computing: the rate times the time that npc observe saw is no count of FLOP."""

    def observed(metric: str, value: float) -> Record:
        (model,) = [r for r in launch("app", 2, 2e9, 1e9, 1.0, 0.0) if r.params.get("direction") == "sent"]
        return replace(
            model, metric=metric, unit=METRICS[metric].unit, value=value, params={"program": "app"}
        )

    traffic = [r for r in launch("app", 2, 2e9, 1e9, 80e6, 81e6) if r.metric == "traffic"]
    rate = [observed("flops", 2e9), observed("time", 3.5), *traffic]
    (application,) = find_applications(rate)
    assert application.intensity is None
    assert application.runs[0].flop is None
    words = verdict(application, machine())
    assert "not for how long it computed" in words
    assert "--flop" in words
    assert "at least" not in words
    (alone,) = find_applications(replace(record, nodes=1) for record in rate)
    assert "Note:" not in verdict(alone, machine()), "on one node it needs no place on the network's axis"
    (told,) = find_applications([*rate, observed("flop", 1e9)])
    assert told.intensity is not None
    assert told.intensity.median == pytest.approx(0.5e9 / 161e6)


def test_hpl_bounds_nobody_and_dgemm_only_where_no_peak_is_known() -> None:
    def hpcc(case: str, value: float, **params: str) -> Iterator[Record]:
        return records("hpcc", case, value, metric="flops", params=params)

    library = [*hpcc("StarDGEMM", 40e9, statistic="sum"), *hpcc("HPL", 20e9)]
    application = one()
    with_peak = find_ceilings([*peak("peakflops_avx_fma", 100e9), *library])
    assert [bound.ceiling.name for bound in bounds(application, with_peak)] == ["peak double"]
    words = verdict(application, find_ceilings(library))
    assert "DGEMM, which allows 40 GFLOP/s" in words
    assert "a library's rate is no hard limit" in words
    assert "not more than" not in words


def test_faster_than_memory_allows_means_caches() -> None:
    words = verdict(one(bandwidth=200e9), machine())  # 100 GB/s a node of 50
    assert (
        "That is 2 times what MEM load allows (5 GFLOP/s): part of its data came out of the caches." in words
    )
    assert "The tightest ceiling known is peak double" in words


def test_a_program_that_counts_its_memory_traffic_is_bounded_by_memory() -> None:
    words = verdict(one(bandwidth=80e9), machine())  # 40 GB/s a node of 50
    assert "The tightest ceiling known is MEM load, which allows 12.5 GFLOP/s; it reaches 80 %" in words
    assert "1.25 times as fast" in words
    assert "memory may bound it lower" not in words


def test_without_counted_bytes_it_says_how_to_count_them() -> None:
    observed = [record for record in launch("app", 2, 20e9, 200e9) if record.metric != "traffic"]
    (application,) = find_applications(observed)
    assert application.intensity is None
    assert "run it by npc observe" in verdict(application, machine())


def test_a_program_on_one_node_has_no_network_part() -> None:
    (application,) = find_applications(launch("app", 1, 20e9, 200e9))
    words = verdict(application, machine())
    assert "network" not in words
    assert [bound.ceiling.name for bound in bounds(application, machine())] == ["peak double"]


def test_bytes_beyond_what_the_link_can_carry_are_said_to_be_wrong() -> None:
    (application,) = find_applications(launch("app", 2, 20e9, 200e9, 30e9, 1e9))
    assert "would take 3 times its run time" in verdict(application, machine())


def test_flop_follow_from_rate_and_time_where_they_are_not_said() -> None:
    found = [record for record in launch("app", 2, 20e9, 1.0, 1e9, 1e9, time=10.0) if record.metric != "flop"]
    (application,) = find_applications(found)
    assert application.runs[0].flop == 100e9


def test_a_point_tells_the_time_inside_mpi_where_it_was_counted() -> None:
    """Of runs of 10 s the ranks were inside MPI for 2, 3 and 4 s: three tenths."""
    found: list[Record] = []
    for sample, seconds in enumerate((2.0, 3.0, 4.0)):
        made = list(launch("app", 2, 1e9, 1e10, 1e6, 1e6, sample=sample))
        seen = replace(made[-1], metric="time", unit="s", value=10.0, params={"program": "app"})
        inside = {"program": "app", "layer": "mpi", "part": "inside MPI", "ranks": "4"}
        found += [*made, seen, replace(seen, value=seconds, params=inside)]
    (point,) = find_applications(found)
    assert point.inside == pytest.approx(0.3)
    words = verdict(point, Roofline(platform="fuchs"))
    assert "Its ranks are inside MPI for 30 % of the run, waiting included." in words
    (silent,) = find_applications(launch("app", 2, 1e9, 1e10))
    assert silent.inside is None and "inside MPI" not in verdict(silent, Roofline(platform="fuchs"))


def test_of_several_tests_in_one_run_hpl_is_the_point_and_the_note_says_so() -> None:
    several = [*launch("HPL", 2, 20e9, 200e9, 1e9, 1e9)]
    other = next(record for record in launch("HPL", 2, 99e9, 200e9) if record.metric == "flops")
    (application,) = find_applications([replace(other, case="StarDGEMM"), *several])
    assert application.runs[0].flops == 10e9
    assert application.intensity is None
    assert [bound.ceiling.kind for bound in bounds(application, machine())] == ["compute"]
    words = verdict(application, machine())
    assert "those of HPL alone" in words
    assert "at least" not in words


def test_the_parts_that_hpcg_names_belong_to_its_run() -> None:
    whole = [*launch("HPCG", 2, 20e9, 200e9, 1e9, 1e9)]
    part = next(replace(record, case="HPCG_MG") for record in whole if record.metric == "flops")
    (application,) = find_applications([part, *whole])
    assert (application.runs[0].flops, application.note) == (10e9, "")
    assert application.intensity is not None


def test_the_systems_that_one_run_of_hpl_solves_are_one_point() -> None:
    """20 GFLOP at 2 GFLOP/s and 10 GFLOP at 10: 30 GFLOP in 11 s, as its bytes are of both."""
    first = [*launch("HPL", 2, 2e9, 20e9, 1e9, 1e9, time=10.0)]
    second = [r for r in launch("HPL", 2, 10e9, 10e9, time=1.0) if r.metric != "traffic"]
    (application,) = find_applications([*first, *second])
    assert application.runs[0].flop == 15e9
    assert application.flops.median == pytest.approx(30e9 / 11 / 2)
    assert application.intensity is not None
    assert application.intensity.median == pytest.approx(15e9 / 2e9)


def test_a_kernel_alone_is_a_ceiling_and_no_application() -> None:
    assert find_applications(peak("peakflops_avx", 100e9)) == []


def test_repeats_are_one_application_and_nights_are_its_trail() -> None:
    runs = [
        record
        for night in range(3)
        for sample in range(2)
        for record in launch(
            "app", 2, (20 + night) * 1e9, 200e9, 1e9, 1e9, sample=sample, day=f"2026-11-2{night}"
        )
    ]
    (application,) = find_applications(runs)
    assert len(application.runs) == 6
    assert application.flops == (3, 10.5e9, None, None, None), "the nights are the samples, not the launches"
    again = [
        replace(record, params={**record.params, REMEASURED: "1"}, raw=record.raw.replace("1_app", "again"))
        for record in launch("app", 2, 99e9, 200e9, 1e9, 1e9, day="2026-11-21")
    ]
    assert find_applications([*runs, *again]) == [application]
    assert application.deviation == pytest.approx(0.5e9)
    assert [(night.time[:10], night.flops) for night in application.nights] == [
        ("2026-11-20", 10e9),
        ("2026-11-21", 10.5e9),
        ("2026-11-22", 11e9),
    ]


def test_what_was_run_is_the_application_and_its_hosts_are_a_circumstance() -> None:
    """Two nights on other hosts and CPUs, with 8 and with 20 ranks of two problems, and otherwise bound."""
    runs = [
        record
        for night in range(2)
        for number, (ranks, cells, bound) in enumerate(
            [("8", "L", "core"), ("20", "L", "core"), ("20", "XL", "core"), ("20", "XL", "none")]
        )
        for record in launch(
            "Himeno", 2, 20e9, 200e9, hosts=(f"n{night}", f"n{night + 7}"), day=f"2026-11-2{night}",
            sample=number,
            params={"processes": ranks, "cells": cells, "binding": bound, RANK_CPUS: f"{night} 1"},
        )
    ]  # fmt: skip
    found = find_applications(runs)
    assert [(each.label, each.ranks, len(each.nights)) for each in found] == [
        ("Himeno (ranks 8, binding core, cells L)", 8, 2),
        ("Himeno (ranks 20, binding core, cells L)", 20, 2),
        ("Himeno (ranks 20, binding core, cells XL)", 20, 2),
        ("Himeno (ranks 20, binding none, cells XL)", 20, 2),
    ]
    assert {each.hosts for each in found} == {("n0", "n1", "n7", "n8")}
    (alone,) = find_applications(record for record in runs if record.params.get("processes") == "8")
    assert alone.label == "Himeno"


def test_the_theoretical_peak_is_a_bound_beside_the_measured_one() -> None:
    """FUCHS: 400 GFLOP/s a node by its data sheet, 418 measured; HPCG reaches 1.013 % of the former."""
    fuchs = Platform(name="fuchs", cores=20, clock_hz=2.5e9, simd_bits=256, simd_units=2, fma=False)
    (hpcg,) = find_applications(launch("HPCG", 2, 2 * 4.052e9, 582831e9, 1e9, 1e9))
    found = bounds(hpcg, find_ceilings([*peak("peakflops_avx", 418.06e9)], fuchs))
    assert [(bound.ceiling.name, bound.flops) for bound in found] == [
        ("peak double", 418.06e9),
        ("theoretical peak double", 400e9),
    ]
    assert found[1].share == pytest.approx(0.01013)
    alone = find_ceilings([*level("MEM", "load", 50e9)], fuchs)
    words = verdict(hpcg, alone)
    assert "1.01 % of the theoretical peak. The tightest ceiling known is theoretical peak double" in words
    assert "not more than 98.7 times as fast, as far as the cores hold the clock" in words


def test_arrays_that_caches_hold_are_not_judged_against_main_memory() -> None:
    run = [*launch("Himeno", 1, 20e9, 200e9, bandwidth=80e9)]
    small = [replace(record, params={**record.params, CACHED: "33000000"}) for record in run]
    (large,), (held,) = find_applications(run), find_applications(small)
    assert [bound.ceiling.kind for bound in bounds(large, machine())] == ["memory", "compute"]
    assert [bound.ceiling.kind for bound in bounds(held, machine())] == ["compute"]
    with_caches = find_ceilings(
        [*peak("peakflops_avx_fma", 200e9), *level("L1", "load", 600e9), *level("L2", "load", 300e9)]
    )
    tightest = bounds(held, with_caches)[0]
    assert (tightest.ceiling.name, tightest.flops) == ("L1 load", 150e9)
    words = verdict(held, with_caches)
    assert "less than 12 times the last-level caches (33 MB): it is not compared with main memory" in words
    assert "It can become not more than 7.5 times as fast" in words
    scene = compose(replace_roofline(machine(), applications=(held,)))
    assert scene is not None
    (mark,) = scene.marks
    assert (mark.x, mark.y, mark.of) == (0.25, 20e9, "memory"), "its bytes are those that the cores load"


def test_a_run_that_sent_nothing_has_no_place_on_the_network_s_axis() -> None:
    (application,) = find_applications(launch("app", 2, 20e9, 200e9))
    assert application.runs[0].intensity == math.inf
    assert application.intensity is None


def test_failed_runs_make_no_point() -> None:
    failed = [replace(record, status="failed: x") for record in launch("app", 2, 20e9, 200e9, 1e9, 1e9)]
    assert find_applications(failed) == []
