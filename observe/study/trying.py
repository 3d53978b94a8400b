"""``npc advise --try``: the launch that a hint rests on, with and without the change, and what it brought.

Launches with and without take turns in blocks of four, each ABBA or BAAB by lot, so a machine that drifts
does so for both alike; the interval of the ratio is that of `npc.report.compare.difference`, of samples of
one run. What drift adds to the spread of both makes it wider, never narrower.

The change is a part of the command line (``env NAME=VALUE …``): it ends with the launch.
"""

from __future__ import annotations

import os
import random
import re
import shlex
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePath
from typing import Any, Final

from npc.document import below
from npc.hostlist import host_text
from npc.jobs.sample import Case, job_hosts, sample_all, turns
from npc.jobs.stop import Stop
from npc.launcher import MPI_STARTERS
from npc.machine.fabric import short_name
from npc.parsers.run.collect import collect_run
from npc.places import shown
from npc.python import python
from npc.records.launch import ENVIRONMENT, Launch, LaunchLog, batch_job, command_of, read_launches
from npc.records.record import Record, save_csv
from npc.records.run import RECORDS
from npc.records.series import identity
from npc.records.units import METRICS, plural
from npc.report.advice import Advice
from npc.report.advice.rule import AdviceRule, Hint, TrialChange
from npc.report.compare.compared_series import ComparedSeries
from npc.report.compare.comparison import compare_sides
from npc.report.compare.matching import Choice
from npc.report.compare.sides import Side
from npc.report.runs import Run, program_of

#: The setting by which records of a trial are none of the platform's usual ones: ``no``, or what was changed.
TRIED: Final = "tried"
NOT_CHANGED: Final = "no"
NO_DIFFERENCE: Final = "no difference shown"
#: A launch's limit, as a multiple of what it took when it was measured first; a minute at least.
_PATIENCE: Final = 10
_LEAST_PATIENCE_S: Final = 60.0
#: Variables of a job that change how fast a program is, and are no part of the batch system or of one launch.
_OF_PROGRAMS: Final = re.compile(
    r"(?:OMP|KMP|GOMP|OMPI|PRTE|MPICH|I_MPI|MV2|UCX|FI|PSM2?|HFI|MLX5)_(?!COMM_WORLD|UNIVERSE)\w+"
)
#: Those that choose an MPI (benchmarks/mpi.sh).
_OF_THE_MPI: Final = ("PATH", "LD_LIBRARY_PATH", "MPI4PY_MPIABI")
#: What variables of an MPI begin with → what that MPI's version text has.
_FAMILIES: Final = {
    "OMPI_": "Open MPI",
    "PRTE_": "Open MPI",
    "MPIR_": "MPICH",
    "I_MPI_": "Intel",
}


class CannotTry(ValueError):
    """There is nothing to try, or not here; the message says what to do instead."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Experiment:
    """A hint, the change, and the command without and with it."""

    #: The rule of advice that gave the hint.
    rule: AdviceRule
    #: The advice that is tried.
    hint: Hint
    #: What is changed for it.
    trial: TrialChange
    #: Name of the parser that reads the launches' output.
    tool: str
    #: What was launched, as `npc.machine.programs` calls it.
    program: str
    #: Name of the platform that the hint was measured on.
    platform: str
    #: The MPI that `launch` had; empty if that is not known.
    library: str
    #: The launch that the hint rests on, which is repeated.
    launch: Launch
    #: Words of its command, without the change.
    without: tuple[str, ...]
    #: Words of its command, with the change.
    changed: tuple[str, ...]
    #: How many launches are made without the change; as many are made with it.
    runs: int

    @property
    def seconds(self) -> float:
        """How long it is going to take, as far as the launch tells that was made before."""
        return 2 * self.runs * self.launch.seconds

    @property
    def timeout_s(self) -> float:
        """How long each launch may take."""
        return max(_LEAST_PATIENCE_S, _PATIENCE * self.launch.seconds)

    @property
    def change(self) -> str:
        """What is changed, in words."""
        words = [f"{name}={value}" for name, value in self.trial.set.items()]
        words += [f"without {name}" for name in self.trial.clear if _uses(name, self.without)]
        joined = " ".join(self.without)
        for old, new in self.trial.replace:
            if re.search(rf"(?<!\S){re.escape(old)}(?!\S)", joined):
                words.append(f"{new} instead of {old}" if new else f"without {old}")
        return ", ".join(words)


def choose(advice: Advice, name: str) -> tuple[AdviceRule, Hint]:
    """The hint that `name` means: a rule's first, or that of a number as `npc advise` lists them.

    Raises LookupError for a name that no rule has, and `CannotTry` where the rule has no hint.
    """
    if name.isdecimal():
        if not 1 <= int(name) <= len(advice.hints):
            raise LookupError(f"there is no hint {name}: npc advise lists {len(advice.hints)}")
        return advice.hints[int(name) - 1]
    known = [*advice.hints, *((rule, hint) for rule, hint, _ in advice.remembered)]
    chosen = next(((rule, hint) for rule, hint in known if rule.name == name), None)
    if chosen:
        return chosen
    if name in advice.lacking:
        raise CannotTry(f"rule {name} had nothing to judge ({advice.lacking[name]}): there is nothing to try")
    if name in advice.silent:
        raise CannotTry(f"rule {name} looked and found nothing: there is nothing to try")
    raise LookupError(f"there is no rule {name}; npc advise --rules lists them")


def design(run: Run, rule: AdviceRule, hint: Hint, own: TrialChange | None, runs: int) -> Experiment:
    """What is to be launched for a hint of `run`. own: a change in place of the rule's.

    Raises `CannotTry`.
    """
    trial = own or hint.trial
    if isinstance(trial, str):
        raise CannotTry(f"rule {rule.name} is not tried: {trial}. What to do: {hint.do}")
    behind = run.launched(hint.raw)
    if behind is None:
        raise CannotTry(
            f"nothing tells how the numbers behind rule {rule.name} were measured: no launches.jsonl lies "
            f"with the records of {run.label}"
        )
    record, launch = behind
    path = run.folder / record.raw
    if path.with_suffix(".server.out").exists():
        raise CannotTry(
            f"npb made the launches behind rule {rule.name}, with a server beside each; npc advise repeats "
            f"programs and MPI programs. What to do: {hint.do}; then npb again, and npc compare"
        )
    _check_place(launch, record.job, shlex.join(["npc", "advise", shown(run.folder), "--try", rule.name]))
    environment = run.circumstances.environments.get(record.raw, {})
    if own and isinstance(hint.trial, TrialChange):
        trial = replace(own, sizes=hint.trial.sizes)
    library = mpi_of(environment)
    trial = _of_library(trial, library)
    variables = _variables(below(environment, "variables") or {}, launch)
    argv = _absolute(launch.argv, path.parent.parent.parent)
    experiment = Experiment(
        rule=rule,
        hint=hint,
        trial=trial,
        tool=read_launches(path.parent.parent).tool,
        program=program_of(record, launch),
        platform=record.platform,
        library=library,
        launch=launch,
        without=tuple(_with_variables(argv, variables)),
        changed=tuple(with_change(argv, trial, variables, library)),
        runs=runs,
    )
    if experiment.without == experiment.changed:
        raise CannotTry(f"rule {rule.name}: its change has no effect on {shlex.join(experiment.without)}")
    return experiment


def mpi_of(environment: Mapping[str, Any]) -> str:
    """The MPI library that an ``environment.json`` tells, else the launcher; empty without either."""
    return str(below(environment, "mpi", "library") or below(environment, "mpi", "launcher") or "")


def _check_place(launch: Launch, job: str, again: str) -> None:
    """Raise `CannotTry` unless this is a place like that of the launch: a job, with as many nodes."""
    hosts, here = job_hosts(), os.uname().nodename
    names = set(map(short_name, hosts))
    if (not job or batch_job()) and len(hosts) >= launch.nodes and short_name(here) in names:
        return
    tasks = launch.params.get("ranks") or str(launch.nodes)
    nodes = f"{plural(launch.nodes, 'node')} of a job"
    raise CannotTry(
        f"it was measured on {nodes} ({host_text(launch.hosts)}), and here is {here}: try it in such a "
        f"job, sbatch --nodes {launch.nodes} --ntasks {tasks} --exclusive --wrap {shlex.quote(again)}"
    )


def _of_library(trial: TrialChange, library: str) -> TrialChange:
    """Without variables of other MPIs than the one that was measured, where that is known."""
    known = {family for family in _FAMILIES.values() if family in library}

    def other(name: str) -> bool:
        family = next((family for prefix, family in _FAMILIES.items() if name.startswith(prefix)), None)
        return bool(known) and family is not None and family not in known

    variables = {name: value for name, value in trial.set.items() if not other(name)}
    return replace(trial, set=variables)


def _variables(recorded: Mapping[str, str], launch: Launch) -> dict[str, str]:
    """What the job had set and this shell has not: for programs, and to choose its MPI if it chose one."""
    chosen = launch.params.get("mpi", "default") != "default"
    return {
        name: value
        for name, value in recorded.items()
        if os.environ.get(name) != value
        and (_OF_PROGRAMS.fullmatch(name) or (chosen and name in _OF_THE_MPI))
    }


def _absolute(argv: Sequence[str], folder: Path) -> list[str]:
    """Words that name a file in the folder where it was measured, as one names it from elsewhere."""
    return [
        str((folder / word).resolve())
        if "/" in word and not word.startswith("/") and (folder / word).is_file()
        else word
        for word in argv
    ]


def with_change(
    argv: Sequence[str], trial: TrialChange, variables: Mapping[str, str], library: str
) -> list[str]:
    """The command line with the change; variables: those that it has without it."""
    words = _cut(list(argv), {*trial.set, *trial.clear})
    for old, new in trial.replace:
        words = _replaced(words, old.split(), new.split())
    starter = len(words) - len(command_of(words))
    by_mpirun = PurePath(words[starter]).name in MPI_STARTERS - {"srun"} if words else False
    if by_mpirun and "Open MPI" in library:
        # Open MPI hands its own variables to the ranks by itself, others when it is told to: mpirun(1), -x.
        foreign = [name for name in trial.set if not name.startswith(("OMPI_", "PRTE_", "PMIX_"))]
        words[starter + 1 : starter + 1] = [word for name in foreign for word in ("-x", name)]
    settings = {name: value for name, value in variables.items() if name not in trial.clear}
    unset = [name for name in trial.clear if name in os.environ]
    return _with_variables(words, {**settings, **trial.set}, unset)


def _with_variables(
    words: Sequence[str], variables: Mapping[str, str], unset: Sequence[str] = ()
) -> list[str]:
    before = [word for name in unset for word in ("-u", name)]
    before += [f"{name}={value}" for name, value in variables.items()]
    return [*(["env", *before] if before else []), *words]


def _uses(name: str, words: Sequence[str]) -> bool:
    """Whether a command line, or this shell, sets a variable."""
    return name in os.environ or _cut(list(words), {name}) != list(words)


def _cut(words: list[str], names: set[str]) -> list[str]:
    """A command line without what sets some variables in it, also by an MPI's own option."""
    kept_words: list[str] = []
    while words:
        following = words[1] if len(words) > 1 else ""
        named = f"OMPI_MCA_{following}" if words[0] in ("--mca", "-mca") else following
        if words[0] == "-x" and following.partition("=")[0] in names:
            del words[:2]
        elif words[0] in ("--mca", "-mca", "-genv", "-env") and named in names:
            del words[:3]
        elif "=" in words[0] and words[0].partition("=")[0] in names:
            del words[0]
        else:
            kept_words.append(words.pop(0))
    return kept_words


def _replaced(words: list[str], old: Sequence[str], new: Sequence[str]) -> list[str]:
    for place in range(len(words) - len(old), -1, -1):
        if words[place : place + len(old)] == list(old):
            words[place : place + len(old)] = new
    return words


def measure(
    experiment: Experiment, folder: Path, seed: int, tell: Callable[[Launch], None], stop: Stop
) -> list[Record]:
    """Launch all, or those before a stop, into `folder`; the records of that.

    Raises OSError, and FileExistsError where launches lie there.
    """
    log = LaunchLog(folder, experiment.tool, 2 * experiment.runs, seed)
    try:
        words = ("doctor", "--environment", "--output", str(folder / ENVIRONMENT))
        # in a session of its own: a Ctrl-C is for those who launch
        subprocess.run(python("-m", "npc", *words), stdout=subprocess.PIPE, start_new_session=True)
        cases = [
            Case(
                experiment.launch.case,
                {"command": shlex.join(command)},
                experiment.runs,
                {**experiment.launch.params, TRIED: tried},
            )
            for command, tried in (
                (experiment.without, NOT_CHANGED),
                (experiment.changed, experiment.change),
            )
        ]
        launches = [(cases[side], sample) for side, sample in turns(experiment.runs, random.Random(seed))]
        sample_all(["{command}"], launches, log, experiment.timeout_s, None, tell, stop)
    finally:
        log.close()
    records = collect_run(folder, experiment.platform)
    save_csv(records, folder / RECORDS)
    return records


def compared(records: Sequence[Record], folder: Path) -> list[ComparedSeries]:
    """Every series without and with the change, by test and size; the ratio is with over without.

    Params that the change itself has changed (the number of threads) tell no series apart.
    """
    sides: dict[bool, list[Record]] = {False: [], True: []}
    for record in records:
        if TRIED in record.params:
            sides[record.params[TRIED] != NOT_CHANGED].append(record)
    before, after = (
        {item for record in some for item in identity(record.params).items()} for some in sides.values()
    )
    changed = sorted({name for name, _ in before ^ after})
    # One run holds both, in turns: what runs differ in is no part of the ratio.
    choice = Choice(by=f"params.{TRIED}", ignore=changed, least_effect=0.0, run_to_run=0.0)
    a, b = (
        Side(name, {str(folder): some}, {str(folder): folder})
        for name, some in zip(("without", "with"), sides.values(), strict=True)
    )
    pairs = [
        replace(pair, reason=pair.reason.partition(" (npc characterise")[0])  # here it is --launches
        for pair in compare_sides(a, b, choice).series
    ]
    return sorted(pairs, key=lambda pair: (pair.test, pair.metric, pair.size or 0))


def word_of(pair: ComparedSeries) -> str:
    """``better``, ``worse``, `NO_DIFFERENCE` where the interval holds 1 or many tests explain it, …"""
    return NO_DIFFERENCE if pair.verdict == "same" else pair.verdict


@dataclass(frozen=True, slots=True)
class TrialAnswer:
    """What a trial brought."""

    #: What became of the series that the hint is about: better, worse, no difference shown, …
    word: str
    #: The series that the hint is about.
    about: tuple[ComparedSeries, ...]
    #: The other series: those of other sizes.
    elsewhere: tuple[ComparedSeries, ...]

    @property
    def best(self) -> ComparedSeries | None:
        """Of the better ones that the hint is about, the one with the largest effect."""
        return max((pair for pair in self.about if pair.verdict == "better"), key=times, default=None)


def times(pair: ComparedSeries) -> float:
    """How many times as fast it is with the change."""
    ratio = pair.ratio or 1.0
    return 1 / ratio if METRICS[pair.metric].better == "lower" else ratio


def answer(pairs: Sequence[ComparedSeries], trial: TrialChange) -> TrialAnswer:
    """What they say together: better, worse, better and worse, no difference shown, or not comparable."""

    def concerned(pair: ComparedSeries) -> bool:
        return trial.sizes is None or (
            pair.size is not None and trial.sizes[0] <= pair.size <= trial.sizes[1]
        )

    about = tuple(filter(concerned, pairs))
    verdicts = {pair.verdict for pair in about}
    known = [word for word in ("better", "worse", "different") if word in verdicts]
    if not known:
        known = [NO_DIFFERENCE if "same" in verdicts else "not comparable"]
    return TrialAnswer(" and ".join(known), about, tuple(pair for pair in pairs if not concerned(pair)))
