"""POP's efficiencies and the load imbalance of a program, from how long each rank was inside MPI.

Wang, "Performance Engineering on HPC Clusters" (JAIST 2023), Eq. 3.7 to 3.16, which are those of the POP
centre of excellence; Eberius, "Providing Insight into the Performance of Distributed Applications Through
Low-Level Metrics" (University of Tennessee 2020), Eq. 4.1 to 4.5. Times are seconds between MPI_Init's end
and MPI_Finalize's begin; efficiencies are shares of 1.

A rank computes while it is outside MPI. In a rank with several threads this is known of the thread that calls
MPI. What all threads computed is their CPU time less the time inside MPI, because MPI waits by polling, which
takes CPU time. Threads that wait for others in a loop (OMP_WAIT_POLICY=active) count as computing, so
OpenMP's efficiency is an upper bound.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from npc.observe.mpi.profile import WHOLE, RankProfile
from npc.observe.mpi.records import CallStats, Efficiency, Rank

#: Instructions are also counted inside MPI, where a rank polls. With more than this share of the time inside
#: MPI they say too little about the program.
_MOST_POLLING: Final = 0.05


def load_of(profile: RankProfile) -> Rank:
    """Where the rank's time went, by its profile."""
    named = profile.regions if profile.regions and set(profile.regions) != {WHOLE} else {}
    calls: dict[str, CallStats] = {}
    inside: defaultdict[str, float] = defaultdict(float)
    for call in profile.calls:
        number, seconds, size = calls.get(call.call, (0, 0.0, 0))
        calls[call.call] = CallStats(number + call.calls, seconds + call.seconds, size + call.bytes)
        inside[call.region] += call.seconds
    return Rank(
        rank=profile.rank,
        host=profile.host,
        seconds=profile.seconds,
        mpi=min(profile.mpi_seconds, profile.seconds),
        calls=dict(sorted(calls.items(), key=lambda entry: -entry[1].seconds)),
        regions={name: (seconds, min(seconds, inside[name])) for name, seconds in named.items()},
        threads=profile.openmp_threads,
        cpu=profile.cpu_seconds,
        instructions=profile.instructions,
        cycles=profile.cycles,
    )


def efficiency_of(loads: Sequence[Rank], gpu: Mapping[int, float] | None = None) -> Efficiency:
    """The efficiencies of a run.

    gpu: rank → how well its kernels used the GPU (SM efficiency × warp execution efficiency, Eq. 4.3). The
    imbalance is then of loads that are multiplied by it (Eq. 4.4). Raises ValueError
    without ranks, and KeyError for a rank that `gpu` lacks.
    """
    if not loads:
        raise ValueError("no rank has a profile")
    seconds = max(load.seconds for load in loads)
    computing = [load.computing for load in loads]
    mean, most = sum(computing) / len(loads), max(computing)
    threads = _threads(loads)
    reasons: dict[str, str] = {}
    if not mean:
        reasons = dict.fromkeys(("load_balance", "imbalance"), "no rank was outside MPI")
    if not seconds:
        reasons |= dict.fromkeys(("parallel", "communication", "mpi", "openmp"), "no time passed")
    inside = mean / seconds if seconds else None
    hybrid, openmp = inside, None
    if threads == len(loads):
        reasons.setdefault("openmp", "each rank has one thread")
    else:
        useful = _useful(loads)
        hybrid = useful / threads / seconds if seconds and useful is not None else None
        openmp = hybrid / inside if hybrid is not None and inside else None
        if openmp is None:
            for name in ("parallel", "openmp"):
                reasons.setdefault(name, "the CPU time of the ranks' threads is not known")
    adjusted = (
        [computed * gpu[load.rank] for computed, load in zip(computing, loads, strict=True)] if gpu else None
    )
    return Efficiency(
        ranks=len(loads),
        threads=threads,
        seconds=seconds,
        computing=mean,
        parallel=hybrid,
        load_balance=mean / most if most else None,
        communication=most / seconds if seconds else None,
        mpi=inside,
        openmp=openmp,
        imbalance=_imbalance(adjusted or computing),
        slowest=max(loads, key=lambda load: load.computing).rank,
        gain=most - mean,
        reasons=reasons,
    )


def _imbalance(loads: Sequence[float]) -> float | None:
    """Eq. 4.1, and 4.5 of adjusted loads."""
    mean = sum(loads) / len(loads)
    return max(loads) / mean - 1 if mean else None


def in_region(loads: Sequence[Rank], name: str) -> list[Rank]:
    """The ranks that were in a region, as if the region were the run. What threads that do not call MPI did
    there is not known."""
    return [
        Rank(rank=load.rank, host=load.host, seconds=seconds, mpi=mpi)
        for load in loads
        if name in load.regions
        for seconds, mpi in [load.regions[name]]
    ]


def efficiency_by_region(loads: Sequence[Rank]) -> dict[str, Efficiency]:
    """Region → its efficiency."""
    names = dict.fromkeys(name for load in loads for name in load.regions)
    return {name: efficiency_of(in_region(loads, name)) for name in names}


@dataclass(frozen=True, slots=True, kw_only=True)
class Scaling:
    """How a run's computation grew against a reference's, as ratios: above 1 is better than the reference.
    computation = instructions × ipc × frequency; None where one is not known."""

    #: CPU time that the reference computed for the same work, over the run's.
    computation: float | None
    #: Instructions that the reference executed for the same work, over the run's.
    instructions: float | None
    #: Instructions per cycle, over the reference's.
    ipc: float | None
    #: Cycles per second of CPU time, over the reference's.
    frequency: float | None
    #: `computation` × the run's parallel efficiency (POP: global efficiency).
    total: float | None
    #: Name of a field that is None → why.
    reasons: Mapping[str, str]


def scaling_of(loads: Sequence[Rank], reference: Sequence[Rank], weak: bool) -> Scaling:
    """Eq. 3.10 to 3.13, for the same problem (strong scaling) or one that grows with the CPUs (weak scaling).

    IPC and frequency are means over all threads; instructions and cycles are counted in user mode, inside MPI
    too, so they are unavailable where a run was there for more than 5 % of its time.
    """
    reasons: dict[str, str] = {}
    useful, before = _useful(loads), _useful(reference)
    share = _threads(loads) / _threads(reference) if weak else 1.0
    computation = total = instructions = ipc = frequency = None
    if not useful or before is None:
        why = "nothing was computed" if useful == 0 else "the CPU time of the ranks' threads is not known"
        reasons = dict.fromkeys(("computation", "total"), why)
    else:
        computation = share * before / useful
        parallel = efficiency_of(loads).parallel
        total = computation * parallel if parallel is not None else None
    uncounted = _uncounted(loads) or _uncounted(reference)
    if uncounted or not useful or not before:
        reasons |= dict.fromkeys(("instructions", "ipc", "frequency"), uncounted or reasons["computation"])
    else:
        (executed, cycles), (executed_before, cycles_before) = _counts(loads), _counts(reference)
        instructions = share * executed_before / executed
        ipc = (executed / cycles) / (executed_before / cycles_before)
        frequency = (cycles / useful) / (cycles_before / before)
    return Scaling(
        computation=computation,
        instructions=instructions,
        ipc=ipc,
        frequency=frequency,
        total=total,
        reasons=reasons,
    )


def _threads(loads: Sequence[Rank]) -> int:
    return sum(load.threads for load in loads)


def _useful(loads: Sequence[Rank]) -> float | None:
    """Seconds that all threads of all ranks computed; None where one rank's are not known."""
    known = [load.useful for load in loads if load.useful is not None]
    return sum(known) if len(known) == len(loads) else None


def _counts(loads: Sequence[Rank]) -> tuple[int, int]:
    """Instructions and cycles of all ranks."""
    return sum(load.instructions or 0 for load in loads), sum(load.cycles or 0 for load in loads)


def _uncounted(loads: Sequence[Rank]) -> str:
    """Why the counted instructions say nothing of the computation; empty where they do."""
    if not all(load.instructions and load.cycles for load in loads):
        return "instructions and cycles were not counted"
    inside = sum(load.mpi for load in loads) / (sum(load.seconds for load in loads) or 1.0)
    if inside > _MOST_POLLING:
        return f"{inside:.0%} of the time was inside MPI, whose polling is counted with the rest"
    return ""
