"""qperf (0.4.9 to 0.4.11): bandwidth, latency and message rate of TCP, UDP, SCTP, RDS, SDP and RDMA.

Each test prints its name, then aligned ``name = value`` lines; ``-oo`` loops print the name again for each
step. Values are scaled as qperf pleases, in steps of 10^3 (``KB/sec``, ``us``, ``K/sec``; bits with ``-ub``)
and may hold thousands commas; ``-uu`` fixes bytes/sec and ns. Latency is one way (half the round trip).

- ``send_bw`` is what was sent, ``recv_bw`` what arrived: the first is kept under ``{"side": "send"}``.
- A zero, with exit 0, is a test that moved nothing: failed. So is a name with nothing below it (the reason
  may stand there), and a test of the command line that never began because the one before it failed.
- Without an RDMA device its tests are unavailable; where the command line names one (``-i``), failed. So are
  datagrams (``ud_*``) over RoCE, which demands a header that qperf does not send (GRH).
- ``-f1`` (the server sends) is ``{"direction": "reverse"}`` of what has a direction, unless qperf warns that
  the test does not use it: those over the kernel's sockets do not.
- Sizes: the exact number in parentheses, else the printed one (``1 KB`` is 1000), which the command line
  makes exact where three digits do not. A loop over msg_size that does not print it (no ``-vu``) leaves
  its values without their size: invalid.
- A block counts only with the line that has the longest name, which set the width of the column: without it
  the size may still be missing. Its lines must be those of one result of its test, each once. Whole lines
  that changed places between blocks of the same form cannot be found out.
- A line in an unknown unit gives no number: a test without any other has failed.

Source: qperf(1), ``qperf --help tests``, ``--help options``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from npc.parsers.text.lines import NUMBER, WHOLE, complete_lines, sections
from npc.parsers.text.options import option, words_after
from npc.records.reading import OK, Reading, failed
from npc.records.units import parse_size

_TEST: Final = r"(?:rds|sctp|sdp|tcp|udp|ver_rc|x?rc|uc|ud)_[a-z_]+"
_TITLE: Final = re.compile(rf"\n({_TEST}):[ \t]*(?=\n)")
_GROUPED: Final = rf"(?:{WHOLE}|[0-9]{{1,3}}(?:,[0-9]{{3}}){{1,5}})"
_FIELD: Final = re.compile(
    r"\n    (bw|send_bw|recv_bw|latency|msg_rate|msg_size) +=  *"
    rf"({NUMBER}|{_GROUPED}(?:\.[0-9]{{1,18}})?) (\S*)(?: \(({_GROUPED})\))?[ \t]*(?=\n)"
)
_LONGEST_NAME: Final = re.compile(r"\n    [A-Za-z0-9_]+  =")
#: Without a device; without the kernel's part of RDMA; the latter with -cm1. Said by the client, or by the
#: server through it: both look at once, and the one that is first ends the other.
_NO_DEVICE: Final = re.compile(
    r"(?:server: )?(?:failed to find (?:any )?InfiniBand devices?\b.*|rdma_create_event_channel failed\b.*)"
)
_NO_GRH: Final = re.compile(r"(?:server: )?failed to create address handle: Invalid argument")
_REASON: Final = re.compile(r"\n(?! |#@|warning:)([^\n]+)")
_USAGE: Final = re.compile(r"\n(?:(\w+): )?([^\n]*); try: qperf --help")
_METRICS: Final = {
    "bw": "bandwidth",
    "recv_bw": "bandwidth",
    "send_bw": "bandwidth",
    "latency": "latency",
    "msg_rate": "message_rate",
}
#: What somebody sends and somebody else receives.
_DIRECTED: Final = ("bandwidth", "message_rate")
_DECIMAL: Final = {"": "", "K": "e3", "M": "e6", "G": "e9", "T": "e12", "P": "e15"}
_SCALED: Final = {"/sec": "message_rate", "B/sec": "bandwidth", "b/sec": "bits", "B": "size"}
#: A printed unit: what it measures, and the power of ten to append to the digits, so that the value is the
#: float nearest to what was printed.
_UNITS: Final = {
    "bytes/sec": ("bandwidth", ""),
    "bits/sec": ("bits", ""),
    "bytes": ("size", ""),
    "ns": ("latency", "e-9"),
    "us": ("latency", "e-6"),
    "ms": ("latency", "e-3"),
    "sec": ("latency", ""),
    **{f"{p}{unit}": (kind, power) for p, power in _DECIMAL.items() for unit, kind in _SCALED.items()},
}
#: What the results of one test are, beside a message rate: of TCP and the like by its name.
_RESULTS: Final = (
    (re.compile(r"\w+_lat"), {frozenset({"latency"})}),
    (re.compile(r"(?:tcp|sctp|sdp)_bw"), {frozenset({"bw"})}),
    (re.compile(r"udp_bw"), {frozenset({"send_bw", "recv_bw"})}),
    (re.compile(r"\w+_bw"), {frozenset({"bw"}), frozenset({"send_bw", "recv_bw"})}),
    (re.compile(r"\w+"), {frozenset({"bw"}), frozenset({"latency"}), frozenset()}),
)
_MIXED: Final = "its lines are not those of one result"
#: Atomic operations have a size of their own, and qperf says that it does not use another.
_ATOMIC: Final = re.compile("compare_swap|fetch_add")
_UNUSED_SIZE: Final = "\nwarning: --msg_size set but not used"
_UNUSED_FLIP: Final = re.compile(r"\nwarning: (?:-f1?|--flip) set but not used")
_UNKNOWN_SIZE: Final = "invalid: message size unknown: a loop prints it only with -vu"
MARKS: Final = r"(?:tcp|udp|sctp|sdp|rds|rc|uc|ud|xrc|ver)_\w+:[ \t]*$|[^\n]*; try: qperf --help"
ROWS: Final = r" *(?:bw|send_bw|recv_bw|latency|msg_rate) +=  *[0-9]"


def parse(text: str, argv: Sequence[str] = ()) -> Iterator[Reading]:
    """Readings of qperf's client, in its order; failures last those that never began."""
    words = words_after(argv, "qperf")
    text = complete_lines(text)
    tests, sizes = list(sections(_TITLE, text)), _sizes(words)
    named_device = option(words, "-i", "--id") is not None
    reverse = option(words, "-f", "--flip") not in (None, "0")
    usage = _USAGE.search(text, 0, tests[0][0].start() + 1 if tests else len(text))
    if usage:
        yield failed(usage[1] or "qperf", _metric(usage[1] or ""), usage[2])
    above = ""
    for title, body in tests:
        # qperf stops at a test without a result: a name with nothing below it went astray
        for reading in _test(title[1], "" if above == "\n" else body, sizes, named_device):
            turned = reverse and reading.metric in _DIRECTED and not _UNUSED_FLIP.search(body)
            yield replace(reading, params={**reading.params, "direction": "reverse"}) if turned else reading
        above = body
    began = {title[1] for title, _ in tests} | ({usage[1]} if usage else set())
    for case in dict.fromkeys(words):
        if re.fullmatch(_TEST, case) and case not in began:
            yield failed(case, _metric(case), "it never began: qperf stopped before it")


def _test(case: str, body: str, sizes: list[int], named_device: bool) -> Iterator[Reading]:
    """Readings of the lines below a test's name; `sizes` are those that the command line asks for."""
    wanted = [] if _ATOMIC.search(case) or _UNUSED_SIZE in body else sizes
    size = wanted[0] if len(wanted) == 1 else None
    status = _UNKNOWN_SIZE if len(wanted) > 1 else OK
    fields = _FIELD.findall(body) if _LONGEST_NAME.search(body) else []
    mixed = bool(fields) and not _of_one_result(case, [name for name, *_ in fields])
    values: list[tuple[str, float]] = []
    for name, printed, unit, exact in () if mixed else fields:
        kind, power = _UNITS.get(unit, ("", ""))
        value = float(printed.replace(",", "") + power)
        if name == "msg_size":
            if exact or kind == "size":
                size, status = int(exact.replace(",", "")) if exact else _exact(round(value), wanted), OK
        elif kind == "bits" and _METRICS[name] == "bandwidth":
            values.append((name, value / 8))
        elif kind == _METRICS[name]:
            values.append((name, value))
    received = [value for name, value in values if name != "send_bw"]
    if not any(received):
        line = _REASON.search(body)
        printed = line[1] if line else "no complete result was printed"
        reason = _MIXED if mixed else "nothing arrived: the result is 0" if received else printed
        failure = _failure(case, reason, named_device)
        yield Reading(case, _metric(case), None, None if mixed else size, failure)
        status = "invalid: nothing was received"
    for name, value in values:
        if value:
            params = {"side": "send"} if name == "send_bw" else {}
            yield Reading(case, _METRICS[name], value, size, status, params)


def _of_one_result(case: str, names: Sequence[str]) -> bool:
    """Whether a test of this name ends with fields of these names, each once."""
    allowed = next(results for name, results in _RESULTS if name.fullmatch(case))
    return len(set(names)) == len(names) and set(names) - {"msg_rate", "msg_size"} in allowed


def _failure(case: str, reason: str, named_device: bool) -> str:
    """The status of a test that gave no result."""
    if _NO_DEVICE.fullmatch(reason) and not named_device:
        return f"unavailable: no RDMA device: {reason}"
    if _NO_GRH.fullmatch(reason):
        return f"unavailable: {case} needs InfiniBand: {reason}"
    return failed(case, "", reason).status


def _metric(case: str) -> str:
    """The metric of a test without a result, from its name."""
    if case.endswith("_lat"):
        return "latency"
    atomic = case.startswith(("rc_", "ver_rc_", "xrc_")) and not case.endswith("_bw")
    return "message_rate" if atomic else "bandwidth"


def _sizes(words: Sequence[str]) -> list[int]:
    """The message sizes that the command line asks for; more than one if it loops over them."""
    try:
        for place, word in enumerate(words):
            if word in ("-oo", "--loop") and words[place + 1].startswith("msg_size:"):
                return _loop(*words[place + 1].split(":")[1:])
        size = option(words, "-m", "--msg_size")
        return [parse_size(size)] if size else []
    except (IndexError, TypeError, ValueError):
        return []


def _loop(first: str, last: str = "", step: str = "1") -> list[int]:
    """The sizes of ``-oo msg_size:FIRST:LAST:STEP``; STEP is ``*N`` or an addend (``--help options``)."""
    size, end = parse_size(first), parse_size(last or first)
    factor = int(step[1:]) if step.startswith("*") else 1
    addend = 0 if step.startswith("*") else parse_size(step.removeprefix("+"))
    sizes = [size]
    while size * factor + addend <= end and len(sizes) < 10_000 and (factor > 1 or addend):
        size = size * factor + addend
        sizes.append(size)
    return sizes


def _exact(printed: int, sizes: list[int]) -> int:
    """The asked size that `printed` rounds to three digits, `printed` if it rounds none."""
    return next((size for size in sizes if round(size, 3 - len(str(size))) == printed), printed)
