"""Made profiles of ranks: a small simulation of ranks that compute, talk and wait, on clocks that differ.

Time goes by as in the world (`Job.now`, by rank); what a rank writes down is on the clock of its node. How
long each rank waited for which other one is kept as it happens (`Job.waited`), on the world's clock.
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from npc.observe.mpi.observer import MpiObserver, part_of
from npc.observe.mpi.profile import (
    WHOLE,
    Arrival,
    Calls,
    ClockReading,
    Communicator,
    Message,
    Peer,
    RankProfile,
)
from npc.observe.observer import ObservedPart, RanksLeft

WORLD: Final = "world"
#: Whom others wait for: these for the root; of those the root for all. In all others everybody for all.
_FROM_ROOT: Final = ("MPI_Bcast", "MPI_Scatter", "MPI_Scatterv")
_TO_ROOT: Final = ("MPI_Reduce", "MPI_Gather", "MPI_Gatherv")


class MadeProfiles(MpiObserver):
    """Reads these profiles where its base reads the ranks' files."""

    def __init__(self, profiles: Sequence[RankProfile]) -> None:
        self.profiles = profiles

    def read(self, left: RanksLeft) -> ObservedPart:
        return part_of(self.profiles, left.flows)


class Job:
    """`ranks` ranks, `per_node` on each node (all on one by default).

    ahead: seconds by which the clock of node k is ahead of that of node k − 1; drift: what it gains on it in
    a second; error: how wrong the time of the world is on two nodes together, None where none is kept.
    """

    def __init__(
        self,
        ranks: int,
        *,
        per_node: int = 0,
        ahead: float = 0.0,
        drift: float = 0.0,
        error: float | None = None,
        seed: int = 0,
    ) -> None:
        self.ranks = ranks
        self.now = [0.0] * ranks
        self.busy = [0.0] * ranks
        #: (waiting rank, rank waited for, call) → seconds
        self.waited: Counter[tuple[int, int, str]] = Counter()
        self._nodes = [rank // (per_node or ranks) for rank in range(ranks)]
        self._ahead, self._drift, self._error = ahead, drift, error
        self._seed = seed
        self._began = [0.0] * ranks
        self._region = WHOLE
        self._regions: defaultdict[str, list[float]] = defaultdict(lambda: [0.0] * ranks)
        self._calls: list[dict[tuple[str, str, str, int], Calls]] = [{} for _ in range(ranks)]
        self._peers: list[dict[int, Peer]] = [{} for _ in range(ranks)]
        self._members: dict[str, tuple[int, ...]] = {WORLD: tuple(range(ranks))}
        self._sequences: Counter[object] = Counter()
        self._arrivals: list[list[Arrival]] = [[] for _ in range(ranks)]
        self._sent: list[list[Message]] = [[] for _ in range(ranks)]
        self._received: list[list[Message]] = [[] for _ in range(ranks)]

    # --- what ranks do ------------------------------------------------------------------------------------

    def compute(self, *seconds: float) -> None:
        """Each rank computes for its own time, or all for the only one."""
        for rank, each in enumerate(seconds * self.ranks if len(seconds) == 1 else seconds):
            self.now[rank] += each
            self.busy[rank] += each

    @contextmanager
    def region(self, name: str) -> Iterator[None]:
        """What happens within is in a region of that name."""
        before, self._region = list(self.now), name
        yield
        self._region = WHOLE
        for rank, (begin, end) in enumerate(zip(before, self.now, strict=True)):
            self._regions[name][rank] += end - begin

    def collective(
        self,
        call: str,
        *,
        members: Sequence[int] = (),
        root: int | None = None,
        bytes: int = 8,
        seconds: float = 1e-5,
    ) -> None:
        """A collective of `members` (by default all) that takes `seconds` once nobody is awaited."""
        group = tuple(members) or self._members[WORLD]
        key = WORLD if group == self._members[WORLD] else f"of {'+'.join(map(str, group))}"
        self._members[key] = group
        entered = {rank: self.now[rank] for rank in group}
        last = max(group, key=lambda rank: entered[rank])
        for rank in group:
            awaited = last
            if call in _FROM_ROOT and root is not None:
                awaited = root
            if call in _TO_ROOT and rank != root:
                awaited = rank
            wait = max(0.0, entered[awaited] - entered[rank])
            if wait:
                self.waited[rank, awaited, call] += wait
            self.now[rank] += wait + seconds
            begin, end = self.clock(rank, entered[rank]), self.clock(rank, self.now[rank])
            self._count(rank, call, key, bytes, end - begin)
            self._arrivals[rank].append(Arrival(key, self._sequences[key], call, begin, end, root))
        self._sequences[key] += 1

    def message(
        self,
        source: int,
        target: int,
        *,
        bytes: int = 8,
        tag: int = 0,
        synchronous: bool = False,
        seconds: float = 1e-5,
    ) -> None:
        """A blocking send and a blocking receive; `seconds` is the way. synchronous: the sender waits for the
        receiver to have begun (MPI_Ssend)."""
        began, ready = self.now[source], self.now[target]
        if synchronous and ready > began:
            self.waited[source, target, "MPI_Ssend"] += ready - began
        if began > ready:
            self.waited[target, source, "MPI_Recv"] += began - ready
        met = max(began, ready)
        self.now[source] = (met if synchronous else began) + seconds
        self.now[target] = met + seconds
        place = (WORLD, tag, source, target)
        number, self._sequences[place] = self._sequences[place], self._sequences[place] + 1
        for rank, peer, call, begin, kept in (
            (source, target, "MPI_Ssend" if synchronous else "MPI_Send", began, self._sent),
            (target, source, "MPI_Recv", ready, self._received),
        ):
            entered, left = self.clock(rank, begin), self.clock(rank, self.now[rank])
            posted = entered if kept is self._received else None
            kept[rank].append(Message(WORLD, tag, peer, number, call, entered, left, bytes, posted))
            self._count(rank, call, WORLD, bytes, left - entered)
        sent = self._peers[source].get(target, Peer(target, 0, 0))
        self._peers[source][target] = Peer(target, sent.bytes + bytes, sent.messages + 1)

    # --- what is left of it ------------------------------------------------------------------------------

    def profiles(self, keep: int = 1) -> list[RankProfile]:
        """The profiles if the program ended now; of arrivals and messages every `keep`-th one."""
        return [self._profile(rank, keep) for rank in range(self.ranks)]

    def _profile(self, rank: int, keep: int) -> RankProfile:
        mine = [(key, members) for key, members in self._members.items() if rank in members]
        return RankProfile(
            rank=rank,
            ranks=self.ranks,
            host=f"n{self._nodes[rank]}",
            library="made",
            thread_level="MPI_THREAD_SINGLE",
            threads=1,
            began=self.clock(rank, self._began[rank]),
            ended=self.clock(rank, self.now[rank]),
            finalized=True,
            calls=list(self._calls[rank].values()),
            peers=sorted(self._peers[rank].values()),
            communicators=[Communicator(key, key, len(members)) for key, members in mine],
            arrivals=[each for each in self._arrivals[rank] if each.sequence % keep == 0],
            sent=[each for each in self._sent[rank] if each.sequence % keep == 0],
            received=[each for each in self._received[rank] if each.sequence % keep == 0],
            clock=self._readings(rank),
            regions={name: seconds[rank] for name, seconds in self._regions.items()},
        )

    def clock(self, rank: int, at: float) -> float:
        """What the clock of the rank's node shows at a moment of the world."""
        node = self._nodes[rank]
        return 1000.0 + at + node * (self._ahead + self._drift * at)

    def _readings(self, rank: int) -> list[ClockReading]:
        """At the begin and the end; one reading a node."""
        if self._error is None:
            return []
        node, error = self._nodes[rank], self._error / 2
        readings = []
        for at in (0.0, max(self.now)):
            draw = random.Random(f"{self._seed} {node} {at}").uniform(-1, 1) * error
            readings.append(ClockReading(self.clock(rank, at), at + draw, error))
        return readings

    def _count(self, rank: int, call: str, key: str, bytes: int, seconds: float) -> None:
        place = (self._region, call, key, bytes.bit_length())
        before = self._calls[rank].get(place, Calls(*place, 0, 0.0, 0))
        self._calls[rank][place] = Calls(
            *place, before.calls + 1, before.seconds + seconds, before.bytes + bytes
        )
