"""The measurements of nodes: which nodes a partition has, and the parts of a night that measure some."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, count
from pathlib import Path
from typing import Final

from npc.cron.matrix import PAIRS, settings_of, words_of
from npc.cron.rotation import NODES, NodeState
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

    @property
    def steps(self) -> list[str]:
        """The steps of the benchmarks of a node by itself."""
        files = (benchmark_file(suite(), benchmark) for benchmark in self.benchmarks)
        return [step for file in files for step in step_names(file)]


def slurm_nodes(platform: Path, words: Sequence[str]) -> dict[str, slurm.SlurmNode]:
    """The nodes of the partition that the words of ``npc characterise``, or the platform, ask for.

    Raises `npc.jobs.scheduler.SchedulerUnavailable`, and FileNotFoundError without Slurm's commands.
    """
    queue = settings_of(words).get("queue") or os.environ.get("NPC_QUEUE") or default_of(platform, "queue")
    nodes = slurm.nodes(queue or slurm.default_partition())
    return {name: nodes[name] for name in sorted(nodes, key=natural)}


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
    """The measurements of some pairs of nodes, or of single ones: a part a node benchmark, and one for the
    tests between the nodes of a pair. number: tells these parts from those of other nodes.

    Each job of a part has nodes of its own, so they may run at the same time: where one waits for its nodes,
    the others do not. The parts are to be measured one after the other, as they share nodes.
    """
    groups = list(node_groups)
    nodes = list(dict.fromkeys(node for group in groups for node in group))
    pairs = [group for group in groups if len(group) == 2]
    home = suite()
    parts: list[Part] = []
    for benchmark in rotation.benchmarks:
        file = benchmark_file(home, benchmark)
        given = _known_settings(words, home, platform, file)
        if "dependency" in settings(home, platform):
            given = {"dependency": "none", **given}
        given["nodelist"] = ";;".join(nodes)
        name = _unused_name(f"{NODES}-{number}-{'-'.join(step_names(file))}", parts)
        parts.append(Part(name=name, kind="first", words=words_of(file, given), hosts=tuple(nodes)))
    if pairs:
        given = _known_settings(words, home, platform, home / PAIRS)
        if "dependency" in settings(home, platform):
            given = {"dependency": "none", **given}
        given |= {"pairs_nodes": "2", "nodelist": ";;".join(map(",".join, pairs))}
        words = words_of(home / PAIRS, given)
        hosts = tuple(node for pair in pairs for node in pair)
        name = _unused_name(f"{NODES}-{number}-{PAIRS_STEP}", parts)
        parts.append(Part(name=name, kind="first", words=words, hosts=hosts))
    return parts


def odd_nodes(folders: Iterable[Path]) -> list[str]:
    """Which of the nodes that were measured below these folders are not like the others: less memory, a
    slower link, another governor."""
    jobs = (file for folder in folders for file in folder.rglob(f"work/{ENVIRONMENT}"))
    return odd_ones(read_environments(sorted(jobs)))


def _unused_name(name: str, parts: Sequence[Part]) -> str:
    """`name`, with a number behind it if a part has it: two files may have steps of the same names."""
    taken = {part.name for part in parts}
    return next(free for free in chain([name], (f"{name}-{n}" for n in count(2))) if free not in taken)


def _known_settings(words: Sequence[str], home: Path, platform: Path, file: Path) -> dict[str, str]:
    """The settings among the words that this benchmark knows, too."""
    known = settings(home, platform, file)
    return {name: value for name, value in settings_of(words).items() if name in known}
