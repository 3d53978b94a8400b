"""What one rank of a program did inside MPI, as the profiling library counted it.

Times are seconds, sizes bytes. Moments are seconds on the clock of the rank's node (CLOCK_MONOTONIC);
`npc.observe.mpi.clocks` takes them to that of the first rank's node. Ranks are those of MPI_COMM_WORLD.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

#: Regions that no MPI_Pcontrol named.
WHOLE: Final = ""


class Calls(NamedTuple):
    """Calls of one kind: in a region, by a communicator (its key), of a class of sizes.

    call: as in the manual (``MPI_Allreduce``). size_class: 0 for empty messages, k for 2^(k−1) … 2^k − 1
    bytes of one call. seconds: between entering and leaving; calls that MPI makes within one are not counted.
    bytes: what this rank hands over, as the manual counts it (of a receive what arrived).
    """

    region: str
    call: str
    communicator: str
    size_class: int
    calls: int
    seconds: float
    bytes: int


class Peer(NamedTuple):
    """What the rank sent or put to another rank, or fetched from it. kind: ``user`` (messages), ``put``
    (accumulated as well), ``get``; a rank has an entry for each kind."""

    rank: int
    bytes: int
    messages: int
    kind: str = "user"


class Communicator(NamedTuple):
    """key: the same in all its ranks. name: MPI_Comm_get_name's, else empty."""

    key: str
    name: str
    size: int


class Arrival(NamedTuple):
    """One collective call: the `sequence`-th one on its communicator, and when the rank came and went.

    Of long runs a half, a quarter … is kept, by a hash of its sequence number: the same ones in all ranks.
    root: its rank in MPI_COMM_WORLD, None where the call has none or it is not known.
    """

    communicator: str
    sequence: int
    call: str
    entered: float
    left: float
    root: int | None = None


class Message(NamedTuple):
    """One point-to-point message: the `sequence`-th one of its communicator and tag between sender and
    receiver; kept as `Arrival` is.

    entered, left: of a sender, the call that began it (MPI_Isend's return); of a receiver, the call in which
    it waited for it to arrive (MPI_Recv, MPI_Wait…). posted: when the receiver asked for it (MPI_Irecv), None
    of a sender and where it is not known.
    """

    communicator: str
    tag: int
    peer: int
    sequence: int
    call: str
    entered: float
    left: float
    bytes: int
    posted: float | None = None


class ClockReading(NamedTuple):
    """A moment of the node's clock and what time it was in the world (Unix time); error: of that, at most, as
    a time service told the kernel (adjtimex(2))."""

    at: float
    unix: float
    error: float


class Snapshot(NamedTuple):
    """Values of the library's counters at a moment of this rank's clock, by name; totals so far."""

    at: float
    values: Mapping[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Variable:
    """A performance variable of the MPI library (MPI_T). kind: counter, size, level, highwatermark, …"""

    name: str
    kind: str
    description: str
    unit: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RankProfile:
    """A rank's profile; what could not be had is empty, and `notes` says why.

    began: when MPI_Init had ended; ended: when MPI_Finalize began, else the last call that is known.
    threads: those that called MPI; mpi_by_thread: what each of them spent there. openmp_threads: those that
    the rank was to have (OMP_NUM_THREADS). cpu_seconds: of all its threads between began and ended.
    regions: seconds spent in each; paused: seconds in which nothing was counted (MPI_Pcontrol(0)).
    sent, received: kept as `Arrival` says. clock: at the begin and the end, where a time service keeps it.
    instructions, cycles: between began and ended, in user mode, None where nothing counts them.
    """

    rank: int
    ranks: int
    host: str
    library: str
    thread_level: str
    threads: int
    began: float
    ended: float
    finalized: bool
    calls: Sequence[Calls] = ()
    peers: Sequence[Peer] = ()
    communicators: Sequence[Communicator] = ()
    arrivals: Sequence[Arrival] = ()
    sent: Sequence[Message] = ()
    received: Sequence[Message] = ()
    clock: Sequence[ClockReading] = ()
    regions: Mapping[str, float] | None = None
    paused: float = 0.0
    variables: Sequence[Variable] = ()
    snapshots: Sequence[Snapshot] = ()
    mpi_by_thread: Sequence[float] = ()
    openmp_threads: int = 1
    cpu_seconds: float | None = None
    instructions: int | None = None
    cycles: int | None = None
    notes: tuple[str, ...] = ()

    @property
    def seconds(self) -> float:
        """From MPI_Init's end to MPI_Finalize's begin, less what was paused."""
        return self.ended - self.began - self.paused

    @property
    def mpi_seconds(self) -> float:
        """The part of it inside MPI, of the thread that spent most where several call MPI."""
        if self.mpi_by_thread:
            return max(self.mpi_by_thread)
        return sum(calls.seconds for calls in self.calls)
