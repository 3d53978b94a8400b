"""Files that are whole, or as they were before: what is half written when something fails stays nowhere."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A path beside `path`, with its suffix, to write to: at the end it takes the place of `path`.

    `path` stays as it was where nothing was written, or an error ends the block. Raises OSError.
    """
    partial = path.with_name(f".{path.stem}.{os.getpid()}{path.suffix}")
    try:
        yield partial
        if partial.exists():
            partial.replace(path)
    finally:
        with contextlib.suppress(OSError):
            partial.unlink()


def write_whole(path: Path, text: str) -> None:
    """Write a text and see it onto the disk; what is no text (a lone surrogate) is written as its escape."""
    with replacing(path) as partial, partial.open("w", encoding="utf-8", errors="backslashreplace") as stream:
        stream.write(text)
        stream.flush()
        os.fsync(stream.fileno())


def read_lines(path: Path) -> Iterator[Any]:
    """The values of all whole lines that are JSON; none of a file that does not exist."""
    try:
        lines = path.read_bytes().split(b"\n")[:-1]
    except FileNotFoundError:
        return
    for line in lines:
        try:
            yield json.loads(line)
        except ValueError:  # a disk that lost a block, or somebody's editor
            continue
