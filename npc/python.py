"""How NPC starts Python for its own programs. Only the standard library: ranks come here."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

_ABOVE: Final = Path(__file__).resolve().parent.parent
#: Keeps what ``PYTHONPATH`` names from being taken for NPC's; its docstring tells more.
_STARTS: Final = (_ABOVE / "packaging/start/npc_suite.py", _ABOVE / "npc_suite.py")


def python(*words: str | Path) -> list[str]:
    """The command line of this Python, which then sees what was installed with NPC and nothing else.

    words: a file, ``-m`` and a module, or ``-c`` and code, and their arguments.
    """
    start = next((path for path in _STARTS if path.exists()), _STARTS[-1])
    return [sys.executable, str(start), *map(str, words)]
