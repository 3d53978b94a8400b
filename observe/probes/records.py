"""What probes on the nodes saw of a program: the key `probes` of ``*.observed.json``.

Times are seconds, sizes bytes; ranks are those of MPI_COMM_WORLD.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

#: The key of an observation.
PROBES: Final = "probes"

#: attached: until the program ended. stopped: it ended before, since watching cost more than was allowed or
#: since something ended it. unavailable: it cannot be had here.
ProbeStatus = Literal["attached", "stopped", "unavailable"]


class ProbeRow(NamedTuple):
    """Events of one kind that a rank made."""

    #: Number in MPI_COMM_WORLD; -1 for what belongs to the node and to no rank.
    rank: int
    #: What happened: a system call, a function, ``read`` with its file system, the address of a peer, …
    name: str
    #: How often it happened.
    events: int
    #: How many of these events have a known duration; None where the probe measures none.
    timed: int | None = None
    #: Sum of the known durations, in s, as measured (each is longer by `NodeProbe.apparent`); None where the
    #: probe measures none.
    seconds: float | None = None
    #: Amount of data that these events moved, in B; None where the probe does not tell.
    bytes: int | None = None
    #: k → how many events took 2^k to 2^(k+1) - 1 ns; empty where no duration is known.
    durations: Mapping[int, int] = {}

    def mean(self, apparent: float = 0.0) -> float | None:
        """Seconds of an event, without what watching adds to each; None where that is not known."""
        if not self.timed or self.seconds is None:
            return None
        return max(0.0, self.seconds / self.timed - apparent)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeProbe:
    """One probe on one node."""

    #: As it was asked for: ``syscalls``, ``function:daxpy``.
    probe: str
    #: Name of the node.
    host: str
    #: Whether it was there until the program ended.
    status: ProbeStatus
    #: Why the status is not attached, with the line that would allow what is unavailable; empty if attached.
    reason: str = ""
    #: Share of the program's time that it was attached, 0 to 1: it counted in that part alone.
    share: float = 1.0
    #: Seconds that its events took of the rank with most, as estimated; None where that is not known.
    cost: float | None = None
    #: Events a second of the rank with most, while it was attached; None where it never was.
    rate: float | None = None
    #: Seconds that each measured duration is longer by, as calibrated.
    apparent: float = 0.0
    #: What it counted, by rank and by name; empty where it counted nothing.
    rows: tuple[ProbeRow, ...] = ()
    #: What was odd, a sentence each; empty where nothing was.
    notes: tuple[str, ...] = ()


class NodeRow(NamedTuple):
    """A row of a probe with the probe of its node."""

    #: The probe on that node, as a whole.
    node: NodeProbe
    #: One of the rows that it counted.
    row: ProbeRow

    @property
    def seconds(self) -> float:
        """Of all its events, without what watching adds to each."""
        return (self.row.mean(self.node.apparent) or 0.0) * (self.row.timed or 0)


class Events(NamedTuple):
    """Rows together."""

    #: How many there are in all.
    events: int
    #: How many of them have a known duration.
    timed: int
    #: Sum of the known durations, in s, without what watching adds to each.
    seconds: float
    #: Amount of data that they moved, in B; None where no probe tells.
    bytes: int | None
    #: k → how many events took 2^k to 2^(k+1) - 1 ns; empty where no duration is known.
    durations: Counter[int]

    @classmethod
    def of(cls, rows: Sequence[NodeRow]) -> Events:
        """The sums over some rows."""
        durations: Counter[int] = Counter()
        for row in rows:
            durations.update(row.row.durations)
        known = [row.row.bytes for row in rows if row.row.bytes is not None]
        return cls(
            sum(row.row.events for row in rows),
            sum(row.row.timed or 0 for row in rows),
            sum(row.seconds for row in rows),
            sum(known) if known else None,
            durations,
        )

    @property
    def weight(self) -> tuple[float, int]:
        """To sort by: time, and where there is none the number of events."""
        return self.seconds, self.events

    @property
    def percentile_99(self) -> float:
        """Seconds: the upper end of the class of durations that holds the 99th percentile."""
        before = 0
        for place in sorted(self.durations):
            before += self.durations[place]
            if before >= 0.99 * self.timed:
                return float(2 ** (place + 1)) * 1e-9
        return 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Probes:
    """All probes of a run."""

    #: One entry for each probe on each node; empty where there was no probe.
    nodes: tuple[NodeProbe, ...] = ()
