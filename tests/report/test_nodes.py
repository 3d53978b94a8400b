"""How the page shows nodes: device by device, within a night only, and who is unlike its fleet."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from npc.records.record import Record, replace
from npc.records.verdicts import VERDICT, read_night, to_text
from npc.report.command import report
from npc.report.nodes import Nodes, by_node
from tests.made.measured import records
from tests.made.run_folder import make_fleet


def on_gpus(nodes: int, slow: tuple[int, int], factor: float = 0.8, gpus: int = 8) -> list[Record]:
    """Loads on the GPUs of each node, one of which is slow, and STREAM on its processors."""
    measured = []
    for node in range(nodes):
        made = list(records("stream", "triad", 80e9, spread=(1.0,)))
        for gpu in range(gpus):
            value = 3e12 * (factor if (node, gpu) == slow else 1.0)
            made += records("gpu", "load", value, spread=(1.0,), params={"gpu": str(gpu)})
        measured += [replace(record, hosts=(f"n{node}",)) for record in made]
    return measured


def test_one_bad_gpu_of_eight_is_not_hidden_in_its_node() -> None:
    members = list(Nodes.of_run(on_gpus(4, slow=(2, 3))).compared())
    assert [member.name for member in members][:3] == ["n0", "n0 gpu 0", "n0 gpu 1"]
    assert len(members) == 4 * 9
    slow = {member.name: member.ratio for member in members if member.ratio != 1.0}
    assert slow == {"n2 gpu 3": pytest.approx(0.8)}
    assert {member.rows for member in members} == {1}, "what names no device is the node's own"


def test_a_node_has_one_square_of_its_worst_device_and_all_of_its_rows() -> None:
    nodes = by_node(Nodes.of_run(on_gpus(4, slow=(2, 3))).compared())
    assert [(node.node, node.rows, node.ratio) for node in nodes] == [
        (f"n{number}", 9, pytest.approx(0.8 if number == 2 else 1.0)) for number in range(4)
    ]
    assert nodes[2].device == "gpu 3"


def test_the_only_gpu_of_a_node_is_the_node() -> None:
    members = list(Nodes.of_run(on_gpus(4, slow=(9, 9), gpus=1)).compared())
    assert [(member.name, member.series) for member in members] == [(f"n{number}", 2) for number in range(4)]


def test_nodes_that_were_measured_in_different_nights_are_not_held_against_each_other() -> None:
    """All nodes were 10 % slower in the second night."""
    measured = [
        replace(record, run=run, hosts=(host,))
        for run, value, hosts in (("night1", 80e9, "ab"), ("night2", 72e9, "cd"))
        for host in hosts
        for record in records("stream", "triad", value)
    ]
    ratios = {member.name: member.ratio for member in Nodes.of_run(measured).compared()}
    assert ratios == dict.fromkeys("abcd", 1.0)
    alone = [record for record in measured if record.hosts != ("d",)]
    ratios = {member.name: member.ratio for member in Nodes.of_run(alone).compared()}
    assert ratios == {"a": 1.0, "b": 1.0, "c": None}, "c has nobody beside it in its night"


def page_of(folder: Path) -> str:
    """What `npc report` makes of a history."""
    words = ["--history", str(folder), "--output", str(folder / "page.html")]
    ended = CliRunner().invoke(report, words)
    assert ended.exit_code == 0, ended.output
    return (folder / "page.html").read_text()


def section(page: str, name: str) -> str:
    """A section's markup."""
    whole = re.search(rf'<section[^>]* id="{name}".*?</section>', page, re.DOTALL)
    assert whole
    return whole[0]


def cells(page: str, caption: str) -> list[list[str]]:
    """The texts of the rows of a table."""
    table = re.search(rf"<caption>{caption}(?:(?!</table>).)*", page, re.DOTALL)
    assert table, caption
    rows = re.findall(r"<tr>(.*?)</tr>", table[0], re.DOTALL)[1:]
    markup = (re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row, re.DOTALL) for row in rows)
    return [[re.sub("<[^>]*>", "", cell) for cell in row] for row in markup]


UNLIKE = "Unlike their fleet since they are known"


def test_who_is_unlike_its_fleet_is_listed_with_size_and_rank_the_new_ones_first(tmp_path: Path) -> None:
    folder = make_fleet(tmp_path)
    night = read_night(folder / "made" / VERDICT)
    page = page_of(folder)
    rows = cells(section(page, "allocation"), UNLIKE)
    assert [row[0] for row in rows] == ["n0005 gpu 0", "n0003 gpu 1"]
    by_name = {finding.name: finding for finding in night.findings}
    for name, slower, since, differ, rank, case in rows:
        finding = by_name[name]
        assert slower == f"{100 * finding.slowdown:.3g} %" and differ == f"{100 * finding.spread:.3g} %"
        assert rank == f"{finding.rank} of 32"
        assert since == (f"{night.run}, new" if name.startswith("n0005") else finding.since)
        assert case == finding.case
    summary = section(page, "summary")
    assert "new: n0005 gpu 0 is" in summary and "1 more: in the table above the nodes" in summary
    assert "n0003" not in summary, "it was told before"
    nodes = {(row[0], row[1]): float(row[2]) for row in cells(section(page, "allocation"), "Numbers: Health")}
    assert nodes["n0003", "gpu 1"] == pytest.approx(0.92, abs=0.03) and nodes["n0003", "gpu 0"] > 0.96


def test_where_nobody_is_unlike_its_fleet_nothing_is_said_of_it(tmp_path: Path) -> None:
    folder = make_fleet(tmp_path)
    path = folder / "made" / VERDICT
    document = json.loads(to_text(read_night(path)))
    path.write_text(json.dumps({**document, "findings": []}))
    assert UNLIKE not in page_of(folder)
