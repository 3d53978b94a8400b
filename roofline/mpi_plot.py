"""The MPI roofline as PNG and SVG: operations a second over operations per byte, log-log."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from npc.figures.chart import CYCLE, DASHES, Axis, Chart, Mark, Tick, Trace, decade_axis
from npc.records.units import format_size
from roofline.result import MpiCeiling, Roofline


def draw_mpi(roofline: Roofline, paths: Sequence[Path]) -> bool:
    """Write the picture to `paths`, in the format of their suffixes. Raises OSError.

    False, and nothing written, where no MPI operation was measured.
    """
    if not roofline.mpi:
        return False
    from npc.figures.printed import save

    traces = [_curve(ceiling, number) for number, ceiling in enumerate(roofline.mpi)]
    traces += [
        Trace(
            f"{caller.name}, {caller.ranks} ranks, a rank", "ink", marks=(Mark(*caller.point),), shape=number
        )
        for number, caller in enumerate(roofline.callers)
        if caller.point is not None
    ]
    xs, ys = zip(*((mark.x, mark.y) for trace in traces for mark in trace.marks), strict=True)
    left, right = min(xs) / 2, max(xs) * 2
    chart = Chart(
        ident="mpi",
        title=f"MPI roofline of {roofline.platform}",
        text="MPI operations a second over operations per byte.",
        x=decade_axis("Operations per byte (left: large messages)", left, right),
        y=decade_axis("MPI operations a second", min(ys) / 2, max(ys) * 2, "1/s"),
        traces=tuple(traces),
    )
    save(
        [chart],
        paths,
        legend="below",
        upper=Axis("message size", left, right, True, tuple(_sizes(left, right)), 2),
    )
    return True


def _curve(ceiling: MpiCeiling, number: int) -> Trace:
    places = [(1 / rate.size, rate.rate) for rate in ceiling.rates]
    banded = [(1 / rate.size, rate.low, rate.high) for rate in ceiling.rates if rate.low and rate.high]
    band = [*((x, low) for x, low, _ in banded), *((x, high) for x, _, high in reversed(banded))]
    return Trace(
        ceiling.name,
        CYCLE[number % len(CYCLE)],
        lines=(tuple(places),),
        bands=(tuple(band),) if band else (),
        marks=tuple(Mark(x, y) for x, y in places),
        dashes=DASHES[number // len(CYCLE) % len(DASHES)],
        small=True,
    )


def _sizes(left: float, right: float) -> Iterator[Tick]:
    """Message sizes, at what one operation a message is per byte."""
    for power in range(0, 41, 2):
        if left <= 1 / 2**power <= right:
            yield Tick(1 / 2**power, format_size(2**power))
