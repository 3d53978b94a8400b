"""The reading: what a tool's text says, before `npc.records.record` makes it a record."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

#: The status of a reading and of a record whose value may be used; every other says why not.
OK: Final = "ok"


@dataclass(frozen=True)
class Reading:
    """What one line of a tool's output says, in the metric's SI base unit (`npc.records.units.METRICS`).

    `Record` checks it. `value` is None exactly where `status` is not ``ok`` and nothing was printed; `size`
    is the message or working-set size in bytes, None where the test has none.
    """

    case: str
    metric: str
    value: float | None
    size: int | None = None
    status: str = OK
    params: Mapping[str, str] = field(default_factory=dict)
    tool_version: str = ""


def failed(
    case: str, metric: str, reason: str, size: int | None = None, params: Mapping[str, str] | None = None
) -> Reading:
    """The reading of a test that gave no number; `reason` is shortened to one line."""
    return Reading(case, metric, None, size, f"failed: {' '.join(reason.split())[:200]}", params or {})
