"""What a night says, written where people and machines look for it.

In the history's folder: ``verdicts/NIGHT.json`` of every night; of the last one ``verdict.json``,
``verdict.xml`` (JUnit) and ``verdict.prom`` (Prometheus). Each file is whole or as it was.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from npc.cron.outputs import junit
from npc.cron.prometheus import textfile
from npc.cron.verdict import NightVerdict
from npc.files import write_whole
from npc.records.verdicts import NightDocument, PairMatrix, write_night

LAST: Final = "verdict"


def write_verdict(
    folder: Path,
    night: NightVerdict,
    notes: Sequence[str],
    matrix: PairMatrix | None = None,
    textfiles: Path | None = None,
) -> NightDocument:
    """Write the night's files into the history's folder; what ``verdict.json`` says. Raises OSError.

    textfiles: the folder of node_exporter's textfile collector, where ``npc-PLATFORM.prom`` is written, too.
    """
    document = night.document(notes, matrix)
    metrics = textfile(night, time.time())
    write_night(folder, document)
    write_whole(folder / f"{LAST}.xml", junit(night, notes))
    write_whole(folder / f"{LAST}.prom", metrics)
    if textfiles:
        write_whole(textfiles / f"npc-{night.platform}.prom", metrics)
    return document
