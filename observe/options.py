"""What `npc observe` asks of `npc.observe.rank`, and the companions that watch a rank from beside it.

Only the standard library, since `npc.observe.rank` has no other.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol


class Companion(Protocol):
    """Watches one rank, or all of a node's ranks, from a process of its own.

    It is made before the rank's process, which waits until `begin` has returned and then becomes the program.
    `end` is called once the program has ended, also by the process that stands by where `npc.observe.rank`
    was killed: it needs nothing but what the companion keeps in this object, and gives what goes under the
    companion's name into the rank's file. Whatever a companion starts ends with `npc.observe.rank`
    (`npc.processes.die_with_parent`), so that nothing stays attached.
    """

    def __init__(self, folder: Path, name: str, settings: Mapping[str, Any]) -> None:
        """folder, name: of the rank's files, ``FOLDER/NAME.*``, NAME is HOST.RANK."""

    @property
    def files(self) -> tuple[int, ...]:
        """Descriptors that `end` needs, also in another process; asked once `begin` has returned."""
        return ()

    def begin(self, process: int) -> None:
        """Attach to the process that is about to become the program."""
        return

    def become(self) -> None:
        """In the rank's own process, right before it becomes the program."""
        return

    def end(self) -> Any:
        """Detach; what was seen, as JSON holds it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompanionOptions:
    """A companion, as a Python without site packages can make it in a rank."""

    #: Dotted name of its module.
    module: str
    #: Its class there.
    name: str
    #: The folder from which Python imports that module; empty for NPC's own.
    folder: str = ""
    #: What it is made with, as JSON holds it.
    settings: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, kind: type[Companion], settings: Mapping[str, Any]) -> CompanionOptions:
        """Of a companion's class. All nodes have to see the folder of its package, as they do NPC's."""
        module = kind.__module__
        folder = ""
        if module.partition(".")[0] != __name__.partition(".")[0]:
            path = Path(str(sys.modules[module].__file__)).absolute()
            folder = str(path.parents[module.count(".") + (path.name == "__init__.py")])
        return cls(module=module, name=kind.__name__, folder=folder, settings=settings)

    def make(self, folder: Path, name: str) -> Companion:
        """The companion. folder, name: of the rank's files, ``FOLDER/HOST.RANK.*``."""
        if self.folder and self.folder not in sys.path:
            sys.path.append(self.folder)
        # imported only now: this runs once for every rank
        kind: type[Companion] = getattr(import_module(self.module), self.name)
        return kind(folder, name, self.settings)


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservationOptions:
    """What is observed of each rank. Empty: nothing."""

    #: Seconds to watch a node's ports before the program begins.
    background_s: float = 0.0
    #: A group of LIKWID's, whose FLOP the first rank of each node counts, or an event of PAPI's, which each
    #: rank counts itself.
    counters: str = ""
    #: By the name that each has in the rank's file.
    companions: Mapping[str, CompanionOptions] = field(default_factory=dict)

    def to_text(self) -> str:
        """One word of a command line."""
        return json.dumps(asdict(self))


def read_options(text: str) -> ObservationOptions:
    """What `ObservationOptions.to_text` wrote."""
    fields = json.loads(text)
    companions = {name: CompanionOptions(**options) for name, options in fields.pop("companions").items()}
    return ObservationOptions(companions=companions, **fields)
