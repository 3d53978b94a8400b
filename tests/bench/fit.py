"""How fast the fits are: one sweep of 23 sizes and six launches, with every model that applies.

``python -m tests.bench.fit``. CPU time of some runs, after one that loads numpy.
"""

from __future__ import annotations

import time
import zlib
from collections.abc import Callable
from statistics import median

import numpy as np

from npc.roofline.fits import fit_series
from npc.roofline.models import hockney
from npc.roofline.models.piecewise import Sweep
from npc.roofline.prediction import BelievedModels, predict
from npc.roofline.sweeps import SweepSource, SweepTimes

RUNS = 30
SIZES = [2**power for power in range(23)]
PATTERNS = {
    "prtt": (3e-6, 6e-10), "prtt_burst": (20e-6, 4e-9), "prtt_delayed": (80e-6, 14e-9),
    "prtt_delay": (4e-6, 7e-10),
    "burst": (2e-6, 1e-6), "h_relation": (7e-6, 2e-10), "ring_1": (1e-6, 1e-10), "ring_2": (2e-6, 1e-10),
    "middleware": (2e-6, 3e-10), "middleware_strided": (2e-6, 1e-9), "pack": (5e-7, 5e-11),
    "pack_strided": (5e-7, 6e-10),
}  # fmt: skip


def series(benchmark: str, case: str, alpha: float, beta: float) -> SweepTimes:
    """Six launches, eager up to 8 KiB, with 3 % of noise."""
    rng = np.random.default_rng(zlib.crc32(case.encode()))
    times = {
        size: {
            str(launch): float((alpha * (3 if size > 8192 else 1) + beta * size) * (1 + 0.03 * noise))
            for launch, noise in enumerate(rng.standard_normal(6))
        }
        for size in SIZES
    }
    params = '{"messages": "16", "ranks": "2"}' if case == "prtt_burst" else '{"ranks": "2"}'
    source = SweepSource("vm", benchmark, case, 2, (), params)
    return SweepTimes(source, "pattern" if benchmark == "models" else "half round trip", times, ())


def report(name: str, work: Callable[[], object]) -> None:
    work()
    taken = []
    for _ in range(RUNS):
        start = time.process_time()
        work()
        taken.append(time.process_time() - start)
    print(f"{name:44} {1e3 * min(taken):8.2f} {1e3 * median(taken):8.2f}")


def main() -> None:
    latency = series("osu", "osu_latency", 2e-6, 1e-10)
    everything = [series("models", case, *line) for case, line in PATTERNS.items()]
    sweep = latency.sweep()
    fitted = hockney.fit(sweep)
    asked = (
        BelievedModels.alone("Hockney", fitted.pieces),
        ["bcast", "allreduce", "alltoall"],
        [16, 1024],
        [8, 65536],
    )
    print(f"{'CPU time [ms]':44} {'best':>8} {'median':>8}")
    report("Hockney by pieces, with held-out errors", lambda: hockney.fit(Sweep(sweep.x, sweep.times)))
    report("a ping-pong sweep with its models", lambda: fit_series([latency]))
    report("the models benchmark, all six models", lambda: fit_series(everything))
    report("28 predictions of collectives", lambda: list(predict(*asked)))


if __name__ == "__main__":
    main()
