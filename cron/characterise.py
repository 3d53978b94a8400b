"""What ``npc characterise`` does, the main job: runs ``jube.yml`` or one benchmark, waits, collects, draws.

JUBE does the running and is driven by its command line alone; what happens meanwhile is read from the
folders that it and the launches write. Whatever stops the run, what was measured before is collected.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Final

import click

from npc import catalogue, locks
from npc.cron import one_job
from npc.files import no_link, read_end, read_text
from npc.jobs import in_place, jube, jube_state, wait
from npc.jobs.allocation import JobAllocation
from npc.jobs.progress import Display, rows_of
from npc.jobs.stop import Stop
from npc.jobs.workpackages import Workpackage, empty_steps, read_workpackages
from npc.machine.fabric import natural
from npc.places import own, shared, shown, workplace
from npc.python import python
from npc.records.record import Record
from npc.records.run import RECORDS, WORKPACKAGES, read_run
from npc.records.series import Series
from npc.records.units import plural

#: In the folder of the runs: held by whoever makes a run there.
LOCK: Final = ".characterise.lock"
#: What records of ``cron/pairs`` have as their benchmark.
PAIRS_NAME: Final = "pairs"
#: The variable with the folder of the platforms' locks (default: `npc.places.shared`).
LOCKS: Final = "NPC_LOCKS"


@dataclass(frozen=True, slots=True)
class Characterisation:
    """What is to be run."""

    #: JUBE's file.
    file: Path
    #: The platform's folder.
    platform: Path
    #: JUBE's tags.
    tags: Sequence[str]
    #: The folder of runs.
    outpath: Path
    #: Environment of JUBE and of the jobs.
    env: Mapping[str, str]
    #: How long to wait for the jobs.
    patience: wait.Patience
    #: Whether one job measures all, or this process does in the allocation that it is in.
    one_job: bool = False
    #: That allocation, in which nothing more is submitted; None where jobs are.
    allocation: JobAllocation | None = None

    @property
    def question(self) -> dict[str, object]:
        """What is to be measured, by which a run of the same is known; not for how long."""
        settings = {name: value for name, value in self.env.items() if name.startswith("NPC_")}
        settings.pop("NPC_TIMELIMIT", None)
        return {
            "file": str(self.file), "platform": str(self.platform), "tags": list(self.tags),
            "settings": settings,
        }  # fmt: skip


@contextlib.contextmanager
def alone_on(platform: Path, outpath: Path, limit_s: float = 0.0) -> Iterator[None]:
    """Keep others from measuring the platform (its folder) meanwhile, wherever runs and history lie; what a
    night starts may. The lock is in `outpath` where the folder of locks cannot be written.

    Raises click.ClickException that names who measures, OSError as the file system does.
    """
    place = Path(os.environ.get(LOCKS) or shared())
    with contextlib.suppress(OSError):
        place.mkdir(parents=True, exist_ok=True)
    if not os.access(place, os.W_OK):
        place = outpath
        place.mkdir(parents=True, exist_ok=True)
    lock = place / f".{platform.name}.lock"
    who = locks.holder(lock)
    if who and who.alive() and (who.host, who.pid) == (os.uname().nodename, os.getppid()):
        yield
        return
    with contextlib.ExitStack() as held:
        try:
            held.enter_context(locks.only_one(lock, limit_s))
        except locks.LockHeld as other:
            raise click.ClickException(
                f"{platform.name} is being measured by {other}; the two would measure each other ({lock})"
            ) from None
        yield


def next_id(outpath: Path) -> int:
    """The number that JUBE gives to the next run in `outpath`."""
    numbers = [int(path.name) for path in outpath.glob("[0-9]*") if path.name.isdigit()]
    return max(numbers, default=-1) + 1


def run_jube(what: Characterisation, run: Path, log: IO[bytes], stop: Stop, display: Display) -> int:
    """``jube run`` to its end, or until a stop has ended it; no other process has JUBE on `run` then. JUBE's
    exit code, negative where a signal ended it."""
    words = ["run", str(what.file), "--hide-animation", "--outpath", str(what.outpath)]
    words += ["--id", str(int(run.name)), "--include-path", str(what.platform)]
    words += ["--tag", *what.tags] if what.tags else []
    with contextlib.ExitStack() as held:
        locked = False

        def tick() -> None:
            nonlocal locked
            display.show(rows_of(run))
            if not locked and run.is_dir():
                with contextlib.suppress(locks.LockHeld):  # who looked in just now
                    held.enter_context(locks.only_one(run / jube.LOCK))
                    locked = True

        code = jube.call(words, cwd=workplace(), env=what.env, log=log, stop=stop, tick=tick, run=run)
        for sentence in jube_state.restore(run):
            display.note(sentence)
        display.show(rows_of(run))
        return code


def step(*words: str) -> int:
    """Run one of NPC's own commands in a process of its own, so that its failure costs nothing else."""
    return subprocess.run(python("-m", "npc", *words)).returncode


def measure_and_draw(what: Characterisation, as_json: bool) -> int:
    """One characterisation from its beginning to its picture; its exit code."""
    run = what.outpath / f"{next_id(what.outpath):06d}"
    if what.one_job and (earlier := one_job.unfinished(what.outpath, what.question)):
        run = earlier
        click.echo(
            f"goes on with {shown(run)}: {plural(len(in_place.left(run)), 'workpackage')} left", err=True
        )
    begun = time.monotonic()
    ending = run_and_wait(what, run)
    workpackages = read_workpackages(run, wait.WRITING_S)
    if not isinstance(ending, signal.Signals):
        words = ["jube", "result", str(what.outpath), "--id", str(int(run.name)), "--analyse"]
        subprocess.run(words, cwd=workplace(), env=what.env, capture_output=True)
    step("doctor", "--environment", "--output", str(run / "environment.json"))
    named = shown(run)
    step("records", "collect", named)
    records = read_run(run) if (run / RECORDS).exists() else []
    for workpackage in workpackages:
        if workpackage.failed:
            click.echo(f"{workpackage.name}: {_how_it_failed(workpackage, records)}", err=True)
    drawn = 0
    if pairs := list(_pairs(run, records, as_json)):
        click.echo("\n".join(pairs))
    elif not _unavailable(records) and _in_a_roofline(records):
        drawn = step("roofline", named, *(["--json"] if as_json else []))
    if not as_json:
        click.echo(f"run: {named}   {time.monotonic() - begun:.0f} s")
        if records:
            click.echo(f"next: {own('npc')} report {shlex.quote(named)}   everything on one page")
    goes_on = any(workpackage.is_open and workpackage.batch_job() for workpackage in workpackages)
    if what.one_job and (rest := in_place.left(run)):
        goes_on = not what.allocation and one_job.job_goes_on(run)
        names = ", ".join(workpackage.name for workpackage in rest)
        if not goes_on:
            click.echo(f"not measured yet: {names}; the same command measures them", err=True)
    later = (
        f"; its jobs go on: npc records wait {run}; npc records collect {run}; npc roofline {run}"
        if goes_on
        else ""
    )
    empty = empty_steps(run, workpackages) if ending is wait.Ending.ALL_ENDED else []
    for sentence in empty:
        click.echo(sentence, err=True)
    if isinstance(ending, signal.Signals):
        click.echo(f"stopped: what had been measured is collected{later}", err=True)
        return 128 + ending
    if ending is wait.Ending.GAVE_UP:
        click.echo(f"not ended by the limit: what had been measured is collected{later}", err=True)
        return wait.EXIT_UNFINISHED
    code = exit_code(records, drawn) or (wait.EXIT_PARTLY if empty else 0)
    unused = sum(not record.ok and not _expected(record) for record in records)
    if unused and code in (0, wait.EXIT_PARTLY):
        verdict = f"exit code {code}: " if code else ""
        click.echo(
            f"{verdict}{unused} of {plural(len(records), 'record')} failed or cannot be believed and were "
            f"not used; why: npc check {shlex.quote(named)}",
            err=True,
        )
    return code


def _pairs(run: Path, records: Sequence[Record], as_json: bool) -> Iterator[str]:
    """What a run that measured nothing but pairs of nodes says of them; nothing for other runs."""
    if not records or {record.benchmark for record in records} != {PAIRS_NAME}:
        return
    from npc.cron.matrix import matrix_of, pair_files_of

    for file in pair_files_of(run):
        if as_json:
            yield read_text(file).rstrip()
            continue
        workpackage = file.relative_to(run).parts[0]
        own_records = [record for record in records if record.raw.startswith(f"{workpackage}/")]
        hosts = sorted({host for record in own_records for host in record.hosts}, key=natural)
        yield str(matrix_of(file, tuple(hosts)))
        yield from (f"  {picture}" for picture in sorted(file.parent.glob("heatmap*.png")))


def run_and_wait(what: Characterisation, run: Path) -> wait.Ending | signal.Signals:
    """Make the run and wait for its jobs; why that is over. Raises click.ClickException if there is none."""
    ending = wait.Ending.ALL_ENDED
    with (
        Stop().listening() as stop,
        contextlib.closing(Display()) as display,
        in_place.nothing_submitted(what.env) if what.one_job else contextlib.nullcontext(what.env) as env,
    ):
        try:
            code = 0
            if not what.one_job or not run.exists():
                code = _make_run(replace(what, env=env), run, stop, display)
            elif not one_job.job_goes_on(run) or what.allocation:
                one_job.go_on(run, env, stop, display)
            if what.one_job and stop.number is None:
                _measure_in_one_job(what, run, wait.RunWait(run, what.patience, env, stop, display))
            goes_on = code < 0 or any(workpackage.is_open for workpackage in read_workpackages(run))
            if goes_on and not stop.number:
                ending, _ = wait.wait_for(run, what.patience, what.env, stop, display)
        except FileNotFoundError as error:
            raise click.ClickException(wait.missing(error)) from None
        return signal.Signals(stop.number) if stop.number else ending


def _make_run(what: Characterisation, run: Path, stop: Stop, display: Display) -> int:
    """``jube run``: its exit code, as of `run_jube`. Raises as `run_and_wait` does, and FileNotFoundError
    without JUBE."""
    log_path = what.outpath / f"jube-{run.name}.log"
    try:
        with open(log_path, "wb", opener=no_link) as log:
            code = run_jube(what, run, log, stop, display)
    except FileNotFoundError:
        if not run.exists():
            log_path.unlink()
        raise
    if not (run / WORKPACKAGES).exists():
        if stop.number:
            click.echo(f"stopped before anything was measured ({log_path})", err=True)
            sys.exit(128 + stop.number)
        tail = "\n".join(read_end(log_path).splitlines()[-5:])
        raise click.ClickException(f"JUBE started nothing ({log_path}); its last words:\n{tail}")
    log_path.replace(run / wait.LOG)
    if not read_workpackages(run) and not stop.number:
        raise click.ClickException(f"{what.file.name} has no benchmark with the tag {' or '.join(what.tags)}")
    if what.one_job:
        one_job.note_question(run, what.question)
    return code


def _measure_in_one_job(what: Characterisation, run: Path, waiting: wait.RunWait) -> None:
    """Submit the job, if there is none that goes on; in an allocation, measure."""
    if what.allocation:
        one_job.measure_here(run, what.allocation, waiting)
    elif not one_job.job_goes_on(run):
        click.echo(one_job.submit(run, what.env), err=True)


def exit_code(records: Sequence[Record], drawn: int) -> int:
    """The verdict on a run whose jobs have ended: see the command's help."""
    if _unavailable(records):
        return 0
    if drawn or not any(record.ok for record in records):
        return wait.EXIT_NOTHING
    return wait.EXIT_PARTLY if _unexpected(records) else 0


def _unexpected(records: Sequence[Record]) -> list[Record]:
    """What failed, and invalid records of a series of which not more are usable than invalid.

    A launch that others disturbed is no failure of a run. What ceilings are made of is launched until enough
    is usable (`npc/jobs/rounds.py`); the rest has a median of fewer launches.
    """
    usable = Counter(Series.of(record) for record in records if record.ok)
    unused = [record for record in records if not record.ok and not _expected(record)]
    disturbed = Counter(Series.of(record) for record in unused)
    return [
        record
        for record in unused
        if not record.status.startswith("invalid: ")
        or disturbed[Series.of(record)] >= usable[Series.of(record)]
    ]


def _unavailable(records: Sequence[Record]) -> bool:
    """Whether nothing of what was asked for exists here: a machine without RDMA is no failed run."""
    return bool(records) and all(record.status.startswith("unavailable: ") for record in records)


def _in_a_roofline(records: Sequence[Record]) -> bool:
    """Whether a test among them may give a ceiling: there is no figure of OS noise or of file operations."""
    none = ("operation_rate", "energy", "power")
    return any(catalogue.row_of(record).layer != "noise" and record.metric not in none for record in records)


def _how_it_failed(workpackage: Workpackage, records: Sequence[Record]) -> str:
    """What to say of a workpackage that JUBE saw fail."""
    own = [record for record in records if record.raw.partition("/")[0] == workpackage.folder.name]
    if _unavailable(own):
        return own[0].status
    made, planned, *_ = workpackage.progress()
    return f"failed after {made} of {planned} launches" if planned else "failed before any launch"


def _expected(record: Record) -> bool:
    """Whether an unusable record is no failure of the run: a tool that is not installed here, or the sender's
    count of a lossy UDP test, of which the receiver's count is used."""
    lost = record.status.startswith("invalid: ") and record.params.get("side") == "send"
    return lost or record.status.startswith("unavailable: ")
