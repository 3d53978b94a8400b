"""Pictures of a comparison: sweeps over message size and rooflines of all sides over each other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from npc.machine.platform import Platform
from npc.records.record import Record
from report.compare.sides import Side

if TYPE_CHECKING:
    from roofline.comparison import Sweep


def draw(sides: Sequence[Side], platforms: Mapping[str, Platform | None], folder: Path) -> list[Path]:
    """Write ``compare-sizes`` and ``compare-rooflines``, .png and .svg, where there is something to draw.

    platforms: nominal limits of each side, by its name. Makes `folder`; raises OSError.
    """
    from roofline.analyse import analyse
    from roofline.comparison import draw_sweeps
    from roofline.overlay import MOST, draw_overlay

    folder.mkdir(parents=True, exist_ok=True)
    title = " and ".join(side.name for side in sides)
    written = []
    for name in ("compare-sizes", "compare-rooflines"):
        paths = [folder / f"{name}.{suffix}" for suffix in ("png", "svg")]
        if name == "compare-sizes":
            drawn = draw_sweeps(list(sweeps_of(sides)), title, paths)
        else:
            rooflines = {
                side.name: analyse(_of_one_platform(side), platforms.get(side.name)) for side in sides[:MOST]
            }
            drawn = draw_overlay(rooflines, title, paths)
        written += paths if drawn else []
    return written


def sweeps_of(sides: Sequence[Side]) -> Iterator[Sweep]:
    """The sweeps of every side; a test has its colour, and each side (and MPI) its dashes."""
    from roofline.comparison import find_sweeps

    for side in sides:
        for sweep in find_sweeps([record for _, record in side.all_records()]):
            told = sweep.mpi == side.name  # --by params.mpi: the name ends with it already
            name = sweep.name if told else f"{sweep.name} · {side.name}"
            yield replace(sweep, name=name, mpi=f"{sweep.mpi} {side.name}")


def _of_one_platform(side: Side) -> list[Record]:
    records = [record for _, record in side.all_records()]
    return [record for record in records if record.platform == records[0].platform]
