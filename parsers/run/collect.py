"""What ``npc collect RUN`` does: a JUBE run becomes ``records.csv``, every row with its raw file.

Reads what JUBE leaves behind (``workpackages.xml`` and the folders of the workpackages) and the folders
of launches in them. What went wrong becomes a record too: a launch that failed, one that was planned and
never made, a workpackage that broke before its first launch.
"""

from __future__ import annotations

import re
import shutil
import socket
from collections.abc import Iterator, Mapping
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, Final

import parsers
from npc.jobs.workpackages import WORKPACKAGES, read_workpackages
from npc.records.launch import LAUNCHES, Launch, Launches, read_launches
from npc.records.reading import Reading
from npc.records.record import OK, InvalidRecord, Record, replace
from npc.validity import find_lies, judged
from npc.validity.run import circumstances_of, platform_of

ENVIRONMENT: Final = "environment.json"
#: What `npc observe` leaves beside a launch's output.
OBSERVED: Final = ".observed.json"
#: A launch that gave no reading at all still needs a metric; none of its numbers is known.
UNREAD: Final = "time"
#: Names under which a sweep varies the message size: a record has it in `size`.
_SIZE_PARAMS: Final = frozenset({"m", "s", "l", "size", "msg_size", "msg-size", "len", "length"})


def collect_run(run: Path, platform: str = "") -> list[Record]:
    """All records of a JUBE run or of a single folder of launches; `platform` overrides the run's own name.

    Those that the rules of `npc.validity` catch are ``invalid: …``. Raises `NoRun`, and `InvalidPlatform` for
    a ``platform.toml`` that cannot be used. Never raises for what a tool printed.
    """
    records = _records_of_run(run, platform)
    circumstances = circumstances_of(run, records, platform_of(records))
    return judged(records, find_lies(records, circumstances))


def _records_of_run(run: Path, platform: str) -> list[Record]:
    """The records as the parsers and the launches give them."""
    if (run / LAUNCHES).exists():
        return list(_records_of_folder(run, run, "", platform or socket.gethostname()))
    records: list[Record] = []
    for workpackage in read_workpackages(run):
        name = platform or workpackage.parameters.get("platform_name") or socket.gethostname()
        folders = sorted(path.parent for path in (workpackage.folder / "work").glob(f"*/{LAUNCHES}"))
        for folder in folders:
            told = workpackage.recorded_reason()
            records += _records_of_folder(folder, run, workpackage.step, name, told)
        if not folders:
            source = workpackage.folder if workpackage.folder.is_dir() else run / WORKPACKAGES
            provenance = _provenance(run, workpackage.step, name, source)
            job = workpackage.batch_job()
            provenance["job"] = str(job.number) if job else ""
            records.append(
                Record.of(Reading(workpackage.step, UNREAD, None, None, workpackage.reason()), **provenance)
            )
    return records


def _provenance(run: Path, benchmark: str, platform: str, source: Path) -> dict[str, Any]:
    moment = datetime.fromtimestamp(source.stat().st_mtime, timezone.utc).isoformat(timespec="milliseconds")
    return {
        "time": moment,
        "platform": platform,
        "benchmark": benchmark,
        "run": run.resolve().name,
        "raw": source.relative_to(run).as_posix(),
    }


def _records_of_folder(
    folder: Path, run: Path, benchmark: str, platform: str, reason: str = ""
) -> Iterator[Record]:
    """Records of every launch in `folder`, and one for those that were planned and never made.

    `reason` is the status of these, where it is known why the job ended early.
    """
    try:
        launches = read_launches(folder)
    except ValueError as error:
        provenance = _provenance(run, benchmark or folder.name, platform, folder / LAUNCHES)
        yield Record.of(Reading("", UNREAD, None, None, f"failed: {error}"), **provenance)
        return
    benchmark = benchmark or launches.tool
    for launch in launches.launches:
        yield from _records_of_launch(launch, launches, run, benchmark, platform)
    missing = launches.planned - len(launches.launches)
    if missing > 0:
        provenance = _provenance(run, benchmark, platform, folder / LAUNCHES)
        count = f"{missing} of {launches.planned} launches were not made"
        status = f"{reason}; {count}" if reason else f"failed: {count}: the job ended early, or goes on"
        yield Record.of(Reading("", UNREAD, None, None, status), job=launches.job, **provenance)


def read_output(launches: Launches, launch: Launch) -> list[Reading]:
    """What the parser reads in a launch's raw output; one failed reading where it finds nothing."""
    out, err = (
        path.read_text(encoding="utf-8", errors="replace") if launch.raw and path.is_file() else ""
        for path in (launches.folder / launch.raw, (launches.folder / launch.raw).with_suffix(".err"))
    )
    try:
        readings = parsers.parse(launches.tool, parsers.joined(out, err), launch.argv)
    except parsers.UnknownParser as error:
        return [Reading(launch.case, UNREAD, None, None, f"failed: {error}")]
    if readings:
        return readings
    status = launch.status if launch.status != OK else "failed: nothing in the output that could be read"
    return [Reading(launch.case, UNREAD, None, None, status)]


def _records_of_launch(
    launch: Launch, launches: Launches, run: Path, benchmark: str, platform: str
) -> Iterator[Record]:
    provenance: dict[str, Any] = {
        "time": launch.started,
        "platform": platform,
        "benchmark": benchmark,
        "nodes": launch.nodes,
        "hosts": launch.hosts,
        "job": launches.job,
        "run": run.resolve().name,
        "sample": launch.sample,
        "raw": (launches.folder / launch.raw).relative_to(run).as_posix(),
    }
    readings = read_output(launches, launch)
    yield from _records_of_readings(readings, launch, provenance)
    observed = (launches.folder / launch.raw).with_suffix(OBSERVED)
    if launch.raw and observed.is_file():
        readings = parsers.parse("observed", observed.read_text(encoding="utf-8", errors="replace"))
        yield from _records_of_readings(
            readings, launch, {**provenance, "raw": observed.relative_to(run).as_posix()}
        )


def _records_of_readings(
    readings: list[Reading], launch: Launch, provenance: Mapping[str, Any]
) -> Iterator[Record]:
    measured = any(reading.value is not None for reading in readings)
    one_row = launch.failed_in_one_row(readings)
    for reading in readings:
        params = {
            name: value
            for name, value in launch.params_of(reading).items()
            if reading.size is None or name not in _SIZE_PARAMS
        }
        try:
            record = Record.of(reading, params=params, **provenance)
        except InvalidRecord as error:
            broken = Reading(reading.case, UNREAD, None, None, f"invalid: {error}")
            record = Record.of(broken, params=params, **provenance)
        asked = launch.params.get("ranks")
        ran = int(record.params.get("ranks", 0)) + int(record.params.get("waiting", 0))
        if asked and record.ok and str(ran) != asked:
            # The launcher of one MPI with the library of another starts every process as a world of its own.
            record = replace(record, status=f"invalid: {ran} MPI ranks ran, {asked} were asked for")
        if launch.status != OK and not one_row and (record.ok or not measured):
            # The numbers of a launch that failed are kept, and nobody uses them unasked. Where there are
            # none, who made the launch knows better than the parser of an empty text why.
            record = replace(record, status=launch.status)
        yield record


def save_environment(run: Path) -> None:
    """Give a run that has no ``environment.json`` that of its first job."""
    if not (run / ENVIRONMENT).exists():
        found = sorted(run.glob(f"*/work/{ENVIRONMENT}"))
        if found:
            shutil.copyfile(found[0], run / ENVIRONMENT)


def count_failures(records: list[Record]) -> dict[str, int]:
    """How often each status but ``ok`` occurs, with its benchmark.

    Statuses that differ in their numbers only count as one, under the words of the first.
    """
    first: dict[str, str] = {}
    counts: dict[str, int] = {}
    for record in records:
        if not record.ok:
            status = f"{record.benchmark}: {record.status}"
            status = first.setdefault(re.sub(r"[0-9.]+", "N", status), status)
            counts[status] = counts.get(status, 0) + 1
    return counts
