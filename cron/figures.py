"""Pictures of a history: performance over the number of the measurement, and the allocation heat map.

As figures 6 to 8 and 9 of Bartelheimer, Zhu, Neuwirth (2023).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any, Final

from cron.series import direction, label
from npc.machine.fabric import natural
from npc.records.history import Point
from npc.records.record import OK
from npc.records.series import Series
from npc.records.units import METRICS, format_quantity

if TYPE_CHECKING:
    from npc.machine.fabric import Topology

#: Nodes and nights in one heat map, at most; the newest nights.
MAX_NODES: Final = 256
MAX_NIGHTS: Final = 90
#: Names fit beside the axes up to so many.
_MAX_NAMES: Final = 64
#: The colours span this much either way at least and at most.
_LEAST_RANGE: Final = 0.02
_MOST_RANGE: Final = 0.5


def over_measurements(points: Sequence[Point], path: Path) -> None:
    """One series: each sample over the number of its measurement, and the nights' medians. Raises OSError.

    points: of one series, in the order of time, one at least usable.
    """
    pyplot = _pyplot()
    used = [point for point in points if point.status == OK and point.value is not None]
    key = used[0].key
    metric = METRICS[key.metric]
    values = [point.value or 0.0 for point in used]
    scale, unit = _scale(median(values), metric.unit)
    nights: dict[str, list[int]] = {}
    for number, point in enumerate(used, 1):
        nights.setdefault(point.run, []).append(number)
    figure, axes = pyplot.subplots(figsize=(9, 4), layout="constrained")
    for again, marker, name in ((False, "o", "sample"), (True, "^", "measured again")):
        chosen = [number for number, point in enumerate(used, 1) if point.remeasured is again]
        if chosen:
            axes.plot(chosen, [values[n - 1] / scale for n in chosen], marker, ms=3, alpha=0.6, label=name)
    middles = [median(values[n - 1] for n in numbers) / scale for numbers in nights.values()]
    axes.step(
        [numbers[0] for numbers in nights.values()], middles, where="post", color="black", lw=1,
        label="median of the night",
    )  # fmt: skip
    axes.set_xlabel(f"measurement, {len(nights)} nights from {used[0].time[:10]} to {used[-1].time[:10]}")
    axes.set_ylabel(f"{key.metric.replace('_', ' ')} in {unit}")
    axes.set_title(label(key), fontsize=10)
    axes.margins(x=0.01)
    axes.legend(fontsize=8)
    figure.savefig(path, dpi=120)
    pyplot.close(figure)


def allocation(points: Sequence[Point], path: Path, topology: Topology | None = None) -> bool:
    """Nodes by nights: how good each was against the usual; whether there was anything to draw.

    A node's colour in a night is the median, over the series, of the values of all measurements it had part
    in, each by the median of its series. With a topology, nodes stand by switch and rack. Raises OSError.
    """
    relative = relative_by_node(points)
    if not relative:
        return False
    pyplot = _pyplot()
    import numpy as np

    hosts = {host for host, _ in relative}
    nodes = (topology.order(hosts) if topology else sorted(hosts, key=natural))[:MAX_NODES]
    begun: dict[str, str] = {}
    for point in points:
        begun[point.run] = min(begun.get(point.run, point.time), point.time)
    runs = sorted(begun, key=lambda run: (begun[run], run))[-MAX_NIGHTS:]
    grid = np.array([[relative.get((node, run), math.nan) for run in runs] for node in nodes])
    reach = float(np.nanquantile(np.abs(grid), 0.99)) if not np.isnan(grid).all() else 0.0
    reach = min(max(reach, _LEAST_RANGE), _MOST_RANGE)
    height = min(2.5 + 0.18 * len(nodes), 20)
    figure, axes = pyplot.subplots(figsize=(min(4 + 0.18 * len(runs), 18), height), layout="constrained")
    colours = pyplot.get_cmap("RdBu").with_extremes(bad="0.85")
    image = axes.imshow(
        100 * np.ma.masked_invalid(grid), cmap=colours, vmin=-100 * reach, vmax=100 * reach, aspect="auto",
        interpolation="nearest",
    )  # fmt: skip
    step = math.ceil(len(nodes) / _MAX_NAMES)
    names = [_named(node, topology) for node in nodes]
    axes.set_yticks(range(0, len(nodes), step), names[::step], fontsize=7)
    step = max(1, len(runs) // 12)
    axes.set_xticks(
        range(0, len(runs), step), [begun[run][:10] for run in runs[::step]], rotation=45, ha="right",
        fontsize=7,
    )  # fmt: skip
    axes.set_title("nodes by nights; grey: not allocated", fontsize=10)
    figure.colorbar(image, label="better than usual in %, red is worse", ax=axes)
    figure.savefig(path, dpi=120)
    pyplot.close(figure)
    return True


def relative_by_node(points: Sequence[Point]) -> Mapping[tuple[str, str], float]:
    """By node and night: how much better (positive) than usual its measurements were, as a logarithm."""
    series: dict[Series, list[Point]] = {}
    for point in points:
        if point.status == OK and point.value and point.hosts and direction(point.key):
            series.setdefault(point.key, []).append(point)
    found: dict[tuple[str, str], list[float]] = {}
    for key, mine in series.items():
        usual = median(point.value or 0.0 for point in mine)
        for point in mine:
            better = direction(key) * math.log((point.value or 0.0) / usual)
            for host in set(point.hosts):
                found.setdefault((host, point.run), []).append(better)
    return {place: median(values) for place, values in found.items()}


def _named(node: str, topology: Topology | None) -> str:
    leaf = topology.leaf(node) if topology else None
    return f"{leaf} {node}" if leaf else node


def _scale(value: float, unit: str) -> tuple[float, str]:
    """What to divide by so that a typical value is short, and the unit it then has."""
    text = format_quantity(value, unit)
    number, _, shown = text.partition(" ")
    return (value / float(number) if float(number) else 1.0), shown or unit


def _pyplot() -> Any:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    return pyplot
