"""Runs with a job for every node, or every few nodes, that measures several benchmarks one after the other.

JUBE writes its whole state anew after every workpackage, so that a thousand of them take it hours. Here it
prepares every benchmark once, for all nodes (in ``RUN/prepared``). The workpackages of the nodes are made
from that: ``workpackages.xml`` and ``configuration.xml`` in JUBE's own form, with the prepared ones as
parents, and the folder of each when its job is submitted, with the files that JUBE prepared. So whatever
reads a run reads these. `npc.jobs.wait` submits here instead of calling ``jube continue``: as many jobs as
may be in the queue at once, and a further one for each that has ended.
"""

from __future__ import annotations

import copy
import re
import shutil
import subprocess
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

import msgspec

from npc import files
from npc.files import InvalidFile, no_link, parse_xml, read_bytes, read_text, valid, write_whole
from npc.jobs import slurm, slurm_script
from npc.jobs.allocation import JobRequest, UnreadableScript
from npc.jobs.scheduler import Job, SchedulerUnavailable
from npc.jobs.workpackages import (
    CONFIGURATION,
    ON_NODES,
    PREPARED,
    REASON,
    Workpackage,
    read_workpackages,
)
from npc.machine.command import last_line
from npc.python import python
from npc.records.run import WORKPACKAGES

#: In a run's folder: which workpackages are one job, and how jobs are submitted.
NODE_JOBS: Final = "node_jobs.json"
#: In a run's folder: where JUBE prepared the benchmarks, a run for each.
PREPARED_RUNS: Final = "prepared"
#: The parameter of a workpackage with the nodes that its job is to have, as the platforms name it.
NODELIST: Final = "npc_nodelist"
#: The parameter with the folder of a workpackage's pattern, seen from the run's.
_PATTERN: Final = "npc_prepared"
#: Options of a script that are not those of a job with several: its nodes are named on the command line, and
#: it waits for no other.
_OWN: Final = re.compile(r"(?:--nodelist|-w|--dependency|-d|--job-name|-J)\b")
#: The time limit of a script that has none.
_UNLIMITED_S: Final = 24 * 3600.0
#: What sbatch says where the controller cannot take a job just now, whatever it is.
_LATER: Final = ("Unable to contact slurm controller", "Socket timed out", "temporarily unable")


class NodeJob(msgspec.Struct, frozen=True, kw_only=True):
    """A job on some nodes."""

    #: Names of its nodes, as Slurm has them.
    nodes: tuple[str, ...]
    #: Numbers of the workpackages that it measures, in this order.
    workpackages: tuple[int, ...]
    #: The job's script, seen from the run's folder.
    script: str


class NodeJobs(msgspec.Struct, frozen=True, kw_only=True):
    """The jobs of a run, and how they are submitted."""

    #: In the order in which they are submitted.
    jobs: tuple[NodeJob, ...]
    #: How many of them may be in the queue at once.
    at_once: int
    #: Whether they ask for a reservation that their nodes are in.
    reserved: bool = False
    #: Number of this form.
    schema: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class JobKind:
    """Jobs that measure the same benchmarks on as many nodes."""

    #: The runs in which JUBE prepared the benchmarks.
    prepared: tuple[Path, ...]
    #: The nodes of each job.
    groups: tuple[tuple[str, ...], ...]


def read_node_jobs(run: Path) -> NodeJobs | None:
    """The jobs of a run; None of a run whose jobs JUBE submits. Raises InvalidFile."""
    file = run / NODE_JOBS
    if not file.exists():
        return None
    with valid(file):
        return msgspec.json.decode(read_bytes(file), type=NodeJobs)


def jobs_of_benchmark(prepared: Path) -> list[Workpackage]:
    """The workpackages of a prepared benchmark whose scripts are jobs.

    Raises InvalidFile where JUBE could not prepare it, or could only after the end of a job.
    """
    workpackages = read_workpackages(prepared)
    for workpackage in workpackages:
        if workpackage.failed:
            raise InvalidFile(f"{workpackage.name} could not be prepared: {workpackage.reason()}")
        if not workpackage.started:
            raise InvalidFile(f"{workpackage.name} begins when a job has ended, which --each-node cannot do")
    return [workpackage for workpackage in workpackages if not workpackage.done]


def write_run(run: Path, kinds: Iterable[JobKind], at_once: int, reserved: bool, most_s: float) -> float:
    """Write the files of a run of such jobs, none of which is submitted; the longest time limit of a job (s).
    most_s: the longest that a job may ask for.

    A job has the time limits of its scripts together. Raises InvalidFile as `jobs_of_benchmark` does, and
    `npc.jobs.allocation.UnreadableScript`.
    """
    state, configuration = Element("workpackages"), Element("jube")
    steps = ElementTree.SubElement(configuration, "benchmark", name=NODE_JOBS, file_path_ref=".")
    jobs, longest_s = list[NodeJob](), 0.0
    to_add: list[tuple[tuple[str, ...], list[tuple[int, str]], str]] = []
    for number, kind in enumerate(kinds):
        patterns: list[tuple[int, str]] = []
        requests = list[JobRequest]()
        for prepared in kind.prepared:
            begin = len(state)
            wanted = {workpackage.number: workpackage for workpackage in jobs_of_benchmark(prepared)}
            for element in parse_xml(read_bytes(prepared / WORKPACKAGES)).iter("workpackage"):
                place = int(element.get("id", ""))
                if place in wanted:
                    patterns.append((begin + place, wanted[place].step))
                    requests.append(_request(wanted[place]))
                state.append(_as_pattern(element, begin, run, wanted.get(place)))
            steps.extend(
                copy.deepcopy(step) for step in parse_xml(read_bytes(prepared / CONFIGURATION)).iter("step")
            )
        if not requests:
            raise InvalidFile(f"{', '.join(map(str, kind.prepared))}: no job script was made")
        script, limit_s = f"job_{number}.sh", _limit_s(requests, most_s)
        write_whole(run / script, _script(run, requests, limit_s))
        longest_s = max(longest_s, limit_s)
        to_add += [(nodes, patterns, script) for nodes in kind.groups]
    for nodes, patterns, script in to_add:
        numbers = []
        for pattern, step in patterns:
            numbers.append(len(state))
            _add_workpackage(state, pattern, step, nodes)
        jobs.append(NodeJob(nodes=nodes, workpackages=tuple(numbers), script=script))
    write_whole(run / CONFIGURATION, ElementTree.tostring(configuration, "unicode"))
    plan = NodeJobs(jobs=tuple(jobs), at_once=at_once, reserved=reserved)
    write_whole(run / NODE_JOBS, msgspec.json.encode(plan).decode())
    write_whole(run / WORKPACKAGES, ElementTree.tostring(state, "unicode"))
    return longest_s


def _request(workpackage: Workpackage) -> JobRequest:
    """What its job script asks for. Raises `npc.jobs.allocation.UnreadableScript`."""
    submission = workpackage.submission()
    if submission is None:
        raise UnreadableScript(f"{workpackage.name}: its platform does not submit a job script")
    return slurm_script.request(read_text(submission.script, "replace"), submission.words)


def _as_pattern(element: Element, begin: int, run: Path, workpackage: Workpackage | None) -> Element:
    """JUBE's description of a prepared workpackage, with a number of this run."""
    pattern = copy.deepcopy(element)
    pattern.set("id", str(begin + int(element.get("id", ""))))
    pattern.set(PREPARED, "yes")
    for parents in pattern.iter("parents"):
        known = [part for part in (parents.text or "").split(",") if part.strip()]
        parents.text = ",".join(str(begin + int(part)) for part in known)
    if workpackage:
        _add_parameter(pattern, _PATTERN, workpackage.folder.relative_to(run).as_posix())
    return pattern


def _add_workpackage(state: Element, pattern: int, step: str, nodes: Sequence[str]) -> None:
    """Add one of a job to the run's: as its pattern is, but on its nodes."""
    element = ElementTree.SubElement(state, "workpackage", id=str(len(state)))
    ElementTree.SubElement(element, "step").text = step
    ElementTree.SubElement(element, "parents").text = str(pattern)
    _add_parameter(element, NODELIST, ",".join(nodes))


def _add_parameter(workpackage: Element, name: str, value: str) -> None:
    parameters = ElementTree.SubElement(workpackage, "parameterset")
    parameter = ElementTree.SubElement(parameters, "parameter", name=name)
    ElementTree.SubElement(parameter, "value").text = value


def _limit_s(requests: Sequence[JobRequest], most_s: float) -> float:
    """The time limit of a job with these scripts: as much for each as it asks for, if it may be so long."""
    limits = [request.limit_s or _UNLIMITED_S for request in requests]
    return min(max(most_s, *limits), sum(limits))


def _script(run: Path, requests: Sequence[JobRequest], limit_s: float) -> str:
    """A job's script: the head of all its benchmarks' together, and what runs these one after the other."""
    nodes = max(request.nodes for request in requests)
    cpus = max(request.cpus_per_node for request in requests)
    others = dict.fromkeys(line for request in requests for line in request.others)
    lines = slurm_script.head(
        nodes, cpus, limit_s, run / "slurm-%j.out", [line for line in others if not _OWN.match(line)]
    )
    return "\n".join(["#!/bin/bash", *lines, 'exec "$@"', ""])


@dataclass(frozen=True, slots=True)
class JobWindow:
    """The submitting of a run's jobs."""

    #: The run's folder.
    run: Path
    #: Which jobs.
    plan: NodeJobs
    #: The environment of sbatch, which the jobs get.
    env: Mapping[str, str]

    def go_on(
        self,
        workpackages: Sequence[Workpackage],
        jobs: Mapping[int, Job],
        stopped: Callable[[], bool] = lambda: False,
    ) -> str:
        """Note which workpackages have ended, and submit jobs that may be in the queue now; why it submits
        no more, for people, empty where nothing keeps it.

        jobs: by number of a workpackage what is known of its job. A job whose node takes none is not
        submitted, and keeps no other from its place in the queue. If the node still takes none when all
        others have ended, it is given up: it would wait for as long as that lasts.
        """
        by_number = {workpackage.number: workpackage for workpackage in workpackages}
        for workpackage in workpackages:
            if workpackage.is_open:
                _note_end(workpackage)
        waiting, queued, pending = list[NodeJob](), list[NodeJob](), list[NodeJob]()
        for job in self.plan.jobs:
            own = [by_number[number] for number in job.workpackages]
            known = jobs.get(own[0].number)
            if not own[0].started or (own[0].is_open and not own[0].batch_job()):
                waiting.append(job)
            elif any(workpackage.is_open for workpackage in own) and not (known and known.ended):
                self._complete(own)
                (pending if known and known.state == "PENDING" else queued).append(job)
        if not waiting and not pending:
            return ""
        try:
            states = slurm.nodes()
        except SchedulerUnavailable as error:
            return f"Slurm does not answer, asking again: {error}"
        reasons = {job: why for job in (*pending, *waiting) if (why := self._out_of_service(job, states))}
        queued += [job for job in pending if job not in reasons]
        busy = {node for job in queued for node in job.nodes}
        able = [job for job in waiting if job not in reasons]
        # its row says so; who waits tries again
        full = any(workpackage.submit_limit for workpackage in workpackages)
        for job in () if full else able:
            if len(queued) >= self.plan.at_once or stopped():
                break
            if busy.isdisjoint(job.nodes):
                if words := self._submit(job, [by_number[number] for number in job.workpackages]):
                    return words
                queued.append(job)
                busy.update(job.nodes)
        for job, why in reasons.items() if not queued and not able else ():
            self._give_up(job, [by_number[number] for number in job.workpackages], why)
        return ""

    def _out_of_service(self, job: NodeJob, states: Mapping[str, slurm.SlurmNode]) -> str:
        """Which of its nodes take no jobs, and why; empty if all do."""
        out = []
        for name in job.nodes:
            node = states.get(name)
            if node and self.plan.reserved:
                node = node.in_its_reservation()
            if node is None or not node.takes_jobs:
                out.append(f"{name} is {node or 'not known to Slurm'}")
        return ", ".join(out)

    def _give_up(self, job: NodeJob, own: Sequence[Workpackage], why: str) -> None:
        batch_job = own[0].batch_job() if own[0].started else None
        if batch_job:
            try:
                batch_job.scheduler.cancel(batch_job.number, batch_job.cluster)
            except SchedulerUnavailable:
                return
        for workpackage in own:
            if not workpackage.started or workpackage.is_open:
                (workpackage.folder / "work").mkdir(parents=True, exist_ok=True)
                _fail(workpackage, f"no job was started: {why}", job)

    def _submit(self, job: NodeJob, own: Sequence[Workpackage]) -> str:
        """Submit a job, or note why Slurm refuses it; why it could not be tried, empty if it was."""
        for workpackage in own:
            self._make_folder(workpackage)
        numbers = [str(number) for number in job.workpackages]
        command = [
            *(own[0].parameters.get("submit") or slurm_script.SUBMIT).split(),
            f"--nodelist={','.join(job.nodes)}", f"--job-name=npc-{job.nodes[0]}", str(self.run / job.script),
            *python("-m", "npc.jobs.in_place", self.run, *numbers),
        ]  # fmt: skip
        # as JUBE does: the job is known even to those who come after this process was killed
        with (
            open(own[0].stdout(), "wb", opener=no_link) as out,
            open(own[0].folder / "work/stderr", "wb", opener=no_link) as err,
        ):
            code = subprocess.run(
                command, cwd=self.run, env=self.env, stdin=subprocess.DEVNULL, stdout=out, stderr=err
            ).returncode
        if code == 0:
            self._complete(own)
            return ""
        words = read_text(own[0].folder / "work/stderr", "replace").strip()
        if any(later in words for later in _LATER):
            return f"Slurm takes no job now, trying again: {last_line(words)}"
        limit = slurm.submit_limit(words)
        for workpackage in own:
            if limit:
                write_whole(workpackage.folder / "error", f"{words}\n")
            else:
                _fail(workpackage, last_line(words), job)
        return limit

    def _make_folder(self, workpackage: Workpackage) -> None:
        """Its folder with the files that JUBE prepared."""
        work, prepared = workpackage.folder / "work", self.run / workpackage.parameters[_PATTERN] / "work"
        work.mkdir(parents=True, exist_ok=True)
        for path in prepared.iterdir():
            target = work / path.name
            if path.name in ("stdout", "stderr") or target.exists():
                continue
            if path.name == workpackage.parameters.get("submit_script"):
                write_whole(target, read_text(path).replace(str(prepared), str(work)))
            elif path.is_dir():
                shutil.copytree(path, target)
            else:
                files.copy(path, target)
                target.chmod(path.stat().st_mode)  # a script of its benchmark may be run
        # before its job can begin: by this mark the job knows what to run
        open(workpackage.folder / "wp_done_00", "ab", opener=no_link).close()

    def _complete(self, own: Sequence[Workpackage]) -> None:
        """Note the job in all its workpackages: sbatch wrote it into the first one."""
        for workpackage in own[1:]:
            if not workpackage.batch_job():
                write_whole(workpackage.stdout(), read_text(own[0].stdout()))


def _fail(workpackage: Workpackage, why: str, job: NodeJob) -> None:
    """Note that it failed without a job, in JUBE's way and in ours."""
    write_whole(
        workpackage.folder / REASON, f"failed: {' '.join(why.split())}\n{ON_NODES}{','.join(job.nodes)}\n"
    )
    write_whole(workpackage.folder / "error", f"{why}\n")


def _note_end(workpackage: Workpackage) -> None:
    """What JUBE would note, by the same files."""
    marks = {"done": workpackage.told_by("done_file"), "error": workpackage.told_by("error_file")}
    for mark, file in marks.items():
        if file is not None and file.exists():
            open(workpackage.folder / mark, "ab", opener=no_link).close()
            return
