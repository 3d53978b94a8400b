"""No test sees the user's runs, caches or settings, and one that did is told."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from npc.places import home, workplace
from tests.lab.untouched import Untouched, plant, remove
from tests.paths import ROOT

SAYS = "import os, pathlib, tempfile; print(os.getcwd(), pathlib.Path.home(), tempfile.gettempdir())"
TESTS = """
from pathlib import Path
import pytest

@pytest.fixture(scope="module")
def made():
    return Path.cwd(), Path.home()

def test_first(made):
    assert made == (Path.cwd(), Path.home())

def test_second(made):
    assert made[0] != Path.cwd() and made[1] != Path.home() and not list(Path.cwd().iterdir())

def test_that_looks_at_the_user_s_runs():
    list((Path(__file__).parent / "runs").iterdir())
"""


def folders() -> list[Path]:
    return [Path.cwd(), Path.home(), Path(tempfile.gettempdir())]


@pytest.fixture(scope="module")
def earlier() -> list[Path]:
    """As a fixture sees them that is made for the whole module."""
    return folders()


def test_a_test_stands_in_a_folder_of_its_own_with_a_home_of_its_own(earlier: list[Path]) -> None:
    for folder in (*folders(), *earlier):
        assert not folder.is_relative_to(ROOT) and not folder.is_relative_to(Path("~root").expanduser())
        assert len(str(folder)) < 40, "with what MPI adds to it the path of a socket is short enough"
    said = subprocess.run([sys.executable, "-c", SAYS], capture_output=True, text=True, check=True).stdout
    assert said.split() == list(map(str, folders())), "of what it starts, too"
    assert workplace() == Path.cwd() and home() == ROOT
    Path("mine").touch()


def test_the_next_one_has_others(earlier: list[Path]) -> None:
    assert not set(earlier) & set(folders()) and not Path("mine").exists()


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout and a home (``home``) with what is planted in them."""
    shutil.copytree(ROOT / "docs/example/localhost", tmp_path / "docs/example/localhost")
    (tmp_path / "platforms/localhost").mkdir(parents=True)
    for folder in ("npc", "home/.cache", "home/.config", ".pytest_cache"):
        (tmp_path / folder).mkdir(parents=True)
    plant(tmp_path, tmp_path / "home")
    return tmp_path


@pytest.fixture
def untouched(checkout: Path) -> Iterator[Untouched]:
    watching = Untouched(checkout, checkout / "home")
    yield watching
    watching.close()


@pytest.mark.parametrize(
    ("touch", "line"),
    [
        (lambda folder: list((folder / "runs").glob("*")), "opened: runs"),
        (lambda folder: (folder / "runs/000099/records.csv").read_text(), "opened: runs/000099/records.csv"),
        (lambda folder: (folder / "runs/000100").mkdir(), "changed: runs/000100"),
        (lambda folder: list((folder / "history/localhost").glob("*")), "opened: history/localhost"),
        (lambda folder: (folder / "observed/records.csv").read_text(), "opened: observed/records.csv"),
        (lambda folder: (folder / "history/localhost/records.csv").unlink(), "changed: history/localhost/"),
        (lambda folder: (folder / "tried").mkdir(), "changed: tried"),
        (lambda folder: (folder / "npc/new").touch(), "changed: npc/new"),
        (lambda folder: (folder / "home/.cache/npc/mpi").mkdir(), "changed: home/.cache/npc/mpi"),
        (lambda folder: (folder / "home/.cache/npc/planted/records.csv").read_text(), "opened: home/.cache/"),
        (lambda folder: (folder / "home/.config/npc/records.csv").read_text(), "opened: home/.config/npc/"),
        (lambda folder: (folder / "home/.local").mkdir(), "changed: home/.local"),
    ],
)
def test_what_is_touched_is_told(
    checkout: Path, untouched: Untouched, touch: Callable[[Path], object], line: str
) -> None:
    touch(checkout)
    assert any(text.replace(f"{checkout}/", "").startswith(line) for text in untouched.touched())
    assert untouched.touched() == [], "once"


def test_what_tools_and_others_write_is_no_matter(checkout: Path, untouched: Untouched) -> None:
    """And what is planted is taken away again, but nothing else."""
    (checkout / "npc/__pycache__").mkdir()
    (checkout / ".pytest_cache/lastfailed").touch()
    (checkout / "home/.bash_history").touch()
    (checkout / "home/.config/other").mkdir()
    (checkout / "jube-parse.log").touch()
    Untouched(checkout, checkout / "home").close()  # of another process
    assert untouched.touched() == []
    (checkout / "runs/000000").mkdir()
    remove(checkout)
    assert [path.name for path in (checkout / "runs").iterdir()] == ["000000"]
    assert not (checkout / "observed").exists() and not (checkout / "history").exists()


@pytest.mark.parametrize(("variables", "failed"), [({"CI": "true"}, True), ({}, False)])
def test_in_ci_a_test_that_looks_fails(tmp_path: Path, variables: dict[str, str], failed: bool) -> None:
    """Elsewhere it is told: a user looks at his runs while tests run."""
    shutil.copy(ROOT / "tests/conftest.py", tmp_path)
    (tmp_path / "pytest.ini").write_text("[pytest]\ntestpaths = test_some.py\n", encoding="utf-8")
    (tmp_path / "runs").mkdir()
    (tmp_path / "test_some.py").write_text(TESTS, encoding="utf-8")
    kept = {name: value for name, value in os.environ.items() if name != "CI"}
    kept["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    ended = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider"],
        cwd=tmp_path, env=kept | variables, capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert ended.returncode == failed, ended.stdout
    assert "3 passed" in ended.stdout and ("1 error" in ended.stdout) == failed, ended.stdout
    line = "touched, and not the test's: test_some.py::"
    assert ended.stdout.count(line) == ended.stdout.count(f"{line}test_that_looks_at_the_user_s_runs") > 0
    assert f"opened: {tmp_path}/runs" in ended.stdout
