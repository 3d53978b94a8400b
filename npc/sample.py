"""``npc sample``: the same command in fresh processes, several times, every outcome on record.

Launches differ more than the iterations inside one launch do (Hunold and Carpen-Amarie,
arXiv:1505.07734), so a sample is a launch. The order of all launches is shuffled, so that a machine that
drifts does so for every case alike. In a JUBE job it stands before the starter (JUBE's customary
``measurement``), so that one job makes all launches of a benchmark.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import click

from npc import session
from npc.launch import RAW, Launch, LaunchLog, last_words, now
from npc.record import OK

EXIT_NOTHING: Final = 1
EXIT_PARTLY: Final = 6
#: Tells the program where its launch's files are (``…/raw/0007``), so that one that watches can add its own.
LAUNCH: Final = "NPC_LAUNCH"
#: How long a launch that was told to end may take before it is killed.
GRACE_S: Final = 1.5


@dataclass(frozen=True, slots=True)
class Case:
    """One thing to measure: what its placeholders stand for, how often, and what to note beside it."""

    name: str
    values: Mapping[str, str]
    runs: int
    params: Mapping[str, str] = field(default_factory=dict)


def cases_of_product(each: Sequence[tuple[str, Sequence[str]]], runs: int) -> list[Case]:
    """One case for every combination of the placeholders' values; its name joins the values."""
    combinations = itertools.product(*(values for _, values in each))
    names = [name for name, _ in each]
    return [
        Case(" ".join(combination), dict(zip(names, combination, strict=True)), runs)
        for combination in combinations
    ]


def read_cases(path: Path, runs: int) -> list[Case]:
    """Cases of a file of JSON lines: {"name", "values": {placeholder: text}, "params"?, "runs"?}.

    Raises ValueError with file and line.
    """
    cases = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        try:
            fields = json.loads(line)
            values, params = dict(fields["values"]), dict(fields.get("params", {}))
            words = [fields["name"], *values.values(), *params.values()]
            if not all(isinstance(word, str) for word in words):
                raise TypeError("name, values and params are texts")
            cases.append(Case(fields["name"], values, int(fields.get("runs", runs)), params))
        except KeyError as error:
            raise ValueError(f"{path}:{number}: not a case: {error} is missing") from None
        except (AttributeError, TypeError, ValueError) as error:
            raise ValueError(f"{path}:{number}: not a case: {error}") from None
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


def note(cases: Sequence[Case], params: Mapping[str, str]) -> list[Case]:
    """The cases with `params` noted beside each; a case's own win."""
    return [dataclasses.replace(case, params={**params, **case.params}) for case in cases]


def plan(cases: Sequence[Case], seed: int | None) -> list[tuple[Case, int]]:
    """(case, sample) of every launch: in order, or shuffled by `seed`."""
    launches = [(case, sample) for case in cases for sample in range(case.runs)]
    if seed is not None:
        import random  # `npc sample --help` does not wait for it

        random.Random(seed).shuffle(launches)
    return launches


def job_hosts() -> tuple[str, ...]:
    """The hosts of this job: Slurm's list where there is one, of all its components, else this host."""
    components = [f"SLURM_JOB_NODELIST_HET_GROUP_{group}" for group in range(_components())]
    nodelist = ",".join(filter(None, map(os.environ.get, components or ["SLURM_JOB_NODELIST"])))
    if nodelist:
        try:
            names = subprocess.run(
                ["scontrol", "show", "hostnames", nodelist],
                capture_output=True,
                text=True,
                timeout=30,
                check=True,
            ).stdout.split()
        except (OSError, subprocess.SubprocessError):
            names = [nodelist]
        return tuple(names)
    return (os.uname().nodename,)


def _components() -> int:
    """Of a heterogeneous job; 0 for any other (sbatch(1), output environment variables)."""
    size = os.environ.get("SLURM_HET_SIZE", "")
    return int(size) if size.isdecimal() else 0


class Stopped(Exception):
    """A signal asked for an end; `number` is which."""

    def __init__(self, number: int) -> None:
        self.number = number


class Stop:
    """SIGTERM and SIGINT become `Stopped`, but only while a launch is waited for.

    Anywhere else the exception would lose a launch that has just ended, or leave behind one that has just
    been started; there the signal is remembered.
    """

    def __init__(self) -> None:
        self._number: int | None = None
        self._waiting = False

    def listen(self) -> None:
        """Take over both signals of this process."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._on_signal)

    def check(self) -> None:
        """Raise `Stopped` if a signal has asked for it."""
        if self._number is not None:
            raise Stopped(self._number)

    @contextlib.contextmanager
    def may_interrupt(self) -> Iterator[None]:
        """What is inside is interrupted by a signal."""
        try:
            self._waiting = True
            self.check()
            yield
        finally:
            self._waiting = False

    def _on_signal(self, number: int, _frame: object) -> None:
        for again in (signal.SIGTERM, signal.SIGINT):  # the end is bounded: nothing must cut it short
            signal.signal(again, signal.SIG_IGN)
        self._number = number
        if self._waiting:
            raise Stopped(number)


def launch(
    argv: Sequence[str],
    stdout: Path,
    stderr: Path,
    timeout_s: float,
    require: re.Pattern[bytes] | None,
    stop: Stop,
) -> tuple[int | None, str]:
    """Run `argv` in a session of its own: (exit code or None if it never started, status).

    Whatever it started has ended as well when this returns. Raises `Stopped`, after that, if a signal asked
    for it.
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
            with stop.may_interrupt():
                process.wait(timeout_s)
            late = False
        except subprocess.TimeoutExpired:
            late = True
        finally:
            session.end(process.pid, GRACE_S)
            code = process.wait()
    if late:
        return code, f"timeout: not done after {timeout_s:g} s"
    if code != 0:
        how = f"signal {-code}" if code < 0 else f"exit code {code}"
        reason = last_words(stderr) or last_words(stdout)
        if reason.startswith("unavailable: "):  # the program itself says what it lacks
            return code, reason
        return code, f"failed: {how}{': ' if reason else ''}{reason}"
    if require is not None and not require.search(stdout.read_bytes()):
        return code, f"failed: the output has no match of {require.pattern.decode()!r}"
    return code, OK


def sample_all(
    command: Sequence[str],
    launches: Sequence[tuple[Case, int]],
    log: LaunchLog,
    timeout_s: float = 300.0,
    require: str | None = None,
    report: Callable[[Launch], None] = lambda launch: None,
    stop: Stop | None = None,
) -> list[Launch]:
    """Make all launches one after another and log each as it ends. Raises `Stopped` with all logged."""
    hosts = job_hosts()
    pattern = re.compile(require.encode(), re.MULTILINE) if require else None
    stop = stop or Stop()
    done = []
    for number, (case, sample) in enumerate(launches):
        stop.check()
        argv = fill_in(command, case.values)
        raw = f"{RAW}/{number:04d}"
        started, before = now(), time.monotonic()
        stopped: Stopped | None = None
        try:
            code, status = launch(
                argv, log.folder / f"{raw}.out", log.folder / f"{raw}.err", timeout_s, pattern, stop
            )
        except Stopped as signal_:
            stopped, code, status = signal_, None, f"failed: stopped by {signal.Signals(signal_.number).name}"
        made = Launch(
            id=number,
            argv=tuple(argv),
            started=started,
            seconds=round(time.monotonic() - before, 6),
            exit=code,
            status=status,
            case=case.name,
            sample=sample,
            params=case.params,
            nodes=len(hosts),
            hosts=hosts,
            raw=f"{raw}.out",
        )
        log.append(made)
        done.append(made)
        report(made)
        if stopped:
            raise stopped
    return done


def _parse_params(texts: Sequence[str]) -> dict[str, str]:
    params = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not re.fullmatch(r"\w+", name):
            raise click.UsageError(f"--param {text!r}: expected NAME=VALUE")
        params[name] = value
    return {name: value for name, value in params.items() if value}


def _parse_each(texts: Sequence[str]) -> list[tuple[str, list[str]]]:
    each = []
    for text in texts:
        name, equals, values = text.partition("=")
        if not equals or not re.fullmatch(r"\w+", name) or not values:
            raise click.UsageError(f"--each {text!r}: expected NAME=VALUE,VALUE,…")
        each.append((name, values.split(",")))
    return each


@click.command(context_settings={"ignore_unknown_options": True})
@click.option("--tool", required=True, help="Name of the parser that reads the outputs later.")
@click.option(
    "--runs", default=6, show_default=True, type=click.IntRange(1, 10_000), help="Launches of each case."
)
@click.option(
    "--each", multiple=True, metavar="NAME=V1,V2,…", help="Values of {NAME} in the command; may be repeated."
)
@click.option(
    "--cases", type=click.Path(path_type=Path, dir_okay=False, exists=True), help="JSON lines with the cases."
)
@click.option(
    "--param",
    "params",
    multiple=True,
    metavar="NAME=VALUE",
    help="What every record of these launches notes beside its value; may be repeated.",
)
@click.option(
    "--seed", type=int, help="Order of the launches: shuffled by this seed (default: from the clock)."
)
@click.option("--in-order", is_flag=True, help="Do not shuffle.")
@click.option(
    "--timeout",
    "timeout_s",
    default=300.0,
    show_default=True,
    type=click.FloatRange(0, 1e6, min_open=True),
    help="Seconds that one launch may take.",
)
@click.option("--require", metavar="REGEX", help="What the output of a launch that worked has.")
@click.option(
    "--output", type=click.Path(path_type=Path, file_okay=False), default=Path("launches"), show_default=True
)
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
def sample(
    tool: str,
    runs: int,
    each: tuple[str, ...],
    cases: Path | None,
    params: tuple[str, ...],
    seed: int | None,
    in_order: bool,
    timeout_s: float,
    require: str | None,
    output: Path,
    command: tuple[str, ...],
) -> None:
    """Run COMMAND several times in fresh processes and keep every output.

    Writes a folder of launches: launches.jsonl and raw/NNNN.out, .err. Exit codes: 0 all launches
    worked, 1 none did, 2 usage, 6 some failed, 128+N stopped by signal N.

    \b
    npc sample --tool osu --each test=latency,bw -- mpirun -n 2 osu_{test}
    """
    try:
        if cases is not None and each:
            raise click.UsageError("--cases and --each exclude each other")
        varied = _parse_each(each)
        for name, _ in varied:
            if f"{{{name}}}" not in " ".join(command):
                raise click.UsageError(f"--each {name}: the command has no {{{name}}}")
        todo = read_cases(cases, runs) if cases else cases_of_product(varied, runs)
        todo = note(todo, _parse_params(params))
        for case in todo:
            fill_in(command, case.values)
        if require:
            re.compile(require)
    except (ValueError, re.error) as error:
        raise click.UsageError(str(error)) from None
    seed = None if in_order else seed if seed is not None else time.time_ns() % 2**32
    launches = plan(todo, seed)
    if not launches:
        raise click.ClickException(f"{cases} asks for no launch: nothing to measure")
    try:
        log = LaunchLog(output, tool, len(launches), seed)
    except FileExistsError:
        raise click.UsageError(f"{output} holds launches already: name another --output") from None
    except OSError as error:
        raise click.ClickException(f"cannot write into {output}: {error.strerror}") from None
    stop = Stop()
    stop.listen()
    try:
        done = sample_all(command, launches, log, timeout_s, require, _report_failure, stop)
    except Stopped as stopped:
        click.echo(f"npc sample: stopped by {signal.Signals(stopped.number).name}", err=True)
        sys.exit(128 + stopped.number)
    finally:
        log.close()
    failed = sum(launch.status != OK for launch in done)
    click.echo(f"{len(done) - failed} of {len(done)} launches of {len(todo)} cases worked: {output}")
    if failed:
        sys.exit(EXIT_NOTHING if failed == len(done) else EXIT_PARTLY)


def _report_failure(launch: Launch) -> None:
    if launch.status != OK:
        click.echo(f"npc sample: {launch.case or 'launch'} #{launch.sample}: {launch.status}", err=True)
        click.echo(f"  by hand: {shlex.join(launch.argv)}", err=True)
