"""Texts that stand in one line of a file that others read: a crontab, a unit, a script, a platform."""

from __future__ import annotations

import unicodedata

from npc.files import InvalidFile

#: Control characters, what is no character (a lone surrogate), and the separators of lines and paragraphs.
_NEVER = frozenset(("Cc", "Cs", "Zl", "Zp"))


class NotOneLine(InvalidFile):
    """A text would begin a line of its own in the file that it is written into."""


def one_line(text: str) -> str:
    """The text, if no character in it can end a line or control a terminal. Raises `NotOneLine`."""
    for character in text:
        if unicodedata.category(character) in _NEVER:
            raise NotOneLine(
                f"{text!r}: the character U+{ord(character):04X} cannot stand in a path, a name or an option "
                "that is written into a file: choose another one"
            )
    return text
