"""Who waited for whom inside MPI, as `npc observe` keeps it: the key `waits` of a profile (`records`).

Times are seconds, summed over ranks.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple

#: What a rank waits in, and for messages also who came late.
Kind = Literal["collective", "late sender", "late receiver"]


class LateRank(NamedTuple):
    """A rank for which others waited in a collective."""

    #: Number in MPI_COMM_WORLD.
    rank: int
    #: In how many calls it was the last by more than the clocks' error; not whole where kept calls stand for
    #: others.
    times: float
    #: That all others together waited for it (s).
    seconds: float
    #: By how much the calls would have ended earlier if it had come with the last but one (s).
    alone: float


class CollectiveWait(NamedTuple):
    """Waiting in a collective call, on all communicators of one name and one size."""

    #: MPI's name: ``MPI_Allreduce``.
    call: str
    #: The communicators' name; empty where the program gives none.
    communicator: str
    #: Their size.
    ranks: int
    #: How many were made, each counted once and not by rank.
    calls: int
    #: How many of them have the times of all ranks.
    kept: int
    #: Spent in the calls by all ranks (s).
    seconds: float
    #: Part of `seconds` spent waiting for others; None where that is not known, for `reason`.
    waited: float | None
    #: Largest error of the clocks against each other (s); None where they were not compared.
    error: float | None
    #: Ranks that others waited for, the one that cost most first.
    late: tuple[LateRank, ...]
    #: Why `waited` is not known; empty where it is.
    reason: str = ""


class MessageWait(NamedTuple):
    """Waiting in the sends, or in the receives, of one call."""

    #: Who was late.
    kind: Kind
    #: MPI's name of the call in which ranks waited.
    call: str
    #: How many were exchanged by it.
    messages: int
    #: How many of them have the times of both ranks.
    kept: int
    #: Spent in the call by all ranks (s).
    seconds: float
    #: Part of `seconds` spent waiting for the other rank.
    waited: float
    #: Largest error of the clocks against each other (s); None where they were not compared.
    error: float | None


class Wait(NamedTuple):
    """How long one rank waited for another in one call."""

    #: The rank that waited.
    waiting: int
    #: The rank that it waited for.
    awaited: int
    #: What it waited in, and who was late.
    kind: Kind
    #: MPI's name of the call.
    call: str
    #: In all calls together (s).
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Waits:
    """Wait states of a run."""

    #: Those in which ranks spent most time first.
    collectives: tuple[CollectiveWait, ...]
    #: Those in which ranks spent most time first.
    messages: tuple[MessageWait, ...]
    #: The pairs of ranks that waited longest, the longest first.
    pairs: tuple[Wait, ...]
    #: Rank → (how long it waited for others, how long others waited for it), in seconds.
    by_rank: Mapping[int, tuple[float, float]]
    #: Number of the pairs that are not in `pairs`, and their seconds together.
    left_out: tuple[int, float]
    #: What could not be judged and why, a sentence each.
    notes: tuple[str, ...]

    @property
    def waited(self) -> float:
        """Seconds of all ranks, as far as they can be told."""
        known = [collective.waited for collective in self.collectives if collective.waited is not None]
        return sum(known) + sum(message.waited for message in self.messages)
