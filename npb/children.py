"""Children: a tool's process, started so that it runs as it would by hand, and its output.

The agent forks it directly: the agent is small and knows nothing of MPI, so a fork costs a millisecond
and copies no registered memory. Output goes straight into anonymous files in memory: no pipe to drain
while the tool measures, no byte changed.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Collection, Sequence
from typing import Final

from npc.machine.processes import die_with_parent

#: More than this of one stream is not kept: it would fill the node's memory and the control connection.
MAX_OUTPUT_BYTES: Final = 256 * 2**20
#: How the words end that say of a program that this node does not have it.
NOT_FOUND: Final = "not found in PATH"


class Child:
    """A started process, its session's processes included. `cpus` is the affinity that it really has."""

    def __init__(self, argv: Sequence[str], cpus: Collection[int]) -> None:
        """Execute `argv` on `cpus`. Raises OSError as of execve(2)."""
        self.out = os.memfd_create("out")
        self.err = os.memfd_create("err")
        self._sent = {self.out: 0, self.err: 0}
        self.exit_code: int | None = None
        self.seconds = 0.0
        self.timed_out = False
        self._started = time.monotonic()
        try:
            self.pid = _fork_and_execute(argv, cpus, self.out, self.err)
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

    def new_output(self) -> tuple[bytes, bytes]:
        """What was printed on stdout and stderr since the last call."""
        return self._new(self.out), self._new(self.err)

    def close(self) -> None:
        """Forget the output."""
        os.close(self.out)
        os.close(self.err)

    def _new(self, stream: int) -> bytes:
        start = self._sent[stream]
        size = min(os.fstat(stream).st_size, MAX_OUTPUT_BYTES) - start
        data = os.pread(stream, size, start) if size > 0 else b""
        self._sent[stream] = start + len(data)
        return data


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
