"""The agenda of a night: its parts one after the other, from what the history and Slurm say of the nodes.

`npc.cron.rotation` chooses; here is what it chooses from, and what becomes of its choice: ``npc
characterise`` of a benchmark, of the node benchmarks on some nodes (each in a job of its own), and of the
test between two of them.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise, takewhile
from pathlib import Path
from typing import Final

from npc.cron.costs import RunCosts
from npc.cron.node_parts import PAIRS_STEP, NodeRotation, parts_of_nodes, slurm_nodes, states_of
from npc.cron.past_nights import PastNights
from npc.cron.rotation import (
    NodeNights,
    WorkItem,
    choose_within_budget,
    due_pairs,
    expected_cost_s,
    fitting,
    quota,
)
from npc.errors import InvalidUsage
from npc.files import InvalidFile
from npc.jobs.jube_file import step_names
from npc.jobs.scheduler import SchedulerUnavailable
from npc.jobs.slurm import SlurmNode
from npc.jobs.suite import benchmark_file
from npc.machine.fabric import Topology, short_name
from npc.places import suite
from npc.records.history import History
from npc.records.journal import JournalEntry, Part
from npc.records.units import format_duration
from npc.records.verdicts import (
    Coverage,
    NightDocument,
    PostponedBenchmark,
    UnmeasuredNode,
    Verdict,
    last_night,
)

#: The first measurement of a night.
FIRST: Final = "first"


@dataclass(slots=True)
class Agenda:
    """What a night measures first, in order.

    First the `whole_suite`; then what `plan_tonight` planned, several works at a time, so that one that waits
    for its nodes holds up no other: `begin_next` gives a work as soon as one more may be measured, `end` says
    that one has been; after each of its parts `add_costs` says what that has cost.
    """

    #: The platform's folder.
    platform: Path
    #: The records of the nights before.
    history: History
    #: Further arguments of ``npc characterise``.
    words: tuple[str, ...] = ()
    #: The nights before, as the journal has them.
    nights: Sequence[JournalEntry] = ()
    #: Node time (s) that the night may take; None without end.
    budget_s: float | None = None
    #: None where no rotation over the nodes is wanted.
    rotation: NodeRotation | None = None
    #: Its switches; None if nobody knows.
    fabric: Topology | None = None
    #: Node time (s) that the night has taken so far.
    spent_s: float = 0.0
    #: Sentences for people.
    notes: list[str] = field(default_factory=list)
    #: What was not measured.
    left_out: list[WorkItem] = field(default_factory=list)
    #: What is planned and not yet begun, the next first.
    _waiting: list[WorkItem] = field(default_factory=list)
    #: What is being measured.
    _running: list[WorkItem] = field(default_factory=list)
    #: How many works were begun tonight; it numbers the parts.
    _begun: int = 0
    #: By name the parts of benchmarks on any nodes.
    _benchmark_parts: Mapping[str, Part] = field(default_factory=dict)
    #: The partition, by name.
    _nodes: dict[str, SlurmNode] = field(default_factory=dict)
    #: What the nights before measured, and what that cost.
    _past: PastNights = field(init=False)
    #: The verdict of the last night; None if it is not known.
    _last: NightDocument | None = None
    #: The benchmarks that the night is to measure, as far as they are known.
    planned: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self._past = PastNights(self.nights)

    def whole_suite(self) -> list[Part]:
        """All benchmarks in one part; nothing where a budget chooses among them."""
        if self.budget_s is not None:
            return []
        with contextlib.suppress(InvalidUsage, InvalidFile, OSError):  # what measures it says what is wrong
            self.planned.update(_benchmarks_of(self.words))
        return [Part(name=FIRST, kind="first", words=self.words)]

    def plan_tonight(self) -> None:
        """Plan the benchmarks that the budget reaches, and the nodes whose turn it is."""
        if self.budget_s is None and self.rotation is None:
            return
        self._past = PastNights(self.nights, self.history.places())
        try:
            self._last = last_night(self.history.folder)
        except (OSError, ValueError) as error:
            self.notes.append(f"whom the last night suspects is not known: {error}")
        parts = {} if self.budget_s is None else self._parts_of_benchmarks()
        works = [*self._works_of_benchmarks(parts), *self._works_of_nodes()]
        chosen, self.left_out = choose_within_budget(works, self.budget_s, self._past.reserve_s())
        self.follow(chosen, parts)

    def follow(self, works: Iterable[WorkItem], benchmark_parts: Mapping[str, Part]) -> None:
        """Measure these works, in this order. benchmark_parts: by name the parts of those on any nodes."""
        self._waiting, self._benchmark_parts = list(works), benchmark_parts
        self.planned.update(name for work in self._waiting for name in self._benchmarks_in(work))

    def begin_next(self) -> tuple[WorkItem, list[Part]] | None:
        """What to measure now, as far as the budget goes, and its parts in their order; None while no more
        may run at once, and at the end of the plan."""
        while self._waiting and self._has_room():
            work = self._take_next()
            expected_s = sum(running.cost_s or 0.0 for running in self._running)
            left_s = math.inf if self.budget_s is None else self.budget_s - self.spent_s - expected_s
            if left_s <= 0 or not fitting([work], left_s):
                self.left_out.append(work)
                continue
            out = self.out_of_service(work.nodes)
            nodes = tuple(node for node in work.nodes if node not in out)
            if work.nodes and not nodes:
                continue  # `coverage` says why
            self._begun += 1
            self._running.append(work)
            return work, self._parts_of(work, nodes)
        return None

    def out_of_service(self, nodes: Iterable[str]) -> dict[str, str]:
        """Those of the nodes to which Slurm gives no jobs now, and why; none where it does not answer."""
        if not nodes:
            return {}
        self._update_nodes()
        known = {node: self._nodes[node] for node in nodes if node in self._nodes}
        return {node: str(state) for node, state in known.items() if not state.takes_jobs}

    def end(self, work: WorkItem) -> None:
        """It has been measured, as far as it could be."""
        self._running.remove(work)

    def leave_out_rest(self, work: WorkItem) -> None:
        """Leave out a work that was begun, and all that has not been: there is no time."""
        self.left_out += [work, *self._waiting]
        self._waiting.clear()

    def add_costs(self, run: RunCosts) -> None:
        """Take in what a part has cost."""
        self.spent_s += sum(cost.node_s for cost in run.costs.values())

    def affords(self, benchmark: str, places: int = 1) -> bool:
        """Whether the budget is enough for measuring a benchmark on some groups of nodes now."""
        if self.budget_s is None:
            return True
        cost_s = expected_cost_s(self._past.costs(), {benchmark: places}) or 0.0
        return self.spent_s + cost_s <= self.budget_s

    def postponed(self) -> tuple[PostponedBenchmark, ...]:
        """The benchmarks that the budget did not reach, the one that has waited longest first."""
        return tuple(
            PostponedBenchmark(benchmark=name, since=self._past.name(work.last), suspect=work.suspect)
            for work in sorted(self.left_out, key=lambda work: work.last)
            for name in (() if work.nodes else work.name.split())
        )

    def summary(self) -> list[str]:
        """Notes for people: what the budget did, and how far the rotation is."""
        notes = list(self.notes)
        if self.budget_s is not None:
            of = f"{format_duration(self.spent_s)} of {format_duration(self.budget_s)} node time spent"
            left_out = [f"{work.benchmark} ({_since(work.since)})" for work in self.postponed()]
            nodes = [node for work in self.left_out for node in work.nodes]
            left_out += [f"{len(nodes)} nodes whose turn it was"] if nodes else []
            notes.append(f"budget: {of}" + (f"; left out: {', '.join(left_out)}" if left_out else ""))
            notes += self._budget_too_small()
        return notes

    def coverage(self, tonight: JournalEntry) -> Coverage | None:
        """Which nodes were measured in the last nights, tonight among them, and which not, and why."""
        if self.rotation is None or not self._nodes:
            return None
        past = PastNights([*self.nights, tonight], self.history.places())
        recent = {night.name for night in past.nights[-self.rotation.within :]}
        steps = {*self.rotation.steps, PAIRS_STEP}
        last, reasons = past.nodes_measured(steps), past.reasons_unmeasured(steps, recent)
        unmeasured = []
        for name, node in self._nodes.items():
            short = short_name(name)
            if last.get(short, "") in recent:
                continue
            reason = reasons.get(short, "its turn has not come")
            if not node.takes_jobs:
                reason = str(node)
            elif not node.idle and short not in reasons:
                reason = f"busy ({node})"
            unmeasured.append(UnmeasuredNode(node=name, last=last.get(short, ""), why=reason))
        return Coverage(within=self.rotation.within, nodes=len(self._nodes), unmeasured=tuple(unmeasured))

    # -- what there is to choose from ----------------------------------------------------------------------

    def _parts_of_benchmarks(self) -> dict[str, Part]:
        """Each benchmark that the words name as a part of its own."""
        words, names = self.words, _benchmarks_of(self.words)
        if "--benchmark" in words:
            return {" ".join(names): Part(name=FIRST, kind="first", words=words)}
        return {
            name: Part(name=f"{FIRST}-{name}", kind="first", words=(*words, "--benchmark", name))
            for name in names
        }

    def _benchmarks_in(self, work: WorkItem) -> list[str]:
        """The benchmarks that a work measures."""
        if not work.nodes or self.rotation is None:
            return work.name.split()
        return [*self.rotation.steps, *([PAIRS_STEP] if len(work.nodes) > 1 else [])]

    def _works_of_benchmarks(self, parts: Mapping[str, Part]) -> list[WorkItem]:
        last, costs, suspects = self._past.benchmarks(), self._past.costs(), self._suspect_benchmarks()
        works = []
        for name, part in parts.items():
            steps = _benchmarks_of(part.words)
            works.append(
                WorkItem(
                    name=name,
                    last=min((last.get(step, -1) for step in steps), default=-1),
                    suspect=not suspects.isdisjoint(steps),
                    cost_s=expected_cost_s(costs, dict.fromkeys(steps, 1)),
                )
            )
        return works

    def _works_of_nodes(self) -> list[WorkItem]:
        if self.rotation is None:
            return []
        try:
            self._nodes = slurm_nodes(self.platform, self.words, self.rotation.only)
        except (SchedulerUnavailable, FileNotFoundError, InvalidUsage) as words:
            self.notes.append(f"no node was chosen: Slurm does not say which there are: {words}")
            return []
        if not self._nodes:
            self.notes.append("no node was chosen: Slurm knows none in this partition")
        by_short = {short_name(name): name for name in self._nodes}
        measured = self._past.nodes_measured({*self.rotation.steps, PAIRS_STEP})
        last = {
            name: self._past.number(measured[node]) for node, name in by_short.items() if node in measured
        }
        nights = NodeNights(
            tonight=len(self.nights),
            measured=last,
            tried=self._past.nodes_tried(),
            met={
                frozenset(by_short[node] for node in pair): night
                for pair, night in self._past.pairs_met().items()
                if pair <= by_short.keys()
            },
            suspects={by_short[node] for node in self._suspect_nodes() if node in by_short},
        )
        leaves = {name: self.fabric.leaf(name) for name in self._nodes} if self.fabric else {}
        switches = {name: leaf for name, leaf in leaves.items() if leaf is not None}
        states, within = states_of(self._nodes), self.rotation.within
        return due_pairs(states, nights, within, self._pair_cost_s(), switches)

    def _suspect_benchmarks(self) -> set[str]:
        """Those that the last night's verdict says something bad of, or left out as such."""
        if self._last is None:
            return set()
        bad = {series.benchmark for series in self._last.series if series.verdict is not Verdict.PASS}
        return bad | {work.benchmark for work in self._last.postponed if work.suspect}

    def _suspect_nodes(self) -> set[str]:
        """Those that the last night has grave evidence against, without their domains."""
        suspects = self._last.suspects if self._last else ()
        return {short_name(node) for suspect in suspects if suspect.grave for node in suspect.nodes}

    # -- the window ----------------------------------------------------------------------------------------

    def _has_room(self) -> bool:
        """Whether one more may be measured now. Works of different nodes are at the same time; a benchmark on
        any nodes is alone."""
        if not self._running:
            return True
        most = max(1, (self.rotation or NodeRotation()).at_once // 2)
        of_nodes = bool(self._running[0].nodes and self._waiting[0].nodes)
        return of_nodes and len(self._running) < most

    def _take_next(self) -> WorkItem:
        """The first work; of works on nodes the first whose nodes are all idle, if there is one before the
        next benchmark on any nodes."""
        place = 0
        if self._waiting[0].nodes:
            self._update_nodes()
            works = takewhile(lambda work: work.nodes, self._waiting)
            idle = (place for place, work in enumerate(works) if all(map(self._is_idle, work.nodes)))
            place = next(idle, 0)
        return self._waiting.pop(place)

    def _update_nodes(self) -> None:
        """Ask Slurm for the states of the nodes; they stay as they were where it does not answer."""
        with contextlib.suppress(SchedulerUnavailable, FileNotFoundError, InvalidUsage):
            only = self.rotation.only if self.rotation else ()
            self._nodes = slurm_nodes(self.platform, self.words, only) or self._nodes

    def _is_idle(self, node: str) -> bool:
        return node in self._nodes and self._nodes[node].idle

    def _parts_of(self, work: WorkItem, nodes: tuple[str, ...]) -> list[Part]:
        if not nodes:
            return [self._benchmark_parts[work.name]]
        assert self.rotation is not None
        return parts_of_nodes(self._begun, [nodes], self.rotation, self.platform, self.words)

    def _pair_cost_s(self) -> float | None:
        """Node time (s) of two nodes in the rotation; None where nobody knows."""
        assert self.rotation is not None
        return expected_cost_s(self._past.costs(), dict.fromkeys(self.rotation.steps, 2) | {PAIRS_STEP: 1})

    def _budget_too_small(self) -> list[str]:
        """Whether the budget is too small for the nights in which the rotation is to come to every node."""
        if self.rotation is None or self.budget_s is None:
            return []
        cost_s = self._pair_cost_s()
        usable = sum(node.takes_jobs for node in self._nodes.values())
        if cost_s is None or not usable:
            return []
        pairs_a_night = int(self.budget_s // cost_s)
        if 2 * pairs_a_night >= quota(usable, self.rotation.within):
            return []
        if not pairs_a_night:
            reach = f"two nodes cost {format_duration(cost_s)}: more than the budget, so none is measured"
        else:
            nights = -(-usable // (2 * pairs_a_night))
            reach = f"the budget is enough for {2 * pairs_a_night} nodes a night, all of them in {nights}"
        return [f"{reach}: not every node in {self.rotation.within} nights"]


def _benchmarks_of(words: Sequence[str]) -> list[str]:
    """The benchmarks in the file that the words name, or in the whole suite."""
    home, named = suite(), [name for flag, name in pairwise(words) if flag == "--benchmark"]
    return step_names(benchmark_file(home, named[0]) if named else home / "jube.yml", _tags(words))


def _tags(words: Sequence[str]) -> list[str]:
    return [tag for flag, tag in pairwise(words) if flag == "--tag"]


def _since(night: str) -> str:
    return f"measured last in night {night}" if night else "never measured"
