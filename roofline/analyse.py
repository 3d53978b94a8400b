"""From records to everything that is drawn and printed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from npc.machine.platform import Platform
from npc.records.record import Record
from npc.roofline.applications import find_applications
from npc.roofline.ceilings import find_ceilings
from npc.roofline.mpi import find_callers, mpi_ceilings
from npc.roofline.result import Ceiling, Roofline


def analyse(
    records: Sequence[Record],
    platform: Platform | None = None,
    nodes: int = 1,
    message_size: int | None = None,
) -> Roofline:
    """Ceilings, applications and MPI operations of one platform's records.

    nodes: 1 shows the ceilings of a node, and all applications with what each of their nodes did. More show
    the ceilings of a job of so many nodes, each so many times that of one node, and only applications on as
    many nodes. message_size: network ceilings at that size in bytes instead of the best one.
    """
    roofline = find_ceilings(records, platform, message_size)
    applications = find_applications(records)
    if nodes > 1:
        roofline = _job(roofline, nodes)
        applications = [application.of_job() for application in applications if application.nodes == nodes]
    return replace(
        roofline,
        applications=tuple(applications),
        mpi=tuple(mpi_ceilings(records)),
        callers=tuple(find_callers(records)),
    )


def _job(roofline: Roofline, nodes: int) -> Roofline:
    """The ceilings of `nodes` nodes that work side by side and share no link (full bisection bandwidth).

    A network test within one node is no ceiling of a job's network. A file system is shared, so an I/O
    ceiling is only what the same number of nodes reached at once.
    """
    ceilings = [
        ceiling
        for ceiling in roofline.ceilings
        if not (ceiling.kind == "network" and ceiling.nodes == 1)
        and not (ceiling.kind == "io" and ceiling.nodes != nodes)
    ]

    def times(ceiling: Ceiling) -> Ceiling:
        low, high, nominal = (end and end * nodes for end in (ceiling.low, ceiling.high, ceiling.nominal))
        return replace(ceiling, value=ceiling.value * nodes, low=low, high=high, nominal=nominal)

    return replace(
        roofline,
        job_nodes=nodes,
        ceilings=tuple(map(times, ceilings)),
        kernels=tuple(map(times, roofline.kernels)),
        dependent=None if roofline.dependent is None else times(roofline.dependent),
        theoretical={precision: peak * nodes for precision, peak in roofline.theoretical.items()},
    )
