"""The captured outputs under ``tests/data``: which there are, and what parser reads them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import parsers
from npc.record import Reading

DATA: Final = Path(__file__).parent / "data"
#: Folder → parser.
FOLDERS: Final = {
    "qperf": "qperf",
    "qperf-rdma": "qperf",
    "sockperf": "sockperf",
    "osu": "osu",
    "osu-mpi4py": "osu",
    "stream": "stream",
    "hpcc": "hpcc",
    "himeno": "himeno",
    "hpcg": "hpcg",
    "likwid": "likwid",
    "iperf3": "iperf3",
    "perftest": "perftest",
    "imb": "imb",
    "nuttcp": "nuttcp",
    "netpipe": "netpipe",
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


def text_of(folder: str, name: str) -> str:
    """A captured output without the recorder's first and last line."""
    lines = (DATA / folder / name).read_text(encoding="utf-8").splitlines(keepends=True)
    return "".join(line for line in lines if not line.startswith("#@ "))


def as_json(reading: Reading) -> list[Any]:
    """A reading as `expected.json` has it: trailing fields that say nothing are left out."""
    fields: list[Any] = [*reading[:5], dict(reading.params), reading.tool_version]
    for empty in ("", {}, "ok"):
        if fields[-1] != empty:
            break
        fields.pop()
    return fields


def write_expected() -> None:
    """Write every `expected.json` anew. What changed is to be checked against the texts by eye."""
    for folder, tool in FOLDERS.items():
        blocks = []
        for path in outputs(folder):
            rows = ",\n  ".join(json.dumps(as_json(reading)) for reading in read(tool, path))
            blocks.append(f" {json.dumps(path.name)}: [" + (f"\n  {rows}\n ]" if rows else "]"))
        (DATA / folder / EXPECTED).write_text("{\n" + ",\n".join(blocks) + "\n}\n", encoding="utf-8")


if __name__ == "__main__":
    write_expected()
