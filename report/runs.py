"""What a report is made from: runs with their records, grouped into series that have an anchor in the page.

Every number of the page links to its series' anchor, where its samples stand with their raw files.
"""

from __future__ import annotations

import contextlib
import os
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any
from urllib.parse import quote

from npc import catalogue
from npc.catalogue.row import Layer
from npc.document import below
from npc.machine.fabric import Topology
from npc.machine.platform import InvalidPlatform, Platform
from npc.places import shown
from npc.records.environment import read_environment
from npc.records.launch import ENVIRONMENT, Launch
from npc.records.pair_verdicts import PAIRS, PairSuspect, PairsVerdict, read_pairs
from npc.records.record import Record, replace
from npc.records.run import read_run, records_file
from npc.records.series import Series, identity, qualifiers
from npc.records.units import several
from npc.report.history import HistoryView
from npc.report.observed import Observed, read_observed
from npc.report.repeats import Repeats
from npc.roofline.analyse import analyse
from npc.roofline.result import Ceiling, Estimate, Roofline
from npc.validity import Violation, find_lies
from npc.validity.disturbance import in_words, remark
from npc.validity.rule import Circumstances
from npc.validity.run import circumstances_of, platform_of


@dataclass(eq=False)
class Run:
    """A run, or the part of it that is of one platform."""

    #: Its place among the runs of the report, from 0.
    number: int
    #: What the page calls it.
    label: str
    #: What raw paths of its records are relative to.
    folder: Path
    #: What was measured, in the order of the file.
    records: list[Record]
    #: The platform with its nominal limits; None where they are not known.
    platform: Platform | None
    #: Why the platform's limits cannot be read, in words; empty where they can, or there are none.
    problem: str = ""
    #: Runs whose records are among its own (`npc.report.joined_runs`).
    guests: tuple[Run, ...] = ()

    @cached_property
    def series(self) -> list[Repeats]:
        """Its records by series, in the order of the file."""
        groups: defaultdict[tuple[object, ...], list[Record]] = defaultdict(list)
        for record in self.records:
            groups[Series.of(record), record.hosts].append(record)
        return [
            Repeats(f"r{self.number}s{place}", tuple(group)) for place, group in enumerate(groups.values())
        ]

    @cached_property
    def idents(self) -> Mapping[int, str]:
        """``id(record)`` → the id of its series."""
        return {id(record): series.ident for series in self.series for record in series.records}

    @cached_property
    def circumstances(self) -> Circumstances:
        """The nodes' environments and the launches, by raw file."""
        return circumstances_of(self.folder, self.records, self.platform)

    @cached_property
    def findings(self) -> list[Violation]:
        """What the rules of validity say of the records."""
        return find_lies(self.records, self.circumstances)

    @cached_property
    def launches(self) -> list[Launch]:
        """Every launch that left a raw file, by the time of its start; `raw` relative to the run."""
        launches = (replace(launch, raw=raw) for raw, launch in self.circumstances.launches.items())
        return sorted(launches, key=lambda launch: (launch.started, launch.raw))

    def launched(self, raws: Iterable[str]) -> tuple[Record, Launch] | None:
        """The first of these raw files' launches that is known, with a record of it."""
        launches = self.circumstances.launches
        raw = next(filter(launches.__contains__, raws), None)
        return None if raw is None else (next(r for r in self.records if r.raw == raw), launches[raw])

    @cached_property
    def environment(self) -> Mapping[str, Any]:
        """The run's ``environment.json``, else that of the node of its first record; empty without one."""
        whole = read_environment(self.folder / ENVIRONMENT)
        if whole is not None:
            return whole
        return next(filter(None, self.circumstances.environments.values()), {})

    @cached_property
    def environments(self) -> list[Mapping[str, Any]]:
        """``environment.json`` of each host that has one, its own first."""
        own = (run.environment for run in (self, *self.guests))
        by_host: dict[str, Mapping[str, Any]] = {}
        for environment in filter(None, (*own, *self.circumstances.environments.values())):
            by_host.setdefault(str((environment.get("host") or {}).get("name")), environment)
        return list(by_host.values())

    def facts(self, *keys: str) -> Iterator[tuple[str, Any]]:
        """(host, what its ``environment.json`` has below `keys`), where it has something."""
        for environment in self.environments:
            if (fact := below(environment, *keys)) is not None:
                host = environment.get("host") or {}
                yield str(host.get("name", "this machine")), fact

    def by_hosts(self, benchmark: str) -> dict[tuple[str, ...], list[Repeats]]:
        """Hosts → the usable series of a benchmark there."""
        by_hosts: defaultdict[tuple[str, ...], list[Repeats]] = defaultdict(list)
        for series in self.series:
            if series.first.benchmark == benchmark and series.usable:
                by_hosts[series.first.hosts].append(series)
        return by_hosts

    @cached_property
    def roofline(self) -> Roofline:
        """Ceilings, latencies and applications of its records."""
        return analyse(self.records, self.platform)

    @cached_property
    def observed(self) -> list[Observed]:
        """Launches of programs that `npc observe` watched, the newest first."""
        return read_observed(self.records, self.folder, self.idents)

    def links(self, *layers: Layer) -> list[Ceiling]:
        """Bandwidths between nodes of tests of some layers, the fastest first."""
        return [
            link for link in self.roofline.of_kind("network") if link.nodes > 1 and _layer(link) in layers
        ]

    def latencies(self, *layers: Layer, nodes: bool = True) -> list[Estimate]:
        """Half round trips between nodes (else within one) of some layers, the quickest first."""
        latencies = (
            latency
            for latency in self.roofline.latencies
            if (latency.nodes > 1) == nodes and _layer(latency) in layers
        )
        return sorted(latencies, key=lambda latency: latency.value)

    def records_of(self, estimate: Estimate) -> list[str]:
        """Ids of the series that a median of the roofline was taken over."""
        wanted = (estimate.benchmark, estimate.case, estimate.unit, estimate.nodes)
        return [
            series.ident
            for series in self.behind(estimate.raw, estimate.size, estimate.params)
            if wanted == (series.first.benchmark, series.first.case, series.first.unit, series.first.nodes)
        ]

    def behind(self, raw: Iterable[str], size: int | None, params: Mapping[str, str]) -> list[Repeats]:
        """The series of a size, with all these settings and qualifiers, of which raw files tell."""
        by_ident = {series.ident: series for name in raw for series in self._by_raw.get((name, size), ())}
        return [
            series
            for series in by_ident.values()
            if identity(params).items() <= series.params.items()
            and qualifiers(params) == qualifiers(series.params)
        ]

    @cached_property
    def _by_raw(self) -> Mapping[tuple[str, int | None], list[Repeats]]:
        """Raw file and size → the series with a usable record of them."""
        by_raw: defaultdict[tuple[str, int | None], list[Repeats]] = defaultdict(list)
        for series in self.series:
            for raw in {record.raw for record in series.usable}:
                by_raw[raw, series.first.size].append(series)
        return by_raw

    @cached_property
    def pair_verdicts(self) -> list[tuple[Path, tuple[PairsVerdict, ...]]]:
        """``pairs.json`` of every measurement of pairs that can be read: its folder, and its entries."""
        own = {self.folder, *(guest.folder for guest in self.guests)}
        folders = own | {self.folder / Path(launch.raw).parent.parent for launch in self.launches}
        folders |= {file.parent for folder in own for file in folder.glob(f"*/{PAIRS}")}
        verdicts = []
        for folder in sorted(folders):
            with contextlib.suppress(OSError, ValueError):
                verdicts.append((folder, read_pairs(folder / PAIRS)))
        return verdicts

    @cached_property
    def suspects(self) -> list[tuple[PairSuspect, str]]:
        """Whom the measurements of pairs blame, each with the series that does."""
        return [
            (suspect, entry.series)
            for _, entries in self.pair_verdicts
            for entry in entries
            for suspect in entry.verdict.suspects
        ]

    @property
    def platform_name(self) -> str:
        """What its records call the platform; empty without records."""
        return self.records[0].platform if self.records else ""

    @cached_property
    def usable(self) -> int:
        """How many of its records may be used."""
        return sum(record.ok for record in self.records)

    @cached_property
    def disturbed(self) -> str:
        """How many of these were measured while others used the CPUs, in words; empty if none was."""
        return in_words(self.records)

    @cached_property
    def statuses(self) -> Counter[str]:
        """How many of its records are ``ok``, ``failed``, …"""
        return Counter(record.status.partition(":")[0] for record in self.records)

    @property
    def why_unusable(self) -> str:
        """Why nothing can be judged of it; empty where a record is usable."""
        if self.usable:
            return ""
        return "none of its records is usable" if self.records else "it has no records"

    @property
    def words(self) -> str:
        """Which folders it is, what is in them, and whose limits it is held to where that is not its own."""
        folders = " and ".join(shown(run.folder) for run in (self, *self.guests))
        limits = self.platform.name if self.platform else ""
        held = f", held to the nominal limits of {limits}" if limits not in ("", self.platform_name) else ""
        of = f" of {self.platform_name}" if self.platform_name else ""
        disturbed = f"\n{remark(self.disturbed)}" if self.disturbed else ""
        return f"{folders}: {self.usable} of {len(self.records)} records{of} usable{held}{disturbed}"

    @property
    def document(self) -> dict[str, Any]:
        """The same for ``--json``; raw files are relative to the first folder."""
        return {
            "folders": [str(run.folder) for run in (self, *self.guests)],
            "platform": self.platform_name,
            "limits": self.platform.name if self.platform else None,
            "records": len(self.records),
            "usable": self.usable,
            "disturbed": self.disturbed,
        }

    @property
    def hosts(self) -> list[str]:
        """Every host that took part."""
        return hosts_of(self.records)

    @property
    def days(self) -> str:
        """The day of its measurements (UTC), or the first and the last."""
        times = sorted(record.time[:10] for record in self.records)
        if not times:
            return ""
        return times[0] if times[0] == times[-1] else f"{times[0]} to {times[-1]}"


@dataclass(eq=False)
class Report:
    """Everything that sections draw from."""

    #: What was measured; empty where the page shows a history alone.
    runs: list[Run]
    #: Where the page will lie; its links are relative to that.
    folder: Path
    #: Nights of a history; None if none was named.
    history: HistoryView | None = None
    #: Racks and switches; None where no file names them.
    topology: Topology | None = None
    #: What was measured to try hints (`npc.report.trials`); empty where none was tried.
    trials: Sequence[Run] = ()
    #: How many ids of charts were given, so that no two are alike.
    charts: int = field(default=0)

    def label(self, run: Run, form: str = ": {}") -> str:
        """The label of a run as a title has it; empty where there is no other run."""
        return form.format(run.label) if len(self.runs) > 1 else ""

    def ident(self) -> str:
        """The id of one more chart."""
        self.charts += 1
        return f"c{self.charts}"

    def href(self, run: Run, path: str | Path) -> str:
        """A link from the page to a file of a run."""
        return self.link(run.folder / path)

    def link(self, path: str | Path) -> str:
        """A link from the page to a file; every byte of its name that means something in a link is quoted."""
        return quote(os.path.relpath(path, self.folder))

    @property
    def title(self) -> str:
        """What the page is about."""
        names = list(dict.fromkeys(run.label for run in self.runs))
        if self.history and not names:
            names = list(self.history.platforms)
        return f"NPC report: {several(names)}" if names else "NPC report"


def read_runs(paths: Sequence[Path], limits: str = "") -> list[Run]:
    """A `Run` for each path and platform in it; a path that is named twice counts once.

    limits: the platform whose nominal limits hold (default: the records' own).

    Raises FileNotFoundError, OSError, `npc.InvalidRecord`, all with the file in their message.
    """
    parts: list[tuple[Path, str, list[Record]]] = []
    for path in dict.fromkeys(records_file(path).resolve() for path in paths):
        records = read_run(path)
        folder = path if path.is_dir() else path.parent
        platforms = dict.fromkeys(record.platform for record in records) or {"": None}
        parts += [
            (folder, name, [record for record in records if record.platform == name]) for name in platforms
        ]
    labels = _labels([(folder, name) for folder, name, _ in parts])
    runs = []
    for number, (label, (folder, name, records)) in enumerate(zip(labels, parts, strict=True)):
        platform, problem = None, ""
        try:
            platform = platform_of(records, limits or name)
        except (OSError, InvalidPlatform) as error:
            problem = str(error)
        runs.append(Run(number, label, folder, records, platform, problem))
    return runs


def program_of(record: Record, launch: Launch) -> str:
    """What was launched, as `npc.machine.programs` has it: a program's name, a benchmark's with its case."""
    return launch.params.get("program") or f"{record.benchmark} {launch.case}"


def _layer(estimate: Estimate) -> Layer:
    return catalogue.find(estimate.benchmark, estimate.case).layer


def _labels(named: Sequence[tuple[Path, str]]) -> list[str]:
    """The platform where that tells the runs apart, else with the run's folder, else with its whole path."""
    for label in (
        lambda folder, name: name or folder.name,
        lambda folder, name: f"{name} {folder.name}",
        lambda folder, name: f"{name} {folder}",
    ):
        labels = [label(folder, name) for folder, name in named]
        if len(set(labels)) == len(labels):
            return labels
    return [f"{name} {number}" for number, (_, name) in enumerate(named)]


def hosts_of(records: Iterable[Record]) -> list[str]:
    """All hosts of some records, sorted."""
    return sorted({host for record in records for host in record.hosts})
