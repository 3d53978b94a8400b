"""The map of accesses by thread and page, as SVG; its thousands of cells are an image with a pixel for
each."""

from __future__ import annotations

import base64
import math
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from markupsafe import Markup

from npc.figures.chart import Trace
from npc.figures.scale import DEPTH_COLOURS
from npc.figures.svg import BOTTOM, LEFT, NOTE_HEIGHT, RIGHT, WIDTH, Legend, macros, swatch
from npc.observe.memory.figures import DensityMap, Depths, FirstTouch
from npc.page.blocks import Figure, Table

_TEMPLATE: Final = Path(__file__).with_name("density.svg")


def density_figure(density: DensityMap, shows: str, reading: str, *tables: Table) -> Figure:
    """The figure of accesses by thread and page, with its colours and a switch for the marks of first
    touch."""
    return Figure(
        density.ident,
        density.title,
        shows,
        reading,
        draw_density(density),
        density_legend(density),
        tuple(density.scale.words()),
        "accesses by a thread to a page",
        tables,
        style=_TEMPLATE.with_suffix(".css"),
    )


def draw_density(density: DensityMap) -> Markup:
    """The map as an ``<svg>`` element. Its thousands of cells are an image with a pixel for each."""
    return Markup(macros(_TEMPLATE).density(density, _Pixels(density)))


def density_legend(density: DensityMap) -> tuple[Legend, ...]:
    """The switch for the marks of first touch, if there are any."""
    mark = Trace("first touch", "first", lines=(((0, 0), (1, 0)),), width=3)
    return (Legend(0, mark.name, swatch(mark)),) if density.first else ()


class _Pixels:
    """Where everything stands in a map of accesses: panels side by side, above each a strip of the mean."""

    width = WIDTH
    strip, thin = 18, 12
    top = strip + thin + 8
    _gap, _row_most, _lowest, _highest = 26, 24.0, 48.0, 320.0

    def __init__(self, of: DensityMap) -> None:
        self._of = of
        self.left, panels, rows = LEFT, len(of.panels), len(of.names)
        self.wide = (WIDTH - LEFT - RIGHT - self._gap * (panels - 1)) / panels
        self.high = max(min(self._row_most * rows, self._highest), self._lowest)
        self.row, self.column = self.high / rows, self.wide / of.columns
        self.bottom = self.top + self.high
        self.height = round(self.bottom + BOTTOM)
        self.line = min(4.0, max(1.2, self.row / 3))

    def panel(self, number: int) -> float:
        return self.left + number * (self.wide + self._gap)

    def x(self, left: float, column: int) -> float:
        return left + self.column * column

    def y(self, row: int) -> float:
        return self.top + self.row * row

    def page(self, left: float, page: float) -> float:
        return left + self.wide * page / self._of.pages

    def first(self, left: float, touch: FirstTouch) -> str:
        y = self.y(touch.row) + self.row / 2
        return f"M{self.x(left, touch.begin):.1f} {y:.1f}H{self.x(left, touch.end):.1f}"

    def names(self) -> Iterator[tuple[str, float]]:
        """As many names of rows as there is room for, and that of the strip."""
        yield "mean", self.strip + self.thin / 2
        names = self._of.names
        every = max(1, math.ceil(2 * NOTE_HEIGHT / self.row)) if self.row < NOTE_HEIGHT else 1
        for number in range(0, len(names), every):
            yield names[number].partition(" ")[2], self.y(number) + self.row / 2

    @staticmethod
    def pixels(depths: Depths) -> str:
        """An image with a pixel for each number of a colour, as a data URI (PNG, ISO/IEC 15948)."""
        height, width = depths.shape
        colours = b"".join(bytes.fromhex(colour[1:]) for colour in DEPTH_COLOURS)
        lines = b"".join(b"\0" + row.tobytes() for row in depths)
        parts = (
            (b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)), (b"PLTE", colours),
            (b"IDAT", zlib.compress(lines, 9)), (b"IEND", b""),
        )  # fmt: skip
        chunks = (
            struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
            for name, data in parts
        )
        image = b"\x89PNG\r\n\x1a\n" + b"".join(chunks)
        return f"data:image/png;base64,{base64.b64encode(image).decode()}"
