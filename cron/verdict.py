"""What a night's judgement says, as plain data: a verdict for each series and one for the night."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from enum import Enum
from typing import Any, Final, Literal

from npc.records.series import Series
from npc.records.units import several
from npc.statistics.suspect import Suspect

SCHEMA: Final = 1
#: Nodes that a line for people names.
NAMED: Final = 10

#: "worse" or "better" by the metric's own direction; "other" where neither is; "" for no change.
Direction = Literal["worse", "better", "other", ""]


class Verdict(Enum):
    """The verdicts, the mildest first; the value is the exit code of a night with nothing worse.

    PASS: as always, or nothing to compare with yet. WATCH: worse tonight, in the re-measurement too if
    there was one, but one night decides nothing. CHANGED: another level than before, by 2 % or more, either
    direction, and nobody has accepted it. MISSING: measured before, not tonight. INVALID: a lie detector
    caught the numbers, or it were DEGRADED or FAIL, but others used the CPUs. DEGRADED: worse in at least two
    of three nights. FAIL: below the hard floor, or lastingly below the accepted baseline.
    """

    PASS = 0
    WATCH = 0.5
    CHANGED = 10
    MISSING = 11
    INVALID = 12
    DEGRADED = 13
    FAIL = 14

    @property
    def exit_code(self) -> int:
        """What a night with this verdict exits with; WATCH wakes nobody."""
        return int(self.value)

    def __lt__(self, other: Verdict) -> bool:
        return bool(self.value < other.value)


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Common:
    """What is the same in most series of a night, and hence one event.

    effect: relative change of the median series, negative is worse. score: a standard normal. worse, series:
    how many of how many are worse than usual by half of it. since: the night that it began in. disturbed: how
    many of the series were measured while others used the CPUs.
    """

    verdict: Verdict
    effect: float
    score: float
    worse: int
    series: int
    since: str = ""
    disturbed: int = 0

    def __str__(self) -> str:
        since = f" since {self.since}" if self.since else ""
        others = f", others used the CPUs beside {self.disturbed} of them" if self.disturbed else ""
        return (
            f"everything: {self.verdict.name}, {self.worse} of {self.series} series are worse together, "
            f"by {-self.effect:.1%} at the median{since}, score {self.score:.1f}{others}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class NightSuspect(Suspect):
    """Whom the history accuses, the strongest evidence first.

    benchmarks: what it is slow in. since: the first night of the evidence. grave: slower, and the chance is
    small. named: whether to act on it: seen often enough, without rivals, or confirmed. rivals: what the
    measurements cannot tell from it. runs: the nights of the evidence.
    """

    score: float
    benchmarks: tuple[str, ...]
    since: str
    named: bool
    grave: bool = False
    rivals: tuple[str, ...] = ()
    runs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Unmeasured:
    """A node that the last nights did not measure. last: the last night that did, empty for never."""

    node: str
    last: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Coverage:
    """Which nodes of the partition were measured in the last `within` nights. nodes: how many there are."""

    within: int
    nodes: int
    unmeasured: tuple[Unmeasured, ...] = ()

    @property
    def measured(self) -> int:
        """How many of them were measured."""
        return self.nodes - len(self.unmeasured)

    def lines(self) -> list[str]:
        """For people: how many, and those that were not, by reason."""
        nights = f"{self.within} nights" if self.within > 1 else "night"
        told = f"{self.measured} of {self.nodes} nodes measured in the last {nights}"
        reasons: dict[str, list[str]] = {}
        for each in self.unmeasured:
            last = "" if each.last else ", never measured"
            reasons.setdefault(f"{each.why}{last}", []).append(each.node)
        return [told, *(f"not measured: {several(nodes, NAMED)}: {why}" for why, nodes in reasons.items())]


@dataclass(frozen=True, slots=True, kw_only=True)
class Postponed:
    """A benchmark that the night's budget did not reach. since: the last night that measured it, empty for
    never. suspect: whether something was bad about it."""

    benchmark: str
    since: str
    suspect: bool = False


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
    postponed: tuple[Postponed, ...] = ()
    coverage: Coverage | None = None
    common: Common | None = None

    @property
    def exit_code(self) -> int:
        """By the worst verdict: 0, 10 CHANGED, 11 MISSING, 12 INVALID, 13 DEGRADED, 14 FAIL."""
        return self.verdict.exit_code

    @property
    def counts(self) -> dict[str, int]:
        """How many series each verdict has, by its name, the mildest first."""
        return {verdict.name: sum(each.verdict is verdict for each in self.series) for verdict in Verdict}

    def as_json(self) -> dict[str, Any]:
        """Everything as plain types for `json.dump`; docs/files.md explains it."""
        plain = asdict(self)
        plain["verdict"] = self.verdict.name
        plain["exit_code"] = self.exit_code
        for row, each in zip(plain["series"], self.series, strict=True):
            row["verdict"] = each.verdict.name
            row.update(each.key._asdict())
            del row["key"]
        if self.common:
            plain["common"]["verdict"] = self.common.verdict.name
        return {"schema": SCHEMA, **plain, "counts": self.counts}
