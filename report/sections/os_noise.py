"""OS noise: what every core of a node loses, and what that costs a collective of many ranks."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from statistics import median
from typing import Final

from npc import catalogue
from npc.page.blocks import Block, Cell, Table, count, number, percent, quantity
from npc.records.series import CORE
from npc.report.runs import Repeats, Report, Run
from npc.report.sections import of_runs, present

TITLE = "OS noise"
PLACE = 70
_ABSENT = "what the operating system takes was not measured (tag noise)"
#: Of a node's cores those that lose most.
_MOST_CORES: Final = 16
_COST: Final = (
    "How much longer a step of one quantum takes that ends with a collective, by the largest of as many "
    "delays as there are ranks, drawn independently of each other: an upper bound where they come everywhere "
    "at once. Beside it what the run measured of an all-reduce of as many ranks, at its smallest size, which "
    "has its own noise."
)


def build(report: Report) -> Iterator[Block]:
    """Run by run, and node by node."""
    return present(of_runs(report, _of_run), _ABSENT)


def _of_run(report: Report, run: Run) -> Iterator[Block]:
    measured = _allreduce(run)
    for hosts, found in sorted(run.by_hosts("noise").items()):
        names = [run.label] * (len(report.runs) > 1) + list(hosts)
        yield from _cores(found, ", ".join(names))
        yield from _collective(found, measured, ", ".join(names))


def _median(series: Repeats | None) -> float | None:
    return series.median if series else None


def _cores(found: Sequence[Repeats], where: str) -> Iterator[Table]:
    """The cores that lose most, and the node."""
    by_core: defaultdict[str, dict[tuple[str, str], Repeats]] = defaultdict(dict)
    for series in found:
        if series.first.case != "collective":
            by_core[series.first.params.get(CORE, "")][series.first.case, series.first.metric] = series
    rows = []
    for core, of in by_core.items():
        first = of.get(("detour", "noise"))
        seen = [record.params for record in first.usable] if first else []
        periods = [float(params["period"]) for params in seen if "period" in params]
        ran = dict.fromkeys(params["ran"] for params in seen if "ran" in params)
        lost = _median(first)
        rows.append((
            -(lost or 0.0) if core else 1.0,
            (
                Cell(f"core {core}" if core else "all cores", [each.ident for each in of.values()]),
                percent(lost), quantity(_median(of.get(("detour", "detour"))), "s"),
                number(_median(of.get(("detour", "detour_rate"))), ".4g"),
                quantity(median(periods) if len(periods) > len(seen) / 2 else None, "s"),
                percent(_median(of.get(("fwq", "noise")))), Cell("; ".join(ran)),
            ),
        ))  # fmt: skip
    rows.sort(key=lambda row: row[0])
    kept = [row for row in rows if row[0] <= 0][:_MOST_CORES] + [row for row in rows if row[0] > 0]
    left = len(rows) - len(kept)
    columns = (
        "core",
        "lost to detours",
        "longest",
        "a second",
        "period",
        "lost of fixed work",
        "what ran there",
    )
    if kept:
        yield Table(
            f"Noise of {where}", columns, tuple(cells for _, cells in kept),
            note=f"The {_MOST_CORES} cores that lose most; {left} more are in the records." if left else "",
        )  # fmt: skip


def _allreduce(run: Run) -> dict[str, Repeats]:
    """Ranks → the all-reduce of the smallest size."""
    found: dict[str, Repeats] = {}
    for series in run.series:
        row, ranks = catalogue.row_of(series.first), series.params.get("ranks", "")
        if row.operation == "allreduce" and series.usable and ranks and "statistic" not in series.params:
            other = found.get(ranks)
            if other is None or (series.first.size or 0) < (other.first.size or 0):
                found[ranks] = series
    return found


def _collective(found: Sequence[Repeats], measured: dict[str, Repeats], where: str) -> Iterator[Table]:
    rows = []
    for series in found:
        if series.first.case == "collective":
            ranks = series.first.params["ranks"]
            beside = measured.get(ranks)
            rows.append((
                count(int(ranks)), percent(_median(series))._replace(records=[series.ident]),
                quantity(_median(beside), "s", [beside.ident] if beside else ()),
            ))  # fmt: skip
    if rows:
        rows.sort(key=lambda row: float(row[0].sort or 0))
        columns = ("ranks", "longer by", "all-reduce measured")
        yield Table(f"What noise costs a collective: {where}", columns, tuple(rows), note=_COST)
