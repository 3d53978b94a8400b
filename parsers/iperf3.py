"""iperf3: TCP, UDP and SCTP bandwidth, retransmits, jitter, loss; ``-J``, ``--json-stream`` and text.

Only what was received counts (``end.sum_received``, the line ``receiver``); what was sent is kept under
``{"side": "send"}``. Sums are over all streams of ``-P``, without the seconds that ``-O`` omits. `case` is
the protocol, size the block (``-l``) where it is known.

- The JSON has bits per second. The text has bits in steps of 10^3 and, with ``-f K``, ``M`` or ``G``, bytes
  in steps of 2^10.
- A server that sends (``-R``, ``--bidir``) does not know what arrived: its figure is the sent one alone.
- Before 3.11 the JSON of UDP has one sum, and up to 3.1, whose heading says ``Bandwidth``, the text one line:
  the sender's rate, loss and jitter as the receiver told them. The server's rate is 0 there. A later line
  without ``sender`` or ``receiver`` was wrapped or cut.
- A jitter longer than the run is the difference of two clocks: invalid.
- ``-R`` is ``{"direction": "reverse"}``; ``--bidir`` gives ``bidir_forward`` and ``bidir_reverse``,
  each the bandwidth of one direction while both are loaded.
- With ``-J`` errors exit 0 with an ``error`` key beside numbers of an unfinished run: failed, no number.
- The text's summary counts when ``iperf Done.`` (client) or the next ``Server listening`` (server) ends it;
  before that, the line of one stream may look like the sum. A server with ``-1`` prints neither.
  ``--get-server-output`` repeats what the client has told: passed over.
- What a summary says is held against itself (`npc.parsers.text.transfers`).
- Before 3.16 one thread serves all streams: a note.

Source: iperf3(1), https://software.es.net/iperf/invoking.html.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from npc.document import below, entries
from npc.parsers.text.documents import documents_in, number_below, object_below
from npc.parsers.text.lines import NUMBER, SCIENTIFIC, WHOLE, complete_lines, sections
from npc.parsers.text.options import bytes_of, option, words_after
from npc.parsers.text.transfers import Direction, End, Loss, printed_end
from npc.records.reading import OK, Reading, failed, with_note

#: A row of a stream or of all, up to the bytes that were moved.
_ROW: Final = (
    r"\n\[ *(?P<stream>SUM|\d+)\](?:\[(?P<end>[TR]X-[CS])\])?"
    rf" +(?P<begin>{NUMBER})-(?P<seconds>{NUMBER}) +sec +(?P<moved>{NUMBER}) (?P<moved_prefix>[KMGT]?)Bytes +"
)
_SUMMARY: Final = re.compile(
    _ROW + rf"(?P<rate>{NUMBER}) (?P<prefix>[KMGT]?)(?P<unit>bits|Bytes)/sec"
    rf"(?: +(?P<jitter>{NUMBER}) ms +(?P<lost>-?{WHOLE}|Unknown)/(?P<sent>-?{WHOLE})"
    rf"(?: \((?:(?P<percent>-?{SCIENTIFIC})|[^)\n]*?)%\))?)?"
    rf"(?: +(?P<retransmits>{WHOLE}))?(?: +(?P<side>sender|receiver))? *(?=\n)"
)
_INTERVAL: Final = re.compile(_ROW + r"(?![^\n]*(?:\(omitted\)|sender|receiver) *\n)")
#: The server's lines that the client repeats, up to its own.
_SERVERS_COPY: Final = re.compile(
    r"\nServer output:\n"
    r"(?:(?!Connecting to host |iperf Done\.|\[ *(?:SUM|\d+)\]\[[TR]X-C\])[^\n]*\n)*"
)
_RUN_END: Final = re.compile(r"\n(?:iperf Done\.|-{40,}\nServer listening [^\n]*\n-{40,})(?=\n)")
_BEGIN: Final = re.compile(r"\n(?:Connecting to host |Accepted connection from )")
#: What ``--title`` puts before every line.
_TITLE: Final = re.compile(r"\n[^\n]{1,99}?:  (?=Connecting to host |Accepted connection from )")
_VERSION: Final = re.compile(r"\niperf (3\.[\w.+-]{1,40})(?: [^\n]*)?(?=\n)")
_STREAM: Final = re.compile(r"\n\[ *(\d+)\] local ")
_ERROR: Final = re.compile(r"\niperf3: (?!OUT OF ORDER)([^\n]+)")
#: What ``-V`` tells of a test.
_TEST: Final = re.compile(rf"\nStarting Test: protocol: (\w+), {WHOLE} streams, ({WHOLE}) byte blocks,")
#: What stands between the intervals and the summary.
_RULE: Final = "\n- - - - - "
_NO_HEADING: Final = (
    "looks like iperf3's summary, but its heading is missing: "
    "copy the text from its line 'Connecting to host' on, which tells the direction"
)
_UNENDED: Final = "no closing line: the run may be incomplete"
_CUT: Final = "the JSON is cut off"
_ONE_THREAD: Final = "one thread served all streams, as in iperf3 before 3.16"
_FIRST_WITH_THREADS: Final = (3, 16)
_PREFIXES: Final = ("", "K", "M", "G", "T")
_BIDIRECTIONAL: Final = ("bidir_forward", "bidir_reverse")
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
    words = words_after(argv, "iperf3")
    of_json = False
    events: dict[str, Any] = {}  # of --json-stream, whose whole document may follow it
    for document in documents_in(text):
        result = document.content
        if document.error and not of_json and _BEGIN.search("\n" + text):
            continue  # braces of another text
        of_json = True
        if "event" in result:
            events = events if result["event"] != "start" else {}
            events[str(result["event"])] = result.get("data")
            if result["event"] == "end":
                yield from _json(events)
        elif not events:
            yield from _json({"error": document.error} if document.error else result)
    if events and "end" not in events:
        yield from _json({"error": _CUT, **events})
    if not of_json:
        yield from _text(complete_lines(text), words)


def _json(result: dict[str, Any]) -> Iterator[Reading]:
    """Readings of one test."""
    start, end = object_below(result, "start"), object_below(result, "end")
    test = object_below(start, "test_start")
    params = {}
    if test.get("num_streams", 1) != 1:
        params["streams"] = str(test["num_streams"])
    if test.get("target_bitrate"):
        params["bitrate"] = str(test["target_bitrate"])
    block = number_below(test, "blksize")
    version = str(start.get("version", "")).removeprefix("iperf ")
    case = str(test.get("protocol", "TCP")).lower()
    size = None if block is None else int(block)
    run = Reading(case, "bandwidth", None, size, OK, params, version)
    directions = {"": "reverse" if test.get("reverse") else ""}
    if {"sum_sent_bidir_reverse", "sum_bidir_reverse"} & set(end):
        directions = dict(zip(("", "_bidir_reverse"), _BIDIRECTIONAL, strict=True))
    if "error" in result or "protocol" not in test or not {"sum_received", "sum"} & set(end):
        reason = "the JSON names no protocol" if "protocol" not in test else "no sum of what was received"
        yield failed(case, "bandwidth", str(result.get("error", reason)), run.size, params)
        return
    for suffix, name in directions.items():
        direction = _sums(result, end, suffix, name)
        if "accepted_connection" in start and not (direction.received and direction.received.rate):
            direction = replace(direction, received=None)  # a server that sends does not know what arrived
        yield from _readings(run, direction, name)


def _sums(result: Mapping[str, Any], end: Mapping[str, Any], suffix: str, name: str) -> Direction:
    """What the JSON's sums of one direction say."""
    received, sent = object_below(end, "sum_received" + suffix), object_below(end, "sum_sent" + suffix)
    arrived = _json_end(received)
    if not received:  # UDP before 3.11: the sender's rate beside what the receiver told
        received = sent = object_below(end, "sum" + suffix)
    jitter, percent = number_below(received, "jitter_ms"), below(received, "lost_percent")
    lost, packets = (below(received, key) for key in ("lost_packets", "packets"))
    loss = Loss(
        lost if isinstance(lost, int) else None,
        packets if isinstance(packets, int) else None,
        str(percent) if isinstance(percent, int | float) else "",
        int(number_below(sent, "packets") or 0) or None,
    )
    intervals: dict[str, float] = {}
    if object_below(result, "start").get("connecting_to"):
        own = "received" if name in ("reverse", "bidir_reverse") else "sent"
        sums = [object_below(interval, "sum" + suffix) for interval in entries(result, "intervals")]
        moved = [number_below(one, "bytes") or 0.0 for one in sums if not one.get("omitted")]
        intervals[own] = sum(moved)
    return Direction(
        sent=_json_end(sent),
        received=arrived,
        retransmits=number_below(sent, "retransmits"),
        jitter=None if jitter is None else jitter / 1e3,
        loss=loss if loss.share is not None else None,
        in_intervals=intervals,
    )


def _json_end(sums: Mapping[str, Any]) -> End | None:
    """What the sums of an end say."""
    rate = number_below(sums, "bits_per_second")
    return None if rate is None else End(rate / 8, number_below(sums, "bytes"), number_below(sums, "seconds"))


def _readings(run: Reading, summary: Direction, name: str) -> Iterator[Reading]:
    """Readings of one direction, which share the rest with `run`; name: as the params tell it."""
    if name:
        run = replace(run, params={**run.params, "direction": name})
    if wrong := summary.contradiction:
        run = replace(run, status=f"invalid: {wrong}")
    release = re.match(r"(\d{1,4})\.(\d{1,4})", run.tool_version)
    several = "streams" in run.params or name in _BIDIRECTIONAL
    if several and release and tuple(map(int, release.groups())) < _FIRST_WITH_THREADS:
        run = with_note(run, _ONE_THREAD)
    sent, received = summary.sent, summary.received
    nothing = received is not None and not received.rate
    if received and received.rate:
        yield replace(run, value=received.rate)
    elif nothing or not (sent and sent.rate):
        reason = "nothing was received" if nothing else "what arrived was not printed"
        yield failed(run.case, "bandwidth", reason, run.size, run.params)
    if sent and sent.rate:
        status = "invalid: nothing was received" if nothing else run.status
        yield replace(run, value=sent.rate, status=status, params={**run.params, "side": "send"})
    if nothing:
        return
    if summary.retransmits is not None:
        yield replace(run, metric="retransmits", value=summary.retransmits)
    end = received or sent
    if summary.jitter is not None:
        no_jitter = end and end.seconds is not None and summary.jitter > end.seconds
        status = "invalid: a jitter longer than the run: two clocks differ" if no_jitter else run.status
        yield replace(run, metric="jitter", value=summary.jitter, status=status)
    if summary.loss is not None and (share := summary.loss.share) is not None:
        wrong = summary.loss_contradiction if run.status == OK else ""
        status = f"invalid: {wrong}" if wrong else run.status
        yield replace(run, metric="loss", value=share if share >= 0 else None, status=status)


def _text(text: str, words: Sequence[str]) -> Iterator[Reading]:
    """Readings of the text form: each run from its first line to the line that ends its summary."""
    if title := _TITLE.search(text):
        text = text.replace(title[0], "\n")
    text = _SERVERS_COPY.sub("\n", text)
    runs = [title[0] + body for title, body in sections(_BEGIN, text)]
    error, printed_version = _ERROR.search(text), _VERSION.search(text)  # the version, where -V is given
    if not runs and ("-c" in words or "--client" in words):
        runs = [text]  # the command tells what the heading would
    elif not runs and (error or any(line["side"] for line in _SUMMARY.finditer(text))):
        case = "udp" if {"-u", "--udp"} & set(words) or " Datagrams\n" in text else "tcp"
        yield failed(case, "bandwidth", error[1] if error else _NO_HEADING)
    bitrate = option(words, "-b", "--bitrate", "--bandwidth")
    one_off = not error and bool({"-1", "--one-off"} & set(words))
    for body in runs:
        streams = option(words, "-P", "--parallel") or str(_number_of_streams(body))
        params = {"streams": streams} if streams not in ("0", "1") else {}
        params |= {"bitrate": bitrate} if bitrate else {}
        end = _RUN_END.search(body)
        if end:
            body = body[: end.start()] + "\n"
        ended = end or (one_off and _summed_up(body))
        test = _TEST.search(body)
        udp = "-u" in words or "--udp" in words or " Datagrams\n" in body
        case = "udp" if udp else "sctp" if "--sctp" in words else "tcp"
        if test:
            case = test[1].lower()
        size = int(test[2]) if test else bytes_of(option(words, "-l", "--length"))
        version = printed_version[1] if printed_version else ""
        run = Reading(case, "bandwidth", None, size, OK, params, version)
        if ended:
            reverse = "\nReverse mode, " in body or bool({"-R", "--reverse"} & set(words))
            yield from _summaries(body, run, reverse)
        else:
            yield failed(run.case, "bandwidth", error[1] if error else _UNENDED, size, params)


def _number_of_streams(body: str) -> int:
    """How many streams a run has in each direction, by their lines; 0 where these are missing."""
    return len(set(_STREAM.findall(body))) // (2 if "][Role]" in body else 1)


def _summed_up(body: str) -> bool:
    """Whether every stream of a run has a line of the summary; a server with ``-1`` prints no other end."""
    summed_up = {line["stream"] for line in _SUMMARY.finditer(body) if line["side"]}
    return bool(summed_up) and summed_up >= set(_STREAM.findall(body))


def _summaries(body: str, run: Reading, reverse: bool) -> Iterator[Reading]:
    """Readings of a finished run's summary lines, by direction."""
    rule, old = body.rfind(_RULE), "  Bandwidth  " in body
    rows = list(_SUMMARY.finditer(body))
    behind_rule = [row for row in rows if row["jitter"] and 0 <= rule < row.start()]
    lines = [row for row in rows if row["side"] or (old and row in behind_rule)]
    streams = {row["stream"] for row in _INTERVAL.finditer(body)} - {"SUM"}
    lacking = streams - {line["stream"] for line in lines}
    sums = [line for line in lines if line["stream"] == "SUM"]
    lines = sums or lines
    directions: dict[str, dict[str | None, re.Match[str]]] = {}
    connected = set(_STREAM.findall(body))
    strangers = {row["stream"] for row in rows if row["side"]} - connected
    if len(connected) > 1:  # as many have a sum
        strangers -= {"SUM"}
    mixed = any(bool(line["jitter"]) != (run.case == "udp") for line in lines)
    mixed = mixed or bool(connected and strangers)
    for line in lines:
        name = "reverse" if reverse else ""
        if line["end"]:
            name = "bidir_forward" if line["end"] in ("TX-C", "RX-S") else "bidir_reverse"
        sides = directions.setdefault(name, {})
        mixed = mixed or line["side"] in sides
        sides[line["side"]] = line
    reason = ""
    if mixed:
        reason = "the summary is not that of one run"
    elif not directions:
        rows_left = any(0 <= rule < row.start() for row in _INTERVAL.finditer(body))
        cut = "lacks 'sender' and 'receiver': its lines were wrapped or cut" if rows_left else "is missing"
        reason = f"the summary {cut}"
    elif lacking and not sums:
        reason = f"the summary lacks stream {', '.join(sorted(lacking))}"
    if reason:
        yield failed(run.case, "bandwidth", reason, run.size, run.params)
        return
    for name in _BIDIRECTIONAL if set(_BIDIRECTIONAL) & set(directions) else directions:
        if name in directions:
            yield from _readings(run, _summary(directions[name], _in_intervals(body, name)), name)
        else:
            params = {**run.params, "direction": name}
            yield failed(run.case, "bandwidth", "the summary of this direction is missing", run.size, params)


def _summary(sides: Mapping[str | None, re.Match[str]], intervals: dict[str, float]) -> Direction:
    """What the lines of one direction say; those of None are of versions up to 3.1."""
    sender, receiver = sides.get("sender") or sides.get(None), sides.get("receiver") or sides.get(None)
    jitter = loss = None
    if receiver and receiver["jitter"]:
        jitter, unknown = float(receiver["jitter"]) / 1e3, receiver["lost"] == "Unknown"
        all_sent = int(sender["sent"] or 0) if sender else 0
        loss = Loss(
            None if unknown else int(receiver["lost"]),
            int(receiver["sent"]),
            receiver["percent"] or "",
            all_sent or None,
        )
    return Direction(
        sent=_end(sender) if sender else None,
        received=_end(receiver) if receiver and receiver["side"] else None,
        retransmits=float(sender["retransmits"]) if sender and sender["retransmits"] else None,
        jitter=jitter,
        loss=loss,
        in_intervals=intervals,
    )


def _in_intervals(body: str, name: str) -> dict[str, float]:
    """Bytes of the intervals of a direction, by the end that printed them; nothing where some are missing."""
    ends = {"bidir_forward": ("TX-C", "RX-S"), "bidir_reverse": ("RX-C", "TX-S")}.get(name, (None,))
    rows = [row for row in _INTERVAL.finditer(body) if row["end"] in ends]
    rows = [row for row in rows if row["stream"] == "SUM"] or rows
    begins, seconds = ([row[name] for row in rows] for name in ("begin", "seconds"))
    if not rows or float(begins[0]) or begins[1:] != seconds[:-1]:
        return {}
    client = body.startswith("\nConnecting")
    sends = rows[0]["end"][0] == "T" if rows[0]["end"] else client != (name == "reverse")
    return {"sent" if sends else "received": sum(map(_moved, rows))}


def _end(line: re.Match[str]) -> End:
    """What a summary line says."""
    power = _PREFIXES.index(line["prefix"])
    unit = 1000.0**power / 8 if line["unit"] == "bits" else 1024.0**power
    return printed_end(line["rate"], unit, _moved(line), line["seconds"])


def _moved(line: re.Match[str]) -> float:
    """The bytes of a line."""
    return float(line["moved"]) * 1024.0 ** _PREFIXES.index(line["moved_prefix"])
