"""CPU placement: which CPUs the job has, and which of them a tool is given.

An MPI launcher binds each rank, usually to one core, and a child inherits that. A network tool on the
core of its peer, or on the one core that also serves the network's interrupts, measures something else
(qperf ``tcp_lat`` over a host's own address: 7 µs with both sides on one core, 28 µs on two). So tools
get the CPU set of the job: that of the launcher's daemon, which is not bound.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Collection
from pathlib import Path
from typing import Final

from npc.machine.sysfs import format_cpus
from npc.npb.processes import ancestors

#: Command names (as in /proc/PID/comm, 15 characters) of what starts ranks on a node.
LAUNCHERS: Final = frozenset({
    "orted", "orterun", "mpirun", "mpirun.openmpi", "mpiexec", "mpiexec.openmpi", "prted", "prterun", "prte",
    "hydra_pmi_proxy", "mpiexec.hydra", "mpiexec.gforker", "mpispawn", "slurmstepd", "srun", "palsd",
    "pbs_mom", "jsmd", "apinit",
})  # fmt: skip


#: What a user starts, as opposed to the daemons that it starts on other nodes.
FRONT_ENDS: Final = (
    "mpirun", "orterun", "mpirun.openmpi", "mpiexec", "mpiexec.openmpi", "prterun", "mpiexec.hydra", "srun",
)  # fmt: skip


def launcher_chain(pid: int) -> list[tuple[int, str]]:
    """Pids and names from the parent of `pid` up to the MPI launcher's daemon; the parent alone if there is
    none."""
    chain = ancestors(pid)
    last = next((place for place, (_, name) in enumerate(chain) if name in LAUNCHERS), 0)
    return chain[: last + 1]


def watch_launcher(pid: int) -> list[int]:
    """A file descriptor (pidfd_open(2)) of each process of `launcher_chain`: readable when that process ends.

    To be called before MPI starts: who asks later finds a launcher that was killed meanwhile no more, because
    its ranks have another parent by then. Empty before Linux 5.3.
    """
    watched = []
    for ancestor, _ in launcher_chain(pid):
        with contextlib.suppress(AttributeError, OSError):
            watched.append(os.pidfd_open(ancestor))
    return watched


def ends_at_terminal(stream: int, or_else: bool) -> bool:
    """Whether what this process writes on a stream (1 or 2) is shown on a terminal: where the launcher's own
    goes. Open MPI gives ranks a terminal, others a pipe, whatever its own is. or_else: the answer where the
    launcher is not on this node.
    """
    for pid, name in ancestors(os.getpid()):
        if name in FRONT_ENDS:
            with contextlib.suppress(OSError):
                goes_to = str(Path(f"/proc/{pid}/fd/{stream}").readlink())
                return goes_to.startswith(("/dev/pts/", "/dev/tty", "/dev/console"))
    return or_else


def job_cpus(pid: int) -> set[int]:
    """The CPUs that the job of rank `pid` has on this node."""
    cpus = os.sched_getaffinity(pid)
    for ancestor, name in launcher_chain(pid)[-1:]:
        with contextlib.suppress(OSError):
            cpus |= os.sched_getaffinity(ancestor) if name in LAUNCHERS else set()
    return cpus


def within(cpus: Collection[int], allowed: Collection[int], host: str) -> None:
    """`cpus`, which must be among those that the job has on `host`. Raises ValueError."""
    outside = set(cpus) - set(allowed)
    if outside:
        raise ValueError(
            f"CPU {format_cpus(outside)} is not among those of this job on {host}: {format_cpus(allowed)}"
        )
