"""The paper's fifteen days, simulated: its tables 4 and 5 and figures 5 to 9 come out with its numbers, and
what does not hold of them is said."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from statistics import stdev

import pytest

from npc.cron.figures import pictures
from npc.cron.variation import variations
from npc.figures.allocation import Allocation, allocations, maps
from npc.figures.nights import course_names
from npc.machine.fabric import parse
from npc.machine.platform import read_platform
from npc.records.history import History, HistoryRow
from npc.records.record import Record
from npc.roofline.analyse import analyse
from npc.roofline.ceilings import find_ceilings
from npc.roofline.peak_share import peak_shares, peak_table
from npc.roofline.points import verdict
from npc.roofline.scene import compose
from tests.made.measured import peak
from tests.made.paper import MEASUREMENTS, NODES, TABLE_5, USED, nights

FUCHS = read_platform(Path(__file__).parents[2] / "platforms/fuchs-csc/platform.toml")


@pytest.fixture(scope="module")
def measured() -> list[Record]:
    return list(nights())


@pytest.fixture(scope="module")
def points(measured: list[Record], tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[HistoryRow]]:
    history = History(tmp_path_factory.mktemp("history") / "fuchs-csc")
    history.append(measured)
    yield list(history.points())
    history.close()


def test_tables_4_and_5_are_the_shares_of_the_theoretical_peak(measured: list[Record]) -> None:
    shares = peak_shares(analyse(measured, FUCHS).applications, FUCHS)
    told = {(each.application.name, each.application.nodes): each for each in shares}
    assert len(shares) == len(TABLE_5), "other hosts every night make no other application"
    for row in TABLE_5:
        found = told[row.program, row.nodes]
        assert found.peak == row.nodes * row.peak
        assert f"{100 * found.share:.3f}" == f"{row.percent:.3f}"
        assert found.application.ranks == row.ranks
        assert len(found.application.nights) == MEASUREMENTS
        flops = [night.flops for night in found.application.nights]
        assert found.deviation == pytest.approx(stdev(flops) / (sum(flops) / MEASUREMENTS))
        low, high = found.median.low, found.median.high
        assert low is not None and high is not None and low < found.median.median < high
        # the one measurement on bad nodes pulls the mean down, and the interval of the median not
        assert (found.share < low) == row.drops
    texts = [" ".join(row) for row in peak_table(shares).texts()]
    assert any("himeno 8 80 single 30" in text and "6.4 TFLOP/s 4.203 %" in text for text in texts)


def test_figure_5_has_the_published_intensities_and_time_as_its_third_dimension(
    measured: list[Record],
) -> None:
    found = analyse([*measured, *peak("peakflops_avx", 418059.51e6), *peak("peakflops_sp_avx", 836260.77e6)])
    scene = compose(found)
    assert scene is not None
    places = {(mark.application.name, mark.application.nodes): mark for mark in scene.marks}
    assert len(places) == len(scene.marks) == len(TABLE_5)
    for row in TABLE_5:
        mark = places[row.program, row.nodes]
        assert mark.x == pytest.approx(row.flop / row.nodes / sum(row.traffic))
        assert len(mark.trail) == MEASUREMENTS and len(mark.bars) == 2
    # The text says that the intensity halves when the nodes double; its own counters do not, from 4 to 8.
    assert places["HPCG", 2].x / places["HPCG", 4].x == pytest.approx(2, rel=0.01)
    assert places["HPCG", 4].x / places["HPCG", 8].x == pytest.approx(1, rel=0.01)
    # It calls both computation bound; at 1 % of the peak, without the bytes of memory, nobody knows.
    (hpcg,) = [each for each in found.applications if (each.name, each.nodes) == ("HPCG", 2)]
    assert "memory may bound it lower" in verdict(hpcg, found)


def test_figures_6_to_8_have_a_panel_a_test_with_all_numbers_of_nodes(points: list[HistoryRow]) -> None:
    panels = {
        (picture.name, panel[0].metric): course_names(panel)
        for picture in pictures(dict.fromkeys(point.key for point in points))
        for panel in picture.panels
    }
    assert panels["himeno", "flops"] == panels["hpcg", "flops"] == ["2 nodes", "4 nodes", "8 nodes"]
    assert panels["qperf", "bandwidth"] == ["2 nodes"]


def test_the_link_s_mean_and_deviation_are_the_published_ones_and_its_share_is_not(
    points: list[HistoryRow], measured: list[Record]
) -> None:
    (link,) = variations(point for point in points if point.key.case == "rc_bw")
    assert (round(link.mean / 1e6), link.samples) == (6160, MEASUREMENTS)
    assert link.deviation is not None and f"{link.deviation / 1e6:.1f}" == "43.3"
    # "about 88 % of the theoretical limit of 7000 MB/s": 4x FDR carries 6818 MB/s
    (ceiling,) = find_ceilings(measured, FUCHS).of_kind("network")
    assert ceiling.nominal == pytest.approx(6818e6, rel=1e-4)
    assert ceiling.share == pytest.approx(0.90, abs=0.005)


def test_figure_9_counts_the_nodes_that_each_benchmark_had(points: list[HistoryRow]) -> None:
    fabric = parse(f"{_racks(17)}rack 37: node37-[001-008]\n")
    assert fabric.nodes == set(NODES)
    for topology in (None, fabric):
        found = {each.benchmark: each for each in allocations(points, topology)}
        assert {name: len(found[name].nights) for name in USED} == USED
        *_, everything = allocations(points, topology)
        seen = len({host for point in points for host in point.hosts})
        assert str(everything) == f"all benchmarks: {seen} of {178 if topology else seen} nodes"
        *_, map_of_all = maps(list(found.values()), topology)
        prefix = "rack " if topology else "node"
        assert map_of_all.columns == tuple(f"{prefix}{rack}" for rack in range(20, 38))
        assert map_of_all.rows == tuple(map(str, range(1, 11)))
        assert len(map_of_all.cells) == len(everything.known)
        assert sum(cell.value or 0 for cell in map_of_all.cells) == sum(everything.nights.values())
    assert str(found["himeno"]) == "himeno: 112 of 178 nodes"
    (alone,) = allocations((point for point in points if point.key.benchmark == "qperf"), others=NODES)
    assert str(alone) == "qperf: 38 of 178 nodes"


def test_a_map_of_nodes_without_racks_has_blocks_and_of_two_nodes_a_column(points: list[HistoryRow]) -> None:
    two = [point._replace(hosts=("a1", "a2")) for point in points[:9]]
    *_, both = maps(allocations(two))
    assert (both.rows, both.columns, {cell.value for cell in both.cells}) == (("+0", "+1"), ("a1",), {9})
    many = [point._replace(hosts=(f"n{number}",)) for number, point in enumerate(points[:70], 1)]
    *_, blocks = maps(allocations(many))
    assert (len(blocks.rows), blocks.columns[:2]) == (9, ("n1", "n10"))


def _racks(number: int) -> str:
    return "".join(f"rack {rack}: node{rack}-[001-010]\n" for rack in range(20, 20 + number))


def test_nodes_with_as_many_nights_are_named_in_their_order() -> None:
    for hosts in (("n10", "n2", "n1"), ("n1", "n2", "n10")):
        had = Allocation("himeno", dict.fromkeys(hosts, 40), frozenset(hosts))
        (grid,) = maps([had])
        assert "n1 in 40 nights, n2 in 40 nights, n10 in 40 nights" in grid.text
