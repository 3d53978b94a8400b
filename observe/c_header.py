"""What a file written in C looks like, from the header that declares its structures.

The header is the only description of such a file. Python takes from it the fields of structures, the numbers
of enumerations and the texts of macros, by a plain rule: a structure has fields of the types in `_TYPES`, or
of structures declared before it, single or as arrays of one dimension, and lies as C compilers lay it out on
all 64-bit machines (each field at a multiple of its own alignment). Numbers have the machine's byte order.

Only the standard library is loaded, since `npc.observe.rank` has no other; `dtype` alone needs NumPy.
"""

from __future__ import annotations

import re
import struct
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from mmap import mmap

    import numpy as np

    Buffer = bytes | bytearray | mmap

#: C's types, as `struct` and NumPy name them. An array of char is a text.
_TYPES: Final = {
    "char": "s", "uint8_t": "B", "uint16_t": "H", "int16_t": "h", "uint32_t": "I", "int32_t": "i",
    "uint64_t": "Q", "int64_t": "q", "float": "f", "double": "d",
}  # fmt: skip
_COMMENT: Final = re.compile(r"/\*.*?\*/", re.DOTALL)
_DECLARATION: Final = re.compile(
    r'^#define[ ]+(?P<macro>\w+)[ ]+"(?P<text>.*)"$'
    r"|\benum\s*\w*\s*\{(?P<numbers>[^}]*)\}"
    r"|\bstruct\s*(?P<tag>\w*)\s*\{(?P<fields>[^}]*)\}\s*(?P<name>\w*)\s*;",
    re.MULTILINE,
)
_FIELDS: Final = re.compile(r"(?:struct\s+)?(\w+)\s+(\w+(?:\[\w+\])?(?:\s*,\s*\w+(?:\[\w+\])?)*)")
_SHIFT: Final = re.compile(r"(\w+)\s*<<\s*(\w+)")


class CField(NamedTuple):
    """A field of a structure."""

    #: What C calls it.
    name: str
    #: A character of `struct`, or a structure.
    kind: str | CStructure
    #: Elements of an array; of an array of char, its bytes. None: it is no array.
    length: int | None
    #: Bytes from the structure's begin.
    offset: int


class CStructure(NamedTuple):
    """A structure."""

    #: In the order of the header.
    fields: tuple[CField, ...]
    #: Bytes, with what the compiler leaves free at the end.
    size: int
    #: It lies at multiples of as many bytes.
    alignment: int

    def field(self, name: str) -> CField:
        """Raises KeyError if there is none of this name."""
        for field in self.fields:
            if field.name == name:
                return field
        raise KeyError(name)

    def read(self, content: Buffer, at: int = 0) -> dict[str, Any]:
        """The values at a place in a file, by name: of an array of char the bytes, of another one a tuple.
        Fields that are structures are left out. Raises struct.error where the file is too short."""
        values = {}
        for field in self.fields:
            if isinstance(field.kind, str):
                numbers = struct.unpack_from(_format(field), content, at + field.offset)
                values[field.name] = numbers if field.length and field.kind != "s" else numbers[0]
        return values

    def write(self, content: bytearray | mmap, at: int = 0, /, **values: int) -> None:
        """Set single numbers at a place in a file."""
        for name, value in values.items():
            struct.pack_into(_format(self.field(name)), content, at + self.field(name).offset, value)


class CHeader(NamedTuple):
    """What a header declares, by name."""

    #: By its name each ``struct``.
    structures: dict[str, CStructure]
    #: Of enumerations.
    numbers: dict[str, int]
    #: Of macros, without the zero byte at the end.
    texts: dict[str, bytes]


@cache
def read_header(path: Path) -> CHeader:
    """The structures, numbers and texts of a header.

    Raises OSError, and ValueError for a structure or a number that the rule above does not cover.
    """
    header = CHeader({}, {}, {})
    for declared in _DECLARATION.finditer(_COMMENT.sub("", path.read_text(encoding="utf-8"))):
        if declared["macro"]:
            header.texts[declared["macro"]] = (
                declared["text"].encode().decode("unicode_escape").encode("latin-1")
            )
        elif declared["numbers"] is not None:
            _add_numbers(header, declared["numbers"])
        else:
            name = declared["name"] or declared["tag"]
            header.structures[name] = _structure(header, declared["fields"])
    return header


def dtype(structure: CStructure) -> np.dtype[np.void]:
    """NumPy's type of a structure's entries, with all its fields."""
    import numpy as np

    formats: list[Any] = []
    for field in structure.fields:
        if not isinstance(field.kind, str):
            kind: Any = dtype(field.kind)
        elif field.kind == "s":
            formats.append(f"S{field.length}")
            continue
        else:
            kind = np.dtype(field.kind)
        formats.append(kind if field.length is None else (kind, (field.length,)))
    return np.dtype(
        {
            "names": [field.name for field in structure.fields],
            "formats": formats,
            "offsets": [field.offset for field in structure.fields],
            "itemsize": structure.size,
        }
    )


def _format(field: CField) -> str:
    return f"{'' if field.length is None else field.length}{field.kind}"


def _number(text: str, header: CHeader) -> int:
    if shift := _SHIFT.fullmatch(text):
        return _number(shift[1], header) << _number(shift[2], header)
    return header.numbers[text] if text in header.numbers else int(text)


def _add_numbers(header: CHeader, text: str) -> None:
    """The constants of one enumeration: those without a number follow the one before."""
    last = -1
    for constant in filter(None, map(str.strip, text.split(","))):
        name, _, number = (part.strip() for part in constant.partition("="))
        last = _number(number, header) if number else last + 1
        header.numbers[name] = last


def _structure(header: CHeader, text: str) -> CStructure:
    fields: list[CField] = []
    end, widest = 0, 1
    for declaration in filter(None, map(str.strip, text.split(";"))):
        declared = _FIELDS.fullmatch(declaration)
        kind = declared and (header.structures.get(declared[1]) or _TYPES.get(declared[1]))
        if declared is None or kind is None:
            raise ValueError(f"{declaration}: not a field that Python can read")
        if isinstance(kind, str):
            size = alignment = struct.calcsize(kind)
        else:
            size, alignment = kind.size, kind.alignment
        widest = max(widest, alignment)
        for one in declared[2].split(","):
            name, _, length = one.strip().rstrip("]").partition("[")
            number = _number(length, header) if length else None
            begin = -(-end // alignment) * alignment
            fields.append(CField(name, kind, number, begin))
            end = begin + size * (1 if number is None else number)
    return CStructure(tuple(fields), -(-end // widest) * widest, widest)
