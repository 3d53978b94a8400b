"""sockperf (2.5 to 3.10): ping-pong and under-load latency with percentiles, one-way throughput; UDP, TCP.

What the numbers really are:

- Latency is half the round trip in µs; with ``--full-rtt`` ("Round trip is") the whole one, halved here.
  Percentiles, min, max and standard deviation are readings with ``{"statistic": "p99"}`` and so on.
- ``MBps`` is 2^20 bytes per second (``GBps`` 1000 of those; with ``--increase_output_precision`` the MiB
  figure is labelled GBps, and 2.x counts IP's headers): bandwidth is the message rate times the message size,
  of ``--range`` the average one.
- Throughput counts what the sender queued, not what arrived, and says so without any server too over UDP:
  it is ``{"side": "send"}``.
- A latency counts only where no message was dropped, duplicated or out of order, and where a hundred or more
  were observed in more than 0 s; else it is invalid.
- Nearly every failure exits 0; the reason is a line of the text.

`case` is protocol and subcommand (``tcp_ping_pong``); where neither text nor command line names the
subcommand, a latency is ``tcp_latency`` (``latency`` in a full log). The message size comes from the
text or the command line, else it is 14.

Up to 3.5 the average is ``avg-lat=``, from 3.8 on more follows the standard deviation.

Source: sockperf(3), ``client.cpp`` of its sources.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final, TypeAlias

from npc.parsers.text.lines import DECIMAL_3, NUMBER, WHOLE, complete_lines, sections
from npc.parsers.text.options import bytes_of, option, words_after
from npc.parsers.text.runs import of_one_run
from npc.records.reading import OK, Reading, failed
from npc.validity.arithmetic import message_contradiction

_BANNER: Final = re.compile(r"\nsockperf: +== version #([0-9.]*)[^\n]*(?=\n)")
_SERVER: Final = re.compile(r"\nsockperf: =+ Printing statistics for Server No: ([0-9]{1,18})(?=\n)")
_TARGET: Final = re.compile(r"\n\[ *\d+\] (?:IP|ADDR) = [^\n]* # (TCP|UDP)(?=\n)")
_SIZE: Final = re.compile(
    r"test was performed(?:,? using (?:average )?msg-size=| using the [^\n]{0,300}? --msg-size=)"
    r"([0-9]{1,18})\b(?: \(\+/-([0-9]{1,18})\))?"
)
_RATE: Final = re.compile(r"\nsockperf: Summary: Message Rate is ([0-9]{1,18}) \[msg/sec\]")
_MIB: Final = re.compile(rf"\nsockperf: Summary: BandWidth is ({NUMBER}) MBps \(")
_AVERAGE: Final = re.compile(
    rf"\nsockperf: =+> avg-(lat|latency|rtt)= *({NUMBER}) \(std-dev=(?:({NUMBER})|-?nan)(?:,[^\n]*)?\)(?=\n)"
)
_LOST: Final = re.compile(
    rf"\nsockperf: # dropped (?:messages|packets) = ({WHOLE}); # duplicated (?:messages|packets) = ({WHOLE});"
    rf" # out-of-order (?:messages|packets) = ({WHOLE})(?=\n)"
)
_SECONDS: Final = re.compile(rf"\nsockperf: \[Valid Duration\] RunTime=({NUMBER}) sec;")
_OBSERVATIONS: Final = re.compile(rf"\nsockperf: Total ({WHOLE}) observations;")
#: Of fewer the 99th percentile is one of them, and a warm-up may be half.
_LEAST_OBSERVATIONS: Final = 100
_POINT: Final = re.compile(
    rf"\nsockperf: ---> (percentile +{NUMBER}|<?(?:MAX|MIN)>? observation) = *({DECIMAL_3})(?=\n)"
)
_REASON: Final = re.compile(
    r"\n(?:sockperf: )?(ERROR: [^\n]*(?:\n \([^\n]*\))?|'-[^\n]* Invalid [^\n]*"
    r"|Usage: sockperf <subcommand>|No messages were (?:sent|received from)[^\n]*"
    r"|No valid observations [^\n]*|Test ends uncompleted[^\n]*|Test end before test start[^\n]*)"
)
_SHORT: Final = {"pp": "ping_pong", "ul": "under_load", "tp": "throughput", "pb": "playback", "sr": "server"}
_DEFAULT_SIZE: Final = "14"
MARKS: Final = r"sockperf(?:: |\[)"


def parse(text: str, argv: Sequence[str] = ()) -> Iterator[Reading]:
    """Readings of one or several runs of a client; of a server, its failure."""
    text, words = complete_lines(text), words_after(argv, "sockperf")
    runs = [(banner[1], body) for banner, body in sections(_BANNER, text)]
    for version, body in runs or [("", text)]:
        yield from of_one_run(_run(version, body, words))


def _run(version: str, body: str, words: Sequence[str]) -> list[Reading]:
    """Readings of one run; `words` are the subcommand and its options, none if they are not known."""
    protocol = subcommand = ""
    size = None
    if words:
        subcommand = _SHORT.get(words[0], words[0].replace("-", "_"))
        subcommand = subcommand if subcommand in _SHORT.values() else ""
    if subcommand:
        protocol = "tcp" if "--tcp" in words else "udp"
        size = bytes_of(option(words, "-m", "--msg-size") or _DEFAULT_SIZE)
    options = {"mps": option(words, "--mps", "--pps"), "msg_size_range": option(words, "-r", "--range")}
    params = {name: value for name, value in options.items() if value}
    target, printed, reason = _TARGET.search(body), _SIZE.search(body), _REASON.search(body)
    if target:
        protocol = target[1].lower()
    if printed or subcommand == "server":
        size = int(printed[1]) if printed and subcommand != "server" else None
    if printed and printed[2]:
        params["msg_size_range"] = printed[2]
    prefix, test = f"{protocol}_" if protocol else "", subcommand or "latency"
    readings = []
    mib = None if version.startswith("2.") else _MIB.search(body)
    for case, metric, value, status, own in (*_throughput(body, size, mib), *_latencies(body, test)):
        status = f"invalid: {reason[1]}" if reason else status
        readings.append(Reading(prefix + case, metric, value, size, status, {**params, **own}, version))
    if not readings and (reason or "[CLIENT]" in body or subcommand not in ("server", "")):
        metric = {"throughput": "bandwidth", "server": "message_rate"}.get(test, "latency")
        readings = [failed(prefix + test, metric, reason[1] if reason else "no result was printed", size)]
    return readings


#: Case, metric, value, status, qualifiers.
_Number: TypeAlias = tuple[str, str, float, str, dict[str, str]]


def _throughput(body: str, size: int | None, mib: re.Match[str] | None) -> Iterator[_Number]:
    """Message rate and bandwidth of what was sent; `mib` is the printed one, for a size that is not known."""
    rate = _RATE.search(body)
    if not (rate and int(rate[1])):
        return
    yield "throughput", "message_rate", float(rate[1]), OK, {"side": "send"}
    lie = message_contradiction(mib[1], 2.0**20, size, rate[1]) if mib and size is not None else ""
    bandwidth = float(rate[1]) * size if size is not None else float(mib[1]) * 2**20 if mib else 0.0
    if bandwidth:
        status = f"invalid: {lie}" if lie else OK
        yield "throughput", "bandwidth", bandwidth, status, {"side": "send"}


def _latencies(body: str, test: str) -> Iterator[_Number]:
    """Average, standard deviation, percentiles and extremes of each server's latency."""
    for server, block in sections(_SERVER, body):
        average = _AVERAGE.search(block)
        if average:
            status, a_second = _validity(block), 2e6 if average[1] == "rtt" else 1e6
            params = {} if server[1] == "0" else {"server": server[1]}
            yield test, "latency", float(average[2]) / a_second, status, params
            deviation = [("stdev", average[3])] if average[3] else []  # of one observation it is nan
            for label, number in (*deviation, *_POINT.findall(block)):
                own = {**params, "statistic": _statistic(label)}
                yield test, "latency", float(number) / a_second, status, own


def _statistic(label: str) -> str:
    """The name of a point of a distribution: ``percentile 99.900`` is p99.9, ``<MAX> observation`` is max."""
    kind, _, percentile = label.partition(" ")
    return f"p{float(percentile):g}" if kind == "percentile" else kind.strip("<>").lower()


def _validity(block: str) -> str:
    """The status of a block of statistics: ok only where sockperf counted no lost or misplaced message, and
    enough others."""
    counts = _LOST.search(block)
    if not counts:
        return "invalid: the count of dropped messages is missing"
    if any(map(int, counts.groups())):
        return "invalid: {} dropped, {} duplicated, {} out-of-order messages".format(*counts.groups())
    observations, seconds = _OBSERVATIONS.search(block), _SECONDS.search(block)
    if seconds and float(seconds[1]) == 0:
        return "invalid: they were measured in 0 s"
    if not observations:
        return "invalid: the count of observations is missing"
    if int(observations[1]) < _LEAST_OBSERVATIONS:
        return f"invalid: {observations[1]} observations are too few"
    return OK
