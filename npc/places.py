"""Where NPC's own files are, and where it writes: one folder in a checkout, two for an NPC from a wheel.

A wheel has all that a checkout has beside the Python packages in ``npc/suite``, and nothing is written there.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import sys
from pathlib import Path
from typing import Final

from npc.errors import CommandFailed

#: As npc/setup.sh refuses them; the colon parts the folders of a PATH.
_READ_BY_SHELLS: Final = re.compile(r"""[\s"'`$\\&;|<>()*?\[\]{}#!:]""")
_ABOVE: Final = Path(__file__).resolve().parent.parent
#: Names the `workplace`, for a checkout that several share or that cannot be written.
WORKPLACE: Final = "NPC_WORKPLACE"


def is_checkout() -> bool:
    """Whether this NPC is a checkout, not what a wheel has installed."""
    return (_ABOVE / "jube.yml").exists()


def home() -> Path:
    """The folder with ``jube.yml``, ``benchmarks``, ``platforms`` and ``docs/example``, whether it is there
    or not."""
    return _ABOVE if is_checkout() else _ABOVE / "npc" / "suite"


def suite() -> Path:
    """`home`, from which benchmarks run.

    Raises CommandFailed where NPC was installed without it, and for a path that job scripts, which
    name programs without quotes, could not hold.
    """
    folder = home()
    if _READ_BY_SHELLS.search(str(folder)):
        raise CommandFailed(
            f"NPC's path has a space or another character that shells read: move it ({folder})"
        )
    if not (folder / "jube.yml").exists():
        raise CommandFailed(
            f"{folder} has no jube.yml: this NPC was installed without its benchmarks; install its wheel anew"
        )
    return folder


def workplace() -> Path:
    """Where runs, histories and a user's own platforms are: what ``NPC_WORKPLACE`` names, else the checkout,
    else the present folder."""
    named = os.environ.get(WORKPLACE)
    if named:
        return Path(named).resolve()
    return _ABOVE if is_checkout() else Path.cwd()


def typed(path: Path) -> str:
    """A path as one types it in the `workplace`."""
    return str(path.relative_to(workplace()) if path.is_relative_to(workplace()) else path)


def shown(path: Path) -> str:
    """A path as one would type it here: relative to the current folder if it is below it."""
    path = Path(os.path.normpath(path.absolute()))
    here = Path.cwd()
    return str(path.relative_to(here) if path.is_relative_to(here) else path)


def own(command: str) -> str:
    """One of NPC's commands as one types it here: by its path where the `PATH` does not have it."""
    path = Path(sys.prefix) / "bin" / command
    return command if shutil.which(command) or not path.exists() else shlex.quote(shown(path))


def shared() -> Path:
    """Where this installation keeps what belongs to none of its runs: locks."""
    return _ABOVE / "runs" if is_checkout() else Path(sys.prefix) / "share/npc/locks"
