"""The roofline: no kernel is faster than its peak, nor than any path its bytes must take.

P(I) = min(P_peak, I·b) for one bandwidth ceiling (Williams, Waterman, Patterson, Roofline, CACM 52(4),
2009), and extended by the network P = min(P_peak, I_mem·b_mem, I_net·b_net) (Bartelheimer, Zhu,
Neuwirth, Automated Network Performance Characterization for HPC Systems, 2023). The two intensities are
two numbers of one program: FLOP per byte of memory traffic, and FLOP per byte on the network.
"""

from __future__ import annotations

import math
from collections.abc import Iterable


def attainable(peak: float, paths: Iterable[tuple[float, float]] = ()) -> float:
    """FLOP/s that a kernel can reach: min(peak, I₁·b₁, I₂·b₂, …).

    peak: FLOP/s. paths: (operational intensity in FLOP/byte, bandwidth in B/s) for memory, network, …;
    an infinite intensity is a kernel that moves nothing there. Raises ValueError for a peak or bandwidth
    that is not positive and finite, and for a negative intensity.
    """
    _positive("peak", peak)
    lowest = peak
    for intensity, bandwidth in paths:
        _positive("bandwidth", bandwidth)
        if not intensity >= 0:
            raise ValueError(f"operational intensity: {intensity} FLOP/byte")
        lowest = min(lowest, intensity * bandwidth)
    return lowest


def ridge_point(peak: float, bandwidth: float) -> float:
    """The operational intensity P/b in FLOP/byte from which on the peak limits and not the bandwidth.

    Raises ValueError for values that are not positive and finite.
    """
    _positive("peak", peak)
    _positive("bandwidth", bandwidth)
    return peak / bandwidth


def _positive(name: str, value: float) -> None:
    if not (value > 0 and math.isfinite(value)):
        raise ValueError(f"{name}: {value} is not positive and finite")
