"""The report's page: its sections, and the table of records to which every number leads."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

from markupsafe import Markup

from npc.hostlist import host_text
from npc.page import frame
from npc.page.blocks import sample
from npc.page.frame import Section
from npc.records.record import Record
from npc.records.series import share_taken
from npc.records.units import METRICS, between, format_quantity, format_size, plural
from npc.registration import Extension, extensions
from npc.report.repeats import Repeats
from npc.report.runs import Report, Run, hosts_of
from npc.report.sections import NothingToShow
from npc.validity import unusable

_TEMPLATE: Final = Path(__file__).parent / "templates/page.html"
#: Rows of the table of records; a run with more has what is bad and what is used above first.
MOST_SERIES: Final = 6000
#: Samples of one series that are shown with their raw files.
MOST_SAMPLES: Final = 24


def build(
    report: Report, say: Callable[[str], None] = lambda _: None
) -> tuple[list[Section], list[tuple[str, str]]]:
    """The sections that have something to show; and of the others the title and why there is nothing.

    say: is told what is being made.
    """
    sections, absent = [], []
    for name, module, problem in sorted(extensions("sections"), key=_place):
        if module is None:
            absent.append((name, problem))
            continue
        say(f"section {module.TITLE}")
        try:
            sections.append(Section(name, module.TITLE, list(module.build(report))))
        except NothingToShow as reason:
            absent.append((module.TITLE, str(reason)))
    return sections, absent


def _place(section: Extension) -> int:
    return section.module.PLACE if section.module else 0


def render(report: Report, sections: Sequence[Section], absent: Sequence[tuple[str, str]]) -> str:
    """The whole page as HTML."""
    many = any(len(run.series) > MOST_SERIES for run in report.runs)
    used = _used(sections) if many else set()
    shown = {run.number: _chosen(run, used) for run in report.runs}
    return frame.render(
        report.title,
        _subtitle(report),
        sections,
        _TEMPLATE,
        report=report,
        absent=absent,
        series_shown={
            run.number: [_row(series, run, report) for series in shown[run.number]] for run in report.runs
        },
        series_left={run.number: len(run.series) - len(shown[run.number]) for run in report.runs},
    )


def _subtitle(report: Report) -> str:
    parts = []
    if report.runs:
        days = sorted({run.days for run in report.runs if run.days})
        records = [record for run in report.runs for record in run.records]
        hosts = host_text(hosts_of(records)) or "no host"
        parts.append(f"{plural(len(records), 'record')} of {hosts}, {', '.join(days) or 'no day'}")
    if report.history:
        parts.append(report.history.words)
    return "; ".join(parts)


# --- the table of records ------------------------------------------------------------------------------


def _used(sections: Sequence[Section]) -> set[str]:
    """Ids of the series that some number of the sections leads to."""
    pending: list[Any] = [block for section in sections for block in section.blocks]
    idents: set[str] = set()
    while pending:
        part = pending.pop()
        if isinstance(part, Markup):
            idents.update(re.findall(r'data-record="(r\d+s\d+)"', part))
        elif isinstance(part, tuple):
            idents.update(getattr(part, "records", ()))
            pending += [item for item in part if not isinstance(item, str | float | int)]
        elif hasattr(part, "__dataclass_fields__"):
            pending += [getattr(part, name) for name in part.__dataclass_fields__]
    return idents


def _chosen(run: Run, used: set[str]) -> list[Repeats]:
    """The series in the table: all, or of very many those that are used or bad, and the first of the rest."""
    if len(run.series) <= MOST_SERIES:
        return run.series

    def order(series: Repeats) -> tuple[bool, bool]:
        return series.ident not in used, len(series.usable) == len(series.records)

    most = max(MOST_SERIES, sum(series.ident in used for series in run.series))
    shown = {series.ident for series in sorted(run.series, key=order)[:most]}
    return [series for series in run.series if series.ident in shown]


def _row(series: Repeats, run: Run, report: Report) -> dict[str, Any]:
    """What the table shows of a series beside what it is; a bad one with its reason."""
    first, summary = series.first, series.summary
    quantity = partial(format_quantity, unit=first.unit, digits=4)
    statuses = [alike[0].status for alike in unusable(series.records)]
    return {
        "series": series,
        "hosts": host_text(first.hosts),
        "size": format_size(first.size),
        "median": quantity(summary.median) if summary else "",
        "median_sort": repr(summary.median) if summary else "",
        "interval": between(summary.low, summary.high, quantity) if summary else "",
        "usable": f"{len(series.usable)} of {len(series.records)}{_disturbed(series)}",
        "usable_sort": len(series.usable) / len(series.records),
        "bad": bool(statuses),
        "reason": "; ".join(statuses[:3]) + (" …" if len(statuses) > 3 else ""),
        "samples": [
            sample(record, report.href(run, record.raw or "records.csv")) for record in _extremes(series)
        ],
        "more": max(0, len(series.records) - MOST_SAMPLES),
    }


def _disturbed(series: Repeats) -> str:
    number = sum(share_taken(record) > 0 for record in series.usable)
    return f", {number} disturbed" if number else ""


def _extremes(series: Repeats) -> Iterator[Record]:
    """The samples to show: all, or of very many the bad ones and the worst."""
    if len(series.records) <= MOST_SAMPLES:
        yield from series.records
        return
    sign = -1.0 if METRICS[series.first.metric].better == "lower" else 1.0
    ordered = sorted(series.records, key=lambda record: (record.ok, sign * (record.value or 0.0)))
    yield from ordered[:MOST_SAMPLES]
