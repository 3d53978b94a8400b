"""Which variables a line of a source allocates: C, C++ and Fortran, read by patterns."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Final

from npc.files import read_text
from npc.observe.elf import SourceLine

_NAME: Final = r"[A-Za-z_](?:\w|->|\.(?=[A-Za-z_])|::|\[[^\]=;]*\]|%)*"
_ASSIGNED: Final = re.compile(rf"({_NAME})\s*=(?!=)")
#: Functions that return an address through a pointer: posix_memalign(&x, …), MPI_Alloc_mem(n, info, &x).
_POINTED: Final = re.compile(
    rf"\b(?:posix_memalign|MPI_Alloc_mem|MPI_Win_allocate\w*)\s*\(.*?&\s*({_NAME})", re.S
)
_GROWS: Final = re.compile(
    rf"({_NAME})\.(?:resize|reserve|assign|push_back|emplace_back|insert|append)\s*\(", re.S
)
#: C++: ``std::vector<double> x(n)``, also with nested template arguments.
_CONSTRUCTED: Final = re.compile(r">\s*(?:const\s*)?([A-Za-z_]\w*)\s*[({]")
#: A constructor's members: ``Mesh(int n) : cells(n), edges(new int[n]) {``.
_MEMBERS: Final = re.compile(r"\)\s*:\s*(\w+\s*[({].*)\{")
_HEADER: Final = re.compile(r"\b(?:for|if|while|switch)\s*\(")
_ALLOCATE: Final = re.compile(r"\ballocate\s*\((.*)", re.I | re.S)
_RETURNED: Final = re.compile(r"\breturn\b")
#: Lines behind an allocation in which a wrapper may return it, and lines of one statement.
_WRAPPER_LINES: Final = 20
_STATEMENT_LINES: Final = 12
_FORTRAN: Final = (".f", ".for", ".f77", ".f90", ".f95", ".f03", ".f08")


def names_at(line: SourceLine) -> tuple[tuple[str, ...], bool]:
    """The variables that a source line allocates, and whether the function returns them: then it is a
    wrapper, and its callers name the allocation. No variables where the source is missing."""
    lines = _source(line.file)
    if not 0 < line.number <= len(lines):
        return (), False
    if Path(line.file).suffix.lower() in _FORTRAN:
        return _fortran_names(lines, line.number), False
    statement = _statement(lines, line.number)
    names: list[str] = []
    if match := _MEMBERS.search(statement):
        names = [word.strip().partition("(")[0].partition("{")[0] for word in split_outside(match[1])]
        return tuple(names), False
    for part in _without_headers(statement).split(";"):
        for pattern in (_POINTED, _ASSIGNED, _GROWS, _CONSTRUCTED):
            if match := pattern.search(part):
                names.append(re.sub(r"^this->", "", match[1]))
                break
    behind = "\n".join(lines[line.number : line.number + _WRAPPER_LINES])
    function = re.split(r"^}", behind, maxsplit=1, flags=re.M)[0]
    returns = [re.search(rf"\breturn\b[^;]*\b{re.escape(name)}\s*\)?\s*;", function) for name in names]
    return tuple(names), bool(_RETURNED.search(statement)) if not names else all(returns)


def _statement(lines: Sequence[str], number: int) -> str:
    """The statement that a line belongs to, without comments: it may begin some lines earlier."""
    text = _without_comments(lines[number - 1])
    for earlier in range(number - 2, max(number - _STATEMENT_LINES, -1), -1):
        above = _without_comments(lines[earlier]).strip()
        if above.endswith((";", "{", "}", ":")) or above.startswith("#"):
            break
        text = f"{above}\n{text}"
    return text


def _without_headers(text: str) -> str:
    """The text without the parentheses after for, if and the like, unless they allocate."""
    place = 0
    while match := _HEADER.search(text, place):
        inside = ",".join(split_outside(text[match.end() :]))
        if "alloc" in inside:
            place = match.end()
        else:
            text = text[: match.start()] + text[match.end() + len(inside) + 1 :]
    return text


def _without_comments(line: str) -> str:
    return re.sub(r"/\*.*?\*/|//.*", "", line)


def _fortran_names(lines: Sequence[str], number: int) -> tuple[str, ...]:
    text = lines[number - 1].partition("!")[0]
    for line in lines[number : number + _STATEMENT_LINES]:
        if not text.rstrip().endswith("&"):
            break
        text = text.rstrip()[:-1] + line.partition("!")[0].strip().removeprefix("&")
    if match := _ALLOCATE.search(text):
        items = [word.rpartition("::")[2].strip() for word in split_outside(match[1])]
        return tuple(
            item.partition("(")[0].strip()
            for item in items
            if "(" in item and "=" not in item.partition("(")[0]
        )
    match = _ASSIGNED.search(text)
    return (match[1],) if match else ()


def split_outside(text: str) -> list[str]:
    """The parts between commas outside of parentheses, up to the parenthesis that closes the list."""
    parts: list[str] = []
    depth = begin = 0
    for place, letter in enumerate(text):
        if letter == "(":
            depth += 1
        elif letter == ")":
            depth -= 1
            if depth < 0:
                return [*parts, text[begin:place]]
        elif letter == "," and depth == 0:
            parts.append(text[begin:place])
            begin = place + 1
    return [*parts, text[begin:]]


@lru_cache(maxsize=256)
def _source(path: str) -> tuple[str, ...]:
    try:
        return tuple(read_text(Path(path), "replace").splitlines())
    except OSError:
        return ()
