"""JSON that a tool prints: objects and numbers in it, or nothing where the text has something else."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from npc.document import below
from npc.files import parse_json

#: No measurement is larger.
_MOST: Final = 1e30
#: How an object begins that has something in it.
_BEGIN: Final = re.compile(r'\{(?=\s*")')
#: Characters that an error shows of what stands where the JSON breaks off.
_SHOWN: Final = 20


class Document(NamedTuple):
    """A JSON object that stands in a text, whole or not."""

    #: Where in the text its first brace is.
    begin: int
    #: Its text, up to where it ends or breaks off.
    text: str
    #: The object; empty where it cannot be read.
    content: dict[str, Any]
    #: Why it cannot be read; empty where it can.
    error: str


def documents_in(text: str) -> Iterator[Document]:
    """The JSON objects of a text, wherever each begins and whatever stands around it.

    One that breaks off has the reason, and the search goes on where it does.
    """
    decoder, end = json.JSONDecoder(), 0
    while brace := _BEGIN.search(text, end):
        begin = brace.start()
        try:
            _, end = decoder.raw_decode(text, begin)
            error = _error(text[begin:end])
        except json.JSONDecodeError as wrong:
            end = max(wrong.pos, begin + 1)
            rest = "" if wrong.msg.startswith("Unterminated") else text[end : end + _SHOWN].split("\n")[0]
            error = (
                f"the JSON is cut off or broken before {rest!r}" if rest.strip() else "the JSON is cut off"
            )
        except ValueError:  # a number of thousands of digits
            end, error = begin + 1, "the JSON has a number that is none"
        except RecursionError:
            yield Document(begin, text[begin:], {}, "the JSON is nested too deep")
            return
        yield Document(begin, text[begin:end], {} if error else object_of(text[begin:end]), error)


def _error(text: str) -> str:
    """Why a whole object cannot be believed; empty if it can."""
    try:
        json.loads(text, object_pairs_hook=_told_once)
    except ValueError as wrong:
        return str(wrong)
    return "" if object_of(text) else "the JSON has a number that is none"


def _told_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object of pairs. Raises ValueError where a name has two values, as where two runs were mixed."""
    values: dict[str, Any] = {}
    for name, value in pairs:
        if values.setdefault(name, value) != value:
            raise ValueError(f"the JSON has two values of {name!r}: of two runs")
    return values


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
    """The number below a name, which is not below 0; None where there is none, which is no zero."""
    number = below(value, name)
    whole = isinstance(number, int | float) and not isinstance(number, bool)
    return float(number) if whole and 0 <= number < _MOST else None
