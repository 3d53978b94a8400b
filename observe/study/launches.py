"""The launches of a study: what each condition is in a job, and what came of it.

A job makes the launches of one number of nodes by ``npc records sample --cases``; its file has a case for
each condition. What was measured is read from the launches' own logs, in whichever JUBE run they are, so that
nothing is lost or measured again when a study goes on.
"""

from __future__ import annotations

import json
import re
import shlex
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import mean
from typing import Any, Final

import msgspec

from npc.files import read_bytes, read_text
from npc.jobs.sample import fill_in
from npc.launcher import program_index
from npc.observe.study.plan import placement_of
from npc.observe.study.records import Condition, ProgramRun, Study
from npc.observe.study.starters import Starters
from npc.records.launch import LAUNCHES, Launch, read_launches
from npc.records.observed import read_document
from npc.records.record import OK
from npc.records.run import RECORDS, read_run
from npc.statistics.precision import STEPS, Goal

RUNS: Final = "runs"
CASES: Final = "cases"
#: The param of a launch that says which condition it is.
CONDITION: Final = "condition"
OBSERVED: Final = ".observed.json"
#: Places that only the job knows (``launch.sh``): its folder, and where a launch's files begin.
WORK: Final = "@WORK@"
LAUNCH: Final = "@LAUNCH@"
#: The rate that ranks measure together, before the program begins.
NETWORK: Final = "network"
#: A launch that was ended from outside is no result of its condition: it is made again.
_STOPPED: Final = "failed: stopped by "
#: Others computed beside it (`npc.validity.rules.load`), which is no result either.
_DISTURBED: Final = "invalid: others "


def command_of(study: Study, condition: Condition, starters: Starters, home: Path) -> list[str]:
    """The words of one launch of a condition."""
    values = {
        "ranks": str(condition.ranks), "nodes": str(condition.nodes), "threads": str(condition.threads),
        "ranks_per_node": str(condition.ranks_per_node),
    }  # fmt: skip
    command = fill_in(study.command, values)
    place = program_index(command)
    starter, program = command[:place] or [*starters.words[placement_of(condition)]], command[place:]
    variables = dict(condition.variables)
    if isinstance(condition.network, str):
        name, _, text = condition.network.partition("=")
        variables[name] = text
    state = state_of(study, condition)
    if condition.frequency_hz and starter[:1] == ["srun"]:
        variables["SLURM_CPU_FREQ_REQ"] = f"{condition.frequency_hz / 1e3:.0f}"  # srun(1), --cpu-freq
        state.pop("frequency_hz", None)
    node_state = str(Path(__file__).with_name("node_state.py"))
    changed = [sys.executable, "-ES", node_state, json.dumps(state)] if state else []
    npc = str(Path(sys.executable).with_name("npc"))
    observe = [npc, "observe", "--no-mpi", "--background", "0", "--program", program[0], "--"]
    before = []
    if NETWORK in study.measured and condition.ranks > 1:
        before = [*starter, *changed[:-1], json.dumps({**state, "measure": []}), f"{WORK}/bandwidth"]
    mapping = condition.binding if condition.binding.startswith("ppr:") else ""
    placed = [condition.nodes, condition.ranks_per_node, condition.threads, mapping]
    placed += ["" if mapping else condition.binding, study.folder]
    launch = ["bash", str(home / "observe/study/launch.sh"), str(home), *map(str, placed)]
    launch += [*(f"{name}={text}" for name, text in variables.items()), "--", str(len(before)), *before]
    return [*launch, *(observe if study.observed else []), *starter, *changed, *program]


def state_of(study: Study, condition: Condition) -> dict[str, Any]:
    """What ``node_state.py`` is asked in a condition; nothing where nothing is changed and measured."""
    alike = [member for member in study.conditions if placement_of(member) == placement_of(condition)]
    # in all conditions of a placement, so that they differ in the bandwidth alone
    reserve = max(member.memory or 0.0 for member in alike)
    settings = {
        "frequency_hz": condition.frequency_hz, "memory": condition.memory, "reserve": reserve,
        "network": None if isinstance(condition.network, str) else condition.network,
        "measure": [resource for resource in study.measured if resource != NETWORK],
    }  # fmt: skip
    state: dict[str, Any] = {name: value for name, value in settings.items() if value}
    if not state:
        return {}
    threads = condition.ranks_per_node * condition.threads
    places = {"launch": LAUNCH, "work": WORK, "interface": study.interface}
    return {"measure": [], "threads": threads, **state, **places}


def write_cases(
    study: Study, missing: Mapping[str, int], starters: Starters, home: Path, folder: Path
) -> dict[int, int]:
    """A file ``NODES.jsonl`` in `folder` for each number of nodes; nodes → tasks on each in its job."""
    folder.mkdir(parents=True)
    jobs: dict[int, int] = {}
    lines: dict[int, list[str]] = {}
    for condition in study.conditions:
        if not missing.get(condition.name):
            continue
        case = {
            "name": condition.name,
            "values": {"command": shlex.join(command_of(study, condition, starters, home))},
            "runs": missing[condition.name],
            "params": params_of(condition),
        }
        lines.setdefault(condition.nodes, []).append(json.dumps(case))
        tasks = condition.ranks_per_node * condition.threads
        most = min(tasks, starters.cores) if starters.cores else tasks
        jobs[condition.nodes] = max(jobs.get(condition.nodes, 1), most)
    for nodes, text in lines.items():
        (folder / f"{nodes}.jsonl").write_text("\n".join(text) + "\n", encoding="utf-8")
    return jobs


def params_of(condition: Condition) -> dict[str, str]:
    """What records note of a condition."""
    params = {
        CONDITION: condition.name, "ranks": str(condition.ranks), "threads": str(condition.threads),
        "binding": condition.binding,
    }  # fmt: skip
    for name in ("frequency_hz", "memory", "network", "io"):
        value = getattr(condition, name)
        params |= {} if value is None else {name: value if isinstance(value, str) else f"{value:g}"}
    return {name: text for name, text in (params | dict(condition.variables)).items() if text}


def runs_of(folder: Path, says: str = "") -> list[ProgramRun]:
    """What has been measured so far in a study's folder, the oldest first; samples are counted anew.

    A run beside which others computed is invalid. says: as of the study. Raises ValueError for a log that
    cannot be read.
    """
    disturbed = _disturbed(folder)
    samples: Counter[str] = Counter()
    runs = []
    for raw, launch in sorted(_launches(folder), key=lambda pair: pair[1].started):
        name = launch.params.get(CONDITION, "")
        if not name or launch.status.startswith(_STOPPED):
            continue
        status = disturbed.get(raw, launch.status)
        seconds = _seconds(raw, launch, says) if status == OK else None
        if status == OK and seconds is None:
            status = f"failed: the output has no match of {says!r}"
        runs.append(ProgramRun(name, samples[name], seconds, status, _rates(raw)))
        samples[name] += 1
    return runs


def missing_of(study: Study, ran: Sequence[ProgramRun]) -> dict[str, int]:
    """How many runs each condition still needs; one that is invalid does not count."""
    made = _made(ran)
    return {
        condition.name: study.runs - made[condition.name]
        for condition in study.conditions
        if made[condition.name] < study.runs
    }


def unknown_of(study: Study, ran: Sequence[ProgramRun]) -> dict[str, int]:
    """How many further runs each condition gets that has had the study's number of them and is not yet known
    (`npc.statistics.precision`): as many as make its interval narrower."""
    if not study.most:
        return {}
    goal = Goal(most=study.most)
    further = {}
    for name, made in _made(ran).items():
        seconds = [run.seconds for run in ran if run.condition == name and run.seconds is not None]
        if made < study.runs or not seconds:
            continue
        if not goal.enough(made, made * mean(seconds), [seconds]):
            further[name] = next(step for step in STEPS if step > made) - made
    return further


def _made(ran: Sequence[ProgramRun]) -> Counter[str]:
    return Counter(run.condition for run in ran if not run.status.startswith(_DISTURBED))


def _disturbed(folder: Path) -> dict[Path, str]:
    """Launches beside which others computed, as all their records say, by where their files begin."""
    if not (folder / RECORDS).exists():
        return {}
    statuses: dict[Path, list[str]] = {}
    for record in read_run(folder):
        raw = folder / record.raw
        statuses.setdefault(raw.with_name(raw.name.partition(".")[0]), []).append(record.status)
    return {
        raw: of_launch[0]
        for raw, of_launch in statuses.items()
        if all(status.startswith(_DISTURBED) for status in of_launch)
    }


def _launches(folder: Path) -> Iterator[tuple[Path, Launch]]:
    """Every launch with where its files begin (``…/raw/0007``)."""
    for log in sorted((folder / RUNS).glob(f"*/*_study/work/*/{LAUNCHES}")):
        for launch in read_launches(log.parent).launches:
            yield (log.parent / launch.raw).with_suffix(""), launch


def _seconds(raw: Path, launch: Launch, says: str) -> float | None:
    """How long the program ran: as it says itself, where that was asked for, or None; else without its
    launcher's start where it was observed."""
    if says:
        printed = read_text(raw.with_suffix(".out"), "replace")
        match = re.search(says, printed, re.MULTILINE)
        try:
            return float(match[1]) or None if match else None
        except (TypeError, ValueError):
            return None
    try:
        nodes = read_document(raw.with_suffix(OBSERVED))["nodes"]
        return float(max(node["seconds"] for node in nodes))
    except (OSError, ValueError):
        return launch.seconds


def _rates(raw: Path) -> dict[str, float]:
    """What the nodes gave meanwhile: of several the least, which holds the others back."""
    rates: dict[str, float] = {}
    for file in sorted(raw.parent.glob(f"{raw.name}.rates.*.json")):
        try:
            measured = msgspec.json.decode(read_bytes(file), type=dict[str, float])
        except (OSError, ValueError):  # damaged: the launch has its times all the same
            continue
        for name, rate in measured.items():
            rates[name] = min(rate, rates.get(name, rate))
    return rates
