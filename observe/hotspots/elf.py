"""What an ELF file tells of the addresses in it, also without symbols: build id, load addresses, functions.

Functions are those of the unwind table (``.eh_frame``), which stripped files have, too: where one begins and
ends is read there and not guessed. Sources: System V ABI, chapters 4 and 5 (symbols, program headers); Linux
Standard Base 5.0, 10.6 (``.eh_frame``, ``.eh_frame_hdr``). Only the standard library, and 64-bit files of
this machine's byte order.
"""

from __future__ import annotations

import bisect
import mmap
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

_HEADER: Final = struct.Struct("=16sHHIQQQIHHHHHH")
_PROGRAM: Final = struct.Struct("=IIQQQQQQ")
_SECTION: Final = struct.Struct("=IIQQQQIIQQ")
_SYMBOL: Final = struct.Struct("=IBBHQQ")
_SHT_SYMTAB: Final = 2
_SHT_DYNSYM: Final = 11
_PT_LOAD: Final = 1
_PT_NOTE: Final = 4
_PT_GNU_EH_FRAME: Final = 0x6474E550
_NT_GNU_BUILD_ID: Final = 3
#: Encodings of ``.eh_frame_hdr`` as GNU ld, gold, mold and lld write it (LSB 5.0, 10.5.1): the table's
#: entries as sdata4 relative to the header.
_DATAREL_SDATA4: Final = 0x3B
_UDATA4: Final = 0x03
_PCREL_SDATA4: Final = 0x1B


class Function(NamedTuple):
    """Addresses of a function as its file numbers them: the first, and the one after the last."""

    first: int
    after: int


class ElfFile:
    """A program or library. Raises OSError and ValueError where the file is none of those."""

    def __init__(self, path: Path) -> None:
        with path.open("rb") as stream:
            self._bytes = mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ)
        if self._bytes[:5] != b"\x7fELF\x02":
            raise ValueError(f"{path} is no 64-bit ELF file")
        try:
            self._programs = self._read_programs()
            self.build_id = self._read_build_id()
            self._starts, self._frames = self._read_unwind_table()
        except struct.error as error:
            raise ValueError(f"{path}: {error}") from None

    def address(self, offset: int) -> int:
        """The virtual address, as a disassembler shows it, of what lies at `offset` of the file."""
        for kind, begin, address, size in self._programs:
            if kind == _PT_LOAD and begin <= offset < begin + size:
                return address + offset - begin
        return offset

    def function(self, address: int) -> Function | None:
        """The function at `address` by the unwind table; None where it has none."""
        place = bisect.bisect_right(self._starts, address) - 1
        if place < 0:
            return None
        first = self._starts[place]
        length = self._length(self._frames[place], first)
        if length is None or address >= first + length:
            return None
        return Function(first, first + length)

    def symbol(self, first: int) -> Function | None:
        """The function whose symbol is at `first`: of hand-written code, which the unwind table may not have;
        None where the file has none that tells its size."""
        for kind, begin, size in self._sections():
            if kind not in (_SHT_SYMTAB, _SHT_DYNSYM):
                continue
            table = self._bytes[begin : begin + size // _SYMBOL.size * _SYMBOL.size]
            for _name, _info, _other, _section, address, length in _SYMBOL.iter_unpack(table):
                if address == first and length:
                    return Function(first, first + length)
        return None

    def _sections(self) -> Iterator[tuple[int, int, int]]:
        """(type, offset in the file, bytes) of the sections."""
        header = _HEADER.unpack_from(self._bytes)
        for number in range(header[12]):
            section = _SECTION.unpack_from(self._bytes, header[6] + number * header[11])
            yield section[1], section[4], section[5]

    def _read_programs(self) -> list[tuple[int, int, int, int]]:
        """(type, offset in the file, virtual address, bytes in the file) of the program headers."""
        header = _HEADER.unpack_from(self._bytes)
        begin, size, number = header[5], header[9], header[10]
        entries = (_PROGRAM.unpack_from(self._bytes, begin + index * size) for index in range(number))
        return [(entry[0], entry[2], entry[3], entry[5]) for entry in entries]

    def _read_build_id(self) -> str:
        for kind, begin, _address, size in self._programs:
            place = begin
            while kind == _PT_NOTE and place + 12 <= begin + size:
                name_size, text_size, note = struct.unpack_from("=3I", self._bytes, place)
                name = place + 12
                text = name + (name_size + 3) // 4 * 4
                if note == _NT_GNU_BUILD_ID and self._bytes[name : name + 4] == b"GNU\0":
                    return self._bytes[text : text + text_size].hex()
                place = text + (text_size + 3) // 4 * 4
        return ""

    def _read_unwind_table(self) -> tuple[list[int], list[int]]:
        """Where functions begin, in order, and the entry of each; empty for a table of another kind."""
        for kind, begin, address, _size in self._programs:
            if kind != _PT_GNU_EH_FRAME:
                continue
            version, pointer, count, table = struct.unpack_from("=4B", self._bytes, begin)
            if (version, pointer, count, table) != (1, _PCREL_SDATA4, _UDATA4, _DATAREL_SDATA4):
                break
            (number,) = struct.unpack_from("=I", self._bytes, begin + 8)
            cells = struct.unpack_from(f"={2 * number}i", self._bytes, begin + 12)
            return [address + cell for cell in cells[::2]], [address + cell for cell in cells[1::2]]
        return [], []

    def _length(self, entry: int, first: int) -> int | None:
        """Bytes of the function whose entry is at address `entry`; None for an encoding that nobody uses."""
        place = self._offset(entry) + 8  # after its length and the pointer to what entries share
        begins, length = struct.unpack_from("=iI", self._bytes, place)
        # The encoding stands in what entries share; that it is PC-relative in 4 bytes shows here as well.
        return length if entry + 8 + begins == first else None

    def _offset(self, address: int) -> int:
        for kind, begin, start, size in self._programs:
            if kind == _PT_LOAD and start <= address < start + size:
                return begin + address - start
        raise ValueError(f"no byte of the file is loaded at {address:#x}")
