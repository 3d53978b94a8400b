"""Making a study: its folder, with all that is known before the first run."""

from __future__ import annotations

import hashlib
import re
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

import click

from npc.files import LARGEST_TABLE, cannot_write, read_bytes
from npc.jobs.sample import fill_in
from npc.jobs.suite import environment_of_settings
from npc.launcher import PARSERS, program_index
from npc.machine.tools import search_path
from npc.observe.study.plan import expectation_of, with_free_cores
from npc.observe.study.records import STUDY, Condition, Study, write_study
from npc.observe.study.running import environment_of, keep_platform
from npc.observe.study.starters import Starters, StudyPlace, ask_platform
from npc.places import suite

#: What a launch whose own output nobody reads is read by.
_OBSERVED: Final = "observed"


def begin(draft: Study, platform: Path, output: Path | None, limit_s: float | None) -> StudyPlace:
    """Write the folder of a study that says what is asked for. Raises ValueError and click.UsageError for
    what cannot be run, before anything is written, and click.ClickException where the folder cannot be."""
    home = suite()
    environment_of_settings(home, platform, draft.settings)
    try:
        if draft.says and not re.compile(draft.says).groups:
            raise ValueError(
                f"--seconds {draft.says!r}: put the number in a group, as in 'time: ([0-9.]+) s'"
            )
    except re.error as error:
        raise ValueError(f"--seconds {draft.says!r}: {error}") from None
    program = program_of(draft.command)
    file = shutil.which(program, path=search_path()) or ""
    called = draft.program or Path(program).name
    study = replace(
        draft,
        command=tuple(_absolute(word) if word == program else word for word in draft.command),
        program=called,
        folder=str(Path.cwd()),
        file=str(Path(file).absolute()) if file else "",
        sha256=sha256_of(file),
        tool=draft.tool or PARSERS.get(Path(program).name, _OBSERVED),
    )
    place = StudyPlace((output or Path(f"study-{called}")).absolute(), home, limit_s)
    write_folder(study, place, platform)
    return place


def write_folder(study: Study, place: StudyPlace, platform: Path) -> None:
    """Write a new study's folder, without what the platform cannot run.

    Raises ValueError where nothing is left, or an expectation is about what is not, click.UsageError where
    there is a study already.
    """
    if (place.folder / STUDY).exists():
        raise click.UsageError(
            f"{place.folder} holds a study already: npc program study resume {place.folder}, or "
            "another --output"
        )
    there = place.folder.exists()
    try:
        place.folder.mkdir(parents=True, exist_ok=True)
        keep_platform(platform, place.folder)
        starters = ask_platform(place, study, environment_of(place, study))
        write_study(_fitting(study, starters), place.folder)
    except OSError as error:
        raise click.ClickException(cannot_write(place.folder, error)) from None
    finally:
        if not there and not (place.folder / STUDY).exists():
            shutil.rmtree(place.folder, ignore_errors=True)


def _fitting(study: Study, starters: Starters) -> Study:
    """The study without the conditions that the platform cannot run."""
    most = max(condition.nodes for condition in study.conditions)
    if starters.one_machine and most > 1:
        raise ValueError(f"--nodes: the platform {study.platform} is one machine; --platform names a cluster")
    plan, notes = with_free_cores(study.conditions, starters.cores)
    if not plan:
        raise ValueError(f"the plan has no condition that can be run: {'; '.join(notes)}")
    expectations = tuple(expectation_of(expectation.text, plan) for expectation in study.expectations)
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
    if all(planned.usual for planned in plan):
        return ()
    return ("cpu", "memory", *(["network"] if any(planned.network for planned in plan) else []))


def _absolute(program: str) -> str:
    return str(Path(program).absolute()) if "/" in program else program


def sha256_of(file: str) -> str:
    """Of a program's file; empty where there is none."""
    return hashlib.sha256(read_bytes(Path(file), LARGEST_TABLE)).hexdigest() if file else ""
