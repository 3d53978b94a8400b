"""Children: a tool's process, started so that it runs as it would by hand, and its output.

The agent forks it directly: the agent is small and knows nothing of MPI, so a fork costs a millisecond
and copies no registered memory. Output goes straight into unnamed files: no pipe to drain while the tool
measures, no byte changed, and no memory taken by a tool that prints much.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Collection, Iterator, Sequence
from typing import Final, NamedTuple

from npc.npb.messages import MAX_PAYLOAD_BYTES
from npc.processes import die_with_parent

#: Of a stream this much is sent at most, from one message about the tool to the next: more would fill the
#: control connection and the disk of who keeps it.
MAX_OUTPUT_BYTES: Final = 256 * 2**20
#: How the words end that say of a program that this node does not have it.
NOT_FOUND: Final = "not found in PATH"


class OutputPart(NamedTuple):
    """A part of what a tool printed."""

    #: ``out`` or ``err``.
    stream: str
    #: Where it begins in the stream, in bytes.
    start: int
    #: How many bytes of it are sent.
    size: int
    #: How many bytes it has.
    printed: int


class Child:
    """A started process, its session's processes included. `cpus` is the affinity that it really has."""

    def __init__(self, argv: Sequence[str], cpus: Collection[int]) -> None:
        """Execute `argv` on `cpus`. Raises OSError as of execve(2)."""
        self._files = {"out": _unnamed_file(), "err": _unnamed_file()}
        self._reported = dict.fromkeys(self._files, 0)
        self.exit_code: int | None = None
        self.seconds = 0.0
        self.timed_out = False
        self._started = time.monotonic()
        try:
            self.pid = _fork_and_execute(argv, cpus, *self._files.values())
        except OSError:
            self.close()
            raise
        try:
            self.cpus = os.sched_getaffinity(self.pid)
        except ProcessLookupError:
            self.cpus = set(cpus)

    def ended(self, exit_code: int) -> None:
        """Note that the process was reaped."""
        self.exit_code = exit_code
        self.seconds = time.monotonic() - self._started

    def new_output(self) -> list[OutputPart]:
        """What was printed since the last call."""
        parts = []
        for stream, file in self._files.items():
            start, end = self._reported[stream], os.fstat(file).st_size
            printed = max(0, end - start)
            parts.append(OutputPart(stream, start, min(printed, MAX_OUTPUT_BYTES), printed))
            self._reported[stream] = start + printed
        return parts

    def read(self, part: OutputPart) -> Iterator[bytes]:
        """A part of the output, in pieces of `MAX_PAYLOAD_BYTES` at most. Raises OSError."""
        for offset in range(0, part.size, MAX_PAYLOAD_BYTES):
            size = min(MAX_PAYLOAD_BYTES, part.size - offset)
            yield os.pread(self._files[part.stream], size, part.start + offset)

    def close(self) -> None:
        """Forget the output."""
        for file in self._files.values():
            os.close(file)


def _unnamed_file() -> int:
    """A file that ends with who has it open: on the node's disk, or in memory where that takes none."""
    folder = os.environ.get("TMPDIR") or "/tmp"
    with contextlib.suppress(OSError):
        return os.open(folder, os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, 0o600)
    with contextlib.suppress(OSError):  # a file system without unnamed files
        name = f"{folder}/npb-{os.urandom(16).hex()}"
        file = os.open(name, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o600)
        os.unlink(name)  # noqa: PTH108  pathlib is not needed on every node
        return file
    return os.memfd_create("output")


def _fork_and_execute(argv: Sequence[str], cpus: Collection[int], out: int, err: int) -> int:
    """Fork; in the child: own session, own death with the agent, CPUs, stdio, `argv`. Returns the pid."""
    agent = os.getpid()
    read_end, write_end = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.setsid()
            die_with_parent(signal.SIGKILL)
            if os.getppid() != agent:
                os._exit(127)
            os.sched_setaffinity(0, cpus)
            null = os.open(os.devnull, os.O_RDONLY)
            os.dup2(null, 0)
            os.dup2(out, 1)
            os.dup2(err, 2)
            # Python ignores these two, and ignored signals survive execve(2).
            signal.signal(signal.SIGPIPE, signal.SIG_DFL)
            signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
            os.execvp(argv[0], list(argv))
        except OSError as error:
            os.write(write_end, str(error.errno).encode())
        finally:
            os._exit(127)
    os.close(write_end)
    failure = os.read(read_end, 16)
    os.close(read_end)
    if failure:
        with contextlib.suppress(ChildProcessError):
            os.waitpid(pid, 0)
        raise OSError(int(failure), os.strerror(int(failure)))
    return pid
