"""What a tool printed, as the coordinator holds it: the beginning in memory, the rest in an unnamed file.

A tool may print more than a node has memory, so nothing longer than a parser reads is ever whole in memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from io import SEEK_END
from itertools import islice
from tempfile import TemporaryFile
from typing import IO, Final, NamedTuple

from npc.npb.messages import MAX_PAYLOAD_BYTES
from npc.records.units import format_size

#: A parser reads a text up to this length; what tools print of their numbers is a thousandth of it.
READ_BYTES: Final = 32 * 2**20
_IN_MEMORY_BYTES: Final = 2**20
#: A tool's last words are looked for in this much at the end.
_END_BYTES: Final = 2**16


class Stream:
    """One of a tool's two streams, as far as there is room for it."""

    def __init__(self, data: bytes = b"") -> None:
        self._begin = bytearray()
        self._rest: IO[bytes] | None = None
        self._full = False
        #: Bytes that are stored here.
        self.size = 0
        #: Bytes that the tool printed.
        self.printed = len(data)
        self.add(data)

    def add(self, data: bytes) -> None:
        """Store more of it, as far as the disk has room: `size` tells how far that was."""
        room = _IN_MEMORY_BYTES - len(self._begin)
        self._begin += data[:room]
        self.size += min(room, len(data))
        if len(data) > room:
            self._add_to_file(data[room:])

    def _add_to_file(self, data: bytes) -> None:
        written = 0
        try:
            if self._rest is None:
                self._rest = TemporaryFile(buffering=0)  # noqa: SIM115  ends with this object
            if not self._full:
                self._rest.seek(0, SEEK_END)
                written = self._rest.write(data)
        except OSError:  # what comes later would stand in the wrong place
            pass
        self._full = written < len(data)
        self.size += written

    def chunks(self) -> Iterator[bytes]:
        """All that is kept, in pieces that are small in memory."""
        yield bytes(self._begin)
        if self._rest:
            self._rest.seek(0)
            while data := self._rest.read(MAX_PAYLOAD_BYTES):
                yield data

    def text(self) -> str:
        """Its beginning: all of it up to `READ_BYTES`."""
        pieces = islice(self.chunks(), READ_BYTES // MAX_PAYLOAD_BYTES)
        return b"".join(pieces).decode(errors="replace")

    def end(self) -> str:
        """Its last lines."""
        data = bytes(self._begin[-_END_BYTES:])
        if self._rest:
            self._rest.seek(max(0, self._rest.seek(0, SEEK_END) - _END_BYTES))
            data += self._rest.read()
        return data[-_END_BYTES:].decode(errors="replace")


class Output(NamedTuple):
    """What a tool printed on stdout and stderr."""

    #: What came on stdout.
    out: Stream
    #: What came on stderr.
    err: Stream

    @classmethod
    def of(cls, out: bytes = b"", err: bytes = b"") -> Output:
        """An output of these bytes."""
        return cls(Stream(out), Stream(err))

    def add(self, later: Output) -> None:
        """Keep what was printed later, too."""
        for stream, more in zip(self, later, strict=True):
            stream.printed += more.printed
            for data in more.chunks():
                stream.add(data)

    @property
    def cut(self) -> str:
        """In words how far it is kept; empty where that is all of it."""
        return ", ".join(
            f"output cut at {_about(stream.size)} of {_about(stream.printed)}"
            for stream in self
            if stream.size < stream.printed
        )

    @property
    def too_long(self) -> bool:
        """Whether it is longer than what a parser reads."""
        return any(stream.size > READ_BYTES for stream in self)


def _about(size: int) -> str:
    """A size to three digits: `format_size` tells odd ones to the byte."""
    return format_size(size - size % 8)
