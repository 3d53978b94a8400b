"""How long each benchmark takes: the one table that plans are made of.

Seconds of a launch are medians of ``launches.jsonl`` of whole runs with default settings on a virtual machine
of two cores, where nothing else is said. Most tools run for a set time, so they take as long elsewhere; those
that do a set amount of work (HPCC, the start of Python's OSU) differ by machine. Waiting for nodes is not in
here.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

#: Of each job: the job script, `npc environment`, a compiler; JUBE itself.
JOB_S: Final = 4.0
#: Collecting, fitting, drawing at the end.
END_S: Final = 8.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One step of ``jube.yml``.

    tags: any of them runs it. commands: tools (`npc.tools`) that it needs; without them it is unavailable at
    once. jobs: workpackages. launches: of one sample, all jobs together. fixed: launches that do not depend
    on the number of samples. seconds: of one launch. nodes: of its largest job. measures: in words.
    """

    name: str
    tags: tuple[str, ...]
    commands: tuple[str, ...]
    jobs: int
    launches: int
    seconds: float
    nodes: int
    measures: str
    fixed: int = 0

    def duration(self, samples: int) -> float:
        """Seconds of all its jobs, one after another."""
        return self.jobs * JOB_S + (self.launches * samples + self.fixed) * self.seconds


STEPS: Final[tuple[Step, ...]] = (
    Step(name="qperf", tags=("network",), commands=("qperf", "mpirun"), jobs=2, launches=4, seconds=2.0,
         nodes=2, measures="TCP and UDP bandwidth and latency"),
    Step(name="sockperf", tags=("network",), commands=("sockperf", "mpirun"), jobs=2, launches=3, seconds=3.2,
         nodes=2, measures="TCP latency with percentiles, throughput"),
    Step(name="iperf3", tags=("network",), commands=("iperf3", "mpirun"), jobs=1, launches=1, seconds=1.0,
         nodes=2, measures="TCP goodput as received"),
    Step(name="osu", tags=("network",), commands=("osu_latency", "mpirun"), jobs=2, launches=9, seconds=0.8,
         nodes=2, measures="MPI latency, bandwidth, collectives"),
    Step(name="stream", tags=("memory",), commands=("cc",), jobs=1, launches=1, seconds=0.8, nodes=1,
         measures="memory bandwidth of a node"),
    Step(name="likwid", tags=("compute", "memory"), commands=("likwid-bench",), jobs=1, launches=6, fixed=24,
         seconds=1.4, nodes=1, measures="peak FLOP/s, bandwidth of caches and memory"),
    # -a -n 1000 moves 17 GB in 23 sizes: 1.4 s on 4x EDR, and as much again to set up
    Step(name="perftest", tags=("rdma",), commands=("ib_write_bw", "mpirun"), jobs=2, launches=8, seconds=3.0,
         nodes=2, measures="RDMA bandwidth, latency, atomics"),
    Step(name="qperf over RDMA", tags=("rdma",), commands=("qperf", "mpirun"), jobs=2, launches=12,
         seconds=1.0, nodes=2, measures="RDMA bandwidth and latency"),
    Step(name="models", tags=("models",), commands=("mpirun",), jobs=1, launches=5, seconds=1.2, nodes=2,
         measures="what LogGP, LogfP, log_3P, BSP and τ-Lop are made of"),
    Step(name="hpcc", tags=("apps",), commands=("hpcc", "mpirun"), jobs=1, launches=1, seconds=60.0, nodes=1,
         measures="HPC Challenge"),
    Step(name="himeno", tags=("apps",), commands=("mpicc", "mpirun"), jobs=1, launches=1, seconds=6.2,
         nodes=1, measures="a stencil over MPI"),
    # unless NPC_HPCG_PREFIX or NPC_HPCG_SOURCE name it, it is unavailable, which takes no time
    Step(name="hpcg", tags=("apps",), commands=("mpirun",), jobs=1, launches=1, seconds=60.0, nodes=1,
         measures="conjugate gradients"),
    Step(name="patterns", tags=("apps",), commands=("mpirun",), jobs=3, launches=4, seconds=3.0, nodes=2,
         measures="rings, message rate, ping-pong under load"),
    Step(name="imb", tags=("tools",), commands=("mpirun",), jobs=1, launches=4, seconds=1.5, nodes=2,
         measures="MPI by Intel's benchmarks"),
    Step(name="netpipe", tags=("tools",), commands=("mpirun",), jobs=1, launches=1, seconds=1.5,
         nodes=2, measures="a ping-pong over many sizes"),
    Step(name="nuttcp", tags=("tools",), commands=("nuttcp", "mpirun"), jobs=2, launches=3, seconds=1.2,
         nodes=2, measures="TCP and UDP throughput, loss"),
)  # fmt: skip


def steps_of(tags: Collection[str]) -> list[Step]:
    """The steps that any of the tags runs, in the order of the table."""
    return [step for step in STEPS if set(step.tags) & set(tags)]


def duration(tags: Collection[str], samples: int, missing: Collection[str] = ()) -> float:
    """Seconds of a run; steps that need one of the `missing` commands end at once."""
    steps = steps_of(tags)
    return END_S + sum(
        JOB_S if set(step.commands) & set(missing) else step.duration(samples) for step in steps
    )
