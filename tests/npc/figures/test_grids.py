"""Grids of coloured cells: which colour a value has, and that print shows what the screen shows."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from npc.figures.grid import Grid, GridCell
from npc.figures.printed_grids import save_grids
from npc.figures.scale import RATIOS, SHADES, Scale, count_scale, linear_scale, ratio_scale
from npc.figures.svg import draw_grid


def a_grid(scale: Scale, values: list[float | None], filled: bool = False) -> Grid:
    """One row of 60 × 60 pixels a cell."""
    cells = tuple(GridCell(0, column, value, "") for column, value in enumerate(values))
    columns = tuple(f"c{number}" for number in range(len(values)))
    return Grid("g", "made", "", ("row",), columns, cells, scale, filled=filled, side=60.0)


def large_areas(path: Path) -> set[str]:
    """The colours (``#rrggbb``) that at least 5000 pixels of a picture have: cells, but no words."""
    from matplotlib import image

    pixels = (image.imread(path)[..., :3] * 255).round().astype(int).reshape(-1, 3)
    colours, counts = np.unique(pixels, axis=0, return_counts=True)
    return {"#{:02x}{:02x}{:02x}".format(*colour) for colour in colours[counts >= 5000]}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("scale", "values"),
    [
        (RATIOS, [0.5, 0.85, 1.0, 1.2, None]),
        (count_scale(30, "nights"), [0.0, 3.0, 12.0, 30.0]),
        (linear_scale([9.0], "s"), [0.0, 2.0, 5.0, 9.0]),
    ],
)
def test_a_printed_cell_has_the_colour_of_the_screen(
    scale: Scale, values: list[float | None], tmp_path: Path
) -> None:
    grid = a_grid(scale, values)
    save_grids([grid], tmp_path / "grid.png")
    shades = re.findall('class="cell ([a-z0-9]+)"', draw_grid(grid))
    assert len(shades) == len(values)
    assert large_areas(tmp_path / "grid.png") == {"#ffffff", *(SHADES[shade] for shade in shades)}


def test_a_title_that_is_longer_than_the_rows_are_high_is_whole() -> None:
    grid = replace(a_grid(RATIOS, [1.0]), row_title="node after it", side=26.0)
    svg = draw_grid(grid)
    height = float(re.findall(r'viewBox="0 0 \S+ (\S+)"', svg)[0])
    middle = float(re.findall(r"translate\(15 (\S+)\) rotate", svg)[0])
    half = 7 * len("node after it") / 2
    assert half <= middle <= height - half


def test_classes_of_ratios_are_as_fine_as_nearly_all_ratios_allow() -> None:
    def widths(ratios: list[float], finest: int = 0) -> tuple[float, float]:
        edges = ratio_scale(ratios, finest).edges
        return round(edges[0], 3), round(edges[-1], 3)

    assert widths([]) == (0.95, 1.05)
    assert widths([], finest=1) == (0.8, 1.25)
    assert widths([0.9, 1.0]) == (0.8, 1.25)
    assert widths([0.5, 1.0]) == (0.6, 1.6)
    assert widths([0.5, *[1.0] * 100]) == (0.95, 1.05), "one very bad node leaves the others' classes fine"
    assert ratio_scale([0.1, 9.0], finest=2).edges == RATIOS.edges


def test_maps_of_one_picture_have_one_scale() -> None:
    from npc.figures.allocation import Allocation, maps

    known = frozenset(("n1", "n2"))
    few, many = maps([Allocation("few", {"n1": 3}, known), Allocation("many", {"n1": 30, "n2": 3}, known)])
    shades = [grid.scale.shade(cell.value) for grid in (few, many) for cell in grid.cells]
    assert shades == ["n1", "n0", "n6", "n1"]
    assert [cell.label for cell in few.cells] == ["3", ""]
