"""A JUBE run as its folder shows it: the workpackages, how far each is, and why one failed.

JUBE 2.5 to 2.7 write alike: ``workpackages.xml`` (parameters as evaluated), ``configuration.xml`` (the
steps) and a folder a workpackage, in which ``done`` and ``error`` say how it ended and ``wp_done_00``, …
which of its ``<do>`` have been started.
"""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import string
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from npc.files import InvalidFile, no_link, parse_xml, read_bytes, read_text
from npc.jobs import slurm
from npc.jobs.scheduler import JobId, Scheduler
from npc.jobs.schedulers import KNOWN
from npc.machine.fabric import expand
from npc.records.launch import LAUNCHES, LeastKnownMedian, last_words, read_launches
from npc.records.record import OK
from npc.records.run import WORKPACKAGES

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

CONFIGURATION: Final = "configuration.xml"
#: In a workpackage's folder: why it failed. First line: the status of its records; then the job's last lines.
REASON: Final = "reason.txt"
#: What runs a job script at once, on this machine: no batch system.
SHELLS: Final = ("bash", "dash", "sh", "zsh")
#: The attribute of a workpackage that is only the pattern of others (`npc.jobs.node_jobs`).
PREPARED: Final = "prepared"
#: How its second line begins where the job had nodes.
ON_NODES: Final = "on nodes: "
#: In a workpackage's folder: how long its script took that has ended by itself in a job for several.
SCRIPT_END: Final = "script_end.json"
#: What stands in the place of a submission where another job runs the script.
IN_ANOTHER_JOB: Final = "npc: another job runs this script"
#: In a workpackage's ``work``: folders with what its script had measured when its job was ended early, and
#: another job ran it once more.
EARLIER: Final = "earlier"
#: A line of JUBE's log.
_TWO_VALUES: Final = re.compile(r"Parameter '([^']+)' is/are already defined different")


class NoRun(InvalidFile):
    """The folder holds no JUBE run, or a damaged one; the message says what was looked for."""


class BatchJob(NamedTuple):
    """A job as its submission named it."""

    #: Its number, or the name that the batch system has for it.
    number: JobId
    #: The cluster that it was submitted to; empty for the default one.
    cluster: str = ""
    #: The batch system that has it.
    scheduler: Scheduler = slurm


class Submission(NamedTuple):
    """How a job script is submitted."""

    #: Name of the program that takes it, without its folder.
    program: str
    #: Words between the program and the script: options of this submission.
    words: tuple[str, ...]
    #: The script, in the folder that it is submitted from.
    script: Path


class Progress(NamedTuple):
    """How far a workpackage is with its launches."""

    #: How many launches have ended, well or not.
    made: int
    #: How many there will be in all; 0 before that is known.
    planned: int
    #: How many of those that have ended did not end well.
    failed: int
    #: What is not yet known as precisely as was asked for, so that more launches follow; None if nothing.
    awaited: LeastKnownMedian | None = None


NO_LAUNCHES: Final = Progress(0, 0, 0)


@dataclass(frozen=True, slots=True)
class DoCommand:
    """One ``<do>`` of a step, as written: its command and attributes still have their ``$parameters``."""

    #: What its shell runs.
    command: str
    #: The file, in `work_dir`, by which JUBE learns that all went well; empty if it waits for none.
    done_file: str = ""
    #: The file, in `work_dir`, by which JUBE learns that it failed; empty if there is none.
    error_file: str = ""
    #: File of its standard output, seen from the workpackage's folder ``work``.
    stdout: str = "stdout"
    #: Folder that it runs in, seen from the workpackage's ``work``; empty for that folder itself.
    work_dir: str = ""


@dataclass(frozen=True, slots=True)
class Workpackage:
    """A JUBE workpackage, as its files show it."""

    #: Its folder in the run, which holds ``work``; it is there as soon as JUBE begins with it.
    folder: Path
    #: The number that JUBE gives it in its run, from 0.
    number: int
    #: Name of the step that it is of.
    step: str
    #: Name → value as JUBE evaluated it: its own, and those of the steps that its step depends on.
    parameters: Mapping[str, str]
    #: The commands of its step, in their order; empty if the run's configuration cannot be read.
    dos: tuple[DoCommand, ...] = ()

    @property
    def name(self) -> str:
        """For people: ``qperf 0``; a step may have several."""
        return f"{self.step} {self.number}"

    @property
    def started(self) -> bool:
        """Whether JUBE has begun with it."""
        return self.folder.is_dir()

    @property
    def done(self) -> bool:
        """Whether JUBE saw it end well."""
        return (self.folder / "done").exists()

    @property
    def failed(self) -> bool:
        """Whether JUBE saw it fail, and no limit on jobs in the queue was the reason."""
        return (self.folder / "error").exists() and not self.submit_limit

    @property
    def submit_limit(self) -> str:
        """Why its job waits to be submitted, for people: the batch system takes no more jobs now. Empty for
        others. JUBE has marked it as failed, and submits it when it goes on without this mark."""
        if self.done or self.recorded_reason():
            return ""
        try:
            text = read_text(self.folder / "error", "replace")
        except OSError:
            return ""
        limits = ((scheduler, scheduler.submit_limit(text)) for scheduler in KNOWN)
        return next(
            (f"{scheduler.NAME} takes no more jobs now ({limit})" for scheduler, limit in limits if limit), ""
        )

    def submit_again(self) -> None:
        """Let JUBE submit its job when it goes on. What was refused is no word of the job's own."""
        (self.folder / "error").unlink(missing_ok=True)
        with contextlib.suppress(FileNotFoundError):
            (self.folder / "work/stderr").replace(self.folder / "work/stderr.refused")

    @property
    def is_open(self) -> bool:
        """Whether it has been started and has not ended; its job may still wait to be submitted."""
        return self.started and not self.done and not self.failed

    def state(self) -> str:
        """``done``, ``failed``, ``running`` (started, in whatever way it goes on) or ``waiting``: for its
        turn, or for a place in the queue; in a job for several also before JUBE sees it."""
        script_ended = (self.folder / SCRIPT_END).exists()
        if self.failed or (script_ended and self.recorded_reason()):
            return "failed"
        if self.done or script_ended:
            return "done"
        return "running" if self.started and not self.submit_limit and not self.awaits_job else "waiting"

    @property
    def unavailable(self) -> bool:
        """Whether it failed because something is not there: no failure of the run."""
        return self.failed and self.reason().startswith("unavailable: ")

    def starts_nothing(self) -> str:
        """Why its platform starts no process of it at all; empty if it starts some."""
        if self.parameters.get("tasks") != "0":
            return ""
        names = ("nodes", "taskspernode", "threadspertask")
        given = ", ".join(f"{name} {self.parameters[name]}" for name in names if name in self.parameters)
        how = f"its tasks is 0 for {given}; in platform.xml it has to be $nodes * $taskspernode"
        return f"failed: the platform would start 0 processes: {how}"

    def progress(self) -> Progress:
        """Its launches so far."""
        made = planned = failed = 0
        awaited = None
        for path in (self.folder / "work").glob(f"*/{LAUNCHES}"):
            with contextlib.suppress(OSError, ValueError):  # being written just now
                launches = read_launches(path.parent)
                made += len(launches.launches)
                planned += launches.planned
                failed += sum(launch.status != OK for launch in launches.launches)
                awaited = launches.awaited
        return Progress(made, planned, failed, awaited)

    def launch_folders(self) -> list[Path]:
        """The folders of its launches; where its script was run once more, those with more launches."""
        work = self.folder / "work"
        folders = [path.parent for path in work.glob(f"*/{LAUNCHES}")]
        earlier = [path.parent for path in work.glob(f"{EARLIER}/*/*/{LAUNCHES}")]
        names = dict.fromkeys(folder.name for folder in (*folders, *earlier))
        alike = ([folder for folder in (*folders, *earlier) if folder.name == name] for name in names)
        return sorted(max(several, key=_launches_made) for several in alike)

    def launches_folder(self) -> Path | None:
        """Where its launches are, or will be once the job has described its node; None before that."""
        folders = sorted(path.parent for path in (self.folder / "work").glob(f"*/{LAUNCHES}"))
        described = (self.folder / "work" / "environment.json").exists()
        return folders[-1] if folders else self.folder / "work/launches" if described else None

    def pending_do(self) -> DoCommand | None:
        """The ``<do>`` that was started last; None before the first, and where the steps are not known."""
        started = [int(path.name[-2:]) for path in self.folder.glob("wp_done_[0-9][0-9]")]
        return self.dos[max(started)] if started and max(started) < len(self.dos) else None

    def told_by(self, kind: Literal["done_file", "error_file"]) -> Path | None:
        """The file by which JUBE learns that the pending ``<do>`` is done, or has failed; None if there is
        none."""
        do = self.pending_do()
        folder = self.evaluate(do.work_dir) if do else None
        file = self.evaluate(getattr(do, kind)) if do else None
        return self.folder / "work" / folder / file if file and folder is not None else None

    def stdout(self) -> Path:
        """The file of what its last command printed: its submission, where that is what it does."""
        do = self.pending_do()
        return self.folder / "work" / ((self.evaluate(do.stdout) if do else None) or "stdout")

    def submission(self) -> Submission | None:
        """How its job script is submitted; None where its command names no script that is there."""
        do = self.pending_do()
        command = self.evaluate(do.command) if do else None
        folder = self.evaluate(do.work_dir) if do else None
        try:
            program, *words, script = shlex.split(command or "")
        except ValueError:
            return None
        path = self.folder / "work" / (folder or "") / script
        return Submission(Path(program).name, tuple(words), path) if path.is_file() else None

    def forget_end(self) -> None:
        """Take away what says that it failed: another job runs its script once more."""
        for path in (self.told_by("error_file"), self.folder / "error", self.folder / REASON):
            if path is not None:
                path.unlink(missing_ok=True)

    def note_submission(self) -> None:
        """Note for JUBE what it could not note itself if it was killed right after sbatch had taken the job:
        it would submit a second one into the same folder."""
        if len(self.dos) == 1 and self.is_open and self.pending_do() is None and self.batch_job():
            open(self.folder / "wp_done_00", "ab", opener=no_link).close()

    def batch_job(self) -> BatchJob | None:
        """The job that it waits for: the last that was named in what the submission printed."""
        do = self.pending_do()
        try:
            text = read_text(self.stdout(), "replace")
        except OSError:
            return None
        submits = "\n".join(self.evaluate(command.command) or "" for command in ([do] if do else self.dos))
        for scheduler in KNOWN:
            if job := scheduler.submitted(text, submits):
                return BatchJob(*job, scheduler)
        return None

    @property
    def awaits_job(self) -> bool:
        """Whether another job is to run its script, and is not submitted yet."""
        with contextlib.suppress(OSError):
            return read_text(self.stdout(), "replace").strip() == IN_ANOTHER_JOB
        return False

    def submitted_elsewhere(self) -> str:
        """The command by which its job was given to a batch system that is not known; empty for others."""
        submit = self.parameters.get("submit", "").split()
        started = bool(submit) and self.pending_do() is not None
        unknown = started and not self.submitted_by_a_shell() and not self.awaits_job
        return Path(submit[0]).name if unknown and not self.batch_job() else ""

    def submitted_by_a_shell(self) -> bool:
        """Whether its job script was run by a shell, so that nothing of it is left when that has ended."""
        submit = self.parameters.get("submit", "").split()
        return bool(submit) and Path(submit[0]).name in SHELLS

    def outputs(self) -> list[Path]:
        """Files in which its job may have said why it failed, the most telling first."""
        job = self.batch_job()
        number = str(job.number) if job else ""
        names = [
            self.parameters.get("errlogfile") or "job.err",
            self.parameters.get("outlogfile") or "job.out",
            f"slurm-{number}.out",
            "stderr",
        ]
        return [
            path
            for name in names
            if (path := self.folder / "work" / name.replace("%j", number)).is_file() and path.stat().st_size
        ]

    def last_words(self) -> str:
        """Why its job failed, in the job's own words: one line, empty if it said nothing."""
        return next(filter(None, map(last_words, self.outputs())), "")

    def recorded_reason(self) -> str:
        """The status that was recorded when its job ended; empty if none was."""
        try:
            return read_text(self.folder / REASON, "replace").partition("\n")[0]
        except OSError:
            return ""

    def asked_nodes(self) -> int:
        """How many nodes it asks for: one where its platform does not say."""
        text = self.parameters.get("nodes", "")
        return int(text) if text.isdecimal() and int(text) else 1

    def given_hosts(self) -> tuple[str, ...]:
        """The nodes that its job had, as far as that was noted at its end."""
        with contextlib.suppress(OSError, ValueError, IndexError):
            line = read_text(self.folder / REASON, "replace").splitlines()[1]
            return tuple(expand(line.removeprefix(ON_NODES))) if line.startswith(ON_NODES) else ()
        return ()

    def reason(self) -> str:
        """Why it has no launches, in a line: as recorded, else the job's own last words, else JUBE's."""
        if not self.started:
            return "failed: it was never started: the run was stopped, or goes on"
        if (nothing := self.starts_nothing()) and not self.progress().made:
            return nothing
        if self.done:
            return "failed: its job ended, but made no launches: has the platform's job script #MEASUREMENT#?"
        recorded = self.recorded_reason()
        if recorded:
            return recorded
        words = self.last_words()
        if not words and self.failed:
            words = last_words(self.folder / "error") or "JUBE says error, without a reason"
        if words:
            return words if words.startswith("unavailable: ") else f"failed: {words}"
        return "failed: it has not ended, or was lost"

    def evaluate(self, text: str) -> str | None:
        """`text` with its parameters, as JUBE replaces them; None if one is not known."""
        known = {
            "jube_step_name": self.step,
            "jube_wp_id": str(self.number),
            "jube_wp_padid": f"{self.number:06d}",
            "jube_wp_abspath": str((self.folder / "work").absolute()),
            **self.parameters,
        }
        words = os.path.expandvars(string.Template(text).safe_substitute(known))
        return None if "$" in words else str(Path(words).expanduser()) if words.startswith("~") else words


def _launches_made(folder: Path) -> int:
    with contextlib.suppress(OSError, ValueError):
        return len(read_launches(folder).launches)
    return 0


def empty_steps(run: Path, workpackages: Sequence[Workpackage]) -> list[str]:
    """A sentence for each step of which JUBE made no workpackage, although those before it are done. It makes
    none where the step's parameter sets and those before it give one name two values, and says so nowhere but
    in its log."""
    try:
        root = parse_xml(read_bytes(run / CONFIGURATION))
    except (OSError, ValueError):
        return []
    by_step: dict[str, list[Workpackage]] = {}
    for workpackage in workpackages:
        by_step.setdefault(workpackage.step, []).append(workpackage)
    sentences = []
    for step in root.iter("step"):
        name = step.get("name", "")
        before = [word.strip() for word in step.get("depend", "").split(",") if word.strip()]
        is_due = all(word in by_step and all(w.done for w in by_step[word]) for word in before)
        if name in by_step or not is_due or step.get("active") is not None:
            continue
        names = ", ".join(_two_values(run, name)) or f"see {run / 'run.log'}"
        sentences.append(
            f"step {name} has no workpackage: its parameter sets give one name two values: {names}"
        )
    return sentences


def _two_values(run: Path, step: str) -> list[str]:
    """The parameters that JUBE's logs name as the reason why it made no workpackage of a step."""
    names: dict[str, None] = {}
    for log in ("run.log", "continue.log"):
        with contextlib.suppress(OSError):
            last: list[str] = []
            for line in read_text(run / log, "replace").splitlines():
                if match := _TWO_VALUES.search(line):
                    last = match[1].split(",")
                elif line.endswith(f" parent combinations for step {step}"):
                    names |= dict.fromkeys(last)
    return sorted(names)


def find_run(path: Path) -> Path:
    """The run that `path` means: a run's folder, or the newest of the runs in it. Raises `NoRun`."""
    if (path / WORKPACKAGES).exists() or (path / LAUNCHES).exists():
        return path
    runs = sorted(folder for folder in path.glob("[0-9]" * 6) if (folder / WORKPACKAGES).exists())
    if not runs:
        raise NoRun(f"{path} is no JUBE run (no {WORKPACKAGES}) and holds none; name one: runs/000000")
    return runs[-1]


def read_workpackages(run: Path, patience_s: float = 0.0) -> list[Workpackage]:
    """The workpackages that JUBE knows so far, in the order of their numbers.

    Raises `NoRun` for a file that is no such XML. It is none either while JUBE is writing it, which it does
    in place: `patience_s` is how long to try again.
    """
    deadline = time.monotonic() + patience_s
    while True:
        try:
            return _read_workpackages(run)
        except NoRun:
            if time.monotonic() >= deadline:
                raise
            time.sleep(0.05)


def _read_workpackages(run: Path) -> list[Workpackage]:
    try:
        root = parse_xml(read_bytes(run / WORKPACKAGES))
        elements = {int(element.get("id", "")): element for element in root.iter("workpackage")}
    except (OSError, ValueError) as error:  # a workpackage's id that is no number
        raise NoRun(f"{run / WORKPACKAGES}: {error}") from None
    steps = read_steps(run)
    # a step may give its folders a suffix
    names = (path.name for path in run.iterdir())
    folders = {name[:6]: name for name in names if name[:6].isdecimal() and name[6:7] == "_"}
    workpackages = []
    for number, element in sorted(elements.items()):
        if element.get(PREPARED):
            continue
        step = (element.findtext("step") or "").strip()
        folder = run / folders.get(f"{number:06d}", f"{number:06d}_{step}")
        parameters = _parameters(number, elements)
        workpackages.append(Workpackage(folder, number, step, parameters, steps.get(step, ())))
    return workpackages


def _parameters(number: int, elements: Mapping[int, Element]) -> dict[str, str]:
    """Own parameters over those of the parents: JUBE writes each where it was first used."""
    parameters: dict[str, str] = {}
    element = elements[number]
    for parent in (element.findtext("parents") or "").split(","):
        if parent.strip().isdecimal() and int(parent) in elements and int(parent) < number:
            parameters |= _parameters(int(parent), elements)
    for parameter in element.iter("parameter"):
        selected = parameter.find("selection")
        value = parameter.findtext("value") if selected is None else selected.text
        parameters[parameter.get("name", "")] = (value or "").strip()
    return parameters


def read_steps(run: Path) -> dict[str, tuple[DoCommand, ...]]:
    """Every step's ``<do>``; empty where the configuration cannot be read."""
    try:
        root = parse_xml(read_bytes(run / CONFIGURATION))
    except (OSError, ValueError):
        return {}
    benchmark = root.find("benchmark")
    reference = run / (benchmark.get("file_path_ref", "") if benchmark is not None else "")
    steps = {}
    for step in root.iter("step"):
        base = step.get("work_dir")
        elsewhere = str(reference / base) if base else ""
        steps[step.get("name", "")] = tuple(
            DoCommand(
                do.text or "",
                do.get("done_file", ""),
                do.get("error_file", ""),
                str(Path(elsewhere, do.get("stdout", "stdout"))),
                str(Path(elsewhere, do.get("work_dir", ""))),
            )
            for do in step.iter("do")
        )
    return steps
