"""What one rank of a program did inside MPI, as the profiling library counted it.

Times are seconds, sizes bytes. Moments are seconds on the clock of the rank's node (CLOCK_MONOTONIC);
`npc.observe.mpi.clocks` takes them to that of the first rank's node. Ranks are those of MPI_COMM_WORLD.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

#: The region of all that is in no region named by MPI_Pcontrol.
WHOLE: Final = ""


class Calls(NamedTuple):
    """Calls of one rank that agree in region, name, communicator and class of sizes."""

    #: As MPI_Pcontrol named it; `WHOLE` outside of all.
    region: str
    #: As in the manual: ``MPI_Allreduce``.
    call: str
    #: Its key; empty where the call has none.
    communicator: str
    #: Of one call's bytes: k for 2^(k−1) … 2^k − 1 B, 0 for none.
    size_class: int
    #: How many.
    calls: int
    #: Between entering and leaving (s); calls that MPI makes within one are not counted.
    seconds: float
    #: What this rank hands over, as the manual counts it, or what arrived in a receive (B).
    bytes: int


class Peer(NamedTuple):
    """What the rank exchanged with another one. A rank has an entry for each kind."""

    #: The other one.
    rank: int
    #: Sum over the messages (B).
    bytes: int
    #: How many.
    messages: int
    #: ``user``: sent as messages; ``put``: written into its window, accumulated too; ``get``: fetched from
    #: it.
    kind: str = "user"


class Communicator(NamedTuple):
    """A communicator that the rank was in."""

    #: The same in all its ranks.
    key: str
    #: By MPI_Comm_get_name; empty where it has none.
    name: str
    #: Its number of ranks.
    size: int


class Arrival(NamedTuple):
    """One collective call: when this rank came and went.

    Of long runs one half, one quarter, … of the calls is kept, chosen by a hash of the sequence number, so
    that all ranks keep the same ones.
    """

    #: Its key.
    communicator: str
    #: Which of the communicator's collective calls it is.
    sequence: int
    #: As in the manual.
    call: str
    #: When the rank came (s).
    entered: float
    #: When it went (s).
    left: float
    #: Its rank in MPI_COMM_WORLD; None where the call has none or it is not known.
    root: int | None = None


class Message(NamedTuple):
    """One point-to-point message, as its sender or its receiver saw it. Which ones are kept: see
    `Arrival`."""

    #: Its key.
    communicator: str
    #: The program's.
    tag: int
    #: The other rank.
    peer: int
    #: Which of the messages from this sender to this receiver with the same communicator and tag it is.
    sequence: int
    #: As in the manual: of a sender the call that began it, of a receiver the one that waited for it.
    call: str
    #: When the rank came to that call (s).
    entered: float
    #: When it left the call (s); after MPI_Isend the message may still be under way.
    left: float
    #: Sent, or arrived (B).
    bytes: int
    #: When the receiver asked for it, as by MPI_Irecv (s); None of a sender.
    posted: float | None = None


class ClockReading(NamedTuple):
    """The node's clock and the time of day at one moment."""

    #: On the node's clock (s).
    at: float
    #: The time of day, in seconds since 1970 (UTC).
    unix: float
    #: Of `unix`, at most, as a time service told the kernel (s, adjtimex(2)).
    error: float


class Snapshot(NamedTuple):
    """The library's counters at one moment."""

    #: On the clock of the rank's node (s).
    at: float
    #: Counter → its total so far, in its own unit.
    values: Mapping[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Variable:
    """A performance variable of the MPI library (MPI_T), or a software-defined event."""

    #: As the library has it.
    name: str
    #: How it counts: ``counter``, ``aggregate``, ``timer``, ``size``, ``level``, ``highwatermark``, …
    kind: str
    #: The library's own text.
    description: str
    #: As the library writes it: ``bytes``; empty where it says none.
    unit: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RankProfile:
    """A rank's profile. What could not be had is empty, and `notes` says why."""

    #: Number in MPI_COMM_WORLD.
    rank: int
    #: Size of MPI_COMM_WORLD.
    ranks: int
    #: The node that it ran on.
    host: str
    #: MPI's own text about its version.
    library: str
    #: What MPI_Init_thread provided: ``single``, ``funneled``, ``serialized``, ``multiple`` or ``unknown``.
    thread_level: str
    #: Threads that called MPI.
    threads: int
    #: When MPI_Init had ended (s).
    began: float
    #: When MPI_Finalize began; without it, the last moment at which a thread is known to have run (s).
    ended: float
    #: Whether it came to MPI_Finalize.
    finalized: bool
    #: All that it made.
    calls: Sequence[Calls] = ()
    #: Those with whom it exchanged something.
    peers: Sequence[Peer] = ()
    #: Those that it was in.
    communicators: Sequence[Communicator] = ()
    #: Its collective calls, as far as they were kept.
    arrivals: Sequence[Arrival] = ()
    #: Its messages as their sender, as far as they were kept.
    sent: Sequence[Message] = ()
    #: Its messages as their receiver, as far as they were kept.
    received: Sequence[Message] = ()
    #: At the begin and at the end; empty where no time service keeps the node's clock.
    clock: Sequence[ClockReading] = ()
    #: Region → seconds spent in it; None, as empty, where the program names none.
    regions: Mapping[str, float] | None = None
    #: Seconds in which nothing was counted (MPI_Pcontrol(0)).
    paused: float = 0.0
    #: Counters that were read; empty where none were asked for.
    variables: Sequence[Variable] = ()
    #: Their values, in the order of time; the last one is of the end.
    snapshots: Sequence[Snapshot] = ()
    #: Seconds inside MPI of each thread that called it.
    mpi_by_thread: Sequence[float] = ()
    #: Threads of OpenMP that it was to have (OMP_NUM_THREADS).
    openmp_threads: int = 1
    #: CPU time of all its threads between `began` and `ended` (s); None where nothing tells it.
    cpu_seconds: float | None = None
    #: In user mode between `began` and `ended`; None where nothing counts them.
    instructions: int | None = None
    #: In user mode between `began` and `ended`; None where nothing counts them.
    cycles: int | None = None
    #: What was odd, a sentence each.
    notes: tuple[str, ...] = ()

    @property
    def seconds(self) -> float:
        """From MPI_Init's end to MPI_Finalize's begin, without pauses (s)."""
        return self.ended - self.began - self.paused

    @property
    def mpi_seconds(self) -> float:
        """The part of `seconds` inside MPI, of the thread that spent most there (s)."""
        if self.mpi_by_thread:
            return max(self.mpi_by_thread)
        return sum(calls.seconds for calls in self.calls)
