"""What happened inside a program's MPI, as `npc observe` keeps it: the key `profile` of ``*.observed.json``.

docs/observe.md describes every key. Times are seconds, sizes bytes; ranks are those of MPI_COMM_WORLD. What a
newer version adds is passed over.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

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
    """Calls of one name that one rank made: how many, their seconds and bytes."""

    calls: int
    seconds: float
    bytes: int


class CallTotals(NamedTuple):
    """Calls of all ranks: in a region (empty outside of all), by members of the communicator (0: none), of a
    class of sizes (k: 2^(k−1) … 2^k − 1 bytes, 0: none)."""

    region: str
    call: str
    members: int
    size_class: int
    calls: int
    seconds: float
    bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Rank:
    """Where a rank's time went: `mpi` seconds of `seconds` inside MPI, of the thread that spent most there.

    calls: by name, of all its threads together, the longest first. regions: (seconds, of these inside MPI).
    threads: of OpenMP. cpu: CPU time of all threads; None, as instructions and cycles, where nothing tells.
    """

    rank: int
    host: str
    seconds: float
    mpi: float
    calls: Mapping[str, CallStats] = field(default_factory=dict)
    regions: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    threads: int = 1
    cpu: float | None = None
    instructions: int | None = None
    cycles: int | None = None

    @property
    def computing(self) -> float:
        """Seconds outside MPI: the load (Eberius, 2020, Eq. 4.2)."""
        return max(0.0, self.seconds - self.mpi)

    @property
    def useful(self) -> float | None:
        """What all its threads computed; None where that is not known."""
        if self.threads == 1:
            return self.computing
        return None if self.cpu is None else min(max(0.0, self.cpu - self.mpi), self.threads * self.computing)


class PairTraffic(NamedTuple):
    """What went from one rank or host to another."""

    source: int
    target: int
    bytes: int
    messages: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerMatrix:
    """A sparse matrix of ranks, or of the hosts in `names`; left_out: pairs, their bytes and messages."""

    of: str
    names: tuple[str, ...] = ()
    rows: tuple[PairTraffic, ...] = ()
    left_out: tuple[int, int, int] = (0, 0, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Efficiency:
    """How well a run or one of its regions used its CPUs; None where something is not known, with the reason.

    seconds: of the rank that took longest. parallel = mpi × openmp; mpi = load_balance × communication.
    imbalance: how much the slowest rank's load is above the mean, as a share of that. computing: the loads'
    mean; slowest: the rank with the largest. gain: seconds by which the run would be shorter, at most, if all
    ranks computed equally long.
    """

    ranks: int
    threads: int
    seconds: float
    computing: float
    parallel: float | None
    load_balance: float | None
    communication: float | None
    mpi: float | None
    openmp: float | None
    imbalance: float | None
    slowest: int
    gain: float
    reasons: Mapping[str, str]


Kind = Literal["collective", "late sender", "late receiver"]


class LateRank(NamedTuple):
    """A rank for which others waited in a collective. times: how often it was the last, by more than the
    clocks' error; seconds: that all others waited for it; alone: by which the calls would have been earlier
    if it had come with the last but one."""

    rank: int
    times: float
    seconds: float
    alone: float


class CollectiveWait(NamedTuple):
    """A collective call on the communicators of a name and a size. calls: that were made (of each, not of
    each rank); kept: of these, those whose moments all ranks kept; seconds: spent in it by all ranks; waited:
    of these for others, None where that cannot be told, for `reason`; error: of the clocks, at most, None
    where they were not compared."""

    call: str
    communicator: str
    ranks: int
    calls: int
    kept: int
    seconds: float
    waited: float | None
    error: float | None
    late: tuple[LateRank, ...]
    reason: str = ""


class MessageWait(NamedTuple):
    """Receives or sends by one call. messages: that were exchanged so; kept: whose moments both ranks kept;
    waited: of the seconds that all ranks were in the call."""

    kind: Kind
    call: str
    messages: int
    kept: int
    seconds: float
    waited: float
    error: float | None


class Wait(NamedTuple):
    """`waiting` waited so long for `awaited`."""

    waiting: int
    awaited: int
    kind: Kind
    call: str
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Waits:
    """Wait states of a run; seconds are summed over ranks.

    by_rank: rank → (how long it waited, how long others waited for it). pairs: the largest; left_out: number
    and seconds of the others.
    """

    collectives: tuple[CollectiveWait, ...]
    messages: tuple[MessageWait, ...]
    pairs: tuple[Wait, ...]
    by_rank: Mapping[int, tuple[float, float]]
    left_out: tuple[int, float]
    notes: tuple[str, ...]

    @property
    def waited(self) -> float:
        """Seconds of all ranks, as far as they can be told."""
        known = [collective.waited for collective in self.collectives if collective.waited is not None]
        return sum(known) + sum(message.waited for message in self.messages)


@dataclass(frozen=True, slots=True, kw_only=True)
class VariableTotals:
    """A counter of the MPI library (MPI_T) at the end of all ranks; rank: whose is the most; peak: the
    largest value that any snapshot of any rank saw."""

    name: str
    kind: str
    description: str
    unit: str
    total: float
    least: float
    most: float
    rank: int
    peak: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshots:
    """Counters of the library by moment: values[variable][name][moment], totals so far, None before the first
    one. of: whose the `names` are: ranks, hosts, or groups of hosts."""

    times: tuple[float, ...]
    of: str
    names: tuple[str, ...]
    values: Mapping[str, tuple[tuple[float | None, ...], ...]]
    left_out: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class UnexpectedMessages:
    """Messages that came before a receive was posted for them, or out of their order; None where something
    is not known, with the reason by its name.

    counted: as MPI itself counted them (in its variable `source`), those within collectives among them;
    by_rank: by receiver. possible: of `known` messages whose moments both ranks kept, those whose receive was
    posted after they were sent: no more can have been unexpected. out_of_sequence: as counted. longest_queue:
    of unexpected messages, of one rank, as far as snapshots saw it.
    """

    source: str = ""
    counted: int | None = None
    by_rank: Mapping[int, int] = field(default_factory=dict)
    known: int = 0
    possible: int | None = None
    out_of_sequence: int | None = None
    longest_queue: int | None = None
    reasons: Mapping[str, str] = field(default_factory=dict)


class CollectiveAlgorithm(NamedTuple):
    """Calls of a collective by communicators of as many ranks, and the algorithm that their messages are of:
    several where these cannot tell. root: in MPI_COMM_WORLD. first, last: sizes of a call in bytes, None
    where they are not known. pieces: how many times the algorithm's messages were sent for one call, None
    where several ran."""

    operation: str
    ranks: int
    root: int | None
    algorithms: tuple[str, ...]
    calls: int
    first: int | None
    last: int | None
    pieces: float | None = None

    @property
    def name(self) -> str:
        """``recursive doubling``; ``ring, in 8 pieces``."""
        pieces = f", in {self.pieces:g} pieces" if self.pieces and self.pieces != 1 else ""
        return " or ".join(self.algorithms) + pieces


@dataclass(frozen=True, slots=True, kw_only=True)
class Algorithms:
    """What ran, by the messages between ranks; explained: the part of these. reasons: why an operation's is
    not known."""

    ran: tuple[CollectiveAlgorithm, ...] = ()
    explained: float | None = None
    reasons: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """Inside the MPI of one run. profiles: ranks that left one, finalized: those of them that ended so."""

    library: str
    thread_level: str
    threads: int
    profiles: int
    finalized: int
    ranks: tuple[Rank, ...] = ()
    calls: tuple[CallTotals, ...] = ()
    peers: PeerMatrix = field(default_factory=lambda: PeerMatrix(of="ranks"))
    efficiency: Efficiency | None = None
    regions: Mapping[str, Efficiency] = field(default_factory=dict)
    waits: Waits | None = None
    variables: tuple[VariableTotals, ...] = ()
    snapshots: Snapshots | None = None
    unexpected: UnexpectedMessages | None = None
    algorithms: Algorithms | None = None
    notes: tuple[str, ...] = ()

    @property
    def seconds(self) -> float:
        """From MPI_Init to MPI_Finalize, of the rank that took longest."""
        return max((rank.seconds for rank in self.ranks), default=0.0)

    @property
    def share(self) -> float | None:
        """The part of the ranks' time inside MPI; None where no rank's time is known."""
        return sum(rank.mpi for rank in self.ranks) / self.total if self.total else None

    @property
    def total(self) -> float:
        """The time of all ranks."""
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
