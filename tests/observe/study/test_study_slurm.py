"""A study on two nodes of a real Slurm cluster: Himeno's best placement of six."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from math import inf
from pathlib import Path

import pytest

from npc.observe.study.judgement import tied
from npc.observe.study.records import read_study
from tests.lab.cluster import Cluster
from tests.lab.jube_job import NPC
from tests.paths import ROOT

pytestmark = [pytest.mark.slow, pytest.mark.slurm, pytest.mark.measures]

#: Of the nodes' links: a halo of Himeno's takes many times as long as its cells.
LINK_MBIT = 300.0
HIMENO = ("XS", "-n", "700")
SAYS = r"^ cpu : (\S+) sec"
#: A rank that waits gives up its core, or more ranks than cores took minutes.
YIELD = {"NPC_ENV": "export OMPI_MCA_mpi_yield_when_idle=1"}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(nodes=2) as two:
        for node in two.nodes:
            two.shape(node, LINK_MBIT)
        yield two


def test_the_best_placement_of_himeno_is_found_among_six(cluster: Cluster, tmp_path: Path) -> None:
    """Two ranks on one node are the best: the other placements have their halos on slow links, or more ranks
    than cores. An independent measurement says the same."""
    himeno = tmp_path / "himeno"
    source = ROOT / "benchmarks/himeno/himeno.c"
    subprocess.run(["mpicc", "-O2", "-fopenmp-simd", source, "-o", himeno], check=True, timeout=60)
    platform = shutil.copytree(ROOT / "platforms/slurm", tmp_path / "slurm")  # what was best is kept in it
    words = ["--platform", platform, "--nodes", "1,2", "--ranks", "2,4,6", "--seconds", SAYS]
    words += ["--runs", "6", "--seed", "3"]
    words += ["--expect", "1 node 2 ranks >= 1.5 x 2 nodes 2 ranks", "--output", tmp_path / "study"]
    ended = cluster.run(
        "head", [NPC, "program", "study", *words, "--", himeno, *HIMENO], timeout=280, cwd=tmp_path, env=YIELD
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    study = read_study(tmp_path / "study")
    assert len(study.best) == 6 and len(study.ran) == 36
    best, second = study.best[:2]
    if alike := [each.condition for each in tied(study.best)]:  # where others take CPUs
        assert f"best: {best.condition}, but not told apart from {alike[0]}" in ended.stdout
        assert "1 node, 2 ranks, 1 thread" in [best.condition, *alike]
        assert all(name.startswith("1 node,") for name in [best.condition, *alike]), "no slow links"
    else:
        assert f"best: 1 node, 2 ranks, 1 thread; the second best, {second.condition}, is" in ended.stdout
        assert second.loses_low and 0 < second.loses_low < second.loses
        assert [each.held for each in study.expectations] == ["held"]
        assert f", in {platform}/programs.toml." in ended.stdout
    assert {each.held for each in study.expectations} <= {"held", "undecided"}
    where = placed(tmp_path / "study")
    for condition in study.conditions:
        hosts = ("n1", "n2")[: condition.nodes]
        assert where[condition.name] == dict.fromkeys(hosts, condition.ranks // condition.nodes)
    alone = by_hand(cluster, himeno, tmp_path)
    assert min(alone, key=lambda name: alone[name]) in [best.condition, *alike], alone


def placed(folder: Path) -> dict[str, dict[str, int]]:
    """Where the ranks of each condition ran, as observed: ranks by host, the same in every run."""
    found: dict[str, dict[str, int]] = {}
    for log in folder.rglob("launches.jsonl"):
        for line in log.read_text().splitlines()[1:]:
            launch = json.loads(line)
            observed = json.loads((log.parent / launch["raw"]).with_suffix(".observed.json").read_text())
            ranks = {node["host"]: node["ranks"] for node in observed["nodes"]}
            assert found.setdefault(launch["case"], ranks) == ranks
    return found


BY_HAND = """#!/bin/bash
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_mpi_yield_when_idle=1
for again in 1 2 3; do
    for ranks in 2 4 6; do
        echo "place 1 $ranks"
        mpirun --host n1:8 --oversubscribe -n $ranks {himeno}
        [ $again = 1 ] || continue # two nodes are far behind
        echo "place 2 $ranks"
        mpirun --host n1:$((ranks / 2)),n2:$((ranks / 2)) --oversubscribe -n $ranks {himeno}
    done
done
"""


def by_hand(cluster: Cluster, himeno: Path, folder: Path) -> dict[str, float]:
    """Himeno's own seconds in each placement, the least, in one job without NPC; by condition."""
    script = folder / "by_hand.sh"
    script.write_text(BY_HAND.format(himeno=" ".join([str(himeno), *HIMENO])))
    words = ["sbatch", "--wait", "-N2", "--ntasks-per-node=2", f"--output={folder}/by_hand.out", script]
    done = cluster.run("head", words, timeout=200, cwd=folder)
    text = (folder / "by_hand.out").read_text()
    assert done.returncode == 0, done.stderr + text
    times: dict[str, float] = {}
    for part in text.split("place ")[1:]:
        nodes, ranks = part.split("\n", 1)[0].split()
        seconds = re.search(SAYS, part, re.MULTILINE)
        assert seconds, part
        name = f"{nodes} node{'s' if nodes != '1' else ''}, {ranks} ranks, 1 thread"
        times[name] = min(float(seconds[1]), times.get(name, inf))
    assert len(times) == 6
    return times
