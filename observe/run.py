"""Runs a program with `observe.rank` before it, and keeps what it printed and what its ranks left."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import IO, Final

import click

from npc.files import read_bytes, write_whole
from npc.jobs.launcher import content_of
from npc.jobs.sample import job_hosts
from npc.machine.processes import die_with_parent
from npc.records.node_probes import MeasuredOverhead, Overhead
from observe.asked import Asked
from observe.hotspots.merge import read_hotspots
from observe.memory.merge import read_memory
from observe.memory.outputs import save_tables
from observe.mpi.rank_file import read_profiles
from observe.observation import Observation, read_observation, to_text
from observe.overhead import overhead_of
from observe.probes.node_file import read_probes
from observe.rank import RUNNING
from observe.rank_files import read_ranks

OBSERVED: Final = "observed.json"
RANKS: Final = "ranks"
#: Of the logs that Darshan leaves of a program.
DARSHAN: Final = ".darshan"
#: Exit code of a program that could not be started, as a shell reports it.
NOT_STARTED: Final = 127
#: How long ranks may take to finish once the launcher has ended.
_HURRY_S: Final = 3.0
#: And where what companions recorded has to be read first.
_READING_S: Final = 60.0
_RANK: Final = Path(__file__).with_name("rank.py")


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
    mpi: bool,
    asked: Asked,
    keep: bool,
    silent: bool = False,
) -> int:
    """Run the command with `observe.rank` before its program; its exit code, 128 + n for signal n.

    What the ranks leave goes to ``STEM.ranks``. keep: what the program prints goes to ``STEM.out`` and
    ``.err``, and to the terminal unless `silent`.
    """
    ranks = stem.with_name(f"{stem.name}.{RANKS}")
    ranks.mkdir()
    around = [sys.executable, "-ES", str(_RANK), str(ranks), asked.to_text()]
    watched = [*command[:place], *around, *command[place:]]
    if mpi and _is_monitoring_harmful(command[place]):
        click.echo(
            "npc observe: Open MPI's monitoring stays off: it crashes programs that start others "
            "(MPI_Comm_spawn) or have collective calls of neighbours in a graph (MPI_Dist_graph_create)",
            err=True,
        )
        mpi = False
    environment = {**os.environ, **(_monitoring(ranks) if mpi else {})}
    pipe = subprocess.PIPE if keep else None
    try:
        process = subprocess.Popen(
            watched,
            env=environment,
            stdout=pipe,
            stderr=pipe,
            preexec_fn=lambda: die_with_parent(signal.SIGTERM),  # what watches would stay, for nobody
        )
    except OSError as error:
        click.echo(f"npc observe: {command[0]}: {error.strerror}", err=True)
        if keep:
            for suffix in (".out", ".err"):
                stem.with_suffix(suffix).touch()
        return NOT_STARTED

    def pass_on(number: int, _frame: FrameType | None) -> None:
        process.send_signal(number)

    previous = {number: signal.signal(number, pass_on) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        streams = ((process.stdout, sys.stdout, ".out"), (process.stderr, sys.stderr, ".err"))
        copies = [
            threading.Thread(
                target=_copy, args=(source, None if silent else terminal.buffer, stem.with_suffix(suffix))
            )
            for source, terminal, suffix in streams
            if keep
        ]
        for copy in copies:
            copy.start()
        code = process.wait()
        wait_for_ranks(ranks, _READING_S if asked.companions else _HURRY_S)
        for copy in copies:
            copy.join()
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
    return code if code >= 0 else 128 - code


def wait_for_ranks(ranks: Path, patience_s: float) -> None:
    """A launcher that ends in a hurry is faster than what finishes for the ranks that it killed."""
    end = time.monotonic() + patience_s
    while any(ranks.glob(f"*.{RUNNING}")) and time.monotonic() < end:
        time.sleep(0.02)


def _monitoring(ranks: Path) -> dict[str, str]:
    """Settings of Open MPI's monitoring component (ompi_info --param pml monitoring); others ignore them."""
    return {
        "OMPI_MCA_pml_monitoring_enable": "2",  # 2: the program's messages and MPI's own apart
        "OMPI_MCA_pml_monitoring_enable_output": "3",  # 3: a file a rank, written by MPI_Finalize
        "OMPI_MCA_pml_monitoring_filename": str(ranks / "mpi"),
    }


def _is_monitoring_harmful(program: str) -> bool:
    """Whether it is a program of Open MPI that makes graphs of processes, or starts some: the monitoring
    component takes any topology for a Cartesian one (4.1.4, 5.0.11: mca_coll_monitoring_neighbor_alltoall and
    others), and fails when it lets go of a communicator to other programs (4.1.4, MPI_Comm_disconnect).
    """
    with content_of(program) as content:
        calls = re.search(rb"(?i)mpi_((dist_)?graph_create|comm_spawn)", content)
        return bool(calls and re.search(rb"ompi_mpi_|libmpi_(mpifh|usempi)", content))


def _copy(source: IO[bytes], terminal: IO[bytes] | None, path: Path) -> None:
    with path.open("xb") as kept:
        while block := source.read1(65536):  # type: ignore[attr-defined]
            kept.write(block)
            if terminal is not None:
                terminal.write(block)
                terminal.flush()


def profiling_library(command: Sequence[str], place: int) -> str:
    """The library to put before the program, empty where there is none: then it is said why."""
    from observe.built import NoLibrary
    from observe.mpi.build import library_for

    try:
        return str(library_for(command[:place], command[place]))
    except NoLibrary as reason:
        click.echo(f"npc observe: inside MPI: unavailable: {reason}", err=True)
        return ""


def costs_of_probes() -> dict[str, float]:
    """Seconds of one event, empty where they cannot be measured: then it is said why."""
    from observe.costs.kept import NoCost
    from observe.costs.probes import costs

    try:
        return costs()
    except NoCost as reason:
        click.echo(f"npc observe: what a probe costs is not known: {reason}", err=True)
        return {}


def append_report(pattern: str, began: float, path: Path) -> None:
    """Add the file that the program wrote its report to, if there is a new one, to its kept output."""
    root = Path(Path(pattern).anchor)
    found = root.glob(str(Path(pattern).relative_to(root)))
    candidates = [file for file in found if file.is_file() and file.stat().st_mtime >= began - 1]
    if not candidates:
        click.echo(f"npc observe: the program left no new {pattern}", err=True)
        return
    newest = max(candidates, key=lambda file: file.stat().st_mtime)
    with path.open("ab") as kept:
        kept.write(_told(newest) if newest.suffix == DARSHAN else read_bytes(newest))


def _told(log: Path) -> bytes:
    """Darshan's log as its own parser tells it; nothing, and why, where that cannot."""
    try:
        done = subprocess.run(["darshan-parser", log], stdout=subprocess.PIPE, check=True)
    except FileNotFoundError:
        click.echo(
            f"npc observe: {log}: darshan-parser is not in PATH: load a module (darshan-util)", err=True
        )
    except subprocess.CalledProcessError as error:
        click.echo(f"npc observe: {log}: darshan-parser ended with exit code {error.returncode}", err=True)
    else:
        return done.stdout
    return b""


def keep_observation(
    stem: Path,
    command: Sequence[str],
    place: int,
    asked: Asked,
    reported: Mapping[str, float],
    note: str = "",
) -> Observation:
    """Read what the ranks left, and keep it as ``STEM.observed.json``. place: of the program's word; note: of
    who asked."""
    hosts = job_hosts() if os.environ.get("SLURM_JOB_NODELIST") else ()
    ranks = stem.with_name(f"{stem.name}.{RANKS}")
    seen, damaged = read_ranks(ranks)
    profiles, unread = read_profiles(ranks, seen)
    observation = read_observation(ranks, command, hosts, reported, profiles, seen)
    probes, odd = read_probes(ranks, seen)
    overhead, unknown = overhead_of(asked, command[:place], command[place], seen, profiles, probes)
    hotspots, memory = read_hotspots(ranks, damaged), read_memory(ranks, damaged)
    observation = replace(
        observation,
        notes=(*filter(None, [note]), *observation.notes, *unread, *odd, *unknown, *damaged),
        hotspots=hotspots,
        probes=probes,
        overhead=overhead if overhead.estimated else None,
        memory=memory,
    )
    if observation.memory:
        save_tables(observation.memory, stem)
    write_whole(stem.with_name(f"{stem.name}.{OBSERVED}"), to_text(observation))
    return observation


def keep_measured(stem: Path, observation: Observation, measured: MeasuredOverhead) -> Observation:
    """The observation with what was measured of watching, kept as ``STEM.observed.json``."""
    overhead = replace(observation.overhead or Overhead(), measured=measured)
    memory = observation.memory and replace(observation.memory, slowdown=1 + measured.median)
    observation = replace(observation, overhead=overhead, memory=memory)
    write_whole(stem.with_name(f"{stem.name}.{OBSERVED}"), to_text(observation))
    return observation
