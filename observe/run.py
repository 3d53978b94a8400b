"""Runs a program with `observe.rank` before it, and keeps what it printed and what its ranks left."""

from __future__ import annotations

import json
import math
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import IO, Final

import click

from npc.jobs.sample import job_hosts
from npc.records.units import PREFIXES
from observe.observation import Observation, read_observation, to_document

OBSERVED: Final = "observed.json"
RANKS: Final = "ranks"
#: Exit code of a program that could not be started, as a shell reports it.
NOT_STARTED: Final = 127
#: Programs whose reports have a parser.
KNOWN: Final = {"xhpcg": "hpcg", "xhpl": "hpl", "hpcc": "hpcc", "himeno": "himeno"}
_RANK: Final = Path(__file__).with_name("rank.py")
_FLOPS: Final = re.compile(r"([kKMGTP]?)FLOP(?:/s|S)", re.IGNORECASE)


def run_inside_launch(stem: Path, command: Sequence[str], place: int, mpi: bool, watch: Sequence[str]) -> int:
    """Run below ``npc sample``, which keeps the output: only the observation is written, beside it."""
    code = run(command, place, make_ranks(stem), mpi, watch)
    keep_observation(stem, command, {})
    return code


def name_of(words: Sequence[str]) -> str:
    """The file's name of a program; of a Python program, that of its script."""
    names = [Path(word).name for word in words]
    if names[0].startswith("python"):
        return next((name for name in names if name.endswith(".py")), names[0])
    return names[0]


def make_ranks(stem: Path) -> Path:
    """The folder for what the ranks of the launch leave."""
    folder = stem.with_name(f"{stem.name}.{RANKS}")
    folder.mkdir()
    return folder


def run(
    command: Sequence[str], place: int, ranks: Path, mpi: bool, watch: Sequence[str], stem: Path | None = None
) -> int:
    """Run the command with `observe.rank` before its program; its exit code, 128 + n for signal n.

    watch: the seconds and the group of counters that `observe.rank` wants.

    With a `stem`, what it prints goes to the terminal and to ``STEM.out`` and ``.err`` alike.
    """
    watched = [
        *command[:place],
        sys.executable,
        "-S",
        str(_RANK),
        str(ranks),
        *watch,
        *command[place:],
    ]
    environment = {**os.environ, **(_monitoring(ranks) if mpi else {})}
    pipe = None if stem is None else subprocess.PIPE
    try:
        process = subprocess.Popen(watched, env=environment, stdout=pipe, stderr=pipe)
    except OSError as error:
        click.echo(f"npc observe: {command[0]}: {error.strerror}", err=True)
        if stem is not None:
            for suffix in (".out", ".err"):
                stem.with_suffix(suffix).touch()
        return NOT_STARTED

    def pass_on(number: int, _frame: FrameType | None) -> None:
        process.send_signal(number)

    previous = {number: signal.signal(number, pass_on) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        copies = []
        if stem is not None and process.stdout and process.stderr:
            copies = [
                threading.Thread(
                    target=_copy, args=(process.stdout, sys.stdout.buffer, stem.with_suffix(".out"))
                ),
                threading.Thread(
                    target=_copy, args=(process.stderr, sys.stderr.buffer, stem.with_suffix(".err"))
                ),
            ]
        for copy in copies:
            copy.start()
        code = process.wait()
        for copy in copies:
            copy.join()
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
    return code if code >= 0 else 128 - code


def _monitoring(ranks: Path) -> dict[str, str]:
    """Settings of Open MPI's monitoring component (ompi_info --param pml monitoring); others ignore them."""
    return {
        "OMPI_MCA_pml_monitoring_enable": "2",  # 2: the program's messages and MPI's own apart
        "OMPI_MCA_pml_monitoring_enable_output": "3",  # 3: a file a rank, written by MPI_Finalize
        "OMPI_MCA_pml_monitoring_filename": str(ranks / "mpi"),
    }


def _copy(source: IO[bytes], terminal: IO[bytes], path: Path) -> None:
    with path.open("xb") as kept:
        while block := source.read1(65536):  # type: ignore[attr-defined]
            kept.write(block)
            terminal.write(block)
            terminal.flush()


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
        kept.write(newest.read_bytes())


def flops_scale(unit: str) -> float:
    """FLOP/s of one `unit`. Raises ValueError."""
    match = _FLOPS.fullmatch(unit)
    if not match:
        raise ValueError(f"--flops-unit {unit}: expected FLOP/s, MFLOP/s, GFLOP/s, …")
    return PREFIXES[match[1]]


def pattern_of(option: str, text: str | None) -> re.Pattern[str] | None:
    """The pattern of an option, if it was given. Raises ValueError and re.error."""
    pattern = re.compile(text) if text else None
    if pattern is not None and pattern.groups < 1:
        raise ValueError(f"{option} {text!r}: it has no group; put parentheses around the number")
    return pattern


def reported_by(
    text: str,
    pattern: re.Pattern[str] | None,
    scale: float,
    duration: re.Pattern[str] | None,
    flop: float | None,
) -> dict[str, float]:
    """What the program says of itself by `pattern` and `duration`, and what the user knows."""
    reported = {}
    rate = _last_number(pattern, text)
    if rate is not None:
        reported["flops"] = rate * scale
        seconds = _last_number(duration, text)
        if seconds is not None:
            reported["flop"] = rate * scale * seconds
    if flop is not None:
        reported["flop"] = flop
    return reported


def _last_number(pattern: re.Pattern[str] | None, text: str) -> float | None:
    """The first group of the last match that is a number above zero."""
    found = None
    for match in pattern.finditer(text) if pattern is not None else ():
        try:
            number = float(match[1])
        except (TypeError, ValueError):
            continue
        if math.isfinite(number) and number > 0:
            found = number
    return found


def keep_observation(stem: Path, command: Sequence[str], reported: Mapping[str, float]) -> Observation:
    """Read what the ranks left, and keep it as ``STEM.observed.json``."""
    hosts = job_hosts() if os.environ.get("SLURM_JOB_NODELIST") else ()
    observation = read_observation(stem.with_name(f"{stem.name}.{RANKS}"), command, hosts, reported)
    document = json.dumps(to_document(observation), indent=1) + "\n"
    stem.with_name(f"{stem.name}.{OBSERVED}").write_text(document, encoding="utf-8")
    return observation
