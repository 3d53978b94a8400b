"""FLOP of a node, or bytes of a level of its memory, by ``likwid-perfctr`` beside the program.

likwid-perfctr(1) counts what happens on CPUs, whoever runs there, and joins the words of the program that it
starts by blanks. So it stands beside the ranks and not around one: a rank of each node starts it with a
``cat`` that waits at a named pipe, begins when ``cat`` has answered (LIKWID lets its program run only once
the counters do), and ends it by closing the pipe. Only the standard library, as in `npc.observe.rank`.
"""

from __future__ import annotations

import math
import os
import subprocess
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from npc import own_folder

#: Setting counters up takes tenths of a second, reading them less.
_PATIENCE_S: Final = 30.0
_ANSWER: Final = "npc observe: counting\n"
#: Metrics of LIKWID's groups FLOPS_DP, FLOPS_SP and FLOPS_HP: all FLOP of that precision.
_RATES: Final = ("DP [MFLOP/s]", "SP [MFLOP/s]", "HP [MFLOP/s]")
_TIME: Final = "Runtime (RDTSC) [s]"
_UNHALTED: Final = "Runtime unhalted [s]"
#: Bytes of its groups MEM, L3 and L2: between which level and the next one nearer to the core.
_VOLUMES: Final = {
    "Memory data volume [GBytes]": "MEM",
    "L3 data volume [GBytes]": "L3",
    "L2 data volume [GBytes]": "L2",
}


class NoCounters(Exception):
    """They cannot be had here; the message says why."""


class FlopCounter:
    """Counts on `cpus` of this node from its making on, by LIKWID's `group`. Raises `NoCounters`."""

    def __init__(self, folder: Path, name: str, group: str, cpus: Iterable[int]) -> None:
        with own_folder.opened(folder) as within:
            answer = self._begin(within, f"{name}.gate", group, sorted(cpus))
        if answer is not None:
            os.close(self._gate)
            self._likwid.wait()
            raise NoCounters(answer)

    def _begin(self, folder: int, gate: str, group: str, cpus: list[int]) -> str | None:
        """Start LIKWID and see it count, or say why it does not. folder: its descriptor."""
        os.mkfifo(gate, 0o600, dir_fd=folder)
        # both ends: opening one would wait for somebody at the other
        self._gate = os.open(gate, os.O_RDWR | os.O_NOFOLLOW, dir_fd=folder)
        words = ["likwid-perfctr", "-O", "-c", ",".join(map(str, cpus)), "-g", group, "cat", gate]
        try:
            self._likwid = subprocess.Popen(
                words,
                cwd=f"/proc/self/fd/{folder}",
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
                start_new_session=True,  # what the launcher sends to its ranks is not meant for it
                preexec_fn=lambda: os.sched_setaffinity(0, cpus),  # LIKWID knows no CPU beyond these
            )
            os.write(self._gate, _ANSWER.encode())
            return self._read_until_answer()
        except (OSError, subprocess.SubprocessError) as error:
            os.close(self._gate)
            raise NoCounters(f"likwid-perfctr: {error}") from None
        finally:
            os.unlink(gate, dir_fd=folder)

    def _read_until_answer(self) -> str | None:
        """None once the counters run; what LIKWID said last where it ended instead."""
        assert self._likwid.stdout is not None
        last = "likwid-perfctr said nothing"
        limit = threading.Timer(_PATIENCE_S, self._likwid.kill)
        limit.start()
        try:
            for line in self._likwid.stdout:
                if line == _ANSWER:
                    return None
                last = line.strip().strip("-") or last
        finally:
            limit.cancel()
        return last

    def result(self) -> dict[str, Any]:
        """End it: {"flop": what was counted}, {"moved": of `moved_bytes`}, or {"reason": why nothing was}."""
        os.close(self._gate)
        try:
            text, _ = self._likwid.communicate(timeout=_PATIENCE_S)
            moved = moved_bytes(text)
            return {"moved": moved} if moved else {"flop": counted_flop(text)}
        except subprocess.TimeoutExpired:
            self._likwid.kill()
            self._likwid.wait()
            return {"reason": "likwid-perfctr did not end"}
        except NoCounters as error:
            return {"reason": str(error)}


def counted_flop(text: str) -> float:
    """FLOP over all CPUs in the table of metrics that ``likwid-perfctr -O`` prints. Raises `NoCounters`."""
    rows = _metrics(text)
    rates = next((rows[name] for name in _RATES if name in rows), [])
    try:
        pairs = zip(filter(None, rates), filter(None, rows.get(_TIME, ())), strict=True)
        flop = math.fsum(float(rate) * 1e6 * float(seconds) for rate, seconds in pairs)
    except ValueError:
        flop = math.nan
    if not (rates and math.isfinite(flop)):
        raise NoCounters("LIKWID's table of this group has no MFLOP/s")
    return flop


def moved_bytes(text: str) -> dict[str, Any] | None:
    """``level`` (MEM, L3, L2), ``bytes`` over all CPUs, ``seconds``, and ``idle``, 1 − unhalted / RDTSC: the
    mean part of the time in which a CPU was halted (unhalted time is in cycles of the nominal clock, so a
    higher one hides some). None where the group tells no data volume. Counters of a socket's memory stand in
    the column of one of its CPUs, 0 in those of the others."""
    rows = _metrics(text)
    for name, level in _VOLUMES.items():
        try:
            volume = math.fsum(1e9 * float(number) for number in rows.get(name, ()) if number)
            seconds, unhalted = (
                [float(number) for number in rows.get(key, ()) if number] for key in (_TIME, _UNHALTED)
            )
        except ValueError:
            continue
        if name in rows and math.isfinite(volume) and sum(seconds) > 0:
            idle = None
            if len(unhalted) == len(seconds):
                idle = max(1 - math.fsum(unhalted) / math.fsum(seconds), 0.0)
            return {"level": level, "bytes": volume, "seconds": max(seconds), "idle": idle}
    return None


def _metrics(text: str) -> dict[str, list[str]]:
    """Rows of the table of metrics: name → a cell for each CPU, and empty ones."""
    table = text.partition("TABLE,Group 1 Metric,")[2].partition("\nTABLE,")[0]
    return {name: cells for name, *cells in (line.split(",") for line in table.splitlines()[1:])}
