"""How the values of a grid become colours: classes of values, a colour each, and the words of a legend."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from npc.records.units import format_quantity

#: Of nothing, then from little to most: cividis, which people with any common colour blindness and a print in
#: grey keep in order (Nuñez, Anderton, Renslow, PLOS ONE 13(7), 2018).
DEPTH_COLOURS: Final = ("#d9d9d9", "#fde737", "#c8b866", "#948e77", "#666970", "#35456c", "#00224e")
#: Colours of counts and amounts above zero.
DEPTHS: Final = len(DEPTH_COLOURS) - 1
#: From worst to best with normal in the middle: ColorBrewer's RdBu, which people with any common colour
#: blindness tell apart; its middle is made white.
RATIO_COLOURS: Final = (
    "#b2182b", "#d6604d", "#ee9a7c", "#fbd3bd", "#ffffff", "#d1e5f0", "#92c5de", "#4393c3", "#2166ac"
)  # fmt: skip
#: Colour of what has no value.
NONE: Final = "none"
#: Names of all colours, which are classes of the page's style sheet, and what they are.
SHADES: Final = {
    **{f"h{number}": colour for number, colour in enumerate(RATIO_COLOURS)},
    **{f"n{number}": colour for number, colour in enumerate(DEPTH_COLOURS)},
    NONE: "#c4c4c4",
}
#: Colours on which words are white.
DARK: Final = frozenset(("n4", "n5", "n6", "h0", "h8"))
#: Legend of a cell whose measurement failed; a cross is drawn over its colour.
CROSSED: Final = "none crossed"
#: Borders of the classes of ratios, the finest first.
_RATIO_EDGES: Final = (
    (0.95, 0.98, 0.99, 0.995, 1.005, 1.01, 1.02, 1.05),
    (0.8, 0.9, 0.95, 0.98, 1.02, 1.05, 1.1, 1.25),
    (0.6, 0.8, 0.9, 0.95, 1.05, 1.1, 1.25, 1.6),
)
#: This share of the ratios is between the outer borders: a few very bad ones must not make all others look
#: the same.
_IN_RANGE: Final = 0.99
#: Ratios between neighbouring classes of a logarithmic scale.
_FACTORS: Final = (2.0, 3.0, 5.0, 10.0, 20.0, 50.0, 100.0, 1e3, 1e6)
#: Widths of the classes of a linear one, up to a power of ten.
_STEPS: Final = (1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0)


@dataclass(frozen=True, slots=True)
class Scale:
    """Classes of values, from the lowest to the highest, with their colours and words."""

    #: What the values are; stands before the legend.
    title: str
    #: Their SI unit, or 1.
    unit: str
    #: Borders between the classes in that unit, rising. A value on one is in the class below it.
    edges: tuple[float, ...]
    #: (name of its colour, meaning) of each class: one more than there are edges.
    classes: tuple[tuple[str, str], ...]
    #: (name of its colour, meaning) of what has no value; empty where a grid has none of these.
    missing: tuple[tuple[str, str], ...] = ()

    def shade(self, value: float | None) -> str:
        """The name of a value's colour, a key of `SHADES`; that of nothing for None."""
        return NONE if value is None else self.classes[bisect_left(self.edges, value)][0]

    def depth(self, value: float) -> int:
        """The number of a value's colour among its like, 0 the lowest."""
        return int(self.shade(value)[1:])

    def words(self) -> list[tuple[str, str]]:
        """(name of its colour, meaning) of all that a grid may have, for its legend."""
        return [*self.classes, *self.missing]


def _ratio_scale(edges: Sequence[float], title: str) -> Scale:
    names = [f"below {edges[0]:g}"]
    names += [f"{low:g} to {high:g}" for low, high in pairwise(edges)]
    names.append(f"above {edges[-1]:g}")
    # A ratio on a border is in the class that is nearer to normal, also after rounding.
    nudged = tuple(edge * (1 + math.copysign(1e-12, edge - 1)) for edge in edges)
    classes = tuple((f"h{number}", words) for number, words in enumerate(names))
    return Scale(title, "1", nudged, classes, ((NONE, "not measured"), (CROSSED, "failed")))


#: Ratios to what is normal.
RATIOS: Final = _ratio_scale(_RATIO_EDGES[-1], "ratio to what is normal here, below 1 is worse")


def ratio_scale(ratios: Iterable[float], finest: int = 0) -> Scale:
    """The finest classes of ratios to what is normal that tell nearly all of `ratios` apart.

    finest: 0 begins at ±0.5 %, 1 at ±2 %, 2 at ±5 % (as `RATIOS`).
    """
    known = sorted(ratio for ratio in ratios if ratio > 0)
    outside = (1 - _IN_RANGE) * len(known)
    for edges in _RATIO_EDGES[finest:]:
        if sum(not edges[0] <= ratio <= edges[-1] for ratio in known) <= outside:
            break
    return _ratio_scale(edges, RATIOS.title)


def count_scale(most: int, title: str) -> Scale:
    """Up to six classes of counts from 1 to `most`, and one of zero."""
    tops = [most * depth // DEPTHS for depth in range(DEPTHS + 1)]
    edges: list[float] = []
    classes = [("n0", "0")]
    for depth, (below, top) in enumerate(pairwise(tops), 1):
        if top > below:  # of few counts some colours have none
            edges.append(below)
            classes.append((f"n{depth}", f"{top}" if top == below + 1 else f"{below + 1} to {top}"))
    return Scale(title, "1", tuple(edges), tuple(classes))


def _amount_scale(edges: Sequence[float], unit: str, title: str) -> Scale:
    """Amounts from zero on: nothing has its own colour. edges: above zero."""
    names = [format_quantity(edge, unit, 3) for edge in edges]
    meanings = [f"to {names[0]}"] if names else ["any"]
    meanings += [f"{low} to {high}" for low, high in pairwise(names)]
    meanings += [f"above {names[-1]}"] if names else []
    # Few classes have colours that are as far apart as they can be.
    depths = [1 + (place * (DEPTHS - 1) // len(edges) if edges else 0) for place in range(len(meanings))]
    classes = [(f"n{depth}", words) for depth, words in zip(depths, meanings, strict=True)]
    return Scale(title, unit, (0.0, *edges), (("n0", "none"), *classes))


def linear_scale(amounts: Iterable[float], unit: str, title: str = "") -> Scale:
    """Classes of equal width, from nothing to above the largest amount. unit: SI, or 1."""
    most = max(amounts, default=0.0)
    if most <= 0:
        return _amount_scale((), unit, title)
    power = 10.0 ** math.floor(math.log10(most / DEPTHS))
    step = next(step for step in _STEPS if step * power >= most / DEPTHS * (1 - 1e-9)) * power
    edges = [float(f"{number * step:.12g}") for number in range(1, DEPTHS)]
    return _amount_scale([edge for edge in edges if edge < most], unit, title)


def log_scale(amounts: Iterable[float], unit: str, title: str = "") -> Scale:
    """Classes that are each as many times as wide as the one before, so that the least amount is in one of
    the first. unit: SI, or 1."""
    known = [amount for amount in amounts if amount > 0]
    if not known:
        return _amount_scale((), unit, title)
    top = 10.0 ** math.floor(math.log10(max(known)))
    factor = next((ratio for ratio in _FACTORS if top / ratio ** (DEPTHS - 2) <= min(known)), _FACTORS[-1])
    edges = [top / factor**power for power in reversed(range(DEPTHS - 1))]
    return _amount_scale([edge for edge in edges if min(known) <= edge < max(known)], unit, title)
