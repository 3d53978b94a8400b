"""TOML as text → tables; Python has a reader of its own from 3.11 on."""

from __future__ import annotations

import importlib
import sys
from typing import Any


def loads(text: str) -> dict[str, Any]:
    """Raises ValueError for what is not TOML."""
    toml = importlib.import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")
    tables: dict[str, Any] = toml.loads(text)
    return tables
