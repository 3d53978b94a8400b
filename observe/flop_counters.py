"""FLOP of a node from its hardware counters, by ``likwid-perfctr`` beside the program.

likwid-perfctr(1) counts what happens on CPUs, whoever runs there, and joins the words of the program that it
starts by blanks. So it stands beside the ranks and not around one: a rank of each node starts it with a
``cat`` that waits at a named pipe, begins when ``cat`` has answered (LIKWID lets its program run only once
the counters do), and ends it by closing the pipe. Only the standard library, as in `observe.rank`.
"""

from __future__ import annotations

import math
import os
import subprocess
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import Final

#: Setting counters up takes tenths of a second, reading them less.
_PATIENCE_S: Final = 30.0
_ANSWER: Final = "npc observe: counting\n"
#: Metrics of LIKWID's groups FLOPS_DP, FLOPS_SP and FLOPS_HP: all FLOP of that precision.
_RATES: Final = ("DP [MFLOP/s]", "SP [MFLOP/s]", "HP [MFLOP/s]")
_TIME: Final = "Runtime (RDTSC) [s]"


class NoCounters(Exception):
    """They cannot be had here; the message says why."""


class FlopCounter:
    """Counts on `cpus` of this node from its making on, by LIKWID's `group`. Raises `NoCounters`."""

    def __init__(self, folder: Path, name: str, group: str, cpus: Iterable[int]) -> None:
        gate = folder / f"{name}.gate"
        os.mkfifo(gate)
        self._gate = os.open(gate, os.O_RDWR)  # both ends: opening one would wait for somebody at the other
        measured = sorted(cpus)
        words = ["likwid-perfctr", "-O", "-c", ",".join(map(str, measured)), "-g", group, "cat", gate.name]
        try:
            self._likwid = subprocess.Popen(
                words,
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
                start_new_session=True,  # what the launcher sends to its ranks is not meant for it
                preexec_fn=lambda: os.sched_setaffinity(0, measured),  # LIKWID knows no CPU beyond these
            )
        except (OSError, subprocess.SubprocessError) as error:
            os.close(self._gate)
            gate.unlink()
            raise NoCounters(f"likwid-perfctr: {error}") from None
        os.write(self._gate, _ANSWER.encode())
        said = self._read_until_answer()
        gate.unlink()
        if said is not None:
            os.close(self._gate)
            self._likwid.wait()
            raise NoCounters(said)

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

    def result(self) -> dict[str, float | str]:
        """End it: {"flop": what was counted}, or {"reason": why nothing was}."""
        os.close(self._gate)
        try:
            text, _ = self._likwid.communicate(timeout=_PATIENCE_S)
            return {"flop": counted_flop(text)}
        except subprocess.TimeoutExpired:
            self._likwid.kill()
            self._likwid.wait()
            return {"reason": "likwid-perfctr did not end"}
        except NoCounters as error:
            return {"reason": str(error)}


def counted_flop(text: str) -> float:
    """FLOP over all CPUs in the table of metrics that ``likwid-perfctr -O`` prints. Raises `NoCounters`."""
    table = text.partition("TABLE,Group 1 Metric,")[2].partition("\nTABLE,")[0]
    rows = {name: cells for name, *cells in (line.split(",") for line in table.splitlines()[1:])}
    rates = next((rows[name] for name in _RATES if name in rows), [])
    try:
        pairs = zip(filter(None, rates), filter(None, rows.get(_TIME, ())), strict=True)
        flop = math.fsum(float(rate) * 1e6 * float(seconds) for rate, seconds in pairs)
    except ValueError:
        flop = math.nan
    if not (rates and math.isfinite(flop)):
        raise NoCounters("LIKWID's table of this group has no MFLOP/s")
    return flop
