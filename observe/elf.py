"""What an ELF file tells of the addresses in it: functions, also without symbols, variables, probes, lines.

pyelftools reads headers, notes and types, binutils' addr2line the lines. The tables of symbols and of
unwinding are unpacked here: entry by entry, as that library does it, a large one takes seconds. Functions
are those of the unwind table (``.eh_frame``), which stripped files have, too: where one begins and ends is
read there and not guessed.
Sources: System V ABI, chapters 4 and 5; Linux Standard Base 5.0, 10.6 (``.eh_frame``, ``.eh_frame_hdr``);
SystemTap's sys/sdt.h, version 3 (static probes).
"""

from __future__ import annotations

import math
import mmap
import os
import re
import site
import struct
import sys
import zlib
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

if sys.flags.no_site:  # beside a rank, which Python starts without the folder of other people's packages
    site.main()

from elftools.common.exceptions import DWARFError, ELFError
from elftools.elf.elffile import ELFFile

from npc.files import open_regular
from npc.machine.command import run

if TYPE_CHECKING:
    from elftools.dwarf.die import DIE
    from elftools.dwarf.dwarfinfo import DWARFInfo

VARIABLE: Final = 1
FUNCTION: Final = 2
#: A function that is chosen among variants when the file is loaded.
IFUNC: Final = 10
_SYMBOL: Final = struct.Struct("<IBBHQQ")
#: Encodings of ``.eh_frame_hdr`` as GNU ld, gold, mold and lld write it (LSB 5.0, 10.5.1): version, pointer
#: as PC-relative sdata4, count as udata4, the table's entries as sdata4 relative to the header.
_SEARCHABLE: Final = bytes((1, 0x1B, 0x03, 0x3B))
#: Where distributions keep the debugging information of stripped files, by build id.
_DEBUG: Final = Path("/usr/lib/debug/.build-id")
#: With more debugging information than that a reader of DWARF in Python takes longer than anybody waits.
_MOST_DEBUG: Final = 512 << 20
#: What reading a damaged file may raise.
_DAMAGED: Final = (
    ELFError, DWARFError, struct.error, zlib.error,
    AssertionError, AttributeError, KeyError, OverflowError, TypeError, ValueError,
)  # fmt: skip
#: DW_OP_addr with an address of 8 bytes, as an expression of a location (DWARF 5, 2.6 and 7.7).
_AT_ADDRESS: Final = struct.Struct("<BBQ")
#: Where an entry says of which other one it is the rest.
_SAME: Final = ("DW_AT_specification", "DW_AT_abstract_origin")
_NAMELESS: Final = {"DW_TAG_pointer_type": "pointer"}


class Function(NamedTuple):
    """Addresses of a function, as its file numbers them."""

    #: Where it begins.
    first: int
    #: The first address behind its end.
    after: int


class Symbol(NamedTuple):
    """A variable or a function that a file names."""

    #: As the file's table of symbols has it.
    name: str
    #: `VARIABLE`, `FUNCTION` or `IFUNC`.
    kind: int
    #: Where it begins, as its file numbers addresses.
    address: int
    #: B; 0 where the file does not tell.
    size: int


class SourceLine(NamedTuple):
    """A place in a source."""

    #: Path of the source, as the compiler wrote it but without ``..``.
    file: str
    #: Which line of it, from 1.
    number: int


class Type(NamedTuple):
    """Of a variable, or of an array's elements."""

    #: As the source has it; empty where it has none.
    name: str
    #: B of one value.
    size: int


class ElfFile:
    """A program or library for 64-bit little-endian processors. Raises OSError, and ValueError where the file
    is none of those or damaged."""

    def __init__(self, path: Path) -> None:
        self._path = path
        with open_regular(path, math.inf) as stream:
            if os.fstat(stream.fileno()).st_size == 0:
                raise ValueError(f"{path} is empty")
            self._bytes = mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ)
        if self._bytes[:4] != b"\x7fELF":
            raise ValueError(f"{path} is no ELF file")
        if self._bytes[4:6] != b"\2\1":
            raise ValueError(f"{path} is no 64-bit little-endian ELF file")
        try:
            self._elf = ELFFile(self._bytes)  # type: ignore[arg-type]
            #: (address, offset in the file, bytes) of what is loaded.
            self._loads = [
                (iter_segment["p_vaddr"], iter_segment["p_offset"], iter_segment["p_filesz"])
                for iter_segment in self._elf.iter_segments("PT_LOAD")
            ]
            self.build_id = self._read_build_id()
            self._starts, self._frames = self._read_unwind_table()
        except _DAMAGED as error:
            raise ValueError(f"{path} is damaged: {error}") from None

    def address(self, offset: int) -> int:
        """The virtual address, as a disassembler shows it, of what lies at `offset` of the file."""
        places = (begin + offset - at for begin, at, size in self._loads if 0 <= offset - at < size)
        return next(places, offset)

    def offset(self, address: int) -> int | None:
        """Where in the file an address is; None for what is not in it."""
        places = (at + address - begin for begin, at, size in self._loads if 0 <= address - begin < size)
        return next(places, None)

    def function(self, address: int) -> Function | None:
        """The function at `address` by the unwind table, or, since hand-written code may not be in it, by a
        symbol that tells its size; None where neither has one."""
        place = bisect_right(self._starts, address) - 1
        if place >= 0:
            first = self._starts[place]
            entry = self._frames[place] + 8  # after its length and the pointer to what entries share
            at = self.offset(entry)
            if at is not None and at + 8 <= len(self._bytes):
                begins, length = struct.unpack_from("<iI", self._bytes, at)
                # That the encoding is PC-relative in 4 bytes stands in what entries share, and shows here.
                if entry + begins == first and address < first + length:
                    return Function(first, first + length)
        symbol = self._symbol(address)
        return Function(symbol.address, symbol.address + symbol.size) if symbol else None

    def name(self, address: int) -> str:
        """The symbol of the function at `address`; empty where none reaches it: a name is never guessed."""
        symbol = self._symbol(address)
        return symbol.name if symbol else ""

    @cached_property
    def symbols(self) -> tuple[Symbol, ...]:
        """All that are defined, those of ``.symtab`` first. Raises ValueError where they cannot be read."""
        try:
            return tuple(self._read_symbols())
        except _DAMAGED as error:
            raise ValueError(f"{self._path} is damaged: {error}") from None

    @property
    def is_stripped(self) -> bool:
        """Whether it tells no more symbols than it offers to other files."""
        return not any(self._elf.iter_sections("SHT_SYMTAB"))

    def static_probe(self, name: str) -> tuple[int, ...]:
        """Offsets in the file of a static probe (USDT) ``PROVIDER:NAME``; empty where it has none. Raises
        ValueError where they cannot be read."""
        try:
            return tuple(sorted(self._read_static_probe(name)))
        except _DAMAGED as error:
            raise ValueError(f"{self._path} is damaged: {error}") from None

    def lines(self, addresses: Sequence[int]) -> list[tuple[SourceLine, ...]]:
        """Of each address the source line of its code, and behind it, where that is of an inlined function,
        the line where it is called, and so on, as binutils' addr2line tells them in one call. Empty where the
        debugging information does not tell, or addr2line is missing."""
        if self._debug is None or not addresses:
            return [() for _ in addresses]
        command = ["addr2line", "-a", "-i", "-e", str(self._debug[0])]
        answer = run(command, "".join(f"{address:#x}\n" for address in addresses)).stdout
        parts = re.split(r"^0x[0-9a-f]+\n", answer, flags=re.MULTILINE)[1:]
        return [_lines(part) for part in parts] if len(parts) == len(addresses) else [() for _ in addresses]

    def element(self, address: int) -> Type | None:
        """The type of the variable at an address, of an array that of its elements; None where the debugging
        information does not tell."""
        if self._dwarf is None or self._dwarf.debug_info_sec is None:
            return None
        section = self._dwarf.debug_info_sec
        place = section.stream.getvalue().find(_AT_ADDRESS.pack(9, 3, address))  # type: ignore[attr-defined]
        if place < 0:
            return None
        try:
            unit = self._dwarf.get_CU_containing(place)
            entries = (
                iter_DIE
                for iter_DIE in unit.iter_DIEs()
                if iter_DIE.offset <= place < iter_DIE.offset + iter_DIE.size
            )
            return next(map(_type_of, entries), None)
        except _DAMAGED:
            return None

    def _read_static_probe(self, name: str) -> set[int]:
        section = self._elf.get_section_by_name(".stapsdt.base")
        base = section["sh_addr"] if section is not None else 0
        addresses: set[int] = set()
        for notes in self._elf.iter_sections("SHT_NOTE"):
            for note in notes.iter_notes():  # type: ignore[attr-defined]
                if note["n_name"] != "stapsdt":
                    continue
                address, noted, _semaphore = struct.unpack_from("<3Q", note["n_descdata"])
                provider, probe, *_ = note["n_descdata"][24:].split(b"\0")
                # what was linked again for other addresses (prelink) has moved with its .stapsdt.base
                offset = self.offset(address + (base - noted if base and noted else 0))
                if f"{provider.decode()}:{probe.decode()}" == name and offset is not None:
                    addresses.add(offset)
        return addresses

    def _read_build_id(self) -> str:
        for segment in self._elf.iter_segments("PT_NOTE"):
            for note in segment.iter_notes():  # type: ignore[attr-defined]
                if note["n_name"] == "GNU" and note["n_type"] == "NT_GNU_BUILD_ID":
                    return str(note["n_desc"])
        return ""

    def _read_unwind_table(self) -> tuple[list[int], list[int]]:
        """Where functions begin, in order, and the entry of each; empty for a table of another kind."""
        for segment in self._elf.iter_segments("PT_GNU_EH_FRAME"):
            begin, address = segment["p_offset"], segment["p_vaddr"]
            if self._bytes[begin : begin + 4] == _SEARCHABLE:
                (number,) = struct.unpack_from("<I", self._bytes, begin + 8)
                cells = struct.unpack_from(f"<{2 * number}i", self._bytes, begin + 12)
                return [address + cell for cell in cells[::2]], [address + cell for cell in cells[1::2]]
        return [], []

    def _read_symbols(self) -> Iterator[Symbol]:
        for kind in ("SHT_SYMTAB", "SHT_DYNSYM"):
            for section in self._elf.iter_sections(kind):
                # a file of debugging symbols alone has no names for what it offers
                names = self._elf.get_section(section["sh_link"])
                if names["sh_type"] == "SHT_NOBITS":
                    continue
                text, entries = names.data(), section.data()
                entries = entries[: len(entries) // _SYMBOL.size * _SYMBOL.size]
                for place, info, _, index, address, size in _SYMBOL.iter_unpack(entries):
                    if index and info & 15 in (VARIABLE, FUNCTION, IFUNC):
                        name = text[place : text.find(b"\0", place)].decode(errors="replace")
                        yield Symbol(name, info & 15, address, size)

    def _symbol(self, address: int) -> Symbol | None:
        """Of the function that reaches over an address."""
        starts, functions = self._by_address
        place = bisect_right(starts, address) - 1
        return functions[place] if place >= 0 and address < sum(functions[place][2:]) else None

    @cached_property
    def _by_address(self) -> tuple[list[int], list[Symbol]]:
        try:
            sized = [symbol for symbol in self.symbols if symbol.size and symbol.kind != VARIABLE]
        except ValueError:  # damaged
            sized = []
        functions = sorted(sized, key=lambda entry: entry[2:])
        return [function.address for function in functions], functions

    @cached_property
    def _debug(self) -> tuple[Path, ELFFile] | None:
        """What has the debugging information: this file, or the one with the same build id."""
        for path in (self._path, _DEBUG / self.build_id[:2] / f"{self.build_id[2:]}.debug"):
            with suppress(OSError, *_DAMAGED):
                elf = self._elf if path == self._path else ELFFile(open_regular(path, math.inf))
                if elf.has_dwarf_info(strict=True):
                    return path, elf
        return None

    @cached_property
    def _dwarf(self) -> DWARFInfo | None:
        """The debugging information, unless it is too much."""
        if self._debug is None:
            return None
        _, elf = self._debug
        with suppress(OSError, *_DAMAGED):
            sizes = (
                iter_section.data_size
                for iter_section in elf.iter_sections()
                if iter_section.name.startswith(".debug_")
            )
            if sum(sizes) < _MOST_DEBUG:
                return elf.get_dwarf_info(relocate_dwarf_sections=False, follow_links=False)
        return None


def demangled(symbols: Sequence[str]) -> dict[str, str]:
    """What C++ calls its symbols (``_ZN4mesh4stepEv``), by binutils' c++filt; empty where that is missing."""
    lines = run(["c++filt"], "\n".join(symbols)).stdout.splitlines() if symbols else []
    return dict(zip(symbols, lines, strict=True)) if len(lines) == len(symbols) else {}


def _lines(answer: str) -> tuple[SourceLine, ...]:
    """Of what addr2line prints of an address: ``FILE:NUMBER``, with ``?`` for what is not known."""
    lines = re.findall(r"^(.+):(\d+|\?)(?: \(discriminator \d+\))?$", answer, re.MULTILINE)
    if not lines or not lines[0][1].strip("?0"):
        return ()
    return tuple(
        SourceLine(os.path.normpath(file), int(number)) for file, number in lines if number.strip("?0")
    )


def _type_of(variable: DIE) -> Type | None:
    """Of a variable's entry: of an array the elements', without names for the same and without const."""
    entry, name = variable, ""
    for _ in range(32):  # a damaged file may have a circle
        if "DW_AT_type" not in entry.attributes:
            origin = next((attribute for attribute in _SAME if attribute in entry.attributes), None)
            if origin is None:
                return None
            entry = entry.get_DIE_from_attribute(origin)
            continue
        entry = entry.get_DIE_from_attribute("DW_AT_type")
        if "DW_AT_data_location" in entry.attributes:  # Fortran's descriptor: the elements are elsewhere
            return None
        if not name and "DW_AT_name" in entry.attributes:
            name = os.fsdecode(entry.attributes["DW_AT_name"].value)
        if entry.tag != "DW_TAG_array_type" and "DW_AT_byte_size" in entry.attributes:
            return Type(name or _NAMELESS.get(str(entry.tag), ""), entry.attributes["DW_AT_byte_size"].value)
    return None
