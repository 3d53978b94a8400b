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
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import chain, pairwise, repeat
from typing import Final

from npc.record import OK, Reading
from npc.units import parse_size
from parsers import NUMBER, WHOLE, complete_lines, failed, option, reading_of, words_after

_TEST: Final = re.compile(r"(?:rds|sctp|sdp|tcp|udp|ver_rc|x?rc|uc|ud)_[a-z_]+")
_TITLE: Final = re.compile(rf"\n(?! )({_TEST.pattern}):[ \t]*(?=\n)")
_GROUPED: Final = rf"(?:{WHOLE}|[0-9]{{1,3}}(?:,[0-9]{{3}}){{1,5}})"
# A body's last line end may have gone to the next title's pattern; its end is as good, all lines being whole.
_FIELD: Final = re.compile(
    r"\n    (bw|send_bw|recv_bw|latency|msg_rate|msg_size)( +)=  *"
    rf"({NUMBER}|{_GROUPED}(?:\.[0-9]{{1,18}})?) (\S*)(?: \(({_GROUPED})\))?[ \t]*(?=\n|\Z)"
)
_LONGEST_NAME: Final = re.compile(r"\n    \w+  =")
#: Without a device; without the kernel's part of RDMA; the latter with -cm1. Said by the client, or by the
#: server through it: both look at once, and the one that is first ends the other.
_NO_DEVICE: Final = re.compile(
    r"(?:server: )?(?:failed to find (?:any )?InfiniBand devices?\b.*|rdma_create_event_channel failed\b.*)"
)
_NO_GRH: Final = re.compile(r"(?:server: )?failed to create address handle: Invalid argument")
_TRY_HELP: Final = "; try: qperf --help"
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
    sizes = _sizes(words)
    named_device = option(words, "-i", "--id") is not None
    before, *parts = _TITLE.split(complete_lines(text))
    usage = _USAGE.search(before) if _TRY_HELP in before else None
    refused = [failed(usage[1] or "qperf", _metric(usage[1] or ""), usage[2])] if usage else []
    bodies = parts[1::2]
    if "" in bodies[:-1]:  # qperf stops at a test without a result: this name went astray
        bodies[1:] = [body if above else "" for above, body in pairwise(bodies)]
    tests = map(_test, parts[::2], bodies, repeat(sizes), repeat(named_device))
    seen = {usage[1] if usage else None, *parts[::2]}
    never_began = [
        failed(case, _metric(case), "it never began: qperf stopped before it")
        for case in dict.fromkeys(word for word in words if _TEST.fullmatch(word))
        if case not in seen
    ]
    return chain(refused, chain.from_iterable(tests), never_began)


def _test(case: str, body: str, sizes: list[int], named_device: bool) -> list[Reading]:
    """Readings of the lines below one test's name."""
    if sizes and (_ATOMIC.search(case) or _UNUSED_SIZE in body):
        sizes = []
    size = sizes[0] if len(sizes) == 1 else None
    status = _UNKNOWN_SIZE if len(sizes) > 1 else OK
    values = []
    received = False
    fields = _FIELD.findall(body)
    # Where no others are printed, the last of these mostly has the longest name.
    if fields and fields[-1][1] != "  " and not _LONGEST_NAME.search(body):
        fields = []
    if fields and not _of_one_result(case, tuple([field[0] for field in fields])):
        return [failed(case, _metric(case), _MIXED)]
    for name, _, number, unit, exact in fields:
        if name == "msg_size":
            if exact:
                size, status = int(exact.replace(",", "")), OK
            elif (printed_size := _printed_size(number, unit)) is not None:
                size, status = _exact(printed_size, sizes), OK
            continue
        metric, power, divisor = _QUANTITIES[name].get(unit) or ("", "", 1.0)
        value = float((number.replace(",", "") if "," in number else number) + power) / divisor
        if metric:
            values.append((metric, value, _SENT if name == "send_bw" else _NOTHING))
        if value and name != "send_bw":
            received = True
    if received:
        return [
            reading_of((case, metric, value, size, status, params, ""))
            for metric, value, params in values
            if value
        ]
    reason = "nothing arrived: the result is 0" if values else _reason(body)
    if _NO_DEVICE.fullmatch(reason) and not named_device:
        return [Reading(case, _metric(case), None, size, f"unavailable: no RDMA device: {reason}")]
    if _NO_GRH.fullmatch(reason):
        return [Reading(case, _metric(case), None, size, f"unavailable: {case} needs InfiniBand: {reason}")]
    return [failed(case, _metric(case), reason, size=size)] + [
        Reading(case, metric, value, size, "invalid: nothing was received", _SENT)
        for metric, value, _ in values
        if value
    ]


@lru_cache
def _printed_size(number: str, unit: str) -> int | None:
    """A message size in bytes, to the digits that are printed; None where the unit is not of bytes."""
    kind, power = _UNITS.get(unit, ("", ""))
    return round(float(number.replace(",", "") + power)) if kind == "size" else None


@lru_cache
def _of_one_result(case: str, shown: tuple[str, ...]) -> bool:
    """Whether a test of this name ends with these fields, each once."""
    allowed = next(results for name, results in _RESULTS if name.fullmatch(case))
    return len(set(shown)) == len(shown) and set(shown) - {"msg_rate", "msg_size"} in allowed


def _reason(body: str) -> str:
    """What stands below a test's name instead of a result."""
    lines = [line for line in body.split("\n") if line and not line.startswith((" ", "#@", "warning:"))]
    return lines[0] if lines else "no complete result was printed"


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
