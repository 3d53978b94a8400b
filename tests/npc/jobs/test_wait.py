"""npc records wait on a real Slurm cluster: every way in which a job can end, caused; and who waits,
stopped."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import re
import select
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from npc import Record, read_run
from npc.commands.wait import wait
from npc.jobs.workpackages import Workpackage, read_workpackages
from tests.lab.cluster import Cluster, until
from tests.lab.jube_job import NPC, SMALL, finish, path_without, start
from tests.lab.terminal import shown_text
from tests.paths import ROOT

#: Job scripts of a site: how each ends is its argument.
SCRIPT = """#!/bin/bash
trap 'code=$?; [ $code = 0 ] || touch "$2"; exit $code' EXIT
trap 'exit 143' TERM
echo "$1 begins" >&2
case $1 in
fine) ;;
short) sleep 4 ;;
held) for look in {1..300}; do [ -e ../../go ] && break; sleep 0.2; done ;;
fails) echo "no such device" >&2; exit 3 ;;
killed) kill -KILL $$ ;;
unavailable) echo "unavailable: no such tool here" >&2; exit 1 ;;
silent) exit 0 ;;
requeued_silent) [ -z "$SLURM_RESTART_COUNT" ] || exit 0; touch "$2"; sleep 300 & wait ;;
requeued) [ -n "$SLURM_RESTART_COUNT" ] || { touch "$2"; sleep 300 & wait; } ;;
*) sleep 300 & wait ;;
esac
touch ready
"""
#: sbatch's options for an ending.
OPTIONS = {
    "time_limit": "-t 1",
    "cancelled_pending": "--hold",
    "node_fail": "-p lost",
    "requeued": "--requeue",
    "requeued_silent": "--requeue",
    "too_many_nodes": "-N 9",
    "too_long": "-t 500",
    "refused": "-p nowhere",
    "deadline": "--dependency=singleton -t 1 --deadline=now+62",
    "heterogeneous": "-n1 : -n1",
}
CONSTANT = (
    "fine", "fails", "killed", "unavailable", "silent", "time_limit", "cancelled_pending",
    "cancelled_running", "node_fail", "requeued", "too_many_nodes", "too_long", "refused", "deadline",
    "heterogeneous", "requeued_silent",
)  # fmt: skip


def write_benchmark(folder: Path, endings: tuple[str, ...], submit: str = "sbatch", others: str = "") -> Path:
    """A JUBE benchmark with one workpackage for each ending."""
    folder.mkdir(exist_ok=True)
    (folder / "job.sh").write_text(SCRIPT)
    sbatch = f"{submit} -o job.out -e job.err $options job.sh $ending"
    command = f"{sbatch} error" if submit.startswith("sbatch") else "bash job.sh $ending error 2>job.err"
    (folder / "benchmark.xml").write_text(
        f"""<?xml version="1.0" encoding="UTF-8"?>
<jube>
  <benchmark name="endings" outpath="runs">
    <parameterset name="ending">
      <parameter name="npc_platform_name">test</parameter>
      <parameter name="npc_bin">its jobs have to write launches</parameter>
      <parameter name="submit">{submit}</parameter>
      <parameter name="ending">{",".join(endings)}</parameter>
      <parameter name="options" mode="python" separator="|">{OPTIONS!r}.get("$ending", "")</parameter>
    </parameterset>
    <fileset name="files"><copy>job.sh</copy></fileset>
    <step name="job"><use>ending,files</use>
      <do done_file="ready" error_file="error">{command.replace(">", "&gt;")}</do>
    </step>
    {others.replace("SBATCH", sbatch)}
  </benchmark>
</jube>
"""
    )
    return folder / "runs/000000"


REQUEUED = re.compile(r"^job 9: \w+, job \d+.*: requeued", re.MULTILINE)
SOON = r"(?:at once|after \d+ s)"
#: A step that is submitted later, when what it depends on is done; and two of sites whose steps tell JUBE
#: of an error by a file of another name, or not at all.
OTHER_STEPS = """
    <step name="after" depend="job"><use>files</use>
      <do done_file="ready" error_file="error">sbatch --parsable -o job.out -e job.err job.sh fine error</do>
    </step>
    <parameterset name="lost">
      <parameter name="ending">killed</parameter>
      <parameter name="options"></parameter>
      <parameter name="finished">finished.$jube_wp_id</parameter>
    </parameterset>
    <step name="other_file"><use>lost,files</use>
      <do done_file="$finished" error_file="broken_$jube_wp_id">SBATCH</do>
    </step>
    <step name="no_file"><use>lost,files</use><do done_file="$finished">SBATCH</do></step>
"""


@dataclass(frozen=True)
class Waited:
    """A run after `npc records wait`: its exit code, its table as JSON, what it printed; the records and
    folders."""

    code: int
    document: Mapping[str, Any]
    rows: Mapping[str, Mapping[str, Any]]
    shown: str
    records: Mapping[str, Record]
    workpackages: Mapping[str, Workpackage]


def waited(run: Path, code: int, printed: str, shown: str) -> Waited:
    """Read back what there is after `npc records wait --json`; by ending, or by step."""
    document = json.loads(printed)
    assert (document["schema"], document["run"], document["exit"]) == (1, str(run), code)
    workpackages = read_workpackages(run, 3)
    names = [each.parameters["ending"] if each.step == "job" else each.step for each in workpackages]
    subprocess.run([NPC, "records", "collect", run], capture_output=True, check=False, timeout=60)
    records = read_run(run)
    assert len(records) == len(workpackages) == len(document["workpackages"])
    rows = dict(zip(names, document["workpackages"], strict=True))
    return Waited(
        code,
        document,
        rows,
        shown,
        dict(zip(names, records, strict=True)),
        dict(zip(names, workpackages, strict=True)),
    )


def jube_run(cluster: Cluster, folder: Path) -> None:
    cluster.run("head", ["jube", "run", "benchmark.xml", "--hide-animation"], cwd=folder, check=True)


def queue(cluster: Cluster) -> dict[str, str]:
    """Living jobs: number → state."""
    asked = cluster.run("head", ["squeue", "--noheader", "--format=%i %T"])
    return dict(line.split() for line in asked.stdout.splitlines())


def jobs(run: Path) -> dict[str, str]:
    """Ending → the job's number, as sbatch printed it."""
    found = {}
    for each in read_workpackages(run, 3):
        job = each.batch_job()
        if job and each.step == "job":
            found[each.parameters["ending"]] = str(job.number)
    return found


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """Seven nodes, and one to lose."""
    partitions = {"all": "Nodes=n[1-7] Default=YES", "lost": "Nodes=n8"}
    with Cluster(nodes=8, partitions=partitions, extra_conf={"SlurmdTimeout": "5"}) as eight:
        for node in eight.nodes:
            eight.shape(node, 20.0)  # what measures for a minute would otherwise have a CPU for as long
        yield eight


@dataclass(frozen=True)
class MeasuredRun:
    """Two jobs that measure with npb, one launch after another: one was cancelled, one hit its limit."""

    run: Path
    cancelled: str
    late: str


@pytest.fixture(scope="module")
def measuring(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> MeasuredRun:
    """The qperf benchmark on two nodes, with more launches than a minute holds."""
    outpath = tmp_path_factory.mktemp("measuring")
    settings = {"NPC_SAMPLES": "2000", "NPC_TIMELIMIT": "1", "NPC_DEPENDENCY": "none"}
    settings |= {"NPC_QPERF_KINDS": "bandwidth,latency"}
    words = ["jube", "run", "benchmarks/qperf/benchmark.xml", "--hide-animation", "--outpath", outpath]
    words += ["--include-path", "platforms/slurm"]
    cluster.run("head", words, env={**SMALL, **settings}, cwd=ROOT, check=True)
    run = outpath / "000000"
    first, second = (each.batch_job() for each in read_workpackages(run))
    assert first and second
    return MeasuredRun(run, str(first.number), str(second.number))


@pytest.fixture(scope="module")
def ended(cluster: Cluster, measuring: MeasuredRun, tmp_path_factory: pytest.TempPathFactory) -> Waited:
    """All endings at once, because Slurm takes half a minute to look for time limits.

    The controller is away; then jobs are cancelled, one is requeued, and a node loses its power.
    """
    folder = tmp_path_factory.mktemp("endings")
    run = write_benchmark(folder, CONSTANT, others=OTHER_STEPS)
    jube_run(cluster, folder)
    number = jobs(run)
    with (folder / "shown").open("wb") as shown:
        words = [NPC, "records", "wait", run]
        words += ["--pending-limit", "5s", "--least", "1s", "--most", "3s", "--json"]
        process = cluster.popen("head", words, stdout=subprocess.PIPE, stderr=shown, text=True)
        running = (
            "time_limit", "cancelled_running", "node_fail", "requeued", "heterogeneous", "requeued_silent",
        )  # fmt: skip

        def all_run() -> bool:
            said = {each.parameters["ending"]: each.last_words() for each in read_workpackages(run, 3)}
            return all(said[ending] == f"{ending} begins" for ending in running)

        until(all_run, "the long jobs run", limit_s=60)
        measure = read_workpackages(measuring.run)
        until(lambda: min(each.progress().made for each in measure) > 2, "npb measures", limit_s=60)
        until((run / "000009_job/work/error").exists, "the first execution's error file")
        cluster.stop_controller()
        try:
            until(lambda: "Slurm does not answer" in (folder / "shown").read_text(), "silence", limit_s=60)
        finally:
            cluster.start_controller()
        # their minute is over at once; Slurm looks every 30 s
        for late in (number["time_limit"], measuring.late):
            cluster.run("head", ["scontrol", "update", f"JobId={late}", "EndTime=now+1"], check=True)
        cluster.kill_node("n8")
        cancelled = [number[ending] for ending in ("cancelled_pending", "cancelled_running", "heterogeneous")]
        cluster.run("head", ["scancel", *cancelled, measuring.cancelled], check=True)
        twice = [number["requeued"], number["requeued_silent"]]
        cluster.run("head", ["scontrol", "requeue", ",".join(twice)], check=True)
        until(lambda: bool(REQUEUED.search((folder / "shown").read_text())), "it is seen to be requeued")
        until(lambda: all(queue(cluster)[job] == "PENDING" for job in twice), "they have left their nodes")
        # Slurm would let it wait two minutes
        cluster.run("head", ["scontrol", "update", f"JobId={','.join(twice)}", "StartTime=now"], check=True)
        printed, _ = process.communicate(timeout=120)
    return waited(run, process.returncode, printed, (folder / "shown").read_text())


@pytest.mark.slow
@pytest.mark.slurm
@pytest.mark.parametrize(
    ("ending", "status"),
    [
        ("fails", r"failed: job \d+ ended with exit code 3; last words: no such device"),
        ("killed", rf"failed: job \d+ was ended by SIGKILL {SOON}; last words: killed begins"),
        ("unavailable", r"unavailable: no such tool here"),
        (
            "silent",
            r"failed: job \d+ ended with exit code 0, but never wrote ready; last words: silent begins",
        ),
        ("time_limit", r"timeout: job \d+ hit its time limit of 1 min; last words: time_limit begins"),
        ("cancelled_pending", r"failed: job \d+ was cancelled while pending"),
        (
            "cancelled_running",
            r"failed: job \d+ was cancelled after \d+ s; last words: cancelled_running begins",
        ),
        ("node_fail", r"failed: job \d+ lost its node n8 after \d+ s; last words: node_fail begins"),
        ("too_many_nodes", r"failed: job \d+ could never start \(Partition\w+\), so it was cancelled"),
        (
            "too_long",
            r"failed: job \d+ could never start \(PartitionTimeLimit: .* timelimit=\), so it was cancelled",
        ),
        (
            "refused",
            r"failed: sbatch: error: Batch job submission failed: Invalid partition name specified",
        ),
        ("deadline", r"timeout: job \d+ could not end before its deadline"),
        ("heterogeneous", rf"failed: job \d+ was cancelled {SOON}; last words: heterogeneous begins"),
        ("requeued_silent", r"failed: job \d+ ended with exit code 0, but never wrote ready; last words: .*"),
        ("other_file", rf"failed: job \d+ was ended by SIGKILL {SOON}; last words: killed begins"),
        ("no_file", rf"failed: job \d+ was ended by SIGKILL {SOON}; last words: killed begins"),
    ],
)
def test_a_job_that_ends_badly_has_a_record_that_says_how(ended: Waited, ending: str, status: str) -> None:
    record = ended.records[ending]
    assert re.fullmatch(status, record.status)
    assert ended.rows[ending]["state"] == "failed"
    assert ended.rows[ending]["reason"] == record.status
    assert ended.workpackages[ending].failed, "JUBE sees it, too"
    named = ended.workpackages[ending].batch_job()
    assert record.job == (str(named.number) if named else "")
    assert f": {record.status}\n" in ended.shown


@pytest.mark.slow
@pytest.mark.slurm
def test_the_others_go_on_and_what_depends_on_them_is_submitted(ended: Waited) -> None:
    assert ended.code == 6
    assert {name for name, each in ended.workpackages.items() if each.done} == {"fine", "requeued", "after"}
    after = ended.workpackages["after"].batch_job()
    assert after and str(after.number) == ended.rows["after"]["job"], "as --parsable prints it"


@pytest.mark.slow
@pytest.mark.slurm
def test_a_requeued_job_is_waited_for_and_its_first_execution_is_forgotten(ended: Waited) -> None:
    assert REQUEUED.search(ended.shown)
    assert ended.rows["requeued"]["state"] == "done"


@pytest.mark.slow
@pytest.mark.slurm
def test_the_reason_stands_beside_the_end_of_what_the_job_printed(ended: Waited) -> None:
    text = (ended.workpackages["time_limit"].folder / "reason.txt").read_text()
    status, _, rest = text.partition("\n")
    assert status == ended.records["time_limit"].status
    assert "time_limit begins" in rest and "DUE TO TIME LIMIT" in rest


@pytest.mark.slow
@pytest.mark.slurm
def test_jobs_that_were_given_up_are_not_left_in_the_queue(ended: Waited, cluster: Cluster) -> None:
    left = queue(cluster)
    for ending in ("too_many_nodes", "too_long"):
        assert ended.rows[ending]["job"] not in left


@pytest.mark.slow
@pytest.mark.slurm
def test_a_controller_that_is_away_is_waited_for(ended: Waited) -> None:
    assert re.search(
        "^Slurm does not answer, asking again: .*(connect|controller)", ended.shown, re.MULTILINE
    )
    assert ended.shown.index("Slurm does not answer") < ended.shown.index("timeout: job"), "and then went on"


@pytest.mark.slow
@pytest.mark.slurm
def test_waiting_again_for_what_has_ended_changes_nothing(ended: Waited, cluster: Cluster) -> None:
    run = ended.workpackages["fine"].folder.parent
    before = {path: path.stat().st_mtime_ns for path in run.glob("*/*.txt")}
    again = cluster.run("head", [NPC, "records", "wait", run, "--json"])
    assert again.returncode == 6
    assert {path: path.stat().st_mtime_ns for path in run.glob("*/*.txt")} == before
    told = [
        [row[key] for key in ("workpackage", "state", "job", "reason")]
        for row in json.loads(again.stdout)["workpackages"]
    ]
    assert told == [
        [row[key] for key in ("workpackage", "state", "job", "reason")]
        for row in ended.document["workpackages"]
    ]


@pytest.mark.slow
@pytest.mark.slurm
def test_what_npb_measured_before_its_job_was_ended_is_collected(
    ended: Waited, cluster: Cluster, measuring: MeasuredRun
) -> None:
    waiting = cluster.run("head", [NPC, "records", "wait", measuring.run], timeout=120)
    assert waiting.returncode == 1, "no job was done"
    collected = subprocess.run(
        [NPC, "records", "collect", measuring.run], capture_output=True, check=False, timeout=60
    )
    assert collected.returncode == 0
    for job, ending in (
        (measuring.cancelled, rf"failed: job {measuring.cancelled} was cancelled after \d+ s.*"),
        (measuring.late, rf"timeout: job {measuring.late} hit its time limit of 1 min.*"),
    ):
        records = [record for record in read_run(measuring.run) if record.job == job]
        usable = [record for record in records if record.ok]
        (missing,) = (record for record in records if "not made" in record.status)
        assert len(usable) > 2 and all((measuring.run / record.raw).is_file() for record in usable)
        assert re.fullmatch(ending + r"; \d+ of 2000 launches were not made", missing.status)
        # the one that was being made; its tool may have the signal first, and then there is one more
        interrupted = [record.status for record in records if not record.ok and record is not missing]
        ended = {"failed: interrupted by SIGTERM", "failed: qperf was ended by signal 15"}
        assert len(interrupted) <= 2 and set(interrupted) <= ended


# -- the main job ------------------------------------------------------------------------------------------

MEMORY = [NPC, "characterise", "--platform", "slurm", "--tag", "memory", "--output"]
#: A ladder of latencies is no number beside other tests.
LITTLE_MEMORY = {**SMALL, "NPC_MEMORY_PARTS": "cores"}


@pytest.mark.slow
@pytest.mark.slurm
def test_the_main_job_waits_for_its_jobs_and_collects_and_draws(cluster: Cluster, tmp_path: Path) -> None:
    ended = cluster.run("head", [*MEMORY, tmp_path], env=LITTLE_MEMORY, timeout=150)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    run = tmp_path / "000000"
    records = read_run(run)
    assert {(record.benchmark, record.status) for record in records} == {
        (name, "ok") for name in ("stream", "memory", "likwid")
    }
    assert {record.platform for record in records} == {"slurm"}
    assert {record.job for record in records} == {
        str(job.number) for each in read_workpackages(run) if (job := each.batch_job())
    }
    assert re.search(r"^stream 0: submitted, job \d+$", ended.stderr, re.MULTILINE)
    assert re.search(r"^likwid 2: (running|ended), job \d+ on n\d", ended.stderr, re.MULTILINE)
    assert re.search(r"^likwid 2: done, job \d+ on n\d$", ended.stderr, re.MULTILINE)
    assert "MEM load" in ended.stdout
    assert json.loads((run / "roofline.json").read_text()) and list(run.glob("result/*.dat"))


@pytest.mark.slow
@pytest.mark.slurm
def test_the_main_job_stopped_while_it_waits_leaves_its_jobs_to_npc_wait(
    cluster: Cluster, tmp_path: Path
) -> None:
    go = tmp_path / "go"
    later = f"pwd | grep -q stream || for look in {{1..300}}; do [ -e {go} ] && break; sleep 0.2; done"
    process = cluster.popen(
        "head", [*MEMORY, tmp_path], env={**SMALL, "NPC_ENV": later}, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    run = tmp_path / "000000"
    until((run / "000000_stream/work/launches/launches.jsonl").exists, "the first job measures", limit_s=60)
    process.terminate()
    _, shown = process.communicate(timeout=60)
    assert process.returncode == 143
    assert (
        f"stopped: what had been measured is collected; its jobs go on: npc records wait {run}; "
        f"npc records collect" in shown
    )
    goes_on = [str(job.number) for each in read_workpackages(run) if (job := each.batch_job())]
    assert set(queue(cluster)) & set(goes_on)
    cluster.run("head", ["scancel", goes_on[1]], check=True)
    go.touch()
    waiting = cluster.run("head", [NPC, "records", "wait", tmp_path], timeout=120)
    assert waiting.returncode == 6, waiting.stderr
    assert [each.state() for each in read_workpackages(run)] == ["done", "failed", "done"]


@pytest.mark.slow
@pytest.mark.slurm
def test_the_main_job_gives_up_at_its_limit_and_its_jobs_go_on(cluster: Cluster, tmp_path: Path) -> None:
    held = {**SMALL, "NPC_ADDITIONAL_JOB_CONFIG": "#SBATCH --hold"}
    ended = cluster.run("head", [*MEMORY, tmp_path, "--limit", "1s"], env=held, timeout=60)
    assert ended.returncode == 5
    assert "not ended by the limit" in ended.stderr and "npc records wait" in ended.stderr
    numbers = {
        str(job.number) for each in read_workpackages(tmp_path / "000000") if (job := each.batch_job())
    }
    assert numbers and numbers <= set(queue(cluster))
    cluster.run("head", ["scancel", *numbers], check=True)


# -- jobs that Slurm no longer knows ---------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.slurm
def test_what_the_controller_forgot_is_asked_of_the_completion_file(tmp_path: Path) -> None:
    """Accounting is off: sacct says so, and reads the file where ended jobs are noted, if there is one."""
    run = write_benchmark(tmp_path, ("fine", "killed", "silent", "time_limit"))
    with Cluster(nodes=2) as cluster:
        cluster.run("head", ["jube", "run", "benchmark.xml", "--hide-animation"], cwd=tmp_path, check=True)
        number = jobs(run)
        until(lambda: set(queue(cluster)) == {number["time_limit"]}, "the others have ended")
        cluster.stop_controller()
        for path in (cluster.folder / "state").glob("job_state*"):
            path.unlink()
        noted = cluster.folder / "log/jobcomp.txt"
        lines = noted.read_text().splitlines(keepends=True)
        noted.write_text("".join(line for line in lines if f"JobId={number['silent']} " not in line))
        cluster.start_controller()
        disabled = cluster.run("head", ["sacct"])
        assert (disabled.returncode, disabled.stderr) == (1, "Slurm accounting storage is disabled\n")
        assert not queue(cluster), "it has forgotten them all"
        process = cluster.run("head", [NPC, "records", "wait", run, "--least", "1s", "--json"])
    result = waited(run, process.returncode, process.stdout, process.stderr)
    assert result.code == 6 and result.workpackages["fine"].done
    status = {ending: record.status for ending, record in result.records.items()}
    assert re.fullmatch(rf"failed: job \d+ was ended by SIGKILL {SOON}; last words: .*", status["killed"])
    for ending in ("silent", "time_limit"):
        words = rf"failed: Slurm no longer knows job {number[ending]}, and it left no word of its end; .*"
        assert re.fullmatch(words, status[ending])


# -- stopped, started again, several at once ---------------------------------------------------------------


def wait_on(cluster: Cluster, run: Path, *options: str) -> subprocess.Popen[Any]:
    words = [NPC, "records", "wait", run, "--least", "0.5s", "--most", "1s", *options]
    return cluster.popen("head", words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def command_lines() -> list[str]:
    """Command lines of living processes."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):  # it has ended just now
            found.append(entry.read_bytes().replace(b"\0", b" ").decode(errors="replace"))
    return found


def of_run(run: Path) -> list[str]:
    """Those that name the run."""
    return [words for words in command_lines() if str(run) in words or str(run.parent) in words]


@pytest.mark.slow
@pytest.mark.slurm
def test_several_wait_at_once_are_stopped_and_killed_and_nothing_happens_twice(
    cluster: Cluster, tmp_path: Path
) -> None:
    run = write_benchmark(tmp_path, ("held", "fine"), others=OTHER_STEPS.partition("<parameterset")[0])
    jube_run(cluster, tmp_path)
    gave_up = cluster.run("head", [NPC, "records", "wait", run, "--limit", "1s"])
    assert gave_up.returncode == 5
    assert f"the jobs go on, and so does: npc records wait {run}" in gave_up.stderr
    killed, interrupted, terminated, patient = (wait_on(cluster, run) for _ in range(4))
    for process in (killed, interrupted, terminated):
        assert process.stderr is not None
        assert process.stderr.readline(), "it has begun"
    killed.kill()
    interrupted.send_signal(signal.SIGINT)
    terminated.send_signal(signal.SIGTERM)
    assert [each.wait(30) for each in (killed, interrupted, terminated)] == [-9, 130, 143]
    (run / "go").touch()
    _, shown = patient.communicate(timeout=60)
    assert patient.returncode == 0, shown
    workpackages = read_workpackages(run, 3)
    assert [(each.step, each.state()) for each in workpackages] == [
        ("job", "done"), ("job", "done"), ("after", "done"), ("after", "done"),
    ]  # fmt: skip
    for each in workpackages:
        text = (each.folder / "work/stdout").read_text()
        assert len(text.splitlines()) == 1, "submitted once"
    until(lambda: not of_run(run), "nobody works on the run any more")
    assert not list(run.glob("*/.reason*"))


@pytest.mark.slow
@pytest.mark.slurm
def test_a_stop_is_heard_while_the_controller_hangs(cluster: Cluster, tmp_path: Path) -> None:
    run = write_benchmark(tmp_path, ("fine",))
    jube_run(cluster, tmp_path)
    controller = int((cluster.folder / "slurmctld.pid").read_text())
    os.kill(controller, signal.SIGSTOP)
    try:
        waiting = wait_on(cluster, run)
        asks = f"squeue --jobs={jobs(run)['fine']} "
        until(lambda: any(asks in words for words in command_lines()), "it has asked Slurm")
        began = time.monotonic()
        waiting.terminate()
        assert waiting.wait(30) == 143
        assert time.monotonic() - began < 15, "squeue itself tries for 20 s"
        assert waiting.stderr is not None
        assert "Slurm does not answer" in waiting.stderr.read()
    finally:
        os.kill(controller, signal.SIGCONT)
    assert wait_on(cluster, run).wait(60) == 0


@pytest.mark.slow
@pytest.mark.slurm
def test_a_job_that_jube_could_not_note_is_not_submitted_again(cluster: Cluster, tmp_path: Path) -> None:
    """JUBE was killed between sbatch's answer and its own note of it."""
    run = write_benchmark(tmp_path, ("fine",))
    jube_run(cluster, tmp_path)
    (run / "000000_job/wp_done_00").unlink()
    assert wait_on(cluster, run).wait(60) == 0
    assert len((run / "000000_job/work/stdout").read_text().splitlines()) == 1


@pytest.mark.slow
@pytest.mark.slurm
def test_where_there_is_no_squeue_one_line_says_where_to_wait(cluster: Cluster, tmp_path: Path) -> None:
    run = write_benchmark(tmp_path, ("fine",))
    jube_run(cluster, tmp_path)
    path = path_without(tmp_path / "bin", "squeue")
    process = cluster.run("head", [NPC, "records", "wait", run], env={"PATH": path})
    assert process.returncode == 1
    assert (
        process.stderr
        == "Error: squeue is not here: wait where Slurm's commands are, such as the login node\n"
    )


@pytest.mark.slow
@pytest.mark.slurm
def test_on_a_terminal_there_is_a_live_table(cluster: Cluster, tmp_path: Path) -> None:
    run = write_benchmark(tmp_path, ("short", "fails"))
    jube_run(cluster, tmp_path)
    mine, theirs = pty.openpty()
    process = cluster.popen(
        "head", [NPC, "records", "wait", run, "--least", "0.5s"],
        stdin=theirs, stdout=theirs, stderr=theirs, env={"TERM": "xterm", "COLUMNS": "140"},
    )  # fmt: skip
    os.close(theirs)
    shown, deadline = b"", time.monotonic() + 60
    while time.monotonic() < deadline:
        if select.select([mine], [], [], 1.0)[0]:
            try:
                shown += os.read(mine, 65536)
            except OSError:  # EIO: nobody has the terminal any more
                break
    os.close(mine)
    assert process.wait(10) == 6
    text = shown_text(shown.decode())
    assert re.search(r"state +workpackage +job +nodes +time +launches", text)
    number = jobs(run)
    assert re.search(rf"running +job 0 +{number['short']} +n\d +\d+ s", text)
    assert re.search(rf"done +job 0 +{number['short']} +n\d +[3-9] s", text)
    assert re.search(rf"failed +job 1 +{number['fails']} .*failed: job {number['fails']} ended with", text)


# -- without a scheduler ---------------------------------------------------------------------------------


def local(folder: Path, *endings: str) -> Path:
    """A run on this machine, which JUBE has seen to the end of what it sees."""
    run = write_benchmark(folder, endings, submit="bash")
    subprocess.run(
        ["jube", "run", "benchmark.xml", "--hide-animation"], cwd=folder, check=True, capture_output=True
    )
    return run


@pytest.mark.slow
def test_a_script_that_ends_without_its_last_line_is_a_failure_on_one_machine_too(tmp_path: Path) -> None:
    run = local(tmp_path, "fine", "silent", "fails")
    ended = finish(NPC, "records", "wait", run, "--least", "1s", "--json")
    result = waited(run, ended.returncode, ended.stdout, ended.stderr)
    assert result.code == 6
    assert {ending: record.status for ending, record in result.records.items()} == {
        "fine": "failed: its job ended, but made no launches: has the platform's job script #MEASUREMENT#?",
        "silent": "failed: its script ended with exit code 0, but never wrote ready; "
        "last words: silent begins",
        "fails": "failed: no such device",
    }


@contextlib.contextmanager
def jube_at_work(folder: Path) -> Iterator[int]:
    """``jube run`` by hand, in the middle of its first job; killed with all that it started."""
    other = subprocess.Popen(
        ["jube", "run", "benchmark.xml", "--hide-animation"],
        cwd=folder, stdout=subprocess.DEVNULL, start_new_session=True,
    )  # fmt: skip
    try:
        until((folder / "runs/000000/000000_job/work/job.err").exists, "the first job has begun")
        yield other.pid
    finally:
        os.killpg(other.pid, signal.SIGKILL)
        other.wait()


@pytest.mark.slow
def test_a_run_that_was_interrupted_goes_on_and_a_jube_at_work_is_left_alone(tmp_path: Path) -> None:
    run = write_benchmark(tmp_path, ("short", "fine"), submit="bash")
    with jube_at_work(tmp_path) as pid:
        ended = finish(NPC, "records", "wait", run, "--limit", "1s")
        assert ended.returncode == 5
        assert f"JUBE is working on this run for somebody else (process {pid}" in ended.stderr
        assert not (run / "continue.log").exists()
    ended = finish(NPC, "records", "wait", run)
    assert ended.returncode == 0, ended.stderr
    assert re.search(r"^job 1: done$", ended.stderr, re.MULTILINE)
    assert f"2 done; now: npc records collect {run}\n" in ended.stderr


@pytest.mark.slow
def test_stopped_in_the_middle_of_a_job_on_this_machine_nothing_is_left(tmp_path: Path) -> None:
    run = write_benchmark(tmp_path, ("endless", "fine"), submit="bash")
    with jube_at_work(tmp_path):
        pass
    job = start(NPC, "records", "wait", run)
    try:
        job.await_process("job.sh endless")
        (pid,) = (
            pid
            for pid, text in job.processes().items()
            if "npc records wait" in text and "unshare" not in text
        )
        os.kill(pid, signal.SIGTERM)
        ended = job.wait(40)
        assert not job.left_behind(1)
    finally:
        job.kill()
    assert ended.returncode == 143
    assert "1 running, 1 waiting; stopped" in ended.stderr
    assert len(read_workpackages(run)) == 2, "what JUBE knows is whole"


# -- mistakes ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["nowhere"], "nowhere"),
        (["."], "no JUBE run"),
        ([".", "--limit", "soon"], "not a duration: 'soon'"),
        ([".", "--limit", "-3"], "-3"),
        ([".", "--least", "2m"], "--least 120 s is more than --most 60 s"),
    ],
)
def test_a_mistake_is_usage_and_one_line(tmp_path: Path, words: list[str], told: str) -> None:
    ended = subprocess.run(
        [NPC, "records", "wait", *words],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=20,
    )
    assert ended.returncode == 2
    assert told in ended.stderr and "Traceback" not in ended.stderr


def test_a_run_that_jube_would_not_find_is_usage(tmp_path: Path) -> None:
    folder = tmp_path / "copy-of-a-run"
    folder.mkdir()
    (folder / "workpackages.xml").write_text("<workpackages/>")
    ended = subprocess.run(
        [NPC, "records", "wait", folder], capture_output=True, text=True, check=False, timeout=20
    )
    assert ended.returncode == 2 and "by number" in ended.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, who may give files to others")
def test_root_does_not_run_the_commands_of_another_users_run(tmp_path: Path) -> None:
    folder = tmp_path / "000000"
    folder.mkdir()
    (folder / "workpackages.xml").write_text("<workpackages/>")
    os.chown(folder, 12345, 12345)
    ended = CliRunner().invoke(wait, [str(folder)])
    assert ended.exit_code == 2 and "is of user 12345: JUBE would run its commands" in ended.output
