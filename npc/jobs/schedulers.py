"""The batch systems that are known. One more: a module like `npc.jobs.pbs`, and its name here."""

from __future__ import annotations

from typing import Final

from npc.jobs import flux, grid_engine, pbs, slurm
from npc.jobs.scheduler import Scheduler

#: In the order in which the output of a submission is shown to them: the most telling words first.
KNOWN: Final[tuple[Scheduler, ...]] = (grid_engine, slurm, pbs, flux)
