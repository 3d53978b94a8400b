"""What ``npc records sample`` does: the same command in fresh processes, several times, every outcome on
record.

Launches differ more than the iterations inside one launch do (Hunold and Carpen-Amarie,
arXiv:1505.07734), so a sample is a launch. The order of all launches is shuffled, so that a machine that
drifts does so for every case alike; where the number of launches follows from what they tell, each round of
them is (`npc.jobs.rounds`). In a JUBE job it stands before the starter (JUBE's customary ``measurement``), so
that one job makes all launches of a benchmark.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import random
import re
import shlex
import signal
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from npc.files import InvalidFile, parse_json, read_bytes, read_text
from npc.jobs import session
from npc.jobs.stop import Stop
from npc.jobs.watchers import Watchers, this_node
from npc.machine.around import LaunchObservations, join
from npc.machine.ask import NoAnswer, ask
from npc.machine.command import exit_words
from npc.machine.fabric import short_name
from npc.machine.load import watch_s
from npc.records.launch import RAW, Launch, LaunchLog, last_words, not_inside, now
from npc.records.record import OK

EXIT_NOTHING: Final = 1
EXIT_PARTLY: Final = 6
#: Tells the program where its launch's files are (``…/raw/0007``), so that one that watches can add its own.
LAUNCH: Final = "NPC_LAUNCH"
#: How long a launch that was told to end may take before it is killed.
GRACE_S: Final = 1.5


@dataclass(frozen=True, slots=True)
class Case:
    """One thing to measure, in several launches of one command."""

    #: What its launches are called in the log and in the records.
    name: str
    #: Placeholder of the command → the text that takes its place.
    values: Mapping[str, str]
    #: How many launches to make; None: until its numbers are known precisely enough.
    runs: int | None
    #: What is noted with each launch beside the command, by name; empty for nothing.
    params: Mapping[str, str] = field(default_factory=dict)


def cases_of_product(placeholders: Sequence[tuple[str, Sequence[str]]], runs: int | None) -> list[Case]:
    """One case for every combination of the placeholders' values; its name joins the values."""
    combinations = itertools.product(*(values for _, values in placeholders))
    names = [name for name, _ in placeholders]
    return [
        Case(" ".join(combination), dict(zip(names, combination, strict=True)), runs)
        for combination in combinations
    ]


def read_cases(path: Path, runs: int | None) -> list[Case]:
    """Cases of a file of JSON lines: {"name", "values": {placeholder: text}, "params"?, "runs"?}.

    Raises OSError, and `npc.files.InvalidFile` with file and line.
    """
    cases = []
    for number, line in enumerate(read_bytes(path).splitlines(), 1):
        try:
            fields = parse_json(line)
            values, params = dict(fields["values"]), dict(fields.get("params", {}))
            words = [fields["name"], *values.values(), *params.values()]
            if not all(isinstance(word, str) for word in words):
                raise TypeError("name, values and params are texts")
            own = fields.get("runs", runs)
            cases.append(Case(fields["name"], values, None if own is None else int(own), params))
        except KeyError as error:
            raise InvalidFile(f"{path}:{number}: not a case: {error} is missing") from None
        except (AttributeError, TypeError, ValueError, OverflowError) as error:
            raise InvalidFile(f"{path}:{number}: not a case: {error}") from None
    return cases


def fill_in(command: Sequence[str], values: Mapping[str, str]) -> list[str]:
    """The command with its ``{placeholders}`` replaced.

    A word that is nothing but a placeholder may become several words, split as a shell would. Raises
    ValueError for a placeholder that has no value.
    """
    words: list[str] = []
    for word in command:
        names = re.findall(r"\{(\w+)\}", word)
        for name in names:
            if name not in values:
                raise ValueError(f"the command has {{{name}}}, but nothing says what it stands for")
        if names and word == f"{{{names[0]}}}":
            words += shlex.split(values[names[0]])
        else:
            words.append(re.sub(r"\{(\w+)\}", lambda match: values[match.group(1)], word))
    return words


def plan(cases: Sequence[Case], seed: int | None) -> list[tuple[Case, int]]:
    """(case, sample) of every launch of cases with a fixed number: in order, or shuffled by `seed`."""
    launches = [(case, sample) for case in cases for sample in range(case.runs or 0)]
    if seed is not None:
        random.Random(seed).shuffle(launches)
    return launches


def turns(runs: int, lot: random.Random) -> list[tuple[bool, int]]:
    """(whether changed, sample) of every launch: blocks of ABBA or BAAB, what is left as AB or BA."""
    order: list[bool] = []
    for begun in range(0, runs, 2):
        first = lot.random() < 0.5
        order += [first, not first] if begun + 1 == runs else [first, not first, not first, first]
    return [(side, order[:place].count(side)) for place, side in enumerate(order)]


def job_hosts() -> tuple[str, ...]:
    """The hosts of this job: Slurm's list where there is one, of all its components, or the file of Grid
    Engine or PBS, else this host."""
    size = os.environ.get("SLURM_HET_SIZE", "")  # sbatch(1), output environment variables
    components = [
        f"SLURM_JOB_NODELIST_HET_GROUP_{group}" for group in range(int(size) if size.isdecimal() else 0)
    ]
    nodelist = ",".join(filter(None, map(os.environ.get, components or ["SLURM_JOB_NODELIST"])))
    if not nodelist:
        with contextlib.suppress(OSError):  # sge_pe(5), qsub(1B): a host a line, before other words
            file = os.environ.get("PE_HOSTFILE") or os.environ.get("PBS_NODEFILE", "")
            hosts = [line.split()[0] for line in read_text(Path(file)).splitlines() if line.strip()]
            return tuple(dict.fromkeys(hosts)) or (os.uname().nodename,)
        return (os.uname().nodename,)
    try:
        return tuple(ask(["scontrol", "show", "hostnames", nodelist]).split())
    except NoAnswer:
        return (nodelist,)


def this_host(hosts: Sequence[str]) -> str:
    """The job's own name of this host."""
    name = this_node()
    return next((host for host in hosts if short_name(host) == short_name(name)), name)


def launch(
    argv: Sequence[str],
    stdout: Path,
    stderr: Path,
    timeout_s: float,
    require: re.Pattern[bytes] | None,
    stop: Stop,
) -> tuple[int | None, str]:
    """Run `argv` in a session of its own: (exit code or None if it never started or was stopped, status).

    Whatever it started has ended as well when this returns.
    """
    with stdout.open("xb") as out, stderr.open("xb") as err:
        try:
            process = subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                env={**os.environ, LAUNCH: str(stdout.with_suffix("").absolute())},
                start_new_session=True,
            )
        except OSError as error:
            return None, f"unavailable: {argv[0]}: {error.strerror}"
        try:
            ended = stop.wait_for(process, timeout_s)
        finally:
            session.end(process.pid, GRACE_S)
            code = process.wait()
    if not ended and stop.number is not None:
        return None, f"failed: stopped by {signal.Signals(stop.number).name}"
    if not ended:
        return code, f"timeout: not done after {timeout_s:g} s"
    if code != 0:
        reason = last_words(stderr) or last_words(stdout)
        missing = not_inside(argv, reason)
        if missing or reason.startswith("unavailable: "):  # the program itself says what it lacks
            return code, missing or reason
        return code, f"failed: {exit_words(code)}{': ' if reason else ''}{reason}"
    if require is not None and not require.search(stdout.read_bytes()):
        return code, f"failed: the output has no match of {require.pattern.decode()!r}"
    return code, OK


def sample_all(
    command: Sequence[str],
    launches: Iterable[tuple[Case, int]],
    log: LaunchLog,
    timeout_s: float,
    require: str | None,
    report: Callable[[Launch], None],
    stop: Stop,
) -> list[Launch]:
    """Make all launches, or those before a stop, one after another; log and report each as it ends, before
    the next is asked for."""
    hosts = job_hosts()
    here = this_host(hosts)
    watchers = Watchers([host for host in hosts if host != here] if watch_s() and here in hosts else [])
    pattern = re.compile(require.encode(), re.MULTILINE) if require else None
    done: list[Launch] = []
    for number, (case, sample) in enumerate(launches):
        if stop.number is not None:
            break
        argv = fill_in(command, case.values)
        raw = f"{RAW}/{number:04d}"
        watchers.look()
        around = LaunchObservations() if watch_s() else None
        started, before = now(), time.monotonic()
        code, status = launch(
            argv, log.folder / f"{raw}.out", log.folder / f"{raw}.err", timeout_s, pattern, stop
        )
        seconds = round(time.monotonic() - before, 6)
        observed = join([(here, around.result()), *watchers.results()]) if around else {}
        made = Launch(
            id=number,
            argv=tuple(argv),
            started=started,
            seconds=seconds,
            exit=code,
            status=status,
            case=case.name,
            sample=sample,
            params=case.params,
            nodes=len(hosts),
            hosts=hosts,
            raw=f"{raw}.out",
            **observed,
        )
        log.append(made)
        done.append(made)
        report(made)
    watchers.close()
    return done
