"""JSON that a tool prints: objects and numbers in it, or nothing where the text has something else."""

from __future__ import annotations

from typing import Any, Final

from npc.document import below
from npc.files import parse_json

#: No measurement is larger.
_MOST: Final = 1e30


def object_of(text: str) -> dict[str, Any]:
    """The object that a text is; an empty one of any other text."""
    try:
        found = parse_json(text)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def object_below(value: Any, name: str) -> dict[str, Any]:
    """The object below a name; an empty one where there is none."""
    found = below(value, name)
    return found if isinstance(found, dict) else {}


def number_below(value: Any, name: str) -> float | None:
    """The number below a name, which is not below 0; None where there is none."""
    found = below(value, name)
    whole = isinstance(found, int | float) and not isinstance(found, bool)
    return float(found) if whole and 0 <= found < _MOST else None
