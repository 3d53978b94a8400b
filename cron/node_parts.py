"""The measurements of nodes: which nodes a partition has, and the parts of a night that measure some."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from npc.cron.matrix import PAIRS, settings_of
from npc.cron.rotation import NODES, NodeState
from npc.errors import InvalidUsage
from npc.jobs import slurm
from npc.jobs.jube_file import step_names
from npc.jobs.suite import benchmark_file, default_of, settings
from npc.machine.fabric import natural
from npc.machine.facts import odd_ones, read_environments
from npc.places import suite
from npc.records.journal import Part
from npc.records.launch import ENVIRONMENT

#: The benchmarks of a node by itself.
NODE_BENCHMARKS: Final = ("stream", "likwid")
#: The benchmark between two nodes.
PAIRS_STEP: Final = "pairs"
#: Jobs of the rotation that are in the queue at once; groups of nodes on which a night measures again.
AT_ONCE: Final = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRotation:
    """The rotation over all nodes of a partition."""

    #: Number of nights in which it comes to each node.
    within: int = 14
    #: How many of its jobs may be in the queue at once.
    at_once: int = AT_ONCE
    #: The benchmarks of a node by itself: folders in ``benchmarks/``, or JUBE files.
    benchmarks: tuple[str, ...] = NODE_BENCHMARKS
    #: Names of the only nodes that it comes to; empty for all of the partition.
    only: tuple[str, ...] = ()

    @property
    def steps(self) -> list[str]:
        """The steps of the benchmarks of a node by itself."""
        files = (benchmark_file(suite(), benchmark) for benchmark in self.benchmarks)
        return [step for file in files for step in step_names(file)]


def asked_for(platform: Path, words: Sequence[str], name: str) -> str:
    """A setting by the words of ``npc characterise``, the environment, or the platform; empty if none has
    it."""
    given = settings_of(words).get(name) or os.environ.get(f"NPC_{name.upper()}")
    return given or default_of(platform, name)


def slurm_nodes(
    platform: Path, words: Sequence[str], only: Collection[str] = ()
) -> dict[str, slurm.SlurmNode]:
    """The nodes of the partition that the words of ``npc characterise``, or the platform, ask for; of these
    the ones of the reservation, if it is one, and those that are named in `only`, if any is.

    Raises `npc.jobs.scheduler.SchedulerUnavailable`, FileNotFoundError without Slurm's commands, and
    `npc.errors.InvalidUsage` for a reservation or a node that is not there.
    """

    partition = asked_for(platform, words, "queue") or slurm.default_partition()
    nodes = slurm.nodes(partition)
    where = f"partition {partition}" if partition else "any partition"
    if reservation := asked_for(platform, words, "reservation"):
        reserved = slurm.nodes_of_reservation(reservation)
        if reserved is None:
            raise InvalidUsage(f"--set reservation={reservation}: Slurm knows no such reservation")
        nodes = {name: nodes[name].in_its_reservation() for name in reserved if name in nodes}
        if not nodes:
            raise InvalidUsage(f"--set reservation={reservation}: it has no nodes in {where}")
        where = f"reservation {reservation} and {where}"
    if unknown := sorted(set(only).difference(nodes), key=natural):
        raise InvalidUsage(f"--nodes {','.join(unknown)}: not in {where}")
    return {name: nodes[name] for name in sorted(only or nodes, key=natural)}


def states_of(nodes: Mapping[str, slurm.SlurmNode]) -> dict[str, NodeState]:
    """What the rotation has to know of them."""
    return {name: NodeState(node.takes_jobs, node.idle) for name, node in nodes.items()}


def parts_of_nodes(
    number: int,
    node_groups: Iterable[tuple[str, ...]],
    rotation: NodeRotation,
    platform: Path,
    words: Sequence[str],
) -> list[Part]:
    """The measurement of some pairs of nodes, or of single ones: a job a node for all its benchmarks, and one
    for the test between the nodes of a pair. number: tells this part from those of other nodes.
    """
    groups, home = list(node_groups), suite()
    files = [str(benchmark_file(home, benchmark)) for benchmark in rotation.benchmarks]
    known = settings(home, platform, *map(Path, files), home / PAIRS)
    given = [f"{name}={value}" for name, value in settings_of(words).items() if name in known]
    options = {
        "--set": given,
        "--node-benchmark": files,
        "--pair": [",".join(group) for group in groups],
        "--at-once": [str(rotation.at_once)],
    }
    part_words = [word for option, values in options.items() for value in values for word in (option, value)]
    hosts = dict.fromkeys(node for group in groups for node in group)
    name = f"{NODES}-{number}"
    return [Part(name=name, kind="first", words=("--each-node", *part_words), hosts=tuple(hosts))]


def odd_nodes(folders: Iterable[Path]) -> list[str]:
    """Which of the nodes that were measured below these folders are not like the others: less memory, a
    slower link, another governor."""
    jobs = (file for folder in folders for file in folder.rglob(f"work/{ENVIRONMENT}"))
    return odd_ones(read_environments(sorted(jobs)))
