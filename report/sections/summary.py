"""What came out, what is wrong, what to do: the first thing that is read, and often the only one."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Callable, Iterator, Mapping

from npc.page.blocks import Block, Cell, Column, Listing, Table, Text, percent, quantity, size_cell
from npc.places import shown
from npc.records.pair_verdicts import PairSuspect, PairsVerdict
from npc.records.units import between, plural
from npc.records.verdicts import JudgedSeries, NightDocument, Verdict
from npc.report.advice import advise
from npc.report.history import HistorySeries, HistoryView
from npc.report.runs import Report, Run
from npc.roofline.result import Estimate
from npc.roofline.table import interval_text, notes, samples, source_text
from npc.statistics.medians import MIN_SAMPLES
from npc.validity.disturbance import remark

TITLE = "Summary"
PLACE = 10
_VERDICTS = ("FAIL", "DEGRADED", "INVALID", "MISSING", "CHANGED", "WATCH", "PASS")
_TONES = {"PASS": "good", "WATCH": "note", "CHANGED": "note"}
#: Series that are named at most; the section of the history has all.
_MOST = 12


def build(report: Report) -> Iterator[Block]:
    """Verdicts, then what to do, then the machine's headline numbers, run by run."""
    for run in report.runs:
        yield from _verdict(run)
    if report.history:
        yield from _of_history(report.history)
    todo = [item for run in report.runs for item in _todo(run, report)]
    todo += _todo_of_history(report.history) if report.history else []
    if todo:
        yield Listing("What to do", tuple(todo), "note")
    elif report.runs:
        yield Text("Nothing to do: everything was measured and nothing looks wrong.", "good")
    table = _headline(report)
    if table:
        yield table
    remarks = list(dict.fromkeys(note for run in report.runs for note in _notes(run, len(report.runs) > 1)))
    if remarks:
        yield Listing("To know before believing these numbers", tuple(map(Cell, remarks)))


# --- verdicts ------------------------------------------------------------------------------------------


def _verdict(run: Run) -> Iterator[Block]:
    kinds = run.statuses
    with_guests = f" with {', '.join(shown(guest.folder) for guest in run.guests)}" if run.guests else ""
    words = [f"{number} {kind}" for kind, number in sorted(kinds.items()) if kind != "ok"]
    text = f"{run.label}{with_guests}: {run.usable} of {plural(len(run.records), 'record')} usable"
    text += f" ({', '.join(words)})." if words else "."
    bad = kinds["failed"] + kinds["timeout"] + kinds["invalid"]
    text += f" {remark(run.disturbed)}" if run.disturbed else ""
    yield Text(text, "bad" if not run.usable else "note" if bad or run.disturbed else "good")
    for _, entries in run.pair_verdicts:
        for entry in entries:
            yield from _pairs(run, entry)


def _pairs(run: Run, entry: PairsVerdict) -> Iterator[Block]:
    """What npb said about many pairs."""
    verdict, what = entry.verdict, f"{run.label}, {entry.series}"
    judged = f"{verdict.judged} of {plural(verdict.nodes, 'node')} judged"
    if verdict.suspects:
        named = tuple(
            Cell(f"{suspect.whom}: {_how_bad(suspect)} ({suspect.evidence})", href="#pairs")
            for suspect in verdict.suspects
        )
        yield Listing(f"{what}: to blame ({judged})", named, "bad")
    elif verdict.healthy:
        yield Text(f"{what}: nobody is to blame ({judged}).", "good")
    else:
        yield Text(f"{what}: too few measurements to blame anybody ({judged}).", "note")


def _how_bad(suspect: PairSuspect) -> str:
    if suspect.slowdown is None:
        return "dead"
    around = between(suspect.low, suspect.high, "{:.1%}".format, " [{}, {}]")
    return f"{suspect.slowdown:.1%} worse{around}"


def _of_history(history: HistoryView) -> Iterator[Block]:
    if not history.verdicts:
        yield Text(
            f"There is {history.words}; no verdict.json lies with it, so nothing in it is judged.", "note"
        )
    if history.unread:
        yield Listing("Verdicts that cannot be read", tuple(map(Cell, history.unread[:_MOST])), "note")
    for platform, document in history.verdicts.items():
        rows = document.series
        counts = Counter(row.verdict.name for row in rows)
        words = ", ".join(f"{counts[name]} {name}" for name in _VERDICTS if counts[name])
        night = document.verdict.name
        yield Text(
            f"{platform}, night {document.run}: {night} ({words or 'no series'}).",
            _TONES.get(night, "bad"),  # type: ignore[arg-type]
        )
        places = {id(series.judged): series for series in history.series if series.judged}
        if bad := [row for row in rows if row.verdict is not Verdict.PASS]:
            items = [_judged(row, places.get(id(row))) for row in bad[:_MOST]]
            more = f", {len(bad) - _MOST} more in its section" if len(bad) > _MOST else ""
            yield Listing(f"Not as usual{more}", tuple(items), "bad")
        if (matrix := document.pairs) and matrix.slow:
            slow = tuple(
                Cell(f"{suspect.whom}: {suspect.evidence} ({suspect.series})") for suspect in matrix.slow
            )
            yield Listing("Named by the pairs that were measured on suspicion", slow, "bad")
        elif matrix and matrix.problem:
            yield Text(f"The pairs measured on suspicion say nothing: {matrix.problem}.", "note")
        if document.notes:
            yield Listing("What else happened in that night", tuple(map(Cell, document.notes)), "note")
        if document.findings:
            yield _findings(document)
        if suspects := [suspect for suspect in document.suspects if suspect.named]:
            items = [
                Cell(f"{suspect.whom}, since {suspect.since}: {suspect.evidence}") for suspect in suspects
            ]
            yield Listing("To blame, by the nights together", tuple(items), "bad")


def _findings(night: NightDocument) -> Listing:
    """Who is unlike its fleet: those that are new by name, the others by number."""
    new = [finding for finding in night.findings if finding.new]
    items = [Cell(f"new: {finding}", href="#allocation") for finding in new[:_MOST]]
    if left := len(night.findings) - len(items):
        others = f"{left} more" if items else f"none new, {left} as before"
        items.append(Cell(f"{others}: in the table above the nodes", href="#allocation"))
    return Listing("Unlike their fleet since they are known, no fault that began", tuple(items), "note")


def _judged(row: JudgedSeries, series: HistorySeries | None) -> Cell:
    name = series.name if series else f"{row.benchmark} {row.case} {row.size or ''}"
    since = f", since {row.since}" if row.since else ""
    text = f"{row.verdict.name}: {name} {row.metric}: {row.reason}{since}"
    return Cell(text, href=f"#{series.ident}" if series else "#history")


# --- what to do ----------------------------------------------------------------------------------------


def _todo(run: Run, report: Report) -> Iterator[Cell]:
    """One line for each thing that should be done about a run."""
    where = shlex.quote(str(run.folder))
    if why := run.why_unusable:
        yield Cell(f"{run.label}: nothing could be judged, because {why}; mend that, and measure again")
    hints = [f"{run.label}: {rule.title}: {hint.do}" for rule, hint in advise(run).hints]
    yield from (Cell(hint, href="#advice") for hint in dict.fromkeys(hints))
    kinds = run.statuses
    if failed := kinds["failed"] + kinds["timeout"]:
        yield Cell(f"{run.label}: see why {plural(failed, 'record')} failed", href="#failures")
    if kinds["invalid"]:
        yield Cell(
            f"{run.label}: {plural(kinds['invalid'], 'number')} must not be believed: npc check {where} "
            "says by which rule and source",
            href="#failures",
        )
    if run.disturbed:
        yield Cell(
            f"{run.label}: what was disturbed should be measured again while nobody else uses the nodes: "
            f"npc check {where} says who it was",
            href="#failures",
        )
    if few := {ceiling.n for ceiling in run.roofline.ceilings if ceiling.n < MIN_SAMPLES}:
        yield Cell(
            f"{run.label}: {plural(min(few), 'sample')} give no 95 % interval: npc characterise --set "
            f"samples={MIN_SAMPLES} --set sweep_samples={MIN_SAMPLES}"
        )
    if run.problem:
        yield Cell(f"{run.label}: its nominal limits cannot be read: {run.problem}")
    elif run.roofline.ceilings and not any(ceiling.nominal for ceiling in run.roofline.ceilings):
        name = run.records[0].platform
        yield Cell(
            f"{run.label}: what the data sheet promises is not known; write it into "
            f"platforms/{name}/platform.toml, and shares of the nominal limits are shown"
        )


def _todo_of_history(history: HistoryView) -> list[Cell]:
    todo = []
    for document in history.verdicts.values():
        for suspect in document.suspects:
            if suspect.named and suspect.kind == "node":
                drain = f"scontrol update nodename={suspect.name} state=drain reason=npc"
                todo.append(Cell(f"take {suspect.name} out until it is mended: {drain}"))
    if history.problems:
        todo.append(Cell(f"{plural(history.problems, 'row')} of the history cannot be read"))
    return todo


# --- numbers -------------------------------------------------------------------------------------------


def _headline(report: Report) -> Table | None:
    """Ceilings and latencies, a row each, the runs beside each other."""
    by_name: dict[str, dict[int, Estimate]] = {}
    for run in report.runs:
        for estimate in (*run.roofline.ceilings, *run.roofline.latencies):
            by_name.setdefault(estimate.name, {})[run.number] = estimate
    if not by_name:
        return None
    columns: list[Column[str]] = [Column("what", lambda name: name)]
    for run in report.runs:
        estimates = {name: of_run[run.number] for name, of_run in by_name.items() if run.number in of_run}
        columns += _estimate_columns(report, run, estimates)
    if len(report.runs) == 1:
        only = {name: next(iter(of_run.values())) for name, of_run in by_name.items()}
        columns += [
            Column("size", lambda name: size_cell(only[name].size)),
            Column("test", lambda name: source_text(only[name])),
        ]
    return Table.of("Headline numbers", by_name, columns).filled()


def _estimate_columns(report: Report, run: Run, estimates: Mapping[str, Estimate]) -> list[Column[str]]:
    """What a run says of a headline number, by its name."""

    def column(title: str, get: Callable[[Estimate], Cell]) -> Column[str]:
        return Column(title, lambda name: get(estimates[name]) if name in estimates else Cell("", sort=""))

    return [
        column(
            f"{report.label(run, '{}: ')}median",
            lambda estimate: quantity(estimate.value, estimate.unit, run.records_of(estimate)),
        ),
        column("95 % interval", lambda estimate: Cell(interval_text(estimate), sort="", kind="number")),
        column("samples", samples),
        column("of nominal", lambda estimate: percent(getattr(estimate, "share", None))),
    ]


def _notes(run: Run, several: bool) -> Iterator[str]:
    for note in notes(run.roofline, disturbed=False):  # its first line has said that
        yield f"{run.label}: {note}" if several else note
