"""Where a program's time went, by samples of its stacks: the key `hotspots` of ``*.observed.json``.

The samples of all ranks are merged into one prefix tree.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

#: The key of an observation.
HOTSPOTS: Final = "hotspots"
#: The case of records about hot loops: what they need at least, by a model of the processor.
HOT_LOOP: Final = "hot_loop"

Bound = Literal["compute", "memory", "mpi", "io", "unknown"]


class Frame(NamedTuple):
    """A node of the tree. Parents come before their children; the root is the first node and its own
    parent."""

    #: Its place in the tree.
    parent: int
    #: Its symbol, or an address in hexadecimal where it has none.
    function: str
    #: The file's name; ``[kernel]`` for the system.
    module: str
    #: Of this function and of all that it called from here.
    samples: int
    #: Samples of this function alone.
    own: int
    #: Share of a rank's samples that are here, of the rank with the smallest one (0 to 1).
    least: float
    #: The same of the rank with the largest one.
    most: float


class LoopBound(NamedTuple):
    """The time that a loop needs at least by its machine code, with all its data in the first cache."""

    #: What predicted it: ``llvm-mca 14.0.6, znver2``.
    model: str
    #: Where the loop begins in its file, in hexadecimal.
    address: str
    #: ``matmul.c:12``; empty where the file has no line numbers.
    source: str
    #: FLOP of one iteration.
    flop: float
    #: Loaded and stored in one iteration (B).
    bytes: float
    #: Of one iteration.
    instructions: int
    #: Cycles of an iteration that the execution ports need at least.
    port_cycles: float
    #: Cycles of an iteration that the longest chain of dependencies needs at least; 0 without one.
    chain_cycles: float
    #: The clock that `flops` holds for (Hz).
    clock_hz: float
    #: FLOP/s of one core that the slower of ports and dependencies allows.
    flops: float
    #: Share of its function's samples (0 to 1).
    share: float = 1.0
    #: How `clock_hz` was measured.
    clock: str = ""
    #: ``double``, ``single`` or ``half``, of most of its FLOP; empty without any.
    precision: str = ""
    #: In which way the bound may be wrong, a sentence each.
    notes: tuple[str, ...] = ()

    @property
    def holds(self) -> Literal["ports", "dependencies"]:
        """The bound that needs more cycles."""
        return "dependencies" if self.chain_cycles > self.port_cycles else "ports"


class Hotspot(NamedTuple):
    """A function in which many stacks end."""

    #: Its symbol, or an address in hexadecimal where it has none.
    function: str
    #: The file's name; ``[kernel]`` for the system.
    module: str
    #: Share of all samples that are its own (0 to 1).
    share: float
    #: The same of the samples of the rank with the smallest share.
    least: float
    #: The same of the samples of the rank with the largest share.
    most: float
    #: What it waits for.
    bound: Bound
    #: How that is known, or why it is not.
    evidence: str
    #: Its hottest loop; None where there is none, or no model of it.
    loop: LoopBound | None = None
    #: Why `loop` is None; empty where it is not, and where nobody looked for one.
    loop_reason: str = ""
    #: Of hardware counters: ``ipc``, ``llc_misses_per_instruction``, ``loads_from_memory`` (loads under way
    #: at a time); empty where there are none.
    metrics: Mapping[str, float] = {}

    def speedup(self, factor: float) -> float:
        """How many times as fast the whole program would be, at most, if this function were `factor` times
        as fast (Amdahl's law); infinite where no time would be left. It holds where all ranks are alike.
        Where the others wait for the rank with most, the same formula with `most` for `share` holds."""
        left = 1.0 - self.share + self.share / factor
        return 1.0 / left if left > 0 else math.inf


@dataclass(frozen=True, slots=True, kw_only=True)
class Hotspots:
    """The stacks of all ranks in one tree, and the functions in which they spend most time."""

    #: ``ok``, or why there are none.
    status: str
    #: What recorded them: ``perf 6.1, cpu-clock``.
    source: str = ""
    #: Samples per second of CPU time.
    rate: float = 0.0
    #: Of all ranks.
    samples: int = 0
    #: How many left stacks.
    ranks: int = 0
    #: Share of the samples whose function has no symbol (0 to 1).
    unresolved: float = 0.0
    #: The tree, without what is rare.
    frames: tuple[Frame, ...] = ()
    #: Those with most samples of their own first.
    hotspots: tuple[Hotspot, ...] = ()
    #: What was odd, a sentence each.
    notes: tuple[str, ...] = ()
