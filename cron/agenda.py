"""The agenda of a night: its parts one after the other, from what the history and Slurm say of the nodes.

`npc.cron.rotation` chooses; here is what it is told, and what becomes of its choice: ``npc characterise`` of
a benchmark, of the node benchmarks on some nodes (each in a job of its own), and of the test between two of
them. Slurm's node names and the hosts of the records are compared without their domains.
"""

from __future__ import annotations

import math
import os
import re
from bisect import bisect_left
from collections import deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, count, pairwise
from pathlib import Path
from typing import Final

from npc.cron.costs import RunCosts
from npc.cron.matrix import PAIRS, settings_of, words_of
from npc.cron.rotation import (
    NODES,
    NodeNights,
    NodeState,
    WorkItem,
    choose,
    couples,
    expected,
    fitting,
    quota,
)
from npc.jobs import slurm
from npc.jobs.jube_file import step_names
from npc.jobs.scheduler import SchedulerUnavailable
from npc.jobs.suite import benchmark_file, default_of, settings
from npc.machine.fabric import expand, natural, short_name
from npc.machine.facts import odd_ones, read_environments
from npc.places import suite
from npc.records.history import History, LastMeasured
from npc.records.journal import JournalEntry, Part
from npc.records.launch import ENVIRONMENT
from npc.records.record import OK
from npc.records.units import format_duration
from npc.records.verdicts import (
    Coverage,
    NightDocument,
    PostponedBenchmark,
    UnmeasuredNode,
    Verdict,
    last_night,
)

#: The benchmarks of a node by itself.
NODE_BENCHMARKS: Final = ("stream", "likwid")
#: The first measurement of a night.
FIRST: Final = "first"
#: Jobs of the rotation that are in the queue at once; groups of nodes on which a night measures again.
AT_ONCE: Final = 8
#: What sbatch says where a limit on submitted jobs is reached, by its name or in its general words
#: (ESLURM_ACCOUNTING_POLICY).
_SUBMIT_LIMIT: Final = re.compile(r"SubmitJobs?\w*Limit|job submit limit")
#: Nights in which measuring again has cost most of all that is kept for it.
RESERVE_NIGHTS: Final = 7


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRotation:
    """The rotation over all nodes. within: nights in which it comes to each. at_once: its jobs in the queue.
    benchmarks: those of a node by itself, folders in ``benchmarks/`` or JUBE files."""

    within: int = 14
    at_once: int = AT_ONCE
    benchmarks: tuple[str, ...] = NODE_BENCHMARKS


def node_states(platform: Path, words: Sequence[str]) -> dict[str, slurm.SlurmNode]:
    """The nodes of the partition that the words of ``npc characterise``, or the platform, ask for.

    Raises `npc.jobs.scheduler.SchedulerUnavailable`, and FileNotFoundError without Slurm's commands.
    """
    asked = settings_of(words).get("queue") or os.environ.get("NPC_QUEUE") or default_of(platform, "queue")
    found = slurm.nodes(asked or slurm.default_partition())
    return {name: found[name] for name in sorted(found, key=natural)}


def states_of(nodes: Mapping[str, slurm.SlurmNode]) -> dict[str, NodeState]:
    """What the rotation has to know of them."""
    return {name: NodeState(node.takes_jobs, node.idle) for name, node in nodes.items()}


def parts_of_nodes(
    number: int, turn: Iterable[tuple[str, ...]], each: NodeRotation, platform: Path, words: Sequence[str]
) -> list[Part]:
    """The measurements of some couples of nodes: a part a node benchmark, and one for the tests between.

    Each job has nodes of its own, so they may run at the same time, but the tests between nodes, which share
    a network: these come one after the other where the platform sees to it (``dependency``).
    """
    turn = list(turn)
    nodes = list(dict.fromkeys(node for couple in turn for node in couple))
    pairs = [couple for couple in turn if len(couple) == 2]
    home = suite()
    parts: list[Part] = []
    for benchmark in each.benchmarks:
        file = benchmark_file(home, benchmark)
        given = _kept_settings(words, home, platform, file)
        if "dependency" in settings(home, platform):
            given = {"dependency": "none", **given}
        given["nodelist"] = ";;".join(nodes)
        name = _unused_name(f"{NODES}-{number}-{'-'.join(step_names(file))}", parts)
        parts.append(Part(name=name, kind="first", words=words_of(file, given), hosts=tuple(nodes)))
    if pairs:
        given = _kept_settings(words, home, platform, home / PAIRS)
        given |= {"pairs_nodes": "2", "nodelist": ";;".join(map(",".join, pairs))}
        words = words_of(home / PAIRS, given)
        hosts = tuple(node for couple in pairs for node in couple)
        name = _unused_name(f"{NODES}-{number}-pairs", parts)
        parts.append(Part(name=name, kind="first", words=words, hosts=hosts))
    return parts


def _unused_name(name: str, parts: Sequence[Part]) -> str:
    """`name`, with a number behind it if a part has it: two files may have steps of the same names."""
    taken = {part.name for part in parts}
    return next(free for free in chain([name], (f"{name}-{n}" for n in count(2))) if free not in taken)


def odd_nodes(folders: Iterable[Path]) -> list[str]:
    """Which of the nodes that were measured below these folders are not like the others: less memory, a
    slower link, another governor."""
    jobs = (file for folder in folders for file in folder.rglob(f"work/{ENVIRONMENT}"))
    return odd_ones(read_environments(sorted(jobs)))


@dataclass(slots=True)
class Agenda:
    """What a night measures first, in order. nights: those before, as the journal has them.

    First the `whole`; then the plan: `choose` makes it, `next_parts` are measured until there are none, and
    `heard` is told what each has cost. spent_s: node time (s) that the night has taken so far. left: what was
    not measured. notes: for people.
    """

    platform: Path
    history: History
    words: tuple[str, ...] = ()
    nights: Sequence[JournalEntry] = ()
    budget_s: float | None = None
    each_node: NodeRotation | None = None
    spent_s: float = 0.0
    notes: list[str] = field(default_factory=list)
    left: list[WorkItem] = field(default_factory=list)
    _waiting: deque[WorkItem] = field(default_factory=deque)
    _turn: list[WorkItem] = field(default_factory=list)
    _turns: int = 0
    _benchmarks: Mapping[str, Part] = field(default_factory=dict)
    _nodes: dict[str, slurm.SlurmNode] = field(default_factory=dict)
    _places: list[LastMeasured] = field(default_factory=list)
    _too_many: set[str] = field(default_factory=set)
    _repeated: list[WorkItem] = field(default_factory=list)
    _last: NightDocument | None = None

    def whole(self) -> list[Part]:
        """All benchmarks in one part; nothing where a budget chooses among them."""
        return [Part(name=FIRST, kind="first", words=self.words)] if self.budget_s is None else []

    def choose(self) -> None:
        """Plan the benchmarks that the budget reaches, and the nodes whose turn it is."""
        if self.budget_s is None and self.each_node is None:
            return
        self._places = self.history.places()
        try:
            self._last = last_night(self.history.folder)
        except (OSError, ValueError) as error:
            self.notes.append(f"whom the last night suspects is not known: {error}")
        benchmarks = {} if self.budget_s is None else self._parts_of_benchmarks()
        works = [*self._of_benchmarks(benchmarks), *self._of_nodes()]
        chosen, self.left = choose(works, self.budget_s, self._reserve_s())
        self.plan(chosen, benchmarks)

    def plan(self, works: Iterable[WorkItem], benchmarks: Mapping[str, Part]) -> None:
        """Measure these works, in this order. benchmarks: by name the parts of those on any nodes."""
        self._waiting, self._benchmarks = deque(works), benchmarks

    def next_parts(self) -> list[Part]:
        """What to measure next, as far as the budget goes; empty at the end of the plan."""
        self._waiting.extend(self._refused(self._turn))
        self._turn = []
        while self._waiting:
            self._turns += 1
            batch = self._batch(self._waiting)
            left_s = math.inf if self.budget_s is None else self.budget_s - self.spent_s
            self._turn = fitting(batch, left_s) if left_s > 0 else []
            self.left += [work for work in batch if work not in self._turn]
            if self._turn:
                return self._parts_of(self._turn)
        return []

    def no_time(self) -> None:
        """Leave out what was to be measured now, and all that is behind it."""
        self.left += [*self._turn, *self._waiting]
        self._waiting.clear()
        self._turn = []

    def _parts_of(self, works: Sequence[WorkItem]) -> list[Part]:
        if not works[0].nodes:
            return [self._benchmarks[works[0].name]]
        assert self.each_node is not None
        turn = [work.nodes for work in works]
        return parts_of_nodes(self._turns, turn, self.each_node, self.platform, self.words)

    def heard(self, account: RunCosts) -> None:
        """What a part has cost, and why it measured nothing on which groups of nodes.

        Where Slurm took only some of its jobs, as the limit on submitted jobs was reached, no more than these
        are submitted at once from now on, and the others again behind them.
        """
        self.spent_s += sum(cost.node_s for cost in account.costs.values())
        too_many = [place for place, reason in account.unmeasured.items() if _SUBMIT_LIMIT.search(reason)]
        if too_many and self.each_node:
            taken = max((cost.places for cost in account.costs.values()), default=0)
            self.each_node = replace(self.each_node, at_once=max(1, taken))
            self._too_many.update(node for place in too_many for node in expand(place))

    def _refused(self, works: Iterable[WorkItem]) -> list[WorkItem]:
        """Those of the works whose jobs were too many for Slurm; each comes a second time only."""
        again = [work for work in works if not self._too_many.isdisjoint(work.nodes)]
        again = [work for work in again if work not in self._repeated]
        self._repeated += again
        self._too_many.clear()
        return again

    def affords(self, benchmark: str, places: int = 1) -> bool:
        """Whether the budget is enough for measuring a benchmark on some groups of nodes now."""
        if self.budget_s is None:
            return True
        return self.spent_s + (expected(self._costs(), {benchmark: places}) or 0.0) <= self.budget_s

    def postponed(self) -> tuple[PostponedBenchmark, ...]:
        """The benchmarks that the budget did not reach, the one that has waited longest first."""
        return tuple(
            PostponedBenchmark(benchmark=name, since=self._name(work.last), suspect=work.suspect)
            for work in sorted(self.left, key=lambda work: work.last)
            for name in (() if work.nodes else work.name.split())
        )

    def told(self) -> list[str]:
        """Notes for people: what the budget did, and how far the rotation is."""
        notes = list(self.notes)
        if self.budget_s is not None:
            of = f"{format_duration(self.spent_s)} of {format_duration(self.budget_s)} node time spent"
            left = [f"{each.benchmark} ({_since(each.since)})" for each in self.postponed()]
            waiting = [node for work in self.left for node in work.nodes]
            left += [f"{len(waiting)} nodes whose turn it was"] if waiting else []
            notes.append(f"budget: {of}" + (f"; left out: {', '.join(left)}" if left else ""))
            notes += self._out_of_reach()
        return notes

    def coverage(self, tonight: JournalEntry) -> Coverage | None:
        """Which nodes were measured in the last nights, tonight among them, and which not, and why."""
        if self.each_node is None or not self._nodes:
            return None
        nights = [*self.nights, tonight]
        self._places = self.history.places()
        recent = {night.name for night in nights[-self.each_node.within :]}
        last = self._measured(self._known_benchmarks())
        why = self._unusable(recent) | _reasons(nights)
        unmeasured = []
        for name, node in self._nodes.items():
            if last.get(short_name(name), "") in recent:
                continue
            reason = why.get(short_name(name), "its turn has not come")
            if not node.takes_jobs:
                reason = str(node)
            elif not node.idle and short_name(name) not in why:
                reason = f"busy ({node})"
            unmeasured.append(UnmeasuredNode(node=name, last=last.get(short_name(name), ""), why=reason))
        return Coverage(within=self.each_node.within, nodes=len(self._nodes), unmeasured=tuple(unmeasured))

    # -- what the rotation is told -------------------------------------------------------------------------

    def _parts_of_benchmarks(self) -> dict[str, Part]:
        """Each benchmark that the words name as a part of its own."""
        words, home = self.words, suite()
        if "--benchmark" in words:
            name = " ".join(self._steps_of(words))
            return {name: Part(name=FIRST, kind="first", words=words)}
        return {
            name: Part(name=f"{FIRST}-{name}", kind="first", words=(*words, "--benchmark", name))
            for name in step_names(home / "jube.yml", _tags(words))
        }

    def _steps_of(self, words: Sequence[str]) -> list[str]:
        """The benchmarks in the file that the words name."""
        return step_names(benchmark_file(suite(), words[words.index("--benchmark") + 1]), _tags(words))

    def _of_benchmarks(self, parts: Mapping[str, Part]) -> list[WorkItem]:
        last: dict[str, int] = {}
        for place in self._places:
            last[place.benchmark] = max(self._number(place.run), last.get(place.benchmark, -1))
        for number, night in enumerate(self.nights):  # what failed on no host at all has been tried, too
            last |= {
                name: max(number, last.get(name, -1)) for each in night.parts.values() for name in each.costs
            }
        costs, suspects = self._costs(), self._suspects()[0]
        works = []
        for name, part in parts.items():
            inside = self._steps_of(part.words)
            works.append(
                WorkItem(
                    name=name,
                    last=min((last.get(step, -1) for step in inside), default=-1),
                    suspect=not suspects.isdisjoint(inside),
                    cost_s=expected(costs, dict.fromkeys(inside, 1)),
                )
            )
        return works

    def _of_nodes(self) -> list[WorkItem]:
        if self.each_node is None:
            return []
        try:
            self._nodes = node_states(self.platform, self.words)
        except (SchedulerUnavailable, FileNotFoundError) as words:
            self.notes.append(f"no node was chosen: Slurm does not say which there are: {words}")
            return []
        if not self._nodes:
            self.notes.append("no node was chosen: Slurm knows none in this partition")
        short = {short_name(name): name for name in self._nodes}
        last = self._measured(self._known_benchmarks())
        tried: dict[str, int] = {}
        met: dict[frozenset[str], int] = {}
        for place in self._places:
            hosts = [short[short_name(host)] for host in place.hosts if short_name(host) in short]
            if len(hosts) == len(place.hosts) == 2:
                met[frozenset(hosts)] = max(self._number(place.run), met.get(frozenset(hosts), -1))
        for number, night in enumerate(self.nights):
            parts = (each.part for each in night.parts.values() if each.part.name.startswith(f"{NODES}-"))
            tried |= {node: number for part in parts for node in part.hosts}
        past = NodeNights(
            tonight=len(self.nights),
            measured={short[node]: self._number(night) for node, night in last.items() if node in short},
            tried=tried,
            met=met,
            suspects={short[node] for node in self._suspects()[1] if node in short},
        )
        return couples(states_of(self._nodes), past, self.each_node.within, self._couple_cost_s())

    def _couple_cost_s(self) -> float | None:
        return expected(self._costs(), dict.fromkeys(self._node_steps(), 2) | {"pairs": 1})

    def _batch(self, waiting: deque[WorkItem]) -> list[WorkItem]:
        """Take the first work, with as many couples of nodes behind it as may be in the queue at once."""
        most = max(1, (self.each_node or NodeRotation()).at_once // 2)
        batch = [waiting.popleft()]
        while waiting and batch[-1].nodes and waiting[0].nodes and len(batch) < most:
            batch.append(waiting.popleft())
        return batch

    def _costs(self) -> dict[str, list[float]]:
        """By benchmark its node time (s) on one group of nodes, a value a night."""
        costs: dict[str, list[float]] = {}
        for night in self.nights:
            tonight: dict[str, list[tuple[float, int]]] = {}
            for progress in night.parts.values():
                if progress.part.kind == "first":
                    for name, cost in progress.costs.items():
                        tonight.setdefault(name, []).append(cost)
            for name, found in tonight.items():
                costs.setdefault(name, []).append(sum(s for s, _ in found) / sum(n for _, n in found))
        return costs

    def _reserve_s(self) -> float:
        """What measuring again took in the dearest of the last nights."""
        return max(
            (
                sum(
                    s
                    for each in night.parts.values()
                    if each.part.kind != "first"
                    for s, _ in each.costs.values()
                )
                for night in self.nights[-RESERVE_NIGHTS:]
            ),
            default=0.0,
        )

    def _suspects(self) -> tuple[set[str], set[str]]:
        """Benchmarks and nodes that the last night's verdict says something bad of, or left out as such."""
        if self._last is None:
            return set(), set()
        benchmarks = {each.benchmark for each in self._last.series if each.verdict is not Verdict.PASS}
        benchmarks |= {each.benchmark for each in self._last.postponed if each.suspect}
        nodes = {node for each in self._last.suspects if each.grave for node in each.nodes}
        return benchmarks, set(map(short_name, nodes))

    def _node_steps(self) -> list[str]:
        assert self.each_node is not None
        files = (benchmark_file(suite(), benchmark) for benchmark in self.each_node.benchmarks)
        return [step for file in files for step in step_names(file)]

    def _known_benchmarks(self) -> set[str]:
        """Those of the rotation that were ever tried: what is not installed anywhere does not count."""
        ours = {*self._node_steps(), "pairs"}
        return {
            place.benchmark for place in self._places if not place.status.startswith("unavailable: ")
        } & ours

    def _measured(self, benchmarks: Collection[str]) -> dict[str, str]:
        """By node (without its domain) the last night by which all these benchmarks had measured it."""
        found: dict[str, dict[str, str]] = {}
        for place in self._places:
            for host in place.hosts if place.benchmark in benchmarks and place.status == OK else ():
                of_node = found.setdefault(short_name(host), {})
                of_node[place.benchmark] = max(place.run, of_node.get(place.benchmark, ""))
        return {
            node: min(nights.values())
            for node, nights in found.items()
            if len(nights) == len(set(benchmarks))
        }

    def _unusable(self, nights: Collection[str]) -> dict[str, str]:
        """By node (without its domain) what is wrong with the last useless record of these nights."""
        ours = {*self._node_steps(), "pairs"}
        return {
            short_name(host): f"{place.benchmark}: {place.status} (night {place.run})"
            for place in sorted(self._places, key=lambda place: place.run)
            if place.benchmark in ours and place.status != OK and place.run in nights
            for host in place.hosts
        }

    def _number(self, night: str) -> int:
        """The number of a night by its name; of one that the journal does not know, the next one's."""
        return bisect_left(self.nights, night, key=lambda each: each.name)

    def _name(self, number: int) -> str:
        return self.nights[number].name if 0 <= number < len(self.nights) else ""

    def _out_of_reach(self) -> list[str]:
        """Whether the budget is too small for the nights in which the rotation is to come to every node."""
        if self.each_node is None or self.budget_s is None:
            return []
        cost_s = self._couple_cost_s()
        usable = sum(node.takes_jobs for node in self._nodes.values())
        if cost_s is None or not usable:
            return []
        couples_a_night = int(self.budget_s // cost_s)
        if 2 * couples_a_night >= quota(usable, self.each_node.within):
            return []
        if not couples_a_night:
            reach = f"two nodes cost {format_duration(cost_s)}: more than the budget, so none is measured"
        else:
            nights = -(-usable // (2 * couples_a_night))
            reach = f"the budget is enough for {2 * couples_a_night} nodes a night, all of them in {nights}"
        return [f"{reach}: not every node in {self.each_node.within} nights"]


def _reasons(nights: Sequence[JournalEntry]) -> dict[str, str]:
    """By node (without its domain) why the last night that wanted to measure it did not."""
    found: dict[str, str] = {}
    for night in nights:
        parts = [each for each in night.parts.values() if each.part.kind == "first"]
        for node in {node for each in parts for node in each.part.hosts}:
            found.pop(short_name(node), None)
        for each in parts:
            for place, reason in each.unmeasured.items():
                found |= {short_name(node): f"{reason} (night {night.name})" for node in expand(place)}
    return found


def _tags(words: Sequence[str]) -> list[str]:
    return [tag for flag, tag in pairwise(words) if flag == "--tag"]


def _since(night: str) -> str:
    return f"measured last in night {night}" if night else "never measured"


def _kept_settings(words: Sequence[str], home: Path, platform: Path, file: Path) -> dict[str, str]:
    """The settings among the words that this benchmark knows, too."""
    known = settings(home, platform, file)
    return {name: value for name, value in settings_of(words).items() if name in known}
