"""stdin, stdout and stderr as a command finds them: closed (``2>&-``), or on a disk that is full."""

from __future__ import annotations

import contextlib
import io
import os
import sys
from typing import Final

_STREAMS: Final = (("stdin", "r"), ("stdout", "w"), ("stderr", "w"))


class _UnreadStderr(io.TextIOWrapper):
    """A stderr whose words may be lost: a command ends as it would where somebody reads them."""

    def write(self, text: str) -> int:
        """Its length, also where the words went nowhere."""
        with contextlib.suppress(OSError):
            super().write(text)
        return len(text)

    def flush(self) -> None:
        """Does nothing where it cannot."""
        with contextlib.suppress(OSError):
            super().flush()


def nowhere(number: int) -> None:
    """The descriptor leads nowhere from now on: nothing that is opened later gets its number."""
    descriptor = os.open(os.devnull, os.O_RDWR)
    if descriptor != number:
        os.dup2(descriptor, number)
        os.close(descriptor)


def open_streams() -> None:
    """Opens those that are closed, for which Python has None, and makes a stderr that no error comes from."""
    for number, (name, mode) in enumerate(_STREAMS):
        if getattr(sys, name) is None:
            nowhere(number)
            stream = os.fdopen(number, mode, encoding="utf-8", closefd=False)
            setattr(sys, name, stream)
            setattr(sys, f"__{name}__", stream)
    if sys.stderr is sys.__stderr__:
        raw = io.FileIO(2, "w", closefd=False)
        sys.stderr = _UnreadStderr(raw, sys.stderr.encoding, "backslashreplace", write_through=True)
