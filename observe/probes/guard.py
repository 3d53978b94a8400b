"""The observer-effect guard: a probe must not take more of a program's time than was allowed.

Of every probe the events of a rank are counted, and multiplied by what one costs on this machine
(`observe.probes.cost`). A rate λ of events a second at c seconds each makes a program slower by the factor
1 + λ·c. The counter itself costs as much as the probe, so in a window of w seconds with n events the program
ran for only w − n·c of them:

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
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import inf, sqrt
from pathlib import Path
from typing import Final, Literal, NamedTuple, Protocol

from observe.probes.counting import Counters, NoCounter, Point

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


class Step(NamedTuple):
    """What to do with the probe now, and after how many seconds to ask again."""

    do: Literal["", "attach", "detach"]
    next_s: float


class Judgement(NamedTuple):
    """`npc.records.node_probes.NodeProbe` has the same words. share: of the time since the first rank began
    that the probe was attached; cost: seconds of the rank that lost most, counting included; rate: events a
    second of a rank: the one that was judged, else the mean of the busiest rank; a lower bound where
    `at_least`."""

    status: Status
    reason: str
    share: float
    cost: float
    rate: float
    at_least: bool


class Counting(Protocol):
    """As `observe.probes.counting.Counters`."""

    def open(self, process: int, from_exec: bool = False) -> None:
        """Count a process's events."""

    def read(self) -> dict[int, int]:
        """Events by process."""

    def close(self) -> None:
        """Count no longer for now."""

    def end(self) -> None:
        """Count no longer."""


@dataclass(slots=True)
class _Rank:
    """A process. lost: seconds that its events took. The window that is judged began at `since`, after
    `events_before` events that took `lost_before` seconds."""

    process: int
    began: float
    events: int = 0
    lost: float = 0.0
    since: float = 0.0
    events_before: int = 0
    lost_before: float = 0.0
    waited_before: float | None = None

    def begin_window(self, now: float) -> None:
        self.since, self.events_before, self.lost_before = now, self.events, self.lost
        self.waited_before = None  # many windows see no event, and to read it takes longer than to count

    def window(self, now: float) -> float:
        """Seconds that the rank ran or slept in the window."""
        waited = waited_for_cpu(self.process)
        if self.waited_before is None:
            self.waited_before = waited
        window = now - self.since
        return max(window - (waited - self.waited_before), _LEAST_LEFT * window)


class Guard:
    """Judges one probe on one node. prices: seconds of one event by the point where it is counted; of a
    function whose entry and return are probed the point is its entry, the price that of both. budget: 0.02
    allows 2 % of the run time; None: no limit, the probe is attached at once, and its events are counted."""

    def __init__(
        self,
        prices: Mapping[Point, float],
        budget: float | None,
        counters: Callable[[Point], Counting] = Counters,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Raises `observe.probes.counting.NoCounter`."""
        self._prices, self._budget, self._clock = dict(prices), budget, clock
        self._counters: dict[Point, Counting] = {}
        try:
            for point in prices:
                self._counters[point] = counters(point)
        except NoCounter:
            for each in self._counters.values():
                each.end()
            raise
        self._ranks: dict[int, _Rank] = {}
        self._judged = budget is not None and any(point.kind != "tracepoint" for point in prices)
        self._state: _State = "counting" if self._judged else "due"
        self._status: Status = "attached"
        self._reason = ""
        self._due = 0.0
        self._moments = 0
        self._opened = 0.0
        self._turn_s = inf
        self._turn_began = 0.0
        self._turn_load = 0.0
        self._on = 0.0
        self._rate, self._at_least = 0.0, False

    def add(self, process: int, from_exec: bool = True) -> None:
        """A rank's process; from_exec: it is about to become the program. Raises NoCounter."""
        now = self._opened = self._clock()
        self._ranks[process] = _Rank(process, now, since=now)
        if self._state not in ("pausing", "off"):
            for counter in self._counters.values():
                counter.open(process, from_exec)

    def counts(self) -> dict[Point, dict[int, int]]:
        """Events by process while somebody counted: from its first instruction to its last, unless the probe
        was refused, stopped or sampled."""
        return {point: counter.read() for point, counter in self._counters.items()}

    def step(self) -> Step:
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
            return Step(do, inf)
        if self._state == "pausing":
            return Step(do, max(self._due - now, _FIRST_LOOKS_S))
        if self._state == "counting" and (self._is_judging() or now - self._opened < _BELIEVED_S):
            return Step(do, _FIRST_LOOKS_S)
        return Step(do, max(_LOOKS_S, _PAUSE * looked))

    def attached(self) -> None:
        """The probe is attached, as `step` has asked for."""
        self._look()
        self._state, self._turn_began = "attached", self._clock()

    def detached(self) -> None:
        """It is taken away, as `step` has asked for."""
        now = self._clock()
        self._on += now - self._turn_began
        self._look()
        self._close()
        if self._status == "stopped":
            self._state = "off"
        else:
            self._sample(self._turn_load, now)

    def end(self) -> Judgement:
        """The program has ended, and the probe with it."""
        now = self._clock()
        self._look()
        if self._state in ("attached", "detaching"):
            self._on += now - self._turn_began
        for counter in self._counters.values():
            counter.end()
        self._state = "off"
        ranks = self._ranks.values()
        lasted = now - min((rank.began for rank in ranks), default=now)
        share = min(self._on / lasted, 1.0) if lasted > 0 else 0.0
        if not share and self._reason and self._status == "attached":
            self._status = "refused"
        elif not share and not self._reason:
            judged = any(rank.events for rank in ranks)
            self._reason = (
                "it ended before its rate could be judged" if judged else "nothing made such an event"
            )
        if self._status == "attached":
            self._rate = max(
                (rank.events / (now - rank.began) for rank in ranks if now > rank.began), default=0.0
            )
        cost = max((rank.lost for rank in ranks), default=0.0)
        return Judgement(self._status, self._reason, share, cost, self._rate, self._at_least)

    def _judge(self, now: float) -> Literal["", "attach"]:
        """From what was counted: attach, count no more, or go on counting."""
        assert self._budget is not None
        judging: list[tuple[float, _Rank]] = []
        for rank in self._ranks.values():
            if rank.events > rank.events_before:
                judging.append((self._load(rank, now), rank))
            else:
                rank.begin_window(now)
        if not judging:
            return ""
        load, worst = max(judging, key=lambda each: each[0])
        watched = now - min(rank.since for _, rank in judging)
        events = worst.events - worst.events_before
        error = 3 / sqrt(events)
        in_turns = self._status == "sampled"
        limit = self._budget / _LEAST_SHARE if in_turns else self._budget
        enough = not self._moments or events >= _ENOUGH
        if (enough and load * (1 - error) > limit) or (watched > _DECIDED_S and load > limit):
            self._note_rate(worst, now)
            self._close()
            self._moments += 1
            self._reason = self._too_much(load)
            if self._moments == 1:
                self._state, self._due = "pausing", now + _BETWEEN_S
            elif self._budget / load < _LEAST_SHARE:
                self._status, self._state = "stopped" if self._on else "refused", "off"
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
            for counter in self._counters.values():
                for process in self._ranks:
                    counter.open(process)
            # to put a breakpoint in takes longer than a look
            self._look()
            now = self._opened = self._clock()
        if self._judged:
            self._state = "counting"
            for rank in self._ranks.values():
                rank.begin_window(now)
            return ""
        return self._attach(now)

    def _attach(self, now: float) -> Literal["attach"]:
        self._state = "attaching"
        for rank in self._ranks.values():
            rank.begin_window(now)
        return "attach"

    def _watch(self, now: float) -> Literal["", "detach"]:
        if self._budget is None or not self._ranks:
            return ""
        worst = max(self._ranks.values(), key=lambda rank: rank.lost - rank.lost_before)
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
        assert self._budget is not None
        longest = max(_FIRST_TURN_S, self._budget / load * _LONGEST_ROUND_S)
        self._turn_s = min(_FIRST_TURN_S if self._turn_s == inf else self._turn_s, longest)
        left = min((self._left(rank, now) for rank in self._ranks.values()), default=0.0)
        self._status, self._state = "sampled", "pausing"
        self._due = now + max(self._turn_s * load - left, 0.0) / self._budget
        self._reason = f"{self._too_much(load)}: attached in turns"

    def _load(self, rank: _Rank, now: float) -> float:
        """λ·c in the window that is judged."""
        window, lost = rank.window(now), rank.lost - rank.lost_before
        return lost / max(window - lost, _LEAST_LEFT * window) if window > 0 else 0.0

    def _note_rate(self, rank: _Rank, now: float) -> None:
        """What the reason of a judgement says."""
        window, lost = rank.window(now), rank.lost - rank.lost_before
        left = max(window - lost, _LEAST_LEFT * window, 1e-6)
        self._rate, self._at_least = (rank.events - rank.events_before) / left, left > window - lost

    def _left(self, rank: _Rank, now: float) -> float:
        """Seconds of a rank that may still be taken."""
        assert self._budget is not None
        return self._budget * max(now - rank.began - rank.lost, 0.0) + _GRACE_S - rank.lost

    def _too_much(self, load: float) -> str:
        assert self._budget is not None
        least = "at least " if self._at_least else ""
        price = max(self._prices.values())
        effect = f"{100 * load:.2g} % slower" if load < 1 else f"{1 + load:.2g} times slower"
        return (
            f"{least}{self._rate:,.0f} events a second of {1e6 * price:.2g} µs each would make it {least}"
            f"{effect}, and {100 * self._budget:g} % are allowed (--overhead)"
        )

    def _is_judging(self) -> bool:
        return any(rank.events > rank.events_before for rank in self._ranks.values())

    def _look(self) -> None:
        read = self.counts()
        for process, rank in self._ranks.items():
            counts = {point: each.get(process, 0) for point, each in read.items()}
            rank.events = sum(counts.values())
            rank.lost = sum(self._prices[point] * number for point, number in counts.items())

    def _close(self) -> None:
        for counter in self._counters.values():
            counter.close()


def waited_for_cpu(process: int) -> float:
    """Seconds that a process's first thread could run and had no CPU (proc(5), schedstat); 0 where the
    kernel does not tell."""
    try:
        return int(Path(f"/proc/{process}/schedstat").read_text().split()[1]) * 1e-9
    except (OSError, ValueError, IndexError):
        return 0.0
