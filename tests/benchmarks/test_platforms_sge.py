"""The platform for Grid Engine on a real one: and a record of every way a job ends."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from npc.records.run import read_run
from tests.lab.cluster import until
from tests.lab.grid_engine import GridEngine, missing
from tests.lab.jube_job import NPC, SMALL
from tests.paths import ROOT

pytestmark = [pytest.mark.slow, pytest.mark.skipif(bool(missing()), reason=missing())]

#: how → what it prints and does.
WAYS = """
case $1 in
    failed) echo it does not converge >&2; exit 3;;
    killed) kill -KILL $PPID;;
    limit|deleted) sleep 60;;
esac
"""
HOW = ("failed", "killed", "limit", "deleted", "pending", "never", "lost", "well")
BENCHMARK = """
<jube><benchmark name="ways of" outpath="{folder}/runs">
  <parameterset name="how_param"><parameter name="how">{how}</parameter></parameterset>
  <parameterset name="executeset" init_with="platform.xml">
    <parameter name="starter"></parameter>
    <parameter name="args_starter"></parameter>
  </parameterset>
  <parameterset name="systemParameter" init_with="platform.xml">
    <parameter name="executable">sh {folder}/ways $how</parameter>
    <parameter name="npc_slots" type="int">1</parameter>
    <parameter name="npc_dependency">none</parameter>
    <parameter name="timelimit" mode="python">"00:00:02" if "$how" == "limit" else "00:01:00"</parameter>
    <parameter name="outlogfile" mode="python">"/no/such/place" if "$how" == "lost" else "job.out"</parameter>
    <parameter name="npc_resources" mode="python">"arch=none" if "$how" == "never" else ""</parameter>
    <parameter name="additional_job_config" mode="python">"-h" if "$how" == "pending" else ""</parameter>
  </parameterset>
  <step name="site">
    <use>how_param,executeset</use>
    <use from="platform.xml">executesub,jobfiles</use>
    <use>systemParameter</use>
    <do done_file="$done_file" error_file="$error_file">$submit $submit_script</do>
  </step>
</benchmark></jube>
"""


@pytest.fixture(scope="module")
def cluster() -> Iterator[GridEngine]:
    with GridEngine(nodes=2) as two:
        yield two


def test_every_ending_of_a_job_has_its_record(cluster: GridEngine, tmp_path: Path) -> None:
    (tmp_path / "ways").write_text(WAYS)
    (tmp_path / "site.xml").write_text(BENCHMARK.format(folder=tmp_path, how=",".join(HOW)))
    jube = ["jube", "run", tmp_path / "site.xml", "--hide-animation", "--include-path", "platforms/sge"]
    submitted = cluster.run(jube, cwd=ROOT, timeout=120)
    assert submitted.returncode == 0, submitted.stdout + submitted.stderr
    job = {how: str(number) for number, how in enumerate(HOW, 1)}

    def states() -> dict[str, str]:
        lines = [line.split() for line in cluster.run(["qstat"]).stdout.splitlines()[2:]]
        return {words[0]: words[4] for words in lines}

    until(lambda: states().get(job["deleted"]) == "r", "the job that is to be deleted runs")
    cluster.run(["qdel", job["deleted"]], check=True)
    cluster.run(["qdel", job["pending"]], check=True)
    wait = [NPC, "records", "wait", tmp_path / "runs"]
    wait += ["--pending-limit", "2s", "--least", "0.5s", "--most", "1s"]
    waited = cluster.run(wait, cwd=ROOT, timeout=120)
    assert waited.returncode == 6, waited.stderr
    assert cluster.run(["qstat"]).stdout == "", "what can never start was deleted, too"

    folders = {how: next((tmp_path / "runs/000000").glob(f"{place:06d}_*")) for place, how in enumerate(HOW)}
    told = {
        how: reason.read_text().partition("\n")[0] if (reason := folder / "reason.txt").exists() else ""
        for how, folder in folders.items()
    }
    assert told.pop("well") == ""
    assert (folders["well"] / "done").exists()
    number = {how: f"job {name}" for how, name in job.items()}
    assert (
        told["failed"]
        == f"failed: {number['failed']} ended with exit code 3; last words: it does not converge"
    )
    assert told["killed"].startswith(f"failed: {number['killed']} was ended by SIGKILL")
    assert told["limit"].startswith(f"timeout: {number['limit']} hit its time limit of 2 s")
    assert told["deleted"].startswith(f"failed: {number['deleted']} was ended by SIGKILL")
    assert told["pending"].startswith(f"failed: {number['pending']} was deleted while pending")
    assert told["never"].startswith(f"failed: {number['never']} could never start (Job {job['never']} (")
    assert 'cannot run at host "g1" because it offers only hl:arch=lx-amd64' in told["never"]
    assert "No such file or directory" in told["lost"]


def test_the_main_job_runs_on_grid_engine(cluster: GridEngine, tmp_path: Path) -> None:
    words = ["characterise", "--platform", "sge", "--benchmark", "qperf", "--output", tmp_path / "runs"]
    settings = ["--set", "qperf_kinds=latency", "--set", "job_name=two words"]
    done = cluster.run([NPC, *words, *settings], cwd=ROOT, env=SMALL, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    records = read_run(tmp_path / "runs/000000")
    assert {(record.status, record.platform, record.nodes) for record in records} == {("ok", "sge", 2)}
    assert {len(record.hosts) for record in records} == {2}
    last = int(
        cluster.run(
            ["qsub", "-b", "y", "-o", "/dev/null", "-e", "/dev/null", "true"], check=True
        ).stdout.split()[2]
    )
    assert {record.job for record in records} == {str(last - 1)}


def test_a_queue_that_is_mistyped_gives_qsubs_words(cluster: GridEngine, tmp_path: Path) -> None:
    words = ["characterise", "--platform", "sge", "--benchmark", "qperf", "--output", tmp_path / "runs"]
    done = cluster.run([NPC, *words, "--set", "queue=nosuch"], cwd=ROOT, env=SMALL, timeout=120)
    assert done.returncode == 1
    assert {record.status for record in read_run(tmp_path / "runs/000000")} == {
        'failed: Unable to run job: Job was rejected because job requests unknown queue "nosuch"'
    }


def test_nothing_of_it_is_left(tmp_path: Path) -> None:
    with GridEngine(nodes=1) as one:
        folder = one.folder
        assert "lx-amd64" in one.run(["qhost"]).stdout
    assert not folder.exists()
    shown = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
    assert str(folder) not in shown
