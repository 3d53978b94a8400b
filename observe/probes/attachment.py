"""One probe on one node: where it is attached, and what it counted.

It is attached before the program begins. Where it has a budget, its bpftrace ends itself once watching has
cost a rank more. Only the standard library.
"""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from npc.observe.probes.bpftrace import Bpftrace, Budget, Overrun, program_text
from npc.observe.probes.catalogue import FUNCTION, NEEDS_TYPES, PUSHED, USDT, RequestedProbe
from npc.observe.probes.places import NoFunction, ProbePoint, find
from npc.observe.probes.records import NodeProbe, ProbeRow, ProbeStatus
from npc.observe.probes.rights import NoProbes, refusal
from npc.observe.probes.rows import calls, rows_of
from npc.observe.probes.settings import Settings

#: A bpftrace that has not attached, or ended, by then is given up.
_ATTACH_S, _END_S = 30.0, 10.0
#: The cost of an event (`npc.observe.probes.costs`) by the kind of its probe.
_COSTS: Final = {
    FUNCTION: "function", USDT: "entry", "syscalls": "syscall", "io": "syscall", "scheduler": "switch",
    "faults": "fault",
}  # fmt: skip
#: Of a stretch of time that events fill almost whole, this part at least was the program's own.
_LEAST_OWN: Final = 0.05


@dataclass(frozen=True, slots=True)
class NodeProbes:
    """What all probes of a node share."""

    #: Name of the node.
    host: str
    #: What the names of their files begin with, ``FOLDER/HOST.RANK``.
    stem: Path
    #: By which the run's ranks announce themselves (`npc.observe.probes.settings.read_token`).
    token: int
    #: What was asked for: which probes, of which program, at which cost.
    settings: Settings
    #: Seconds between snapshots.
    interval_s: float
    #: Entries that a map may have.
    keys: int
    #: Where bpftrace may run.
    cpus: tuple[int, ...]


class ProbeAttachment:
    """A probe of a node."""

    def __init__(self, wanted: RequestedProbe, node: NodeProbes) -> None:
        self._wanted, self._node = wanted, node
        #: Why it cannot be had; empty where it can.
        self.unavailable = ""
        self._tracer: Bpftrace | None = None
        self._running = self._interrupted = False
        self._notes: list[str] = []
        self._pushed = ""
        self._cost_s: float | None = None
        try:
            if reason := refusal(types=wanted.kind in NEEDS_TYPES):
                raise NoProbes(reason)
            places = self._places()
            self._cost_s = node.settings["costs"].get(self._pushed + _COSTS.get(wanted.kind, ""))
            self._start(places)
        except (NoProbes, NoFunction, OSError) as error:
            self.unavailable = str(error)

    @property
    def tracer(self) -> Bpftrace | None:
        """Its bpftrace, while it runs."""
        return self._tracer if self._running else None

    @property
    def is_attaching(self) -> bool:
        """Whether the ranks have to wait for it."""
        return self.tracer is not None and not self.tracer.attached

    def check_start(self) -> None:
        """End a bpftrace that takes too long to attach."""
        tracer = self.tracer
        if tracer is not None and not tracer.attached and time.monotonic() > tracer.started + _ATTACH_S:
            tracer.messages.append(f"bpftrace has not attached within {_ATTACH_S:g} s")
            tracer.kill()

    def read(self) -> bool:
        """Take in what its bpftrace has printed; whether that goes on."""
        assert self.tracer is not None
        goes_on = self.tracer.read()
        if not goes_on:
            self._close()
        return goes_on

    def interrupt(self) -> None:
        """The program has ended: let the bpftrace end, too."""
        if self.tracer is not None:
            self._interrupted = True
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
        attached_s = self._attached_s(begun, now) if begun else 0.0
        rows = rows_of(self._wanted, self._tracer.maps) if self._tracer else ()
        events = _most_events(rows)
        status, reason = self._status(begun)
        function = self._wanted.kind == FUNCTION
        return NodeProbe(
            probe=self._wanted.what,
            host=self._node.host,
            status=status,
            reason=reason,
            share=min(1.0, attached_s / lasted) if lasted else 0.0,
            cost=None if self._cost_s is None or self.unavailable else events * self._cost_s,
            rate=events / attached_s if attached_s else None,
            apparent=self._node.settings["costs"].get(f"{self._pushed}apparent", 0.0) if function else 0.0,
            rows=rows,
            notes=tuple(self._remarks(rows, ranks)),
        )

    def _places(self) -> dict[str, str]:
        """What its program attaches to."""
        wanted = self._wanted
        if wanted.kind == "io":
            return _io_calls()
        if wanted.kind not in (FUNCTION, USDT):
            return {}
        point = find(wanted, self._node.settings["program"])
        self._pushed = PUSHED if wanted.kind == FUNCTION and _begins_with_push(point) else ""
        return _attach_points(wanted, point)

    def _start(self, places: Mapping[str, str]) -> None:
        """Start its bpftrace, with a budget where there is one."""
        node, wanted = self._node, self._wanted
        share, budget = node.settings["overhead"], None
        if share is not None and self._cost_s:
            budget = Budget.of(self._cost_s, share)
        elif share is not None and wanted.kind in _COSTS:
            self._notes.append("not limited: what an event costs is not known on this machine")
        text = program_text(wanted.kind, node.token, node.interval_s, places, budget)
        name = re.sub("[^a-z0-9_.:@-]", "_", wanted.what, flags=re.IGNORECASE)
        file = node.stem.with_name(f"{node.stem.name}.{name}.bt")
        self._tracer = Bpftrace(text, file, node.keys, node.cpus)
        self._running = True

    def _close(self) -> None:
        """Its bpftrace has ended."""
        tracer = self.tracer
        assert tracer is not None
        tracer.close(_END_S)
        self._running = False
        if not tracer.attached:
            self.unavailable = tracer.problem

    def _attached_s(self, begun: float, now: float) -> float:
        """Seconds from the first rank's begin to now that it was attached."""
        tracer = self._tracer
        if tracer is None or not tracer.attached:
            return 0.0
        return max(0.0, min(tracer.ended or now, now) - max(tracer.attached, begun))

    def _status(self, begun: float | None) -> tuple[ProbeStatus, str]:
        tracer = self._tracer
        if tracer is None or self.unavailable:
            return "unavailable", self.unavailable
        if tracer.overrun is not None:
            return "stopped", self._too_much(tracer.overrun, begun or tracer.attached)
        if not self._running and not self._interrupted:
            return "stopped", f"ended before the program: {tracer.problem}"
        return "attached", ""

    def _too_much(self, overrun: Overrun, begun: float) -> str:
        """Why its bpftrace has ended itself. A rate λ of events a second at c seconds each makes a program
        slower by the factor 1 + λ·c; in w seconds with n events the program ran for w − n·c of them, so
        λ = n / (w − n·c)."""
        cost_s, budget = self._cost_s or 0.0, self._node.settings["overhead"] or 0.0
        lost = overrun.events * cost_s
        own = max(overrun.seconds - lost, _LEAST_OWN * overrun.seconds)
        least = "at least " if own > overrun.seconds - lost else ""
        percent = f"{100 * lost / own:{',.0f' if lost > own else '.2g'}} %"
        return (
            f"after {overrun.time - begun:.2g} s: {least}{overrun.events / own:,.0f} events a second of "
            f"{1e6 * cost_s:.2g} µs each in rank {overrun.rank}; it would have cost {least}{percent} of the "
            f"run time, and {100 * budget:g} % are allowed (--overhead)"
        )

    def _remarks(self, rows: Iterable[ProbeRow], ranks: Iterable[int]) -> Iterable[str]:
        yield from self._notes
        tracer = self._tracer
        if tracer is None or not tracer.attached:
            return
        if tracer.is_full:
            yield f"more than {self._node.keys} entries: what came later is missing"
        if tracer.lost:
            yield f"bpftrace lost {tracer.lost} messages"
        unseen = sorted(set(ranks) - {process.rank for process in tracer.watched})
        if unseen:
            yield f"not seen: rank {', '.join(map(str, unseen[:8]))}{' …' if len(unseen) > 8 else ''}"
        untimed = sum(row.events - row.timed for row in rows if row.timed is not None)
        if self._wanted.kind == FUNCTION and untimed:
            yield (
                f"{untimed} calls have no time of their own: within others of the same function, or their "
                "return was not seen"
            )


def _most_events(rows: Iterable[ProbeRow]) -> int:
    """Events of the rank that has most."""
    events: Counter[int] = Counter()
    for row in rows:
        if row.rank >= 0:
            events[row.rank] += row.events
    return max(events.values(), default=0)


def _begins_with_push(point: ProbePoint) -> bool:
    """Whether a function's first instruction is a push (x86-64), on which the cost of its uprobe depends."""
    with Path(point.file).open("rb") as file:
        file.seek(point.offsets[0])
        return bool(re.match(rb"\x41?[\x50-\x57]", file.read(2)))


def _io_calls() -> dict[str, str]:
    """The conditions of io.bt. Raises `NoProbes` on a machine whose system calls have no table here."""
    known = calls()
    if not known.names:
        raise NoProbes("the numbers of this architecture's system calls are not known")
    calls_of = {"READ": known.reads, "WRITE": known.writes, "FLUSH": known.flushes}
    return {
        name: " || ".join(f"args->id == {number}" for number in numbers) for name, numbers in calls_of.items()
    }


def _attach_points(wanted: RequestedProbe, point: ProbePoint) -> dict[str, str]:
    """What function.bt and usdt.bt attach to. Raises `NoProbes` for a path that no program can name."""
    if not re.fullmatch(r"[^\s\"\\]+", point.file):
        raise NoProbes(f"{point.file}: its path has blanks or quotes")
    if wanted.kind == USDT:
        provider, name = wanted.name.split(":")
        return {"PLACES": f'usdt:"{point.file}":"{provider}":"{name}"'}
    return {
        name: ",\n".join(f'{probe}:"{point.file}":"{symbol}"' for symbol in dict.fromkeys(point.symbols))
        for name, probe in (("ENTRIES", "uprobe"), ("RETURNS", "uretprobe"))
    }
