"""How NPC starts Python for its own programs. Only the standard library: ranks come here."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

#: Keeps what ``PYTHONPATH`` names from being taken for NPC's; its docstring tells more.
_START: Final = Path(__file__).resolve().with_name("start.py")


def python(*words: str | Path) -> list[str]:
    """The command line of this Python, which then sees what was installed with NPC and nothing else.

    words: a file, ``-m`` and a module, or ``-c`` and code, and their arguments.
    """
    return [sys.executable, str(_START), *map(str, words)]
