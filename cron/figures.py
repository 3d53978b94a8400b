"""Pictures of a history: performance over the number of the measurement, and the allocation heat map.

As figures 6 to 8 and 9 of Bartelheimer, Zhu, Neuwirth (2023).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Final

from cron.series import direction, label
from npc.figures.chart import Axis, Chart, Mark, Tick, Trace, linear_ticks, quantity_axis
from npc.figures.printed import save
from npc.machine.fabric import natural
from npc.records.history import Point
from npc.records.record import OK
from npc.records.series import Series
from npc.records.units import METRICS

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
    used = [point for point in points if point.status == OK and point.value is not None]
    key, unit = used[0].key, METRICS[used[0].key.metric].unit
    traces = []
    for again, colour, shape, name in ((False, "blue", 0, "sample"), (True, "orange", 2, "measured again")):
        marks = tuple(
            Mark(number, point.value or 0.0)
            for number, point in enumerate(used, 1)
            if point.remeasured is again
        )
        if marks:
            traces.append(Trace(name, colour, marks=marks, shape=shape, small=True, faint=True))
    nights: dict[str, dict[int, float]] = {}
    for number, point in enumerate(used, 1):
        nights.setdefault(point.run, {})[number] = point.value or 0.0
    steps = [
        (end, median(values.values()))
        for values in nights.values()
        for end in (min(values) - 0.5, max(values) + 0.5)
    ]
    traces.append(Trace("median of the night", "ink", lines=(tuple(steps),), width=1.0))
    ticks = tuple(Tick(number, f"{number:g}") for number in linear_ticks(0, len(used)))
    days = f"{len(nights)} nights from {used[0].time[:10]} to {used[-1].time[:10]}"
    name = key.metric.replace("_", " ").capitalize()
    chart = Chart(
        ident="",
        title=label(key),
        text="",
        x=Axis(f"Measurement, {days}", 0, len(used) + 1, log=False, ticks=ticks),
        y=quantity_axis(name, (point.value or 0.0 for point in used), unit, log=False),
        traces=tuple(traces),
    )
    save([chart], [path])


def allocation(points: Sequence[Point], path: Path, topology: Topology | None = None) -> bool:
    """Nodes by nights: how good each was against the usual; whether there was anything to draw.

    A node's colour in a night is the median, over the series, of the values of all measurements it had part
    in, each by the median of its series. With a topology, nodes stand by switch and rack. Raises OSError.
    """
    relative = relative_by_node(points)
    if not relative:
        return False
    import matplotlib
    import numpy as np
    from matplotlib.figure import Figure

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
    figure = Figure(figsize=(min(4 + 0.18 * len(runs), 18), height), layout="constrained")
    axes = figure.subplots()
    colours = matplotlib.colormaps["RdBu"].with_extremes(bad="0.85")
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
