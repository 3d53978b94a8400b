"""NPC, the Network Performance Collector: the record, its units, its statistics, and the command line."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from npc.record import InvalidRecord, Reading, Record
    from npc.run import read_run

__all__ = ["InvalidRecord", "Reading", "Record", "read_run"]
__version__ = "0.1.0"


def __getattr__(name: str) -> object:
    """The names above, loaded when they are asked for: `npc CMD --help` seldom needs them."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from npc import record, run

    return getattr(run if name == "read_run" else record, name)
