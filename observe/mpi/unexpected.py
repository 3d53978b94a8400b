"""Messages that reached their rank before a receive was posted for them, and messages out of order.

MPI must keep an unexpected message in a buffer and search a queue for it later (Eberius, 2020, section 3.5).
Only MPI knows which messages these were; whether it counts them depends on how it was built. Without a count
there is an upper bound: a message whose receive was posted before it was sent was not unexpected. Which
messages the network delivered out of order cannot be seen from outside MPI.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import Final

from npc.observe.mpi.clocks import Clocks
from npc.observe.mpi.profile import RankProfile
from npc.observe.mpi.records import UnexpectedMessages
from npc.observe.mpi.waits import match_messages

#: Endings of the names of performance variables; the first one that an MPI has counts.
_COUNTED: Final = (
    "OMPI_SPC_UNEXPECTED",  # Open MPI with --enable-spc
    "mtl_psm2_rx_sysbuf_num",  # Omni-Path: messages that had to be buffered (psm2_mq.h)
)
_OUT_OF_SEQUENCE: Final = ("OMPI_SPC_OUT_OF_SEQUENCE",)
_QUEUES: Final = (
    "OMPI_SPC_MAX_UNEXPECTED_IN_QUEUE",
    "unexpected_recvq_length",  # MPICH with --enable-mpit-pvars
    "pml_ob1_unexpected_msgq_length",
)
_NOT_COUNTED: Final = (
    "this MPI does not count them, or was not asked (--mpit); npc doctor says how to get an MPI that does"
)


def unexpected_of(profiles: Sequence[RankProfile], clocks: Clocks | None = None) -> UnexpectedMessages:
    """What MPI's own variables and the moments of sends and receives tell. Profiles are of one run."""
    reasons = {}
    source, by_rank = _at_the_end(profiles, _COUNTED)
    _, disordered = _at_the_end(profiles, _OUT_OF_SEQUENCE)
    queue = _longest(profiles)
    known, possible = _bound(profiles, clocks or Clocks(profiles))
    if not source:
        reasons["counted"] = _NOT_COUNTED
    if not disordered:
        reasons["out_of_sequence"] = _NOT_COUNTED
    if queue is None:
        reasons["longest_queue"] = _NOT_COUNTED
    if not known:
        reasons["possible"] = "no message has both times, of its sending and of posting its receive"
    return UnexpectedMessages(
        source=source,
        counted=sum(by_rank.values()) if source else None,
        by_rank={rank: count for rank, count in sorted(by_rank.items()) if count},
        known=known,
        possible=possible if known else None,
        out_of_sequence=sum(disordered.values()) if disordered else None,
        longest_queue=queue,
        reasons=reasons,
    )


def _at_the_end(profiles: Sequence[RankProfile], endings: Sequence[str]) -> tuple[str, Counter[int]]:
    """The name of the variable and its last value in each rank that has it."""
    for ending in endings:
        counts: Counter[int] = Counter()
        names = {name for name in _names(profiles) if name.endswith(ending)}
        for profile in profiles:
            for name in names & set(profile.snapshots[-1].values if profile.snapshots else ()):
                counts[profile.rank] += int(profile.snapshots[-1].values[name])
        if counts:
            return min(names), counts
    return "", Counter()


def _longest(profiles: Sequence[RankProfile]) -> int | None:
    names = {name for name in _names(profiles) if name.endswith(_QUEUES)}
    unexpected = [
        snapshot.values[name]
        for profile in profiles
        for snapshot in profile.snapshots
        for name in names & set(snapshot.values)
    ]
    return int(max(unexpected)) if unexpected else None


def _names(profiles: Sequence[RankProfile]) -> set[str]:
    return {variable.name for profile in profiles for variable in profile.variables}


def _bound(profiles: Sequence[RankProfile], clocks: Clocks) -> tuple[int, int]:
    """Number of messages with both times, of sending and of posting the receive; how many of them can have
    come before their receive, given the clocks' error."""
    known = possible = 0
    for match_message in match_messages(profiles, clocks)[0]:
        error = clocks.error(match_message.source, match_message.target)
        if match_message.receive.posted is None or error == math.inf:
            continue
        known += 1
        posted = clocks.moment(match_message.target, match_message.receive.posted)
        possible += posted + error >= clocks.moment(match_message.source, match_message.send.entered)
    return known, possible
