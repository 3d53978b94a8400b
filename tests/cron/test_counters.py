"""Counters that rise from night to night are told, sound ones never; and what they say of a suspect."""

from __future__ import annotations

import json
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from npc.cron.counters import STANDS, rising, with_counters, with_links
from npc.cron.verdict import NightVerdict
from npc.machine.counters import meaning
from npc.records.history import History
from npc.records.launch import Launch, LaunchLog
from npc.records.record import replace
from npc.records.verdicts import NightSuspect, Verdict
from npc.validity.moved import DuringLaunch, evidence, of_mark
from tests.made.history import a_record

BEGUN = datetime(2026, 11, 20, 2, 30, tzinfo=timezone.utc)
HDR = {
    "device": "mlx5_0", "port": 1, "rate_bit_s": 100 * 10**9, "rate": "100 Gb/sec (2X HDR)", "lanes": 2,
    "link_layer": "InfiniBand", "state": "ACTIVE",
}  # fmt: skip
SLOT = {
    "name": "nvme0", "address": "0000:01:00.0", "kind": "nvme", "width": 4, "max_width": 8,
    "slot_max_width": 4, "transfers_s": 8e9, "max_transfers_s": 8e9, "slot_max_transfers_s": 8e9,
}  # fmt: skip


def night(folder: Path, days: float, **nodes: dict[str, int]) -> Path:
    """The raw runs of a night in which a job looked at each node."""
    for node, counters in nodes.items():
        work = folder / f"night{days}/first/000000/{node}/work"
        work.mkdir(parents=True)
        environment = {
            "host": {"name": node}, "time": (BEGUN + timedelta(days=days)).isoformat(), "counters": counters,
            "rdma": [HDR],
            "interfaces": [{"name": "eth0", "speed_bit_s": 10**9}, {"name": "ib0", "speed_bit_s": None}],
            "pcie": [SLOT],
        }  # fmt: skip
        (work / "environment.json").write_text(json.dumps(environment))
    return folder / f"night{days}"


def launched(folder: Path, *moved: dict[str, dict[str, int]] | None, seconds: float = 10.0) -> None:
    """Launches of a job of a night."""
    log = LaunchLog(folder / "first/000000/n1/work/launches", "qperf", planned=len(moved))
    for number, increases in enumerate(moved):
        log.append(Launch(id=number, argv=("qperf",), started="", seconds=seconds, exit=0, moved=increases))
    log.close()


@pytest.mark.parametrize(
    ("before", "after", "line"),
    [
        # 100 Gbit/s let 8640 bits a day be wrong
        ({"mlx5_0/1 symbol_error": 100}, {"mlx5_0/1 symbol_error": 8000}, ""),
        (
            {},
            {"mlx5_0/1 symbol_error": 41200},
            "n7: mlx5_0/1 symbol_error rose by 41200 in 1 d since night first, 8.6e+03 at most are sound "
            "(bit error rate 1e-12 at 100 Gbit/s)",
        ),
        ({"mlx5_0/1 symbol_error": 65535}, {"mlx5_0/1 symbol_error": 65535}, ""),
        ({"mlx5_0/1 link_error_recovery": 2}, {"mlx5_0/1 link_error_recovery": 60}, "(10 a day)"),
        ({"eth0 rx_crc_errors": 5}, {"eth0 rx_crc_errors": 80}, ""),
        ({"eth0 rx_crc_errors": 5}, {"eth0 rx_crc_errors": 500}, "(bit error rate 1e-12 at 1 Gbit/s)"),
        ({"mc0/dimm3 dimm_ce_count": 1}, {"mc0/dimm3 dimm_ce_count": 11}, ""),
        (
            {"mc0/dimm3 dimm_ce_count": 1},
            {"mc0/dimm3 dimm_ce_count": 101},
            "n7: mc0/dimm3 dimm_ce_count rose",
        ),
        # it was booted: what stands there now has come since
        ({"mc0/dimm3 dimm_ce_count": 900}, {"mc0/dimm3 dimm_ce_count": 101}, "rose by 101 in 1 d"),
        ({"nvme0 aer_dev_correctable": 1}, {"nvme0 aer_dev_correctable": 9000}, "at 32 Gbit/s)"),
        ({"ib0 carrier_down_count": 1}, {"ib0 carrier_down_count": 3}, ""),
        ({"ib0 carrier_down_count": 1}, {"ib0 carrier_down_count": 30}, "(1 a day)"),
        ({"tcp RetransSegs": 1}, {"tcp RetransSegs": 10**7, "mlx5_0/1 port_xmit_wait": 2**32 - 1}, ""),
    ],
)
def test_a_line_for_what_rises_faster_than_it_may(
    tmp_path: Path, before: dict[str, int], after: dict[str, int], line: str
) -> None:
    assert rising(night(tmp_path, 0, n7=before, n8={}), tmp_path, "first") == []
    (tmp_path / "elsewhere").mkdir()
    lines = rising(night(tmp_path, 1, n7=after, n8={}), tmp_path, "second")
    assert len(lines) == bool(line)
    assert line in "".join(lines)
    stands = json.loads((tmp_path / STANDS).read_text())
    remembered = {name: value for name, value in after.items() if meaning(name) in ("down", "error")}
    assert stands["n7"] == {
        "night": "second", "time": (BEGUN + timedelta(days=1)).isoformat(), "counters": remembered,
    }  # fmt: skip


def test_a_night_alone_tells_what_rose_during_its_launches(tmp_path: Path) -> None:
    folder = night(tmp_path, 0, n1={})
    rose: dict[str, dict[str, int]] = {
        "n1": {"mlx5_0/1 symbol_error": 1, "tcp RetransSegs": 9},
        "n2": {"mlx5_0/1 symbol_error": 80, "cpu package_throttle_count": 4},
    }
    launched(folder, rose, None, rose)
    (line,) = rising(folder, tmp_path, "first")
    assert line == (
        "n2: mlx5_0/1 symbol_error rose by 160 in 20 s of launches, 2 at most are sound "
        "(bit error rate 1e-12 at 100 Gbit/s)"
    )


def test_many_lines_are_cut_the_worst_stay(tmp_path: Path) -> None:
    nodes = {f"n{number}": {"mc0 ce_count": 1000 * number} for number in range(1, 31)}
    rising(night(tmp_path, 0, **{node: {} for node in nodes}), tmp_path, "first")
    lines = rising(night(tmp_path, 1, **nodes), tmp_path, "second")
    assert len(lines) == 11 and lines[-1] == "and 20 more counters that rise"
    assert lines[0].startswith("n30: mc0 ce_count rose by 30000")


def test_errors_speak_where_they_are_seen_losses_where_they_are_more_frequent() -> None:
    def launch(a: str, b: str, mark: str = "") -> DuringLaunch:
        return DuringLaunch((a, b), of_mark(mark))

    launches = [
        launch("n1", "n7", "n7 mlx5_0/1 symbol_error 200; n1 tcp RetransSegs 90"),
        launch("n2", "n7", "n7 mlx5_0/1 symbol_error 212; n2 tcp RetransSegs 80; n2 eth0 rx_crc_errors 1"),
        *[launch("n1", "n2", "n1 tcp RetransSegs 4; n1 ip InCEPkts 9") for _ in range(10)],
    ]
    sentence = (
        "n7: mlx5_0/1 symbol_error 412 in 2 launches; RetransSegs 170 in 2 launches with it, 40 in 10 without"
    )
    assert evidence(("n7",), launches) == sentence
    assert evidence(("n1",), launches) == "InCEPkts 90 in 11 launches with it, 0 in 1 without"
    link = evidence(("n2", "n7"), launches, link=True)
    assert link.startswith("n7: mlx5_0/1 symbol_error 212 in 1 launch; n2: eth0 rx_crc_errors 1 in 1 launch")
    assert evidence(("n9",), launches) == ""


def test_a_suspect_of_a_night_has_the_marks_of_its_records_as_evidence(tmp_path: Path) -> None:
    history = History(tmp_path)
    accused: dict[str, Any] = {
        "kind": "node", "nodes": ("n7",), "chance": 1e-6, "score": 6.0, "benchmarks": ("qperf",),
        "since": "a",
        "named": True, "evidence": "lower than usual in 3 of 3 measurements", "runs": ("a", "b"),
    }  # fmt: skip
    for run, hosts, mark in (
        ("a", ("n1", "n7"), "n7 mlx5_0/1 symbol_error 200"),
        ("b", ("n2", "n7"), "n7 mlx5_0/1 symbol_error 212"),
        ("b", ("n1", "n2"), ""),
    ):
        params = {"moved": mark} if mark else {}
        record = replace(a_record(), run=run, hosts=hosts, nodes=2, params=params, raw=f"{run}{hosts}")
        history.append([record, replace(record, metric="latency", unit="s")])
    verdict = NightVerdict(
        platform="x", run="b", time="", verdict=Verdict.PASS, series=(),
        suspects=(
            NightSuspect(name="n7", **accused),
            NightSuspect(name="n1", **{**accused, "nodes": ("n1",)}),
        ),
    )  # fmt: skip
    first, second = with_counters(verdict, history).suspects
    assert first.evidence == (
        "lower than usual in 3 of 3 measurements; meanwhile n7: mlx5_0/1 symbol_error 412 in 2 launches"
    )
    assert second.evidence == "lower than usual in 3 of 3 measurements"
    first, second = with_links(verdict, night(tmp_path, 0, n7={}, n8={})).suspects
    assert first.evidence == (
        "lower than usual in 3 of 3 measurements; "
        "n7: nvme0 (0000:01:00.0): PCIe x4 of x8 (the slot has no more)"
    )
    assert second.evidence == "lower than usual in 3 of 3 measurements"
