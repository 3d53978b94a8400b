"""A job whose modules cannot be loaded ends there, and what the module command said is the reason."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from npc.records.launch import last_words
from npc.records.record import read_csv
from tests.lab.cluster import Cluster
from tests.lab.jube_job import NPC, SMALL
from tests.lab.modules import missing, module_commands
from tests.lab.npb_job import environment_of_test
from tests.paths import ROOT

pytestmark = [pytest.mark.slow, pytest.mark.skipif(bool(missing()), reason=missing())]

LMOD = 'The following module(s) are unknown: "OpenMPI/9"'
TCL = "Unable to locate a modulefile for 'OpenMPI/9'"
REASONS = {"Lmod": LMOD, "Environment Modules": TCL, "3.2": TCL}


@pytest.fixture
def modulefiles(tmp_path: Path) -> Path:
    """A module that loads, and one that talks while it does."""
    folder = tmp_path / "modulefiles"
    (folder / "GCC").mkdir(parents=True)
    (folder / "GCC/13").write_text('#%Module\nputs stderr "GCC is the default now"\nsetenv GCC_HERE yes\n')
    return folder


def job(platform: str, modules: str, folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """The platform's job script, run by bash with nothing in it but modules."""
    text = (ROOT / "platforms" / platform / "submit.job.in").read_text().replace("#MODULES#", modules)
    text = text.replace("#FLAG#", "touch ready").replace("#FLAG_ERROR#", "touch error")
    text = text.replace("#EXECUTABLE#", 'echo "measured with $GCC_HERE"')
    folder.mkdir()
    (folder / "submit.job").write_text(re.sub("#[A-Z_]+#", "", text))
    with (folder / "job.err").open("w") as err:
        return subprocess.run(
            ["bash", "submit.job"], cwd=folder, env=environment_of_test(environment),
            stdout=subprocess.PIPE, stderr=err, text=True, timeout=60, check=False,
        )  # fmt: skip


@pytest.mark.parametrize("platform", ["slurm", "sge"])
@pytest.mark.parametrize("maker", REASONS)
def test_a_missing_module_ends_the_job_before_it_measures(
    maker: str, platform: str, modulefiles: Path, tmp_path: Path
) -> None:
    command = module_commands(modulefiles)[maker]
    ended = job(platform, "GCC/13 OpenMPI/9", tmp_path / "work", **command)
    assert ended.returncode == 1 and "measured" not in ended.stdout
    assert (tmp_path / "work/error").exists() and not (tmp_path / "work/ready").exists()
    reason = last_words(tmp_path / "work/job.err")
    assert reason.startswith("module load GCC/13 OpenMPI/9: ") and REASONS[maker] in reason

    ended = job(platform, "GCC/13", tmp_path / "well", **command)
    assert (ended.returncode, ended.stdout) == (0, "measured with yes\n")
    assert "GCC is the default now" in (tmp_path / "well/job.err").read_text()


def test_without_any_module_command_the_reason_says_so(tmp_path: Path) -> None:
    nothing = {"BASH_FUNC_module%%": "() { command no-such-module-command; }"}
    ended = job("slurm", "OpenMPI/9", tmp_path / "work", **nothing)
    assert ended.returncode == 1
    assert "no-such-module-command: command not found" in last_words(tmp_path / "work/job.err")


@pytest.mark.parametrize("maker", REASONS)
def test_an_mpi_whose_module_is_missing_is_unavailable_with_the_reason(
    maker: str, modulefiles: Path, tmp_path: Path
) -> None:
    script = f". {ROOT}/benchmarks/mpi.sh OpenMPI/9 {tmp_path}\necho went on"
    environment = environment_of_test(module_commands(modulefiles)[maker])
    ended = subprocess.run(
        ["bash", "-c", script], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=60,
        check=False,
    )  # fmt: skip
    assert ended.returncode == 1 and not ended.stdout
    last = ended.stderr.splitlines()[-1]
    assert last.startswith("unavailable: mpi=OpenMPI/9: module load OpenMPI/9 failed: ")
    assert REASONS[maker] in last


def test_of_a_foreign_job_script_that_lmod_ends_its_reason_is_taken(
    modulefiles: Path, tmp_path: Path
) -> None:
    """Its last lines are advice about module files."""
    command = module_commands(modulefiles)["Lmod"]
    with (tmp_path / "job.err").open("w") as err:
        subprocess.run(
            ["bash", "-c", "module load OpenMPI/9 || exit"], env=environment_of_test(command), stderr=err,
            timeout=60, check=False,
        )  # fmt: skip
    assert last_words(tmp_path / "job.err") == f"module load: {LMOD}"
    with (tmp_path / "job.err").open("a") as err:
        err.write("gcc: error: no input files\n")
    assert last_words(tmp_path / "job.err") == "gcc: error: no input files", "the job went on"


@pytest.mark.slurm
def test_the_record_of_a_job_without_its_module_says_what_the_module_command_said(
    modulefiles: Path, tmp_path: Path
) -> None:
    env = {**SMALL, **module_commands(modulefiles)["Lmod"], "NPC_MODULES": "OpenMPI/9"}
    runs = tmp_path / "runs"
    jube = ["jube", "run", "benchmarks/stream/benchmark.xml", "--hide-animation", "--outpath", runs]
    with Cluster(nodes=1) as one:
        path = ["--include-path", "platforms/slurm"]
        submitted = one.run("head", [*jube, *path], env=env, timeout=120, cwd=ROOT)
        assert submitted.returncode == 0, submitted.stdout + submitted.stderr
        wait = [NPC, "records", "wait", runs, "--least", "0.3s", "--most", "0.5s"]
        assert one.run("head", wait, timeout=200).returncode == 1
        one.run("head", [NPC, "records", "collect", runs])
    (record,) = read_csv(runs / "000000/records.csv")
    assert record.status.startswith(
        "failed: job 1 ended with exit code 1; last words: module load OpenMPI/9: "
    )
    assert LMOD in record.status
