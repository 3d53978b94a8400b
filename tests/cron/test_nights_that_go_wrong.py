"""Nights on a real Slurm cluster that something goes wrong in: a dead node, a failed job, a limit, a stop, a
crash, two at once, a full disk."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from npc.records.history import INDEXES, History
from npc.records.record import Record, replace
from tests.lab.cluster import Cluster, until
from tests.lab.jube_job import NPC
from tests.lab.night_site import ONCE, NightSite, whole, write_earlier
from tests.made.nights import CLIENT
from tests.paths import ROOT

pytestmark = [pytest.mark.slow, pytest.mark.slurm]

LINK_MBIT = 200.0


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(nodes=6, extra_conf={"SlurmdTimeout": "5"}) as six:
        for node in six.nodes:
            six.shape(node, LINK_MBIT)
        yield six


@pytest.fixture
def site(cluster: Cluster, tmp_path: Path) -> NightSite:
    return NightSite(cluster, tmp_path)


def test_a_node_that_dies_in_a_night_is_its_first_line_and_nothing_waits_for_it(site: NightSite) -> None:
    """A band that nothing meets has the night measure again and ask the pairs: without the dead node."""
    assert site.night("n3,n4")[0] == 0
    write_earlier(site, ["n5,n6"])
    platform = site.folder / "slurm"
    shutil.copytree(ROOT / "platforms/slurm", platform)
    (platform / "platform.toml").write_text('[bands]\n"iperf3 tcp bandwidth *" = { low = 1e30 }\n')
    dies = site.cluster.popen(
        "head",
        [
            NPC, "night", "run", "--platform", platform, "--benchmark", "iperf3", "--set", "samples=3",
            "--set", "nodelist=n1,n2", "--limit", "150s", "--history", site.folder / "history",
            "--output", site.folder / "runs",
        ],
        text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=ONCE,
    )  # fmt: skip

    def launched() -> bool:
        logs = (site.folder / "runs").glob("*/first/0*/*_iperf3/work/launches/launches.jsonl")
        return any(len(log.read_text().splitlines()) > 1 for log in logs)

    until(launched, "the first launch of three has ended", 60)
    site.cluster.kill_node("n2")
    try:
        printed, words = dies.communicate(timeout=200)
    finally:
        site.cluster.start_slurmd("n2")
        site.cluster.await_idle(limit_s=60)
    verdict = json.loads((site.history / "verdict.json").read_text())
    assert dies.returncode == 14, words
    first = printed.partition("\n")[0]
    assert re.fullmatch(r"slurm, night \S+: FAIL \(.*\); lost node n2: .*", first), printed
    assert "ok" in {record.status for record in site.records() if record.run == verdict["run"]}
    assert list(verdict["lost"]) == ["n2"]
    assert "not measured again: n1, n2: n2 is " in "\n".join(verdict["notes"])
    assert set(verdict["pairs"]["nodes"]) == {"n1", "n3", "n4", "n5", "n6"}, verdict["pairs"]
    assert not verdict["pairs"]["problem"]
    assert [part.part.kind for part in site.nights()[-1].parts.values()] == ["first", "pairs"]


def test_a_job_that_fails_is_a_result(site: NightSite) -> None:
    assert site.night("n1,n2")[0] == 0
    code, verdict = site.night("n1,n2", client="qperf HOSTNAME -t 1 no_such_test")
    assert (code, verdict["verdict"]) == (11, "MISSING")
    assert "no_such_test" in repr(verdict["failures"]["qperf"])
    code, verdict = site.night("n1,n9")
    assert (code, verdict["verdict"]) == (11, "MISSING")
    assert "Invalid node name specified" in repr(verdict["failures"]["qperf"]), "sbatch's own words"
    assert {record.run for record in whole(site)} == {night.name for night in site.nights()}


def test_a_night_ends_by_its_limit_and_leaves_no_job_behind(site: NightSite) -> None:
    began = time.monotonic()
    code, verdict = site.night("n1,n2", "--limit", "30s", client=CLIENT.replace("-t 1", "-t 50"))
    assert time.monotonic() - began < 120
    assert (code, verdict["verdict"]) == (11, "MISSING")
    assert {record.status.partition(":")[0] for record in whole(site)} == {"failed"}
    assert any("did not end in" in note and "cancelled: job" in note for note in verdict["notes"])
    assert verdict["lost"] == {}, "a job that is cancelled loses no node"
    left = ["squeue", "--noheader", "--format=%i %T"]
    until(lambda: site.cluster.run("head", left).stdout == "", "its job has been cancelled", 30)


def test_a_night_that_is_told_to_end_has_the_interrupted_launch_in_its_history(site: NightSite) -> None:
    stopped = site.start("n1,n2", CLIENT.replace("-t 1", "-t 50"))

    def measures() -> bool:
        commands = (process.info["cmdline"] or [] for process in psutil.process_iter(["cmdline"]))
        return any(words[:1] == ["qperf"] and "50" in words for words in commands)

    until(measures, "its launch runs", 60)
    os.kill(stopped.pid, signal.SIGTERM)
    _, words = stopped.communicate(timeout=120)
    assert stopped.returncode == 143 and "stopped: what was measured is kept" in words, words
    (status,) = {record.status for record in whole(site)}
    # Slurm tells all processes of the job at once, so the client may have ended before npb knows why
    assert re.match("failed: (interrupted by SIGTERM|qperf was ended by signal 15)", status), status
    assert site.cluster.run("head", ["squeue", "--noheader"]).stdout == "", "its job has ended"


def test_a_night_that_is_killed_loses_nothing_and_the_next_one_says_so(site: NightSite) -> None:
    killed = site.start("n1,n2")
    running = ["squeue", "--noheader", "--states=RUNNING", "--nodelist=n1", "--format=%i"]
    until(lambda: site.cluster.run("head", running).stdout.strip() != "", "its job runs", 60)
    (cut,) = site.nights()
    os.kill(killed.pid, signal.SIGKILL)
    killed.wait()
    assert not site.records()

    code, verdict = site.night("n3,n4")
    assert code == 0
    assert any("died (process" in note for note in verdict["notes"]), verdict["notes"]
    assert f"the night {cut.name} was cut off: 1 records recovered, verdict PASS" in verdict["notes"]
    assert {(record.run, record.hosts, record.status) for record in whole(site)} == {
        (cut.name, ("n1", "n2"), "ok"),
        (verdict["run"], ("n3", "n4"), "ok"),
    }
    assert [(night.ended, night.cut) for night in site.nights()] == [(True, True), (True, False)]
    of_cut = json.loads((site.history / f"verdicts/{cut.name}.json").read_text())
    assert (of_cut["run"], of_cut["verdict"]) == (cut.name, "PASS")


def test_of_two_nights_started_at_once_one_runs(site: NightSite) -> None:
    both = [site.start("n1,n2"), site.start("n1,n2")]
    ends = [(process.communicate(timeout=180), process.returncode) for process in both]
    assert sorted(code for _, code in ends) == [0, 1], ends
    ((_, words),) = (printed for printed, code in ends if code == 1)
    assert "another night is running" in words and "Traceback" not in words
    assert len(whole(site)) == len(site.nights()) == 1


def test_a_full_disk_leaves_whole_rows_and_the_next_night_makes_up_for_it(site: NightSite) -> None:
    """The history's own file system is a small one that is full when the records come."""
    disk = site.folder / "history/slurm"
    disk.mkdir(parents=True)
    on_head = ["mount", "-t", "tmpfs", "-o", "size=512k", "tmpfs", disk]
    site.cluster.run("head", on_head, check=True)
    site.history = site.cluster.network.path("head", disk)
    assert site.night("n1,n2")[0] == 0
    before = whole(site)
    fill_last_page(site.history, before[0])

    full = site.start("n3,n4")
    until(lambda: bool(site.nights()[1:] and site.nights()[1].parts), "it measures", 60)
    shutil.rmtree(site.history / INDEXES)  # or it would make room: it can be done without
    with (site.history / "filler").open("wb", buffering=0) as filler, contextlib.suppress(OSError):
        while True:
            filler.write(bytes(4096))
    _, words = full.communicate(timeout=180)
    assert full.returncode == 1
    assert re.search(r"No space left on device: \S+/history/slurm/\S+; what this night measured is in", words)
    assert "the next one goes on from there" in words
    assert "Traceback" not in words
    assert len(whole(site)) == len(before) + 2, "nothing of the night, and nothing by half"

    (site.history / "filler").unlink()
    code, verdict = site.night("n5,n6")
    cut = site.nights()[1]
    assert code == 0
    assert f"the night {cut.name} was cut off: 1 records recovered, verdict PASS" in verdict["notes"]
    assert {record.hosts for record in whole(site)} == {("n1", "n2"), ("n3", "n4"), ("n5", "n6")}


def fill_last_page(history: Path, record: Record) -> None:
    """Make the month's file end with a page of the file system, by two records of an earlier night."""
    (month,) = history.glob("*.csv")
    earlier = replace(record, run="earlier", job="", tool_version="", raw="")
    size = month.stat().st_size
    History(history).append([earlier])
    row = month.stat().st_size - size
    left = -(month.stat().st_size + row) % 4096
    third = "x" * (left // 3)  # a text has 2000 characters at most
    History(history).append(
        [replace(earlier, job=third, tool_version=third, raw="x" * (left - 2 * len(third)))]
    )
    assert month.stat().st_size % 4096 == 0
