"""The observer-effect guard: a probe must not take more of a program's time than was allowed.

Of every probe the events of a rank are counted, and multiplied by what one costs on this machine
(`npc.observe.probes.cost`). A rate λ of events a second at c seconds each makes a program slower by the
factor 1 + λ·c. The counter itself costs as much as the probe, so in a window of w seconds with n events the
program ran for only w − n·c of them:

    λ = n / (w − n·c)

A window has no time in which the rank waited for a CPU that others had.

*Before* a probe of functions is attached its events are counted alone, from the program's first instruction,
in looks of a millisecond: a rate far above the budget is plain after some tens of events. One moment can be a
burst, so a second one, later, has to agree before the probe is refused. A slow rate is believed after a tenth
of a second (3/√n: three standard errors of a count). What costs little (tracepoints) is attached at once.

*While* it is attached its cost over the run so far is watched, with a grace, since programs have phases.
Above the budget it is taken away: for good, or, where it may be attached for a tenth of the time at least, in
turns.

The events of a rank's threads are added up as if one thread had made them all: an upper bound. Only the
standard library.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from math import inf, sqrt
from pathlib import Path
from typing import Final, Literal, NamedTuple

from npc.observe.probes.counting import Counters

#: A first judgement takes so long from the first event on, and a second at most.
_BELIEVED_S: Final = 0.1
_DECIDED_S: Final = 1.0
#: Events of the moment that refuses a probe for good: a stall of some milliseconds is made up for in a burst.
_ENOUGH: Final = 100
#: Between the moment that was too expensive and the one that has to agree.
_BETWEEN_S: Final = 0.4
#: Seconds of a rank that a probe may take beyond its budget: programs have bursts.
_GRACE_S: Final = 0.02
#: Whether a probe that is attached may come again is judged by its last seconds.
_RECENT_S: Final = 0.2
#: Attached for a smaller part of the time a probe sees too little to be worth it.
_LEAST_SHARE: Final = 0.1
#: Turns get longer, so that starting the probe over and over takes none of the node's time: seconds of the
#: first turn, and of the longest turn with the pause behind it.
_FIRST_TURN_S: Final = 0.25
_LONGEST_ROUND_S: Final = 10.0
#: Looks at the counters: the first ones, the others, and how much longer a pause is than a look.
_FIRST_LOOKS_S: Final = 0.001
_LOOKS_S: Final = 0.005
_PAUSE: Final = 500
#: Of a window that a counter fills almost whole no more is known than a least rate.
_LEAST_LEFT: Final = 0.05

_State = Literal["counting", "due", "pausing", "attaching", "attached", "detaching", "off"]
Status = Literal["attached", "sampled", "refused", "stopped"]


class ProbeAction(NamedTuple):
    """What to do with the probe now, and after how many seconds to ask again."""

    do: Literal["", "attach", "detach"]
    next_s: float


class Judgement(NamedTuple):
    """`npc.records.node_probes.NodeProbe` has the same words. cost: seconds of the rank that lost most,
    counting included; rate: events a second of a rank: the one that was judged, else the mean of the busiest
    rank."""

    status: Status
    reason: str
    cost: float
    rate: float


@dataclass(slots=True)
class _Process:
    """A process. The window that is judged began at `since`, after `before` events."""

    process: int
    began: float
    since: float
    events: int = 0
    before: int = 0
    waited_before: float | None = None

    @property
    def recent(self) -> int:
        """Events in the window."""
        return self.events - self.before

    def begin_window(self, now: float) -> None:
        self.since, self.before = now, self.events
        self.waited_before = None  # many windows see no event, and to read it takes longer than to count

    def window(self, now: float) -> float:
        """Seconds that the rank ran or slept in the window."""
        waited = waited_for_cpu(self.process)
        if self.waited_before is None:
            self.waited_before = waited
        window = now - self.since
        return max(window - (waited - self.waited_before), _LEAST_LEFT * window)


class Guard:
    """Judges one probe on one node. counters: of its events; price: seconds of one event; of a function whose
    entry and return are probed its entry is counted, and the price is that of both. budget: 0.02 allows 2 %
    of the run time. at_once: it is attached without being judged before."""

    def __init__(
        self,
        counters: Counters,
        price: float,
        budget: float,
        at_once: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._counters, self._price, self._budget, self._clock = counters, price, budget, clock
        self._ranks: dict[int, _Process] = {}
        self._at_once = at_once
        self._state: _State = "due" if at_once else "counting"
        self._status: Status = "attached"
        self._reason = ""
        self._due = 0.0
        self._moments = 0
        self._opened = 0.0
        self._turn_s = inf
        self._turn_began = 0.0
        self._turn_load = 0.0
        self._was_attached = False
        self._rate, self._at_least = 0.0, False

    def add(self, process: int, from_exec: bool = True) -> None:
        """A rank's process; from_exec: it is about to become the program. Raises NoCounter."""
        now = self._opened = self._clock()
        self._ranks[process] = _Process(process, now, now)
        if self._state not in ("pausing", "off"):
            self._counters.open(process, from_exec)

    def counts(self) -> dict[int, int]:
        """Events by process while somebody counted: from its first instruction to its last, unless the probe
        was refused, stopped or sampled."""
        return self._counters.read()

    def step(self) -> ProbeAction:
        """Look at the counters, and say what is to be done."""
        began = self._clock()
        if self._state in ("counting", "attached", "attaching"):
            self._look()
        now = self._clock()
        looked = now - began
        do: Literal["", "attach", "detach"] = ""
        if self._state == "counting":
            do = self._judge(now)
        elif self._state == "attached":
            do = self._watch(now)
        elif self._state == "due" or (self._state == "pausing" and now >= self._due):
            do = self._resume(now)
        if self._state == "off":
            return ProbeAction(do, inf)
        if self._state == "pausing":
            return ProbeAction(do, max(self._due - now, _FIRST_LOOKS_S))
        if self._state == "counting" and (self._is_judging() or now - self._opened < _BELIEVED_S):
            return ProbeAction(do, _FIRST_LOOKS_S)
        return ProbeAction(do, max(_LOOKS_S, _PAUSE * looked))

    def attached(self) -> None:
        """The probe is attached, as `step` has asked for."""
        self._look()
        self._state, self._turn_began, self._was_attached = "attached", self._clock(), True

    def detached(self) -> None:
        """It is taken away, as `step` has asked for."""
        now = self._clock()
        self._look()
        self._counters.close()
        if self._status == "stopped":
            self._state = "off"
        else:
            self._sample(self._turn_load, now)

    def end(self) -> Judgement:
        """The program has ended, and the probe with it."""
        now = self._clock()
        self._look()
        self._counters.end()
        self._state = "off"
        ranks = self._ranks.values()
        if not self._was_attached and self._reason and self._status == "attached":
            self._status = "refused"
        elif not self._was_attached and not self._reason:
            judged = any(rank.events for rank in ranks)
            self._reason = (
                "it ended before its rate could be judged" if judged else "nothing made such an event"
            )
        if self._status == "attached":
            self._rate = max(
                (each.events / (now - each.began) for each in ranks if now > each.began), default=0.0
            )
        cost = self._price * max((rank.events for rank in ranks), default=0)
        return Judgement(self._status, self._reason, cost, self._rate)

    def _judge(self, now: float) -> Literal["", "attach"]:
        """From what was counted: attach, count no more, or go on counting."""
        judging: list[tuple[float, _Process]] = []
        for rank in self._ranks.values():
            if rank.recent:
                judging.append((self._load(rank, now), rank))
            else:
                rank.begin_window(now)
        if not judging:
            return ""
        load, worst = max(judging, key=lambda each: each[0])
        watched = now - min(rank.since for _, rank in judging)
        events = worst.recent
        error = 3 / sqrt(events)
        in_turns = self._status == "sampled"
        limit = self._budget / _LEAST_SHARE if in_turns else self._budget
        enough = not self._moments or events >= _ENOUGH
        if (enough and load * (1 - error) > limit) or (watched > _DECIDED_S and load > limit):
            self._note_rate(worst, now)
            self._counters.close()
            self._moments += 1
            self._reason = self._too_much(load)
            if self._moments == 1:
                self._state, self._due = "pausing", now + _BETWEEN_S
            elif self._budget / load < _LEAST_SHARE:
                self._status, self._state = "stopped" if self._was_attached else "refused", "off"
            else:
                self._sample(load, now)
            return ""
        if in_turns:
            return self._attach(now) if enough or watched >= _BELIEVED_S else ""
        if watched > _DECIDED_S or (load * (1 + error) <= self._budget and watched >= _BELIEVED_S):
            self._reason = ""
            return self._attach(now)
        return ""

    def _resume(self, now: float) -> Literal["", "attach"]:
        """The first attachment, the second moment of counting, or a turn, which begins with counting, too."""
        if self._state == "pausing":
            for process in self._ranks:
                self._counters.open(process)
            # to put a breakpoint in takes longer than a look
            self._look()
            now = self._opened = self._clock()
        if self._at_once:
            return self._attach(now)
        self._state = "counting"
        for rank in self._ranks.values():
            rank.begin_window(now)
        return ""

    def _attach(self, now: float) -> Literal["attach"]:
        self._state = "attaching"
        for rank in self._ranks.values():
            rank.begin_window(now)
        return "attach"

    def _watch(self, now: float) -> Literal["", "detach"]:
        if not self._ranks:
            return ""
        worst = max(self._ranks.values(), key=lambda rank: rank.recent)
        left = min(self._left(rank, now) for rank in self._ranks.values())
        turn_s = now - self._turn_began
        load = self._load(worst, now) if left < 0 or turn_s >= self._turn_s else 0.0
        if left >= 0 and load <= self._budget:
            if now - worst.since >= _RECENT_S:
                for rank in self._ranks.values():
                    rank.begin_window(now)
            return ""
        self._note_rate(worst, now)
        if self._budget / max(load, self._budget) < _LEAST_SHARE:
            began = min(rank.began for rank in self._ranks.values())
            self._status = "stopped"
            self._reason = f"{self._too_much(load)}: taken away after {now - began:.2g} s"
        else:
            self._turn_s = 2 * self._turn_s if self._turn_s <= turn_s else min(self._turn_s, _FIRST_TURN_S)
            self._status, self._turn_load = "sampled", max(load, self._budget)
        self._state = "detaching"
        return "detach"

    def _sample(self, load: float, now: float) -> None:
        """Wait until a turn is affordable."""
        longest = max(_FIRST_TURN_S, self._budget / load * _LONGEST_ROUND_S)
        self._turn_s = min(_FIRST_TURN_S if self._turn_s == inf else self._turn_s, longest)
        left = min((self._left(rank, now) for rank in self._ranks.values()), default=0.0)
        self._status, self._state = "sampled", "pausing"
        self._due = now + max(self._turn_s * load - left, 0.0) / self._budget
        self._reason = f"{self._too_much(load)}: attached in turns"

    def _load(self, rank: _Process, now: float) -> float:
        """λ·c in the window that is judged."""
        window, lost = rank.window(now), self._price * rank.recent
        return lost / max(window - lost, _LEAST_LEFT * window) if window > 0 else 0.0

    def _note_rate(self, rank: _Process, now: float) -> None:
        """What the reason of a judgement says."""
        window, lost = rank.window(now), self._price * rank.recent
        left = max(window - lost, _LEAST_LEFT * window, 1e-6)
        self._rate, self._at_least = rank.recent / left, left > window - lost

    def _left(self, rank: _Process, now: float) -> float:
        """Seconds of a rank that may still be taken."""
        ran, lost = now - rank.began, self._price * rank.events
        return self._budget * max(ran - lost, _LEAST_LEFT * ran) + _GRACE_S - lost

    def _too_much(self, load: float) -> str:
        least = "at least " if self._at_least else ""
        effect = f"{100 * load:.2g} % slower" if load < 1 else f"{1 + load:.2g} times slower"
        return (
            f"{least}{self._rate:,.0f} events a second of {1e6 * self._price:.2g} µs each would make it "
            f"{least}{effect}, and {100 * self._budget:g} % are allowed (--overhead)"
        )

    def _is_judging(self) -> bool:
        return any(rank.recent for rank in self._ranks.values())

    def _look(self) -> None:
        counted = self.counts()
        for process, rank in self._ranks.items():
            rank.events = counted.get(process, 0)


def waited_for_cpu(process: int) -> float:
    """Seconds that a process's first thread could run and had no CPU (proc(5), schedstat); 0 where the
    kernel does not tell."""
    try:
        return int(Path(f"/proc/{process}/schedstat").read_text().split()[1]) * 1e-9
    except (OSError, ValueError, IndexError):
        return 0.0
