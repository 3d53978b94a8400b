"""What `npc observe` keeps of a run, ``*.observed.json``, as typed parts.

docs/observe.md describes every key. What a newer version adds is passed over.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec

from npc.files import InvalidFile, parse_json, read_bytes, valid

T = TypeVar("T")

#: Schemas of an observation: the first one had no profile of MPI, the second nothing of the node.
SCHEMAS: Final = (1, 2, 3)


def part_of(document: Mapping[str, Any], key: str, kind: type[T]) -> T | None:
    """The part under `key`; None where there is none. Raises ValueError for one that is not whole."""
    found = document.get(key)
    if not found:
        return None
    try:
        return msgspec.convert(found, kind, str_keys=True)
    except msgspec.ValidationError as error:
        raise InvalidFile(f"{key}: {error}") from None


def read_document(path: Path) -> dict[str, Any]:
    """An ``*.observed.json``. Raises OSError, ValueError."""
    with valid(path):
        document = parse_json(read_bytes(path))
    if not isinstance(document, dict):
        raise InvalidFile(f"{path}: no observation")
    return document


def read_part(path: Path, key: str, kind: type[T]) -> T | None:
    """The part in an ``*.observed.json``; None where there is none. Raises OSError, ValueError."""
    document = read_document(path)
    with valid(path):
        return part_of(document, key, kind)
