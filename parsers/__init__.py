"""Parsers: a tool's text in, readings out. One module a tool, found by its name.

A module ``parsers/NAME.py`` defines ``parse(text, argv)``. It is a pure function: it gives one
`Reading` for every number that it is sure of, in SI base units, and one with a status where the tool
says that it failed. What it does not recognise it passes over; truncated or foreign text yields fewer
readings, never a wrong one. `argv` is the tool's command line, for what the text does not say.

Two rules make that hold everywhere:

- A line that has lost its line end is no line (`complete_lines`): half of a number is a number too.
- A test that began and shows no result has failed: it gives a reading without a value and the reason.

The text is the tool's stdout; with stderr behind it, most parsers name the reason of a failure as well.
"""

from __future__ import annotations

import importlib
import pkgutil
import shlex
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Final, Protocol, cast

if TYPE_CHECKING:
    from npc.records.reading import Reading

_NOT_PARSERS: Final = frozenset({"collect", "commands", "grid", "outputs", "readings", "shapes", "tables"})
_COMMAND_HEADER: Final = "#@ cmd:"


class Parser(Protocol):
    """``parse`` of a parser module."""

    def __call__(self, text: str, argv: Sequence[str] = ()) -> Iterator[Reading]: ...


class UnknownParser(LookupError):
    """No module of that name; the message lists those there are."""


def names() -> list[str]:
    """Names of all parsers, sorted."""
    return sorted(module.name for module in pkgutil.iter_modules(__path__) if module.name not in _NOT_PARSERS)


@lru_cache
def load(name: str) -> Parser:
    """The parser called `name`. Raises `UnknownParser`."""
    if name not in names():
        raise UnknownParser(f"there is no parser {name!r}; there are: {', '.join(names())}")
    return cast(Parser, importlib.import_module(f"parsers.{name}").parse)


def parse(name: str, text: str, argv: Sequence[str] = ()) -> list[Reading]:
    """All readings of `text`. A first line ``#@ cmd: COMMAND`` gives the command line if `argv` does not."""
    if text.startswith(_COMMAND_HEADER):
        first, _, text = text.partition("\n")
        argv = argv or split_command(first.removeprefix(_COMMAND_HEADER))
    return list(load(name)(text, argv))


def split_command(command: str) -> list[str]:
    """The words of a command line as a shell splits them; at blanks only where its quotes do not match."""
    try:
        return shlex.split(command)
    except ValueError:
        return command.split()


# What the parsers share.

#: Patterns of a printed number. Their length is bounded: an endless row of digits is no measurement.
WHOLE: Final = r"[0-9]{1,18}"
NUMBER: Final = r"[0-9]{1,18}(?:\.[0-9]{1,18}|)"  # an empty branch is faster than an option


def complete_lines(text: str) -> str:
    """`text` up to its last line end, led by one more, with ``\\n`` as the only line end.

    So every line that is there stands between two line ends and was written to its end.
    """
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    return "\n" + text[: text.rfind("\n") + 1]


def joined(out: str, err: str) -> str:
    """A launch's stdout with its stderr behind it, without a last line that stdout did not end.

    stderr may begin with a line end, and half of a number would look whole.
    """
    return complete_lines(out)[1:] + err


def words_after(argv: Sequence[str], *programs: str) -> list[str]:
    """The arguments that `argv` gives to the first of `programs` in it (``timeout 9 mpirun … qperf HOST``).

    All of `argv` where none of them is named.
    """
    for place, word in enumerate(argv):
        if word.rpartition("/")[2] in programs:
            return list(argv[place + 1 :])
    return list(argv)


def option(argv: Sequence[str], *flags: str) -> str | None:
    """The last value that `argv` gives to one of `flags`: ``-m 9``, ``-m9``, ``--size 9``, ``--size=9``."""
    value = None
    for place, word in enumerate(argv):
        if word in flags:
            value = argv[place + 1] if place + 1 < len(argv) else value
            continue
        for flag in flags:
            if flag.startswith("--"):
                if word.startswith(flag + "="):
                    value = word[len(flag) + 1 :]
            elif not word.startswith("--") and word.startswith(flag) and word[len(flag) :][:1].isdigit():
                value = word[len(flag) :]
    return value
