"""What a night's judgement says: a verdict for each series and one for the night.

`npc.records.verdicts` has the types that its file and readers share.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from npc.records.series import Series
from npc.records.verdicts import (
    CommonEvent,
    Coverage,
    Direction,
    JudgedSeries,
    NightDocument,
    NightSuspect,
    PairMatrix,
    PostponedBenchmark,
    Verdict,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SeriesVerdict:
    """One series in one night.

    value, again: tonight's medians, measured first and again, None where there is none. reference: the usual
    value, and noise: its relative standard deviation; None with too few nights (`nights` of them). limit: the
    value at which tonight alone would be suspicious. floor: the hard limit that applies. effect: relative
    change of the evidence against the reference, negative is less. score: a standard normal.
    chance: the probability of such a score in a quiet series. direction: of the change. since: the night that
    it began in. hit: whether tonight is low enough to be measured again. disturbed: the share of the CPUs
    that others took beside all that counts tonight. disturbed_on: groups of hosts that are measured again for
    that. reason: in words.
    """

    key: Series
    verdict: Verdict
    reason: str = ""
    value: float | None = None
    again: float | None = None
    reference: float | None = None
    noise: float | None = None
    nights: int = 0
    limit: float | None = None
    floor: float | None = None
    effect: float | None = None
    score: float | None = None
    chance: float | None = None
    direction: Direction = ""
    since: str = ""
    hit: bool = False
    disturbed: float = 0.0
    disturbed_on: tuple[tuple[str, ...], ...] = ()
    hosts: tuple[str, ...] = ()

    def entry(self) -> JudgedSeries:
        """What ``verdict.json`` says of it."""
        facts = {name: getattr(self, name) for name in JudgedSeries.__struct_fields__ if hasattr(self, name)}
        return JudgedSeries(**facts, **self.key._asdict())


@dataclass(frozen=True, slots=True, kw_only=True)
class NightVerdict:
    """The judgement of one night.

    run: the night; time: when it began. verdict: the worst of the series'. series: each once, the worst
    first. suspects: whom to look at. failures: by benchmark, what went wrong, in words. rule: the
    thresholds. lost: nodes that died or fell silent while they were measured, and what was seen of it.
    postponed: benchmarks that the budget did not reach. coverage: of nights that measure every node. common:
    what is the same in most series; they are PASS where nothing else is the matter with them.
    """

    platform: str
    run: str
    time: str
    verdict: Verdict
    series: tuple[SeriesVerdict, ...]
    suspects: tuple[NightSuspect, ...] = ()
    failures: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    rule: tuple[str, ...] = ()
    lost: Mapping[str, str] = field(default_factory=dict)
    postponed: tuple[PostponedBenchmark, ...] = ()
    coverage: Coverage | None = None
    common: CommonEvent | None = None

    @property
    def exit_code(self) -> int:
        """By the worst verdict: 0, 10 CHANGED, 11 MISSING, 12 INVALID, 13 DEGRADED, 14 FAIL."""
        return self.verdict.exit_code

    @property
    def counts(self) -> dict[str, int]:
        """How many series each verdict has, by its name, the mildest first."""
        return {verdict.name: sum(each.verdict is verdict for each in self.series) for verdict in Verdict}

    def document(self, notes: Sequence[str] = (), pairs: PairMatrix | None = None) -> NightDocument:
        """What ``verdict.json`` says of it. notes: what happened besides. pairs: that of the suspects."""
        same = {name: getattr(self, name) for name in NightDocument.__struct_fields__ if hasattr(self, name)}
        series = tuple(each.entry() for each in self.series)
        return NightDocument(**{**same, "series": series, "notes": tuple(notes), "pairs": pairs})
