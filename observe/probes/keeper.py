"""The one process of a node that attaches the probes for all of its ranks, and keeps what they counted.

It starts with the first rank and ends with the last, or when their launcher is gone, since nobody reads what
it counts then; ranks that are killed hang up. Every probe is a bpftrace
of its own, so that one that ends leaves the others alone; bpftrace ends with this process, and what
it has attached ends with bpftrace. What was counted goes to ``FOLDER/HOST.RANK.probes``, once a second and at
the end. Only the standard library, as in `npc.observe.rank`.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import socket
import time
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from npc import own_folder
from npc.observe.own_session import leave_launcher
from npc.observe.probes.attachment import NodeProbes, ProbeAttachment
from npc.observe.probes.catalogue import read_wanted
from npc.observe.probes.credentials import peer
from npc.observe.probes.records import NodeProbe
from npc.observe.probes.settings import PROBES, UNFINISHED, Settings
from npc.processes import local_ranks, read

#: A first rank that has not called by then was killed.
_CALL_S: Final = 60.0
#: How long all bpftraces together may take to end.
_END_S: Final = 15.0
_LONGEST_SLEEP_S: Final = 0.5
#: After each caller of another user.
_STRANGER_S: Final = 0.001
#: Snapshots come every second for this many ranks on a node, more rarely for more.
_RANKS_A_SECOND: Final = 16
#: Entries of a map: bpftrace's own default, or more.
_KEYS, _KEYS_A_RANK = 4096, 256
#: Writing may take this part of the time.
_WRITING: Final = 0.02


@dataclass
class _ConnectedRank:
    """A rank that is connected."""

    #: The socket to its `npc.observe.rank`.
    connection: socket.socket
    #: PID of the process of `npc.observe.rank`.
    watcher: int
    #: PID of that process's parent when it connected; None where it could not be read.
    launcher: int | None
    #: Its number in MPI_COMM_WORLD; -1 before it has sent it.
    rank: int = -1
    #: It waits until the probes are attached.
    waits: bool = False
    #: Its program has ended.
    ended: bool = False
    #: The beginning of a message whose end has not come yet.
    unread: bytes = b""


def keep(
    listening: socket.socket, folder: Path, name: str, token: int, settings: Settings, cpus: Iterable[int]
) -> None:
    """Attach what was asked for and stay until all ranks have ended. name: of the rank that started this;
    token: `npc.observe.probes.settings.read_token`."""
    leave_launcher([listening.fileno()])
    running = folder / f"{name}.{UNFINISHED}"
    with contextlib.suppress(OSError):
        own_folder.mark(running)
    local = local_ranks()
    seconds, keys = max(1, local // _RANKS_A_SECOND), max(_KEYS, _KEYS_A_RANK * local)
    cpus = tuple(sorted(cpus))
    node = NodeProbes(socket.gethostname(), folder / name, token, settings, seconds, keys, cpus)
    os.sched_setaffinity(0, cpus)
    try:
        _Keeper(listening, node).run()
    except Exception as error:  # nobody would see it
        lost = [
            NodeProbe(probe=what, host=node.host, status="stopped", reason=f"the keeper failed: {error!r}")
            for what in settings["probes"]
        ]
        _write(node, (), lost)
        raise
    finally:
        running.unlink(missing_ok=True)


class _Keeper:
    def __init__(self, listening: socket.socket, node: NodeProbes) -> None:
        self._listening, self._node = listening, node
        self._events = selectors.DefaultSelector()
        self._events.register(listening, selectors.EVENT_READ, self._accept)
        self._ranks: list[_ConnectedRank] = []
        self._rank_numbers: set[int] = set()
        self._begun: float | None = None
        self._ended: float | None = None
        self._next_write = 0.0
        self._next_look = 0.0
        self._started = time.monotonic()
        self._tracers: dict[int, ProbeAttachment] = {}
        self._probes = [ProbeAttachment(read_wanted(what), node) for what in node.settings["probes"]]

    def run(self) -> None:
        """All of it."""
        while not (self._ranks and all(rank.ended for rank in self._ranks)):
            if not self._ranks and (self._rank_numbers or time.monotonic() > self._started + _CALL_S):
                break  # all have hung up
            if self._is_launcher_gone():
                break
            for probe in self._probes:
                probe.check_start()
            self._listen(_LONGEST_SLEEP_S)
            self._answer()
            if self._begun is not None and time.monotonic() >= self._next_write:
                self._write()
        self._ended = time.time()
        self._listening.close()
        self._detach()
        self._write()
        for rank in self._ranks:
            with contextlib.suppress(OSError):
                rank.connection.sendall(b"kept\n")

    def _listen(self, pause_s: float) -> None:
        """Take in what ranks and bpftraces say within that time."""
        for probe in self._probes:
            if probe.tracer is not None and probe.tracer.output not in self._tracers:
                self._tracers[probe.tracer.output] = probe
                self._events.register(probe.tracer.output, selectors.EVENT_READ, self._read)
        for key, _ in self._events.select(timeout=pause_s):
            key.data(key.fileobj)

    def _read(self, output: int) -> None:
        """What a probe's bpftrace has printed."""
        probe = self._tracers[output]
        # its end closes the descriptor, and the next one may get the same
        self._events.unregister(output)
        if probe.read():
            self._events.register(output, selectors.EVENT_READ, self._read)
        else:
            del self._tracers[output]

    def _accept(self, _file: object) -> None:
        connection, _ = self._listening.accept()
        watcher, user = peer(connection)
        if user != os.geteuid():
            connection.close()
            time.sleep(_STRANGER_S)  # who calls again and again takes no CPU from the program
            return
        process = read(watcher)
        rank = _ConnectedRank(connection, watcher, process.parent if process else None)
        self._ranks.append(rank)
        self._events.register(connection, selectors.EVENT_READ, lambda _file: self._read_messages(rank))

    def _is_launcher_gone(self) -> bool:
        """Whether all ranks have another parent than their launcher, since that one has ended."""
        if not self._ranks or time.monotonic() < self._next_look:
            return False
        self._next_look = time.monotonic() + _LONGEST_SLEEP_S
        watchers = ((rank, read(rank.watcher)) for rank in self._ranks)
        return all(process is not None and process.parent != rank.launcher for rank, process in watchers)

    def _read_messages(self, rank: _ConnectedRank) -> None:
        """What a rank says: that it waits to begin, that it has ended; or it hangs up."""
        try:
            block = rank.connection.recv(4096)
        except OSError:
            block = b""
        if not block:
            self._events.unregister(rank.connection)
            rank.connection.close()
            self._ranks.remove(rank)
            return
        *lines, rank.unread = (rank.unread + block).split(b"\n")
        for line in lines:
            message = json.loads(line)
            if "rank" in message:
                rank.rank, rank.waits = int(message["rank"]), True
                self._rank_numbers.add(rank.rank)
            rank.ended = rank.ended or bool(message.get("ended"))

    def _answer(self) -> None:
        """Let ranks begin once every probe is attached or given up, and go where others are still there."""
        if not any(probe.is_attaching for probe in self._probes):
            for rank in self._ranks:
                if rank.waits:
                    self._begun = self._begun or time.time()
                    rank.waits = False
                    with contextlib.suppress(OSError):
                        rank.connection.sendall(b"attached\n")
        if not all(other.ended for other in self._ranks):
            for rank in self._ranks:
                if rank.ended:
                    with contextlib.suppress(OSError):
                        rank.connection.sendall(b"kept\n")

    def _detach(self) -> None:
        """End every bpftrace, and take in what it counted."""
        for probe in self._probes:
            probe.interrupt()
        limit = time.monotonic() + _END_S
        while any(attachment.tracer for attachment in self._probes) and time.monotonic() < limit:
            self._listen(0.1)
        for probe in self._probes:
            probe.give_up()

    def _write(self) -> None:
        """Write everything, as rarely as it takes long."""
        began = time.process_time()
        results = [probe.result(self._rank_numbers, self._begun, self._ended) for probe in self._probes]
        _write(self._node, self._rank_numbers, results)
        took = time.process_time() - began
        self._next_write = time.monotonic() + max(1.0, took / _WRITING)


def _write(node: NodeProbes, ranks: Iterable[int], results: Iterable[NodeProbe]) -> None:
    """The node's file, whole or not at all."""
    probes = [asdict(result) for result in results]
    text = json.dumps({"host": node.host, "ranks": sorted(ranks), "probes": probes})
    path = node.stem.with_name(f"{node.stem.name}.{PROBES}")
    with contextlib.suppress(OSError):  # the next one may succeed; the reader says what is missing
        own_folder.save(path, [text.encode()])
