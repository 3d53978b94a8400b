"""What a command is doing, on one line of a terminal that the next word replaces."""

from __future__ import annotations

import sys

from npc.terminal import unguarded


def show(text: str) -> None:
    """Show `text` in place of what was shown before; empty clears the line. Nothing where stderr is no
    terminal."""
    if sys.stderr.isatty():
        unguarded(sys.stderr).write("\r\x1b[K")
        print(text, end="", file=sys.stderr, flush=True)
