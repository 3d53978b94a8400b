"""How long each benchmark takes: the one table that plans are made of.

Seconds of a launch are medians of ``launches.jsonl`` of whole runs with default settings on a virtual machine
of two cores, where nothing else is said. Most tools run for a set time, so they take as long elsewhere; those
that do a set amount of work (HPCC, the start of Python's OSU) differ by machine. Waiting for nodes is not in
here.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final

#: Of each job: the job script, `npc environment`, a compiler; JUBE itself.
JOB_S: Final = 4.0
#: Collecting, fitting, drawing at the end.
END_S: Final = 8.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One step of ``jube.yml``.

    tags: any of them runs it. commands: tools (`npc.machine.tools`) that it needs; without them it is
    unavailable at once. jobs: workpackages. launches: of one sample, all jobs together. fixed: launches that
    do not depend on the number of samples. seconds: of one launch. nodes: numbers of nodes that it
    runs on. measures: in words. sizes: setting and default of its messages, arrays or problem. scales: the
    setting of its nodes, if it has one; on n times as many nodes a launch takes n^growth times as long.
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
    fixed: int = 0
    scales: str = ""
    growth: float = 0.0

    def duration(self, samples: int) -> float:
        """Seconds of all its jobs, one after another."""
        return self.jobs * JOB_S + (self.launches * samples + self.fixed) * self.seconds

    def on(self, nodes: int) -> Step:
        """What it is where there are so many nodes: on all of them as well, if it can."""
        if not self.scales or nodes <= self.nodes[0]:
            return self
        longer = (nodes / self.nodes[0]) ** self.growth
        return replace(
            self,
            nodes=(self.nodes[0], nodes),
            jobs=2 * self.jobs,
            launches=2 * self.launches,
            seconds=self.seconds * (1 + longer) / 2,
        )

    def longest_job(self, samples: int) -> float:
        """About the seconds of its longest job, which is on the most nodes."""
        ratio = (self.nodes[-1] / self.nodes[0]) ** self.growth
        most = 2 * ratio / (1 + ratio) if len(self.nodes) > 1 else 1.0
        return self.duration(samples) / self.jobs * most


STEPS: Final[tuple[Step, ...]] = (
    Step(name="qperf", tags=("network",), commands=("qperf", "mpirun"), jobs=2, launches=4, seconds=2.0,
         nodes=(2,), measures="TCP and UDP bandwidth and latency",
         sizes=(("qperf_bandwidth_sizes", "4K,60K"), ("qperf_latency_sizes", "1,4K"))),
    Step(name="sockperf", tags=("network",), commands=("sockperf", "mpirun"), jobs=2, launches=3, seconds=3.2,
         nodes=(2,), measures="TCP latency with percentiles, throughput",
         sizes=(("sockperf_latency_sizes", "14,1K"), ("sockperf_throughput_sizes", "64000"))),
    Step(name="iperf3", tags=("network",), commands=("iperf3", "mpirun"), jobs=1, launches=1, seconds=1.0,
         nodes=(2,), measures="TCP goodput as received"),
    Step(name="osu", tags=("network",), commands=("osu_latency", "mpirun"), jobs=2, launches=9, seconds=0.8,
         nodes=(2,), measures="MPI latency, bandwidth, collectives",
         sizes=(("osu_max_size", "1048576"),)),
    Step(name="stream", tags=("memory",), commands=("cc",), jobs=1, launches=1, seconds=0.8, nodes=(1,),
         measures="memory bandwidth of a node",
         sizes=(("stream_array_size", "4 × last-level caches"),)),
    Step(name="likwid", tags=("compute", "memory"), commands=("likwid-bench",), jobs=1, launches=6, fixed=24,
         seconds=1.4, nodes=(1,), measures="peak FLOP/s, bandwidth of caches and memory"),
    # -a -n 1000 moves 17 GB in 23 sizes: 1.4 s on 4x EDR, and as much again to set up
    Step(name="perftest", tags=("rdma",), commands=("ib_write_bw", "mpirun"), jobs=2, launches=8, seconds=3.0,
         nodes=(2,), measures="RDMA bandwidth, latency, atomics",
         sizes=(("perftest_sizes", "-a, 2 to 8M"),)),
    Step(name="qperf over RDMA", tags=("rdma",), commands=("qperf", "mpirun"), jobs=2, launches=12,
         seconds=1.0, nodes=(2,), measures="RDMA bandwidth and latency",
         sizes=(("qperf_rdma_bandwidth_sizes", "64K,1M"), ("qperf_rdma_latency_sizes", "1,4K"))),
    Step(name="models", tags=("models",), commands=("mpirun",), jobs=1, launches=5, seconds=1.2, nodes=(2,),
         measures="what LogGP, LogfP, log_3P, BSP and τ-Lop are made of",
         sizes=(("models_max_size", "1048576"),)),
    # its N grows with the caches of all nodes, its work with N³
    Step(name="hpcc", tags=("apps",), commands=("hpcc", "mpirun"), jobs=1, launches=1, seconds=60.0,
         nodes=(1,), measures="HPC Challenge", scales="hpcc_nodes", growth=0.5,
         sizes=(("hpcc_n", "by the last-level caches"),)),
    # a job for one process, for 2, 4, … all cores
    Step(name="himeno", tags=("apps",), commands=("mpicc", "mpirun"), jobs=2, launches=2, seconds=6.2,
         nodes=(1,), measures="a stencil over MPI", scales="himeno_nodes", sizes=(("himeno_size", "M"),)),
    Step(name="hpcg", tags=("apps",), commands=("xhpcg", "mpirun"), jobs=1, launches=1, seconds=60.0,
         nodes=(1,), measures="conjugate gradients", scales="hpcg_nodes", sizes=(("hpcg_size", "104"),)),
    Step(name="patterns", tags=("apps",), commands=("mpirun",), jobs=3, launches=4, seconds=3.0, nodes=(2,),
         measures="rings, message rate, ping-pong under load", scales="patterns_nodes",
         sizes=(("patterns_sizes", "8,1024,16384"), ("patterns_load_size", "262144"),
                ("patterns_max_size", "1048576"))),
    Step(name="imb", tags=("tools",), commands=("IMB-MPI1", "mpirun"), jobs=1, launches=4, seconds=1.5,
         nodes=(2,), measures="MPI by Intel's benchmarks", sizes=(("imb_msglog", "0:20, powers of two"),)),
    Step(name="netpipe", tags=("tools",), commands=("mpirun",), jobs=1, launches=1, seconds=1.5,
         nodes=(2,), measures="a ping-pong over many sizes", sizes=(("netpipe_max_size", "1048576"),)),
    Step(name="nuttcp", tags=("tools",), commands=("nuttcp", "mpirun"), jobs=2, launches=3, seconds=1.2,
         nodes=(2,), measures="TCP and UDP throughput, loss",
         sizes=(("nuttcp_tcp_sizes", "4K,64K"), ("nuttcp_udp_sizes", "1400"))),
)  # fmt: skip


#: Programs that no package brings: the settings that name a site's own. Without one of them they are missing.
SITE_PROGRAMS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType({
    "xhpcg": ("hpcg_prefix", "hpcg_source"),
    "IMB-MPI1": ("imb_prefix",),
})  # fmt: skip


def steps_of(tags: Collection[str], nodes: int = 1) -> list[Step]:
    """The steps that any of the tags runs where there are so many nodes, in the order of the table."""
    return [step.on(nodes) for step in STEPS if set(step.tags) & set(tags)]


def duration(tags: Collection[str], samples: int, missing: Collection[str] = (), nodes: int = 1) -> float:
    """Seconds of a run; steps that need one of the `missing` commands end at once."""
    return END_S + sum(
        step.jobs * JOB_S if set(step.commands) & set(missing) else step.duration(samples)
        for step in steps_of(tags, nodes)
    )
