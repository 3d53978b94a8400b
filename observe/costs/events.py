"""Makes events of a kind, and says how much CPU time one took, which others beside it do not change: run by
`npc.observe.probes.costs` as a process of its own.

    python -ES events.py      reads lines ``KIND NUMBER``, prints seconds of one event for each

Only the standard library.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import resource
import sys
from collections.abc import Callable
from time import perf_counter, process_time
from typing import Final

_LIBC: Final = ctypes.CDLL(None)
_PAGE: Final = mmap.PAGESIZE


def call_once(number: int) -> float:
    """Calls of a function that nobody else calls: toascii(3)."""
    return _repeated(_LIBC.toascii, number)


def call_twice(number: int) -> float:
    """Of another one, of which the return is probed as well: labs(3)."""
    return _repeated(_LIBC.labs, number)


def call_pushed(number: int) -> float:
    """Of one that begins by saving a register: bsearch(3), in nothing."""
    return _repeated(lambda _: _LIBC.bsearch(None, None, 0, 0, None), number)


def system_call(number: int) -> float:
    """The shortest system call."""
    return _repeated(lambda _: os.getppid(), number)


def fault(number: int) -> float:
    """First writes to pages."""
    with mmap.mmap(-1, number * _PAGE) as memory:
        memory.madvise(mmap.MADV_NOHUGEPAGE)
        begin = process_time()
        for place in range(0, number * _PAGE, _PAGE):
            memory[place] = 1
        return (process_time() - begin) / number


def switch(number: int) -> float:
    """Two processes on one CPU that give it to each other; of both, the switches that the kernel counted."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(before)})
    reading, writing = os.pipe()
    back, forth = os.pipe()
    try:
        other = os.fork()
        if other == 0:
            for _ in range(number):
                os.read(reading, 1)
                os.write(forth, b"x")
            os._exit(0)
        begin = _time_of_all()
        for _ in range(number):
            os.write(writing, b"x")
            os.read(back, 1)
        os.waitpid(other, 0)
        return (_time_of_all() - begin) / (2 * number)
    finally:
        os.sched_setaffinity(0, before)
        for end in (reading, writing, back, forth):
            os.close(end)


def work(number: int) -> float:
    """Steps of arithmetic below twenty calls of functions, by the wall clock: interrupts belong to nobody."""
    return _below(20, number)


def _below(depth: int, number: int) -> float:
    if depth:
        return _below(depth - 1, number)
    total = 0
    begin = perf_counter()
    for step in range(number):
        total += step & 3
    return (perf_counter() - begin) / number


def _time_of_all() -> float:
    """CPU seconds of this process and of those that it has waited for."""
    used = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in used)


def _repeated(function: Callable[[int], int], number: int) -> float:
    begin = process_time()
    for _ in range(number):
        function(1)
    return (process_time() - begin) / number


if __name__ == "__main__":
    every = (call_once, call_twice, call_pushed, system_call, fault, switch, work)
    kinds = {program.__name__: program for program in every}
    for line in sys.stdin:
        kind, number = line.split()
        print(kinds[kind](int(number)), flush=True)
