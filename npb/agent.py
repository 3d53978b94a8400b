"""The agent: one small process a node that starts, watches and ends the tools there.

It is forked before MPI is loaded, sleeps in one ``epoll`` while a tool runs, and wakes up for nothing but
its children's ends, the coordinator's messages, its rank's death, signals, and a time limit. Whatever
happens to its rank, to the launcher or to the network, it ends its tools, then itself.

An agent has one tool at a time, so every process below it belongs to that tool, daemons included.
"""

from __future__ import annotations

import contextlib
import errno
import os
import sched
import selectors
import signal
import socket
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

from npc.machine import sysfs
from npc.npb import interfaces, placement, readiness
from npc.npb.children import NOT_FOUND, Child, OutputPart
from npc.npb.messages import BadMessage, Decoder, encode
from npc.npb.processes import UNKILLABLE_S, adopt_orphans, descendants, reap, signal_each
from npc.processes import die_with_parent

if TYPE_CHECKING:
    from npc.machine.around import LaunchObservations

#: Between asking a tool to end (SIGTERM) and killing it.
GRACE_S: Final = 0.4
#: A lost coordinator or a signal: the client goes first, its server this much later.
SERVER_LAST_S: Final = 0.3
#: After a signal the coordinator has this long to end everything in order, then each agent does it alone.
ORDERLY_S: Final = 1.0
#: A host that answers nothing for this long is cut off (TCP_USER_TIMEOUT, and about the keepalive's limit).
LOST_AFTER_S: Final = 15
#: The coordinator has this long after the run's limit: to end the tools of nodes that do not answer
#: (`npc.npb.nodes.ANSWER_S` for each side), to judge and to write.
LATE_S: Final = 30.0
#: The rank has this long to end after it was told its exit code.
RANK_END_S: Final = 3.0
#: The exit code where the run's limit was reached, as of `npc.npb.launch_result.BlamedSide`.
LIMIT_REACHED: Final = 5
#: Pieces of output that are sent before the agent looks for what else has happened.
_PIECES_AT_ONCE: Final = 16
#: Readiness is looked for this often at first, and at least this often at last.
READY_POLL_S: Final = (0.001, 0.02)

_TCP_OPTIONS: Final = (
    (socket.IPPROTO_TCP, socket.TCP_NODELAY, 1),
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, LOST_AFTER_S // 3),
    (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, LOST_AFTER_S // 5),
    (socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 3),
    (socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, LOST_AFTER_S * 1000),
)


def tune(connection: socket.socket) -> None:
    """Have the kernel notice a cut-off peer by itself, and send small messages at once."""
    if connection.family != socket.AF_UNIX:
        for level, option, value in _TCP_OPTIONS:
            connection.setsockopt(level, option, value)


class Agent:
    """The event loop of one node. rank: the MPI process's pid; to_rank: an end of a socket pair; launcher: as
    of `npc.npb.placement.watch_launcher`."""

    def __init__(self, rank: int, to_rank: socket.socket, launcher: Sequence[int]) -> None:
        self._launcher = launcher
        self._to_rank = to_rank
        self._cpus = placement.job_cpus(rank)
        self._selector = selectors.DefaultSelector()
        self._timers = sched.scheduler(time.monotonic)
        self._control: socket.socket | None = None
        self._decoder = Decoder()
        #: What is to be said, one iterator a message: an output is only read when it can be sent.
        self._waiting: deque[Iterator[bytes]] = deque()
        self._outbox = bytearray()
        self._tool: Child | None = None
        self._role = ""
        self._around: LaunchObservations | None = None
        self._tool_id = 0
        self._ending = False
        self._leaving: int | None = None
        self._interrupted = False
        self.coordinator_pid: int | None = None
        self.exit_code: int | None = None
        self.end_launcher = False
        with contextlib.suppress(OSError):
            os.sched_setaffinity(0, self._cpus)

    # -- the loop ------------------------------------------------------------------------------------

    def serve(self, control: socket.socket, rank: int, limit_s: float | None) -> int:
        """Say hello to the coordinator on `control` and do what it says. Returns the rank's exit code.

        limit_s: of the whole run. The coordinator keeps it; this is for one that cannot.
        """
        self._control = control
        control.setblocking(False)
        self._selector.register(control, selectors.EVENT_READ, self._on_control)
        self._selector.register(self._to_rank, selectors.EVENT_READ, partial(self._on_death, self._to_rank))
        self._watch_signals()
        for pidfd in self._launcher:  # the end of the launcher ends the job, however it came about
            self._selector.register(pidfd, selectors.EVENT_READ, partial(self._on_death, pidfd))
        port = interfaces.free_port()
        self._send({"event": "hello", "rank": rank, "cpus": sorted(self._cpus), "port": port})
        if limit_s is not None:
            self._after(limit_s + LATE_S, partial(self._on_overdue, limit_s))
        next_timer_s: float | None = 0.0
        while self.exit_code is None:
            for key, _ in self._selector.select(next_timer_s):
                key.data()
            next_timer_s = self._timers.run(blocking=False)
        return self.exit_code

    def _after(self, seconds: float, action: Callable[[], None]) -> None:
        self._timers.enter(seconds, 0, action)

    # -- signals and deaths --------------------------------------------------------------------------

    def _watch_signals(self) -> None:
        read_end, write_end = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(write_end, warn_on_full_buffer=False)
        for signum in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(signum, lambda *_: None)

        def received() -> None:
            for signum in set(os.read(read_end, 4096)):
                if signum == signal.SIGCHLD:
                    self._on_child()
                else:
                    self._on_interrupt(signum)

        self._selector.register(read_end, selectors.EVENT_READ, received)
        self._on_child()

    def _on_interrupt(self, signum: int) -> None:
        if self._interrupted:
            return
        self._interrupted = True
        self._send({"event": "interrupted", "signal": int(signum)})
        self._after(ORDERLY_S, lambda: self._leave(128 + signum))

    def _on_overdue(self, limit_s: float) -> None:
        print(
            f"npb: {socket.gethostname()}: the coordinator on the first host did not answer: not within the "
            f"{limit_s:g} s of --total-timeout, nor {LATE_S:g} s later",
            file=sys.stderr,
            flush=True,
        )
        if self.coordinator_pid is not None:
            signal_each([self.coordinator_pid], signal.SIGKILL)
        self._leave(LIMIT_REACHED)

    def _on_death(self, of: int | socket.socket) -> None:
        """A launcher's daemon has ended; or the rank, which never writes: readable means that it died."""
        self._selector.unregister(of)
        self._on_interrupt(signal.SIGTERM)

    def _on_child(self) -> None:
        for pid, code in reap().items():
            tool = self._tool
            if pid == self.coordinator_pid:
                self.coordinator_pid = None
            elif tool and (pid == tool.pid or (self._role == "server" and tool.exit_code == 0)):
                tool.ended(code)  # the second: a server that went into the background, and ended there
        self._check_tool_ended()

    # -- the coordinator -----------------------------------------------------------------------------

    def _send(self, message: Mapping[str, Any], before: Iterable[bytes] = ()) -> None:
        """Send a message. before: messages that come before it, made when they are sent."""
        if self._control:
            self._waiting.append(chain(before, [encode(message)]))
            self._flush()

    def _flush(self) -> None:
        """Send what the coordinator takes without waiting, and no more than a few pieces: signals and ends
        are not to wait for a long output."""
        assert self._control
        try:
            for _ in range(_PIECES_AT_ONCE):
                if not self._outbox and not self._next_piece():
                    break
                del self._outbox[: self._control.send(self._outbox)]
        except BlockingIOError:
            pass
        except OSError:
            self._on_coordinator_lost()
            return
        more = self._outbox or self._waiting
        events = selectors.EVENT_READ | (selectors.EVENT_WRITE if more else 0)
        self._selector.modify(self._control, events, self._on_control)

    def _next_piece(self) -> bool:
        while self._waiting:
            for piece in self._waiting[0]:
                self._outbox += piece
                return True
            self._waiting.popleft()
        return False

    def _on_control(self) -> None:
        if not self._control:
            return
        if self._outbox or self._waiting:
            self._flush()
        try:
            while self._control:
                data = self._control.recv(65536)
                if not data:
                    self._on_coordinator_lost()
                    return
                for message, _ in self._decoder.feed(data):
                    self._carry_out(message)
        except BlockingIOError:
            pass
        except (OSError, BadMessage):
            self._on_coordinator_lost()

    def _on_coordinator_lost(self) -> None:
        if self._control:
            self._selector.unregister(self._control)
            self._control.close()
            self._control = None
            self._leave(1)

    def _carry_out(self, message: Mapping[str, Any]) -> None:
        do = message["do"]
        if do == "start":
            self._start(message)
        elif do == "stop":
            self._stop(int(message["signal"]), float(message["grace_s"]))
        elif do == "look up":
            self._send({"event": "reply", "n": message["n"], "found": interfaces.look_up(message["names"])})
        elif do == "state":
            self._on_child()  # an end that has happened shall be told before this state
            self._report(self._tool, event="reply", n=message["n"])
        elif do == "bye":
            self.end_launcher = bool(message["end_launcher"])
            self._leave(int(message["exit"]))

    # -- the tool ------------------------------------------------------------------------------------

    def _start(self, message: Mapping[str, Any]) -> None:
        """Start a tool; the reply comes when it runs, for a server when it listens."""
        n = message["n"]
        self._tool_id = n
        self._role = message["role"]
        self._ending = False
        cpus = set(message["cpus"]) or self._cpus
        with contextlib.suppress(OSError):
            # Off the tool's CPUs if there are others: even its rare wake-ups shall not be there.
            os.sched_setaffinity(0, (self._cpus - cpus) or self._cpus)
        self._around = _watch() if message["watch"] else None
        try:
            tool = self._tool = Child(message["argv"], cpus)
        except OSError as error:
            self._tool = None
            why = NOT_FOUND if error.errno == errno.ENOENT else error.strerror
            self._send({"event": "reply", "n": n, "error": f"{message['argv'][0]}: {why}"})
            return
        cpu_list, datagrams = sysfs.format_cpus(tool.cpus), readiness.datagrams_received()
        reply = {"event": "reply", "n": n, "cpus": cpu_list, "datagrams": datagrams}
        if self._role == "server":
            self._await_ready(tool, reply, message["ready_s"], message["ready_after_s"])
        else:
            self._after(message["timeout_s"], lambda: self._timed_out(tool))
            self._send(reply)

    def _await_ready(self, tool: Child, reply: dict[str, Any], limit_s: float, after_s: float | None) -> None:
        started = time.monotonic()
        pause = READY_POLL_S[0]

        def look() -> None:
            nonlocal pause
            if tool is not self._tool or self._ending:
                return
            waited = time.monotonic() - started
            if after_s is not None:
                port = "(not looked for)" if waited >= after_s else None
            else:
                port = readiness.listening_port(self._tool_processes())
            if port is not None:
                self._send({**reply, "listens": port, "ready_s": waited})
            elif waited >= limit_s:
                self._send({**reply, "error": f"did not listen within {limit_s:g} s"})
            else:
                self._after(pause, look)
                pause = min(2 * pause, READY_POLL_S[1])

        look()

    def _timed_out(self, tool: Child) -> None:
        if tool is self._tool and not self._ending:
            tool.timed_out = True
            self._stop(signal.SIGTERM, GRACE_S)

    def _tool_processes(self) -> list[int]:
        return descendants(os.getpid(), without=(self.coordinator_pid,) if self.coordinator_pid else ())

    def _stop(self, signum: int, grace_s: float) -> None:
        """Ask the tool and all that descends from it to end, kill what has not after the grace."""
        tool = self._tool
        if not tool or self._ending:
            return
        self._ending = True
        signal_each(self._tool_processes(), signum)
        given_up = time.monotonic() + grace_s + UNKILLABLE_S

        def kill() -> None:
            if tool is not self._tool:
                return
            signal_each(self._tool_processes(), signal.SIGKILL)
            if time.monotonic() < given_up:
                self._after(0.05, kill)  # for what was forked meanwhile
            else:
                self._report_end(tool)

        self._after(grace_s, kill)
        self._check_tool_ended()

    def _check_tool_ended(self) -> None:
        """Report the end when nothing of the tool is left; a client or a failed server leaves nothing."""
        tool = self._tool
        if not tool:
            self._check_left()
        elif tool.exit_code is not None:
            if not self._tool_processes():
                self._report_end(tool)
            elif self._role == "client" or tool.exit_code != 0:
                self._stop(signal.SIGTERM, GRACE_S)

    def _report_end(self, tool: Child) -> None:
        self._tool = None
        code = -signal.SIGKILL if tool.exit_code is None else tool.exit_code
        how = {"exit": code, "seconds": tool.seconds, "timed_out": tool.timed_out}
        self._report(tool, event="ended", n=self._tool_id, **how)
        self._check_left()

    def _report(self, tool: Child | None, **message: Any) -> None:
        """Send a message, before it what the tool has printed since the last one, with the datagrams received
        here, and what this node observed around the tool meanwhile."""
        parts = tool.new_output() if tool else []
        message |= {"tool": self._tool_id, "printed": {part.stream: part.printed for part in parts}}
        message |= {"datagrams": readiness.datagrams_received(), "seen": None}
        if self._around:
            message["seen"] = self._around.result(own=self._tool_processes())
            self._around = _watch() if self._tool else None
        self._send(message, _pieces(tool, self._tool_id, parts, last=not self._tool) if tool else ())

    # -- leaving -------------------------------------------------------------------------------------

    def _leave(self, exit_code: int) -> None:
        """End the tool in its turn, then this process."""
        if self._leaving is not None:
            return
        self._leaving = exit_code
        # Far from any coordinator nobody knows whether the client is gone already: give it the time.
        wait = SERVER_LAST_S if self._tool and self._role == "server" and exit_code != 0 else 0.0
        self._after(wait, lambda: self._stop(signal.SIGTERM, GRACE_S))
        self._check_left()

    def _check_left(self) -> None:
        if self._leaving is not None and not self._tool:
            self.exit_code = self._leaving


def _pieces(tool: Child, tool_id: int, parts: Sequence[OutputPart], last: bool) -> Iterator[bytes]:
    """Messages with what a tool printed, which is forgotten behind the last one."""
    for part in parts:
        for data in tool.read(part):
            yield encode({"event": "output", "n": tool_id, "stream": part.stream}, data)
    if last:
        tool.close()


def _watch() -> LaunchObservations:
    from npc.machine.around import LaunchObservations  # not loaded by every node before MPI

    return LaunchObservations()


def start_process(rank: int) -> None:
    """What an agent's process does first: a session of its own, and the deaths it cares for."""
    os.setsid()
    die_with_parent(signal.SIGTERM)
    adopt_orphans()
    if os.getppid() != rank:
        os._exit(1)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
