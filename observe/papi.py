"""FLOP of a rank by PAPI, as the program itself counts them between the regions that it marks.

A program with PAPI's high-level interface (``PAPI_hl_region_begin``, ``PAPI_hl_region_end``) counts what
``PAPI_EVENTS`` names and writes ``papi_hl_output/rank_*.json`` below ``PAPI_OUTPUT_DIRECTORY`` when it ends
(PAPI_hl_region_begin(3)). Only the standard library, as in `npc.observe.rank`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from npc.files import parse_json, read_bytes

#: PAPI's presets (``PAPI_DP_OPS``) and native events (``skx::FP_ARITH:SCALAR_DOUBLE``); no group of LIKWID's.
EVENT: Final = re.compile(r"PAPI_\w+|[\w.-]+:[\w.:=-]+")
_OUTERMOST: Final = "-1"


class PapiCounter:
    """Lets a rank count `event`, and reads what it counted. `name` tells it from the other ranks."""

    def __init__(self, folder: Path, name: str, event: str) -> None:
        # A folder a rank: PAPI renames one that it finds. Of a name that nobody knows: PAPI follows links.
        self._folder = folder / f"{name}.{os.urandom(8).hex()}.papi"
        self._event = event

    def environment(self) -> dict[str, str]:
        """What the program's environment needs."""
        return {"PAPI_EVENTS": self._event, "PAPI_OUTPUT_DIRECTORY": str(self._folder)}

    def result(self) -> dict[str, float | str]:
        """Once the rank has ended: {"flop": what was counted}, or {"reason": why nothing was}."""
        try:
            counts = [
                int(region[self._event])
                for path in sorted(self._folder.rglob("*.json"))
                for region in _regions(parse_json(read_bytes(path)))
                if region["parent_region_id"] == _OUTERMOST  # the others are within one
            ]
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            return {"reason": f"PAPI's output in {self._folder} cannot be read: {error!r}"}
        if not counts:
            return {
                "reason": "the program left no output of PAPI's high-level interface: it needs regions "
                f"(PAPI_hl_region_begin), and a processor that counts {self._event} (papi_avail)"
            }
        return {"flop": float(sum(counts))}


def _regions(document: dict[str, Any]) -> Iterator[dict[str, str]]:
    """All regions of all threads."""
    for thread in document["threads"].values():
        yield from thread["regions"].values()
