"""The roofline in words: how a median and its interval are written, and its tables, for terminal and page."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from npc.columns import columns
from npc.figures.source import day_text
from npc.hostlist import host_text
from npc.page.blocks import Cell, Column, Table, count, percent, quantity, size_cell
from npc.records.series import test_name
from npc.records.units import PREFIXES, between, format_quantity, format_size, plural
from npc.roofline.applications import Application
from npc.roofline.mpi import verdict as mpi_verdict
from npc.roofline.points import verdict
from npc.roofline.result import ROOFS, Ceiling, Estimate, MpiCeiling, Ridge, Roofline
from npc.statistics.medians import MIN_SAMPLES, Summary
from npc.validity.disturbance import remark

_DIGITS: Final = 3
#: The ids of the records in a page that a number comes from.
Records = Callable[[Estimate | Application], Sequence[str]]


def value_text(estimate: Estimate) -> str:
    """``27.2 GB/s``."""
    return format_quantity(estimate.value, estimate.unit, _DIGITS)


def interval_text(estimate: Estimate) -> str:
    """``[26.9, 27.4]`` in the prefix of `value_text`; ``n = 3`` where there are too few samples for one."""
    interval = quantity_texts(estimate.value, estimate.unit, estimate.low, estimate.high, _DIGITS)[1]
    return interval or f"n = {estimate.n}"


def summary_text(summary: Summary, unit: str) -> str:
    """``10 GFLOP/s [9.1, 10.4]``, in one prefix; ``n = 3`` where there is no interval."""
    value, interval = quantity_texts(summary.median, unit, summary.low, summary.high, _DIGITS)
    return f"{value} {interval}" if interval else f"{value}, n = {summary.n}"


def quantity_texts(
    value: float, unit: str, low: float | None = None, high: float | None = None, digits: int = 4
) -> tuple[str, str]:
    """A number and its interval in the same prefix: ``27.22 µs``, ``[26.9, 27.4]``. FLOP/byte have no
    prefix."""
    if not math.isfinite(value):
        return "–", ""
    factor = 1.0
    if unit == "s/B":
        factor = 1e-9
        text = f"{_number(value / factor, digits)} ns/B"
    elif unit == "FLOP/byte":
        text = f"{_number(value, digits)} {unit}"
    elif unit == "B":
        text = format_size(value)
    else:
        text = format_quantity(value, unit, digits)
        factor = PREFIXES[text.split(" ")[1].removesuffix(unit)] if " " in text and unit != "1" else 1.0
    if low is None or high is None:
        return text, ""
    if unit == "B":
        return text, f"({format_size(low)}, {format_size(high)}]"
    ends = [_number(end / factor, digits) if math.isfinite(end) else "∞" for end in (low, high)]
    return text, f"[{', '.join(ends)}]"


def intensity_text(intensity: float) -> str:
    """A number of FLOP/byte without its unit."""
    return _number(intensity)


def date_text(roofline: Roofline) -> str:
    """The day of the measurements (UTC), or the first and the last."""
    return day_text(roofline.first, roofline.last)


def mpi_table(roofline: Roofline) -> Table:
    """Operations a second: a row for each size, a column for each kind of operation."""
    columns: list[Column[int]] = [Column("size", size_cell), *map(_rates, roofline.mpi)]
    sizes = sorted({rate.size for ceiling in roofline.mpi for rate in ceiling.rates})
    return Table.of("Numbers: MPI operations a second", sizes, columns, folded=True)


def _rates(ceiling: MpiCeiling) -> Column[int]:
    rates = {rate.size: rate.rate for rate in ceiling.rates}
    return Column(ceiling.name, lambda size: quantity(rates.get(size), "1/s"))


def notes(roofline: Roofline, disturbed: bool = True) -> list[str]:
    """What to know before believing the numbers, one sentence each. disturbed: whether to count disturbed
    records."""
    sentences = [f"{ceiling.name}: {ceiling.note}." for ceiling in _with_latency(roofline) if ceiling.note]
    few = [ceiling.name for ceiling in roofline.ceilings if ceiling.n < MIN_SAMPLES]
    if few:
        sentences.append(f"Fewer than {MIN_SAMPLES} samples give no 95 % interval: {', '.join(few)}.")
    network = roofline.of_kind("network")
    if network and all(ceiling.nodes == 1 for ceiling in network):
        sentences.append(
            "Both ends of every network test were on one node: loopback or shared memory, no link."
        )
    peaks = {ceiling.precision for ceiling in roofline.of_kind("compute") if ceiling.name.startswith("peak ")}
    kinds = {
        "compute (a peak)": peaks >= {application.precision for application in roofline.applications},
        "memory": bool(roofline.of_kind("memory")),
        "network": any(c.nodes > 1 for c in network) or all(a.nodes == 1 for a in roofline.applications),
    }
    lacking = [kind for kind, measured in kinds.items() if not measured]
    if roofline.applications and lacking:
        sentences.append(
            f"Ceilings that were not measured here: {', '.join(lacking)}. An earlier run of this platform "
            "that has them can be given as well: npc roofline EARLIER_RUN RUN."
        )
    if disturbed and roofline.disturbed:
        sentences.append(remark(roofline.disturbed))
    if roofline.dropped:
        words = {"zero": "below the tool's resolution (printed as 0)"}
        dropped = sorted(roofline.dropped.items())
        reasons = ", ".join(f"{count} {words.get(reason, reason)}" for reason, count in dropped)
        sentences.append(f"Records not used: {reasons}.")
    return sentences


def format_roofline(roofline: Roofline) -> str:
    """The tables of ceilings, ridge points, latencies and applications, and the notes, for a terminal."""
    parts = [f"{roofline.title}: {host_text(roofline.hosts)}, {date_text(roofline)}"]
    ridges = (roofline.ridges_under(peak) for peak in ROOFS)
    tables = (
        ceilings_table(roofline),
        *map(_ridges, filter(None, ridges)),
        latencies_table(roofline),
        applications_table(roofline),
    )
    parts += ["\n".join(columns(table.texts(), keep_empty=False)) for table in tables if table.rows]
    parts += [verdict(application, roofline) for application in roofline.applications]
    parts += [mpi_verdict(caller, roofline.mpi) for caller in roofline.callers]
    if sentences := notes(roofline):
        parts.append("\n".join(sentences))
    return "\n\n".join(parts)


def ceilings_table(roofline: Roofline, records: Records = lambda _: ()) -> Table:
    """The ceilings as measured, and the theoretical peaks of the platform."""
    columns: list[Column[Ceiling]] = [
        *_estimate_columns("ceiling", records),
        Column("of nominal", lambda ceiling: percent(ceiling.share)),
        Column("a joule", per_joule),
    ]
    table = Table.of("Ceilings", _with_latency(roofline), columns, folded=True)
    theoretical = (_theoretical(table.columns, *peak) for peak in roofline.theoretical.items())
    return replace(table, rows=(*table.rows, *theoretical))


def _theoretical(columns: Sequence[str], name: str, peak: float) -> tuple[Cell, ...]:
    """The row of a theoretical peak in FLOP/s, which nobody has measured."""
    cells = {
        "ceiling": Cell(f"theoretical peak {name}"),
        "median": Cell(format_quantity(peak, "FLOP/s", _DIGITS), sort=peak, kind="number"),
        "source": Cell("platform.toml"),
    }
    return tuple(cells.get(column, Cell("")) for column in columns)


def ridges_table(roofline: Roofline, records: Records = lambda _: ()) -> Table:
    """Where bandwidths meet peaks."""
    ceilings = {ceiling.name: ceiling for ceiling in roofline.ceilings}

    def at(ridge: Ridge) -> Cell:
        both = [record for name in (ridge.compute, ridge.bandwidth) for record in records(ceilings[name])]
        return Cell(f"{_place(ridge)[0]} FLOP/byte", both, ridge.intensity, kind="number")

    columns: list[Column[Ridge]] = [
        Column("ridge point of", lambda ridge: ridge.compute),
        Column("with", lambda ridge: ridge.bandwidth),
        Column("at", at),
        Column("interval", lambda ridge: Cell(_place(ridge)[1], kind="number")),
    ]
    return Table.of("Ridge points", roofline.ridges, columns, folded=True)


def _place(ridge: Ridge) -> tuple[str, str]:
    """Its intensity without its unit, and the interval, empty if there is none."""
    return intensity_text(ridge.intensity), between(ridge.low, ridge.high, intensity_text, "[{}, {}]")


def _ridges(ridges: Sequence[Ridge]) -> Table:
    """The same for a terminal: a row for each bandwidth, a column for each peak."""
    met = {(ridge.compute, ridge.bandwidth): ridge for ridge in ridges}

    def under(peak: str) -> Column[str]:
        def place(bandwidth: str) -> str:
            ridge = met.get((peak, bandwidth))
            return "" if ridge is None else " ".join(_place(ridge)).strip()

        return Column(peak, place)

    peaks = dict.fromkeys(ridge.compute for ridge in ridges)
    columns: list[Column[str]] = [
        Column("FLOP/byte of ridge points", lambda bandwidth: bandwidth),
        *map(under, peaks),
    ]
    return Table.of("", dict.fromkeys(ridge.bandwidth for ridge in ridges), columns)


def latencies_table(roofline: Roofline, records: Records = lambda _: ()) -> Table:
    """Messages at the smallest size of each test, and loads of each memory level."""
    columns = _estimate_columns("latency", records)
    return Table.of("Latencies", roofline.latencies, columns, folded=True)


def applications_table(roofline: Roofline, records: Records = lambda _: ()) -> Table:
    """The rate of each application, its share of the theoretical peak, and its FLOP per byte."""

    def of_peak(application: Application) -> Cell:
        peak = roofline.theoretical_peak(application.precision)
        return percent(None if peak is None else application.flops.median / peak.value, 4)

    def rate(application: Application) -> Cell:
        return Cell(_rate(application), records(application), application.flops.median, kind="number")

    columns: list[Column[Application]] = [
        Column("application", lambda application: application.label),
        Column("nodes", lambda application: count(application.nodes)),
        Column("ranks", lambda application: count(application.ranks) if application.ranks else ""),
        Column("FLOP/s", rate),
        Column("of peak", of_peak),
        Column("on the network", lambda application: _intensity(_median(application.intensity))),
        Column("of memory", lambda application: _intensity(application.memory_intensity)),
        Column("of storage", lambda application: _intensity(_median(application.io_intensity))),
        Column("inside MPI", lambda application: percent(application.inside, 4)),
        Column("nights", lambda application: count(len(application.nights))),
        Column("runs", lambda application: count(len(application.runs))),
    ]
    return Table.of("Applications", roofline.applications, columns)


def _median(summary: Summary | None) -> float | None:
    return summary.median if summary else None


def _intensity(intensity: float | None) -> Cell:
    """FLOP per byte; empty where it is not known."""
    text = "" if intensity is None else f"{intensity_text(intensity)} FLOP/byte"
    return Cell(text, sort=intensity or "", kind="number")


def _with_latency(roofline: Roofline) -> list[Ceiling]:
    """The ceilings; behind those of memory what its latency allows."""
    latency = [roofline.dependent] if roofline.dependent else []
    behind = roofline.of_kind("network", "io", "GPU compute", "GPU bandwidth")
    return [*roofline.of_kind("compute", "memory"), *latency, *behind]


def per_joule(ceiling: Ceiling) -> Cell:
    """What a joule of the launches yields: ``1.2 GFLOP`` (the same as GFLOP/s a watt), ``350 MB``."""
    if ceiling.per_watt is None:
        return Cell("")
    text = format_quantity(ceiling.per_watt, ceiling.unit.removesuffix("/s"), _DIGITS)
    return Cell(text, sort=ceiling.per_watt, kind="number")


def samples(estimate: Estimate) -> Cell:
    """How many samples there are, and how many of them were disturbed."""
    disturbed = f", {estimate.disturbed} disturbed" if estimate.disturbed else ""
    return Cell(f"{estimate.n}{disturbed}", sort=float(estimate.n), kind="number")


def source_text(estimate: Estimate) -> str:
    """The benchmark and its case."""
    return test_name(estimate.benchmark, estimate.case)


def share_text(ceiling: Ceiling) -> str:
    """``83 %`` of the nominal limit, or nothing."""
    return "" if ceiling.share is None else f"{100 * ceiling.share:.3g} %"


def _estimate_columns(name: str, records: Records) -> list[Column[Estimate]]:
    """The columns that describe a median. name: what the column of names is called."""
    return [
        Column(name, lambda estimate: estimate.name),
        Column(
            "median",
            lambda estimate: Cell(value_text(estimate), records(estimate), estimate.value, kind="number"),
        ),
        Column("95 % interval", lambda estimate: Cell(interval_text(estimate), kind="number")),
        Column("n", samples),
        Column("size", lambda estimate: size_cell(estimate.size)),
        Column("source", source_text),
    ]


def application_text(application: Application) -> str:
    """``HPCG, 2 nodes  4.11 GFLOP/s a node``."""
    return f"{application.label}, {plural(application.nodes, 'node')}  {_rate(application)}"


def _rate(application: Application) -> str:
    rate = format_quantity(application.flops.median, "FLOP/s", _DIGITS)
    return rate if application.whole_job or application.nodes == 1 else f"{rate} a node"


def _number(value: float, digits: int = _DIGITS) -> str:
    text = f"{value:.{digits}g}"
    return f"{value:.0f}" if "e+" in text else text
