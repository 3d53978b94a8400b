"""What npb says of many pairs of nodes: ``pairs.json`` beside the launches of ``npb --pairs``.

A list with an entry for each case, metric, size and set of qualifiers that were measured. Here are its types,
the one writer and the one reader. Values are in the metric's SI unit.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

import msgspec

from npc.columns import columns
from npc.files import parse_json, read_bytes, valid, write_whole
from npc.records.record import OK
from npc.records.units import several
from npc.records.verdicts import to_text
from npc.statistics.suspect import Suspect

PAIRS: Final = "pairs.json"

#: Findings on the terminal.
_MOST_FINDINGS: Final = 3

#: Which direction of a metric is good.
Better = Literal["higher", "lower"]


class PairResult(msgspec.Struct, frozen=True):
    """One measurement of one pair of nodes."""

    #: Host of the server.
    a: str
    #: Host of the client.
    b: str
    #: In the metric's SI unit; None, or not to be used, where `status` is not ``ok``.
    value: float | None
    #: ``ok``, or why there is no value.
    status: str = OK
    #: Number of its round, from 0; None for a measurement that was repeated by itself.
    round: int | None = None
    #: 0 for the first measurement, 1 for one that was repeated before judging.
    attempt: int = 0

    @property
    def usable(self) -> bool:
        """Whether it has a value that may be compared: ok, finite and positive."""
        return self.status == OK and self.value is not None and 0 < self.value < math.inf


@dataclass(frozen=True, slots=True, kw_only=True)
class PairSuspect(Suspect):
    """Whom the pairs of one run blame."""

    #: Whether it does not answer at all; False for one that is slow.
    dead: bool
    #: How to look closer, in words.
    closer: str
    #: On how many measurements it rests.
    readings: int = 0
    #: The worst of these measurements, the worst first.
    measurements: tuple[PairResult, ...] = ()


class SlowNode(msgspec.Struct, frozen=True):
    """A node that is slower than the median node, as some nodes of its fleet are: a finding, no suspect."""

    #: Name of the node.
    name: str
    #: By how much it is worse than the median node (0.02: 2 % less bandwidth, or 2 % more latency).
    slowdown: float
    #: Its place among the nodes; 1 is the slowest.
    rank: int
    #: Among how many nodes that is.
    of: int

    def in_words(self) -> str:
        """What it is, in one sentence."""
        place = "the slowest" if self.rank == 1 else f"number {self.rank} from the slow end"
        return (
            f"{self.name} is {self.slowdown:.1%} slower than the median, as nodes of this fleet are "
            f"({place} of {self.of})"
        )


class Localisation(msgspec.Struct, frozen=True, kw_only=True):
    """What the measurements of pairs say about the nodes and what connects them."""

    #: Which values of the metric are good.
    better: Better
    #: How many nodes there are.
    nodes: int
    #: How many of them have enough readings to be judged.
    judged: int
    #: How many measurements were made.
    measurements: int
    #: How many of them failed.
    failed: int
    #: Median of all usable values, in the metric's SI unit; None without any.
    typical: float | None
    #: Standard deviation of a healthy measurement, relative.
    noise: float | None
    #: Share of healthy measurements that are outliers.
    disturbed: float | None
    #: Whether nobody is to blame, and there was enough to say so.
    healthy: bool
    #: The strongest evidence first.
    suspects: tuple[PairSuspect, ...]
    #: Sentences about what the measurements cannot decide.
    undecided: tuple[str, ...]
    #: The thresholds, in words.
    rule: tuple[str, ...]
    #: Nodes that are slower than the median, as nodes of their fleet are, the slowest first; no suspects.
    slow_nodes: tuple[SlowNode, ...] = ()

    def conclusion(self, suspects: Sequence[str], most: int = 6) -> str:
        """Who is to blame, in one sentence. suspects: their names as people know them; at most `most` of them
        are named."""
        if suspects:
            return f"to blame: {several(suspects, most)}"
        return "nobody is to blame" if self.healthy else "too few measurements to blame anybody"

    def table(self, rule: bool = True) -> str:
        """For the terminal: suspects with evidence and next step, what is undecided, and the thresholds."""
        names = [suspect.whom for suspect in self.suspects]
        noise = "" if self.noise is None else f", noise {self.noise:.1%}"
        counts = f"{self.judged} of {self.nodes} nodes judged, {self.measurements} measurements"
        lines = [f"{self.conclusion(names)} ({counts}, {self.failed} failed{noise})"]
        rows = [
            (name, _how_slow(suspect, self.better), suspect.evidence)
            for name, suspect in zip(names, self.suspects, strict=True)
        ]
        width = max(map(len, names), default=0)
        table = columns([("",) * 3, *rows], indent="  ")[1:]  # it needs no heading
        for suspect, row in zip(self.suspects, table, strict=True):
            lines += [row, f"  {'':{width}}  → {suspect.closer}"]
        lines += [f"  finding: {node.in_words()}" for node in self.slow_nodes[:_MOST_FINDINGS]]
        if more := len(self.slow_nodes) - _MOST_FINDINGS:
            lines += [f"  finding: {more} more nodes like that (pairs.json)"] if more > 0 else []
        lines += [f"  undecided: {sentence}" for sentence in self.undecided]
        if rule:
            lines += [f"  rule: {sentence}" for sentence in self.rule]
        return "\n".join(lines)


def _how_slow(suspect: PairSuspect, better: Better) -> str:
    if suspect.slowdown is None or suspect.low is None or suspect.high is None:
        return "dead"
    worse = "less" if better == "higher" else "more"
    return f"{suspect.slowdown:.1%} {worse} [{suspect.low:.1%}, {suspect.high:.1%}]"


class PairsVerdict(msgspec.Struct, frozen=True, kw_only=True):
    """An entry of ``pairs.json``: what was measured, and what its values say."""

    #: What was measured, in words.
    series: str
    #: What the tool measured: ``tcp_bw``.
    case: str
    #: A key of `npc.records.units.METRICS`.
    metric: str
    #: Of a message, in bytes; None where the test has no size.
    size: int | None
    #: Which of the tool's numbers it is: names and values.
    qualifiers: tuple[tuple[str, str], ...]
    #: What the values say about the nodes.
    verdict: Localisation


def write_pairs(folder: Path, entries: Sequence[PairsVerdict]) -> None:
    """Write ``pairs.json``. Raises OSError."""
    write_whole(folder / PAIRS, to_text(entries))


def read_pairs(path: Path) -> tuple[PairsVerdict, ...]:
    """All entries of a ``pairs.json``. Raises OSError, and `npc.files.InvalidFile` with file and field."""
    with valid(path):
        return msgspec.convert(parse_json(read_bytes(path)), tuple[PairsVerdict, ...])
