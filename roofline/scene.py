"""Where everything stands in a roofline: ceilings as lines in FLOP/byte and FLOP/s, with their strokes.

Kinds of ceilings differ in their colours and in their strokes as well, so that
a print in grey can be read: memory solid, network dashed, I/O dashed with two dots. Cores and GPUs have
a roof each.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal, NamedTuple

from npc.figures.chart import CYCLE, Place, tool_colours
from npc.roofline.applications import Application, ApplicationRun, Direction, NightMedians
from npc.roofline.code_limit import CodeLimit
from npc.roofline.latency import one_at_a_time
from npc.roofline.points import own_link
from npc.roofline.result import ROOFS, Ceiling, Kind, Ridge, Roofline, direction_of
from npc.statistics.medians import Summary

_LEVEL_COLOURS: Final = {"L1": "navy", "L2": "blue", "L3": "sky", "L4": "ink", "MEM": "green"}
#: Ceilings of one kind whose values differ by a smaller factor are named together.
_NEAR: Final = 1.35
#: Lengths of dashes and gaps in points.
_NETWORK_DASHES: Final = ((7.0, 2.5), (7.0, 2.5, 1.5, 2.5), (3.0, 2.0), (1.5, 2.0))
_IO_DASHES: Final = (9.0, 2.0, 1.5, 2.0, 1.5, 2.0)
_IO_COLOURS: Final[dict[Direction, str]] = {"read": "green", "write": "orange"}
_STREAM_DASHES: Final = (12.0, 2.0)
_GPU_COLOURS: Final = {"L2": "purple", "MEM": "vermillion"}
_GPU_LINK_DASHES: Final = (7.0, 2.5)
_LATENCY_DASHES: Final = (1.5, 2.5)


class Stroke(NamedTuple):
    """How a line looks."""

    #: Name of its colour (`npc.figures`).
    colour: str
    #: In points.
    width: float
    #: Lengths of dashes and gaps in turn, in points; empty: a solid line.
    dashes: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class Line:
    """A ceiling in the picture: flat for compute, of slope b for a bandwidth b."""

    #: What the line shows.
    ceiling: Ceiling
    #: How it looks.
    stroke: Stroke
    #: Left end, in FLOP/byte.
    start: float
    #: Right end, in FLOP/byte.
    end: float
    #: The highest bandwidth in B/s: left of it no peak is reached; infinite without a bandwidth.
    steepest: float
    #: The highest peak in FLOP/s, where bandwidths end.
    roof: float
    #: Name of the first of the bandwidths of its kind that are nearly equal; empty for a peak.
    group: str = ""

    @property
    def sloped(self) -> bool:
        """Whether it is a bandwidth."""
        return self.ceiling.kind not in ROOFS

    def height(self, intensity: float) -> float:
        """FLOP/s at `intensity` FLOP/byte."""
        return self.ceiling.value * intensity if self.sloped else self.ceiling.value

    def band(self) -> list[Place]:
        """The corners of its interval's band, cut where it meets the roof; the bare line without one."""
        low = self.ceiling.value if self.ceiling.low is None else self.ceiling.low
        high = self.ceiling.value if self.ceiling.high is None else self.ceiling.high
        if self.sloped:
            return [
                (self.start, low * self.start),
                (self.roof / low, self.roof),
                (self.roof / high, self.roof),
                (self.start, high * self.start),
            ]
        left, high_left = (max(self.start, peak / self.steepest) for peak in (low, high))
        return [(left, low), (self.end, low), (self.end, high), (high_left, high)]


@dataclass(frozen=True, slots=True)
class ApplicationMark:
    """An application in the picture, at its medians."""

    #: What the mark shows.
    application: Application
    #: Where the bytes of `x` are moved: on the network, between cores and memory, or from and to storage.
    of: Literal["network", "memory", "storage"]
    #: Name of the colour that it is drawn in.
    colour: str
    #: Number of its shape; each way of drawing has its own list of shapes.
    shape: int
    #: FLOP per byte.
    x: float
    #: FLOP/s.
    y: float
    #: (FLOP per byte, FLOP/s, the run) of each single run that has a place.
    runs: tuple[tuple[float, float, ApplicationRun], ...]
    #: (FLOP per byte, FLOP/s, the night) of each night; empty where there is only one.
    trail: tuple[tuple[float, float, NightMedians], ...]
    #: FLOP/s that the network allows its own message sizes, back to back and one at a time; None: not known.
    limits: tuple[float | None, float | None] = (None, None)

    @property
    def hollow(self) -> bool:
        """Whether it is drawn hollow; full marks are those by bytes on the network."""
        return self.of != "network"

    @property
    def per(self) -> str:
        """What is written behind the application's name."""
        return f", per byte of {self.of}" if self.hollow else ""

    @property
    def intensity(self) -> Summary | None:
        """The median of x with its interval, where there is one."""
        by_kind = {"network": self.application.intensity, "storage": self.application.io_intensity}
        return by_kind.get(self.of)

    @property
    def bars(self) -> list[tuple[Place, Place]]:
        """The ends of its medians' intervals, along x and along y, as far as there are intervals."""
        across, up = self.intensity, self.application.flops
        lines = []
        if across is not None and across.low is not None and across.high is not None:
            lines.append(((across.low, self.y), (across.high, self.y)))
        if up.low is not None and up.high is not None:
            lines.append(((self.x, up.low), (self.x, up.high)))
        return lines


@dataclass(frozen=True, slots=True)
class CodeLimitMark:
    """What an application's own code allows it."""

    #: The application whose code it is.
    application: Application
    #: What the code allows at most.
    limit: CodeLimit
    #: Name of the application's colour.
    colour: str
    #: FLOP/s that the application reaches.
    reached: float


@dataclass(frozen=True, slots=True)
class Scene:
    """Everything in the picture, and the window that shows it."""

    #: The ceilings.
    lines: tuple[Line, ...]
    #: Each ridge point with the stroke of its bandwidth ceiling.
    ridges: tuple[tuple[Ridge, Stroke], ...]
    #: (words, FLOP/s) of each theoretical peak.
    theoretical: tuple[tuple[str, float], ...]
    #: Left and right edge of the window, in FLOP/byte.
    x: tuple[float, float]
    #: Lower and upper edge of the window, in FLOP/s.
    y: tuple[float, float]
    #: The highest bandwidth of the first roof in B/s; infinite without a bandwidth.
    steepest: float
    #: The applications that have a place; empty if there are none.
    marks: tuple[ApplicationMark, ...] = ()
    #: What the applications' own code allows them; empty if nobody looked.
    code_limits: tuple[CodeLimitMark, ...] = ()

    def flat_start(self, peak: float) -> float:
        """The intensity from which on `peak` FLOP/s can be reached, or the window's left edge."""
        return max(self.x[0], peak / self.steepest)


def compose(roofline: Roofline) -> Scene | None:
    """The scene of a roofline; None without a measured or theoretical peak, for there is no roof then.

    Applications have a place for each kind of bytes that are known of them.
    """
    roofs = [roof for peak in ROOFS if (roof := _roof(roofline, peak)) is not None]
    if not roofs:
        return None
    marks = tuple(_marks(roofline))
    windows = [(*x, *y) for x, y in (roof.window for roof in roofs)]
    left, right, low, high = zip(*windows, strict=True)
    x, y = (min(left), max(right)), (min(low), max(high))
    # next to a program that does almost no I/O, all others would be squeezed into a corner
    marks = tuple(mark for mark in marks if mark.of != "storage" or mark.x < x[1])
    limits = tuple(_code_limits(roofline))
    across = [place for mark in marks for place in (mark.x, *(x for x, *_ in mark.runs))]
    up = [place for mark in marks for place in (mark.y, *(y for _, y, _ in mark.runs))]
    x = _around(x, across + [mark.limit.intensity for mark in limits])
    y = _around(y, up + [place for mark in limits for place in (mark.limit.flops, mark.reached)])
    strokes, groups = _strokes(roofline), _groups([path for roof in roofs for path in roof.paths])
    lines = []
    for roof in roofs:
        for ceiling in (*roof.compute, *roof.paths):
            if ceiling.kind in ROOFS:
                start, end = max(x[0], ceiling.value / roof.steepest), x[1]
            else:
                start, end = max(x[0], y[0] / ceiling.value), roof.height / ceiling.value
            stroke, group = strokes[ceiling.name], groups.get(ceiling.name, "")
            lines.append(Line(ceiling, stroke, start, end, roof.steepest, roof.height, group))
    return Scene(
        lines=tuple(lines),
        ridges=tuple((ridge, strokes[ridge.bandwidth]) for ridge in roofline.ridges),
        theoretical=tuple((f"theoretical peak {name}", peak) for name, peak in roofline.theoretical.items()),
        x=x,
        y=y,
        steepest=roofs[0].steepest,
        marks=marks,
        code_limits=limits,
    )


class _Roof(NamedTuple):
    """The peaks of cores or of GPUs, and the bandwidths below them."""

    #: The measured peaks.
    compute: list[Ceiling]
    #: The bandwidths.
    paths: list[Ceiling]
    #: The highest peak, measured or theoretical, in FLOP/s.
    height: float
    #: The highest bandwidth in B/s; infinite without one.
    steepest: float
    #: Ranges of x in FLOP/byte and of y in FLOP/s that show them.
    window: tuple[Place, Place]


def _roof(roofline: Roofline, peak: Kind) -> _Roof | None:
    """None without a measured or theoretical peak."""
    compute, paths = roofline.of_kind(peak), roofline.of_kind(*ROOFS[peak])
    peaks = [ceiling.value for ceiling in compute]
    steep = [ceiling.value for ceiling in paths if ceiling.kind != "io"]
    if peak == "compute":
        peaks += roofline.theoretical.values()
        paths += [roofline.dependent] if roofline.dependent else []
    if not peaks:
        return None
    slopes = [ceiling.value for ceiling in paths]
    highs = [ceiling.high for ceiling in compute if ceiling.high is not None]
    window = _window(peaks + highs, slopes, steep or slopes)
    return _Roof(compute, paths, max(peaks), max(slopes, default=math.inf), window)


def _groups(bandwidths: Sequence[Ceiling]) -> dict[str, str]:
    """By its name, the group of every bandwidth: the fastest of its kind that it is nearly equal to."""
    group_of: dict[str, str] = {}
    first: dict[str, Ceiling] = {}
    for ceiling in sorted(bandwidths, key=lambda ceiling: -ceiling.value):
        head = first.get(ceiling.kind)
        if head is None or head.value > _NEAR * ceiling.value:
            head = first[ceiling.kind] = ceiling
        group_of[ceiling.name] = head.name
    return group_of


def _placed(roofline: Roofline) -> list[Application]:
    """Those with a place along x."""
    return [
        application
        for application in roofline.applications
        if application.intensity or application.memory_intensity or application.io_intensity
    ]


def _code_limits(roofline: Roofline) -> Iterator[CodeLimitMark]:
    """In the colours of their applications."""
    placed = _placed(roofline)
    others = [application for application in roofline.applications if application not in placed]
    for number, application in enumerate([*placed, *others]):
        for limit in application.code_limits.values():
            yield CodeLimitMark(
                application=application,
                limit=limit,
                colour=CYCLE[number % len(CYCLE)],
                reached=application.flops.median,
            )


def _marks(roofline: Roofline) -> Iterator[ApplicationMark]:
    for number, application in enumerate(_placed(roofline)):
        network, memory = application.intensity, application.memory_intensity
        storage = application.io_intensity
        runs = [
            (run.intensity, run.flops, run)
            for run in application.runs
            if run.intensity is not None and math.isfinite(run.intensity)
        ]
        nights = [
            (night.intensity, night.flops, night)
            for night in application.nights
            if night.intensity is not None
        ]
        mark = ApplicationMark(
            application=application,
            of="network",
            colour=CYCLE[number % len(CYCLE)],
            shape=number,
            x=network.median if network else 1.0,
            y=application.flops.median,
            runs=tuple(runs),
            trail=tuple(nights) if len(nights) > 1 else (),
            limits=_limits(application, roofline) if network else (None, None),
        )
        if network:
            yield mark
        if memory:
            # Its nights differ in their height only: the bytes follow from the FLOP.
            yield replace(
                mark,
                of="memory",
                x=memory,
                runs=() if network else tuple((memory, run.flops, run) for run in application.runs),
                trail=(),
                limits=(None, None),
            )
        if storage:
            dots = [(x, run.flops, run) for run in application.runs if (x := run.io_intensity) is not None]
            yield replace(
                mark, of="storage", x=storage.median, runs=tuple(dots), trail=(), limits=(None, None)
            )


def _limits(application: Application, roofline: Roofline) -> tuple[float | None, float | None]:
    network, busier = own_link(application, roofline), application.busier_intensity
    together = network is not None and network.own_sizes and busier is not None
    single = one_at_a_time(application, roofline)
    return (
        busier * network.bandwidth if together and network and busier else None,
        single.flops if single else None,
    )


def _around(window: tuple[float, float], places: Sequence[float]) -> tuple[float, float]:
    """The window, wide enough for all places."""
    return min([window[0], *(place / 2 for place in places)]), max(
        [window[1], *(place * 2 for place in places)]
    )


def _window(peaks: list[float], slopes: list[float], steep: list[float]) -> tuple[Place, Place]:
    """x and y ranges with all ridge points, and room for a label on each slope. steep: slopes that start at
    the left edge; the others start at the lower edge further right."""
    if not slopes:
        return (0.01, 100.0), (min(peaks) / 10, max(peaks) * 2)
    left = min(peaks) / max(slopes) / 25
    right = max(peaks) / min(slopes) * 2
    return (left, right), (min(steep) * left * 3, max(peaks) * 2)


def _strokes(roofline: Roofline) -> dict[str, Stroke]:
    """A stroke for every ceiling, by its name."""
    strokes: dict[str, Stroke] = {}
    for ceiling in roofline.of_kind("compute"):
        strokes[ceiling.name] = Stroke("ink" if ceiling.precision == "double" else "grey", 2.6)
    for ceiling in roofline.of_kind("memory"):
        dashes: tuple[float, ...] = _STREAM_DASHES if ceiling.benchmark == "stream" else ()
        strokes[ceiling.name] = Stroke(_LEVEL_COLOURS.get(ceiling.level, "blue"), 2.0, dashes)
    for ceiling in roofline.of_kind("GPU compute"):
        strokes[ceiling.name] = Stroke("wine", 2.6 if ceiling.precision == "double" else 1.4)
    for ceiling in roofline.of_kind("GPU bandwidth"):
        dashes = () if ceiling.level else _GPU_LINK_DASHES
        strokes[ceiling.name] = Stroke(_GPU_COLOURS.get(ceiling.level, "purple"), 1.8, dashes)
    if roofline.dependent:
        strokes[roofline.dependent.name] = Stroke(_LEVEL_COLOURS["MEM"], 1.6, _LATENCY_DASHES)
    for ceiling in roofline.of_kind("io"):
        strokes[ceiling.name] = Stroke(_IO_COLOURS[direction_of(ceiling)], 1.6, _IO_DASHES)
    network = roofline.of_kind("network")
    tools = [ceiling.benchmark for ceiling in network]
    for number, (ceiling, colour) in enumerate(zip(network, tool_colours(tools), strict=True)):
        dashes = _NETWORK_DASHES[tools[:number].count(ceiling.benchmark) % len(_NETWORK_DASHES)]
        strokes[ceiling.name] = Stroke(colour, 1.6, dashes)
    return strokes
