"""What watching a program took of its run time: the key `overhead` of ``*.observed.json``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from npc.records.units import format_quantity

#: The key of an observation.
OVERHEAD: Final = "overhead"


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredOverhead:
    """What watching took by pairs of runs with and without it: the ratio of their run times, minus 1."""

    #: Over the pairs.
    median: float
    #: The ends of the median's nonparametric interval; None of too few pairs, as is `coverage`.
    low: float | None
    high: float | None
    #: The part of all cases in which such an interval holds the median.
    coverage: float | None
    pairs: int
    #: Run times in seconds of each pair: (without, with).
    seconds: tuple[tuple[float, float], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Overhead:
    """What watching took, as a share of the run time (0.01: 1 %)."""

    #: By what was watched: its events times what one costs on this machine, of the rank that paid most.
    estimated: Mapping[str, float] = field(default_factory=dict)
    #: What was allowed; None where there was no limit.
    budget: float | None = None
    #: None where it was not checked by pairs of runs.
    measured: MeasuredOverhead | None = None

    @property
    def words(self) -> str:
        """The estimate; empty without one."""
        if not self.estimated:
            return ""
        parts = ", ".join(f"{name} {percent(share)}" for name, share in self.estimated.items())
        whole = percent(sum(self.estimated.values()))
        whole = whole if whole.startswith("less") else f"about {whole}"
        limit = "" if self.budget is None else f"; probes may take {percent(self.budget)} (--overhead)"
        return f"watching took {whole} of the run time, as estimated ({parts}){limit}"


def percent(share: float) -> str:
    """``0.031 %``."""
    if abs(share) < 5e-6:
        return "less than 0.001 %"
    return f"{format_quantity(100 * share, '1', 2)} %"
