"""Which series a night should have measured and did not.

Not every night measures everything: applications take turns, a budget or a rotation reaches some benchmarks,
somebody starts a night with other words. So a series is missed only by a night that could have measured it,
and only where `MOST` of the last `NIGHTS` such nights did.

A night could have measured the series of a benchmark that it planned (`npc.records.journal.NightPlan`), or of
which it has any record, of a failure too. Where no plan is known, as of a history from elsewhere, it is
expected to have planned what most nights have lately.

"Lately" ends before the last night that has the series. So one that goes away is missed until it comes back
or somebody accepts that it is gone, and does not fade out of the nights that decide. A series that fails in a
night has a record of it: nothing has to be decided then.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from npc.cron.series import Panel
from npc.records.journal import NightPlan
from npc.statistics.arrays import Booleans

#: How many of the last nights decide what is usual: with fewer, two that take turns look regular by chance.
NIGHTS: Final = 10
#: The share of them that has to have it.
MOST: Final = 3 / 4
_UNKNOWN: Final = NightPlan()


class _Regularity:
    """How regularly each of N things was there in the nights in which it could have been, from the first in
    which it was."""

    def __init__(self, number: int) -> None:
        #: By thing, whether `MOST` of the nights before the last one that has it had it, too.
        self.usual: Booleans = np.zeros(number, dtype=bool)
        #: By thing, whether only one night has it so far, so that nothing is known.
        self.new: Booleans = np.zeros(number, dtype=bool)
        #: N × NIGHTS: whether it was there in the nights that count, the newest first.
        self._there = np.zeros((number, NIGHTS), dtype=bool)
        #: How many nights count since the first one that has it.
        self._nights = np.zeros(number, dtype=np.intp)

    def add(self, could: Booleans, there: Booleans) -> None:
        """Take in a night: by thing whether it could have been there, and whether it was."""
        known = np.minimum(self._nights, NIGHTS)
        usual = (known > 0) & (self._there.sum(axis=1) >= MOST * known)
        self.usual = np.where(there, usual, self.usual)
        self.new = np.where(there, known == 0, self.new)
        counts = there | (could & (known > 0))
        self._there[counts, 1:] = self._there[counts, :-1]
        self._there[counts, 0] = there[counts]
        self._nights += counts


class MissedSeries:
    """Goes through the S series of a panel night by night."""

    def __init__(self, panel: Panel) -> None:
        self._panel = panel
        self._names = sorted({key.benchmark for key in panel.keys})
        number = {name: i for i, name in enumerate(self._names)}
        #: By series, the number of its benchmark.
        self._benchmark = np.array([number[key.benchmark] for key in panel.keys], dtype=np.intp)
        #: S × T: whether the night has any record of the series.
        self._there = ~(np.isnan(panel.value) & np.isnan(panel.again))
        for s, t in panel.measured:
            if t < len(panel.runs):  # the panel may end before (`Panel.until`)
                self._there[s, t] = True
        self._series = _Regularity(len(panel.keys))
        self._benchmarks = _Regularity(len(self._names))

    def night(self, t: int) -> Booleans:
        """By series, whether night `t` misses it. To be called with every night, the oldest first."""
        run, there = self._panel.runs[t], self._there[:, t]
        records = self._any_of_benchmark(there)
        records |= np.isin(self._names, [*self._panel.broken.get(run, ())])
        plan = self._panel.plans.get(run, _UNKNOWN)
        plans = [plan.has(name) for name in self._names]
        planned = np.array([has is True for has in plans], dtype=bool)
        unknown = np.array([has is None for has in plans], dtype=bool)
        self._benchmarks.add(planned | unknown, records)
        could = (records | planned | (unknown & self._benchmarks.usual))[self._benchmark]
        self._series.add(could, there)
        # What was there only once is missed where its benchmark gives nothing at all.
        nothing = ~self._any_of_benchmark(~np.isnan(self._panel.value[:, t]))[self._benchmark]
        missed: Booleans = could & ~there & (self._series.usual | (self._series.new & nothing))
        return missed

    def _any_of_benchmark(self, series: Booleans) -> Booleans:
        """By benchmark, whether any of its series is among these."""
        any_of: Booleans = np.bincount(self._benchmark[series], minlength=len(self._names)) > 0
        return any_of
