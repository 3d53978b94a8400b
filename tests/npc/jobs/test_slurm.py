"""What Slurm's words about jobs mean, on what squeue and sacct really printed (tests/data/slurm)."""

from __future__ import annotations

import json
import os
import subprocess
from datetime import datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from npc.jobs.scheduler import Job
from npc.jobs.slurm import SlurmNode, ask, parse_sacct, parse_squeue
from tests.captured import text_of
from tests.lab.jube_job import NPC

SQUEUE = parse_squeue(text_of("slurm", "squeue.txt"))
COMPLETION = parse_sacct(text_of("slurm", "sacct_completion.txt"))
#: Of an accounting with slurmdbd and MariaDB; jobs 1 to 5 are the same there.
ACCOUNTING = parse_sacct(text_of("slurm", "sacct.txt"))


@pytest.mark.parametrize(
    ("number", "status"),
    [
        (1, "failed: job 1 ended with exit code 3"),
        (2, "failed: job 2 was ended by SIGKILL at once"),
        (3, "failed: job 3 ended with exit code 0"),
        (4, "failed: job 4 was cancelled while pending"),
        (5, "failed: job 5 was cancelled after 3 s"),
    ],
)
def test_squeue_accounting_and_completion_file_say_alike_how_a_job_ended(number: int, status: str) -> None:
    for source in (SQUEUE, COMPLETION, ACCOUNTING):
        job = source[number]
        assert job.ended
        assert job.ending().replace(" 4 s", " 3 s") == status
        assert job.limit_s == 600
        assert job.nodes == SQUEUE[number].nodes


def test_a_job_that_slurm_refused_and_noted_all_the_same() -> None:
    assert SQUEUE[9].ending() == "failed: job 9 was given up by Slurm before it ran (BadConstraints)"


def test_what_lives_and_what_can_never_start() -> None:
    assert {number for number, job in SQUEUE.items() if not job.ended} == {6, 7, 8, 10, 12}
    assert {number for number, job in SQUEUE.items() if job.never_starts} == {7, 8}
    assert (SQUEUE[6].restarts, SQUEUE[6].reason) == (1, "BeginTime")
    assert SQUEUE[8].limit_s == 500 * 60


def test_parts_of_one_submission_are_one_job() -> None:
    assert (SQUEUE[10].state, SQUEUE[10].nodes) == ("RUNNING", "n1,n2")
    assert SQUEUE[12].state == "PENDING", "a job array"
    assert 11 not in SQUEUE
    assert (ACCOUNTING[7].state, ACCOUNTING[7].nodes) == ("COMPLETED", "n1,n2")
    assert ACCOUNTING[9].ending() == "failed: job 9 ended with exit code 1"


@pytest.mark.parametrize(
    ("first", "second", "state"),
    [
        ("RUNNING", "COMPLETED", "RUNNING"),
        ("COMPLETED", "PENDING", "PENDING"),
        ("COMPLETED", "NODE_FAIL", "NODE_FAIL"),
        ("FAILED", "COMPLETED", "FAILED"),
        ("FAILED", "RUNNING", "RUNNING"),
        ("COMPLETED", "COMPLETED", "COMPLETED"),
    ],
)
def test_a_part_that_lives_decides_and_then_one_that_failed(first: str, second: str, state: str) -> None:
    line = next(line for line in text_of("slurm", "squeue.txt").splitlines() if line.startswith("1 "))
    parts = [
        line.replace("1     ", f"1_{number}   ", 1).replace("FAILED".ljust(20), word.ljust(20))
        for number, word in enumerate((first, second))
    ]
    assert parse_squeue("\n".join(parts))[1].state == state


@pytest.mark.parametrize(
    ("reason", "never"),
    [
        *((reason, True) for reason in (
            "BadConstraints", "PartitionConfig", "PartitionNodeLimit", "PartitionTimeLimit",
            "DependencyNeverSatisfied", "InvalidAccount", "InvalidQOS", "QOSMaxWallDurationPerJobLimit",
            "AssocMaxNodePerJobLimit", "QOSMaxCpuPerNode", "QOSMinGRES", "JobHoldMaxRequeue",
        )),
        *((reason, False) for reason in (
            "", "Resources", "Priority", "BeginTime", "Dependency", "JobHeldUser", "JobHeldAdmin", "Licenses",
            "ReqNodeNotAvail, UnavailableNodes:n4", "PartitionDown", "Reservation", "QOSMaxJobsPerUserLimit",
            "AssocGrpCpuLimit", "QOSGrpNodeLimit",
        )),
    ],
)  # fmt: skip
def test_reasons_that_last_and_reasons_that_may_change(reason: str, never: bool) -> None:
    line = next(line for line in text_of("slurm", "squeue.txt").splitlines() if line.startswith("7 "))
    told = {
        state: parse_squeue(line[:40] + state.ljust(20) + reason.ljust(80) + line[140:])[7].never_starts
        for state in ("PENDING", "RUNNING")
    }
    assert told == {"PENDING": never, "RUNNING": False}


@pytest.mark.parametrize(
    ("job", "status"),
    [
        (Job(id=7, state="NODE_FAIL", nodes="n[1-2]", elapsed_s=90),
         "failed: job 7 lost a node of n[1-2] after 1 min 30 s"),
        (Job(id=7, state="TIMEOUT", nodes="n1", limit_s=7200), "timeout: job 7 hit its time limit of 2 h"),
        (Job(id=7, state="PREEMPTED", nodes="n1", elapsed_s=5),
         "failed: job 7 was preempted by another after 5 s"),
        (Job(id=7, state="BOOT_FAIL", nodes="n3"), "failed: job 7 did not start: its nodes n3 did not boot"),
        (Job(id=7, state="REVOKED"), "failed: job 7 ended as REVOKED"),
    ],
)  # fmt: skip
def test_endings_in_words(job: Job, status: str) -> None:
    assert job.ending() == status


def test_an_accounting_names_who_cancelled_and_notes_each_execution() -> None:
    """As `sacct --parsable2` prints it (sacct(1), JOB STATE CODES): of a requeued job the last row counts."""
    jobs = parse_sacct(
        "21|CANCELLED by 1000|None|0:0|None assigned|00:00:00|1-00:00:00|2026-11-21T10:00:00\n"
        "22|NODE_FAIL|NodeDown|1:0|n4|00:01:05|UNLIMITED|2026-11-21T10:00:00\n"
        "22|TIMEOUT|TimeLimit|0:0|n3|1-02:03:04|Partition_Limit|2026-11-21T10:00:00\n"
    )
    assert jobs[21].ending() == "failed: job 21 was cancelled while pending"
    assert jobs[21].limit_s == 86400
    assert (jobs[22].state, jobs[22].nodes, jobs[22].elapsed_s) == ("TIMEOUT", "n3", 93784)
    assert jobs[22].limit_s is None


def test_age_is_counted_from_the_submission() -> None:
    assert SQUEUE[7].age_s(datetime(2026, 11, 21, 15, 38, 28)) == 60
    assert Job(id=1, state="PENDING").age_s(datetime.now()) == 0


@given(st.text())
def test_no_text_breaks_the_readers(text: str) -> None:
    for job in [*parse_squeue(text).values(), *parse_sacct(text).values()]:
        assert job.ending()


def test_nothing_to_ask_asks_nothing() -> None:
    assert ask([]) == {}


#: squeue's own line of a job that failed, with the state, reason and exit status of one that the kernel's
#: memory controller ended: 0:125 (slurm.h, SIG_OOM).
_OUT_OF_MEMORY = (
    next(line for line in text_of("slurm", "squeue.txt").splitlines() if line.startswith("1 "))
    .replace("FAILED".ljust(20), "OUT_OF_MEMORY".ljust(20))
    .replace("NonZeroExitCode".ljust(80), "OutOfMemory".ljust(80))
    .replace("768 ", "125 ")
)


@pytest.mark.slow
def test_a_job_out_of_memory_replayed_because_it_takes_memory_cgroups(tmp_path: Path) -> None:
    (tmp_path / "squeue").write_text(f"#!/bin/sh\ncat <<'END'\n{_OUT_OF_MEMORY}\nEND\n")
    (tmp_path / "squeue").chmod(0o755)
    (tmp_path / "benchmark.xml").write_text(
        '<jube><benchmark name="b" outpath="runs"><step name="big"><do done_file="ready" error_file="error">'
        "echo Submitted batch job 1; echo 'filled 3 of 9 arrays' &gt;job.err</do></step></benchmark></jube>"
    )
    subprocess.run(["jube", "run", "benchmark.xml"], cwd=tmp_path, check=True, capture_output=True)
    ended = subprocess.run(
        [NPC, "records", "wait", "runs", "--json"],
        cwd=tmp_path,
        env={**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert ended.returncode == 1, "nothing usable"
    (row,) = json.loads(ended.stdout)["workpackages"]
    assert row["state"] == "failed"
    assert row["reason"] == "failed: job 1 ran out of memory on n1; last words: filled 3 of 9 arrays"


#: sinfo(1), "NODE STATE CODES": in long words with the sign behind, and what each means for a job.
@pytest.mark.parametrize(
    ("states", "dead", "takes_jobs", "idle"),
    [
        ("idle", False, True, True),
        ("allocated mixed allocated+ completing planned idle- blocked npc", False, True, False),
        ("idle~ idle# idle! idle% mixed# powered_down powering_down powering_up", False, True, False),
        ("drained draining drained~ fail failing error future inval unknown", False, False, False),
        ("maint maint~ idle$ allocated$ reserved", False, False, False),
        ("reboot_issued reboot_requested idle@ mixed@ idle^", False, False, False),
        ("down down~ down$ down* idle* allocated* maint* drained*", True, False, False),
    ],
)
def test_what_the_state_of_a_node_means_for_a_job(
    states: str, dead: bool, takes_jobs: bool, idle: bool
) -> None:
    for state in states.split():
        node = SlurmNode("n1", state)
        assert (node.dead, node.takes_jobs, node.idle) == (dead, takes_jobs, idle), state
