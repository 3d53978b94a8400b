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
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

from npc.records.reading import OK, Reading, failed
from npc.records.units import parse_size
from parsers.text.lines import NUMBER, WHOLE, complete_lines
from parsers.text.options import option, words_after

_LOST_ROW: Final = rf"(?: +({NUMBER}) ms +({WHOLE})/({WHOLE}) \([^)\n]*\))?"
_SUMMARY: Final = re.compile(
    r"\n\[ *(SUM|\d+)\](?:\[([TR]X)-([CS])\])? +[0-9.]+-[0-9.]+ +sec +[0-9.]+ [KMGT]?Bytes +"
    rf"({NUMBER}) ([KMGT]?)(bits|Bytes)/sec{_LOST_ROW}(?: +({WHOLE}))? +(sender|receiver) *(?=\n)"
)
_RUN_END: Final = re.compile(r"\n(?:iperf Done\.|-{40,}\nServer listening [^\n]*\n-{40,})(?=\n)")
_BEGIN: Final = re.compile(r"\n(?:Connecting to host |Accepted connection from )")
_VERSION: Final = re.compile(r"\niperf (3\.[\w.+-]{1,40})(?=\n)")
_ERROR: Final = re.compile(r"\niperf3: ([^\n]+)")
_BLOCK: Final = re.compile(rf" ({WHOLE}) byte blocks,")
_PREFIXES: Final = ("", "K", "M", "G", "T")


class _Run(NamedTuple):
    """What the readings of one run share."""

    case: str
    size: int | None
    params: dict[str, str]
    version: str = ""


def parse(text: str, argv: Sequence[str] = ()) -> Iterator[Reading]:
    """Readings of one or several runs, of the client or the server."""
    words = words_after(argv, "iperf3")
    documents = ("\n" + text).split("\n{")
    for document in documents[1:]:
        yield from _json("{" + document)
    if len(documents) == 1:
        yield from _text(complete_lines(text), words)


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
    version = str(start.get("version", "")).removeprefix("iperf ")
    block = _amount(test, "blksize")
    size = None if block is None else int(block)
    run = _Run(str(test.get("protocol", "TCP")).lower(), size, params, version)
    if run.case == "udp" and "sum_received" not in end and "sum" in end:
        alone = _object(end, "sum")  # before 3.11: the sender's rate beside what the receiver told
        end = {**end, "sum_sent": alone, "sum_received": {**alone, "bits_per_second": None}}
    if "error" not in result and "protocol" not in test:
        yield failed(run.case, "bandwidth", "the JSON names no protocol", run.size, params)
    elif "error" in result or "sum_received" not in end:
        reason = result.get("error", "no sum of what was received")
        yield failed(run.case, "bandwidth", str(reason), run.size, params)
    elif "sum_received_bidir_reverse" in end:
        yield from _sums(end, "", run, {"direction": "bidir_forward"})
        yield from _sums(end, "_bidir_reverse", run, {"direction": "bidir_reverse"})
    else:
        if "accepted_connection" in start and not _object(end, "sum_received").get("bits_per_second"):
            end = {**end, "sum_received": {}}  # a server that sends does not know what arrived
        yield from _sums(end, "", run, {"direction": "reverse"} if test.get("reverse") else {})


def _sums(end: dict[str, Any], suffix: str, run: _Run, direction: dict[str, str]) -> Iterator[Reading]:
    """Readings of one direction's sums in the JSON."""
    received, sent = _object(end, "sum_received" + suffix), _object(end, "sum_sent" + suffix)
    rate, jitter_ms, lost_percent = (
        _amount(received, key) for key in ("bits_per_second", "jitter_ms", "lost_percent")
    )
    yield from _readings(
        run._replace(params={**run.params, **direction}),
        rate / 8 if rate is not None else None,
        (_amount(sent, "bits_per_second") or 0.0) / 8,
        _amount(sent, "retransmits"),
        jitter_ms / 1e3 if jitter_ms is not None else None,
        lost_percent / 100 if lost_percent is not None else None,
    )


def _readings(
    run: _Run,
    received: float | None,
    sent: float,
    retransmits: float | None,
    jitter: float | None,
    loss: float | None,
) -> Iterator[Reading]:
    """Readings of one direction; rates in bytes/s, `received` None where nothing tells what arrived."""
    case, size, params, version = run
    if received:
        yield Reading(case, "bandwidth", received, size, OK, params, version)
    elif received is not None or not sent:
        yield failed(case, "bandwidth", "nothing was received", size, params)
    if sent:
        status = "invalid: nothing was received" if received == 0 else OK
        yield Reading(case, "bandwidth", sent, size, status, {**params, "side": "send"}, version)
    others = {"retransmits": retransmits, "jitter": jitter, "loss": loss}
    for metric, value in others.items():
        if value is not None and received != 0:
            yield Reading(case, metric, value, size, OK, params, version)


def _object(parent: Any, key: str) -> dict[str, Any]:
    """The JSON object at `key`, empty where there is none."""
    child = parent.get(key) if isinstance(parent, dict) else None
    return child if isinstance(child, dict) else {}


def _amount(parent: dict[str, Any], key: str) -> float | None:
    """The number at `key`, None if there is none that can have been measured."""
    value = parent.get(key)
    return float(value) if isinstance(value, (int, float)) and 0 <= value < math.inf else None


def _text(text: str, words: Sequence[str]) -> Iterator[Reading]:
    """Readings of the text form: each run from its first line to the line that ends its summary."""
    runs = _BEGIN.split(text)[1:]
    error, told = _ERROR.search(text), _VERSION.search(text)  # the version, where -V is given
    if not runs and (error or "-c" in words or "--client" in words):
        runs = [""]
    for run_text in runs:
        body = run_text + "\n"
        end = _RUN_END.search(body)
        if end:
            body = body[: end.start()] + "\n"
        udp = "-u" in words or "--udp" in words or " Datagrams\n" in body
        blocks, asked = _BLOCK.search(body), option(words, "-l", "--length")
        size = int(blocks[1]) if blocks else _bytes(asked)
        streams, bitrate = option(words, "-P", "--parallel"), option(words, "-b", "--bitrate", "--bandwidth")
        params = {"streams": streams} if streams and streams != "1" else {}
        if bitrate:
            params["bitrate"] = bitrate
        run = _Run("udp" if udp else "tcp", size, params, told[1] if told else "")
        if end:
            yield from _summaries(body, run)
        else:
            reason = error[1] if error else "the text ends before the summary"
            yield failed(run.case, "bandwidth", reason, size, params)


def _summaries(body: str, run: _Run) -> Iterator[Reading]:
    """Readings of a finished run's summary lines, by direction."""
    lines = _SUMMARY.findall(body)
    if any(line[0] == "SUM" for line in lines):
        lines = [line for line in lines if line[0] == "SUM"]
    directions: dict[str, dict[str, tuple[str, ...]]] = {}
    mixed = any(bool(line[6]) != (run.case == "udp") for line in lines)
    for line in lines:
        direction = "reverse" if "\nReverse mode, " in body else ""
        if line[1]:
            sends = line[1] + line[2] in ("TXC", "RXS")
            direction = "bidir_forward" if sends else "bidir_reverse"
        sides = directions.setdefault(direction, {})
        mixed = mixed or line[-1] in sides
        sides[line[-1]] = line
    if mixed or not directions:
        reason = "is not that of one run" if mixed else "is missing"
        yield failed(run.case, "bandwidth", f"the summary {reason}", run.size, run.params)
        return
    for direction, sides in directions.items():
        sender, receiver = sides.get("sender"), sides.get("receiver")
        yield from _readings(
            run._replace(params={**run.params, "direction": direction}) if direction else run,
            _rate(receiver) if receiver else None,
            _rate(sender) if sender else 0.0,
            float(sender[9]) if sender and sender[9] else None,
            float(receiver[6]) / 1e3 if receiver and receiver[6] else None,
            int(receiver[7]) / int(receiver[8]) if receiver and int(receiver[8] or 0) else None,
        )


def _rate(line: tuple[str, ...]) -> float:
    """Bytes per second of a summary line."""
    number, prefix, unit = float(line[3]), _PREFIXES.index(line[4]), line[5]
    return number * 1000.0**prefix / 8 if unit == "bits" else number * 1024.0**prefix


def _bytes(size: str | None) -> int | None:
    """The block size that the command line asks for, None where it is not understood."""
    try:
        return parse_size(size) if size else None
    except ValueError:
        return None
