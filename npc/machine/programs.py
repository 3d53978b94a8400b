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

``npc program study`` and ``npc advise --try`` write it where the interval shows that it helps; ``npc plan``
and ``npc advise`` read it. A newer finding about the same program, nodes, ranks and kind of setting takes the
place of an older one that npc wrote; all else in the file stays as it is, comments too. Tables that somebody
wrote by hand need program and setting alone, and npc never changes them.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import msgspec

from npc import locks
from npc.files import InvalidFile, parse_toml, read_text, valid, write_whole
from npc.machine.fabric import short_name
from npc.machine.platform import PLATFORMS, find_platform
from npc.places import home, workplace
from npc.records.units import plural

PROGRAMS_FILE: Final = "programs.toml"
#: What `BestSetting.by` begins with in what npc wrote.
_OURS: Final = "npc "
_HEAD: Final = """\
# What was found best for programs on this platform (npc/machine/programs.py explains every key). npc program
# study and npc advise --try add to it and renew what they wrote; your own lines stay as they are.
"""
_LOCK: Final = ".programs.lock"
_PATIENCE_S: Final = 10.0
_TABLE: Final = "[[setting]]"
#: A line that begins a table.
_BEGINS: Final = re.compile(r"\s*\[")


class BestSetting(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A setting that made a program `times` as fast as `against` on a platform, with the interval of that.

    ranks: of all nodes together; 0, as 0 nodes, where it is not about a number. variables: of the environment
    that make the setting; what else it takes stands in its words.
    """

    program: str
    setting: str
    nodes: int = 0
    ranks: int = 0
    variables: dict[str, str] = {}
    times: float | None = None
    low: float | None = None
    high: float | None = None
    against: str = ""
    time: str = ""
    hosts: tuple[str, ...] = ()
    by: str = ""
    rule: str = ""
    run: str = ""

    @property
    def subject(self) -> tuple[str, int, int, str, tuple[str, ...]]:
        """What it is about: of two with the same one, the newer one counts."""
        return self.program, self.nodes, self.ranks, self.rule, tuple(sorted(self.variables))

    @property
    def words(self) -> str:
        """The setting, what it brought, and where that is from."""
        counts = [(self.ranks, "rank"), (self.nodes, "node")]
        where = " on ".join(plural(number, word) for number, word in counts if number)
        of = f"{self.program}, {where}" if where else self.program
        brought = f": {self.times:.3g} times as fast as {self.against}" if self.times else ""
        if brought and self.low and self.high:
            brought += f" [{self.low:.3g}, {self.high:.3g}]"
        origin = ", ".join(filter(None, (self.by or "by hand", self.time[:10], self.run)))
        return f"{of}: {self.setting}{brought} ({origin})"


class _ProgramsFile(msgspec.Struct):
    """Other tables of the file are somebody's own."""

    setting: tuple[BestSetting, ...] = ()


def read_programs(folder: Path) -> tuple[BestSetting, ...]:
    """What a platform's folder remembers, in the order of the file; none without one.

    Raises OSError, and `npc.files.InvalidFile` for a file that is none.
    """
    path = folder / PROGRAMS_FILE
    try:
        text = read_text(path, "replace")
    except FileNotFoundError:
        return ()
    return _decode(path, text)


def remembered(platform: str) -> tuple[BestSetting, ...]:
    """What a platform remembers, by its name or its folder's path; of ``localhost``, which any machine is,
    what was found on this one. Raises OSError, `npc.files.InvalidFile`."""
    folder = _folder(platform)
    if folder is None:
        return ()
    own = _own(folder)
    settings = (*(read_programs(folder) if own != folder else ()), *read_programs(own))
    if folder.name != "localhost":
        return settings
    here = short_name(os.uname().nodename)
    return tuple(
        setting for setting in settings if not setting.hosts or here in map(short_name, setting.hosts)
    )


def keep(platform: str, setting: BestSetting, instead: Path) -> str:
    """Remember a finding in the folder of a platform (its name or its folder's path), or where that cannot be
    written in the folder `instead`; a sentence that says where. Raises OSError where neither can be."""
    folder = _folder(platform)
    try:
        if folder is None:
            raise OSError(f"there is no platform {platform} here")
        own = _own(folder)
        own.mkdir(parents=True, exist_ok=True)
        remember(own, setting)
        return f"Remembered: {setting.words}, in {own / PROGRAMS_FILE}."
    except (OSError, locks.LockHeld, InvalidFile) as error:
        why = error.strerror or str(error) if isinstance(error, OSError) else str(error)
    remember(instead, setting)
    return f"Remembered in {instead / PROGRAMS_FILE}, not for the platform ({why}): {setting.words}."


def _folder(platform: str) -> Path | None:
    """A platform's folder; one that is named by its path needs no nominal limits."""
    if "/" in platform and Path(platform).is_dir():
        return Path(platform)
    file = find_platform(platform)
    return file.parent if file else None


def _own(folder: Path) -> Path:
    """Where a platform's programs are remembered: in its folder; for one that came with an NPC whose
    workplace is elsewhere, in the workplace's."""
    came_with_it = workplace() != home() and home() in folder.parents
    return workplace() / PLATFORMS / folder.name if came_with_it else folder


def remember(folder: Path, setting: BestSetting) -> None:
    """Write a finding into a platform's folder, in place of npc's own older one.

    Raises OSError where the folder cannot be written, `npc.locks.LockHeld`, and `npc.files.InvalidFile` for a
    file that is none; then it stays as it was.
    """
    path = folder / PROGRAMS_FILE
    with locks.only_one(folder / _LOCK, wait_s=_PATIENCE_S):
        try:
            before = read_text(path)
        except FileNotFoundError:
            before = _HEAD
        _decode(path, before)
        others = "".join(_without(before, setting)).rstrip("\n")
        text = f"{others}\n\n{_block(setting)}"
        _decode(path, text)
        write_whole(path, text)


def _decode(path: Path, text: str) -> tuple[BestSetting, ...]:
    with valid(path):
        return parse_toml(text, _ProgramsFile).setting


def _without(text: str, setting: BestSetting) -> Iterator[str]:
    """The lines but for npc's own keys about the same subject. Comments among them stay."""
    table: list[str] = []
    for line in [*text.splitlines(keepends=True), ""]:
        if _BEGINS.match(line) or not line:
            older = _is_older(table, setting)
            yield from (row for row in table if not older or row.lstrip().startswith("#"))
            table = []
        table.append(line)


def _is_older(table: Sequence[str], setting: BestSetting) -> bool:
    if not table or table[0].strip() != _TABLE:
        return False
    try:
        (known,) = parse_toml("".join(table), _ProgramsFile).setting
    except ValueError:  # an array over several lines: NPC writes none
        return False
    return known.by.startswith(_OURS) and known.subject == setting.subject


def _block(setting: BestSetting) -> str:
    """A table of the file, without what is not known."""
    lines = [_TABLE]
    for name, value in msgspec.structs.asdict(setting).items():
        if isinstance(value, dict) and value:
            inside = ", ".join(f"{_text(key)} = {_text(text)}" for key, text in value.items())
            lines.append(f"{name} = {{ {inside} }}")
        elif value:
            lines.append(f"{name} = {_text(value)}")
    return "\n".join(lines) + "\n"


def _text(value: object) -> str:
    """Texts, numbers and arrays of TOML are as JSON has them."""
    return msgspec.json.encode(value).decode()
