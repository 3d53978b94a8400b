"""Whole studies on this machine, by JUBE: what is measured, what is kept, and going on after a kill."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections import Counter
from pathlib import Path

import pytest

from npc.observe.study.launches import runs_of
from npc.observe.study.records import Study, read_study
from npc.records.launch import read_launches
from npc.records.run import read_run
from tests.lab.jube_job import NPC, platform

pytestmark = pytest.mark.slow


def study(folder: Path, *words: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [NPC, "program", "study", *words],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=200,
    )


def launches(folder: Path) -> list[tuple[str, str]]:
    """When each launch began, and what became of it, of all JUBE runs."""
    logs = sorted(folder.glob("runs/*/*_study/work/launches"))
    return [(launch.started, launch.status) for log in logs for launch in read_launches(log).launches]


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Study, str]:
    """A study of a program that sleeps for a time which its environment says."""
    folder = tmp_path_factory.mktemp("study")
    sleeps = folder / "sleeps.sh"
    sleeps.write_text("#!/bin/sh\nexec sleep $SECONDS_TO_SLEEP\n")
    sleeps.chmod(0o755)
    words = ["--platform", str(platform(folder / "here", "here"))]
    words += ["--variable", "SECONDS_TO_SLEEP=0.4,0.1,fail", "--runs", "4", "--seed", "5"]
    words += ["--expect", "SECONDS_TO_SLEEP=0.1 >= 1.6 x SECONDS_TO_SLEEP=0.4"]
    words += ["--expect", "SECONDS_TO_SLEEP=0.1 >= 30 x SECONDS_TO_SLEEP=0.4"]
    ended = study(folder, *words, "--output", "sleeping", "--", "./sleeps.sh")
    assert ended.returncode == 6, ended.stderr
    return folder / "sleeping", read_study(folder / "sleeping"), ended.stdout


@pytest.mark.measures
def test_the_times_are_the_programs_without_its_launchers_start(done: tuple[Path, Study, str]) -> None:
    _, kept, said = done
    for each, slept in (("0.1", 0.1), ("0.4", 0.4)):
        (name,) = [c.name for c in kept.conditions if c.variables == {"SECONDS_TO_SLEEP": each}]
        assert slept <= min(kept.seconds(name)) < slept + 0.1, "the least is disturbed by nobody"
    assert [e.held for e in kept.expectations] == ["held", "not held"]
    assert kept.best[0].condition.endswith("=0.1")
    assert "1 node, 1 rank, 1 thread, SECONDS_TO_SLEEP=fail: 4 runs failed: exit code 1: " in said
    assert [run.seconds for run in kept.ran if run.condition.endswith("fail")] == [None] * 4


def test_the_launches_are_shuffled_and_each_is_a_fresh_process(done: tuple[Path, Study, str]) -> None:
    folder, kept, _ = done
    order = [run.condition for run in kept.ran]
    assert order != sorted(order) and Counter(order) == dict.fromkeys(order, 4)
    assert len(launches(folder)) == 12
    records = [r for r in read_run(folder) if r.ok and r.metric == "time"]
    assert len(records) == 8 and all((folder / r.raw).is_file() for r in records)
    worked = {run.condition for run in kept.ran if run.seconds}
    assert {r.params["condition"] for r in records} == worked


def test_the_folder_has_what_a_stranger_needs(done: tuple[Path, Study, str]) -> None:
    folder, kept, _ = done
    assert kept.command == (str(folder.parent / "sleeps.sh"),) and kept.folder == str(folder.parent)
    assert kept.seed == 5 and kept.version and len(kept.sha256) == 64
    assert all(e.time <= kept.ran[0].condition or e.time < launches(folder)[0][0] for e in kept.expectations)
    assert json.loads((folder / "environment.json").read_text())["npc"]
    assert (folder / "platforms/here/platform.xml").is_file()
    assert kept.platform_folder == str(folder.parent / "here"), "where what is best is remembered"


def test_what_was_done_is_not_done_again(done: tuple[Path, Study, str]) -> None:
    folder, _, _ = done
    before = launches(folder)
    ended = study(folder.parent, "resume", "sleeping")
    assert ended.returncode == 6 and launches(folder) == before
    again = study(folder.parent, "--output", "sleeping", "--", "true")
    assert again.returncode == 2 and "holds a study already: npc program study resume" in again.stderr


@pytest.mark.measures
def test_it_is_done_again_in_the_same_order_and_what_differs_is_said(done: tuple[Path, Study, str]) -> None:
    folder, kept, _ = done
    program = folder.parent / "sleeps.sh"
    program.write_text(program.read_text().replace("exec", "sleep 0.8; exec"))
    ended = study(folder.parent, "repeat", "sleeping")
    assert ended.returncode == 6, ended.stderr
    again = read_study(folder.with_name("sleeping-again"))
    assert [run.condition for run in again.ran] == [run.condition for run in kept.ran]
    said = ended.stdout[ended.stdout.index("beside ") :]
    assert f"program: {kept.sha256[:16]} → {again.sha256[:16]}" in said
    assert said.count("differs") == 2 and "2 of 2 conditions differ" in said
    assert "→ not held" in said, "the first expectation, with 0.8 s more on both sides"
    assert "platform.xml" not in said, "which are the same files"


def test_after_a_kill_it_goes_on_and_nothing_is_lost_or_measured_twice(tmp_path: Path) -> None:
    words = [NPC, "program", "study"]
    words += ["--variable", "X=1,2", "--runs", "3", "--no-observe", "--output", "killed", "--"]
    killed = subprocess.Popen(
        [*words, "sleep", "0.7"], cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        start_new_session=True,
    )  # fmt: skip
    folder = tmp_path / "killed"
    deadline = time.monotonic() + 60
    while len(launches(folder)) < 2 and time.monotonic() < deadline:
        time.sleep(0.05)
    killed.send_signal(signal.SIGKILL)
    killed.wait()
    # and what it had started, as a node that loses its power would
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal() and int(entry.name) != os.getpid():
            try:
                at_work = str((entry / "cwd").readlink()).startswith(str(folder))
                named = str(folder).encode() in (entry / "cmdline").read_bytes()
            except OSError:
                continue
            if at_work or named:
                os.kill(int(entry.name), signal.SIGKILL)
    before = launches(folder)
    assert 2 <= len(before) < 6
    ended = study(tmp_path, "resume", "killed")
    assert ended.returncode == 0, ended.stdout + ended.stderr
    after = launches(folder)
    assert after[: len(before)] == before, "what was there is as it was"
    assert Counter(run.condition for run in runs_of(folder)) == {
        "1 node, 1 rank, 1 thread, X=1": 3, "1 node, 1 rank, 1 thread, X=2": 3,
    }  # fmt: skip
    assert len(after) == 6
