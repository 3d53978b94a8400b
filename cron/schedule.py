"""When nights run: a line for cron, one for Slurm's scrontab, or a systemd timer; and taking it away again.

All three start one script, ``nightly.sh`` in the history's folder, with the environment that the command had
when it was installed: cron knows next to no PATH, and a job of scrontab has variables of Slurm that would
change the jobs of the night.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import time
from pathlib import Path
from typing import Final

import click

from npc.one_line import one_line
from npc.places import WORKPLACE
from npc.template import filled_in

SCRIPT: Final = "nightly.sh"
_TEMPLATES: Final = Path(__file__).parent
#: Variables that decide which tools, libraries and modules are found.
_PASSED_ON: Final = ("PATH", "LD_LIBRARY_PATH", "MODULEPATH", "MODULESHOME", "SLURM_CONF", "LANG")
_SIGN: Final = "npc night run"


class NotInstalled(click.ClickException):
    """It could not be installed or read; the message says why and what to do instead."""


@dataclass(frozen=True, slots=True)
class Crontab:
    """A table of cron's form: the program that shows and takes it."""

    #: The command to call: ``crontab`` or ``scrontab``.
    program: str

    def read(self) -> str:
        """What is in it; empty if there is none. Raises `NotInstalled`."""
        if shutil.which(self.program) is None:
            raise NotInstalled(f"{self.program} is not installed here")
        shown = _run(self.program, "-l")
        if shown.returncode == 0:
            return shown.stdout
        printed = (shown.stderr + shown.stdout).strip()
        if re.search(r"no crontab for|No such file", printed):
            return ""
        raise NotInstalled(
            f"{self.program} -l: {printed.splitlines()[-1] if printed else 'fails without a word'}"
        )

    def write(self, text: str) -> None:
        """Put `text` in the place of what is in it, and make sure that it is there. Raises `NotInstalled`."""
        with tempfile.NamedTemporaryFile("w", encoding="utf-8") as file:  # not every scrontab knows "-"
            file.write(text)
            file.flush()
            given = _run(self.program, file.name)
        printed = (given.stderr + given.stdout).strip()
        if given.returncode or blocks(self.read()) != blocks(text):
            raise NotInstalled(f"{self.program} did not take it: {printed or 'without a word'}")


def _run(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        words, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=60
    )


CRONTAB: Final = Crontab("crontab")
SCRONTAB: Final = Crontab("scrontab")


def script_text(home: Path, words: Sequence[str]) -> str:
    """The script that begins a night: ``npc night run WORDS`` in the folder `home`, in this environment."""
    variables = {name: os.environ[name] for name in _PASSED_ON if os.environ.get(name)}
    if os.environ.get(WORKPLACE):
        variables[WORKPLACE] = str(home)
    own = (home / ".venv/bin/npc", Path(sys.executable).with_name("npc"))
    program = next((str(npc) for npc in own if npc.exists()), shutil.which("npc") or "npc")
    return filled_in(
        _TEMPLATES / "nightly.sh.in",
        variables=variables,
        home=home,
        command=[program, "night", "run", *words],
    )


def cron_block(name: str, at: Sequence[time], script: Path) -> str:
    """The lines for a crontab, one for each time of day. Raises `NotOneLine`, and `NotInstalled` for a path
    that not every cron reads alike."""
    if "\\" in str(script):  # before others than % some crons take it away, some leave it
        raise _unfit(script, "cron", "backslashes")
    command = shlex.quote(str(script)).replace("%", r"\%")  # an unescaped % is cron's line end
    return _block(name, [f"{moment.minute} {moment.hour} * * * {command}" for moment in at])


def scron_block(name: str, at: Sequence[time], script: Path, limit_s: float) -> str:
    """The lines for a scrontab: before each time of day what its job needs, as the options are those of the
    next line only (scrontab(1)): time for a night and its end, one core, a file for what it prints. Raises
    `NotOneLine`, and `NotInstalled` for a path that cannot stand there."""
    log = script.with_name("nightly.log")
    if re.search(r"[\s\\%\"'#]", str(log)):  # options are split and unquoted, and % is a file name's pattern
        raise _unfit(script, "scrontab", "blanks, quotes, # or %")
    minutes = int(limit_s // 60) + 10
    options = [
        f"--job-name=npc-nightly-{name}",
        f"--time={minutes // 60:02d}:{minutes % 60:02d}:00",
        "--ntasks=1",
        f"--output={log}",
        "--open-mode=append",
    ]
    lines = list[str]()
    for moment in at:
        lines += [f"#SCRON {option}" for option in options]
        lines += [f"{moment.minute} {moment.hour} * * * {shlex.quote(str(script))}"]
    return _block(name, lines)


def _block(name: str, lines: Sequence[str]) -> str:
    return "".join(
        f"{one_line(line)}\n" for line in (f"# >>> {_SIGN} {name}", *lines, f"# <<< {_SIGN} {name}")
    )


def _unfit(script: Path, table: str, what: str) -> NotInstalled:
    return NotInstalled(
        f"{one_line(str(script))}: {table} takes no path with {what}: choose another --history"
    )


def systemd_units(name: str, at: Sequence[time], script: Path, limit_s: float) -> dict[str, str]:
    """The texts of a service and its timer, by file name (systemd.service(5), systemd.timer(5)). Raises
    `NotOneLine`, and `NotInstalled` for a name that no unit may have."""
    if not re.fullmatch(r"[A-Za-z0-9:_.-]+", name):  # systemd.unit(5)
        raise NotInstalled(
            f"{name!r}: systemd takes letters, digits and :-_. in a unit's name: rename the platform"
        )
    # of an argument systemd resolves specifiers, quotes and variables (systemd.syntax(7)); not of a program
    quoted = str(script).replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%").replace("$", "$$")
    return {
        f"npc-nightly-{name}.{kind}": filled_in(
            _TEMPLATES / f"nightly.{kind}.in", name=name, at=at, script=quoted, limit_s=limit_s
        )
        for kind in ("service", "timer")
    }


def blocks(table: str) -> dict[str, str]:
    """Our blocks in a table: name of the platform → its lines."""
    matches = re.finditer(rf"^# >>> {_SIGN} (.+)\n((?:.*\n)*?)# <<< {_SIGN} \1(?:\n|\Z)", table, re.MULTILINE)
    return {match[1]: match[2] for match in matches}


def with_block(table: str, name: str, block: str) -> str:
    """The table with the block of `name` in it, and all else as it was."""
    rest = without_block(table, name)
    return rest + ("\n" if rest and not rest.endswith("\n") else "") + block


def without_block(table: str, name: str) -> str:
    """The table without the block of `name`, and all else as it was."""
    sign = re.escape(name)
    return re.sub(
        rf"^# >>> {_SIGN} {sign}\n(?:.*\n)*?# <<< {_SIGN} {sign}(?:\n|\Z)", "", table, flags=re.MULTILINE
    )
