"""One bpftrace that watches: started, read as it prints, ended.

Syntax and output of bpftrace 0.17 to 0.23 (bpftrace(8)). Only the standard library.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from npc import own_folder
from npc.observe.probes.catalogue import budget_check, program
from npc.observe.probes.rights import NAMESPACES, NoProbes, version
from npc.processes import die_with_parent

#: Always printed by a bpftrace that may not raise what it need not raise.
_HARMLESS: Final = "RLIMIT_MEMLOCK"

#: Seconds that watching may take of a rank beyond its budget: programs have bursts.
_GRACE_S: Final = 0.1
#: A map's entries, by their keys: a number, or the events by class of size (2^k ns and more).
Maps = dict[str, dict[tuple[int | str, ...], Any]]


class WatchedProcess(NamedTuple):
    """A process of a rank."""

    #: Number in MPI_COMM_WORLD of the rank that it belongs to.
    rank: int
    #: Its number in the kernel's own PID namespace.
    process: int


class Budget(NamedTuple):
    """What watching may take of each rank (programs/budget.bt)."""

    #: Nanoseconds of run time that pay for one event: its cost divided by the share that is allowed.
    need_ns: int
    #: Nanoseconds of run time that a rank may owe, since programs have bursts.
    grace_ns: int

    @classmethod
    def of(cls, cost_s: float, share: float) -> Budget:
        """cost_s: seconds of one event; share: 0.02 allows 2 % of the run time, and `_GRACE_S` beyond."""
        return cls(round(cost_s / share * 1e9), round(_GRACE_S / share * 1e9))


class Overrun(NamedTuple):
    """Why a bpftrace ended itself: a stretch of time in which a rank's events cost more than its budget."""

    #: Number in MPI_COMM_WORLD of the rank that went over its budget.
    rank: int
    #: Events of all threads of the rank in it.
    events: int
    #: Seconds that it lasted.
    seconds: float
    #: Unix time of its end.
    time: float


class Bpftrace:
    """A bpftrace with one program, from its start on.

    The owner waits for `output` to be readable and calls `read`, which says whether it still runs.
    """

    def __init__(self, text: str, file: Path, keys: int, cpus: Iterable[int]) -> None:
        """text: the program (`program_text`); file: where it is written to; keys: entries that a map may
        have; cpus: where bpftrace may run. Raises `NoProbes`."""
        self.keys = keys
        #: Seconds of the monotonic clock.
        self.started = time.monotonic()
        #: Unix time; 0 before it is.
        self.attached = self.ended = 0.0
        #: Of the last whole snapshot.
        self.maps: Maps = {}
        #: Processes of ranks that it has announced.
        self.watched: list[WatchedProcess] = []
        #: Why it ended itself; None where it did not.
        self.overrun: Overrun | None = None
        #: Lines that are no results.
        self.messages: list[str] = []
        #: Messages that bpftrace lost.
        self.lost = 0
        self._partial: Maps = {}
        self._rest = b""
        limits = dict.fromkeys(("BPFTRACE_MAP_KEYS_MAX", "BPFTRACE_MAX_MAP_KEYS"), str(keys))

        def prepare() -> None:
            die_with_parent(signal.SIGKILL)
            os.sched_setaffinity(0, cpus)

        try:
            with own_folder.opened(file.parent) as folder:
                own_folder.save(file, [text.encode()])
                self._process = subprocess.Popen(
                    ["bpftrace", "-f", "json", file.name],
                    cwd=f"/proc/self/fd/{folder}",
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    env={**os.environ, **limits},
                    start_new_session=True,  # what the launcher sends to its ranks is not meant for it
                    preexec_fn=prepare,
                )
        except (OSError, subprocess.SubprocessError) as error:
            raise NoProbes(f"bpftrace: {error}") from None
        assert self._process.stdout is not None
        self.output = self._process.stdout.fileno()
        os.set_blocking(self.output, False)

    def read(self) -> bool:
        """Take in what it has printed; whether it goes on."""
        try:
            while block := os.read(self.output, 1 << 20):
                *lines, self._rest = (self._rest + block).split(b"\n")
                for line in lines:
                    self._take(line.decode(errors="replace").strip())
        except BlockingIOError:
            return True
        self.maps = {**self.maps, **self._partial}  # what it printed at its end
        return False

    def interrupt(self) -> None:
        """Let it print its maps and end."""
        self._process.send_signal(signal.SIGINT)

    def kill(self) -> None:
        """End it at once; what it has attached goes with it."""
        self._process.kill()
        self._process.wait()

    def close(self, timeout_s: float) -> None:
        """Wait for its end, and bring it about if it takes longer."""
        self.ended = self.ended or time.time()
        try:
            self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.kill()
            self.messages.append(f"bpftrace did not end in {timeout_s:g} s and was killed")
        if self._process.stdout is not None:
            self._process.stdout.close()

    @property
    def problem(self) -> str:
        """Its last message, or how it ended."""
        code = self._process.poll()
        if self.messages:
            return self.messages[-1]
        return f"bpftrace was ended by signal {-code}" if code and code < 0 else f"bpftrace ended with {code}"

    @property
    def is_full(self) -> bool:
        """Whether a map had no place left for another entry (those of a histogram are its classes)."""
        return any(
            sum(len(value) if isinstance(value, dict) else 1 for value in entries.values()) >= self.keys
            for entries in self.maps.values()
        )

    def _take(self, line: str) -> None:
        try:
            message = json.loads(line)
            kind, data = message["type"], message.get("data")
        except (TypeError, ValueError, KeyError):
            if line and _HARMLESS not in line:
                self.messages.append(line)
            return
        if kind in ("map", "hist"):
            for name, entries in data.items():
                self._partial[name] = _entries(entries)
        elif kind == "printf":
            self._take_words(data.split())
        elif kind == "lost_events":
            self.lost += int(data["events"])
        elif kind not in ("attached_probes", "helper_error"):
            self.messages.append(line)

    def _take_words(self, words: list[str]) -> None:
        """What the program printed."""
        if words[0] == "attached":
            self.attached = time.time()
        elif words[0] == "rank":
            self.watched.append(WatchedProcess(int(words[1]) - 1, int(words[2])))
        elif words[0] == "over" and self.overrun is None:
            self.overrun = Overrun(int(words[1]) - 1, int(words[2]), int(words[3]) * 1e-9, time.time())
        elif words[0] == "snapshot":
            self.maps, self._partial = {**self.maps, **self._partial}, {}
        elif words[0] == "end":
            self.ended = time.time()


def _entries(entries: Any) -> dict[tuple[int | str, ...], Any]:
    """A map by its keys. A histogram's classes are given by their least number; class 0 is 0 and 1 ns."""
    if not isinstance(entries, dict):
        return {}
    by_key: dict[tuple[int | str, ...], Any] = {}
    for text, value in entries.items():
        key = tuple(int(part) if part.strip().isdecimal() else part.strip() for part in text.split(","))
        if isinstance(value, list):
            classes: dict[int, int] = {}
            for interval in value:
                if interval["count"]:
                    power = max(0, interval.get("min", 0).bit_length() - 1)
                    classes[power] = classes.get(power, 0) + interval["count"]
            by_key[key] = classes
        else:
            by_key[key] = value
    return by_key


def program_text(
    kind: str,
    token: int,
    interval_s: float,
    places: Mapping[str, str],
    budget: Budget | None = None,
    watched: Iterable[WatchedProcess] = (),
) -> str:
    """The program of a kind with everything filled in. token: by which the run's ranks announce themselves;
    interval_s: between two snapshots; places: what it attaches to (``ENTRIES``, ``PLACES``, …); budget: None
    for one without a limit; watched: processes that belong to ranks from its start on. Raises `NoProbes`."""
    source, check = program(kind), budget_check()
    task = "((struct task_struct *)curtask)"
    spaces = version() >= NAMESPACES
    scratch = source.scratch if budget is None else source.scratch + check.scratch
    known = [f"@rank[(uint64){process}] = (uint64){rank + 1};" for rank, process in watched]
    values = {
        "TOKEN": str(token),
        "MILLISECONDS": str(round(1000 * interval_s)),
        "KNOWN": " ".join(known),
        "PRINT": " ".join(f"print({name});" for name in source.maps),
        "CLEAR": " ".join(f"clear({name});" for name in scratch),
        "PID": f"{task}->tgid" if spaces else "pid",
        "TID": f"{task}->pid" if spaces else "tid",
        "BUDGET": "",
        **places,
    }
    if budget is not None:
        numbers = {"NEED": str(budget.need_ns), "GRACE": str(budget.grace_ns)}
        code = re.sub(r"^//.*\n", "", check.text, flags=re.MULTILINE)
        values["BUDGET"] = _filled(code, numbers).strip()
    return _filled(source.text, values)


def _filled(text: str, values: Mapping[str, str]) -> str:
    return re.sub(r"\$([A-Z]+)\b", lambda name: values[name[1]], text)
