"""Several rooflines in one picture: platforms, nodes or nights laid over each other.

Of each only what can be compared is drawn: its peak, main memory, its fastest network test, and its
applications.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final, Literal

from npc.figures.axes import decade_axis
from npc.figures.chart import CYCLE, DASHES, Chart, Mark, Trace
from npc.records.record import Record
from npc.records.units import plural
from npc.roofline.figure import INTENSITY, source
from npc.roofline.points import link
from npc.roofline.result import Ceiling, Roofline
from npc.roofline.scene import Scene, compose
from npc.roofline.table import interval_text, value_text

By = Literal["platform", "node", "night"]
#: So many rooflines at most can be told apart in one picture.
MOST: Final = len(CYCLE) * len(DASHES)
#: Lines of peak and memory are solid, of later rooflines dashed; those of the network always have fine
#: dashes.
_NETWORK_DASHES: Final = (2.1, 2.1)


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
    highest = [max(some, key=lambda ceiling: ceiling.value, default=None) for some in lists]
    return [ceiling for ceiling in highest if ceiling is not None]


def check(names: Collection[str]) -> None:
    """Raises ValueError for more rooflines than `MOST`."""
    if len(names) > MOST:
        raise ValueError(f"{len(names)} rooflines in one picture: more than {MOST} cannot be told apart")


def draw_overlay(rooflines: Mapping[str, Roofline], title: str, paths: Sequence[Path]) -> bool:
    """Write the picture to `paths`, in the format of their suffixes; False where none has a roof.

    Raises OSError, and ValueError for more than `MOST` rooflines.
    """
    check(rooflines)
    scenes = {name: scene for name, roofline in rooflines.items() if (scene := _scene(roofline)) is not None}
    if not scenes:
        return False
    from npc.figures.printed import save

    windows = [(*scene.x, *scene.y) for scene in scenes.values()]
    left, right, low, high = (
        pick(edge) for pick, edge in zip((min, max, min, max), zip(*windows, strict=True), strict=True)
    )
    traces = [
        trace
        for number, (name, scene) in enumerate(scenes.items())
        for trace in _roofline(name, number, scene, (left, right))
    ]
    chart = Chart(
        ident="overlay",
        title=title,
        text=f"The rooflines of {', '.join(scenes)} over each other.",
        x=decade_axis(INTENSITY, left, right),
        y=decade_axis("Attainable performance", low, high, "FLOP/s"),
        traces=tuple(traces),
        source="; ".join(dict.fromkeys(source(rooflines[name]) for name in scenes)),
    )
    save([chart], paths, subtitle="median of repeated runs, in brackets and shaded its 95 % interval")
    return True


def _scene(roofline: Roofline) -> Scene | None:
    """What is drawn of a roofline; the theoretical peaks count where none was measured."""
    theoretical = {} if roofline.of_kind("compute") else roofline.theoretical
    ceilings = tuple(leading(roofline))
    return compose(replace(roofline, ceilings=ceilings, dependent=None, theoretical=theoretical))


def _roofline(name: str, number: int, scene: Scene, window: tuple[float, float]) -> Iterator[Trace]:
    """The leading ceilings and the applications of one roofline, all in its colour."""
    colour = CYCLE[number % len(CYCLE)]
    for line in scene.lines:
        start, end = (window[0], line.end) if line.sloped else (line.start, window[1])
        network = line.ceiling.kind == "network"
        yield Trace(
            f"{name}: {line.ceiling.name}  {value_text(line.ceiling)} {interval_text(line.ceiling)}",
            colour,
            bands=() if line.ceiling.low is None else (tuple(replace(line, start=start, end=end).band()),),
            lines=(((start, line.height(start)), (end, line.height(end))),),
            dashes=_NETWORK_DASHES if network else DASHES[number // len(CYCLE)],
            width=1.4 if network else 2.2,
        )
    for mark in scene.marks:
        label = f"{name}: {mark.application.label}, {plural(mark.application.nodes, 'node')}{mark.per}"
        yield Trace(label, colour, marks=(Mark(mark.x, mark.y),), shape=mark.shape, hollow=mark.hollow)
