"""What a person sees of a command's output on a terminal."""

from __future__ import annotations

import re


def shown_text(terminal: str) -> str:
    """What a terminal shows, without its control sequences."""
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", terminal)
