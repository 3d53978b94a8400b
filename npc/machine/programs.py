"""What was found best for programs on a platform: ``platforms/NAME/programs.toml``, a table a setting.

::

    [[setting]]
    program = "himeno"
    nodes = 1
    ranks = 2
    setting = "2 ranks, binding core"          # in words
    variables = { OMP_PLACES = "cores" }       # of the environment; what else it takes stands in words
    times = 1.08                               # as fast as with …
    low = 1.05                                 # with the interval of that
    high = 1.11
    against = "2 ranks"
    time = "2026-11-23T11:20:00+01:00"
    hosts = ["n1"]
    by = "npc program study"                           # of npc advise --try also its rule
    run = "/home/me/study-himeno"

``npc plan`` and ``npc advise`` read it. Tables that somebody wrote by hand need program and setting alone.
What finds the best settings writes them here, too (``by`` begins with ``npc``).
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

import msgspec

from npc.files import parse_toml, read_text, valid
from npc.machine.fabric import short_name
from npc.machine.platform import PLATFORMS, find_platform
from npc.places import home, workplace
from npc.records.units import plural

PROGRAMS_FILE: Final = "programs.toml"


class BestSetting(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A setting that made a program faster on a platform, by how much, and where that is from."""

    #: Name of the program.
    program: str
    #: What to set, in words.
    setting: str
    #: How many nodes it was found on; 0 where it is not about a number of nodes.
    nodes: int = 0
    #: How many ranks on all these nodes together; 0 where it is not about a number of ranks.
    ranks: int = 0
    #: Variables of the environment that make the setting; what else it takes is in the words of `setting`.
    variables: dict[str, str] = {}
    #: How many times as fast as with `against`: 1.08 is 8 % faster; None where nobody measured it.
    times: float | None = None
    #: Lower end of the interval of `times`; None if not known.
    low: float | None = None
    #: Upper end of the interval of `times`; None if not known.
    high: float | None = None
    #: The setting that it is compared with, in words; empty if not known.
    against: str = ""
    #: When it was found, ISO 8601; empty if not known.
    time: str = ""
    #: Hosts that it was found on; empty if not known.
    hosts: tuple[str, ...] = ()
    #: The command that found it; empty for what somebody wrote by hand.
    by: str = ""
    #: The rule of advice that proposed it (``npc advise --try``); empty for other commands.
    rule: str = ""
    #: Folder of the measurement; empty if not known.
    run: str = ""

    @property
    def words(self) -> str:
        """The setting, what it brought, and who found it when."""
        counts = [(self.ranks, "rank"), (self.nodes, "node")]
        where = " on ".join(plural(number, word) for number, word in counts if number)
        of = f"{self.program}, {where}" if where else self.program
        brought = f": {self.times:.3g} times as fast as {self.against}" if self.times else ""
        if brought and self.low and self.high:
            brought += f" [{self.low:.3g}, {self.high:.3g}]"
        origin = ", ".join(filter(None, (self.by or "by hand", self.time[:10], self.run)))
        return f"{of}: {self.setting}{brought} ({origin})"


class ProgramsFile(msgspec.Struct):
    """What the file holds; other tables of it are somebody's own."""

    #: In the order of the file.
    setting: tuple[BestSetting, ...] = ()


def read_programs(folder: Path) -> tuple[BestSetting, ...]:
    """The settings in a platform's folder, in the order of the file; none without a file.

    Raises OSError, and `npc.files.InvalidFile` for a file that cannot be understood.
    """
    path = folder / PROGRAMS_FILE
    try:
        text = read_text(path, "replace")
    except FileNotFoundError:
        return ()
    with valid(path):
        return parse_toml(text, ProgramsFile).setting


def remembered(platform: str) -> tuple[BestSetting, ...]:
    """What a platform remembers, by its name or its folder's path; of ``localhost``, which any machine is,
    what was found on this one. Raises OSError, `npc.files.InvalidFile`."""
    folder = folder_of(platform)
    if folder is None:
        return ()
    own = own_folder(folder)
    settings = (*(read_programs(folder) if own != folder else ()), *read_programs(own))
    if folder.name != "localhost":
        return settings
    here = short_name(os.uname().nodename)
    return tuple(
        setting for setting in settings if not setting.hosts or here in map(short_name, setting.hosts)
    )


def folder_of(platform: str) -> Path | None:
    """A platform's folder; one that is named by its path needs no nominal limits."""
    if "/" in platform and Path(platform).is_dir():
        return Path(platform)
    file = find_platform(platform)
    return file.parent if file else None


def own_folder(folder: Path) -> Path:
    """Where a platform's programs are remembered: in its folder; for one that came with an NPC whose
    workplace is elsewhere, in the workplace's."""
    came_with_it = workplace() != home() and home() in folder.parents
    return workplace() / PLATFORMS / folder.name if came_with_it else folder
