"""Reading a run: what a notebook writes is ``from npc import read_run``."""

from __future__ import annotations

from pathlib import Path

from npc.record import Record, read_csv

RECORDS = "records.csv"


def read_run(run: str | Path) -> list[Record]:
    """Records of a run's folder (its ``records.csv``) or of a CSV file.

    Raises FileNotFoundError with the command that makes the records if there are none yet, and
    `npc.InvalidRecord` with file and line on a bad row.
    """
    path = Path(run)
    if path.is_dir():
        if not (path / RECORDS).exists():
            raise FileNotFoundError(f"{path} has no {RECORDS} yet: `npc collect {path}` makes it")
        path = path / RECORDS
    return list(read_csv(path))
