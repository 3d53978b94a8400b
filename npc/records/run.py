"""Reading a run: what a notebook writes is ``from npc import read_run``."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from npc.records.record import Record, read_csv

RECORDS: Final = "records.csv"
#: JUBE's own file, in the folder of each run.
WORKPACKAGES: Final = "workpackages.xml"
#: How JUBE names the folder of a run.
_RUN: Final = "[0-9]" * 6


def records_file(path: Path) -> Path:
    """The file of records that `path` means: itself, a run's, or that of the newest run in it.

    Where there is none, the folder that should hold it, or `path`; `read_run` says what is missing there.
    """
    if path.is_dir() and not (path / RECORDS).is_file():
        runs = sorted(path.glob(_RUN))
        path = runs[-1] if runs else path
    records = path / RECORDS
    return records if records.is_file() else path


def no_such_run(path: Path) -> str:
    """The message for somebody who named a run that does not exist: it names the newest run, or the command
    that makes one."""
    runs = sorted(path.parent.glob(_RUN)) or sorted(Path("runs").glob(_RUN))
    known = f"the newest run is {runs[-1]}" if runs else "npc characterise makes a run"
    return f"{path} does not exist: {known}"


def read_run(run: str | Path) -> list[Record]:
    """Records of a run's folder (its ``records.csv``) or of a CSV file.

    Raises FileNotFoundError, which names the command that makes the records if there are none yet, or what to
    name instead of a folder that is no run; and `npc.InvalidRecord` with file and line for a bad row.
    """
    path = Path(run)
    if path.is_dir():
        if not (path / RECORDS).exists():
            from npc.records.launch import LAUNCHES

            if path.match(_RUN) or (path / WORKPACKAGES).exists() or (path / LAUNCHES).exists():
                raise FileNotFoundError(f"{path} has no {RECORDS} yet: `npc records collect {path}` makes it")
            raise FileNotFoundError(f"{path} is no run: name its folder, such as runs/000000, or a {RECORDS}")
        path = path / RECORDS
    if not path.exists():
        raise FileNotFoundError(no_such_run(path))
    return list(read_csv(path))
