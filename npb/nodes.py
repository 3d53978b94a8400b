"""Nodes: the coordinator's view of the agents, one connection each."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import signal
import socket
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias, TypeVar

from npc.machine.command import exit_words
from npc.npb.agent import GRACE_S, tune
from npc.npb.children import NOT_FOUND
from npc.npb.handshake import admits
from npc.npb.interfaces import HostView
from npc.npb.messages import BadMessage, Decoder, encode
from npc.npb.output import Output

_T = TypeVar("_T")
#: An agent answers a question within this time, or its host is as good as cut off.
ANSWER_S: Final = 10.0
#: Who connects has this long to prove that he is an agent of this launch.
ADMITTED_S: Final = 5.0
#: An agent that was told to leave ends its tools and closes its connection within this time.
LEAVES_S: Final = 5.0


#: What a node observed around a tool: `npc.machine.around.NodeResults`, None where it did not look.
NodeObservations: TypeAlias = Mapping[str, Any] | None


class HostLost(ConnectionError):
    """The connection to a node's agent is gone, or it does not answer."""


class CannotRun(RuntimeError):
    """A tool that could not be started, or a server that never listened; the message says why.

    ended: how a server ended that did so before it listened.
    """

    def __init__(self, message: str, ended: ToolEnd | None = None) -> None:
        super().__init__(message)
        self.ended = ended

    @property
    def kind(self) -> str:
        """What a status begins with: a node that lacks the tool has not failed."""
        return "unavailable" if str(self).endswith(NOT_FOUND) else "failed"


@dataclass(frozen=True)
class ToolEnd:
    """The end of a tool."""

    #: Exit code, negative for a signal.
    exit: int
    #: Wall time, in s.
    seconds: float
    #: Whether it was ended because its time was over.
    timed_out: bool
    #: What it printed since it was last asked for.
    output: Output
    #: UDP datagrams that its host has received in all.
    datagrams: int
    #: What this node observed around the tool.
    observed: NodeObservations = None


@dataclass
class RunningTool:
    """A tool that runs on a node."""

    #: The command line that it was started with.
    argv: tuple[str, ...]
    #: The CPU list that it really has.
    cpus: str
    #: UDP datagrams that its host had received in all when it started.
    datagrams: int
    #: Done as soon as the tool has ended; its value says how.
    ended: asyncio.Future[ToolEnd]


class Node:
    """One agent: start a tool there, ask for its state, stop it."""

    def __init__(self, rank: int, view: HostView, cpus: set[int], port: int, stream: _Stream) -> None:
        self.rank = rank
        self.view = view
        self.cpus = cpus
        #: What stands for PORT where it is the server.
        self.port = port
        self._stream = stream
        self._numbers = itertools.count(1)
        self._replies: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._running: dict[int, asyncio.Future[ToolEnd]] = {}
        #: By tool, what it printed and nobody has asked for yet.
        self._printed: defaultdict[int, Output] = defaultdict(Output.of)
        self._last_message_s = 0.0
        self.lost: str | None = None
        #: Whether it was lost because it did not answer: its processes may still be there.
        self.silent = False
        #: Whether it looks around a tool (`npc.machine.around`).
        self.watch = False

    @property
    def name(self) -> str:
        """Host name."""
        return self.view.name

    async def listen(self, interrupted: Callable[[int], None]) -> None:
        """Receive what the agent sends until its connection ends."""
        why = "its connection ended"
        try:
            while True:
                messages = await self._stream.receive()
                self._last_message_s = time.monotonic()
                for message, payload in messages:
                    self._receive(message, payload, interrupted)
        except BadMessage as error:
            why = str(error)
        except OSError as error:
            why = error.strerror or str(error)
        finally:
            self._lose(why)

    async def start_server(
        self, argv: Sequence[str], cpus: Collection[int], ready_s: float, ready_after_s: float | None
    ) -> RunningTool:
        """Start a server, on all CPUs of the job if `cpus` names none, and wait until it listens.

        Raises `CannotRun`, `HostLost`.
        """
        number, running = self._expect_end()
        how: dict[str, Any] = {"role": "server", "argv": argv, "cpus": sorted(cpus), "ready_s": ready_s}
        how |= {"ready_after_s": ready_after_s, "watch": self.watch}
        reply = asyncio.ensure_future(self._ask("start", number, ready_s + ANSWER_S, **how))
        try:
            both: set[asyncio.Future[Any]] = {reply, running}
            await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
            if running.done() and not reply.done():
                ended = running.result()
                problem = f"{argv[0]} {ending(ended.exit)} before it listened{_last_lines(ended)}"
                raise CannotRun(problem, ended)
            message = await reply
        finally:
            reply.cancel()
        if "error" in message:
            if "cpus" not in message:
                self._running.pop(number, None)
                raise CannotRun(message["error"])
            ended = await self.stop(RunningTool(tuple(argv), "", 0, running))
            raise CannotRun(f"{argv[0]} {message['error']}{_last_lines(ended)}")
        return RunningTool(tuple(argv), message["cpus"], message["datagrams"], running)

    async def start_client(self, argv: Sequence[str], cpus: Collection[int], timeout_s: float) -> RunningTool:
        """Start a client, which ends or is ended after `timeout_s`. Raises `CannotRun`, `HostLost`."""
        number, running = self._expect_end()
        how: dict[str, Any] = {"role": "client", "argv": argv, "cpus": sorted(cpus), "timeout_s": timeout_s}
        message = await self._ask("start", number, **how, watch=self.watch)
        if "error" in message:
            self._running.pop(number, None)
            raise CannotRun(message["error"])
        return RunningTool(tuple(argv), message["cpus"], message["datagrams"], running)

    async def state(self) -> tuple[Output, int, NodeObservations]:
        """New output of the tool, the UDP datagrams that its host has received in all, and what it
        observed since it was asked last."""
        message = await self._ask("state", next(self._numbers))
        return self._take_output(message), message["datagrams"], message["seen"]

    async def look_up(self, names: Sequence[str]) -> dict[str, list[str]]:
        """Addresses of names as this host resolves them."""
        message = await self._ask("look up", next(self._numbers), limit_s=30.0, names=names)
        by_name: dict[str, list[str]] = message["found"]
        return by_name

    async def stop(self, tool: RunningTool, signum: int = signal.SIGTERM) -> ToolEnd:
        """End a tool: signal, then SIGKILL after the grace. Raises `HostLost`."""
        if not tool.ended.done():
            self._send({"do": "stop", "signal": int(signum), "grace_s": GRACE_S})
        try:
            return await self._answer(tool.ended, ANSWER_S)
        except asyncio.TimeoutError:
            raise self._lose_silent(f"did not end {tool.argv[0]} within {ANSWER_S:g} s") from None

    async def leave(self, exit_code: int, end_launcher: bool = False) -> None:
        """Have the agent end, and wait for it; `end_launcher` as in `npc.npb.rank`."""
        if self.lost is None:
            self._send({"do": "bye", "exit": exit_code, "end_launcher": end_launcher})
            try:
                await asyncio.wait_for(self._stream.closed.wait(), LEAVES_S)
            except asyncio.TimeoutError:
                self._lose_silent(f"did not end within {LEAVES_S:g} s")

    def _expect_end(self) -> tuple[int, asyncio.Future[ToolEnd]]:
        """The number of a tool that will be started, and its end."""
        number = next(self._numbers)
        future: asyncio.Future[ToolEnd] = asyncio.get_running_loop().create_future()
        future.add_done_callback(lambda ended: ended.exception())  # looked at, whoever waits
        self._running[number] = future
        return number, future

    async def _ask(self, do: str, number: int, limit_s: float = ANSWER_S, **fields: Any) -> dict[str, Any]:
        if self.lost is not None:
            raise HostLost(self.lost)
        future: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self._replies[number] = future
        self._send({"do": do, "n": number, **fields})
        try:
            return await self._answer(future, limit_s)
        except asyncio.TimeoutError:
            raise self._lose_silent(f"no answer within {limit_s:g} s") from None
        finally:
            self._replies.pop(number, None)

    async def _answer(self, future: asyncio.Future[_T], limit_s: float) -> _T:
        """What an agent answers within the limit, counted from its last message: a long output takes
        its time on a slow network. Raises asyncio.TimeoutError."""
        while True:
            waiting_since_s = time.monotonic()
            try:
                return await asyncio.wait_for(asyncio.shield(future), limit_s)
            except asyncio.TimeoutError:
                if self._last_message_s < waiting_since_s:
                    raise

    def _send(self, message: dict[str, Any]) -> None:
        self._stream.send(encode(message))

    def _receive(self, message: dict[str, Any], payload: bytes, interrupted: Callable[[int], None]) -> None:
        event = message["event"]
        if event == "reply":
            reply = self._replies.get(message["n"])
            if reply and not reply.done():
                reply.set_result(message)
        elif event == "output":
            getattr(self._printed[message["n"]], message["stream"]).add(payload)
        elif event == "ended":
            ended = self._running.pop(message["n"], None)
            output = self._take_output(message)
            if ended and not ended.done():
                same = {key: message[key] for key in ("exit", "seconds", "timed_out", "datagrams")}
                ended.set_result(ToolEnd(**same, output=output, observed=message["seen"]))
        elif event == "interrupted":
            interrupted(message["signal"])

    def _take_output(self, message: dict[str, Any]) -> Output:
        """What a tool has printed before this message about it."""
        output = self._printed.pop(message["tool"], None) or Output.of()
        for stream, printed in message["printed"].items():
            getattr(output, stream).printed = printed
        return output

    def _lose_silent(self, why: str) -> HostLost:
        self.silent = self.lost is None
        return self._lose(why)

    def _lose(self, why: str) -> HostLost:
        if self.lost is None:
            self.lost = f"lost {self.name}: {why}"
            self._stream.close()
            futures: list[asyncio.Future[Any]] = [*self._replies.values(), *self._running.values()]
            for future in futures:
                if not future.done():
                    future.set_exception(HostLost(self.lost))
            self._running.clear()
        return HostLost(self.lost)


class _Stream:
    """Messages over a connected socket."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._decoder = Decoder()
        self.closed = asyncio.Event()

    async def receive(self) -> list[tuple[dict[str, Any], bytes]]:
        """The next messages. Raises OSError at the end of the connection, `BadMessage`."""
        data = await self._reader.read(2**18)
        if not data:
            raise ConnectionResetError("its connection ended")
        return list(self._decoder.feed(data))

    def send(self, data: bytes) -> None:
        if not self._writer.is_closing():
            self._writer.write(data)

    def close(self) -> None:
        self.closed.set()
        self._writer.close()


class AgentReception:
    """Lets the agents of this launch in, and receives their hello. views: their hosts, by rank."""

    def __init__(self, views: Sequence[HostView], secret: bytes, interrupted: Callable[[int], None]) -> None:
        self.nodes: dict[int, Node] = {}
        self._views = views
        self._secret = secret
        self._interrupted = interrupted
        self._complete = asyncio.Event()
        self._strangers: set[asyncio.StreamWriter] = set()
        self._listening: set[asyncio.Task[None]] = set()

    async def gather(
        self, listeners: Sequence[socket.socket], own: socket.socket, limit_s: float
    ) -> dict[int, Node]:
        """Nodes by rank: all, or those that came within the limit. Nobody is let in afterwards."""
        servers = [await asyncio.start_server(self._admit, sock=listener) for listener in listeners]
        reader, writer = await asyncio.open_connection(sock=own)
        await reader.readline()
        await self._receive_hello(reader, writer)
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(self._complete.wait(), limit_s)
        for server in servers:
            server.close()
        for stranger in self._strangers:
            stranger.close()
        return self.nodes

    async def _admit(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        tune(writer.get_extra_info("socket"))
        self._strangers.add(writer)
        try:
            if await asyncio.wait_for(admits(self._secret, reader, writer), ADMITTED_S):
                await self._receive_hello(reader, writer)
                return
        except (OSError, EOFError, BadMessage, asyncio.TimeoutError):
            pass
        finally:
            self._strangers.discard(writer)
        writer.close()

    async def _receive_hello(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        stream = _Stream(reader, writer)
        messages: list[tuple[dict[str, Any], bytes]] = []
        while not messages:
            messages = await stream.receive()
        hello = messages[0][0]
        rank = hello["rank"]
        node = Node(rank, self._views[rank], set(hello["cpus"]), hello["port"], stream)
        self.nodes[node.rank] = node
        task = asyncio.ensure_future(node.listen(self._interrupted))
        self._listening.add(task)
        if len(self.nodes) == len(self._views):
            self._complete.set()


def ending(exit_code: int) -> str:
    """How a tool ended, in words."""
    return f"{'was ended by' if exit_code < 0 else 'ended with'} {exit_words(exit_code)}"


def _last_lines(ended: ToolEnd) -> str:
    printed = "\n".join(stream.end() for stream in ended.output)
    lines = list(filter(str.strip, printed.splitlines()))
    return ": " + " | ".join(lines[-5:]) if lines else " and printed nothing"
