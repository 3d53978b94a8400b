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
        document = parse_json(text)
    except ValueError:
        return {}
    return document if isinstance(document, dict) else {}


def object_below(value: Any, name: str) -> dict[str, Any]:
    """The object below a name; an empty one where there is none."""
    inner = below(value, name)
    return inner if isinstance(inner, dict) else {}


def number_below(value: Any, name: str) -> float | None:
    """The number below a name, which is not below 0; None where there is none."""
    number = below(value, name)
    whole = isinstance(number, int | float) and not isinstance(number, bool)
    return float(number) if whole and 0 <= number < _MOST else None
