"""What the probes of a run are told."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Final, TypedDict

from observe.probes.catalogue import read_wanted

#: What the keeper leaves, by its suffix, and the mark of what it has not finished (`observe.rank.RUNNING`).
PROBES: Final = "probes"
UNFINISHED: Final = f"{PROBES}.running"
#: Seconds of a timer that nobody else sets: 32 years and more.
_TOKENS: Final = range(10**9, 2 * 10**9)


class Settings(TypedDict):
    """token: tells this run's ranks from those of others; probes: as they were asked for; program: the word
    that names it; overhead: share of the ranks' time that watching may take, None: whatever it takes; costs:
    seconds of one event by its kind, empty where they are not known."""

    token: int
    probes: list[str]
    program: str
    overhead: float | None
    costs: Mapping[str, float]


def settings_of(
    probes: Sequence[str],
    program: str,
    overhead: float | None = None,
    costs: Mapping[str, float] | None = None,
) -> Settings:
    """Those of one run. Raises ValueError for a probe that there is not."""
    for what in probes:
        read_wanted(what)
    return Settings(
        token=random.SystemRandom().choice(_TOKENS),
        probes=list(dict.fromkeys(probes)),
        program=program,
        overhead=overhead,
        costs=costs or {},
    )
