"""One series on two sides: its medians, their ratio, and what is said of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from npc.records.units import METRICS

Change = Literal["better", "worse", "different", "same", "not comparable"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedSide:
    """A series on one side, in SI units."""

    #: Of the message or working set, in bytes.
    size: int | None
    #: Of the launches that were not disturbed; where there is none, of the disturbed ones.
    median: float
    #: That were used.
    launches: int
    runs: int
    #: Files of the records.
    raw: tuple[str, ...]
    #: Launches that were left out, because others used the CPUs meanwhile.
    disturbed: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedSeries:
    """A series on two sides, A and B; None stands for what is not known."""

    test: str
    metric: str
    #: Of the medians.
    unit: str
    #: In bytes; None where the sides do not have the same one, or none.
    size: int | None
    nodes: int
    params: dict[str, str]
    #: Of B, as seen from A.
    verdict: Change
    a: ComparedSide | None = None
    b: ComparedSide | None = None
    #: B's median over A's, with its 95 % interval.
    ratio: float | None = None
    low: float | None = None
    high: float | None = None
    #: Of no difference, two-sided.
    p: float | None = None
    #: The same after Benjamini and Hochberg.
    adjusted: float | None = None
    #: The standard deviation between runs of the machine that is in them, as a share.
    run_to_run: float | None = None
    #: Why it is not comparable, or neither better nor worse.
    reason: str = ""
    #: What ``--ignore`` has to name so that it may be compared.
    ignore: tuple[str, ...] = ()
    #: Those in which the sides differ: name → (A's, B's).
    circumstances: dict[str, tuple[str, str]] = field(default_factory=dict)


def direction(series: ComparedSeries) -> Change:
    """Whether what B shows is better or worse, chance or not; ``different`` where it is neither."""
    assert series.a is not None and series.b is not None
    better = METRICS[series.metric].better
    if better == "neither":
        return "different"
    more = series.ratio > 1 if series.ratio is not None else series.b.median > series.a.median
    return "better" if more == (better == "higher") else "worse"
