"""What a program is given, is sent and hands back is with `npc observe` what it is without."""

from __future__ import annotations

import os
import pty
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.lab.npb_job import MPI_ENVIRONMENT
from tests.lab.process_group import process_group
from tests.paths import ROOT

NPC = Path(sys.executable).with_name("npc")
#: Without what Python of the tests adds, and with a locale that Python would change.
ENVIRONMENT = {name: value for name, value in os.environ.items() if not name.startswith("LC_")} | {
    **MPI_ENVIRONMENT,
    "LANG": "C",
    "EMPTY": "",
    "EQUALS": "a=b",
}
#: All that may differ; docs/observe.md has the same.
MONITORING = {f"variable.OMPI_MCA_pml_monitoring_{name}" for name in ("enable", "enable_output", "filename")}
DIES = {"parent.death"}
PROFILE = {"variable.LD_PRELOAD", "variable.NPC_MPI_PROFILE"}
PAPI = {"variable.PAPI_EVENTS", "variable.PAPI_OUTPUT_DIRECTORY"}
MEMORY = {"variable.LD_PRELOAD", *(f"variable.NPC_MEMORY_{name}" for name in ("TABLE", "BUDGET", "INTERVAL"))}


@pytest.fixture(scope="module")
def given(tmp_path_factory: pytest.TempPathFactory) -> Path:
    program = tmp_path_factory.mktemp("given") / "given"
    subprocess.run(["cc", "-o", program, ROOT / "tests/observe/programs/given.c"], check=True)
    return program


def seen(words: list[str | Path], folder: Path, prepare: Callable[[], None], **more: Any) -> dict[str, str]:
    """What `given` prints, by its names."""
    options = {"env": ENVIRONMENT, "stdin": subprocess.DEVNULL, "start_new_session": True, **more}
    started = subprocess.Popen(
        words, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, preexec_fn=prepare, **options
    )
    said, problem = started.communicate(timeout=120)
    assert started.returncode == 0, problem.decode()
    lines = said.decode("utf-8", "surrogateescape").splitlines()
    known = dict(line.split(" ", 1) for line in lines if " " in line)
    leader = int(known.pop("session.leader"))
    # alone a program is the first of its session; beside observe.rank it is not
    return known | ({"session": "given"} if leader == started.pid else {})


def differences(
    launcher: list[str],
    given: Path,
    folder: Path,
    options: list[str],
    prepare: Callable[[], None],
    **more: Any,
) -> set[str]:
    """Names of what differs with `npc observe`, of what does not differ from run to run without it."""
    program: list[str | Path] = [*launcher, given, "an argument", ""]
    one, two = (seen(program, folder, prepare, **more) for _ in range(2))
    watched = seen([NPC, "observe", *options, "--", *program], folder, prepare, **more)
    assert len(one) > 150
    same = one.keys() | two.keys() | watched.keys()
    same -= {name for name in one.keys() | two.keys() if one.get(name) != two.get(name)}
    return {name for name in same if one.get(name) != watched.get(name)}


def nothing() -> None:
    """The start of a program as it mostly is."""


def odd() -> None:
    """What a caller may leave to a program."""
    for number in (
        signal.SIGHUP,
        signal.SIGUSR1,
        signal.SIGINT,
        signal.SIGQUIT,
        signal.SIGCHLD,
        signal.SIGTSTP,
    ):
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_SETMASK, {signal.SIGUSR2, signal.SIGTERM, signal.SIGRTMIN})
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_STACK, (1 << 22, 1 << 23))
    resource.setrlimit(resource.RLIMIT_NOFILE, (200, 300))
    os.umask(0o137)
    os.nice(3)
    os.dup2(os.open("/dev/zero", os.O_RDONLY), 9)
    os.set_inheritable(9, True)
    os.close(0)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("launcher", "options", "expected"),
    [
        ([], ["--no-mpi", "--no-profile"], DIES),
        ([], [], DIES | MONITORING | PROFILE),
        ([], ["--no-mpi", "--no-profile", "--hotspots"], DIES),
        ([], ["--no-mpi", "--no-profile", "--counters", "PAPI_DP_OPS"], DIES | PAPI),
        ([], ["--no-mpi", "--no-profile", "--probe", "syscalls", "--overhead", "none"], DIES),
        ([], ["--memory=sample"], DIES | MEMORY),
        (["mpirun.openmpi", "-n", "1"], [], DIES | MONITORING | PROFILE),
        (["mpirun.mpich", "-n", "1"], ["--no-mpi"], DIES | PROFILE),
    ],
)
def test_a_program_is_given_what_it_has_alone_but_for_what_is_documented(
    tmp_path: Path,
    given: Path,
    launcher: list[str],
    options: list[str],
    expected: set[str],
) -> None:
    for start, prepare in {"plain": nothing, **({} if launcher else {"odd": odd})}.items():
        folder = tmp_path / start
        folder.mkdir()
        assert differences(launcher, given, folder, options, prepare) == expected
    page = (ROOT / "docs/observe.md").read_text()
    assert [name for name in expected - DIES if name.removeprefix("variable.") not in page] == []


@pytest.mark.slow
def test_a_program_has_the_terminal_that_it_has_alone(tmp_path: Path, given: Path) -> None:
    ours, terminal = pty.openpty()

    def on_terminal() -> None:
        import fcntl
        import termios

        fcntl.ioctl(0, termios.TIOCSCTTY, 0)

    try:
        options = ["--no-mpi", "--no-profile"]
        differing = differences([], given, tmp_path, options, on_terminal, stdin=terminal)
        alone = seen([given], tmp_path, on_terminal, stdin=terminal)
    finally:
        os.close(ours)
        os.close(terminal)
    assert differing == DIES
    assert alone["terminal"] == "foreground"
    assert "terminal 1" in alone["descriptor.0"]


#: Notes each signal that it is sent, with a thread of no other's; ends at SIGRTMIN + 5.
RECEIVER = """
import signal, sys
numbers = signal.valid_signals()
signal.pthread_sigmask(signal.SIG_BLOCK, numbers)
print("up", flush=True)
while (number := signal.sigwait(numbers)) != signal.SIGRTMIN + 5:
    print(number, flush=True)
"""
SENT = (
    signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2,
    signal.SIGALRM, signal.SIGXCPU, signal.SIGWINCH, signal.SIGCONT, signal.SIGTSTP,
    signal.SIGRTMIN + 1, signal.SIGRTMAX,
)  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("send", [os.kill, os.killpg])
def test_a_signal_arrives_once_whether_it_is_sent_to_npc_or_to_the_group(
    tmp_path: Path, send: Callable[[int, int], None]
) -> None:
    (tmp_path / "receiver.py").write_text(RECEIVER)
    words = [NPC, "observe", "--", sys.executable, "receiver.py"]
    with process_group(words, cwd=tmp_path, env=ENVIRONMENT, stdout=subprocess.PIPE) as job:
        assert job.stdout is not None
        assert job.stdout.readline() == "up\n"
        for number in SENT:
            send(job.pid, number)
            assert job.stdout.readline() == f"{int(number)}\n"
            time.sleep(0.3)  # what would arrive a second time does so by then
        send(job.pid, signal.SIGRTMIN + 5)
        assert job.stdout.read() == ""
        assert job.wait(20) == 0
    assert (tmp_path / "observed/raw/0000.observed.json").exists()


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGUSR1, signal.SIGQUIT, signal.SIGTERM])
def test_a_signal_that_ends_the_program_leaves_the_observation(
    tmp_path: Path, number: signal.Signals
) -> None:
    words = [NPC, "observe", "--", "sh", "-c", "ulimit -c 0; echo up; exec sleep 60"]
    with process_group(words, cwd=tmp_path, env=ENVIRONMENT, stdout=subprocess.PIPE) as job:
        assert job.stdout is not None
        assert job.stdout.readline() == "up\n"
        job.send_signal(number)
        assert job.wait(20) == -number
    assert f"failed: signal {int(number)}" in (tmp_path / "observed/records.csv").read_text()


@pytest.mark.slow
def test_a_signal_just_before_the_wait_is_passed_on() -> None:
    """Three at once on two CPUs, so that they are interrupted anywhere: of 2000 signals one was lost."""
    words = [sys.executable, ROOT / "tests/observe/programs/sent_at_any_moment.py", "5000"]
    waiting = [subprocess.Popen(words, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    assert [process.communicate(timeout=240)[0] for process in waiting] == ["0\n"] * 3


@pytest.mark.slow
@pytest.mark.parametrize(
    "end", ["exit 0", "exit 3", "exit 137", "kill -KILL $$", "kill -SEGV $$", "kill -PIPE $$"]
)
def test_the_parent_sees_how_the_program_ended(tmp_path: Path, end: str) -> None:
    words = ["sh", "-c", f"ulimit -c 0; {end}"]
    alone = subprocess.run(words, cwd=tmp_path, timeout=20).returncode
    watched = subprocess.run(
        [NPC, "observe", "--", *words], cwd=tmp_path, env=ENVIRONMENT, timeout=60
    ).returncode
    assert watched == alone


@pytest.mark.slow
@pytest.mark.optional_skip("the kernel may hand cores to a program")
def test_the_program_s_core_stays(tmp_path: Path) -> None:
    pattern = Path("/proc/sys/kernel/core_pattern").read_text()
    if pattern.strip() != "core" or resource.getrlimit(resource.RLIMIT_CORE)[1] == 0:
        pytest.skip(f"no cores, or elsewhere: {pattern}")
    words = [NPC, "observe", "--", "sh", "-c", "kill -SEGV $$"]
    hard = resource.getrlimit(resource.RLIMIT_CORE)[1]
    subprocess.run(
        words, cwd=tmp_path, env=ENVIRONMENT, timeout=60,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CORE, (hard, hard)),
    )  # fmt: skip
    cores = [path.read_bytes() for path in tmp_path.glob("core*")]
    assert len(cores) == 1
    assert b"rank.py" not in cores[0]


#: No shell: it waits in vfork for a `sleep` that was stopped just before it began, and never stops itself.
WAITS_FOR_GO = """
import os, signal, sys, time
if "stubborn" in sys.argv:
    signal.signal(signal.SIGTSTP, signal.SIG_IGN)
print(os.getpid(), flush=True)
while not os.path.exists("go"):
    time.sleep(0.05)
print("went")
"""


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["usual", "stubborn"])
@pytest.mark.parametrize("send", [os.kill, os.killpg])
def test_it_stops_and_goes_on_as_the_program_does(
    tmp_path: Path, send: Callable[[int, int], None], kind: str
) -> None:
    words = [NPC, "observe", "--", sys.executable, "-c", WAITS_FOR_GO, kind]
    with process_group(words, cwd=tmp_path, env=ENVIRONMENT, stdout=subprocess.PIPE) as job:
        assert job.stdout is not None
        status = Path(f"/proc/{int(job.stdout.readline())}/stat")
        send(job.pid, signal.SIGTSTP)
        if kind == "usual":
            assert os.WSTOPSIG(os.waitpid(job.pid, os.WUNTRACED)[1]) == signal.SIGTSTP
            assert status.read_text().split()[2] == "T"
        else:
            time.sleep(0.5)
            assert os.waitpid(job.pid, os.WUNTRACED | os.WNOHANG) == (0, 0)
        (tmp_path / "go").touch()
        send(job.pid, signal.SIGCONT)
        assert job.stdout.readline() == "went\n"
        assert job.wait(20) == 0


@pytest.mark.slow
def test_what_lies_in_the_present_folder_is_started_as_mpirun_does(tmp_path: Path, given: Path) -> None:
    (tmp_path / "only-here").symlink_to(given)
    known = seen([NPC, "observe", "--", "mpirun.openmpi", "-n", "1", "only-here", "x y"], tmp_path, nothing)
    assert known["argument.0"] == "only-here"
    assert (known["variable.OMPI_COMMAND"], known["variable.OMPI_ARGV"]) == ("only-here", "x y")


#: Takes nine tenths of the address space that it may have.
TAKER = (
    "import mmap, resource\nmmap.mmap(-1, resource.getrlimit(resource.RLIMIT_AS)[0] // 10 * 9)\nprint('took')"
)


@pytest.mark.slow
def test_a_limited_address_space_is_the_program_s_alone(tmp_path: Path) -> None:
    done = subprocess.run(
        [NPC, "observe", "--memory=sample", "--", sys.executable, "-c", TAKER],
        cwd=tmp_path, env=ENVIRONMENT, capture_output=True, text=True, timeout=60,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30)),
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, "took\n"), done.stderr
    assert "memory: unavailable: the program's address space is limited (ulimit -v)" in done.stderr
