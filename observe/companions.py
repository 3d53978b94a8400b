"""The companions there are, by the name that they have in a rank's file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from npc.records.memory_use import MEMORY

if TYPE_CHECKING:
    from npc.observe.options import Companion, ObservationOptions

#: Stacks of a rank, by perf.
HOTSPOTS: Final = "hotspots"
#: Probes of the kernel and of functions, by bpftrace.
PROBES: Final = "probes"


def companions_of(asked: ObservationOptions, folder: Path, name: str) -> dict[str, Companion]:
    """Those that were asked for. folder, name: of the rank's files, ``FOLDER/HOST.RANK.*``."""
    found: dict[str, Companion] = {}
    # each is imported only if asked for: this runs once for every rank
    if settings := asked.companions.get(HOTSPOTS):
        from npc.observe.hotspots.recorder import HotspotRecorder

        found[HOTSPOTS] = HotspotRecorder(folder, name, settings)
    if settings := asked.companions.get(PROBES):
        from npc.observe.probes.companion import RankProbes

        found[PROBES] = RankProbes(folder, name, settings)
    if settings := asked.companions.get(MEMORY):
        from npc.observe.memory.companion import RankMemoryTable

        found[MEMORY] = RankMemoryTable(folder, name, settings)
    return found
