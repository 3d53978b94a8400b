"""Where a function lies in an ELF file: the offset at which a uprobe is attached (elf(5)).

A name is that of the symbol (``daxpy_``, ``_ZN4mesh4stepEv``), of the function in Fortran (``daxpy``), or the
demangled one of C++ with or without its arguments (``mesh::step``). Only the standard library, and c++filt of
binutils for names of C++.
"""

from __future__ import annotations

import mmap
import re
import struct
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

_SYMTAB, _DYNSYM, _NOBITS = 2, 11, 8
_PT_LOAD: Final = 1
_FUNC, _IFUNC = 2, 10
_SYMBOL: Final = struct.Struct("<IBBHQQ")
_SECTION: Final = struct.Struct("<IIQQQQIIQQ")
_SEGMENT: Final = struct.Struct("<IIQQQQQQ")
_LIMIT_S: Final = 20.0
_MOST_NAMED: Final = 5


class NoFunction(ValueError):
    """There is no such function to attach to; the message says why, and what there is."""


class Function(NamedTuple):
    """A function in a file. symbol: as the file names it; offset: bytes from the file's beginning; size:
    bytes of its code, 0 where the file does not tell."""

    file: str
    symbol: str
    offset: int
    size: int


def functions(program: str, name: str) -> list[Function]:
    """All functions of this name (versions of a library's function, overloads in C++): those of `program`,
    else of the first of its shared libraries that has some.

    Raises NoFunction, and OSError where a file cannot be read.
    """
    reasons = []
    for file in (program, *_libraries(program)):
        try:
            return functions_of(file, name)
        except NoFunction as error:
            reasons.append(str(error))
    own = reasons[0]
    chosen = next((reason for reason in reasons if "IFUNC" in reason), own)
    more = f"; nor has one of its {len(reasons) - 1} shared libraries any" if len(reasons) > 1 else ""
    raise NoFunction(chosen if chosen != own else own + more)


def functions_of(file: str, name: str) -> list[Function]:
    """All functions of this name in one file. Raises NoFunction, OSError."""
    with Path(file).open("rb") as stream:
        try:
            content = mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ)
        except ValueError:
            raise NoFunction(f"{file} is empty") from None
    with content:
        if content[:4] != b"\x7fELF":
            raise NoFunction(f"{file} is no ELF file: name the program or library that has the function")
        if content[4] != 2 or content[5] != 1:
            raise NoFunction(f"{file} is not an ELF file of 64 bits, little-endian")
        try:
            return _search(content, file, name)
        except (struct.error, IndexError):
            raise NoFunction(f"{file} is damaged: its tables of symbols cannot be read") from None


class _Table(NamedTuple):
    """A table of symbols and its names."""

    kind: int
    symbols: bytes
    names: bytes


def _search(content: mmap.mmap, file: str, name: str) -> list[Function]:
    tables = list(_tables(content))
    segments = list(_segments(content))
    for wanted in (name, f"{name}_", f"{name}__"):  # Fortran's compilers append underscores
        found = _exactly(tables, wanted)
        if found:
            return _placed(found, segments, file)
    everything = _names(tables)
    if re.search(r"[:(<~]", name) or any(each.startswith("_Z") for each in everything):
        mangled = {
            symbol
            for symbol, plain in _demangled(each for each in everything if each.startswith("_Z"))
            if name in (plain, plain.partition("(")[0])
        }
        found = [each for symbol in sorted(mangled) for each in _exactly(tables, symbol)]
        if found:
            return _placed(found, segments, file)
    if all(table.kind == _DYNSYM for table in tables):
        raise NoFunction(f"{file} is stripped, and {name} is not among what it offers to other files")
    parts = re.compile(rf"(?:.*_MOD_)?{re.escape(name)}_{{0,2}}(?:\..*)?", re.IGNORECASE)
    like = [each for each in everything if parts.fullmatch(each)]
    hint = f" (it has {', '.join(like[:_MOST_NAMED])})" if like else ", or the compiler has inlined it"
    raise NoFunction(f"{file} has no function {name}{hint}")


def _tables(content: mmap.mmap) -> Iterator[_Table]:
    first, size, number = _header(content, 40, 58)
    sections = [_SECTION.unpack_from(content, first + place * size) for place in range(number)]
    for section in sections:
        if section[1] in (_SYMTAB, _DYNSYM):
            names = sections[section[6]]
            # a file of debugging symbols alone has no names for what it offers
            if names[1] != _NOBITS:
                yield _Table(
                    section[1],
                    content[section[4] : section[4] + section[5] // _SYMBOL.size * _SYMBOL.size],
                    content[names[4] : names[4] + names[5]],
                )


def _segments(content: mmap.mmap) -> Iterator[tuple[int, int, int]]:
    """Address, offset in the file and bytes of what is loaded."""
    first, size, number = _header(content, 32, 54)
    for place in range(number):
        kind, _, offset, address, _, in_file, _, _ = _SEGMENT.unpack_from(content, first + place * size)
        if kind == _PT_LOAD:
            yield address, offset, in_file


def _header(content: mmap.mmap, at: int, sizes: int) -> tuple[int, int, int]:
    """Where a table begins, bytes of an entry, number of entries."""
    return struct.unpack_from("<Q", content, at)[0], *struct.unpack_from("<HH", content, sizes)


def _exactly(tables: Iterable[_Table], name: str) -> list[tuple[str, int, int, int]]:
    """(symbol, kind, address, size) of defined functions of this name; each address once."""
    found: dict[int, tuple[str, int, int, int]] = {}
    for table in tables:
        places, needle, at = set(), name.encode() + b"\0", -1
        while (at := table.names.find(needle, at + 1)) >= 0:
            places.add(at)  # linkers let a name begin within another one that ends alike
        if not places:
            continue
        for place, info, _, section, address, size in _SYMBOL.iter_unpack(table.symbols):
            if place in places and section and info & 15 in (_FUNC, _IFUNC):
                found.setdefault(address, (name, info & 15, address, size))
    return list(found.values())


def _names(tables: Iterable[_Table]) -> list[str]:
    """The names of all functions that are defined."""
    found: dict[str, None] = {}
    for table in tables:
        for place, info, _, section, _, _ in _SYMBOL.iter_unpack(table.symbols):
            if section and info & 15 == _FUNC:
                end = table.names.index(b"\0", place)
                found[table.names[place:end].decode(errors="replace")] = None
    return list(found)


def _demangled(symbols: Iterable[str]) -> list[tuple[str, str]]:
    symbols = list(symbols)
    text = "\n".join(symbols)
    try:
        said = subprocess.run(
            ["c++filt"], input=text, capture_output=True, text=True, timeout=_LIMIT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return []
    lines = said.stdout.splitlines()
    return list(zip(symbols, lines, strict=True)) if len(lines) == len(symbols) else []


def _placed(
    found: Iterable[tuple[str, int, int, int]], segments: list[tuple[int, int, int]], file: str
) -> list[Function]:
    placed = []
    for symbol, kind, address, size in found:
        if kind == _IFUNC:
            raise NoFunction(
                f"{file} chooses {symbol} among variants when it is loaded (IFUNC): name the variant that "
                "runs here, as perf shows it"
            )
        offset = next(
            (offset + address - begin for begin, offset, size in segments if 0 <= address - begin < size),
            None,
        )
        if offset is None:
            raise NoFunction(f"{file}: the code of {symbol} is not in the file")
        placed.append(Function(str(Path(file).resolve()), symbol, offset, size))
    return placed


def _libraries(program: str) -> list[str]:
    """The shared libraries that a program is loaded with, in their order."""
    try:
        said = subprocess.run(["ldd", program], capture_output=True, text=True, timeout=_LIMIT_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return []
    return re.findall(r"^\s*\S+ => (/\S+)", said.stdout, re.M)
