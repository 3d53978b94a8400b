"""One probe on one node: what watches it, when it is attached and taken away, and what came of it.

A probe of functions waits for the guard's judgement, while its events are counted from the first instruction
on; other probes are attached before the program begins. Only the standard library.
"""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import fsum, inf
from pathlib import Path
from typing import Final

from npc.observe.probes.bpftrace import Bpftrace, Maps, WatchedProcess
from npc.observe.probes.catalogue import FUNCTION, NEEDS_TYPES, PUSHED, USDT, RequestedProbe
from npc.observe.probes.counting import CodeAddress, Counters, NoCounter
from npc.observe.probes.guard import Guard, Judgement
from npc.observe.probes.places import NoFunction, ProbePoint, find
from npc.observe.probes.rights import NoProbes, refusal
from npc.observe.probes.rows import calls, rows_of
from npc.observe.probes.settings import Settings
from npc.records.node_probes import NodeProbe, ProbeRow, ProbeStatus

#: A bpftrace that has not attached, or ended, by then is given up.
_ATTACH_S, _END_S = 30.0, 10.0
#: Kinds by the cost of their events (`npc.observe.probes.costs`), and the tracepoint where these are counted.
_COSTS: Final = {
    FUNCTION: "function", USDT: "entry", "syscalls": "syscall", "io": "syscall", "scheduler": "switch",
    "faults": "fault",
}  # fmt: skip
_COUNTED: Final = {
    "syscalls": "raw_syscalls:sys_enter", "io": "raw_syscalls:sys_enter", "scheduler": "sched:sched_switch",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class NodeProbes:
    """What all probes of a node share. stem: of their files, ``FOLDER/HOST.RANK``; token:
    `npc.observe.probes.settings.read_token`; seconds: between snapshots; keys: entries that a map may have;
    cpus: where bpftrace may run."""

    host: str
    stem: Path
    token: int
    settings: Settings
    seconds: int
    keys: int
    cpus: tuple[int, ...]

    def tracer(
        self,
        kind: str,
        what: str,
        known: Iterable[WatchedProcess] = (),
        filled: Mapping[str, str] | None = None,
    ) -> Bpftrace:
        """Start a bpftrace. Raises `NoProbes`."""
        file = self.stem.with_name(f"{self.stem.name}.{re.sub('[^a-z0-9_.:@-]', '_', what, flags=re.I)}.bt")
        return Bpftrace(kind, file, self.token, self.seconds, self.keys, self.cpus, known, filled)


class Attachment:
    """A probe of a node. tracer: its bpftrace while it has one."""

    def __init__(self, wanted: RequestedProbe, node: NodeProbes) -> None:
        self.wanted, self._node = wanted, node
        self.tracer: Bpftrace | None = None
        self._tracers: list[Bpftrace] = []  # all there were
        self._place: ProbePoint | None = None
        self._filled: dict[str, str] = {}
        self._guard: Guard | None = None
        self._judgement: Judgement | None = None
        self._ranks: dict[int, int] = {}
        self._detaching = False
        self._notes: list[str] = []
        self.unavailable = ""
        self._ended_early = ""
        self._price = node.settings["costs"].get(_COSTS.get(wanted.kind, ""))
        try:
            if reason := refusal(types=wanted.kind in NEEDS_TYPES):
                raise NoProbes(reason)
            self._prepare()
            if self._guard is None or not self._waits_for_judgement:
                self._attach(())
        except (NoProbes, NoFunction, NoCounter, OSError) as error:
            self.unavailable = str(error)

    @property
    def is_guarded(self) -> bool:
        """Whether it may be attached or taken away while the program runs."""
        return self._guard is not None

    @property
    def is_attaching(self) -> bool:
        """Whether the ranks have to wait for it."""
        return self.tracer is not None and not self.tracer.attached and not self._waits_for_judgement

    def add(self, rank: int, process: int) -> None:
        """A rank's process is about to become the program."""
        self._ranks[process] = rank
        if self._guard is not None:
            try:
                self._guard.add(process)
            except NoCounter as error:
                self._notes.append(f"rank {rank} is not guarded: {error}")

    def step(self, watched: Iterable[WatchedProcess]) -> float:
        """Do what is due; after how many seconds to come again. watched: the processes of all ranks."""
        tracer = self.tracer
        if tracer is not None and not tracer.attached and time.monotonic() > tracer.started + _ATTACH_S:
            tracer.said.append(f"bpftrace has not attached within {_ATTACH_S:g} s")
            tracer.kill()
        if self._guard is None or not self._ranks or self.unavailable:
            return inf
        step = self._guard.step()
        if step.do == "attach":
            if tracer is None:
                try:
                    self._attach(watched)
                except (NoProbes, OSError) as error:
                    self.unavailable = str(error)
            elif tracer.attached:
                self._guard.attached()
        elif step.do == "detach" and tracer is not None:
            self._detaching = True
            tracer.interrupt()
        return step.next_s

    def read(self) -> bool:
        """Take in what its bpftrace has printed; whether that goes on."""
        assert self.tracer is not None
        before = self.tracer.attached
        goes_on = self.tracer.read()
        if self.tracer.attached and not before and self._guard is not None and self._ranks:
            self._guard.attached()
        if not goes_on:
            self._close()
        return goes_on

    def interrupt(self) -> None:
        """The program has ended: let the bpftrace end, too."""
        if self._guard is not None and self._judgement is None:
            self._judgement = self._guard.end()
        if self.tracer is not None:
            self._detaching = True
            self.tracer.interrupt()

    def give_up(self) -> None:
        """End a bpftrace that does not end by itself."""
        if self.tracer is not None:
            self.tracer.kill()
            self._notes.append("bpftrace did not end by itself and was killed")
            self._close()

    def result(self, ranks: Iterable[int], begun: float | None, ended: float | None) -> NodeProbe:
        """So far. ranks: those of this node; begun, ended: Unix time of the first rank's begin and of the
        last one's end."""
        now = ended or time.time()
        lasted = max(now - begun, 1e-9) if begun else 0.0
        rows = self._with_counts(rows_of(self.wanted, _sum(each.maps for each in self._tracers)))
        judgement = self._judgement
        share = min(1.0, self._time_on(begun, now) / lasted) if begun else 0.0
        status, reason = self._status(judgement)
        events = self._events(rows)
        cost = None if self._price is None or self.unavailable else events * self._price
        rate = events / lasted if lasted else None
        costs = self._node.settings["costs"]
        return NodeProbe(
            probe=self.wanted.what,
            host=self._node.host,
            status=status,
            reason=reason,
            share=0.0 if self.unavailable else share,
            cost=judgement.cost if judgement else cost,
            rate=judgement.rate if judgement else rate,
            apparent=costs.get(f"{self._pushed}apparent", 0.0) if self.wanted.kind == FUNCTION else 0.0,
            rows=rows,
            notes=tuple(self._remarks(rows, ranks)),
        )

    @property
    def _waits_for_judgement(self) -> bool:
        return self._guard is not None and self._place is not None

    def _prepare(self) -> None:
        """Find what it watches, and let the guard judge where there is a budget."""
        kind, settings = self.wanted.kind, self._node.settings
        if kind in (FUNCTION, USDT):
            self._place = find(self.wanted, settings["program"])
            self._filled = _attach_points(self.wanted, self._place)
            self._price = settings["costs"].get(self._pushed + _COSTS[kind])
        elif kind == "io":
            self._filled = _io_calls()
        if settings["overhead"] is None or kind not in _COSTS:
            return
        if self._price is None:
            self._notes.append("not guarded: what an event costs is not known on this machine")
            return
        points: list[CodeAddress | str] = [_COUNTED[kind]] if kind in _COUNTED else []
        if self._place is not None:
            points += [CodeAddress(self._place.file, offset) for offset in self._place.offsets]
        if points:
            at_once = self._place is None
            self._guard = Guard(Counters(*points), self._price, settings["overhead"], at_once)

    @property
    def _pushed(self) -> str:
        """What a function costs depends on its first instruction (x86-64)."""
        if self.wanted.kind != FUNCTION or self._place is None:
            return ""
        with Path(self._place.file).open("rb") as file:
            file.seek(self._place.offsets[0])
            return PUSHED if re.match(rb"\x41?[\x50-\x57]", file.read(2)) else ""

    def _attach(self, known: Iterable[WatchedProcess]) -> None:
        self.tracer = self._node.tracer(self.wanted.kind, self.wanted.what, known, self._filled)
        self._tracers.append(self.tracer)

    def _close(self) -> None:
        """Its bpftrace has ended."""
        tracer = self.tracer
        assert tracer is not None
        tracer.close(_END_S)
        if not tracer.attached:
            self.unavailable = tracer.problem
        elif not self._detaching:
            self._ended_early = f"ended before the program: {tracer.problem}"
        self.tracer = None
        if self._guard is not None and self._judgement is None:
            if self._detaching:
                self._guard.detached()
            else:
                self._judgement = self._guard.end()
        self._detaching = False

    def _time_on(self, begun: float, now: float) -> float:
        """Seconds from the first rank's begin to now that it was attached."""
        times = ((each.attached, each.ended or now) for each in self._tracers if each.attached)
        return fsum(max(0.0, min(until, now) - max(since, begun)) for since, until in times)

    def _status(self, judgement: Judgement | None) -> tuple[ProbeStatus, str]:
        if self.unavailable:
            return "unavailable", self.unavailable
        if self._ended_early:
            return "stopped", self._ended_early
        return (judgement.status, judgement.reason) if judgement else ("attached", "")

    def _with_counts(self, rows: tuple[ProbeRow, ...]) -> tuple[ProbeRow, ...]:
        """Of what is counted from the first instruction on: all events, also those before durations were
        measured."""
        if self._guard is None or self._place is None:
            return rows
        counted: Counter[int] = Counter()
        for process, number in self._guard.counts().items():
            counted[self._ranks[process]] += number
        timed = {row.rank: row for row in rows}
        for rank, number in counted.items():
            untimed = ProbeRow(rank, self.wanted.name, 0, 0 if self.wanted.kind == FUNCTION else None)
            row = timed.get(rank, untimed)
            if number:
                timed[rank] = row._replace(events=max(number, row.events))
        return tuple(timed[rank] for rank in sorted(timed))

    def _events(self, rows: Iterable[ProbeRow]) -> int:
        """Of the rank that has most."""
        events: Counter[int] = Counter()
        for row in rows:
            if row.rank >= 0:
                events[row.rank] += row.events
        return max(events.values(), default=0)

    def _remarks(self, rows: Iterable[ProbeRow], ranks: Iterable[int]) -> Iterable[str]:
        yield from self._notes
        attached = [each for each in self._tracers if each.attached]
        if any(each.is_full for each in self._tracers):
            yield f"more than {self._node.keys} entries: what came later is missing"
        if lost := sum(each.lost for each in self._tracers):
            yield f"bpftrace lost {lost} messages"
        unseen = sorted(set(ranks) - {each.rank for tracer in attached for each in tracer.watched})
        if unseen and attached:
            yield f"not seen: rank {', '.join(map(str, unseen[:8]))}{' …' if len(unseen) > 8 else ''}"
        untimed = sum(row.events - row.timed for row in rows if row.timed is not None)
        if self.wanted.kind == FUNCTION and untimed and attached:
            yield (
                f"{untimed} calls have no time of their own: within others of the same function, without a "
                "return, or while only their number was counted"
            )


def _sum(maps: Iterable[Maps]) -> Maps:
    """Of what each of several bpftraces counted."""
    found: Maps = {}
    for one in maps:
        for name, entries in one.items():
            known = found.setdefault(name, {})
            for key, value in entries.items():
                if isinstance(value, dict):
                    known[key] = dict(Counter(known.get(key, {})) + Counter(value))
                else:
                    known[key] = known.get(key, 0) + value
    return found


def _io_calls() -> dict[str, str]:
    """The conditions of io.bt. Raises `NoProbes` on a machine whose system calls have no table here."""
    known = calls()
    if not known.names:
        raise NoProbes("the numbers of this architecture's system calls are not known")
    numbers = {"READ": known.reads, "WRITE": known.writes, "FLUSH": known.flushes}
    return {name: " || ".join(f"args->id == {each}" for each in each_of) for name, each_of in numbers.items()}


def _attach_points(wanted: RequestedProbe, place: ProbePoint) -> dict[str, str]:
    """What function.bt and usdt.bt attach to. Raises `NoProbes` for a path that no program can name."""
    if not re.fullmatch(r"[^\s\"\\]+", place.file):
        raise NoProbes(f"{place.file}: its path has blanks or quotes")
    if wanted.kind == USDT:
        provider, name = wanted.name.split(":")
        return {"PLACES": f'usdt:"{place.file}":"{provider}":"{name}"'}
    return {
        name: ",\n".join(f'{probe}:"{place.file}":"{symbol}"' for symbol in dict.fromkeys(place.symbols))
        for name, probe in (("ENTRIES", "uprobe"), ("RETURNS", "uretprobe"))
    }
