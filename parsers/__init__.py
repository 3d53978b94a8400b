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
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache, partial
from itertools import chain, cycle, repeat
from typing import Any, Final, Protocol, cast

from npc.reading import OK, Reading

_NOT_PARSERS: Final = frozenset({"collect", "commands", "outputs"})
_COMMAND_HEADER: Final = "#@ cmd:"
_NO_PARAMS: Final[Mapping[str, str]] = Reading("", "", None).params
#: A `Reading` of the tuple of all its fields, in a third of the time that the class itself takes.
reading_of: Final = cast("Callable[[tuple[object, ...]], Reading]", partial(tuple.__new__, Reading))
#: The same for ``map``: a quarter faster without `partial` between.
_new_reading: Final = cast("Callable[[type[Reading], tuple[object, ...]], Reading]", tuple.__new__)
_ALL_READINGS: Final = repeat(Reading)
_ALL_OK: Final = repeat(OK)
#: So many characters take as long with ``float`` for each number as orjson takes to load and read them.
_LONG: Final = 1_000_000


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
NUMBER: Final = r"[0-9]{1,18}(?:\.[0-9]{1,18}|)"  # an empty branch is faster than an option


def complete_lines(text: str) -> str:
    """`text` up to its last line end, led by one more, with ``\\n`` as the only line end.

    So every line that is there stands between two line ends and was written to its end. A long text is worth
    loading orjson, with which `columns_of_rows` and `numbers` are three times as fast.
    """
    if len(text) > _LONG:
        importlib.import_module("orjson")
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


def columns_of_rows(lines: str, cells: tuple[str, ...]) -> list[Sequence[Any]]:
    """The columns of a table: of numbers where the pattern in `cells` is `WHOLE` or `NUMBER`, else of words.

    `cells` are the patterns of a row's cells; lines that are no such row are left out. `lines` begins with a
    line end.
    """
    if "#" in lines:
        lines = _COMMENT.sub("", lines)
    if "orjson" not in sys.modules:
        return _columns(lines, cells)
    aligned = _aligned_columns(lines, cells)
    if aligned is not None:
        return aligned
    foreign = _FOREIGN.search(lines)  # what stands behind a table must not slow down its reading
    end = lines.rfind("\n", 0, foreign.start()) if foreign else 0
    aligned = _aligned_columns(lines[:end], cells) if end else None
    if aligned is None:
        return _columns(lines, cells)
    return [[*above, *below] for above, below in zip(aligned, _columns(lines[end:], cells), strict=True)]


def _columns(lines: str, cells: tuple[str, ...]) -> list[Sequence[Any]]:
    """`columns_of_rows` of any lines."""
    row, no_usual_row, no_row = _row_patterns(cells)
    # One search over the whole text is cheaper than a match for each line, and cheaper still without options.
    if no_usual_row.search(lines) and no_row.search(lines):
        lines = "\n".join(filter(row.fullmatch, lines.split("\n")))
    words = lines.split()
    width = len(cells)
    return [_READ.get(cell, list)(words[place::width]) for place, cell in enumerate(cells)]


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


_COMMENT: Final = re.compile(r"\n#[^\n]*")
#: What no aligned table has; what makes alike all lines with their dots at the same places; what makes alike
#: all numbers with as many digits.
_FOREIGN: Final = re.compile(r"[^0-9. \n]")
_MASK: Final = bytes(ord(" ") if chr(byte).isdigit() else byte for byte in range(128)) + b"x" * 128
_SHAPE: Final = bytes.maketrans(b"123456789", b"0" * 9)


def _aligned_columns(lines: str, cells: tuple[str, ...]) -> list[Sequence[Any]] | None:
    """The columns of a table of numbers whose rows were all printed with one format; None of any other.

    Commas between its columns make it JSON, which orjson reads without an object for each cell's text. No
    other line passes for a row: every line has its end and its dots where the last one has them, and
    otherwise digits and blanks; where a comma goes, every line has a blank; and JSON demands exactly one
    number between two commas, with digits on both sides of a dot.
    """
    if not lines.isascii():
        return None
    text = bytearray(lines.rstrip(" \n"), "ascii")
    mask = text.translate(_MASK)
    length = mask.find(b"\n", 1)
    if length < 0:
        length = len(mask)
    rows = len(mask) // (length or 1)
    if mask != mask[:length] * rows:
        return None
    places = _places(text[1 - length :].translate(_SHAPE).decode(), cells)
    if places is None:
        return None
    before_cells, columns, without_dots = places
    commas = b"," * rows
    for before_cell in before_cells:
        if not text[before_cell].isspace():
            return None
        text[before_cell] = commas
    text[0] = ord("[")
    text += b"]"
    orjson = sys.modules["orjson"]
    try:
        values = orjson.loads(text)
    except orjson.JSONDecodeError:
        return None
    found = [values[column] for column in columns]
    for place in without_dots:
        found[place] = list(map(float, found[place]))
    return found


@lru_cache(maxsize=1024)
def _places(shape: str, cells: tuple[str, ...]) -> tuple[list[slice], list[slice], list[int]] | None:
    """Where commas go in an aligned table's text, the first in place of the line ends; where its columns are
    among its numbers; and which columns that may have decimals have none.

    `shape` is the last row, which usually has the widest cells, with 0 for each digit. None if it is no row
    of `cells`, or if there is room in it for more digits than their patterns allow.
    """
    length, width = len(shape) + 1, len(cells)
    spans = [match.span() for match in re.finditer(r"[0.]+", shape)]
    if len(spans) != width or shape.strip("0. "):
        return None
    commas, dots = [0], []  # as offsets from a line end
    for cell, (start, end) in zip(cells, spans, strict=True):
        dot = shape.find(".", start, end) + 1
        if cell not in _READ or (dot and cell == WHOLE):
            return None
        if len(commas) > 1:  # numbers may be wider in other rows, but no longer than their pattern allows
            commas[-1] = max(commas[-1], dot - 19)
        commas.append(end + 1)
        dots.append(dot)
    for before, dot, behind in zip(commas, dots, commas[1:], strict=False):
        if (dot or behind) - before > 19 or (dot and behind - dot > 19):
            return None
    return (
        [slice(comma, None, length) for comma in commas[:-1]],
        [slice(place, None, width) for place in range(width)],
        [place for place, cell in enumerate(cells) if cell == NUMBER and not dots[place]],
    )


def numbers(cells: Sequence[str]) -> list[float]:
    """The numbers of cells that match `NUMBER`."""
    orjson = sys.modules.get("orjson")
    if orjson is not None:
        text = f"[{','.join(cells)}]"
        try:
            values: list[float] = orjson.loads(text)
        except orjson.JSONDecodeError:  # JSON has no 007
            pass
        else:
            return values if text.count(".") == len(cells) else list(map(float, values))
    return list(map(float, cells))


@lru_cache
def whole_numbers(cells: str) -> tuple[int, ...]:
    """The numbers of a column of sizes, joined by blanks; remembered, because a sweep's tables share them."""
    return tuple(map(int, cells.split()))


#: How a column is read, by its cell's pattern.
_READ: Final[Mapping[str, Callable[[list[str]], Sequence[Any]]]] = {
    WHOLE: lambda cells: whole_numbers(" ".join(cells)),
    NUMBER: numbers,
}


class Column:
    """What the readings of a table's column share, made once for all tables of a layout."""

    __slots__ = ("_case", "_metric", "_params", "_tool_version")

    def __init__(
        self, case: str, metric: str, params: Mapping[str, str] = _NO_PARAMS, tool_version: str = ""
    ) -> None:
        self._case = repeat(case)
        self._metric = repeat(metric)
        self._params = repeat(params)
        self._tool_version = repeat(tool_version)

    def readings(
        self, values: Iterable[float], sizes: Iterable[int | None], statuses: Sequence[str] = ()
    ) -> Iterator[Reading]:
        """One reading a value, made without a Python call each: tables have millions of rows."""
        fields = zip(
            self._case,
            self._metric,
            values,
            sizes,
            statuses or _ALL_OK,
            self._params,
            self._tool_version,
            strict=False,
        )
        return map(_new_reading, _ALL_READINGS, fields)


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
