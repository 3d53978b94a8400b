"""``npc report``: what the page holds, that every link leads somewhere, that no name can break it."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
import shutil
import subprocess
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
from click.testing import CliRunner, Result
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from npc.figures import axes, svg
from npc.figures import chart as charts
from npc.figures.scale import RATIOS, count_scale
from npc.machine.fabric import natural
from npc.page.blocks import Figure
from npc.records.history import INDEXES
from npc.records.pair_verdicts import SlowNode, read_pairs, write_pairs
from npc.records.record import COLUMNS, Record, replace, save_csv
from npc.records.run import read_run
from npc.records.units import format_quantity
from npc.report.command import report as report_command
from npc.report.history import NoHistory, read_history
from npc.report.page import _chosen, build, render
from npc.report.runs import Report, read_runs
from npc.report.sections import sizes
from npc.roofline.analyse import analyse
from npc.roofline.table import format_roofline
from npc.statistics.medians import summarise
from tests.lab.in_process import npc
from tests.lab.jube_job import NPC
from tests.made.inside import observed_runs
from tests.made.measured import records
from tests.made.memory_use import memory_use, rank_memory
from tests.made.observed import launch
from tests.made.on_node import PROBES, STACKS, hotspots, put
from tests.made.profiles import Job
from tests.made.run_folder import HOSTILE, everything, make_history, make_pairs, make_run, sweep
from tests.made.scaling_study import put_study

#: The sections of the page.
ORDER = (
    "summary", "advice", "comparison", "sizes", "roofline", "node_memory", "os_noise", "inside_mpi",
    "hotspots", "on_node", "memory", "study", "models", "history", "allocation", "modules", "pairs",
    "failures", "environment",
)  # fmt: skip
_VOID = {"meta", "input", "br", "img", "link"}


class Page(HTMLParser):
    """The elements of a page: tag and attributes, the ids, and the text by the id of the element above it."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.text = ""
        self.open: list[str] = []
        self.inside: dict[str, str] = {}
        self.ids: list[str] = []
        self._above: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        self.elements.append((tag, values))
        if "id" in values:
            self.ids.append(values["id"])
        if tag not in _VOID:
            self.open.append(tag)
            self._above.append(values.get("id") or (self._above[-1] if self._above else ""))

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        self.elements.append((tag, values))
        self.ids += [values["id"]] if "id" in values else []

    def handle_endtag(self, tag: str) -> None:
        if tag in _VOID:
            return
        assert self.open and self.open[-1] == tag, f"</{tag}> ends {self.open[-3:]}"
        self.open.pop()
        self._above.pop()

    def handle_data(self, data: str) -> None:
        self.text += data
        for place in set(self._above):
            self.inside[place] = self.inside.get(place, "") + data

    def all(self, tag: str) -> list[dict[str, str]]:
        """Attributes of every element of a tag."""
        return [attributes for name, attributes in self.elements if name == tag]


def npc_report(*words: str | Path) -> Result:
    """The command, in this process."""
    return CliRunner().invoke(report_command, [str(word) for word in words])


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Path]:
    """A run, pairs, an observed program and a history."""
    folder = tmp_path_factory.mktemp("report")
    job = Job(4, per_node=2)
    job.compute(1.0, 1.0, 1.0, 2.0)
    job.collective("MPI_Allreduce")
    job.message(0, 2)
    observed = observed_runs(folder / "observed", job.profiles())
    memory = memory_use(rank_memory(pages=16, moments=8))
    return {
        "run": make_run(folder / "run"),
        "pairs": make_pairs(folder / "pairs"),
        "observed": put_study(put(observed, hotspots=hotspots(STACKS), probes=PROBES, memory=memory)),
        "history": make_history(folder / "history"),
    }


@pytest.fixture(scope="module")
def whole(folders: Mapping[str, Path]) -> tuple[Path, dict[str, Any]]:
    """The page of all of them, with what ``--json`` says."""
    path = folders["run"].parent / "whole.html"
    runs = (folders[name] for name in ("run", "pairs", "observed"))
    ended = npc_report(*runs, "--history", folders["history"], "--output", path, "--json")
    assert ended.exit_code == 0, ended.output
    return path, json.loads(ended.stdout)


@pytest.fixture(scope="module")
def page(whole: tuple[Path, dict[str, Any]]) -> Page:
    return Page(whole[0].read_text(encoding="utf-8"))


# --- the page ------------------------------------------------------------------------------------------


def test_every_section_is_there_and_json_says_so(whole: tuple[Path, dict[str, Any]], page: Page) -> None:
    path, document = whole
    assert document["schema"] == 1
    assert document["bytes"] == path.stat().st_size < 5e6
    assert [section["name"] for section in document["sections"]] == list(ORDER)
    assert set(ORDER) <= set(page.ids)
    assert document["absent"].keys() == {"Tried hints"}
    assert sum(section["figures"] for section in document["sections"]) == document["charts"]
    assert [run["records"] for run in document["runs"]] == [830, 28, 27]
    assert document["runs"][0]["usable"] == 826
    assert (document["history"]["nights"], document["history"]["series"]) == (40, 3)
    assert not page.open, "elements that never end"


def test_ids_are_unique_and_every_link_leads_somewhere(
    whole: tuple[Path, dict[str, Any]], page: Page
) -> None:
    assert max(Counter(page.ids).values()) == 1
    ids = set(page.ids)
    inner = [a["href"][1:] for a in page.all("a") if a.get("href", "").startswith("#")]
    records = [attributes["data-record"] for _, attributes in page.elements if "data-record" in attributes]
    assert len(inner) > 200 and len(records) > 400
    assert not {*inner, *records} - ids
    files = [a["href"] for a in page.all("a") if not a["href"].startswith("#")]
    assert len(files) > 800
    missing = [name for name in files if not (whole[0].parent / unquote(name)).is_file()]
    assert not missing


def test_it_fetches_nothing_and_allows_only_its_own_style_and_script(
    whole: tuple[Path, dict[str, Any]], page: Page
) -> None:
    text = whole[0].read_text(encoding="utf-8")
    for tag, attributes in page.elements:
        assert not {"src", "srcset", "style", "action", "background"} & attributes.keys(), (tag, attributes)
        assert not any(name.startswith("on") for name in attributes), (tag, attributes)
        assert tag not in ("link", "iframe", "object", "embed", "img", "base", "form"), tag
    for place in re.findall(r"url\(([^)]*)\)", text):
        assert place.startswith("#")
    (policy,) = [m["content"] for m in page.all("meta") if m.get("http-equiv") == "Content-Security-Policy"]
    assert policy.startswith("default-src 'none';") and "unsafe" not in policy
    for kind in ("style", "script"):
        (content,) = re.findall(rf"<{kind}>(.*?)</{kind}>", text, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
        assert f"{kind}-src 'sha256-{digest}'" in policy


def test_every_picture_has_a_text_and_a_table_beside_it(
    whole: tuple[Path, dict[str, Any]], page: Page
) -> None:
    pictures = [svg for svg in page.all("svg") if svg.get("aria-hidden") != "true"]
    pictures = [svg for svg in pictures if "bar" not in svg["class"].split()]  # parts of a flame graph
    charts_shown = [svg for svg in pictures if {"chart", "flame"} & set(svg["class"].split())]
    assert len(charts_shown) == whole[1]["charts"] >= 10
    for picture in pictures:
        assert picture["role"] == "img"
        if "aria-label" in picture:
            assert len(picture["aria-label"]) > 20
        else:
            assert len(page.inside[picture["aria-labelledby"]]) > 5
            assert re.search("tables? below", page.inside[picture["aria-describedby"]])
    for shown in charts_shown:
        figure = page.inside[f"{shown['id']}-figure"]
        assert "How to read it:" in figure
        assert re.search(r"(Numbers|Nights|Ceilings)[:( ]", figure)


def test_numbers_are_those_of_the_records(folders: Mapping[str, Path], page: Page) -> None:
    measured = read_run(folders["run"])
    chosen = [
        r.value for r in measured if (r.case, r.size, r.params.get("mpi")) == ("osu_bw", 1048576, "openmpi")
    ]
    summary = summarise([value for value in chosen if value is not None])
    assert summary.n == 7 and summary.low is not None
    text = format_quantity(summary.median, "B/s", 4)
    assert text in page.inside["sizes"]
    (row,) = [each for each in page.ids if each.startswith("r0") and text in page.inside.get(each, "")]
    assert format_quantity(summary.low, "B/s", 4) in page.inside[row]
    assert "7 of 7" in page.inside[row] and "openmpi" in page.inside[row]
    for case, unit in (("peakflops_avx", "FLOP/s"), ("peakflops_sp_avx", "FLOP/s"), ("triad", "B/s")):
        values = [record.value for record in measured if record.case == case and record.ok]
        middle = summarise([value for value in values if value is not None]).median
        assert format_quantity(middle, unit, 4) in page.inside["summary"]


def test_what_failed_is_told_with_its_reason(page: Page) -> None:
    for words in (
        "connection refused",
        "1 CPU for both sides",
        "it still ran after 120 s",
        "no RDMA device",
        "4 records of 830 not used: fuchs run",
    ):
        assert words in page.inside["failures"]
    assert (
        "826 of 830 records usable (1 failed, 1 invalid, 1 timeout, 1 unavailable)" in page.inside["summary"]
    )


def test_the_slow_node_is_named_in_summary_matrix_and_map(page: Page) -> None:
    assert "node n3: " in page.inside["summary"]
    assert "To blame" in page.inside["pairs"] and "ethtool" in page.inside["pairs"]
    assert "Below 0.95: n3 0.8" in page.inside["allocation"]
    cells = [
        attributes
        for tag, attributes in page.elements
        if tag == "rect" and "→ n3" in attributes.get("data-tip", "")
    ]
    assert len(cells) >= 7
    assert {cell["class"] for cell in cells} <= {"cell h1", "cell h2"}


def ring(folder: Path, nodes: int, steps: Sequence[int], slow: Callable[[int, int], bool]) -> None:
    """Records of TCP from every node to those `steps` further on, 30 % less where it is `slow`."""
    (first, *_) = records("qperf", "tcp_bw", 1e9, nodes=2, size=65536)
    pairs = [(a, (a + step) % nodes) for step in steps for a in range(nodes)]
    measured = [
        replace(first, hosts=(f"n{a}", f"n{b}"), value=0.7e9 if slow(a, b) else 1e9) for a, b in pairs
    ]
    save_csv(measured, folder / "records.csv")


def test_many_nodes_are_drawn_in_groups_and_the_slow_one_still_stands_out(tmp_path: Path) -> None:
    ring(tmp_path, 300, (1, 7), lambda a, b: 41 in (a, b))
    assert npc_report(tmp_path).exit_code == 0
    read = Page((tmp_path / "report.html").read_text())
    assert "medians of groups of 5 neighbouring nodes" in read.inside["pairs"]
    cells = [attributes for tag, attributes in read.elements if tag == "rect" and "data-tip" in attributes]
    slow = [cell["data-tip"] for cell in cells if cell["class"] == "cell h1"]
    assert any(tip.startswith("n41\n0.7 of normal") for tip in slow)
    worst = [cell["data-tip"] for cell in cells if "(worst 0.7)" in cell["data-tip"]]
    assert worst and all("n40 to n44" in tip for tip in worst)
    assert any(tip.startswith("n30 to n34 with n40 to n44\n") for tip in worst)
    assert 300 + 60 <= len(cells) <= 300 + 60 * 60


def drawn_pairs(path: Path) -> tuple[list[str], list[str]]:
    """The names beside the matrix of pairs from the top down, and what its cells are said to be."""
    text = path.read_text()
    svg = re.findall(
        r'<svg[^>]*class="chart cells"(?:(?!</svg>).)*Pairs: (?:(?!</svg>).)*</svg>', text, re.DOTALL
    )
    names = re.findall(r">(\w+)</text>", svg[0])
    return names, re.findall(r'data-tip="([^"]*)"', svg[0])


def test_nodes_that_are_slow_as_their_fleet_is_are_listed_and_not_blamed(tmp_path: Path) -> None:
    folder = make_pairs(tmp_path / "pairs")
    slow = (SlowNode("n5", 0.031, 1, 8),)
    entries = read_pairs(folder / "pairs.json")
    write_pairs(
        folder,
        [
            structs.replace(
                entry, verdict=structs.replace(entry.verdict, suspects=(), healthy=True, slow_nodes=slow)
            )
            for entry in entries
        ],
    )
    page = tmp_path / "page.html"
    assert npc_report(folder, "--output", page).exit_code == 0
    text = page.read_text()
    assert "n5 is 3.1% slower than the median, as nodes of this fleet are (the slowest of 8)" in text
    assert "Nobody is to blame" in text


def test_pairs_are_drawn_by_leaf_switch_where_somebody_says_which(
    tmp_path: Path, folders: Mapping[str, Path]
) -> None:
    path = tmp_path / "page.html"
    (tmp_path / "topology").write_text("b: n[1-3]\na: n[0,4-7]\n")
    assert npc_report(folders["pairs"], "--topology", tmp_path / "topology", "--output", path).exit_code == 0
    names, _ = drawn_pairs(path)
    assert names[:8] == ["n0", "n4", "n5", "n6", "n7", "n1", "n2", "n3"]


def test_pairs_of_many_nodes_are_drawn_as_leaf_switches(tmp_path: Path) -> None:
    # every tenth node hangs on the same leaf, whose uplink is slow
    ring(tmp_path, 200, (1, 10), lambda a, b: (a % 10 == 3) != (b % 10 == 3))
    leaves = [f"leaf{digit}: {','.join(f'n{a}' for a in range(digit, 200, 10))}" for digit in range(10)]
    (tmp_path / "topology").write_text("\n".join(leaves))
    assert npc_report(tmp_path, "--topology", tmp_path / "topology").exit_code == 0
    names, tips = drawn_pairs(tmp_path / "report.html")
    assert names[:10] == [f"leaf{digit}" for digit in range(10)]
    assert "medians of leaf switches" in Page((tmp_path / "report.html").read_text()).inside["pairs"]
    slow = {tip.partition("\n")[0] for tip in tips if "(worst 0.7)" in tip}
    assert slow == {f"{a} with {b}" for x in ("leaf2", "leaf4") for a, b in (("leaf3", x), (x, "leaf3"))}


TOPOLOGY = "leaf1: n[0-2]\nleaf2: n[3-5]\nspine: leaf[1-2]\n"


@pytest.mark.parametrize(
    ("topology", "groups"),
    [
        ("rack r2: n[4-6]\nrack r1: n[0-3]\n" + TOPOLOGY, ["rack r1", "rack r2", "elsewhere"]),
        (TOPOLOGY, ["switch leaf1", "switch leaf2", "elsewhere"]),
        ("a: m[1-3]\n", []),
    ],
)
def test_nodes_are_drawn_by_rack_or_leaf_switch_where_somebody_says_which(
    tmp_path: Path, folders: Mapping[str, Path], topology: str, groups: list[str]
) -> None:
    (tmp_path / "topology").write_text(topology)
    path = tmp_path / "page.html"
    ended = npc_report(folders["pairs"], "--topology", tmp_path / "topology", "--output", path)
    assert ended.exit_code == 0, ended.output
    page = Page(path.read_text(encoding="utf-8"))
    drawn = re.findall(r'<g class="glabels">(.*?)</g>', path.read_text(encoding="utf-8"))
    assert re.findall(r">([^<]+)</text>", "".join(drawn)) == groups
    cells = {
        attributes["data-tip"].split("\n")[0]: attributes
        for tag, attributes in page.elements
        if tag == "rect" and re.match(r"n\d\n", attributes.get("data-tip", ""))
    }
    assert sorted(cells) == [f"n{number}" for number in range(8)]
    if not groups:
        assert len({cell["y"] for cell in cells.values()}) == 1
        assert "rack" not in page.inside["allocation"]
        return
    assert {cell["data-tip"].split("\n")[1] for cell in cells.values()} == set(groups)
    rows = {(cell["data-tip"].split("\n")[1], cell["y"]) for cell in cells.values()}
    assert len(rows) == len({y for _, y in rows}) == len(groups)
    assert cells["n7"]["data-tip"].split("\n")[1] == "elsewhere"
    assert "Racks and switches whose median node is below 0.95: none" in page.inside["allocation"]
    assert "rack or switch" in page.inside["allocation"]


def test_a_rack_whose_median_node_is_slow_is_named(tmp_path: Path) -> None:
    (first, *_) = records("stream", "triad", 1e9)
    measured = [
        replace(first, hosts=(f"n{number}.site",), value=0.8e9 if 4 <= number < 8 else 1e9)
        for number in range(40)
    ]
    save_csv(measured, tmp_path / "records.csv")
    (tmp_path / "topology").write_text("rack a: n[0-3]\nrack b: n[4-7]\nrack c: n[8-39]\n")
    assert npc_report(tmp_path, "--topology", tmp_path / "topology").exit_code == 0
    text = (tmp_path / "report.html").read_text()
    assert "median node is below 0.95: rack b 0.8" in Page(text).inside["allocation"]
    labels = re.findall(r'<text x="[\d.]+" y="([\d.]+)"( class="blamed")?>rack (\w)</text>', text)
    assert [(blamed != "", name) for _, blamed, name in labels] == [(False, "a"), (True, "b"), (False, "c")]
    places = [float(y) for y, _, _ in labels]
    assert places[1] - places[0] == pytest.approx(30 + 8, abs=0.2)
    assert places[2] - places[1] == pytest.approx(30 + 8 + 15, abs=0.2)  # c has two rows of 16


def test_nights_show_the_verdict_the_usual_value_and_where_the_new_level_began(page: Page) -> None:
    assert "night 20261010T023000Z: DEGRADED (1 DEGRADED, 2 PASS)" in page.inside["summary"]
    history = page.inside["history"]
    assert "another level since 20261001T023000Z, worse" in history
    assert "The rule of the verdicts" in history
    assert "usual value: 999.4 MB/s" in history
    assert "nights without a usable number" in history and "connection refused" in history
    assert "the matrix of pairs was not measured" in page.inside["summary"]


def test_a_number_of_a_night_leads_to_its_samples_and_to_those_raw_files_that_are_there(
    whole: tuple[Path, dict[str, Any]], page: Page
) -> None:
    """40 nights, the raw files of the last five kept; of the last night those of the second launch are lost,
    and of the first night nobody noted the place."""
    text = whole[0].read_text(encoding="utf-8")
    (row,) = re.findall(r'<tr id="h\d+" [^>]*><th scope="row">qperf udp_bw, .*?</tr>', text)
    (ident,) = re.findall(r'href="#(h\d+n\d+)"', row)
    assert f'data-record="{ident}"/>' in text, "the mark in the picture leads there, too"
    assert ident.endswith("n39")

    def night(number: int) -> str:
        (of_night,) = re.findall(rf'<tr id="{ident[:-2]}{number}" .*?</tr>', text)
        return str(of_night)

    files = re.findall(r'<a href="([^"]*)" title="n3, n0">[\d.]+ MB/s</a>', night(39))
    assert [name.rpartition("nights/")[2] for name in files] == [
        f"20261010T023000Z/first/udp_bw/{sample}.out" for sample in (0, 2)
    ]
    assert len(re.findall(r'<span title="n3, n0">[\d.]+ MB/s</span>', night(39))) == 1
    assert night(36).count(".out") == 3 and ".out" not in night(34)
    assert "raw runs pruned" in night(34) and "raw runs pruned" not in night(36)
    assert "where: not known" in night(0)
    (entry,) = re.findall(r'DEGRADED: qperf udp_bw.*?href="#(\w+)"', page_section(text, "summary"))
    assert f"{entry}n39" == ident
    (worst,) = re.findall(
        r'<th scope="row">n3</th>.*?href="#(h\d+)".*worst: qperf', page_section(text, "allocation")
    )
    assert worst in page.ids


def test_of_a_series_without_a_picture_the_last_night_is_shown_and_of_a_failed_one_why(
    tmp_path: Path,
) -> None:
    text = ",".join(COLUMNS) + "\n" + rows("2026-10-01", [1, 2], case="once", raw="first/once.out")
    text += rows("2026-10-01", [""], case="never", status="failed: x", raw="first/never.out")
    text += "".join(
        rows("2026-10-01", [10 + size], case="sweep", raw="a.out", size=str(size)) for size in (8, 9)
    )
    (tmp_path / "2026-10.csv").write_text(text)
    runs = tmp_path / "runs of nights"
    (runs / "first").mkdir(parents=True)
    (runs / "first" / "never.out").write_text("x")
    note = {
        "time": "2026-10-01T02:30:00Z",
        "night": "2026-10-01",
        "event": "begun",
        "folder": str(runs),
        "words": [],
    }
    (tmp_path / "nights.jsonl").write_text(json.dumps(note) + "\n{}\n3\n")
    assert npc_report("--history", tmp_path, "--output", tmp_path / "h.html").exit_code == 0
    page = (tmp_path / "h.html").read_text()
    assert len(re.findall(r'<tr id="h\dn0"', page)) == 4
    assert (
        '<a href="runs%20of%20nights/first/never.out" class="bad" title="a, b; failed: x">failed</a>' in page
    )
    assert "once.out" not in page and "2026-10.csv" in page


def test_the_first_nights_are_told_apart_though_all_are_of_one_day_and_of_one_node(tmp_path: Path) -> None:
    nights = [
        rows(f"2026-10-01T0{hour}", [hour], time=f"2026-10-01T0{hour}:10:00+00:00") for hour in (1, 2, 4)
    ]
    text = ",".join(COLUMNS) + "\n" + "".join(nights).replace('"a;b"', '"a"')
    (tmp_path / "2026-10.csv").write_text(text)
    assert npc_report("--history", tmp_path, "--output", tmp_path / "h.html").exit_code == 0
    inside = Page((tmp_path / "h.html").read_text()).inside
    assert "10-01 02:00" in inside["history"] and "10-01 04:00" in inside["history"]
    assert "All nights of p were measured on one node, a: there is no other" in inside["allocation"]


def test_of_many_nights_only_the_last_are_linked_file_by_file_the_others_by_their_folder(
    tmp_path: Path,
) -> None:
    names = [f"2026-{month:02d}-{day:02d}" for month in (7, 8, 9) for day in range(1, 29)]
    notes = []
    for name in names:
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.out").write_text("1")
        note = {
            "time": "2026-10-01T02:30:00Z",
            "night": name,
            "event": "begun",
            "folder": str(tmp_path / name),
            "words": [],
        }
        notes.append(json.dumps(note))
    (tmp_path / "nights.jsonl").write_text("\n".join(notes) + "\n")
    text = "".join(rows(name, [1.5], raw="a.out") for name in names)
    (tmp_path / "2026-07.csv").write_text(",".join(COLUMNS) + "\n" + text)
    assert npc_report("--history", tmp_path, "--output", tmp_path / "h.html").exit_code == 0
    page = (tmp_path / "h.html").read_text()
    assert re.findall(r'href="([^"]*)/a\.out"', page) == names[-60:]
    assert re.findall(r'href="([^"]*)">raw runs</a>', page) == names[:-60]


def page_section(text: str, name: str) -> str:
    """The markup of a section of a page."""
    return text.partition(f'<section id="{name}"')[2].partition("</section>")[0]


def test_of_several_runs_those_that_a_section_has_nothing_of_are_named_with_the_reason(page: Page) -> None:
    """The second run is of pairs alone, the third of an observed program."""
    for name, why in (
        ("sizes", "no test was measured at two message sizes"),
        ("roofline", "without a compute ceiling there is no roof"),
        ("models", "no sweep of at least five message sizes"),
    ):
        assert f"Nothing of fuchs pairs, fuchs observed: {why}" in page.inside[name]


def test_a_runs_networks_are_charts_of_their_own_and_another_runs_are_not_unknown(tmp_path: Path) -> None:
    for name, networks in (("both", ("eth0", "ib0")), ("one", ("lo",))):
        folder = tmp_path / name
        folder.mkdir()
        measured = [
            replace(record, platform=name, params={"interface": network})
            for network in networks
            for size in (16, 4096)
            for record in records("qperf", "tcp_bw", 1e6 * size, metric="bandwidth", size=size)
        ]
        save_csv(measured, folder / "records.csv")
    runs = read_runs([tmp_path / "both", tmp_path / "one"])
    shown = [block.title for block in sizes.build(Report(runs, tmp_path)) if isinstance(block, Figure)]
    assert shown == [
        "Bandwidth between two processes over eth0: both",
        "Bandwidth between two processes over ib0: both",
        "Bandwidth between two processes: one",
    ]


def test_working_sets_are_no_messages(tmp_path: Path) -> None:
    measured = [
        record
        for size in (16384, 1 << 24)
        for benchmark, case in (("memory", "load"), ("osu", "osu_bcast"))
        for record in records(benchmark, case, 1e-9 * size, metric="latency", size=size)
    ]
    save_csv(measured, tmp_path / "records.csv")
    figures = [
        block for block in sizes.build(Report(read_runs([tmp_path]), tmp_path)) if isinstance(block, Figure)
    ]
    titles = ["Other operations: time over size", "Memory latency over the working set"]
    assert [block.title for block in figures] == titles
    assert [label in block.picture for block in figures for label in ("Message size", "Working set")] == [
        True, False, False, True
    ]  # fmt: skip


@pytest.mark.slow
def test_hostile_names_stay_text(tmp_path: Path) -> None:
    measured = [
        replace(
            record,
            platform=f"p{HOSTILE}",
            case=f"{record.case}{HOSTILE}",
            hosts=tuple(f"h{HOSTILE.replace(';', '')}{n}" for n in range(2)),
            params={**record.params, "mpi": HOSTILE},
            status=record.status if record.ok else f"{record.status} {HOSTILE}",
        )
        for record in everything()
    ]
    make_run(tmp_path / "run", measured)
    ended = npc_report(tmp_path / "run")
    assert ended.exit_code == 0, ended.output
    text = (tmp_path / "run" / "report.html").read_text(encoding="utf-8")
    assert "<img" not in text and "<svg/onload" not in text and "{{7*7}}" in text
    read = Page(text)
    assert HOSTILE in read.text
    assert {tag for tag, _ in read.elements} & {"img", "iframe", "link", "object"} == set()
    assert len(read.all("script")) == len(read.all("style")) == 1
    assert not any(name.startswith("on") for _, attributes in read.elements for name in attributes)
    assert read.inside["sizes"].count(HOSTILE) > 5


# --- the command ---------------------------------------------------------------------------------------


def test_the_page_lies_beside_the_run_and_a_second_one_replaces_it(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", list(records("stream", "triad", 78e9)))
    for _ in range(2):
        ended = npc_report(tmp_path / "run" / "records.csv")
        assert (ended.exit_code, ended.stderr) == (0, "")
        assert ended.stdout.startswith(f"{run}/report.html: ")
        assert " KiB, Summary" in ended.stdout
    assert sorted(path.name for path in run.iterdir()) == [
        "environment.json", "launches.jsonl", "raw", "records.csv", "report.html",
    ]  # fmt: skip
    text = Page((run / "report.html").read_text()).inside["absent"]
    for title in ("Roofline", "Bandwidth and latency over message size", "Time series", "Pairs of nodes"):
        assert title in text


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "name a run"),
        (["nowhere"], "nowhere does not exist: npc characterise makes a run"),
        (["empty"], "empty is no run: name its folder"),
        (["broken.csv"], "broken.csv:2: column value: 'x' is not a number"),
        (["--history", "empty"], "holds no history"),
        (["run", "--output", "file/report.html"], "cannot write file/report.html"),
        (["run", "--topology", "nowhere"], "--topology nowhere: No such file"),
        (["run", "--topology", "broken.csv"], "broken.csv:1: expected"),
    ],
)
def test_a_mistake_is_one_message_and_two(tmp_path: Path, words: list[str], message: str) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").touch()
    (tmp_path / "run").mkdir()
    save_csv(records("stream", "triad", 1.0), tmp_path / "run" / "records.csv")
    row = "2026-11-20T08:00:00+00:00,a,b,c,bandwidth,x,B/s,,1,,,,0,ok,,,"
    (tmp_path / "broken.csv").write_text(f"{','.join(COLUMNS)}\n{row}\n")
    ended = npc("report", *words, cwd=tmp_path)
    assert ended.returncode == 2
    assert message in ended.stderr and "Traceback" not in ended.stderr


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("environment.json", "{"),
        ("environment.json", "[]"),
        (
            "environment.json",
            '{"cpu": null, "host": null, "tools": [], "interfaces": {}, "rdma": null, "npc": 3}',
        ),
        ("pairs.json", '[{"verdict": {}}, 7]'),
        ("fit.json", '{"schema": 1, "fits": [{}]}'),
        ("fit.json", "[1]"),
        ("launches.jsonl", "no json\n"),
    ],
)
def test_damaged_files_beside_the_records_cost_only_what_they_say(
    tmp_path: Path, name: str, text: str
) -> None:
    save_csv(sweep("osu_latency", "openmpi"), tmp_path / "records.csv")
    (tmp_path / name).write_text(text)
    ended = npc_report(tmp_path)
    assert ended.exit_code == 0, (ended.output, ended.exception)
    assert "α" in Page((tmp_path / "report.html").read_text()).inside["models"]


def test_a_run_in_which_nothing_worked_has_a_page_and_is_one(tmp_path: Path) -> None:
    (first, *_) = records("osu", "osu_bw", 1.0)
    make_run(tmp_path / "run", [replace(first, value=None, status="failed: no route to host")])
    ended = npc_report(tmp_path / "run")
    assert ended.exit_code == 1
    assert ended.stderr == (
        "npc report: nothing in it was measured: no record is usable; 1 of 1: failed: no route to host\n"
    )
    read = Page((tmp_path / "run" / "report.html").read_text())
    assert "no route to host" in read.inside["failures"]
    assert "0 of 1 record usable (1 failed)" in read.inside["summary"]
    assert "Nothing could be judged of fuchs: none of its records is usable." in read.inside["advice"]
    assert "Nothing to do" not in read.text and "Nothing was found" not in read.text


def test_nothing_is_well_of_a_run_without_records(tmp_path: Path) -> None:
    """Nor of one whose benchmarks were all unavailable."""
    save_csv([], tmp_path / "records.csv")
    ended = npc_report(tmp_path)
    assert ended.exit_code == 1 and "nothing in it was measured: there are no records" in ended.stderr
    read = Page((tmp_path / "report.html").read_text())
    assert "nothing could be judged, because it has no records" in read.inside["summary"]
    (first, *_) = records("osu", "osu_bw", 1.0)
    save_csv([replace(first, value=None, status="unavailable: no mpirun")], tmp_path / "records.csv")
    assert npc_report(tmp_path).exit_code == 1
    other = Page((tmp_path / "report.html").read_text())
    assert "none of its records is usable" in other.inside["summary"]
    for page in (read, other):
        assert not {"Nothing to do", "Nothing failed", "Nothing was found"} & set(
            re.findall(r"Nothing (?:to do|failed|was found)", page.text)
        )
        assert all("good" not in attributes.get("class", "") for attributes in page.all("p"))


def test_applications_observed_apart_are_shown_under_the_ceilings(tmp_path: Path) -> None:
    """Raw files of both folders have one name, and lead to where they are."""
    raw = "1_Himeno/launches/raw/0000.out"
    ceilings = [
        *records("qperf", "tcp_bw", 1e9, nodes=2),
        *records("likwid", "peakflops", 9e9, metric="flops"),
    ]
    ceilings = [replace(record, raw=raw, hosts=("n0", "n1")[: record.nodes]) for record in ceilings]
    himeno = list(launch("Himeno", 2, 8e9, 8e11, received=25e9, sent=25e9))
    folders = {"run": ceilings, "observed": himeno, "again": [*ceilings, *himeno]}
    for name, part in folders.items():
        (tmp_path / name).mkdir()
        save_csv(part, tmp_path / name / "records.csv")
    page = tmp_path / "page.html"
    ended = npc_report(tmp_path / "run", tmp_path / "observed", "--output", page, "--json")
    assert ended.exit_code == 0, ended.output
    (run,) = json.loads(ended.stdout)["runs"]
    assert run["joined"] == [str(tmp_path / "observed")] and run["records"] == len(ceilings) + 4
    read = Page(page.read_text())
    # 25 GB at 1 GB/s are 25 of 100 s
    words = "its bytes need at least 25 % of its time"
    assert words in read.inside["roofline"] and words in read.inside["advice"]
    assert "fewer and larger messages" in read.inside["summary"]
    assert f"observed/{raw}" in {attributes.get("href") for attributes in read.all("a")}
    # what both measured is to be compared
    ended = npc_report(tmp_path / "again", tmp_path / "observed", "--output", page, "--json")
    assert len(json.loads(ended.stdout)["runs"]) == 2


def test_a_folder_of_several_platforms_is_shown_platform_by_platform(tmp_path: Path) -> None:
    one = list(records("stream", "triad", 78e9))
    two = [replace(record, platform="other", value=(record.value or 0) / 2) for record in one]
    save_csv([*one, *two], tmp_path / "records.csv")
    runs = read_runs([tmp_path, tmp_path / "records.csv"])
    assert [(run.label, len(run.records)) for run in runs] == [("fuchs", 7), ("other", 7)]
    sections, _ = build(Report(runs, tmp_path))
    assert "comparison" in [section.name for section in sections]


def test_a_number_that_must_not_be_believed_has_not_failed(tmp_path: Path) -> None:
    (first, *rest) = records("stream", "triad", 78e9)
    save_csv([replace(first, status="invalid: faster than light"), *rest], tmp_path / "records.csv")
    assert npc_report(tmp_path).exit_code == 0
    read = Page((tmp_path / "report.html").read_text())
    assert "7 records, 1 of them not usable (failed or invalid)" in read.inside["allocation"]


def test_disturbed_records_are_told_first_and_marked_where_they_are_shown(tmp_path: Path) -> None:
    (first, second, *rest) = records("stream", "triad", 78e9)
    taken = [
        replace(record, params={"disturbed": share}) for record, share in ((first, "0.1"), (second, "0.42"))
    ]
    save_csv([*taken, *rest], tmp_path / "records.csv")
    assert npc_report(tmp_path).exit_code == 0
    text = (tmp_path / "report.html").read_text()
    summary = page_section(text, "summary")
    sentence = "2 of 7 usable records were measured while others took 10 to 42 % of the CPUs"
    assert summary.count(sentence) == 1 and "7, 2 disturbed" in summary
    assert "should be measured again while nobody else uses the nodes" in summary
    assert text.count("GB/s (disturbed)") == 2 and "7 of 7, 2 disturbed" in text
    assert f"Disturbed: {sentence} (npc check says by whom)." in format_roofline(analyse(read_run(tmp_path)))


def test_links_to_raw_files_with_odd_names_lead_to_them(tmp_path: Path) -> None:
    odd = "a b#c?d%41&é.out"
    (first, *_) = records("stream", "triad", 78e9)
    (tmp_path / odd).write_text("raw")
    save_csv([replace(first, raw=odd)], tmp_path / "records.csv")
    report = Report(read_runs([tmp_path]), tmp_path / "elsewhere")
    href = report.href(report.runs[0], odd)
    assert (tmp_path / "elsewhere" / unquote(href)).resolve() == tmp_path / odd or href.startswith("../")
    assert not set("#? &") & set(href)


def test_of_very_many_series_those_that_numbers_lead_to_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("npc.report.page.MOST_SERIES", 20)
    aside = [
        record
        for number in range(30)
        for record in records("osu", f"osu_x{number}", 1.0, metric="latency", params={"statistic": "p99"})
    ]
    save_csv([*aside, *everything()], tmp_path / "records.csv")
    report = Report(read_runs([tmp_path]), tmp_path)
    sections, absent = build(report)
    read = Page(render(report, sections, absent))
    used = {attributes["data-record"] for _, attributes in read.elements if "data-record" in attributes}
    assert len(report.runs[0].series) > 100
    assert len(used) > 20 and not used - set(read.ids)
    left = len(report.runs[0].series) - len(_chosen(report.runs[0], used))
    assert left >= 20
    assert f"{left} more series are in records.csv only" in read.text


# --- histories -----------------------------------------------------------------------------------------


def rows(night: str, values: list[object], **cells: str) -> str:
    """CSV lines of one series in one night."""
    lines = []
    for sample, value in enumerate(values):
        row = {
            "time": f"{night}T02:30:0{sample}+00:00", "platform": "p", "benchmark": "osu", "case": "osu_bw",
            "metric": "bandwidth", "value": str(value), "unit": "B/s", "size": "8", "nodes": "2",
            "hosts": "a;b", "run": night, "sample": str(sample), "status": "ok",
        }  # fmt: skip
        row.update(cells)
        lines.append(",".join(f'"{row.get(name, "")}"' for name in COLUMNS))
    return "\n".join(lines) + "\n"


def test_a_history_is_read_to_its_last_whole_row_with_medians_of_nights(tmp_path: Path) -> None:
    params = '{""remeasured"": ""1""}'
    text = ",".join(COLUMNS) + "\n"
    text += rows("2026-10-01", [1, 2, 4]) + rows("2026-10-02", [3], params=params)
    text += rows("2026-10-03", [5, 7]) + rows("2026-10-03", [100], params=params)
    text += rows("2026-10-04", [""], status="failed: x") + rows("2026-10-05", ["nan"])
    text += rows("2026-10-07", [8, 8]) + rows("2026-10-07", [2, 2, 2], params='{""disturbed"": ""0.40""}')
    text += rows("2026-10-06", [9])[:-8]
    (tmp_path / "2026-10.csv").write_text(text)
    history = read_history(tmp_path)
    (series,) = history.series
    assert [(n.run[-2:], n.median, n.n, n.status) for n in series.nights] == [
        ("01", 2.0, 3, ""),
        ("02", 3.0, 1, ""),  # nothing but the second measurement: that counts
        ("03", 6.0, 2, ""),
        ("04", pytest.approx(float("nan"), nan_ok=True), 0, "failed: x"),
        ("07", 8.0, 2, ""),  # what others disturbed counts where there is nothing else
    ]
    assert (history.rows, history.problems, history.platforms) == (14, 1, ("p",))


def test_files_of_an_older_schema_are_read(tmp_path: Path) -> None:
    (tmp_path / "2026-10.csv").write_text(
        "metric,value,time,platform,benchmark,case,run\nlatency,1e-6,2026-10-01T00:00:00Z,p,osu,osu_latency,n1\n"
    )
    (series,) = read_history(tmp_path).series
    assert (series.key.nodes, series.nights[0].median, series.unit) == (1, 1e-6, "s")
    (tmp_path / "2026-11.csv").write_text("a,b\n1,2\n")
    with pytest.raises(NoHistory, match="no column time, metric, value"):
        read_history(tmp_path)


def test_a_history_alone_makes_a_page_and_platforms_are_chosen_by_the_runs(
    tmp_path: Path, folders: Mapping[str, Path]
) -> None:
    ended = npc_report("--history", folders["history"], "--output", tmp_path / "h.html", "--json")
    document = json.loads(ended.stdout)
    assert [section["name"] for section in document["sections"]] == ["summary", "history", "allocation"]
    assert set(document["absent"].values()) == {"a history alone does not show it; name a run as well"}
    other = tmp_path / "history"
    for name in ("p", "q"):
        (other / name).mkdir(parents=True)
        (other / name / "2026-10.csv").write_text(
            ",".join(COLUMNS) + "\n" + rows("2026-10-01", [1], platform=name)
        )
    assert read_history(other).platforms == ("p", "q")
    assert read_history(other, ["q"]).platforms == ("q",)


def test_without_a_value_the_history_here_is_meant_and_on_a_terminal_it_says_what_it_does(
    tmp_path: Path, folders: Mapping[str, Path]
) -> None:
    (tmp_path / "history").symlink_to(folders["history"])
    shutil.rmtree(folders["history"] / "fuchs" / INDEXES)  # it is read as for the first time
    save_csv(records("stream", "triad", 78e9), tmp_path / "records.csv")
    mine, theirs = os.openpty()
    try:
        ended = subprocess.run(
            [NPC, "report", "records.csv", "--history"], cwd=tmp_path, stdout=subprocess.PIPE, stderr=theirs,
            text=True, check=False,
        )  # fmt: skip
        assert ended.returncode == 0
        printed = os.read(mine, 65536).decode()
    finally:
        os.close(mine)
        os.close(theirs)
    assert ended.stdout.startswith("report.html: ") and "Time series" in ended.stdout
    assert "reading fuchs/2026-09.csv, 1 of 2" in printed and "section Roofline" in printed
    assert printed.endswith("\r\x1b[K"), "nothing is left on the line"


def test_damaged_verdicts_are_passed_over(tmp_path: Path) -> None:
    (tmp_path / "2026-10.csv").write_text(",".join(COLUMNS) + "\n" + rows("2026-10-01", [1, 2]))
    for text in (
        "{",
        "[]",
        '{"schema": 1, "series": [{"verdict": "FAIL"}, 3]}',
        '{"schema": 1}',
        '{"schema": 2}',
    ):
        (tmp_path / "verdict.json").write_text(text)
        history = read_history(tmp_path)
        assert [series.verdict for series in history.series] == [""]


# --- charts --------------------------------------------------------------------------------------------


@given(
    st.lists(st.floats(min_value=1e-9, max_value=1e15), min_size=1, max_size=40),
    st.sampled_from(["B/s", "s", "1"]),
    st.booleans(),
)
def test_axes_hold_all_values_with_few_rising_labels(values: list[float], unit: str, log: bool) -> None:
    axis = axes.quantity_axis("x", values, unit, log=log)
    assert all(0 <= axis.share(value) <= 1 for value in values)
    places = [axis.share(tick.value) for tick in axis.ticks]
    assert len(places) <= 12
    assert all(a < b for a, b in pairwise(places))
    assert all(-1e-9 <= place <= 1 + 1e-9 for place in places)


@given(st.lists(st.integers(min_value=0, max_value=2**32), min_size=1, max_size=30))
def test_size_axes_are_labelled_at_powers_of_two(sizes: list[int]) -> None:
    axis = axes.size_axis("size", sizes)
    assert all(0 <= axis.share(max(size, 0.5)) <= 1 for size in sizes)
    assert all(tick.value == 0.5 or tick.value.is_integer() for tick in axis.ticks)
    assert len(axis.ticks) <= 10


@given(
    st.integers(0, 4_000_000_000),
    st.lists(st.one_of(st.integers(0, 3600), st.integers(0, 10**5), st.integers(0, 4 * 10**8)), max_size=9),
)
def test_time_axes_hold_all_moments_with_few_labels_that_differ(begun: int, later: list[int]) -> None:
    moments = [float(begun + seconds) for seconds in (0, *later)]
    axis = axes.time_axis("x", moments)
    assert all(0 < axis.share(moment) < 1 for moment in moments)
    labels = [tick.label for tick in axis.ticks]
    assert 1 <= len(labels) <= 11 and len(set(labels)) == len(labels)
    assert all(0 <= axis.share(tick.value) <= 1 for tick in axis.ticks)


def test_dashes_are_seen_in_the_legend_beside_the_mark() -> None:
    for dashes in ((12.0, 2.0), (7.0, 2.5), (7.0, 2.5, 1.5, 2.5), (3.0, 2.0), (1.5, 2.0), (7.0, 3.0)):
        trace = charts.Trace(
            "t", "blue", lines=(((0, 0), (1, 1)),), marks=(charts.Mark(0, 0, ""),), dashes=dashes
        )
        chart = charts.Chart("c", "t", "", *[axes.quantity_axis("x", [1, 2], "s", log=False)] * 2, (trace,))
        (swatch,) = (entry.swatch for entry in svg.legend(chart))
        begun = float(re.findall(r'stroke-dashoffset="([^"]*)"', swatch)[0])
        gap = dashes[0] - begun, dashes[0] + dashes[1] - begun
        assert 0 < gap[0] < gap[1] < 10, "of 28, with 8 of the mark in the middle"


def test_shades_are_symmetrical_about_normal() -> None:
    assert RATIOS.depth(1.0) == 4
    assert [RATIOS.depth(ratio) for ratio in (0.3, 0.7, 0.85, 0.93, 0.96, 1.04, 1.07, 1.2, 1.5, 2)] == [
        0, 1, 2, 3, 4, 4, 5, 6, 7, 8,
    ]  # fmt: skip
    assert [name for name, _ in RATIOS.words()] == [*(f"h{n}" for n in range(9)), "none", "none crossed"]


def test_words_at_places_that_lie_on_each_other_are_said_once() -> None:
    def trace(name: str, x: float) -> charts.Trace:
        return charts.Trace(name, "blue", notes=(charts.Note(x, 5.0, name, True),))

    axis = axes.quantity_axis("", [1.0, 10.0], "1", log=False)
    chart = charts.Chart(
        "c", "t", "", axis, axis, (trace("first", 5.0), trace("lies on it", 5.1), trace("far", 9.0))
    )
    assert re.findall('class="note"[^>]*>([^<]+)<', svg.draw(chart)) == ["first", "far"]


def test_depths_of_counts_are_as_many_as_the_counts_or_six() -> None:
    assert count_scale(0, "").words() == [("n0", "0")]
    assert count_scale(2, "").words() == [("n0", "0"), ("n3", "1"), ("n6", "2")]
    assert count_scale(30, "").words()[1:3] == [("n1", "1 to 5"), ("n2", "6 to 10")]


def test_hosts_are_ordered_as_people_count() -> None:
    assert sorted(["n10", "n2", "a", "n1-b", "n1-a2"], key=natural) == ["a", "n1-a2", "n1-b", "n2", "n10"]


def test_a_record_of_a_metric_without_direction_is_shown_and_not_judged(tmp_path: Path) -> None:
    found: list[Record] = [
        replace(record, hosts=(host,))
        for host in ("a", "b")
        for record in records("himeno", "flop", 1e9, metric="flop")
    ]
    save_csv(found, tmp_path / "records.csv")
    report = Report(read_runs([tmp_path]), tmp_path)
    sections, absent = build(report)
    read = Page(render(report, sections, absent))
    assert "1 GFLOP" in read.inside["r0s0"]
