"""Himeno and HPCC on two real nodes of a Slurm cluster: their points lie where arithmetic puts them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from npc.records.record import Record, read_csv
from tests.lab.cluster import Cluster
from tests.lab.jube_job import NPC, SMALL

pytestmark = [pytest.mark.slow, pytest.mark.slurm]

LOOPS = 20
#: Order of HPL's matrix.
N = 400
SETTINGS = {
    **SMALL,
    "NPC_ENV": "export OMPI_MCA_mpi_yield_when_idle=1",  # two nodes share two cores here
    "NPC_HPCG_NODES": "1",
    "NPC_HIMENO_NODES": "2",
    "NPC_HIMENO_TASKS": "1",
    "NPC_HIMENO_SIZE": "M",
    "NPC_HIMENO_LOOPS": str(LOOPS),
    "NPC_HIMENO_GRID": "2x1x1",
    "NPC_HPCC_N": str(N),
    "NPC_HPCC_NODES": "2",
    "NPC_HPCC_TASKS": "1",
    "NPC_PATTERNS_TESTS": "pingpong",  # the tag has it, too
}
#: Size M: 128 × 128 × 256 cells, of which the outer ones are not computed.
FLOP_A_LOOP = 34 * 126 * 126 * 254
#: Halved along the first axis, each node sends and receives a plane of single-precision pressures a loop.
PLANE_BYTES = 4 * 128 * 256


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    output = tmp_path_factory.mktemp("runs")
    with Cluster(nodes=2) as cluster:
        done = cluster.run(
            "head",
            [NPC, "characterise", "--platform", "slurm", "--tag", "apps", "--output", output],
            env=SETTINGS,
            timeout=240,
        )
        # 6: HPCC's matrix is so small that its STREAM stays within the caches, which is found out
        assert done.returncode == 6, done.stdout + done.stderr
        yield output / "000000"


def of(run: Path, benchmark: str, metric: str, **params: str) -> list[Record]:
    return [
        record
        for record in read_csv(run / "records.csv")
        if record.benchmark == benchmark
        and record.metric == metric
        and params.items() <= record.params.items()
    ]


def test_himeno_s_flop_and_bytes_are_those_of_its_grid(run: Path) -> None:
    (flop,) = of(run, "himeno", "flop")
    assert flop.value == LOOPS * FLOP_A_LOOP
    for direction in ("received", "sent"):
        traffic = of(run, "himeno", "traffic", direction=direction)
        assert sorted(record.params["node"] for record in traffic) == ["n1", "n2"]
        for record in traffic:
            assert record.value is not None
            # the planes of all loops; TCP's headers, the residual's sum and MPI's start come on top
            assert 1.0 < record.value / (LOOPS * PLANE_BYTES) < 1.35


def test_the_points_lie_where_arithmetic_puts_them(run: Path) -> None:
    points = {point["name"]: point for point in json.loads((run / "roofline.json").read_text())["points"]}
    himeno = points["himeno"]
    # Half of a loop's FLOP to a plane sent and one received: what each node does
    planes_alone = FLOP_A_LOOP / 2 / (2 * PLANE_BYTES)
    assert planes_alone / 1.35 < himeno["intensity"]["median"] < planes_alone
    (rate,) = of(run, "himeno", "flops")
    assert rate.value is not None
    assert himeno["flops"]["median"] == pytest.approx(rate.value / 2)
    assert (himeno["nodes"], himeno["precision"]) == (2, "single")


def test_hpl_s_rate_is_that_of_its_operations_and_it_has_no_bytes_of_its_own(run: Path) -> None:
    """2/3 N³ + 3/2 N² in the printed time, halved; the bytes counted are those of all of HPCC's tests."""
    points = {point["name"]: point for point in json.loads((run / "roofline.json").read_text())["points"]}
    hpl = points["hpcc HPL"]
    (seconds,) = [record for record in of(run, "hpcc", "time") if record.case == "HPL"]
    assert seconds.value is not None
    flop = 2 / 3 * N**3 + 3 / 2 * N**2
    assert hpl["flops"]["median"] == pytest.approx(flop / seconds.value / 2, rel=1e-3)
    assert hpl["nodes"] == 2
    assert of(run, "hpcc", "traffic"), "they were counted"
    assert hpl["intensity"] is None
    assert not any(bound["ceiling"].endswith("bw") for bound in hpl["bounds"])
    assert "those of HPL alone" in hpl["verdict"]


def test_dgemm_beside_it_is_the_roof_of_a_node_and_the_verdicts_are_by_hand(run: Path) -> None:
    document = json.loads((run / "roofline.json").read_text())
    (dgemm,) = [ceiling for ceiling in document["ceilings"] if ceiling["kind"] == "compute"]
    (total,) = [r for r in of(run, "hpcc", "flops", statistic="sum") if r.case == "StarDGEMM"]
    assert total.value is not None
    assert (dgemm["name"], dgemm["value"]) == ("DGEMM", pytest.approx(total.value / 2))
    points = {point["name"]: point for point in document["points"]}
    (bound,) = points["hpcc HPL"]["bounds"]
    assert bound["share"] == pytest.approx(points["hpcc HPL"]["flops"]["median"] / dgemm["value"])
    assert points["himeno"]["bounds"] == [], "single precision: DGEMM is no ceiling of it"
    assert (run / "roofline.png").stat().st_size > 10_000


def test_what_is_no_measurement_of_these_nodes_says_why(run: Path) -> None:
    bad = [record for record in read_csv(run / "records.csv") if not record.ok]
    (hpcg,) = [record for record in bad if record.benchmark == "hpcg"]
    assert hpcg.status.startswith("unavailable: "), "which is no failure"
    others = [record for record in bad if record is not hpcg]
    assert others and all("STREAM_" in record.case for record in others), others
    assert all(record.status.startswith("invalid: ") for record in others), others
