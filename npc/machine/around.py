"""What is read on a node just before and just after each launch, for ``npc records sample`` and ``npb``.

Another source is a class like `StartedObservation` and a line in `SOURCES`; its result is the field of that
name of `npc.records.launch.Launch`. The readings are outside of the time that is measured. They leave no
process behind, and nothing runs between them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Final, NamedTuple, Protocol, TypeAlias

from npc.machine import energy, load
from npc.machine.counters import CounterIncreases, by_host

#: Results of one node: by field of a launch something for JSON, None where it could not look.
NodeResults: TypeAlias = Mapping[str, Any]


class StartedObservation(Protocol):
    """An observation of a node, which begins when it is made, just before a launch."""

    def result(self, own: Collection[int]) -> Any:
        """What was observed since it was made, for JSON; called once.

        own: processes of the launch that go on.
        """


class Observer(NamedTuple):
    """How a field of a launch is filled."""

    #: Begins to observe, on a node.
    look: Callable[[], StartedObservation]
    #: Makes the field from (host, result) of the launch's nodes, the server's first; None where nobody could
    #: look. Two results of one host are those of npb's two agents there.
    join: Callable[[Sequence[tuple[str, Any]]], Any]


#: Field of a launch → its observer. They begin in this order and end in the opposite one, so the last one is
#: closest to the launch.
SOURCES: Final[Mapping[str, Observer]] = {
    "moved": Observer(CounterIncreases, by_host),
    "energy": Observer(energy.Energy, energy.by_host),
    "load": Observer(load.LoadDuringLaunch, load.busiest),
}


class LaunchObservations:
    """All observations of one node around one launch. They begin when this is made."""

    def __init__(self) -> None:
        self._looks = {field: source.look() for field, source in SOURCES.items()}

    def result(self, own: Collection[int] = ()) -> NodeResults:
        """What was observed; called when the launch has just ended. own: as in `StartedObservation`."""
        return {field: look.result(own) for field, look in reversed(self._looks.items())}


def join(nodes: Sequence[tuple[str, NodeResults | None]]) -> dict[str, Any]:
    """The fields of a launch from (host, results) of its nodes; each is None where one of the nodes did not
    look."""
    fields: dict[str, Any] = {}
    for field, source in SOURCES.items():
        values = [(host, observations.get(field)) for host, observations in nodes if observations is not None]
        fields[field] = source.join(values) if values and len(values) == len(nodes) else None
    return fields
