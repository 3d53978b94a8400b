"""The container that tools are started in (`npc.machine.container`)."""

from __future__ import annotations

from collections.abc import Iterator

from npc.machine.preflight import Environment, MpiTrial, check


@check(
    "warning",
    "jobs with this container are unavailable, or it has no shell by which to try it out",
    "npc doctor on a compute node says the same; docs/cluster.md, Containers",
)
def container_fails(environment: Environment, trial: MpiTrial) -> Iterator[str]:
    """An image in which no shell starts."""
    container = environment.get("container")
    if container and container["problem"]:
        yield f"no shell starts in the container {container['image']}: {container['problem']}"


@check(
    "warning",
    "Open MPI and UCX copy large messages between ranks of a node once (CMA) only where one rank may read "
    "the other's memory; else they copy twice, or end with an error",
    "nothing, if applications run so, too; else an Apptainer with setuid, or one container for all ranks of "
    "a node. Against errors: export OMPI_MCA_btl_vader_single_copy_mechanism=none UCX_TLS=^cma",
)
def container_single_copy(environment: Environment, trial: MpiTrial) -> Iterator[str]:
    """Containers whose processes may not read each other's memory."""
    container = environment.get("container")
    if container and container["single_copy"] is False:
        yield (
            f"two processes in {container['image']} may not read each other's memory: "
            f"{container['single_copy_refused']}"
        )


@check(
    "note",
    "the launcher outside and the MPI inside speak through PMIx; between two major versions a start may "
    "fail, or every rank is alone",
    "take an image with the same major version; try: export PMIX_MCA_gds=hash PMIX_MCA_psec=native",
)
def container_pmix(environment: Environment, trial: MpiTrial) -> Iterator[str]:
    """PMIx inside against outside."""
    pmix = (environment.get("container") or {}).get("pmix") or {}
    inside, outside = pmix.get("inside"), pmix.get("outside")
    if inside and outside and inside.partition(".")[0] != outside.partition(".")[0]:
        yield f"PMIx {inside} in the container, {outside} outside"
