"""Units: what a tool prints becomes SI base units once, at the parser's edge.

A metric has exactly one unit (`METRICS`), so the unit of a bare number is always known. Sizes are bytes;
the suffixes follow qperf and the IEC: ``K``/``KiB`` is 1024, ``k``/``kB`` is 1000. For people a size is
written in binary units (`format_size`), a rate and an amount moved in decimal ones (`format_quantity`).
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from typing import Final, Literal, NamedTuple


class Metric(NamedTuple):
    """A quantity that is measured."""

    #: SI base unit; ``1`` for counts and shares.
    unit: str
    #: Which values are good; neither for those that only describe.
    better: Literal["higher", "lower", "neither"]

    @property
    def may_be_zero(self) -> bool:
        """Whether 0 can be a measurement: yes for counts, shares and metrics without a good direction. A rate
        or a time of 0 is one below the tool's resolution."""
        return self.unit == "1" or self.better == "neither"


#: Every metric a record may carry. Qualifiers (percentile, precision, direction) go into `params`.
METRICS: Final[dict[str, Metric]] = {
    "bandwidth": Metric("B/s", "higher"),
    "latency": Metric("s", "lower"),
    "message_rate": Metric("1/s", "higher"),
    "operation_rate": Metric("1/s", "higher"),
    "noise": Metric("1", "lower"),
    "detour": Metric("s", "lower"),
    "detour_rate": Metric("1/s", "lower"),
    "flops": Metric("FLOP/s", "higher"),
    "update_rate": Metric("1/s", "higher"),
    "flop": Metric("FLOP", "neither"),
    "time": Metric("s", "lower"),
    "jitter": Metric("s", "lower"),
    "loss": Metric("1", "lower"),
    "retransmits": Metric("1", "lower"),
    "cpu": Metric("1", "lower"),
    "overlap": Metric("1", "higher"),
    "efficiency": Metric("1", "higher"),
    "overhead": Metric("1", "lower"),
    "traffic": Metric("B", "neither"),
    "messages": Metric("1", "neither"),
    "events": Metric("1", "neither"),
    "clock": Metric("Hz", "neither"),
    "cycles": Metric("1", "lower"),
    "instructions": Metric("1", "neither"),
    "energy": Metric("J", "neither"),
    "power": Metric("W", "neither"),
}

#: Decimal and binary prefixes as the tools use them; `m`, `u`, `n` only ever stand before seconds.
PREFIXES: Final[dict[str, float]] = {
    "": 1.0,
    "n": 1e-9,
    "u": 1e-6,
    "µ": 1e-6,
    "m": 1e-3,
    "k": 1e3,
    "K": 1e3,
    "M": 1e6,
    "G": 1e9,
    "T": 1e12,
    "P": 1e15,
    "Ki": 2.0**10,
    "Mi": 2.0**20,
    "Gi": 2.0**30,
    "Ti": 2.0**40,
    "Pi": 2.0**50,
}

_SIZE: Final = re.compile(r"(\d+(?:\.\d+)?)\s*(?:([kKMGT])(i?))?(B?)", re.ASCII)
_BELOW_ONE: Final = {prefix: PREFIXES[prefix] for prefix in ("n", "µ", "m", "")}
_ABOVE_ONE: Final = {prefix: PREFIXES[prefix] for prefix in ("", "k", "M", "G", "T", "P")}


def parse_size(text: str) -> int:
    """Bytes of a size such as ``65536``, ``64K``, ``1MiB``, ``400kB``.

    A bare ``K``, ``M``, ``G`` or one with ``iB`` is a power of 1024 (as in qperf and OSU); ``kB``,
    ``MB``, ``GB`` and a small ``k`` are powers of 1000. Raises ValueError for anything else and for
    sizes that are not whole bytes.
    """
    match = _SIZE.fullmatch(text.strip())
    if not match:
        raise ValueError(f"not a size in bytes: {text!r} (examples: 65536, 64K, 1MiB, 400kB)")
    number, prefix, binary, byte = match.groups("")
    is_binary = prefix and (binary or (prefix != "k" and not byte))
    factor = int(PREFIXES[f"{prefix.upper()}i" if is_binary else prefix])
    whole, _, part = number.partition(".")
    parts: int = 10 ** len(part)
    size, rest = divmod(int(whole + part) * factor, parts)  # a float would round sizes above 2^53
    if rest:
        raise ValueError(f"not a whole number of bytes: {text!r}")
    return size


def format_size(size_bytes: float | None) -> str:
    """A message, a working set, a memory, for people: ``14 B``, ``64 KiB``, ``1.5 MiB``; nothing of None.

    `parse_size` reads it back. It is rounded to three digits where it is no round number, like LIKWID's
    working sets (``63.4 KiB``); small and odd ones (frames, datagrams, NetPIPE's steps of 3 bytes) are exact.
    """
    if size_bytes is None:
        return ""
    for prefix in ("", "Ki", "Mi", "Gi", "Ti", "Pi"):
        scaled = size_bytes / PREFIXES[prefix]
        text = f"{scaled:.3g}" if scaled < 999.5 else f"{scaled:.0f}"
        if float(text) < 1024:
            break
    is_round = float(text) * PREFIXES[prefix] == size_bytes
    if size_bytes == int(size_bytes) and not is_round and (size_bytes < 10_000 or size_bytes % 8):
        return f"{int(size_bytes)} B"
    return f"{text} {prefix}B"


def plural(number: int, thing: str) -> str:
    """``1 record``, ``3 records``."""
    return f"{number} {thing}{'' if number == 1 else 's'}"


def several(names: Sequence[str], most: int = 4) -> str:
    """The first names, and how many more there are."""
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def shortened(name: str, most: int) -> str:
    """A name of `most` letters, the end left out where it has more."""
    return name if len(name) <= most else f"{name[: most - 1]}…"


def between(
    low: float | None, high: float | None, write: Callable[[float], str], form: str = "{} – {}"
) -> str:
    """An interval for people, its ends as `write` has them; empty where one is not known."""
    return "" if low is None or high is None else form.format(write(low), write(high))


def format_quantity(value: float, unit: str, digits: int = 4) -> str:
    """A number for people: engineering prefix, ``digits`` significant digits: ``27.22 µs``.

    A rate per second stands without its one (``1.2 M/s``), a plain number (unit ``1``) without anything.
    """
    name = {"1": "", "1/s": "/s"}.get(unit, unit)
    # Nobody says kiloseconds, or "3 k" for a plain number.
    prefixes = {"s": _BELOW_ONE, "1": {"": 1.0}}.get(unit, _ABOVE_ONE)
    if math.isfinite(value) and value != 0:
        # Rounding first, so that "1000 M" is not shown where "1 G" is meant.
        rounded = abs(float(f"{value:.{digits}g}"))
        for prefix, factor in reversed(prefixes.items()):
            if rounded >= factor:
                break
    else:
        prefix, factor = "", 1.0
    text = f"{value / factor:.{digits}g}"
    if "e+" in text:
        text = f"{value / factor:.0f}"
    return f"{text} {prefix}{name}".rstrip()


_CLOCK: Final = {"s": 1, "m": 60, "min": 60, "h": 3600, "d": 86400}


def parse_duration(text: str) -> float:
    """Seconds of ``90``, ``90s``, ``10m``, ``2h``, ``1d`` or several together, ``1h30m``.

    Raises ValueError for anything else.
    """
    parts = re.findall(r"(\d+(?:\.\d+)?)\s*(min|[smhd])", text)
    if re.fullmatch(r"\d+(?:\.\d+)?", text.strip()):
        return float(text)
    if not parts or re.sub(r"\s", "", text) != "".join(map("".join, parts)):
        raise ValueError(f"not a duration: {text!r} (examples: 90, 90s, 10m, 2h, 1h30m)")
    return sum(float(number) * _CLOCK[unit] for number, unit in parts)


def format_duration(seconds: float) -> str:
    """Seconds for people, in its two largest units: ``45 s``, ``1 min``, ``1 h 30 min``, ``2 d``."""
    left, words = round(seconds), []
    for unit in ("d", "h", "min", "s"):
        count, left = divmod(left, _CLOCK[unit])
        if count:
            words.append(f"{count} {unit}")
        elif words:
            break
    return " ".join(words[:2]) or "0 s"
