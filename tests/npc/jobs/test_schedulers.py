"""Grid Engine, PBS and Flux: what their commands' words mean, on what they really printed (tests/data).

Grid Engine's were captured here, PBS's and Flux's are published ones: their headers say by whom.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from npc.jobs import flux, grid_engine, pbs, slurm
from npc.jobs.scheduler import Job, JobId, Scheduler, SchedulerUnavailable
from npc.jobs.workpackages import DoCommand, Workpackage
from tests.captured import text_of

QSTAT = grid_engine.parse_qstat(text_of("grid-engine", "qstat.xml"), datetime(2026, 11, 24, 14, 33, 45))
#: How jobs ended, by number: qacct's records, and None for what it says of those it does not know.
QACCT = {
    int(number): grid_engine.parse_qacct(record)
    for record in re.split(r"(?=^=+$)", text_of("grid-engine", "qacct.txt"), flags=re.M)
    for number in re.findall(r"^jobnumber\s+(\d+)", record, re.M)
}


@pytest.mark.parametrize(
    ("number", "ending"),
    [
        (1, "failed: job 1 ended with exit code 0"),
        (2, "failed: job 2 ended with exit code 3"),
        (3, "timeout: job 3 hit its time limit of 3 s"),
        (7, "failed: job 7 was ended by SIGSEGV at once"),
        (8, "failed: job 8 was given up by Grid Engine before it ran (opening input/output file)"),
        (9, "failed: job 9 ended with exit code 3"),
        (10, "failed: job 10 was ended by SIGKILL after 8 s"),
    ],
)
def test_how_a_job_of_grid_engine_ended(number: int, ending: str) -> None:
    job = QACCT[number]
    assert job is not None
    assert job.ended
    assert job.ending() == ending


def test_what_grid_engine_says_of_jobs_that_live() -> None:
    states = {number: (job.state, job.reason, job.never_starts) for number, job in QSTAT.items()}
    assert states == {
        4: ("PENDING", "", False),
        5: ("PENDING", "", False),
        6: ("PENDING", "held", False),
        8: ("PENDING", "error", True),
        10: ("RUNNING", "", False),
    }
    assert (QSTAT[10].nodes, QSTAT[10].elapsed_s) == ("g1,g2", 8)
    assert QSTAT[4].age_s(datetime(2026, 11, 24, 14, 34, 35)) == 60
    assert grid_engine.parse_qacct("error: job id 4 not found\n") is None


def test_what_pbs_says_of_jobs() -> None:
    (running,) = pbs.parse_json(text_of("pbs", "running.json")).values()
    assert (running.state, running.nodes, running.limit_s) == ("RUNNING", "charon24,charon21", 60)
    (held,) = pbs.parse_json(text_of("pbs", "held.json")).values()
    assert (held.state, held.nodes, held.never_starts) == ("PENDING", "", False)
    (finished,) = pbs.parse_json(text_of("pbs", "finished.json")).values()
    assert (finished.state, finished.exit_code, finished.restarts) == ("COMPLETED", 0, 0)
    assert pbs.parse_json(text_of("pbs", "unreachable.json")) == {}


def test_torque_prints_its_own_way() -> None:
    jobs = pbs.parse_text(text_of("pbs", "torque.txt"))
    assert jobs["9.torque01.bcgsc.ca"].state == "COMPLETED"
    deleted = jobs["48[1].torque01.bcgsc.ca"]
    assert deleted.ending() == "failed: job 48[1].torque01.bcgsc.ca was cancelled while pending"
    assert deleted.reason.endswith("its dependency of array 43[].torque01.bcgsc.ca can never be satisfied")
    assert deleted.limit_s == 16 * 3600


@pytest.mark.parametrize(
    ("code", "ending"),
    [
        ('"-29"', "timeout: job 0.725ccdf1a5fb hit its time limit"),  # as a string: baw-server's issue 875
        ("-27", "failed: job 0.725ccdf1a5fb ran out of memory on 725ccdf1a5fb"),
        ("271", "failed: job 0.725ccdf1a5fb was cancelled at once"),
        ("265", "failed: job 0.725ccdf1a5fb was ended by SIGKILL at once"),
        ("3", "failed: job 0.725ccdf1a5fb ended with exit code 3"),
    ],
)
def test_exit_codes_of_pbs(code: str, ending: str) -> None:
    """The PBS Professional guides, "Job Exit Status Codes", in a job's output as it was captured."""
    text = text_of("pbs", "finished.json").replace('"Exit_status": 0', f'"Exit_status": {code}')
    (job,) = pbs.parse_json(text).values()
    assert job.ending() == ending


def test_a_job_that_pbs_can_never_run() -> None:
    text = (
        text_of("pbs", "held.json").replace('"H"', '"Q"').replace('"substate"', '"comment":"{}","substate"')
    )
    told = {
        comment: next(iter(pbs.parse_json(text.replace("{}", comment)).values())).never_starts
        for comment in ("Can Never Run: Insufficient amount of resource: ncpus", "Not Running: Host set full")
    }
    assert list(told.values()) == [True, False]


def test_what_flux_says_of_jobs() -> None:
    (running,) = flux.parse_jobs(text_of("flux", "running.json")).values()
    assert (running.id, running.state, running.nodes) == ("ƒiFkbMhFM", "RUNNING", "3db47f546663")
    (pending,) = flux.parse_jobs(text_of("flux", "pending.json")).values()
    assert (pending.state, pending.nodes, pending.limit_s) == ("PENDING", "", None)
    (ended,) = flux.parse_jobs(text_of("flux", "canceled.json")).values()
    assert ended.ending() == "failed: job ƒiFkbMhFM was cancelled after 18 s"
    both = f'{{"jobs": [{text_of("flux", "running.json")}, {text_of("flux", "pending.json")}]}}'
    assert set(flux.parse_jobs(both)) == {"ƒiFkbMhFM", "ƒiFxrykWs"}


@pytest.mark.parametrize(
    ("command", "printed", "scheduler", "number"),
    [
        ("qsub submit.job", text_of("grid-engine", "qsub.txt"), grid_engine, 19),
        ("./chain.sh last submit.job", 'Your job 7 ("npc") has been submitted\n', grid_engine, 7),
        ("qsub submit.job", "1063.725ccdf1a5fb\n", pbs, "1063.725ccdf1a5fb"),
        ("qsub submit.job", "142[].torque01.bcgsc.ca\n", pbs, "142[].torque01.bcgsc.ca"),
        ("flux batch submit.job", "ƒiFkbMhFM\n", flux, "ƒiFkbMhFM"),
        ("sbatch submit.job", "Submitted batch job 18\n", slurm, 18),
        ("bsub submit.job", "Job <123> is submitted to default queue <normal>.\n", None, ""),
    ],
)
def test_a_job_is_known_by_what_its_submission_printed(
    tmp_path: Path, command: str, printed: str, scheduler: Scheduler | None, number: JobId
) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "work/stdout").write_text(printed)
    (tmp_path / "wp_done_00").touch()
    submit = command.split()[0]
    workpackage = Workpackage(tmp_path, 0, "osu", {"submit": submit}, (DoCommand(command, "ready", "error"),))
    job = workpackage.batch_job()
    assert (job and (job.scheduler, job.number)) == (scheduler and (scheduler, number))
    assert workpackage.submitted_elsewhere() == ("" if job else "bsub")


@given(
    st.text()
    | st.sampled_from(["1", "[]", "null", "{}", "=\\n", "[" * 5000, '{"Jobs": [1]}', '{"jobs": [1]}'])
)
def test_no_text_breaks_the_readers(text: str) -> None:
    now = datetime(2026, 11, 24)
    readers: list[Callable[[str], dict[JobId, Job]]] = [
        lambda words: grid_engine.parse_qstat(words, now), pbs.parse_json, pbs.parse_text, flux.parse_jobs,
    ]  # fmt: skip
    for read in readers:
        try:
            read(text)
        except SchedulerUnavailable as words:
            assert "was not understood" in str(words)
    grid_engine.parse_qacct(text)


#: More digits than Python reads, and more than a C int has.
DIGITS = ("9" * 5000, "99999999999")


@pytest.mark.parametrize("digits", DIGITS, ids=["many", "some"])
def test_numbers_without_end_are_no_numbers_of_a_scheduler(digits: str) -> None:
    widths = (40, 20, 80, 12, 250, 20, 20, 12, 24)
    cells = ("7", "FAILED", "None", digits, "n1", f"{digits}:00", "1:00", digits, "N/A")
    line = "".join(cell[:width].ljust(width) for cell, width in zip(cells, widths, strict=True))
    assert slurm.parse_squeue(line)[7].restarts == 0
    told = slurm.parse_sacct(f"7|FAILED|None|{digits}:{digits}|n1|{digits}:00|{digits}|N/A")[7]
    assert (told.exit_code, told.signal, told.elapsed_s, told.limit_s) == (None, 0, 0, None)
    assert slurm.submitted(f"Submitted batch job {digits}{digits}", "sbatch") is None
    for answer in (f'{{"Jobs": {{"1.x": {{"Exit_status": {digits}}}}}}}', '{"Jobs": {"1.x": []}}'):
        with pytest.raises(SchedulerUnavailable, match="was not understood"):
            pbs.parse_json(answer)
    for answer in (f'{{"jobid": "f", "state": "INACTIVE", "waitstatus": {digits}}}', '{"jobs": [null]}'):
        with pytest.raises(SchedulerUnavailable, match="was not understood"):
            flux.parse_jobs(answer)


_POLICY = "Job violates accounting/QOS policy (job submit limit, user's size and/or time limits)"
_GENERAL = f"sbatch: error: Batch job submission failed: {_POLICY}\n"
_TORQUE = "Maximum number of jobs already in queue MSG=jobs exceed the queue limit: user a@b, queue c"
_ASSOCIATION = "sbatch: error: AssocMaxSubmitJobLimit\n" + _GENERAL


@pytest.mark.parametrize(
    ("scheduler", "text", "limit"),
    [
        (slurm, _ASSOCIATION, "AssocMaxSubmitJobLimit"),
        (slurm, _ASSOCIATION.replace("\n", "\n\n"), "AssocMaxSubmitJobLimit"),  # as JUBE repeats it
        (slurm, _GENERAL, _POLICY),
        (slurm, "sbatch: error: QOSMaxSubmitJobPerUserLimit\n" + _GENERAL, "QOSMaxSubmitJobPerUserLimit"),
        (slurm, "sbatch: error: AssocGrpSubmitJobsLimit\n" + _GENERAL, "AssocGrpSubmitJobsLimit"),
        (slurm, "sbatch: error: QOSMaxNodePerUserLimit\n" + _GENERAL, ""),
        (slurm, _ASSOCIATION + "sbatch: error: QOSMaxWallDurationPerJobLimit\n" + _GENERAL, ""),
        (slurm, _ASSOCIATION + "sbatch: error: Batch job submission failed: Invalid qos specification\n", ""),
        (slurm, "Submitted batch job 4\n", ""),
        (pbs, "qsub: would exceed complex's per-user limit of jobs in 'Q' state\n",
         "would exceed complex's per-user limit of jobs in 'Q' state"),
        (pbs, "qsub: Maximum number of jobs already in queue workq\n",
         "Maximum number of jobs already in queue workq"),
        (pbs, f"qsub: submit error ({_TORQUE})\n", _TORQUE),
        (pbs, "qsub: Job violates queue and/or server resource limits\n", ""),
        (grid_engine, "Unable to run job: job rejected: only 2 jobs are allowed per user (current job count: "
         "2).\nExiting.\n", "only 2 jobs are allowed per user (current job count: 2)"),
        (grid_engine, 'Unable to run job: Job was rejected because job requests unknown queue "a".\n', ""),
        (flux, "flux-batch: ERROR: [Errno 22] unsupported\n", ""),
    ],
)  # fmt: skip
def test_which_refusals_only_wait_for_a_place_in_the_queue(
    scheduler: Scheduler, text: str, limit: str
) -> None:
    assert scheduler.submit_limit(text) == limit
