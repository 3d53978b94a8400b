"""Runs perf beside one rank, from before its program begins; counts the stacks on the node after its end.

perf writes to a file without a name on this node's disk. So nothing is left behind however the run ends, and
nothing goes through the network meanwhile. perf ends with `npc.observe.rank`, with the rank, or when it is
told to. This module uses the standard library alone.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from npc.machine.command import last_line
from npc.observe.hotspots.bounds import EVENTS
from npc.observe.hotspots.perf import Perf, PerfAccess, find_perf, perf_access
from npc.observe.hotspots.processor import node_processor
from npc.observe.hotspots.stack_file import SUFFIX, save, to_document
from npc.observe.hotspots.stacks import CLOCK, Stacks
from npc.observe.options import Companion
from npc.processes import LOCAL_RANK, Process, die_with_parent, first_number, local_ranks, read

#: Where perf is killed, its file lacks the parts that say what is in it.
KILLED: Final = "perf record was killed, and its file is not whole"
#: perf attaches in a tenth of a second, and in some seconds where a hundred of them begin at once.
_ATTACH_S: Final = 30.0
#: perf stops in milliseconds, and then writes down which files its samples belong to.
_STOP_S: Final = 20.0
#: A million samples of twenty frames take less.
_SCRIPT_S: Final = 120.0
#: Largest file: at 99 Hz and 150 bytes a sample it lasts over an hour, with compression a day; with DWARF's
#: copies of the stack, 8 KiB each, some minutes or half an hour.
_LARGEST: Final = {"fp": "64M", "lbr": "64M", "dwarf": "512M"}
#: Pages of perf's ring buffers. The system grants a user 129 pages for each CPU (perf_event_mlock_kb), which
#: the buffers of all the node's ranks share; each buffer takes one page more.
_GRANTED_PAGES: Final = 129
_MOST_PAGES: Final = 128
_FEWEST_PAGES: Final = {"fp": 1, "lbr": 1, "dwarf": 16}
_PMU: Final = ("cpu", "armv")


class HotspotRecorder(Companion):
    """A `Companion`. settings: ``rate`` (samples a second), ``call_graph``: fp, dwarf or lbr."""

    def __init__(self, folder: Path, name: str, settings: Mapping[str, Any]) -> None:
        self._path = folder / f"{name}{SUFFIX}"
        self._rate = float(settings["rate"])
        self._call_graph = str(settings["call_graph"])
        self._perf = Perf("", "")
        self._access = PerfAccess(own=False, kernel=False)
        self._recorder: Process | None = None
        self._problem = ""
        self._counters = ""
        self._data = -1
        self._messages = -1

    @property
    def files(self) -> tuple[int, ...]:
        """Descriptors that `end` needs."""
        return tuple(descriptor for descriptor in (self._data, self._messages) if descriptor >= 0)

    def begin(self, process: int) -> None:
        """Start perf on a process, its threads and its children, and wait until it samples."""
        self._perf, self._access = find_perf(), perf_access()
        self._problem = self._perf.problem
        if not self._problem and not self._access.own:
            self._problem = f"kernel.perf_event_paranoid keeps perf from this user: {self._access.line}"
        if self._problem:
            return
        try:
            self._data, self._messages = _file_without_name(), _file_without_name()
            self._attach(process)
        except (OSError, subprocess.SubprocessError) as error:
            self._problem = f"perf: {error}"

    def end(self) -> dict[str, Any]:
        """Stop perf and keep the rank's stacks; the answer names their file."""
        notes: list[str] = []
        stacks = Stacks()
        source = f"perf {self._perf.version}, {CLOCK}"
        if not self._problem:
            self._stop()
            try:
                notes += self._read(stacks)
            except (OSError, subprocess.SubprocessError) as error:
                self._problem = str(error)
        about = {
            "status": f"unavailable: {self._problem}" if self._problem else "ok",
            "source": source if self._perf.version else "",
            "rate": self._rate,
            "kernel": self._access.kernel,
            "counters": self._counters,
            "notes": notes,
            "processor": node_processor() if not first_number(LOCAL_RANK) else {},
        }
        document = to_document(stacks, about)
        for file in self.files:
            os.close(file)
        try:
            save(document, self._path)
        except OSError as error:
            return {"status": f"cannot write {self._path}: {error.strerror}", "samples": 0}
        return {"status": document["status"], "samples": document["samples"], "file": self._path.name}

    def _attach(self, process: int) -> None:
        told_to, tell = os.pipe()
        answered, answer = os.pipe()
        given = sorted(os.sched_getaffinity(os.getppid()))  # all CPUs: the rank may be bound to a few

        def beside() -> None:
            die_with_parent(signal.SIGTERM)  # by which perf keeps what it has
            with contextlib.suppress(OSError):
                os.sched_setaffinity(0, given)

        words = [
            self._perf.path, "record", "-q", "-e", CLOCK, "-F", f"{self._rate:g}",
            "--call-graph", self._call_graph, *self._hardware_events(), "-p", str(process),
            "-o", f"/proc/self/fd/{self._data}", "--control", f"fd:{told_to},{answer}", "-D", "-1",
            *(["-z"] if self._perf.compresses else []), "-m", str(self._pages()), "--no-buildid-cache",
            "--max-size", _LARGEST[self._call_graph],
        ]  # fmt: skip
        try:
            perf = subprocess.Popen(
                words,
                stdin=subprocess.DEVNULL,
                stdout=self._messages,
                stderr=self._messages,
                env=_environment(),
                # perf keeps the other ends open, too: perf 6.1 gives up when they close
                pass_fds=(self._data, told_to, tell, answered, answer),
                start_new_session=True,  # so that the launcher's signals to its ranks do not reach it
                preexec_fn=beside,
            )
            for descriptor in (told_to, answer):
                os.close(descriptor)
            self._recorder = read(perf.pid)
            with contextlib.suppress(OSError):  # perf has ended: then no answer comes either
                os.write(tell, b"enable\n")
            if not select.select([answered], [], [], _ATTACH_S)[0] or not os.read(answered, 16):
                perf.kill()
                perf.wait()
                self._problem = f"perf record: {self._last_words() or 'it did not begin'}"
        finally:
            os.close(tell)
            os.close(answered)

    def _hardware_events(self) -> list[str]:
        """Options of perf that count those of the hardware events that this processor has."""
        devices = Path("/sys/bus/event_source/devices")
        try:
            has_counters = any(device.name.startswith(_PMU) for device in devices.iterdir())
        except OSError:
            has_counters = False
        if not has_counters:
            self._counters = f"no hardware counters here ({devices} has no cpu), as in most virtual machines"
            return []
        words = [self._perf.path, "stat", "-x", ";", "-e", ",".join(EVENTS), "--", "true"]
        tried = subprocess.run(
            words, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace",
            env=_environment(), timeout=_ATTACH_S, check=False,
        )  # fmt: skip
        there = [event for event in EVENTS if is_counted(event, tried.stderr)]
        missing = [event for event in EVENTS if event not in there]
        self._counters = f"this processor does not count {', '.join(missing)}" if missing else ""
        rate = f"freq={self._rate:g}"
        return [word for event in there for word in ("-e", f"{event}/call-graph=no,{rate}/")]

    def _pages(self) -> int:
        """Pages of each CPU's ring buffer: the largest power of two that all of the node's ranks can have."""
        room = max(_GRANTED_PAGES // local_ranks() - 1, _FEWEST_PAGES[self._call_graph])
        return min(1 << (room.bit_length() - 1), _MOST_PAGES)

    def _stop(self) -> None:
        """End perf within a bounded time, whether or not this process has started it."""
        recorder = self._recorder
        if recorder is None:
            return
        for number, patience in ((signal.SIGINT, _STOP_S), (signal.SIGKILL, 1.0)):
            end = time.monotonic() + patience
            with contextlib.suppress(OSError):
                os.kill(recorder.pid, number)
            while _is_running(recorder):
                if time.monotonic() > end:
                    break
                time.sleep(0.005)
            else:
                return

    def _read(self, stacks: Stacks) -> Iterator[str]:
        """Count what perf recorded; yields notes about it."""
        if os.fstat(self._data).st_size == 0:
            raise OSError(f"perf wrote nothing: {self._last_words()}")
        words = [
            self._perf.path, "script", "-i", f"/proc/self/fd/{self._data}", "--show-mmap-events",
            "--show-lost-events", "-F", "pid,event,period,ip,sym,symoff,dso",
        ]  # fmt: skip
        with subprocess.Popen(
            words,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=self._messages,
            text=True,
            errors="replace",
            env=_environment(),
            pass_fds=(self._data,),
            start_new_session=True,
            preexec_fn=lambda: die_with_parent(signal.SIGKILL),
        ) as script:
            assert script.stdout is not None
            limit = threading.Timer(_SCRIPT_S, script.kill)
            limit.start()
            try:
                stacks.read(script.stdout)
            finally:
                limit.cancel()
        if script.returncode == -signal.SIGKILL:
            yield f"perf script took more than {_SCRIPT_S:.0f} s: only the first samples are counted"
        elif script.returncode:
            last_words = self._last_words()
            # "Was the 'perf record' command properly terminated?"
            raise OSError(KILLED if "properly terminated" in last_words else f"perf script: {last_words}")
        if "size limit" in self._all_messages():
            yield (
                f"recording stopped at {_LARGEST[self._call_graph]}B of samples, before the end: "
                "a lower --rate has room for more"
            )

    def _all_messages(self) -> str:
        return os.pread(self._messages, 65536, 0).decode(errors="replace")

    def _last_words(self) -> str:
        return last_line(self._all_messages())


def is_counted(event: str, told_by_stat: str) -> bool:
    """Whether ``perf stat -x ';'`` counted an event: value;unit;event;… with <not supported> for a value."""
    rows = (line.split(";") for line in told_by_stat.splitlines())
    return any(len(row) > 2 and event in row[2] and row[0].strip().isdecimal() for row in rows)


def _is_running(process: Process) -> bool:
    now = read(process.pid)
    return now is not None and now.started == process.started


def _environment() -> dict[str, str]:
    """perf's environment: in English, without the user's settings of perf, without debug symbols from the
    network, and without the libraries that are loaded before the program."""
    unwanted = ("LD_PRELOAD", "DEBUGINFOD_URLS", "PAGER", "PERF_PAGER")
    environment = {name: value for name, value in os.environ.items() if name not in unwanted}
    return {**environment, "LC_ALL": "C", "PERF_CONFIG": "/dev/null"}


def _file_without_name() -> int:
    """The descriptor of a file on this node's disk that vanishes when no process has it open any more."""
    descriptor, name = tempfile.mkstemp(prefix="npc-perf-")
    Path(name).unlink()
    return descriptor
