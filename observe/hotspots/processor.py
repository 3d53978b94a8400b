"""The processor of a node, and the clock that it holds: with it, the cycles of a loop become seconds.

Only the standard library, because a program that starts each rank imports it.
"""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path
from typing import Any, Final

_CPUINFO: Final = Path("/proc/cpuinfo")
_ADDITIONS: Final = 100
_WARM_S: Final = 0.02
_BURSTS: Final = 80
_BURST_S: Final = 2e-4
#: How the clock was measured, in the words that are stored.
CHAIN: Final = "a chain of additions on one core, after the run"


def node_processor() -> dict[str, Any]:
    """What `named` says, ``clock_hz`` in Hz and ``clock``, how it was measured.

    Where the clock could not be measured, ``clock_reason`` says why instead. Takes about 30 ms of one core.
    """
    description: dict[str, Any] = named()
    try:
        description |= {"clock_hz": clock_hz(), "clock": CHAIN}
    except (OSError, ValueError) as error:
        description["clock_reason"] = str(error)
    return description


def clock_hz() -> float:
    """Cycles a second of the core that this runs on, by the time of a chain of dependent additions.

    One ``add rax, rax`` waits for the one before, and takes one cycle on every x86-64 processor (Fog,
    Instruction tables). Hardware counters would tell it too, but they need rights or are missing. The fastest
    of several bursts of a fifth of a millisecond counts, because disturbances only add time; it is right
    within 1 %. Under vector instructions on all cores a processor may hold less. Raises OSError, ValueError.
    """
    if os.uname().machine not in ("x86_64", "AMD64"):
        raise ValueError(f"the clock is measured on x86-64 only, not on {os.uname().machine}")
    import ctypes  # only where it is asked for: this starts once a rank
    import mmap

    with contextlib.closing(mmap.mmap(-1, mmap.PAGESIZE, prot=7)) as memory:  # read, write, execute
        memory.write(_chain())
        start = ctypes.c_char.from_buffer(memory)
        chain = ctypes.CFUNCTYPE(None, ctypes.c_long)(ctypes.addressof(start))
        try:
            return _fastest(chain)
        finally:
            del start, chain


def _chain() -> bytes:
    """``void chain(long n)``: n times `_ADDITIONS` dependent additions; counting down is independent."""
    body = b"\x48\x01\xc0" * _ADDITIONS + b"\x48\xff\xcf"  # add rax, rax; dec rdi
    back = -(len(body) + 6)
    return body + b"\x0f\x85" + back.to_bytes(4, "little", signed=True) + b"\xc3"  # jnz; ret


def _fastest(chain: Any) -> float:
    begin, rounds = time.perf_counter(), 100
    while time.perf_counter() - begin < _WARM_S:  # a core that was idle has to raise its clock
        chain(rounds)
    before = time.perf_counter()
    chain(rounds)
    rounds = max(100, int(rounds * _BURST_S / (time.perf_counter() - before)))
    best = 0.0
    for _ in range(_BURSTS):
        before = time.perf_counter()
        chain(rounds)
        best = max(best, rounds * _ADDITIONS / (time.perf_counter() - before))
    return best


def named() -> dict[str, Any]:
    """``machine``; of the first CPU in /proc/cpuinfo ``vendor``, ``family``, ``model`` and ``name``; ``amx``:
    whether it has AMX, which shows that a virtual machine has a newer processor than its name says."""
    names = {"vendor_id": "vendor", "cpu family": "family", "model": "model", "model name": "name"}
    description: dict[str, Any] = {"machine": os.uname().machine}
    with contextlib.suppress(OSError):
        for line in _CPUINFO.read_text(encoding="utf-8").split("\n\n")[0].splitlines():
            key, _, value = (part.strip() for part in line.partition(":"))
            if key in names:
                description[names[key]] = int(value) if value.isdecimal() else value
            elif key == "flags":
                description["amx"] = "amx_tile" in value.split()
    return description
