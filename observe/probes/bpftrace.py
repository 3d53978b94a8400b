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
from npc.machine.processes import die_with_parent
from npc.observe.probes.catalogue import program
from npc.observe.probes.rights import NAMESPACES, NoProbes, version

#: Always printed by a bpftrace that may not raise what it need not raise.
_HARMLESS: Final = "RLIMIT_MEMLOCK"

#: A map's entries, by their keys: a number, or the events by class of size (2^k ns and more).
Maps = dict[str, dict[tuple[int | str, ...], Any]]


class WatchedProcess(NamedTuple):
    """A process of a rank, by its number in the kernel's own namespace."""

    rank: int
    process: int


class Bpftrace:
    """A bpftrace with one program, from its start on.

    The owner waits for `output` to be readable and calls `read`, which says whether it still runs. attached,
    ended: Unix time, 0 before it is; maps: of the last whole snapshot; watched: the processes of ranks that
    it has told of; said: what it said that was no result.
    """

    def __init__(
        self,
        kind: str,
        file: Path,
        token: int,
        seconds: int,
        keys: int,
        cpus: Iterable[int],
        known: Iterable[WatchedProcess] = (),
        filled: Mapping[str, str] | None = None,
    ) -> None:
        """file: where its program is written to. token: by which the run's ranks announce themselves;
        seconds: between two snapshots; keys: entries that a map may have. Raises `NoProbes`."""
        self.keys = keys
        self.started = time.monotonic()
        self.attached = self.ended = 0.0
        self.maps: Maps = {}
        self.watched: list[WatchedProcess] = list(known)
        self.said: list[str] = []
        self.lost = 0
        self._partial: Maps = {}
        self._rest = b""
        text = _filled(kind, token, seconds, self.watched, filled or {})
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
        self.ended = time.time()
        try:
            self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.kill()
            self.said.append(f"bpftrace did not end in {timeout_s:g} s and was killed")
        if self._process.stdout is not None:
            self._process.stdout.close()

    @property
    def problem(self) -> str:
        """The last thing that it said, or how it ended."""
        code = self._process.poll()
        if self.said:
            return self.said[-1]
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
            told = json.loads(line)
            kind, data = told["type"], told.get("data")
        except (TypeError, ValueError, KeyError):
            if line and _HARMLESS not in line:
                self.said.append(line)
            return
        if kind in ("map", "hist"):
            for name, entries in data.items():
                self._partial[name] = _entries(entries)
        elif kind == "printf":
            self._hear(data.split())
        elif kind == "lost_events":
            self.lost += int(data["events"])
        elif kind not in ("attached_probes", "helper_error"):
            self.said.append(line)

    def _hear(self, words: list[str]) -> None:
        if words[0] == "attached":
            self.attached = time.time()
        elif words[0] == "rank":
            self.watched.append(WatchedProcess(int(words[1]) - 1, int(words[2])))
        elif words[0] == "snapshot":
            self.maps, self._partial = {**self.maps, **self._partial}, {}


def _entries(entries: Any) -> dict[tuple[int | str, ...], Any]:
    """A map by its keys. A histogram's classes are given by their least number; class 0 is 0 and 1 ns."""
    if not isinstance(entries, dict):
        return {}
    found: dict[tuple[int | str, ...], Any] = {}
    for text, value in entries.items():
        key = tuple(int(part) if part.strip().isdecimal() else part.strip() for part in text.split(","))
        if isinstance(value, list):
            classes: dict[int, int] = {}
            for each in value:
                if each["count"]:
                    place = max(0, each.get("min", 0).bit_length() - 1)
                    classes[place] = classes.get(place, 0) + each["count"]
            found[key] = classes
        else:
            found[key] = value
    return found


def _filled(
    kind: str, token: int, seconds: int, known: Iterable[WatchedProcess], filled: Mapping[str, str]
) -> str:
    """The program with everything filled in."""
    source = program(kind)
    task = "((struct task_struct *)curtask)"
    spaces = version() >= NAMESPACES
    values = {
        "TOKEN": str(token),
        "SECONDS": str(seconds),
        "KNOWN": " ".join(f"@rank[(uint64){each.process}] = (uint64){each.rank + 1};" for each in known),
        "PRINT": " ".join(f"print({name});" for name in source.maps),
        "CLEAR": " ".join(f"clear({name});" for name in source.scratch),
        "PID": f"{task}->tgid" if spaces else "pid",
        "TID": f"{task}->pid" if spaces else "tid",
        **filled,
    }
    return re.sub(r"\$([A-Z]+)\b", lambda name: values[name[1]], source.text)
