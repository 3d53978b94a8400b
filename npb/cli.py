"""The command line of ``npb``."""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Sequence
from typing import Any, Final

from npc import __version__
from npc.machine.sysfs import parse_cpus
from npc.npb import rank
from npc.npb.options import DRAW_SEED, LauncherOptions
from npc.processes import RANK, first_number
from npc.terminal import guard

_EPILOG: Final = """\
Start it with an MPI launcher, one process a node:
  mpirun -np 2 npb --servercmd qperf --clientcmd "qperf HOSTNAME tcp_bw tcp_lat" --killserver
  mpirun -np 2 npb --servercmd qperf --clientcmd "qperf HOSTNAME --repeat msg_size:1:64K:*4 tcp_bw tcp_lat" \\
         --killserver --runs 6 --shuffle --output results
  srun -N 8 --ntasks-per-node=1 --mpi=pmix npb --pairs all --servercmd "iperf3 -s" \\
         --clientcmd "iperf3 -c HOSTNAME -t 2 -J" --killserver
Rank 0 is the server, rank 1 the client. HOSTNAME in both commands becomes the server's address, PORT
a port that is free there (PORT+1 the next one). Commands are split as a shell splits them, but no shell runs.

exit codes:
  0 every step ok    2 usage, or nothing could be started    3 the server failed    4 the client failed
  5 a time limit     6 some steps ok, some failed            130, 143 ended by SIGINT, SIGTERM
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one rank of npb; returns its exit code."""
    guard()
    return rank.run(options_of(arguments))


def options_of(arguments: Sequence[str] | None = None) -> LauncherOptions:
    """What a command line asks for. It exits with code 2 on a mistake, which one rank explains."""
    given: dict[str, Any] = vars(parser().parse_args(arguments))
    lists = {name: tuple(value) for name, value in given.items() if isinstance(value, list)}
    return LauncherOptions(**given | lists)


def parser() -> argparse.ArgumentParser:
    """What the command line may be. It exits with code 2 on a mistake, which one rank explains."""
    parser = _Parser(
        prog="npb",
        description="Start the server and the client of a network tool on two nodes, or on pairs of many.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument(
        "--version", action="version", version=f"npb, version {__version__}", help="show the version and exit"
    )
    add = parser.add_argument_group("the tool").add_argument
    add("--servercmd", required=True, type=_command, metavar="CMD", help="the server's command line")
    add("--clientcmd", required=True, type=_command, metavar="CMD", help="the client's command line")
    add("--killserver", action="store_true", help="end the server at once when the clients are done")
    add(
        "--server-per-step",
        action="store_true",
        help="a fresh server for each step (perftest and iperf3 -1 get one anyway)",
    )
    add("--parser", default="", metavar="NAME",
        help="parser of the client's output; raw: none (default: by the tool)")  # fmt: skip

    add = parser.add_argument_group("what is repeated").add_argument
    add(
        "--repeat",
        action="append",
        default=[],
        metavar="NAME:FROM:TO:OPSTEP",
        help="inside a command: --NAME VALUE for each value; here: each value for {NAME} in the commands; "
        "OP is one of + - * /, or give a list NAME:A,B,C; several make their product",
    )
    add(
        "--runs",
        type=_runs,
        default=1,
        metavar="N|auto",
        help="repeat everything, fresh clients (1); auto, of one pair: six times, and more where that "
        "brings it to --precision",
    )
    add(
        "--precision",
        type=_percent,
        metavar="PERCENT",
        help="how far a median's 95 %% interval may reach to either side (3)",
    )
    add("--samples-max", type=_count, metavar="N", help="most clients of a step that auto starts (14)")
    add(
        "--case-time",
        type=_seconds,
        metavar="S",
        help="auto starts more than six clients of a step if all of them take no longer (6)",
    )
    add(
        "--shuffle",
        nargs="?",
        const=DRAW_SEED,
        type=int,
        metavar="SEED",
        help="random order; a seed is drawn and recorded if none is given",
    )
    add("--fail-fast", action="store_true", help="stop at the first failed step")

    add = parser.add_argument_group("addresses and CPUs").add_argument
    add(
        "--replace-host",
        "--modify_hostname",
        nargs=2,
        metavar=("OLD", "NEW"),
        help="replace OLD by NEW in the server's host name, for a second network: node ib-node",
    )
    add("--interface", metavar="NAME", help="take the server's address on this interface")
    add(
        "--hostfile-addresses",
        metavar="FILE",
        help="file of lines `host address`: where each host's server is reached",
    )
    add("--server-cpus", type=_cpus, default=frozenset(), metavar="LIST",
        help="CPUs of the server, such as 0-3,8 (default: all of the job's)")  # fmt: skip
    add("--client-cpus", type=_cpus, default=frozenset(), metavar="LIST",
        help="CPUs of the client (default: all of the job's)")  # fmt: skip

    add = parser.add_argument_group("limits, in seconds").add_argument
    add("--ready-timeout", type=_seconds, default=10.0, metavar="S", help="until the server listens (10)")
    add(
        "--ready-after",
        type=_seconds,
        metavar="S",
        help="take the server as ready after this time, for one whose socket cannot be seen (perftest -R)",
    )
    add("--timeout", type=_seconds, default=60.0, metavar="S", help="for each step (60)")
    add("--total-timeout", type=_seconds, metavar="S", help="for everything (default: as long as it takes)")
    add("--start-timeout", type=_seconds, default=120.0, metavar="S", help="until MPI has started (120)")

    add = parser.add_argument_group("many nodes, one process each").add_argument
    add(
        "--pairs",
        metavar="WHICH",
        help="all, ring, one-to-all, bisection, sample:K (K random rounds), or a file with lines `host host`",
    )
    add("--serial", action="store_true", help="one pair at a time instead of disjoint pairs at once")
    add("--topology", metavar="FILE", help="`scontrol show topology`, or a file of racks and switches")
    add("--heatmap", type=_picture, metavar="PNG", help="where to draw it (default: heatmap.png in --output)")

    add = parser.add_argument_group("output").add_argument
    add("--output", metavar="DIR", help="keep raw output, launches.jsonl and records.csv there")
    add("--format", choices=("table", "csv", "json", "raw"), default="table", help="what is printed (table)")
    add("--platform", metavar="NAME", help="platform's name in the records (default: the host's)")
    add("--benchmark", metavar="NAME", help="benchmark's name in the records (default: the tool's)")
    return parser


class _Parser(argparse.ArgumentParser):
    """Explains a mistake once, not once a rank."""

    def error(self, message: str) -> None:  # type: ignore[override]
        if not first_number(RANK):
            print(f"npb: {message}\nSee npb --help", file=sys.stderr)
        sys.exit(rank.USAGE)


def _command(text: str) -> list[str]:
    try:
        argv = shlex.split(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{error} in: {text}") from None
    if not argv:
        raise argparse.ArgumentTypeError("an empty command")
    variable, equals, _ = argv[0].partition("=")
    return ["env", *argv] if equals and variable.isidentifier() else argv


def _runs(text: str) -> int | None:
    return None if text == "auto" else _count(text)


def _cpus(text: str) -> frozenset[int]:
    try:
        return parse_cpus(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _picture(text: str) -> str:
    if not text.endswith((".png", ".svg", ".pdf")):
        raise argparse.ArgumentTypeError(f"{text!r} is not the name of a .png, .svg or .pdf")
    return text


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of runs")
    return int(text)


def _percent(text: str) -> float:
    try:
        return float(text) / 100
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of percent") from None


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 < seconds < 1e7:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds above 0")
    return seconds
