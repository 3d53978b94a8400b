"""What is compared: each side is the records of some runs, by run.

A side is named by a folder of a run, a folder of several runs, a ``records.csv``, or nights of a history as
``PLATFORM@DATE``; or one set of records is split by what a record says of itself (``--by``).
"""

from __future__ import annotations

import contextlib
import csv
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final

import click

from npc import status_line
from npc.records.history import History, InvalidHistory
from npc.records.record import Record
from npc.records.run import RECORDS, read_run

#: ``fuchs@2026-11-20``, ``fuchs@2026-11``, ``fuchs@2026-11-01..2026-11-20``.
_NIGHTS: Final = re.compile(r"([^/@]+)@(\d{4}(?:-\d\d){0,2})(?:\.\.(\d{4}(?:-\d\d){0,2}))?")


class NoSide(ValueError):
    """Nothing to compare under that name; the message says what was looked for."""


@dataclass(frozen=True, slots=True)
class Side:
    """One side of a comparison."""

    #: What it is called.
    name: str
    #: Name of a run, unique in the side → its records.
    records: Mapping[str, Sequence[Record]]
    #: Name of a run → where it lies, with its ``environment.json``; a night of a history has none.
    folders: Mapping[str, Path] = field(default_factory=dict)

    @property
    def unused(self) -> int:
        """How many records are not ``ok``."""
        return sum(not record.ok for _, record in self.all_records())

    def all_records(self) -> Iterator[tuple[str, Record]]:
        """Every record with the name of its run."""
        for run, records in self.records.items():
            for record in records:
                yield run, record


def read_side(word: str, history: Path) -> Side:
    """The side that `word` names. Raises `NoSide`, OSError, and `InvalidRecord`."""
    nights = _NIGHTS.fullmatch(word)
    if nights and not Path(word).exists():
        return Side(word, _nights(history, *nights.groups()))
    path = Path(word)
    if path.is_dir() and not (path / RECORDS).exists():
        runs = sorted(file.parent for file in path.glob(f"*/{RECORDS}"))
        if runs:
            return Side(word, {str(run): read_run(run) for run in runs}, {str(run): run for run in runs})
    try:
        folder = path if path.is_dir() else path.parent
        return Side(word, {str(path.resolve()): read_run(path)}, {str(path.resolve()): folder})
    except FileNotFoundError as error:
        raise NoSide(str(error) if path.exists() else f"{error} (nights: PLATFORM@DATE)") from None
    except (csv.Error, UnicodeDecodeError) as error:
        raise NoSide(f"no records: {error}") from None


def _nights(history: Path, platform: str, first: str, last: str | None) -> dict[str, list[Record]]:
    """Runs of a platform's history whose records begin with the date, or lie from `first` to `last`."""
    folder = history / platform
    if not folder.is_dir():
        raise NoSide(f"{platform}@{first}: there is no history {folder} (--history names another folder)")
    last = last or first
    runs: dict[str, list[Record]] = {}
    with contextlib.closing(History(folder, status_line.show)) as past:
        try:
            for record in past.records(days=(first, last)):
                runs.setdefault(record.run, []).append(record)
            for problem in past.problems:
                click.echo(f"left out: {problem}", err=True)
        except InvalidHistory as error:
            raise NoSide(str(error)) from None
    if not runs:
        raise NoSide(
            f"{platform}@{first}{f'..{last}' if last != first else ''}: no night of that date in {folder}"
        )
    return runs


def name_sides(sides: Sequence[Side]) -> list[Side]:
    """The sides with the shortest names that tell them apart: last parts of a path."""
    words = [Path(side.name).parts or (side.name,) for side in sides]
    for length in range(1, max(map(len, words)) + 1):
        short = ["/".join(part[-length:]) for part in words]
        if len(set(short)) == len(short):
            return [replace(side, name=name) for name, side in zip(short, sides, strict=True)]
    return [replace(side, name=f"{side.name} ({place})") for place, side in enumerate(sides, 1)]


_FIELDS: Final[Mapping[str, Callable[[Record], str]]] = {
    "platform": lambda record: record.platform,
    "night": lambda record: record.time[:10],
    "benchmark": lambda record: record.benchmark,
    "version": lambda record: record.tool_version,
    "nodes": lambda record: str(record.nodes),
    "hosts": lambda record: "+".join(sorted(set(record.hosts))),
}
BY: Final = (*_FIELDS, "run", "params.NAME")


def split_side(sides: Iterable[Side], by: str) -> list[Side]:
    """All records split by a field (`BY`), in the order of their names; those without it are left out.

    Raises `NoSide` for a field that does not exist, or that has but one value.
    """
    name = by.removeprefix("params.")
    if by not in (*_FIELDS, "run") and not by.startswith("params."):
        raise NoSide(f"--by {by}: there are {', '.join(BY)}")
    groups: dict[str, dict[str, list[Record]]] = {}
    folders: dict[str, Path] = {}
    for side in sides:
        folders.update(side.folders)
        for run, record in side.all_records():
            value = (
                run if by == "run" else _FIELDS[by](record) if by in _FIELDS else record.params.get(name, "")
            )
            if value:
                groups.setdefault(value, {}).setdefault(run, []).append(record)
    if len(groups) < 2:
        values = f"only {next(iter(groups))}" if groups else "none"
        raise NoSide(f"--by {by}: nothing to compare, the records have {values}")
    split = [Side(value, runs, folders) for value, runs in sorted(groups.items())]
    return name_sides(split) if by == "run" else split


def narrowed(side: Side, patterns: Sequence[str]) -> Side:
    """Only tests whose ``case``, ``benchmark`` or ``benchmark/case`` matches one of `patterns`."""
    if not patterns:
        return side

    def wanted(record: Record) -> bool:
        names = (record.case, record.benchmark, f"{record.benchmark}/{record.case}")
        return any(fnmatchcase(name, pattern) for name in names for pattern in patterns)

    return replace(
        side, records={run: [r for r in records if wanted(r)] for run, records in side.records.items()}
    )
