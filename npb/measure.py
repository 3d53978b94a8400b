"""Measuring one pair: a server, a client for each step of the sweep, and the server's end.

A server that serves many clients is started once; one that ends after its client (perftest, ``iperf3 -1``)
is started for each step. Which kind it is follows from the tool, or is learned at the first step.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from npc.machine.around import join
from npc.npb import addresses
from npc.npb.launch_result import BlamedSide, LaunchResult, cut, how_it_ended, judge_launch, unavailable
from npc.npb.nodes import CannotRun, HostLost, Node, NodeObservations, RunningTool, ToolEnd
from npc.npb.options import LauncherOptions
from npc.npb.output import Output
from npc.npb.sweep import SweepStep
from npc.records.launch import now, tool_of
from npc.records.series import INTERFACE

#: A server that ends well may do so this long before its client has printed its results.
CLIENT_AFTER_SERVER_S: Final = 5.0
#: An unknown tool's server that has not ended this long after its first client serves many.
LEARN_S: Final = 0.5
#: A server that is known to end by itself, or is not to be killed, gets this long to do so.
SERVER_END_S: Final = 5.0

_SERVES_MANY: Final = frozenset({"qperf", "sockperf", "iperf", "netserver"})
#: SIGINT makes sockperf's server print what it received; the others end in order on SIGTERM.
_STOP_SIGNALS: Final = {"sockperf": signal.SIGINT}


@dataclass
class StepOutcome:
    """A finished step."""

    #: What was to be run.
    step: SweepStep
    #: The client's command line.
    argv: tuple[str, ...]
    #: When it began, ISO 8601.
    started: str
    #: The readings, and whether they may be believed.
    result: LaunchResult
    #: How long its client ran, in s; where none did, how long the attempt took.
    seconds: float = 0.0
    #: How its client ended; None if it never started.
    client: ToolEnd | None = None
    #: What the server printed meanwhile.
    server_output: Output = field(default_factory=Output.of)
    #: By the name of a circumstance: CPUs of both sides, interface.
    placement: dict[str, str] = field(default_factory=dict)
    #: By field of its launch, what its nodes observed around it.
    observed: dict[str, Any] = field(default_factory=dict)


def quits_server(client: Sequence[str]) -> bool:
    """Whether the client tells its server to end (``qperf HOST TEST quit``): the next one needs another."""
    return tool_of(client) == "qperf" and client[-1] == "quit"


def ends_by_itself(argv: Sequence[str]) -> bool | None:
    """Whether this server ends after one client; None if its tool is not known here."""
    tool = tool_of(argv)
    if tool in _SERVES_MANY:
        return False
    if tool == "iperf3":
        return "-1" in argv or "--one-off" in argv
    if tool == "nuttcp":
        return "-1" in argv
    if tool.startswith(("ib_", "raw_ethernet_")):
        return True
    return None


class PairMeasurement:
    """A server node and a client node, and the server's life between steps."""

    def __init__(
        self, server: Node, client: Node, address: str, options: LauncherOptions, steps: int
    ) -> None:
        """options: with the name of the parser. steps: how many there will be; with one alone it does not
        matter whether a server ends after its client."""
        self._server_node = server
        self._client_node = client
        self._address = address
        self._interface = addresses.interface_of(server.view, client.view, address)
        self._options = options
        self._server: RunningTool | None = None
        self._client_running: RunningTool | None = None
        self._server_output = Output.of()
        #: UDP datagrams that the server's host had received in all before this step.
        self._datagrams = 0
        self._server_observed: NodeObservations = None
        #: Whether the server ends after one client; None: not known yet.
        self._one_shot: bool | None = None
        self._learn = steps > 1
        self.note = ""

    async def step(self, step: SweepStep) -> StepOutcome:
        """One client. Whatever goes wrong with the tools or the hosts is in the outcome."""
        server_argv, client_argv = (
            addresses.fill(argv, self._address, self._server_node.port) for argv in (step.server, step.client)
        )
        outcome = StepOutcome(step, client_argv, now(), LaunchResult("", BlamedSide.NONE))
        if self._interface:
            outcome.placement[INTERFACE] = self._interface
        began = time.monotonic()
        self._server_output = Output.of()
        try:
            await self._ready_server(server_argv)
            assert self._server
            if quits_server(client_argv):
                self._one_shot = True
            outcome.placement["server_cpus"] = self._server.cpus
            outcome.result = await self._client(outcome)
        except CannotRun as error:
            status = error.ended and unavailable(self._options.parser, server_argv, error.ended)
            outcome.result = LaunchResult(
                status or f"{error.kind}: server on {self._server_node.name}: {error}", BlamedSide.SERVER
            )
        except HostLost as error:
            lost = self._server_node if self._server_node.lost else self._client_node
            blame = BlamedSide.SERVER if lost is self._server_node else BlamedSide.CLIENT
            outcome.result = LaunchResult(f"failed: {error}", blame)
            await self.abort()
        outcome.seconds = outcome.client.seconds if outcome.client else time.monotonic() - began
        outcome.server_output = self._server_output
        if outcome.client:
            outcome.result = cut(outcome.result, outcome.client.output, BlamedSide.CLIENT)
        server = f"server on {self._server_node.name}: "
        outcome.result = cut(outcome.result, outcome.server_output, BlamedSide.SERVER, server)
        return outcome

    async def finish(self) -> Output:
        """End the server; what it printed at last."""
        self._server_output = Output.of()
        with contextlib.suppress(HostLost):
            if self._server and not self._options.killserver and not self._server.ended.done():
                await self._await_server_end(SERVER_END_S)
                if not self._server.ended.done():
                    tool, host = tool_of(self._server.argv), self._server_node.name
                    self.note = (
                        f"{tool} on {host} had not ended {SERVER_END_S:g} s after the last client and was "
                        "ended (--killserver does so at once)"
                    )
            await self._stop_server()
        return self._server_output

    async def abort(self) -> None:
        """End the client, then the server, whatever they are doing."""
        for node in (self._client_node, self._server_node):
            with contextlib.suppress(HostLost):
                tool = self._client_running if node is self._client_node else self._server
                if tool and node.lost is None:
                    ended = await node.stop(tool)
                    if node is self._server_node:
                        self._server_output.add(ended.output)
        self._client_running = self._server = None

    # -- the server ----------------------------------------------------------------------------------

    async def _ready_server(self, argv: tuple[str, ...]) -> None:
        """A server with this command line that listens; the running one, if it still does."""
        if self._server and (self._server.argv != argv or self._server.ended.done()):
            await self._stop_server()
            self._server_output = Output.of()
        if self._server is None:
            options = self._options
            self._server = await self._server_node.start_server(
                argv, options.server_cpus, options.ready_timeout, options.ready_after
            )
            self._datagrams = self._server.datagrams
            if self._one_shot is None:
                self._one_shot = ends_by_itself(argv)

    async def _stop_server(self) -> None:
        if self._server:
            server, self._server = self._server, None
            signum = _STOP_SIGNALS.get(tool_of(server.argv), signal.SIGTERM)
            ended = await self._server_node.stop(server, signum)
            self._server_output.add(ended.output)

    async def _await_server_end(self, limit_s: float) -> None:
        assert self._server
        await asyncio.wait({self._server.ended}, timeout=limit_s)

    # -- the client ----------------------------------------------------------------------------------

    async def _client(self, outcome: StepOutcome) -> LaunchResult:
        options, server = self._options, self._server
        assert server
        try:
            client = await self._client_node.start_client(outcome.argv, options.client_cpus, options.timeout)
        except CannotRun as error:
            await self._after_step()
            return LaunchResult(
                f"{error.kind}: client on {self._client_node.name}: {error}", BlamedSide.CLIENT
            )
        self._client_running = client
        outcome.placement["client_cpus"] = client.cpus
        server_died = await self._until_client_ends(client, server)
        ended = await self._client_node.stop(client) if server_died else client.ended.result()
        self._client_running, outcome.client = None, ended
        datagrams, failure = await self._server_after(server, client_ok=ended.exit == 0 and not server_died)
        outcome.observed = join(
            [(self._server_node.name, self._server_observed), (self._client_node.name, ended.observed)]
        )
        result = judge_launch(options.parser, outcome.argv, ended, datagrams)
        if ended.timed_out:
            return LaunchResult(f"{result.status} of {options.timeout:g} s", result.blame, result.readings)
        if failure or server_died:
            status = f"failed: server on {self._server_node.name}: {failure or 'it ended in mid-step'}"
            return LaunchResult(status, BlamedSide.SERVER, result.readings)
        return result

    async def _until_client_ends(self, client: RunningTool, server: RunningTool) -> bool:
        """Wait for the client; True if the server ended and left it alone."""
        limit_s = self._options.timeout + 10.0  # the agent keeps the limit; this is for one that cannot
        await asyncio.wait({client.ended, server.ended}, timeout=limit_s, return_when=asyncio.FIRST_COMPLETED)
        if client.ended.done():
            return False
        if not server.ended.done():
            await self._client_node.stop(client)
            return False
        if server.ended.result().exit == 0:
            await asyncio.wait({client.ended}, timeout=CLIENT_AFTER_SERVER_S)
        return not client.ended.done()

    async def _server_after(self, server: RunningTool, client_ok: bool) -> tuple[int, str]:
        """UDP datagrams that the server's host received in this step, and how the server failed if it did."""
        if not server.ended.done():
            if self._one_shot and client_ok:
                await self._await_server_end(SERVER_END_S)
            elif self._one_shot is None and self._learn and client_ok:
                await self._await_server_end(LEARN_S)
                self._one_shot = server.ended.done()
        if not server.ended.done():
            output, total, self._server_observed = await self._server_node.state()
            self._server_output.add(output)
            received, self._datagrams = total - self._datagrams, total
        if not server.ended.done():
            await self._after_step()
            return received, ""
        ended = server.ended.result()
        self._server, self._server_observed = None, ended.observed
        self._server_output.add(ended.output)
        received = ended.datagrams - self._datagrams
        if ended.exit == 0:
            return received, ""
        return received, how_it_ended(tool_of(server.argv), ended.exit, self._server_output)

    async def _after_step(self) -> None:
        """A server for one client must not meet the next one."""
        if self._server and (self._options.server_per_step or self._one_shot):
            await self._stop_server()
