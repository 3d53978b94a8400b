"""What a program prints, read from a pipe: kept as a file, and passed on to where it would have gone.

The pipe is emptied whatever becomes of the two copies, since a program that prints into a full pipe waits for
ever. What is lost is said once.
"""

from __future__ import annotations

import array
import contextlib
import errno
import fcntl
import os
import select
import sys
import termios
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Final

import click

from npc.observe.own_session import keep_only_descriptors

_BLOCK_BYTES: Final = 65536
#: What is left free on a disk that a program's output has filled: the observation has to find room as well.
_ROOM_BYTES: Final = 1 << 20


def descriptor_of(stream: IO[str] | None) -> int | None:
    """The descriptor of a standard stream; None where it is closed, or is no file."""
    try:
        return stream.fileno() if stream is not None else None
    except (OSError, ValueError):
        return None


class OutputCopy:
    """Copies one stream of a program. path: the new file; terminal: the descriptor to pass it on to, if any;
    name: of the stream, for people.

    Raises OSError where the file cannot be made.
    """

    def __init__(self, path: Path, terminal: int | None, name: str) -> None:
        self._source = -1
        self._path = path
        self._terminal = terminal
        self._name = name
        self._file: int | None = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
        self._kept_bytes = 0
        self._stop_reading, self._stop_writing = os.pipe()
        self._thread = threading.Thread(target=self._copy, daemon=True)
        self.has_ended = False
        self.notes: list[str] = []

    def start(self, source: IO[bytes]) -> None:
        """Begin to copy, in a thread. source: the pipe's end, which is this object's from now on."""
        self._source = os.dup(source.fileno())
        source.close()
        self._thread.start()

    def finish(self, patience_s: float) -> None:
        """The program has ended: copy the rest. What it left behind may keep the pipe open; after
        `patience_s` what is in the pipe is the rest, and `has_ended` stays False."""
        self._thread.join(patience_s)
        os.write(self._stop_writing, b"!")
        self._thread.join()
        self.close()
        if not self.has_ended:
            self.notes.append(
                f"a process that the program left behind still has its {self._name} open: what it prints "
                "later is not kept"
            )

    def leave_behind(self) -> None:
        """What still has the pipe open goes on as it would alone: a process of its own passes on what it
        prints, and ends with it."""
        if not self.has_ended and os.fork() == 0:
            try:
                keep_only_descriptors({self._source, *([] if self._terminal is None else [self._terminal])})
                while block := os.read(self._source, _BLOCK_BYTES):
                    with contextlib.suppress(OSError):
                        self._pass_on(block)
            finally:
                os._exit(0)
        os.close(self._source)

    def _copy(self) -> None:
        source = self._source
        poll = select.poll()
        poll.register(source, select.POLLIN)
        poll.register(self._stop_reading, select.POLLIN)
        left: int | None = None  # bytes, once it is to stop
        while left is None or left > 0:
            ready = dict(poll.poll())
            if left is None and self._stop_reading in ready:
                left = _waiting_bytes(source)
                poll.unregister(self._stop_reading)
            elif source in ready:
                block = os.read(source, _BLOCK_BYTES if left is None else min(left, _BLOCK_BYTES))
                if not block:
                    self.has_ended = True
                    return
                left = None if left is None else left - len(block)
                self._keep(block)
                self._show(block)

    def _keep(self, block: bytes) -> None:
        if self._file is None:
            return
        rest = memoryview(block)
        try:
            while rest:
                written = os.write(self._file, rest)
                self._kept_bytes += written
                rest = rest[written:]
        except OSError as error:
            self._cut(error)

    def close(self) -> None:
        """Close the file: nothing more is kept."""
        for end in (self._stop_reading, self._stop_writing):
            os.close(end)
        if self._file is not None:
            output, self._file = self._file, None
            try:
                os.close(output)
            except OSError as error:  # a network's file system may say only now that it is full
                self._cut(error)

    def _cut(self, error: OSError) -> None:
        if self._file is not None:
            with contextlib.suppress(OSError):
                if error.errno in (errno.ENOSPC, errno.EDQUOT):
                    self._kept_bytes = max(0, self._kept_bytes - _ROOM_BYTES)
                    os.ftruncate(self._file, self._kept_bytes)
                os.close(self._file)
            self._file = None
        reason = f"{self._name} is kept up to byte {self._kept_bytes} only: {self._path}: {error.strerror}"
        self.notes.append(reason)
        say(f"{reason}; the program runs on")

    def _show(self, block: bytes) -> None:
        try:
            self._pass_on(block)
        except OSError as error:
            self._terminal = None
            where = f"; {self._path} has it" if self._file is not None else ""
            say(f"the program's {self._name} is no longer passed on: {error.strerror}{where}")

    def _pass_on(self, block: bytes) -> None:
        """Write all of it, also where the terminal's descriptor does not wait."""
        if self._terminal is None:
            return
        rest = memoryview(block)
        while rest:
            try:
                rest = rest[os.write(self._terminal, rest) :]
            except BlockingIOError:
                poll = select.poll()
                poll.register(self._terminal, select.POLLOUT)
                poll.poll()


def _waiting_bytes(pipe: int) -> int:
    """How many bytes are in a pipe now (FIONREAD of ioctl_tty(2))."""
    number = array.array("i", [0])
    fcntl.ioctl(pipe, termios.FIONREAD, number)
    return number[0]


def say(line: str) -> None:
    """A line for the person at the terminal, if there still is one."""
    with printing():
        click.echo(f"npc observe: {line}", err=True)


@contextlib.contextmanager
def printing() -> Iterator[None]:
    """What is printed here may be lost, where nobody reads it any more: that changes nothing else."""
    try:
        yield
    except OSError as error:
        if error.errno != errno.EPIPE:  # else the reader has gone
            with contextlib.suppress(OSError):
                click.echo(f"npc observe: cannot print: {error.strerror}", err=True)
        for stream in (sys.stdout, sys.stderr):
            try:
                if stream is not None:
                    stream.flush()
            except OSError:  # what waits in this one would fail again at the end of Python
                _silence(stream)


def _silence(stream: IO[str]) -> None:
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)


@contextlib.contextmanager
def not_lost_silently(folder: Path) -> Iterator[None]:
    """An observation that cannot be written is lost, and said; the program's exit code stands."""
    try:
        yield
    except OSError as error:
        place = error.filename or folder
        say(
            f"the observation is not kept: cannot write {place}: {error.strerror}; make room there, or "
            "choose another place by --output"
        )
