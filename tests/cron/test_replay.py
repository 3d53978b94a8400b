"""The past judged again: each night as `judge` says of the history that ends with it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from npc.cron.acceptance import Acceptance, Baseline, baselines_of
from npc.cron.acceptance_bands import bands_of
from npc.cron.commands.history import history, print_replay
from npc.cron.judge import judge_last_night, replay
from npc.cron.series import Panel, panel
from npc.cron.verdict import NightVerdict
from npc.files import read_lines
from npc.machine.platform import Platform
from npc.records.history import History, HistoryRow
from npc.records.journal import Journal
from npc.records.verdicts import Verdict
from tests.lab.in_process import npc
from tests.made.history import BEGUN, KEY, a_record

NIGHTS = 36
#: With the nights that are out of the ordinary, and those about an acceptance.
LOOKED_AT = (0, 4, 9, 12, 21, 24, 25, 27, 33, 35)
LATENCY = KEY._replace(case="tcp_lat", metric="latency")
LATE = KEY._replace(case="late")
BAND = bands_of(Platform(name="fuchs", bands={"qperf tcp_bw 64K": {"low": 0.7e9}}))


def moment(night: int) -> str:
    return (BEGUN + timedelta(days=night)).isoformat()


def eventful() -> list[HistoryRow]:
    """Four series on two of five nodes, n3 slow from night 20 on; one series begins late, one stays away,
    nights are lost, fail, are invalid, and are measured again."""
    rng = np.random.default_rng(5)
    points = []
    for t in range(NIGHTS):
        hosts = tuple(f"n{i}" for i in sorted(rng.permutation(5)[:2]))
        slow = 0.6 if t >= 20 and "n3" in hosts else 0.9 if t >= 20 else 1.0
        for key, level in ((KEY, 1e9 * slow), (KEY._replace(size=1024), 5e8), (LATENCY, 1e-5), (LATE, 2e9)):
            if (t in (4, 30) and key is KEY) or (key is LATE and not 12 <= t < 33):
                continue
            status = {9: "failed: gone", 27: "invalid: faster than the link"}.get(t, "ok")
            for again in (False, True)[: 2 if t % 7 == 0 else 1]:
                value = level * float(np.exp(0.01 * rng.standard_normal()))
                points.append(HistoryRow(key, f"night{t:03d}", moment(t), value, status, hosts, again))
    return points


def accepted(night: int, since: str, value: float | None) -> Acceptance:
    made = (datetime.fromisoformat(moment(night)) + timedelta(hours=6)).isoformat()
    return Acceptance(made, "root", "so it is", "*", {KEY: Baseline(value, since)})


def until(points: list[HistoryRow], night: int) -> Panel:
    return panel(point for point in points if point.run <= f"night{night:03d}")


@pytest.mark.parametrize("acceptances", [(), (accepted(24, "night020", 0.9e9), accepted(32, "", None))])
@pytest.mark.slow
def test_each_night_is_judged_as_if_it_were_the_last(acceptances: tuple[Acceptance, ...]) -> None:
    points = eventful()
    verdicts = set()
    processes = 1 + bool(acceptances)
    for t, night in enumerate(replay(panel(points), "fuchs", acceptances, BAND, processes=processes)):
        verdicts |= {series.verdict for series in night.series}
        if t not in LOOKED_AT:
            continue
        known = baselines_of(acceptance for acceptance in acceptances if acceptance.time < moment(t))
        assert night == judge_last_night(until(points, t), "fuchs", known, BAND), f"night {t}"
    assert t == NIGHTS - 1
    assert {Verdict.PASS, Verdict.MISSING, Verdict.INVALID, Verdict.FAIL} <= verdicts


def test_the_command_says_every_night_what_it_is_and_what_it_was_called_then(tmp_path: Path) -> None:
    levels = [*(1 + 0.01 * (t % 3) for t in range(40)), 0.7, 0.7, None]
    gone = {"value": None, "status": "failed: gone"}
    past = History(tmp_path / "fuchs")
    past.append(a_record(0, t, **({"value": 1e9 * v} if v else gone)) for t, v in enumerate(levels))
    Journal(past.folder).note("night41", "begun", folder="runs/15", words=[])
    Journal(past.folder).note("night41", "ended", verdict="PASS")
    words = ["--history", str(tmp_path), "--platform", "fuchs", "--replay"]
    replayed = CliRunner().invoke(history, words)
    assert replayed.exit_code == 0, replayed.output
    lines = replayed.output.splitlines()
    assert lines[0] == "night0  PASS (1 PASS)"
    at = lines.index("night41  DEGRADED, then PASS (1 DEGRADED)")
    words_of = "DEGRADED  qperf tcp_bw bandwidth 64 KiB nodes=2 runtime=2: 700 MB/s, usual 1.0"
    assert lines[at + 1].startswith(f"    {words_of}")
    assert lines[-1].endswith(": failed: gone") and lines[-2] == "night42  MISSING (1 MISSING)"
    verdicts = json.loads(CliRunner().invoke(history, [*words, "--json"]).output)
    assert [night["verdict"] for night in verdicts["nights"]][-3:] == ["WATCH", "DEGRADED", "MISSING"]
    night = verdicts["nights"][41]
    assert (night["run"], night["then"], night["counts"]["DEGRADED"]) == ("night41", "PASS", 1)
    assert night["series"][0]["value"] == 7e8 and not verdicts["nights"][0]["series"]


def test_a_night_that_has_not_ended_is_no_state_to_accept_and_has_no_verdict_yet(tmp_path: Path) -> None:
    """Its first records say less than all that it measures: here half of what is usual."""
    past = History(tmp_path / "made")
    past.append(a_record(0, t, value=1e9 * (1 + 0.01 * (t % 3)) / (2 if t >= 20 else 1)) for t in range(21))
    journal = Journal(past.folder)
    for t in range(19, 21):
        journal.note(f"night{t}", "begun", folder=f"runs/{t}", words=[])
    journal.note("night19", "ended", verdict="PASS")
    platform = tmp_path / "platforms/made"
    platform.mkdir(parents=True)
    (platform / "platform.xml").write_text("<jube/>\n")
    words: list[str | Path] = ["--platform", platform, "--history", tmp_path]
    for command in ("--replay",), ("--replay", "--json"), ():
        shown = npc("night", "history", *command, *words)
        assert shown.stderr == "left out: night20: this night has not ended\n"
        assert "night20" not in shown.stdout and (not command or "night19" in shown.stdout)
    refused = npc("night", "accept", *words, "--reason", "x", "--night", "night20")
    assert (refused.returncode, refused.stdout) == (1, "") and "night20 has not ended" in refused.stderr
    assert npc("night", "accept", *words, "--reason", "as bought").returncode == 0
    ((line, *_), _) = read_lines(past.folder / "accepted.jsonl")
    assert line["baselines"][0]["value"] == pytest.approx(1e9, rel=0.02)
    journal.note("night20", "ended", verdict="WATCH")
    shown = npc("night", "history", "--replay", *words)
    assert shown.stderr == "" and "night20  WATCH" in shown.stdout


def test_a_loss_is_seen_though_likwid_rounds_to_another_size_from_then_on(tmp_path: Path) -> None:
    """Another kernel variant: 399 360 of 400 000 bytes before, 399 936 since, and a fifth slower."""
    past = History(tmp_path / "fuchs")
    params = {"workgroup": "-W N:400kB:2", "threads": "2"}
    for day in range(30):
        slow = day >= 27
        past.append([
            a_record(
                day=day, benchmark="likwid", case="stream" if slow else "stream_avx", nodes=1, hosts=("n1",),
                size=399_936 if slow else 399_360, params=params,
                value=(0.8 if slow else 1.0) * (2e11 + 1e8 * (day % 3)),
            )
        ])  # fmt: skip
    words = ["--history", str(tmp_path), "--platform", "fuchs", "--replay", "--json"]
    *_, last = json.loads(CliRunner().invoke(history, words).output)["nights"]
    assert [(series["verdict"], series["size"]) for series in last["series"]] == [("DEGRADED", 400_000)]
    assert {record.size for record in past.records()} == {399_360, 399_936}


def test_the_document_of_a_replay_is_printed_night_by_night(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Half a year of five thousand rows a night has gigabytes: one night of it is held at a time."""
    nights = list(replay(panel(eventful()), "fuchs"))
    printed = []

    def verdicts() -> Iterator[NightVerdict]:
        for night in nights:
            yield night
            printed.append(capsys.readouterr().out)

    print_replay(History(tmp_path / "fuchs"), verdicts(), "*", True)
    assert [night.run in text for night, text in zip(nights, printed, strict=True)] == [True] * len(nights)
    document = json.loads("".join(printed) + capsys.readouterr().out)
    assert [night["run"] for night in document["nights"]] == [night.run for night in nights]


def test_no_night_is_an_empty_document(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    print_replay(History(tmp_path / "fuchs"), iter(()), "*", True)
    assert json.loads(capsys.readouterr().out)["nights"] == []
