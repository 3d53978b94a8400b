"""How much of a tool's spread lies within a launch, and how much between launches (``make bench-spread``).

Launches as long as the suite makes them and four times as long, in shuffled order, on this machine. The
variance of a launch that measures for a time T is B + W/T: B between launches, whatever their length, W of
what is averaged inside one. Two lengths tell both. Where B is most of it, longer launches are paid for
nothing and more launches are what helps; where W/T is, fewer and longer ones are as good. Variances are of
the middle half of the values (the interquartile range, as of a normal distribution), so that one outlier
counts for nothing. With ten launches a share is known to about a third.
"""

from __future__ import annotations

import argparse
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from statistics import fmean, median, quantiles
from typing import NamedTuple

from npc import parsers
from npc.columns import columns
from npc.records.launch import read_launches
from npc.records.units import format_size
from tests.paths import ROOT

BIN = ROOT / ".venv/bin"
FACTOR = 4
AS_ROOT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
#: Params of numbers that are not a launch's own.
PARTS = ("statistic", "core")
#: Of a normal distribution: the interquartile range over the standard deviation.
IQR = 1.349


class Tool(NamedTuple):
    """short: what stands for ``{t}`` in the command, once and, for a launch four times as long, `long`.
    metric: which of its numbers. server: what runs beside it."""

    name: str
    command: str
    short: str
    long: str
    metric: str
    server: str = ""


def four(number: int) -> tuple[str, str]:
    return str(number), str(FACTOR * number)


OSU = f"mpirun -n 2 {BIN}/npc-python {ROOT}/benchmarks/osu/osu.py {{t}} --max-size 1048576"
FIO = "fio --name={name} --rw={name} --filename=data --size=64M --direct=1 --ioengine=libaio --iodepth=16"
FIO += " --output-format=json --clocksource=clock_gettime --time_based --runtime={{t}}ms --bs="
SOCKPERF = f"env LD_PRELOAD={ROOT}/.venv/share/npc/short_start.so sockperf"
TOOLS = (
    Tool("qperf", "qperf 127.0.0.1 -lp 19765 -t {t} -m 60K tcp_bw", *four(1), "bandwidth", "qperf -lp 19765"),
    Tool("qperf", "qperf 127.0.0.1 -lp 19765 -t {t} -m 1 tcp_lat", *four(1), "latency", "qperf -lp 19765"),
    Tool("sockperf", f"{SOCKPERF} ping-pong -i 127.0.0.1 -p 19766 --tcp -t {{t}}", *four(1), "latency",
         "sockperf server --tcp -p 19766"),
    Tool("sockperf", f"{SOCKPERF} throughput -i 127.0.0.1 -p 19766 --tcp -t {{t}} --msg-size 32768", *four(1),
         "bandwidth", "sockperf server --tcp -p 19766"),
    Tool("iperf3", "iperf3 -c 127.0.0.1 -p 19767 --json -t {t}", *four(1), "bandwidth", "iperf3 -s -p 19767"),
    Tool("osu", OSU, "latency", " ".join(["latency"] * FACTOR), "latency"),
    Tool("osu", OSU, "bw", " ".join(["bw"] * FACTOR), "bandwidth"),
    Tool("osu", OSU, "allreduce", " ".join(["allreduce"] * FACTOR), "latency"),
    Tool("likwid", "likwid-bench -t load_avx -W N:32kB:2 -i {t}", *four(600_000), "bandwidth"),
    Tool("likwid", "likwid-bench -t load_avx -W N:400000kB:2 -i {t}", *four(10), "bandwidth"),
    Tool("fio", FIO.format(name="randread") + "4k", *four(100), "operation_rate"),
    Tool("fio", FIO.format(name="read") + "1M", *four(100), "bandwidth"),
    Tool("noise", "./noise -s {t} -q 1000 -t 1", "0.3", "1.2", "noise"),
)  # fmt: skip


def values_of(folder: Path, tool: Tool) -> Iterator[tuple[str, str, float]]:
    """(what was measured, ``{t}``, value) of each launch: the mean of what it printed, of several sizes those
    of the smallest and the largest."""
    for launch in read_launches(folder).launches:
        found = defaultdict(list)
        text = (folder / launch.raw).read_text(errors="replace")
        readings = [
            reading
            for reading in parsers.parse(tool.name, text, launch.argv)
            if reading.metric == tool.metric and reading.value and reading.params.keys().isdisjoint(PARTS)
        ]
        sizes = [reading.size or 0 for reading in readings]
        for reading in readings:
            if (reading.size or 0) in (min(sizes), max(sizes)):
                size = f" {format_size(reading.size)}" if reading.size is not None else ""
                found[reading.case + size].append(reading.value or 0.0)
        for what, values in found.items():
            yield what, launch.case, fmean(values)


def variance(values: list[float]) -> float:
    """Relative, of the middle half."""
    low, _, high = quantiles(values, n=4, method="inclusive")
    return ((high - low) / IQR / median(values)) ** 2


def measure(tool: Tool, runs: int, folder: Path) -> Iterator[tuple[str, ...]]:
    """A row for each of its numbers."""
    server = subprocess.Popen(tool.server.split(), stdout=subprocess.DEVNULL) if tool.server else None
    time.sleep(0.5 if server else 0)
    try:
        subprocess.run(
            [BIN / "npc", "records", "sample", "--tool", tool.name, "--runs", str(runs), "--each",
             f"t={tool.short},{tool.long}", "--output", folder, "--", *tool.command.split()],
            cwd=folder.parent, env=os.environ | AS_ROOT, stdout=subprocess.DEVNULL, check=False, timeout=900,
        )  # fmt: skip
    finally:
        if server:
            server.kill()
            server.wait()
    by_length: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for what, length, value in values_of(folder, tool):
        by_length[what][length].append(value)
    for what, lengths in by_length.items():
        short, long = lengths[tool.short], lengths[tool.long]
        if min(len(short), len(long)) < 4:
            continue
        once, times = variance(short), variance(long)
        between = max(0.0, (FACTOR * times - once) / (FACTOR - 1))
        within = max(0.0, (once - times) * FACTOR / (FACTOR - 1))
        share = between / (between + within) if between + within else 0.0
        yield (f"{tool.name} {what}", f"{median(short):.4g}", f"{median(long) / median(short):.3f}",
               f"{100 * once**0.5:.2g} %", f"{100 * times**0.5:.2g} %", f"{100 * share:.0f} %")  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.spread", description=__doc__)
    parser.add_argument("--runs", type=int, default=10, help="launches of each length (10)")
    parser.add_argument("--tool", help="this one alone")
    options = parser.parse_args()
    print(f"{options.runs} launches of each length on {socket.gethostname()}", flush=True)
    head = ("", "SI", "longer/short", "spread", "4 times as long", "between launches")
    rows = []
    with tempfile.TemporaryDirectory(prefix="npc-bench-") as place:
        build = ROOT / "benchmarks/noise"
        subprocess.run(["bash", build / "build.sh", build, "cc", "-O2"], cwd=place, check=True)
        for number, tool in enumerate(TOOLS):
            if options.tool in (None, tool.name):
                rows += measure(tool, options.runs, Path(place) / str(number))
                print(f"{tool.name}: {len(rows)} numbers", flush=True)
    print(*columns([head, *rows], right=(1, 2, 3, 4, 5)), sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
