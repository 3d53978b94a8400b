"""What a program's hottest loop allows it at most, by its machine code (`npc observe --hotspots`).

A point is FLOP/s a node over FLOP per byte that the loop's instructions load and store: if all of the node's
cores in use did nothing but this loop, with all data in the first cache, at the clock that was measured. Two
bounds: what the execution ports allow, and what the longest chain of dependencies allows.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import NamedTuple

from npc.records.record import Record
from npc.records.series import HOT_LOOP
from npc.records.units import format_quantity, plural


class HotLoop(NamedTuple):
    """A loop: of one iteration its FLOP, bytes, cycles by ports and by dependencies.

    function: with its module; place: a line of its source, or an address. share: of all samples. cores: of a
    node that were in use.
    """

    function: str
    place: str
    model: str
    precision: str
    share: float
    cores: int
    clock_hz: float
    flop: float
    bytes: float
    port_cycles: float
    chain_cycles: float

    @property
    def intensity(self) -> float:
        """FLOP per byte loaded and stored."""
        return self.flop / self.bytes

    @property
    def by_ports(self) -> float:
        """FLOP/s a node that the execution ports allow."""
        return self.cores * self.flop * self.clock_hz / self.port_cycles

    @property
    def by_dependencies(self) -> float | None:
        """FLOP/s a node that the dependencies allow; None where none goes from iteration to iteration."""
        return self.cores * self.flop * self.clock_hz / self.chain_cycles if self.chain_cycles else None

    @property
    def flops(self) -> float:
        """FLOP/s a node that both allow."""
        return min(self.by_ports, self.by_dependencies or self.by_ports)

    @property
    def holds(self) -> str:
        """Which of them is the lower."""
        return "execution ports" if self.flops == self.by_ports else "dependencies"

    @property
    def text(self) -> str:
        """Its two bounds in words."""
        chain = self.by_dependencies
        allowed = f"{format_quantity(self.by_ports, 'FLOP/s', 3)} by execution ports"
        if chain is not None:
            allowed += f" and {format_quantity(chain, 'FLOP/s', 3)} by dependencies"
        clock = format_quantity(self.clock_hz, "Hz", 3)
        return f"{allowed} on {plural(self.cores, 'core')} at {clock}"

    def times(self, nodes: int) -> HotLoop:
        """On this number of nodes together."""
        return self._replace(cores=self.cores * nodes)


def hottest(launch: Iterable[Record]) -> HotLoop | None:
    """The loop with the largest share of a launch's samples that has FLOP and bytes; None without one."""
    found: defaultdict[str, dict[str, Record]] = defaultdict(dict)
    for record in launch:
        if record.case == HOT_LOOP and record.value:
            part = record.params.get("part", "")
            name = f"{part} {record.metric}" if record.metric == "cycles" else record.metric
            found[record.params.get("kind", "")][name] = record
    loops = [_loop(function, records) for function, records in found.items()]
    return max((loop for loop in loops if loop is not None), key=lambda loop: loop.share, default=None)


def _loop(function: str, records: dict[str, Record]) -> HotLoop | None:
    values = {name: record.value or 0.0 for name, record in records.items()}
    if not {"flop", "traffic", "clock", "ports cycles"} <= values.keys():
        return None
    params = records["flop"].params
    try:
        share, cores = float(params["share"]), int(params["cores"])
    except (KeyError, ValueError):
        return None
    return HotLoop(
        function=function,
        place=params.get("loop", ""),
        model=params.get("model", ""),
        precision=params.get("precision", "double"),
        share=share,
        cores=cores,
        clock_hz=values["clock"],
        flop=values["flop"],
        bytes=values["traffic"],
        port_cycles=values["ports cycles"],
        chain_cycles=values.get("dependencies cycles", 0.0),
    )
