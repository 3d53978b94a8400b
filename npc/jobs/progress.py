"""How far a run is, for people: a live table on a terminal, one line a change elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

from npc.jobs.scheduler import Job
from npc.jobs.workpackages import NO_LAUNCHES, NoRun, Progress, Workpackage, read_workpackages
from npc.records.units import format_duration
from npc.terminal import unguarded, visible

if TYPE_CHECKING:
    from rich.live import Live
    from rich.table import Table

_STYLES = {"done": "green", "failed": "red", "running": "bold", "waiting": "dim"}


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkpackageRow:
    """One workpackage: JUBE's state of it, or its job's where that says more; and why."""

    #: Its step and its number: ``qperf 0``.
    name: str
    #: One word in small letters: JUBE's, or its job's where that says more; ``submitted``, ``ended``.
    state: str
    #: The batch system's number or name of its job; empty if it has none.
    job: str = ""
    #: The nodes of its job as a list (``n[1-2]``); empty before it has any.
    nodes: str = ""
    #: How long its job has run, in s; None where no batch system says.
    elapsed_s: int | None = None
    #: How many of its launches have ended, of how many.
    progress: Progress = NO_LAUNCHES
    #: Why it is in this state, or what to know of it; empty for nothing.
    note: str = ""


def row_of(workpackage: Workpackage, job: Job | None = None) -> WorkpackageRow:
    """The row of a workpackage, with what the batch system said last of its job."""
    state, note = workpackage.state(), workpackage.submit_limit
    named = workpackage.batch_job()
    if state == "failed":
        note = workpackage.reason()
    elif state == "running" and job is None and named:
        state = "submitted"
    elif state == "running" and job is not None:
        state = "ended" if job.ended else job.state.lower()
        note = job.state if job.ended else job.reason if job.state == "PENDING" else ""
        if job.restarts:
            note = f"requeued{', ' if note else ''}{note}"
    if state == "running" and (command := workpackage.submitted_elsewhere()):
        note = f"submitted by {command}, which npc cannot ask: its files will tell"
    if state == "running" and not note and (folder := workpackage.launches_folder()):
        from npc.validity.run import foreseen  # only where something runs

        why = foreseen(workpackage.folder.parent, folder, workpackage.step)
        note = f"its records will be invalid: {why}" if why else ""
    return WorkpackageRow(
        name=workpackage.name,
        state=state,
        job=str(named.number) if named else "",
        nodes=job.nodes if job else "",
        elapsed_s=job.elapsed_s if job else None,
        progress=workpackage.progress(),
        note=note,
    )


def rows_of(run: Path) -> list[WorkpackageRow]:
    """Rows without any word of a batch system; empty while there is nothing to read."""
    try:
        return [row_of(workpackage) for workpackage in read_workpackages(run)]
    except NoRun:
        return []


class Display:
    """Shows rows on stderr, as often as they are given. To be closed."""

    def __init__(self) -> None:
        self._printed: dict[str, str] = {}
        self._begun: dict[str, float] = {}
        self._took: dict[str, float] = {}
        self._live: Live | None = None
        self._title = ""
        if sys.stderr.isatty():
            from rich.console import Console
            from rich.live import Live

            # Drawn when there is something new, never by a thread of its own: this may be the machine
            # that is being measured.
            self._live = Live(console=Console(file=unguarded(sys.stderr)), auto_refresh=False)
            self._live.start()

    def show(self, rows: Sequence[WorkpackageRow], title: str = "") -> None:
        """Bring the table up to date, or say what has changed; `title` is about the whole run."""
        for row in rows:
            self._watch(row)
        if self._live is not None:
            self._live.update(self._table(rows, title), refresh=True)
            return
        if title != self._title:
            self._title = title
            if title:
                _print(title)
        for row in rows:
            change = ", ".join(filter(None, (row.state, row.job and f"job {row.job}")))
            change += f" on {row.nodes}" if row.nodes else ""
            if row.state == "failed":
                change = row.note  # begins with how it failed, and knows the job
            elif notes := ", ".join(filter(None, (row.note, _awaited(row)))):
                change += f": {notes}"
            if self._printed.get(row.name) != change:
                self._printed[row.name] = change
                _print(f"{row.name}: {change}")

    def note(self, sentence: str) -> None:
        """Say something that stays, above the table."""
        if self._live is not None:
            self._live.console.print(visible(sentence), markup=False, highlight=False)
        else:
            _print(sentence)

    def close(self) -> None:
        """Leave on the terminal what is there."""
        if self._live is not None:
            self._live.stop()

    def _watch(self, row: WorkpackageRow) -> None:
        """Time of what has no job that would know its own."""
        ended = row.state in ("done", "failed")
        if row.state == "waiting" or (ended and row.name not in self._begun):
            return
        begun = self._begun.setdefault(row.name, time.monotonic())
        if not ended:
            self._took[row.name] = time.monotonic() - begun

    def _table(self, rows: Sequence[WorkpackageRow], title: str) -> Table:
        from rich.table import Table
        from rich.text import Text

        table = Table(
            box=None, pad_edge=False, header_style="dim", caption=visible(title), caption_justify="left"
        )
        with_jobs = any(row.job for row in rows)
        columns = [column for column in self._columns() if with_jobs or column.name not in ("job", "nodes")]
        for column in columns:
            table.add_column(column.name, justify=column.justify)
        for row in rows:
            style = _STYLES.get(row.state, "")
            table.add_row(*(Text(visible(column.text(row)), style=style) for column in columns))
        return table

    def _columns(self) -> Iterator[_LiveColumn]:
        yield _LiveColumn("state", lambda row: row.state, "right")
        yield _LiveColumn("workpackage", lambda row: row.name)
        yield _LiveColumn("job", lambda row: row.job, "right")
        yield _LiveColumn("nodes", lambda row: row.nodes)
        yield _LiveColumn("time", self._elapsed, "right")
        yield _LiveColumn("launches", _launches, "right")
        yield _LiveColumn("", _remarks)

    def _elapsed(self, row: WorkpackageRow) -> str:
        elapsed_s = self._took.get(row.name) if row.elapsed_s is None else row.elapsed_s
        return "" if elapsed_s is None else format_duration(elapsed_s)


class _LiveColumn(NamedTuple):
    """A column of the live table."""

    #: What stands above it; empty for nothing.
    name: str
    #: Makes the text of a cell from the row of a workpackage.
    text: Callable[[WorkpackageRow], str]
    #: The side to which its texts are moved.
    justify: Literal["left", "right"] = "left"


def _launches(row: WorkpackageRow) -> str:
    made, planned = row.progress.made, row.progress.planned
    return f"{made}/{planned or '?'} launches" if made or planned else ""


def _remarks(row: WorkpackageRow) -> str:
    bad = f"{row.progress.failed} bad" if row.progress.failed else ""
    return ", ".join(filter(None, (bad, row.note, _awaited(row))))


def _print(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _awaited(row: WorkpackageRow) -> str:
    """What there are further launches for."""
    return str(row.progress.awaited or "") if row.state == "running" else ""


def as_json(row: WorkpackageRow) -> Mapping[str, object]:
    """The row for machines: what is not known is null."""
    made, planned, failed, _ = row.progress
    return {
        "workpackage": row.name,
        "state": row.state,
        "job": row.job or None,
        "nodes": row.nodes or None,
        "seconds": row.elapsed_s,
        "launches": {"made": made, "planned": planned or None, "failed": failed},
        "reason": row.note or None,
    }
