"""``npc characterise``: the main job. Runs ``jube.yml`` on a platform, collects, draws.

JUBE does the running and is driven by its command line alone; what happens meanwhile is read from the
folders that it and the launches write. Whatever stops the run, what was measured before is collected.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import signal
import subprocess
import sys
import time
import xml.etree.ElementTree as ET
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final

import click

from npc import session
from npc.launch import LAUNCHES, read_launches
from npc.record import OK
from npc.run import RECORDS, read_run
from npc.tools import search_path

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

TAGS: Final = ("network", "memory", "compute", "rdma", "apps")
EXIT_NOTHING: Final = 1
EXIT_UNFINISHED: Final = 5
EXIT_PARTLY: Final = 6
POLL_S: Final = 0.5
#: How long JUBE and what it started may take to end when told to.
GRACE_S: Final = 15.0
_SETTING: Final = re.compile(r"\$\{NPC_([A-Z0-9_]+):-")


@dataclass(frozen=True, slots=True)
class Progressed:
    """How far a workpackage is: its launches made and planned (0 before they are known), and its state."""

    name: str
    made: int
    planned: int
    failed: int
    state: str


def checkout() -> Path:
    """The folder with ``jube.yml``. Raises click.ClickException where NPC was installed without it."""
    home = Path(__file__).resolve().parent.parent
    if not (home / "jube.yml").exists():
        raise click.ClickException(
            f"{home} has no jube.yml: npc characterise needs NPC's checkout, not only its Python packages"
        )
    return home


def settings(home: Path) -> dict[str, str]:
    """Every setting that the benchmarks read from outside: its name and the file that explains it."""
    found: dict[str, str] = {}
    for path in sorted((home / "benchmarks").rglob("*.xml")):
        for name in _SETTING.findall(path.read_text(encoding="utf-8")):
            found.setdefault(name.lower(), path.relative_to(home).as_posix())
    return found


def environment_of_settings(home: Path, given: Sequence[str]) -> dict[str, str]:
    """NPC_… variables of ``NAME=VALUE`` words. Raises click.UsageError for names that nothing reads."""
    known = settings(home)
    variables = {}
    for word in given:
        name, equals, value = word.partition("=")
        if not equals:
            raise click.UsageError(f"--set {word!r}: expected NAME=VALUE")
        if name not in known:
            import difflib

            near = difflib.get_close_matches(name, known, 3, 0.4) or sorted(known)
            raise click.UsageError(
                f"--set {name}: no benchmark has such a parameter; perhaps {', '.join(near)}?"
            )
        variables[f"NPC_{name.upper()}"] = value
    return variables


def platform_folder(home: Path, name: str) -> Path:
    """The folder of a platform: its name below ``platforms/``, or any folder with a ``platform.xml``."""
    for folder in (home / "platforms" / name, Path(name)):
        if (folder / "platform.xml").exists():
            return folder.resolve()
    known = sorted(path.parent.name for path in (home / "platforms").glob("*/platform.xml"))
    raise click.UsageError(
        f"--platform {name}: no such platform; there are {', '.join(known)}, or name a folder"
    )


@contextlib.contextmanager
def only_one(outpath: Path) -> Iterator[None]:
    """Holds the lock of `outpath`: two characterisations of one machine would measure each other."""
    with (outpath / ".characterise.lock").open("a+") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.seek(0)
            raise click.ClickException(
                f"another characterisation is running in {outpath} ({lock.read().strip() or 'starting'}): "
                "the two would measure each other"
            ) from None
        lock.truncate(0)
        lock.write(f"process {os.getpid()}")
        lock.flush()
        yield


def next_id(outpath: Path) -> int:
    """The number that JUBE gives to the next run in `outpath`."""
    numbers = [int(path.name) for path in outpath.glob("[0-9]*") if path.name.isdigit()]
    return max(numbers, default=-1) + 1


def progress_of(run: Path) -> list[Progressed]:
    """The state of every workpackage that JUBE knows so far; empty while there is nothing to read."""
    try:
        root = ET.parse(run / "workpackages.xml").getroot()
    except (OSError, ET.ParseError):
        return []
    states = []
    for element in root.iter("workpackage"):
        step = (element.findtext("step") or "").strip()
        folder = run / f"{int(element.get('id', '0')):06d}_{step}"
        made = planned = failed = 0
        for path in (folder / "work").glob(f"*/{LAUNCHES}"):
            with contextlib.suppress(OSError, ValueError):  # being written just now
                launches = read_launches(path.parent)
                made += len(launches.launches)
                planned += launches.planned
                failed += sum(launch.status != OK for launch in launches.launches)
        if (folder / "done").exists():
            state = "done"
        elif (folder / "error").exists():
            state = "failed"
        else:
            state = "running" if folder.exists() else "waiting"
        states.append(Progressed(step, made, planned, failed, state))
    return states


class Display:
    """A bar for each workpackage on a terminal, nothing elsewhere."""

    def __init__(self) -> None:
        self._progress: Progress | None = None
        self._tasks: dict[int, TaskID] = {}
        if sys.stderr.isatty():
            from rich.console import Console
            from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

            self._progress = Progress(
                TextColumn("{task.fields[state]:>8}"),
                TextColumn("{task.description:<12}"),
                BarColumn(),
                MofNCompleteColumn(),
                TextColumn("launches"),
                TimeElapsedColumn(),
                console=Console(stderr=True),
            )
            self._progress.start()

    def show(self, states: Sequence[Progressed]) -> None:
        """Bring the bars up to date."""
        if self._progress is None:
            return
        for number, state in enumerate(states):
            if number not in self._tasks:
                self._tasks[number] = self._progress.add_task(state.name, start=False, total=None, state="")
            task = self._tasks[number]
            if state.state != "waiting":
                self._progress.start_task(task)
            ended = state.state in ("done", "failed")
            total = state.planned or (state.made if ended else None)
            words = f"{state.failed} bad" if state.failed else state.state
            self._progress.update(task, completed=state.made, total=total, state=words)
            if ended:
                self._progress.stop_task(task)

    def close(self) -> None:
        """Leave the bars as they are."""
        if self._progress is not None:
            self._progress.stop()


def run_jube(
    command: Sequence[str], env: Mapping[str, str], home: Path, run: Path, log: IO[bytes]
) -> int | None:
    """Run JUBE to its end and show what happens. Returns the signal that asked to stop, or None.

    A stop ends JUBE and all that it started, in order, within `GRACE_S`: JUBE itself dies at once, and the
    launches that it had started still write down how they ended.
    """
    stopped: int | None = None

    def stop(number: int, _frame: object) -> None:
        nonlocal stopped
        stopped = number

    previous = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        process = subprocess.Popen(
            command,
            cwd=home,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
        display = Display()
        try:
            while process.poll() is None and not stopped:
                display.show(progress_of(run))
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(POLL_S)
            if stopped:
                session.end(process.pid, GRACE_S)
                process.wait()
            display.show(progress_of(run))
        finally:
            display.close()
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
    return stopped


def step(home: Path, *words: str) -> int:
    """Run one of NPC's own commands in a process of its own, so that its failure costs nothing else."""
    return subprocess.run([sys.executable, "-m", "npc", *words], cwd=home).returncode


@click.command()
@click.option(
    "--platform", default="localhost", show_default=True, help="Folder in platforms/, or any other."
)
@click.option(
    "--tag", "tags", multiple=True, help=f"Part of the benchmarks: {', '.join(TAGS)}; may be repeated."
)
@click.option(
    "--set", "given", multiple=True, metavar="NAME=VALUE", help="A parameter of a benchmark: samples=10."
)
@click.option(
    "--output", type=click.Path(path_type=Path, file_okay=False), help="Where runs go (default: runs/)."
)
@click.option("--json", "as_json", is_flag=True, help="Print roofline.json instead of the tables.")
def characterise(
    platform: str, tags: tuple[str, ...], given: tuple[str, ...], output: Path | None, as_json: bool
) -> None:
    """Characterise a machine: run jube.yml, collect, show the ceilings, draw the roofline.

    Exit codes: 0 all was measured (or was unavailable here), 1 nothing usable, 2 usage, 5 jobs have not
    ended yet, 6 some of it failed, 130 and 143 stopped (what was measured before is collected).
    """
    home = checkout()
    for tag in tags:
        if tag not in TAGS:
            raise click.UsageError(f"--tag {tag}: there are {', '.join(TAGS)}")
    folder = platform_folder(home, platform)
    variables = environment_of_settings(home, given)
    outpath = (output or home / "runs").resolve()
    env = {**os.environ, **variables}
    env["PATH"] = search_path()
    try:
        outpath.mkdir(parents=True, exist_ok=True)
        with only_one(outpath):
            code = _characterise(home, folder, tags, outpath, env, as_json)
    except OSError as error:
        raise click.ClickException(f"cannot write into {outpath}: {error.strerror}") from None
    sys.exit(code)


def _characterise(
    home: Path, platform: Path, tags: Sequence[str], outpath: Path, env: Mapping[str, str], as_json: bool
) -> int:
    number = next_id(outpath)
    run = outpath / f"{number:06d}"
    command = ["jube", "run", "jube.yml", "--hide-animation", "--outpath", str(outpath), "--id", str(number)]
    command += ["--include-path", str(platform)]
    if tags:
        command += ["--tag", *tags]
    begun = time.monotonic()
    log_path = outpath / f"jube-{number:06d}.log"
    with log_path.open("wb") as log:
        try:
            stopped = run_jube(command, env, home, run, log)
        except FileNotFoundError:
            log_path.unlink()
            raise click.ClickException(
                "jube is not installed: `npc doctor` says how to get it here"
            ) from None
    if not (run / "workpackages.xml").exists():
        if stopped:
            click.echo(f"stopped before anything was measured ({log_path})", err=True)
            return 128 + stopped
        tail = "\n".join(log_path.read_text(errors="replace").splitlines()[-5:])
        raise click.ClickException(f"JUBE started nothing ({log_path}); its last words:\n{tail}")
    log_path.replace(run / "jube.log")
    states = progress_of(run)
    if not states and not stopped:
        raise click.ClickException(f"jube.yml has no benchmark with the tag {' or '.join(tags)}")
    for state in states:
        if state.state == "failed":
            after = (
                f"after {state.made} of {state.planned} launches" if state.planned else "before any launch"
            )
            click.echo(f"{state.name}: failed {after}", err=True)
    if not stopped:
        for verb in ("analyse", "result"):
            subprocess.run(
                ["jube", verb, str(outpath), "--id", str(number)], cwd=home, env=env, capture_output=True
            )
    step(home, "environment", "--output", str(run / "environment.json"))
    step(home, "collect", str(run))
    drawn = step(home, "roofline", str(run), *(["--json"] if as_json else []))
    if not as_json:
        click.echo(f"run: {run}   {time.monotonic() - begun:.0f} s")
    if stopped:
        click.echo("stopped: what had been measured is collected", err=True)
        return 128 + stopped
    return exit_code(run, states, drawn)


def exit_code(run: Path, states: Sequence[Progressed], drawn: int) -> int:
    """The verdict on a run: see the command's help."""
    unfinished = [state.name for state in states if state.state in ("running", "waiting")]
    if unfinished:
        click.echo(
            f"not ended yet: {', '.join(unfinished)}. Later: "
            f"jube continue {run.parent} --id {int(run.name)}; npc collect {run}; npc roofline {run}",
            err=True,
        )
        return EXIT_UNFINISHED
    records = read_run(run) if (run / RECORDS).exists() else []
    if drawn or not any(record.ok for record in records):
        return EXIT_NOTHING
    bad = [record for record in records if not record.ok and not record.status.startswith("unavailable: ")]
    return EXIT_PARTLY if bad else 0
