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
    """Events of one kind that a rank made; rank −1: what is the node's and no rank's.

    name: a system call, a function, a device, a file system… timed: events whose durations are known, None
    where the probe tells none; seconds: these took in all, as measured (each longer by `NodeProbe.apparent`).
    bytes: None where the probe does not tell. durations: k → events that took 2^k to 2^(k+1) − 1 ns.
    """

    rank: int
    name: str
    events: int
    timed: int | None = None
    seconds: float | None = None
    bytes: int | None = None
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
    host: str
    status: ProbeStatus
    #: Of a status other than attached, with the line that would allow what is unavailable.
    reason: str = ""
    #: Of the program's time that it was attached, 0 to 1: counts are those of that part, not scaled.
    share: float = 1.0
    #: Seconds that its events took of the rank with most, as estimated; None where that is not known.
    cost: float | None = None
    #: Events a second of the rank with most, while it was attached.
    rate: float | None = None
    #: Seconds that each measured duration is longer by, as calibrated.
    apparent: float = 0.0
    rows: tuple[ProbeRow, ...] = ()
    #: What was odd.
    notes: tuple[str, ...] = ()


class NodeRow(NamedTuple):
    """A row of a probe with the probe of its node."""

    node: NodeProbe
    row: ProbeRow

    @property
    def seconds(self) -> float:
        """Of all its events, without what watching adds to each."""
        return (self.row.mean(self.node.apparent) or 0.0) * (self.row.timed or 0)


class Events(NamedTuple):
    """Rows together. timed: events whose durations are known, and the seconds of these, without what watching
    adds; bytes: None where no probe tells."""

    events: int
    timed: int
    seconds: float
    bytes: int | None
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

    nodes: tuple[NodeProbe, ...] = ()
