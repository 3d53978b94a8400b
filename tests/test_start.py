"""The commands see what was installed with them, whatever ``PYTHONPATH`` and the present folder have."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import mpi4py
import pytest

from npc.machine.shadows import shadows
from npc.python import python
from tests.made.modules import plant
from tests.paths import ROOT

NAMES = ("click", "mpi4py", "numpy", "observe", "report")
PRINT = (
    "from importlib.util import find_spec; "
    "print(*(find_spec(name).origin for name in ('npc', 'numpy', 'mpi4py')))"
)


def run(*words: str | Path, cwd: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, **variables}
    return subprocess.run(list(map(str, words)), cwd=cwd, env=env, capture_output=True, text=True, timeout=60)


def test_planted_packages_are_not_seen(tmp_path: Path) -> None:
    plant(tmp_path, *NAMES)  # it is the present folder, too
    npc = Path(sys.executable).with_name("npc")
    shown = run(npc, "report", "--help", cwd=tmp_path, PYTHONPATH=str(tmp_path))
    assert shown.returncode == 0 and "One page about RUN" in shown.stdout, shown.stderr
    for started in ([npc.with_name("npc-python")], python()):
        told = run(*started, "-c", PRINT, cwd=tmp_path, PYTHONPATH=f"{tmp_path}::{ROOT}/tests")
        assert told.stdout and str(tmp_path) not in told.stdout, told.stderr
    # what NPC starts has its PYTHONPATH still
    kept = run(*python("-c", "import os; print(os.environ['PYTHONPATH'])"), cwd=tmp_path, PYTHONPATH="x")
    assert kept.stdout == "x\n"


def test_a_site_s_mpi4py_is_taken_where_it_is_named(tmp_path: Path) -> None:
    site = plant(tmp_path / "site", "numpy")
    (site / "mpi4py").symlink_to(Path(mpi4py.__file__).parent)
    told = run(*python("-c", PRINT), cwd=tmp_path, NPC_MPI4PY=str(site), PYTHONPATH=str(site))
    assert told.stdout.split()[2] == str(site / "mpi4py/__init__.py"), told.stderr
    missing = run(*python("-c", PRINT), cwd=tmp_path, NPC_MPI4PY=str(tmp_path))
    assert f"NPC_MPI4PY={tmp_path}: there is no mpi4py in this folder" in missing.stderr


def test_a_program_of_npc_has_its_own_folder_and_arguments(tmp_path: Path) -> None:
    (tmp_path / "beside.py").write_text("VALUE = 7\n", encoding="utf-8")
    program = tmp_path / "program.py"
    program.write_text("import sys, beside; print(beside.VALUE, *sys.argv[1:], __name__)", encoding="utf-8")
    assert run(*python(program, "-a", "b"), cwd=ROOT).stdout == "7 -a b __main__\n"
    told = run(*python("-m", "npc", "--version"), cwd=tmp_path)
    assert told.stdout.startswith("npc, version")
    assert "usage: npc-python" in run(*python("-m"), cwd=tmp_path).stderr


def test_every_module_that_shadows_one_of_ours_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(tmp_path, *NAMES, "unrelated")
    (tmp_path / "scipy").mkdir()  # without an __init__.py it gives way
    (tmp_path / "elftools.py").touch()
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    shadowed = {"click", "mpi4py", "numpy", "elftools"}  # no room of NPC's: all of them are in npc
    assert {(shadow.name, shadow.taken) for shadow in shadows()} == {(name, False) for name in shadowed}
    monkeypatch.syspath_prepend(tmp_path)
    assert all(each.taken for each in shadows())
