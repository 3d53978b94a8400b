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
from npc.figures.chart import Axis, Cell, Chart, Grid, Mark, Tick, Trace, linear_ticks, quantity_axis
from npc.figures.printed import save, save_grid
from npc.machine.fabric import in_order
from npc.records.history import Point
from npc.records.record import OK
from npc.records.series import Series
from npc.records.units import METRICS

if TYPE_CHECKING:
    from npc.machine.fabric import Topology

#: Nodes and nights in one heat map, at most; the newest nights.
MAX_NODES: Final = 256
MAX_NIGHTS: Final = 90


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
    hosts = {host for host, _ in relative}
    nodes = in_order(hosts, topology)[:MAX_NODES]
    begun: dict[str, str] = {}
    for point in points:
        begun[point.run] = min(begun.get(point.run, point.time), point.time)
    runs = sorted(begun, key=lambda run: (begun[run], run))[-MAX_NIGHTS:]
    cells = [
        Cell(row, column, math.exp(relative[node, run]), "")
        for row, node in enumerate(nodes)
        for column, run in enumerate(runs)
        if (node, run) in relative
    ]
    grid = Grid(
        ident="allocation",
        title="nodes by nights, beside what is usual of each; grey: not allocated",
        text="",
        rows=tuple(_named(node, topology) for node in nodes),
        columns=tuple(begun[run][:10] for run in runs),
        cells=tuple(cells),
    )
    save_grid(grid, path)
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
