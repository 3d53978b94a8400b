"""Several rooflines in one picture: platforms, nodes or nights laid over each other.

Of each only what compares is drawn: its peak, main memory, its fastest network test, and its applications.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from npc.records.record import Record
from roofline.plot import DPI, INCHES, SHAPES, STYLE, log_log, save
from roofline.points import link
from roofline.result import Ceiling, Roofline
from roofline.scene import BLACK, BLUE, GREEN, INTENSITIES, ORANGE, PURPLE, SKY_BLUE, VERMILLION, compose
from roofline.table import value_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes

By = Literal["platform", "node", "night"]
BY: Final[tuple[By, ...]] = ("platform", "node", "night")
_COLOURS: Final = (BLUE, VERMILLION, GREEN, PURPLE, ORANGE, SKY_BLUE, BLACK)
#: More than these cannot be told apart.
MOST: Final = 28
#: Of peak and memory: solid, then dashed in ever other ways; the network is finely dashed always.
_DASHES: Final[tuple[tuple[float, ...], ...]] = ((), (9, 3), (3, 2), (9, 2, 2, 2))
_NETWORK_DASHES: Final = (1.5, 1.5)


def split(records: Iterable[Record], by: By) -> dict[str, list[Record]]:
    """Records of each platform, node or night (UTC day), by its name.

    What several nodes measured together belongs to each of them.
    """
    groups: defaultdict[str, list[Record]] = defaultdict(list)
    for record in records:
        names: Sequence[str] = {
            "platform": (record.platform,), "node": record.hosts, "night": (record.time[:10],),
        }[by]  # fmt: skip
        for name in dict.fromkeys(names):
            groups[name].append(record)
    return dict(sorted(groups.items()))


def leading(roofline: Roofline) -> list[Ceiling]:
    """The highest peak of double precision (else of any), main memory, and the fastest network test between
    nodes (within one where there is no other)."""
    compute = roofline.of_kind("compute")
    double = [ceiling for ceiling in compute if ceiling.precision == "double"] or compute
    memory = [ceiling for ceiling in roofline.of_kind("memory") if ceiling.level == "MEM"]
    network = roofline.of_kind("network")
    between = link(roofline)
    lists = (double, memory[:1], network if between is None else [between])
    found = [max(some, key=lambda ceiling: ceiling.value, default=None) for some in lists]
    return [ceiling for ceiling in found if ceiling is not None]


def check(names: Collection[str]) -> None:
    """Raises ValueError for more rooflines than `MOST`."""
    if len(names) > MOST:
        raise ValueError(f"{len(names)} rooflines in one picture: more than {MOST} cannot be told apart")


def draw_overlay(rooflines: Mapping[str, Roofline], title: str, paths: Sequence[Path]) -> bool:
    """Write the picture to `paths`, in the format of their suffixes; False where none has a roof.

    Raises OSError, and ValueError for more than `MOST` rooflines.
    """
    check(rooflines)
    scenes = {name: scene for name, found in rooflines.items() if (scene := compose(found)) is not None}
    if not scenes:
        return False
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=INCHES, dpi=DPI, layout="constrained")
        FigureCanvasAgg(figure)
        axes = figure.add_subplot()
        left, right = min(s.x[0] for s in scenes.values()), max(s.x[1] for s in scenes.values())
        low, high = min(s.y[0] for s in scenes.values()), max(s.y[1] for s in scenes.values())
        for number, (name, scene) in enumerate(scenes.items()):
            colour = _COLOURS[number % len(_COLOURS)]
            dashes = _DASHES[number // len(_COLOURS)]
            _roofline(axes, name, leading(rooflines[name]), colour, dashes, (left, right))
            for mark in scene.marks:
                shape = SHAPES[mark.shape % len(SHAPES)]
                label = f"{name}: {mark.application.name}, {mark.application.nodes} nodes"
                axes.plot(
                    mark.x, mark.y, shape, ms=9, mec="white", color=colour, ls="", zorder=5, label=label
                )
        axes.set_xlim(left, right)
        axes.set_ylim(low, high)
        _frame(axes, title)
        entries = len(axes.get_legend_handles_labels()[0])
        figure.legend(loc="outside right upper", fontsize=9.5 if entries <= 40 else 6, frameon=False)
        save(figure, paths)
    return True


def _roofline(
    axes: Axes,
    name: str,
    ceilings: Sequence[Ceiling],
    colour: str,
    dashes: tuple[float, ...],
    window: tuple[float, float],
) -> None:
    peaks = [ceiling.value for ceiling in ceilings if ceiling.kind == "compute"]
    steepest = max([ceiling.value for ceiling in ceilings if ceiling.kind != "compute"], default=math.inf)
    for ceiling in ceilings:
        if ceiling.kind == "compute":
            x = (max(window[0], ceiling.value / steepest), window[1])
            y = (ceiling.value, ceiling.value)
        else:
            end = peaks[0] / ceiling.value if peaks else window[1]
            x = (window[0], end)
            y = (window[0] * ceiling.value, end * ceiling.value)
        (line,) = axes.plot(x, y, color=colour, label=f"{name}: {ceiling.name}  {value_text(ceiling)}")
        line.set_linewidth(1.4 if ceiling.kind == "network" else 2.2)
        line.set_dashes(_NETWORK_DASHES if ceiling.kind == "network" else dashes)


def _frame(axes: Axes, title: str) -> None:
    log_log(axes, "FLOP/s")
    axes.set_xlabel(f"Operational intensity [FLOP/byte]\n{INTENSITIES}")
    axes.set_ylabel("Attainable performance")
    axes.set_title(title, loc="left", fontsize=17, fontweight="bold")
