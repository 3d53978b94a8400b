"""The MPI roofline as a figure: operations a second over operations per byte, log-log."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from npc.figures.axes import Axis, Tick, decade_axis
from npc.figures.chart import CYCLE, DASHES, Chart, Mark, Trace, swept
from npc.records.units import format_quantity, format_size
from npc.roofline.figure import source
from npc.roofline.result import MpiCeiling, Roofline

SHOWS: Final = (
    "MPI operations a second over operations per byte: a message of s bytes that takes t seconds is 1/s "
    "operations per byte at 1/t operations a second."
)


def draw_mpi(roofline: Roofline, paths: Sequence[Path]) -> bool:
    """Write the picture to `paths`, in the format of their suffixes. Raises OSError.

    False, and nothing written, where no MPI operation was measured.
    """
    chart = describe(roofline)
    if chart is None:
        return False
    from npc.figures.printed import save

    sizes = Axis("Message size", chart.x.low, chart.x.high, True, tuple(_sizes(chart.x)), 2)
    save([chart], paths, subtitle="median and 95 % interval of repeated launches", upper=sizes)
    return True


def describe(roofline: Roofline, ident: str = "mpi") -> Chart | None:
    """The figure; None where no MPI operation was measured."""
    if not roofline.mpi:
        return None
    traces = [_curve(ceiling, number) for number, ceiling in enumerate(roofline.mpi)]
    traces += [
        Trace(
            f"{caller.name}, {caller.ranks} ranks, a rank", "ink", marks=(Mark(*caller.point),), shape=number
        )
        for number, caller in enumerate(roofline.callers)
        if caller.point is not None
    ]
    marks = [mark for trace in traces for mark in trace.marks]
    ys = [y for mark in marks for y in (mark.y, mark.low, mark.high) if y]
    xs = [mark.x for mark in marks]
    names = ", ".join(ceiling.name for ceiling in roofline.mpi)
    return Chart(
        ident=ident,
        title=f"MPI roofline of {roofline.platform}",
        text=f"{SHOWS} {len(roofline.mpi)} lines: {names}. The table below has all numbers.",
        x=decade_axis("Operations per byte (left: large messages)", min(xs) / 2, max(xs) * 2),
        y=decade_axis("MPI operations a second", min(ys) / 1.5, max(ys) * 1.5, "1/s"),
        traces=tuple(traces),
        source=source(roofline),
    )


def _curve(ceiling: MpiCeiling, number: int) -> Trace:
    marks = [
        Mark(
            1 / rate.size,
            rate.rate,
            f"{ceiling.name}\n{format_size(rate.size)}: {format_quantity(rate.rate, '1/s')}",
            low=rate.low,
            high=rate.high,
        )
        for rate in ceiling.rates
    ]
    dashes = DASHES[number // len(CYCLE) % len(DASHES)]
    return swept(ceiling.name, CYCLE[number % len(CYCLE)], marks, dashes=dashes, small=True)


def _sizes(x: Axis) -> Iterator[Tick]:
    """Ticks for message sizes: a message of s bytes stands at 1/s operations per byte."""
    for power in range(0, 41, 2):
        if x.low <= 1 / 2**power <= x.high:
            yield Tick(1 / 2**power, format_size(2**power))
