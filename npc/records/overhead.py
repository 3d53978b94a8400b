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
    """What watching took by pairs of runs, one with it and one without: the ratio of their run times, minus
    1."""

    #: Of all pairs.
    median: float
    #: Lower end of the median's nonparametric interval; None with too few pairs.
    low: float | None
    #: Upper end of the median's nonparametric interval; None with too few pairs.
    high: float | None
    #: Probability (of 1) with which such an interval holds the median; None with too few pairs.
    coverage: float | None
    #: How many pairs of runs.
    pairs: int
    #: Run times in s of each pair: (without, with).
    seconds: tuple[tuple[float, float], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Overhead:
    """What watching took, as a share of the run time (0.01: 1 %)."""

    #: By what was watched: its events times what one costs on this machine, of the rank that paid most.
    estimated: Mapping[str, float] = field(default_factory=dict)
    #: What was allowed; None where there was no limit.
    budget: float | None = None
    #: What pairs of runs say; None where none were made.
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
