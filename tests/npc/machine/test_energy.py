"""Joules around a launch, by trees of the counters as kernels and Cray's nodes show them."""

from __future__ import annotations

from pathlib import Path

import pytest

from npc.machine import energy
from npc.machine.energy import Energy, by_host, read, refusal
from npc.records.build import Origin, records_of
from npc.records.launch import Launch
from npc.records.reading import Reading
from npc.records.record import replace
from npc.records.series import Series
from npc.roofline.ceilings import find_ceilings
from npc.roofline.document import to_document
from npc.roofline.table import format_roofline
from tests.made.sysfs_tree import tree

RAPL = "sys/class/powercap"


def node(root: Path, package: int, dram: int) -> Path:
    """Two packages of a server with memory below the first, in µJ; and zones that are parts of others."""
    return tree(root, {
        f"{RAPL}/intel-rapl:0/name": "package-0", f"{RAPL}/intel-rapl:0/energy_uj": str(package),
        f"{RAPL}/intel-rapl:0/max_energy_range_uj": "262143328850",
        f"{RAPL}/intel-rapl:0:0/name": "core", f"{RAPL}/intel-rapl:0:0/energy_uj": "77",
        f"{RAPL}/intel-rapl:0:1/name": "dram", f"{RAPL}/intel-rapl:0:1/energy_uj": str(dram),
        f"{RAPL}/intel-rapl:0:1/max_energy_range_uj": "65712999613",
        f"{RAPL}/intel-rapl:1/name": "psys", f"{RAPL}/intel-rapl:1/energy_uj": "999",
        f"{RAPL}/intel-rapl-mmio:0/name": "package-0", f"{RAPL}/intel-rapl-mmio:0/energy_uj": "999",
    })  # fmt: skip


def test_packages_and_memory_are_added_also_round_the_end_of_the_counter(tmp_path: Path) -> None:
    look = Energy(node(tmp_path, package=262143000000, dram=5_000_000))
    node(tmp_path, package=100_671_150, dram=7_500_000)
    seen = look.result()
    assert seen["joules"] == pytest.approx(0.32885 + 100.67115 + 2.5)
    assert seen["source"] == "RAPL: package, dram" and 0 < seen["seconds"] < 60


def test_a_launch_so_long_that_a_counter_may_have_gone_round_twice_has_no_figure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(energy, "MOST_W", 1e15)
    look = Energy(node(tmp_path, 1, 1))
    assert "may have wrapped twice" in look.result()["unavailable"]


def test_what_may_not_be_read_says_the_line_that_gives_the_right(tmp_path: Path) -> None:
    """The kernel gives such a file to root alone; a tree of files belongs to whoever made it."""
    root = node(tmp_path, 1, 1)
    (root / f"{RAPL}/intel-rapl:0/energy_uj").unlink()
    assert "chmod a+r" in Energy(root).result()["unavailable"]
    assert "chmod a+r" in refusal(root)
    assert Energy(tmp_path / "vm").result() == {
        "unavailable": "no energy counters here (RAPL, hwmon, Cray), as in most virtual machines"
    }
    assert refusal(tmp_path / "vm") == ""
    assert "stand still" in Energy(node(tmp_path / "guest", 1, 1)).result()["unavailable"]


def test_crays_node_counts_all_and_sockets_of_hwmon_are_added(tmp_path: Path) -> None:
    cray = tree(tmp_path / "cray", {"sys/cray/pm_counters/energy": "12345 J 1700000000123456 us"})
    assert read(node(cray, 1, 1)).joules == {"node": 12345.0}
    amd = tree(tmp_path / "amd", {
        f"sys/class/hwmon/hwmon3/energy{number}_{what}": text
        for number, label, value in ((1, "Ecore000", 5), (65, "Esocket0", 4000000), (66, "Esocket1", 1000000))
        for what, text in (("label", label), ("input", str(value)))
    })  # fmt: skip
    assert sum(read(amd).joules.values()) == pytest.approx(5.0)


def test_of_several_nodes_all_or_none_are_told() -> None:
    one = {"joules": 3.0, "seconds": 1.5, "source": "RAPL: package"}
    none = {"unavailable": "no counters"}
    assert by_host([("n1", {**one, "joules": 9.0}), ("n1", one), ("n2", one)]) == {
        "joules": {"n1": 3.0, "n2": 3.0}, "seconds": {"n1": 1.5, "n2": 1.5}, "source": "RAPL: package",
    }  # fmt: skip
    assert by_host([("n1", one), ("n2", none)]) == {"unavailable": "n2: no counters"}
    assert by_host([("n1", None)]) is None


def test_joules_and_watts_stand_beside_a_launchs_result_and_a_ceiling_says_what_one_yields() -> None:
    told = {
        "joules": {"n1": 300.0, "n2": 100.0},
        "seconds": {"n1": 2.0, "n2": 2.0},
        "source": "RAPL: package",
    }
    launch = Launch(id=0, argv=("likwid-bench",), started="2026-11-24T08:00:00Z", seconds=2.0, exit=0,
                    case="peakflops", raw="raw/0000.out", energy=told)  # fmt: skip
    result = Reading("peakflops_avx512_fma", "flops", 100e9, params={"threads": "2"})
    records = list(records_of(launch, [result], Origin("cluster", "likwid", "run"), launch.raw))
    found = {record.metric: record for record in records}
    assert (found["energy"].value, found["power"].value) == (400.0, 200.0)
    assert (found["energy"].unit, found["power"].unit) == ("J", "W")
    assert found["power"].case == "peakflops_avx512_fma"
    again = replace(found["power"], params={"energy_source": "Cray: node"})
    assert Series.of(again) == Series.of(found["power"]), "what counted is a circumstance"
    failed = Launch(
        id=1, argv=("x",), started=launch.started, seconds=2.0, exit=1, status="failed: x", energy=told
    )
    assert {each.metric for each in records_of(failed, [], Origin("x", "x", "x"), "")} == {"time"}
    roofline = find_ceilings(records)
    (ceiling,) = roofline.ceilings
    assert (ceiling.watts, ceiling.per_watt) == (200.0, 500e6)
    assert "a joule" in format_roofline(roofline) and "500 MFLOP" in format_roofline(roofline)
    assert to_document(roofline)["ceilings"][0]["per_watt"] == 500e6
    (bare,) = find_ceilings([found["flops"]]).ceilings
    assert bare.per_watt is None and "a joule" not in format_roofline(find_ceilings([found["flops"]]))
