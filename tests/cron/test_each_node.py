"""npc characterise --each-node on a real Slurm, as an ordinary user: a job a node, in a reservation, and when
a node dies."""

from __future__ import annotations

import re
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from npc import read_run
from npc.jobs.workpackages import read_workpackages
from tests.lab.cluster import AS_USER, Cluster, until
from tests.lab.jube_job import NPC
from tests.lab.strangers import shared_folder
from tests.made.nights import NODE

pytestmark = [pytest.mark.slow, pytest.mark.slurm]
#: Two benchmarks of a node: what gives a ceiling, and what gives another.
CACHE, MEMORY = "-t load -w N:100kB:1 -i 10000", "-t load -w N:200MB:1 -i $passes"
PASSES = """<parameterset name="passes_param">
        <parameter name="passes" mode="shell">printf %s "${NPC_PASSES:-5}"</parameter>
    </parameterset>
    <benchmark"""
SECOND = (
    NODE.replace(CACHE, MEMORY)
    .replace('step name="likwid"', 'step name="memory"')
    .replace("<benchmark", PASSES)
    .replace("<use>executeset", "<use>passes_param,executeset")
)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(nodes=4, limits="MaxSubmitJobs=2") as four:
        yield four


@pytest.fixture
def folder() -> Iterator[Path]:
    """Of the ordinary user."""
    with shared_folder() as place:
        (place / "first.xml").write_text(NODE)
        (place / "second.xml").write_text(SECOND)
        yield place


def environment(folder: Path) -> dict[str, str]:
    own = {name: str(folder) for name in ("HOME", "XDG_CACHE_HOME", "TMPDIR", "NPC_WORKPLACE", "NPC_LOCKS")}
    return {**own, "NPC_PAIRS_RUNS": "1", "NPC_TIMELIMIT": "00:02:00"}


def each_node(folder: Path, *words: str | Path) -> list[str | Path]:
    files = ["--node-benchmark", folder / "first.xml", "--node-benchmark", folder / "second.xml"]
    output = ["--output", folder / "runs"]
    return [*AS_USER, NPC, "characterise", "--platform", "slurm", "--each-node", *files, *output, *words]


def jobs_of(run: Path) -> dict[str, set[str]]:
    """By job its nodes and steps."""
    jobs: dict[str, set[str]] = {}
    for workpackage in read_workpackages(run):
        job = workpackage.batch_job()
        if job is not None:
            what = f"{workpackage.parameters['npc_nodelist']} {workpackage.step}"
            jobs.setdefault(str(job.number), set()).add(what)
    return jobs


def usable(run: Path) -> set[tuple[str, str]]:
    return {(";".join(sorted(record.hosts)), record.benchmark) for record in read_run(run) if record.ok}


def test_the_nodes_of_a_reservation_are_measured_in_a_job_each_and_no_others(
    cluster: Cluster, folder: Path
) -> None:
    """Three of four nodes in maintenance, which keeps all others away from them."""
    words = "create reservation ReservationName=acceptance StartTime=now Duration=60 Flags=MAINT"
    cluster.run("head", ["scontrol", *words.split(), "Users=nobody", "Nodes=n[2-4]"], check=True)
    try:
        reserved = each_node(folder, "--set", "reservation=acceptance")
        ended = cluster.run("head", reserved, env=environment(folder), timeout=150)
    finally:
        cluster.run("head", ["scontrol", "delete", "ReservationName=acceptance"], check=True)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    (run,) = (folder / "runs").glob("0*")
    jobs = sorted(sorted(what) for what in jobs_of(run).values())
    (pair,) = [what[0].split()[0] for what in jobs if len(what) == 1]
    nodes = ("n2", "n3", "n4")
    assert jobs == sorted([[f"{pair} pairs"], *([f"{node} likwid", f"{node} memory"] for node in nodes)])
    single = {(node, step) for node in nodes for step in ("likwid", "memory")}
    assert usable(run) == single | {(pair.replace(",", ";"), "pairs")}
    assert {record.raw.split("/")[1] for record in read_run(run)} == {"work"}
    page = [*AS_USER, NPC, "report", run]
    assert cluster.run("head", page, env=environment(folder)).returncode == 0
    assert all(node in (run / "report.html").read_text() for node in nodes)
    assert "Slurm takes no more jobs now" in ended.stderr, "two at once"


def test_a_node_that_dies_loses_what_it_had_not_measured_and_the_others_nothing(
    cluster: Cluster, folder: Path
) -> None:
    """n2 dies in its second benchmark: the first is measured, its pair is not tried any more."""
    env = {**environment(folder), "NPC_PASSES": "200"}
    words = each_node(folder, "--nodes", "n[1-3]", "--at-once", "2")
    process = cluster.popen("head", words, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    run = folder / "runs/000000"
    try:
        until((run / "workpackages.xml").exists, "the jobs are planned", 60)
        of_n2 = [one for one in read_workpackages(run) if one.parameters["npc_nodelist"] == "n2"]
        (second,) = [one for one in of_n2 if one.step == "memory"]
        until(lambda: second.progress().made == 1, "n2 measures", 90)
        cluster.kill_node("n2")
        # what Slurm finds out by itself after SlurmdTimeout
        down = ["scontrol", "update", "nodename=n2", "state=down", "reason=no power"]
        cluster.run("head", down, check=True)
        out, err = process.communicate(timeout=150)
    finally:
        process.kill()
        cluster.start_slurmd("n2")
        cluster.run("head", ["scontrol", "update", "nodename=n2", "state=resume"])
        cluster.await_idle(["n2"], 60)
    assert process.returncode == 6, out + err
    pairs = {job: what for job, what in jobs_of(run).items() if any("pairs" in words for words in what)}
    assert usable(run) >= {(node, "likwid") for node in ("n1", "n2", "n3")}
    assert usable(run) >= {("n1", "memory"), ("n3", "memory")}
    of_second = [record for record in read_run(run) if record.raw.startswith(second.folder.name)]
    lost = [record.status for record in of_second if not record.ok]
    assert any("lost its node n2" in status for status in lost), lost
    assert not [what for what in pairs.values() if any("n2" in words for words in what)]
    assert re.search(r"^not measured: n2: memory: failed: job \d+ lost its node n2", err, re.M), err
    no_pair = r"^not measured: n\d,n\d: pairs: failed: no job was started: n2 is down\*? \(no power\)"
    assert re.search(no_pair, err, re.M), err


def test_what_a_stop_left_is_submitted_by_who_waits_for_the_run(cluster: Cluster, folder: Path) -> None:
    words = each_node(folder, "--pair", "n1", "--pair", "n3", "--at-once", "1")
    env = environment(folder)
    process = cluster.popen("head", words, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    run = folder / "runs/000000"
    until(lambda: (run / "workpackages.xml").exists() and len(jobs_of(run)) == 1, "a job is submitted", 60)
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 128 + signal.SIGTERM
    assert f"1 job in the queue, 1 job not submitted; to go on: npc records wait {run}" in err, err
    waits = [*AS_USER, NPC, "records", "wait", run]
    ended = cluster.run("head", waits, env=env, timeout=100)
    assert ended.returncode == 0, ended.stderr
    cluster.run("head", [*AS_USER, NPC, "records", "collect", run], env=env, check=True)
    assert usable(run) == {(node, step) for node in ("n1", "n3") for step in ("likwid", "memory")}
    assert list(jobs_of(run).values()) == [
        {"n1 likwid", "n1 memory"}, {"n3 likwid", "n3 memory"},
    ]  # fmt: skip


def test_where_nothing_goes_on_any_more_the_command_ends_and_says_so(cluster: Cluster, folder: Path) -> None:
    """Somebody else has the node; three hundredths of a job's limit are enough here."""
    others = [
        "sbatch",
        "--parsable",
        "--exclusive",
        "--nodelist=n4",
        "--output=/dev/null",
        "--wrap=sleep 900",
    ]
    cluster.run("head", others, check=True)
    impatient = "import npc.cron.each_node as part; part.IDLE = 0.03; from npc.cli import main; main()"
    words = each_node(folder, "--nodes", "n4")
    words[len(AS_USER) : len(AS_USER) + 1] = [NPC.with_name("python"), "-c", impatient]
    try:
        ended = cluster.run("head", words, env=environment(folder), timeout=60)
    finally:
        for whose in ("--user=nobody", "--user=root"):
            cluster.run("head", ["scancel", whose])
        empty = ["squeue", "--noheader"]
        until(lambda: not cluster.run("head", empty).stdout, "no job is left", 60)
    assert ended.returncode == 5, ended.stderr
    assert (
        "no job has begun or ended for too long: what had been measured is collected; 1 job in"
        in ended.stderr
    )


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--nodes", "n[3-6]"], "--nodes n5,n6: not in partition all"),
        (["--nodes", "n[3-"], "brackets do not match"),
        (["--set", "reservation=none"], "reservation=none: Slurm knows no such reservation"),
        (["--pair", "n1,n2,n3"], "--pair names two nodes, or one"),
    ],
)
def test_nodes_that_are_not_there_are_a_mistake(
    cluster: Cluster, folder: Path, words: list[str], expected: str
) -> None:
    ended = cluster.run("head", each_node(folder, *words), env=environment(folder))
    assert ended.returncode == 2
    assert expected in ended.stderr and not (folder / "runs").exists()
