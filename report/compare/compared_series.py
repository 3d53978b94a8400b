"""One series on two sides: its medians, their ratio, and what is said of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from npc.records.units import METRICS

Change = Literal["better", "worse", "different", "same", "not comparable"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedSide:
    """A series on one side, in SI units."""

    #: Size of the message or working set in bytes; None where it has none.
    size: int | None
    #: Median of the launches that were not disturbed; where there is none, of the disturbed ones.
    median: float
    #: How many launches were used.
    launches: int
    #: How many runs these launches are of.
    runs: int
    #: Files of the records.
    raw: tuple[str, ...]
    #: How many launches were left out, because others used the CPUs meanwhile.
    disturbed: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedSeries:
    """A series on two sides, A and B; None stands for what is not known."""

    #: The benchmark and its case; of different tools, what they measure.
    test: str
    #: What was measured: a key of `npc.records.units.METRICS`.
    metric: str
    #: Unit of the medians.
    unit: str
    #: Size in bytes; None where the sides do not have the same one, or none.
    size: int | None
    #: How many nodes take part; 0 where the sides may differ in that.
    nodes: int
    #: Settings and qualifiers that both sides share: name → value.
    params: dict[str, str]
    #: What B is, as seen from A.
    verdict: Change
    #: What A measured; None where A has no such series, or several.
    a: ComparedSide | None = None
    #: What B measured; None where B has no such series, or several.
    b: ComparedSide | None = None
    #: B's median over A's; None where they were not compared, or a value is zero.
    ratio: float | None = None
    #: Lower end of the 95 % interval of `ratio`; None where it has none.
    low: float | None = None
    #: Upper end of the 95 % interval of `ratio`; None where it has none.
    high: float | None = None
    #: p-value (0 to 1) of no difference, two-sided; None where they were not compared.
    p: float | None = None
    #: `p` after Benjamini and Hochberg, for there are many series; None where it was not tested.
    adjusted: float | None = None
    #: Standard deviation between the machine's runs, as a share; in `low`, `high`, `p`. None if not known.
    run_to_run: float | None = None
    #: Why it is not comparable, or neither better nor worse; empty where there is nothing to say.
    reason: str = ""
    #: What ``--ignore`` has to name so that it may be compared; empty where that does not help.
    ignore: tuple[str, ...] = ()
    #: Circumstances in which the sides differ: name → (A's, B's).
    circumstances: dict[str, tuple[str, str]] = field(default_factory=dict)


def direction(series: ComparedSeries) -> Change:
    """Whether what B shows is better or worse, chance or not; ``different`` where it is neither."""
    assert series.a is not None and series.b is not None
    better = METRICS[series.metric].better
    if better == "neither":
        return "different"
    more = series.ratio > 1 if series.ratio is not None else series.b.median > series.a.median
    return "better" if more == (better == "higher") else "worse"
