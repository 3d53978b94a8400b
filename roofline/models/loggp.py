"""LogGP: T(s) = L + 2o + (s − 1)·G for one message of s bytes, and a gap g between messages.

A. Alexandrov, M. F. Ionescu, K. E. Schauser, C. Scheiman, LogGP: incorporating long messages into the LogP
model, SPAA 1995. L is the wire's latency, o the processor's overhead at each end, g the least interval
between messages, G the time of one more byte of a long message.

A ping-pong cannot tell o from L, nor g from either. The parametrised round trip time can (T. Hoefler, A.
Lichei, W. Rehm, Low-Overhead LogGP Parameter Assessment for Modern Interconnection Networks, IPDPS 2007,
section 3): n messages of s bytes, with a pause of d between them, answered by one message,

    PRTT(1,0,s) = 2·(L + 2o + (s − 1)·G)
    PRTT(n,0,s) = PRTT(1,0,s) + (n − 1)·(g + (s − 1)·G)
    PRTT(n,d,s) = PRTT(1,0,s) + (n − 1)·(o + d)          where d is longer than what one message keeps busy.

So the burst gives g and G, the paused burst gives o, and half the round trip less two overheads is L. Each
is a line over s within the pieces of the half round trip; o grows with s as well, by O for each byte, where
the processor copies (T. Hoefler, T. Schneider, A. Lumsdaine, LogGOPSim, HPDC 2010).

`fit_gap` takes a windowed bandwidth sweep: size/bandwidth is the interval between messages g + (s − 1)·G.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from npc.roofline.models.estimate import EstimatedNumber, Parameter
from npc.roofline.models.fitted import FittedModel, PiecewiseLinear, line_parameters, parts_of
from npc.roofline.models.piecewise import Sweep, design_of, fit_pieces, fit_times, weighted_fit
from npc.statistics.arrays import Floats


@dataclass(frozen=True, slots=True, kw_only=True)
class LogGP(FittedModel):
    """L, o, O, g, G of each protocol; residuals and held-out errors are those of T(s)."""

    model: ClassVar[str] = "LogGP"
    equation: ClassVar[str] = "T(s) = L + 2o + (s − 1)·G"
    source: ClassVar[str] = "Alexandrov et al., SPAA 1995; Hoefler et al., IPDPS 2007"


@dataclass(frozen=True, slots=True, kw_only=True)
class Gap(PiecewiseLinear):
    """g and G of each protocol from a windowed bandwidth test."""

    model: ClassVar[str] = "LogGP gap"
    equation: ClassVar[str] = "size/bandwidth = g + (s − 1)·G"
    source: ClassVar[str] = "Alexandrov et al., SPAA 1995"
    observable: ClassVar[str] = "interval between messages"


def fit_gap(sweep: Sweep) -> Gap:
    """The model of the time that each message of a windowed test takes."""
    pieces = fit_pieces(sweep)
    return Gap.of(
        sweep,
        pieces,
        line_parameters(
            pieces,
            ("g", "gap: least interval between messages"),
            ("G", "time of one more byte of a stream"),
            ("1/G", "asymptotic bandwidth"),
        ),
    )


def fit(messages: int, single: Sweep, burst: Sweep, delayed: Sweep, delay: Sweep) -> LogGP:
    """The model of n = `messages`, PRTT(1,0,s), PRTT(n,0,s), PRTT(n,d,s) and d: same sizes, same launches."""
    half = Sweep(single.x, single.times / 2)
    gaps = (burst.times - single.times) / (messages - 1)
    overheads = (delayed.times - single.times) / (messages - 1) - delay.times
    splits = fit_pieces(half).splits
    parameters: list[Parameter] = []
    fitted: list[float] = []
    held_out: list[float] = []
    for first, last in splits:
        part = slice(first, last + 1)
        x, scale = single.x[part], half.middle[part]
        time = _line(x, half.times[part], scale)
        gap = _line(x, gaps[part], burst.middle[part])
        overhead = _line(x, overheads[part], delayed.middle[part])
        parameters += _parameters(time, gap, overhead, (float(x[0]), float(x[-1])))
        fitted += [time.at_one.value + gap.slope.value * (size - 1) for size in x.tolist()]
        held_out += _held_out(x, half.times[part], gaps[part], scale, burst.middle[part])
    residuals = half.middle / fitted - 1
    return LogGP(
        parameters=tuple(parameters),
        x=tuple(single.x.tolist()),
        residuals=tuple(residuals.tolist()),
        held_out=tuple(held_out),
        launches=single.whole_launches.shape[1],
        note=_of_latency(parameters[0]),
        parts=parts_of("half round trip", splits),
    )


def _of_latency(latency: Parameter) -> str:
    """What to know of L at the smallest sizes."""
    if math.isnan(latency.value):
        return (
            "L is not identified: the errors of half the round trip and of the overheads leave nothing of it"
        )
    if latency.low is not None and latency.low <= 0:
        return "L cannot be told from 0: the overheads of both ends are the whole half round trip"
    return ""


@dataclass(frozen=True, slots=True)
class _Line:
    """A line over the size s."""

    #: In s/B.
    slope: EstimatedNumber
    #: The line's time at one byte, in s.
    at_one: EstimatedNumber


def _line(x: Floats, times: Floats, scale: Floats) -> _Line:
    """The line of `times` (sizes × launches), whose errors are proportional to `scale`."""
    fit = fit_times(design_of(x, ((0, len(x) - 1),)), times, scale)
    return _Line(slope=fit.combine((0, 1)), at_one=fit.combine((1, 1)))


def _parameters(time: _Line, gap: _Line, overhead: _Line, valid: tuple[float, float]) -> list[Parameter]:
    """The parameters of one protocol; L, o and g are those of a message of one byte, whose L and two o are
    together half the round trip, so that none of them is longer."""
    half = time.at_one.interval().high
    most = time.at_one.value if half is None else half
    latency = time.at_one - overhead.at_one * 2.0
    return [
        Parameter.of("L", latency, "s", "latency of the wire", valid, most),
        Parameter.of("o", overhead.at_one, "s", "overhead of the processor, at each end", valid, most / 2),
        Parameter.of("O", overhead.slope, "s/B", "overhead of one more byte", valid),
        Parameter.of("g", gap.at_one, "s", "gap: least interval between messages", valid),
        Parameter.of("G", gap.slope, "s/B", "time of one more byte of a long message", valid),
        Parameter.inverse("1/G", gap.slope, "B/s", "asymptotic bandwidth", valid),
    ]


def _held_out(x: Floats, half: Floats, gaps: Floats, scale: Floats, bursts: Floats) -> list[float]:
    """ln(measured/predicted) of half the round trip at each size, without that size."""
    times, intervals = np.median(half, axis=1), np.median(gaps, axis=1)
    design = design_of(x, ((0, len(x) - 1),))
    errors = []
    for left_out in range(len(x)):
        shown = np.arange(len(x)) != left_out
        time = weighted_fit(design[shown], times[shown], scale[shown])[0]
        gap = weighted_fit(design[shown], intervals[shown], bursts[shown])[0]
        predicted = float(time[0] + time[1] + gap[1] * (x[left_out] - 1))
        errors.append(math.log(scale[left_out] / predicted) if predicted > 0 else math.inf)
    return errors
