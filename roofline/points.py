"""Applications under the ceilings: what each run did, which ceiling bounds it, and what would help.

A point is FLOP/s a node over FLOP per byte on the network, where the bytes are all that a node's ports
received and sent, as the mean over the nodes (Bartelheimer, Zhu, Neuwirth 2023, section 6.1). It is made of
one launch: what the program says of its FLOP, and the bytes that `npc observe` saw meanwhile. Repeats of one
program on the same nodes are one application, with medians and their intervals.

How long the network must have taken at least is counted by the busier direction, because links carry both at
once; removing a part f of a run's time makes it at most 1/(1 − f) times as fast (Amdahl 1967).
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from statistics import median
from typing import TYPE_CHECKING, Final, NamedTuple

from npc.record import OK, Record
from npc.statistics import Summary, summarise
from npc.units import format_quantity

if TYPE_CHECKING:
    from roofline.ceilings import Ceiling, Roofline

#: The case of what npc observe saw.
OBSERVED: Final = "observed"
#: A program that does several tests in one run is placed by this one.
_MAIN_TEST: Final = "HPL"
_OTHERS: Final = "its FLOP are those of {case} alone, its bytes those of the whole run"
#: A part of the run time that nobody could measure.
_NO_MATTER: Final = 0.005
_MEMORY_LEVEL: Final = "MEM"


class Run(NamedTuple):
    """One launch of a program, per node: FLOP/s, FLOP, and bytes through the ports; light, as there are many.

    sent, received: mean over the nodes; None where no bytes were counted. intensity: FLOP per byte on the
    network; infinite where nothing was sent, None where that is not known. memory_bandwidth: B/s a node as
    the program itself counts them, None if it does not say.
    """

    time: str
    flops: float
    flop: float | None
    received: float | None
    sent: float | None
    intensity: float | None
    memory_bandwidth: float | None
    raw: str

    def times(self, nodes: int) -> Run:
        """What `nodes` such nodes did together."""

        def all_of(value: float | None) -> float | None:
            return None if value is None else value * nodes

        return self._replace(
            flops=self.flops * nodes,
            flop=all_of(self.flop),
            received=all_of(self.received),
            sent=all_of(self.sent),
            memory_bandwidth=all_of(self.memory_bandwidth),
        )

    @property
    def seconds(self) -> float | None:
        """The time that the FLOP took."""
        return None if self.flop is None else self.flop / self.flops


@dataclass(frozen=True, kw_only=True)
class Application:
    """A program on a number of nodes: all its runs, in the order of their times.

    flops: FLOP/s a node, or of all nodes for a `whole_job`. intensity: FLOP per byte on the network, None
    where it is not known.
    """

    name: str
    platform: str
    nodes: int
    hosts: tuple[str, ...]
    precision: str
    runs: tuple[Run, ...]
    flops: Summary
    intensity: Summary | None
    note: str = ""
    whole_job: bool = False

    def of_job(self) -> Application:
        """With what all its nodes did together."""
        runs = tuple(run.times(self.nodes) for run in self.runs)
        return replace(self, runs=runs, flops=summarise([run.flops for run in runs]), whole_job=True)

    @cached_property
    def nights(self) -> list[tuple[str, float, float]]:
        """(day, FLOP per byte, FLOP/s a node): the medians of each day's runs that have both."""
        days: defaultdict[str, list[tuple[float, float]]] = defaultdict(list)
        for run in self.runs if self.intensity is not None else ():
            if run.intensity is not None and math.isfinite(run.intensity):
                days[run.time[:10]].append((run.intensity, run.flops))
        return [
            (day, median(x for x, _ in runs), median(y for _, y in runs))
            for day, runs in sorted(days.items())
        ]

    @cached_property
    def memory_intensity(self) -> float | None:
        """FLOP per byte of memory, by the program's own count; None where it does not say."""
        return _median([run.flops / run.memory_bandwidth for run in self.runs if run.memory_bandwidth])

    @cached_property
    def busier_intensity(self) -> float | None:
        """FLOP per byte in the busier direction of the network; None where that is not known, or nothing."""
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
    def transfers(self) -> list[tuple[float, float]]:
        """(bytes in the network's busier direction, seconds) of each run whose bytes and time are known."""
        return [
            (max(run.received, run.sent), run.seconds)
            for run in self.runs
            if run.received is not None and run.sent is not None and run.seconds
        ]


def _median(values: Sequence[float]) -> float | None:
    return median(values) if values else None


def find_applications(records: Iterable[Record]) -> list[Application]:
    """The applications of all records that are ``ok``, by name and number of nodes."""
    groups: defaultdict[tuple[str, str, int, tuple[str, ...], str, str], list[Run]] = defaultdict(list)
    for launch in by_launch(records):
        found = _rate(launch)
        if found is not None:
            rate, note = found
            hosts = tuple(sorted(set(rate.hosts)))
            key = (
                rate.platform,
                program_of(rate),
                rate.nodes,
                hosts,
                rate.params.get("precision", "double"),
                note,
            )
            groups[key].append(_run(rate, launch))
    return [
        Application(
            name=name,
            platform=platform,
            nodes=nodes,
            hosts=hosts,
            precision=precision,
            runs=tuple(sorted(runs, key=lambda run: run.time)),
            flops=summarise([run.flops for run in runs]),
            intensity=_intensity(runs) if nodes > 1 else None,  # on one node the ports see others' bytes only
            note=note,
        )
        for (platform, name, nodes, hosts, precision, note), runs in sorted(groups.items())
    ]


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
    if not rates:
        return None
    cases = {record.case for record in launch if record.metric in ("flop", "time", "traffic")}
    known = [record for record in rates if record.case in cases] or (rates if OBSERVED in cases else [])
    if not known:
        return None
    rate = next((record for record in known if record.case == _MAIN_TEST), known[0])
    alone = all(record.case == rate.case for record in rates)
    return rate, "" if alone else _OTHERS.format(case=rate.case)


def _run(rate: Record, launch: Sequence[Record]) -> Run:
    """Each figure is the first of its metric that belongs to the rate: of its own case, or of the launch."""
    first: dict[str, float | None] = {}
    seconds = None
    traffic: dict[str, defaultdict[str, float]] = {"received": defaultdict(float), "sent": defaultdict(float)}
    for record in launch:
        metric, params = record.metric, record.params
        if metric == "traffic":
            by_node = traffic.get(params.get("direction", ""))
            if by_node is not None:
                by_node[params.get("node", "")] += record.value or 0.0
        elif metric == "time":
            # Only the program's own time belongs to its rate; what npc observe saw includes start and end.
            if seconds is None and record.case == rate.case and "part" not in params:
                seconds = record.value
        elif record.case in (rate.case, OBSERVED):
            first.setdefault(metric, record.value)
    flop, memory = first.get("flop"), first.get("bandwidth")
    if flop is None and seconds is not None and rate.value is not None:
        flop = rate.value * seconds
    flop = None if flop is None else flop / rate.nodes
    received, sent = map(_mean, traffic.values())
    return Run(
        time=rate.time,
        flops=(rate.value or 0.0) / rate.nodes,
        flop=flop,
        received=received,
        sent=sent,
        intensity=_per_byte(flop, received, sent),
        memory_bandwidth=None if memory is None else memory / rate.nodes,
        raw=rate.raw,
    )


def _mean(by_node: Mapping[str, float]) -> float | None:
    return math.fsum(by_node.values()) / len(by_node) if by_node else None


def _per_byte(flop: float | None, received: float | None, sent: float | None) -> float | None:
    if flop is None or received is None or sent is None:
        return None
    traffic = received + sent
    return flop / traffic if traffic else math.inf


def _intensity(runs: Iterable[Run]) -> Summary | None:
    known = [run.intensity for run in runs if run.intensity is not None and math.isfinite(run.intensity)]
    return summarise(known) if known else None


@dataclass(frozen=True, slots=True)
class Bound:
    """One ceiling's say on an application: it allows `flops` (FLOP/s a node); `share` of that was reached."""

    ceiling: Ceiling
    flops: float
    share: float


def bounds(application: Application, roofline: Roofline) -> list[Bound]:
    """What each ceiling allows the application, the tightest first; only those whose intensity is known.

    The network's is that of the busier direction, over the fastest test between nodes.
    """
    found = []
    for ceiling in roofline.of_kind("compute"):
        if ceiling.precision == application.precision and ceiling.benchmark != _benchmark(application):
            found.append((ceiling, ceiling.value))
    memory = next((c for c in roofline.of_kind("memory") if c.level == _MEMORY_LEVEL), None)
    if memory is not None and application.memory_intensity is not None:
        found.append((memory, application.memory_intensity * memory.value))
    network = link(roofline)
    if network is not None and application.busier_intensity is not None and application.nodes > 1:
        found.append((network, application.busier_intensity * network.value))
    speed = application.flops.median
    return sorted(
        (Bound(ceiling, flops, speed / flops) for ceiling, flops in found), key=lambda bound: bound.flops
    )


def _benchmark(application: Application) -> str:
    return application.name.split(" ")[0]


def link(roofline: Roofline) -> Ceiling | None:
    """The fastest network ceiling between nodes; None where none was measured."""
    between = [ceiling for ceiling in roofline.of_kind("network") if ceiling.nodes > 1]
    return max(between, key=lambda ceiling: ceiling.value, default=None)


def verdict(application: Application, roofline: Roofline) -> str:
    """What bounds the application, how far it is from that, and what would help by how much at most."""
    where = "1 node" if application.nodes == 1 else f"{application.nodes} nodes"
    a_node = " a node" if application.nodes > 1 and not application.whole_job else ""
    parts = [
        f"{application.name} on {where}: {format_quantity(application.flops.median, 'FLOP/s', 3)}{a_node}."
    ]
    found = bounds(application, roofline)
    if found:
        parts.append(_bound_text(found[0]))
    else:
        parts.append("No ceiling of its precision was measured, so nothing can be said of what bounds it.")
    if all(run.memory_bandwidth is None for run in application.runs):
        parts.append("How many bytes of memory it moves is not known, so memory may bound it lower.")
    parts += _network_text(application, roofline)
    if application.note:
        parts.append(f"Note: {application.note}.")
    return " ".join(parts)


def _bound_text(tightest: Bound) -> str:
    ceiling = tightest.ceiling
    allowed = format_quantity(tightest.flops, "FLOP/s", 3)
    if tightest.share > 1:
        return (
            f"That is {tightest.share:.3g} times what {ceiling.name} allows ({allowed}): one of the two was "
            "measured under other conditions."
        )
    beyond = {
        "compute": "no further on this processor",
        "memory": "beyond only by fewer bytes a FLOP (blocking, smaller types) or faster memory",
        "network": "beyond only by fewer bytes between nodes or a faster link",
    }[ceiling.kind]
    return (
        f"The tightest ceiling known is {ceiling.name}, which allows {allowed}; it reaches "
        f"{100 * tightest.share:.3g} % of that. Up to there it can become {1 / tightest.share:.3g} times as "
        f"fast, {beyond}."
    )


def _network_text(application: Application, roofline: Roofline) -> list[str]:
    """The least part of its time that the network took, and what its absence would bring at most."""
    if application.nodes == 1:
        return []
    network = link(roofline)
    if application.intensity is None or not application.transfers:
        return ["Its bytes on the network were not counted: run it by npc observe."]
    if network is None:
        return ["No network ceiling between nodes was measured, so the network's part is not known."]
    least = median(size / network.value / seconds for size, seconds in application.transfers)
    if least >= 1:
        return [
            f"Its bytes alone would take {least:.3g} times its run time at the rate of {network.name}: "
            "the ceiling was measured on a slower path, or the bytes are not its own."
        ]
    if least < _NO_MATTER:
        return [
            f"At the rate of {network.name} its bytes take less than {100 * _NO_MATTER:.2g} % of its time: "
            "more bandwidth would not help. Latency and waiting for other ranks are not in that."
        ]
    return [
        f"At the rate of {network.name} its bytes take at least {100 * least:.2g} % of its time; a network "
        f"that cost nothing but that would make it at most {1 / (1 - least):.4g} times as fast. Latency and "
        "waiting for other ranks come on top."
    ]
