"""iperf3 (3.1 and later): TCP, UDP and SCTP bandwidth, retransmits, jitter and loss; JSON (``-J``) and text.

Only what was received counts (``end.sum_received``, the line ``receiver``); what was sent is kept under
``{"side": "send"}``. Sums are over all streams of ``-P``, without the seconds that ``-O`` omits. `case` is
the protocol, size the block (``-l``) where it is known.

- The JSON has bits per second. The text has bits in steps of 10^3 and, with ``-f K``, ``M`` or ``G``, bytes
  in steps of 2^10.
- A server that sends (``-R``) does not know what arrived: its figure is the sent one alone.
- Before 3.11 the JSON of UDP has one sum: the sender's rate, loss and jitter as the receiver told them.
- ``-R`` is ``{"direction": "reverse"}``; ``--bidir`` gives ``bidir_forward`` and ``bidir_reverse``,
  each the bandwidth of one direction while both are loaded.
- With ``-J`` errors exit 0 with an ``error`` key beside numbers of an unfinished run: failed, no number.
- The text's summary counts when ``iperf Done.`` (client) or the next ``Server listening`` (server) ends it:
  before that, the line of one stream may look like the sum.

Source: iperf3(1), https://software.es.net/iperf/invoking.html.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from npc.records.reading import OK, Reading, failed
from parsers.text.lines import NUMBER, WHOLE, complete_lines, sections
from parsers.text.options import bytes_of, option, words_after

_SUMMARY: Final = re.compile(
    r"\n\[ *(?P<stream>SUM|\d+)\](?:\[(?P<end>[TR]X-[CS])\])? +[0-9.]+-[0-9.]+ +sec +[0-9.]+ [KMGT]?Bytes +"
    rf"(?P<rate>{NUMBER}) (?P<prefix>[KMGT]?)(?P<unit>bits|Bytes)/sec"
    rf"(?: +(?P<jitter>{NUMBER}) ms +(?P<lost>{WHOLE})/(?P<sent>{WHOLE}) \([^)\n]*\))?"
    rf"(?: +(?P<retransmits>{WHOLE}))? +(?P<side>sender|receiver) *(?=\n)"
)
_RUN_END: Final = re.compile(r"\n(?:iperf Done\.|-{40,}\nServer listening [^\n]*\n-{40,})(?=\n)")
_BEGIN: Final = re.compile(r"\n(?:Connecting to host |Accepted connection from )")
_VERSION: Final = re.compile(r"\niperf (3\.[\w.+-]{1,40})(?=\n)")
_ERROR: Final = re.compile(r"\niperf3: ([^\n]+)")
_BLOCK: Final = re.compile(rf" ({WHOLE}) byte blocks,")
_PREFIXES: Final = ("", "K", "M", "G", "T")


def parse(text: str, argv: Sequence[str] = ()) -> Iterator[Reading]:
    """Readings of one or several runs, of the client or the server."""
    documents = ("\n" + text).split("\n{")
    for document in documents[1:]:
        yield from _json("{" + document)
    if len(documents) == 1:
        yield from _text(complete_lines(text), words_after(argv, "iperf3"))


def _json(document: str) -> Iterator[Reading]:
    """Readings of one JSON object, which other text may follow."""
    try:
        result, _ = json.JSONDecoder().raw_decode(document)
    except (RecursionError, ValueError):
        yield failed("tcp", "bandwidth", "the JSON ends too early")
        return
    start, end = _object(result, "start"), _object(result, "end")
    test = _object(start, "test_start")
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
    if case == "udp" and "sum_received" not in end and "sum" in end:
        alone = _object(end, "sum")  # before 3.11: the sender's rate beside what the receiver told
        end = {**end, "sum_sent": alone, "sum_received": {**alone, "bits_per_second": None}}
    if "error" in result or "protocol" not in test or "sum_received" not in end:
        reason = "the JSON names no protocol" if "protocol" not in test else "no sum of what was received"
        yield failed(case, "bandwidth", str(result.get("error", reason)), run.size, params)
    elif "sum_received_bidir_reverse" in end:
        yield from _readings(run, _sums(end, ""), "bidir_forward")
        yield from _readings(run, _sums(end, "_bidir_reverse"), "bidir_reverse")
    else:
        if "accepted_connection" in start and not _object(end, "sum_received").get("bits_per_second"):
            end = {**end, "sum_received": {}}  # a server that sends does not know what arrived
        yield from _readings(run, _sums(end, ""), "reverse" if test.get("reverse") else "")


def _sums(end: dict[str, Any], suffix: str) -> dict[str, float | None]:
    """What the JSON's sums of one direction say."""
    received, sent = _object(end, "sum_received" + suffix), _object(end, "sum_sent" + suffix)
    return {
        "received": _amount(received, "bits_per_second", 8),
        "sent": _amount(sent, "bits_per_second", 8),
        "retransmits": _amount(sent, "retransmits"),
        "jitter": _amount(received, "jitter_ms", 1e3),
        "loss": _amount(received, "lost_percent", 100),
    }


def _object(parent: Any, key: str) -> dict[str, Any]:
    """The JSON object at `key`, empty where there is none."""
    child = parent.get(key) if isinstance(parent, dict) else None
    return child if isinstance(child, dict) else {}


def _amount(parent: dict[str, Any], key: str, a_unit: float = 1) -> float | None:
    """The number at `key` in SI units, None if there is none that can have been measured."""
    value = parent.get(key)
    return value / a_unit if isinstance(value, (int, float)) and 0 <= value < math.inf else None


def _readings(run: Reading, values: Mapping[str, float | None], direction: str) -> Iterator[Reading]:
    """Readings of one direction, which share the rest with `run`; rates in B/s, what was received None where
    nothing tells what arrived."""
    if direction:
        run = replace(run, params={**run.params, "direction": direction})
    received, sent = values["received"], values["sent"]
    if received:
        yield replace(run, value=received)
    elif received is not None or not sent:
        yield failed(run.case, "bandwidth", "nothing was received", run.size, run.params)
    if sent:
        status = "invalid: nothing was received" if received == 0 else OK
        yield replace(run, value=sent, status=status, params={**run.params, "side": "send"})
    for metric in ("retransmits", "jitter", "loss") if received != 0 else ():
        if values[metric] is not None:
            yield replace(run, metric=metric, value=values[metric])


def _text(text: str, words: Sequence[str]) -> Iterator[Reading]:
    """Readings of the text form: each run from its first line to the line that ends its summary."""
    runs = [body for _, body in sections(_BEGIN, text)]
    error, told = _ERROR.search(text), _VERSION.search(text)  # the version, where -V is given
    if not runs and (error or "-c" in words or "--client" in words):
        runs = [""]
    streams, bitrate = option(words, "-P", "--parallel"), option(words, "-b", "--bitrate", "--bandwidth")
    params = {"streams": streams} if streams and streams != "1" else {}
    params |= {"bitrate": bitrate} if bitrate else {}
    for body in runs:
        end = _RUN_END.search(body)
        if end:
            body = body[: end.start()] + "\n"
        udp = "-u" in words or "--udp" in words or " Datagrams\n" in body
        block = _BLOCK.search(body)
        size = int(block[1]) if block else bytes_of(option(words, "-l", "--length"))
        case, version = "udp" if udp else "tcp", told[1] if told else ""
        run = Reading(case, "bandwidth", None, size, OK, params, version)
        if end:
            yield from _summaries(body, run)
        else:
            reason = error[1] if error else "the text ends before the summary"
            yield failed(run.case, "bandwidth", reason, size, params)


def _summaries(body: str, run: Reading) -> Iterator[Reading]:
    """Readings of a finished run's summary lines, by direction."""
    lines = list(_SUMMARY.finditer(body))
    lines = [line for line in lines if line["stream"] == "SUM"] or lines
    directions: dict[str, dict[str, re.Match[str]]] = {}
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
        values: dict[str, float | None] = dict.fromkeys(("received", "sent", "retransmits", "jitter", "loss"))
        if sender := sides.get("sender"):
            values["sent"] = _rate(sender)
            values["retransmits"] = float(sender["retransmits"]) if sender["retransmits"] else None
        if receiver := sides.get("receiver"):
            values["received"] = _rate(receiver)
            values["jitter"] = float(receiver["jitter"]) / 1e3 if receiver["jitter"] else None
            sent = int(receiver["sent"] or 0)
            values["loss"] = int(receiver["lost"]) / sent if sent else None
        yield from _readings(run, values, direction)


def _rate(line: re.Match[str]) -> float:
    """Bytes per second of a summary line."""
    rate, power = float(line["rate"]), _PREFIXES.index(line["prefix"])
    return rate * 1000.0**power / 8 if line["unit"] == "bits" else rate * 1024.0**power
