"""Files of JSON lines that are only ever appended to: a crash or a full disk leaves whole lines."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import BinaryIO


def append_line(path: Path, value: object) -> None:
    """Append one line and see it onto the disk; what a writer left that was killed in its line is cut off.

    Raises OSError as the file system does; then the file is as it was.
    """
    line = json.dumps(value, ensure_ascii=False).encode("utf-8", "backslashreplace") + b"\n"
    with path.open("ab+") as stream:
        stream.seek(0)
        whole = stream.read().rfind(b"\n") + 1
        append_whole(stream, whole, line)


def append_whole(stream: BinaryIO, whole: int, content: bytes) -> None:
    """Put `content` behind the first `whole` bytes of a file, in the place of all else, and see it onto the
    disk; on an OSError only those bytes are left."""
    stream.truncate(whole)
    try:
        left = memoryview(content)
        while left:
            left = left[os.write(stream.fileno(), left) :]
        os.fsync(stream.fileno())
    except OSError:
        os.ftruncate(stream.fileno(), whole)
        raise
