"""Command lines of ``npc``, each in a process of its own that can start nothing, wait for nothing and have
little memory: for input that may make it do so.

The server forks, since to import a command's modules takes as long as hundreds of its runs. It works in a
checkout of links, so that what a command writes is written there.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import traceback
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from tests.paths import ROOT

#: Seconds of a command line at most, and bytes beyond what the server has.
PATIENCE_S: Final = 30
MEMORY_BYTES: Final = 2**30
#: The exit code of a traceback.
TRACEBACK: Final = 70
#: That of Python where it could not write the rest of stdout.
UNFLUSHED: Final = 120
#: What a checkout has that commands read.
_SUITE: Final = ("jube.yml", "platform.xml", "submit.job.in", "benchmarks", "docs", "cron", "npc")


class EndedAlone(NamedTuple):
    """How a command line ended. code: negative for a signal; that of SIGALRM where it did not end."""

    code: int
    out: str
    err: str

    def fault(self) -> str:
        """What no input may cause, in a line; empty where nothing of it happened."""
        if self.code < 0:
            return f"ended by {signal.Signals(-self.code).name}"
        if self.code == TRACEBACK or "Traceback (most recent call last)" in self.err:
            return "traceback: " + " | ".join(self.err.strip().splitlines()[-3:])
        if "Exception ignored in" in self.err:
            return f"stderr: {self.err.strip().splitlines()[-1]}"
        if self.code and not (self.out + self.err).strip():
            return f"exit code {self.code} without a word"
        return ""


class Alone:
    """Runs command lines, one after the other."""

    def __init__(self, server: subprocess.Popen[str], folder: Path) -> None:
        self._server = server
        self.folder = folder

    def run(self, words: Sequence[str | Path], redirected: str = "") -> EndedAlone:
        """redirected: descriptors as `_redirect` reads them (``1=full 2=closed``)."""
        assert self._server.stdin and self._server.stdout
        print(json.dumps([list(map(str, words)), redirected]), file=self._server.stdin, flush=True)
        code = int(self._server.stdout.readline())
        texts = [(self.folder / name).read_text(errors="replace") for name in ("out", "err")]
        return EndedAlone(code, *texts)


@contextlib.contextmanager
def alone(folder: Path) -> Iterator[Alone]:
    """A server whose command lines work in `folder`."""
    suite, empty = folder / "suite", folder / "empty"
    (suite / "platforms").mkdir(parents=True)
    empty.mkdir()
    for name in _SUITE:
        (suite / name).symlink_to(ROOT / name)
    for platform in (ROOT / "platforms").iterdir():
        (suite / "platforms" / platform.name).symlink_to(platform)
    env = {
        "PATH": str(empty), "HOME": str(folder), "OPENBLAS_NUM_THREADS": "1",
        "MPLCONFIGDIR": str(folder), "NPC_LOCKS": str(folder), "PYTHONPATH": str(ROOT),
    }  # fmt: skip
    with subprocess.Popen(
        [sys.executable, "-m", "tests.lab.alone", folder], cwd=folder, env=env, text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    ) as server:  # fmt: skip
        yield Alone(server, folder)
        assert server.stdin
        server.stdin.close()


def _serve(folder: Path) -> None:
    from npc import places
    from npc.cli import entry_points

    places._ABOVE = folder / "suite"  # what `npc` calls its checkout
    for entry in entry_points().values():
        entry.load()
    import npc.roofline.analyse
    import npc.roofline.table  # noqa: F401  most commands need it

    for line in sys.stdin:
        words, redirected = json.loads(line)
        pid = os.fork()
        if pid == 0:
            _run(folder, words, redirected)
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        with contextlib.suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)  # what it has left
        print(status, flush=True)


def _run(folder: Path, words: list[str], redirected: str) -> None:
    """The command line in the forked process, which ends here, in a folder of its own."""
    os.setsid()
    shutil.rmtree(folder / "here", ignore_errors=True)
    (folder / "here").mkdir()
    os.chdir(folder / "here")
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY_BYTES, used + MEMORY_BYTES))
    for place, name in ((0, os.devnull), (1, folder / "out"), (2, folder / "err")):
        descriptor = os.open(name, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600)
        os.dup2(descriptor, place)
        os.close(descriptor)
    _redirect(redirected)
    signal.alarm(PATIENCE_S)
    code: object = TRACEBACK
    try:
        from npc.cli import main

        main.main(words, prog_name="npc")
        code = 0
    except SystemExit as ended:
        code = ended.code
        if isinstance(code, str):
            print(code, file=sys.stderr)
            code = 1
    except BaseException:
        with (folder / "err").open("a", encoding="utf-8") as err:
            traceback.print_exc(file=err)
    try:
        sys.stdout.flush()
    except OSError:
        code = UNFLUSHED
    os._exit(code if isinstance(code, int) else 0)


def _redirect(redirected: str) -> None:
    """``1=closed``: as ``>&-``; ``1=full``: to a full disk; ``1=gone``: to a pipe that nobody reads;
    ``0=zero``: from a device without an end."""
    for part in redirected.split():
        place, kind = part.split("=")
        if kind == "closed":
            os.close(int(place))
            name = ("stdin", "stdout", "stderr")[int(place)]
            setattr(sys, name, None)  # as Python has it that is started so
            setattr(sys, f"__{name}__", None)
            continue
        if kind == "gone":
            reading, writing = os.pipe()
            os.close(reading)
        else:
            writing = os.open({"full": "/dev/full", "zero": "/dev/zero"}[kind], os.O_RDWR)
        os.dup2(writing, int(place))
        os.close(writing)


if __name__ == "__main__":
    _serve(Path(sys.argv[1]))
