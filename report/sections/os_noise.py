"""OS noise: what every core of a node loses, and what that costs a collective of many ranks."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from statistics import median
from typing import Final, NamedTuple

from npc import catalogue
from npc.hostlist import host_text
from npc.page.blocks import Block, Cell, Column, Table, count, number, percent, quantity
from npc.records.series import CORE
from npc.report.repeats import Repeats
from npc.report.runs import Report, Run
from npc.report.sections import of_runs, present

TITLE = "OS noise"
PLACE = 70
_ABSENT = "what the operating system takes was not measured (tag noise)"
#: Cores of a node in its table.
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
    allreduces = _allreduces(run)
    for hosts, repeats in sorted(run.by_hosts("noise").items()):
        where = ", ".join([run.label] * (len(report.runs) > 1) + [host_text(hosts)])
        yield from _cores(repeats, where)
        yield from _collective(repeats, allreduces, where)


def _median(series: Repeats | None) -> float | None:
    return series.median if series else None


class _CoreNoise(NamedTuple):
    """What was measured of one core, or of all cores together."""

    #: The core, as its records name it; empty for all cores of the node together.
    core: str
    #: (case, metric) → what was measured.
    measured: Mapping[tuple[str, str], Repeats]

    @property
    def lost(self) -> float | None:
        """The share of time that detours take; None where they were not measured."""
        return self.median("detour", "noise")

    @property
    def order(self) -> tuple[bool, float]:
        """The cores that lose most are first; all cores together are last."""
        return not self.core, -(self.lost or 0.0)

    def median(self, case: str, metric: str) -> float | None:
        """A series' median in SI units; None where it was not measured."""
        return _median(self.measured.get((case, metric)))

    @property
    def params(self) -> list[Mapping[str, str]]:
        """Those of the records of detours: how often they come, and what ran meanwhile."""
        detours = self.measured.get(("detour", "noise"))
        return [record.params for record in detours.usable] if detours else []

    @property
    def period(self) -> float | None:
        """Seconds from detour to detour, where more than half of the records have a period."""
        periods = [float(params["period"]) for params in self.params if "period" in params]
        return median(periods) if len(periods) > len(self.params) / 2 else None

    @property
    def ran(self) -> str:
        """What ran on the core beside the measurement."""
        return "; ".join(dict.fromkeys(params["ran"] for params in self.params if "ran" in params))


_CORE_COLUMNS: Final[Sequence[Column[_CoreNoise]]] = (
    Column(
        "core",
        lambda noise: Cell(
            f"core {noise.core}" if noise.core else "all cores",
            [series.ident for series in noise.measured.values()],
        ),
    ),
    Column("lost to detours", lambda noise: percent(noise.lost)),
    Column("longest", lambda noise: quantity(noise.median("detour", "detour"), "s")),
    Column("a second", lambda noise: number(noise.median("detour", "detour_rate"), ".4g")),
    Column("period", lambda noise: quantity(noise.period, "s")),
    Column("lost of fixed work", lambda noise: percent(noise.median("fwq", "noise"))),
    Column("what ran there", lambda noise: noise.ran),
)


def _cores(repeats: Sequence[Repeats], where: str) -> Iterator[Table]:
    """The cores that lose most, and the node."""
    by_core: defaultdict[str, dict[tuple[str, str], Repeats]] = defaultdict(dict)
    for series in repeats:
        if series.first.case != "collective":
            by_core[series.first.params.get(CORE, "")][series.first.case, series.first.metric] = series
    ordered = sorted((_CoreNoise(*entry) for entry in by_core.items()), key=lambda noise: noise.order)
    cores, node = [noise for noise in ordered if noise.core], [noise for noise in ordered if not noise.core]
    left = len(cores[_MOST_CORES:])
    note = f"The {_MOST_CORES} cores that lose most; {left} more are in the records." if left else ""
    if ordered:
        yield Table.of(f"Noise of {where}", [*cores[:_MOST_CORES], *node], _CORE_COLUMNS, note=note)


def _allreduces(run: Run) -> dict[str, Repeats]:
    """Ranks → the all-reduce of the smallest size."""
    smallest: dict[str, Repeats] = {}
    for series in run.series:
        row, ranks = catalogue.row_of(series.first), series.params.get("ranks", "")
        if row.operation == "allreduce" and series.usable and ranks and "statistic" not in series.params:
            other = smallest.get(ranks)
            if other is None or (series.first.size or 0) < (other.first.size or 0):
                smallest[ranks] = series
    return smallest


def _collective(repeats: Sequence[Repeats], allreduces: Mapping[str, Repeats], where: str) -> Iterator[Table]:
    """What noise costs by the number of ranks, beside the all-reduce of as many."""

    def ranks(series: Repeats) -> str:
        return series.first.params["ranks"]

    def measured(series: Repeats) -> Cell:
        allreduce = allreduces.get(ranks(series))
        return quantity(_median(allreduce), "s", [allreduce.ident] if allreduce else ())

    costs = [series for series in repeats if series.first.case == "collective"]
    columns: list[Column[Repeats]] = [
        Column("ranks", lambda series: count(int(ranks(series)))),
        Column("longer by", lambda series: percent(_median(series))._replace(records=[series.ident])),
        Column("all-reduce measured", measured),
    ]
    if costs:
        costs.sort(key=lambda series: int(ranks(series)))
        yield Table.of(f"What noise costs a collective: {where}", costs, columns, note=_COST)
