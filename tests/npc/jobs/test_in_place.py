"""Job scripts in an allocation: what they ask for, the variables they get, and what becomes of each."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from npc.cron.one_job import shape_of
from npc.errors import CommandFailed
from npc.jobs import in_place
from npc.jobs.allocation import JobAllocation, UnreadableScript
from npc.jobs.slurm_script import allocation, head, limit_s, request, variables
from npc.jobs.workpackages import EARLIER, read_workpackages
from npc.python import python

SCRIPT = """#!/bin/bash
#SBATCH --job-name="npc"
#SBATCH -N {nodes}
#SBATCH --ntasks-per-node=4 -c 2   # of each rank
#SBATCH --time 1-02:30 --partition batch
#SBATCH --output=job.out
#SBATCH --gres=gpu:2

echo begins
#SBATCH --nodes=9
"""
TWO = JobAllocation(job="7", hosts=("n1", "n2"), cpus=(8, 8))


def test_a_script_asks_for_what_stands_in_its_head_and_on_the_command_line() -> None:
    wanted = request(SCRIPT.format(nodes=2), ["--account=physics"])
    assert (wanted.nodes, wanted.tasks, wanted.tasks_per_node, wanted.cpus_per_task) == (2, 8, 4, 2)
    assert (wanted.limit_s, wanted.output, wanted.error) == (26.5 * 3600, "job.out", "")
    assert wanted.others == ("--job-name=npc", "--partition batch", "--gres=gpu:2", "--account=physics")
    assert request(SCRIPT.format(nodes=2), ["-N", "3"]).nodes == 3
    bare = request("#!/bin/sh\ntrue\n")
    assert (bare.nodes, bare.tasks, bare.limit_s, bare.output) == (1, 1, None, "slurm-%j.out")


def test_the_head_of_a_job_for_all_is_read_as_what_was_meant(tmp_path: Path) -> None:
    lines = head(2, 8, 601, tmp_path / "a file.out", ["--partition batch"])
    wanted = request("\n".join(["#!/bin/bash", *lines]))
    assert (wanted.nodes, wanted.cpus_per_node, wanted.limit_s) == (2, 8, 660)
    assert (wanted.output, wanted.others) == (str(tmp_path / "a file.out"), ("--partition batch",))


@pytest.mark.parametrize(
    "text", ["#SBATCH -N1\n#SBATCH hetjob\n#SBATCH -N2\n", "#SBATCH --ntasks=many\n", "#SBATCH --time='1\n"]
)
def test_a_script_that_cannot_run_in_another_job_says_why(text: str) -> None:
    with pytest.raises(UnreadableScript):
        request(text)


@pytest.mark.parametrize(
    ("clock", "seconds"),
    [("30", 1800), ("1:30", 90), ("00:30:00", 1800), ("2-1", 176400), ("1-2:3", 93780), ("UNLIMITED", None)],
)
def test_limits_are_read_as_sbatch_does(clock: str, seconds: float | None) -> None:
    assert limit_s(clock) == seconds


def test_a_script_gets_the_variables_of_a_job_of_its_own_and_none_of_the_job_for_all(tmp_path: Path) -> None:
    outer = {
        "SLURM_JOB_ID": "7", "SLURM_JOB_NODELIST": "n[1-2]", "SLURM_NODELIST": "n[1-2]", "SLURM_NNODES": "2",
        "SLURM_JOB_NUM_NODES": "2", "SLURM_NTASKS": "2", "SLURM_NPROCS": "2", "SLURM_NTASKS_PER_NODE": "1",
        "SLURM_TASKS_PER_NODE": "1(x2)", "SLURM_CPUS_PER_TASK": "8", "SLURM_JOB_CPUS_PER_NODE": "8(x2)",
        "SLURM_JOB_PARTITION": "batch", "PATH": "/bin",
    }  # fmt: skip
    given = allocation(outer)
    assert given == TWO
    own = variables(request(SCRIPT.format(nodes=1)), TWO, tmp_path, outer)
    assert own == {
        "SLURM_JOB_ID": "7", "SLURM_JOB_NODELIST": "n1", "SLURM_NODELIST": "n1", "SLURM_NNODES": "1",
        "SLURM_JOB_NUM_NODES": "1", "SLURM_NTASKS": "4", "SLURM_NPROCS": "4", "SLURM_NTASKS_PER_NODE": "4",
        "SLURM_TASKS_PER_NODE": "4(x1)", "SLURM_CPUS_PER_TASK": "2", "SLURM_JOB_CPUS_PER_NODE": "8",
        "SLURM_JOB_PARTITION": "batch", "PATH": "/bin",
    }  # fmt: skip
    step = {**outer, "SLURM_STEP_ID": "0", "SLURM_CPU_BIND": "none", "PMIX_RANK": "0", "PMI_RANK": "0"}
    in_step = variables(request(SCRIPT.format(nodes=1)), TWO, tmp_path, step)
    hosts = in_step.pop("SLURM_HOSTFILE")
    assert Path(hosts).read_text() == 4 * "n1\n"
    assert in_step == {**own, "SLURM_OVERLAP": "1"}
    assert allocation({"SLURM_JOB_ID": "7", "SLURM_HET_SIZE": "2", "SLURM_JOB_NODELIST": "n1"}) is None
    assert allocation({"PATH": "/bin"}) is None


def test_an_allocation_says_what_it_lacks() -> None:
    assert TWO.lacks(request(SCRIPT.format(nodes=2))) == ""
    assert TWO.lacks(request(SCRIPT.format(nodes=3))) == "it needs 3 nodes, job 7 has 2"
    small = JobAllocation(job="7", hosts=("n1",), cpus=(2,))
    assert small.lacks(request(SCRIPT.format(nodes=1))) == "it needs 8 CPUs of a node, job 7 has 2"


def test_scripts_that_ask_for_different_things_are_no_one_job() -> None:
    """What only some ask for, the job for all asks for as well."""
    wide, narrow = request(SCRIPT.format(nodes=2)), request("#SBATCH --mem=0\n")
    other = request("#SBATCH --partition=other\n")
    with pytest.raises(CommandFailed, match="ask for --partition batch and --partition=other"):
        shape_of([narrow, wide, other], "sbatch")
    shape = shape_of([narrow, wide], "sbatch")
    assert (shape.nodes, shape.cpus) == (2, 8)
    assert shape.others == ("--job-name=npc", "--partition batch", "--gres=gpu:2", "--mem=0")


BENCHMARK = """<jube><benchmark name="ends" outpath="runs">
<parameterset name="ends"><parameter name="submit">sbatch</parameter>
  <parameter name="end">fine,fails,silent,lacks,wide,slow,killed</parameter></parameterset>
<fileset name="files"><copy>job.sh</copy></fileset>
<substituteset name="fill"><iofile in="job.sh" out="job"/><sub source="#END#" dest="$end"/></substituteset>
<step name="job"><use>ends,files,fill</use>
  <do done_file="ready" error_file="error">$submit job</do></step>
</benchmark></jube>
"""
JOB = """#!/bin/bash
#SBATCH --output=job.out --error=job.err --time=0:02
#SBATCH END=#END#
echo "$SLURM_NNODES $PWD"
case #END# in
fails) echo "no such device" >&2; exit 3 ;;
silent) exit 0 ;;
lacks) echo "unavailable: no such tool here" >&2; exit 1 ;;
slow) sleep 60 & wait ;;
killed) kill -KILL $$ ;;
esac
touch ready
"""


@pytest.mark.slow
def test_each_script_ends_as_it_would_in_a_job_of_its_own(tmp_path: Path) -> None:
    """JUBE submits nothing; the runner is in a job by its variables. A second one finds nothing to do."""
    (tmp_path / "benchmark.xml").write_text(BENCHMARK)
    script = JOB.replace("#SBATCH END=#END#", "#SBATCH --comment=#END#")
    (tmp_path / "job.sh").write_text(script)
    with in_place.nothing_submitted(os.environ) as env:
        words = ["jube", "run", "benchmark.xml", "--hide-animation"]
        subprocess.run(words, cwd=tmp_path, env=env, check=True, capture_output=True)
    run = tmp_path / "runs/000000"
    wide = run / "000004_job/work/job"
    wide.write_text(wide.read_text().replace("--comment=wide", "--nodes=2"))
    earlier = run / "000000_job/work/launches"
    earlier.mkdir()
    (earlier / "launches.jsonl").write_text(json.dumps({"tool": "qperf", "planned": 1, "job": "6"}) + "\n")
    in_place.note_job(in_place.left(run), "7")
    assert {each.state() for each in read_workpackages(run)} == {"running"}
    of_job = {"SLURM_JOB_ID": "7", "SLURM_JOB_NODELIST": os.uname().nodename}
    for _ in range(2):
        command = python("-m", "npc.jobs.in_place", run)
        ended = subprocess.run(command, env={**os.environ, **of_job}, capture_output=True, text=True)
        assert (ended.returncode, ended.stderr) == (0, "")
    never = "failed: its script ended with exit code 0, but never wrote ready"
    reasons = [workpackage.recorded_reason() for workpackage in read_workpackages(run)]
    assert reasons == [
        "",
        "failed: job 7 ended with exit code 3; last words: no such device",
        f"{never}; last words: 1 {run}/000002_job/work",
        "unavailable: no such tool here",
        "unavailable: it needs 2 nodes, job 7 has 1",
        f"timeout: in job 7 it hit its own time limit of 2 s; last words: 1 {run}/000005_job/work",
        f"failed: job 7 was ended by SIGKILL at once; last words: 1 {run}/000006_job/work",
    ]
    assert [each.state() for each in read_workpackages(run)] == ["done", *["failed"] * 6]
    assert list(run.glob(f"000000_job/work/{EARLIER}/0/launches/launches.jsonl"))
    assert not in_place.left(run)
    assert (run / "000000_job/work/job.out").read_text() == f"1 {run}/000000_job/work\n", "once"
