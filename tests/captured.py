"""The captured outputs under ``tests/data``: which there are, and what parser reads them."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import astuple
from pathlib import Path
from typing import Any, Final

from npc import parsers
from npc.records.reading import Reading
from tests.paths import ROOT

DATA: Final = ROOT / "tests/data"
#: Folder → parser: the folder's name up to a hyphen, behind which a variant of the tool may be named.
FOLDERS: Final = {
    path.parent.name: path.parent.name.partition("-")[0]
    for path in sorted(DATA.glob("*/README.md"))
    if path.parent.name.partition("-")[0] in parsers.names()
}
EXPECTED: Final = "expected.json"


def outputs(folder: str) -> list[Path]:
    """The captured outputs of a folder, sorted."""
    return sorted(path for path in (DATA / folder).iterdir() if path.name not in (EXPECTED, "README.md"))


def all_outputs() -> Iterator[tuple[str, Path]]:
    """Every captured output with its parser's name."""
    for folder, tool in FOLDERS.items():
        for path in outputs(folder):
            yield tool, path


def read(tool: str, path: Path) -> list[Reading]:
    """The readings of a captured output."""
    return parsers.parse(tool, path.read_text(encoding="utf-8"))


def expected(folder: str) -> dict[str, list[list[Any]]]:
    """The readings of each captured output of a folder, as they were checked against its text."""
    found: dict[str, list[list[Any]]] = json.loads((DATA / folder / EXPECTED).read_text())
    return found


def text_of(folder: str, name: str) -> str:
    """A captured output without the recorder's first and last line."""
    lines = (DATA / folder / name).read_text(encoding="utf-8").splitlines(keepends=True)
    return "".join(line for line in lines if not line.startswith("#@ "))


def as_json(reading: Reading) -> list[Any]:
    """A reading as `expected.json` has it: trailing fields that say nothing are left out."""
    fields: list[Any] = [*astuple(reading)[:5], dict(reading.params), reading.tool_version]
    for empty in ("", {}, "ok"):
        if fields[-1] != empty:
            break
        fields.pop()
    return fields


def write_expected(*folders: str) -> None:
    """Write `expected.json` of all folders or some; check what changed against the texts by eye."""
    for folder in folders or FOLDERS:
        blocks = []
        for path in outputs(folder):
            rows = ",\n  ".join(json.dumps(as_json(reading)) for reading in read(FOLDERS[folder], path))
            blocks.append(f" {json.dumps(path.name)}: [" + (f"\n  {rows}\n ]" if rows else "]"))
        (DATA / folder / EXPECTED).write_text("{\n" + ",\n".join(blocks) + "\n}\n", encoding="utf-8")


def command_and_text(text: str) -> tuple[list[str], str]:
    """The recorded command line and the tool's own text."""
    first, _, rest = text.partition("\n")
    if not first.startswith("#@ cmd:"):
        return [], text
    return parsers.split_command(first.removeprefix("#@ cmd:")), rest


if __name__ == "__main__":
    write_expected(*sys.argv[1:])
