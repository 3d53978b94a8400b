"""Communication models: their parameters with intervals, how well they fit, and which to believe where."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from npc.figures.chart import Chart
from npc.page.blocks import Block, Cell, Table, Text, beside, chart_figure
from report.runs import Report, Run
from report.sections import Absent, left_out, runs_of
from roofline.cross_validation import BURST
from roofline.fit_plot import describe, error_text
from roofline.fit_table import (
    BELIEVE,
    NEAREST,
    believed_text,
    nearness_text,
    percent_text,
    quantity_texts,
)
from roofline.table import size_text

TITLE = "Communication models"
_SHOWS = "Measured times of one message over its size (marks), and Hockney's model T(m) = α + β·m (lines)."
_READING = (
    "a line through all marks of its piece means that a message costs a latency α and a time β for each "
    "byte. Where one "
    "line ends and the next begins the protocol switches. Marks off their line are sizes that the model "
    "does not explain."
)
#: Messages of the models that stand beside 1/β and say the same are not shown twice.
_SAME = ("β", "G", "g")
#: What an entry of ``fit.json`` has (docs/models.md).
_KEYS = frozenset(
    [
        "name",
        "model",
        "equation",
        "reference",
        "sweep",
        "kind",
        "parameters",
        "residual_rms",
        "held_out_median",
        "points",
        "note",
        "raw",
    ]
)


_ABSENT = "no sweep of at least five message sizes that a model could be fitted to (tag network or models)"


def build(report: Report) -> Iterator[Block]:
    """Run by run the fits, and the comparison of models on sizes that they were not shown."""
    documents = {run.number: _document(run) for run in runs_of(report)}
    if not any(document["fits"] for document in documents.values()):
        raise Absent(_ABSENT)
    yield Text(
        "A model turns a sweep into a few numbers with which times can be predicted (npc predict). Trust "
        "it where the "
        "error held out is small: each size was left out once and its time predicted from the others."
    )
    fitted = [run for run in report.runs if documents[run.number]["fits"]]
    yield from left_out(report, fitted, _ABSENT)
    yield from beside([list(_of_run(report, run, documents[run.number])) for run in fitted])


def _document(run: Run) -> Mapping[str, Any]:
    """The run's ``fit.json`` where it is newer than the records, else the same made from them now."""
    from roofline.fit_document import SCHEMA, to_document
    from roofline.fits import fit_records

    kept, records = run.folder / "fit.json", run.folder / "records.csv"
    try:
        if kept.stat().st_mtime >= records.stat().st_mtime:
            document = json.loads(kept.read_text(encoding="utf-8"))
            if document["schema"] == SCHEMA and all(fit.keys() >= _KEYS for fit in document["fits"]):
                return dict(document)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):  # none, or damaged
        pass
    return to_document(fit_records(run.records))


def _of_run(report: Report, run: Run, document: Mapping[str, Any]) -> Iterator[Block]:
    where = f": {run.label}" if len(report.runs) > 1 else ""
    drawn = [
        fit
        for fit in document["fits"]
        if fit.get("lines")
        and fit["kind"] == "half round trip"
        and any(
            each["best"] == fit["name"] and each["sweep"] == fit["sweep"] for each in document["comparisons"]
        )
    ]
    if drawn:
        yield chart_figure(_chart(report, run, drawn, where), _SHOWS, _READING, _errors(run, drawn))
    yield _parameters(run, document["fits"], where)
    for observable in dict.fromkeys(each.get("observable", "") for each in document["comparisons"]):
        compared = [each for each in document["comparisons"] if each.get("observable", "") == observable]
        yield _believe(compared, f": {observable}{where}" if observable else where)
    if document.get("collectives"):
        yield _collectives(document["collectives"], where)
    if document["skipped"]:
        rows = tuple((Cell(name), Cell(reason)) for name, reason in document["skipped"].items())
        yield Table(f"Not fitted{where}", ("sweep", "why"), rows, folded=True)


def _name(fit: Mapping[str, Any]) -> str:
    sweep = fit["sweep"]
    nodes = f"{sweep['nodes']} node{'s' if sweep['nodes'] > 1 else ''}"
    params = "".join(f", {name} {text}" for name, text in sweep["params"].items() if text)
    return f"{sweep['name']} ({nodes}{params})"


def _titled(fit: Mapping[str, Any]) -> str:
    return f"{fit['name']}: {_name(fit)}"


def _records(run: Run, fit: Mapping[str, Any], size: float | None = None) -> list[str]:
    """Ids of the series that a fit was made from; of one size, or of all."""
    sweep = fit["sweep"]
    hosts = tuple(sweep["hosts"])
    return [
        series.ident
        for series in run.series
        if series.first.benchmark == sweep["benchmark"]
        and (not sweep["case"] or series.first.case == sweep["case"])
        and series.first.hosts == hosts
        and series.first.size is not None
        and (size is None or series.first.size == size)
        and "statistic" not in series.first.params
        and any(record.raw in fit["raw"] for record in series.usable)
    ]


def _chart(report: Report, run: Run, fits: Sequence[Mapping[str, Any]], where: str) -> Chart:
    return describe(
        fits,
        _titled,
        report.ident(),
        f"Time of a message and Hockney's model{where}",
        f"{_SHOWS} {', '.join(map(_titled, fits))}. The table below has the parameters.",
        lambda fit, size: next(iter(_records(run, fit, size)), ""),
    )


def _errors(run: Run, fits: Sequence[Mapping[str, Any]]) -> Table:
    """The points of the picture: measured, residual, error held out."""
    rows = [
        (
            Cell(_titled(fit)),
            Cell(size_text(round(point["x"])) or "0", sort=point["x"], kind="number"),
            Cell(
                quantity_texts(point["time"], "s", None, None)[0],
                _records(run, fit, point["x"]),
                point["time"],
                kind="number",
            ),
            Cell(f"{100 * point['residual']:+.1f} %", sort=point["residual"], kind="number"),
            Cell(error_text(point["held_out"]), sort=point["held_out"] or 0.0, kind="number"),
        )
        for fit in fits
        for point in fit["points"]
    ]
    columns = ("model and sweep", "size", "measured", "residual", "error held out")
    return Table("Numbers: times and errors of the model", columns, tuple(rows), folded=True)


def _parameters(run: Run, fits: Sequence[Mapping[str, Any]], where: str) -> Table:
    rows = []
    for fit in fits:
        records = _records(run, fit)
        for parameter in fit["parameters"]:
            if parameter["name"] in _SAME and parameter["unit"] == "s/B" and fit["model"] != "BSP":
                continue
            value = math.nan if parameter["value"] is None else parameter["value"]
            text, interval = quantity_texts(value, parameter["unit"], parameter["low"], parameter["high"])
            unit = "messages" if fit["model"] == "LogfP" else ""
            rows.append(
                (
                    Cell(_titled(fit)),
                    Cell(parameter["name"]),
                    Cell(text, records[:1], parameter["value"] or 0.0, kind="number"),
                    Cell(interval, sort="", kind="number"),
                    Cell(_range(parameter["first"], parameter["last"], unit), sort=parameter["first"]),
                    Cell(parameter["meaning"]),
                    Cell(_share(fit["residual_rms"]), sort=fit["residual_rms"] or 0.0, kind="number"),
                    Cell(_share(fit["held_out_median"]), sort=fit["held_out_median"] or 0.0, kind="number"),
                )
            )
    notes = "; ".join(dict.fromkeys(f"{fit['model']}: {fit['note']}" for fit in fits if fit["note"]))
    sources = "; ".join(
        dict.fromkeys(f"{fit['model']}: {fit['equation']} ({fit['reference']})" for fit in fits)
    )
    return Table(
        f"Parameters with their 95 % intervals{where}",
        (
            "model and sweep",
            "parameter",
            "value",
            "95 % interval",
            "sizes",
            "meaning",
            "residuals (rms)",
            "error held out",
        ),
        tuple(rows),
        note=" ".join(filter(None, [notes and f"{notes}.", f"Models: {sources}."])),
    )


def _range(first: float | None, last: float | None, unit: str) -> str:
    if first is None or last is None:
        return ""
    if unit:
        return f"{first:.0f} … {last:.0f} {unit}"
    return f"{size_text(round(first)) or '0'} … {size_text(round(last)) or '0'}"


def _share(value: float | None) -> str:
    return "" if value is None else percent_text(value)


def _believe(comparisons: Sequence[Mapping[str, Any]], where: str) -> Table:
    models = list(dict.fromkeys(name for each in comparisons for name in each["errors"]))
    rows = []
    for each in comparisons:
        errors = [
            Cell(
                _share(each["errors"].get(name)),
                sort=each["errors"].get(name) if each["errors"].get(name) is not None else "",
                kind="number good" if name == each["best"] else "number",
            )
            for name in models
        ]
        unit = "messages" if each.get("observable") == BURST else ""
        sizes = Cell(_range(each["first"], each["last"], unit), sort=each["first"])
        rows.append((Cell(_name(each)), sizes, *errors, Cell(believed_text(each["best"], each["tied"]))))
    return Table(
        f"{BELIEVE}{where}",
        ("sweep", "sizes", *models, "believe"),
        tuple(rows),
    )


def _collectives(agreements: Sequence[Mapping[str, Any]], where: str) -> Table:
    rows = [
        (
            Cell(_name(each)),
            Cell(_range(each["first"], each["last"], ""), sort=each["first"]),
            Cell(algorithm["name"]),
            Cell(_share(algorithm["error"]), sort=algorithm["error"], kind="number"),
            Cell(f"{algorithm['ratio']:.3g}", sort=algorithm["ratio"], kind="number"),
            Cell(f"{algorithm['inside']} of {each['sizes']}", sort=algorithm["inside"], kind="number"),
            Cell(nearness_text(algorithm["name"], each["nearest"], each["tied"])),
        )
        for each in agreements
        for algorithm in each["algorithms"]
    ]
    return Table(
        f"{NEAREST}{where}",
        ("measured", "sizes", "algorithm", "error", "measured/predicted", "in interval", ""),
        tuple(rows),
        note="The nearest is probably what the MPI library uses at these sizes.",
    )
