"""Others that computed on the same machine."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from npc.records.record import Record
from npc.validity.rule import Circumstances, rule

#: Half of the CPUs taken by others: what uses all of them gets the rest, or waits for its slowest part.
_TOO_MUCH: Final = 0.5
#: A process that always computes gets half of a CPU or more beside one that does so as well (sched(7): equal
#: shares). All CPUs count as used from nine tenths on: a launch also starts, ends and waits.
_COMPETES: Final = 0.5
_USED: Final = 0.9
_SOURCE: Final = (
    "proc(5), utime and stime of all processes just before the job and during each launch; sched(7), equal "
    "shares; Hoefler, Belli, SC'15, rule 9 (document the experimental setup), Petrini et al., SC'03 (noise "
    "of a single core shows in collectives)"
)


class _Busy(NamedTuple):
    """Others on one node: when they were seen, the cores that they used, of how many CPUs, the busiest.

    own: cores that the launch used, 0 where that is not known.
    """

    when: str
    cores: float
    cpus: int
    names: str
    own: float

    @property
    def too_much(self) -> bool:
        """Whether the launch had to wait for them."""
        full = self.own + self.cores >= _USED * self.cpus and self.cores >= _COMPETES
        return full or self.cores >= _TOO_MUCH * self.cpus

    def __str__(self) -> str:
        return f"others used {self.cores:.1f} of the {self.cpus} CPUs {self.when}"


@rule("loaded", "a machine that others used", _SOURCE)
def loaded(records: Sequence[Record], circumstances: Circumstances) -> Iterator[tuple[int, str]]:
    """Processes seen computing before the job or during the launch, on half of the CPUs or more, or on half
    of one while launch and others together used all.
    """
    for place, busy in _busy(records, circumstances):
        if busy.too_much:
            also = f", the launch {busy.own:.1f}" if busy.own else ""
            yield place, f"{busy}{also}: {busy.names}; measure without them"


@rule("disturbed", "somebody else's process beside the benchmark", _SOURCE, level="note")
def disturbed(records: Sequence[Record], circumstances: Circumstances) -> Iterator[tuple[int, str]]:
    """The same, on fewer CPUs: enough to widen intervals."""
    for place, busy in _busy(records, circumstances):
        yield place, f"{busy}: {busy.names}"


def _busy(records: Sequence[Record], circumstances: Circumstances) -> Iterator[tuple[int, _Busy]]:
    """What is known of others beside each record."""
    for place, record in enumerate(records):
        cpus = circumstances.environment(record, "cpu", "threads")
        launch = circumstances.launches.get(record.raw)
        during = (launch.load if launch else None) or {}
        before = circumstances.environment(record, "load", "busy")
        for when, seen, own in (
            ("just before", before, 0.0),
            ("meanwhile", during.get("others"), during.get("cores", 0.0)),
        ):
            if seen and cpus:
                names = ", ".join(f"{entry['name']} {entry['cores']:.0%}" for entry in seen[:3])
                yield place, _Busy(when, sum(entry["cores"] for entry in seen), cpus, names, own)
