"""The version of NPC; pyproject.toml, CITATION.cff and CHANGELOG.md have it too, and a test compares them."""

from __future__ import annotations

from typing import Final

VERSION: Final = "0.1.0"
