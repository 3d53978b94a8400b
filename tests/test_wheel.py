"""What a wheel of NPC gives, installed in an environment that knows nothing of this checkout."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

from npc.records.run import read_run
from tests.made.modules import plant
from tests.paths import ROOT

pytestmark = pytest.mark.slow

#: Where the checkout has what `npc.places.home` has of a wheel.
SUITE = ("jube.yml", "platform.xml", "submit.job.in", "benchmarks", "platforms", "docs/example")
#: Packages in which benchmarks lie, too.
IN_PACKAGES = ("cron/pairs", "observe/study")


def run(*words: str | Path, cwd: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """As who has just logged in: no variable of the checkout's environment, nor of the tests'."""
    env = {"PATH": os.defpath, "HOME": os.environ["HOME"], "LANG": "C.UTF-8", **variables}
    return subprocess.run(
        list(map(str, words)), cwd=cwd, env=env, capture_output=True, text=True, timeout=200
    )


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    words = ["-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "--wheel-dir", folder, ROOT]
    made = run(sys.executable, *words, cwd=folder, PIP_NO_INDEX="1")
    assert made.returncode == 0, made.stderr
    return next(folder.glob("npc_suite-*.whl"))


@pytest.fixture(scope="module")
def environment(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with the wheel. What it depends on comes from this one, of which no .pth file is read:
    that of the checkout is not seen."""
    folder = tmp_path_factory.mktemp("elsewhere") / "environment"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    python = folder / "bin/python"
    pip = [sys.executable, "-m", "pip", "-q", "--python", python, "install", "--no-deps", "--no-index"]
    done = run(*pip, wheel, cwd=folder)
    assert done.returncode == 0, done.stderr
    where = run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))", cwd=folder).stdout
    Path(where.strip(), "others.pth").write_text(sysconfig.get_path("purelib"), encoding="utf-8")
    return folder


def test_the_wheel_has_all_that_the_checkout_has(wheel: Path) -> None:
    expected = set()
    for name in (*SUITE, *IN_PACKAGES):
        files = [ROOT / name] if (ROOT / name).is_file() else (ROOT / name).rglob("*")
        expected |= {
            f"npc/suite/{path.relative_to(ROOT)}"
            for path in files
            if path.is_file() and "__pycache__" not in path.parts
            and not (name in IN_PACKAGES and path.suffix == ".py")
        }  # fmt: skip
    with zipfile.ZipFile(wheel) as packed:
        names = set(packed.namelist())
    assert {name for name in names if name.startswith("npc/suite/")} == expected
    assert not {name for name in names if name.startswith(("tests", "docs", "npc/setup", "npc/fetch_mpi"))}
    (top,) = {name.partition("/")[0] for name in names if ".dist-info/" not in name}
    assert top == "npc"


def test_an_empty_folder_is_enough(environment: Path, tmp_path: Path) -> None:
    """The main job, a night on a platform of one's own, the plan and the page of the nights: all of it is
    written into the folder, and nothing into the environment but locks and short_start's library. Modules of
    a site are no matter, nor are packages of others in the environment that are called as NPC's rooms are."""
    npc = environment / "bin/npc"
    site = str(plant(tmp_path / "site", "report", "numpy", "mpi4py", "click"))
    (packages,) = environment.glob("lib/python3*/site-packages")
    plant(packages, "observe", "report", "cron", "parsers", "npb", "roofline")
    before = {path for path in environment.rglob("*") if "__pycache__" not in path.parts}
    told = run(
        environment / "bin/python",
        "-c",
        "import npc, npc.cron; print(npc.__file__, npc.cron.__file__)",
        cwd=tmp_path,
    )
    assert told.stdout.count(str(environment)) == 2, told.stderr

    characterised = run(
        npc, "characterise", "--tag", "noise", "--set", "samples=1", cwd=tmp_path, PYTHONPATH=site
    )
    records = read_run(tmp_path / "runs/000000")
    assert {record.benchmark for record in records if record.ok} == {"noise"}, characterised.stderr

    made = run(npc, "platform", "new", "mine", "--alone", cwd=tmp_path)
    assert made.returncode == 0, made.stderr
    assert (tmp_path / "platforms/mine/submit.job.in").exists()
    night = run(
        npc, "night", "run", "--platform", "mine", "--benchmark", "iperf3", "--set", "samples=1",
        cwd=tmp_path,
        PYTHONPATH=site,
    )  # fmt: skip
    # what others disturbed is measured again, in a job of its own
    scripts = [path.read_text() for path in (tmp_path / "runs/nightly/mine").rglob("submit.job")]
    assert scripts and all(f"{environment}/bin/npb" in script for script in scripts), night.stderr
    assert list((tmp_path / "history/mine").glob("*.csv")), night.stderr
    page = run(npc, "report", "--history", "--output", tmp_path / "page.html", cwd=tmp_path, PYTHONPATH=site)
    assert page.returncode == 0 and (tmp_path / "page.html").exists(), page.stderr

    plan = json.loads(run(npc, "plan", "watch", "--json", cwd=tmp_path, PYTHONPATH=site).stdout)
    file = next(word for word in plan["jube"].split() if word.endswith("jube.yml"))
    assert Path(file).is_relative_to(environment) and Path(file).is_file()
    doctor = run(npc, "doctor", cwd=tmp_path, PYTHONPATH=site).stdout
    assert f"benchmarks: {Path(file).parent}" in doctor
    assert f"{site} has modules of the same names: click, mpi4py, numpy" in doctor

    after = {path for path in environment.rglob("*") if "__pycache__" not in path.parts}
    shared = environment / "share/npc"
    kept = {*shared.parents, shared, shared / "short_start.so"}
    assert {path for path in after - before if not path.is_relative_to(shared / "locks")} <= kept


def test_what_pythonpath_alone_leads_to_is_meant_and_stands_first(wheel: Path, tmp_path: Path) -> None:
    """As in a module of Spack or EasyBuild, where nothing is in the folders of Python itself."""
    with zipfile.ZipFile(wheel) as packed:
        packed.extractall(tmp_path / "npc")
    site = plant(tmp_path / "site", "report")
    python = Path(sys.base_prefix, "bin", f"python3.{sys.version_info[1]}")
    words = [
        python,
        tmp_path / "npc/npc/start.py",
        "-c",
        "import click, npc.cli, npc.report; print(npc.report.__file__)",
    ]
    named = f"{site}:{tmp_path / 'npc'}:{sysconfig.get_path('purelib')}"
    told = run(*words, cwd=tmp_path, PYTHONPATH=named)
    assert told.stdout.strip() == str(tmp_path / "npc/npc/report/__init__.py"), told.stderr


def test_a_wheel_without_its_suite_says_so(environment: Path, tmp_path: Path) -> None:
    suite = next(environment.glob("lib/python3*/site-packages/npc/suite"))
    suite.rename(tmp_path / "suite")
    try:
        refused = run(environment / "bin/npc", "characterise", cwd=tmp_path)
        doctor = run(environment / "bin/npc", "doctor", "--missing", cwd=tmp_path)
    finally:
        (tmp_path / "suite").rename(suite)
    assert refused.returncode == 1 and "install its wheel anew" in refused.stderr
    assert doctor.returncode == 1 and "install its wheel anew" in doctor.stdout
