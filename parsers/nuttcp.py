"""nuttcp (6 and 7): TCP and UDP bandwidth, retransmits, loss, CPU shares; ``-fparse``, brief and verbose.

The rate of the last line is the receiver's; of the verbose form only ``nuttcp-r`` counts. Mbps is 10^6
bits; the MB (2^20 bytes) and the time beside it must agree with it. ``drop/pkt`` is what was lost of what was
sent. Intervals of ``-i`` (``real_sec``, no CPU shares) are passed over. `case` is the protocol, size the
buffer (``-l``; 64 KiB for TCP) where it is known.

- Nothing received, or a transfer that was interrupted (which exits 0), is a failure.
- UDP is sent at 1 Mbit/s unless ``-R`` says otherwise: ``{"bitrate": "1m"}``; ``-Ru`` is unlimited.

Source: nuttcp(8).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from npc.parsers.text.lines import NUMBER, WHOLE, complete_lines
from npc.parsers.text.options import bytes_of, option, words_after
from npc.records.reading import OK, Reading, failed
from npc.validity.arithmetic import row_contradiction

#: What may follow; a line that was wrapped or cut ends within it.
_MORE: Final = (
    rf"(?: (?:retrans|host-retrans|drop|pkt|cwndKB)={WHOLE}| (?:data_loss|rtt_ms)={NUMBER})*",
    rf"(?: {WHOLE} (?:host-)?retrans| {WHOLE} KB-cwnd| {WHOLE} / {WHOLE} drop/pkt {NUMBER} %loss"
    rf"| {NUMBER} msRTT)*",
)
_PARSED: Final = re.compile(
    rf"\n(?:\S+: )?megabytes=({NUMBER}) real_seconds=({NUMBER}) rate_Mbps=({NUMBER})"
    rf" tx_cpu={WHOLE} rx_cpu={WHOLE}(?:{_MORE[0]}(?=\n)|(?P<cut>))[^\n]*"
)
_BRIEF: Final = re.compile(
    rf"\n(?:\S+: )? *({NUMBER}) MB / +({NUMBER}) sec = +({NUMBER}) Mbps +{WHOLE} %TX"
    rf"(?: {WHOLE} %RX{_MORE[1]}(?=\n)|(?P<cut>))[^\n]*"
)
_VERBOSE: Final = re.compile(
    rf"\nnuttcp-r: (?:({NUMBER}) MB in ({NUMBER}) real seconds = +{NUMBER} KB/sec = +({NUMBER}) Mbps"
    rf"|megabytes=({NUMBER}) real_seconds=({NUMBER}) rate_KBps={NUMBER} rate_Mbps=({NUMBER}))[ \t]*(?=\n)"
)
_RETRANSMITS: Final = re.compile(rf"\bretrans ?= ?({WHOLE})\b|\b({WHOLE}) retrans\b(?! ?=)")
_LOST: Final = re.compile(rf"\bdrop=({WHOLE}) pkt=({WHOLE})\b|\b({WHOLE}) / ({WHOLE}) drop/pkt\b")
_CPU: Final = re.compile(rf"\btx_cpu=({WHOLE}) rx_cpu=({WHOLE})\b|\b({WHOLE}) %TX ({WHOLE}) %RX\b")
_BUFFER: Final = re.compile(rf"\nnuttcp-t: buflen=({WHOLE})\b")
_VERSION: Final = re.compile(r"\nnuttcp-[tr]: v([0-9.]+): socket")
_ERROR: Final = re.compile(
    r"\n(nuttcp-[tr]: v\S+ Error: [^\n]*|bad hostname [^\n]*|nuttcp: [^\n]*|Usage: nuttcp)[^\n]*"
)
_INTERRUPTED: Final = "\n*** transfer interrupted ***\n"
_DEFAULT_TCP_BUFFER: Final = 65536
MARKS: Final = (
    r"nuttcp-[rt]: |Usage: nuttcp |(?:\S+: )?megabytes=[0-9.]+ real_seconds="
    r"|(?:\S+: )? *[0-9.]+ MB / +[0-9.]+ sec = +[0-9.]+ Mbps"
)


def parse(text: str, argv: Sequence[str] = ()) -> Iterator[Reading]:
    """Readings of a client's output."""
    text = complete_lines(text)
    words = words_after(argv, "nuttcp")
    case, size, params = _settings_of(text, text, words)
    version, verbose, error = (pattern.search(text) for pattern in (_VERSION, _VERBOSE, _ERROR))
    lines = [verbose] if verbose else list(_PARSED.finditer(text)) or list(_BRIEF.finditer(text))
    is_client = words and words != list(argv) and not {"-S", "-1", "-V", "-h"} & set(words)
    if error or (lines and _INTERRUPTED in text):
        yield failed(case, "bandwidth", error[1] if error else "the transfer was interrupted", size, params)
        return
    if is_client and not lines:
        yield failed(case, "bandwidth", "no result was printed", size, params)
    if len(_VERBOSE.findall(text)) > 1:
        yield failed(case, "bandwidth", "the figures of several runs", size, params)
        return
    for line in lines:
        # of the verbose form the other figures stand in lines of their own
        figures = text if verbose else line[0]
        case, size, params = _settings_of(figures, text, words)
        if line.groupdict().get("cut") is not None:
            yield failed(case, "bandwidth", "the rest of its line is missing", size, params)
            continue
        moved, seconds, mbps = filter(None, line.groups())
        rate = float(mbps) * 1e6 / 8
        if rate == 0:
            yield failed(case, "bandwidth", "nothing was received", size, params)
            continue
        lie = row_contradiction(mbps, 1e6 / 8, float(moved) * 2**20, seconds, 1.0)
        status = f"invalid: {lie}" if lie else OK
        for metric, value, own in (("bandwidth", rate, {}), *_others(figures)):
            yield Reading(case, metric, value, size, status, {**params, **own}, version[1] if version else "")


def _others(figures: str) -> Iterator[tuple[str, float, dict[str, str]]]:
    """Metric, value and qualifiers of what stands beside the rate."""
    retransmits, lost, cpu = _RETRANSMITS.search(figures), _LOST.search(figures), _CPU.search(figures)
    if retransmits:
        yield "retransmits", float(retransmits[1] or retransmits[2]), {}
    if lost:
        dropped, sent = (int(number) for number in lost.groups() if number is not None)
        if 0 < sent >= dropped:
            yield "loss", dropped / sent, {}
    if cpu:
        shares = [int(share) / 100 for share in cpu.groups() if share is not None]
        for side, share in zip(("send", "receive"), shares, strict=True):
            yield "cpu", share, {"side": side}


def _settings_of(figures: str, text: str, words: Sequence[str]) -> tuple[str, int | None, dict[str, str]]:
    """Case by a result's figures; buffer size and qualifiers from the text where it tells them, else from the
    command line."""
    udp = "-u" in words or "drop/pkt" in figures or " drop=" in figures
    buffer, length = _BUFFER.search(text), option(words, "-l")
    size = int(buffer[1]) if buffer else bytes_of(length.upper() if length else None)  # nuttcp's k is 1024
    if words and not (udp or buffer or length):
        size = _DEFAULT_TCP_BUFFER
    streams, bitrate = option(words, "-N"), option(words, "-R")
    params = {"streams": streams} if streams and streams != "1" else {}
    if udp and words and bitrate is None and "-Ru" not in words:
        bitrate = "1m"
    if bitrate:
        params["bitrate"] = bitrate
    if "-r" in words:
        params["direction"] = "reverse"
    return "udp" if udp else "tcp", size, params
