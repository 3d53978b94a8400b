"""The journal of the nights: how far each came, so that the next one can finish what was cut off.

``nights.jsonl`` in the history's folder, one JSON object a line, only ever appended to: ``time`` (UTC),
``night`` (as in the column ``run`` of the history), ``event`` and what belongs to it:

``begun``      ``folder`` with its raw runs, ``words`` of the command
``planned``    ``benchmarks`` that it is to measure; a night may have several of these events
``measuring``  ``part``, ``kind``, ``words`` of ``npc characterise``, ``hosts``: a measurement starts
``measured``   ``part``, ``exit``: it has ended, and its records are collected as far as there are any;
               ``costs``: by benchmark the node time of its jobs (s), and for how many groups of nodes;
               ``unmeasured``: by group of nodes why nothing was measured there
``kept``       ``part``, ``rows``: they are in the history
``lost``       ``nodes``: by name those that died, and what was seen of it
``postponed``  ``benchmarks`` that the night left out for its budget
``judged``     ``verdict``, ``suspects``
``ended``      ``verdict``; with ``cut`` where a later night had to end it
``pruned``     its raw runs are gone
``left``       ``why``: retention never removes its raw runs

What is not in the journal is done again. That does no harm, because records are not appended twice.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

from npc.files import append_line, read_lines
from npc.records.launch import now
from npc.records.record import moment

JOURNAL: Final = "nights.jsonl"
_DAY_S: Final = 86400.0
_LEAST_S: Final = 20 * 3600.0
#: The shortest time between two nights that cron starts regularly.
_OFTEN_S: Final = 3 * 3600.0

#: first: the night's own measurement; again: of what was suspicious, on the same nodes; pairs: the matrix.
Kind = Literal["first", "again", "pairs"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One measurement of a night: one `npc characterise` into ``FOLDER/name/000000``."""

    #: Its name in the night, which is its folder too.
    name: str
    #: Which measurement it is.
    kind: Kind
    #: Arguments of `npc characterise` without platform, output folder and time limit.
    words: tuple[str, ...] = ()
    #: Where it has to run; empty if anywhere.
    hosts: tuple[str, ...] = ()


@dataclass(slots=True)
class PartProgress:
    """How far a part came."""

    #: Which part.
    part: Part
    #: Whether its measurement has ended.
    measured: bool = False
    #: Exit code of `npc characterise`; None before it has ended.
    exit: int | None = None
    #: Whether its records are in the history.
    in_history: bool = False
    #: Benchmark → (node time of its jobs in s, number of groups of nodes that it was spent on).
    costs: dict[str, tuple[float, int]] = field(default_factory=dict)
    #: Group of nodes (a host list) → why nothing was measured there.
    unmeasured: dict[str, str] = field(default_factory=dict)


class NightPlan(NamedTuple):
    """What a night was to measure."""

    #: Benchmarks (steps of the suite); None if not known, as of nights before this was noted.
    benchmarks: frozenset[str] | None = None
    #: Those that it left out because its budget was used up.
    postponed: frozenset[str] = frozenset()

    def has(self, benchmark: str) -> bool | None:
        """Whether a benchmark was planned, and the budget reached it; None if that is not known."""
        if benchmark in self.postponed:
            return False
        return None if self.benchmarks is None else benchmark in self.benchmarks


@dataclass(slots=True)
class JournalEntry:
    """A night as the journal has it."""

    #: As in the column ``run`` of the history.
    name: str
    #: Where its raw runs are.
    folder: Path
    #: When it began, UTC.
    begun: datetime
    #: Its command line.
    words: tuple[str, ...] = ()
    #: Its measurements by their names, in the order in which they started.
    parts: dict[str, PartProgress] = field(default_factory=dict)
    #: Node that died → what was seen of that.
    lost: dict[str, str] = field(default_factory=dict)
    #: Benchmarks that it was to measure; None if not known.
    planned: frozenset[str] | None = None
    #: Benchmarks that it left out because its budget was used up.
    postponed: tuple[str, ...] = ()
    #: Its verdict (`npc.records.verdicts.Verdict`); None before it was judged.
    verdict: str | None = None
    #: Whether it is complete, or was ended by a later night.
    ended: bool = False
    #: Whether a later night had to end it.
    cut: bool = False
    #: Whether retention has removed its raw runs.
    pruned: bool = False
    #: Whether retention leaves its raw runs alone for ever.
    left: bool = False

    @property
    def plan(self) -> NightPlan:
        """What it was to measure, without what it left out."""
        return NightPlan(self.planned, frozenset(self.postponed))


class Journal:
    """The journal of a history's folder; its lines are whole or not there. Raises OSError as files do."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / JOURNAL
        self._nights: dict[str, JournalEntry] = {}
        #: Bytes of the file that `_nights` has.
        self._read = 0

    def note(self, night: str, event: str, **details: object) -> None:
        """Append a line; when it returns the line is on the disk."""
        append_line(self.path, {"time": now(), "night": night, "event": event, **details})

    def entries(self) -> list[JournalEntry]:
        """All nights, in the order in which they began. Lines that are no events of a night are skipped.

        A night calls it several times: only what was appended since the last call is read, into the same
        entries.
        """
        if self._read and (not self.path.exists() or self.path.stat().st_size < self._read):
            self._nights, self._read = {}, 0  # it is another file
        lines, self._read = read_lines(self.path, self._read)
        for line in lines:
            if isinstance(line, dict):
                with contextlib.suppress(KeyError, TypeError, ValueError, AttributeError, OverflowError):
                    _take(self._nights, line)
        return list(self._nights.values())


def _take(nights: dict[str, JournalEntry], line: Mapping[str, Any]) -> None:
    event, name = line.get("event"), str(line["night"])
    if event == "begun":
        begun = moment(line["time"])
        nights.setdefault(name, JournalEntry(name, Path(line["folder"]), begun, tuple(line["words"])))
        return
    night = nights.get(name)
    if night is None:
        return
    if event == "measuring":
        part = Part(
            name=line["part"], kind=line["kind"], words=tuple(line["words"]), hosts=tuple(line["hosts"])
        )
        night.parts.setdefault(part.name, PartProgress(part))
    elif event in ("measured", "kept") and line["part"] in night.parts:
        progress = night.parts[line["part"]]
        progress.measured = True
        progress.exit = line.get("exit", progress.exit)
        progress.in_history = progress.in_history or event == "kept"
        progress.costs |= {name: (float(s), int(n)) for name, (s, n) in line.get("costs", {}).items()}
        progress.unmeasured |= line.get("unmeasured", {})
    elif event == "lost":
        night.lost.update({str(node): str(reason) for node, reason in line["nodes"].items()})
    elif event == "planned":
        night.planned = (night.planned or frozenset()).union(map(str, line["benchmarks"]))
    elif event == "postponed":
        night.postponed = tuple(line["benchmarks"])
    elif event in ("judged", "ended"):
        night.verdict = line["verdict"]
        night.ended = night.ended or event == "ended"
        night.cut = night.cut or bool(line.get("cut"))
    elif event == "pruned":
        night.pruned = True
    elif event == "left":
        night.left = True


def plans_of(nights: Iterable[JournalEntry]) -> dict[str, NightPlan]:
    """By name of the night what it was to measure."""
    return {night.name: night.plan for night in nights}


def not_ended(nights: Iterable[JournalEntry]) -> set[str]:
    """Names of the nights that are running, or were cut off and wait for the next one: the history does not
    have all of them."""
    return {night.name for night in nights if not night.ended}


def missed(nights: Sequence[JournalEntry], now: datetime) -> int:
    """How many nights should have begun between the last one and `now`, but did not.

    The usual time from one night to the next is the median of the last ten, or a day while there are fewer
    than three. It counts as less than `_LEAST_S` only where nights come regularly, as twice a day: somebody
    who starts several in a row has missed none.
    """
    from statistics import median

    if not nights:
        return 0
    begun = [night.begun.timestamp() for night in nights[-11:]]
    gaps = [later - earlier for earlier, later in pairwise(begun)]
    usual = median(gaps) if len(gaps) >= 3 else _DAY_S
    regular = all(usual / 2 < gap < 2 * usual for gap in gaps) and usual >= _OFTEN_S
    usual = usual if regular else max(usual, _LEAST_S)
    return max(0, round((now.timestamp() - begun[-1]) / usual) - 1)
