"""The FLOP/s that a program's hottest loop allows at most, by its machine code (`npc observe --hotspots`).

A point is FLOP/s of a node over FLOP per byte that the loop's instructions load and store. It assumes that
all cores in use run nothing but this loop, with all data in the first cache, at the clock that was measured.
There are two bounds: by the execution ports and by the longest chain of dependencies.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any, NamedTuple

from npc.observe.hotspots.records import HOT_LOOP
from npc.records.record import Record
from npc.records.units import format_quantity, plural
from npc.roofline.code_limit import CodeLimit
from npc.roofline.table import intensity_text


class HotLoop(NamedTuple):
    """A loop, and what it allows (`npc.roofline.code_limit.CodeLimit`)."""

    #: With its module.
    function: str
    #: A line of its source, or an address.
    place: str
    #: What predicted its cycles.
    model: str
    #: ``double``, ``single`` or ``half``, of most of its FLOP.
    precision: str
    #: Share of all samples (0 to 1).
    share: float
    #: Of a node that were in use.
    cores: int
    #: The clock that its cycles are of (Hz).
    clock_hz: float
    #: FLOP of one iteration.
    flop: float
    #: Loaded and stored in one iteration (B).
    bytes: float
    #: Cycles of an iteration that the execution ports need at least.
    port_cycles: float
    #: Cycles of an iteration that the longest chain of dependencies needs; 0 where none goes from iteration
    #: to iteration.
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
    def other(self) -> float | None:
        """FLOP/s a node that the looser of the two bounds allows; None where there is but one."""
        return None if self.by_dependencies is None else max(self.by_ports, self.by_dependencies)

    @property
    def holds(self) -> str:
        """The lower of the two bounds."""
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

    @property
    def name(self) -> str:
        """What it is, after the program's name in a legend."""
        return f"its hottest loop, per byte of the first cache, held by {self.holds}"

    @property
    def tip(self) -> str:
        """What is known of it, in lines of text."""
        return (
            f"{self.function}, {self.place}: {100 * self.share:.2g} % of the samples\n"
            f"at most {self.text}, all data in the first cache\n"
            f"{intensity_text(self.intensity)} FLOP per byte that its instructions load and store\n"
            f"{self.model}"
        )

    def sentence(self, flops: float) -> str:
        """What it allows at most, and how much of that a program with `flops` FLOP/s reaches."""
        allows = (
            f"Its hottest loop, {self.function} at {self.place}, {100 * self.share:.2g} % of its samples, "
            f"allows at most {self.text}, with all data in the first cache ({self.model})"
        )
        reached = flops / self.flops
        if reached > 1:
            return f"{allows}: the program is faster, so other parts of it count, or the model is wrong."
        return f"{allows}; the program reaches {100 * reached:.3g} % of what the {self.holds} allow."

    def document(self) -> dict[str, Any]:
        """Its fields, its intensity and its two bounds, for ``roofline.json``."""
        bounds = {"by_ports": self.by_ports, "by_dependencies": self.by_dependencies}
        return {**self._asdict(), "intensity": self.intensity, **bounds}

    def times(self, nodes: int) -> HotLoop:
        """On this number of nodes together."""
        return self._replace(cores=self.cores * nodes)


def code_limit(launch: Iterable[Record]) -> CodeLimit | None:
    """What the hottest loop of a launch allows; None without one."""
    return hottest(launch)


def hottest(launch: Iterable[Record]) -> HotLoop | None:
    """The loop with the largest share of a launch's samples that has FLOP and bytes; None without one."""
    by_program: defaultdict[str, dict[str, Record]] = defaultdict(dict)
    for record in launch:
        if record.case == HOT_LOOP and record.value:
            part = record.params.get("part", "")
            name = f"{part} {record.metric}" if record.metric == "cycles" else record.metric
            by_program[record.params.get("kind", "")][name] = record
    loops = [_loop(function, records) for function, records in by_program.items()]
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
