"""The observer-effect guard on programs whose calls come as they like, and cost what they like."""

from __future__ import annotations

import random
from collections.abc import Callable
from math import exp

import pytest

from npc.observe.probes.guard import Guard, Judgement

COST = 13e-6
#: No process has this number (proc(5), pid_max).
NOBODY = 2**22 + 1


class Program:
    """A program of many phases: its calls come in bursts, each costs something else (log-normal, with a
    tail), and what takes its time while it is counted makes it last longer. attach_s, detach_s: of the
    probe."""

    def __init__(self, rate: Callable[[float], float], lasts_s: float, cost: float = COST) -> None:
        self.lot = random.Random(19)
        self.rate, self.lasts_s, self.cost = rate, lasts_s, cost
        self.done = self.now = self.lost = 0.0
        self.counted = self.attached = False
        self.events = 0
        self.made = self.seen = 0
        self.since = self.on = 0.0

    def run(self, until: float) -> None:
        """Go on to a moment of the wall clock."""
        while self.now < until and self.done < self.lasts_s:
            calls = self._burst()
            pace = 2e-4  # seconds of its own
            took = pace
            self.made += calls
            if self.counted or self.attached:
                # the breakpoint is met in part of the pace only, if the look comes earlier
                each = self.cost * self.lot.lognormvariate(-0.02, 0.2)
                fits = min(calls, int((until - self.now) / each) + 1)
                took = pace * fits / calls + fits * each if calls else pace
                self.events += fits * self.counted
                self.seen += fits * self.attached
                self.made -= calls - fits
                self.lost += fits * each
                self.done += pace * fits / calls if calls else pace
            else:
                self.done += pace
            self.now += took
        self.now = max(self.now, until) if self.done < self.lasts_s else self.now

    def _burst(self) -> int:
        mean = self.rate(self.done) * 2e-4
        return int(self.lot.gammavariate(0.5, 2 * mean) + self.lot.random()) if mean else 0

    def open(self, process: int, from_exec: bool = False) -> None:
        self.counted = True

    def read(self) -> dict[int, int]:
        return {NOBODY: self.events}

    def close(self) -> None:
        self.counted = False

    def end(self) -> None:
        self.close()

    @property
    def share(self) -> float:
        """Of the time, with the probe."""
        return self.on / self.now

    @property
    def slower(self) -> float:
        return self.now / self.done - 1


def observed(program: Program, budget: float, at_once: bool = False) -> Judgement:
    """Run it as the companion does, with a probe that takes its time to come and to go."""
    guard = Guard(program, COST, budget, at_once, lambda: program.now)
    guard.add(NOBODY)
    while program.done < program.lasts_s:
        step = guard.step()
        if step.do == "attach":
            program.run(program.now + 0.15)
            program.attached, program.since = True, program.now
            guard.attached()
        elif step.do == "detach":
            program.run(program.now + 0.1)
            program.attached = False
            program.on += program.now - program.since
            guard.detached()
        else:
            program.run(program.now + min(step.next_s, 1.0))
    program.on += (program.now - program.since) * program.attached
    return guard.end()


def test_a_function_called_all_the_time_is_refused_and_the_program_hardly_slower() -> None:
    for rate in (1e4, 1e5, 1e6):
        program = Program(lambda t, rate=rate: rate, 1.0)
        judgement = observed(program, 0.01)
        assert judgement.status == "refused", rate
        assert "(--overhead)" in judgement.reason
        assert program.slower < 0.02
        assert program.seen == 0


def test_a_function_called_now_and_then_is_attached() -> None:
    program = Program(lambda t: 500, 5.0)
    judgement = observed(program, 0.02)
    assert (judgement.status, judgement.reason) == ("attached", "")
    assert program.share > 0.9
    assert program.events == program.made  # not one is missing in what was counted
    assert judgement.cost == pytest.approx(program.events * COST)
    assert judgement.rate == pytest.approx(500, rel=0.3)


def test_near_the_limit_it_is_attached_in_turns_within_the_budget() -> None:
    for load in (0.04, 0.12):
        program = Program(lambda t, load=load: load / COST, 30.0)
        judgement = observed(program, 0.02)
        assert judgement.status == "sampled"
        assert 0.3 * 0.02 / load < program.share < 1.1 * 0.02 / load, load
        assert program.slower < 0.025
        assert program.seen / program.made == pytest.approx(program.share, rel=0.15)


def test_a_burst_at_the_beginning_alone_refuses_nothing() -> None:
    program = Program(lambda t: 3e4 if t < 0.03 else 100, 10.0)
    assert observed(program, 0.02).status == "attached"


def test_a_phase_that_calls_more_stops_the_probe() -> None:
    program = Program(lambda t: 100 if t < 3 else 1e6, 10.0)
    judgement = observed(program, 0.02)
    assert judgement.status == "stopped"
    assert "taken away after 3" in judgement.reason
    assert 0.2 < program.share < 0.4
    assert program.slower < 0.03


def test_what_begins_late_is_judged_when_it_begins() -> None:
    program = Program(lambda t: 0 if t < 2 else 1e6, 4.0)
    assert observed(program, 0.02).status == "refused"
    assert program.slower < 0.01
    program = Program(lambda t: 0, 1.0)
    judgement = observed(program, 0.02)
    assert (judgement.status, program.share, judgement.rate) == ("attached", 0.0, 0.0)
    assert judgement.reason == "nothing made such an event"


def test_tracepoints_are_attached_at_once_and_watched() -> None:
    program = Program(lambda t: 500, 2.0)
    assert observed(program, 0.02, at_once=True).status == "attached"
    assert program.attached
    program = Program(lambda t: 5e5, 10.0)
    assert observed(program, 0.02, at_once=True).status == "stopped"


def test_with_a_budget_without_bounds_nothing_is_refused() -> None:
    program = Program(lambda t: 1e5, 1.0)
    judgement = observed(program, 1e9)
    assert judgement.status == "attached"
    assert judgement.cost / program.lost == pytest.approx(1, rel=0.2)


def test_a_wrong_cost_errs_in_proportion() -> None:
    """The guard believes 13 µs: an event of 26 µs takes twice the budget, and no more."""
    program = Program(lambda t: 4000, 20.0, cost=2 * COST)
    assert observed(program, 0.02).status == "sampled"
    assert program.slower < 0.05 * exp(0.2)
