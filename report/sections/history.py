"""The nights: every series over time, with its usual value, its gate, and where another level began."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timezone
from pathlib import Path

from markupsafe import Markup

from npc.figures.chart import Chart, Mark, Trace, quantity_axis, time_axis
from npc.figures.svg import sparkline
from npc.page.blocks import Block, Cell, Figure, Listing, Sample, Table, Text, chart_figure, count
from npc.records.record import Record
from npc.records.series import REMEASURED, Series
from npc.records.units import format_quantity
from report.history import HistorySeries, HistoryView, NightValue
from report.runs import Report, better
from report.sections import Absent

TITLE = "Time series"
_RANK = {"FAIL": 0, "DEGRADED": 1, "INVALID": 2, "MISSING": 3, "CHANGED": 4, "WATCH": 5, "": 6, "PASS": 7}
#: So many series have a chart of their own; all have a small one in the table.
_MOST_CHARTS = 24
#: Rows of nights in the tables, all charts together.
_MOST_NIGHTS = 3000
#: Samples of a night that are shown, with their raw files.
_MOST_SAMPLES = 8
#: Nights whose range and values a chart marks one by one.
_MOST_MARKS = 400
#: The columns of a table of nights.
_NIGHT = ("night", "median", "range", "samples", "run", "verdict", "what was not ok", "samples and raw files")
#: Nights whose marks are drawn small.
_CROWDED = 120


def build(report: Report) -> Iterator[Block]:
    """The table of all series, and charts of those that are not as usual, then of the headline numbers."""
    history = report.history
    if history is None:
        raise Absent("no history was asked for (--history FOLDER; npc nightly keeps one)")
    yield Text(f"This is {history.words}. A night is a run; its value is the median of its usable samples.")
    order = sorted(history.series, key=_order)
    yield _table(order)
    several = [series for series in _by_test(order) if len(series.measured) > 1]
    shown = {series.ident: series for series in several[:_MOST_CHARTS]}
    most = max(7, _MOST_NIGHTS // max(len(shown), 1))
    for series in shown.values():
        yield _figure(report, history, series, most)
    if len(several) > len(shown):
        left = len(several) - len(shown)
        yield Text(f"{left} more series of several nights are in the tables only.")
    rest = [series for series in order if series.ident not in shown or series.last not in _last(series, most)]
    if rest:
        yield _last_nights(report, history, rest)
    yield from _rules(history)


def _rules(history: HistoryView) -> Iterator[Block]:
    """By what the nights are judged, in the words of their verdicts."""
    rules = dict.fromkeys(
        rule for document in history.verdicts.values() for rule in document.get("rule") or ()
    )
    if rules:
        yield Listing("The rule of the verdicts", tuple(Cell(str(rule)) for rule in rules))


def _order(series: HistorySeries) -> tuple[object, ...]:
    """What is not as usual first; then headline numbers before percentiles, large sizes before small ones."""
    key = series.key
    side = "statistic" in series.params
    neither = better(key.metric) == "neither"
    return (
        _RANK.get(series.verdict, 6), side, neither, key.platform, key.benchmark, key.case, -(key.size or 0)
    )  # fmt: skip


def _by_test(order: Sequence[HistorySeries]) -> list[HistorySeries]:
    """One size of each test before the second of any, after those that are not as usual."""
    places: Counter[Series] = Counter()
    ranks = {}
    for series in order:
        test = series.key._replace(size=None)
        ranks[series.ident] = (_RANK.get(series.verdict, 6), "statistic" in series.params, places[test])
        places[test] += 1
    return sorted(order, key=lambda series: ranks[series.ident])


def _day(time: float) -> str:
    return datetime.fromtimestamp(time, timezone.utc).strftime("%Y-%m-%d")


def _table(order: Sequence[HistorySeries]) -> Table:
    rows = []
    several = len({series.key.platform for series in order}) > 1
    for series in order:
        judged, nights = series.judged, series.measured
        last = nights[-1] if nights else None
        unit = series.unit
        usual, effect = judged.get("reference"), judged.get("effect")
        bad = series.verdict not in ("", "PASS", "WATCH")
        rows.append(
            (
                Cell(_name(series, several)),
                Cell(series.key.metric),
                Cell(series.verdict, sort=_RANK.get(series.verdict, 6), kind="bad" if bad else ""),
                Cell(
                    format_quantity(last.median, unit) if last else "none",
                    sort=last.median if last else "",
                    records=(series.anchor(series.last),),
                    kind="number",
                ),
                Cell(
                    "" if usual is None else format_quantity(usual, unit),
                    sort=usual if usual else "",
                    kind="number",
                ),
                Cell(
                    "" if effect is None else f"{100 * effect:+.1f} %",
                    sort=effect if effect is not None else "",
                    kind="number",
                ),
                Cell(str(judged.get("since") or "")),
                count(len(nights)),
                Cell("", picture=_spark(series)),
                Cell(str(judged.get("reason") or "")),
            )
        )
    return Table(
        "All series, those not as usual first",
        (
            "series",
            "metric",
            "verdict",
            "last night",
            "usual",
            "change",
            "since",
            "nights",
            "course",
            "reason",
        ),
        tuple(rows),
        filtered=True,
        idents=tuple(series.ident for series in order),
    )


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


def _figure(report: Report, history: HistoryView, series: HistorySeries, most: int) -> Figure:
    unit, nights, judged = series.unit, series.measured, series.judged
    title = f"{_name(series, len(history.platforms) > 1)}: {series.key.metric}" + (
        f", {series.verdict}" if series.verdict else ""
    )
    levels = [judged.get(name) for name in ("reference", "limit", "floor")]
    values = [value for night in nights for value in (night.low, night.high)]
    x = time_axis("Night (UTC)", [night.time for night in series.nights])
    y = quantity_axis(
        f"{series.key.metric.capitalize()} [{unit}]", [*values, *(v for v in levels if v)], unit, log=False
    )
    marked = nights if len(nights) <= _MOST_MARKS else nights[-_MOST_MARKS:]
    anchors = {series.nights[place].run: series.anchor(place) for place in _last(series, most)}
    band = [(night.time, night.low) for night in nights] + [
        (night.time, night.high) for night in reversed(nights)
    ]
    traces = [
        Trace(
            "median of the night",
            "blue",
            lines=(tuple((night.time, night.median) for night in nights),),
            bands=(tuple(band),),
            marks=tuple(_mark(night, unit, anchors) for night in marked),
            small=len(nights) > _CROWDED,
        )
    ]
    judged_bad = [night for night in nights if night.verdict]
    if judged_bad:
        marks = tuple(_mark(night, unit, anchors) for night in judged_bad)
        traces.append(Trace("nights that were not as usual", "bad", marks=marks, shape=0, hollow=True))
    lost = [night for night in series.nights if not night.n]
    if lost:
        marks = tuple(
            Mark(
                n.time,
                y.low,
                f"{_day(n.time)}, {n.run}\n{n.status or 'no usable number'}",
                anchors.get(n.run, ""),
            )
            for n in lost
        )
        traces.append(Trace("nights without a usable number", "bad", marks=marks, shape=4, hollow=True))
    for name, words, colour, dashes in (
        ("reference", "usual value", "ink", (1.5, 2.5)),
        ("limit", "gate: measured again beyond", "orange", (7.0, 3.0)),
        ("floor", "hard floor", "vermillion", (12.0, 2.0)),
    ):
        level = judged.get(name)
        if name == "limit" and level == judged.get("reference"):
            continue  # after a low night everything below the usual value is measured again
        if level is not None and math.isfinite(level):
            label = f"{words}: {format_quantity(level, unit)}"
            traces.append(Trace(label, colour, lines=(((x.low, level), (x.high, level)),), dashes=dashes))
    since = _moment(series, str(judged.get("since") or ""))
    if since is not None:
        traces.append(
            Trace(
                f"another level since {judged['since']}, {judged.get('direction') or 'changed'}",
                "purple",
                lines=(((since, y.low), (since, y.high)),),
                dashes=(4.0, 3.0),
            )
        )
    shows = f"{series.name} in {len(nights)} nights of {series.key.platform}."
    if judged.get("reason"):
        shows += f" The last one: {judged['reason']}."
    chart = Chart(
        report.ident(),
        title,
        f"{shows} The table below has the last nights.",
        x,
        y,
        tuple(traces),
        height=300,
    )
    return chart_figure(chart, shows, _reading(traces), _nights(report, history, series, most))


def _reading(traces: Sequence[Trace]) -> str:
    """What the lines mean that this chart has."""
    words = ["a mark is the median of a night, the shade the range of its samples"]
    names = " ".join(trace.name for trace in traces)
    if "usual" in names:
        words.append("dotted is the usual value")
    if "gate" in names:
        words.append(
            "dashed the gate beyond which a night is measured again; DEGRADED is what two or three nights "
            "say together (docs/acceptance.md)"
        )
    if "floor" in names:
        words.append("the long dashes are the hard floor, beyond which one night is a failure")
    if "another" in names:
        words.append("the vertical line is where the present level began")
    if "not as usual" in names:
        words.append("red circles are nights whose verdict was not PASS")
    if "without" in names:
        words.append("crosses at the foot are nights without a usable number")
    return "; ".join(words) + "."


def _moment(series: HistorySeries, since: str) -> float | None:
    """When the night called `since` (its run, or its time) began; None if there is none."""
    for night in series.nights:
        if since and (night.run == since or _day(night.time) == since[:10]):
            return night.time
    return None


def _mark(night: NightValue, unit: str, anchors: Mapping[str, str]) -> Mark:
    return Mark(night.time, night.median, _tip(night, unit), anchors.get(night.run, ""))


def _tip(night: NightValue, unit: str) -> str:
    around = f"{format_quantity(night.low, unit)} – {format_quantity(night.high, unit)}, n = {night.n}"
    said = "".join(f"\n{text}" for text in (night.verdict, night.status) if text)
    return f"{_day(night.time)}, {night.run}\n{format_quantity(night.median, unit)}\n{around}{said}"


# --- the records of nights -----------------------------------------------------------------------------


def _last(series: HistorySeries, most: int) -> range:
    """The places of the last nights of a series."""
    return range(max(0, len(series.nights) - most), len(series.nights))


def _nights(report: Report, history: HistoryView, series: HistorySeries, most: int) -> Table:
    """The last nights of a series, each with its samples and their raw files."""
    places = _last(series, most)
    return Table(
        f"Nights: {series.name} {series.key.metric}",
        _NIGHT,
        tuple(_night(report, history, series, place) for place in places),
        folded=True,
        note=f"{places.start} earlier nights are in the history's files." if places.start else "",
        idents=tuple(map(series.anchor, places)),
    )


def _last_nights(report: Report, history: HistoryView, rest: Sequence[HistorySeries]) -> Table:
    """The last night of each series that no figure shows."""
    several = len(history.platforms) > 1
    return Table(
        "The last night of the other series",
        ("series", "metric", *_NIGHT),
        tuple(
            (
                Cell(_name(series, several)),
                Cell(series.key.metric),
                *_night(report, history, series, series.last),
            )
            for series in rest
        ),
        folded=True,
        filtered=True,
        idents=tuple(series.anchor(series.last) for series in rest),
    )


def _night(report: Report, history: HistoryView, series: HistorySeries, place: int) -> tuple[Cell, ...]:
    """What the files have of a series in a night."""
    night, unit = series.nights[place], series.unit
    value = format_quantity(night.median, unit) if night.n else "none"
    around = f"{format_quantity(night.low, unit)} – {format_quantity(night.high, unit)}" if night.n else ""
    return (
        Cell(_day(night.time), sort=night.time),
        Cell(value, sort=night.median if night.n else "", kind="number"),
        Cell(around, kind="number"),
        count(night.n),
        Cell(night.run, href=report.link(night.file)),
        Cell(night.verdict, kind="bad" if night.verdict not in ("", "PASS", "WATCH") else ""),
        Cell(night.status),
        _raw(report, history, series, night),
    )


def _raw(report: Report, history: HistoryView, series: HistorySeries, night: NightValue) -> Cell:
    """The samples of a night with their raw files, its raw runs, or why there are none."""
    runs = history.raw_runs[night.file.parent]
    if records := history.records(series, night):
        samples = [_sample(report, record, runs.path(record)) for record in records[:_MOST_SAMPLES]]
        if len(records) > _MOST_SAMPLES:
            samples.append(Sample(f"and {len(records) - _MOST_SAMPLES} more"))
        return Cell("", samples=tuple(samples), kind="samples")
    if folder := runs.folder(night.run):
        return Cell("raw runs", href=report.link(folder))
    return Cell(runs.why_none(night.run), kind="faint")


def _sample(report: Report, record: Record, raw: Path | None) -> Sample:
    """A sample, with a link to its raw file if that is still there."""
    if record.value is None:
        text = record.status.partition(":")[0]
    else:
        text = format_quantity(record.value, record.unit, 3)
    said = (
        ", ".join(record.hosts),
        "measured again" if REMEASURED in record.params else "",
        "" if record.ok else record.status,
    )
    return Sample(text, report.link(raw) if raw else "", "; ".join(filter(None, said)), not record.ok)
