"""Counters of errors, losses and congestion that rose while something was measured."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from npc import catalogue
from npc.machine.counters import Meaning, meaning
from npc.records.record import Record
from npc.records.series import INTERFACE, MOVED
from npc.validity.rule import Circumstances, rule

#: Packets lost or sent again, as a share of all, from which on TCP's rate is told: at 0.1 % of losses, 1460
#: bytes a segment and 1 ms round trip one connection has 1460 B / 1 ms × sqrt(3/2 / 0.001) = 57 MB/s at most
#: (Mathis, Semke, Mahdavi, Ott, "The macroscopic behavior of the TCP congestion avoidance algorithm", 1997).
LOST: Final = 0.001
#: Of fewer packets a share says nothing: on a management network frames that nobody wants count as dropped.
FEWEST: Final = 1000
#: Ticks in which a port had to wait, for each word (4 bytes) that it sent. Any busy port waits a little.
WAITED: Final = 0.1
#: Counters of a record's mark, at most; launches.jsonl has all.
MARKED: Final = 6
_WITHIN_NODES: Final = frozenset(("memory", "compute", "noise"))
#: Owners that are no part of the network.
_OF_NODE: Final = ("cpu ", "mc")
_GRAVE_FIRST: Final[Sequence[Meaning]] = ("down", "error", "throttling", "loss", "congestion")


class Moved(NamedTuple):
    """A counter that rose by enough to be told. traffic: the packets that it is held against, 0 for none."""

    host: str
    name: str
    by: int
    means: Meaning
    traffic: int = 0

    @property
    def short(self) -> str:
        """``n07 mlx5_0/1 symbol_error 412``."""
        return f"{self.host} {self.name} {self.by}"

    def __str__(self) -> str:
        of = f" ({self.by / self.traffic:.2%} of {self.traffic} packets)" if self.traffic else ""
        return f"{self.host}: {self.name} rose by {self.by}{of}"


def told(moved: Mapping[str, Mapping[str, int]] | None) -> list[Moved]:
    """What is worth a word of what rose during a launch (its field ``moved``), the gravest first.

    All but a few losses (RDMA loses nothing in a sound network; elsewhere `LOST` of the packets are told) and
    a busy port's usual waiting.
    """
    found = []
    for host, counters in (moved or {}).items():
        for name, by in counters.items():
            means, owner = meaning(name), name.partition(" ")[0]
            # of what came in and what went out the larger: acknowledgements are a few
            traffic = (
                count
                for other, count in counters.items()
                if other.startswith(f"{owner} ") and meaning(other) == "traffic" and "data" not in other
            )
            packets = max(traffic, default=0)
            if means is None or means == "traffic":
                continue
            if name.endswith("port_xmit_wait"):
                if by >= WAITED * counters.get(f"{owner} port_xmit_data", 0):
                    found.append(Moved(host, name, by, means))
            elif means == "loss" and "/" not in owner:
                if packets >= FEWEST and by >= LOST * packets:
                    found.append(Moved(host, name, by, means, packets))
            else:
                found.append(Moved(host, name, by, means))
    return sorted(found, key=lambda each: _GRAVE_FIRST.index(each.means))


def beside(record: Record, circumstances: Circumstances) -> list[Moved]:
    """What rose while a record was measured and has to do with it: the node's own in any case; the network's
    unless it is of memory or compute, of interfaces only the one that it names, if that is a card."""
    launch = circumstances.launches.get(record.raw)
    network = catalogue.row_of(record).layer not in _WITHIN_NODES
    seen = circumstances.environment(record, "interfaces") or ()
    cards = {each.get("name"): each.get("driver") for each in seen if isinstance(each, dict)}
    named = record.params.get(INTERFACE)
    others = cards.keys() - {named, "lo"} if named and cards.get(named) else set()
    return [
        each
        for each in told(launch.moved if launch else None)
        if each.name.startswith(_OF_NODE) or (network and each.name.split()[0] not in others)
    ]


def marks(records: Sequence[Record], circumstances: Circumstances) -> dict[int, str]:
    """By the place of a record its mark, the parameter ``moved``: ``n07 mlx5_0/1 symbol_error 412; …``."""
    found = {place: beside(record, circumstances) for place, record in enumerate(records)}
    return {place: "; ".join(each.short for each in rose[:MARKED]) for place, rose in found.items() if rose}


@rule(
    "link_down",
    "a link that was down, or memory that lost data, while it was measured",
    "InfiniBand Architecture Specification vol. 1, 16.1.3.5, LinkDownedCounter; kernel, "
    "ABI/testing/sysfs-class-net: carrier_down_count, admin-guide/ras.rst: uncorrected errors",
)
def link_down(records: Sequence[Record], circumstances: Circumstances) -> Iterator[tuple[int, str]]:
    """Counters that say that something was gone: part of the time nothing was measured, or it is wrong."""
    for place, record in enumerate(records):
        if down := [each for each in beside(record, circumstances) if each.means == "down"]:
            yield place, f"{down[0]} meanwhile"


@rule(
    MOVED,
    "errors, losses or congestion while it was measured",
    "npc/machine/counters.py names their manuals; losses: 0.1 % of the packets (Mathis et al., 1997)",
    level="note",
)
def moved(records: Sequence[Record], circumstances: Circumstances) -> Iterator[tuple[int, str]]:
    """All others; or what the record's mark says, where the files of its launch are gone."""
    for place, record in enumerate(records):
        rose = beside(record, circumstances)
        if rose:
            yield place, f"meanwhile on {'; '.join(map(str, rose[:MARKED]))}"
        elif MOVED in record.params and record.raw not in circumstances.launches:
            yield place, f"meanwhile rose {record.params[MOVED]}"
