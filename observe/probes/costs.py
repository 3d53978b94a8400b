"""What one event costs a program that is watched by bpftrace.

A process makes events of one kind after the other, without a probe, with the one that watches them
(`npc.observe.probes.catalogue.program`, with a budget that pays for all of them), and without it again. The
cost of an event is the difference of the medians.
"""

from __future__ import annotations

import os
import re
import select
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from statistics import median
from typing import Final, NamedTuple

from npc.observe.costs.cache import NoCost, cached_costs
from npc.observe.costs.maker import CostProgram
from npc.observe.probes.bpftrace import Bpftrace, Budget, WatchedProcess, program_text
from npc.observe.probes.catalogue import FUNCTION, PUSHED, USDT, budget_check, program
from npc.observe.probes.rights import NoProbes, refusal, version

#: Blocks of events with the probe; half as many before it, and after it.
_BLOCKS: Final = 10
_PATIENCE_S: Final = 20.0
_SNAPSHOTS_S: Final = 0.1
#: Events that show that the probe is attached; of a block whose durations are looked at.
_FEW: Final = 10
_SHORT: Final = 25
_KEYS: Final = 4096
#: Every event is paid for by the time since the one before.
_PAID: Final = Budget(need_ns=1, grace_ns=10**12)
_LIBC: Final = re.compile(r"\s(/\S*/libc(?:-[\d.]+)?\.so(?:\.6)?|/\S*/ld-musl\S*)$", re.MULTILINE)


class _Trial(NamedTuple):
    """A kind of events whose cost is measured."""

    #: What the cost is called.
    name: str
    #: Kind of the probe that is attached.
    kind: str
    #: Kind of event that `CostProgram` makes.
    event: str
    #: How many of these events make one block.
    number: int
    #: The function of the C library that the probe attaches to; empty for tracepoints.
    function: str = ""

    def places(self, libc: str) -> dict[str, str]:
        """What its program attaches to. libc: the file of the C library."""
        probes = {"ENTRIES": "uprobe", "RETURNS": "uretprobe", "PLACES": "uprobe"}
        return {name: f"{probe}:{libc}:{self.function}" for name, probe in probes.items()}


#: Of the first function the kernel steps through the first instruction, with a trap; that of the second, a
#: push, it does itself, which is far cheaper in virtual machines (arch/x86/kernel/uprobes.c).
_TRIALS: Final = (
    _Trial("function", FUNCTION, "call_twice", 250, "labs"),
    _Trial(f"{PUSHED}function", FUNCTION, "call_pushed", 250, "bsearch"),
    _Trial("entry", USDT, "call_once", 250, "toascii"),
    _Trial("syscall", "syscalls", "system_call", 2000),
    _Trial("fault", "faults", "fault", 1000),
    _Trial("switch", "scheduler", "switch", 500),
)


def costs() -> dict[str, float]:
    """Seconds of one event: ``function`` (entry and return, with its duration), ``entry`` (of a function or
    static probe, counted), ``syscall``, ``fault``, ``switch``; ``apparent``: the duration that an empty
    function seems to have; ``pushed_function``, ``pushed_apparent``: of those that begin with a push. The
    first time on a machine it takes some seconds. Raises NoCost."""
    if reason := refusal():
        raise NoCost(reason)
    programs = [program(trial.kind).text for trial in _TRIALS]
    key = {"tool": ".".join(map(str, version())), "program": "".join((*programs, budget_check().text))}
    return cached_costs("probes", key, _measured)


def _measured() -> Mapping[str, float]:
    seconds: dict[str, float] = {}
    with CostProgram() as maker, tempfile.TemporaryDirectory(prefix="npc-") as folder:
        maker.make(_TRIALS[0].event, 1)  # once it answers, its libraries are there
        libc = _LIBC.search(Path(f"/proc/{maker.pid}/maps").read_text())
        if libc is None:
            raise NoCost("no C library to measure a uprobe in")
        for trial in _TRIALS:
            try:
                cost, apparent = _measured_one(trial, maker, libc[1], Path(folder))
            except NoProbes as reason:
                raise NoCost(str(reason)) from None
            seconds[trial.name] = cost
            if trial.kind == FUNCTION:
                seconds[trial.name.replace("function", "apparent")] = apparent
    return seconds


def _measured_one(trial: _Trial, maker: CostProgram, libc: str, folder: Path) -> tuple[float, float]:
    """Seconds that an event takes of the process, and that it seems to last (0 of what has no durations).
    Raises NoCost, NoProbes."""
    plain = [maker.make(trial.event, trial.number) for _ in range(_BLOCKS // 2)]
    watched = [WatchedProcess(0, maker.pid)]
    text = program_text(trial.kind, 0, _SNAPSHOTS_S, trial.places(libc), _PAID, watched)
    tracer = Bpftrace(text, folder / f"{trial.name}.bt", _KEYS, os.sched_getaffinity(0))
    try:
        _await_events(trial, maker, tracer)
        apparent = _apparent(trial, maker, tracer) if trial.kind == FUNCTION else 0.0
        probed = [maker.make(trial.event, trial.number) for _ in range(_BLOCKS)]
    finally:
        tracer.kill()
        tracer.close(_PATIENCE_S)
    plain += [maker.make(trial.event, trial.number) for _ in range(_BLOCKS // 2)]
    return max(median(probed) - median(plain), 0.0), apparent


def _apparent(trial: _Trial, maker: CostProgram, tracer: Bpftrace) -> float:
    """Seconds that an event seems to last: the median of the means of blocks that are so short that whoever
    takes the CPU away meets few of them."""
    means = []
    for _ in range(_BLOCKS):
        before = _timed(tracer)
        maker.make(trial.event, _SHORT)
        after = _await_timed(tracer, before.events + _SHORT)
        means.append((after.seconds - before.seconds) / (after.events - before.events))
    return median(means)


class _Timed(NamedTuple):
    """What a bpftrace has of durations so far."""

    #: How many events have a known duration.
    events: int
    #: Sum of these durations, in s.
    seconds: float


def _timed(tracer: Bpftrace) -> _Timed:
    """As of its last snapshot."""
    classes = tracer.maps.get("@durations", {}).values()
    events = sum(sum(events_of.values()) for events_of in classes)
    return _Timed(events, 1e-9 * sum(tracer.maps.get("@seconds", {}).values()))


def _await_timed(tracer: Bpftrace, events: int) -> _Timed:
    """When it has durations of so many events. Raises NoCost."""
    _await(tracer, lambda: _timed(tracer).events >= events)
    return _timed(tracer)


def _await_events(trial: _Trial, maker: CostProgram, tracer: Bpftrace) -> None:
    """It says that it is attached before all of it is: wait until a snapshot has events."""
    _await(tracer, lambda: bool(tracer.attached))

    def has_events() -> bool:
        maker.make(trial.event, _FEW)
        return any(tracer.maps.get(name) for name in ("@events", "@durations"))

    _await(tracer, has_events)


def _await(tracer: Bpftrace, true: Callable[[], bool]) -> None:
    """Until a condition on what it has printed holds. Raises NoCost."""
    limit = time.monotonic() + _PATIENCE_S
    while not true():
        select.select([tracer.output], [], [], _SNAPSHOTS_S)
        if not tracer.read():
            raise NoCost(f"bpftrace ended early: {tracer.problem}")
        if time.monotonic() > limit:
            raise NoCost(f"bpftrace has counted nothing for {_PATIENCE_S:g} s")
