"""Flame graphs: stacks as bars, each below its caller and as wide as its share of the samples.

A function stands below its caller, the longest first. (Gregg, The Flame Graph, CACM 59(6), 2016, draws
callers below and sorts by name; here what takes longest comes first for the eye and for the keyboard.)
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, NamedTuple

from markupsafe import Markup

from npc.figures.svg import macros
from npc.machine.libraries import MPI
from npc.observe.hotspots.records import Frame, Hotspots
from npc.page.blocks import Figure, Table

Kind = Literal["program", "mpi", "math", "openmp", "libc", "kernel", "other"]

#: What a bar's code belongs to → the words for it in the legend.
KINDS: Final[dict[Kind, str]] = {
    "program": "the program",
    "mpi": "MPI and its network",
    "math": "mathematical libraries",
    "openmp": "OpenMP",
    "libc": "C library",
    "kernel": "system",
    "other": "other libraries and unknown code",
}
#: Names of files by kind; the first that fits. NCCL counts as MPI's network.
_NAMES: Final[tuple[tuple[Kind, re.Pattern[str]], ...]] = (
    ("kernel", re.compile(r"\[(kernel|guest\.kernel|vdso|vsyscall).*|.*\.ko(\.\w+)?")),
    ("mpi", re.compile(rf"{MPI.pattern}|libnccl.*")),
    (
        "math",
        re.compile(
            r"(libm|libmvec|libopenblas|libblas|libcblas|libblis|liblapack|libflame|libatlas|libmkl_|libfftw|"
            r"libscalapack|libgsl|libarmpl|libsci_|libamdlibm|libimf|libsvml|libquadmath|libessl)"
            r"[^/]*(\.so|-[0-9]).*"
        ),
    ),
    ("openmp", re.compile(r"(libgomp|libomp|libiomp).*")),
    ("libc", re.compile(r"(libc|ld|ld-linux[^.]*|libpthread|librt|ld-musl[^.]*)(-[0-9.]+)?\.so.*")),
    ("other", re.compile(r".*\.so(\.[0-9.]+)?|\[unknown\]|\[.*|//.*|anon_inode.*|")),
)
_TEMPLATE: Final = Path(__file__).with_suffix(".svg")
#: The height of a row of bars in pixels; bars have room for letters from this share of the width on.
_ROW: Final = 19
_LETTERS: Final = 0.03
#: Bars below this share of all samples are not drawn; of the others at most this number, the largest.
LEAST: Final = 0.0005
MOST: Final = 2000
#: Ranks differ in a bar if their largest share is above the smallest by these shares of all samples and of
#: the bar.
_UNEVEN: Final = 0.05
_UNEVEN_PART: Final = 0.25


class Bar(NamedTuple):
    """A frame of the tree that is drawn."""

    #: What it shows.
    frame: Frame
    #: Callers above it; 0 for the root.
    depth: int
    #: Where it begins, as a share of the width.
    left: float
    #: Its width, which is its share of all samples (0 to 1).
    share: float
    #: What its code belongs to.
    kind: Kind
    #: Whether ranks differ in it.
    uneven: bool

    @property
    def name(self) -> str:
        """The function; the root has none."""
        return self.frame.function if self.depth else "all"

    @property
    def tip(self) -> str:
        """What it is, in lines of text."""
        frame = self.frame
        if not self.depth:
            return f"{self.name}\n{frame.samples} samples"
        own = f", {_percent(self.share * frame.own / frame.samples)} its own" if frame.own else ""
        lines = [
            frame.function,
            f"{frame.module} ({KINDS[self.kind]})",
            f"{_percent(self.share)} of all samples{own}",
        ]
        if frame.most:
            lines.append(f"ranks: {_percent(frame.least)} to {_percent(frame.most)}")
        return "\n".join(lines)


@dataclass(frozen=True, slots=True)
class FlameGraph:
    """A flame graph."""

    #: Its id on the page, as of a chart.
    ident: str
    #: Above it.
    title: str
    #: What it shows, in words, for those who do not see it.
    text: str
    #: Each after its caller and after what that called before; empty without samples.
    bars: tuple[Bar, ...]
    #: Frames that are too short to be drawn.
    left_out: int = 0

    @property
    def levels(self) -> int:
        """Rows of bars."""
        return 1 + max((bar.depth for bar in self.bars), default=0)

    @property
    def kinds(self) -> list[tuple[str, str]]:
        """(class, meaning) of the colours in it, for its legend."""
        shown_kinds = {bar.kind for bar in self.bars[1:]}
        return [(f"k-{kind}", words) for kind, words in KINDS.items() if kind in shown_kinds]


def kind_of(module: str) -> Kind:
    """What code of a module belongs to, by the name of its file; a file that is no library is the program."""
    name = module if module.startswith("//") else module.rsplit("/", 1)[-1]
    return next((kind for kind, pattern in _NAMES if pattern.fullmatch(name)), "program")


def flame_graph(hotspots: Hotspots, ident: str, title: str, text: str) -> FlameGraph:
    """The graph of a tree of stacks, whose parents come before their children."""
    frames = hotspots.frames
    if not frames or not frames[0].samples:
        return FlameGraph(ident, title, text, ())
    total = frames[0].samples
    drawn = sorted(range(1, len(frames)), key=lambda place: -frames[place].samples)[: MOST - 1]
    drawn = [place for place in drawn if frames[place].samples >= LEAST * total]
    children: dict[int, list[int]] = {}
    for place in drawn:  # the longest first
        children.setdefault(frames[place].parent, []).append(place)
    return FlameGraph(ident, title, text, tuple(_bars(frames, children)), len(frames) - 1 - len(drawn))


def draw_flame(flame: FlameGraph) -> Markup:
    """The flame graph, with a search field for which ``flame.js`` is enough.

    The graph is as wide as the page, so bars are in percent of the width. Each bar is an SVG of its own,
    which clips its name.
    """
    return Markup(macros(_TEMPLATE).flame(flame, _ROW, _LETTERS))


def flame_figure(flame: FlameGraph, shows: str, reading: str, *tables: Table) -> Figure:
    """The figure of a flame graph, with its colours."""
    return Figure(
        flame.ident,
        flame.title,
        shows,
        reading,
        draw_flame(flame),
        shades=tuple(flame.kinds),
        scale="code of",
        tables=tables,
        style=_TEMPLATE.with_suffix(".css"),
        script=_TEMPLATE.with_suffix(".js"),
    )


def _bars(frames: Sequence[Frame], children: dict[int, list[int]]) -> Iterator[Bar]:
    """The bars, depth first."""
    total = frames[0].samples
    pending = [(0, 0, 0)]
    while pending:
        place, depth, before = pending.pop()
        frame = frames[place]
        spread = frame.most - frame.least
        share = frame.samples / total
        uneven = depth > 0 and spread > _UNEVEN and spread > _UNEVEN_PART * share
        kind: Kind = kind_of(frame.module) if depth else "other"
        yield Bar(frame, depth, before / total, share, kind, uneven)
        below = []
        for child in children.get(place, ()):
            below.append((child, depth + 1, before))
            before += frames[child].samples
        pending += reversed(below)


def _percent(share: float) -> str:
    return f"{100 * share:.3g} %"
