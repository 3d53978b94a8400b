"""``npc collect RUN``: a JUBE run becomes ``records.csv``, every row with its raw file.

Reads what JUBE leaves behind (``workpackages.xml`` and the folders of the workpackages) and the folders
of launches in them. What went wrong becomes a record too: a launch that failed, one that was planned and
never made, a workpackage that broke before its first launch.
"""

from __future__ import annotations

import re
import shutil
import socket
import sys
import xml.etree.ElementTree as ET
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, Final

import click

import parsers
from npc.launch import LAUNCHES, Launch, Launches, last_words, read_launches
from npc.record import OK, InvalidRecord, Reading, Record, replace, save_csv
from npc.run import RECORDS

WORKPACKAGES: Final = "workpackages.xml"
ENVIRONMENT: Final = "environment.json"
#: What `npc observe` leaves beside a launch's output.
OBSERVED: Final = ".observed.json"
#: A launch that gave no reading at all still needs a metric; none of its numbers is known.
UNREAD: Final = "time"
#: Names under which a sweep varies the message size: a record has it in `size`.
_SIZE_PARAMS: Final = frozenset({"m", "s", "l", "size", "msg_size", "msg-size", "len", "length"})


class NoRun(Exception):
    """The folder holds nothing to collect; the message says what was looked for."""


@dataclass(frozen=True, slots=True)
class Workpackage:
    """A JUBE workpackage: `folder` holds its ``work``; `parameters` are as JUBE evaluated them."""

    folder: Path
    step: str
    parameters: dict[str, str]

    @property
    def done(self) -> bool:
        """Whether JUBE saw it end well."""
        return (self.folder / "done").exists()

    def reason(self) -> str:
        """Why it has no launches, in a line: the job's own last words, else JUBE's."""
        if not self.folder.is_dir():
            return "failed: it was never started: the run was stopped, or goes on"
        if self.done:
            return "failed: its job ended, but made no launches: has the platform's job script #MEASUREMENT#?"
        for name in ("work/job.err", "work/stderr", "error"):
            path = self.folder / name
            if path.is_file():
                last = last_words(path)
                if last:
                    return last if last.startswith("unavailable: ") else f"failed: {last}"
        if (self.folder / "error").exists():
            return "failed: JUBE says error, without a reason"
        return "failed: it has not ended, or was lost"


def find_run(path: Path) -> Path:
    """The run that `path` means: a run's folder, or the newest of the runs in it. Raises `NoRun`."""
    if (path / WORKPACKAGES).exists() or (path / LAUNCHES).exists():
        return path
    runs = sorted(folder for folder in path.glob("[0-9]" * 6) if (folder / WORKPACKAGES).exists())
    if not runs:
        raise NoRun(f"{path} is no JUBE run (no {WORKPACKAGES}) and holds none")
    return runs[-1]


def read_workpackages(run: Path) -> list[Workpackage]:
    """The workpackages of a JUBE run (2.5 to 2.7 write them alike), in the order of their numbers.

    Raises `NoRun` for a file that is no such XML.
    """
    try:
        root = ET.parse(run / WORKPACKAGES).getroot()
    except (OSError, ET.ParseError) as error:
        raise NoRun(f"{run / WORKPACKAGES}: {error}") from None
    found = []
    for element in root.iter("workpackage"):
        step = (element.findtext("step") or "").strip()
        try:
            number = int(element.get("id", "0"))
        except ValueError as error:
            raise NoRun(f"{run / WORKPACKAGES}: id of a workpackage: {error}") from None
        parameters = {}
        for parameter in element.iter("parameter"):
            selected = parameter.find("selection")
            value = parameter.findtext("value") if selected is None else selected.text
            parameters[parameter.get("name", "")] = (value or "").strip()
        found.append(Workpackage(run / f"{number:06d}_{step}", step, parameters))
    return sorted(found, key=lambda workpackage: workpackage.folder.name)


def collect_run(run: Path, platform: str = "") -> list[Record]:
    """All records of a JUBE run or of a single folder of launches; `platform` overrides the run's own name.

    Raises `NoRun`. Never raises for what a tool printed.
    """
    if (run / LAUNCHES).exists():
        return list(_records_of_folder(run, run, "", platform or socket.gethostname()))
    records: list[Record] = []
    for workpackage in read_workpackages(run):
        name = platform or workpackage.parameters.get("platform_name") or socket.gethostname()
        folders = sorted(path.parent for path in (workpackage.folder / "work").glob(f"*/{LAUNCHES}"))
        for folder in folders:
            records += _records_of_folder(folder, run, workpackage.step, name)
        if not folders:
            source = workpackage.folder if workpackage.folder.is_dir() else run / WORKPACKAGES
            provenance = _provenance(run, workpackage.step, name, source)
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


def _records_of_folder(folder: Path, run: Path, benchmark: str, platform: str) -> Iterator[Record]:
    """Records of every launch in `folder`, and one for those that were planned and never made."""
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
        status = (
            f"failed: {missing} of {launches.planned} launches were not made: the job ended early, or goes on"
        )
        yield Record.of(Reading("", UNREAD, None, None, status), job=launches.job, **provenance)


def read_output(launches: Launches, launch: Launch) -> list[Reading]:
    """What the parser reads in a launch's raw output; one failed reading where it finds nothing."""
    text = ""
    for path in (launches.folder / launch.raw, (launches.folder / launch.raw).with_suffix(".err")):
        if launch.raw and path.is_file():
            text += path.read_text(encoding="utf-8", errors="replace")
    try:
        readings = parsers.parse(launches.tool, text, launch.argv)
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
    for reading in readings:
        params = {
            name: value
            for name, value in launch.params.items()
            if reading.size is None or name not in _SIZE_PARAMS
        }
        try:
            record = Record.of(reading, params=params, **provenance)
        except InvalidRecord as error:
            broken = Reading(reading.case, UNREAD, None, None, f"invalid: {error}")
            record = Record.of(broken, params=params, **provenance)
        if launch.status != OK and (record.ok or not measured):
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


@click.command()
@click.argument("run", type=click.Path(path_type=Path, exists=True, file_okay=False))
@click.option("--platform", default="", help="Name of the platform (default: as the platform file says).")
@click.option("--output", type=click.Path(path_type=Path, dir_okay=False), help="Default: RUN/records.csv.")
def collect(run: Path, platform: str, output: Path | None) -> None:
    """Records of a JUBE run: RUN/records.csv.

    RUN is a run's folder (runs/000003), the folder above it (the newest run is meant), or a folder of
    launches. Exit codes: 0, 1 no usable record at all (the file is written), 2 usage.
    """
    try:
        folder = find_run(run)
        records = collect_run(folder, platform)
    except NoRun as error:
        raise click.UsageError(str(error)) from None
    target = output or folder / RECORDS
    try:
        save_csv(records, target)
        if output is None:  # who writes elsewhere wants the run left as it is
            save_environment(folder)
    except OSError as error:
        raise click.ClickException(
            f"cannot write {target}: {error.strerror}; the raw output is untouched"
        ) from None
    usable = sum(record.ok for record in records)
    click.echo(f"{len(records)} records, {usable} of them usable: {target}")
    for status, count in count_failures(records).items():
        click.echo(f"  {count} × {status}", err=True)
    if not usable:
        sys.exit(1)


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
