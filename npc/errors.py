"""Why a command cannot do what it was asked for, in words for the person who called it.

`npc.cli` prints the message behind ``Error:`` and ends with the exit code (docs/commands.md); no module below
the commands needs to know how.
"""

from __future__ import annotations

from typing import ClassVar


class CommandFailed(Exception):
    """It was called well, and what it needs is missing, or does not work."""

    exit_code: ClassVar[int] = 1


class InvalidUsage(CommandFailed):
    """It was called for something that there is not: an option's value, a name, a file."""

    exit_code: ClassVar[int] = 2
