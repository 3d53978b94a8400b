"""What the pattern programs share: who takes part and where, and the head of their tables.

A table is a title, lines that begin with ``#``, one of which names the columns, and rows. It counts only if
its last line is ``# End``.
"""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Callable
from typing import NoReturn

from mpi4py import MPI


def sizes(text: str) -> list[int]:
    """Message sizes in bytes: whole numbers with commas between. Raises ValueError."""
    ranks = [int(word) for word in text.split(",")]
    if min(ranks) < 1:
        raise ValueError(f"sizes are at least 1 byte: {text}")
    return ranks


def oversubscribed(comm: MPI.Comm, threads: int) -> str:
    """Why threads have to share CPUs, of the first process that has to say so; "" if each has one."""
    allowed = frozenset(os.sched_getaffinity(0))
    places = comm.allgather((socket.gethostname(), allowed))
    host, _ = places[comm.rank]
    here = [cpus for name, cpus in places if name == host]
    together = frozenset[int]().union(*here)
    problem = ""
    if len(here) * threads > len(together):
        problem = f"{len(here) * threads} threads of {len(here)} processes on {len(together)} CPUs of {host}"
    elif threads > len(allowed):
        problem = f"{threads} threads on the {len(allowed)} CPUs that a process of {host} is bound to"
    return next(filter(None, comm.allgather(problem)), "")


def head(comm: MPI.Comm, program: str, threads: int, columns: str) -> None:
    """Print what stands above the rows, from rank 0. Collective."""
    problem = oversubscribed(comm, threads)
    nodes = len(set(comm.allgather(socket.gethostname())))
    if comm.rank == 0:
        library = MPI.Get_library_version().partition(",")[0].split("\n")[0].strip("\0 ")
        print(f"# NPC {program}: {comm.size} processes, {nodes} nodes, {threads} threads each")
        print(f"# MPI: {library}")
        if problem:
            print(f"# Oversubscribed: {problem}")
        print(f"# Columns: {columns}", flush=True)


def end(comm: MPI.Comm) -> None:
    """Print what stands below the rows, when all processes are there."""
    comm.Barrier()
    if comm.rank == 0:
        print("# End", flush=True)


def refuse(comm: MPI.Comm, reason: str) -> NoReturn:
    """End all processes with exit code 1 and one message; every process calls it."""
    if comm.rank == 0:
        print(reason, file=sys.stderr, flush=True)
    comm.Barrier()
    MPI.Finalize()
    os._exit(1)


def loops_for(comm: MPI.Comm, work: Callable[[int], object], seconds: float) -> int:
    """How many loops of `work` fill the time, from trials of 1, 2, 4, …; the same in all processes."""
    loops = 1
    while True:
        took = timed(comm, work, loops)
        if took > seconds / 4 or loops >= 1 << 20:
            return max(1, int(loops * seconds / took))
        loops *= 2


def timed(comm: MPI.Comm, work: Callable[[int], object], loops: int) -> float:
    """Seconds that the slowest process takes for `loops` loops of `work`."""
    comm.Barrier()
    start = MPI.Wtime()
    work(loops)
    took = MPI.Wtime() - start
    return float(comm.allreduce(took, op=MPI.MAX))
