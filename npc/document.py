"""Documents as JSON knows them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any


def below(value: Any, *keys: str) -> Any:
    """What stands below `keys` in objects within objects; None where nothing does."""
    for key in keys:
        value = value.get(key) if isinstance(value, Mapping) else None
    return value


def entries(value: Any, *keys: str) -> list[Mapping[str, Any]]:
    """The objects of the list below `keys`; none where there is no list."""
    items = below(value, *keys)
    return [item for item in items if isinstance(item, Mapping)] if isinstance(items, list) else []


def plain(value: Any) -> Any:
    """Data classes and named tuples as objects, tuples as arrays, what is not finite as null."""
    if is_dataclass(value):
        return {field.name: plain(getattr(value, field.name)) for field in fields(value)}
    if hasattr(value, "_asdict"):
        value = value._asdict()
    if isinstance(value, Mapping):
        return {name: plain(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [plain(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
