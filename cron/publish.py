"""What a night says, written where people and machines look for it.

In the history's folder: ``verdicts/NIGHT.json`` of every night, and of the last one ``verdict.json``. Each
file is whole or as it was.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from cron.matrix import Matrix
    from cron.verdict import NightVerdict

VERDICTS: Final = "verdicts"
LAST: Final = "verdict.json"


def document(night: NightVerdict, notes: Sequence[str], matrix: Matrix | None = None) -> dict[str, Any]:
    """``verdict.json``: the judgement, what happened besides, and what the matrix of pairs said."""
    return {**night.as_json(), "notes": list(notes), "pairs": asdict(matrix) if matrix else None}


def write_verdict(
    folder: Path, night: NightVerdict, notes: Sequence[str], matrix: Matrix | None = None
) -> dict[str, Any]:
    """Write the night's files into the history's folder; what is in them. Raises OSError."""
    told = document(night, notes, matrix)
    text = json.dumps(told, indent=1, ensure_ascii=False) + "\n"
    (folder / VERDICTS).mkdir(exist_ok=True)
    for path in (folder / VERDICTS / f"{night.run}.json", folder / LAST):
        write_whole(path, text)
    return told


def write_whole(path: Path, text: str) -> None:
    """Write a file so that it is whole, or as it was before. Raises OSError."""
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with partial.open("w", encoding="utf-8", errors="backslashreplace") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
