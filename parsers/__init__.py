"""Parsers: a tool's text in, readings out. One module a tool, found by its name.

A module ``parsers/NAME.py``, or one that is registered as ``npc.parsers`` (`npc.registration`), defines
``parse(text, argv)``. It is a pure function: it gives one
`Reading` for every number that it is sure of, in SI base units, and one with a status where the tool
says that it failed. What it does not recognise it passes over; truncated or foreign text yields fewer
readings, never a wrong one. `argv` is the tool's command line, for what the text does not say.

Three rules make that hold everywhere:

- A line with a number that has lost its line end is no line (`npc.parsers.text.lines`): half of a number is a
  number too.
- What launchers, logs, mail and forums put around the lines is gone before a parser sees the text; the lines
  of each label of a rank or host are a text of their own (`npc.parsers.text.pasted`).
- A test that began and shows no result has failed: it gives a reading without a value and the reason.

The text is the tool's stdout; with stderr behind it, most parsers name the reason of a failure as well.

`npc records parse` tells whose output a text is by regular expressions that a module may have (strings):

- ``PROGRAMS``: names of the programs that it reads, beside its own: ``ib_write_bw`` of perftest.
- ``MARKS``: how lines begin that no other tool prints: a banner, a title, a heading. A text of several tools
  is cut at them.
- ``ROWS``: how lines begin that tell of the tool where a part of its text without such marks is left.
- ``END``: how the last line of a text begins that has other tools' marks inside, those of the parsers that
  ``INSIDE``, a tuple, names: HPCC runs HPL.
"""

from __future__ import annotations

import functools
import importlib
import shlex
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Final, TypeAlias, cast

from npc.parsers.text.lines import complete_lines
from npc.parsers.text.pasted import texts_of
from npc.records.reading import Reading
from npc.registration import module_names

#: ``parse`` of a parser's module: the text and the command line in, readings out.
Parser: TypeAlias = Callable[[str, Sequence[str]], Iterator[Reading]]
_COMMAND_HEADER: Final = "#@ cmd:"


class UnknownParser(LookupError):
    """No module of that name; the message lists those there are."""


def names() -> list[str]:
    """Names of all parsers, sorted: of the modules of this room, and of those that are registered."""
    return list(module_names("parsers"))


@functools.cache  # the folder is looked through once, not for each of a sweep's thousand outputs
def load(name: str) -> Parser:
    """The parser called `name`. Raises `UnknownParser`."""
    if name not in names():
        if name == "raw":
            raise UnknownParser("no parser reads it: npc records sample was told so by --tool raw")
        raise UnknownParser(f"there is no parser {name!r}; there are: {', '.join(names())}")
    return cast(Parser, importlib.import_module(module_names("parsers")[name]).parse)


def parse(name: str, text: str, argv: Sequence[str] = ()) -> list[Reading]:
    """All readings of `text`, of several labels with {"label": …}. A first line ``#@ cmd: COMMAND`` gives the
    command line if `argv` does not."""
    argv, text = command_and_text(text, argv)
    parser, texts = load(name), texts_of(text)
    of_label = {label: list(parser(own, argv)) for label, own in texts.items()}
    if len(of_label) == 1:
        return next(iter(of_label.values()))
    measured = [label for label, readings in of_label.items() if any(r.value is not None for r in readings)]
    if not measured:  # a rank's reason, once
        reasons = {str(reading): reading for readings in of_label.values() for reading in readings}
        return list(reasons.values())
    # a rank without a result has failed if its text says so; that the command was to print one says nothing
    reported = [label for label in of_label if label in measured or next(parser(texts[label], ()), None)]
    if len(reported) == 1:
        return of_label[reported[0]]
    return [replace(r, params={**r.params, "label": label}) for label in reported for r in of_label[label]]


def command_and_text(text: str, argv: Sequence[str] = ()) -> tuple[Sequence[str], str]:
    """The command line, of a first line ``#@ cmd: COMMAND`` if `argv` is empty, and the text below it."""
    if not text.startswith(_COMMAND_HEADER):
        return argv, text
    first, _, text = text.partition("\n")
    return argv or split_command(first.removeprefix(_COMMAND_HEADER)), text


def split_command(command: str) -> list[str]:
    """The words of a command line as a shell splits them; at blanks only where its quotes do not match."""
    try:
        return shlex.split(command)
    except ValueError:
        return command.split()


def joined(out: str, err: str) -> str:
    """A launch's stdout with its stderr behind it, without a last line that stdout did not end.

    stderr may begin with a line end, and half of a number would look whole.
    """
    return complete_lines(out)[1:] + err
