"""Making a study: its folder, with all that is known before the first run."""

from __future__ import annotations

import hashlib
import re
import shutil
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

import click

from cron.study.plan import expectation_of, with_free_cores
from cron.study.running import Place, environment_of, keep_platform, starters_of
from cron.study.starters import Starters
from npc import __version__
from npc.jobs.checkout import checkout, environment_of_settings, platform_folder
from npc.jobs.launcher import program_index
from npc.jobs.sample import fill_in
from npc.machine.tools import search_path
from npc.records.launch import now
from npc.records.study import STUDY, Condition, Study, write_study

#: Programs whose reports have a parser.
_KNOWN: Final = {"xhpcg": "hpcg", "xhpl": "hpl", "hpcc": "hpcc", "himeno": "himeno"}
#: What a launch whose own output nobody reads is read by.
_OBSERVED: Final = "observed"


def begin(
    *,
    platform: str,
    plan: Sequence[Condition],
    notes: Sequence[str],
    expected: Sequence[str],
    runs: int,
    name: str,
    tool: str,
    says: str,
    observe: bool,
    interface: str,
    timeout_s: float,
    seed: int | None,
    given: Sequence[str],
    limit_s: float | None,
    output: Path | None,
    command: Sequence[str],
) -> Place:
    """Write a study's folder. Raises ValueError and click.UsageError for what cannot be run, before anything
    is written, and click.ClickException where the folder cannot be."""
    home = checkout()
    source = platform_folder(home, platform)
    environment_of_settings(home, source, given)
    try:
        if says and not re.compile(says).groups:
            raise ValueError(f"--seconds {says!r}: put the number in a group, as in 'time: ([0-9.]+) s'")
    except re.error as error:
        raise ValueError(f"--seconds {says!r}: {error}") from None
    program = program_of(command)
    file = shutil.which(program, path=search_path()) or ""
    called = name or Path(program).name
    folder = (output or Path(f"study-{called}")).absolute()
    if (folder / STUDY).exists():
        raise click.UsageError(
            f"{folder} holds a study already: npc study resume {folder}, or another --output"
        )
    study = Study(
        command=tuple(_absolute(word) if word == program else word for word in command),
        program=called,
        platform=source.name,
        started=now(),
        seed=time.time_ns() % 2**31 if seed is None else seed,
        runs=runs,
        conditions=tuple(plan),
        folder=str(Path.cwd()),
        file=str(Path(file).absolute()) if file else "",
        sha256=sha256_of(file),
        tool=tool or _KNOWN.get(Path(program).name, _OBSERVED),
        timeout_s=timeout_s,
        says=says,
        settings=tuple(given),
        version=__version__,
        observed=observe,
        measured=measured_in(plan),
        interface=interface,
        expectations=tuple(expectation_of(text, plan) for text in expected),
        notes=tuple(notes),
    )
    place = Place(folder, home, limit_s)
    write_folder(study, place, source)
    return place


def write_folder(study: Study, place: Place, platform: Path) -> None:
    """Write a new study's folder, without what the platform cannot run.

    Raises ValueError where nothing is left, or an expectation is about what is not.
    """
    there = place.folder.exists()
    try:
        place.folder.mkdir(parents=True, exist_ok=True)
        keep_platform(platform, place.folder)
        starters = starters_of(place, study, environment_of(place, study))
        write_study(_fitting(study, starters), place.folder)
    except OSError as error:
        raise click.ClickException(f"cannot write into {place.folder}: {error.strerror}") from None
    finally:
        if not there and not (place.folder / STUDY).exists():
            shutil.rmtree(place.folder, ignore_errors=True)


def _fitting(study: Study, starters: Starters) -> Study:
    """The study without the conditions that the platform cannot run."""
    most = max(each.nodes for each in study.conditions)
    if starters.one_machine and most > 1:
        raise ValueError(f"--nodes: the platform {study.platform} is one machine; --platform names a cluster")
    plan, notes = with_free_cores(study.conditions, starters.cores)
    if not plan:
        raise ValueError(f"the plan has no condition that can be run: {'; '.join(notes)}")
    expectations = tuple(expectation_of(each.text, plan) for each in study.expectations)
    return replace(
        study, conditions=tuple(plan), notes=(*study.notes, *notes), expectations=expectations,
        measured=measured_in(plan),
    )  # fmt: skip


def program_of(command: Sequence[str]) -> str:
    """The program's word in a command: behind the launcher, where there is one.

    Raises ValueError where it is not to be found, or a placeholder stands for nothing.
    """
    words = fill_in(command, dict.fromkeys(("ranks", "nodes", "threads", "ranks_per_node"), "1"))
    if not shutil.which(words[0], path=search_path()):
        raise ValueError(f"{words[0]}: no such program (neither a path nor in PATH)")
    return words[program_index(words)]


def measured_in(plan: Sequence[Condition]) -> tuple[str, ...]:
    """The rates that are measured in every run: those that a model of the time needs, where the plan changes
    one of them."""
    if all(each.usual for each in plan):
        return ()
    return ("cpu", "memory", *(["network"] if any(each.network for each in plan) else []))


def _absolute(program: str) -> str:
    return str(Path(program).absolute()) if "/" in program else program


def sha256_of(file: str) -> str:
    """Of a program's file; empty where there is none."""
    return hashlib.sha256(Path(file).read_bytes()).hexdigest() if file else ""
