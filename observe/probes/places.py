"""Where a probe of functions lies: the file, the symbols and the offsets in it, as a rank would load them.

Static probes (USDT) are notes of the section ``.note.stapsdt`` (SystemTap's sys/sdt.h, version 3). Only the
standard library.
"""

from __future__ import annotations

import mmap
import os
import re
import shutil
import struct
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from observe.probes.catalogue import FUNCTION, Wanted
from observe.probes.symbols import NoFunction, functions, functions_of

_HEADER: Final = struct.Struct("<16sHHIQQQIHHHHHH")
_SEGMENT: Final = struct.Struct("<IIQQQQQQ")
_SECTION: Final = struct.Struct("<IIQQQQIIQQ")
_LOAD, _NOTE = 1, 7
_STAPSDT: Final = 3
_LIMIT_S: Final = 20.0


class Place(NamedTuple):
    """file: by its own path, not a link; symbols: of the functions, none for a static probe; offsets: bytes
    from the file's beginning."""

    file: str
    symbols: tuple[str, ...]
    offsets: tuple[int, ...]


def find(wanted: Wanted, program: str) -> Place:
    """Where what is wanted lies, for a rank that runs `program` with this process's environment. Raises
    `NoFunction`."""
    started = shutil.which(program)
    if wanted.library:
        files = [_library(wanted.library, started)]
    elif started:
        files = [started, *_linked(started)]
    else:
        raise NoFunction(f"{program}: no such program")
    try:
        if wanted.kind == FUNCTION:
            found = (
                functions_of(files[0], wanted.name) if wanted.library else functions(files[0], wanted.name)
            )
            file = found[0].file
            return Place(file, tuple(each.symbol for each in found), tuple(each.offset for each in found))
        for file in files:
            if offsets := static_probe(file, wanted.name):
                return Place(os.path.realpath(file), (), offsets)
    except OSError as error:
        raise NoFunction(f"{error.filename}: {error.strerror}") from None
    raise NoFunction(
        f"no static probe {wanted.name} in {' or '.join(files[:3])}{' …' if len(files) > 3 else ''}: "
        f"bpftrace -l 'usdt:{files[0]}:*' shows what there is"
    )


def static_probe(file: str, name: str) -> tuple[int, ...]:
    """Offsets in the file of a static probe ``PROVIDER:NAME``; empty where it has none. Raises OSError."""
    with Path(file).open("rb") as stream:
        try:
            content = mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ)
        except ValueError:  # empty
            return ()
    with content:
        if content[:6] != b"\x7fELF\x02\x01":
            return ()
        header = _HEADER.unpack_from(content)
        segments = _table(content, _SEGMENT, header[5], header[9], header[10])
        loaded = [each for each in segments if each[0] == _LOAD]
        sections = _table(content, _SECTION, header[6], header[11], header[12])
        names = sections[header[13]][4] if header[13] < len(sections) else 0
        base = _base(content, sections, names)
        found = set()
        for section in sections:
            for probe, address, noted in _notes(content, section):
                # what was linked again for other addresses (prelink) has moved with its .stapsdt.base
                moved = address + (base - noted if base and noted else 0)
                if probe == name:
                    found |= {each[2] + moved - each[3] for each in loaded if 0 <= moved - each[3] < each[5]}
    return tuple(sorted(found))


def _notes(content: mmap.mmap, section: tuple[int, ...]) -> Iterator[tuple[str, int, int]]:
    """(PROVIDER:NAME, address, address of .stapsdt.base as the note has it) of a section's static probes."""
    kind, place, end = section[1], section[4], section[4] + section[5]
    while kind == _NOTE and place + 12 <= end:
        name_size, size, note = struct.unpack_from("<3I", content, place)
        text = place + 12 + (name_size + 3) // 4 * 4
        if note == _STAPSDT and content[place + 12 : place + 19] == b"stapsdt":
            address, base, _semaphore = struct.unpack_from("<3Q", content, text)
            provider, name, *_ = content[text + 24 : text + size].split(b"\0")
            yield f"{provider.decode()}:{name.decode()}", address, base
        place = text + (size + 3) // 4 * 4


def _base(content: mmap.mmap, sections: list[tuple[int, ...]], names: int) -> int:
    """The address of the section .stapsdt.base; 0 without."""
    wanted = b".stapsdt.base\0"
    for section in sections:
        begin = names + section[0]
        if content[begin : begin + len(wanted)] == wanted:
            return section[3]
    return 0


def _table(
    content: mmap.mmap, entry: struct.Struct, begin: int, size: int, number: int
) -> list[tuple[int, ...]]:
    return [entry.unpack_from(content, begin + place * size) for place in range(number)]


def _library(library: str, program: str | None) -> str:
    """The file of a library: a path, or a name such as ``libm.so.6``, ``libm`` or ``m``."""
    if "/" in library:
        return str(Path(library).absolute())
    pattern = re.compile(rf"(lib)?{re.escape(library)}(\.so[\d.]*)?")
    known = _said([shutil.which("ldconfig") or "/sbin/ldconfig", "-p"])
    files: list[str] = _linked(program) if program else []
    files += re.findall(r"=> (/\S+)$", known, re.MULTILINE)
    for path in files:
        if pattern.fullmatch(Path(path).name):
            return path
    raise NoFunction(f"neither the program nor the loader knows a library {library}: name its path")


def _linked(program: str) -> list[str]:
    """The libraries that a program is linked with; none for a script."""
    return re.findall(r"=> (/\S+) \(0x", _said(["ldd", program]))


def _said(words: list[str]) -> str:
    try:
        ended = subprocess.run(
            words, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=_LIMIT_S, check=False
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return ended.stdout
