"""The reading: what a tool's text says, before `npc.records.record` makes it a record."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

import msgspec

from npc.records.status import OK as OK

_NO_PARAMS: Final[Mapping[str, str]] = MappingProxyType({})


class Reading(msgspec.Struct, frozen=True, gc=False):
    """What one line of a tool's output says, in the metric's SI base unit (`npc.records.units.METRICS`).

    Light, because a parser makes millions of them; `Record` checks it. `value` is None exactly where
    `status` is not ``ok`` and nothing was printed; `size` is the message or working-set size in bytes, None
    where the test has none.
    """

    case: str
    metric: str
    value: float | None
    size: int | None = None
    status: str = OK
    params: Mapping[str, str] = _NO_PARAMS
    tool_version: str = ""
