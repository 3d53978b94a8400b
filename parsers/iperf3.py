"""iperf3: TCP, UDP and SCTP bandwidth, retransmits, jitter, loss; ``-J``, ``--json-stream`` and text.

Only what was received counts (``end.sum_received``, the line ``receiver``); what was sent is kept under
``{"side": "send"}``. Sums are over all streams of ``-P``, without the seconds that ``-O`` omits. `case` is
the protocol, size the block (``-l``) where it is known.

- The JSON has bits per second. The text has bits in steps of 10^3 and, with ``-f K``, ``M`` or ``G``, bytes
  in steps of 2^10.
- A server that sends (``-R``, ``--bidir``) does not know what arrived: its figure is the sent one alone.
- Before 3.11 the JSON of UDP has one sum, and up to 3.1 the text one line: the sender's rate, loss and jitter
  as the receiver told them. The server's rate is 0 there.
- A jitter longer than the run is the difference of two clocks: invalid.
- ``-R`` is ``{"direction": "reverse"}``; ``--bidir`` gives ``bidir_forward`` and ``bidir_reverse``,
  each the bandwidth of one direction while both are loaded.
- With ``-J`` errors exit 0 with an ``error`` key beside numbers of an unfinished run: failed, no number.
- The text's summary counts when ``iperf Done.`` (client) or the next ``Server listening`` (server) ends it;
  before that, the line of one stream may look like the sum. A server with ``-1`` prints neither.
  ``--get-server-output`` repeats what the client has told: passed over.

Source: iperf3(1), https://software.es.net/iperf/invoking.html.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from npc.parsers.text.documents import number_below, object_below
from npc.parsers.text.lines import NUMBER, WHOLE, complete_lines, sections
from npc.parsers.text.options import bytes_of, option, words_after
from npc.records.reading import OK, Reading, failed
from npc.validity.arithmetic import row_contradiction

_SUMMARY: Final = re.compile(
    rf"\n\[ *(?P<stream>SUM|\d+)\](?:\[(?P<end>[TR]X-[CS])\])? +[0-9.]+-(?P<seconds>{NUMBER}) +sec"
    rf" +(?P<moved>{NUMBER}) (?P<moved_prefix>[KMGT]?)Bytes +"
    rf"(?P<rate>{NUMBER}) (?P<prefix>[KMGT]?)(?P<unit>bits|Bytes)/sec"
    rf"(?: +(?P<jitter>{NUMBER}) ms +(?P<lost>-?{WHOLE}|Unknown)/(?P<sent>{WHOLE})(?: \([^)\n]*\))?)?"
    rf"(?: +(?P<retransmits>{WHOLE}))?(?: +(?P<side>sender|receiver))? *(?=\n)"
)
_RUN_END: Final = re.compile(
    r"\n(?:iperf Done\.|Server output:|-{40,}\nServer listening [^\n]*\n-{40,})(?=\n)"
)
_BEGIN: Final = re.compile(r"\n(?:Connecting to host |Accepted connection from )")
#: What ``--title`` puts before every line.
_TITLE: Final = re.compile(r"\n[^\n]{1,99}?:  (?=Connecting to host |Accepted connection from )")
_VERSION: Final = re.compile(r"\niperf (3\.[\w.+-]{1,40})(?=\n)")
_STREAM: Final = re.compile(r"\n\[ *(\d+)\] local ")
_ERROR: Final = re.compile(r"\niperf3: (?!OUT OF ORDER)([^\n]+)")
_BLOCK: Final = re.compile(rf" ({WHOLE}) byte blocks,")
#: What stands between the intervals and the summary.
_RULE: Final = "\n- - - - - "
_CUT: Final = "the JSON ends too early"
_VALUES: Final = ("received", "sent", "retransmits", "jitter", "loss", "seconds")
_SERVERS_COPY: Final = "\nServer output:\n"
_PREFIXES: Final = ("", "K", "M", "G", "T")
PROGRAMS: Final = r"iperf3?"
MARKS: Final = (
    r"iperf 3\.|(?:[^\n]{1,99}:  )?(?:Connecting to host |Accepted connection from )"
    r'|Server listening on [0-9]+|iperf Done\.|\{"event":"(?:start|interval|end|error'
    r'|server_output_text)"|[ \t]*"(?:sum_sent|sum_received|test_start|tcp_mss_default)"\s*:'
    r'|\{\s{0,9}"start":\s{0,9}\{\s{0,9}"connected"'
)
ROWS: Final = (
    r"\[ *(?:SUM"
    r"|[0-9]+)\](?:\[[RT]X-[CS]\])? +[0-9]+\.[0-9]{2}-[0-9]+\.[0-9]{2} +sec +[0-9.]+ [KMGT]?Bytes "
)


def parse(text: str, argv: Sequence[str] = ()) -> Iterator[Reading]:
    """Readings of one or several runs, of the client or the server."""
    documents = ("\n" + text).split("\n{")[1:]
    if not documents:
        yield from _text(complete_lines(text), words_after(argv, "iperf3"))
    events: dict[str, Any] = {}  # of --json-stream, whose whole document may follow it
    for document in documents:
        result = _decoded("{" + document)
        if "event" in result:
            events = events if result["event"] != "start" else {}
            events[str(result["event"])] = result.get("data")
            if result["event"] == "end":
                yield from _json(events)
        elif not events:
            yield from _json(result)
    if events and "end" not in events:
        yield from _json({"error": _CUT, **events})


def _decoded(document: str) -> dict[str, Any]:
    """A JSON object, which other text may follow; an error, as iperf3 writes it, if it has no end."""
    try:
        result, _ = json.JSONDecoder().raw_decode(document)
    except (RecursionError, ValueError):
        return {"error": _CUT}
    return result if isinstance(result, dict) else {}


def _json(result: dict[str, Any]) -> Iterator[Reading]:
    """Readings of one test."""
    start, end = object_below(result, "start"), object_below(result, "end")
    test = object_below(start, "test_start")
    params = {}
    if test.get("num_streams", 1) != 1:
        params["streams"] = str(test["num_streams"])
    if test.get("target_bitrate"):
        params["bitrate"] = str(test["target_bitrate"])
    block = _amount(test, "blksize")
    version = str(start.get("version", "")).removeprefix("iperf ")
    case = str(test.get("protocol", "TCP")).lower()
    size = None if block is None else int(block)
    run = Reading(case, "bandwidth", None, size, OK, params, version)
    directions = {"": "reverse" if test.get("reverse") else ""}
    if {"sum_sent_bidir_reverse", "sum_bidir_reverse"} & set(end):
        directions = {"": "bidir_forward", "_bidir_reverse": "bidir_reverse"}
    if "error" in result or "protocol" not in test or not {"sum_received", "sum"} & set(end):
        reason = "the JSON names no protocol" if "protocol" not in test else "no sum of what was received"
        yield failed(case, "bandwidth", str(result.get("error", reason)), run.size, params)
        return
    for suffix, direction in directions.items():
        values = _sums(end, suffix)
        if "accepted_connection" in start and not values["received"]:
            values["received"] = None  # a server that sends does not know what arrived
        yield from _readings(run, values, direction)


def _sums(end: dict[str, Any], suffix: str) -> dict[str, float | None]:
    """What the JSON's sums of one direction say."""
    received, sent = object_below(end, "sum_received" + suffix), object_below(end, "sum_sent" + suffix)
    if not received:  # UDP before 3.11: the sender's rate beside what the receiver told
        sent = object_below(end, "sum" + suffix)
        received = {**sent, "bits_per_second": None}
    return {
        "seconds": _amount(received, "seconds"),
        "received": _amount(received, "bits_per_second", 8),
        "sent": _amount(sent, "bits_per_second", 8),
        "retransmits": _amount(sent, "retransmits"),
        "jitter": _amount(received, "jitter_ms", 1e3),
        "loss": _amount(received, "lost_percent", 100),
    }


def _amount(parent: dict[str, Any], key: str, a_unit: float = 1) -> float | None:
    """The number at `key` in SI units, None if there is none that can have been measured."""
    value = number_below(parent, key)
    return None if value is None else value / a_unit


def _readings(run: Reading, values: Mapping[str, float | None], direction: str) -> Iterator[Reading]:
    """Readings of one direction, which share the rest with `run`; rates in B/s, what was received None where
    nothing tells what arrived."""
    if direction:
        run = replace(run, params={**run.params, "direction": direction})
    received, sent = values["received"], values["sent"]
    if received:
        yield replace(run, value=received)
    elif received is not None or not sent:
        reason = "what arrived was not printed" if received is None else "nothing was received"
        yield failed(run.case, "bandwidth", reason, run.size, run.params)
    if sent:
        status = "invalid: nothing was received" if received == 0 else run.status
        yield replace(run, value=sent, status=status, params={**run.params, "side": "send"})
    for metric in ("retransmits", "jitter", "loss") if received != 0 else ():
        value, seconds = values[metric], values["seconds"]
        if value is not None:
            no_jitter = metric == "jitter" and seconds is not None and value > seconds
            status = "invalid: a jitter longer than the run: two clocks differ" if no_jitter else run.status
            yield replace(run, metric=metric, value=value, status=status)


def _text(text: str, words: Sequence[str]) -> Iterator[Reading]:
    """Readings of the text form: each run from its first line to the line that ends its summary."""
    if title := _TITLE.search(text):
        text = text.replace(title[0], "\n")
    runs = [body for _, body in sections(_BEGIN, text)]
    error, printed_version = _ERROR.search(text), _VERSION.search(text)  # the version, where -V is given
    if not runs and (error or "-c" in words or "--client" in words):
        runs = [""]
    streams, bitrate = option(words, "-P", "--parallel"), option(words, "-b", "--bitrate", "--bandwidth")
    params = {"streams": streams} if streams and streams != "1" else {}
    params |= {"bitrate": bitrate} if bitrate else {}
    one_off, copy = not error and bool({"-1", "--one-off"} & set(words)), False
    for body in runs:
        repeated, copy = copy, _SERVERS_COPY in body
        if repeated:
            continue
        end = _RUN_END.search(body)
        if end:
            body = body[: end.start()] + "\n"
        ended = end or (one_off and _summed_up(body))
        udp = "-u" in words or "--udp" in words or " Datagrams\n" in body
        block = _BLOCK.search(body)
        size = int(block[1]) if block else bytes_of(option(words, "-l", "--length"))
        case = "udp" if udp else "sctp" if "--sctp" in words else "tcp"
        version = printed_version[1] if printed_version else ""
        run = Reading(case, "bandwidth", None, size, OK, params, version)
        if ended:
            yield from _summaries(body, run)
        else:
            reason = error[1] if error else "no closing line: the run may be incomplete"
            yield failed(run.case, "bandwidth", reason, size, params)


def _summed_up(body: str) -> bool:
    """Whether every stream of a run has a line of the summary; a server with ``-1`` prints no other end."""
    summed_up = {line["stream"] for line in _SUMMARY.finditer(body) if line["side"]}
    return bool(summed_up) and summed_up >= set(_STREAM.findall(body))


def _summaries(body: str, run: Reading) -> Iterator[Reading]:
    """Readings of a finished run's summary lines, by direction."""
    rule = body.rfind(_RULE)
    lines = [
        line
        for line in _SUMMARY.finditer(body)
        if line["side"] or (line["jitter"] and 0 <= rule < line.start())  # up to 3.1, of UDP
    ]
    lines = [line for line in lines if line["stream"] == "SUM"] or lines
    directions: dict[str, dict[str | None, re.Match[str]]] = {}
    mixed = any(bool(line["jitter"]) != (run.case == "udp") for line in lines)
    for line in lines:
        direction = "reverse" if "\nReverse mode, " in body else ""
        if line["end"]:
            direction = "bidir_forward" if line["end"] in ("TX-C", "RX-S") else "bidir_reverse"
        sides = directions.setdefault(direction, {})
        mixed = mixed or line["side"] in sides
        sides[line["side"]] = line
    if mixed or not directions:
        reason = "is not that of one run" if mixed else "is missing"
        yield failed(run.case, "bandwidth", f"the summary {reason}", run.size, run.params)
        return
    for direction, sides in directions.items():
        values: dict[str, float | None] = dict.fromkeys(_VALUES)
        if sender := sides.get("sender") or sides.get(None):
            values["sent"] = _rate(sender)
            values["retransmits"] = float(sender["retransmits"]) if sender["retransmits"] else None
        if receiver := sides.get("receiver") or sides.get(None):
            values["received"] = _rate(receiver) if receiver["side"] else None
            values["seconds"] = float(receiver["seconds"])
            values["jitter"] = float(receiver["jitter"]) / 1e3 if receiver["jitter"] else None
            sent, lost = int(receiver["sent"] or 0), (receiver["lost"] or "").removeprefix("Unknown")
            values["loss"] = int(lost) / sent if sent and lost and int(lost) >= 0 else None
        lies = [lie for line in sides.values() if (lie := _contradiction(line))]
        judged = replace(run, status=f"invalid: {lies[0]}") if lies else run
        yield from _readings(judged, values, direction)


def _contradiction(line: re.Match[str]) -> str:
    """What is wrong with a line's rate, bytes and time; empty if they agree."""
    moved = float(line["moved"]) * 1024.0 ** _PREFIXES.index(line["moved_prefix"])
    a_unit = _rate(line) / float(line["rate"]) if float(line["rate"]) else 0.0
    return row_contradiction(line["rate"], a_unit, moved, line["seconds"], 1.0) if a_unit else ""


def _rate(line: re.Match[str]) -> float:
    """Bytes per second of a summary line."""
    rate, power = float(line["rate"]), _PREFIXES.index(line["prefix"])
    return rate * 1000.0**power / 8 if line["unit"] == "bits" else rate * 1024.0**power
