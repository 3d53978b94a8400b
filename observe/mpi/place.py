"""The file that the profiling library counts in, while a rank runs and after its end.

The file is memory without a name, held open by `npc.observe.rank` and mapped by the library. So the numbers
are still there however the rank ends, and nothing is left behind. Its structures are those of library/file.h.
This module uses the standard library alone, as all modules that `npc.observe.rank` loads.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from npc import own_folder
from npc.observe.c_header import read_header

LAYOUT: Final = read_header(Path(__file__).with_name("library") / "file.h")
MAGIC: Final = LAYOUT.texts["NPC_MAGIC"] + b"\0"
HEADER: Final = LAYOUT.structures["npc_header"]
SECTION: Final = LAYOUT.structures["npc_section"]
#: Where the table of sections begins in the file (B).
TABLE_OFFSET: Final = HEADER.field("section").offset
#: Why there is no profile, although the library was loaded before the program.
_UNSEEN: Final = (
    "the program has called no MPI that the profiling library could see (does a script unset LD_PRELOAD, "
    "or limit files by ulimit -f?)"
)
#: The program's environment names the file by this.
PROFILE: Final = "NPC_MPI_PROFILE"


class ProfileFile:
    """The file of one rank. library: is loaded before the program; `file` is the open file's descriptor."""

    def __init__(self, library: str) -> None:
        self._library = Path(library)
        self.file = _make()

    def environment(self, holder: int) -> dict[str, str]:
        """Variables of the program's environment. The program opens the file through the process `holder`,
        which has it open."""
        if self._refusal():
            return {}
        others = os.environ.get("LD_PRELOAD")
        return {
            "LD_PRELOAD": f"{self._library}:{others}" if others else str(self._library),
            PROFILE: f"/proc/{holder}/fd/{self.file}",
        }

    def keep(self, target: Path) -> str:
        """Keep what was counted as `target`. Returns why nothing was kept; empty where something was."""
        try:
            if keep(self.file, target):
                return ""
        except OSError as error:
            return f"cannot write {target}: {error.strerror}"
        return self._refusal() or _UNSEEN

    def _refusal(self) -> str:
        """Why the library is not loaded before the program; empty where it is."""
        if not self._library.exists():  # the dynamic linker would say so for every process
            return f"{self._library} is not on {os.uname().nodename}"
        if os.statvfs(self._library).f_flag & os.ST_NOEXEC:
            return f"{self._library} is on a file system of which nothing may be executed (noexec)"
        if os.environ.get("LD_BIND_NOW"):  # the library finds MPI's functions when they are called (ld.so(8))
            return "LD_BIND_NOW is set"
        return ""


def _make() -> int:
    """The descriptor of a new file in the node's memory."""
    try:
        return os.memfd_create("npc-mpi")
    except (AttributeError, OSError):  # an older system
        import tempfile

        descriptor, name = tempfile.mkstemp(prefix="npc-mpi-")
        Path(name).unlink()
        return descriptor


def keep(descriptor: int, target: Path) -> bool:
    """Copy what is used of the file to `target`, whole or not at all; False if nothing was counted in it."""
    header = os.pread(descriptor, TABLE_OFFSET, 0)
    if len(header) < TABLE_OFFSET or not header.startswith(MAGIC):
        return False
    table_end = TABLE_OFFSET + HEADER.read(header)["sections"] * SECTION.size
    begin = bytearray(os.pread(descriptor, table_end, 0))
    offset, entries = table_end, []
    for place in range(TABLE_OFFSET, table_end, SECTION.size):
        section = SECTION.read(begin, place)
        entries.append(os.pread(descriptor, section["used"] * section["entry_bytes"], section["offset"]))
        SECTION.write(begin, place, offset=offset, capacity=section["used"])
        offset += len(entries[-1])
    own_folder.save(target, [bytes(begin), *entries])
    return True
