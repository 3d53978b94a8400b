"""The sections of the page, one module each: ``TITLE`` and ``build(report)``, which yields blocks.

A section that has nothing to show raises `Absent` with the reason, and what would make it; the page lists
these at its end. One more section is a module and its name below.
"""

from __future__ import annotations

from typing import Final

#: In the order of the page.
SECTIONS: Final = (
    "summary",
    "advice",
    "comparison",
    "sizes",
    "roofline",
    "models",
    "history",
    "allocation",
    "pairs",
    "failures",
    "environment",
)


class Absent(Exception):
    """There is nothing for this section; the message says why, and what would change that."""
