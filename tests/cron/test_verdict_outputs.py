"""A verdict as people, CI and Prometheus read it; whatever a tool's words are, the forms stay whole."""

from __future__ import annotations

import json
import os
import re
import shlex
import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from npc.columns import sentences
from npc.cron.drain import drain_line, to_drain
from npc.cron.judge import with_confirmed, with_lost
from npc.cron.matrix import chosen, part_of, too_few
from npc.cron.outputs import junit, table
from npc.cron.prometheus import textfile
from npc.cron.publish import write_verdict
from npc.cron.series import label
from npc.cron.verdict import NightVerdict, SeriesVerdict
from npc.records.series import Series
from npc.records.verdicts import NightSuspect, NodeFinding, PairMatrix, SlowSuspect, Verdict, read_night

KEY = Series("lab", "qperf", "tcp_bw", "bandwidth", 65536, 2, "{}")
BAD = SeriesVerdict(
    key=KEY, verdict=Verdict.DEGRADED, reason="worse in two of three nights", value=7.1e6, again=7.2e6,
    reference=2.4e7, effect=-0.7, direction="worse", since="20261120T023000Z", hosts=("n1", "n3"),
)  # fmt: skip
GOOD = SeriesVerdict(key=KEY._replace(case="tcp_lat", metric="latency", size=1), verdict=Verdict.PASS)
N3 = NightSuspect(
    kind="node", name="n3", nodes=("n3",), benchmarks=("qperf",), since="20261120T023000Z",
    evidence="slow in 4 of 4", chance=1e-6, score=5.0, named=True, slowdown=0.7, low=0.69, high=0.71,
)  # fmt: skip


def night(*series: SeriesVerdict, suspects: tuple[NightSuspect, ...] = ()) -> NightVerdict:
    return NightVerdict(
        platform="lab", run="20261121T023000Z", time="2026-11-21T02:30:00+00:00",
        verdict=max(judged.verdict for judged in series), series=series,
        suspects=suspects, rule=("the rule",),
    )  # fmt: skip


def samples(text: str) -> dict[str, dict[tuple[tuple[str, str], ...], float]]:
    """By metric and labels the values of a text in Prometheus' format, in which no labels stand twice."""
    metrics: dict[str, dict[tuple[tuple[str, str], ...], float]] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            values = metrics.setdefault(sample.name, {})
            place = tuple(sorted(sample.labels.items()))
            assert place not in values, f"twice, and Prometheus takes none of the file: {sample}"
            values[place] = sample.value
    return metrics


def test_the_table_names_the_bad_series_and_the_node() -> None:
    text = table(night(BAD, GOOD, suspects=(N3,)), ["a note"], drain=["scontrol …"])
    lines = text.splitlines()
    assert lines[0] == "lab, night 20261121T023000Z: DEGRADED (1 DEGRADED, 1 PASS); to blame: node n3"
    (place,) = (number for number, line in enumerate(lines) if line.startswith("DEGRADED"))
    row = " ".join("  ".join(lines[place : place + 4]).split())
    for cell in ("qperf tcp_bw", "7.1 MB/s", "7.2 MB/s", "24 MB/s", "-70.0%", "20261120T023000Z"):
        assert cell in row
    assert "worse in two of" in row and "three nights" in row
    assert "tcp_lat" not in text, "what is as always is counted only"
    assert (
        "note: a note" in lines
        and lines[-3:-1] == ["to drain:", "  scontrol …"]
        and lines[-1] == "rule: the rule"
    )


def test_prometheus_never_finds_half_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """node_exporter reads every name that ends in .prom, hidden ones too, while a night is written."""
    synced: list[str] = []
    sync = os.fsync

    def fsync(descriptor: int) -> None:
        synced.extend(path.name for path in (tmp_path / "textfiles").iterdir())
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    (tmp_path / "textfiles").mkdir()
    for _ in range(2):
        write_verdict(tmp_path, night(GOOD), (), textfiles=tmp_path / "textfiles")
    assert {name for name in synced if name.endswith(".prom")} == {"npc-lab.prom"}
    assert len(set(synced)) > 1, "it was seen while it was written"


def test_prometheus_gets_no_labels_twice() -> None:
    """A node that is slow in one benchmark and fails in another; two sizes with the same words."""
    sizes = [replace(GOOD, key=KEY._replace(size=size), value=float(size)) for size in (1_000_000, 1_000_448)]
    assert len({label(series.key) for series in sizes}) == 1
    judged = night(BAD, *sizes, suspects=(N3, replace(N3, slowdown=None)))
    metrics = samples(textfile(judged, 1.5))
    assert list(metrics["npc_suspect_slowdown"].values()) == [1.0], "that it fails is worse"
    values = {dict(labels)["size"]: value for labels, value in metrics["npc_series_value"].items()}
    assert values == {"1000000": 1e6, "1000448": 1000448.0, "65536": 7.1e6}
    assert list(metrics["npc_night_verdict"].values()) == [13.0]


@given(
    st.sets(
        st.builds(
            Series,
            platform=st.sampled_from(["lab", "old"]),
            benchmark=st.sampled_from(["a", "a b"]),
            case=st.sampled_from(["", "b", "b bandwidth"]),
            metric=st.just("bandwidth"),
            size=st.sampled_from([None, 1_000_000, 1_000_448]),
            nodes=st.integers(1, 2),
            params=st.sampled_from(["{}", '{"nodes": "2"}', '{"x": "1 y=2"}', '{"x": "1", "y": "2"}']),
        ),
        min_size=2, max_size=40,
    )
)  # fmt: skip
def test_no_series_hides_another_from_prometheus(keys: set[Series]) -> None:
    """Each has a line of its own, though several of them are the same in words."""
    judged = night(*(replace(GOOD, key=key, value=float(i)) for i, key in enumerate(sorted(keys, key=repr))))
    metrics = samples(textfile(judged, 1.5))
    assert sorted(metrics["npc_series_value"].values()) == [float(i) for i in range(len(keys))]
    assert len(metrics["npc_series_verdict"]) == len(keys)


names = st.sampled_from(["n1", "n2", "n\udcff", "n\\udcff", "n1\n"])
made_suspects = st.builds(
    NightSuspect, kind=st.sampled_from(["node", "link", "rack"]), name=names, nodes=st.just(("n1",)),
    benchmarks=st.just(("qperf",)), since=st.just(""), evidence=st.just("slow in 2 of 3"),
    chance=st.just(1e-6), score=st.just(5.0), named=st.booleans(),
    slowdown=st.sampled_from([None, 0.1, 0.7]), low=st.none(), high=st.none(),
    role=st.sampled_from(["", "sender"]), device=st.sampled_from(["", "gpu 3"]),
    runs=st.sampled_from([("a",), ("a", "b")]),
)  # fmt: skip
made_series = st.builds(
    SeriesVerdict, verdict=st.sampled_from(Verdict), reason=st.sampled_from(["", "worse", "gone\nand lost"]),
    value=st.sampled_from([None, 0.0, 7e6]), hosts=st.sampled_from([(), ("n1", "n3")]),
    key=st.builds(
        KEY._replace, size=st.sampled_from([None, 1_000_000, 1_000_448]), case=st.sampled_from(["", "a", "b"])
    ),
)  # fmt: skip
findings = st.builds(
    NodeFinding, node=names, device=st.sampled_from(["", "gpu 3"]), case=st.just("stream triad bandwidth"),
    slowdown=st.just(0.06), spread=st.just(0.01), rank=st.just(1), members=st.just(100), since=st.just("a"),
    new=st.booleans(),
)  # fmt: skip


@given(
    st.lists(made_series, max_size=5, unique_by=lambda judged: judged.key),
    st.lists(made_suspects, max_size=5),
    st.lists(findings, max_size=2),
    st.dictionaries(names, st.just("gone"), max_size=2),
)
def test_any_night_is_as_bad_in_all_its_outputs_and_gives_prometheus_no_labels_twice(
    series: list[SeriesVerdict], suspects: list[NightSuspect], found: list[NodeFinding], lost: dict[str, str]
) -> None:
    good = replace(night(GOOD), series=tuple(series), suspects=tuple(suspects), findings=tuple(found))
    judged = with_lost(good, lost)
    suite = ET.fromstring(junit(judged).partition("\n")[2])
    red = int(suite.get("failures", 0)) + int(suite.get("errors", 0))
    assert bool(red) == bool(judged.exit_code)
    names_of_suspects = [
        case.get("name") for case in suite.iter("testcase") if ".suspects" in str(case.attrib)
    ]
    assert len(names_of_suspects) == len(suspects)
    metrics = samples(textfile(judged, 1.5))
    assert list(metrics["npc_night_verdict"].values()) == [judged.exit_code]
    assert len(metrics.get("npc_series_verdict", ())) == len(series)
    printed = table(judged)
    assert "\ufffd" not in printed.replace("n\ufffd", "") and printed.endswith("\n")
    printed.encode()


def test_a_node_that_is_named_and_one_who_is_unlike_its_fleet_are_test_cases() -> None:
    """As JUnit reads it: no series is bad, one node among hundreds is, and another always was."""
    named = replace(N3, runs=("20261120T023000Z", "20261121T023000Z"))
    once, perhaps = replace(N3, name="n4", runs=named.runs[:1]), replace(N3, name="n5", named=False)
    finding = NodeFinding(
        node="n7", case="stream triad bandwidth", slowdown=0.06, spread=0.01, rank=1, members=100, since="a"
    )
    judged = with_lost(replace(night(GOOD, suspects=(named, once, perhaps)), findings=(finding,)), {})
    assert judged.verdict is Verdict.DEGRADED
    suite = ET.fromstring(junit(judged).partition("\n")[2])
    assert (suite.get("tests"), suite.get("failures")) == ("5", "1")
    (failure,) = suite.iter("failure")
    assert failure.get("type") == "DEGRADED" and "to blame: node n3" in str(failure.get("message"))
    passed = {case.get("name"): case.findtext("system-out") for case in suite.iter("testcase")}
    assert "slow in 4 of 4" in str(passed["node n4"]) and str(passed["node n5"]).startswith("perhaps: ")
    assert "number 1 of 100 from below" in str(passed["node n7"])


def test_a_night_that_measured_nothing_is_red_as_junit_reads_it() -> None:
    nothing = replace(night(GOOD), series=(), failures={"qperf": ("failed: no node is free",)})
    judged = with_lost(nothing, {})
    suite = ET.fromstring(junit(judged).partition("\n")[2])
    (failure,) = suite.iter("failure")
    assert failure.get("type") == "MISSING" and "no node is free" in str(failure.text)


@pytest.mark.parametrize("columns", [40, 80, 100])
def test_a_row_that_is_folded_stands_in_lines_of_text(columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """What cron mails: every character of NPC's own tables is there as it is, and of a tool's words none
    begins a line or is no text."""
    monkeypatch.setenv("COLUMNS", str(columns))
    own = "–→·×±µστ≤≥…½Δ²é"
    key = KEY._replace(params=json.dumps({"tool": "a long parameter", "words": own, "interface": "ib0"}))
    reason = f"worse in two of three nights {own}, which is a long reason for a long line that is folded"
    judged = night(replace(BAD, key=key, reason=reason), suspects=(replace(N3, evidence=own),))
    drain = drain_line("n3", f"NPC {judged.run}: 70% slower, " + "x" * 90)
    shown = table(judged, drain=[drain])
    with monkeypatch.context() as terminal:
        terminal.setattr("sys.stdout.isatty", lambda: True)
        on_terminal = sentences(shown)
    assert f"\n  {drain}\n" in on_terminal, "to be copied"
    rows = "verdict" + shown.partition("\nverdict")[2].partition("\n\n")[0]
    assert "DEGRADED" in rows and rows in on_terminal, "a table stays one"
    printed = table(judged, ["slurmd said:\n\tgone\udcff\x1b[2J", own])
    lines = printed.split("\n")
    assert max(len(line) for line in lines if line.startswith(("DEGRADED", " "))) <= columns
    assert printed.count("\ufffd") == 2 and "note: slurmd said: gone\ufffd\ufffd[2J" in lines
    assert printed.count(own) >= 3 and printed.encode().decode() == printed


def test_prometheus_gets_no_labels_twice_where_two_texts_are_escaped_alike() -> None:
    lost = with_lost(night(GOOD), {"n\udcff": "gone", "n\\udcff": "gone"})
    assert len(samples(textfile(lost, 0.0))["npc_node_lost"]) == 1


def test_prometheus_reads_what_is_no_text(tmp_path: Path) -> None:
    write_verdict(tmp_path, with_lost(night(GOOD), {"n\udcff\n": "gone"}), ())
    metrics = samples((tmp_path / "verdict.prom").read_text(encoding="utf-8"))
    assert metrics["npc_node_lost"] == {(("node", "n\\udcff\n"), ("platform", "lab")): 1.0}


def test_a_lost_node_is_the_first_line_and_fails_the_night() -> None:
    judged = with_lost(night(GOOD), {"n2": "Connection timed out"})
    assert (judged.verdict, judged.exit_code) == (Verdict.MISSING, 11)
    first = "lab, night 20261121T023000Z: MISSING (series: 1 PASS); lost node n2: Connection timed out"
    assert table(judged).splitlines()[0] == first
    assert with_confirmed(judged, ()).verdict is Verdict.MISSING
    assert with_lost(night(BAD), {"n2": "down*"}).verdict is Verdict.DEGRADED, "the worst counts"
    suite = ET.fromstring(junit(judged).partition("\n")[2])
    assert (suite.get("tests"), suite.get("failures")) == ("2", "1")
    assert suite.find("testcase[@name='n2']/failure") is not None
    assert samples(textfile(judged, 0.0))["npc_node_lost"] == {(("node", "n2"), ("platform", "lab")): 1.0}


@given(st.text(max_size=40), st.text(max_size=40))
def test_whatever_a_tool_said_the_forms_stay_whole(words: str, name: str) -> None:
    key = KEY._replace(case=name, params=json.dumps({"p": words}))
    judged = night(
        replace(BAD, key=key, reason=words), replace(GOOD, verdict=Verdict.INVALID, reason=words), GOOD
    )
    suite = ET.fromstring(junit(judged, [words]))
    assert [child.tag for case in suite.iter("testcase") for child in case] == ["failure", "error"]
    assert (suite.get("tests"), suite.get("failures"), suite.get("errors")) == ("3", "1", "1")
    metrics = samples(textfile(judged, 1.5))
    assert {dict(labels)["series"] for labels in metrics["npc_series_verdict"]} == {
        label(series.key) for series in judged.series
    }
    printed = table(judged, [words])
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]", printed)
    assert sum(line.startswith(("DEGRADED", "INVALID")) for line in printed.split("\n")) >= 2


def test_all_files_of_a_night_are_written(tmp_path: Path) -> None:
    collector = tmp_path / "textfile"
    collector.mkdir()
    judged = night(BAD, suspects=(N3,))
    written = write_verdict(tmp_path, judged, ["a note"], None, collector)
    assert read_night(tmp_path / "verdict.json") == written
    assert read_night(tmp_path / "verdicts" / f"{judged.run}.json") == written
    assert (written.verdict, written.exit_code, written.notes) == (Verdict.DEGRADED, 13, ("a note",))
    names = {path.name for path in tmp_path.rglob("*") if path.is_file()}
    assert names == {"verdict.json", f"{judged.run}.json", "verdict.xml", "verdict.prom", "npc-lab.prom"}
    assert (collector / "npc-lab.prom").read_text() == (tmp_path / "verdict.prom").read_text()


def test_the_matrix_decides_whom_to_drain_and_without_one_the_history_does() -> None:
    judged = night(BAD, suspects=(N3, replace(N3, name="n4", named=False)))
    assert to_drain(judged, None) == {"n3": "NPC 20261121T023000Z: 70% slower"}
    pairs = PairMatrix(nodes=("n1", "n3"), suspects=("n3",), problem="5 nodes at least")
    assert set(to_drain(judged, pairs)) == {"n3"}
    fails = replace(N3, name="n4", slowdown=None)
    reasons = to_drain(night(BAD, suspects=(N3, fails, replace(N3, slowdown=0.1))), None)
    assert list(reasons.items()) == [
        ("n3", "NPC 20261121T023000Z: 70% slower"), ("n4", "NPC 20261121T023000Z: fails")
    ]  # fmt: skip
    innocent = PairMatrix(nodes=("n1", "n3"), suspects=("n3",), pairs=9)
    assert to_drain(judged, innocent) == {}
    n1 = SlowSuspect(kind="node", name="n1", nodes=("n1",), slowdown=None, evidence="", series="")
    assert to_drain(judged, msgspec.structs.replace(innocent, slow=(n1,))) == {
        "n1": "NPC 20261121T023000Z: does not answer"
    }
    sends = msgspec.structs.replace(n1, slowdown=0.7, role="sender")
    weaker = msgspec.structs.replace(sends, slowdown=0.1, role="receiver")
    assert to_drain(judged, msgspec.structs.replace(innocent, slow=(sends, weaker))) == {
        "n1": "NPC 20261121T023000Z: 70% slower as sender"
    }
    assert "node n1 as sender 70.0% slower" in str(msgspec.structs.replace(innocent, slow=(sends,)))
    line = drain_line("n3", "NPC: 70% slower")
    assert line == "scontrol update nodename=n3 state=drain 'reason=NPC: 70% slower'"


def test_whom_the_history_suspects_and_the_matrix_names_is_to_blame() -> None:
    perhaps = replace(N3, name="n4", nodes=("n4",), named=False, rivals=("everything",))
    judged = night(BAD, suspects=(replace(N3, named=False), perhaps))
    both = with_confirmed(judged, {("node", frozenset({"n4"})), ("node", frozenset({"n1"}))})
    assert [(suspect.name, suspect.named, suspect.rivals) for suspect in both.suspects] == [
        ("n4", True, ()),
        ("n3", False, N3.rivals),
    ]
    assert "to blame: node n4" in table(both).splitlines()[0]
    assert "confirmed by its pairs" in table(both)
    assert with_confirmed(judged, {("node", frozenset({"n1"})), ("link", frozenset({"n4"}))}) == judged
    link = replace(perhaps, kind="link", name="n4–n5", nodes=("n4", "n5"))
    assert with_confirmed(night(BAD, suspects=(link,)), {("link", frozenset({"n5", "n4"}))}).suspects[0].named
    healthy = night(GOOD, suspects=(replace(perhaps, runs=("a", "b")),))
    assert (healthy.verdict, with_confirmed(healthy, {("node", frozenset({"n4"}))}).verdict) == (
        Verdict.PASS,
        Verdict.DEGRADED,
    )


def test_where_nights_know_too_few_nodes_it_is_said_what_would_tell() -> None:
    idle = ("n2", "n4", "n5", "n6")
    sentence = too_few(part_of(("n1", "n3"), idle, night(BAD)), Path("/site/lab"))
    line = shlex.split(sentence.partition("tell who it is: ")[2])
    assert line[:4] == ["npc", "characterise", "--platform", "/site/lab"]
    assert {"nodelist=n1,n3,n2,n4,n5,n6", "pairs_nodes=6"} <= set(line)
    sentence = too_few(part_of(("n1", "n3"), (), night(BAD)), Path("/site/lab"))
    assert "npc night run --each-node" in sentence and "characterise" not in sentence


def test_witnesses_are_healthy_nodes_measured_last() -> None:
    from npc.records.history import HistoryRow

    def point(hour: int, *hosts: str) -> HistoryRow:
        return HistoryRow(KEY, "r", f"2026-11-20T{hour:02d}:00:00+00:00", 1.0, "ok", hosts, False)

    points = [point(hour, f"n{hour}", f"n{hour + 1}") for hour in range(1, 9)]
    suspects, witnesses = chosen(night(BAD), points)
    assert (suspects, witnesses) == (("n1", "n3"), ("n9", "n8", "n7", "n6"))
    suspects, witnesses = chosen(night(BAD, suspects=(N3,)), points)
    assert (suspects, len(witnesses)) == (("n3",), 5)
    gone = chosen(night(BAD), points, {"n3": "down*", "n9": "drained"})
    assert gone == (("n1",), ("n8", "n7", "n6", "n5", "n4")), "who is down is asked nothing"
    assert chosen(night(BAD), points[:2]) == (("n1", "n3"), ()), "too few to compare"
    assert chosen(night(GOOD), points) == ((), ())
    perhaps = replace(N3, named=False, grave=True, benchmarks=("qperf rc_bw bandwidth", "stream bandwidth"))
    part = part_of(("n3",), ("n1",), night(GOOD, suspects=(perhaps,)))
    assert "pairs_client=qperf HOSTNAME -lp PORT -t 1 -uu -vu -m 64K rc_bw" in part.words
    between = replace(GOOD, key=KEY._replace(case="rc_bw"))
    assert chosen(night(between, suspects=(perhaps,)), points)[0] == ("n3",), "no median is bad"
    alone = replace(GOOD, key=KEY._replace(case="rc_bw", nodes=1))
    assert chosen(night(alone, suspects=(perhaps,)), points) == ((), ()), "its pairs would tell nothing"
    failing = replace(N3, slowdown=None)
    assert chosen(night(GOOD, suspects=(failing,)), points) == ((), ())


def test_a_thousand_nodes_that_were_lost_at_once_are_one_short_line() -> None:
    names = [f"n{number:04}" for number in range(1, 1001)]
    lost = {**dict.fromkeys(names, "no power"), "login": "silent"}
    gone = NightVerdict(platform="p", run="x", time="", verdict=Verdict.MISSING, series=(), lost=lost)
    matrix = PairMatrix(nodes=tuple(names), suspects=("n0001",))
    assert table(gone, matrix=matrix).splitlines() == [
        "p, night x: MISSING (no series); lost nodes n[0001-1000]: no power; lost node login: silent",
        "",
        "pairs of n[0001-1000]: none is slower than the others now (0 measurements)",
    ]
