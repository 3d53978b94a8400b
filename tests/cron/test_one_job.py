"""All benchmarks in one job of a real Slurm, by an ordinary user: measured, ended in the middle, gone on
with; and the same in an allocation that the user has."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from npc import Record, read_run
from npc.jobs.workpackages import EARLIER, read_workpackages
from npc.records.series import Series
from tests.lab.cluster import Cluster, until
from tests.lab.jube_job import NPC, SMALL
from tests.lab.ordinary_user import AS_USER, let_users_in, users_folder
from tests.made.nights import some_steps

pytestmark = [pytest.mark.slow, pytest.mark.slurm]
#: The first in the order of the steps runs on two nodes.
STEPS = ("iperf3", "stream", "memory", "fft")


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(nodes=3) as three:
        let_users_in(three)
        yield three


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    with users_folder() as place:
        some_steps(place, *STEPS)
        yield place


def characterise(folder: Path, output: str, *words: str) -> list[str | Path]:
    file, place = folder / "some.yml", folder / output
    return [NPC, "characterise", "--platform", "slurm", "--benchmark", file, "--output", place, *words]


def environment(folder: Path, **more: str) -> dict[str, str]:
    own = {name: str(folder) for name in ("HOME", "NPC_WORKPLACE")}
    return {**SMALL, **own, "NPC_MEMORY_PARTS": "cores", **more}


def jobs(cluster: Cluster) -> set[str]:
    """Numbers of all jobs that the controller has ever had."""
    return set(cluster.run("head", ["squeue", "--states=all", "--noheader", "--format=%i"]).stdout.split())


def held_until(go: Path, step: str) -> str:
    """Lines of a job script by which that of a step waits for a file before it measures."""
    look = f"for look in {{1..600}}; do [ -e {go} ] && break; sleep 0.2; done"
    return f"if pwd | grep -q _{step}/; then {look}; fi"


def of_step(records: list[Record], step: str) -> list[Record]:
    return [record for record in records if record.benchmark == step]


def test_one_job_measures_the_same_series_as_jobs_of_their_own(cluster: Cluster, folder: Path) -> None:
    runs = {}
    for output, words, number in (("one", ["--one-job"], 1), ("each", [], len(STEPS))):
        before = jobs(cluster)
        command = [*AS_USER, *characterise(folder, output, *words)]
        ended = cluster.run("head", command, env=environment(folder), timeout=150)
        assert ended.returncode == 0, ended.stdout + ended.stderr
        new = jobs(cluster) - before
        assert len(new) == number
        run = folder / output / "000000"
        runs[output] = read_run(run)
        assert {record.status for record in runs[output]} == {"ok"}
        assert {record.job for record in runs[output]} == new
        assert [workpackage.state() for workpackage in read_workpackages(run)] == ["done"] * len(STEPS)
        assert (run / "roofline.json").exists() and (run / "environment.json").exists()
        if number == 1:
            assert f"one job, {new.pop()}, for 4 workpackages" in ended.stderr
            assert "its time limit is 10 min, twice what they take" in ended.stderr
    assert set(map(Series.of, runs["one"])) == set(map(Series.of, runs["each"]))
    hosts = {record.benchmark: record.hosts for record in runs["one"]}
    assert len(hosts.pop("iperf3")) == 2
    assert len(set(hosts.values())) == 1, "the others on one node, the first"


def test_a_night_of_four_benchmarks_is_one_job(cluster: Cluster, folder: Path) -> None:
    before, nights = jobs(cluster), folder / "nights"
    command = [
        *AS_USER, NPC, "night", "run", "--one-job", "--platform", "slurm", "--benchmark", folder / "some.yml",
        "--history", folder / "history", "--output", nights, "--limit", "5m",
    ]  # fmt: skip
    ended = cluster.run("head", command, env=environment(folder), timeout=200)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    (job,) = jobs(cluster) - before
    records = [record for run in nights.glob("*/first/000000") for record in read_run(run)]
    assert {record.benchmark for record in records} == set(STEPS)
    assert {(record.job, record.status) for record in records} == {(job, "ok")}
    assert list((folder / "history").rglob("*.csv")), "the night is history"


def test_what_a_job_has_left_at_its_time_limit_is_measured_by_the_next_call(
    cluster: Cluster, folder: Path
) -> None:
    go, run = folder / "go", folder / "limited/000000"
    env = environment(folder, NPC_ENV=held_until(go, "memory"))
    command = [*AS_USER, *characterise(folder, "limited", "--one-job")]
    process = cluster.popen(
        "head", [*command, "--set", "timelimit=00:03:00"], env=env, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True,
    )  # fmt: skip

    def second_ended() -> bool:
        return (run / "000001_stream/script_end.json").exists()

    until(second_ended, "two are measured", 90)
    (job,) = {str(named.number) for each in read_workpackages(run, 3) if (named := each.batch_job())}
    # its minutes are over at once; Slurm looks every 30 s
    cluster.run("head", ["scontrol", "update", f"JobId={job}", "EndTime=now+1"], check=True)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 6, out + err
    assert "its time limit is 3 min, as it was set" in err
    assert "not measured yet: memory 2, fft 3; the same command measures them" in err
    first = read_run(run)
    assert {record.benchmark for record in first if record.ok} == {"iperf3", "stream"}
    lost = {record.benchmark: record.status for record in first if not record.ok}
    assert set(lost) == {"memory", "fft"}
    assert all(status.startswith(f"timeout: job {job} hit its time limit") for status in lost.values())

    go.touch()
    before = jobs(cluster)
    again = cluster.run("head", command, env=env, timeout=150)
    assert again.returncode == 0, again.stdout + again.stderr
    assert "2 workpackages left" in again.stderr
    (second,) = jobs(cluster) - before
    records = read_run(run)
    assert {record.status for record in records} == {"ok"}
    for step, number in zip(STEPS, (job, job, second, second), strict=True):
        assert {record.job for record in of_step(records, step)} == {number}
    for step in ("iperf3", "stream"):
        assert of_step(records, step) == of_step(first, step)
    assert not list((folder / "limited").glob("000001")), "nothing is measured a second time"


def test_in_an_allocation_nothing_is_submitted_and_a_stop_costs_what_was_at_work(
    cluster: Cluster, folder: Path
) -> None:
    """The shell of salloc is on the login node here; the scripts run on the first node of the allocation."""
    run = folder / "here/000000"
    command = " ".join(map(str, characterise(folder, "here", "--set", "stream_cflags=-O2 -fopenmp")))
    command = command.replace("-O2 -fopenmp", "'-O2 -fopenmp'")
    log = run / "000001_stream/work/launches/launches.jsonl"
    (folder / "here.sh").write_text(
        f"{command} & first=$!\n"
        f"for look in {{1..600}}; do grep -qs '\"sample\"' {log} && break; sleep 0.1; done\n"
        f"kill -TERM $first; wait $first; echo first $?\n"
        f"{command}; echo second $?\n"
    )
    before = jobs(cluster)
    salloc = [*AS_USER, "salloc", "--nodes=2", "--exclusive", "bash", folder / "here.sh"]
    ended = cluster.run("head", salloc, env=environment(folder, NPC_SAMPLES="4"), timeout=200)
    (job,) = jobs(cluster) - before
    assert "first 143" in ended.stdout and "second 0" in ended.stdout, ended.stdout + ended.stderr
    assert "stopped: what had been measured is collected\n" in ended.stderr, "no job goes on"
    assert f"the nodes of job {job}" in ended.stderr and "3 workpackages left" in ended.stderr
    records = read_run(run)
    assert {record.status for record in records} == {"ok"} and {record.job for record in records} == {job}
    assert {record.benchmark for record in records} == set(STEPS)
    triads = [record for record in of_step(records, "stream") if record.case == "triad"]
    assert sorted(record.sample for record in triads) == [0, 1, 2, 3], "measured again as a whole"
    assert list((run / "000001_stream/work").glob(f"{EARLIER}/*/launches/raw/*.out")), "and nothing is lost"
    given = cluster.run("head", ["scontrol", "show", "job", job]).stdout
    first_node = sorted({host for record in records for host in record.hosts})[0]
    assert f"BatchHost={first_node}" in given or first_node in given
    assert {record.hosts for record in of_step(records, "stream")} == {(first_node,)}
