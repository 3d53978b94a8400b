"""What ``npc records collect RUN`` does: a JUBE run becomes ``records.csv``, every row with its raw file.

Reads what JUBE leaves behind (``workpackages.xml`` and the folders of the workpackages) and the folders
of launches in them. What went wrong becomes a record too: a launch that failed, one that was planned and
never made, a workpackage that broke before its first launch.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Final

from npc import parsers
from npc.document import below
from npc.files import copy, read_text
from npc.jobs.workpackages import read_workpackages
from npc.parsers.observed import rank_cpus, watching
from npc.parsers.run.foreign import is_foreign, records_of_foreign
from npc.parsers.run.output import read_output
from npc.records import series
from npc.records.build import Origin, record_of_failure, records_of
from npc.records.environment import read_environment
from npc.records.launch import ENVIRONMENT, LAUNCHES, read_launches
from npc.records.record import Record
from npc.records.run import WORKPACKAGES
from npc.records.series import RANK_CPUS
from npc.validity.run import judge_run, platform_of

#: What `npc observe` leaves beside a launch's output.
OBSERVED: Final = ".observed.json"


def collect_run(run: Path, platform: str = "") -> list[Record]:
    """All records of a JUBE run or of a single folder of launches; `platform` overrides the run's own name.

    Those that the rules of `npc.validity` catch are ``invalid: …``. Raises `NoRun`, and `InvalidPlatform` for
    a ``platform.toml`` that cannot be used. Never raises for what a tool printed.
    """
    records = list(_records_of_run(run, platform))
    return judge_run(run, records, platform_of(records))


def _records_of_run(run: Path, platform: str) -> Iterator[Record]:
    """The records as the parsers and the launches give them."""
    name = run.resolve().name
    if (run / LAUNCHES).exists():
        yield from _records_of_folder(run, run, Origin(platform or socket.gethostname(), "", name))
        return
    workpackages = read_workpackages(run)
    names = (workpackage.parameters.get("npc_platform_name") for workpackage in workpackages)
    where = platform or next(filter(None, names), "") or _measured_node(run)
    foreign = []
    for workpackage in workpackages:
        origin = Origin(where, workpackage.step, name)
        folders = workpackage.launch_folders()
        for folder in folders:
            yield from _records_of_folder(folder, run, origin, workpackage.recorded_reason())
        if not folders and workpackage.done and is_foreign(workpackage):
            foreign.append(workpackage)
        elif not folders:
            job = workpackage.batch_job()
            origin = origin._replace(job=str(job.number) if job else "")
            source = workpackage.folder if workpackage.folder.is_dir() else run / WORKPACKAGES
            nodes, hosts = workpackage.asked_nodes(), workpackage.given_hosts()
            yield _failure(workpackage.reason(), origin, run, source, workpackage.step, nodes, hosts)
    yield from records_of_foreign(run, foreign, Origin(where, "", name))


def _measured_node(run: Path) -> str:
    """What a run is known by whose platform has no ``npc_platform_name``: its first measured node by name,
    else this host, which only collects."""
    for path in sorted(run.glob(f"*/work/{ENVIRONMENT}")):
        if (environment := read_environment(path)) and isinstance(
            name := below(environment, "host", "name"), str
        ):
            return name
    return socket.gethostname()


def _failure(
    status: str,
    origin: Origin,
    run: Path,
    source: Path,
    case: str = "",
    nodes: int = 1,
    hosts: tuple[str, ...] = (),
) -> Record:
    """The record of launches that left nothing but `source`."""
    moment = datetime.fromtimestamp(source.stat().st_mtime, timezone.utc).isoformat(timespec="milliseconds")
    raw = source.relative_to(run).as_posix()
    return record_of_failure(status, origin, moment, raw, case, nodes, hosts)


def _records_of_folder(folder: Path, run: Path, origin: Origin, reason: str = "") -> Iterator[Record]:
    """Records of every launch in `folder`, and one for those that were planned and never made.

    `reason` is the status of these, where it is known why the job ended early.
    """
    log = folder / LAUNCHES
    try:
        launches = read_launches(folder)
    except (OSError, ValueError) as error:
        named = origin._replace(benchmark=origin.benchmark or folder.name)
        yield _failure(f"failed: {error}", named, run, log)
        return
    origin = origin._replace(benchmark=origin.benchmark or launches.tool, job=launches.job)
    for launch in launches.launches:
        raw = folder / launch.raw
        observed = raw if raw.name.endswith(OBSERVED) else raw.with_suffix(OBSERVED)
        observation = launch.raw and observed.is_file() and read_text(observed, "replace")
        if observation:
            cpus = rank_cpus(observation)
            how = {**({RANK_CPUS: cpus} if cpus else {}), **watching(observation)}
            launch = replace(launch, params={**launch.params, **how})
        if not (observation and launches.tool == series.OBSERVED):  # what it printed has no parser
            readings = read_output(folder, launches.tool, launch)
            yield from records_of(launch, readings, origin, raw.relative_to(run).as_posix())
        if observation:
            readings = parsers.parse("observed", observation)
            yield from records_of(launch, readings, origin, observed.relative_to(run).as_posix())
    missing = launches.planned - len(launches.launches)
    if missing > 0:
        count = f"{missing} of {launches.planned} launches were not made"
        status = f"{reason}; {count}" if reason else f"failed: {count}: the job ended early, or goes on"
        yield _failure(status, origin, run, log)


def save_environment(run: Path) -> None:
    """Give a run that has no ``environment.json`` that of its first job."""
    if not (run / ENVIRONMENT).exists():
        paths = sorted(run.glob(f"*/work/{ENVIRONMENT}"))
        if paths:
            copy(paths[0], run / ENVIRONMENT)
