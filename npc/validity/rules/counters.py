"""Counters of errors, losses and congestion that rose while something was measured."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from npc import catalogue
from npc.records.record import Record
from npc.records.series import INTERFACE, MOVED
from npc.validity.moved import CounterIncrease, notable_increases
from npc.validity.rule import Circumstances, rule

#: A record's mark names so many counters at most; launches.jsonl has all.
MARKED: Final = 6
_WITHIN_NODES: Final = frozenset(("memory", "compute", "noise", "gpu"))
#: Owners that are no part of the network.
_OF_NODE: Final = ("cpu ", "mc")


def beside(record: Record, circumstances: Circumstances) -> list[CounterIncrease]:
    """The counters that rose while a record was measured and that matter to it.

    Those of the node always do. Those of the network do not matter to memory, computing, noise and GPUs.
    Where the record names a card, other cards do not matter.
    """
    launch = circumstances.launches.get(record.raw)
    network = catalogue.row_of(record).layer not in _WITHIN_NODES
    cards, named = _cards(record, circumstances), record.params.get(INTERFACE)
    others = cards - {named} if named in cards else set()
    return [
        increase
        for increase in notable_increases(launch.moved if launch else None)
        if increase.name.startswith(_OF_NODE) or (network and increase.name.split()[0] not in others)
    ]


def _cards(record: Record, circumstances: Circumstances) -> set[str]:
    """The node's interfaces that are up and no bridge, bond or the like."""
    cards = (entry for entry in circumstances.entries(record, "interfaces") if entry.get("driver"))
    return {str(card.get("name")) for card in cards if card.get("state") != "down"}


def _breaks(moved: CounterIncrease, record: Record, circumstances: Circumstances) -> bool:
    """Whether something was gone that was surely needed; of several cards that is only the one that the
    record names."""
    owner = moved.name.partition(" ")[0]
    if moved.means != "down" or "/" in owner or moved.name.startswith(_OF_NODE):
        return moved.means == "down"
    named, cards = record.params.get(INTERFACE), _cards(record, circumstances)
    return owner == named if named in cards else cards <= {owner}


def marks(records: Sequence[Record], circumstances: Circumstances) -> dict[int, str]:
    """By the place of a record its mark, the parameter ``moved``: ``n07 mlx5_0/1 symbol_error 412; …``."""
    increases = {place: beside(record, circumstances) for place, record in enumerate(records)}
    return {
        place: "; ".join(increase.short for increase in rose[:MARKED])
        for place, rose in increases.items()
        if rose
    }


@rule(
    "link_down",
    "a link that was down, or memory that lost data, while it was measured",
    "InfiniBand Architecture Specification vol. 1, 16.1.3.5, LinkDownedCounter; kernel, "
    "ABI/testing/sysfs-class-net: carrier_down_count, admin-guide/ras.rst: uncorrected errors",
)
def link_down(record: Record, circumstances: Circumstances) -> Iterator[str]:
    """Counters that say that something was gone: part of the time nothing was measured, or it is wrong."""
    rose = beside(record, circumstances)
    if down := [increase for increase in rose if _breaks(increase, record, circumstances)]:
        yield f"{down[0]} meanwhile"


@rule(
    MOVED,
    "errors, losses or congestion while it was measured",
    "npc/machine/counters.py names their manuals; losses: 0.1 % of the packets (Mathis et al., 1997)",
    level="note",
)
def moved(record: Record, circumstances: Circumstances) -> Iterator[str]:
    """All others; or what the record's mark says, where the files of its launch are gone."""
    rose = beside(record, circumstances)
    if rose:
        yield f"meanwhile on {'; '.join(map(str, rose[:MARKED]))}"
    elif MOVED in record.params and record.raw not in circumstances.launches:
        yield f"meanwhile rose {record.params[MOVED]}"
