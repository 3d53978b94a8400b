"""The plan: which tags, how many samples and nodes, and the command lines that do it."""

from __future__ import annotations

import math
import shlex
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

import msgspec

from npc import catalogue
from npc.catalogue.row import JOB_S, Step
from npc.places import home, typed, workplace
from npc.records.units import format_duration
from npc.report.plan.earlier import EarlierStep
from npc.roofline.choice import QUESTIONS, Layer, PlannedMeasurement, jobs_of
from npc.statistics.medians import MIN_SAMPLES, MOST_LOOKS

MOST_SAMPLES: Final = MOST_LOOKS
#: Rounds of random pairs by which a slow node is found at 2 % of noise (docs/blame.md).
_ROUNDS: Final = 8
#: With fewer nodes than this a pair has too few others to be compared with.
_PAIRS_FROM: Final = 5
#: What platforms/slurm gives a job by default, and how much longer than expected it may take.
_TIME_LIMIT_S: Final = 1800
_SPARE: Final = 2.0
#: Collecting, fitting, drawing at the end.
_END_S: Final = 8.0
#: Of a measurement of all pairs in a round, with start and farewell.
_ROUND_S: Final = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanGoal:
    """A table of ``goals.toml``."""

    #: What the user wants to know.
    question: str
    #: Tags of the benchmarks; the first is needed, the others while there is time.
    tags: tuple[str, ...]
    #: What the numbers are turned into.
    model: str
    #: Command lines to type afterwards.
    after: tuple[str, ...]
    #: How often everything is measured.
    runs: int = 1
    #: The command that measures.
    by: str = "characterise"


GOALS: Final[Mapping[str, PlanGoal]] = msgspec.toml.decode(
    Path(__file__).with_name("goals.toml").read_bytes(), type=dict[str, PlanGoal]
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """What plans depend on."""

    #: The platform, as `npc characterise` takes it.
    platform: str
    #: The platform's name, as its records have it.
    name: str
    #: The platform's folder, as it is typed.
    folder: str
    #: How many nodes there are, or are to be measured.
    nodes: int
    #: Whether there is no scheduler, so that both ends of every test are on one node.
    one_machine: bool
    #: The program that submits jobs; empty where that is not known.
    submit: str = ""
    #: Commands that are not installed on it.
    missing: frozenset[str] = frozenset()
    #: Whether it has RDMA; None where that is not known.
    rdma: bool | None = None
    #: Queue (partition) that jobs are to name; empty for none.
    queue: str = ""
    #: Account that jobs are to name; empty for none.
    account: str = ""
    #: Whether jobs have a time limit to set.
    timed: bool = False
    #: Last-level cache a core, in `npc.catalogue.row.CACHE_A_CORE`; 1 where it is not known.
    caches: float = 1.0
    #: Name of a step → how it was in an earlier run; empty where there is none.
    earlier_steps: Mapping[str, EarlierStep] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What to measure for a question in the time there is."""

    #: The question, as it is typed.
    goal: str
    #: The same in a sentence.
    question: str
    #: What the numbers are turned into.
    model: str
    #: What is known of the machine that is to be measured.
    machine: Machine
    #: Tags of the benchmarks that are measured.
    tags: tuple[str, ...] = ()
    #: Tags of those that the time is too short for; empty where all fit.
    left_out: tuple[str, ...] = ()
    #: What the tags run, in the order of the catalogue.
    steps: tuple[Step, ...]
    #: How often each case is launched, at most.
    samples: int
    #: How often everything is measured.
    runs: int = 1
    #: How long all of it is expected to take, in s, without waiting for nodes.
    seconds: float
    #: The time that there is, in s.
    budget_s: float
    #: The command line of `npc characterise` that measures all this.
    characterise: str
    #: The command line that does the same by JUBE alone.
    jube: str
    #: Command lines to type, in order.
    lines: tuple[str, ...]
    #: What the user has to know besides, a sentence each.
    notes: tuple[str, ...]


class TooLittleTime(ValueError):
    """Less than the least that answers anything; the message says how long that takes."""


def make_model_plan(name: str, machine: Machine, budget_s: float) -> Plan:
    """The plan for a question that one model answers (`npc.roofline.choice.QUESTIONS`): what measures the
    model's parts by MPI and, where that is asked, by what lies below it on this machine. Raises
    `TooLittleTime`."""
    question = QUESTIONS[name]
    layers: list[Layer] = ["mpi"]
    if question.below and (machine.rdma or not machine.one_machine):
        layers.append("rdma" if machine.rdma else "tcp")
    jobs = jobs_of(question.of, layers, cluster=not machine.one_machine)
    steps = tuple(map(_step, jobs))
    needed = {n: _seconds(steps, n, machine.missing) for n in range(1, MOST_SAMPLES + 1)}
    if needed[1] > budget_s:
        raise TooLittleTime(f"a single launch of each test takes {format_duration(needed[1])}")
    samples = max(n for n in needed if needed[n] <= budget_s)
    folder = f"model-{name}"
    lines = [shlex.join(job.words(machine.platform, folder, **samples_setting(samples))) for job in jobs]
    lines.append(f"npc model fit {folder}/0* --output {folder}/fit.json --plot {folder}/fit.png")
    if question.then:
        lines.append(f"{question.then} {folder}/fit.json")
    return Plan(
        goal=name,
        question=question.question,
        model=question.model,
        machine=machine,
        steps=steps,
        samples=samples,
        seconds=needed[samples],
        budget_s=budget_s,
        characterise=lines[0],
        jube=" && ".join(_jube(job, machine, folder, samples) for job in jobs),
        lines=tuple(lines),
        notes=(f"Suits {question.suits}.", *_general_notes(machine, samples, steps, links=True)),
    )


def _jube(job: PlannedMeasurement, machine: Machine, folder: str, samples: int) -> str:
    settings = {**job.settings, **samples_setting(samples)}
    words = ["jube", "run", typed(home() / f"benchmarks/{job.benchmark}/benchmark.xml"), "--outpath", folder]
    words += ["--include-path", machine.folder] if machine.platform != "localhost" else []
    return " ".join([*(f"NPC_{key.upper()}={value}" for key, value in settings.items()), shlex.join(words)])


def _step(job: PlannedMeasurement) -> Step:
    """The first step of the benchmark in the catalogue, as the job's settings make it."""
    step = next(step for step in catalogue.steps() if step.name == job.benchmark)
    sizes = tuple(job.settings.items()) or step.sizes
    return replace(step, jobs=job.jobs, launches=job.launches, swept=0, sizes=sizes, scales="")


def _is_possible(tag: str, machine: Machine) -> bool:
    """RDMA takes devices; GPUs, which a login node does not have, one of the tools that measure them."""
    if tag == "gpu":
        return any(not machine.missing.intersection(step.commands) for step in steps_of((tag,), machine))
    return tag != "rdma" or bool(machine.rdma)


def make_plan(goal: str, machine: Machine, budget_s: float, commands: Collection[str]) -> Plan:
    """The plan that answers most within the time. commands: names of npc's commands that are installed.

    The first tag is always measured; the others follow in their order while six samples of each
    fit; then the samples grow. Raises `TooLittleTime`.
    """
    chosen = GOALS[goal]
    possible = [tag for tag in chosen.tags if _is_possible(tag, machine)]
    extra = _pairs_s(goal, machine)

    def needed(tags: Sequence[str], samples: int) -> float:
        return chosen.runs * duration(tags, samples, machine) + extra

    tags: list[str] = possible[:1]
    if needed(tags, 1) > budget_s:
        raise TooLittleTime(
            f"a single launch of each test of the tag {tags[0]} takes {format_duration(needed(tags, 1))}"
        )
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
        steps=tuple(steps_of(tags, machine)),
        samples=samples,
        runs=chosen.runs,
        seconds=needed(tags, samples),
        budget_s=budget_s,
        characterise=characterise,
        jube=jube,
        lines=tuple(_lines(chosen, machine, characterise, tags, commands)),
        notes=tuple(_notes(chosen, machine, samples, possible, tags)),
    )


def steps_of(tags: Collection[str], machine: Machine) -> list[Step]:
    """The steps that any of the tags runs on a machine, in the order of the catalogue."""
    steps = [step.on(machine.nodes, machine.caches) for step in catalogue.steps(tags)]
    return [
        replace(step, seconds=earlier.seconds, needed=earlier.needed)
        if (earlier := machine.earlier_steps.get(step.name)) and step.nodes[-1] <= 2
        else step
        for step in steps
    ]


def duration(tags: Collection[str], samples: int, machine: Machine) -> float:
    """Seconds of a run; steps that need a command which is missing end at once."""
    return _seconds(steps_of(tags, machine), samples, machine.missing)


def _seconds(steps: Iterable[Step], samples: int, missing: Collection[str]) -> float:
    return _END_S + sum(
        step.jobs * JOB_S if set(step.commands) & set(missing) else step.duration(samples) for step in steps
    )


def samples_setting(samples: int) -> dict[str, str]:
    """Six launches of each case and up to `samples` where needed; a fixed number of fewer than six."""
    return {"samples_max" if samples >= MIN_SAMPLES else "samples": str(samples)}


def command_lines(machine: Machine, tags: Sequence[str], samples: int) -> tuple[str, str]:
    """The line of `npc characterise`, and that of JUBE alone, in the workplace."""
    words, jube = ["npc", "characterise"], ["jube", "run", typed(home() / "jube.yml")]
    jube += [] if workplace() == home() else ["--outpath", "runs"]
    if machine.platform != "localhost":
        words += ["--platform", machine.platform]
        jube += ["--include-path", machine.folder]
    settings = samples_setting(samples)
    steps = [step for step in steps_of(tags, machine) if not set(step.commands) & machine.missing]
    settings |= {
        step.scales: ",".join(map(str, step.nodes)) for step in steps if step.scales and len(step.nodes) > 1
    }
    longest = max((step.longest_job(samples) for step in steps), default=0.0)
    if machine.timed and _SPARE * longest > _TIME_LIMIT_S:
        settings["timelimit"] = f"{math.ceil(_SPARE * longest / 3600):02d}:00:00"
    words += [word for tag in tags for word in ("--tag", tag)]
    words += [word for name, value in settings.items() for word in ("--set", f"{name}={value}")]
    variables = [f"NPC_{name.upper()}={value}" for name, value in settings.items()]
    return shlex.join(words), f"{' '.join(variables)} {shlex.join([*jube, '--tag', *tags])}"


def _pairs_s(goal: str, machine: Machine) -> float:
    return _ROUNDS * _ROUND_S if goal == "accept" and machine.nodes >= _PAIRS_FROM else 0.0


def _lines(
    goal: PlanGoal, machine: Machine, characterise: str, tags: Sequence[str], commands: Collection[str]
) -> list[str]:
    by = goal.by if goal.by in commands else "characterise"
    lines = [characterise.replace("npc characterise", f"npc {by}", 1)]
    if goal.runs > 1:
        numbers = " ".join(map(str, range(1, goal.runs + 1)))
        lines = [
            f"for run in {numbers}; do {characterise} --output {name}; done" for name in ("FIRST", "SECOND")
        ]
    name = shlex.join(["--platform", machine.name])
    pairs = goal is GOALS["accept"] and machine.nodes >= _PAIRS_FROM
    if pairs:
        lines.append(_pairs(machine, name))
    words = {
        "run": "runs",
        "platform": shlex.quote(machine.platform),
        "tags": " ".join(f"--tag {tag}" for tag in tags),
        "pairs": " pairs" if pairs else "",
        "records": f" {name}" if machine.name != "localhost" else "",
    }
    after = [line.format(**words) for line in goal.after]
    lines += [line for line in after if any(line.startswith(f"npc {name} ") for name in commands)]
    return lines


def _pairs(machine: Machine, name: str) -> str:
    """The line that measures pairs of all nodes; name: the option of npb that names the platform."""
    if machine.submit != "sbatch":
        settings = {"pairs_nodes": machine.nodes, "pairs_which": f"sample:{_ROUNDS}", "pairs_runs": 1}
        words = ["npc", "characterise", "--platform", machine.platform]
        words += ["--benchmark", "cron/pairs/benchmark.xml", "--output", "pairs"]
        words += [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
        return shlex.join(words)
    jobs = {"--partition": machine.queue, "--account": machine.account}
    options = "".join(f" {option}={shlex.quote(value)}" for option, value in jobs.items() if value)
    return (
        f"srun -N {machine.nodes} --ntasks-per-node=1{options} --mpi=pmix npb --pairs sample:{_ROUNDS} "
        '--killserver --servercmd qperf --clientcmd "qperf HOSTNAME -t 2 -uu tcp_bw" '
        f"{name} --output pairs"
    )


def _notes(
    goal: PlanGoal, machine: Machine, samples: int, possible: Sequence[str], tags: Sequence[str]
) -> list[str]:
    notes = _general_notes(machine, samples, steps_of(tags, machine), links="network" in tags)
    if "rdma" in goal.tags and machine.rdma is None:
        notes.append("Whether there is RDMA cannot be seen from here; with it, add --tag rdma.")
    if goal.runs > 1:
        notes.append(
            f"{goal.runs} runs of each machine or state, in folders of their own (FIRST, SECOND): a single "
            "run cannot show "
            "how runs of one machine differ."
        )  # fmt: skip
    if goal is GOALS["slow"]:
        notes.append(
            "Without its FLOP the application has no place under the ceilings: npc observe --help says how "
            "to count or name them (--counters, --flops, --flop)."
        )
    left = [tag for tag in possible if tag not in tags]
    if left:
        more = goal.runs * duration([*tags, left[0]], MIN_SAMPLES, machine)
        notes.append(
            f"Left out for lack of time: {', '.join(left)}; {left[0]} too takes {format_duration(more)}."
        )
    return notes


def _general_notes(machine: Machine, samples: int, steps: Sequence[Step], links: bool) -> list[str]:
    """Of few samples, of one machine where links were to be measured, and of tools that are missing."""
    notes = []
    if samples < MIN_SAMPLES:
        notes.append(
            f"Fewer than {MIN_SAMPLES} samples give no 95 % interval; take more time to judge by it."
        )
    if machine.one_machine and links:
        notes.append("One machine: network tests go over loopback or shared memory, and measure no link.")
    if known := sorted(step.name for step in steps if step.needed):
        runs = sorted({machine.earlier_steps[name].run for name in known})
        notes.append(f"As long, and as often, as in the runs {', '.join(runs)}: {', '.join(known)}.")
    lacking = sorted({c for step in steps for c in step.commands if c in machine.missing})
    sites = {step.commands[0]: step.site for step in catalogue.steps() if step.site}
    tools = [command for command in lacking if command not in sites]
    if tools:
        notes.append(f"Missing here: {', '.join(tools)} (npc doctor --missing says how to get them).")
    for command in lacking:
        if command in sites:
            names = " or ".join(f"--set {name}=FOLDER" for name in sites[command])
            notes.append(f"Missing here: {command}; {names} names a build.")
    return notes
