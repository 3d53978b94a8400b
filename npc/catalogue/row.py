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
    """What the numbers of a test mean."""

    __test__ = False  # pytest

    #: Pattern (fnmatch, in any case of letters) of the cases in records that this row is about.
    case: str
    #: The metric in records that this row is about; ``*`` for all.
    metric: str = "*"
    #: What carries the messages, or does the work; empty if not known.
    layer: Layer = ""
    #: How the time of one message follows from the number; empty where it does not.
    timing: Timing = ""
    #: Words for what is measured; tests of the same quantity are alike, whatever the tool. Empty if none.
    quantity: str = ""
    #: Operation of MPI whose time the number tells: ``allreduce``; empty if it tells none.
    operation: str = ""
    #: Level of the memory (``MEM``) where a record's params do not name it; empty if it is not known.
    level: str = ""
    #: Whether the bytes of both directions are added up.
    both_ways: bool = False
    #: Whether messages between processes of one node are part of the number, too.
    all_processes: bool = False
    #: Whether the transport may lose messages.
    lossy: bool = False
    #: IMB's rate of a row is this number × its message size / its time; 0 if not known.
    counted: int = 0
    #: The end of npb's pair that sends the counted bytes (not in reverse tests); empty if both, or not known.
    sender: Sender = ""

    @property
    def between_two(self) -> bool:
        """Whether it is of one direction between two processes, and a ceiling of their link."""
        return self.timing in ("half round trip", "interval between messages", "stream")


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A step of ``jube.yml``: what `npc plan` has to know of it."""

    #: The benchmark's name, with words behind it where it has further steps: ``qperf over RDMA``.
    name: str
    #: Tags of ``jube.yml``; any of them runs it.
    tags: tuple[str, ...]
    #: Tools (`npc.machine.tools`) that it needs; where one is missing, it is unavailable at once.
    commands: tuple[str, ...]
    #: How many workpackages it has; each is a job.
    jobs: int
    #: How many launches one sample of each case takes, in all its jobs together.
    launches: int
    #: How long a launch takes, in s: as the catalogue has it, or in the earlier run that `needed` is of.
    seconds: float
    #: On how many nodes its jobs run: one number, or the least and the most.
    nodes: tuple[int, ...]
    #: What it measures, in words.
    measures: str
    #: Settings of the sizes of its messages, arrays or problem, and the default of each, as typed.
    sizes: tuple[tuple[str, str], ...] = ()
    #: Settings that name the site's own build of the first command; empty where a package brings it.
    site: tuple[str, ...] = ()
    #: How many launches its sweeps take, each made `SWEEP_SAMPLES` times; 0 if it has no sweep.
    swept: int = 0
    #: The setting that says on how many nodes it runs; empty if it has none.
    scales: str = ""
    #: On n times as many nodes a launch takes n^growth times as long; 0: just as long.
    growth: float = 0.0
    #: With n times `CACHE_A_CORE` a launch takes n^caches times as long (n above 1), by its larger arrays.
    caches: float = 0.0
    #: How many launches each case took in an earlier run of the platform; empty if there was none.
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
    """A folder of ``benchmarks/``: what it runs, and what its numbers mean."""

    #: Name of its folder, which is also that in its records.
    name: str
    #: What JUBE runs of it; empty for a benchmark that is not in the catalogue.
    steps: tuple[Step, ...]
    #: What its numbers mean; of several rows that fit a test, the first is its row.
    tests: tuple[Test, ...] = ()
    #: All that is known of a test that no row fits: what carries its messages, or does the work; or empty.
    layer: Layer = ""
