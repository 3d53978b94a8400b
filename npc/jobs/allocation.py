"""What a job script asks for, and what an allocation has: for running several scripts in one allocation."""

from __future__ import annotations

from dataclasses import dataclass


class UnreadableScript(ValueError):
    """A job script that cannot run within another job; the message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRequest:
    """What the head of a job script asks its batch system for."""

    #: On how many nodes it runs.
    nodes: int
    #: How many processes it starts on all of them together.
    tasks: int
    #: The same on each node.
    tasks_per_node: int
    #: CPUs of each process.
    cpus_per_task: int
    #: Its time limit in s; None if it names none.
    limit_s: float | None
    #: File of its standard output, seen from the folder it is submitted from; with the system's ``%j``.
    output: str
    #: The same of its standard error; empty: the file of the output.
    error: str
    #: Its further options, a line each, without what marks them: partition, account, whole nodes.
    others: tuple[str, ...] = ()

    @property
    def cpus_per_node(self) -> int:
        """How many CPUs it takes of each of its nodes."""
        return self.tasks_per_node * self.cpus_per_task


@dataclass(frozen=True, slots=True, kw_only=True)
class JobAllocation:
    """The nodes that a job has."""

    #: The number of the job, or the name that the batch system has for it.
    job: str
    #: Its nodes as the batch system names them; a batch script runs on the first one.
    hosts: tuple[str, ...]
    #: How many CPUs it has of each of them; empty where that is not known.
    cpus: tuple[int, ...] = ()

    def lacks(self, wanted: JobRequest) -> str:
        """Why a script cannot have here what it asks for; empty if it can."""
        if wanted.nodes > len(self.hosts):
            return f"it needs {wanted.nodes} nodes, job {self.job} has {len(self.hosts)}"
        cpus = min(self.cpus[: wanted.nodes], default=wanted.cpus_per_node)
        if wanted.cpus_per_node > cpus:
            return f"it needs {wanted.cpus_per_node} CPUs of a node, job {self.job} has {cpus}"
        return ""
