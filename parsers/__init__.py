"""Parsers: a tool's text in, readings out. One module a tool, found by its name.

A module ``parsers/NAME.py`` defines ``parse(text, argv)``. It is a pure function: it yields one
`Reading` for every number that it is sure of, in SI base units, and one with a status where the tool
says that it failed. What it does not recognise it passes over; truncated or foreign text yields fewer
readings, never a wrong one. `argv` is the tool's command line, for what the text does not say.
"""

from __future__ import annotations

import importlib
import pkgutil
import shlex
from collections.abc import Iterator, Sequence
from typing import Protocol, cast

from npc.record import Reading

_NOT_PARSERS = frozenset({"commands"})


class Parser(Protocol):
    """``parse`` of a parser module."""

    def __call__(self, text: str, argv: Sequence[str] = ()) -> Iterator[Reading]: ...


class UnknownParser(LookupError):
    """No module of that name; the message lists those there are."""


def names() -> list[str]:
    """Names of all parsers, sorted."""
    return sorted(module.name for module in pkgutil.iter_modules(__path__) if module.name not in _NOT_PARSERS)


def load(name: str) -> Parser:
    """The parser called `name`. Raises `UnknownParser`."""
    if name not in names():
        raise UnknownParser(f"there is no parser {name!r}; there are: {', '.join(names())}")
    return cast(Parser, importlib.import_module(f"parsers.{name}").parse)


def parse(name: str, text: str, argv: Sequence[str] = ()) -> list[Reading]:
    """All readings of `text`. A first line ``#@ cmd: COMMAND`` gives the command line if `argv` does not."""
    if not argv and text.startswith("#@ cmd:"):
        first, _, text = text.partition("\n")
        argv = shlex.split(first.removeprefix("#@ cmd:"))
    return list(load(name)(text, argv))
