"""Texts that differ in their digits only: where their numbers are is found once for all of them."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, wraps
from typing import Final, TypeVar

_Found = TypeVar("_Found")
#: 0 for each digit; a byte for each character, so that places stay the same.
_ZEROS: Final = bytes.maketrans(b"123456789", b"0" * 9)
#: A longer text is that of no single run and is not remembered.
_LONG: Final = 10_000


def by_shape(find: Callable[[str], _Found]) -> Callable[[str], _Found]:
    """`find` of a text with 0 for each digit, remembered for other texts of this shape.

    `find` gives places, not numbers. A pattern matches such a text where it matches the text itself, if it
    asks for digits, but for none of them, and for no letter beyond ASCII (which becomes a question mark).
    """

    def of_shape(shape: bytes) -> _Found:
        return find(shape.decode())

    remembered = lru_cache(maxsize=1024)(of_shape)

    @wraps(find)
    def found(text: str) -> _Found:
        shape = text.encode("ascii", "replace").translate(_ZEROS)
        return remembered(shape) if len(shape) < _LONG else of_shape(shape)

    return found
