"""What ``npc characterise`` does, the main job: runs ``jube.yml`` or one benchmark, waits, collects, draws.

JUBE does the running and is driven by its command line alone; what happens meanwhile is read from the
folders that it and the launches write. Whatever stops the run, what was measured before is collected.
"""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Final

import click

from npc import locks
from npc.jobs import jube
from npc.jobs.progress import Display, rows_of
from npc.jobs.stop import Stop
from npc.jobs.wait import (
    EXIT_NOTHING,
    EXIT_PARTLY,
    EXIT_UNFINISHED,
    LOG,
    WRITING_S,
    Ending,
    Patience,
    missing,
    wait_for,
)
from npc.jobs.workpackages import WORKPACKAGES, NoRun, Workpackage, read_workpackages
from npc.records.record import Record
from npc.records.run import RECORDS, read_run

#: In the folder of the runs: held by whoever characterises this machine.
LOCK: Final = ".characterise.lock"
#: As npc/setup.sh refuses them; the colon parts the folders of a PATH.
_READ_BY_SHELLS: Final = re.compile(r"""[\s"'`$\\&;|<>()*?\[\]{}#!:]""")
#: Settings that are files or folders.
_PATH_SETTING: Final = re.compile(r"NPC_[A-Z0-9]+_(?:SOURCE|PREFIX|CACHE)")
_SETTING: Final = re.compile(r"\$\{NPC_([A-Z0-9_]+):-")
_WHOLE_NUMBER: Final = re.compile(r'type="int">[^<]*printf %s "\$\{NPC_([A-Z0-9_]+):-[^"]*"\s*</parameter>')


def checkout() -> Path:
    """The folder with ``jube.yml``.

    Raises click.ClickException where NPC was installed without it, and for a path that job scripts, which
    name programs without quotes, could not hold.
    """
    home = Path(__file__).resolve().parent.parent.parent
    if _READ_BY_SHELLS.search(str(home)):
        raise click.ClickException(
            f"the checkout's path has a space or another character that shells read: move it ({home})"
        )
    if not (home / "jube.yml").exists():
        raise click.ClickException(
            f"{home} has no jube.yml: npc characterise needs NPC's checkout, not only its Python packages"
        )
    return home


def settings(home: Path, platform: Path | None = None, file: Path | None = None) -> dict[str, str]:
    """Settings that benchmarks and a platform read from outside: the name, and the file that explains it.

    platform: a folder with a ``platform.xml``; those that its sets are initialised with are read, too.
    file: a JUBE file beside the suite's own.
    """
    found: dict[str, str] = {}
    for path in _files_with_settings(home, platform, file):
        named = path.relative_to(home) if path.is_relative_to(home) else path
        for name in _SETTING.findall(path.read_text(encoding="utf-8")):
            found.setdefault(name.lower(), named.as_posix())
    return found


def whole_numbers(home: Path, platform: Path | None = None, file: Path | None = None) -> set[str]:
    """Those of the `settings` that are nothing but a parameter which JUBE takes whole numbers for."""
    return {
        name.lower()
        for path in _files_with_settings(home, platform, file)
        for name in _WHOLE_NUMBER.findall(path.read_text(encoding="utf-8"))
    }


def _files_with_settings(home: Path, platform: Path | None, file: Path | None) -> list[Path]:
    files = sorted({*(home / "benchmarks").rglob("*.xml"), *([file] if file else [])})
    if platform:
        files += _platform_files(platform / "platform.xml")
    return files


def _platform_files(path: Path) -> list[Path]:
    """A platform's file and the files below it, each once; JUBE looks for them from the platform's folder."""
    files = [path]
    for file in files:
        for name in re.findall(r'init_with="([^":]+)', file.read_text(encoding="utf-8")):
            other = Path(os.path.normpath(path.parent / name))
            if other.exists() and other not in files:
                files.append(other)
    return files


def environment_of_settings(
    home: Path, platform: Path, given: Sequence[str], file: Path | None = None
) -> dict[str, str]:
    """NPC_… variables of ``NAME=VALUE`` words.

    Raises click.UsageError for names that nothing reads, and values that JUBE would not take.
    """
    known, numbers = settings(home, platform, file), whole_numbers(home, platform, file)
    variables = {}
    for word in given:
        name, equals, value = word.partition("=")
        if not equals:
            raise click.UsageError(f"--set {word!r}: expected NAME=VALUE")
        if name not in known:
            import difflib

            near = difflib.get_close_matches(name, known, 3, 0.4) or sorted(known)
            raise click.UsageError(
                f"--set {name}: no benchmark and no platform has such a parameter; perhaps {', '.join(near)}?"
            )
        # JUBE makes a workpackage for each of several values with commas between.
        if name in numbers and not re.fullmatch(r"([0-9]+(,[0-9]+)*)?", value):
            raise click.UsageError(f"--set {word}: {name} is a whole number ({known[name]} explains it)")
        variables[f"NPC_{name.upper()}"] = value
    return variables


def paths_from_here(environment: Mapping[str, str]) -> dict[str, str]:
    """The environment with the files and folders among its settings as seen from where the user stands,
    because JUBE and the jobs stand elsewhere."""
    return {
        name: ",".join(str(Path(path).absolute()) if path else "" for path in value.split(","))
        if _PATH_SETTING.fullmatch(name)
        else value
        for name, value in environment.items()
    }


def platform_folder(home: Path, name: str) -> Path:
    """The folder of a platform: its name below ``platforms/``, or any folder with a ``platform.xml``."""
    for folder in (home / "platforms" / name, Path(name)):
        if (folder / "platform.xml").exists():
            return folder.resolve()
    known = sorted(path.parent.name for path in (home / "platforms").glob("*/platform.xml"))
    raise click.UsageError(
        f"--platform {name}: no such platform; there are {', '.join(known)}, or name a folder"
    )


def benchmark_file(home: Path, name: str) -> Path:
    """The JUBE file of one benchmark: its folder's name in ``benchmarks/``, or any file."""
    for file in (home / "benchmarks" / name / "benchmark.xml", Path(name)):
        if file.is_file():
            return file.resolve()
    known = sorted(path.parent.name for path in (home / "benchmarks").glob("*/benchmark.xml"))
    raise click.UsageError(
        f"--benchmark {name}: no such benchmark; there are {', '.join(known)}, or name a JUBE file"
    )


@contextlib.contextmanager
def only_one(outpath: Path) -> Iterator[None]:
    """Holds the lock of `outpath`: two characterisations of one machine would measure each other."""
    with contextlib.ExitStack() as held:
        try:
            held.enter_context(locks.only_one(outpath / LOCK))
        except locks.Held as who:
            raise click.ClickException(
                f"another characterisation is running in {outpath} ({who}): the two would measure each other"
            ) from None
        yield


def next_id(outpath: Path) -> int:
    """The number that JUBE gives to the next run in `outpath`."""
    numbers = [int(path.name) for path in outpath.glob("[0-9]*") if path.name.isdigit()]
    return max(numbers, default=-1) + 1


def run_jube(
    words: Sequence[str],
    env: Mapping[str, str],
    home: Path,
    run: Path,
    log: IO[bytes],
    stop: Stop,
    display: Display,
) -> None:
    """``jube run`` to its end, or until a stop has ended it; nobody else has JUBE work on `run` meanwhile."""
    with contextlib.ExitStack() as held:
        locked = False

        def tick() -> None:
            nonlocal locked
            display.show(rows_of(run))
            if not locked and run.is_dir():
                with contextlib.suppress(locks.Held):  # who looked in just now
                    held.enter_context(locks.only_one(run / jube.LOCK))
                    locked = True

        jube.call(words, cwd=home, env=env, log=log, stop=stop, tick=tick)
        display.show(rows_of(run))


def step(home: Path, *words: str) -> int:
    """Run one of NPC's own commands in a process of its own, so that its failure costs nothing else."""
    return subprocess.run([sys.executable, "-m", "npc", *words], cwd=home).returncode


def measure_and_draw(
    home: Path,
    file: Path,
    platform: Path,
    tags: Sequence[str],
    outpath: Path,
    env: Mapping[str, str],
    patience: Patience,
    as_json: bool,
) -> int:
    """One characterisation from its beginning to its picture; its exit code."""
    number = next_id(outpath)
    run = outpath / f"{number:06d}"
    begun = time.monotonic()
    ending = _run_and_wait(home, file, platform, tags, run, env, patience)
    workpackages = read_workpackages(run, WRITING_S)
    if not isinstance(ending, signal.Signals):
        for verb in ("analyse", "result"):
            subprocess.run(
                ["jube", verb, str(outpath), "--id", str(number)], cwd=home, env=env, capture_output=True
            )
    step(home, "environment", "--output", str(run / "environment.json"))
    step(home, "collect", str(run))
    records = read_run(run) if (run / RECORDS).exists() else []
    for each in workpackages:
        if each.failed:
            click.echo(f"{each.name}: {_how_it_failed(each, records)}", err=True)
    drawn = 0
    if not _unavailable(records):
        drawn = step(home, "roofline", str(run), *(["--json"] if as_json else []))
    if not as_json:
        click.echo(f"run: {run}   {time.monotonic() - begun:.0f} s")
        if records:
            click.echo(f"next: npc report {shlex.quote(str(run))}   everything on one page")
    goes_on = any(each.is_open and each.batch_job() for each in workpackages)
    later = f"; its jobs go on: npc wait {run}; npc collect {run}; npc roofline {run}" if goes_on else ""
    if isinstance(ending, signal.Signals):
        click.echo(f"stopped: what had been measured is collected{later}", err=True)
        return 128 + ending
    if ending is Ending.GAVE_UP:
        click.echo(f"not ended by the limit: what had been measured is collected{later}", err=True)
        return EXIT_UNFINISHED
    return exit_code(run, drawn)


def _run_and_wait(
    home: Path,
    file: Path,
    platform: Path,
    tags: Sequence[str],
    run: Path,
    env: Mapping[str, str],
    patience: Patience,
) -> Ending | signal.Signals:
    """Make the run and wait for its jobs; why that is over. Raises click.ClickException if there is none."""
    outpath, number = run.parent, int(run.name)
    words = ["run", str(file), "--hide-animation", "--outpath", str(outpath), "--id", str(number)]
    words += ["--include-path", str(platform)]
    if tags:
        words += ["--tag", *tags]
    log_path = outpath / f"jube-{number:06d}.log"
    display = Display()
    ending = Ending.ALL_ENDED
    with Stop().listening() as stop:
        try:
            with log_path.open("wb") as log:
                run_jube(words, env, home, run, log, stop, display)
            if not (run / WORKPACKAGES).exists():
                if stop.number:
                    click.echo(f"stopped before anything was measured ({log_path})", err=True)
                    sys.exit(128 + stop.number)
                tail = "\n".join(log_path.read_text(errors="replace").splitlines()[-5:])
                raise click.ClickException(f"JUBE started nothing ({log_path}); its last words:\n{tail}")
            log_path.replace(run / LOG)
            workpackages = read_workpackages(run)
            if not workpackages and not stop.number:
                raise click.ClickException(f"{file.name} has no benchmark with the tag {' or '.join(tags)}")
            if any(each.is_open for each in workpackages) and not stop.number:
                ending, _ = wait_for(run, patience, env, stop, display)
        except FileNotFoundError as error:
            if not run.exists():
                log_path.unlink()
            raise click.ClickException(missing(error)) from None
        except NoRun as error:
            raise click.ClickException(str(error)) from None
        finally:
            display.close()
        return signal.Signals(stop.number) if stop.number else ending


def exit_code(run: Path, drawn: int) -> int:
    """The verdict on a run whose jobs have ended: see the command's help."""
    records = read_run(run) if (run / RECORDS).exists() else []
    if _unavailable(records):
        return 0
    if drawn or not any(record.ok for record in records):
        return EXIT_NOTHING
    bad = [record for record in records if not record.ok and not _expected(record)]
    return EXIT_PARTLY if bad else 0


def _unavailable(records: Sequence[Record]) -> bool:
    """Whether nothing of what was asked for can be had here: a machine without RDMA is no failed run."""
    return bool(records) and all(record.status.startswith("unavailable: ") for record in records)


def _how_it_failed(workpackage: Workpackage, records: Sequence[Record]) -> str:
    """What to say of a workpackage that JUBE saw fail."""
    own = [record for record in records if record.raw.partition("/")[0] == workpackage.folder.name]
    if _unavailable(own):
        return own[0].status
    made, planned, _ = workpackage.progress()
    return f"failed after {made} of {planned} launches" if planned else "failed before any launch"


def _expected(record: Record) -> bool:
    """Whether a record without use is no failure of the run: a tool that cannot be had here, or the sender's
    count of what UDP lost, beside which the receiver's stands."""
    lost = record.status.startswith("invalid: ") and record.params.get("side") == "send"
    return lost or record.status.startswith("unavailable: ")
