"""The heat map: a PNG that shows each pair where it belongs, for six nodes and for thousands."""

from __future__ import annotations

from pathlib import Path

import pytest

from npc.figures.pairs import Pairs
from npc.machine.fabric import Topology, parse
from npc.npb.heatmap import MAX_NODES, draw
from npc.npb.localise import localise_pairs
from npc.records.pair_verdicts import PairResult
from tests.made.pairs import Cluster, crossing, slow_link, slow_node


def drawn(path: Path, results: list[PairResult], topology: Topology | None = None) -> tuple[int, int]:
    """Draw, and return the picture's (height, width) in pixels."""
    from matplotlib import image

    verdict = localise_pairs(results, topology=topology)
    draw(results, verdict, path, title="all, qperf tcp_bw bandwidth 64K", unit="B/s", topology=topology)
    height, width, _ = image.imread(path).shape
    return height, width


def reddish_share(path: Path) -> float:
    """Share of the picture that is as red as slow pairs are."""
    from matplotlib import image

    red, green, blue = (image.imread(path)[:, :, i] for i in range(3))
    return float(((red > green + 0.15) & (red > blue + 0.15)).mean())


@pytest.mark.slow
def test_a_slow_node_reddens_its_row_and_column(tmp_path: Path) -> None:
    drawn(tmp_path / "healthy.png", Cluster(12, noise=0.005).rounds())
    drawn(tmp_path / "slow.png", Cluster(12, slow_node(3, 0.7), noise=0.005).rounds())
    healthy, slow = (reddish_share(tmp_path / name) for name in ("healthy.png", "slow.png"))
    # 22 of the 144 cells, which cover a good half of the picture.
    assert slow > healthy + 0.05


@pytest.mark.slow
@pytest.mark.parametrize("n", [2, 6, 24, MAX_NODES])
def test_any_ordinary_cluster_is_drawn_pair_by_pair(tmp_path: Path, n: int) -> None:
    height, width = drawn(tmp_path / "map.png", Cluster(n, slow_link(1, 2, 0.2)).rounds())
    assert 500 <= height <= 2000 and 500 <= width <= 2200


@pytest.mark.slow
def test_a_large_cluster_is_drawn_by_its_leaf_switches(tmp_path: Path) -> None:
    leaves = parse("\n".join(f"leaf{i}: n[{i * 32 + 1}-{i * 32 + 32}]" for i in range(16)))
    results = Cluster(512, crossing(range(33, 65), 0.8), topology=leaves).rounds("sample:8")
    height, width = drawn(tmp_path / "map.png", results, leaves)
    assert height <= 2000 and width <= 2000
    assert reddish_share(tmp_path / "map.png") > 0.02


@pytest.mark.slow
def test_a_large_cluster_without_a_topology_is_drawn_in_groups(tmp_path: Path) -> None:
    assert drawn(tmp_path / "map.png", Cluster(1000, slow_node(7, 0.5)).rounds("sample:4")) > (500, 500)


@pytest.mark.slow
def test_failed_pairs_and_a_run_without_any_value_are_drawn(tmp_path: Path) -> None:
    drawn(tmp_path / "one.png", Cluster(8, slow_node(2, 0.0)).rounds())
    drawn(tmp_path / "all.png", Cluster(8, lambda a, b: 0.0).rounds())
    drawn(tmp_path / "many.png", Cluster(200, lambda a, b: 0.0).rounds("sample:2"))
    assert all((tmp_path / name).stat().st_size > 10_000 for name in ("one.png", "all.png", "many.png"))


@pytest.mark.parametrize(
    ("hosts", "names"),
    [(("n1.site.org", "n2.site.org"), ("n1", "n2")), (("n1.ib", "n1.eth"), ("n1.eth", "n1.ib"))],
)
def test_domains_stand_beside_the_map_only_where_they_tell_hosts_apart(
    hosts: tuple[str, str], names: tuple[str, str]
) -> None:
    pairs = Pairs({hosts: [1.0]}, "B/s", "higher", 1.0)
    grid = pairs.grid("pairs", "", "", blamed=hosts[:1])
    assert grid.rows == grid.columns == names
    assert grid.blamed == {names[pairs.hosts.index(hosts[0])]}


def test_no_results_are_no_picture(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no pairs to draw"):
        draw([], localise_pairs([]), tmp_path / "map.png", title="", unit="B/s")


def test_a_picture_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    results = Cluster(4).rounds()
    with pytest.raises(OSError):
        draw(results, localise_pairs(results), tmp_path / "nowhere" / "map.png", title="", unit="B/s")
