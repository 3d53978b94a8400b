"""What the jobs of a run cost, and which of its groups of nodes were not measured."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from npc.jobs.in_place import seconds_of
from npc.jobs.scheduler import Job, JobId, SchedulerUnavailable
from npc.jobs.workpackages import BatchJob, NoRun, Workpackage, read_workpackages
from npc.machine.fabric import expand
from npc.records.launch import LAUNCHES, read_launches
from npc.records.record import moment


class Cost(NamedTuple):
    """What the jobs of a benchmark took."""

    #: Node time in seconds: nodes × time of the jobs, as a scheduler bills whole nodes.
    node_s: float
    #: Number of groups of nodes for which it was spent.
    places: int


class RunCosts(NamedTuple):
    """What the jobs of a run took."""

    #: By benchmark.
    costs: dict[str, Cost]
    #: By group of nodes (a host list) why the run has no launch there.
    unmeasured: dict[str, str]


def costs_of(run: Path | None) -> RunCosts:
    """What the jobs of a run have cost, nothing those that never ran, and where nothing was measured.

    The time is the batch system's; where it does not know the job, or there is none, from the first launch
    to the end of the last one.
    """
    run_costs = RunCosts({}, {})
    if run is None:
        return run_costs
    with contextlib.suppress(NoRun):
        workpackages = read_workpackages(run)
        named_jobs = list(filter(None, map(Workpackage.batch_job, workpackages)))
        jobs, shared = jobs_of(named_jobs), Counter(named.number for named in named_jobs)
        places: dict[str, set[str]] = {}
        for workpackage in workpackages:
            named, nodes = workpackage.batch_job(), workpackage.parameters.get("npc_nodelist", "")
            job = jobs.get(named.number) if named else None
            if nodes and not workpackage.progress().made:
                cut = job and job.ended and job.state != "COMPLETED" and not workpackage.recorded_reason()
                run_costs.unmeasured[nodes] = job.ending() if job and cut else workpackage.reason()
            alone = named is None or shared[named.number] == 1
            seconds = (
                job.elapsed_s if job and alone else seconds_of(workpackage) or between_launches(workpackage)
            )
            if seconds > 0:
                places.setdefault(workpackage.step, set()).add(nodes)
                before, _ = run_costs.costs.get(workpackage.step, (0.0, 0))
                cost = Cost(before + seconds * _nodes(workpackage, job), len(places[workpackage.step]))
                run_costs.costs[workpackage.step] = cost
    return run_costs


def jobs_of(named: Iterable[BatchJob]) -> dict[JobId, Job]:
    """What is known of jobs, by number, as far as their batch systems answer and know them."""
    jobs = list(named)
    known: dict[JobId, Job] = {}
    for scheduler, cluster in dict.fromkeys((job.scheduler, job.cluster) for job in jobs):
        with contextlib.suppress(SchedulerUnavailable, FileNotFoundError):
            here = {job.number for job in jobs if (job.scheduler, job.cluster) == (scheduler, cluster)}
            known |= scheduler.ask(here, cluster)
    return known


def _nodes(workpackage: Workpackage, job: Job | None) -> int:
    number = workpackage.asked_nodes()
    with contextlib.suppress(ValueError):  # a list so long that squeue cut it
        if job and job.nodes:  # an accounting may name one of them
            return max(number, len(expand(job.nodes)))
    return number


def between_launches(workpackage: Workpackage) -> float:
    """Seconds from the first launch of a workpackage to the end of its last one; 0 without launches."""
    begun, ended = list[float](), list[float]()
    for path in (workpackage.folder / "work").glob(f"*/{LAUNCHES}"):
        with contextlib.suppress(OSError, ValueError):
            for launch in read_launches(path.parent).launches:
                begun.append(moment(launch.started).timestamp())
                ended.append(begun[-1] + launch.seconds)
    return max(ended) - min(begun) if begun else 0.0
