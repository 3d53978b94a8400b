"""What a night said, in the folder of its platform's history: ``verdict.json`` of the last night, and
``verdicts/NIGHT.json`` of every night.

Here are the types, the one writer and the one reader. docs/files.md has the table of all keys, and
``verdict.schema.json`` beside this module is its JSON schema; both are made of these types
(``python -m tests.schemas``). Values are in the SI unit of their metric. A key that a newer version adds is
passed over, one that is missing or has another type is refused.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta

from npc.files import parse_json, read_bytes, valid, write_whole
from npc.hostlist import host_text
from npc.records.series import Series
from npc.statistics.suspect import Role, Suspect, whom

SCHEMA: Final = 1
#: Of the last night.
VERDICT: Final = "verdict.json"
#: Of every night, below the folder of a history.
VERDICTS: Final = "verdicts"
#: Nights that somebody has to be named for before that alone degrades a night.
LASTING: Final = 2

#: "worse" or "better" by the metric's own direction; "other" where neither is; "" for no change.
Direction = Literal["worse", "better", "other", ""]


class Verdict(Enum):
    """The verdicts, the mildest first.

    PASS: as usual, or nothing to compare with yet. WATCH: worse tonight, also when it was measured again; one
    night decides nothing. CHANGED: better or worse than before by 2 % or more, and nobody has accepted that.
    MISSING: measured before, but not tonight. INVALID: a rule of validity caught the numbers, or they would
    be DEGRADED or FAIL, but others used the CPUs. DEGRADED: worse in at least two of three nights. FAIL:
    worse than the hard limit, or lastingly worse than the accepted baseline.
    """

    PASS = "PASS"
    WATCH = "WATCH"
    CHANGED = "CHANGED"
    MISSING = "MISSING"
    INVALID = "INVALID"
    DEGRADED = "DEGRADED"
    FAIL = "FAIL"

    @property
    def gravity(self) -> float:
        """How bad it is: 0 for PASS, 0.5 for WATCH, 10 and more for what somebody has to look at."""
        return _GRAVITY[self.name]

    @property
    def exit_code(self) -> int:
        """Exit code of a night whose worst verdict this is; of WATCH it is 0."""
        return int(self.gravity)

    def __lt__(self, other: Verdict) -> bool:
        return self.gravity < other.gravity


_GRAVITY: Final[Mapping[str, float]] = {
    "PASS": 0, "WATCH": 0.5, "CHANGED": 10, "MISSING": 11, "INVALID": 12, "DEGRADED": 13, "FAIL": 14,
}  # fmt: skip


class CommonEvent(msgspec.Struct, frozen=True, kw_only=True):
    """What is the same in most series of a night: one event, not one for each series."""

    verdict: Annotated[Verdict, Meta(description="how bad the event is")]
    effect: Annotated[float, Meta(description="relative change of the median series; negative is worse")]
    score: Annotated[float, Meta(description="standard normal score of the change")]
    worse: Annotated[
        int, Meta(description="how many series are worse than usual by more than half of `effect`")
    ]
    series: Annotated[int, Meta(description="how many series were compared")]
    since: Annotated[str, Meta(description="the night in which it began; empty if not known")] = ""
    disturbed: Annotated[
        int, Meta(description="how many of the series were measured while others used the CPUs")
    ] = 0

    def __str__(self) -> str:
        since = f" since {self.since}" if self.since else ""
        others = f", others used the CPUs beside {self.disturbed} of them" if self.disturbed else ""
        return (
            f"everything: {self.verdict.name}, {self.worse} of {self.series} series are worse together, "
            f"by {-self.effect:.1%} at the median{since}, score {self.score:.1f}{others}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class NightSuspect(Suspect):
    """Whom the history accuses."""

    score: Annotated[float, Meta(description="standard normal score of the evidence")]
    benchmarks: Annotated[tuple[str, ...], Meta(description="the benchmarks in which it is slow")]
    since: Annotated[str, Meta(description="the first night of the evidence")]
    named: Annotated[
        bool, Meta(description="whether to act on it: seen often enough and without rivals, or confirmed")
    ]
    grave: Annotated[
        bool, Meta(description="whether evidence and slowness are enough to ask a matrix of pairs about it")
    ] = False
    rivals: Annotated[
        tuple[str, ...], Meta(description="other suspects that explain the measurements as well")
    ] = ()
    runs: Annotated[tuple[str, ...], Meta(description="the nights of the evidence")] = ()
    device: Annotated[
        str, Meta(description="the one device of the node that is to blame; empty for none")
    ] = ""

    @property
    def whom(self) -> str:
        """Kind, name, device and role in words."""
        return whom(self.kind, f"{self.name} {self.device}".strip(), self.role)

    @property
    def verdict(self) -> Verdict:
        """What it makes of a night that seems healthy, for one bad node among hundreds moves no series'
        median: DEGRADED where it is named for two nights or more, WATCH for one, PASS where it is not."""
        lasting = Verdict.DEGRADED if len(self.runs) >= LASTING else Verdict.WATCH
        return lasting if self.named else Verdict.PASS


class NodeFinding(msgspec.Struct, frozen=True, kw_only=True):
    """A node that is slower than its fleet since it is known: no fault that began, and no verdict."""

    node: Annotated[str, Meta(description="its name")]
    device: Annotated[str, Meta(description="the one device of it that is so; empty for the node itself")] = (
        ""
    )
    case: Annotated[str, Meta(description="the benchmark's case in which it is furthest from the others")]
    slowdown: Annotated[
        float, Meta(description="by how much it is below the middle of its fleet (0.05: 5 %)")
    ]
    spread: Annotated[
        float, Meta(description="by how much nodes of this fleet differ: their standard deviation")
    ]
    rank: Annotated[int, Meta(description="its place among them, 1 for the slowest")]
    members: Annotated[int, Meta(description="how many there are")]
    since: Annotated[str, Meta(description="the night in which it was told first")]
    new: Annotated[bool, Meta(description="whether that was this night")] = False

    @property
    def nodes(self) -> tuple[str, ...]:
        """The node, as a suspect has it."""
        return (self.node,)

    @property
    def name(self) -> str:
        """The node, and its device where it is one."""
        return f"{self.node} {self.device}".strip()

    def __str__(self) -> str:
        return (
            f"{self.name} is {self.slowdown:.1%} slower than its fleet since it is known, no change: number "
            f"{self.rank} of {self.members} from below, which differ by {self.spread:.1%} ({self.case})"
        )


class UnmeasuredNode(msgspec.Struct, frozen=True, kw_only=True):
    """A node that the last nights did not measure."""

    node: Annotated[str, Meta(description="its name")]
    last: Annotated[str, Meta(description="the last night that measured it; empty for never")]
    why: Annotated[str, Meta(description="why it was not measured, in words")]


class Coverage(msgspec.Struct, frozen=True, kw_only=True):
    """Which nodes of the partition were measured in the last nights."""

    within: Annotated[int, Meta(description="how many nights")]
    nodes: Annotated[int, Meta(description="how many nodes the partition has")]
    unmeasured: Annotated[
        tuple[UnmeasuredNode, ...], Meta(description="the nodes that none of these nights measured")
    ] = ()

    @property
    def measured(self) -> int:
        """How many of them were measured."""
        return self.nodes - len(self.unmeasured)

    def lines(self) -> list[str]:
        """For people: how many, and those that were not, by reason."""
        nights = f"{self.within} nights" if self.within > 1 else "night"
        counted = f"{self.measured} of {self.nodes} nodes measured in the last {nights}"
        reasons: dict[str, list[str]] = {}
        for unmeasured in self.unmeasured:
            last = "" if unmeasured.last else ", never measured"
            reasons.setdefault(f"{unmeasured.why}{last}", []).append(unmeasured.node)
        return [counted, *(f"not measured: {host_text(nodes)}: {why}" for why, nodes in reasons.items())]


class PostponedBenchmark(msgspec.Struct, frozen=True, kw_only=True):
    """A benchmark that the night left out because its budget was used up."""

    benchmark: Annotated[str, Meta(description="name of its folder")]
    since: Annotated[str, Meta(description="the last night that measured it; empty for never")]
    suspect: Annotated[bool, Meta(description="whether something was bad about it then")] = False


class SlowSuspect(msgspec.Struct, frozen=True, kw_only=True):
    """Whom npb names after it has measured pairs."""

    kind: Annotated[str, Meta(description="`node`, `link`, `uplink`, `switch` or `rack`")]
    name: Annotated[str, Meta(description="the node, the ends of the link, the switch or the rack")]
    nodes: Annotated[tuple[str, ...], Meta(description="the nodes that it affects")]
    slowdown: Annotated[
        float | None, Meta(description="by how much it is worse (0.05: 5 %); null if it does not answer")
    ]
    evidence: Annotated[str, Meta(description="why, in words")]
    series: Annotated[str, Meta(description="the test in which it was seen, in words")]
    role: Annotated[Role, Meta(description="the role in which alone it is slow; empty for any")] = ""

    @property
    def whom(self) -> str:
        """Kind, name and role in words."""
        return whom(self.kind, self.name, self.role)


class PairMatrix(msgspec.Struct, frozen=True, kw_only=True):
    """What the matrix of pairs said of the suspects."""

    nodes: Annotated[tuple[str, ...], Meta(description="all nodes that were measured")]
    suspects: Annotated[tuple[str, ...], Meta(description="those of them that the history accuses")]
    slow: Annotated[tuple[SlowSuspect, ...], Meta(description="whom npb names")] = ()
    pairs: Annotated[int, Meta(description="how many measurements were made")] = 0
    problem: Annotated[str, Meta(description="why the matrix says nothing; empty if it does")] = ""

    def __str__(self) -> str:
        among = f"pairs of {host_text(self.nodes)}"
        if self.problem:
            return f"{among}: {self.problem}"
        if not self.slow:
            return f"{among}: none is slower than the others now ({self.pairs} measurements)"
        return f"{among}: " + "; ".join(
            f"{suspect.whom} "
            + ("does not answer" if suspect.slowdown is None else f"{suspect.slowdown:.1%} slower")
            + f" ({suspect.evidence})"
            for suspect in self.slow
        )


class JudgedSeries(msgspec.Struct, frozen=True, kw_only=True):
    """One series in one night."""

    platform: Annotated[str, Meta(description="of the series, as in records.csv")]
    benchmark: Annotated[str, Meta(description="whose test")]
    case: Annotated[str, Meta(description="which test")]
    metric: Annotated[str, Meta(description="what it gives")]
    size: Annotated[
        int | None,
        Meta(description="of a message or a working set, in bytes, as it was asked for; null for none"),
    ]
    nodes: Annotated[int, Meta(description="how many")]
    params: Annotated[str, Meta(description="settings and qualifiers, a JSON object as text, sorted")]
    verdict: Annotated[Verdict, Meta(description="the gravest that holds")]
    reason: Annotated[str, Meta(description="why, in words")] = ""
    value: Annotated[
        float | None,
        Meta(description="the night's value ([nightly.md](nightly.md#the-value-of-a-night)); null for none"),
    ] = None
    again: Annotated[float | None, Meta(description="the same of what was measured again; null for none")] = (
        None
    )
    reference: Annotated[float | None, Meta(description="the usual value; null with too few nights")] = None
    noise: Annotated[float | None, Meta(description="its relative standard deviation")] = None
    nights: Annotated[int, Meta(description="how many nights the usual value is from")] = 0
    limit: Annotated[float | None, Meta(description="the value at which one night is suspicious")] = None
    floor: Annotated[float | None, Meta(description="the hard limit that is broken")] = None
    effect: Annotated[
        float | None, Meta(description="change against the usual (-0.05: 5 % less); null from nothing")
    ] = None
    score: Annotated[float | None, Meta(description="its standard normal score")] = None
    chance: Annotated[float | None, Meta(description="the chance of such a score in a quiet series")] = None
    direction: Annotated[Direction, Meta(description="`worse`, `better`, `other`, or empty")] = ""
    since: Annotated[str, Meta(description="the night that the change began in")] = ""
    hit: Annotated[bool, Meta(description="whether it asks to be measured again")] = False
    disturbed: Annotated[
        float, Meta(description="share of the CPUs that others took beside all that counts, 0 for none")
    ] = 0.0
    disturbed_on: Annotated[
        tuple[tuple[str, ...], ...],
        Meta(description="groups of hosts that are measured again because of others"),
    ] = ()
    hosts: Annotated[tuple[str, ...], Meta(description="where it was measured")] = ()

    @property
    def key(self) -> Series:
        """The series. Raises ValueError for params that are no JSON object."""
        return _series(*(getattr(self, name) for name in Series._fields))


@lru_cache(maxsize=2**14)  # nights repeat them
def _series(*fields: Any) -> Series:
    try:
        return Series.of_row(dict(zip(Series._fields, fields, strict=True)))
    except (AttributeError, TypeError, ValueError):
        raise ValueError(f"series[].params: {fields[-1]!r} is no JSON object of texts") from None


class NightDocument(msgspec.Struct, frozen=True, kw_only=True):
    """A whole ``verdict.json``."""

    schema: Annotated[
        Literal[1], Meta(description="version, raised when a key is renamed or changes its meaning")
    ] = SCHEMA
    platform: Annotated[str, Meta(description="whose night")]
    run: Annotated[str, Meta(description="its name in the history")]
    time: Annotated[str, Meta(description="when it began, ISO 8601")]
    verdict: Annotated[
        Verdict, Meta(description="the worst of the series'; MISSING at least where a node was lost")
    ]
    exit_code: Annotated[int, Meta(description="0, 10 CHANGED, 11 MISSING, 12 INVALID, 13 DEGRADED, 14 FAIL")]
    series: Annotated[tuple[JudgedSeries, ...], Meta(description="each once, the worst first")]
    suspects: Annotated[
        tuple[NightSuspect, ...],
        Meta(
            description="whom the history accuses, the strongest evidence first: `kind`, `name`, `role` (in "
            "which alone it is slow: `sender`, `receiver`, `client`, `server`, or empty), `nodes`, "
            "`benchmarks`, `since`, `evidence`, `chance`, `score`, `grave` (so strong that it is asked by a "
            "matrix of pairs), `named`, `device`, `slowdown` with its 95 % interval `low` and `high`, "
            "`rivals`, `runs`"
        ),
    ] = ()
    findings: Annotated[
        tuple[NodeFinding, ...],
        Meta(
            description="who is unlike its fleet since it is known, the furthest first: `node`, `device`, "
            "`case`, `slowdown`, `spread`, `rank` of `members`, `since` (told first), `new`; no reason for "
            "an exit code"
        ),
    ] = ()
    failures: Annotated[
        Mapping[str, tuple[str, ...]], Meta(description="benchmark → statuses that are not `ok`")
    ] = {}
    rule: Annotated[tuple[str, ...], Meta(description="the thresholds, in words")] = ()
    lost: Annotated[
        Mapping[str, str],
        Meta(description="node → what was seen when it died or fell silent (by `npb`, or by Slurm)"),
    ] = {}
    postponed: Annotated[
        tuple[PostponedBenchmark, ...],
        Meta(
            description="what the budget did not reach: `benchmark`, `since` (the night that measured it "
            "last, empty for never), `suspect`"
        ),
    ] = ()
    coverage: Annotated[
        Coverage | None,
        Meta(
            description="of nights with `--each-node`, else null: `within` (nights), `nodes` of the "
            "partition, `unmeasured[]` in these nights: `node`, `last` (the night that did, empty for "
            "never), `why`"
        ),
    ] = None
    common: Annotated[
        CommonEvent | None,
        Meta(
            description="what most series have in common, or null: `verdict`, `effect`, `score`, `worse` of "
            "`series`, `since`, `disturbed`; they are PASS where nothing else is the matter with them"
        ),
    ] = None
    counts: Annotated[Mapping[str, int], Meta(description="series by verdict")] = {}
    notes: Annotated[
        tuple[str, ...],
        Meta(
            description="what happened besides: nights that were cut off or did not run, jobs that were "
            "cancelled"
        ),
    ] = ()
    pairs: Annotated[
        PairMatrix | None,
        Meta(
            description="the matrix of pairs of the suspects, or null: `nodes`, `suspects`, `slow[]` "
            "(`kind`, `name`, `role`, `nodes`, `slowdown`, `evidence`, `series`), `pairs` (measurements), "
            "`problem` (why it says nothing)"
        ),
    ] = None


def write_night(folder: Path, night: NightDocument) -> None:
    """Write a night's verdict into the folder of its history, as the last one and as its own. Raises
    OSError; each file is whole or as it was."""
    text = to_text(night)
    (folder / VERDICTS).mkdir(exist_ok=True)
    write_whole(folder / VERDICTS / f"{night.run}.json", text)
    write_whole(folder / VERDICT, text)


def to_text(document: object) -> str:
    """A document as the text of its file."""
    return json.dumps(msgspec.to_builtins(document), indent=1, ensure_ascii=False) + "\n"


def read_night(path: Path) -> NightDocument:
    """A night's verdict. Raises OSError, and `npc.files.InvalidFile` that names the file and the field."""
    with valid(path):
        document = parse_json(read_bytes(path))
        schema = document.get("schema") if isinstance(document, dict) else None
        if schema != SCHEMA:
            raise ValueError(f"no verdict of schema {SCHEMA}: {schema!r}; npc night run writes it")
        night = msgspec.convert(document, NightDocument)
        for series in night.series:
            _ = series.key
    return night


def last_night(folder: Path) -> NightDocument | None:
    """The verdict of the last night of a history, None where there is none yet. Raises as `read_night`."""
    path = folder / VERDICT
    return read_night(path) if path.exists() else None
