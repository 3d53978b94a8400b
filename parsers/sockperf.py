"""sockperf 3.x: ping-pong and under-load latency with percentiles, one-way throughput, over UDP and TCP.

Colour codes stand in the text also when it goes to a file. What the numbers really are:

- Latency is half the round trip in µs; with ``--full-rtt`` ("Round trip is") the whole one, halved here.
  Percentiles, min, max and standard deviation are readings with ``{"statistic": "p99"}`` and so on.
- ``MBps`` is 2^20 bytes per second (``GBps`` 1000 of those; with ``--increase_output_precision`` the MiB
  figure is labelled GBps): bandwidth is the message rate times the message size.
- Throughput counts what the sender queued, not what arrived, and says so without any server too over UDP:
  it is ``{"side": "send"}``.
- A latency counts only where no message was dropped, duplicated or out of order; else it is invalid.
- Nearly every failure exits 0; the reason is a line of the text.

`case` is protocol and subcommand (``tcp_ping_pong``); where neither text nor command line names the
subcommand, a latency is ``tcp_latency`` (``latency`` in a full log). The message size comes from the
text or the command line, else it is 14.

Source: sockperf(3), ``client.cpp`` of its sources (3.7).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import chain, repeat
from operator import truediv
from typing import Final, NamedTuple

from npc.records.reading import OK, Reading, failed
from parsers.text.lines import NUMBER, WHOLE, complete_lines
from parsers.text.options import option, words_after

_COLOUR: Final = re.compile(r"\x1b\[[0-9;]*m")
_BANNER: Final = re.compile(r"\nsockperf: == version #([0-9.]*)[^\n]*(?=\n)")
_SERVER: Final = re.compile(r"\nsockperf: =+ Printing statistics for Server No: ([0-9]{1,18})(?=\n)")
_TARGET: Final = re.compile(r"\n\[ *\d+\] IP = [^\n]* # (TCP|UDP)(?=\n)")
_SIZE: Final = re.compile(
    r"test was performed,? using (?:msg-size=|[^\n]{0,300}? --msg-size=)([0-9]{1,18})\b"
)
_RATE: Final = re.compile(r"\nsockperf: Summary: Message Rate is ([0-9]{1,18}) \[msg/sec\]")
_MIB: Final = re.compile(rf"\nsockperf: Summary: BandWidth is ({NUMBER}) MBps \(")
_AVERAGE: Final = re.compile(rf"\nsockperf: =+> avg-(latency|rtt)=({NUMBER}) \(std-dev=({NUMBER})\)(?=\n)")
_LOST: Final = re.compile(
    rf"\nsockperf: # dropped messages = ({WHOLE}); # duplicated messages = ({WHOLE});"
    rf" # out-of-order messages = ({WHOLE})(?=\n)"
)
_POINT: Final = re.compile(
    rf"\nsockperf: ---> (percentile {NUMBER}|<MAX> observation|<MIN> observation) = *({NUMBER})(?=\n|\Z)"
)
_REASON: Final = re.compile(
    r"\n(?:sockperf: |)(?=['ENU])(ERROR: [^\n]*(?:\n \([^\n]*\))?|'-[^\n]* Invalid [^\n]*"
    r"|Usage: sockperf <subcommand>|No messages were (?:sent|received from)[^\n]*"
    r"|No valid observations [^\n]*)"
)
_SUBCOMMANDS: Final = {
    "ping-pong": "ping_pong",
    "pp": "ping_pong",
    "under-load": "under_load",
    "ul": "under_load",
    "throughput": "throughput",
    "tp": "throughput",
    "playback": "playback",
    "pb": "playback",
    "server": "server",
    "sr": "server",
}
_DEFAULT_SIZE: Final = 14


class _Command(NamedTuple):
    """What the command line says of all runs; `size` is None without a command line."""

    protocol: str
    subcommand: str
    size: int | None
    params: dict[str, str]


class _Run(NamedTuple):
    """What the readings of one run share; `status` is ok unless sockperf told of an error."""

    protocol: str
    subcommand: str
    size: int | None
    params: dict[str, str]
    status: str
    version: str


def parse(text: str, argv: Sequence[str] = ()) -> Iterator[Reading]:
    """Readings of one or several runs of a client; of a server, its failure."""
    command = _command(words_after(argv, "sockperf"))
    parts = _BANNER.split(_COLOUR.sub("", complete_lines(text)))
    versions, bodies = parts[1::2] or [""], parts[2::2] or parts
    return chain.from_iterable(map(_readings, bodies, repeat(command), versions))


def _command(words: Sequence[str]) -> _Command:
    """What `words`, the subcommand and its options, say."""
    if not words:
        return _Command("", "", None, {})
    options = {"mps": option(words, "--mps"), "msg_size_range": option(words, "-r", "--range")}
    asked = option(words, "-m", "--msg-size")
    return _Command(
        "tcp" if "--tcp" in words else "udp",
        _SUBCOMMANDS.get(words[0], ""),
        _DEFAULT_SIZE if asked is None else int(asked) if re.fullmatch(WHOLE, asked) else None,
        {name: value for name, value in options.items() if value},
    )


def _readings(body: str, command: _Command, version: str) -> list[Reading]:
    """Readings of one run; `body` is what follows its banner."""
    body += "\n"
    protocol, subcommand, size, params = command
    target = _TARGET.search(body)
    if target:
        protocol = target[1].lower()
    reason = _REASON.search(body)
    status = f"invalid: {reason[1]}" if reason else OK
    if subcommand == "server":
        size = None
    elif "test was performed" in body and (printed := _SIZE.search(body)):
        size = int(printed[1])
    run = _Run(protocol, subcommand, size, params, status, version)
    found = _throughput(body, run) if "Message Rate is " in body else []
    if "Printing statistics" in body:
        found += _latencies(body, run)
    if not found and (reason or "[CLIENT]" in body or subcommand not in ("server", "")):
        test = subcommand or "latency"
        metric = {"throughput": "bandwidth", "server": "message_rate"}.get(test, "latency")
        found = [
            failed(_case(protocol, test), metric, reason[1] if reason else "no result was printed", size)
        ]
    return found


def _case(protocol: str, test: str) -> str:
    return f"{protocol}_{test}" if protocol else test


def _throughput(body: str, run: _Run) -> list[Reading]:
    """Message rate and bandwidth of what was sent."""
    rate = _RATE.search(body)
    if not rate or not int(rate[1]):
        return []
    values = [("message_rate", float(rate[1]))]
    if run.size is not None:
        values.append(("bandwidth", float(rate[1]) * run.size))
    elif mib := _MIB.search(body):
        values.append(("bandwidth", float(mib[1]) * 2**20))
    case, params = _case(run.protocol, "throughput"), {**run.params, "side": "send"}
    return [
        Reading(case, metric, value, run.size, run.status, params, run.version) for metric, value in values
    ]


def _latencies(body: str, run: _Run) -> list[Reading]:
    """Average, standard deviation, percentiles and extremes of each server's latency."""
    case = _case(run.protocol, run.subcommand or "latency")
    found: list[Reading] = []
    parts = _SERVER.split(body)
    for server, block in zip(parts[1::2], parts[2::2], strict=True):
        average = _AVERAGE.search(block)
        if not average:
            continue
        over = 1e6 if average[1] == "latency" else 2e6
        status = _validity(block) if run.status == OK else run.status
        params = run.params if server == "0" else {**run.params, "server": server}
        points = _POINT.split(block)
        labels = ("average", "stdev", *points[1::3])
        numbers = (average[2], average[3], *points[2::3])
        found += map(
            Reading,
            repeat(case),
            repeat("latency"),
            map(truediv, map(float, numbers), repeat(over)),
            repeat(run.size),
            repeat(status),
            _qualifiers(labels, tuple(params.items())),
            repeat(run.version),
        )
    return found


def _validity(block: str) -> str:
    """The status of a block of statistics: ok only where sockperf counted no lost or misplaced message."""
    counts = _LOST.search(block)
    if not counts:
        return "invalid: the count of dropped messages is missing"
    if not any(map(int, counts.groups())):
        return OK
    return "invalid: {} dropped, {} duplicated, {} out-of-order messages".format(*counts.groups())


@lru_cache
def _qualifiers(labels: tuple[str, ...], params: tuple[tuple[str, str], ...]) -> list[dict[str, str]]:
    """The params of a distribution's lines: ``percentile 99.900`` is p99.9."""
    found = []
    for label in labels:
        kind, _, percentile = label.partition(" ")
        name = f"p{float(percentile):g}" if kind == "percentile" else kind.strip("<>").lower()
        found.append(dict(params) if name == "average" else {**dict(params), "statistic": name})
    return found
