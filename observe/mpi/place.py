"""The file that the profiling library counts in: its place while a rank runs, and what is kept of it.

It is memory without a name, which `npc.observe.rank` holds and the library maps: whatever ends the rank, the
numbers are there, and nothing is left behind. The layout is library/file.h's. Only the standard library,
since `npc.observe.rank` has no other.
"""

from __future__ import annotations

import os
import struct
from pathlib import Path
from typing import Final, NamedTuple

from npc import own_folder

MAGIC: Final = b"NPCMPI\n\0"
VERSION: Final = 2
#: `npc_header` before its table of sections, and a section of it.
HEADER: Final = struct.Struct("<8s4I10iIi2HIqqqqqQQ64s256s256s")
SECTION: Final = struct.Struct("<4I3Q")
#: Why there is no profile of a program that had the library before it.
_UNSEEN: Final = (
    "the program has called no MPI that the profiling library could see (does a script unset LD_PRELOAD, "
    "or limit files by ulimit -f?)"
)
#: The program's environment names the file by this.
PROFILE: Final = "NPC_MPI_PROFILE"


class TableSection(NamedTuple):
    """kind: `npc_kind`; thread: whose, by number; used: entries; mask: bits that no kept stamp's hash has."""

    kind: int
    thread: int
    entry_bytes: int
    capacity: int
    offset: int
    used: int
    mask: int


class ProfileFile:
    """The file of one rank, before its program starts and after its end. library: to put before it; file: its
    descriptor."""

    def __init__(self, library: str) -> None:
        self._library = Path(library)
        self.file = _make()

    def environment(self, holder: int) -> dict[str, str]:
        """What the program's environment needs: it opens the file by way of the process `holder`."""
        if self._refusal():
            return {}
        others = os.environ.get("LD_PRELOAD")
        return {
            "LD_PRELOAD": f"{self._library}:{others}" if others else str(self._library),
            PROFILE: f"/proc/{holder}/fd/{self.file}",
        }

    def keep(self, target: Path) -> str:
        """Keep what was counted as `target`; why nothing was, or nothing to say."""
        try:
            if keep(self.file, target):
                return ""
        except OSError as error:
            return f"cannot write {target}: {error.strerror}"
        return self._refusal() or _UNSEEN

    def _refusal(self) -> str:
        """Why the library is not put before the program."""
        if not self._library.exists():  # the dynamic linker would say so for every process
            return f"{self._library} is not on {os.uname().nodename}"
        if os.statvfs(self._library).f_flag & os.ST_NOEXEC:
            return f"{self._library} is on a file system of which nothing may be executed (noexec)"
        if os.environ.get("LD_BIND_NOW"):  # the library finds MPI's functions when they are called (ld.so(8))
            return "LD_BIND_NOW is set"
        return ""


def _make() -> int:
    """A file in the node's memory; its descriptor."""
    try:
        return os.memfd_create("npc-mpi")
    except (AttributeError, OSError):  # an older system
        import tempfile

        descriptor, name = tempfile.mkstemp(prefix="npc-mpi-")
        Path(name).unlink()
        return descriptor


def keep(descriptor: int, target: Path) -> bool:
    """Copy what is used of the file to `target`, whole or not at all; False if nothing was counted in it."""
    header = os.pread(descriptor, HEADER.size, 0)
    if len(header) < HEADER.size or not header.startswith(MAGIC):
        return False
    sections = HEADER.unpack(header)[4]
    table = bytearray(os.pread(descriptor, HEADER.size + sections * SECTION.size, 0))
    offset, parts = len(table), []
    for place in range(HEADER.size, HEADER.size + sections * SECTION.size, SECTION.size):
        section = TableSection(*SECTION.unpack_from(table, place))
        parts.append(os.pread(descriptor, section.used * section.entry_bytes, section.offset))
        SECTION.pack_into(table, place, *section._replace(offset=offset, capacity=section.used))
        offset += len(parts[-1])
    own_folder.save(target, [bytes(table), *parts])
    return True
