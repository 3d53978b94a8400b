"""Run a tool: what it printed and how it ended, also where it cannot run. Only the standard library."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

#: Exit codes of what cannot be run, as a shell has them, and of what took too long, as timeout(1) has it.
MISSING, TOO_LONG = 127, 124
#: Seconds between two looks whether the tool has ended: something else may keep its output open.
_LOOK_S: Final = 0.1
#: Seconds in which the rest of the output is read after its process group was killed.
_GRACE_S: Final = 1.0
_ANSI: Final = re.compile(r"\x1b\[[0-9;]*m")


class ToolOutput(subprocess.CompletedProcess[str]):
    """What a tool printed, and how it ended.

    problem: why it did not answer (it does not start, took too long, was killed by a signal); empty if it
    ended by itself, whatever its exit code.
    """

    def __init__(
        self, args: Sequence[str | Path], returncode: int, stdout: str, stderr: str, problem: str = ""
    ) -> None:
        super().__init__(args, returncode, stdout, stderr)
        self.problem = problem

    @property
    def text(self) -> str:
        """Standard output, then standard error, without colours."""
        return _ANSI.sub("", self.stdout + self.stderr)


def run(
    command: Sequence[str | Path],
    text: str = "",
    timeout_s: float = 120.0,
    environment: Mapping[str, str] | None = None,
) -> ToolOutput:
    """Run a tool and wait until it has ended.

    text: its standard input. A tool that cannot be run has the exit code `MISSING`, one that takes longer
    than `timeout_s` has `TOO_LONG`; the reason is its error output.

    It has a process group of its own, which is killed when the time is up, or when the tool has ended but
    something that it started keeps its output open.
    """
    name = Path(command[0]).name
    try:
        child = subprocess.Popen(
            command,
            stdin=subprocess.PIPE if text else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
            env=environment,
        )
    except OSError as error:
        problem = f"does not start: {error.strerror}"
        missing = isinstance(error, FileNotFoundError)
        return ToolOutput(
            command, MISSING, "", f"there is no {name} here" if missing else f"{name} {problem}", problem
        )
    try:
        stdout, stderr = _output(child, text.encode(), timeout_s)
    except subprocess.TimeoutExpired:
        problem = f"gave no answer in {timeout_s:g} s"
        return ToolOutput(command, TOO_LONG, "", f"{name} {problem}", problem)
    code = child.returncode
    names = {number.value: number.name for number in signal.Signals}  # real-time signals have none
    problem = f"killed by {names.get(-code, exit_words(code))}" if code < 0 else ""
    return ToolOutput(command, code, _decoded(stdout), _decoded(stderr), problem)


def _output(child: subprocess.Popen[bytes], text: bytes, timeout_s: float) -> tuple[bytes, bytes]:
    """What it prints until it ends. Raises subprocess.TimeoutExpired; then its group is killed."""
    deadline = time.monotonic() + timeout_s
    unsent = text or None
    try:
        while child.poll() is None:
            left_s = deadline - time.monotonic()
            if left_s <= 0:
                raise subprocess.TimeoutExpired(child.args, timeout_s)
            with contextlib.suppress(subprocess.TimeoutExpired):
                return child.communicate(unsent, min(_LOOK_S, left_s))
            unsent = None  # the first call has taken it
        with contextlib.suppress(subprocess.TimeoutExpired):
            return child.communicate(timeout=_LOOK_S)  # often only the rest of a long output
    except BaseException:
        _kill_group(child)
        raise
    _kill_group(child)
    try:
        return child.communicate(timeout=_GRACE_S)
    except subprocess.TimeoutExpired as held:  # by a process that has left the group
        return held.stdout or b"", held.stderr or b""


def _kill_group(child: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child.pid, signal.SIGKILL)
    with contextlib.suppress(subprocess.TimeoutExpired):
        child.wait(_GRACE_S)


def _decoded(output: bytes) -> str:
    return output.decode(errors="replace").replace("\r\n", "\n").replace("\r", "\n")


def last_line(text: str) -> str:
    """The last line that says something; empty if none does."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else ""


def last_words(ended: subprocess.CompletedProcess[str]) -> str:
    """The last line that a tool printed before it failed, else its exit code in words."""
    line = last_line(ended.stderr or ended.stdout)
    return line or f"{Path(ended.args[0]).name}: {exit_words(ended.returncode)}"


def exit_words(code: int) -> str:
    """``exit code 3``, and ``signal 9`` for -9."""
    return f"signal {-code}" if code < 0 else f"exit code {code}"
