"""What the probes of a run are told.

Everybody on a node can read command lines, so what nobody else may know goes by a file in the ranks' folder.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, TypedDict

from npc import own_folder
from npc.observe.probes.catalogue import read_wanted

#: What the keeper leaves, by its suffix, and the mark of what it has not finished
#: (`npc.observe.rank.RUNNING`).
PROBES: Final = "probes"
UNFINISHED: Final = f"{PROBES}.running"
#: Seconds of a timer that nobody else sets: 32 years and more.
_TOKENS: Final = range(10**9, 2 * 10**9)
_TOKEN: Final = f"{PROBES}.token"


class Settings(TypedDict):
    """What the keeper of a node is given."""

    #: As they were asked for.
    probes: list[str]
    #: The word of the command that names it.
    program: str
    #: Share of a rank's time that a probe may take, 0.02 for 2 %; None: whatever it takes.
    overhead: float | None
    #: Seconds of one event by its kind (`npc.observe.probes.costs`); empty where they are not known.
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
        probes=list(dict.fromkeys(probes)),
        program=program,
        overhead=overhead,
        costs=costs or {},
    )


def keep_token(folder: Path) -> None:
    """Choose the number by which this run's ranks and their keepers know each other, and leave it in the
    ranks' folder. Raises OSError."""
    own_folder.save(folder / _TOKEN, [str(random.SystemRandom().choice(_TOKENS)).encode()])


def read_token(folder: Path) -> int:
    """The number that `keep_token` left. Raises OSError, and ValueError where it is no number."""
    return int((folder / _TOKEN).read_bytes())
