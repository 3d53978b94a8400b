"""The figure of a roofline: its ceilings, ridge points and applications, for print and for the screen."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from npc.figures.axes import decade_axis
from npc.figures.chart import Chart, DropLine, Mark, Note, Trace
from npc.figures.source import source_line
from npc.hostlist import host_text
from npc.records.units import format_quantity, format_size
from npc.roofline.applications import Application, NightMedians
from npc.roofline.points import verdict
from npc.roofline.result import Ceiling, Ridge, Roofline
from npc.roofline.scene import ApplicationMark as Point
from npc.roofline.scene import CodeLimitMark, Line, Scene, Stroke, compose
from npc.roofline.table import (
    Records,
    application_text,
    intensity_text,
    interval_text,
    share_text,
    source_text,
    summary_text,
    value_text,
)

INTENSITY: Final = "Operational intensity [FLOP/byte]\nbytes of a line's memory level, network or storage"
#: The meanings of the x axis: each kind of ceiling has one.
INTENSITIES: Final = (
    "memory ceilings, hollow marks: per byte at that level; "
    "network ceilings (dashed), full marks: per byte on the network; "
    "I/O ceilings (dash and two dots): per byte of storage"
)
#: What the network allows an application's own messages.
_LIMITS: Final[tuple[tuple[str, tuple[float, ...]], ...]] = (
    ("own messages back to back", ()),
    ("own messages one at a time", (1.5, 2.0)),
)
#: Factor between a bar's middle and its ends.
_HALF_BAR: Final = 1.6
#: Number of the shape for the limit of a program's own code: a triangle that points down.
_CODE_LIMIT_SHAPE: Final = 5
SHOWS: Final = (
    "The ceilings of one node, each the median of repeated launches: flat lines are peaks of computing, "
    "slopes are bandwidths of caches, memory and network."
)


def draw(roofline: Roofline, paths: Sequence[Path]) -> bool:
    """Write the picture to `paths`, each in the format of its suffix (``.png``: 1920 × 1280, ``.svg``).

    False, and nothing written, where there is no compute ceiling and so no roof. Raises OSError.
    """
    from npc.figures.printed import save

    chart = describe(roofline)
    if chart is None:
        return False
    subtitle = "median of repeated runs, in brackets and shaded its 95 % interval; ○ ridge point"
    subtitle += f"\n{roofline.disturbed}" if roofline.disturbed else ""
    save([chart], paths, subtitle=subtitle, legend="along")
    return True


def describe(
    roofline: Roofline, ident: str = "picture", title: str = "", records: Records = lambda _: ()
) -> Chart | None:
    """The figure; None where there is no roof to draw. records: where its points lead to in a page."""
    scene = compose(roofline)
    if scene is None:
        return None
    ceilings = [f"{line.ceiling.name} {value_text(line.ceiling)}" for line in scene.lines]
    return Chart(
        ident=ident,
        title=title or roofline.title,
        text=f"{SHOWS} {'; '.join(ceilings)}. The tables below have all numbers.",
        x=decade_axis(INTENSITY, *scene.x),
        y=decade_axis("Attainable performance", *scene.y, "FLOP/s"),
        traces=(
            *(_ceiling(line, scene, records) for line in scene.lines),
            *(_theoretical(words, peak, scene) for words, peak in scene.theoretical),
            *(_application(point, scene, roofline, records) for point in scene.marks),
            *(_code_limit(mark, scene, records) for mark in scene.code_limits),
        ),
        height=500,
        drops=tuple(_drops(scene)),
        source=source(roofline),
    )


def source(roofline: Roofline) -> str:
    """Whose measurements a picture shows, of when."""
    return source_line(roofline.platform, roofline.hosts, roofline.runs, roofline.first, roofline.last)


def _ceiling(line: Line, scene: Scene, records: Records) -> Trace:
    """A line with its interval, its ridge points, and a mark that says all about it."""
    ceiling, stroke = line.ceiling, line.stroke
    tip = "\n".join(_facts(ceiling))
    handle = line.end / 3 if not line.sloped else line.start * (line.end / line.start) ** 0.35
    leads = next(iter(records(ceiling)), "")
    ridges = [ridge for ridge, _ in scene.ridges if ridge.bandwidth == ceiling.name]
    marks = [
        Mark(
            ridge.intensity,
            ridge.performance,
            f"ridge point of {ridge.compute}\nwith {ridge.bandwidth}:\n"
            f"{intensity_text(ridge.intensity)} FLOP/byte",
        )
        for ridge in ridges
    ]
    return Trace(
        name=f"{ceiling.name}  {value_text(ceiling)} {interval_text(ceiling)}",
        colour=stroke.colour,
        lines=(((line.start, line.height(line.start)), (line.end, line.height(line.end))),),
        bands=(tuple(line.band()),) if ceiling.low is not None else (),
        dashes=stroke.dashes,
        width=stroke.width,
        over=(
            Trace("", stroke.colour, marks=tuple(marks), hollow=True),
            Trace(
                "", stroke.colour, marks=(Mark(handle, line.height(handle), tip, leads),), shape=3, hover=True
            ),
        ),
        tip=tip,
        group=line.group,
    )


def _facts(ceiling: Ceiling) -> Iterator[str]:
    """What is known about a ceiling, line by line."""
    yield f"{ceiling.name}: {value_text(ceiling)}"
    if ceiling.coverage is None:
        yield "too few samples for a 95 % interval"
    else:
        yield f"{100 * ceiling.coverage:.1f} % interval {interval_text(ceiling)}"
    size = f", size {format_size(ceiling.size)}" if ceiling.size is not None else ""
    yield f"{source_text(ceiling)}, {ceiling.n} samples{size}"
    if ceiling.share is not None and ceiling.nominal is not None:
        yield f"{share_text(ceiling)} of the nominal {format_quantity(ceiling.nominal, ceiling.unit, 3)}"
    if ceiling.note:
        yield ceiling.note
    if ceiling.raw:
        yield f"raw: {ceiling.raw[0]}{_and_more(ceiling.raw)}"


def _and_more(several: Sequence[object]) -> str:
    return f" and {len(several) - 1} more" if len(several) > 1 else ""


def _theoretical(words: str, peak: float, scene: Scene) -> Trace:
    return Trace(
        name=f"{words}  {format_quantity(peak, 'FLOP/s', 3)}",
        colour="grey",
        lines=(((scene.flat_start(peak), peak), (scene.x[1], peak)),),
        dashes=(1.2, 2.4),
        width=1.2,
    )


def _drops(scene: Scene) -> Iterator[DropLine]:
    """The intensities of the ridge points of the first peak, of each group from its first to its last."""
    groups = {line.ceiling.name: line.group for line in scene.lines}
    by_group: dict[str, list[tuple[Ridge, Stroke]]] = {}
    for ridge, stroke in scene.ridges:
        if ridge.compute == scene.ridges[0][0].compute:
            by_group.setdefault(groups[ridge.bandwidth], []).append((ridge, stroke))
    for members in by_group.values():
        (first, stroke), (last, _) = min(members, key=_at_intensity), max(members, key=_at_intensity)
        words = dict.fromkeys(map(intensity_text, (first.intensity, last.intensity)))
        yield DropLine(first.intensity, first.performance, "–".join(words), stroke.colour)


def _at_intensity(member: tuple[Ridge, Stroke]) -> float:
    return member[0].intensity


def _application(point: Point, scene: Scene, roofline: Roofline, records: Records) -> Trace:
    """An application: its runs as dots, the trail of its nights over them, its median with its intervals."""
    application, colour = point.application, point.colour
    name = application_text(application) + point.per
    leads = next(iter(records(application)), "")
    tip = "\n".join(
        [
            name,
            summary_text(application.flops, "FLOP/s") + ("" if application.whole_job else " a node"),
            summary_text(point.intensity, "FLOP/byte")
            if point.intensity
            else f"{intensity_text(point.x)} FLOP/byte",
            _runs(application),
            verdict(application, roofline),
        ]
    )
    runs = [
        Mark(x, y, _at(name, f"{run.time[:19]}, raw: {run.raw}", x, y), leads) for x, y, run in point.runs
    ]
    under = [Trace("", colour, marks=tuple(runs), small=True, faint=True)] if len(runs) > 1 else []
    if point.trail:
        under.append(_trail(point, name, leads))
    under += _limits(point, scene)
    if point.bars:
        under.append(Trace("", colour, lines=tuple(point.bars), width=1.2))
    return Trace(
        name, colour, marks=(Mark(point.x, point.y, tip, leads),), shape=point.shape, under=tuple(under),
        hollow=point.hollow,
    )  # fmt: skip


def _code_limit(mark: CodeLimitMark, scene: Scene, records: Records) -> Trace:
    """What its own code allows an application: a mark at the lower bound, a line from there up to the higher
    bound, and a line down to what the application reaches."""
    limit, x, y = mark.limit, mark.limit.intensity, mark.limit.flops
    name = f"{mark.application.label}: {limit.name}"
    tip = f"{name}\n{limit.tip}"
    under = [Trace("", mark.colour, lines=(((x, mark.reached), (x, y)),), dashes=(1.5, 2.0), width=1.0)]
    if limit.other is not None:
        top = min(limit.other, scene.y[1])
        ends = ((x / _HALF_BAR, top), (x * _HALF_BAR, top))
        under.append(Trace("", mark.colour, lines=(ends, ((x, y), (x, top))), width=1.4, tip=tip))
    leads = next(iter(records(mark.application)), "")
    return Trace(
        f"{name}  {format_quantity(y, 'FLOP/s', 3)}",
        mark.colour,
        marks=(Mark(x, y, tip, leads),),
        shape=_CODE_LIMIT_SHAPE,
        hollow=True,
        under=tuple(under),
    )


def _limits(point: Point, scene: Scene) -> Iterator[Trace]:
    """What the network allows the application's own messages, as bars above or below its mark: solid back to
    back, dotted one at a time. The first bar of either kind has words."""
    for kind, (words, dashes) in enumerate(_LIMITS):
        bars = [mark for mark in scene.marks if _within(mark.limits[kind], scene)]
        limit = point.limits[kind]
        if point not in bars or limit is None:
            continue
        ends = ((point.x / _HALF_BAR, limit), (point.x * _HALF_BAR, limit))
        tip = f"{application_text(point.application)}\n{words}: {format_quantity(limit, 'FLOP/s', 3)}"
        notes = (Note(point.x, limit, words, False),) if point == bars[0] else ()
        yield Trace("", point.colour, lines=(ends,), dashes=dashes, width=2.0, notes=notes, tip=tip)
        yield Trace("", point.colour, lines=(((point.x, point.y), (point.x, limit)),), width=0.7)


def _within(limit: float | None, scene: Scene) -> bool:
    """Whether it lies in the picture and below the roof, where it says something."""
    return limit is not None and scene.y[0] < limit < max(line.roof for line in scene.lines)


def _at(name: str, words: str, x: float, y: float) -> str:
    return f"{name}\n{words}\n{intensity_text(x)} FLOP/byte, {format_quantity(y, 'FLOP/s', 3)}"


def _trail(point: Point, name: str, leads: str) -> Trace:
    """The medians of an application's nights, from hollow to filled, the first and the last with its date."""
    last = len(point.trail) - 1
    ends = [(x, y, _when(night, point.application)) for x, y, night in (point.trail[0], point.trail[-1])]
    lower, upper = sorted(ends, key=lambda end: end[1])
    return Trace(
        "",
        point.colour,
        lines=(tuple((x, y) for x, y, _ in point.trail),),
        marks=tuple(
            Mark(
                x,
                y,
                _at(name, f"median of {_when(night, point.application)}, raw: {night.raw}", x, y),
                leads,
                number / last,
            )
            for number, (x, y, night) in enumerate(point.trail)
        ),
        width=1.0,
        small=True,
        notes=tuple(Note(x, y, when, above) for (x, y, when), above in ((lower, False), (upper, True))),
    )


def _when(night: NightMedians, application: Application) -> str:
    """The date of a night (UTC), with its time where a day has several."""
    day = night.time[:10]
    several = sum(one.time[:10] == day for one in application.nights) > 1
    return night.time[:16].replace("T", " ") if several else day


def _runs(application: Application) -> str:
    """How many runs it was, when, where, and their first raw file."""
    runs, coverage, nights = application.runs, application.flops.coverage, len(application.nights)
    days = " to ".join(dict.fromkeys((runs[0].time[:10], runs[-1].time[:10])))
    over = f" in {nights} nights" if nights > 1 else ""
    intervals = ""
    if coverage:
        of = " of the nights' median" if nights > 1 else ""
        intervals = f", in brackets the {100 * coverage:.1f} % interval{of}"
    return (
        f"{len(runs)} runs{over}, {days}, on {host_text(application.hosts)}{intervals}; "
        f"raw: {runs[0].raw}{_and_more(runs)}"
    )
