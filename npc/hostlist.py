"""Lists of host names: as Slurm writes them, and as people read them."""

from __future__ import annotations

import math
import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import groupby, product
from typing import Final, TypeAlias

#: A longer host list is a typing error (``n[1-99999999]``), not a cluster.
MAX_HOSTS: Final = 1_000_000
#: Names up to so many are written out for people: ``n1, n2``.
_FEW: Final = 4
#: Letters of a list for people; a longer one is cut.
_LONGEST: Final = 160

_BRACKETS: Final = re.compile(r"\[([^\[\]]*)\]")
_RANGE: Final = re.compile(r"(\d+)(?:-(\d+))?")
#: More digits are several numbers: Python would refuse to read thousands of them as one.
_NUMBER: Final = re.compile(r"([0-9]{1,18})")

#: A name, or several: text and numbers by turns, with every number that stands at its place.
_Word: TypeAlias = tuple[tuple[str, ...], ...]


@lru_cache(maxsize=2**16)
def natural(name: str) -> tuple[tuple[int, int, str], ...]:
    """Sort key of a name in which numbers count as numbers: ``n2`` before ``n10``."""
    parts = re.split(r"(\d+)", name)
    return tuple((0, int(part), "") if part.isdecimal() else (1, 0, part) for part in parts if part)


def expand(hostlist: str) -> list[str]:
    """Names of a host list as Slurm writes it: ``n[01-03,7],gpu1`` → n01 n02 n03 n7 gpu1.

    Several brackets in one name multiply; leading zeros stay. Raises ValueError for brackets that do not
    close, a range that runs backwards, or more than `MAX_HOSTS` names.
    """
    names: list[str] = []
    for word in re.split(r",(?![^\[]*\])", hostlist):
        if not word.strip():
            continue
        pieces = _BRACKETS.split(word.strip())
        if any(bracket in piece for piece in pieces[::2] for bracket in "[]"):
            raise ValueError(f"brackets do not match in {word!r}")
        numbers = [list(_numbers(piece)) if i % 2 else [piece] for i, piece in enumerate(pieces)]
        if len(names) + math.prod(map(len, numbers)) > MAX_HOSTS:
            raise ValueError(f"{word!r} makes more than {MAX_HOSTS} names")
        names.extend("".join(parts) for parts in product(*numbers))
    return names


def _numbers(ranges: str) -> Iterator[str]:
    for part in ranges.split(","):
        match = _RANGE.fullmatch(part.strip())
        if not match:
            raise ValueError(f"[{ranges}] is no list of numbers and ranges")
        first, last = match[1], match[2] or match[1]
        if not 0 <= int(last) - int(first) < MAX_HOSTS:
            raise ValueError(f"[{ranges}]: the range {part} is empty or too long")
        for number in range(int(first), int(last) + 1):
            yield f"{number:0{len(first)}d}"


def fold(names: Iterable[str]) -> str:
    """The host list of names, in their order: n01 n02 n03 n7 gpu1 → ``n[01-03,7],gpu1``.

    `expand` makes the same names of it. Every number of a name may be a list: ``r[1-2]n[1-40].example.org``;
    Slurm's own commands read those alone that end in a number.
    """
    words: list[_Word] = [tuple((piece,) for piece in _NUMBER.split(name)) for name in names]
    most = max(map(len, words), default=0)
    # the last number first: in a host list it changes fastest
    for place in range(most - most % 2 - 1, 0, -2):
        words = list(_joined(words, place))
    return ",".join("".join(map(_in_brackets, word)) for word in words)


def _joined(words: Sequence[_Word], place: int) -> Iterator[_Word]:
    """Words with those joined that stand side by side and differ in the number at `place` alone."""
    for (before, after), group in groupby(words, key=lambda word: (word[:place], word[place + 1 :])):
        alike = list(group)
        if not after:  # they have no such number
            yield from alike
        else:
            yield (*before, tuple(number for word in alike for number in word[place]), *after)


def _in_brackets(texts: tuple[str, ...]) -> str:
    """A text, or the ranges of several numbers in brackets; a range has the digits of its first number."""
    if len(texts) == 1:
        return texts[0]
    ranges: list[tuple[str, str]] = []
    for text in texts:
        first, last = ranges[-1] if ranges else ("", "")
        if ranges and text == f"{int(last) + 1:0{len(first)}d}":
            ranges[-1] = (first, text)
        else:
            ranges.append((text, text))
    return f"[{','.join(first if first == last else f'{first}-{last}' for first, last in ranges)}]"


def host_text(hosts: Iterable[str], few: int = _FEW) -> str:
    """Hosts for people, each once: up to `few` by name in their order, more as a sorted host list, which
    ends in how many more there are where it would be long."""
    names = list(dict.fromkeys(hosts))
    if len(names) <= few:
        return ", ".join(names)
    names.sort(key=natural)
    text = fold(names)
    if len(text) <= _LONGEST:
        return text
    shown = bisect_right(range(len(names)), _LONGEST, key=lambda number: len(fold(names[:number]))) - 1
    return f"{fold(names[:shown])} and {len(names) - shown} more"
