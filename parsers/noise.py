"""NPC's own ``noise`` (``benchmarks/noise``): what the operating system takes from every core of a node.

Cases ``detour`` (selfish detour: Beckman et al., Cluster 2006) and ``fwq`` (fixed work quanta: Sottile,
Minnich, Cluster 2004). `noise` is the share of the time that was lost, `detour` the longest loss at a time in
seconds, `detour_rate` their number a second (of ``detour`` alone: every quantum has a delay). Without the
qualifier ``core`` they are the node's: the mean over its cores, of the longest the longest; with it they are
one core's.

Circumstances of a core's noise: ``period`` (s) of its detours where they are regular, ``steal``, the share
that the hypervisor had, ``ran``, the processes that ran last on it meanwhile with their CPU time, and its
most frequent ``interrupts`` with their number.

Case ``collective``, `overhead` by ``ranks``: how much longer than its quantum a step of n ranks takes
that ends with a collective, where each rank's delay is drawn independently of the others' from the quanta of
all cores: the mean of the largest of n draws, Σ x_i·(F(x_i)ⁿ − F(x_{i−1})ⁿ) (Agarwal, Garg, Vishnoi, HiPC
2005; Hoefler, Schneider, Lumsdaine, SC10). It is an upper bound where delays come at once on all nodes, and
says nothing of more ranks than there were quanta.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from npc.parsers.text.lines import DECIMAL_3, NUMBER, WHOLE, complete_lines
from npc.parsers.text.runs import of_one_run
from npc.records.reading import OK, Reading, failed
from npc.records.series import CORE

_HEAD: Final = re.compile(
    rf"\nNPC noise: ({WHOLE}) cores at once, {NUMBER} s of each part, a quantum of ({NUMBER}) us,"
)
_CORE: Final = rf"\ncore ({WHOLE}) +({NUMBER}) +({NUMBER}) +({WHOLE}) +({NUMBER}) +"
_DETOURS: Final = re.compile(rf"{_CORE}({NUMBER}) +({NUMBER}) +({NUMBER}) +{WHOLE}(?=\n)")
_QUANTA: Final = re.compile(rf"{_CORE}{DECIMAL_3}(?=\n)")
_DELAYS: Final = re.compile(
    rf"\ndelays of core ({WHOLE}) \[us x number\]:((?: [0-9.]{{1,20}}x[0-9]{{1,9}}){{1,40}})(?=\n[A-Za-z])"
)
_RAN: Final = re.compile(rf"\nran on core ({WHOLE}): ({NUMBER}) s ([^\n]{{1,64}}) \(process {WHOLE}\)(?=\n)")
_INTERRUPTS: Final = re.compile(rf"\ninterrupts on core ({WHOLE}): ({WHOLE}) ([^\n]{{1,64}})(?=\n)")
_COMPLETE: Final = re.compile(r"\nComplete\n")
_MISSING: Final = re.compile(r"\n(unavailable: [^\n]+)(?=\n)")
#: Detours come like a clock from here on: of as many at random moments the peak is below 0.1.
_REGULAR: Final = 0.3
#: Processes, and interrupts, that are named.
_MOST_RAN: Final = 3
_US: Final = 1e-6


class _Row(NamedTuple):
    """What was taken from a core."""

    #: Number of the core, as printed.
    core: str
    #: Share of its time that was lost (of 1).
    noise: float
    #: The longest loss at a time, in s.
    longest: float
    #: Losses a second; 0 where the test does not count them.
    rate: float


MARKS: Final = r"NPC noise: "


def parse(text: str, argv: Sequence[str] = ()) -> Iterator[Reading]:
    """Readings of each core and of the node; the failure of a run that is not whole."""
    yield from of_one_run(_of_text(complete_lines(text), argv))


def _of_text(text: str, argv: Sequence[str]) -> Iterator[Reading]:
    head = _HEAD.search(text)
    if head is None or not _COMPLETE.search(text):
        missing = _MISSING.search(text)
        if missing or argv or head:
            reason = missing[1] if missing else "the output ends before its results are complete"
            yield failed("detour", "noise", reason)
        return
    ran, interrupts = _most(_RAN, text, " s"), _most(_INTERRUPTS, text, "")
    cores = int(head[1])
    rows: list[_Row] = []
    for core, *numbers in _DETOURS.findall(text):
        seconds, lost, number, longest, period, regular, steal = map(float, numbers)
        params = {CORE: core, "steal": f"{steal / seconds:.3g}"}
        params |= {
            name: names[core] for name, names in (("ran", ran), ("interrupts", interrupts)) if core in names
        }
        if regular >= _REGULAR:
            params["period"] = f"{period * _US:.4g}"
        row = _Row(core, lost * _US / seconds, longest * _US, number / seconds)
        rows.append(row)
        yield Reading("detour", "noise", row.noise, None, OK, params)
        yield Reading("detour", "detour", row.longest, None, OK, {CORE: core})
        yield Reading("detour", "detour_rate", row.rate, None, OK, {CORE: core})
    yield from _of_node("detour", rows, cores)
    rows = []
    for core, seconds, lost, _, longest in _QUANTA.findall(text):
        row = _Row(core, float(lost) * _US / float(seconds), float(longest) * _US, 0.0)
        rows.append(row)
        yield Reading("fwq", "noise", row.noise, None, OK, {CORE: core})
        yield Reading("fwq", "detour", row.longest, None, OK, {CORE: core})
    yield from _of_node("fwq", rows, cores)
    yield from _collective(text, cores, float(head[2]) * _US)


def _most(line: re.Pattern[str], text: str, unit: str) -> dict[str, str]:
    """Core → the names that have most of it, with their numbers."""
    by_core: defaultdict[str, list[tuple[float, str]]] = defaultdict(list)
    for core, number, name in line.findall(text):
        by_core[core].append((float(number), name))
    return {
        core: ", ".join(
            f"{name} {number:g}{unit}" for number, name in sorted(names, reverse=True)[:_MOST_RAN]
        )
        for core, names in by_core.items()
    }


def _each_once(cores: Sequence[str], number: int) -> bool:
    """Whether there is a line of every core: what follows from all of them is nothing that some can tell."""
    return len(cores) == len(set(cores)) == number > 0


def _of_node(case: str, rows: Sequence[_Row], cores: int) -> Iterator[Reading]:
    if not _each_once([row.core for row in rows], cores):
        return
    yield Reading(case, "noise", math.fsum(row.noise for row in rows) / cores, None, OK)
    yield Reading(case, "detour", max(row.longest for row in rows), None, OK)
    if case == "detour":
        yield Reading(case, "detour_rate", math.fsum(row.rate for row in rows) / cores, None, OK)


def _collective(text: str, cores: int, quantum: float) -> Iterator[Reading]:
    lines = _DELAYS.findall(text)
    if not _each_once([core for core, _ in lines], cores):
        return
    delays: defaultdict[float, int] = defaultdict(int)
    for _, line in lines:
        for entry in line.split():
            delay, _, number = entry.partition("x")
            delays[float(delay) * _US] += int(number)
    total = sum(delays.values())
    ranks = 2
    while ranks <= total:
        yield Reading(
            "collective",
            "overhead",
            expected_largest(delays, ranks) / quantum,
            None,
            OK,
            {"ranks": str(ranks)},
        )
        ranks *= 2


def expected_largest(delays: Mapping[float, int], ranks: int) -> float:
    """The mean of the largest of `ranks` independent draws from delays (s → how often)."""
    total, below, mean = sum(delays.values()), 0, 0.0
    for delay, number in sorted(delays.items()):
        mean += delay * (((below + number) / total) ** ranks - (below / total) ** ranks)
        below += number
    return mean
