"""Submissions that a limit on submitted jobs refuses, on a Slurm with an accounting, as an ordinary user."""

from __future__ import annotations

import re
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from npc import read_run
from npc.jobs.workpackages import read_workpackages
from tests.lab.cluster import AS_USER, Cluster
from tests.lab.jube_job import NPC, SMALL
from tests.lab.strangers import shared_folder
from tests.made.nights import NODE
from tests.paths import ROOT

NODES = "n1;;n2;;n3;;n4"


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(nodes=4, limits="MaxSubmitJobs=2") as four:
        yield four


@pytest.fixture
def folder() -> Iterator[Path]:
    """Of the ordinary user."""
    with shared_folder() as place:
        (place / "node.xml").write_text(NODE)
        yield place


def environment(folder: Path) -> dict[str, str]:
    own = {name: str(folder) for name in ("HOME", "XDG_CACHE_HOME", "TMPDIR", "NPC_WORKPLACE", "NPC_LOCKS")}
    return {**SMALL, **own, "NPC_DEPENDENCY": "none", "NPC_MEMORY_PARTS": "cores"}


def characterise(folder: Path, *words: str | Path) -> list[str | Path]:
    output = ["--output", folder / "runs", "--limit", "100s"]
    return [*AS_USER, NPC, "characterise", "--platform", "slurm", *output, *words]


def measured(run: Path) -> set[tuple[tuple[str, ...], str]]:
    return {(record.hosts, record.status) for record in read_run(run)}


ALL = {((node,), "ok") for node in NODES.split(";;")}
WAITS = re.compile(r"^\w+ \d: waiting: Slurm takes no more jobs now \(AssocMaxSubmitJobLimit\)$", re.M)


@pytest.mark.slow
@pytest.mark.slurm
def test_jobs_beyond_the_limit_wait_for_their_turn_and_are_all_measured(
    cluster: Cluster, folder: Path
) -> None:
    words = characterise(folder, "--tag", "memory")
    ended = cluster.run("head", words, env=environment(folder), timeout=120)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    records = read_run(folder / "runs/000000")
    assert {record.benchmark for record in records if record.ok} == {"stream", "memory", "likwid"}
    assert len(WAITS.findall(ended.stderr)) == 1, ended.stderr
    assert "failed" not in ended.stderr


@pytest.mark.slow
@pytest.mark.slurm
def test_a_run_that_jube_alone_began_goes_on_and_a_stop_is_heard(cluster: Cluster, folder: Path) -> None:
    """While two jobs of another run are in the queue none is taken of this one."""
    others = [*AS_USER, "sbatch", "--parsable", "--hold", "--output=/dev/null", "--wrap=true"]
    held = [cluster.run("head", others, check=True).stdout.strip() for _ in range(2)]
    words = ["jube", "run", folder / "node.xml", "--hide-animation", "--outpath", folder / "runs"]
    words += ["--include-path", ROOT / "platforms/slurm"]
    env = environment(folder) | {"NPC_NODELIST": NODES}
    cluster.run("head", [*AS_USER, *words], env=env, cwd=folder, check=True)
    run = folder / "runs/000000"
    assert [workpackage.state() for workpackage in read_workpackages(run)] == ["waiting"] * 4
    waits = [*AS_USER, NPC, "records", "wait", run]
    process = cluster.popen("head", waits, env=env, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    assert WAITS.match(process.stderr.readline())
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=10)
    assert process.returncode == 128 + signal.SIGTERM
    gave_up = cluster.run("head", [*waits, "--limit", "1s"], env=env)
    assert gave_up.returncode == 5, gave_up.stderr
    cluster.run("head", ["scancel", *held], check=True)
    done = cluster.run("head", waits, env=env, timeout=120)
    assert done.returncode == 0, done.stderr
    cluster.run("head", [*AS_USER, NPC, "records", "collect", run], env=env, check=True)
    assert measured(run) == ALL


@pytest.mark.slow
@pytest.mark.slurm
def test_another_refusal_is_a_failure_at_once(cluster: Cluster, folder: Path) -> None:
    words = characterise(folder, "--benchmark", folder / "node.xml", "--set", "queue=nowhere")
    ended = cluster.run("head", words, env=environment(folder), timeout=60)
    assert ended.returncode == 1
    assert "Invalid partition name specified" in ended.stderr and not WAITS.search(ended.stderr)
