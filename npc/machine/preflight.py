"""Preflight checks: what about this machine will spoil a measurement, why, and what to do about it.

A check is a function of what `npc.machine.environment.collect_environment` saw, which says what is wrong, if
anything; a new one is one function with the decorator, in a module of ``npc/machine/checks/`` or in one that
is registered as ``npc.checks`` (`npc.registration`). Those that must try something out (start two ranks,
watch the processes) take its outcome from `MpiTrial`.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from npc.machine.command import run
from npc.machine.load import BusyProcess
from npc.machine.tools import find, search_path
from npc.python import python
from npc.registration import unloadable

#: The oldest JUBE that the benchmark files are tested with.
OLDEST_JUBE: Final = (2, 5)
#: perftest registers up to 2 × 8 MiB a queue pair under ``-a``; 64 KiB, the usual default, fails at once.
ENOUGH_MEMLOCK: Final = 64 * 2**20
MPI_TIMEOUT_S: Final = 20.0
WATCHED_S: Final = 0.3

Environment = Mapping[str, Any]
Level = Literal["error", "warning", "note"]
LEVELS: Final[tuple[Level, ...]] = ("error", "warning", "note")


@dataclass(frozen=True, slots=True)
class Finding:
    """What a check found; its texts are sentences for the person at the terminal."""

    #: Name of the check. It stays the same, because programs read it (``--json``).
    name: str
    #: ``error``: the main job cannot run; ``warning``: numbers will be off; ``note``: good to know.
    level: Level
    #: What is so on this machine.
    symptom: str
    #: What is bad about that.
    why: str
    #: What to do about it.
    do: str


@dataclass(frozen=True, slots=True)
class MpiTrial:
    """What was tried out on this machine."""

    #: Processes that computed during `WATCHED_S`, the busiest first.
    busy: tuple[BusyProcess, ...]
    #: The size of MPI_COMM_WORLD that two started ranks had, or why there is none.
    ranks: str
    #: What ``mpirun`` printed; the first rank printed `npc.machine.mpi_variables.offered` as well.
    mpi_output: str = ""

    @property
    def mpi_variables(self) -> dict[str, Any] | None:
        """What the MPI library offers by MPI_T; None if that is not known."""
        match = re.search(r"^variables: ({.*})$", self.mpi_output, re.MULTILINE)
        variables: dict[str, Any] | None = json.loads(match[1]) if match else None
        return variables


#: Yields a `Finding.symptom` for each thing that is wrong.
Check = Callable[[Environment, MpiTrial], Iterator[str]]
_CHECKS: Final[list[tuple[Check, str, Level, str, str]]] = []


def check(level: Level, why: str, do: str, name: str = "") -> Callable[[Check], Check]:
    """Adds a check to those of `preflight`. level, why, do, name: as in its `Finding`; name: the function's
    by default."""

    def add(function: Check) -> Check:
        _CHECKS.append((function, name or function.__name__, level, why, do))
        return function

    return add


def preflight(environment: Environment, trial: MpiTrial) -> list[Finding]:
    """What all checks find, errors first."""
    # This loads the modules of checks too, and each adds its checks.
    unloaded = [
        Finding(
            "unloadable",
            "warning",
            f"{module.module}, which {module.distribution} registers as {module.group}, cannot be loaded: "
            f"{module.error}",
            "what it adds to NPC is missing",
            "repair the package, or remove it",
        )
        for module in unloadable()
    ]
    findings = unloaded + [
        Finding(name, level, symptom, why, do)
        for function, name, level, why, do in _CHECKS
        for symptom in function(environment, trial)
    ]
    return sorted(findings, key=lambda finding: LEVELS.index(finding.level))


def start_two_ranks() -> tuple[str, str]:
    """(``2`` or what the ranks saw instead, what ``mpirun`` printed), within `MPI_TIMEOUT_S`."""
    if find("mpirun") is None:
        return "no mpirun", ""
    # One write each, or the launcher mixes the lines of the ranks.
    program = (
        "import json, os; from mpi4py import MPI; from npc.machine.mpi_variables import offered; "
        "own = MPI.COMM_WORLD.Get_rank() == 0 and offered(); "
        "said = 'variables: ' + json.dumps(own) + '\\n' if own else ''; "
        "os.write(1, ('ranks: %d\\n' % MPI.COMM_WORLD.Get_size() + said).encode())"
    )
    environ = {
        **os.environ,
        "PATH": search_path(),
        # Other checks tell of root and of a machine with one core; this one tries the library only.
        "OMPI_ALLOW_RUN_AS_ROOT": "1",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        "OMPI_MCA_rmaps_base_oversubscribe": "1",
        "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
    }
    # By its name: from the path of /bin/mpirun, Open MPI would conclude that it is installed below /.
    argv = ["mpirun", "-n", "2", *python("-c", program)]
    answer = run(argv, "", MPI_TIMEOUT_S, environ)
    output, problem = answer.text, answer.problem
    sizes = re.findall(r"ranks: (\d+)", output)
    if problem or len(sizes) != 2:
        return problem or f"{len(sizes)} of 2 ranks came up", output
    return " and ".join(sorted(set(sizes))), output
