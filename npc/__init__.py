"""NPC, the Network Performance Collector: the record, its units, its statistics, and the command line."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from npc.version import VERSION

if TYPE_CHECKING:
    from npc.records.reading import Reading
    from npc.records.record import InvalidRecord, Record
    from npc.records.run import read_run

__all__ = ["InvalidRecord", "Reading", "Record", "read_run"]
__version__ = VERSION


def __getattr__(name: str) -> object:
    """The names above, loaded when they are asked for: `npc CMD --help` seldom needs them."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = {"read_run": "npc.records.run", "Reading": "npc.records.reading"}.get(name, "npc.records.record")
    return getattr(importlib.import_module(module), name)
