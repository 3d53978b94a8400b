"""``npc observe -- mpirun … app``: any MPI program, unchanged, and what it did to the network."""

from __future__ import annotations

import json
import math
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import IO, TYPE_CHECKING, Final

import click

from npc.launch import RAW, Launch, LaunchLog, last_words, now
from npc.record import OK, save_csv
from npc.run import RECORDS
from npc.sample import LAUNCH, job_hosts
from npc.units import PREFIXES

if TYPE_CHECKING:
    from observe.observation import Observation

OBSERVED: Final = "observed.json"
RANKS: Final = "ranks"
_NOT_STARTED: Final = 127
_RANK: Final = Path(__file__).with_name("rank.py")
_FLOPS: Final = re.compile(r"([kKMGTP]?)FLOP(?:/s|S)", re.IGNORECASE)
#: Programs whose reports have a parser.
_KNOWN: Final = {"xhpcg": "hpcg", "xhpl": "hpl", "hpcc": "hpcc", "himeno": "himeno"}


@click.command(context_settings={"ignore_unknown_options": True})
@click.option(
    "--output",
    type=click.Path(path_type=Path, file_okay=False),
    help="Folder to write; by default observed, or beside the launch that npc sample is making.",
)
@click.option("--program", default="", help="The program's word in the command, where it cannot be told.")
@click.option("--name", default="", help="What to call the program (default: its file's name).")
@click.option("--parser", "tool", help="Parser of the program's own report (default: by the program's name).")
@click.option(
    "--report",
    metavar="GLOB",
    help="File in which the program leaves its report, such as 'HPCG-Benchmark_*.txt'.",
)
@click.option(
    "--flops", metavar="REGEX", help="Where the program says its rate: the first group is the number."
)
@click.option(
    "--flops-unit", default="FLOP/s", show_default=True, help="Unit of that number: MFLOP/s, GFLOP/s, …"
)
@click.option(
    "--seconds",
    metavar="REGEX",
    help="Where the program says for how many seconds it computed at that rate; the FLOP follow from both.",
)
@click.option(
    "--flop", type=click.FloatRange(0, min_open=True), help="FLOP of the whole run, where you know them."
)
@click.option(
    "--counters",
    metavar="GROUP|EVENT",
    help="Count FLOP as well: by likwid-perfctr, FLOPS_DP or FLOPS_SP (likwid-perfctr -a), or in a program "
    "with PAPI's high-level interface, PAPI_DP_OPS (papi_avail).",
)
@click.option(
    "--mpi/--no-mpi", default=True, show_default=True, help="Let Open MPI count messages and bytes."
)
@click.option(
    "--background",
    "background_s",
    default=0.3,
    show_default=True,
    type=click.FloatRange(0, 60),
    help="Seconds to watch each node's ports before the program begins.",
)
@click.option(
    "--platform",
    default="localhost",
    show_default=True,
    help="Platform of the records, as npc characterise named it.",
)
@click.option("--json", "as_json", is_flag=True, help="Print observed.json instead of the table.")
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
def observe(
    output: Path | None,
    program: str,
    name: str,
    tool: str | None,
    report: str | None,
    flops: str | None,
    flops_unit: str,
    seconds: str | None,
    flop: float | None,
    counters: str | None,
    mpi: bool,
    background_s: float,
    platform: str,
    as_json: bool,
    command: tuple[str, ...],
) -> None:
    """Run COMMAND unchanged and note what it did to the network, on every node.

    Writes a folder of launches with the program's own output, the bytes through every node's ports, and
    MPI's own count; `npc roofline RUN FOLDER` puts the program under the ceilings.

    Exit code: the program's own; 127 if it could not be started; 2 usage.

    \b
    npc observe -- mpirun -n 8 ./himeno 2 2 2
    npc observe --report 'HPCG-Benchmark_*.txt' -- srun -n 8 xhpcg
    npc observe --flops 'rate: ([0-9.]+)' --flops-unit GFLOP/s -- mpirun -n 8 ./app
    npc observe --counters FLOPS_DP -- mpirun -n 8 ./app
    """
    import parsers
    from observe.launcher import UnknownProgram, program_index
    from observe.papi import EVENT

    try:
        place = program_index(command, program)
        scale = _scale(flops_unit)
        pattern, duration = _pattern("--flops", flops), _pattern("--seconds", seconds)
        if duration is not None and (pattern is None or flop is not None):
            raise ValueError("--seconds: it goes with --flops, and not with --flop")
        if tool is not None:
            parsers.load(tool)
        if counters is not None and not (re.fullmatch(r"\w+", counters) or EVENT.fullmatch(counters)):
            raise ValueError(
                f"--counters {counters!r}: expected a group of LIKWID's, such as FLOPS_DP, "
                "or an event of PAPI's, such as PAPI_DP_OPS"
            )
    except (UnknownProgram, parsers.UnknownParser, ValueError, re.error) as error:
        raise click.UsageError(str(error)) from None
    if shutil.which(command[0]) is None:
        click.echo(f"npc observe: {command[0]}: no such program (neither a path nor in PATH)", err=True)
        sys.exit(_NOT_STARTED)
    watch = [str(background_s), counters or "-"]
    inside = os.environ.get(LAUNCH) if output is None else None
    if inside:
        sys.exit(_inside_launch(Path(inside), command, place, mpi, watch))
    tool = tool or _KNOWN.get(Path(command[place]).name, "")
    folder = output or Path("observed")
    try:
        log = LaunchLog(folder, tool or "observed", 1)
    except FileExistsError:
        raise click.UsageError(f"{folder} holds an observation already: name another --output") from None
    except OSError as error:
        raise click.ClickException(f"cannot write into {folder}: {error.strerror}") from None
    stem = (folder / RAW / "0000").absolute()
    started, before, began = now(), time.monotonic(), time.time()
    code = _run(command, place, _ranks(stem), mpi, watch, stem)
    lasted = time.monotonic() - before
    if report:
        _append_report(report, began, stem.with_suffix(".out"))
    said = stem.with_suffix(".out").read_text(encoding="utf-8", errors="replace")
    reported = _reported(said, pattern, scale, duration, flop)
    observation = _observation(stem, command, reported)
    status = OK if code == 0 else f"failed: exit code {code}: {last_words(stem.with_suffix('.err'))}"
    hosts = tuple(node.host for node in observation.nodes) or job_hosts()
    raw = f"{RAW}/0000.out" if tool else f"{RAW}/0000.{OBSERVED}"
    argv = tuple(command)
    log.append(
        Launch(
            id=0, argv=argv, started=started, seconds=lasted, exit=code, status=status,
            params={"program": name or _name(command[place:])}, nodes=len(hosts), hosts=hosts, raw=raw,
        )
    )  # fmt: skip
    log.close()
    from parsers.collect import collect_run

    save_csv(collect_run(folder, platform), folder / RECORDS)
    if as_json:
        click.echo(stem.with_suffix(f".{OBSERVED}").read_text(encoding="utf-8"))
    else:
        lacking = [("--flops", pattern is not None and "flops" not in reported)]
        lacking.append(("--seconds", duration is not None and "flops" in reported and "flop" not in reported))
        _show(observation, folder, [option for option, silent in lacking if silent])
    sys.exit(code)


def _inside_launch(stem: Path, command: Sequence[str], place: int, mpi: bool, watch: Sequence[str]) -> int:
    """Run below ``npc sample``, which keeps the output: only the observation is written, beside it."""
    code = _run(command, place, _ranks(stem), mpi, watch)
    _observation(stem, command, {})
    return code


def _name(words: Sequence[str]) -> str:
    """The file's name of a program; of a Python program, that of its script."""
    names = [Path(word).name for word in words]
    if names[0].startswith("python"):
        return next((name for name in names if name.endswith(".py")), names[0])
    return names[0]


def _ranks(stem: Path) -> Path:
    """The folder for what the ranks of the launch leave."""
    folder = stem.with_name(f"{stem.name}.{RANKS}")
    folder.mkdir()
    return folder


def _run(
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
        return _NOT_STARTED

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


def _append_report(pattern: str, began: float, path: Path) -> None:
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


def _scale(unit: str) -> float:
    """FLOP/s of one `unit`. Raises ValueError."""
    match = _FLOPS.fullmatch(unit)
    if not match:
        raise ValueError(f"--flops-unit {unit}: expected FLOP/s, MFLOP/s, GFLOP/s, …")
    return PREFIXES[match[1]]


def _pattern(option: str, text: str | None) -> re.Pattern[str] | None:
    """The pattern of an option, if it was given. Raises ValueError and re.error."""
    pattern = re.compile(text) if text else None
    if pattern is not None and pattern.groups < 1:
        raise ValueError(f"{option} {text!r}: it has no group; put parentheses around the number")
    return pattern


def _reported(
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


def _observation(stem: Path, command: Sequence[str], reported: Mapping[str, float]) -> Observation:
    """Read what the ranks left, and keep it as ``STEM.observed.json``."""
    from observe.observation import read_observation, to_document

    hosts = job_hosts() if os.environ.get("SLURM_JOB_NODELIST") else ()
    observation = read_observation(stem.with_name(f"{stem.name}.{RANKS}"), command, hosts, reported)
    document = json.dumps(to_document(observation), indent=1) + "\n"
    stem.with_name(f"{stem.name}.{OBSERVED}").write_text(document, encoding="utf-8")
    return observation


def _show(observation: Observation, folder: Path, silent: Sequence[str]) -> None:
    """The table of nodes and ports, MPI's own count, and what was odd."""
    from npc.units import format_quantity

    def amount(value: int | None) -> str:
        return "unknown" if value is None else format_quantity(value, "B", 4)

    click.echo(f"\nobserved: {shlex.join(observation.command)}", err=True)
    for node in observation.nodes:
        click.echo(f"{node.host}: {node.ranks} rank{'s' * (node.ranks != 1)}, {node.seconds:.2f} s", err=True)
        for port in node.ports:
            click.echo(
                f"  {port.name:12} received {amount(port.received):>10}  sent {amount(port.sent):>10}",
                err=True,
            )
    if observation.messages:
        for kind, (size, count) in observation.messages.kinds.items():
            click.echo(f"MPI {kind}: {format_quantity(size, 'B', 4)} in {count} messages", err=True)
        for kind, (amount_, calls) in observation.messages.collectives.items():
            mean = format_quantity(amount_ / calls, "B", 4)
            click.echo(f"MPI collectives, {kind}: {calls} calls of all ranks, {mean} each", err=True)
        between = observation.messages.between_nodes
        if between is not None:
            click.echo(f"MPI between nodes: {format_quantity(between, 'B', 4)}", err=True)
    for metric, value in observation.reported.items():
        click.echo(
            f"{metric}: {format_quantity(value, 'FLOP/s' if metric == 'flops' else 'FLOP', 4)}", err=True
        )
    counted = observation.counted
    if counted is not None:
        found = format_quantity(counted.flop, "FLOP", 4) if counted.flop is not None else counted.reason
        click.echo(f"counted: {found}", err=True)
    for option in silent:
        click.echo(f"note: {option} catches no number above 0 in what the program printed", err=True)
    for note in observation.notes:
        click.echo(f"note: {note}", err=True)
    click.echo(f"kept in {folder}; under the ceilings: npc roofline RUN {folder}", err=True)
