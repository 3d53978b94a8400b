"""What went on inside MPI, as readings."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, Final

from npc.observe.mpi.records import PROFILE, Profile, operation, profile_of
from npc.records.reading import OK, Reading
from npc.records.series import OBSERVED

#: Its part of an observation, which has collectives also by the size of their communicators.
COLLECTIVES: Final = PROFILE
#: Calls that take a smaller share of the ranks' time have no record of their time.
_LEAST_SHARE: Final = 0.001
#: POP's efficiencies, by their names in a profile.
_EFFICIENCIES: Final = {
    "parallel": "parallel", "load_balance": "load balance", "communication": "communication",
}  # fmt: skip


def readings(document: dict[str, Any]) -> Iterator[Reading]:
    """Calls of collectives by size of communicator and by algorithm; seconds inside MPI, in all and by
    call, as means over the ranks; POP's efficiencies."""
    profile, ranks = profile_of(document), str(document["ranks"])
    if profile is None:
        return
    if document["messages"]:
        yield from _collectives(profile, ranks)
    for ran in profile.algorithms.ran if profile.algorithms else ():
        params = {"layer": "mpi algorithms", "kind": ran.operation, "communicator": str(ran.ranks)}
        params |= {"ranks": ranks, "algorithm": " or ".join(ran.algorithms)}
        params |= {} if ran.last is None else {"largest_size": str(ran.last)}
        yield Reading(OBSERVED, "messages", ran.calls, ran.first, OK, params)
    if not profile.ranks:
        return
    number = len(profile.ranks)
    inside = math.fsum(rank.mpi for rank in profile.ranks) / number
    yield Reading(OBSERVED, "time", inside, None, OK, {"layer": "mpi", "part": "inside MPI", "ranks": ranks})
    for name, totals in profile.by_call.items():
        if totals / number >= _LEAST_SHARE * profile.seconds:
            params = {"layer": "mpi", "part": "in calls", "kind": name, "ranks": ranks}
            yield Reading(OBSERVED, "time", totals / number, None, OK, params)
    for name, kind in _EFFICIENCIES.items():
        value = getattr(profile.efficiency, name, None)
        if value is not None:
            yield Reading(
                OBSERVED, "efficiency", value, None, OK, {"layer": "mpi", "kind": kind, "ranks": ranks}
            )


def _collectives(profile: Profile, ranks: str) -> Iterator[Reading]:
    """Calls of collectives, one for each rank that took part, with their bytes, by operation and by the size
    of their communicator."""
    totals: dict[tuple[str, int], tuple[int, int]] = {}
    for call in profile.calls:
        name = operation(call.call)
        if name and call.members > 1:
            size, number = totals.get((name, call.members), (0, 0))
            totals[name, call.members] = (size + call.bytes, number + call.calls)
    for (name, members), (size, number) in totals.items():
        params = {"layer": "mpi collectives", "kind": name, "ranks": ranks, "communicator": str(members)}
        yield Reading(OBSERVED, "traffic", size, None, OK, params)
        yield Reading(OBSERVED, "messages", number, None, OK, params)
