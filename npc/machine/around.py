"""What a node looks at just before and just after each launch: the one place, for ``npc records sample`` and
``npb``.

Another source is a class like `StartedObservation` and a line in `SOURCES`; it fills the field of that name
of `npc.records.launch.Launch`. Looks lie outside of what is timed, they start no process that stays, and
between them nothing runs.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Final, NamedTuple, Protocol, TypeAlias

from npc.machine import energy, load
from npc.machine.counters import CounterIncreases, by_host

#: What one node saw: by field of a launch something for JSON, None where it could not look.
Seen: TypeAlias = Mapping[str, Any]


class StartedObservation(Protocol):
    """Made just before a launch."""

    def seen(self, own: Collection[int]) -> Any:
        """What was seen since it was made, for JSON; asked once. own: processes of the launch that go on."""


class Observer(NamedTuple):
    """look: makes one on a node. join: from (host, what was seen there) of the launch's nodes, the server's
    first, to the launch's field; None where nobody could look. Two of one host are npb's two agents there."""

    look: Callable[[], StartedObservation]
    join: Callable[[Sequence[tuple[str, Any]]], Any]


#: By field of a launch. The last one looks closest to the launch.
SOURCES: Final[Mapping[str, Observer]] = {
    "moved": Observer(CounterIncreases, by_host),
    "energy": Observer(energy.Energy, energy.by_host),
    "load": Observer(load.LoadDuringLaunch, load.busiest),
}


class LaunchObservations:
    """All looks of one node around one launch, which begins when this is made."""

    def __init__(self) -> None:
        self._looks = {field: source.look() for field, source in SOURCES.items()}

    def seen(self, own: Collection[int] = ()) -> Seen:
        """What was seen by now, when the launch has just ended; `own` as of `StartedObservation.seen`."""
        return {field: look.seen(own) for field, look in reversed(self._looks.items())}


def join(nodes: Sequence[tuple[str, Seen | None]]) -> dict[str, Any]:
    """The fields of a launch of what its nodes saw, (host, seen) of each; nothing where one did not look."""
    found: dict[str, Any] = {}
    for field, source in SOURCES.items():
        each = [(host, seen.get(field)) for host, seen in nodes if seen is not None]
        found[field] = source.join(each) if each and len(each) == len(nodes) else None
    return found
