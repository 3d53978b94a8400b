"""The section of OS noise, of real output of a node with planted noise."""

from __future__ import annotations

from pathlib import Path

from npc import parsers
from npc.page.blocks import Table
from npc.records.record import Record, save_csv
from npc.report.runs import Report, read_runs
from npc.report.sections.os_noise import build
from tests import captured

PLANTED = "planted_1ms_of_10ms_core1.txt"


def test_the_core_that_loses_most_comes_first_and_the_node_last(tmp_path: Path) -> None:
    text = captured.text_of("noise", PLANTED)
    measured = [
        Record.of(
            reading, time=f"2026-11-24T12:00:0{sample}Z", platform="here", benchmark="noise", hosts=("n7",),
            sample=sample, raw=f"raw/000{sample}.out",
        )
        for sample in range(3)
        for reading in parsers.parse("noise", text, ["noise"])
    ]  # fmt: skip
    (tmp_path / "run").mkdir()
    save_csv(measured, tmp_path / "run/records.csv")
    cores, collective = build(Report(read_runs([tmp_path / "run"], ""), tmp_path))
    assert isinstance(cores, Table) and isinstance(collective, Table)
    assert cores.caption == "Noise of n7"
    assert [row[0].text for row in cores.rows] == ["core 1", "core 0", "all cores"]
    worst = [cell.text for cell in cores.rows[0]]
    assert worst[1] == "11.6 %" and worst[4] == "10 ms" and worst[6] == "planted 0.1 s"
    assert [row[0].text for row in collective.rows][:3] == ["2", "4", "8"]
    assert collective.rows[0][1].text == "12.3 %" and collective.rows[0][2].text == ""
