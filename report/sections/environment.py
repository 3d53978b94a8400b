"""The machine and its software, and how every number came to be: each launch with command and raw file."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping, Sequence

from npc.hostlist import host_text
from npc.machine.facts import hardware, software
from npc.page.blocks import Block, Cell, Column, Preformatted, Table, Text, count
from npc.records.launch import Launch
from npc.records.units import format_duration
from npc.report.runs import Report, Run
from npc.report.sections import runs_of

TITLE = "Environment and provenance"
PLACE = 190
#: Launches that are listed; the others are left to ``launches.jsonl``.
_MOST_LAUNCHES = 2000


def build(report: Report) -> Iterator[Block]:
    """The facts side by side, the whole of each ``environment.json``, and the launches."""
    known = [run for run in runs_of(report) if run.environment]
    if known:
        yield _facts(report)
    else:
        yield Text(
            "No environment.json lies with these records: what machine made them is not known.", "note"
        )
    for run in known:
        text = json.dumps(run.environment, indent=1, ensure_ascii=False)
        yield Preformatted(f"environment.json of {run.label}", text)
    for run in report.runs:
        if run.launches:
            yield _launches(report, run)


def _facts(report: Report) -> Table:
    """A row a fact, a column a run; what differs is marked."""
    by_run = [dict(_of_run(run)) for run in report.runs]

    def column(run: Run, facts: Mapping[str, str]) -> Column[str]:
        return Column(run.label, lambda name: Cell(facts.get(name, ""), kind=_differs(name, by_run)))

    columns = [
        Column[str]("what", lambda name: name),
        *(column(run, facts) for run, facts in zip(report.runs, by_run, strict=True)),
    ]
    return Table.of(
        "Where it was measured", dict.fromkeys(name for facts in by_run for name in facts), columns
    )


def _differs(name: str, by_run: Sequence[Mapping[str, str]]) -> str:
    """The class of a fact that is not the same in all runs."""
    return "differs" if len({facts.get(name, "") for facts in by_run}) > 1 else ""


def _of_run(run: Run) -> Iterator[tuple[str, str]]:
    """(fact, what it was) of a run."""
    yield "folder", str(run.folder)
    yield "measured", run.days
    yield "hosts", host_text(run.hosts)
    yield from software(run.environment)
    yield from hardware(run.environment)


def _launches(report: Report, run: Run) -> Table:
    """Every launch: what was started, where, how long, how it ended, and what it printed."""
    first: dict[str, str] = {}
    for record in run.records:
        first.setdefault(record.raw, run.idents[id(record)])
    columns: list[Column[Launch]] = [
        Column(
            "started (UTC)",
            lambda launch: Cell(
                _stamp(launch), (first[launch.raw],) if launch.raw in first else (), kind="stamp"
            ),
        ),
        Column(
            "raw output",
            lambda launch: Cell(launch.raw, href=report.href(run, launch.raw), sort=launch.raw),
        ),
        Column("command", lambda launch: Cell(shlex.join(launch.argv), kind="command")),
        Column("sample", lambda launch: count(launch.sample)),
        Column(
            "took", lambda launch: Cell(format_duration(launch.seconds), sort=launch.seconds, kind="number")
        ),
        Column("ended", _ended),
        Column("hosts", lambda launch: host_text(launch.hosts)),
    ]
    return Table.of(
        f"Launches of {run.label}: every process that measured, with its raw output",
        run.launches,
        columns,
        folded=True,
        filtered=True,
        most=_MOST_LAUNCHES,
        rest="{} more are in launches.jsonl.",
    )


def _ended(launch: Launch) -> Cell:
    words = launch.status if launch.exit in (0, None) else f"{launch.status} (exit {launch.exit})"
    return Cell(words, kind="" if launch.status == "ok" else "bad")


def _stamp(launch: Launch) -> str:
    return launch.started[:19].replace("T", " ")
