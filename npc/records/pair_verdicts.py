"""What npb said of many pairs of nodes: ``pairs.json`` beside the launches of ``npb --pairs``.

A list with an entry for each case, metric, size and set of qualifiers that were measured. Here are its types,
the one writer and the one reader. Values are in the metric's SI unit.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final, Literal

import msgspec

from npc.files import parse_json, read_bytes, valid, write_whole
from npc.machine.fabric import Kind
from npc.records.verdicts import to_text
from npc.statistics.suspect import Role, whom

PAIRS: Final = "pairs.json"


class PairReading(msgspec.Struct, frozen=True, kw_only=True):
    """One measurement of one pair, server `a` first. value: None, or not to be used, where `status` is not
    ``ok``. round: its number from 0, None if it belongs to none. attempt: 1 where it was repeated before
    judging."""

    a: str
    b: str
    value: float | None
    status: str
    round: int | None = None
    attempt: int = 0


class BlamedByPairs(msgspec.Struct, frozen=True, kw_only=True):
    """Whom the pairs of one run blame, as `npc.statistics.suspect.Suspect` says it.

    readings: how many measurements it rests on; measurements: the worst of them. dead: whether it does not
    answer, rather than slowly. closer: how to look closer, in words.
    """

    kind: Kind
    name: str
    nodes: tuple[str, ...]
    evidence: str
    closer: str
    dead: bool
    chance: float
    slowdown: float | None = None
    low: float | None = None
    high: float | None = None
    score: float | None = None
    role: Role = ""
    readings: int = 0
    measurements: tuple[PairReading, ...] = ()

    @property
    def whom(self) -> str:
        """Kind, name and role in words."""
        return whom(self.kind, self.name, self.role)


class PairsJudgement(msgspec.Struct, frozen=True, kw_only=True):
    """What the measurements say.

    suspects: the strongest evidence first. nodes: how many there are; judged: how many of them have enough
    readings. typical: the median of all usable values. noise: standard deviation of a healthy measurement,
    relative. disturbed: fraction of healthy measurements that are outliers. healthy: nobody is to blame, and
    there was enough to say so. undecided: sentences. rule: the thresholds in words.
    """

    better: Literal["higher", "lower"]
    nodes: int
    judged: int
    measurements: int
    failed: int
    typical: float | None
    noise: float | None
    disturbed: float | None
    healthy: bool
    suspects: tuple[BlamedByPairs, ...]
    undecided: tuple[str, ...]
    rule: tuple[str, ...]


class PairsVerdict(msgspec.Struct, frozen=True, kw_only=True):
    """An entry: what was measured, in words (`series`) and in parts, and the verdict on it."""

    series: str
    case: str
    metric: str
    size: int | None
    qualifiers: tuple[tuple[str, str], ...]
    verdict: PairsJudgement


def write_pairs(folder: Path, entries: Iterable[dict[str, Any]]) -> None:
    """Write ``pairs.json``; entries: what makes a `PairsVerdict` each. Raises OSError."""
    verdicts = msgspec.convert(list(entries), list[PairsVerdict])
    write_whole(folder / PAIRS, to_text(verdicts))


def read_pairs(path: Path) -> tuple[PairsVerdict, ...]:
    """All entries of a ``pairs.json``. Raises OSError, and `npc.files.InvalidFile` with file and field."""
    with valid(path):
        return msgspec.convert(parse_json(read_bytes(path)), tuple[PairsVerdict, ...])
