"""Others that computed on the same machine."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from npc.record import Record
from npc.validity import Circumstances, rule

#: Half of the CPUs taken by others: what uses all of them gets the rest, or waits for its slowest part.
_TOO_MUCH: Final = 0.5
_SOURCE: Final = (
    "proc(5), utime and stime of all processes just before the job; Hoefler, Belli, SC'15, rule 9 "
    "(document the experimental setup), Petrini et al., SC'03 (noise of a single core shows in collectives)"
)


@rule("loaded", "a machine that others used", _SOURCE)
def loaded(records: Sequence[Record], circumstances: Circumstances) -> Iterator[tuple[int, str]]:
    """Processes seen computing before the job began, on half of the CPUs or more."""
    for place, cores, cpus, names in _busy(records, circumstances):
        if cores >= _TOO_MUCH * cpus:
            yield (
                place,
                f"others used {cores:.1f} of the {cpus} CPUs just before: {names}; measure without them",
            )


@rule("disturbed", "somebody else's process beside the benchmark", _SOURCE, level="note")
def disturbed(records: Sequence[Record], circumstances: Circumstances) -> Iterator[tuple[int, str]]:
    """The same, on fewer CPUs: enough to widen intervals."""
    for place, cores, cpus, names in _busy(records, circumstances):
        yield place, f"others used {cores:.1f} of the {cpus} CPUs just before: {names}"


def _busy(records: Sequence[Record], circumstances: Circumstances) -> Iterator[tuple[int, float, int, str]]:
    """(place, cores that others used, CPUs there are, the busiest by name) of records on such a machine."""
    for place, record in enumerate(records):
        busy: list[dict[str, Any]] = circumstances.environment(record, "load", "busy") or []
        cpus = circumstances.environment(record, "cpu", "threads")
        if busy and cpus:
            names = ", ".join(f"{entry['name']} {entry['cores']:.0%}" for entry in busy[:3])
            yield place, sum(entry["cores"] for entry in busy), cpus, names
