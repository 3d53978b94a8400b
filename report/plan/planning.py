"""The plan: which tags, how many samples and nodes, and the command lines that do it."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from npc.statistics import MIN_SAMPLES
from npc.units import format_duration
from report.compare.difference import ENOUGH_RUNS
from report.plan.durations import Step, duration, steps_of

#: More launches make an interval hardly narrower.
MOST_SAMPLES: Final = 20
#: Rounds of random pairs by which a slow node is found at 2 % of noise (docs/blame.md).
_ROUNDS: Final = 8
#: Fewer nodes have nobody to be compared with.
_PAIRS_FROM: Final = 5
#: Of a measurement of all pairs in a round, with start and farewell.
_ROUND_S: Final = 5.0


@dataclass(frozen=True, slots=True)
class Goal:
    """question: what the user wants to know. tags: the first is needed, the others while there is time.

    runs: how often everything is measured. model: what the numbers are turned into. after: what to type then;
    {run} is the folder of runs, {tags} the options that choose them. by: the command that measures.
    """

    question: str
    tags: tuple[str, ...]
    runs: int
    model: str
    after: tuple[str, ...]
    by: str = "characterise"


GOALS: Final[Mapping[str, Goal]] = MappingProxyType({
    "accept": Goal(
        "is a new cluster as fast as promised, and all of its nodes?",
        ("network", "memory", "compute", "rdma", "apps", "models", "tools"), 1,
        "the ceilings of the roofline against the nominal limits of platform.toml; which node is to blame",
        ("npc score {run}", "npc check {run}", "npc advise {run}", "npc report {run}"),
    ),
    "slow": Goal(
        "why is my MPI application slow?",
        ("network", "memory", "compute", "rdma", "models"), 1,
        "the roofline with the application in it; Hockney by pieces for its messages (npc predict)",
        ("npc observe -- mpirun -n RANKS ./app", "npc roofline {run} observed", "npc advise {run}"),
    ),
    "compare": Goal(
        "which of two machines, or of two states of one, is faster at what?",
        ("network", "memory", "compute", "rdma", "tools"), ENOUGH_RUNS,
        "pairs of series with the interval of their ratio; a run is the unit of repetition",
        ("npc compare FIRST SECOND",),
    ),
    "watch": Goal(
        "is it still as fast as it was?",
        ("network", "memory", "compute", "rdma"), 1,
        "the history of every series, with gates and change points",
        ("npc cron install --platform {platform} -- {tags}",), by="nightly",
    ),
})  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """What plans depend on. missing: commands that are not there. rdma: whether it has RDMA, None if unknown.

    platform: as `npc characterise` takes it. nodes: there are, or are to be measured. one_machine: no
    scheduler, so both ends of every test are on one node.
    """

    platform: str
    folder: str
    nodes: int
    one_machine: bool
    missing: frozenset[str] = frozenset()
    rdma: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """lines: what to type, in order. seconds: expected, without waiting for nodes. notes: what to know."""

    goal: str
    question: str
    model: str
    machine: Machine
    tags: tuple[str, ...]
    left_out: tuple[str, ...]
    steps: tuple[Step, ...]
    samples: int
    runs: int
    seconds: float
    budget_s: float
    characterise: str
    jube: str
    lines: tuple[str, ...]
    notes: tuple[str, ...]


def make_plan(goal: str, machine: Machine, budget_s: float, commands: Collection[str]) -> Plan:
    """The plan that answers most within the time. commands: names of npc's commands that are installed.

    The first tag is measured whatever the time; the others follow in their order while six samples of each
    fit; then the samples grow.
    """
    chosen = GOALS[goal]
    possible = [tag for tag in chosen.tags if tag != "rdma" or machine.rdma]
    extra = _pairs_s(goal, machine)

    def needed(tags: Sequence[str], samples: int) -> float:
        return chosen.runs * duration(tags, samples, machine.missing) + extra

    tags: list[str] = possible[:1]
    for tag in possible[1:]:
        if needed([*tags, tag], MIN_SAMPLES) <= budget_s:
            tags.append(tag)
    fitting = [n for n in range(1, MOST_SAMPLES + 1) if needed(tags, n) <= budget_s]
    samples = max(fitting, default=1)
    characterise, jube = command_lines(machine, tags, samples)
    return Plan(
        goal=goal,
        question=chosen.question,
        model=chosen.model,
        machine=machine,
        tags=tuple(tags),
        left_out=tuple(tag for tag in possible if tag not in tags),
        steps=tuple(steps_of(tags)),
        samples=samples,
        runs=chosen.runs,
        seconds=needed(tags, samples),
        budget_s=budget_s,
        characterise=characterise,
        jube=jube,
        lines=tuple(_lines(chosen, machine, characterise, tags, commands)),
        notes=tuple(_notes(chosen, machine, samples, needed(tags, samples), budget_s, possible, tags)),
    )


def command_lines(machine: Machine, tags: Sequence[str], samples: int) -> tuple[str, str]:
    """The line of `npc characterise`, and that of JUBE alone, in the checkout."""
    words = ["npc", "characterise"]
    if machine.platform != "localhost":
        words += ["--platform", machine.platform]
    words += [word for tag in tags for word in ("--tag", tag)] + ["--set", f"samples={samples}"]
    jube = ["jube", "run", "jube.yml"]
    if machine.platform != "localhost":
        jube += ["--include-path", machine.folder]
    jube += ["--tag", *tags]
    return shlex.join(words), f"NPC_SAMPLES={samples} {shlex.join(jube)}"


def _pairs_s(goal: str, machine: Machine) -> float:
    return _ROUNDS * _ROUND_S if goal == "accept" and machine.nodes >= _PAIRS_FROM else 0.0


def _lines(
    goal: Goal, machine: Machine, characterise: str, tags: Sequence[str], commands: Collection[str]
) -> list[str]:
    by = goal.by if goal.by in commands else "characterise"
    lines = [characterise.replace("npc characterise", f"npc {by}", 1)]
    if goal.runs > 1:
        numbers = " ".join(map(str, range(1, goal.runs + 1)))
        lines = [
            f"for run in {numbers}; do {characterise} --output {name}; done" for name in ("FIRST", "SECOND")
        ]
    if goal is GOALS["accept"] and machine.nodes >= _PAIRS_FROM:
        lines.append(
            f"srun -N {machine.nodes} --ntasks-per-node=1 --mpi=pmix npb --pairs sample:{_ROUNDS} "
            '--killserver --servercmd qperf --clientcmd "qperf HOSTNAME -t 2 -uu tcp_bw" --output pairs'
        )
    options = " ".join(f"--tag {tag}" for tag in tags)
    for line in goal.after:
        if line.split()[1] in commands:
            lines.append(line.format(run="runs", platform=machine.platform, tags=options))
    return lines


def _notes(
    goal: Goal, machine: Machine, samples: int, seconds: float, budget_s: float, possible: Sequence[str],
    tags: Sequence[str],
) -> list[str]:  # fmt: skip
    found = []
    if seconds > budget_s:
        found.append(
            f"{format_duration(budget_s)} is too little even for one launch of the tag {tags[0]}: expect "
            f"{format_duration(seconds)}."
        )
    if samples < MIN_SAMPLES:
        found.append(
            f"Fewer than {MIN_SAMPLES} samples give no 95 % interval; take more time to judge by it."
        )
    if machine.one_machine and "network" in tags:
        found.append("One machine: network tests go over loopback or shared memory, and measure no link.")
    if "rdma" in goal.tags and machine.rdma is None:
        found.append("Whether there is RDMA cannot be seen from here; with it, add --tag rdma.")
    if goal.runs > 1:
        found.append(
            f"{goal.runs} runs of each machine or state, in folders of their own (FIRST, SECOND): a single "
            "run cannot show "
            "how runs of one machine differ."
        )  # fmt: skip
    lacking = sorted({c for step in steps_of(tags) for c in step.commands if c in machine.missing})
    if lacking:
        found.append(f"Missing here: {', '.join(lacking)} (npc doctor --missing says how to get them).")
    left = [tag for tag in possible if tag not in tags]
    if left:
        more = goal.runs * duration([*tags, left[0]], MIN_SAMPLES, machine.missing)
        found.append(
            f"Left out for lack of time: {', '.join(left)}; {left[0]} too takes {format_duration(more)}."
        )
    return found
