"""The time that the profiling library adds to a call of MPI.

A program of one rank calls MPI alternately with and without the library (``call_cost.c``). Two calls are
timed and the one with the larger cost is taken, a send and a receive with their stamps; most calls cost less.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Final

from npc.machine.command import exit_words, last_words, run
from npc.observe.costs.cache import NoCost, cached_costs
from npc.observe.mpi.build import find_compiler, mpi_of
from npc.observe.mpi.place import ProfileFile
from npc.observe.mpi.profile import RankProfile

_SOURCE: Final = Path(__file__).with_suffix(".c")
_CALLS, _BLOCKS = 2000, 41
#: Variables by which the program would take itself for a part of this process's job.
_OF_THE_JOB: Final = re.compile(
    r"(?:PMI|PMIX|OMPI_COMM|OMPI_UNIVERSE|PRTE|SLURM|HYDRA|MPIR|MV2_COMM|PALS|I_MPI_HYDRA)_?\w*"
)


def cost(library: str, launcher: Sequence[str], program: str) -> float:
    """Seconds that the library adds to a call. library: for `program` as started by `launcher`
    (`npc.observe.mpi.build.library_for`). Raises NoCost."""
    measured = cached_costs(
        "mpi", {"library": library}, lambda: {"call": _measured(library, launcher, program)}
    )
    return measured["call"]


def overhead_of_calls(
    profiles: Sequence[RankProfile], library: str, launcher: Sequence[str], program: str
) -> float | None:
    """The share of its run time that the library took, of the rank with most (0.01: 1 %); None where no
    rank was inside MPI for any time. Raises NoCost."""
    calls = {
        profile.rank: sum(entry.calls for entry in profile.calls)
        for profile in profiles
        if profile.seconds > 0
    }
    if not calls:
        return None
    seconds = cost(library, launcher, program)
    return max(
        calls[profile.rank] * seconds / profile.seconds for profile in profiles if profile.rank in calls
    )


def _measured(library: str, launcher: Sequence[str], program: str) -> float:
    mpi = mpi_of(program)
    compiler = find_compiler(mpi, launcher[0] if launcher else "")
    with tempfile.TemporaryDirectory() as folder:
        timer = str(Path(folder, "mpi_calls"))
        _run([compiler.path, "-O1", "-w", str(_SOURCE), "-o", timer, "-ldl"], {})
        linked = mpi or mpi_of(timer)
        profile = ProfileFile(library)
        try:
            printed = _run([timer, str(linked), str(_CALLS), str(_BLOCKS)], profile.environment(os.getpid()))
        finally:
            os.close(profile.file)
    rows = [
        tuple(map(float, line.split())) for line in printed.splitlines() if re.fullmatch(r"\S+ \S+", line)
    ]
    if not rows:
        raise NoCost("the program that times calls of MPI printed nothing")
    medians: list[float] = [median(column) for column in zip(*rows, strict=True)]
    return max(0.0, *medians) * 1e-9


def _run(command: Sequence[str], settings: Mapping[str, str]) -> str:
    environment = {name: text for name, text in os.environ.items() if not _OF_THE_JOB.fullmatch(name)}
    ended = run(command, environment={**environment, **settings})
    if ended.returncode:
        raise NoCost(f"{Path(command[0]).name}: {exit_words(ended.returncode)}: {last_words(ended)}")
    return ended.stdout
