"""Runs a program with `npc.observe.rank` before it, and keeps what it printed and what its ranks left."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final, NamedTuple

from npc import own_folder
from npc.files import no_link, read_bytes, write_whole
from npc.jobs.sample import job_hosts
from npc.launcher import content_of
from npc.observe.observation import Observation, read_observation, to_text
from npc.observe.observer import RunPlan, registered_observers
from npc.observe.options import ObservationOptions
from npc.observe.output_copy import OutputCopy, descriptor_of, say
from npc.observe.passed_signals import SignalWitness, wait_for_end
from npc.observe.rank import RUNNING
from npc.observe.unchanged import FROM_PEOPLE, given_signals, restore_environment
from npc.processes import die_with_parent
from npc.records.overhead import MeasuredOverhead, Overhead

OBSERVED: Final = "observed.json"
RANKS: Final = "ranks"
#: Of the logs that Darshan leaves of a program.
DARSHAN: Final = ".darshan"
#: Exit code of a program that could not be started, as a shell reports it.
NOT_STARTED: Final = 127
#: How long ranks may take to finish once the launcher has ended.
_HURRY_S: Final = 3.0
#: And output that is on its way, once nobody should have it open any more.
_LEFT_OPEN_S: Final = 0.5
_RANK: Final = Path(__file__).with_name("rank.py")


class ProgramEnd(NamedTuple):
    """How a program ended."""

    #: Exit code; -n where signal n ended it.
    code: int
    #: What of its output is missing, in words; empty where nothing is.
    notes: tuple[str, ...] = ()


def name_of(words: Sequence[str]) -> str:
    """The file's name of a program; of a Python program, that of its script."""
    names = [Path(word).name for word in words]
    if names[0].startswith("python"):
        return next((name for name in names if name.endswith(".py")), names[0])
    return names[0]


def run(
    command: Sequence[str],
    place: int,
    stem: Path,
    plan: RunPlan,
    keep: bool,
    silent: bool = False,
) -> ProgramEnd:
    """Run the command with `npc.observe.rank` before its program.

    Signals of people and batch systems are passed on, and from its end on ignored but for those by which a
    person stops this process, too. What the ranks leave goes to ``STEM.ranks``. keep: what the program
    prints goes to ``STEM.out`` and ``.err``, and to the terminal unless `silent`. Raises OSError where it
    cannot be kept from the beginning.
    """
    ranks = stem.with_name(f"{stem.name}.{RANKS}")
    own_folder.make(ranks)
    options = ObservationOptions(
        background_s=plan.background_s,
        counters=plan.counters,
        companions={observer.key: observer.companion(ranks) for observer in plan.observers},
    )
    around = [sys.executable, "-ES", str(_RANK), str(ranks), options.to_text()]
    watched = [*command[:place], *around, *command[place:]]
    monitoring = plan.monitoring
    if monitoring and _is_monitoring_harmful(command[place]):
        say(
            "Open MPI's monitoring stays off: it crashes programs that start others (MPI_Comm_spawn) or have "
            "collective calls of neighbours in a graph (MPI_Dist_graph_create)"
        )
        monitoring = False
    restore_environment()
    environment = {**os.environ, **(_monitoring(ranks) if monitoring else {})}
    given = given_signals()
    copies = _copies(stem, silent) if keep else []
    pipe = subprocess.PIPE if keep else None

    def become() -> None:
        die_with_parent(signal.SIGTERM)  # what watches would stay, for nobody
        given.hand_on()

    with given.held():
        try:
            process = subprocess.Popen(
                watched, env=environment, stdout=pipe, stderr=pipe, close_fds=False, preexec_fn=become
            )
        except OSError as error:
            say(f"{command[0]}: {error.strerror}")
            for copy in copies:
                copy.close()
            return ProgramEnd(NOT_STARTED)
        witness = SignalWitness()
        witness.pass_on(process.pid)
        for copy, source in zip(copies, filter(None, (process.stdout, process.stderr)), strict=True):
            copy.start(source)
    wait_for_end(process.pid)
    given.ignore(FROM_PEOPLE)
    witness.end()
    code = process.wait()
    wait_for_ranks(ranks, max([_HURRY_S, *(observer.patience_s for observer in plan.observers)]))
    for observer in plan.observers:
        observer.clear(ranks)
    for copy in copies:
        copy.finish(_LEFT_OPEN_S)
    for copy in copies:
        copy.leave_behind()
    return ProgramEnd(code, tuple(note for copy in copies for note in copy.notes))


def _copies(stem: Path, silent: bool) -> list[OutputCopy]:
    streams = (("standard output", sys.stdout, ".out"), ("standard error", sys.stderr, ".err"))
    return [
        OutputCopy(stem.with_suffix(suffix), None if silent else descriptor_of(terminal), name)
        for name, terminal, suffix in streams
    ]


def wait_for_ranks(ranks: Path, patience_s: float) -> None:
    """A launcher that ends in a hurry is faster than what finishes for the ranks that it killed."""
    end = time.monotonic() + patience_s
    with contextlib.suppress(OSError):  # marks in a folder of somebody else's are not waited for
        while any(ranks.glob(f"*.{RUNNING}")) and time.monotonic() < end:
            own_folder.check(ranks)
            time.sleep(0.02)


def _monitoring(ranks: Path) -> dict[str, str]:
    """Settings of Open MPI's monitoring component (ompi_info --param pml monitoring); others ignore them."""
    return {
        "OMPI_MCA_pml_monitoring_enable": "2",  # 2: the program's messages and MPI's own apart
        "OMPI_MCA_pml_monitoring_enable_output": "3",  # 3: a file a rank, written by MPI_Finalize
        "OMPI_MCA_pml_monitoring_filename": str(ranks / f"mpi.{os.urandom(8).hex()}"),  # MPI follows links
    }


def _is_monitoring_harmful(program: str) -> bool:
    """Whether it is a program of Open MPI that makes graphs of processes, or starts some: the monitoring
    component takes any topology for a Cartesian one (4.1.4, 5.0.11: mca_coll_monitoring_neighbor_alltoall and
    others), and fails when it lets go of a communicator to other programs (4.1.4, MPI_Comm_disconnect).
    """
    with content_of(program) as content:
        calls = re.search(rb"(?i)mpi_((dist_)?graph_create|comm_spawn)", content)
        return bool(calls and re.search(rb"ompi_mpi_|libmpi_(mpifh|usempi)", content))


def append_report(pattern: str, began: float, path: Path) -> None:
    """Add the file that the program wrote its report to, if there is a new one, to its kept output."""
    root = Path(Path(pattern).anchor)
    paths = root.glob(str(Path(pattern).relative_to(root)))
    candidates = [file for file in paths if file.is_file() and file.stat().st_mtime >= began - 1]
    if not candidates:
        say(f"the program left no new {pattern}")
        return
    newest = max(candidates, key=lambda file: file.stat().st_mtime)
    with open(path, "ab", opener=no_link) as output:
        output.write(_darshan_text(newest) if newest.suffix == DARSHAN else read_bytes(newest))


def _darshan_text(log: Path) -> bytes:
    """Darshan's log as its own parser tells it; nothing, and why, where that cannot."""
    try:
        done = subprocess.run(["darshan-parser", log], stdout=subprocess.PIPE, check=True)
    except FileNotFoundError:
        say(f"{log}: darshan-parser is not in PATH: load a module (darshan-util)")
    except subprocess.CalledProcessError as error:
        say(f"{log}: darshan-parser ended with exit code {error.returncode}")
    else:
        return done.stdout
    return b""


def keep_observation(
    stem: Path,
    command: Sequence[str],
    plan: RunPlan,
    reported: Mapping[str, float],
    own_notes: Sequence[str] = (),
) -> Observation:
    """Read what the ranks left, and keep it as ``STEM.observed.json``. own_notes: of the user, and of the
    program's run."""
    ranks = stem.with_name(f"{stem.name}.{RANKS}")
    with tempfile.TemporaryDirectory() as nothing:
        try:
            own_folder.check(ranks)
            read = ranks
        except OSError as error:  # links and pipes may wait there: nothing is opened
            read = Path(nothing)
            own_notes = (*own_notes, f"{ranks}: {error.strerror}: what the ranks left is not read")
        hosts = job_hosts() if os.environ.get("SLURM_JOB_NODELIST") else ()
        observation = read_observation(read, command, hosts, reported, plan.observers)
    own_folder.hand_out(ranks)
    absent = {kind.key: None for kind in registered_observers().kinds}
    parts = {**absent, **observation.parts}
    observation = replace(observation, notes=(*own_notes, *observation.notes), parts=parts)
    for observer in plan.observers:
        if (content := observation.parts[observer.key]) is not None:
            observer.save(content, stem)
    write_whole(stem.with_name(f"{stem.name}.{OBSERVED}"), to_text(observation))
    return observation


def keep_measured(
    stem: Path, observation: Observation, plan: RunPlan, measured: MeasuredOverhead
) -> Observation:
    """The observation with what was measured of watching, kept as ``STEM.observed.json``."""
    parts = dict(observation.parts)
    for observer in plan.observers:
        if (content := parts[observer.key]) is not None:
            parts[observer.key] = observer.slowed(content, 1 + measured.median)
    overhead = replace(observation.overhead or Overhead(), measured=measured)
    observation = replace(observation, overhead=overhead, parts=parts)
    write_whole(stem.with_name(f"{stem.name}.{OBSERVED}"), to_text(observation))
    return observation
