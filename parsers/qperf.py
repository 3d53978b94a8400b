"""qperf (0.4.9 to 0.4.11): bandwidth, latency and message rate of TCP, UDP, SCTP, RDS, SDP and RDMA.

Each test prints its name, then aligned ``name = value`` lines; ``-oo`` loops print the name again for each
step. Values are scaled as qperf pleases, in steps of 10^3 (``KB/sec``, ``us``, ``K/sec``; bits with ``-ub``)
and may hold thousands commas; ``-uu`` fixes bytes/sec and ns. Latency is one way (half the round trip).

- ``send_bw`` is what was sent, ``recv_bw`` what arrived: the first is kept under ``{"side": "send"}``.
- A zero, with exit 0, is a test that moved nothing: failed. So is a name with nothing below it (the reason
  may stand there), and a test of the command line that never began because the one before it failed.
- Without an RDMA device its tests are unavailable; where the command line names one (``-i``), failed. So are
  datagrams (``ud_*``) over RoCE, which demands a header that qperf does not send (GRH).
- Sizes: the exact number in parentheses, else the printed one (``1 KB`` is 1000), which the command line
  makes exact where three digits do not. A loop over msg_size that does not print it (no ``-vu``) leaves
  its values without their size: invalid.
- A block counts when the line with the longest name is there, the one that set the width of the column
  (before it the size may still be missing), and when its lines are those of one result of its test: each
  once, and what a test of its name ends with. Lines that went from one block whole into another, or changed
  places, nobody can tell from lines of their own.

Source: qperf(1), ``qperf --help tests``, ``--help options``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache, partial
from itertools import chain
from typing import Final

from npc.records.reading import OK, Reading, failed
from npc.records.units import parse_size
from parsers.text.lines import NUMBER, WHOLE, complete_lines
from parsers.text.options import option, words_after

_TEST: Final = re.compile(r"(?:rds|sctp|sdp|tcp|udp|ver_rc|x?rc|uc|ud)_[a-z_]+")
_TITLE: Final = re.compile(rf"\n(?=[r-x])(?={_TEST.pattern}:[ \t]*\n)")
_GROUPED: Final = rf"(?:{WHOLE}|[0-9]{{1,3}}(?:,[0-9]{{3}}){{1,5}})"
# A test's last line end may have gone to the next title's pattern; its end is as good, all lines being whole.
_FIELD: Final = re.compile(
    r"\n    (bw|send_bw|recv_bw|latency|msg_rate|msg_size)( +)=  *"
    rf"(({NUMBER}|{_GROUPED}(?:\.[0-9]{{1,18}})?) (\S*)( \({_GROUPED}\))?)[ \t]*(?=\n|\Z)"
)
_FIELD_NAME: Final = re.compile(r"\n    (?:bw|send_bw|recv_bw|latency|msg_rate|msg_size) ")
_FIELDS: Final = re.compile(rf"(?:{_FIELD_NAME.pattern}[^\n]*)+")
_LONGEST_NAME: Final = re.compile(r"\n    [A-Za-z0-9_]+  =")
#: Characters that a test without statistics has at most; those of name and results are never twice as many.
_SHORT: Final = 160
_ZEROS: Final = str.maketrans("123456789", "0" * 9)
#: Of a number: metric (empty if its unit is unknown), place, power of ten to append, how to read it, params.
_Field = tuple[str, slice, str, Callable[[str], float], Mapping[str, str]]
#: Of a test: its name, its numbers, the place of its size, what else is known to be wrong.
_Layout = tuple[str, list[_Field], slice | None, str]
#: Without a device; without the kernel's part of RDMA; the latter with -cm1. Said by the client, or by the
#: server through it: both look at once, and the one that is first ends the other.
_NO_DEVICE: Final = re.compile(
    r"(?:server: )?(?:failed to find (?:any )?InfiniBand devices?\b.*|rdma_create_event_channel failed\b.*)"
)
_NO_GRH: Final = re.compile(r"(?:server: )?failed to create address handle: Invalid argument")
_TRY_HELP: Final = "; try: qperf --help"
_REASON: Final = re.compile(r"\n(?! |#@|warning:)([^\n]+)")
_USAGE: Final = re.compile(rf"\n(?:(\w+): )?([^\n]*){_TRY_HELP}")
_METRICS: Final = {
    "bw": "bandwidth",
    "recv_bw": "bandwidth",
    "send_bw": "bandwidth",
    "latency": "latency",
    "msg_rate": "message_rate",
}
_DECIMAL: Final = {"": "", "K": "e3", "M": "e6", "G": "e9", "T": "e12", "P": "e15"}
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
    **{f"{prefix}/sec": ("message_rate", power) for prefix, power in _DECIMAL.items()},
    **{f"{prefix}B/sec": ("bandwidth", power) for prefix, power in _DECIMAL.items()},
    **{f"{prefix}b/sec": ("bits", power) for prefix, power in _DECIMAL.items()},
    **{f"{prefix}B": ("size", power) for prefix, power in _DECIMAL.items()},
}
#: Field → unit → metric, the power of ten to append, and what to divide by.
_QUANTITIES: Final = {
    name: {
        unit: (metric, power, 8.0 if kind == "bits" else 1.0)
        for unit, (kind, power) in _UNITS.items()
        if kind == metric or (kind == "bits" and metric == "bandwidth")
    }
    for name, metric in _METRICS.items()
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
_SENT: Final = {"side": "send"}
_NOTHING: Final[dict[str, str]] = {}
#: Atomic operations have a size of their own, and qperf says that it does not use another.
_ATOMIC: Final = re.compile("compare_swap|fetch_add")
_UNUSED_SIZE: Final = "\nwarning: --msg_size set but not used"
_UNKNOWN_SIZE: Final = "invalid: message size unknown: a loop prints it only with -vu"


def parse(text: str, argv: Sequence[str] = ()) -> Iterator[Reading]:
    """Readings of qperf's client, in its order; failures last those that never began."""
    words = words_after(argv, "qperf")
    text = complete_lines(text)
    # With 0 for every digit, few of the texts below a name differ: see `_layout`.
    shape = (text if text.isascii() else text.encode("ascii", "replace").decode()).translate(_ZEROS)
    before, *shapes = _TITLE.split(shape)
    usage = _USAGE.search(text, 0, len(before) + 1) if _TRY_HELP in before else None
    refused = [failed(usage[1] or "qperf", _metric(usage[1] or ""), usage[2])] if usage else []
    named_device = option(words, "-i", "--id") is not None
    tests = _tests(text, len(before), shapes, _sizes(words), named_device)
    never_began = [
        failed(case, _metric(case), "it never began: qperf stopped before it")
        for case in dict.fromkeys(word for word in words if _TEST.fullmatch(word))
        if not (usage and usage[1] == case) and not re.search(rf"\n{case}:[ \t]*\n", text)
    ]
    return chain(refused, tests, never_began)


def _tests(text: str, end: int, shapes: list[str], sizes: list[int], named_device: bool) -> Iterator[Reading]:
    """The readings of all tests; the first of `shapes` is that of the line behind `end`."""
    astray = False  # qperf stops at a test without a result: a name with nothing below it went astray
    for shape in shapes:
        start = end + 1
        end = start + len(shape)
        lines = text[start:end]
        case, fields, size_place, reason = _layout(shape) if len(shape) <= _SHORT else _long_layout(shape)
        size, status = None, OK
        if sizes:
            asked = [] if _ATOMIC.search(case) or _UNUSED_SIZE in shape else sizes
            size = asked[0] if len(asked) == 1 else None
            status = _UNKNOWN_SIZE if len(asked) > 1 else OK
        if astray:
            fields, size_place, reason = [], None, _reason("")
        if size_place:
            size, exact = _printed_size(lines[size_place])
            status = OK
            if sizes and not exact:
                size = _exact(size, asked)
        received = False
        sent = None
        for metric, place, power, number, params in fields:
            value = number(lines[place] + power)
            if not value:
                continue
            reading = Reading(case, metric, value, size, status, params)
            if params is _SENT:
                sent = reading
                continue
            if sent:
                yield sent
                sent = None
            if metric:
                yield reading
            received = True
        if not received:
            if any(metric for metric, *_ in fields):
                reason = "nothing arrived: the result is 0"
            reason = reason or _reason(lines)
            size = None if reason == _MIXED else size
            yield Reading(case, _metric(case), None, size, _status(case, reason, named_device), _NOTHING)
            status = "invalid: nothing was received"
            astray = "\n" not in lines
        if sent:
            yield Reading(case, sent.metric, sent.value, sent.size, status, _SENT)


def _long_layout(shape: str) -> _Layout:
    """`_layout` of a test whose numbers are too many for all its lines to be remembered: of its fields."""
    fields = _FIELDS.search(shape)
    end = fields.end() if fields else shape.index(":") + 1
    if end > 2 * _SHORT or _FIELD_NAME.search(shape, end):
        return _layout.__wrapped__(shape)
    return _layout(shape[:end], has_longest=_LONGEST_NAME.search(shape, end) is not None)


@lru_cache(maxsize=8192)
def _layout(shape: str, has_longest: bool = False) -> _Layout:
    """Where the numbers are in all tests whose lines have this shape, each digit being a 0.

    What matches a digit in `_FIELD` matches every other, so that the shape tells all but the values.
    """
    case = shape[: shape.index(":")]
    found = list(_FIELD.finditer(shape))
    # Where no others are printed, the last of these mostly has the longest name.
    if not found or not (has_longest or found[-1][2] == "  " or _LONGEST_NAME.search(shape)):
        return case, [], None, ""
    if not _of_one_result(case, tuple([field[1] for field in found])):
        return case, [], None, _MIXED
    fields: list[_Field] = []
    size_place = None
    for field in found:
        name, _, _, digits, unit, exact = field.groups()
        if name == "msg_size":
            if exact or _UNITS.get(unit, ("", ""))[0] == "size":
                size_place = slice(*field.span(3))
        elif unit in _QUANTITIES[name] or name != "send_bw":
            metric, power, divisor = _QUANTITIES[name].get(unit) or ("", "", 1.0)
            number = float if divisor == 1 and "," not in digits else partial(_number, divisor)
            params = _SENT if name == "send_bw" else _NOTHING
            fields.append((metric, slice(*field.span(4)), power, number, params))
    return case, fields, size_place, ""


def _number(divisor: float, printed: str) -> float:
    """A number that may have thousands commas, divided by `divisor`."""
    return float(printed.replace(",", "")) / divisor


@lru_cache
def _printed_size(printed: str) -> tuple[int, bool]:
    """A message size in bytes, and whether it is exact: else it is known to the digits that are printed."""
    number, unit, *exact = printed.replace(",", "").split(" ")
    if exact:
        return int(exact[0][1:-1]), True
    return round(float(number + _UNITS[unit][1])), False


@lru_cache
def _of_one_result(case: str, shown: tuple[str, ...]) -> bool:
    """Whether a test of this name ends with these fields, each once."""
    allowed = next(results for name, results in _RESULTS if name.fullmatch(case))
    return len(set(shown)) == len(shown) and set(shown) - {"msg_rate", "msg_size"} in allowed


@lru_cache
def _status(case: str, reason: str, named_device: bool) -> str:
    """The status of a test that gave no result."""
    if _NO_DEVICE.fullmatch(reason) and not named_device:
        return f"unavailable: no RDMA device: {reason}"
    if _NO_GRH.fullmatch(reason):
        return f"unavailable: {case} needs InfiniBand: {reason}"
    return failed(case, "", reason).status


def _reason(lines: str) -> str:
    """What stands below a test's name instead of a result."""
    line = _REASON.search(lines)
    return line[1] if line else "no complete result was printed"


def _metric(case: str) -> str:
    """The metric of a test without a result, from its name."""
    if case.endswith("_lat"):
        return "latency"
    return (
        "bandwidth"
        if case.endswith("_bw") or not case.startswith(("rc_", "ver_rc_", "xrc_"))
        else "message_rate"
    )


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
    found = [size]
    while size * factor + addend <= end and len(found) < 10_000 and (factor > 1 or addend):
        size = size * factor + addend
        found.append(size)
    return found


def _exact(printed: int, asked: list[int]) -> int:
    """The asked size that `printed` rounds to three digits, `printed` if it rounds none."""
    if not asked:
        return printed
    return next((size for size in asked if round(size, 3 - len(str(size))) == printed), printed)
