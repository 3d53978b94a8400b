"""Finds, by their sequence numbers, the same message and the same collective call in several ranks."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from npc.observe.mpi.profile import Arrival, Communicator, Message, RankProfile

#: Calls that no rank leaves before all have come. (In the v-forms a rank without data may leave earlier. It
#: has then not waited for the last one, which its times show.)
ALL_TO_ALL: Final = frozenset({
    "MPI_Barrier", "MPI_Allreduce", "MPI_Allgather", "MPI_Allgatherv", "MPI_Alltoall", "MPI_Alltoallv",
    "MPI_Alltoallw", "MPI_Reduce_scatter", "MPI_Reduce_scatter_block",
})  # fmt: skip
FROM_ROOT: Final = frozenset({"MPI_Bcast", "MPI_Scatter", "MPI_Scatterv"})
TO_ROOT: Final = frozenset({"MPI_Reduce", "MPI_Gather", "MPI_Gatherv"})


class MatchedMessage(NamedTuple):
    """A message whose times both ranks kept, each on the clock of its own node."""

    #: The rank that sent it.
    source: int
    #: The rank that received it.
    target: int
    #: As the sender saw it.
    send: Message
    #: As the receiver saw it.
    receive: Message


class CollectiveCall(NamedTuple):
    """A collective call whose times all ranks of its communicator kept."""

    #: MPI's name.
    call: str
    #: Of two ranks and more.
    communicator: Communicator
    #: Rank → when it came and went, on the clock of its node.
    arrivals: Mapping[int, Arrival]

    @property
    def root(self) -> int | None:
        return next(iter(self.arrivals.values())).root


def matched_messages(profiles: Sequence[RankProfile]) -> Iterator[MatchedMessage]:
    """Messages between two ranks, without those of a rank to itself."""
    sent = {
        (profile.rank, send.peer, send.communicator, send.tag, send.sequence): send
        for profile in profiles
        for send in profile.sent
    }
    for profile in profiles:
        for receive in profile.received:
            key = (receive.peer, profile.rank, receive.communicator, receive.tag, receive.sequence)
            send = sent.get(key)
            if send is not None and receive.peer != profile.rank:
                yield MatchedMessage(receive.peer, profile.rank, send, receive)


def collective_calls(profiles: Sequence[RankProfile]) -> Iterator[CollectiveCall]:
    """Collective calls of two or more ranks."""
    communicators = {known.key: known for profile in profiles for known in profile.communicators}
    stamped: defaultdict[tuple[str, int], dict[int, Arrival]] = defaultdict(dict)
    for profile in profiles:
        for arrival in profile.arrivals:
            stamped[arrival.communicator, arrival.sequence][profile.rank] = arrival
    for (key, _), arrivals in stamped.items():
        names = {arrival.call for arrival in arrivals.values()}
        if key in communicators and len(names) == 1 and len(arrivals) == communicators[key].size > 1:
            yield CollectiveCall(names.pop(), communicators[key], arrivals)
