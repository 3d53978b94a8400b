"""What a row of the catalogue says: of a benchmark, of its tests, and of its steps in ``jube.yml``."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final, Literal

from npc.statistics.medians import MIN_SAMPLES
from npc.statistics.precision import Goal

Layer = Literal[
    "", "mpi", "tcp", "udp", "sctp", "sdp", "rds", "rdma", "memory", "compute", "io", "noise", "gpu"
]  # fmt: skip
#: How one message's time follows from the number; "" where it does not.
#:
#: - half round trip: a ping-pong's latency is it, and its bandwidth is the size over it.
#: - interval between messages: messages go back to back (windowed); the interval is size/bandwidth.
#: - stream: a stream of bytes, in which the size is that of the writes.
#: - collective: the time of one call by all ranks. pattern: what `models` times.
Timing = Literal["", "half round trip", "interval between messages", "stream", "collective", "pattern"]
#: Which end of npb's pair sends the bytes that are counted; "" where both do, or nothing is known.
Sender = Literal["", "client", "server"]
#: Of each job: the job script, `npc doctor --environment`, a compiler; JUBE itself.
JOB_S: Final = 4.0
#: Of each size of a sweep, by default: ``sweep_samples`` of ``benchmarks/npc.xml``.
SWEEP_SAMPLES: Final = 1
#: Bytes of last-level cache a core, of the machine that seconds of a launch are of.
CACHE_A_CORE: Final = 16.8e6


@dataclass(frozen=True, slots=True)
class Test:
    """What the numbers of a test mean.

    case: pattern (fnmatch, in any case of letters) of `Record.case`. metric: of `Record.metric`, ``*`` for
    all. layer: what carries the messages, or does the work. timing: see `Timing`. quantity: what it is; tests
    of one quantity are alike whatever the tool. operation: of MPI, where the number tells the time of one.
    level: of the memory, where no param tells it. both_ways: whether bytes of both directions are added up.
    all_processes: whether also pairs within a node take part. lossy: whether the transport loses messages.
    counted: how often IMB counts a message. sender: see `Sender`.
    """

    __test__ = False  # pytest

    case: str
    metric: str = "*"
    layer: Layer = ""
    timing: Timing = ""
    quantity: str = ""
    operation: str = ""
    level: str = ""
    both_ways: bool = False
    all_processes: bool = False
    lossy: bool = False
    counted: int = 0
    sender: Sender = ""

    @property
    def between_two(self) -> bool:
        """Whether it is of one direction between two processes, and a ceiling of their link."""
        return self.timing in ("half round trip", "interval between messages", "stream")


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A step of ``jube.yml``: what `npc plan` has to know of it.

    tags: any of them runs it. commands: tools
    (`npc.machine.tools`) that it needs; without them it is unavailable at once. site: settings that name a
    site's build of the first command, where no package brings it. jobs: workpackages. launches: of one
    sample, all jobs together. swept: launches that are made `SWEEP_SAMPLES` times. seconds: of one
    launch. nodes: numbers of nodes that it runs on. measures: in words. sizes: setting and default of its
    messages, arrays or problem. scales: the setting of its nodes, if it has one; on n times as many nodes a
    launch takes n^growth times as long. caches: its arrays grow with the last-level caches; with n times
    `CACHE_A_CORE` a launch takes n^caches times as long. needed: launches of each case that an earlier run of
    this platform made of it, where there is one; `seconds` are then of that.
    """

    name: str
    tags: tuple[str, ...]
    commands: tuple[str, ...]
    jobs: int
    launches: int
    seconds: float
    nodes: tuple[int, ...]
    measures: str
    sizes: tuple[tuple[str, str], ...] = ()
    site: tuple[str, ...] = ()
    swept: int = 0
    scales: str = ""
    growth: float = 0.0
    caches: float = 0.0
    needed: tuple[int, ...] = ()

    def duration(self, samples: int) -> float:
        """Seconds of all its jobs, one after another."""
        return self.jobs * JOB_S + self.launches_of(samples) * self.seconds

    def launches_of(self, samples: int) -> int:
        """Launches of that many samples of each case, or of more than six at most
        (`npc.statistics.precision`)."""
        if self.needed:
            return sum(min(samples, most) for most in self.needed)
        if samples > MIN_SAMPLES:
            samples = Goal(most=samples).at_most(self.seconds)
        return self.launches * samples + self.swept * SWEEP_SAMPLES

    def on(self, nodes: int, caches: float = 1.0) -> Step:
        """What it is on a machine of `nodes` nodes: run on all of them as well, if it can.

        caches: last-level cache a core, in `CACHE_A_CORE`. With less than one a launch does not take less:
        many cores share a memory that a few of them saturate.
        """
        alone = replace(self, seconds=self.seconds * max(1.0, caches) ** self.caches)
        if not self.scales or nodes <= self.nodes[0]:
            return alone
        longer = (nodes / self.nodes[0]) ** self.growth
        return replace(
            alone,
            nodes=(self.nodes[0], nodes),
            jobs=2 * self.jobs,
            launches=2 * self.launches,
            seconds=alone.seconds * (1 + longer) / 2,
        )

    def longest_job(self, samples: int) -> float:
        """About the seconds of its longest job, which is on the most nodes."""
        ratio = (self.nodes[-1] / self.nodes[0]) ** self.growth
        most = 2 * ratio / (1 + ratio) if len(self.nodes) > 1 else 1.0
        return self.duration(samples) / self.jobs * most


@dataclass(frozen=True, slots=True)
class Benchmark:
    """A folder of ``benchmarks/``: its steps, and its tests; of several rows that fit a test the first, and
    where none does, all that is known is the layer."""

    name: str
    steps: tuple[Step, ...]
    tests: tuple[Test, ...] = ()
    layer: Layer = ""
