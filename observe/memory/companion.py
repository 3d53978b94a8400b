"""Loads a library into a rank that records accesses to memory, and reduces the record at the end.

The library (library/) writes a table (library/table.h) in memory without a name, which `npc.observe.rank`
holds open. So the table is still there however the rank ends, and nothing is left behind. It may be gigabytes
and stays on the node, where observe/memory/reduce.py makes a small file of it. This module uses the standard
library alone, as all modules that `npc.observe.rank` loads.
"""

from __future__ import annotations

import ctypes
import json
import mmap
import os
import resource
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from npc.machine.load import cgroup_memory_bytes
from npc.observe.c_header import read_header
from npc.observe.memory.records import MEMORY
from npc.observe.options import Companion
from npc.observe.own_session import keep_only_descriptors
from npc.processes import RANK, die_with_parent, first_number, local_ranks, read
from npc.python import python

#: The program's environment names the table by this.
TABLE: Final = "NPC_MEMORY_TABLE"
#: The command that starts a program that was not built to count.
VALGRIND: Final = ("valgrind", "--tool=lackey")
#: A table of a hundred thousand pages.
_LEAST_BYTES: Final = 64 << 20
#: Settings that go to the library as ``NPC_MEMORY_NAME``.
_PASSED_ON: Final = ("interval", "budget")
_LAYOUT: Final = read_header(Path(__file__).with_name("library") / "table.h")
_HEADER: Final = _LAYOUT.structures["npc_table"]
_MAGIC: Final = _LAYOUT.texts["NPC_MEMORY_MAGIC"] + b"\0"
_SLOT_NS: Final = _LAYOUT.numbers["NPC_SLOT_NS"]
_SLOTS: Final = _LAYOUT.numbers["NPC_SLOTS"]
#: Limits of the time between two ticks, in s, which is a thousandth of the time so far.
_FASTEST_S: Final = 0.001
_SLOWEST_S: Final = 0.01
#: How long to wait for the end of a trace, which children that the program has left may keep open.
_READ_S: Final = 10.0
#: Reading a table of gigabytes.
_REDUCE_S: Final = 600.0
_REDUCE: Final = Path(__file__).with_name("reduce.py")


class RankMemoryTable(Companion):
    """A `Companion`. settings: ``mode`` (``count``, ``sample``, or ``valgrind``: the program is started by
    `VALGRIND`), ``library``: is loaded before the program; ``interval`` in seconds and ``budget`` as a
    share of the run time (sampling); ``source``: what sees the accesses, in words."""

    def __init__(self, folder: Path, name: str, settings: Mapping[str, Any]) -> None:
        self._target = folder / f"{name}.{MEMORY}"
        self._settings = settings
        self._table = -1
        self._trace: tuple[int, int] | None = None  # a pipe, from Valgrind to its reader
        self._owner = os.getpid()
        self._clock = self._reader = 0
        self._reason = self._make()

    @property
    def files(self) -> tuple[int, ...]:
        return (self._table,) if self._table >= 0 else ()

    def begin(self, process: int) -> None:
        """Start the coarse clock of what is counted, and the reader of Valgrind's trace."""
        if self._reason or self._settings["mode"] == "sample":
            return
        self._clock = self._started(lambda: _tick(self._table, process))
        if self._trace is not None:
            self._reader = self._started(self._read_trace)

    def _started(self, work: Callable[[], None]) -> int:
        """Start a process that does `work` and return its number. It closes what `npc.observe.rank` has
        open, since others wait for that to be closed, and ends with its parent."""
        child = os.fork()
        if child:
            return child
        try:
            die_with_parent(signal.SIGKILL)
            keep_only_descriptors({self._table, *(self._trace[:1] if self._trace else ())})
            work()
        finally:
            os._exit(0)

    def _read_trace(self) -> None:
        assert self._trace is not None
        try:
            ctypes.CDLL(self._settings["library"]).npc_read_trace(self._trace[0], self._table)
        finally:
            while os.read(self._trace[0], 1 << 16):  # a full pipe would stop the program
                pass

    def become(self) -> None:
        if self._reason:
            return
        library, others = str(self._settings["library"]), os.environ.get("LD_PRELOAD")
        os.environ["LD_PRELOAD"] = f"{library}:{others}" if others else library
        os.environ[TABLE] = f"/proc/{os.getppid()}/fd/{self._table}"
        if self._trace is not None:
            options = f"--trace-mem=yes --log-fd={self._trace[1]} --child-silent-after-fork=yes"
            os.environ["VALGRIND_OPTS"] = f"{os.environ.get('VALGRIND_OPTS', '')} {options}"
            os.environ["NPC_MEMORY_TRACED"] = "1"
            os.set_inheritable(self._trace[1], True)
        for name in _PASSED_ON:
            if self._settings.get(name) is not None:
                os.environ[f"NPC_MEMORY_{name.upper()}"] = str(self._settings[name])

    def end(self) -> dict[str, Any]:
        if self._owner == os.getpid():
            self.stop()
        if not self._reason and os.pread(self._table, len(_MAGIC), 0) != _MAGIC:
            self._reason = self._nothing()
        return self._reduced()

    def stop(self) -> None:
        """End the processes beside the rank; after that the table is whole."""
        if self._trace is not None:
            os.close(self._trace[1])  # usually the last open end, so the reader sees the trace's end
        for process, patience_s in ((self._reader, _READ_S), (self._clock, 0.0)):
            if process:
                deadline = time.monotonic() + patience_s
                while not os.waitpid(process, os.WNOHANG)[0]:
                    if time.monotonic() >= deadline:
                        os.kill(process, signal.SIGKILL)
                    time.sleep(0.001)

    def _make(self) -> str:
        """Make an empty file in the node's memory, as large as a table may become: a quarter of the free
        memory, shared by the node's ranks. Returns why there is none; empty where there is one."""
        library = Path(self._settings["library"])
        if not library.exists():  # the dynamic linker would say so for every process
            return f"{library} is not on {os.uname().nodename}"
        if resource.getrlimit(resource.RLIMIT_AS)[0] != resource.RLIM_INFINITY:
            # the mapped table counts towards the limit, so the program's malloc would fail
            return "the program's address space is limited (ulimit -v), and the table would take its room"
        try:
            self._table = os.memfd_create("npc-memory")
            os.ftruncate(self._table, max(_LEAST_BYTES, _free_bytes() // 4 // local_ranks() >> 12 << 12))
            if self._settings["mode"] == "valgrind":
                self._trace = os.pipe()
        except OSError as error:  # RLIMIT_FSIZE counts for it as well
            return f"no table in memory: {error.strerror}"
        return ""

    def _nothing(self) -> str:
        if self._settings["mode"] == "count":
            return "the program was not built by npc program cc, c++ or fc (or --memory=sample, =valgrind)"
        if self._settings["mode"] == "valgrind":
            return "Valgrind has not run the program"
        return "the program has not loaded the library: it is linked statically, or set-user-ID"

    def _reduced(self) -> dict[str, Any]:
        """Write ``HOST.RANK.memory``, also where there is nothing: then it says why."""
        about: dict[str, Any] = {
            "rank": first_number(RANK) or 0,
            "host": socket.gethostname(),
            "source": self._settings.get("source", ""),
            **({"reason": self._reason} if self._reason else {}),
        }
        table = "-" if self._reason else f"/proc/self/fd/{self._table}"
        try:
            ended = subprocess.run(
                python(_REDUCE, table, self._target, json.dumps(about)),
                pass_fds=self.files, capture_output=True, text=True, errors="replace", timeout=_REDUCE_S,
                check=False,
            )  # fmt: skip
            if ended.returncode and not self._reason:
                last = ended.stderr.strip().splitlines()
                self._reason = f"the table could not be read: {last[-1] if last else ended.returncode}"
        except (OSError, subprocess.TimeoutExpired) as error:
            self._reason = f"the table could not be read: {error}"
        if self._reason:
            return {"status": f"unavailable: {self._reason}"}
        return {"status": "ok", "file": self._target.name}


def _free_bytes() -> int:
    """Memory that this process may still take: of the node, and by the limits of its cgroups."""
    lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    free = next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable"))
    return min(free, cgroup_memory_bytes() or sys.maxsize)


def _tick(table: int, process: int) -> None:
    """Write the coarse clock into the table until the rank has ended: ns since it began, and the slot.

    A slot is NPC_SLOT_NS << scale long, the smallest scale at which the run so far has 64 of them at most.
    """
    page = mmap.mmap(table, mmap.PAGESIZE)
    started = looked = time.monotonic_ns()
    while True:
        began, now = _HEADER.read(page)["began"], time.monotonic_ns()
        past = now - began if began else 0
        scale = (past // _SLOT_NS // _SLOTS).bit_length()
        _HEADER.write(page, tick=past, slot=scale * _SLOTS + (past // _SLOT_NS >> scale))
        if now - looked > 1e9:
            looked = now
            if read(process) is None:
                return
        time.sleep(min(_SLOWEST_S, max(_FASTEST_S, (now - started) / 1e12)))
