"""The reading: what a tool's text says, before `npc.records.record` makes it a record."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

#: Status of a reading or a record whose value may be used. Any other status says why it may not.
OK: Final = "ok"
#: The param that says what to know of a good number. It is a circumstance: no series differs by it.
NOTE: Final = "note"
#: Characters that a text from elsewhere may have at most: no name, version or reason is that long.
LONGEST: Final = 2000
#: Character that would move a terminal's cursor, end a row or turn its direction → what is shown instead.
_SHOWN: Final = (
    {code: 0x2400 + code for code in range(32)}
    | {127: 0x2421}
    | dict.fromkeys([*range(128, 160), 0x2028, 0x2029], 0xFFFD)
    | {code: f"\\u{code:04x}" for code in (*range(0x202A, 0x202F), *range(0x2066, 0x206A))}
)


def is_plain(text: str) -> bool:
    """Whether `plain` certainly leaves a text as it is. False is no proof that it does not."""
    return text.isprintable() and len(text) <= LONGEST


def plain(text: str) -> str:
    """A text from elsewhere that can be shown: control characters are symbols, what is no character (a lone
    surrogate from a file name) is its escape, a very long end is cut."""
    shown = text.translate(_SHOWN).encode("utf-8", "backslashreplace").decode()
    return shown if len(shown) <= LONGEST else f"{shown[: LONGEST - 1]}…"


@dataclass(frozen=True)
class Reading:
    """What one line of a tool's output says. `npc.records.record.Record` checks it."""

    #: What the tool measured, in its own words: ``tcp_bw``, ``triad``.
    case: str
    #: A key of `npc.records.units.METRICS`.
    metric: str
    #: In the metric's SI base unit; None only where `status` is not ``ok`` and no number was printed.
    value: float | None
    #: Bytes of the message or the working set; None where the test has none.
    size: int | None = None
    #: `OK`, or why the value must not be used.
    status: str = OK
    #: Settings, qualifiers and circumstances (`npc.records.series.role`) that the output tells.
    params: Mapping[str, str] = field(default_factory=dict)
    #: As the output tells it; empty if it does not.
    tool_version: str = ""


def failed(
    case: str, metric: str, reason: str, size: int | None = None, params: Mapping[str, str] | None = None
) -> Reading:
    """The reading of a test that gave no number; `reason` is shortened to one line.

    A reason that begins with ``unavailable: `` is the status as it is: the program says itself what it lacks.
    """
    words = " ".join(reason.split())[:200]
    status = words if words.startswith("unavailable: ") else f"failed: {words}"
    return Reading(case, metric, None, size, status, params or {})


def with_note(reading: Reading, note: str) -> Reading:
    """The reading with a note behind those it has; the value stays as good as it was."""
    notes = [reading.params[NOTE]] if NOTE in reading.params else []
    return replace(reading, params={**reading.params, NOTE: "; ".join([*notes, note])})
