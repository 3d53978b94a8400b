"""Running a study: JUBE and the platform's scheduler make what is missing, and what came of it is kept.

What was measured is in the logs of the launches, so a study that was stopped, killed, or cut off by a time
limit goes on with what is not there yet: first the jobs that still run are waited for, then a further JUBE
run makes the rest.
"""

from __future__ import annotations

import shutil
import signal
from collections.abc import Iterator, Mapping
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path
from typing import Final

from npc.cron.characterise import Characterisation, alone_on, next_id, run_and_wait
from npc.files import copy
from npc.jobs import wait
from npc.jobs.progress import Display
from npc.jobs.stop import Stop
from npc.jobs.suite import environment_from_here, environment_of_settings, platform_files
from npc.jobs.workpackages import NoRun, read_workpackages
from npc.machine.platform import InvalidPlatform
from npc.observe.study.judgement import judged
from npc.observe.study.launches import CASES, RUNS, missing_of, runs_of, unknown_of, write_cases
from npc.observe.study.records import Study, read_study, write_study
from npc.observe.study.starters import PLATFORMS, StudyPlace, ask_platform
from npc.parsers.run.collect import collect_run, save_environment
from npc.records.launch import ENVIRONMENT
from npc.records.record import Record, save_csv
from npc.records.run import RECORDS

#: In a study's folder: held by who runs it.
LOCK: Final = ".study.lock"


def keep_platform(platform: Path, folder: Path) -> None:
    """Copy a platform, and those over which it is written, into a study's folder."""
    for source in {file.parent for file in platform_files(platform / "platform.xml")}:
        to = folder / PLATFORMS / source.name
        if not to.exists():
            shutil.copytree(source, to)


def go_on(place: StudyPlace) -> int:
    """Make what a study's folder lacks, and judge it; the exit code. The folder is this process's alone."""
    study = read_study(place.folder)
    env = environment_of(place, study)
    code: int | None = None
    with alone_on(place.platform(study), place.folder, place.limit_s or 0.0):
        code = _finish_open_runs(place, env)
        _collect(place)
        ran = runs_of(place.folder, study.says)
        further = missing_of(study, ran) or unknown_of(study, ran)
        while code is None and further:
            code = _make(place, study, further, env)
            _collect(place)
            before, ran = len(ran), runs_of(place.folder, study.says)
            further = unknown_of(study, ran) if len(ran) > before else {}
    _collect(place)
    study = judged(replace(study, ran=tuple(runs_of(place.folder, study.says))))
    write_study(study, place.folder)
    return _exit_code(study) if code is None else code


def environment_of(place: StudyPlace, study: Study) -> dict[str, str]:
    """Of JUBE and the jobs."""
    variables = environment_of_settings(place.home, place.platform(study), study.settings)
    return environment_from_here(variables)


def _make(place: StudyPlace, study: Study, missing: Mapping[str, int], env: Mapping[str, str]) -> int | None:
    """One JUBE run with all launches that are missing; an exit code where it did not come to its end."""
    outpath = place.folder / RUNS
    outpath.mkdir(exist_ok=True)
    starters = ask_platform(place, study, env)
    number = next_id(outpath)
    cases = place.folder / CASES / f"{number:06d}"
    shutil.rmtree(cases, ignore_errors=True)  # of a run that JUBE never began
    jobs = write_cases(study, missing, starters, place.home, cases)
    variables = {
        "NPC_STUDY_JOBS": ",".join(f"{nodes}/{tasks}" for nodes, tasks in jobs.items()),
        "NPC_STUDY_CASES": str(cases),
        "NPC_STUDY_TOOL": study.tool,
        "NPC_STUDY_PROGRAMS": " ".join(_programs(study)),
        "NPC_SEED": str(study.seed + number),
        "NPC_LAUNCH_TIMEOUT": f"{study.timeout_s:.0f}",
    }
    file = place.home / "observe/study/benchmark.xml"
    what = Characterisation(
        file, place.platform(study), (), outpath, {**env, **variables},
        wait.Patience(limit_s=place.limit_s),
    )  # fmt: skip
    ending = run_and_wait(what, outpath / f"{number:06d}")
    return _code_of(ending)


def _programs(study: Study) -> Iterator[str]:
    """What is built in the jobs, of ``build.sh``."""
    of_rates = {"cpu": "clock", "memory": "stream", "network": "bandwidth"}
    yield from (of_rates[name] for name in study.measured)
    if any(condition.memory for condition in study.conditions):
        yield "competitor"


def _finish_open_runs(place: StudyPlace, env: Mapping[str, str]) -> int | None:
    """Wait for the jobs of earlier JUBE runs; an exit code where they have not ended."""
    for run in sorted((place.folder / RUNS).glob("[0-9]" * 6)):
        try:
            if not any(workpackage.is_open for workpackage in read_workpackages(run, wait.WRITING_S)):
                continue
        except NoRun:
            continue  # JUBE was killed before it had begun
        with Stop().listening() as stop, closing(Display()) as display:
            ending, _ = wait.wait_for(run, wait.Patience(limit_s=place.limit_s), env, stop, display)
            stopped = signal.Signals(stop.number) if stop.number else ending
        if (code := _code_of(stopped)) is not None:
            return code
    return None


def _code_of(ending: wait.Ending | signal.Signals) -> int | None:
    if isinstance(ending, signal.Signals):
        return 128 + ending
    return wait.EXIT_UNFINISHED if ending is wait.Ending.GAVE_UP else None


def _exit_code(study: Study) -> int:
    """What cannot be had here is no failure."""
    tried = [run for run in study.ran if not run.status.startswith("unavailable: ")]
    if not any(run.seconds is not None for run in tried):
        return wait.EXIT_NOTHING
    whole = all(run.seconds is not None for run in tried) and not missing_of(study, study.ran)
    return 0 if whole else wait.EXIT_PARTLY


def _collect(place: StudyPlace) -> None:
    """The records of all JUBE runs together, each with its raw file as seen from the study's folder."""
    records: list[Record] = []
    for run in sorted((place.folder / RUNS).glob("[0-9]" * 6)):
        with suppress(NoRun, InvalidPlatform):  # JUBE was killed before it had begun
            of_run = collect_run(run)
            save_csv(of_run, run / RECORDS)
            save_environment(run)
            prefix = run.relative_to(place.folder).as_posix()
            records += [replace(record, raw=f"{prefix}/{record.raw}") for record in of_run]
        if (run / ENVIRONMENT).exists() and not (place.folder / ENVIRONMENT).exists():
            copy(run / ENVIRONMENT, place.folder / ENVIRONMENT)
    if records:
        save_csv(records, place.folder / RECORDS)
