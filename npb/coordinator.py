"""The coordinator: one process on the first node that plans, conducts and records the measurements.

It talks to every agent over one TCP connection each and sleeps while tools run.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import signal
import socket
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from npc import parsers
from npc.errors import InvalidUsage
from npc.files import cannot_write
from npc.jobs.rounds import Rounds
from npc.machine.load import watch_s
from npc.npb import addresses, cluster, placement, sweep
from npc.npb.interfaces import HostView
from npc.npb.launch_result import RAW, BlamedSide, LaunchResult, parser_of
from npc.npb.measure import PairMeasurement, StepOutcome
from npc.npb.nodes import AgentReception, HostLost, Node
from npc.npb.options import DRAW_SEED, LauncherOptions
from npc.npb.results import Results
from npc.npb.sweep import SweepStep
from npc.processes import die_with_parent
from npc.records.build import swept_size
from npc.records.launch import now, tool_of
from npc.records.reading import OK, Reading
from npc.statistics.precision import Goal
from npc.terminal import guard

if TYPE_CHECKING:
    from npc.machine.fabric import Topology

USAGE: Final = 2
PARTLY: Final = 6


class AttemptPlace(NamedTuple):
    """Where a measurement stands among all of its pair."""

    #: Number of its round; None if it belongs to none.
    round: int | None
    #: 0, or 1 if it is a repetition.
    attempt: int


class NothingMeasurable(Exception):
    """Nothing can be measured: the text says why, for the person at the terminal."""


def run_coordinator(
    options: LauncherOptions,
    views: Sequence[HostView],
    listeners: Sequence[socket.socket],
    own: socket.socket,
    secret: bytes,
    agent_pid: int,
) -> int:
    """Be the coordinator until everything is measured, shown and ended.

    views: the hosts by rank. listeners: where their agents come to, own: the connection to this node's agent.
    secret: as in `npc.npb.handshake`.
    """
    die_with_parent(signal.SIGTERM)
    if os.getppid() != agent_pid:
        return 1
    people = options.format == "table"
    guard(*(placement.ends_at_terminal(stream, or_else=people) for stream in (1, 2)))
    conductor = Conductor(options, [view.name for view in views])
    code = asyncio.run(conductor.conduct(AgentReception(views, secret, conductor.interrupt), listeners, own))
    if 0 in conductor.silent and os.getppid() == agent_pid:
        os.kill(agent_pid, signal.SIGKILL)  # stopped, it would keep its rank, and with it the whole job
    return code


class Conductor:
    """Conducts one run of npb from the agents' hellos to their good-byes."""

    def __init__(self, options: LauncherOptions, hosts: Sequence[str]) -> None:
        self._options = options
        self._hosts = hosts
        self._nodes: dict[int, Node] = {}
        self._work: asyncio.Task[None] | None = None
        self._signal = 0
        self._out_of_time = False
        self._results: Results | None = None
        self._seed: int | None = None
        self._labels = cluster.labels(hosts) if options.pairs else list(hosts)
        self._topology: Topology | None = None
        self._attempts: list[cluster.PairAttempt] = []
        self._notes: set[str] = set()
        self._table: dict[str, str] | None = None
        #: Ranks whose agents did not answer, known at the end.
        self.silent: set[int] = set()

    async def conduct(
        self, reception: AgentReception, listeners: Sequence[socket.socket], own: socket.socket
    ) -> int:
        """Everything; returns npb's exit code."""
        loop = asyncio.get_running_loop()
        for signum in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            loop.add_signal_handler(signum, self.interrupt, signum)
        try:
            self._nodes = await reception.gather(listeners, own, limit_s=30.0)
        except OSError:  # this node's agent has ended, mostly by the signal that is on its way here
            await asyncio.sleep(0.1)
            print("npb: stopped before anything was measured", file=sys.stderr, flush=True)
            return 128 + self._signal if self._signal else 1
        self._work = asyncio.ensure_future(self._measure())
        if self._signal:
            self._work.cancel()
        try:
            try:
                await asyncio.wait_for(self._work, self._options.total_timeout)
            except asyncio.TimeoutError:
                self._out_of_time = True
            except asyncio.CancelledError:
                pass
            code = self._finish()
        except (NothingMeasurable, OSError) as problem:
            why = _cannot_write(problem) if isinstance(problem, OSError) else problem
            print(f"npb: {why}", file=sys.stderr, flush=True)
            code = USAGE
        await self._dismiss(code)
        return code

    def interrupt(self, signum: int) -> None:
        """End what is measured, in order."""
        if not self._signal:
            self._signal = signum
            if self._work:
                self._work.cancel()

    async def _dismiss(self, code: int) -> None:
        """Rank 0 ends last, so that its exit code is the one that the launcher sees first."""
        lost = len(self._nodes) < len(self._hosts) or any(node.lost for node in self._nodes.values())
        await asyncio.gather(*(node.leave(0) for rank, node in self._nodes.items() if rank != 0))
        if 0 in self._nodes:
            await self._nodes[0].leave(code, end_launcher=lost)
        for rank, node in self._nodes.items():
            if node.silent:
                self.silent.add(rank)
                print(f"npb: the agent of rank {rank}: {node.lost}", file=sys.stderr, flush=True)

    # -- measuring -----------------------------------------------------------------------------------

    async def _measure(self) -> None:
        steps = self._plan()
        self._options = options = self._options._replace(parser=self._parser())
        self._check_cpus("--server-cpus", options.server_cpus, 0)
        self._check_cpus("--client-cpus", options.client_cpus, 1)
        self._table = self._address_table()
        for node in self._nodes.values():
            node.watch = self._watches()
        await (self._measure_pairs(options.pairs, steps) if options.pairs else self._measure_one(steps))

    async def _measure_one(self, steps: Sequence[SweepStep]) -> None:
        """Rank 0 serves rank 1; without either there is nothing to measure."""
        if len(self._hosts) > 2:
            raise NothingMeasurable(
                f"{len(self._hosts)} processes were started, one pair needs two; --pairs measures many"
            )
        for rank, host in enumerate(self._hosts):
            if rank not in self._nodes:
                raise NothingMeasurable(
                    f"the agent of rank {rank} on {host} did not come to {self._hosts[0]} (a firewall?)"
                )
        try:
            address = await self._address(self._nodes[0], self._nodes[1])
        except (addresses.NoAddress, HostLost) as error:
            raise NothingMeasurable(str(error)) from None
        if self._options.runs is not None:
            self._results = self._open_results(len(steps))
            await self._steps(0, 1, address, steps, len(steps), AttemptPlace(None, 0))
            return
        rounds = Rounds([None] * len(steps), self._goal(), self._options.benchmark or self._tool())
        self._results = results = self._open_results(rounds.planned)
        turns = (
            replace(steps[place], sample=sample) for place, sample in rounds.turns(results.expect, self._seed)
        )
        await self._steps(0, 1, address, turns, rounds.planned, AttemptPlace(None, 0), rounds.tell)

    async def _measure_pairs(self, which: str, steps: Sequence[SweepStep]) -> None:
        """All rounds, then the worst pairs once more, then the verdict."""
        from npc.machine import fabric
        from npc.npb import schedule  # not needed, and not paid for, by one pair

        options = self._options
        if options.runs is None:
            raise NothingMeasurable("--runs auto measures one pair; --pairs takes a number")
        try:
            self._topology = fabric.load(options.topology) if options.topology else None
            plan = schedule.schedule(which, self._labels, seed=self._seed, serial=options.serial)
        except (schedule.InvalidPattern, fabric.InvalidTopology) as error:
            raise NothingMeasurable(str(error)) from None
        self._results = self._open_results(plan.pairs * len(steps), plan.seed)
        for run in range(options.runs):
            of_run = [step for step in steps if step.sample == run]
            for number, pairs in enumerate(plan.of_run(run)):
                await self._round(pairs, of_run, AttemptPlace(run * len(plan) + number, 0))
                if options.fail_fast and self._any_failed():
                    return
        if len(self._hosts) > 2:
            await self._repeat_worst([step for step in steps if step.sample == 0])

    async def _repeat_worst(self, steps: Sequence[SweepStep]) -> None:
        from npc.npb.schedule import disjoint_rounds

        ranks = {label: rank for rank, label in enumerate(self._labels)}
        names = cluster.pairs_to_repeat(cluster.by_series(self._attempts), self._topology)
        pairs = [(ranks[server], ranks[client]) for server, client in names]
        serial = self._options.serial
        for disjoint in [[pair] for pair in pairs] if serial else disjoint_rounds(pairs):
            await self._round(disjoint, steps, AttemptPlace(None, 1))

    async def _round(
        self, pairs: Sequence[tuple[int, int]], steps: Sequence[SweepStep], place: AttemptPlace
    ) -> None:
        """Disjoint pairs at once; the round ends with its slowest pair."""
        measured = await asyncio.gather(
            *(self._pair(server, client, steps, place) for server, client in pairs),
            return_exceptions=True,  # else one pair that is cut short would not wait for the others' ends
        )
        for problem in measured:
            if problem is not None:
                raise problem

    async def _pair(self, server: int, client: int, steps: Sequence[SweepStep], place: AttemptPlace) -> None:
        """One pair of many: what is wrong with it is recorded, and the rest goes on."""
        try:
            for rank in (server, client):
                if rank not in self._nodes:
                    raise HostLost(f"{self._labels[rank]} never came")
                if lost := self._nodes[rank].lost:
                    raise HostLost(lost)
            address = await self._address(self._nodes[server], self._nodes[client])
        except (HostLost, addresses.NoAddress) as error:
            result = LaunchResult(f"unavailable: {error}", BlamedSide.SERVER)
            self._add(StepOutcome(steps[0], steps[0].client, now(), result), server, client, place)
            return
        await self._steps(server, client, address, steps, len(steps), place)

    async def _steps(
        self,
        server: int,
        client: int,
        address: str,
        steps: Iterable[SweepStep],
        number_of_steps: int,
        place: AttemptPlace,
        tell: Callable[[float, Sequence[Reading] | None], None] | None = None,
    ) -> None:
        """Measure the steps on one pair and write down each as it ends, the interrupted one, too.

        tell: hears how long each took and what was read, None where it failed, before the next is asked for.
        """
        assert self._results
        nodes = self._nodes[server], self._nodes[client]
        measurement = PairMeasurement(*nodes, address, self._options, number_of_steps)
        number, step, began = None, None, now()
        try:
            for step in steps:
                began = now()
                outcome = await measurement.step(step)
                number = self._add(outcome, server, client, place)
                if tell:
                    worked = outcome.result.status == OK
                    tell(outcome.seconds, outcome.result.readings if worked else None)
                failed = self._options.fail_fast and outcome.result.status != OK
                if failed or any(node.lost for node in nodes):  # what is lost does not come back
                    break
            output = await measurement.finish()
        except asyncio.CancelledError:
            await measurement.abort()
            if step:
                result = LaunchResult(*self._why_cut_short())
                self._add(StepOutcome(step, step.client, began, result), server, client, place)
            raise
        if number is not None:
            self._results.add_server_output(number, output)
            if output.cut:
                print(f"npb: the server's last {output.cut}", file=sys.stderr)
        if measurement.note and measurement.note not in self._notes:
            self._notes.add(measurement.note)
            print(f"npb: {measurement.note}", file=sys.stderr)

    def _add(self, outcome: StepOutcome, server: int, client: int, place: AttemptPlace) -> int:
        assert self._results
        names = (self._labels[server], self._labels[client])
        number = self._results.add(outcome, names, {"attempt": str(place.attempt)} if place.attempt else {})
        if self._options.pairs:
            size = swept_size(outcome.step.values)
            self._attempts.append(
                cluster.PairAttempt(*names, place.round, place.attempt, outcome.result, size)
            )
        return number

    def _any_failed(self) -> bool:
        assert self._results
        return any(launch.status != OK for launch in self._results.launches)

    def _why_cut_short(self) -> tuple[str, BlamedSide]:
        if self._signal:
            return f"failed: interrupted by {signal.Signals(self._signal).name}", BlamedSide.CLIENT
        return (
            f"timeout: the whole run reached its limit of {self._options.total_timeout:g} s",
            BlamedSide.TIME,
        )

    # -- preparing -----------------------------------------------------------------------------------

    def _plan(self) -> list[SweepStep]:
        options = self._options
        try:
            steps = sweep.plan(options.servercmd, options.clientcmd, options.repeat, options.runs or 1)
        except sweep.BadRepeat as error:
            raise NothingMeasurable(str(error)) from None
        if options.shuffle is not None:
            any_seed = options.shuffle == DRAW_SEED
            self._seed = random.SystemRandom().randrange(2**31) if any_seed else options.shuffle
            if options.runs is not None:  # else each round is
                random.Random(self._seed).shuffle(steps)
        return steps

    def _goal(self) -> Goal:
        options = self._options
        limits: dict[str, Any] = {"precision": options.precision, "most": options.samples_max}
        limits["case_s"] = options.case_time
        try:
            return Goal(**{name: value for name, value in limits.items() if value is not None})
        except ValueError as error:
            raise NothingMeasurable(str(error)) from None

    def _parser(self) -> str:
        known = parsers.names()
        name = self._options.parser or parser_of(self._options.clientcmd, known)
        if name != RAW and name not in known:
            raise NothingMeasurable(f"there is no parser {name!r}; there are: raw, {', '.join(known)}")
        return name

    def _check_cpus(self, option: str, cpus: frozenset[int], rank: int) -> None:
        """The job must have the CPUs that an option names wherever they are used."""
        try:
            for node in self._nodes.values():
                if self._options.pairs or node.rank == rank:
                    placement.within(cpus, node.cpus, node.name)
        except ValueError as error:
            raise NothingMeasurable(f"{option}: {error}") from None

    def _watches(self) -> bool:
        """Whether to look what others compute: not where several pairs share a node, whose tools would be
        others to each other."""
        try:
            return watch_s() > 0 and len(self._hosts) in (2, len(set(self._hosts)))
        except InvalidUsage as error:
            raise NothingMeasurable(str(error)) from None

    def _address_table(self) -> dict[str, str] | None:
        path = self._options.hostfile_addresses
        try:
            return addresses.read_table(Path(path)) if path else None
        except (OSError, ValueError) as error:
            raise NothingMeasurable(f"--hostfile-addresses: {error}") from None

    async def _address(self, server: Node, client: Node) -> str:
        """What stands for HOSTNAME. Raises `npc.npb.addresses.NoAddress`, `HostLost`."""
        options = self._options
        looked_up: dict[str, list[str]] = {}
        if self._table is None and options.interface is None:
            looked_up = await client.look_up(addresses.names_to_try(server.view, options.replace_host))
        return addresses.choose(
            server.view,
            client.view,
            looked_up,
            interface=options.interface,
            replace=options.replace_host,
            table=self._table,
        )

    def _tool(self) -> str:
        """Who reads the launches later looks for a parser of this name: perftest's for ib_write_bw."""
        options = self._options
        return tool_of(options.clientcmd) if options.parser == RAW else options.parser

    def _open_results(self, planned: int, seed: int | None = None) -> Results:
        options, tool = self._options, self._tool()
        try:
            return Results(
                Path(options.output) if options.output else None,
                tool,
                planned,
                self._seed if seed is None else seed,
                options.platform or self._hosts[0],
                options.benchmark or tool,
            )
        except FileExistsError:
            raise NothingMeasurable(f"{options.output} holds launches already; name another folder") from None
        except OSError as error:
            raise NothingMeasurable(_cannot_write(error)) from None

    # -- the end -------------------------------------------------------------------------------------

    def _finish(self) -> int:
        if self._results:
            folder = self._results.close()
            with contextlib.suppress(BrokenPipeError):
                self._results.show(self._options.format)
                self._localise()
            self._results.remove_needless()
            if folder and not self._options.output:
                print(f"npb: a step failed; everything is kept in {folder}", file=sys.stderr, flush=True)
        if self._signal:
            return 128 + self._signal
        if self._out_of_time:
            return BlamedSide.TIME.value
        blames = self._results.blames() if self._results else []
        failed = [blame for blame in blames if blame is not BlamedSide.NONE]
        if not failed:
            return 0
        return failed[0].value if len(failed) == len(blames) else PARTLY

    def _localise(self) -> None:
        """Say who is to blame among many nodes, and draw it."""
        assert self._results
        series = cluster.by_series(self._attempts) if len(self._hosts) > 2 else {}
        if not series:
            return
        localisations = cluster.localise_all(
            series, self._topology, self._labels, self._options.parser, self._results.launches
        )
        words = sys.stdout if self._options.format == "table" else sys.stderr
        for measured, localisation in localisations.items():
            print(cluster.describe(measured, localisation), file=words)
        print(cluster.rules(localisations.values()), file=words, flush=True)
        picture = Path(self._options.heatmap) if self._options.heatmap else None
        if self._options.output:
            cluster.save(localisations, self._results.folder)
            picture = picture or self._results.folder / "heatmap.png"
        if picture and not self._signal:  # who ends npb does not wait for pictures
            from npc.figures.source import day_text

            times = [launch.started for launch in self._results.launches]
            source = f"pairs {self._options.pairs}: {' '.join(self._options.clientcmd)}; "
            source += f"measured {day_text(min(times), max(times))}"
            cluster.draw(series, localisations, picture, source, self._topology)


def _cannot_write(error: OSError) -> str:
    return cannot_write(Path(error.filename), error) if error.filename else f"cannot write: {error.strerror}"
