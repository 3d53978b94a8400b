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

import gc
import importlib
import pkgutil
import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache, partial
from itertools import chain, cycle, repeat
from typing import Final, Protocol, cast

from npc.reading import OK, Reading

_NOT_PARSERS: Final = frozenset({"collect", "commands", "outputs"})
_COMMAND_HEADER: Final = "#@ cmd:"
_NO_PARAMS: Final[Mapping[str, str]] = Reading("", "", None).params
#: A `Reading` of the tuple of all its fields, in a third of the time that the class itself takes.
reading_of: Final = cast("Callable[[tuple[object, ...]], Reading]", partial(tuple.__new__, Reading))
#: The same for ``map``: a quarter faster without `partial` between.
_new_reading: Final = cast("Callable[[type[Reading], tuple[object, ...]], Reading]", tuple.__new__)


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
    with _garbage_collector_paused():
        return list(load(name)(text, argv))


@contextmanager
def _garbage_collector_paused() -> Iterator[None]:
    """No search for cycles of garbage meanwhile: parsers make none, but the search goes through all their
    readings again and again, for half of the time that a list of many takes."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def split_command(command: str) -> list[str]:
    """The words of a command line as a shell splits them; at blanks only where its quotes do not match."""
    try:
        return shlex.split(command)
    except ValueError:
        return command.split()


# What the parsers share.

#: Patterns of a printed number. Their length is bounded: an endless row of digits is no measurement.
WHOLE: Final = r"[0-9]{1,18}"
NUMBER: Final = r"[0-9]{1,18}(?:\.[0-9]{1,18})?"


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


def failed(
    case: str, metric: str, reason: str, size: int | None = None, params: Mapping[str, str] = _NO_PARAMS
) -> Reading:
    """The reading of a test that gave no number; `reason` is shortened to one line."""
    return Reading(case, metric, None, size, f"failed: {' '.join(reason.split())[:200]}", params)


def cells_of_rows(lines: str, cells: Sequence[str]) -> list[str]:
    """The cells of a table's rows, one after the other: of column k ``[k :: len(cells)]``.

    `cells` are the patterns of a row's cells; lines that are no such row are left out. `lines` begins with a
    line end.
    """
    row, no_usual_row, no_row = _row_patterns(tuple(cells))
    # One search over the whole text is cheaper than a match for each line, and cheaper still without options.
    if no_usual_row.search(lines) and no_row.search(lines):
        lines = "\n".join(filter(row.fullmatch, lines.split("\n")))
    return lines.split()


@lru_cache
def _row_patterns(cells: tuple[str, ...]) -> tuple[re.Pattern[str], re.Pattern[str], re.Pattern[str]]:
    """What matches one row; what finds a line that is no row as tools usually print it, with decimals and
    without a blank at its end; what finds a line that is neither row nor empty."""
    row = r"[ \t]*" + r"[ \t]+".join(cells) + r"[ \t]*"
    usual = " *" + " +".join(rf"{WHOLE}\.{WHOLE}" if cell == NUMBER else cell for cell in cells)
    return (
        re.compile(row),
        re.compile(rf"\n(?!{usual}$)[^\n]", re.MULTILINE),
        re.compile(rf"\n(?!(?:{row})?$)", re.MULTILINE),
    )


@lru_cache
def whole_numbers(cells: str) -> tuple[int, ...]:
    """The numbers of a column of sizes, joined by blanks; remembered, because a sweep's tables share them."""
    return tuple(map(int, cells.split()))


def column(
    case: str,
    metric: str,
    values: Iterable[float],
    sizes: Iterable[int | None],
    statuses: Iterable[str] | None = None,
    params: Mapping[str, str] = _NO_PARAMS,
    tool_version: str = "",
) -> Iterator[Reading]:
    """One reading a value, made without a Python call each: tables have millions of rows."""
    fields = zip(
        repeat(case),
        repeat(metric),
        values,
        sizes,
        statuses or repeat(OK),
        repeat(params),
        repeat(tool_version),
    )
    return map(_new_reading, repeat(Reading), fields)


def readings_of_rows(
    case: str,
    metrics: Sequence[str],
    values: Iterable[float],
    sizes: Sequence[int | None],
    statuses: Iterable[str],
    params: Sequence[Mapping[str, str]],
    tool_version: str = "",
) -> Iterator[Reading]:
    """Readings row by row, made without a Python call each.

    `metrics` and `params` are those of each row's readings, `sizes` one a row; `values` and `statuses` are
    those of all readings, one after the other.
    """
    fields = zip(
        repeat(case),
        cycle(metrics),
        values,
        chain.from_iterable(zip(*repeat(sizes, len(metrics)), strict=True)),
        statuses,
        cycle(params),
        repeat(tool_version),
    )
    return map(_new_reading, repeat(Reading), fields)
