"""Running npb under a real mpirun, and finding what it left behind."""

from __future__ import annotations

import atexit
import contextlib
import itertools
import os
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest

NPB = Path(sys.executable).with_name("npb")
MPI_ENVIRONMENT = {
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "PRTE_ALLOW_RUN_AS_ROOT": "1",
    "PRTE_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "OMPI_MCA_rmaps_base_oversubscribe": "1",
    "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
}


def mpirun() -> str:
    """The launcher beside this Python if it has one, else the PATH's."""
    beside = Path(sys.executable).with_name("mpirun")
    found = str(beside) if beside.exists() else shutil.which("mpirun")
    assert found, "no mpirun: make test installs one"
    return found


#: Below the ports that the kernel gives to clients (ip_local_port_range), a range for each of pytest-xdist's
#: workers: npb's tests that run side by side never take each other's.
_PORTS = itertools.count(10000 + 1000 * int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")))


def free_port() -> int:
    """A TCP and UDP port that nobody uses now."""
    while True:
        port = next(_PORTS)
        with contextlib.suppress(OSError), socket.create_server(("", port)):
            return port


def python(code: str, *arguments: str) -> str:
    """A command line that runs Python code, for a server or a client made for a test."""
    return shlex.join([sys.executable, "-c", code, *arguments])


#: Listens on the port of its first argument until it is ended, then says so.
LISTENS = """
import signal, socket, sys
listener = socket.create_server(("", int(sys.argv[1])))
print("listening", flush=True)
signal.sigwait([signal.SIGTERM, signal.SIGINT])
print("ended in order", flush=True)
"""


def listening_server(port: int) -> str:
    """A server that does nothing but listen; SIGTERM is waited for, so it must be blocked first."""
    code = LISTENS.replace(
        "listener =", "signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM, signal.SIGINT])\nlistener ="
    )
    return python(code, str(port))


class Job:
    """One npb job; `marker` stands in the environment of every process that belongs to it."""

    def __init__(
        self,
        *arguments: str,
        ranks: int = 2,
        launcher: Sequence[str] = (),
        command: Sequence[str] = (),
        **extra: str,
    ) -> None:
        self.marker = f"NPB_TEST_{uuid.uuid4().hex}"
        self._temporary = tempfile.mkdtemp(prefix="npb-")  # what failed steps keep goes with the test
        # once more at the very end: a process that is just dying may write behind the first removal
        atexit.register(shutil.rmtree, self._temporary, ignore_errors=True)
        environment = {**os.environ, **MPI_ENVIRONMENT, "TMPDIR": self._temporary, self.marker: "1", **extra}
        self.process = subprocess.Popen(
            command or [mpirun(), "-np", str(ranks), *launcher, str(NPB), *arguments],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def wait(self, timeout_s: float = 40.0) -> subprocess.CompletedProcess[str]:
        """Its end, within a limit."""
        try:
            out, err = self.process.communicate(timeout=timeout_s)
        except subprocess.TimeoutExpired:
            self.kill()
            raise
        return subprocess.CompletedProcess(self.process.args, self.process.returncode, out, err)

    def processes(self) -> dict[int, str]:
        """Its living processes: pid → command line with spaces."""
        found = {}
        for entry in Path("/proc").iterdir():
            if entry.name.isdecimal():
                try:
                    if self.marker.encode() in (entry / "environ").read_bytes():
                        found[int(entry.name)] = (
                            (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
                        )
                except OSError:
                    continue
        return found

    def await_process(self, text: str, limit_s: float = 20.0) -> int:
        """The pid of a tool whose command line has `text`; npb's own have it, too, and do not count."""
        deadline = time.monotonic() + limit_s
        while time.monotonic() < deadline:
            for pid, command in self.processes().items():
                if text in command and "--clientcmd" not in command:
                    return pid
            time.sleep(0.1)
        raise AssertionError(f"no process with {text!r}: {self.processes()}")

    def agents_and_ranks(self) -> list[int]:
        """npb's own processes, without the launcher."""
        return [pid for pid, text in self.processes().items() if "bin/npb" in text and "mpirun" not in text]

    def left_behind(self, limit_s: float = 4.0) -> dict[int, str]:
        """What still lives after the limit."""
        deadline = time.monotonic() + limit_s
        while self.processes() and time.monotonic() < deadline:
            time.sleep(0.1)
        return self.processes()

    def kill(self) -> None:
        """End what is left, so that a failed test leaves nothing."""
        for pid in [self.process.pid, *self.processes()]:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        self.process.communicate()
        shutil.rmtree(self._temporary, ignore_errors=True)


def run(*arguments: str, timeout_s: float = 40.0, **how: object) -> subprocess.CompletedProcess[str]:
    """A whole job; fails the test if it leaves a process behind."""
    job = Job(*arguments, **how)  # type: ignore[arg-type]
    try:
        ended = job.wait(timeout_s)
        left = job.left_behind()
        assert not left, f"left behind: {left}"
        return ended
    finally:
        job.kill()


def ancestors_of(pid: int) -> Iterator[int]:
    """Parent, its parent, …"""
    while pid > 1:
        pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
        yield pid


def environment_of_test(extra: Mapping[str, str]) -> dict[str, str]:
    """For commands beside npb that need the same MPI settings."""
    return {**os.environ, **MPI_ENVIRONMENT, **extra}


needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="network namespaces need root")
