"""Pictures of a comparison: sweeps over message size and rooflines of all sides over each other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from npc.report.compare.sides import Side
from npc.roofline.analyse import analyse
from npc.roofline.comparison import SweepLine, draw_sweeps, find_sweeps
from npc.roofline.overlay import MOST, draw_overlay
from npc.roofline.result import Roofline
from npc.validity.run import platform_of


def draw(sides: Sequence[Side], folder: Path) -> list[Path]:
    """Write ``compare-sizes`` and ``compare-rooflines``, .png and .svg, where there is something to draw.

    Makes `folder`. Raises OSError, and `npc.machine.platform.InvalidPlatform`.
    """
    rooflines = {side.name: _roofline(side) for side in sides[:MOST]}
    folder.mkdir(parents=True, exist_ok=True)
    title = " and ".join(side.name for side in sides)
    sizes, roofs = (
        [folder / f"{name}.{suffix}" for suffix in ("png", "svg")]
        for name in ("compare-sizes", "compare-rooflines")
    )
    written = sizes if draw_sweeps(list(sweeps_of(sides)), title, sizes) else []
    return written + (roofs if draw_overlay(rooflines, f"Rooflines of {title}", roofs) else [])


def sweeps_of(sides: Sequence[Side]) -> Iterator[SweepLine]:
    """The sweeps of every side; a test has its colour, and each side (and MPI) its dashes."""
    for side in sides:
        sweeps = find_sweeps([record for _, record in side.all_records()])
        several = len({sweep.mpi for sweep in sweeps} - {""}) > 1
        for sweep in sweeps:
            named_by_mpi = sweep.mpi == side.name  # --by params.mpi: the name ends with it already
            name = sweep.name if named_by_mpi else f"{sweep.name} · {side.name}"
            yield replace(sweep, name=name, mpi=f"{sweep.mpi} {side.name}" if several else side.name)


def _roofline(side: Side) -> Roofline:
    """That of a side's first platform."""
    records = [record for _, record in side.all_records()]
    of_one = [record for record in records if record.platform == records[0].platform]
    return analyse(of_one, platform_of(records))
