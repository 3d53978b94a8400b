"""How a series has behaved over its nights: level, spread, share of the peak, and whether it varies in time.

Two rank tests, which assume no distribution: Kruskal and Wallis (J. Am. Stat. Assoc. 47, 1952) asks whether
nights differ by more than the samples of one night do, Mann (Econometrica 13, 1945) and Kendall whether the
nightly medians have a trend. As in section 5.4 of Bartelheimer, Zhu, Neuwirth (2023), where performance was
looked at over the number of the measurement.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from statistics import fmean, median, stdev
from typing import Any, Final

import numpy as np

from npc.records.history import HistoryRow
from npc.records.history_columns import HistoryColumns
from npc.records.nights import counting
from npc.records.series import Series
from npc.statistics.groups import stable_order
from npc.statistics.medians import Summary, summarise

#: A series is time-variant where one of the tests rejects "always the same" with a smaller chance.
SIGNIFICANT: Final = 0.01
#: Nights that a test needs.
MIN_NIGHTS: Final = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Variation:
    """One series over its nights; values are in its metric's SI unit."""

    #: Which series it is.
    key: Series
    #: Name of the first night.
    first: str
    #: Name of the last night.
    last: str
    #: How many samples there are.
    samples: int
    #: Of the nightly medians.
    summary: Summary
    #: Mean of all samples, as the paper gives it (its table 5 and section 5.4.2).
    mean: float
    #: Standard deviation of all samples, as in the paper; None with a single sample.
    deviation: float | None
    #: Kruskal and Wallis' chance; None unless there are two samples a night.
    between: float | None
    #: Mann and Kendall's chance; None with too few nights.
    trend: float | None
    #: Kendall's τ, positive for growing values; None with too few nights.
    tau: float | None

    @property
    def time_variant(self) -> bool | None:
        """Whether it varies in time; None where neither test can be made."""
        chances = [chance for chance in (self.between, self.trend) if chance is not None]
        # Two tests, hence half for each (Bonferroni).
        return min(chances) < SIGNIFICANT / len(chances) if chances else None

    def as_json(self) -> dict[str, Any]:
        """Plain types for `json.dump`."""
        plain = asdict(self)
        plain.update(self.key._asdict(), summary=self.summary._asdict(), time_variant=self.time_variant)
        del plain["key"]
        return plain


def variations(points: Iterable[HistoryRow], say: Callable[[str], None] = lambda _: None) -> list[Variation]:
    """Every series with a usable value, in the order of the points. Of each night its first measurement, as
    `npc.records.nights` has it: the second was made because the first was low. say: is told which series is
    looked at."""
    rows, varied = HistoryColumns.of(points), []
    place = {run: number for number, run in enumerate(rows.begun())}
    order = np.array([place.get(run, -1) for run in rows.runs], dtype=np.int64)
    several = len(np.unique(rows.series))
    for number, (key, of_series) in enumerate(rows.by_series(), 1):
        say(f"series {number} of {several}")
        count = of_series.take(counting(of_series)[0])
        if len(count):
            count = count.take(stable_order(order[count.run]))
            begins = np.unique(order[count.run], return_index=True)[1]
            values = (part.tolist() for part in np.split(count.value, begins[1:]))
            names = (count.runs[number] for number in count.run[begins].tolist())
            varied.append(_variation(key, dict(zip(names, values, strict=True))))
    return varied


def _variation(key: Series, nights: dict[str, list[float]]) -> Variation:
    medians = [median(values) for values in nights.values()]
    every = [value for values in nights.values() for value in values]
    trend, tau = _trend(medians)
    runs = list(nights)
    return Variation(
        key=key,
        first=runs[0],
        last=runs[-1],
        samples=len(every),
        summary=summarise(medians),
        mean=fmean(every),
        deviation=stdev(every) if len(every) > 1 else None,
        between=_between([values for values in nights.values() if len(values) > 1]),
        trend=trend,
        tau=tau,
    )


def _between(nights: Sequence[Sequence[float]]) -> float | None:
    if len(nights) < MIN_NIGHTS or len({value for values in nights for value in values}) < 2:
        return None
    from scipy.stats import kruskal

    return float(kruskal(*nights).pvalue)


def _trend(medians: Sequence[float]) -> tuple[float | None, float | None]:
    if len(medians) < MIN_NIGHTS or len(set(medians)) < 2:
        return None, None
    from scipy.stats import kendalltau

    test = kendalltau(range(len(medians)), medians)
    return float(test.pvalue), float(test.statistic)
