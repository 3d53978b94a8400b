"""What a night measures at the same time: works of different nodes, so that none holds up another."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from npc.cron.agenda import Agenda
from npc.cron.measure import RunningPart
from npc.cron.rotation import WorkItem
from npc.jobs.stop import Stop
from npc.records.journal import Part

#: How often to look whether something waits for nodes that take no jobs, which asks Slurm.
LOOK_S: Final = 20.0
_POLL_S: Final = 0.2


@dataclass(slots=True)
class _RunningWork:
    """A work of the agenda while it is measured."""

    #: Which.
    item: WorkItem
    #: Its parts that have not begun, the next first.
    parts: list[Part]
    #: Its part that is being measured; None before the first one, and behind the last.
    measurement: RunningPart | None = None


@dataclass(slots=True)
class Window:
    """The works that are being measured, each part by part."""

    #: Says what comes next.
    agenda: Agenda
    #: Tells when a signal asks for the end.
    stop: Stop
    #: Sentences for people.
    notes: list[str]
    #: Begins a part; gives None if there is no time left.
    begin: Callable[[Part], RunningPart | None]
    #: Ends a part, and keeps its records.
    finish: Callable[[RunningPart], None]
    #: Writes down why a part is not measured.
    leave_out: Callable[[Part, str], None]
    #: What is being measured.
    _running: list[_RunningWork] = field(default_factory=list)

    def measure_all(self) -> None:
        """Measure what the agenda plans, or until a stop; nothing is being measured then."""
        next_look = time.monotonic() + LOOK_S
        while self.stop.number is None:
            while begun := self.agenda.begin_next():
                self._running.append(_RunningWork(*begun))
                self._begin_next_part(self._running[-1])
            self._running = [work for work in self._running if work.measurement]
            if not self._running:
                return
            self.stop.wait(_POLL_S)
            looks = time.monotonic() >= next_look
            for work in self._running:
                assert work.measurement is not None
                if looks:
                    self._stop_if_in_vain(work.measurement)
                if not work.measurement.runs():
                    self.finish(work.measurement)
                    self._begin_next_part(work)
            if looks:
                next_look = time.monotonic() + LOOK_S
        measurements = [work.measurement for work in self._running if work.measurement]
        for measurement in measurements:
            measurement.stop()
        for measurement in measurements:
            self.finish(measurement)

    def _begin_next_part(self, work: _RunningWork) -> None:
        """Begin its next part whose nodes all take jobs; where there is none, the work has ended."""
        work.measurement = None
        while work.parts and work.measurement is None and self.stop.number is None:
            part = work.parts.pop(0)
            if out := self.agenda.out_of_service(part.hosts):
                self.notes.append(f"{part.name}: not measured: {_states(out)}")
                self.leave_out(part, f"not measured: {_states(out)}")
                continue
            work.measurement = self.begin(part)
            if work.measurement is None:
                self.agenda.leave_out_rest(work.item)
                work.parts.clear()
        if work.measurement is None:
            self.agenda.end(work.item)

    def _stop_if_in_vain(self, measurement: RunningPart) -> None:
        """End what only waits for nodes that have gone out of service since it was submitted."""
        out = self.agenda.out_of_service(measurement.part.hosts)
        if measurement.waits_in_vain(out):
            self.notes.append(f"{measurement.part.name}: not waited for: {_states(out)}")
            measurement.stop()


def _states(nodes: Mapping[str, str]) -> str:
    return "; ".join(f"{node} is {state}" for node, state in nodes.items())
