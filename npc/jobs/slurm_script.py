"""A job script as Slurm reads it, and the variables that it would get: for running several in one allocation.

sbatch(1): the options of the ``#SBATCH`` lines, "OUTPUT ENVIRONMENT VARIABLES".
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, NoReturn

from npc.files import write_whole
from npc.jobs.allocation import JobAllocation, JobRequest, UnreadableScript
from npc.jobs.scheduler import seconds
from npc.machine.fabric import expand, short_name

SUBMIT: Final = "sbatch"
PREFIX: Final = "#SBATCH"
#: By these a step and its launcher know themselves; what runs in the step is no part of it.
_OF_A_STEP: Final = re.compile(r"SLURM_(?:STEP|SRUN|CPU_BIND|DISTRIBUTION)|PMIX?_")


class _Options(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise UnreadableScript(message)


def _options() -> _Options:
    """Those that say what of an allocation a script takes; all others are left as they are."""
    options = _Options(add_help=False, allow_abbrev=False)
    options.add_argument("-N", "--nodes")
    options.add_argument("-n", "--ntasks", type=int)
    options.add_argument("--ntasks-per-node", type=int)
    options.add_argument("-c", "--cpus-per-task", type=int)
    options.add_argument("-t", "--time", default="")
    options.add_argument("-o", "--output", default="")
    options.add_argument("-e", "--error", default="")
    return options


def request(text: str, words: Sequence[str] = ()) -> JobRequest:
    """What a job script asks for; words: options of the command line, which count more.

    Raises `UnreadableScript`.
    """
    options, given, others = _options(), argparse.Namespace(), list[str]()
    for line in [*_head(text), shlex.join(words)]:
        try:
            _, rest = options.parse_known_args(shlex.split(line, comments=True), given)
        except ValueError as error:
            raise UnreadableScript(f"{line}: {error}") from None
        if rest == ["hetjob"] or ":" in rest:
            raise UnreadableScript("it is a heterogeneous job")
        others += [shlex.join(rest)] if rest else []
    nodes = re.match(r"\d+", given.nodes or "1")
    number = max(1, int(nodes.group())) if nodes else 1
    tasks = given.ntasks or number * (given.ntasks_per_node or 1)
    return JobRequest(
        nodes=number,
        tasks=tasks,
        tasks_per_node=given.ntasks_per_node or -(-tasks // number),
        cpus_per_task=given.cpus_per_task or 1,
        limit_s=limit_s(given.time),
        output=given.output or "slurm-%j.out",
        error=given.error,
        others=tuple(others),
    )


def head(nodes: int, cpus: int, limit_s: float, output: Path, others: Sequence[str]) -> list[str]:
    """The head of a job script for `cpus` CPUs of each of some nodes. others: as of `JobRequest`."""
    return [
        *(f"{PREFIX} {line}" for line in others),
        f"{PREFIX} --nodes={nodes} --ntasks={nodes} --ntasks-per-node=1 --cpus-per-task={cpus}",
        f"{PREFIX} --time={-(-int(limit_s) // 60)}",
        f"{PREFIX} --output={shlex.quote(str(output))}",
    ]


def allocation(env: Mapping[str, str]) -> JobAllocation | None:
    """That of the job in which a process with these variables runs; None outside of one."""
    job, nodelist = env.get("SLURM_JOB_ID", ""), env.get("SLURM_JOB_NODELIST", "")
    if not job.isdecimal() or not nodelist or "SLURM_HET_SIZE" in env:
        return None
    cpus = []
    for number, times in re.findall(r"(\d+)(?:\(x(\d+)\))?", env.get("SLURM_JOB_CPUS_PER_NODE", "")):
        cpus += [int(number)] * int(times or 1)
    return JobAllocation(job=job, hosts=tuple(expand(nodelist)), cpus=tuple(cpus))


def submitted(job: str) -> str:
    """The words by which `npc.jobs.slurm` knows a job."""
    return f"Submitted batch job {job}"


def variables(
    wanted: JobRequest, given: JobAllocation, folder: Path, env: Mapping[str, str]
) -> dict[str, str]:
    """The environment of a script that has the first nodes of an allocation for itself.

    folder: for a file that the variables name. env: this process's environment.
    """
    hosts, number = given.hosts[: wanted.nodes], wanted.nodes
    of_job = {name: value for name, value in env.items() if not _OF_A_STEP.match(name)}
    of_job |= dict.fromkeys(("SLURM_NNODES", "SLURM_JOB_NUM_NODES"), str(number))
    of_job |= dict.fromkeys(("SLURM_NODELIST", "SLURM_JOB_NODELIST"), ",".join(hosts))
    of_job |= dict.fromkeys(("SLURM_NTASKS", "SLURM_NPROCS"), str(wanted.tasks))
    of_job["SLURM_NTASKS_PER_NODE"] = str(wanted.tasks_per_node)
    of_job["SLURM_TASKS_PER_NODE"] = f"{wanted.tasks_per_node}(x{number})"
    of_job["SLURM_CPUS_PER_TASK"] = str(wanted.cpus_per_task)
    if given.cpus:
        of_job["SLURM_JOB_CPUS_PER_NODE"] = ",".join(map(str, given.cpus[:number]))
    if "SLURM_STEP_ID" in env:
        # this process is a step itself: without these srun waits for its CPUs, or takes another node
        of_job["SLURM_OVERLAP"] = "1"
        if number == 1:
            nodes = folder / "nodes"
            write_whole(nodes, f"{hosts[0]}\n" * wanted.tasks)
            of_job["SLURM_HOSTFILE"] = str(nodes.absolute())
    return of_job


def on_first_node(given: JobAllocation) -> list[str]:
    """What stands before a command that is to run on the first node of an allocation; nothing on that node.

    A shell of ``salloc`` may be on the login node.
    """
    if short_name(os.uname().nodename) == short_name(given.hosts[0]):
        return []
    step = ["--overlap", "--nodes=1", "--ntasks=1", f"--nodelist={given.hosts[0]}"]
    return ["srun", *step, "--mpi=none", "--cpu-bind=none", "--kill-on-bad-exit=0"]


def _head(text: str) -> list[str]:
    lines = []
    for line in text.splitlines():
        if line.startswith(f"{PREFIX} ") or line.startswith(f"{PREFIX}\t"):
            lines.append(line.removeprefix(PREFIX).strip())
        elif line.strip() and not line.startswith("#"):
            break
    return lines


def limit_s(clock: str) -> float | None:
    """Seconds of a limit as ``--time`` has it; None of none (sbatch(1): minutes, D-H, D-H:M among others)."""
    if clock.isdecimal():
        return 60.0 * int(clock)
    if match := re.fullmatch(r"(\d+)-(\d+)(?::(\d+))?", clock):
        days, hours, minutes = (int(part or 0) for part in match.groups())
        return 60.0 * ((24 * days + hours) * 60 + minutes)
    return seconds(clock)
