"""What happened inside a program's MPI, as `npc observe` keeps it: the key `profile` of ``*.observed.json``.

docs/observe.md describes every key. Times are seconds, sizes bytes; ranks are those of MPI_COMM_WORLD. Keys
that a newer version adds are ignored.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

from npc.observe.mpi.wait_records import Waits
from npc.records.observed import part_of, read_part

#: The key of an observation.
PROFILE: Final = "profile"
#: Collective calls by the name of their operation (`npc.catalogue.row.Test.operation`).
_OPERATIONS: Final = (
    "barrier", "bcast", "gather", "gatherv", "scatter", "scatterv", "allgather", "allgatherv", "alltoall",
    "alltoallv", "alltoallw", "reduce", "allreduce", "reduce_scatter", "reduce_scatter_block", "scan",
    "exscan", "neighbor_allgather", "neighbor_allgatherv", "neighbor_alltoall", "neighbor_alltoallv",
    "neighbor_alltoallw",
)  # fmt: skip
_COLLECTIVES: Final = {
    name: operation
    for operation in _OPERATIONS
    for name in (f"MPI_{operation.capitalize()}", f"MPI_I{operation}", f"MPI_{operation.capitalize()}_init")
}


class CallStats(NamedTuple):
    """Calls of one name that one rank made."""

    #: How many.
    calls: int
    #: Spent in them (s).
    seconds: float
    #: What the rank handed over or got in them (B).
    bytes: int


class CallTotals(NamedTuple):
    """Calls of all ranks together that agree in region, name, size of communicator and class of sizes."""

    #: As MPI_Pcontrol named it; empty outside of all.
    region: str
    #: MPI's name: ``MPI_Allreduce``.
    call: str
    #: Ranks of the communicator; 0 where the call has none.
    members: int
    #: Of one call's bytes: k for 2^(k−1) … 2^k − 1 B, 0 for none.
    size_class: int
    #: How many, one for each rank that took part.
    calls: int
    #: Sum over all ranks (s).
    seconds: float
    #: Sum over all ranks (B).
    bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Rank:
    """Where a rank's time went."""

    #: Number in MPI_COMM_WORLD.
    rank: int
    #: The node that it ran on.
    host: str
    #: From MPI_Init to MPI_Finalize (s).
    seconds: float
    #: Part of `seconds` inside MPI, of the thread that spent most there (s).
    mpi: float
    #: MPI's name → calls of all its threads together, the longest first.
    calls: Mapping[str, CallStats] = field(default_factory=dict)
    #: Name → (seconds in the region, part of them inside MPI); empty where the program names none.
    regions: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    #: Threads of OpenMP that it was to have.
    threads: int = 1
    #: CPU time of all its threads (s); None where nothing tells it.
    cpu: float | None = None
    #: Counted in user mode, by all its threads; None where nothing counts them.
    instructions: int | None = None
    #: Counted in the same way; None where nothing counts them.
    cycles: int | None = None

    @property
    def computing(self) -> float:
        """Seconds outside MPI: the load (Eberius, 2020, Eq. 4.2)."""
        return max(0.0, self.seconds - self.mpi)

    @property
    def useful(self) -> float | None:
        """Seconds that all its threads computed, summed; None where that is not known."""
        if self.threads == 1:
            return self.computing
        return None if self.cpu is None else min(max(0.0, self.cpu - self.mpi), self.threads * self.computing)


class PairTraffic(NamedTuple):
    """What went from one rank or host to another."""

    #: The sender: a rank, or the place of a host in `PeerMatrix.names`.
    source: int
    #: The receiver, in the same numbers.
    target: int
    #: Sum over its messages (B).
    bytes: int
    #: How many.
    messages: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerMatrix:
    """Who sent how much to whom, as a sparse matrix."""

    #: What its rows and columns are: ``ranks`` or ``hosts``.
    of: str
    #: The hosts; empty where it is of ranks.
    names: tuple[str, ...] = ()
    #: Pairs that sent something.
    rows: tuple[PairTraffic, ...] = ()
    #: Number of the pairs that are not in `rows`, their bytes, their messages.
    left_out: tuple[int, int, int] = (0, 0, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Efficiency:
    """How well a run or one of its regions used its CPUs. Efficiencies are shares of 1, with parallel = mpi ×
    openmp and mpi = load_balance × communication (POP); None where one is not known."""

    #: How many took part.
    ranks: int
    #: Threads of all ranks together.
    threads: int
    #: Time of the rank that took longest (s).
    seconds: float
    #: Mean of the ranks' loads, which is their time outside MPI (s).
    computing: float
    #: Share of all CPUs' time in which they computed.
    parallel: float | None
    #: Mean of the loads as a share of the largest.
    load_balance: float | None
    #: Largest load as a share of `seconds`.
    communication: float | None
    #: Mean of the loads as a share of `seconds`.
    mpi: float | None
    #: Share of the time outside MPI in which all threads computed, at most; None where each rank has one
    #: thread.
    openmp: float | None
    #: By how much the largest load is above the mean, as a share of the mean.
    imbalance: float | None
    #: The rank with the largest load.
    slowest: int
    #: By how much the run would be shorter, at most, if all ranks computed equally long (s).
    gain: float
    #: Name of a field that is None → why.
    reasons: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class VariableTotals:
    """A counter of the MPI library (MPI_T) or a software-defined event, at the end of all ranks."""

    #: As the library has it; the profile's own begin with ``npc::``.
    name: str
    #: How it counts: ``counter``, ``aggregate``, ``timer``, ``size``, ``level``, ``highwatermark``, …
    kind: str
    #: The library's own text.
    description: str
    #: As the library writes it: ``bytes``; empty where it says none.
    unit: str
    #: Sum over the ranks, in `unit`.
    total: float
    #: Of the rank with the least.
    least: float
    #: Of the rank with the most.
    most: float
    #: The rank with the most.
    rank: int
    #: Largest value in any snapshot of any rank; None in older observations.
    peak: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshots:
    """Counters of the MPI library over time."""

    #: Moments, in seconds since the first rank began.
    times: tuple[float, ...]
    #: What `names` are: ``ranks``, ``hosts`` or ``groups of hosts``.
    of: str
    #: The rows of `values`.
    names: tuple[str, ...]
    #: Counter → for each name, for each moment: total so far, the mean within a group; None before the first
    #: one.
    values: Mapping[str, tuple[tuple[float | None, ...], ...]]
    #: Counters for which there was no room.
    left_out: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class UnexpectedMessages:
    """Messages that came before a receive was posted for them, or out of order."""

    #: Name of the MPI library's variable that counted them; empty where none did.
    source: str = ""
    #: How many, those within collectives among them; None where the library does not count them.
    counted: int | None = None
    #: Receiver → how many of `counted`; receivers without any are left out.
    by_rank: Mapping[int, int] = field(default_factory=dict)
    #: Messages for which both the sending and the posting of the receive have a time.
    known: int = 0
    #: How many of `known` were sent before their receive was posted, so that no more can have been
    #: unexpected; None without known ones.
    possible: int | None = None
    #: How many came out of order; None where the library does not count them.
    out_of_sequence: int | None = None
    #: Most unexpected messages of one rank at a time that a snapshot saw; None where the library does not
    #: tell.
    longest_queue: int | None = None
    #: Name of a field that is None → why.
    reasons: Mapping[str, str] = field(default_factory=dict)


class CollectiveAlgorithm(NamedTuple):
    """Calls of a collective by communicators of one size, and the algorithm that their messages belong to."""

    #: As the catalogue names it: ``allreduce``.
    operation: str
    #: Size of the communicators.
    ranks: int
    #: Its rank in MPI_COMM_WORLD; None where the operation has none.
    root: int | None
    #: Several where the messages cannot tell them apart.
    algorithms: tuple[str, ...]
    #: How many, each counted once and not by rank.
    calls: int
    #: Smallest size of a call (B); None where it is not known.
    first: int | None
    #: Largest size of a call (B); None where it is not known.
    last: int | None
    #: How many times the algorithm's messages were sent for one call; None where several ran.
    pieces: float | None = None

    @property
    def name(self) -> str:
        """``recursive doubling``; ``ring, in 8 pieces``."""
        pieces = f", in {self.pieces:g} pieces" if self.pieces and self.pieces != 1 else ""
        return " or ".join(self.algorithms) + pieces


@dataclass(frozen=True, slots=True, kw_only=True)
class Algorithms:
    """By which algorithms the collectives of a run worked, as the messages between its ranks show."""

    #: What could be told.
    ran: tuple[CollectiveAlgorithm, ...] = ()
    #: Share of the messages that `ran` explains; None where nothing does.
    explained: float | None = None
    #: Operation → why its algorithm is not known.
    reasons: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """What happened inside the MPI of one run."""

    #: MPI's own text about its version.
    library: str
    #: What MPI_Init_thread provided: ``single``, ``funneled``, ``serialized``, ``multiple`` or ``unknown``.
    thread_level: str
    #: Most threads of one rank that called MPI.
    threads: int
    #: Ranks that left a profile.
    profiles: int
    #: How many of them came to MPI_Finalize.
    finalized: int
    #: Those that left a profile, in their order.
    ranks: tuple[Rank, ...] = ()
    #: The longest first.
    calls: tuple[CallTotals, ...] = ()
    #: Who sent how much to whom.
    peers: PeerMatrix = field(default_factory=lambda: PeerMatrix(of="ranks"))
    #: Of the whole run; None where no rank is known.
    efficiency: Efficiency | None = None
    #: Region → its efficiency; empty where the program names none.
    regions: Mapping[str, Efficiency] = field(default_factory=dict)
    #: None in older observations.
    waits: Waits | None = None
    #: Empty where no counter was asked for.
    variables: tuple[VariableTotals, ...] = ()
    #: None where none were taken over time.
    snapshots: Snapshots | None = None
    #: None in older observations.
    unexpected: UnexpectedMessages | None = None
    #: None where there were no collectives or nothing counted their messages.
    algorithms: Algorithms | None = None
    #: What ranks noted, a sentence each.
    notes: tuple[str, ...] = ()

    @property
    def seconds(self) -> float:
        """From MPI_Init to MPI_Finalize, of the rank that took longest (s)."""
        return max((rank.seconds for rank in self.ranks), default=0.0)

    @property
    def share(self) -> float | None:
        """Share of the ranks' time inside MPI (0 to 1); None where no rank's time is known."""
        return sum(rank.mpi for rank in self.ranks) / self.total if self.total else None

    @property
    def total(self) -> float:
        """Sum of the ranks' times (s)."""
        return sum(rank.seconds for rank in self.ranks)

    @property
    def by_call(self) -> Mapping[str, float]:
        """Seconds of all ranks in each call, that with the most first."""
        seconds: defaultdict[str, float] = defaultdict(float)
        for rank in self.ranks:
            for call, made in rank.calls.items():
                seconds[call] += made.seconds
        return dict(sorted(seconds.items(), key=lambda entry: -entry[1]))

    @property
    def hosts(self) -> Mapping[int, str]:
        """The host of each rank."""
        return {rank.rank: rank.host for rank in self.ranks}


def profile_of(document: Mapping[str, Any]) -> Profile | None:
    """The profile of an observation; None where it has none. Raises ValueError for one that is not whole."""
    return part_of(document, PROFILE, Profile)


def read_profile(path: Path) -> Profile | None:
    """The profile in an ``*.observed.json``; None where there is none. Raises OSError, ValueError."""
    return read_part(path, PROFILE, Profile)


def operation(call: str) -> str:
    """The operation of a collective call, as the catalogue names it (``MPI_Iallreduce``: ``allreduce``);
    empty for other calls."""
    return _COLLECTIVES.get(call, "")
