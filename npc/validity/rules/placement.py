"""Processes and threads that had to share what they should have had alone."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import PurePath
from typing import Final

from npc.launcher import MPI_STARTERS
from npc.machine.sysfs import parse_cpus
from npc.records.launch import Launch
from npc.records.record import Record
from npc.records.series import RANK_CPUS
from npc.validity.rule import Circumstances, rule

#: Variables of Open MPI 4 and 5 that do what --oversubscribe does, and the values with which they do.
_OVERSUBSCRIBE: Final = {
    "OMPI_MCA_rmaps_base_oversubscribe": re.compile(r"1|true|yes|enabled", re.IGNORECASE),
    "PRTE_MCA_rmaps_default_mapping_policy": re.compile(r".*oversubscribe", re.IGNORECASE),
}
_OTHERS: Final = frozenset({"mpich", "impi"})
_RANKS: Final = frozenset({"-n", "-np", "--np", "-c", "--n", "--ntasks"})


@rule(
    "oversubscribed",
    "more ranks or threads than CPUs",
    "Open MPI FAQ, 'Oversubscribing Nodes': such ranks yield the CPU while they wait; STREAM and LIKWID: "
    "one thread a CPU",
)
def oversubscribed(record: Record, circumstances: Circumstances) -> Iterator[str]:
    """Ranks a node of the launch's own command line, and threads of the record, against the job's CPUs."""
    cpus = circumstances.environment(record, "limits", "cpus")
    if not cpus:
        return
    launch = circumstances.launches.get(record.raw)
    ranks = _ranks(launch) if launch else None
    ranks = -(-ranks // record.nodes) if ranks else None
    threads = record.params.get("threads", "")
    if ranks and ranks > cpus:
        yield f"{ranks} ranks a node on {cpus} CPUs: they took turns"
    elif ranks and launch and (how := _may_yield(record, launch, circumstances)):
        yield (
            f"{ranks} ranks on {cpus} CPUs were started with {how}: Open MPI yields them "
            "while ranks wait, which costs a hundredfold of a small message's latency"
        )
    elif threads.isdecimal() and (bound := _bound_to(record)) and int(threads) > bound:
        yield f"{threads} threads of a rank on {bound:.3g} CPUs of its own: they took turns"
    elif threads.isdecimal() and record.nodes == 1 and int(threads) * (ranks or 1) > cpus:
        yield f"{int(threads) * (ranks or 1)} threads on {cpus} CPUs: they took turns"


def _bound_to(record: Record) -> float:
    """How many CPUs the rank has that has fewest for itself (`npc.parsers.observed.rank_cpus`); 0 where that
    is not known."""
    counts = []
    for layout in record.params.get(RANK_CPUS, "").split("; "):
        try:
            if many := re.fullmatch(r"(\d+) x (\S+)", layout):
                counts.append(len(parse_cpus(many[2])) / int(many[1]))
            elif many := re.fullmatch(r"(\d+) ranks, (\d+)(?:-\d+)? each of (\S+)", layout):
                counts.append(min(int(many[2]), len(parse_cpus(many[3])) / int(many[1])))
            else:
                counts += [len(parse_cpus(cpu_list)) for cpu_list in layout.split()]
        except ValueError:
            continue
    return min(counts, default=0)


@rule(
    "one_cpu",
    "both ends of a test on one CPU",
    "sched(7): two runnable threads of one CPU take turns; the number is the scheduler's",
)
def ends_share_a_cpu(record: Record, _: Circumstances) -> Iterator[str]:
    """Server and client of one host that may use one and the same CPU only."""
    server, client = (record.params.get(f"{side}_cpus", "") for side in ("server", "client"))
    if not server or not client or record.nodes > 1 or len(set(record.hosts)) > 1:
        return
    try:
        both = parse_cpus(server) | parse_cpus(client)
    except ValueError:
        return
    if len(both) == 1:
        yield f"server and client both had CPU {server} only: they took turns"


def _ranks(launch: Launch) -> int | None:
    """The number of ranks that an MPI launcher was asked for; None if it was asked for none, or if there is
    no launcher."""
    starter = next(
        (place for place, word in enumerate(launch.argv) if PurePath(word).name in MPI_STARTERS), None
    )
    if starter is None:
        return None
    flags = _RANKS - {"-c"} if PurePath(launch.argv[starter]).name == "srun" else _RANKS
    words = launch.argv[starter:]
    numbers = [int(value) for word, value in pairwise(words) if word in flags and value.isdecimal()]
    return numbers[0] if numbers else None


def _may_yield(record: Record, launch: Launch, circumstances: Circumstances) -> str:
    """The option or variable that makes ranks of Open MPI yield their CPU; empty if there is none."""
    if any(re.search(r"oversubscribe$", word, re.IGNORECASE) for word in launch.argv):
        return "--oversubscribe"
    if record.params.get("mpi") in _OTHERS:
        return ""
    for name, switched_on in _OVERSUBSCRIBE.items():
        value = circumstances.environment(record, "variables", name) or ""
        if switched_on.fullmatch(value):
            return f"{name}={value}"
    return ""
