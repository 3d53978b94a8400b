"""What the platform starts a program by in each placement of a study: JUBE evaluates it, nothing runs."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import click

from npc.files import no_link, read_end
from npc.jobs import jube, wait
from npc.jobs.stop import Stop
from npc.jobs.workpackages import NoRun, Workpackage, find_run, read_workpackages
from npc.observe.study.plan import placement_of
from npc.observe.study.records import Study
from npc.places import workplace

PLATFORMS: Final = "platforms"
STARTERS: Final = "starters"


@dataclass(frozen=True, slots=True)
class StudyPlace:
    """Where a study is made."""

    #: Folder of the study.
    folder: Path
    #: Folder that benchmarks run from (`npc.places.suite`).
    home: Path
    #: How long to wait for jobs, in s; None: without end.
    limit_s: float | None = None

    def platform(self, study: Study) -> Path:
        """The study's own copy of its platform."""
        return self.folder / PLATFORMS / study.platform


@dataclass(frozen=True, slots=True, kw_only=True)
class Starters:
    """How the platform starts the program in each placement."""

    #: (nodes, ranks on each, threads of each, binding) → the launcher's words; no words where a program needs
    #: no launcher.
    words: Mapping[tuple[int, int, int, str], tuple[str, ...]]
    #: CPUs of a node; 0 where the platform does not tell.
    cores: int
    #: Whether there is no scheduler.
    one_machine: bool


def ask_platform(place: StudyPlace, study: Study, env: Mapping[str, str]) -> Starters:
    """Ask JUBE, by this study's copy of the platform. Raises click.ClickException where it does not tell."""
    placements = list(dict.fromkeys(map(placement_of, study.conditions)))
    texts = ",".join("/".join(map(str, placement)) for placement in placements)
    outpath, platform = place.folder / STARTERS, place.platform(study)
    outpath.mkdir(parents=True, exist_ok=True)
    log = outpath / "jube.log"
    words = ["run", str(place.home / "observe/study/starters.xml"), "--hide-animation"]
    words += ["--outpath", str(outpath), "--include-path", str(platform)]
    env = {**env, "NPC_STUDY_PLACEMENTS": texts}
    try:
        with open(log, "wb", opener=no_link) as stream, Stop().listening() as stop:
            code = jube.call(words, cwd=workplace(), env=env, log=stream, stop=stop)
    except FileNotFoundError as error:
        raise click.ClickException(wait.missing(error)) from None
    try:
        started = {
            _placement(workpackage): workpackage for workpackage in read_workpackages(find_run(outpath))
        }
    except (NoRun, KeyError, ValueError):
        started = {}
    if code or set(started) != set(placements):
        tail = "\n".join(read_end(log).splitlines()[-5:])
        raise click.ClickException(f"JUBE does not tell how {platform.name} starts programs ({log}):\n{tail}")
    some = next(iter(started.values()))
    cores = some.parameters.get("cores", "")
    return Starters(
        words={placement: _words(workpackage.parameters) for placement, workpackage in started.items()},
        cores=int(cores) if cores.isdecimal() else 0,
        one_machine=some.submitted_by_a_shell(),
    )


def _placement(workpackage: Workpackage) -> tuple[int, int, int, str]:
    nodes, ranks, threads, binding = workpackage.parameters["study_placement"].split("/")
    return int(nodes), int(ranks), int(threads), binding


def _words(parameters: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(shlex.split(f"{parameters.get('npc_starter', '')} {parameters.get('npc_args_starter', '')}"))
