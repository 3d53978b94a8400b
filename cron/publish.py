"""What a night says, written where people and machines look for it.

In the history's folder: ``verdicts/NIGHT.json`` of every night; of the last one ``verdict.json``,
``verdict.xml`` (JUnit) and ``verdict.prom`` (Prometheus). Each file is whole or as it was.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from cron.matrix import Matrix
from cron.outputs import junit, textfile
from cron.verdict import Coverage, NightVerdict, Unmeasured
from npc.files import parse_json, write_whole

VERDICTS: Final = "verdicts"
LAST: Final = "verdict"


def last_coverage(folder: Path) -> list[str]:
    """For people: which nodes the last nights of a history measured, and which not, and why."""
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        told = parse_json((folder / f"{LAST}.json").read_bytes())["coverage"]
        unmeasured = tuple(Unmeasured(**each) for each in told.pop("unmeasured"))
        return Coverage(**told, unmeasured=unmeasured).lines()
    return []


def write_verdict(
    folder: Path,
    night: NightVerdict,
    notes: Sequence[str],
    matrix: Matrix | None = None,
    textfiles: Path | None = None,
) -> dict[str, Any]:
    """Write the night's files into the history's folder; what ``verdict.json`` says. Raises OSError.

    textfiles: the folder of node_exporter's textfile collector, where ``npc-PLATFORM.prom`` is written, too.
    """
    told = {**night.as_json(), "notes": list(notes), "pairs": asdict(matrix) if matrix else None}
    text = json.dumps(told, indent=1, ensure_ascii=False) + "\n"
    metrics = textfile(night, time.time())
    (folder / VERDICTS).mkdir(exist_ok=True)
    write_whole(folder / VERDICTS / f"{night.run}.json", text)
    write_whole(folder / f"{LAST}.json", text)
    write_whole(folder / f"{LAST}.xml", junit(night, notes))
    write_whole(folder / f"{LAST}.prom", metrics)
    if textfiles:
        write_whole(textfiles / f"npc-{night.platform}.prom", metrics)
    return told
