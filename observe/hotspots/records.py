"""Where a program's time went by its stacks: the key `hotspots` of ``*.observed.json``.

Samples of all ranks are merged into one prefix tree. Shares are parts of all samples (0 to 1).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

#: The key of an observation.
HOTSPOTS: Final = "hotspots"
#: The case of what the hottest loops need at least, by their machine code and a model of the processor.
HOT_LOOP: Final = "hot_loop"

Bound = Literal["compute", "memory", "mpi", "io", "unknown"]


class Frame(NamedTuple):
    """A node of the tree; parents come before their children, the root is the first and its own parent.

    function: its symbol, or an address in hexadecimal where there is none. module: the file's name,
    ``[kernel]`` for the system. samples: with those of its children; own: without. least, most: shares of the
    rank with fewest and with most of its own samples here (with children).
    """

    parent: int
    function: str
    module: str
    samples: int
    own: int
    least: float
    most: float


class LoopBound(NamedTuple):
    """A loop at rest, by `model` (llvm-mca 14.0.6, znver2). Per iteration: flop, bytes loaded and stored,
    instructions, cycles that the execution ports need at least, cycles that the longest chain of dependencies
    needs. clock_hz: at which it was predicted. flops: FLOP/s of one core that the slower of the two allows,
    with all data in the first cache. share: of its function's samples. clock: how clock_hz was measured.
    precision: of most of its FLOP, empty without any. notes: what to know of it."""

    model: str
    address: str
    source: str
    flop: float
    bytes: float
    instructions: int
    port_cycles: float
    chain_cycles: float
    clock_hz: float
    flops: float
    share: float = 1.0
    clock: str = ""
    precision: str = ""
    notes: tuple[str, ...] = ()

    @property
    def holds(self) -> Literal["ports", "dependencies"]:
        """Which of the two bounds is the tighter."""
        return "dependencies" if self.chain_cycles > self.port_cycles else "ports"


class Hotspot(NamedTuple):
    """A function by its own samples. share: of all samples; least, most: of the ranks'; bound: what it waits
    for, with the evidence. loop: its hottest loop, None where none was found or modelled, for `loop_reason`.
    metrics: of counters where there are any (``ipc``, ``llc_misses_per_instruction``)."""

    function: str
    module: str
    share: float
    least: float
    most: float
    bound: Bound
    evidence: str
    loop: LoopBound | None = None
    loop_reason: str = ""
    metrics: Mapping[str, float] = {}

    def speedup(self, factor: float) -> float:
        """Of the whole program at most, if this were `factor` times faster (Amdahl's law); infinite where
        nothing of its time were left. Of ranks that are alike: with `most` in the place of `share` it is that
        of the rank with most, which counts where the others wait for it."""
        left = 1.0 - self.share + self.share / factor
        return 1.0 / left if left > 0 else math.inf


@dataclass(frozen=True, slots=True, kw_only=True)
class Hotspots:
    """rate: samples a second of CPU time; samples: of all ranks; ranks: that left some; source: what recorded
    (perf 6.1, cpu-clock). unresolved: share of samples whose function has no symbol. status: ``ok`` or why
    there are none."""

    status: str
    source: str = ""
    rate: float = 0.0
    samples: int = 0
    ranks: int = 0
    unresolved: float = 0.0
    frames: tuple[Frame, ...] = ()
    hotspots: tuple[Hotspot, ...] = ()
    notes: tuple[str, ...] = ()
