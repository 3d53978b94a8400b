"""The processes of this machine, read in /proc/PID/stat (proc(5)): the only place that does.

The launcher reads some of them every millisecond and starts on every node, so nothing is imported for it.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

#: Where MPI launchers tell a process, before MPI is asked, which rank it is, and of how many.
RANK: Final = ("OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID", "MV2_COMM_WORLD_RANK")
RANKS: Final = ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_NTASKS", "MV2_COMM_WORLD_SIZE")
#: Which of its node's ranks a process is, and of how many.
LOCAL_RANK: Final = ("OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "PMIX_LOCAL_RANK", "SLURM_LOCALID")
_LOCAL_RANKS: Final = ("OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS", "SLURM_TASKS_PER_NODE")

_PR_SET_PDEATHSIG: Final = 1
#: A thread of the kernel (PF_KTHREAD in include/linux/sched.h).
_PF_KTHREAD: Final = 0x00200000
_LIBC: Final = ctypes.CDLL(None, use_errno=True)


class Process(NamedTuple):
    """A living process."""

    #: The kernel's number of it.
    pid: int
    #: What the kernel calls it: at most 15 characters of the name of a program.
    name: str
    #: Number of the process that it is a child of.
    parent: int
    #: Number of the process that leads its session.
    session: int
    #: Whether it is a thread of the kernel.
    kernel: bool
    #: How long it has computed itself, as program and in the kernel, in ticks of the kernel's clock.
    ticks: int
    #: How long its children have computed that have ended and that it has waited for, and theirs, in ticks.
    waited: int
    #: When it started, in ticks since the boot: tells it from a later process with its number.
    started: int


def read(pid: int, root: Path = Path("/")) -> Process | None:
    """The process; None if it is gone or a zombie."""
    try:
        text = (root / f"proc/{pid}/stat").read_text(errors="replace")
    except OSError:
        return None
    # "PID (NAME) STATE …": the name may hold spaces and brackets; the state is field 3 of proc(5)
    name = text[text.index("(") + 1 : text.rindex(")")]
    state, *fields = text[text.rindex(")") + 2 :].split()
    if state in "ZX":
        return None
    field = dict(enumerate(map(int, fields), 4))
    kernel = bool(field[9] & _PF_KTHREAD)
    ticks, waited = field[14] + field[15], field[16] + field[17]
    return Process(pid, name, field[4], field[6], kernel, ticks, waited, started=field[22])


def boot() -> str:
    """The kernel's name of this boot (random(4)); with it, `Process.started` tells one process of a host from
    all others. Empty where the kernel has none."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return ""


def storage_and_calls(pid: int) -> dict[str, int] | None:
    """What a process and all that it has waited for moved: ``rchar``, ``wchar``, ``syscr``, ``syscw``,
    ``read_bytes``, ``write_bytes``, ``cancelled_write_bytes`` of proc_pid_io(5). A zombie still tells. None
    where the kernel does not (it counts nothing, or the program runs as somebody else)."""
    try:
        lines = Path(f"/proc/{pid}/io").read_text().splitlines()
        return {name: int(number) for name, _, number in (line.partition(": ") for line in lines)}
    except (OSError, ValueError):
        return None


def everyone(root: Path = Path("/")) -> Iterator[Process]:
    """All processes that live."""
    for entry in os.scandir(root / "proc"):
        if entry.name.isdecimal() and (process := read(int(entry.name), root)):
            yield process


def first_number(variables: Iterable[str]) -> int | None:
    """The number that the first of these variables of the environment gives; None where none does."""
    texts = (os.environ.get(name, "") for name in variables)
    return next((int(text) for text in texts if text.isdecimal()), None)


def capabilities(root: Path = Path("/")) -> int:
    """The bits of those that this process has in effect (proc(5), capabilities(7)); 0 where nobody tells."""
    try:
        lines = (root / "proc/self/status").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1], 16) for line in lines if line.startswith("CapEff:")), 0)


def local_ranks() -> int:
    """How many ranks this node has, as far as launchers tell, else as many as it may have."""
    return first_number(_LOCAL_RANKS) or min(first_number(RANKS) or 1, os.cpu_count() or 1)


def die_with_parent(signum: int) -> None:
    """Have the kernel send `signum` to this process when the thread that forked it ends (prctl(2))."""
    _LIBC.prctl(_PR_SET_PDEATHSIG, signum, 0, 0, 0)
