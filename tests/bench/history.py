"""How a history grows with its cluster: a year of 1000 nodes, 5 million rows.

Run by `make bench-history`. The history is written here by a plain script, with the structure of a real one:
benchmarks of single nodes and of pairs that change every night, sizes, parameters, nodes that fail, nights
that were disturbed, second measurements. Measured are the index and a judgement of the last night with it,
beside the plain way that takes no index at all, each in a process of its own: seconds by the clock, and the
largest memory that one process had. 1 if a limit is exceeded.

    make bench-history                                 a year of 1000 nodes
    .venv/bin/python -m tests.bench.history 100 60     60 nights of 100 nodes
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Final, NamedTuple

from npc.records.record import COLUMNS

NODES, NIGHTS = 1000, 365
PLATFORM: Final = "bench"
BEGUN: Final = datetime(2025, 12, 1, 2, 30, tzinfo=timezone.utc)
#: Limits for 5 million rows: seconds of indexing and of judging, bytes of judging.
INDEX_S, JUDGE_S, JUDGE_BYTES = 20.0, 10.0, 1e9


class Test(NamedTuple):
    """One test of a night."""

    benchmark: str
    case: str
    metric: str
    unit: str
    #: Its usual value.
    usual: float
    #: Bytes; empty where the test has none.
    sizes: tuple[str, ...]
    #: Its params, as the cell of a CSV file has them.
    params: str
    version: str


_BOUND: Final = (
    '"{""client_cpus"": ""0-63"", ""interface"": ""ib0"", ""mpi"": ""openmpi"", ""server_cpus"": ""0-63""}"'
)
_THREADS: Final = '"{""thread_cpus"": ""0-63"", ""threads"": ""64""}"'
_SIZES: Final = tuple(str(8**power) for power in range(1, 7))
#: Tests of one node, and of two.
OF_NODES: Final = (
    Test("stream", "triad", "bandwidth", "B/s", 3e11, ("2147483648",), _THREADS, "5.10"),
    Test("stream", "copy", "bandwidth", "B/s", 2.8e11, ("2147483648",), _THREADS, "5.10"),
    Test("likwid", "load_avx512", "bandwidth", "B/s", 3.2e11, ("4294967296",), _THREADS, "5.4.1"),
    Test("gemm", "dgemm", "flops", "FLOP/s", 4e12, ("",), _THREADS, ""),
    Test("gemm", "sgemm", "flops", "FLOP/s", 8e12, ("",), _THREADS, ""),
    Test("hpcg", "hpcg", "flops", "FLOP/s", 3e10, ("",), '"{""ranks"": ""64""}"', "3.1"),
    Test("hpcg", "hpcg", "energy", "J", 3e4, ("",), '"{""ranks"": ""64""}"', "3.1"),
)
OF_PAIRS: Final = (
    Test("qperf", "tcp_bw", "bandwidth", "B/s", 2.5e9, ("65536",), _BOUND, "0.4.11"),
    Test("osu", "osu_bw", "bandwidth", "B/s", 2.4e10, _SIZES, _BOUND, "7.4"),
    Test("osu", "osu_latency", "latency", "s", 1.5e-6, _SIZES, _BOUND, "7.4"),
)


def write_history(folder: Path, nodes: int, nights: int, seed: int = 1) -> int:
    """Files by month; how many rows. One node is 6 % slower in its last thirty nights."""
    folder.mkdir(parents=True)
    chance = random.Random(seed)
    rows = 0
    for night in range(nights):
        begun = BEGUN + timedelta(days=night)
        path = folder / f"{begun:%Y-%m}.csv"
        lines = list(_night(chance, begun, nodes, slow="n0007" if night >= nights - 30 else ""))
        with path.open("a") as stream:
            if not stream.tell():
                stream.write(",".join(COLUMNS) + "\n")
            stream.writelines(lines)
        rows += len(lines)
    return rows


def _night(chance: random.Random, begun: datetime, nodes: int, slow: str) -> Iterator[str]:
    names = [f"n{number:04}" for number in range(nodes)]
    shuffled = chance.sample(names, nodes)
    pairs = list(zip(shuffled[::2], shuffled[1::2], strict=False))
    run = f"{begun:%Y%m%dT%H%M%SZ}-{begun.timetuple().tm_yday:06}"
    for tests, groups in ((OF_NODES, [(name,) for name in names]), (OF_PAIRS, pairs)):
        for number, hosts in enumerate(groups):
            at, loss, luck = ";".join(hosts), 0.94 if slow in hosts else 1.0, chance.random()
            for place, test in enumerate(tests):
                launched = begun + timedelta(seconds=2 * number, milliseconds=7 * number % 1000 + 97 * place)
                time_cell = launched.isoformat(timespec="milliseconds")
                status, params, again = "ok", test.params, False
                if luck < 0.001:
                    status = f"failed: {hosts[-1]}: exit code 1"
                elif luck < 0.003:
                    params = params[:-2] + ', ""disturbed"": ""0.12""}"'
                elif luck < 0.005:
                    again = True
                raw = f"{number:06}_{test.benchmark}/work/{test.case}.log"
                for size in test.sizes:
                    level = test.usual * (1 / loss if test.metric == "latency" else loss)
                    value = "" if luck < 0.001 else repr(level * chance.gauss(1, 0.01))
                    for cell in (params, params[:-2] + ', ""remeasured"": ""1""}"') if again else (params,):
                        what = f"{test.benchmark},{test.case},{test.metric},{value},{test.unit},{size}"
                        job = f"{70000 + number},{run},0,{status},{test.version}"
                        yield f"{time_cell},{PLATFORM},{what},{len(hosts)},{at},{job},{cell},{raw}\n"


#: What a process does with the history: reads the files' index, or judges the last night by it.
_INDEX: Final = "History(folder).nights()"
_JUDGE: Final = "judge_night(folder, history, night.run, moment(night.begun))"
#: The plain way to read and group: rows as dictionaries, medians of lists.
_PLAIN: Final = """
groups = {}
for path in sorted(folder.glob("*.csv")):
    with path.open(newline="") as stream:
        for row in csv.DictReader(stream):
            if row["status"] == "ok":
                key = row["benchmark"], row["case"], row["metric"], row["size"], row["run"]
                groups.setdefault(key, []).append(float(row["value"]))
print(len({key: statistics.median(values) for key, values in groups.items()}))
"""
_PROGRAM: Final = """
import csv, json, os, resource, statistics, sys, time
from pathlib import Path
begun, folder = time.perf_counter(), Path(sys.argv[1])
from npc.cron.nightly import judge_night
from npc.cron.series import panel
from npc.records.history import History
from npc.records.record import moment
{work}
took = time.perf_counter() - begun
used = [resource.getrusage(who).ru_maxrss * 1024 for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
print(json.dumps([took, sum(os.times()[:4]), max(used)]))
"""


class Cost(NamedTuple):
    """What a process took."""

    #: By the clock.
    seconds: float
    #: Of processors.
    processor_s: float
    #: The most memory that it, or a process that it started, had.
    peak_bytes: float


def cost(work: str, folder: Path) -> Cost:
    """What a piece of work takes in a process of its own."""
    program = _PROGRAM.format(work=work)
    ended = subprocess.run(
        [sys.executable, "-c", program, folder], capture_output=True, text=True, check=True
    )
    return Cost(*json.loads(ended.stdout.splitlines()[-1]))


def main(nodes: int = NODES, nights: int = NIGHTS) -> int:
    """Measure them; 1 if a limit is exceeded."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / PLATFORM
        rows = write_history(folder, nodes, nights)
        print(f"{nights} nights of {nodes} nodes: {rows} rows")
        judge = f"history = History(folder); night = history.nights()[-1]; {_JUDGE}"
        costs = {}
        for name, work in (
            ("the plain way: read and grouped", _PLAIN),
            ("indexed", _INDEX),
            ("read into a panel", "panel(History(folder).points())"),
            ("the last night judged", judge),
            (
                "its records read",
                "history = History(folder); list(history.records(run=history.nights()[-1].run))",
            ),
        ):
            costs[name] = took = cost(work, folder)
            print(
                f"{name}: {took.seconds:.1f} s by the clock, {took.processor_s:.1f} s of processors, "
                f"{took.peak_bytes / 1e6:.0f} MB"
            )
    plain, index, _, judged, _ = costs.values()
    print(
        f"the plain way takes {plain.seconds / judged.seconds:.1f} times as long as judging, and "
        f"{plain.peak_bytes / judged.peak_bytes:.1f} times the memory"
    )
    share = max(rows / 5e6, 1.0)
    return int(
        index.seconds > INDEX_S * share
        or judged.seconds > JUDGE_S * share
        or judged.peak_bytes > JUDGE_BYTES * share
    )


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))
