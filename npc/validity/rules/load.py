"""Others that computed on the same machine."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from npc import catalogue
from npc.machine.load import HYPERVISOR
from npc.records.record import Record
from npc.records.series import DISTURBED
from npc.validity.rule import Circumstances, rule

#: Share of the CPUs that is too much for others: a launch on all CPUs gets the rest, or waits for its slowest
#: part.
_TOO_MUCH: Final = 0.5
#: A process that always computes gets half of a CPU or more beside one that does so as well (sched(7): equal
#: shares). All CPUs count as used from nine tenths on: a launch also starts, ends and waits.
_COMPETES: Final = 0.5
_USED: Final = 0.9
#: Share of the CPUs that is noted: a launch on all CPUs loses the share that others take, and 2 % is the
#: least difference that `npc compare` reports (``--least``). A daemon that wakes up now and then takes less.
_NOTICED: Final = 0.02
_SOURCE: Final = (
    "proc(5), utime and stime of all processes and steal of all CPUs, just before the job and during each "
    "launch; sched(7), equal shares; Hoefler, Belli, SC'15, rule 9 (document the experimental setup), "
    "Petrini et al., SC'03 (noise of a single core shows in collectives)"
)


class _Busy(NamedTuple):
    """Others that computed on a node of the launch: processes, and the hypervisor."""

    #: When they were seen, in words: ``just before`` the job or ``meanwhile``.
    when: str
    #: How many cores they used, on average.
    cores: float
    #: How many of these cores the hypervisor took for other guests.
    stolen: float
    #: Number of CPUs (hardware threads) of a node.
    cpus: int
    #: The busiest three in words, each with its cores in percent.
    names: str
    #: How many cores the launch itself used, on average; 0 where that is not known.
    own: float

    @property
    def too_much(self) -> bool:
        """Whether the launch had to wait for them."""
        full = self.own + self.cores >= _USED * self.cpus and self.cores >= _COMPETES
        return full or self.share >= _TOO_MUCH

    @property
    def share(self) -> float:
        """The share of the CPUs that they took. What the hypervisor took was wanted at that moment: it counts
        as a share of what the launch and the others used, however many CPUs were idle."""
        of_all = self.cores / self.cpus
        return max(of_all, self.stolen / (self.own + self.cores)) if self.own else of_all

    def __str__(self) -> str:
        return f"others used {self.cores:.1f} of the {self.cpus} CPUs {self.when}"


@rule("loaded", "a machine that others used", _SOURCE)
def loaded(record: Record, circumstances: Circumstances) -> Iterator[str]:
    """Processes seen computing before the job or during the launch, on half of the CPUs or more, or on half
    of one while launch and others together used all.
    """
    for busy in _busy(record, circumstances):
        if busy.too_much:
            also = f", the launch {busy.own:.1f}" if busy.own else ""
            yield f"{busy}{also}: {busy.names}; measure without them"


@rule(DISTURBED, "a machine that others used a little", _SOURCE, level="note")
def disturbed(record: Record, circumstances: Circumstances) -> Iterator[str]:
    """The same, on fewer CPUs: enough to make a difference of its own; or what the record's mark says, where
    the files of its launch are gone.
    """
    noticed = [busy for busy in _busy(record, circumstances) if busy.share >= _NOTICED]
    for busy in noticed:
        yield f"{busy}: {busy.names}"
    if not noticed and DISTURBED in record.params:
        yield f"others took {record.params[DISTURBED]} of the CPUs; who is not known any more"


def shares_taken(records: Sequence[Record], circumstances: Circumstances) -> dict[int, float]:
    """By the place of a record the share of the CPUs that others took, where it is enough for a note."""
    most = (max((busy.share for busy in _busy(record, circumstances)), default=0.0) for record in records)
    return {place: share for place, share in enumerate(most) if share >= _NOTICED}


def _busy(record: Record, circumstances: Circumstances) -> Iterator[_Busy]:
    """What is known of others beside a record."""
    if catalogue.row_of(record).layer == "noise":  # others are what it measures
        return
    cpus = circumstances.environment(record, "cpu", "threads")
    launch = circumstances.launches.get(record.raw)
    during = (launch.load if launch else None) or {}
    before = circumstances.environment(record, "load", "busy")
    for when, others, own in (
        ("just before", before, 0.0),
        ("meanwhile", during.get("others"), during.get("cores", 0.0)),
    ):
        if others and cpus:
            names = ", ".join(f"{_who(entry)} {entry['cores']:.0%}" for entry in others[:3])
            cores = sum(entry["cores"] for entry in others)
            stolen = sum(entry["cores"] for entry in others if entry["name"] == HYPERVISOR)
            yield _Busy(when, cores, stolen, cpus, names, own)


def _who(entry: Mapping[str, Any]) -> str:
    """A process, and the node that it was on where the launch had several."""
    return f"{entry['name']} on {entry['host']}" if "host" in entry else str(entry["name"])
