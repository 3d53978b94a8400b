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
    NodeFinding,
    PairMatrix,
    PostponedBenchmark,
    Verdict,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SeriesVerdict:
    """One series in one night; values are in its metric's SI unit."""

    #: Which series it is.
    key: Series
    #: How it was judged.
    verdict: Verdict
    #: Why, in words; empty where nothing is to be said.
    reason: str = ""
    #: Tonight's median, measured first; None where there is none.
    value: float | None = None
    #: The same, measured again; None where it was not.
    again: float | None = None
    #: The usual value; None with too few nights.
    reference: float | None = None
    #: Relative standard deviation of a night; None with too few nights.
    noise: float | None = None
    #: How many nights the usual value is from.
    nights: int = 0
    #: The value at which tonight alone would be suspicious; None if not known.
    limit: float | None = None
    #: The hard limit that is broken; None where none is.
    floor: float | None = None
    #: Relative change against the reference (-0.05: 5 % less); None if not known.
    effect: float | None = None
    #: Standard normal score of the change; None if not known.
    score: float | None = None
    #: Probability of such a score in a quiet series; None if not known.
    chance: float | None = None
    #: Of the change; empty where there is none.
    direction: Direction = ""
    #: The night that the change began in; empty if not known.
    since: str = ""
    #: Whether tonight is low enough to be measured again.
    hit: bool = False
    #: Share of the CPUs that others took during all that counts tonight.
    disturbed: float = 0.0
    #: Groups of hosts that are measured again because of others.
    disturbed_on: tuple[tuple[str, ...], ...] = ()
    #: Where it was measured tonight.
    hosts: tuple[str, ...] = ()

    def entry(self) -> JudgedSeries:
        """What ``verdict.json`` says of it."""
        same = {name: getattr(self, name) for name in JudgedSeries.__struct_fields__ if hasattr(self, name)}
        return JudgedSeries(**same, **self.key._asdict())


@dataclass(frozen=True, slots=True, kw_only=True)
class NightVerdict:
    """The judgement of one night."""

    #: Name of the cluster, as NPC knows it.
    platform: str
    #: Name of the night.
    run: str
    #: When it began, ISO 8601.
    time: str
    #: The worst of its series, MISSING at least where a node was lost.
    verdict: Verdict
    #: Every series once, the worst first.
    series: tuple[SeriesVerdict, ...]
    #: Whom to look at.
    suspects: tuple[NightSuspect, ...] = ()
    #: Who is unlike its fleet since it is known.
    findings: tuple[NodeFinding, ...] = ()
    #: By benchmark what went wrong, in words.
    failures: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    #: The thresholds, in words.
    rule: tuple[str, ...] = ()
    #: By node that died or fell silent while it was measured, what was noticed of that.
    lost: Mapping[str, str] = field(default_factory=dict)
    #: Benchmarks that the budget did not reach.
    postponed: tuple[PostponedBenchmark, ...] = ()
    #: Of nights that measure every node; None of others.
    coverage: Coverage | None = None
    #: The common mode: what is the same in most series; these are PASS where nothing else is wrong with them.
    #: None where they have nothing in common.
    common: CommonEvent | None = None

    @property
    def exit_code(self) -> int:
        """By the worst verdict: 0, 10 CHANGED, 11 MISSING, 12 INVALID, 13 DEGRADED, 14 FAIL."""
        return self.verdict.exit_code

    @property
    def counts(self) -> dict[str, int]:
        """How many series each verdict has, by its name, the mildest first."""
        return {verdict.name: sum(series.verdict is verdict for series in self.series) for verdict in Verdict}

    def document(self, notes: Sequence[str] = (), pairs: PairMatrix | None = None) -> NightDocument:
        """What ``verdict.json`` says of it. notes: what happened besides. pairs: that of the suspects."""
        same = {name: getattr(self, name) for name in NightDocument.__struct_fields__ if hasattr(self, name)}
        series = tuple(verdict.entry() for verdict in self.series)
        return NightDocument(**{**same, "series": series, "notes": tuple(notes), "pairs": pairs})
