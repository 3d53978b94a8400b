"""A night: measure, keep, judge, measure the suspicious again, judge again, say who it was, tidy up.

Each step is noted in the journal (`npc.records.journal`) when it is done. A night that is killed
at any instant loses nothing: the next one waits for its jobs, collects, keeps and judges it before its own.
"""

from __future__ import annotations

import contextlib
import dataclasses
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from itertools import count
from pathlib import Path
from types import MappingProxyType
from typing import Final

from npc.cron import matrix, measure, retention
from npc.cron.acceptance import Acceptance, accepted_nodes, baselines_of, read_acceptances
from npc.cron.acceptance_bands import Band, bands_of
from npc.cron.agenda import Agenda
from npc.cron.costs import costs_of
from npc.cron.counters import rising, with_counters, with_links
from npc.cron.judge import judge_last_night, with_confirmed, with_lost
from npc.cron.node_parts import AT_ONCE, NodeRotation, asked_for, odd_nodes
from npc.cron.publish import write_verdict
from npc.cron.series import panel
from npc.cron.verdict import NightVerdict
from npc.cron.window import Window
from npc.hostlist import host_text
from npc.jobs.stop import Stop
from npc.jobs.suite import settings
from npc.machine.fabric import Topology
from npc.machine.platform import PLATFORM_FILE, read_platform
from npc.places import suite
from npc.records.history import History, night_name, of_night
from npc.records.journal import Journal, JournalEntry, NightPlan, Part, missed, plans_of
from npc.records.record import Record, replace
from npc.records.series import REMEASURED, Series
from npc.records.units import format_duration, plural
from npc.records.verdicts import PairMatrix, Verdict
from npc.validity.disturbance import in_words

#: Shares of a night's time: for repairing the one before, and for the first measurement.
REPAIR: Final = 1 / 6
FIRST: Final = 1 / 2
#: A healthy node for comparison was measured within these last days.
WITNESS_DAYS: Final = 60
#: With less time left nothing more is measured.
LEAST_S: Final = 10.0


class Stopped(Exception):
    """Somebody ended the night by a signal; what was measured is kept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What a night is to do."""

    #: The platform's folder.
    platform: Path
    #: The folder of its history.
    history: Path
    #: The folder that its raw runs go to.
    runs: Path
    #: Further arguments of ``npc characterise``.
    words: tuple[str, ...] = ()
    #: Number of good nights whose raw runs stay.
    keep_runs: int = 14
    #: How long all of it may take, in s.
    limit_s: float = 3 * 3600.0
    #: Whether suspects are confirmed by a matrix of pairs.
    pairs: bool = True
    #: As npb takes it: ``slurm``, or a file; empty if nobody knows.
    topology: str = ""
    #: What `topology` describes; None if nobody knows.
    fabric: Topology | None = None
    #: Node time (s) that it may take; None without end.
    budget_s: float | None = None
    #: The rotation over all nodes; None without one.
    rotation: NodeRotation | None = None


@dataclass(slots=True)
class NightOutcome:
    """What became of a night."""

    #: The judgement of all its series.
    night: NightVerdict
    #: What happened besides, for people.
    notes: list[str] = field(default_factory=list)
    #: What the pairs of the suspects say; None where they were not measured.
    matrix: PairMatrix | None = None


class NightRun:
    """One night from its beginning to its end; the lock of the history's folder is held meanwhile."""

    def __init__(self, options: Options, stop: Stop) -> None:
        self.options = options
        self.stop = stop
        self.history = History(options.history)
        self.journal = Journal(options.history)
        #: Sentences for people.
        self.notes: list[str] = []
        self._deadline = time.monotonic() + options.limit_s
        self._agenda = self._agenda_after(())
        #: By benchmark the words of the part that measured it first.
        self._words: dict[str, tuple[str, ...]] = {}

    def run(self) -> NightOutcome:
        """The whole night.

        Raises `Stopped`; OSError where it cannot be written down; `npc.files.InvalidFile`, before anything is
        measured, for a file that cannot be used.
        """
        bands_and_acceptances(self.options.platform, self.options.history)
        self.history.nights()
        self.repair()
        night = self._begin()
        self._measure_first(night)
        verdict = self._judge(night)
        if self._measure_again(night, verdict):
            verdict = self._judge(night)
        pairs = self._measure_suspects(night, verdict)
        verdict = self._complete(night, verdict, pairs)
        self.journal.note(
            night.name,
            "judged",
            verdict=verdict.verdict.name,
            suspects=[suspect.name for suspect in verdict.suspects],
        )
        self._note_folders_of_others()
        if disturbed := in_words(self.history.records(run=night.name)):
            self.notes.append(f"disturbed: {disturbed} (npc check says by whom)")
        if problems := list(dict.fromkeys(self.history.problems)):
            self.notes.append(f"{len(problems)} rows of the history cannot be read, the first: {problems[0]}")
        self.notes += self.history.notes
        return NightOutcome(verdict, self.notes, pairs)

    def repair(self) -> None:
        """Finish all nights that were cut off. Raises as `run` does."""
        for night in self.journal.entries():
            if not night.ended:
                self._repair(night)

    def end(self, night: NightVerdict) -> None:
        """Note that everything about a night is written, and prune what need not be kept."""
        self.journal.note(night.run, "ended", verdict=night.verdict.name)
        for old in retention.prunable(self.journal.entries(), self.options.keep_runs):
            with contextlib.suppress(retention.NotOurs, OSError):
                retention.remove(old, self.options.runs, self.options.history)
                self.journal.note(old.name, "pruned")

    # -- the steps of a night ------------------------------------------------------------------------------

    def _begin(self) -> JournalEntry:
        """Make the night's folder, and note in the journal that it began."""
        before = self.journal.entries()
        now = datetime.now(timezone.utc)
        if not_run := missed(before, now):
            last = before[-1].begun
            self.notes.append(f"{plural(not_run, 'night')} did not run since {last:%Y-%m-%d %H:%M} UTC")
        taken = {night.name for night in before}
        name = night_name(now)
        names = (f"{name}-{n}" if n else name for n in count())
        name = next(n for n in names if n not in taken and not (self.options.runs / n).exists())
        folder = self.options.runs / name
        retention.begin(folder, self.options.history)
        self.journal.note(name, "begun", folder=str(folder), words=self.options.words)
        self._agenda = self._agenda_after(before)
        return JournalEntry(name, folder, now, self.options.words)

    def _agenda_after(self, nights: Sequence[JournalEntry]) -> Agenda:
        options = self.options
        return Agenda(
            platform=options.platform, history=self.history, words=options.words, nights=nights,
            budget_s=options.budget_s, rotation=options.rotation, fabric=options.fabric,
        )  # fmt: skip

    def _measure_first(self, night: JournalEntry) -> None:
        """Measure what the agenda says, and note what that shows of nodes besides the numbers."""
        whole_suite = self._agenda.whole_suite()
        self._note_plan(night)
        for part in whole_suite:
            self._measure(night, part, FIRST)
        self._agenda.plan_tonight()
        self._note_plan(night)
        Window(
            self._agenda, self.stop, self.notes, lambda part: self._begin_part(night, part, FIRST),
            lambda measurement: self._finish(night, measurement),
            lambda part, reason: self._leave_out(night, part, reason),
        ).measure_all()  # fmt: skip
        if self.stop.number is not None:
            raise Stopped
        self.notes += odd_nodes([night.folder])
        self.notes += rising(night.folder, self.options.history, night.name)
        if postponed := self._agenda.postponed():
            names = [work.benchmark for work in postponed]
            self.journal.note(night.name, "postponed", benchmarks=names)

    def _leave_out(self, night: JournalEntry, part: Part, reason: str) -> None:
        """Note why a part is not measured."""
        self._note_begin(night, part)
        unmeasured = {",".join(part.hosts): reason}
        self.journal.note(night.name, "measured", part=part.name, exit=None, unmeasured=unmeasured)
        self.journal.note(night.name, "kept", part=part.name, rows=0)

    def _note_begin(self, night: JournalEntry, part: Part) -> None:
        self.journal.note(
            night.name, "measuring", part=part.name, kind=part.kind, words=part.words, hosts=part.hosts
        )

    def _note_plan(self, night: JournalEntry) -> None:
        """Note what is to be measured before it is, so that it is missed where the night ends before."""
        if new := self._agenda.planned - (night.planned or frozenset()):
            night.planned = frozenset(self._agenda.planned)
            self.journal.note(night.name, "planned", benchmarks=sorted(new))

    def _measure_again(self, night: JournalEntry, verdict: NightVerdict) -> bool:
        """Measure what is suspicious once more, each part in an equal share of the time; whether any is."""
        parts = self._parts_again(night, verdict)
        for number, part in enumerate(parts):
            self._measure(night, part, 1 / (len(parts) - number + 1))
        return bool(parts)

    def _measure_suspects(self, night: JournalEntry, verdict: NightVerdict) -> PairMatrix | None:
        """The matrix of pairs of the suspects, where there is a cluster to run it on."""
        if not self.options.pairs or not self._takes_nodelist():
            return None
        recently = (night.begun - timedelta(days=WITNESS_DAYS)).isoformat()
        points = list(self.history.points(since=recently))
        accused, _ = matrix.chosen(verdict, points)
        if not accused:
            return None
        out = self._out_of_service({host for point in points for host in point.hosts}, verdict)
        self.notes += [f"no pairs of {host}: it is {out[host]}" for host in accused if host in out]
        suspects, witnesses = matrix.chosen(verdict, points, out)
        if not suspects:
            return None
        if not witnesses:
            idle = measure.idle_nodes(suspects)[: matrix.USUAL_NODES - len(suspects)]
            part = matrix.part_of(suspects, idle, verdict, self.options.topology)
            problem = matrix.too_few(part, self.options.platform)
            return PairMatrix(nodes=suspects, suspects=suspects, problem=problem)
        part = matrix.part_of(suspects, witnesses, verdict, self.options.topology)
        if not self._agenda.affords("pairs"):
            return PairMatrix(nodes=matrix.nodes_of(part), suspects=suspects, problem="the budget is spent")
        self._measure(night, part, 1.0)
        run = measure.run_of(part, night.folder)
        return matrix.read_matrix(part, run, measure.last_words(part, night.folder))

    def _complete(self, night: JournalEntry, verdict: NightVerdict, pairs: PairMatrix | None) -> NightVerdict:
        """The verdict with all that was learned of nodes and links besides the numbers."""
        verdict = with_lost(verdict, night.lost)  # the pairs may have lost another
        verdict = with_links(verdict, night.folder)
        coverage = self._agenda.coverage(self.journal.entries()[-1])
        verdict = dataclasses.replace(verdict, postponed=self._agenda.postponed(), coverage=coverage)
        self.notes += [*self._agenda.summary(), *(coverage.lines() if coverage else ())]
        if pairs and pairs.slow:
            slow = {(suspect.kind, frozenset(suspect.nodes)) for suspect in pairs.slow}
            verdict = with_confirmed(verdict, slow)
        return verdict

    def _note_folders_of_others(self) -> None:
        """Say, once, which folders of the journal retention will never touch."""
        for old in retention.prunable(self.journal.entries(), self.options.keep_runs):
            try:
                retention.check(old, self.options.runs, self.options.history)
            except retention.NotOurs as why:
                self.notes.append(f"raw runs of {old.name} stay: {why}")
                self.journal.note(old.name, "left", why=str(why))

    # -- measuring a part ----------------------------------------------------------------------------------

    def _measure(self, night: JournalEntry, part: Part, share: float) -> bool:
        """Run a part in its share of the time that is left, and keep its records; whether there was time."""
        if self.stop.number is not None:
            raise Stopped
        measurement = self._begin_part(night, part, share)
        if measurement is None:
            return False
        measurement.wait(self.stop)
        self._finish(night, measurement)
        if self.stop.number is not None:
            raise Stopped
        return True

    def _begin_part(self, night: JournalEntry, part: Part, share: float) -> measure.RunningPart | None:
        """Begin a part, which may take its share of the time that is left; None if there is no time."""
        limit_s = share * max(0.0, self._deadline - time.monotonic())
        if limit_s < LEAST_S and part.name != "first":
            self.notes.append(f"{part.name}: no time was left for it")
            return None
        self._note_begin(night, part)
        return measure.RunningPart(part, night.folder, self.options.platform, limit_s)

    def _finish(self, night: JournalEntry, measurement: measure.RunningPart) -> None:
        """End a part, and keep its records."""
        part, ended = measurement.part, measurement.end()
        costs = costs_of(measure.run_of(part, night.folder))
        self._agenda.add_costs(costs)
        self.journal.note(night.name, "measured", part=part.name, exit=ended.code, **costs._asdict())
        self._look_for_dead_nodes(night, part)
        if ended.cancelled:
            jobs = ", ".join(map(str, ended.cancelled))
            self.notes.append(
                f"{part.name}: did not end in {format_duration(measurement.limit_s)}; cancelled: job {jobs}"
            )
        if part.kind != "pairs":
            if not measure.records_of(part, night.folder):
                words = measure.last_words(part, night.folder) or f"exit code {ended.code}"
                self.notes.append(f"{part.name}: nothing was measured: {words}")
            self._append_to_history(night, part)

    def _look_for_dead_nodes(self, night: JournalEntry, part: Part) -> None:
        """Note the nodes that have died under a part: a tool may go on without them and say nothing."""
        if dead := measure.dead_nodes(part, night.folder):
            night.lost.update(dead)
            self.journal.note(night.name, "lost", nodes=dead)

    def _append_to_history(self, night: JournalEntry, part: Part) -> int:
        """Put a part's records into the history, with raw files named from the night's folder; how many rows
        are new."""
        records, again = measure.records_of(part, night.folder), part.kind == "again"
        for benchmark in {record.benchmark for record in records}:
            self._words.setdefault(benchmark, part.words)
        if again:
            records = self._on_same_nodes(night, part, records)
        run = measure.run_of(part, night.folder)
        base = run.relative_to(night.folder) if run else Path(part.name)
        named = (replace(record, raw=str(base / record.raw) if record.raw else "") for record in records)
        rows = self.history.append(of_night(named, night.name, remeasured=again))
        self.journal.note(night.name, "kept", part=part.name, rows=rows)
        return rows

    def _on_same_nodes(self, night: JournalEntry, part: Part, records: Sequence[Record]) -> list[Record]:
        """Those records that repeat what the night measured first on the same nodes, and the failures."""
        places = self._places(night)
        same = [
            record
            for record in records
            if not record.hosts or _place(record) in places.get(Series.of(record), ())
        ]
        if len(same) < len(records):
            other = sorted({host for record in records for host in record.hosts} - set(part.hosts))
            where = f"on {', '.join(other)}, not " if other else "other series than "
            self.notes.append(
                f"{part.name}: {len(records) - len(same)} records are {where}what was asked for"
            )
        return same

    def _places(self, night: JournalEntry) -> dict[Series, set[tuple[str, ...]]]:
        """By series, the groups of nodes on which the night measured it first."""
        places: dict[Series, set[tuple[str, ...]]] = {}
        for record in self.history.records(run=night.name):
            if REMEASURED not in record.params:
                places.setdefault(Series.of(record), set()).add(_place(record))
        return places

    def _parts_again(self, night: JournalEntry, verdict: NightVerdict) -> list[Part]:
        """What to measure again: the suspicious benchmarks, each on the nodes where it was suspicious, and
        what others disturbed, where they did."""
        places = self._places(night)
        #: Words of ``npc characterise``, and on which nodes.
        wanted: set[tuple[tuple[str, ...], tuple[str, ...]]] = set()
        for series in verdict.series:
            broken = series.verdict in (Verdict.FAIL, Verdict.INVALID) and series.value is not None
            where = {tuple(sorted(hosts)) for hosts in series.disturbed_on}
            if series.again is None and (series.hit or broken):
                where |= places.get(series.key, set())
            if where := where - {()}:
                benchmark = series.key.benchmark
                words = self._words.get(benchmark, self.options.words)
                words += () if "--benchmark" in words else ("--benchmark", benchmark)
                some = _evenly(sorted(where), AT_ONCE)
                if not self._agenda.affords(benchmark, len(some)):
                    self.notes.append(f"not measured again: {benchmark}: the budget is spent")
                    continue
                wanted.update((words, place) for place in some)
        takes_nodelist = self._takes_nodelist()
        hosts_wanted = {host for _, hosts in wanted for host in hosts}
        out = self._out_of_service(hosts_wanted, verdict) if takes_nodelist else {}
        parts = []
        for number, (given, hosts) in enumerate(sorted(wanted), 1):
            if problems := [f"{host} is {out[host]}" for host in hosts if host in out]:
                self.notes.append(f"not measured again: {host_text(hosts)}: {'; '.join(problems)}")
                continue
            words = (*given, "--set", f"nodelist={','.join(hosts)}") if takes_nodelist else given
            parts.append(Part(name=f"again-{number}", kind="again", words=words, hosts=hosts))
        return parts

    def _takes_nodelist(self) -> bool:
        """Whether the platform can measure on named nodes."""
        return "nodelist" in settings(suite(), self.options.platform)

    def _out_of_service(self, hosts: Collection[str], verdict: NightVerdict) -> dict[str, str]:
        """Those of the nodes on which nothing can be measured now, and why."""
        lost = {host: f"lost ({verdict.lost[host]})" for host in hosts if host in verdict.lost}
        reserved = asked_for(self.options.platform, self.options.words, "reservation")
        return lost | measure.out_of_service(hosts, bool(reserved))  # Slurm may not have noticed yet

    def _judge(self, night: JournalEntry) -> NightVerdict:
        options = self.options
        return judge_night(
            options.platform, self.history, night.name, night.begun, options.fabric, night.lost,
            plans_of(self.journal.entries()),
        )  # fmt: skip

    # -- after a crash -------------------------------------------------------------------------------------

    def _repair(self, night: JournalEntry) -> None:
        """Finish a night that was cut off: collect, keep and judge what it measured."""
        rows = 0
        parts = list(night.parts.values())
        try:
            retention.check(night, night.folder.parent, self.options.history)
        except retention.NotOurs as why:  # a copied journal: those jobs may be another's
            self.notes.append(f"nothing is collected for {night.name}: {why}")
            parts = []
        for progress in parts:
            part = progress.part
            if progress.in_history or part.kind == "pairs":
                continue
            if not progress.measured:
                measure.finish(part, night.folder, REPAIR * self.options.limit_s, self.stop)
                if self.stop.number is not None:
                    raise Stopped
                self.journal.note(night.name, "measured", part=part.name, exit=None)
                self._look_for_dead_nodes(night, part)
            rows += self._append_to_history(night, part)
        verdict = self._judge(night)
        note = f"the night {night.name} was cut off: {rows} records recovered, verdict {verdict.verdict.name}"
        self.notes.append(note)
        write_verdict(self.options.history, verdict, [note])
        self.journal.note(night.name, "ended", verdict=verdict.verdict.name, cut=True)


def judge_night(
    platform: Path,
    history: History,
    name: str,
    begun: datetime,
    fabric: Topology | None = None,
    lost: Mapping[str, str] | None = None,
    plans: Mapping[str, NightPlan] = MappingProxyType({}),
) -> NightVerdict:
    """The verdict on a night of the history. fabric: switches and racks that may be to blame, too. lost:
    nodes that died, and plans: what each night was to measure, as the journal has them.

    Raises `npc.files.InvalidFile` for a platform file or an acceptance that cannot be used.
    """
    bands, acceptances = bands_and_acceptances(platform, history.folder)
    nights = panel(history.points(), night=(name, begun.isoformat(timespec="seconds")), plans=plans)
    verdict = judge_last_night(
        nights, history.folder.name, baselines_of(acceptances), bands, fabric, accepted_nodes(acceptances)
    )
    return with_lost(with_counters(verdict, history), lost or {})


def bands_and_acceptances(platform: Path, history: Path) -> tuple[tuple[Band, ...], list[Acceptance]]:
    """What a night is judged by: the bands of the platform, and what was accepted.

    Raises `npc.files.InvalidFile` for a file that cannot be used.
    """
    file = platform / PLATFORM_FILE
    bands = bands_of(read_platform(file)) if file.exists() else ()
    return bands, read_acceptances(history)


def _place(record: Record) -> tuple[str, ...]:
    return tuple(sorted(record.hosts))


def _evenly(places: Sequence[tuple[str, ...]], most: int) -> list[tuple[str, ...]]:
    """At most `most` places, evenly spread: a choice by their values would make the second measurement
    another kind of number than the first."""
    return (
        [places[number * len(places) // most] for number in range(most)] if len(places) > most else [*places]
    )
