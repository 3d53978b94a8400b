"""What one event costs a program that is watched by bpftrace.

A process makes events of each kind, in turns without and with the probes, which do what those of
`npc.observe.probes` do. The cost of an event is the median of the differences.
"""

from __future__ import annotations

import contextlib
import json
import re
import subprocess
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from statistics import median
from typing import IO, Final

from npc.observe.costs.cache import NoCost, cached_costs
from npc.observe.costs.maker import CostProgram
from npc.observe.probes.catalogue import PUSHED
from npc.observe.probes.rights import refusal, version

#: Events of a block, by the kind that `events` makes.
_NUMBER: Final = {
    "call_once": 500,
    "call_twice": 500,
    "call_pushed": 500,
    "system_call": 4000,
    "fault": 2000,
    "switch": 1000,
}
_BLOCKS, _TURNS = 5, 3
_PATIENCE_S: Final = 20.0
#: A call that traps takes longer than this, one that does not far less; calls to find that out.
_TRAP_S: Final = 6e-7
_FEW: Final = 100
_LOOK_S: Final = 0.01
_READY: Final = "attached"
#: How finely the duration that an empty function seems to have is told (ns).
_BIN_NS: Final = 100
#: As `npc.observe.probes` counts: the rank of the process, a number, a duration and its sum.
_PROGRAM: Final = """
BEGIN {{ @rank[(uint64){process}] = (uint64)1; printf("{ready}\\n"); }}
uprobe:{libc}:toascii /@rank[(uint64)pid]/ {{ @once[@rank[(uint64)pid], (uint64)0] = count(); }}
{calls}tracepoint:raw_syscalls:sys_enter /@rank[(uint64)pid]/ {{
    @called[(uint64)tid] = (uint64)args->id;
    @entered[(uint64)tid] = nsecs;
}}
tracepoint:raw_syscalls:sys_exit /@entered[(uint64)tid]/ {{
    $taken = nsecs - @entered[(uint64)tid];
    @system[@rank[(uint64)pid], @called[(uint64)tid]] = hist($taken);
    @in[@rank[(uint64)pid], @called[(uint64)tid]] = sum($taken);
    delete(@entered[(uint64)tid]);
}}
software:minor-faults:1 /@rank[(uint64)pid]/ {{ @faults[@rank[(uint64)pid], (uint64)0] = count(); }}
tracepoint:sched:sched_wakeup /@rank[(uint64)args->pid]/ {{ @ready[(uint64)args->pid] = nsecs; }}
tracepoint:sched:sched_switch {{
    $rank = @rank[(uint64)args->prev_pid];
    if ($rank) {{ @switched[$rank, (uint64)2] = count(); }}
    $next = @rank[(uint64)args->next_pid];
    if ($next) {{
        $since = @ready[(uint64)args->next_pid];
        if ($since) {{
            @waits[$next, (uint64)1] = hist(nsecs - $since);
            @waited[$next, (uint64)1] = sum(nsecs - $since);
            delete(@ready[(uint64)args->next_pid]);
        }}
    }}
}}
"""
_CALL: Final = """
uprobe:{libc}:{name} /@rank[(uint64)pid]/ {{
    @calls[@rank[(uint64)pid], (uint64)0] = count();
    if (@depth[(uint64)tid] == 0) {{ @begun[(uint64)tid] = nsecs; }}
    @depth[(uint64)tid] = @depth[(uint64)tid] + 1;
}}
uretprobe:{libc}:{name} /@depth[(uint64)tid]/ {{
    @depth[(uint64)tid] = @depth[(uint64)tid] - 1;
    if (@depth[(uint64)tid] == 0) {{
        $taken = nsecs - @begun[(uint64)tid];
        @durations[@rank[(uint64)pid], (uint64)0] = hist($taken);
        @seconds[@rank[(uint64)pid], (uint64)0] = sum($taken);
        @{apparent} = lhist($taken, 0, 100000, {bin_ns});
    }}
}}
"""
#: Functions whose return is probed as well, by the name of their durations. The kernel steps through the
#: first instruction of the first one, with a trap; that of the other, a push, it does itself, which is far
#: cheaper in virtual machines (arch/x86/kernel/uprobes.c).
_CALLED: Final = {"apparent": "labs", PUSHED + "apparent": "bsearch"}
_LIBC: Final = re.compile(r"\s(/\S*/libc(?:-[\d.]+)?\.so(?:\.6)?|/\S*/ld-musl\S*)$", re.MULTILINE)


def costs() -> dict[str, float]:
    """Seconds of one event: ``function`` (entry and return, with its duration), ``entry`` (of a function or
    static probe, counted), ``syscall``, ``fault``, ``switch``; ``apparent``: the duration that an empty
    function seems to have; ``pushed_function``, ``pushed_apparent``: of those that begin with a push. The
    first time on a machine it takes some seconds. Raises NoCost."""
    if reason := refusal():
        raise NoCost(reason)
    key = {"tool": ".".join(map(str, version())), "program": _PROGRAM + _CALL}
    return cached_costs("probes", key, _measured)


def _measured() -> Mapping[str, float]:
    plain, probed = defaultdict[str, list[float]](list), defaultdict[str, list[float]](list)
    apparent = defaultdict[str, list[float]](list)
    with CostProgram() as maker:
        for _ in range(_TURNS):
            _make(maker, plain)
            with _probes(maker.pid) as said:
                _await_uprobes(maker)
                _make(maker, probed)
            for name in _CALLED:
                apparent[name].append(_seen(said, name))
    cost = {kind: max(median(probed[kind]) - median(plain[kind]), 0.0) for kind in _NUMBER}
    return {
        "function": cost["call_twice"],
        "entry": cost["call_once"],
        "syscall": cost["system_call"],
        "fault": cost["fault"],
        "switch": cost["switch"],
        PUSHED + "function": cost["call_pushed"],
        **{name: median(each) for name, each in apparent.items()},
    }


def _make(maker: CostProgram, seconds: Mapping[str, list[float]]) -> None:
    for _ in range(_BLOCKS):
        for kind, number in _NUMBER.items():
            seconds[kind].append(maker.make(kind, number))


def _await_uprobes(maker: CostProgram) -> None:
    """bpftrace says that it is there before its uprobes are."""
    limit = time.monotonic() + _PATIENCE_S
    while min(maker.make(kind, _FEW) for kind in ("call_once", "call_twice", "call_pushed")) < _TRAP_S:
        if time.monotonic() > limit:
            raise NoCost("the uprobes of bpftrace have no effect")
        time.sleep(_LOOK_S)


@contextlib.contextmanager
def _probes(process: int) -> Iterator[list[str]]:
    """All probes attached; the list has what they printed once they are gone."""
    libc = _LIBC.search(Path(f"/proc/{process}/maps").read_text())
    if libc is None:
        raise NoCost("no C library to measure a uprobe in")
    calls = "".join(
        _CALL.format(libc=libc[1], name=name, apparent=apparent, bin_ns=_BIN_NS)
        for apparent, name in _CALLED.items()
    )
    program = _PROGRAM.format(process=process, ready=_READY, libc=libc[1], calls=calls)
    command = ["bpftrace", "-f", "json", "-B", "line", "-e", program]
    printed: list[str] = []
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as tracer:
        assert tracer.stdout is not None
        try:
            _await(tracer, tracer.stdout)
            yield printed
            tracer.terminate()
            printed += tracer.communicate(timeout=_PATIENCE_S)[0].splitlines()
        except subprocess.TimeoutExpired:
            raise NoCost(f"bpftrace did not end within {_PATIENCE_S:g} s") from None
        finally:
            tracer.kill()


def _await(tracer: subprocess.Popen[str], output: IO[str]) -> None:
    limit = time.monotonic() + _PATIENCE_S
    while time.monotonic() < limit:
        line = output.readline()
        if _READY in line:
            return
        if not line:
            assert tracer.stderr is not None
            words = [each for each in tracer.stderr.read().splitlines() if "RLIMIT" not in each]
            raise NoCost(f"bpftrace: {words[-1] if words else 'ended without a word'}")
    raise NoCost(f"bpftrace did not attach within {_PATIENCE_S:g} s")


def _seen(said: list[str], name: str) -> float:
    """The median duration of a function that does nothing."""
    for line in said:
        with contextlib.suppress(ValueError, KeyError, TypeError):
            bins = json.loads(line)["data"][f"@{name}"]
            left = sum(each["count"] for each in bins) / 2
            for each in bins:
                left -= each["count"]
                if left <= 0:
                    return float(each["min"] + _BIN_NS / 2) * 1e-9
    raise NoCost("bpftrace printed no durations")
