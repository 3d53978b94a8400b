"""What went on inside MPI, as readings."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, Final

from npc.records.mpi_profile import profile_of
from npc.records.reading import OK, Reading
from npc.records.series import OBSERVED

#: Calls that take less of the ranks' time have no record of it.
_LEAST_SHARE: Final = 0.001
#: POP's efficiencies, by their names in a profile.
_EFFICIENCIES: Final = {
    "parallel": "parallel", "load_balance": "load balance", "communication": "communication",
}  # fmt: skip


def readings(document: dict[str, Any]) -> Iterator[Reading]:
    """The calls of collectives by the algorithm that they ran by; seconds inside MPI, in all and by call, as
    the mean of the ranks; POP's efficiencies."""
    profile, ranks = profile_of(document), str(document["ranks"])
    if profile is None:
        return
    for ran in profile.algorithms.ran if profile.algorithms else ():
        params = {"layer": "mpi algorithms", "kind": ran.operation, "communicator": str(ran.ranks)}
        params |= {"ranks": ranks, "algorithm": " or ".join(ran.algorithms)}
        params |= {} if ran.last is None else {"largest_size": str(ran.last)}
        yield Reading(OBSERVED, "messages", ran.calls, ran.first, OK, params)
    if not profile.ranks:
        return
    number = len(profile.ranks)
    inside = math.fsum(each.mpi for each in profile.ranks) / number
    yield Reading(OBSERVED, "time", inside, None, OK, {"layer": "mpi", "part": "inside MPI", "ranks": ranks})
    for name, each in profile.by_call.items():
        if each / number >= _LEAST_SHARE * profile.seconds:
            params = {"layer": "mpi", "part": "in calls", "kind": name, "ranks": ranks}
            yield Reading(OBSERVED, "time", each / number, None, OK, params)
    for name, kind in _EFFICIENCIES.items():
        value = getattr(profile.efficiency, name, None)
        if value is not None:
            yield Reading(
                OBSERVED, "efficiency", value, None, OK, {"layer": "mpi", "kind": kind, "ranks": ranks}
            )
