"""The circumstances of a run, from its folder: what the nodes were like and how each launch was made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from npc.machine.platform import Platform, find_platform, read_platform
from npc.records.build import Origin, record_of_failure
from npc.records.environment import read_environment
from npc.records.launch import ENVIRONMENT, LAUNCHES, RAW, Launch, now, read_launches
from npc.records.record import Record, replace
from npc.records.series import CACHED, MOVED
from npc.validity import find_lies, judged
from npc.validity.disturbance import marked
from npc.validity.rule import Circumstances
from npc.validity.rules.cache import caches_of_small
from npc.validity.rules.counters import marks
from npc.validity.rules.load import loaded


def platform_of(records: Sequence[Record], name: str = "") -> Platform | None:
    """The nominal limits of platform `name`, by default the records' own; None if there is no such file.

    Raises OSError, and `npc.machine.platform.InvalidPlatform`.
    """
    names = {record.platform for record in records}
    path = find_platform(name or (names.pop() if len(names) == 1 else ""))
    return read_platform(path) if path else None


def judge_run(run: Path, records: Sequence[Record], platform: Platform | None) -> list[Record]:
    """The records of a run, judged and marked.

    Those that a rule catches become ``invalid: …``. Marks tell which are disturbed, which are of programs
    whose arrays caches may hold, and during which ones counters rose.
    """
    circumstances = circumstances_of(run, records, platform)
    for name, marks_of in (
        (CACHED, caches_of_small(records, circumstances)),
        (MOVED, marks(records, circumstances)),
    ):
        records = [
            replace(record, params={**record.params, name: marks_of[place]}) if place in marks_of else record
            for place, record in enumerate(records)
        ]
    return marked(judged(records, find_lies(records, circumstances)), circumstances)


def circumstances_of(run: Path, records: Sequence[Record], platform: Platform | None) -> Circumstances:
    """Circumstances of `records`, whose raw files are below `run`. Files that are not there are left out, and
    so are nominal limits that are only proposed.

    Each raw file has the nearest ``environment.json`` above it: its node's own, else the run's.
    """
    environments: dict[str, Mapping[str, Any]] = {}
    launches: dict[str, Launch] = {}
    read: dict[Path, Mapping[str, Any]] = {}
    for raw in dict.fromkeys(record.raw for record in records):
        path = run / raw
        if raw and path.parent.parent not in read:
            read[path.parent.parent] = _environment(path, run)
            launches.update(_launches(path.parent.parent, run))
        environments[raw] = read.get(path.parent.parent, {}) if raw else {}
    return Circumstances(platform and platform.confirmed, environments, launches)


def foreseen(run: Path, folder: Path, benchmark: str) -> str:
    """Why the launches of a folder of `run` will be invalid, as far as it is known while they are made:
    others computed before the job, or during a launch that has ended. Empty where nothing is known."""
    try:
        made = [launch.raw for launch in read_launches(folder).launches if launch.raw]
    except (OSError, ValueError):  # none has ended yet, or one is being written
        made = []
    origin = Origin("", benchmark, run.name)
    records = [
        record_of_failure("failed: goes on", origin, now(), (folder / raw).relative_to(run).as_posix())
        for raw in made or [f"{RAW}/0000.out"]
    ]
    circumstances = circumstances_of(run, records, None)
    return next((reason for record in records for reason in loaded(record, circumstances)), "")


def _environment(raw: Path, run: Path) -> Mapping[str, Any]:
    """The nearest ``environment.json`` from the folder of `raw` up to `run`; empty without one."""
    folders = [folder for folder in raw.parents if folder.is_relative_to(run)]
    if (run / LAUNCHES).exists():  # a folder with launches only: the job's file is beside it
        folders.append(run.resolve().parent)
    for folder in folders:
        if environment := read_environment(folder / ENVIRONMENT):
            return environment
    return {}


def _launches(folder: Path, run: Path) -> dict[str, Launch]:
    """The launches of a folder by their raw file as records have it."""
    try:
        made = read_launches(folder).launches
    except (OSError, ValueError):
        return {}
    return {(folder / launch.raw).relative_to(run).as_posix(): launch for launch in made}
