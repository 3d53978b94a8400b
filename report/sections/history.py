"""The nights: every series over time, with its usual value, its limits, and where another level began."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime, timezone
from itertools import islice

from markupsafe import Markup

from npc.catalogue import on_any_nodes
from npc.figures import nights
from npc.figures.axes import time_axis
from npc.figures.svg import sparkline
from npc.hostlist import host_text
from npc.page.blocks import (
    NOTHING,
    Block,
    Cell,
    Column,
    Figure,
    Listing,
    Sample,
    Table,
    Text,
    chart_figure,
    count,
    quantity,
    sample,
)
from npc.records.series import REMEASURED, Series
from npc.records.units import METRICS, format_quantity, plural
from npc.records.verdicts import JudgedSeries
from npc.report.history import HistorySeries, HistoryView, NightValue
from npc.report.runs import Report
from npc.report.sections import NothingToShow

TITLE = "Time series"
PLACE = 140
_RANK = {"FAIL": 0, "DEGRADED": 1, "INVALID": 2, "MISSING": 3, "CHANGED": 4, "WATCH": 5, "": 6, "PASS": 7}
#: Series with a chart of their own, at most; all have a small one in the table.
_MOST_CHARTS = 24
#: Rows of nights in the tables of all charts together, at most.
_MOST_NIGHTS = 3000
#: Samples of a night that are shown with their raw files, at most.
_MOST_SAMPLES = 8
#: Nights that a chart marks one by one, at most: the last ones.
_MOST_MARKS = 400
#: What a series was judged by: the names of its values in ``verdict.json``, and how they are drawn.
_LEVELS = {
    "reference": nights.Level(math.nan, "usual value", "ink", (1.5, 2.5), "dotted is the usual value"),
    "limit": nights.Level(
        math.nan, "limit: measured again beyond", "orange", (7.0, 3.0),
        "dashed the limit beyond which a night is measured again; DEGRADED is what two or three nights say "
        "together (docs/acceptance.md)",
    ),
    "floor": nights.Level(
        math.nan, "acceptance band", "vermillion", (12.0, 2.0),
        "the long dashes are the acceptance band, beyond which one night is a failure",
    ),
}  # fmt: skip


def build(report: Report) -> Iterator[Block]:
    """The table of all series, and charts of those that are not as usual, then of the headline numbers."""
    history = report.history
    if history is None:
        raise NothingToShow("no history was asked for (--history FOLDER; npc night run keeps one)")
    yield Text(f"This is {history.words}. A night is a run; its value is the median of its usable samples.")
    order = sorted(history.series, key=_order)
    yield _table(order)
    several = [series for series in _by_test(order) if len(series.measured) > 1]
    by_key = {series.key: series for series in several}
    groups = [[by_key[key] for key in keys] for keys in islice(nights.panels(by_key).values(), _MOST_CHARTS)]
    shown = {series.ident for group in groups for series in group}
    most = max(7, _MOST_NIGHTS // max(len(shown), 1))
    for group in groups:
        yield _figure(report, history, group, most)
    if len(several) > len(shown):
        left = len(several) - len(shown)
        yield Text(f"{left} more series of several nights are in the tables only.")
    rest = [series for series in order if series.ident not in shown or series.last not in _last(series, most)]
    if rest:
        yield _last_nights(report, history, rest)
    yield from _rules(history)


def _rules(history: HistoryView) -> Iterator[Block]:
    """By what the nights are judged, in the words of their verdicts."""
    rules = dict.fromkeys(rule for document in history.verdicts.values() for rule in document.rule)
    if rules:
        yield Listing("The rule of the verdicts", tuple(map(Cell, rules)))


def _order(series: HistorySeries) -> tuple[object, ...]:
    """What is not as usual first; then headline numbers before percentiles, large sizes before small ones."""
    key, neither = series.key, METRICS[series.key.metric].better == "neither"
    return (*_rank(series), neither, key.platform, key.benchmark, key.case, -(key.size or 0))


def _rank(series: HistorySeries) -> tuple[int, bool]:
    return _RANK.get(series.verdict, 6), "statistic" in series.key.by_name


def _by_test(order: Sequence[HistorySeries]) -> list[HistorySeries]:
    """One size of each test before the second of any, after those that are not as usual."""
    places: Counter[Series] = Counter()
    ranks = {}
    for series in order:
        test = series.key._replace(size=None)
        ranks[series.ident] = (*_rank(series), places[test])
        places[test] += 1
    return sorted(order, key=lambda series: ranks[series.ident])


def _day(time: float) -> str:
    return datetime.fromtimestamp(time, timezone.utc).strftime("%Y-%m-%d")


def _table(order: Sequence[HistorySeries]) -> Table:
    several = len({series.key.platform for series in order}) > 1
    columns: list[Column[HistorySeries]] = [
        Column("series", lambda series: _name(series, several)),
        Column("metric", lambda series: series.key.metric),
        Column("verdict", _ranked_verdict),
        Column("last night", _last_median),
        Column("usual", _usual),
        Column("change", _change),
        Column("since", lambda series: series.judged.since if series.judged else ""),
        Column("nights", lambda series: count(len(series.measured))),
        Column("course", lambda series: Cell("", picture=_spark(series))),
        Column("reason", lambda series: series.judged.reason if series.judged else ""),
    ]
    return Table.of(
        "All series, those not as usual first",
        order,
        columns,
        filtered=True,
        idents=tuple(series.ident for series in order),
    )


def _ranked_verdict(series: HistorySeries) -> Cell:
    return _verdict(series.verdict)._replace(sort=_RANK.get(series.verdict, 6))


def _last_median(series: HistorySeries) -> Cell:
    last, anchor = series.nights[series.last], (series.anchor(series.last),)
    if last.n:
        return quantity(last.median, series.unit, anchor)
    return NOTHING._replace(text="none", records=anchor)


def _usual(series: HistorySeries) -> Cell:
    return quantity(series.judged.reference if series.judged else None, series.unit)


def _change(series: HistorySeries) -> Cell:
    effect = series.judged.effect if series.judged else None
    return NOTHING if effect is None else Cell(f"{100 * effect:+.1f} %", sort=effect, kind="number")


def _verdict(verdict: str) -> Cell:
    return Cell(verdict, kind="bad" if verdict not in ("", "PASS", "WATCH") else "")


def _name(series: HistorySeries, several: bool) -> str:
    """With its platform where there are several."""
    return f"{series.key.platform}: {series.name}" if several else series.name


def _spark(series: HistorySeries) -> Markup:
    nights = series.measured
    if len(nights) < 2:
        return Markup("")
    values = [night.median for night in nights]
    words = (
        f"{len(nights)} nights from {_day(nights[0].time)} to {_day(nights[-1].time)}, between "
        f"{format_quantity(min(values), series.unit)} and {format_quantity(max(values), series.unit)}"
    )
    return sparkline([(night.time, night.median) for night in nights], words)


def _figure(report: Report, history: HistoryView, together: Sequence[HistorySeries], most: int) -> Figure:
    """One test at all its numbers of nodes; levels and limits where that is one series."""
    first, several = together[0], len(history.platforms) > 1
    metric = first.key.metric
    names = [f", {name}" for name in nights.course_names([series.key for series in together])]
    names = names if len(together) > 1 else [""]
    courses = [
        _course(series, most)._replace(name=f"median of the night{name}")
        for series, name in zip(together, names, strict=True)
    ]
    name = _name(first if len(together) == 1 else replace(first, key=on_any_nodes(first.key)), several)
    x = time_axis("Night (UTC)", [night.time for series in together for night in series.nights], most=6)
    levels = list(_levels(first.judged)) if len(together) == 1 and first.judged else []
    chart, reading = nights.chart(
        courses, metric, x, y_title=metric.capitalize(), levels=levels, marked=_MOST_MARKS
    )
    shows = f"{name} in {len({night.run for series in together for night in series.measured})} nights."
    for series in together:
        if series.judged and series.judged.reason:
            of = f" on {plural(series.key.nodes, 'node')}" if len(together) > 1 else ""
            shows += f" The last one{of}: {series.judged.reason}."
    verdicts = dict.fromkeys(filter(None, (series.verdict for series in sorted(together, key=_order))))
    chart = replace(
        chart,
        ident=report.ident(),
        title=", ".join([f"{name}: {metric}", *verdicts]),
        text=f"{shows} The tables below have the last nights.",
        height=300,
    )
    tables = (_nights(report, history, series, most) for series in together)
    return chart_figure(chart, shows, reading, *tables)


def _course(series: HistorySeries, most: int) -> nights.Course:
    """A series as its chart has it; the marks of the last nights lead to their rows in the table."""
    anchors = {series.nights[place].run: series.anchor(place) for place in _last(series, most)}
    course = tuple(
        nights.NightPoint(
            night.time, night.median, night.low, night.high, verdict=night.verdict,
            tip=_tip(night, series.unit), record=anchors.get(night.run, ""),
        )
        for night in series.nights
    )  # fmt: skip
    judged = series.judged
    begun = _moment(series, judged.since) if judged else None
    if judged is None or begun is None:
        return nights.Course("", course)
    label = f"another level since {judged.since}, {judged.direction or 'changed'}"
    return nights.Course("", course, [(begun, label)])


def _levels(judged: JudgedSeries) -> Iterator[nights.Level]:
    """The levels that a series was judged by."""
    for name, level in _LEVELS.items():
        value: float | None = getattr(judged, name)
        # After a low night everything below the usual value is measured again.
        same = name == "limit" and value == judged.reference
        if value is not None and math.isfinite(value) and not same:
            yield level._replace(value=value)


def _moment(series: HistorySeries, since: str) -> float | None:
    """When the night called `since` (its run, or its time) began; None if there is none."""
    for night in series.nights:
        if since and (night.run == since or _day(night.time) == since[:10]):
            return night.time
    return None


def _tip(night: NightValue, unit: str) -> str:
    name = f"{_day(night.time)}, {night.run}"
    if not night.n:
        return f"{name}\n{night.status or 'no usable number'}"
    remarks = "".join(f"\n{text}" for text in (night.verdict, night.status) if text)
    return f"{name}\n{format_quantity(night.median, unit)}\n{_range(night, unit)}, n = {night.n}{remarks}"


def _range(night: NightValue, unit: str) -> str:
    return f"{format_quantity(night.low, unit)} – {format_quantity(night.high, unit)}"


# --- the records of nights -----------------------------------------------------------------------------


def _last(series: HistorySeries, most: int) -> range:
    """The places of the last nights of a series."""
    return range(max(0, len(series.nights) - most), len(series.nights))


#: A series and the place of one of its nights.
Place = tuple[HistorySeries, int]


def _night_columns(report: Report, history: HistoryView) -> list[Column[Place]]:
    """What the files have of a series in a night."""

    def column(name: str, get: Callable[[HistorySeries, NightValue], Cell | str]) -> Column[Place]:
        return Column(name, lambda place: get(place[0], place[0].nights[place[1]]))

    return [
        column("night", lambda _, night: Cell(_day(night.time), sort=night.time)),
        column(
            "median",
            lambda series, night: (
                quantity(night.median, series.unit) if night.n else NOTHING._replace(text="none")
            ),
        ),
        column(
            "range",
            lambda series, night: Cell(_range(night, series.unit) if night.n else "", kind="number"),
        ),
        column("samples", lambda _, night: count(night.n)),
        column("run", lambda _, night: Cell(night.run, href=report.link(night.file))),
        column("verdict", lambda _, night: _verdict(night.verdict)),
        column("what was not ok", lambda _, night: night.status),
        column("samples and raw files", lambda series, night: _raw(report, history, series, night)),
    ]


def _nights(report: Report, history: HistoryView, series: HistorySeries, most: int) -> Table:
    """The last nights of a series, each with its samples and their raw files."""
    places = _last(series, most)
    return Table.of(
        f"Nights: {series.name} {series.key.metric}",
        [(series, place) for place in places],
        _night_columns(report, history),
        folded=True,
        note=f"{places.start} earlier nights are in the history's files." if places.start else "",
        idents=tuple(map(series.anchor, places)),
    )


def _last_nights(report: Report, history: HistoryView, rest: Sequence[HistorySeries]) -> Table:
    """The last night of each series that no figure shows."""
    several = len(history.platforms) > 1
    columns: list[Column[Place]] = [
        Column("series", lambda place: _name(place[0], several)),
        Column("metric", lambda place: place[0].key.metric),
        *_night_columns(report, history),
    ]
    return Table.of(
        "The last night of the other series",
        [(series, series.last) for series in rest],
        columns,
        folded=True,
        filtered=True,
        idents=tuple(series.anchor(series.last) for series in rest),
    )


def _raw(report: Report, history: HistoryView, series: HistorySeries, night: NightValue) -> Cell:
    """The samples of a night with their raw files, its raw runs, or why there are none."""
    runs = history.raw_runs[night.file.parent]
    if records := history.records(series, night):
        samples = []
        for record in records[:_MOST_SAMPLES]:
            raw, again = runs.path(record), "measured again" if REMEASURED in record.params else ""
            samples.append(sample(record, report.link(raw) if raw else "", host_text(record.hosts), again))
        if len(records) > _MOST_SAMPLES:
            samples.append(Sample(f"and {len(records) - _MOST_SAMPLES} more"))
        return Cell("", samples=tuple(samples), kind="samples")
    if folder := runs.folder(night.run):
        return Cell("raw runs", href=report.link(folder))
    return Cell(runs.why_none(night.run), kind="faint")
