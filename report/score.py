"""The score of a machine: how much of its nominal limits it reaches, in parts, and one number beside them.

A share is a measured ceiling over its nominal limit (`npc.machine.platform`). A part (compute, memory,
network, I/O) is the geometric mean of its shares, and the score that of the parts, so that a part counts once
however many tests it has, and halving one part costs as much as halving another. The geometric mean is the
only one that does not depend on which machine is the unit (Fleming, Wallace, CACM 29(3), 1986).

- compute: the measured peak of each precision over the theoretical one.
- memory: the best ceiling of main memory over the nominal bandwidth.
- network: the fastest test between nodes of each kind of interface over the data rate of its link.
- GPU: the matrix products of each precision, its memory and its way to the host over the data sheet's; a
  machine without one has no such part.
- I/O: reading from and writing to the file system of the runs over what a node can get of it.

Limits that platform.toml does not have are those that the machine itself suggests, where it does, and are
said to be proposed (`npc.machine.proposal`). What exceeds a proposed limit refutes it, and has no score: a
clock above the base clock is no merit. An application's score is its part of what the nominal limits
allow it at its own intensities; beside it stands the part of that limit that the machine reaches.

The interval takes every share at its lower, then at its upper end, so it covers at least with the product of
what Bonferroni leaves of each coverage.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final, Literal

from npc.machine.platform import Platform
from npc.machine.proposal import completed, shown
from npc.records.units import format_quantity, plural
from npc.report.runs import Run
from npc.roofline.analyse import analyse
from npc.roofline.points import bounds
from npc.roofline.result import Ceiling, Roofline, direction_of

SCHEMA: Final = 1
Part = Literal["compute", "memory", "network", "I/O", "GPU"]
PARTS: Final[tuple[Part, ...]] = ("compute", "memory", "network", "I/O", "GPU")
#: What makes the share of a part known: a measurement, and limits of platform.toml.
_NEEDS: Final[dict[Part, tuple[str, str]]] = {
    "compute": ("likwid's peak (tag compute)", "cores, clock_hz, simd_bits, simd_units, fma"),
    "memory": ("STREAM or LIKWID (tag memory)", "memory_bandwidth"),
    "network": ("a test between two nodes (tag network or rdma)", "its interface"),
    "I/O": ("fio (tag io)", "io_read_bandwidth, io_write_bandwidth"),
    "GPU": ("gpu (tag gpu)", "its table gpu"),
}
#: Whose limits a machine may propose.
_PROPOSED: Final[tuple[Part, ...]] = ("compute", "memory")


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """A share of a nominal limit, or a mean of such."""

    #: The share; 1 is all that the limit allows.
    value: float
    #: Lower end of the interval of the share; None where it has none.
    low: float | None
    #: Upper end of the interval of the share; None where it has none.
    high: float | None
    #: Probability (0 to 1) that the interval covers the share; None without an interval.
    coverage: float | None


Shares = list[tuple[Ceiling, Score]]


@dataclass(frozen=True, slots=True)
class ApplicationScore:
    """What an application reaches of what the nominal limits allow it."""

    #: What the application is called.
    name: str
    #: How many nodes it ran on.
    nodes: int
    #: Speed that it reaches, in FLOP/s.
    flops: float
    #: Name of the ceiling whose nominal limit allows least.
    limit: str
    #: Speed that this limit allows, in FLOP/s.
    allowed: float
    #: `flops` as a share of `allowed`.
    share: Score
    #: Share of the limit that the machine itself reaches; None where it is not known.
    machine: float | None

    @property
    def measured(self) -> str:
        """What it reaches, of what which limit allows it, and how much of that the machine reaches."""
        rates = " of ".join(format_quantity(value, "FLOP/s", 3) for value in (self.flops, self.allowed))
        machine = "" if self.machine is None else f", of which the machine reaches {self.machine:.1%}"
        return f"{rates} by {self.limit}{machine}"


@dataclass(frozen=True, slots=True)
class Scores:
    """The scores of a machine, part by part."""

    #: Part → the ceilings that it is made of, each with its share of the nominal limit.
    shares: dict[Part, Shares]
    #: Part → the mean of its shares.
    parts: dict[Part, Score]
    #: Part → what would make it known.
    missing: dict[Part, str]
    #: The mean of the parts; None where none is known.
    whole: Score | None
    #: Measured applications beside what the limits allow them; empty where none can be compared.
    applications: tuple[ApplicationScore, ...] = ()
    #: Limits that the machine proposes itself → where they come from.
    proposed: dict[str, str] = field(default_factory=dict)


def score(run: Run) -> Scores:
    """The scores of a run, by the limits of its platform and those that its machine suggests."""
    given = run.platform or Platform(name=run.platform_name)
    platform, added = completed(given, run.environment)
    roofline = analyse(run.records, platform) if added else run.roofline
    of_file = {key: f"{shown(getattr(given, key))}: proposed in platform.toml" for key in given.proposed}
    return find_scores(roofline, of_file | added)


def find_scores(roofline: Roofline, proposed: Mapping[str, str] | None = None) -> Scores:
    """The scores of a machine; `Scores.whole` is None where no nominal limit is known. proposed: key of a
    limit that was not compared with a data sheet → where it comes from."""
    proposed = dict(proposed or {})
    ceilings: dict[Part, list[Ceiling]] = {
        "compute": [ceiling for ceiling in roofline.of_kind("compute") if ceiling.name.startswith("peak ")],
        "memory": [ceiling for ceiling in roofline.of_kind("memory") if ceiling.level == "MEM"],
        "network": [ceiling for ceiling in roofline.of_kind("network") if ceiling.nodes > 1],
        "I/O": roofline.of_kind("io"),
        "GPU": roofline.of_kind("GPU compute", "GPU bandwidth"),
    }
    shares: dict[Part, Shares] = {
        "compute": _shares(ceilings["compute"]),
        "memory": _shares(_fastest(ceilings["memory"], lambda ceiling: ceiling.kind)),
        "network": _shares(_fastest(ceilings["network"], lambda ceiling: ceiling.nominal)),
        "I/O": _shares(_fastest(ceilings["I/O"], direction_of)),
        "GPU": _shares(ceilings["GPU"]),
    }
    refuted = {
        part: f"{above[0].name} is beyond the limit that the machine suggests ({measured(above[0])}): write "
        "that of the data sheet into platform.toml"
        for part in _PROPOSED
        if not proposed.keys().isdisjoint(_NEEDS[part][1].split(", "))
        and (above := [of for of, share in shares[part] if share.value > 1])
    }
    shares = {part: of_part for part, of_part in shares.items() if of_part and part not in refuted}
    parts = {part: geometric_mean([share for _, share in of_part]) for part, of_part in shares.items()}
    missing = {
        part: refuted.get(part, _lacking(part, bool(ceilings[part])))
        for part in PARTS
        if part not in parts and (part != "GPU" or ceilings[part])
    }
    whole = geometric_mean(list(parts.values())) if parts else None
    return Scores(shares, parts, missing, whole, tuple(_applications(roofline)), proposed)


def _lacking(part: Part, is_measured: bool) -> str:
    test, limits = _NEEDS[part]
    return f"{limits} in platform.toml" if is_measured else f"{test}, and {limits} in platform.toml"


def _applications(roofline: Roofline) -> Iterable[ApplicationScore]:
    """Each application at what the tightest nominal limit allows it; none where no limit is known."""
    for application in roofline.applications:
        allowed = []
        for bound in bounds(application, roofline):
            if bound.theoretical:
                allowed.append((bound.flops, bound.ceiling.name, _measured_peak(roofline, bound.ceiling)))
            elif bound.ceiling.kind != "compute" and bound.ceiling.nominal:
                flops = bound.flops * bound.ceiling.nominal / bound.ceiling.value
                allowed.append((flops, bound.ceiling.name, bound.ceiling))
        if not allowed:
            continue
        flops, limit, ceiling = min(allowed, key=lambda entry: entry[0])
        speed = application.flops
        low, high = (end and end / flops for end in (speed.low, speed.high))
        yield ApplicationScore(
            application.label,
            application.nodes,
            speed.median,
            limit,
            flops,
            Score(value=speed.median / flops, low=low, high=high, coverage=speed.coverage),
            None if ceiling is None else ceiling.share,
        )


def _measured_peak(roofline: Roofline, theoretical: Ceiling) -> Ceiling | None:
    """The best measured peak of a theoretical one's precision."""
    peaks = [
        c for c in roofline.of_kind("compute")
        if c.precision == theoretical.precision and c.name.startswith("peak ")
    ]  # fmt: skip
    return max(peaks, key=lambda ceiling: ceiling.value, default=None)


def geometric_mean(scores: Sequence[Score]) -> Score:
    """The geometric mean of scores, and of their ends."""

    def mean(values: Iterable[float]) -> float:
        logs = [math.log(value) for value in values]
        return math.exp(sum(logs) / len(logs))

    values = [score.value for score in scores]
    lows, highs = [score.low for score in scores], [score.high for score in scores]
    coverages = [score.coverage for score in scores]
    if None in lows or None in highs or None in coverages:
        return Score(value=mean(values), low=None, high=None, coverage=None)
    missed = sum(1 - coverage for coverage in coverages if coverage is not None)
    return Score(
        value=mean(values),
        low=mean(low for low in lows if low is not None),
        high=mean(high for high in highs if high is not None),
        coverage=max(0.0, 1 - missed),
    )


def _shares(ceilings: Iterable[Ceiling]) -> Shares:
    shares = []
    for ceiling in ceilings:
        if ceiling.nominal:
            low, high = (end and end / ceiling.nominal for end in (ceiling.low, ceiling.high))
            share = ceiling.value / ceiling.nominal
            shares.append((ceiling, Score(value=share, low=low, high=high, coverage=ceiling.coverage)))
    return shares


def _fastest(ceilings: Iterable[Ceiling], key: Callable[[Ceiling], object]) -> list[Ceiling]:
    """The fastest test of each: what slower tools make of it is theirs, not the machine's."""
    fastest: dict[object, Ceiling] = {}
    for ceiling in ceilings:
        known = fastest.get(key(ceiling))
        if ceiling.nominal and (known is None or ceiling.value > known.value):
            fastest[key(ceiling)] = ceiling
    return list(fastest.values())


def to_document(run: Run, scores: Scores) -> dict[str, Any]:
    """What ``--json`` prints."""
    parts: dict[str, Any] = {part: asdict(score) for part, score in scores.parts.items()}
    for part, shares in scores.shares.items():
        parts[part]["shares"] = [
            {"name": of.name, "unit": of.unit, "measured": of.value, "nominal": of.nominal}
            | {"share": share.value, "low": share.low, "high": share.high, "coverage": share.coverage}
            for of, share in shares
        ]
    whole = scores.whole and asdict(scores.whole)
    return {
        "schema": SCHEMA,
        **run.document,
        "score": whole,
        "parts": parts,
        "missing": scores.missing,
        "proposed": scores.proposed,
        "applications": [asdict(application) for application in scores.applications],
    }


def format_scores(run: Run, scores: Scores) -> str:
    """The shares by part, the score of each part, and that of all."""
    lines = [f"{run.words}\nShare of the nominal limits:"]
    for part, shares in scores.shares.items():
        lines.append(f"\n{part:9} {_score(scores.parts[part])}")
        lines += [f"  {share.value:6.1%}  {of.name}: {measured(of)}" for of, share in shares]
    if scores.missing:
        lines.append("")
    lines += [f"{part:9} not known: {needs}" for part, needs in scores.missing.items()]
    if scores.applications:
        lines.append("\nApplications, of what the nominal limits allow them at their own intensities:")
        lines += map(_application_text, scores.applications)
    if scores.proposed:
        lines.append("\nProposed by the machine itself, to be compared with its data sheets (platform.toml):")
        lines += [f"  {key} = {why}" for key, why in scores.proposed.items()]
    if scores.whole is not None:
        parts = ", ".join(scores.parts)
        lines.append(f"\nall       {_score(scores.whole)}: the geometric mean of {parts}")
    else:
        limits = f"platforms/{run.platform_name}/platform.toml" if run.platform_name else "platform.toml"
        lines.append(
            f"\nNo score: nothing is measured that has a nominal limit; {limits} has them (docs/advise.md)."
        )
    return "\n".join(lines)


def _application_text(application: ApplicationScore) -> str:
    what = f"{application.name} on {plural(application.nodes, 'node')}"
    return f"  {_score(application.share)}  {what}: {application.measured}"


def measured(ceiling: Ceiling) -> str:
    """What a ceiling is, of its nominal limit."""
    values = (format_quantity(value, ceiling.unit, 3) for value in (ceiling.value, ceiling.nominal or 0.0))
    return " of ".join(values)


def _score(score: Score) -> str:
    if score.low is None or score.high is None or score.coverage is None:
        return f"{score.value:.1%} (too few samples for an interval)"
    return f"{score.value:.1%} [{score.low:.1%}, {score.high:.1%}] with {score.coverage:.1%}"
