"""The time that one sample of its stack costs a program, by `perf record` as `npc.observe.hotspots` calls it.

A process computes blocks of equal work, alternately without samples and with many more samples than usual. An
interrupt's time belongs to no process, so the blocks' wall-clock times are compared, and of these the fast
ones, which nothing else has interrupted. At F samples per second of c seconds each, a block takes 1 / (1 −
F·c) times as long.
"""

from __future__ import annotations

import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec

from npc.machine.sysfs import number
from npc.observe.costs.cache import NoCost, cached_costs
from npc.observe.costs.maker import CostProgram
from npc.observe.hotspots.perf import find_perf, perf_access
from npc.observe.hotspots.records import HOTSPOTS
from npc.observe.rank_files import WatchedRank

_RATE: Final = 10_000
_MAX_RATE: Final = Path("/proc/sys/kernel/perf_event_max_sample_rate")
#: Steps of a block (some milliseconds), blocks of a turn, turns. Of the blocks' times the 10 % quantile
#: counts.
_STEPS, _BLOCKS, _TURNS = 100_000, 40, 3
_FAST: Final = 0.1
_PATIENCE_S: Final = 10.0
_SETTLED_S: Final = 0.1


class _Recorded(msgspec.Struct):
    """What `npc.observe.hotspots.recorder` reports at its end."""

    #: How many stacks were recorded.
    samples: int = 0


def cost(call_graph: str) -> float:
    """Seconds of one sample. call_graph: fp, dwarf or lbr. Raises NoCost."""
    perf = find_perf()
    if perf.problem:
        raise NoCost(perf.problem)
    if not perf_access().own:
        raise NoCost(perf_access().line)
    key = {"tool": f"perf {perf.version}", "call_graph": call_graph}
    return cached_costs("stacks", key, lambda: {"sample": _measured(perf.path, call_graph)})["sample"]


def overhead_of_samples(ranks: Sequence[WatchedRank], call_graph: str) -> float | None:
    """The share of its run time that the samples of the rank with most took (0.01: 1 %); None where there are
    none. Raises NoCost."""
    samples = [
        (recorded.samples, rank.seconds)
        for rank in ranks
        if (recorded := rank.left_by(HOTSPOTS, _Recorded)) is not None
    ]
    if not any(number for number, _ in samples):
        return None
    seconds = cost(call_graph)
    return max((number * seconds / lasted for number, lasted in samples if lasted > 0), default=None)


def _measured(perf: str, call_graph: str) -> float:
    rate = min(_RATE, number(_MAX_RATE) or _RATE)
    plain, sampled = [], []
    with CostProgram() as worker, tempfile.TemporaryDirectory() as folder:
        for _ in range(_TURNS):
            plain += [worker.make("work", _STEPS) for _ in range(_BLOCKS)]
            file = Path(folder, "data")
            words = ["record", "-q", "-e", "cpu-clock", "-F", str(rate), "--call-graph", call_graph]
            words += ["-p", str(worker.pid), "-o", str(file), "--no-buildid-cache"]
            with subprocess.Popen(
                [perf, *words], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
            ) as recorder:
                try:
                    _wait_for(recorder, file)
                    sampled += [worker.make("work", _STEPS) for _ in range(_BLOCKS)]
                finally:
                    recorder.kill()
            file.unlink()
    fast = [sorted(run_seconds)[int(_FAST * len(run_seconds))] for run_seconds in (plain, sampled)]
    return max(1 - fast[0] / fast[1], 0.0) / rate


def _wait_for(recorder: subprocess.Popen[bytes], file: Path) -> None:
    limit = time.monotonic() + _PATIENCE_S
    while not (file.exists() and file.stat().st_size):
        if recorder.poll() is not None or time.monotonic() > limit:
            raise NoCost("perf record does not begin")
        time.sleep(_SETTLED_S / 10)
    time.sleep(_SETTLED_S)
