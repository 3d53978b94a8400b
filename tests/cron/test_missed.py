"""What a night misses: what it could have measured, and most of the nights before it did."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest
from click.testing import CliRunner

from npc.cron.agenda import Agenda
from npc.cron.commands.history import history
from npc.cron.judge import replay
from npc.cron.node_parts import NodeRotation
from npc.cron.rotation import NODES, WorkItem
from npc.cron.series import panel
from npc.cron.verdict import NightVerdict
from npc.records.history import History, HistoryRow
from npc.records.journal import Journal, NightPlan
from npc.records.series import Series
from npc.records.verdicts import Verdict
from tests.made.history import a_record
from tests.paths import ROOT

BEGUN = datetime(2026, 1, 1, tzinfo=timezone.utc)
#: Which application ran when on Perlmutter: A is AMG2023, n is nanoGPT. From the run times of
#: https://github.com/hpcgroup/perf-variability-ipdps26 (December 2024 to April 2025).
PERLMUTTER = (
    "AAnAAnAnAnAnAnAnAnAnAnAnAnAnAnAnAnAnAnAnAnAnAnAnAnAnAnAnAnAnAnAnAnAnAnAnAnAnAnAnAnAnAnAnAnAnAnAnAnA"
    "nAnAnAnAnAAnnAAnnAnAnAnAnAnAnAnAnAnAnAnAnAAAAAAAAAAAAAAAAnAnAnAnAnAnAnAnAnAnAAnAnAnAnAnAnAnnnnnnnnnn"
)


def row(night: int, benchmark: str, case: str = "run", status: str = "ok") -> HistoryRow:
    key = Series("fuchs", benchmark, case, "time", None, 1, "{}")
    if status != "ok":  # nothing was measured, so nobody knows which series it would have been
        key = key._replace(case="")
    value = 1.0 if status == "ok" else None
    time = (BEGUN + timedelta(days=night)).isoformat()
    return HistoryRow(key, f"night{night:03d}", time, value, status, ("n1",), False)


def nights(
    rows: Sequence[HistoryRow], plans: Mapping[int, Sequence[str]] | None = None
) -> list[NightVerdict]:
    """The verdict on every night. plans: by number of the night the benchmarks that it was to measure."""
    known = {f"night{night:03d}": NightPlan(frozenset(names)) for night, names in (plans or {}).items()}
    return list(replay(panel(rows, plans=known), "fuchs"))


def missing(night: NightVerdict) -> set[str]:
    """The benchmarks and cases that a night misses."""
    return {f"{s.key.benchmark} {s.key.case}" for s in night.series if s.verdict is Verdict.MISSING}


def test_two_applications_that_take_turns_are_not_missed() -> None:
    """Real nights; six in a row of one alone, and the end of the other, are all that looks like a loss."""
    case = {"A": "AMG2023", "n": "nanoGPT"}
    judged = nights([row(t, "app", case[letter]) for t, letter in enumerate(PERLMUTTER)])
    assert sum(bool(missing(night)) for night in judged) <= 5
    turns = nights([row(t, ("hpl", "stream")[t % 2]) for t in range(30)])
    assert not any(map(missing, turns)), "two benchmarks, too"


def test_what_dies_is_missed_until_somebody_accepts_it() -> None:
    rows = [row(t, "stream") for t in range(60)] + [row(t, "hpl") for t in range(30)]
    judged = nights(rows)
    assert not any(map(missing, judged[:30]))
    assert all(missing(night) == {"hpl run"} for night in judged[30:])


def test_a_case_that_dies_is_missed_though_its_benchmark_goes_on() -> None:
    rows = [row(t, "osu", "latency") for t in range(30)] + [row(t, "osu", "bw") for t in range(20)]
    assert [missing(night) for night in nights(rows)] == [set()] * 20 + [{"osu bw"}] * 10


def test_a_series_of_one_night_alone_is_not_missed() -> None:
    rows = [row(t, "stream") for t in range(30)] + [row(12, "hpl")]
    assert not any(map(missing, nights(rows)))


def test_what_a_night_did_not_plan_is_not_missed() -> None:
    plans = {t: ["stream", "hpl"] for t in range(20)} | {t: ["stream"] for t in range(20, 30)}
    rows = [row(t, "stream") for t in range(30)] + [row(t, "hpl") for t in range(20)]
    assert not any(map(missing, nights(rows, plans)))


@pytest.mark.parametrize("failures", [False, True])
def test_what_was_planned_and_not_delivered_is_missed_however_seldom_it_is_planned(failures: bool) -> None:
    """A benchmark whose turn comes every third night: it dies at night 15, with a record of it or without."""
    turn = range(0, 30, 3)
    plans = {t: ["stream", *(["hpl"] if t in turn else [])] for t in range(30)}
    rows = [row(t, "stream") for t in range(30)] + [row(t, "hpl") for t in turn if t < 15]
    rows += [row(t, "hpl", status="failed: no job") for t in turn if t >= 15 and failures]
    judged = nights(rows, plans)
    assert [t for t, night in enumerate(judged) if missing(night)] == [15, 18, 21, 24, 27]
    reasons = {series.reason for series in judged[15].series if series.verdict is Verdict.MISSING}
    assert reasons == {"failed: no job" if failures else "measured before, not tonight"}


def test_what_fails_is_missed_without_a_plan_however_seldom_it_runs() -> None:
    turn = range(0, 30, 3)
    rows = [row(t, "stream") for t in range(30)] + [row(t, "hpl") for t in turn if t < 15]
    rows += [row(t, "hpl", status="failed: no job") for t in turn if t >= 15]
    assert [t for t, night in enumerate(nights(rows)) if missing(night)] == [15, 18, 21, 24, 27]


def test_what_was_measured_once_and_then_fails_is_missed() -> None:
    rows = [row(0, "stream"), row(0, "hpl"), row(1, "stream"), row(1, "hpl", status="failed: no job")]
    assert [missing(night) for night in nights(rows)] == [set(), {"hpl run"}]


def test_what_the_budget_left_out_is_not_missed_and_a_night_without_anything_does_not_pass() -> None:
    rows = [row(t, "stream") for t in range(12)]
    last = "night012", (BEGUN + timedelta(days=12)).isoformat()
    for plan, counted in (
        (NightPlan(frozenset(["stream"])), {"stream run"}),
        (NightPlan(frozenset(["stream"]), frozenset(["stream"])), set()),
        (NightPlan(None, frozenset(["stream"])), set()),
    ):
        *_, night = replay(panel(rows, last, {"night012": plan}), "fuchs")
        assert (missing(night), night.verdict) == (counted, Verdict.MISSING)


def test_the_journal_says_what_a_night_planned(tmp_path: Path) -> None:
    """Of two nights without hpl only the one that was to measure it misses it."""
    past = History(tmp_path / "fuchs")
    journal = Journal(past.folder)
    for day in range(14):
        names = ["stream"] if day >= 12 else ["stream", "hpl"]
        past.append(a_record(day=day, benchmark=name, hosts=("n1",)) for name in names)
        journal.note(f"night{day}", "begun", folder=f"runs/{day}", words=[])
        journal.note(f"night{day}", "planned", benchmarks=["stream"])
        if day != 12:
            journal.note(f"night{day}", "planned", benchmarks=["hpl"])
        journal.note(f"night{day}", "ended", verdict="PASS")
    words = ["--history", str(tmp_path), "--platform", "fuchs", "--replay", "--json"]
    judged = json.loads(CliRunner().invoke(history, words).output)["nights"]
    assert [night["verdict"] for night in judged[-3:]] == ["PASS", "PASS", "MISSING"]


def test_the_agenda_knows_the_benchmarks_that_it_plans(tmp_path: Path) -> None:
    def planned(*words: str, **how: object) -> Agenda:
        platform, past = ROOT / "platforms/localhost", History(tmp_path)
        return Agenda(platform=platform, history=past, words=words, **how)  # type: ignore[arg-type]

    alone = planned("--benchmark", "stream")
    alone.whole_suite()
    assert alone.planned == {"stream"}
    suite = planned("--tag", "network")
    suite.whole_suite()
    assert {"qperf", "osu"} <= suite.planned and "hpl" not in suite.planned
    unknown = planned("--benchmark", "no-such-benchmark")
    assert unknown.whole_suite() and not unknown.planned
    budget = planned("--tag", "network", budget_s=1e9)
    assert not budget.whole_suite()
    budget.plan_tonight()
    assert {"qperf", "osu"} <= budget.planned
    rotation = planned(rotation=NodeRotation(benchmarks=("stream",)))
    rotation.follow([WorkItem(name=NODES, nodes=("n1",)), WorkItem(name=NODES, nodes=("n2", "n3"))], {})
    assert rotation.planned == {"stream", "pairs"}
