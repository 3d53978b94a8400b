"""The files of a history, as far as everybody who reads them has to know.

``history/PLATFORM/2026-11.csv`` holds the records measured in November 2026, UTC, one line each, as in
``records.csv``; ``2026-11.2.csv`` those of the same month under another schema.
`npc.records.history` writes them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Final

from npc.files import read_lines
from npc.records.record import COLUMNS, OK
from npc.records.series import REMEASURED as REMEASURED
from npc.records.units import METRICS

#: The journal of the nights beside them, which `cron.journal` writes: a JSON object a line.
JOURNAL: Final = "nights.jsonl"
#: What a column means that a file of another schema does not have; ``unit`` follows from the metric.
DEFAULTS: Final[Mapping[str, str]] = MappingProxyType(
    {**dict.fromkeys(COLUMNS, ""), "nodes": "1", "sample": "0", "status": OK}
)

_MONTH: Final = re.compile(r"\d{4}-\d{2}(\.\d+)?\.csv")


def months(folder: Path) -> list[Path]:
    """The files of a platform's history, the oldest first; none where there is no such folder."""
    if not folder.is_dir():
        return []
    return sorted(path for path in folder.iterdir() if _MONTH.fullmatch(path.name))


def raw_folders(folder: Path) -> dict[str, Path]:
    """By night, where its raw files were put, by the journal of a platform's history; pruned ones are gone.

    The column ``raw`` is relative to it.
    """
    lines = (line for line in read_lines(folder / JOURNAL) if isinstance(line, dict))
    named = ((line.get("night"), line.get("folder")) for line in lines)
    return {night: Path(runs) for night, runs in named if isinstance(night, str) and isinstance(runs, str)}


def completed(header: Sequence[str], cells: Sequence[str]) -> dict[str, str]:
    """A row with the columns of this schema, in their order, whatever the file has."""
    given = dict(zip(header, cells, strict=False))
    if tuple(given) == COLUMNS and given["unit"]:
        return given  # nearly all
    row = {name: given.get(name, DEFAULTS[name]) for name in COLUMNS}
    if not row["unit"] and row["metric"] in METRICS:
        row["unit"] = METRICS[row["metric"]].unit
    return row
