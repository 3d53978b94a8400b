"""What was shown to be the best is kept for the platform, in its ``programs.toml`` (`npc.machine.programs`).

A newer finding about the same program, nodes, ranks and kind of setting takes the place of an older one of
NPC's; all else in the file stays as it is, comments too.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

import msgspec

from npc import locks
from npc.files import InvalidFile, parse_toml, read_text, valid, write_whole
from npc.machine.programs import PROGRAMS_FILE, BestSetting, ProgramsFile, folder_of, own_folder
from npc.observe.study.judgement import placements_of, tied
from npc.observe.study.records import Condition, Placement, Study
from npc.records.launch import now
from npc.records.run import read_run

#: What `BestSetting.by` begins with in what NPC wrote.
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


def keep_best(study: Study, folder: Path) -> Iterator[str]:
    """Remember what is best on each number of nodes; a sentence for each that says where.

    Raises OSError where neither the platform's folder nor the study's can be written.
    """
    hosts = sorted({host for record in read_run(folder) for host in record.hosts})
    for setting in best_of(study, folder, tuple(hosts)):
        yield keep(study.platform_folder or study.platform, setting, folder)


def best_of(study: Study, folder: Path, hosts: tuple[str, ...] = ()) -> Iterator[BestSetting]:
    """The best placement on each number of nodes, where it is told apart from all others that were tried."""
    for nodes in sorted({condition.nodes for condition in study.conditions}):
        usual = tuple(
            condition for condition in study.conditions if condition.nodes == nodes and condition.usual
        )
        order = placements_of(replace(study, conditions=usual))
        if len(order) < 2 or tied(order):
            continue
        known = {setting.name: setting for setting in usual}
        best = known[order[0].condition]
        other = _against(best, order, known)
        low, high = (None if end is None else 1 + end for end in (other.loses_low, other.loses_high))
        ranks = {setting.ranks for setting in usual}
        yield BestSetting(
            program=study.program,
            setting=best.name,
            nodes=nodes,
            ranks=best.ranks if len(ranks) == 1 else 0,
            variables=dict(best.variables),
            times=1 + other.loses,
            low=low,
            high=high,
            against=other.condition,
            time=now(),
            hosts=hosts,
            by="npc program study",
            run=str(folder.absolute()),
        )


def _against(best: Condition, order: tuple[Placement, ...], known: dict[str, Condition]) -> Placement:
    """What one has without choosing: the launcher's own binding of as many ranks and threads; where that was
    not tried the second best."""
    for placement in order[1:]:
        other = known[placement.condition]
        same = (other.ranks, other.threads) == (best.ranks, best.threads)
        if same and not other.binding and not other.variables:
            return placement
    return order[1]


# --- the file --------------------------------------------------------------------------------------------


def keep(platform: str, setting: BestSetting, instead: Path) -> str:
    """Remember a finding in the folder of a platform (its name or its folder's path), or where that cannot be
    written in the folder `instead`; a sentence that says where. Raises OSError where neither can be."""
    folder = folder_of(platform)
    try:
        if folder is None:
            raise OSError(f"there is no platform {platform} here")
        own = own_folder(folder)
        own.mkdir(parents=True, exist_ok=True)
        remember(own, setting)
        return f"Remembered: {setting.words}, in {own / PROGRAMS_FILE}."
    except (OSError, locks.LockHeld, InvalidFile) as error:
        why = error.strerror or str(error) if isinstance(error, OSError) else str(error)
    remember(instead, setting)
    return f"Remembered in {instead / PROGRAMS_FILE}, not for the platform ({why}): {setting.words}."


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
        _check(path, before)
        others = "".join(_without(before, setting)).rstrip("\n")
        text = f"{others}\n\n{_block(setting)}"
        _check(path, text)
        write_whole(path, text)


def _check(path: Path, text: str) -> None:
    with valid(path):
        parse_toml(text, ProgramsFile)


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
        (known,) = parse_toml("".join(table), ProgramsFile).setting
    except ValueError:  # an array over several lines: NPC writes none
        return False
    return known.by.startswith(_OURS) and _subject(known) == _subject(setting)


def _subject(setting: BestSetting) -> tuple[object, ...]:
    """What it is about: of two with the same one, the newer one counts."""
    return setting.program, setting.nodes, setting.ranks, setting.rule, sorted(setting.variables)


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
