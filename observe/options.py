"""What `npc observe` asks of `npc.observe.rank`, and the companions that watch a rank from beside it.

Only the standard library, since `npc.observe.rank` has no other.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservationOptions:
    """background_s: seconds to watch a node's ports before the program begins.

    counters: a group of LIKWID's, whose FLOP the first rank of each node counts, or an event of PAPI's, which
    each rank counts itself. settings: variables of the program's environment. library: what is put before the
    program to count its MPI calls (`npc.observe.mpi.build`). companions: settings by the name of the
    companion (`npc.observe.companions`). Empty: nobody asked.
    """

    background_s: float = 0.0
    counters: str = ""
    settings: Mapping[str, str] = field(default_factory=dict)
    library: str = ""
    companions: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def to_text(self) -> str:
        """One word of a command line."""
        return json.dumps(asdict(self))


def read_options(text: str) -> ObservationOptions:
    """What `ObservationOptions.to_text` wrote."""
    return ObservationOptions(**json.loads(text))


class Companion(Protocol):
    """Watches one rank, or all of a node's ranks, from a process of its own.

    It is made before the rank's process, which waits until `begin` has returned and then becomes the program.
    `end` is called once the program has ended, also by the process that stands by where `npc.observe.rank`
    was killed: it needs nothing but what the companion keeps in this object, and gives what goes under the
    companion's name into the rank's file. Whatever a companion starts ends with `npc.observe.rank`
    (`npc.machine.processes.die_with_parent`), so that nothing stays attached.
    """

    @property
    def files(self) -> tuple[int, ...]:
        """Descriptors that `end` needs, also in another process; asked once `begin` has returned."""
        return ()

    def begin(self, process: int) -> None:
        """Attach to the process that is about to become the program."""

    def become(self) -> None:
        """In the rank's own process, right before it becomes the program."""
        return

    def end(self) -> dict[str, Any] | None:
        """Detach; what was seen."""
