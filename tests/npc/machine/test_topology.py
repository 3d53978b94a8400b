"""Topologies: what Slurm prints, what people write, and which uplinks a pair crosses."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from npc.machine import fabric
from npc.machine.fabric import InvalidTopology, expand, load, modules, parse, racks
from tests.paths import ROOT

#: Real output of Slurm 22.05.8 with topology/tree: three leaves of eight nodes, one spine.
SLURM = ROOT / "tests/data" / "slurm" / "show_topology.txt"

TWO_LEVELS = """
leaf1: n[1-2]      # comment
leaf2: n3 n4
leaf3: n[5-6]
leaf4: n[7,8]
pod1: leaf[1-2]
switch pod2: leaf3,leaf4
core: pod1 pod[2-2]
rack r1: n[1,3]
"""


def test_slurm_s_own_output_is_understood() -> None:
    slurm = load(str(SLURM))
    assert {group.name: (group.kind, group.level, len(group.nodes)) for group in slurm.groups} == {
        "leaf1": ("switch", 0, 8),
        "leaf2": ("switch", 0, 8),
        "leaf3": ("switch", 0, 8),
        "spine1": ("switch", 1, 24),
    }
    assert slurm.leaf("n01") == "leaf1"
    assert slurm.leaf("n24.cluster.example") == "leaf3"
    assert slurm.leaf("login") is None


def test_a_file_of_racks_and_switches_has_any_number_of_levels() -> None:
    tree = parse(TWO_LEVELS)
    assert {group.name for group in tree.groups if group.kind == "rack"} == {"r1"}
    assert tree.order(["n10", "n8", "n3", "n2", "n1"]) == ["n10", "n1", "n2", "n3", "n8"]


def test_racks_are_those_of_the_topology_else_of_the_names_else_blocks() -> None:
    hosts = expand("n[1-8],n10")
    assert racks(hosts, parse(TWO_LEVELS)) == [
        ("rack r1", ("n1", "n3")),
        ("switch leaf1", ("n2",)),
        ("switch leaf2", ("n4",)),
        ("switch leaf3", ("n5", "n6")),
        ("switch leaf4", ("n7", "n8")),
        ("elsewhere", ("n10",)),
    ]
    assert racks(hosts, None) == [("n1", ("n1", "n2", "n3")), ("n4", ("n4", "n5", "n6")),
                                  ("n7", ("n7", "n8", "n10"))]  # fmt: skip
    named = expand("node[9-10]-[001-003],r1i0n2")
    assert [name for name, _ in racks(named, None)] == ["node9", "node10", "r1i0"]
    of_cluster = racks(expand("r[00-99]-[01-40]"), None)
    assert len(of_cluster) == 100 and {len(members) for _, members in of_cluster} == {40}
    blades = racks(expand("r[00-99]i[0-19]n[0-1]"), None)
    assert len(blades) == 100, "2000 blades of two nodes are no racks"
    assert racks(["a", "b"], None) == [("a", ("a", "b"))]


def test_blocks_and_continued_lines_of_a_topology_conf_are_understood() -> None:
    blocks = parse(
        "# conf\nSwitchName=s0 \\\n  Nodes=n[1-2]\nBlockName=b1 BlockIndex=0 Nodes=n1 BlockSize=1\n"
        "AggregatedBlock=b[1-1] BlockIndex=1 Nodes=n[1-2] BlockSize=2\n"
    )
    assert [(group.name, group.kind, len(group.nodes)) for group in blocks.groups] == [
        ("s0", "switch", 2),
        ("b1", "rack", 1),
        ("b[1-1]", "rack", 2),
    ]


@pytest.mark.parametrize(
    ("hostlist", "names"),
    [
        ("n[08-11]", ["n08", "n09", "n10", "n11"]),
        ("n[1-2,7],gpu1", ["n1", "n2", "n7", "gpu1"]),
        ("r[1-2]n[01-02]-ib", ["r1n01-ib", "r1n02-ib", "r2n01-ib", "r2n02-ib"]),
        ("n[17-18],n[23-24]", ["n17", "n18", "n23", "n24"]),
        ("", []),
    ],
)
def test_host_lists_expand_as_slurm_writes_them(hostlist: str, names: list[str]) -> None:
    assert expand(hostlist) == names


@given(st.lists(st.integers(0, 300), min_size=1, unique=True), st.integers(1, 5))
def test_a_host_list_of_single_numbers_gives_each_of_them(numbers: list[int], width: int) -> None:
    words = [f"{number:0{width}d}" for number in numbers]
    assert expand(f"n[{','.join(words)}]") == [f"n{word}" for word in words]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "fabric: no switch and no rack in it"),
        ("leaf1 n1 n2", r"fabric:1: expected `leaf1: n\[01-32\]` or `rack r1"),
        ("\nleaf1: n[1-", "fabric:2: brackets do not match"),
        ("leaf1: n[3-1]", r"fabric:1: \[3-1\]: the range 3-1 is empty or too long"),
        ("leaf1: n[1-99999999]", "is empty or too long"),
        ("leaf1: n[1-x]", r"\[1-x\] is no list of numbers"),
        ("leaf1: n1\nleaf1: n2", "fabric:2: leaf1 is described twice"),
        ("a: b\nb: a", "fabric: a → b → a is a circle"),
        ("leaf1:", "fabric: nothing hangs on leaf1"),
        ("NodeName=n1", "fabric:1: neither SwitchName= nor BlockName="),
    ],
)
def test_what_is_no_topology_is_refused_with_its_line(text: str, message: str) -> None:
    with pytest.raises(InvalidTopology, match=message):
        parse(text, "fabric")


def test_a_file_that_is_not_there_is_said_so() -> None:
    with pytest.raises(InvalidTopology, match=r"--topology /nowhere: No such file"):
        load("/nowhere")


def test_slurm_is_asked_by_its_own_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scontrol = tmp_path / "scontrol"
    scontrol.write_text(f'#!/bin/sh\n[ "$*" = "show topology" ] && exec cat {SLURM}\n')
    scontrol.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    assert load("slurm") == parse(SLURM.read_text())

    scontrol.write_text(
        "#!/bin/sh\necho 'slurm_load_topo error: Unable to contact slurm controller' >&2\nexit 1\n"
    )
    with pytest.raises(InvalidTopology, match="Unable to contact slurm controller; give a file"):
        load("slurm")

    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    with pytest.raises(InvalidTopology, match="there is no scontrol here; give a file"):
        fabric.load("slurm")


def test_modules_are_the_partitions_of_a_heterogeneous_job() -> None:
    job = {
        "SLURM_HET_SIZE": "3",
        "SLURM_JOB_NODELIST_HET_GROUP_0": "n[3-4]", "SLURM_JOB_PARTITION_HET_GROUP_0": "booster",
        "SLURM_JOB_NODELIST_HET_GROUP_1": "n1", "SLURM_JOB_PARTITION_HET_GROUP_1": "batch",
        "SLURM_JOB_NODELIST_HET_GROUP_2": "n2", "SLURM_JOB_PARTITION_HET_GROUP_2": "batch",
    }  # fmt: skip
    assert modules(job) == {"n3": "booster", "n4": "booster", "n1": "batch 1", "n2": "batch 2"}
    assert modules({"SLURM_JOB_NODELIST": "n[1-2]", "SLURM_JOB_PARTITION": "batch"}) == {}
