"""The way out to people: what others wrote must not steer the terminal on which it is read.

A tool's words, a folder's or a program's name may hold control characters: they would move the cursor, change
the title, hide a line, or turn the direction of the text. They are shown as their escapes instead. That is
decided here, where text leaves, and not by who prints: `guard` stands around the two streams of a command.
What is passed on as bytes (`buffer`) stays as it is.
"""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path
from typing import Any, Final, TextIO

#: C0 but line feed and tab, DEL, C1, what embeds or overrides a direction (Unicode Annex 9), and what stands
#: for bytes that are no text (lone surrogates).
_CONTROL: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\N{LEFT-TO-RIGHT EMBEDDING}-\N{RIGHT-TO-LEFT OVERRIDE}"
    "\N{LEFT-TO-RIGHT ISOLATE}-\N{POP DIRECTIONAL ISOLATE}\ud800-\udfff]"
)
#: Stands for ESC in NPC's own colours; who writes it himself gets no more than these.
_OWN: Final = "\uf8fe"
_COLOUR: Final = re.compile(_OWN + r"(\[[0-9;]*m)")
#: Parameters of Select Graphic Rendition (ECMA-48, 8.3.117).
_STYLES: Final = {"bold": 1, "dim": 2, "red": 31, "green": 32, "yellow": 33, "cyan": 36}


def visible(text: str) -> str:
    """The text with escapes such as ``\\x1b`` and ``\\u202e`` in place of what would steer a terminal."""
    return _CONTROL.sub(_escape, text)


def _escape(character: re.Match[str]) -> str:
    code = ord(character[0])
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def styled(text: str, colour: str = "", bold: bool = False, dim: bool = False) -> str:
    """The text in that style (`_STYLES`) where stdout is a terminal; as it is anywhere else."""
    names = [colour, *(["bold"] if bold else []), *(["dim"] if dim else [])]
    codes = [_STYLES[name] for name in names if name]
    if not codes or not sys.stdout.isatty():
        return text
    escape = _OWN if isinstance(sys.stdout, _GuardedStream) else "\x1b"
    return f"{escape}[{';'.join(map(str, codes))}m{text}{escape}[0m"


def guard(stdout: bool | None = None, stderr: bool | None = None) -> None:
    """From now on show control characters as escapes: on stderr always, on stdout where it ends at a
    terminal, for a program that reads it wants what there is.

    stdout, stderr: whether they end at a terminal, for who knows better than isatty(3).
    """
    for name, ends_there in (("stdout", stdout), ("stderr", stderr)):
        stream = getattr(sys, name)
        if stream is None:  # closed by who started this process
            continue
        if not isinstance(stream, _GuardedStream):
            stream = _GuardedStream(stream, always=name == "stderr")
            setattr(sys, name, stream)
        if ends_there is not None:
            stream.at_terminal = ends_there


def unguarded(stream: TextIO) -> TextIO:
    """The stream itself, for NPC's own control characters."""
    return stream.stream if isinstance(stream, _GuardedStream) else stream


def pass_on(path: Path, stream: TextIO) -> None:
    """Write a file to stdout or stderr: byte for byte, but visibly where the stream ends at a terminal."""
    if isinstance(stream, _GuardedStream) and stream.at_terminal:
        with path.open(encoding="utf-8", errors="replace", newline="") as text:
            shutil.copyfileobj(text, stream)
    else:
        stream.flush()
        with path.open("rb") as data:
            shutil.copyfileobj(data, stream.buffer)


class _GuardedStream:
    """A text stream; all but writing text is that of `stream`. always: also where no terminal is its end."""

    def __init__(self, stream: TextIO, always: bool) -> None:
        self.stream = stream
        self.always = always
        self.at_terminal = stream.isatty()
        if getattr(stream, "encoding", None) in ("ascii", "ANSI_X3.4-1968", "US-ASCII", "us-ascii"):
            # click would go round it to write more than ASCII
            stream.reconfigure(encoding="utf-8", errors="replace")  # type: ignore[attr-defined]
        elif getattr(stream, "errors", None) == "strict" and hasattr(stream, "reconfigure"):
            # a pipe to cron's mail: what its locale has no character for must not end a night
            stream.reconfigure(errors="backslashreplace")

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)

    def write(self, text: str) -> int:
        """Write the text, visibly. Returns its length. Raises TypeError for bytes."""
        if self.at_terminal or self.always:
            self.stream.write(_COLOUR.sub("\x1b\\1", visible(text)))
        else:
            self.stream.write(text)
        return len(text)

    def writelines(self, lines: list[str]) -> None:
        """Write each of the lines."""
        for line in lines:
            self.write(line)
