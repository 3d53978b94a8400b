"""What goes into a judgement of many nodes and what comes out of it, as plain data."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final, Literal, NamedTuple

from npc.columns import columns
from npc.machine.fabric import Kind
from npc.records.record import OK
from npc.records.units import several
from npc.statistics.suspect import Suspect

Better = Literal["higher", "lower"]

#: What to do next, by kind of suspect; {name}, the first node, {server} and {client} are filled in.
_CLOSER: Final[dict[Kind, str]] = {
    "node": "on {0}: `ip -s link`, `ethtool -S IFACE`, `ibstat`, `dmesg`; compare its clock, BIOS and load",
    "link": "measure it alone: a file with the line `{server} {client}` for --pairs, --serial --runs 6",
    "uplink": "error counters of {name}'s uplink ports (`iblinkinfo`, `ibqueryerrors`, its console)",
    "switch": "{name} itself: its error counters, its temperature, its uplinks",
    "rack": "what the nodes of {name} share: power cap, cooling, a switch",
}


class PairResult(NamedTuple):
    """One measurement of one pair. `value` is None, or not to be used, where `status` is not ``ok``.

    a, b: host names, server first. round: its number from 0; None if it belongs to none, as a
    measurement repeated by itself does. attempt: 0 the first, 1 the measurement repeated before judging.
    """

    a: str
    b: str
    value: float | None
    status: str = OK
    round: int | None = None
    attempt: int = 0

    @property
    def usable(self) -> bool:
        """Whether it has a value that may be compared: ok, finite and positive."""
        return self.status == OK and self.value is not None and 0 < self.value < math.inf


@dataclass(frozen=True, slots=True, kw_only=True)
class PairSuspect(Suspect):
    """Whom the pairs of one run accuse.

    readings: how many measurements it rests on; measurements: the worst of them.
    """

    readings: int = 0
    measurements: tuple[PairResult, ...] = ()

    @property
    def dead(self) -> bool:
        """Whether it does not answer, rather than slowly."""
        return self.slowdown is None

    @property
    def closer(self) -> str:
        """How to look closer."""
        seen = self.measurements[0] if self.measurements else None
        return _CLOSER[self.kind].format(
            self.nodes[0], name=self.name, server=seen.a if seen else "", client=seen.b if seen else ""
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Localisation:
    """What the measurements say: suspects, the strongest evidence first, and what they cannot tell.

    nodes: how many there are; judged: how many of them have enough readings. typical: the median of all
    usable values, in the metric's unit. noise: standard deviation of a healthy measurement, relative.
    disturbed: fraction of healthy measurements that are outliers. undecided: sentences. rule: the
    thresholds in words.
    """

    better: Better
    nodes: int
    judged: int
    measurements: int
    failed: int
    typical: float | None
    noise: float | None
    disturbed: float | None
    suspects: tuple[PairSuspect, ...]
    undecided: tuple[str, ...]
    rule: tuple[str, ...]

    @property
    def healthy(self) -> bool:
        """Nobody is to blame, and there was enough to say so."""
        return not self.suspects and self.judged > 0

    def conclusion(self, suspects: Sequence[str], most: int = 6) -> str:
        """Who is to blame in one sentence; `suspects` are named as it suits, at most `most` of them."""
        if suspects:
            return f"to blame: {several(suspects, most)}"
        return "nobody is to blame" if self.healthy else "too few measurements to blame anybody"

    def as_json(self) -> dict[str, Any]:
        """Everything as plain types for `json.dump`."""
        plain = asdict(self)
        plain["healthy"] = self.healthy
        for suspect, row in zip(self.suspects, plain["suspects"], strict=True):
            row["dead"] = suspect.dead
            row["closer"] = suspect.closer
            row["measurements"] = [result._asdict() for result in suspect.measurements]
        return plain

    def table(self, rule: bool = True) -> str:
        """What is said on the terminal: suspects with evidence and next step, doubts, the thresholds."""
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
        lines += [f"  undecided: {sentence}" for sentence in self.undecided]
        if rule:
            lines += [f"  rule: {sentence}" for sentence in self.rule]
        return "\n".join(lines)


def _how_slow(suspect: PairSuspect, better: Better) -> str:
    if suspect.slowdown is None or suspect.low is None or suspect.high is None:
        return "dead"
    worse = "less" if better == "higher" else "more"
    return f"{suspect.slowdown:.1%} {worse} [{suspect.low:.1%}, {suspect.high:.1%}]"
