"""Applications: what each run of a program did, from its launch's records.

A point is FLOP/s a node over FLOP per byte on the network, where the bytes are all that a node's ports
received and sent, as the mean over the nodes (Bartelheimer, Zhu, Neuwirth 2023, section 5.3.2). It is made of
one launch: what the program says of its FLOP, and the bytes that `npc observe` saw meanwhile.

Runs of the same program and problem on as many nodes with as many ranks, bound alike, are one application
(`npc.records.series`). On which hosts they ran is a circumstance. Launches of one night share its hosts and
its load, so they are no independent samples of the machine: over several nights the medians and their
intervals are those of the nights' medians.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from operator import mul
from statistics import fmean, median, stdev
from typing import Final, Literal, NamedTuple

from npc.machine.fabric import natural
from npc.records.record import OK, Record
from npc.records.series import CACHED, OBSERVED, REMEASURED, Series
from npc.records.units import format_size
from npc.roofline.code_limit import CodeLimit, LimitFinders, limit_finders
from npc.statistics.medians import Summary, summarise

#: In which direction bytes of storage move.
Direction = Literal["read", "write"]
DIRECTIONS: Final[tuple[Direction, ...]] = ("read", "write")
#: Metrics that make a program with a rate an application, and not a kernel.
TELLING: Final = frozenset(("flop", "time", "traffic"))
#: The params' name of the part of a program's time inside MPI.
_INSIDE: Final = "inside MPI"
#: A program that does several tests in one run is placed by this one.
_MAIN_TEST: Final = "HPL"
_OTHERS: Final = (
    "its FLOP are those of {case} alone, the bytes counted those of all tests of the run, so nothing can be "
    "said of its network"
)
#: Where only a rate is known: the time that npc observe measures includes the program's start and end.
_RATE_ALONE: Final = (
    "its rate is known, but not for how long it computed at it (the run has a start and an end), so its "
    "FLOP, its place on the network's axis and the network's part are not known; tell npc observe the FLOP "
    "by --flop, or where the program prints the rate's seconds by --seconds"
)
#: Params that an application says elsewhere: ranks are called ``processes`` by some programs.
_NAMED: Final = frozenset(("program", "precision", "processes", "ranks"))
#: The middle of a class of message sizes, which holds sizes up to twice its least.
MIDDLE: Final = 1.5


class ApplicationRun(NamedTuple):
    """One launch of a program, per node; light, as there are many."""

    #: Name of the records' run; in a history that is the night.
    night: str
    #: When it began, ISO 8601.
    time: str
    #: FLOP/s of a node.
    flops: float
    #: FLOP of a node; None where only the rate is known.
    flop: float | None
    #: Bytes that a node's ports received, as the mean over the nodes; None where none were counted.
    received: float | None
    #: Bytes that a node's ports sent, likewise.
    sent: float | None
    #: FLOP per byte on the network; infinite where nothing was sent or received, None where that is not
    #: known.
    intensity: float | None
    #: B/s of a node as the program itself counts them; None if it does not say.
    memory_bandwidth: float | None
    #: The raw file of its rate, as records name it.
    raw: str
    #: (least bytes of a class of sizes, number of messages) of all ranks; empty where MPI counted none.
    messages: tuple[tuple[int, float], ...] = ()
    #: Number of MPI ranks that counted messages; 0 if unknown.
    ranks: int = 0
    #: Bytes, as `Application.caches`.
    caches: float = 0.0
    #: Share of the run inside MPI, of 1, as `Application.inside`; None where it was not counted.
    inside: float | None = None
    #: What the program's own code allows it, by the limit's key; empty if nobody looked.
    code_limits: Mapping[str, CodeLimit] = {}
    #: Bytes read from a node's storage and written to it; None where nobody counted them.
    stored: Mapping[Direction, float] | None = None
    #: Seconds of the whole program with its start and its end, in which `stored` was moved; None if unknown.
    lasted: float | None = None

    def times(self, nodes: int) -> ApplicationRun:
        """What `nodes` such nodes did together."""
        measured = {
            name: getattr(self, name) for name in ("flops", "flop", "received", "sent", "memory_bandwidth")
        }
        whole = {name: value * nodes for name, value in measured.items() if value is not None}
        stored = self.stored and {way: nodes * size for way, size in self.stored.items()}
        limits = {key: limit.times(nodes) for key, limit in self.code_limits.items()}
        return self._replace(**whole, code_limits=limits, stored=stored)

    @property
    def io_intensity(self) -> float | None:
        """FLOP per byte read from storage and written to it; None where that is not known, or nothing was."""
        moved = sum(self.stored.values()) if self.stored else 0.0
        return self.flop / moved if self.flop is not None and moved else None

    @property
    def seconds(self) -> float | None:
        """The time that the FLOP took."""
        return None if self.flop is None else self.flop / self.flops


class NightMedians(NamedTuple):
    """The runs of one night by their medians."""

    #: When the first of them began, ISO 8601.
    time: str
    #: Median FLOP/s, of a node or of all nodes as `Application.flops`.
    flops: float
    #: Median FLOP per byte on the network; None where that is not known.
    intensity: float | None
    #: The raw file of the first run, as records name it.
    raw: str


@dataclass(frozen=True, kw_only=True)
class Application:
    """A program with its problem on a number of nodes, and all its runs."""

    #: What the program is called (`program_of`).
    name: str
    #: Name of the platform.
    platform: str
    #: Number of nodes of a run.
    nodes: int
    #: Names of all hosts that it ran on.
    hosts: tuple[str, ...]
    #: Of its arithmetic: ``double``, ``single``, …
    precision: str
    #: At least one run, in the order of their times.
    runs: tuple[ApplicationRun, ...]
    #: The params of its series beside its name and precision, by their names.
    settings: Mapping[str, str] = field(default_factory=dict)
    #: Names of the settings in which it differs from others of its name on as many nodes; empty if there are
    #: none.
    apart: tuple[str, ...] = ()
    #: Number of MPI ranks; 0 if unknown.
    ranks: int = 0
    #: Bytes of its nodes' last-level caches where its arrays are too small for main memory to count; else 0.
    caches: float = 0.0
    #: What to know before believing its intensity; empty if there is nothing.
    note: str = ""
    #: Whether its runs are of all nodes together and not of one node (`of_job`).
    whole_job: bool = False

    def of_job(self) -> Application:
        """The same application, with what all its nodes did together."""
        return replace(self, runs=tuple(run.times(self.nodes) for run in self.runs), whole_job=True)

    @property
    def label(self) -> str:
        """Its name, with what tells it from others of that name: ``himeno (processes 8)``."""
        settings = ", ".join(f"{name} {self.settings.get(name, 'unknown')}" for name in self.apart)
        return f"{self.name} ({settings})" if settings else self.name

    @cached_property
    def nights(self) -> list[NightMedians]:
        """Its nights, the oldest first."""
        by_night: defaultdict[str, list[ApplicationRun]] = defaultdict(list)
        for run in self.runs:
            by_night[run.night or run.time[:10]].append(run)
        return sorted(
            NightMedians(
                min(run.time for run in runs),
                median(run.flops for run in runs),
                _median(_intensities(runs)),
                runs[0].raw,
            )
            for runs in by_night.values()
        )

    @cached_property
    def flops(self) -> Summary:
        """FLOP/s a node, or of all nodes for a `whole_job`: over its nights, or the runs of the only one."""
        several = len(self.nights) > 1
        return summarise([night_or_run.flops for night_or_run in (self.nights if several else self.runs)])

    @cached_property
    def intensity(self) -> Summary | None:
        """FLOP per byte on the network, likewise; None where it is not known."""
        if self.nodes == 1:  # its own messages do not pass the ports
            return None
        if len(self.nights) > 1:
            known = [night.intensity for night in self.nights if night.intensity is not None]
        else:
            known = _intensities(self.runs)
        return summarise(known) if known else None

    @property
    def mean(self) -> float:
        """Mean FLOP/s of its runs; table 5 of the paper has it as a share of the peak."""
        return fmean(run.flops for run in self.runs)

    @property
    def deviation(self) -> float | None:
        """Standard deviation of its nights' FLOP/s; None of one night."""
        return stdev(night.flops for night in self.nights) if len(self.nights) > 1 else None

    @cached_property
    def memory_intensity(self) -> float | None:
        """FLOP per byte that the cores load and store, by the program's own count; None where it does not
        say."""
        return _median([run.flops / run.memory_bandwidth for run in self.runs if run.memory_bandwidth])

    @cached_property
    def busier_intensity(self) -> float | None:
        """FLOP per byte in the busier direction of the network; None where that is not known, or nothing was
        moved."""
        return _median(
            [
                run.flop / max(run.received, run.sent)
                for run in self.runs
                if run.flop is not None
                and run.received is not None
                and run.sent is not None
                and run.received + run.sent
            ]
        )

    @cached_property
    def io_intensity(self) -> Summary | None:
        """FLOP per byte of storage, over its runs; None where none is known."""
        known = [run.io_intensity for run in self.runs if run.io_intensity is not None]
        return summarise(known) if known else None

    def storage_intensity(self, direction: Direction) -> float | None:
        """FLOP per byte read from storage, or written to it; None where that is not known, or nothing was
        moved."""
        return _median(
            [
                run.flop / run.stored[direction]
                for run in self.runs
                if run.flop and run.stored and run.stored[direction]
            ]
        )

    @cached_property
    def stored(self) -> list[tuple[Mapping[Direction, float], float]]:
        """(bytes of storage by direction, seconds of the whole program) of each run of which these are
        known."""
        return [(run.stored, run.lasted) for run in self.runs if run.stored is not None and run.lasted]

    @cached_property
    def transfers(self) -> list[tuple[float, float]]:
        """(bytes in the network's busier direction, seconds) of each run whose bytes and time are known."""
        return [
            (max(run.received, run.sent), run.seconds)
            for run in self.runs
            if run.received is not None and run.sent is not None and run.seconds
        ]

    @cached_property
    def messages(self) -> list[tuple[float, float]]:
        """(bytes of a message, share of all messages that are not empty), by class; empty if not counted."""
        counts: defaultdict[int, float] = defaultdict(float)
        for run in self.runs:
            for size, count in run.messages:
                counts[size] += count
        total = math.fsum(counts.values())
        return [(MIDDLE * size, count / total) for size, count in sorted(counts.items())]

    @property
    def message_size(self) -> float | None:
        """Mean bytes of the messages that are not empty; None where they were not counted."""
        return math.fsum(size * share for size, share in self.messages) if self.messages else None

    @cached_property
    def inside(self) -> float | None:
        """The part of the run that its ranks were inside MPI, waiting included; None if nobody counted."""
        return _median([run.inside for run in self.runs if run.inside is not None])

    @property
    def code_limits(self) -> Mapping[str, CodeLimit]:
        """What its own code allows it, by the limit's key: of each the newest."""
        return {key: limit for run in self.runs for key, limit in run.code_limits.items()}

    @property
    def ranks_a_node(self) -> int:
        """How many ranks may send at once from a node; 1 where nobody counted them."""
        return max(1, self.runs[-1].ranks // self.nodes)


def _median(values: Sequence[float]) -> float | None:
    return median(values) if values else None


def find_applications(records: Iterable[Record]) -> list[Application]:
    """The applications of all records that are ``ok``, by name and number of nodes.

    Re-measurements of nights are left out: they were made because a night was low.
    """
    finders = limit_finders()
    groups: defaultdict[tuple[str, int, str, Series, int], list[tuple[Record, ApplicationRun]]] = defaultdict(
        list
    )
    for launch in by_launch(record for record in records if REMEASURED not in record.params):
        rate_and_note = _rate(launch)
        if rate_and_note is not None:
            rate, note = rate_and_note
            run = _run(rate, launch, finders, whole=not note)
            ranks = _ranks(rate, run)
            groups[program_of(rate), rate.nodes, note, Series.of(rate), ranks].append((rate, run))
    applications = [
        Application(
            name=name,
            platform=series.platform,
            nodes=nodes,
            hosts=tuple(sorted({host for rate, _ in runs for host in rate.hosts}, key=natural)),
            precision=runs[0][0].params.get("precision", "double"),
            runs=tuple(sorted((run for _, run in runs), key=lambda run: run.time)),
            settings=_settings(series, ranks),
            ranks=ranks,
            caches=max(run.caches for _, run in runs),
            note=note,
        )
        for (name, nodes, note, series, ranks), runs in groups.items()
    ]
    return _told_apart(sorted(applications, key=_order))


def _order(application: Application) -> tuple[object, ...]:
    settings = sorted(application.settings.items())
    return (application.platform, application.name, application.nodes, application.ranks, settings)


def _ranks(rate: Record, run: ApplicationRun) -> int:
    """MPI's ranks, as the program prints them, as it was asked for them, or as MPI counted them."""
    text = rate.params.get("processes") or rate.params.get("ranks") or ""
    return int(text) if text.isdecimal() else run.ranks


def _settings(series: Series, ranks: int) -> dict[str, str]:
    """What was asked for, and what the program says of it; ranks come first, and under one name."""
    texts = {"ranks": str(ranks)} if ranks else {}
    texts |= {name: text for name, text in series.by_name.items() if name not in _NAMED}
    return texts | ({} if series.size is None else {"size": format_size(series.size)})


def _told_apart(applications: Sequence[Application]) -> list[Application]:
    """The applications, each with the first settings in which it differs from others of its name on as many
    nodes."""
    alike: defaultdict[tuple[str, str, int], list[Application]] = defaultdict(list)
    for application in applications:
        alike[application.platform, application.name, application.nodes].append(application)
    marked = []
    for application in applications:
        others = alike[application.platform, application.name, application.nodes]
        names: list[str] = []
        for name in dict.fromkeys(name for other in others for name in other.settings):
            if _different(others, [*names, name]) > _different(others, names):
                names.append(name)
        marked.append(replace(application, apart=tuple(names)))
    return marked


def _different(applications: Sequence[Application], names: Sequence[str]) -> int:
    """How many of them these settings tell apart."""
    return len({tuple(application.settings.get(name) for name in names) for application in applications})


def by_launch(records: Iterable[Record]) -> list[list[Record]]:
    """Headline records that are ``ok``, those of one launch together: their raw files share a stem."""
    launches: defaultdict[tuple[str, str], list[Record]] = defaultdict(list)
    for record in records:
        raw = record.raw
        if raw and record.status == OK and record.value is not None and "statistic" not in record.params:
            end = raw.find(".", raw.rfind("/") + 1)
            launches[record.run, raw if end < 0 else raw[:end]].append(record)
    return list(launches.values())


def program_of(record: Record) -> str:
    """What the record's program is called: as `npc observe` names it, else its benchmark."""
    program = record.params.get("program")
    return program or (f"{record.benchmark} {record.case}" if record.case == _MAIN_TEST else record.benchmark)


def _rate(launch: Sequence[Record]) -> tuple[Record, str] | None:
    """The record of a launch's FLOP/s, with what to know of it; None for what is no application.

    An application is a program whose FLOP and time, or whose traffic, are known; a kernel that says nothing
    but its FLOP/s is a ceiling.
    """
    rates = [record for record in launch if record.metric == "flops" and record.value]
    cases = {record.case for record in launch if record.metric in TELLING}
    known = [record for record in rates if record.case in cases] or (rates if OBSERVED in cases else [])
    if not known:
        return None
    rate = next((record for record in known if record.case == _MAIN_TEST), known[0])
    if rate.case == _MAIN_TEST and any(record.case != _MAIN_TEST for record in rates):
        return rate, _OTHERS.format(case=_MAIN_TEST)
    counted = any(record.metric == "flop" and "part" not in record.params for record in launch)
    return rate, _RATE_ALONE if rate.case == OBSERVED and not counted else ""


def _run(rate: Record, launch: Sequence[Record], finders: LimitFinders, whole: bool) -> ApplicationRun:
    """What the launch did. Results of the rate's case are taken together, since a run of HPL may solve many
    systems.

    Where the program says no FLOP, those count that `npc observe` was given. whole: whether FLOP and bytes
    are of the same time; if not, the run has no bytes.
    """

    def values(metric: str, *cases: str) -> list[float]:
        return [r.value or 0.0 for r in launch if r.metric == metric and r.case in cases and _whole(r)]

    rates = values("flops", rate.case, OBSERVED)
    # Only the program's own time belongs to its rate; what npc observe saw includes start and end.
    seconds = values("time", rate.case) if rate.case != OBSERVED else []
    observed = values("flop", OBSERVED)[:1]
    flop = (values("flop", rate.case) if rate.case != OBSERVED else []) or observed
    memory = values("bandwidth", rate.case, OBSERVED)
    counted = [r for r in launch if r.metric == "messages" and r.size and r.value]
    flops, done, lasted = rate.value or 0.0, math.fsum(flop) if flop else None, math.fsum(seconds)
    if lasted and len(seconds) == len(rates):
        product = math.fsum(map(mul, rates, seconds))
        flops = product / lasted if len(rates) > 1 else flops
        done = product if done is None else done
    a_node = None if done is None else done / rate.nodes
    received, sent = (_mean_of_nodes(launch, way) if whole else None for way in ("received", "sent"))
    return ApplicationRun(
        night=rate.run,
        time=rate.time,
        flops=flops / rate.nodes,
        flop=a_node,
        received=received,
        sent=sent,
        intensity=_per_byte(a_node, received, sent),
        memory_bandwidth=memory[0] / rate.nodes if memory else None,
        raw=rate.raw,
        messages=tuple((r.size or 0, r.value or 0.0) for r in counted),
        ranks=int(counted[-1].params.get("ranks", "0")) if counted else 0,
        caches=max((float(r.params.get(CACHED, 0)) for r in launch), default=0.0),
        inside=inside_mpi(launch),
        code_limits={key: limit for key, find in finders.items() if (limit := find(launch)) is not None},
        stored=stored(launch) if whole else None,
        lasted=next(iter(values("time", OBSERVED)), None),
    )


def stored(launch: Iterable[Record]) -> dict[Direction, float] | None:
    """Bytes of a node's storage, as the mean over the nodes; None where none were counted."""
    counted = [
        record
        for record in launch
        if record.metric == "traffic"
        and (record.params.get("layer"), record.params.get("part")) == ("io", "storage")
    ]
    nodes = len({record.params.get("node") for record in counted})

    def total(direction: str) -> float:
        return math.fsum(r.value or 0.0 for r in counted if r.params.get("direction") == direction) / nodes

    return {way: total(way) for way in DIRECTIONS} if counted else None


def inside_mpi(launch: Iterable[Record]) -> float | None:
    """The part of a launch's time inside MPI, as the mean of the ranks; None where it was not counted."""
    times = [record for record in launch if record.metric == "time" and record.case == OBSERVED]
    inside = [record.value or 0.0 for record in times if record.params.get("part") == _INSIDE]
    seconds = [record.value for record in times if _whole(record) and record.value]
    return inside[0] / seconds[0] if inside and seconds else None


def _whole(record: Record) -> bool:
    """Whether a time is of the whole program, and no part of it."""
    return record.metric != "time" or "part" not in record.params


def _mean_of_nodes(launch: Sequence[Record], direction: str) -> float | None:
    """Bytes through a node's ports in one direction; None where none were counted."""
    by_node: defaultdict[str, float] = defaultdict(float)
    for record in launch:
        if record.metric == "traffic" and record.params.get("direction") == direction:
            by_node[record.params.get("node", "")] += record.value or 0.0
    return math.fsum(by_node.values()) / len(by_node) if by_node else None


def _per_byte(flop: float | None, received: float | None, sent: float | None) -> float | None:
    if flop is None or received is None or sent is None:
        return None
    traffic = received + sent
    return flop / traffic if traffic else math.inf


def _intensities(runs: Iterable[ApplicationRun]) -> list[float]:
    """Those that are known and finite."""
    return [run.intensity for run in runs if run.intensity is not None and math.isfinite(run.intensity)]
