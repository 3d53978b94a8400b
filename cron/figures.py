"""Pictures of a history: all series of a benchmark over the nights, how good each node was in each night, and
which nodes the benchmarks had.

As figures 6 to 8 and 9 of Bartelheimer, Zhu, Neuwirth (2023).
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Final, NamedTuple

from npc.catalogue import on_any_nodes
from npc.cron.series import case_of, label, parameters
from npc.cron.verdict import NightVerdict, SeriesVerdict
from npc.figures.allocation import allocations, maps
from npc.figures.axes import Axis, time_axis
from npc.figures.chart import Chart
from npc.figures.grid import Grid, GridCell
from npc.figures.nights import Course, NightPoint, chart, course_names, panels
from npc.figures.printed import save
from npc.figures.printed_grids import save_grids
from npc.figures.scale import ratio_scale
from npc.figures.source import source_line
from npc.machine.fabric import Topology, in_order
from npc.records.history import HistoryRow
from npc.records.nights import SeriesNight, begun, series_nights
from npc.records.nodes import beside_others
from npc.records.record import moment
from npc.records.series import OBSERVED, Series
from npc.records.units import plural
from npc.records.verdicts import Verdict

#: Panels of one picture, at most, and in one column.
_MOST_PANELS: Final = 48
_ONE_COLUMN: Final = 6
#: Nodes and nights in one heat map, at most; the newest nights.
MAX_NODES: Final = 256
MAX_NIGHTS: Final = 90
#: A cell's width and, of few nodes, the height of all in hundredths of an inch.
_WIDE: Final = 26.0
_TALL: Final = 240.0


class HistoryPicture(NamedTuple):
    """One picture."""

    #: Its file's name without the suffix.
    name: str
    #: The heading that is drawn above its panels.
    title: str
    #: Each is one test at all its numbers of nodes.
    panels: list[list[Series]]


def over_nights(
    points: Sequence[HistoryRow], folder: Path, verdicts: Iterable[NightVerdict] = ()
) -> Iterator[Path]:
    """Every series over its nights: ``BENCHMARK.png``, or a picture for each of its tests where it has many
    series; which pictures were drawn. Raises OSError.

    verdicts: of the nights, the oldest first.
    """
    judged, source = _judged(verdicts), _source(points)
    times = begun(points)
    moments = {run: moment(time).timestamp() for run, time in times.items()}
    courses = {
        key: course(key, nights, judged.get(key, {}), moments)
        for key, nights in series_nights(points).items()
        if any(night.first for night in nights.values())
    }
    for picture in pictures(courses):
        columns = 1 if len(picture.panels) <= _ONE_COLUMN else 2
        rows = -(-len(picture.panels) // columns)
        alike = _alike(picture.panels)
        x = time_axis("Night (UTC)", moments.values(), most=9 if columns == 1 else 5)
        unlabelled = replace(x, title="", ticks=tuple(tick._replace(label="") for tick in x.ticks))
        many = len(picture.panels) > 2
        charts = [
            _chart([courses[key] for key in panel], panel, x if is_lowest else unlabelled, many, alike)
            for number, panel in enumerate(picture.panels, 1)
            for is_lowest in [number % rows == 0 or number == len(picture.panels)]
        ]
        path = folder / f"{picture.name}.png"
        of_all = "".join(f", {name}={value}" for name, value in alike.items())
        save(
            [replace(chart, source=source) for chart in charts],
            [path],
            title=f"{picture.title} on {picture.panels[0][0].platform}",
            subtitle=f"{_when(list(times.values()))}{of_all}",
            columns=columns,
            inches=(12.0, 1.9 + max(rows * (1.4 if many else 3.4), 4.6)),
            legend="ends",
        )
        yield path


def pictures(keys: Iterable[Series]) -> Iterator[HistoryPicture]:
    """Which series go into which picture: each is one benchmark, or one test of it where these are many; what
    was observed of a program apart from how fast it was."""
    of_benchmark: dict[str, list[list[Series]]] = {}
    for panel in panels(sorted(keys, key=lambda key: on_any_nodes(key).order)).values():
        observed = f" {OBSERVED}" if panel[0].case == OBSERVED else ""
        of_benchmark.setdefault(panel[0].benchmark + observed, []).append(panel)
    for benchmark, of_all in of_benchmark.items():
        parts = {benchmark: of_all}
        if len(of_all) > _MOST_PANELS:
            parts = {}
            for panel in of_all:
                parts.setdefault(case_of(panel[0]), []).append(panel)
        for title, of_part in parts.items():
            name = "-".join("".join(c if c.isalnum() else "_" for c in word) for word in title.split())
            name = name or "series"
            for number, first in enumerate(range(0, len(of_part), _MOST_PANELS), 1):
                some = of_part[first : first + _MOST_PANELS]
                yield HistoryPicture(name if number == 1 else f"{name}-{number}", title, some)


def _when(times: Sequence[str]) -> str:
    """How many nights, and their days."""
    days = list(dict.fromkeys(time[:10] for time in times))
    dates = f"from {days[0]} to {days[-1]}" if len(days) > 1 else f"of {days[0]}"
    return f"{plural(len(times), 'night')} {dates}"


def _alike(panels: Sequence[Sequence[Series]]) -> dict[str, str]:
    """The parameters that all of several panels share: they need not stand above each."""
    if len(panels) < 2:
        return {}
    shared, *others = (parameters(_of_panel(keys)).items() for keys in panels)
    return dict(pair for pair in shared if all(pair in other for other in others))


def _of_panel(keys: Sequence[Series]) -> Series:
    """The series of a panel, or what those at several numbers of nodes have in common."""
    return keys[0] if len(keys) == 1 else on_any_nodes(keys[0])


def _judged(verdicts: Iterable[NightVerdict]) -> dict[Series, dict[str, SeriesVerdict]]:
    """By series and night, the verdicts that are not PASS."""
    by_series: dict[Series, dict[str, SeriesVerdict]] = {}
    for night in verdicts:
        for verdict in night.series:
            if verdict.verdict is not Verdict.PASS:
                by_series.setdefault(verdict.key, {})[night.run] = verdict
    return by_series


def course(
    key: Series,
    measured: Mapping[str, SeriesNight],
    judged: Mapping[str, SeriesVerdict],
    moments: Mapping[str, float],
) -> Course:
    """A series over its nights.

    measured: its nights by name. judged: its verdicts that are not PASS, likewise. moments: when the nights
    began, seconds since 1970.
    """
    nights, changes, since = [], list[str](), ""
    for run, time in moments.items():
        verdict = judged[run].verdict if run in judged else Verdict.PASS
        # Where a number is missing or not believed, nobody knows whether the level is still another one.
        if verdict not in (Verdict.MISSING, Verdict.INVALID):
            if since and not (run in judged and judged[run].since):
                changes.append(since)
            since = judged[run].since if run in judged else ""
        if run not in measured and run not in judged:
            continue
        night = measured.get(run, SeriesNight.of(()))
        name = "" if verdict is Verdict.PASS else verdict.name
        nights.append(NightPoint(time, *night.levels, _or_nan(night.value_again), name))
    changes += [since] if since else []
    return Course(
        "", nights, [(moments[run], "another level since then") for run in changes if run in moments]
    )


def _or_nan(value: float | None) -> float:
    return math.nan if value is None else value


def _chart(
    courses: Sequence[Course], keys: Sequence[Series], x: Axis, many: bool, alike: Collection[str]
) -> Chart:
    """A panel: one test at all its numbers of nodes. many: there are many panels, so that each is small.
    alike: names of parameters that stand above all of them."""
    metric = keys[0].metric
    named = [of_key._replace(name=name) for of_key, name in zip(courses, course_names(keys), strict=True)]
    y_title = "" if many else metric.replace("_", " ").capitalize()
    drawn, _ = chart(named, metric, x, y_title=y_title, most=6 if many else 9)
    if len(courses) == 1:
        line, *others = drawn.traces
        name = "median of a night" + "; shaded: the range of its samples" * bool(line.bands)
        drawn = replace(drawn, traces=(replace(line, name=name, hover=False), *others))
    title = label(_of_panel(keys), alike).removeprefix(f"{keys[0].benchmark} ")
    return replace(drawn, title=title)


def allocation(
    points: Sequence[HistoryRow],
    path: Path,
    topology: Topology | None = None,
    others: Collection[str] = (),
) -> bool:
    """Racks and their nodes, by how many nights each benchmark had them; whether there was anything to draw.

    others: further hosts that are known. Raises OSError.
    """
    per_benchmark = allocations(points, topology, others)
    if not per_benchmark:
        return False
    platform = points[0].key.platform
    nights = plural(len({point.run for point in points}), "night")
    save_grids(
        maps(per_benchmark, topology), path, title=f"Nodes allocated on {platform}", subtitle=nights,
        source=_source(points),
    )  # fmt: skip
    return True


def health(points: Sequence[HistoryRow], path: Path, topology: Topology | None = None) -> bool:
    """Nodes by nights: how good each was beside the others of that night; whether there was anything to draw.

    A node's colour in a night is that of `relative_by_node`. With a topology, nodes stand by switch and rack.
    Raises OSError.
    """
    relative = relative_by_node(points)
    if not relative:
        return False
    hosts = {host for host, _ in relative}
    nodes = in_order(hosts, topology)[:MAX_NODES]
    nights = list(begun(points).items())[-MAX_NIGHTS:]
    one_a_day = len({time[:10] for _, time in nights}) == len(nights)
    cells = [
        GridCell(row, column, relative[node, run], "")
        for row, node in enumerate(nodes)
        for column, (run, _) in enumerate(nights)
        if (node, run) in relative
    ]
    grid = Grid(
        ident="nodes",
        title=f"Nodes by nights on {points[0].key.platform}",
        text="",
        rows=tuple(_named(node, topology) for node in nodes),
        columns=tuple(time[:10] if one_a_day else time[5:16].replace("T", " ") for _, time in nights),
        cells=tuple(cells),
        scale=ratio_scale(relative.values()),
        filled=True,
        side=min(max(_TALL / len(nodes), _WIDE), 2 * _WIDE),
        wide=_WIDE,
    )
    save_grids(
        [grid],
        path,
        source=_source(points),
        subtitle="median of what a node measured, over that of all that measured the same in that night",
    )
    return True


def _source(points: Sequence[HistoryRow]) -> str:
    """Whose measurements a picture of a history shows, and of when."""
    hosts = sorted({host for point in points for host in point.hosts})
    times = begun(points).values()
    return source_line(points[0].key.platform, hosts, (), min(times), max(times))


def relative_by_node(points: Sequence[HistoryRow]) -> Mapping[tuple[str, str], float]:
    """By node and night: the median, over the series, of how good its measurements were beside the others of
    that night (`npc.records.nodes`); below 1 is worse."""
    ratios: dict[tuple[str, str], list[float]] = {}
    for series, nights in series_nights(points).items():
        for run, night in nights.items():
            for hosts, ratio in beside_others(series, night.by_hosts).items():
                for host in set(hosts):
                    ratios.setdefault((host, run), []).append(ratio)
    return {place: median(of_node) for place, of_node in ratios.items()}


def _named(node: str, topology: Topology | None) -> str:
    leaf = topology.leaf(node) if topology else None
    return f"{leaf} {node}" if leaf else node
