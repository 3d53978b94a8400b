"""Launches in rounds: what is known is left out, what is wide goes on, and the log says what was to come."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

from npc.jobs.rounds import Rounds
from npc.parsers.run.collect import collect_run
from npc.records.launch import LAUNCHES, LeastKnownMedian, read_launches
from npc.records.reading import Reading
from npc.statistics.precision import Goal
from tests.lab.jube_job import NPC
from tests.lab.npb_job import Job

#: What a case's n-th launch measures: always the same, but for one launch, never the same twice.
VALUES = {
    "quiet": lambda n: 100.0,
    "outlier": lambda n: 150.0 if n == 3 else 100.0,
    "two": lambda n: 150.0 if n in (3, 8) else 100.0,
    "wide": lambda n: 100 + n**2,
}


def measured(
    names: Sequence[str], runs: Sequence[int | None], goal: Goal, seconds: float = 0.1
) -> tuple[list[tuple[str, int]], list[tuple[int, LeastKnownMedian | None]]]:
    """(case, sample) of each launch in order, and what was said of further rounds."""
    rounds = Rounds(runs, goal, "qperf")
    said: list[tuple[int, LeastKnownMedian | None]] = [(rounds.planned, None)]
    made = []
    for place, sample in rounds.turns(lambda *told: said.append(told), 7):
        made.append((names[place], sample))
        value = VALUES.get(names[place])
        reading = value and [Reading("tcp_lat", "latency", 1e-6 * value(sample))]
        rounds.tell(seconds, reading)
    return made, said


def test_each_case_gets_as_many_launches_as_it_needs_once_a_round() -> None:
    names = ["quiet", "outlier", "two", "wide", "broken", "twice"]
    made, said = measured(names, [None, None, None, None, None, 2], Goal(most=14))
    assert Counter(name for name, _ in made) == {
        "quiet": 6,
        "outlier": 10,
        "two": 14,
        "wide": 6,
        "broken": 6,
        "twice": 2,
    }
    order = [sample for _, sample in made]
    assert order == sorted(order), "a round ends before the next begins"
    assert len({tuple(name for name, sample in made if sample == number) for number in range(2)}) == 2
    assert said[0] == (32, None)
    planned, awaited = said[1]
    assert planned == 34 and awaited
    assert str(awaited) == "qperf tcp_lat ±50 % after 6, goal ±3 %"
    assert said[-1] == (len(made), None)


def test_a_case_that_takes_long_gets_no_more_than_six() -> None:
    made, said = measured(["outlier"], [None], Goal(case_s=12.0), seconds=2.0)
    assert len(made) == 6 and said == [(6, None)]


def test_only_the_size_and_the_numbers_that_matter_decide() -> None:
    """Of a bandwidth the best size alone; no percentile, and no test that the catalogue does not name."""
    rounds = Rounds([None], Goal(), "osu")
    made = 0
    for _, n in rounds.turns(lambda *_: None, None):
        made += 1
        rounds.tell(0.1, [
            Reading("osu_bw", "bandwidth", 1e9, 1 << 20),
            Reading("osu_bw", "bandwidth", 1e6 * (n + 1), 1),
            Reading("osu_latency", "latency", 1e-6, 1),
            Reading("osu_latency", "latency", 1e-5 * (n + 1), 1, params={"statistic": "p99"}),
            Reading("osu_something", "latency", 1e-5 * (n + 1)),
        ])  # fmt: skip
    assert made == 6


def test_without_numbers_the_time_of_the_launches_has_to_be_known() -> None:
    rounds = Rounds([None], Goal(), "raw")
    turns = [rounds.tell(9.0 if n == 3 else 1.0, []) for _, n in rounds.turns(lambda *_: None, None)]
    assert len(turns) == 6  # after 14 s
    rounds = Rounds([None], Goal(case_s=1e9), "raw")
    turns = [rounds.tell(9.0 if n == 3 else 1.0, []) for _, n in rounds.turns(lambda *_: None, None)]
    assert len(turns) == 10


#: A latency as qperf prints it, of the case and of the launch's number.
PRINTED = "n=1${NPC_LAUNCH##*/}; printf 'tcp_lat:\\n    latency  =  %d ns\\n' $(({nanoseconds}))"


@pytest.mark.slow
def test_npc_sample_stops_early_and_goes_on_late(tmp_path: Path) -> None:
    """Three cases in order, so that the first outlier is the third launch of a case."""
    cases = tmp_path / "cases.jsonl"
    of_case = {
        "quiet": "20000",
        "outlier": "20000 + 9000 * (n == 10007)",
        "two": "20000 + 9000 * (n == 10008 || n == 10019)",
    }
    cases.write_text(
        "".join(
            json.dumps({"name": name, "values": {"nanoseconds": value}}) + "\n"
            for name, value in of_case.items()
        )
    )
    out = tmp_path / "out"
    words = [
        "--tool",
        "qperf",
        "--samples-max",
        "14",
        "--cases",
        str(cases),
        "--in-order",
        "--output",
        str(out),
    ]
    job = Job(command=[str(NPC), "records", "sample", *words, "--", "sh", "-c", PRINTED])
    try:
        ended = job.wait(30)
    finally:
        job.kill()
    assert (ended.returncode, ended.stderr) == (0, "")
    folder = read_launches(out)
    assert Counter(launch.case for launch in folder.launches) == {"quiet": 6, "outlier": 10, "two": 14}
    assert (folder.planned, folder.awaited) == (30, None)
    records = collect_run(out)
    assert len(records) == 30 and all(record.ok for record in records), "what was left out is no failure"

    cut = tmp_path / "cut"
    cut.mkdir()
    lines = (out / LAUNCHES).read_text().splitlines(keepends=True)
    (cut / LAUNCHES).write_text("".join(lines[:21]))
    shutil.copytree(out / "raw", cut / "raw")
    killed = read_launches(cut)
    assert (len(killed.launches), killed.planned) == (19, 20)
    assert killed.awaited and str(killed.awaited) == "qperf tcp_lat ±45 % after 6, goal ±3 %"
    (missing,) = [record for record in collect_run(cut) if not record.ok]
    assert "1 of 20 launches were not made" in missing.status


@pytest.mark.parametrize("words", [["--runs", "some"], ["--samples-max", "5"], ["--precision", "0"]])
def test_what_cannot_be_asked_for_is_usage(tmp_path: Path, words: list[str]) -> None:
    from tests.lab.in_process import npc

    ended = npc("records", "sample", "--tool", "raw", "--output", tmp_path / "out", *words, "--", "true")
    assert ended.returncode == 2 and not (tmp_path / "out").exists()
