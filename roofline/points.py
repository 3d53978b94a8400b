"""Applications under the ceilings: what each run did, which ceiling bounds it, and what would help.

A point is FLOP/s a node over FLOP per byte on the network, where the bytes are all that a node's ports
received and sent, as the mean over the nodes (Bartelheimer, Zhu, Neuwirth 2023, section 6.1). It is made of
one launch: what the program says of its FLOP, and the bytes that `npc observe` saw meanwhile. Repeats of one
program on the same nodes are one application, with medians and their intervals.

How long the network must have taken at least is counted by the busier direction, because links carry both at
once, at what the fastest test between nodes reaches with the program's own message sizes where MPI counted
them. That part f of the run's time is a lower bound of the network's share, so a network that cost nothing
makes the program at least 1/(1 − f) times as fast (Amdahl 1967) where nothing overlaps; at most it gets to
the next ceiling.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from operator import mul
from statistics import median
from typing import TYPE_CHECKING, Final, NamedTuple

from npc.records.record import OK, Record
from npc.records.units import format_quantity
from npc.statistics.medians import Summary, summarise
from roofline.model import attainable, message_seconds, path_limit

if TYPE_CHECKING:
    from roofline.ceilings import Ceiling, Roofline

#: Metrics that make a program with a rate an application, and not a kernel.
_TELLING: Final = frozenset(("flop", "time", "traffic"))
#: The case of what npc observe saw.
OBSERVED: Final = "observed"
#: A program that does several tests in one run is placed by this one.
_MAIN_TEST: Final = "HPL"
_OTHERS: Final = (
    "its FLOP are those of {case} alone, the bytes counted those of all tests of the run, so nothing can be "
    "said of its network"
)
#: A rate alone, and the time of npc observe has the program's start and end in it.
_RATE_ALONE: Final = (
    "its rate is known, but not for how long it computed at it (the run has a start and an end), so its "
    "FLOP, its place on the network's axis and the network's part are not known; tell npc observe the FLOP "
    "by --flop, or where the program prints the rate's seconds by --seconds"
)
#: A part of the run time that nobody could measure.
_NO_MATTER: Final = 0.005
_MEMORY_LEVEL: Final = "MEM"
#: The middle of a class of message sizes, which holds sizes up to twice its least.
_MIDDLE: Final = 1.5
#: A ceiling that is a library's rate, which others may beat, and a whole program's, which bounds nobody.
_LIBRARY: Final = "DGEMM"
_PROGRAM: Final = "HPL"


class Run(NamedTuple):
    """One launch of a program, per node: FLOP/s, FLOP, and bytes through the ports; light, as there are many.

    sent, received: mean over the nodes; None where no bytes were counted. intensity: FLOP per byte on the
    network; infinite where nothing was sent, None where that is not known. memory_bandwidth: B/s a node as
    the program itself counts them, None if it does not say. messages: (least bytes of a class, number) of all
    ranks, as far as MPI counted them; ranks: their number, 0 if unknown.
    """

    time: str
    flops: float
    flop: float | None
    received: float | None
    sent: float | None
    intensity: float | None
    memory_bandwidth: float | None
    raw: str
    messages: tuple[tuple[int, float], ...] = ()
    ranks: int = 0

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

    @cached_property
    def messages(self) -> list[tuple[float, float]]:
        """(bytes of a message, share of all messages that are not empty), by class; empty if not counted."""
        counts: defaultdict[int, float] = defaultdict(float)
        for run in self.runs:
            for size, count in run.messages:
                counts[size] += count
        total = math.fsum(counts.values())
        return [(_MIDDLE * size, count / total) for size, count in sorted(counts.items())]

    @property
    def message_size(self) -> float | None:
        """Mean bytes of the messages that are not empty; None where they were not counted."""
        return math.fsum(size * share for size, share in self.messages) if self.messages else None

    @property
    def ranks_a_node(self) -> int:
        """How many ranks may send at once from a node; 1 where nobody counted them."""
        return max(1, self.runs[-1].ranks // self.nodes)


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
            groups[key].append(_run(rate, launch, whole=not note))
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
    rates: list[Record] = []
    cases = set()
    counted = False
    for record in launch:
        metric = record.metric
        if metric == "flops":
            if record.value:
                rates.append(record)
        elif metric in _TELLING:
            cases.add(record.case)
            counted = counted or metric == "flop"
    known = [record for record in rates if record.case in cases] or (rates if OBSERVED in cases else [])
    if not known:
        return None
    rate = next((record for record in known if record.case == _MAIN_TEST), known[0])
    if rate.case == _MAIN_TEST and any(record.case != _MAIN_TEST for record in rates):
        return rate, _OTHERS.format(case=_MAIN_TEST)
    return rate, _RATE_ALONE if rate.case == OBSERVED and not counted else ""


def _run(rate: Record, launch: Sequence[Record], whole: bool) -> Run:
    """What the launch did: results of the rate's case together, since a run of HPL may solve many systems.

    FLOP that `npc observe` was told count where the program says none. whole: whether FLOP and bytes are of
    the same time; without that the run has no bytes.
    """
    told = memory = None
    rates: list[float] = []
    seconds: list[float] = []
    flop: list[float] = []
    ranks = 0
    messages: list[tuple[int, float]] = []
    traffic: dict[str, dict[str, float]] = {"received": {}, "sent": {}}
    for record in launch:
        metric = record.metric
        if metric == "traffic":
            params = record.params
            by_node = traffic.get(params.get("direction", ""))
            if by_node is not None:
                node = params.get("node", "")
                by_node[node] = by_node.get(node, 0.0) + (record.value or 0.0)
        elif metric == "time":
            # Only the program's own time belongs to its rate; what npc observe saw includes start and end.
            if record.case == rate.case != OBSERVED and "part" not in record.params:
                seconds.append(record.value or 0.0)
        elif metric == "messages":
            if record.size and record.value:
                messages.append((record.size, record.value))
                ranks = int(record.params.get("ranks", "0"))
        elif record.case == rate.case or record.case == OBSERVED:
            if metric == "flops":
                rates.append(record.value or 0.0)
            elif metric == "flop":
                if record.case != OBSERVED:
                    flop.append(record.value or 0.0)
                elif told is None:
                    told = record.value
            elif metric == "bandwidth" and memory is None:
                memory = record.value
    flops, done = rate.value or 0.0, math.fsum(flop) if flop else told
    lasted = math.fsum(seconds)
    if lasted and len(seconds) == len(rates):
        product = math.fsum(map(mul, rates, seconds))
        flops = product / lasted if len(rates) > 1 else flops
        done = product if done is None else done
    a_node = None if done is None else done / rate.nodes
    received, sent = (_mean(traffic[way]) if whole else None for way in ("received", "sent"))
    return Run(
        time=rate.time,
        flops=flops / rate.nodes,
        flop=a_node,
        received=received,
        sent=sent,
        intensity=_per_byte(a_node, received, sent),
        memory_bandwidth=None if memory is None else memory / rate.nodes,
        raw=rate.raw,
        messages=tuple(messages),
        ranks=ranks,
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


@dataclass(frozen=True, slots=True)
class Link:
    """The network as an application sees it: a test between nodes, and what it allows a node in B/s.

    own_sizes: whether that is with the application's own message sizes. best: B/s at the best size.
    """

    ceiling: Ceiling
    bandwidth: float
    own_sizes: bool
    best: float


def bounds(application: Application, roofline: Roofline) -> list[Bound]:
    """What each ceiling allows the application, the tightest first; only those whose intensity is known.

    Compute: the peak of its precision; the best library where no peak was measured. The network's is that of
    the busier direction (`own_link`).
    """
    found = [(c, c.value) for c in [_peak(application, roofline)] if c is not None]
    memory = next((c for c in roofline.of_kind("memory") if c.level == _MEMORY_LEVEL), None)
    if memory is not None and application.memory_intensity is not None:
        found.append((memory, path_limit(application.memory_intensity, memory.value)))
    network = own_link(application, roofline)
    if network is not None and application.busier_intensity is not None and application.nodes > 1:
        found.append((network.ceiling, path_limit(application.busier_intensity, network.bandwidth)))
    speed = application.flops.median
    return sorted(
        (Bound(ceiling, flops, speed / flops) for ceiling, flops in found), key=lambda bound: bound.flops
    )


def _peak(application: Application, roofline: Roofline) -> Ceiling | None:
    """What bounds the arithmetic: the highest peak of the precision; DGEMM's rate where there is none."""
    compute = [c for c in roofline.of_kind("compute") if c.precision == application.precision]
    peaks = [c for c in compute if c.name not in (_LIBRARY, _PROGRAM)]
    return max(
        peaks or [c for c in compute if c.name == _LIBRARY], key=lambda ceiling: ceiling.value, default=None
    )


def link(roofline: Roofline) -> Ceiling | None:
    """The fastest network ceiling between nodes; None where none was measured."""
    between = [ceiling for ceiling in roofline.of_kind("network") if ceiling.nodes > 1]
    return max(between, key=lambda ceiling: ceiling.value, default=None)


def own_link(application: Application, roofline: Roofline) -> Link | None:
    """The fastest test between nodes for the application's own message sizes; None where none was measured.

    n_k messages of s_k bytes take Σ n_k·s_k/b(s_k), where b(s) is the test's curve times the ranks that send
    from a node at once, and no more than its best. Without counted sizes, or without a test at several sizes,
    it is the fastest test at its best size.
    """
    found = []
    for ceiling in roofline.of_kind("network") if application.messages else ():
        curve = roofline.curve_of(ceiling) if ceiling.nodes > 1 else None
        if curve is None:
            continue
        times = curve.times
        best = max(size / seconds for size, seconds in times)
        least = math.fsum(
            share * max(message_seconds(times, size) / application.ranks_a_node, size / best)
            for size, share in application.messages
        )
        mean = application.message_size or 0.0
        found.append(Link(ceiling, roofline.job_nodes * mean / least, True, roofline.job_nodes * best))
    if found:
        return max(found, key=lambda each: each.bandwidth)
    fastest = link(roofline)
    return None if fastest is None else Link(fastest, fastest.value, False, fastest.value)


def verdict(application: Application, roofline: Roofline) -> str:
    """What bounds the application, how far it is from that, and what would help by how much at most."""
    where = "1 node" if application.nodes == 1 else f"{application.nodes} nodes"
    a_node = " a node" if application.nodes > 1 and not application.whole_job else ""
    parts = [
        f"{application.name} on {where}: {format_quantity(application.flops.median, 'FLOP/s', 3)}{a_node}."
    ]
    found = bounds(application, roofline)
    known = application.memory_intensity is not None
    parts += [_exceeded_text(bound) for bound in found if bound.share > 1]
    within = [bound for bound in found if bound.share <= 1]
    if within:
        parts.append(_bound_text(within[0], own_link(application, roofline), known))
    elif not found:
        parts.append("No ceiling of its precision was measured, so nothing can be said of what bounds it.")
    if not known:
        parts.append("How many bytes of memory it moves is not known, so memory may bound it lower.")
    parts += _network_text(application, roofline, found)
    if application.note and application.nodes > 1:  # of the network
        parts.append(f"Note: {application.note}.")
    return " ".join(parts)


def _exceeded_text(bound: Bound) -> str:
    """What it means that the application is faster than a ceiling."""
    name, allowed = bound.ceiling.name, format_quantity(bound.flops, "FLOP/s", 3)
    if bound.ceiling.kind == "memory":
        why = "part of its data came out of the caches"
    elif name == _LIBRARY:
        why = "a library is no limit, and the peak of this precision was not measured"
    else:
        why = "one of the two was measured under other conditions"
    return f"That is {bound.share:.3g} times what {name} allows ({allowed}): {why}."


def _bound_text(tightest: Bound, network: Link | None, memory_known: bool) -> str:
    ceiling = tightest.ceiling
    allowed = format_quantity(tightest.flops, "FLOP/s", 3)
    faster = f"{1 / tightest.share:.3g}"
    name = ceiling.name
    if ceiling.kind == "network" and network is not None and network.own_sizes:
        name += " at its own message sizes"
    beyond = {
        "compute": "for no program is faster on this processor",
        "memory": "beyond only by fewer bytes a FLOP (blocking, smaller types) or faster memory",
        "network": "beyond only by fewer bytes between nodes, larger messages or a faster link",
    }[ceiling.kind]
    room = f"Up to there it can become {faster} times as fast, {beyond}."
    if name == _LIBRARY:
        room = f"Up to there it can become {faster} times as fast; a library's rate is no hard limit."
    elif ceiling.kind != "memory" and not memory_known:
        room = f"It can become not more than {faster} times as fast, {beyond}."
    return (
        f"The tightest ceiling known is {name}, which allows {allowed}; it reaches "
        f"{100 * tightest.share:.3g} % of that. {room}"
    )


def _network_text(application: Application, roofline: Roofline, found: Sequence[Bound]) -> list[str]:
    """The least part of its time that the network took, and what less of it would bring."""
    if application.nodes == 1 or application.note:
        return []
    network = own_link(application, roofline)
    if application.intensity is None or not application.transfers:
        return ["Its bytes on the network were not counted: run it by npc observe."]
    if network is None:
        return ["No network ceiling between nodes was measured, so the network's part is not known."]

    def part(bandwidth: float) -> float:
        return median(size / bandwidth / seconds for size, seconds in application.transfers)

    least, at_best = part(network.bandwidth), part(network.best)
    rate = f"At the {format_quantity(network.bandwidth, 'B/s', 3)} of {network.ceiling.name}"
    if network.own_sizes and application.message_size is not None:
        size = format_quantity(application.message_size, "B", 3)
        rate += f" with its own message sizes ({size} on average)"
    if least >= 1:
        return [
            f"{rate} its bytes alone would take {least:.3g} times its run time: the ceiling was measured "
            "on a slower path, or the bytes are not its own."
        ]
    if least < _NO_MATTER:
        return [
            f"{rate} its bytes take less than {100 * _NO_MATTER:.2g} % of its time: more bandwidth would not "
            "help. Latency and waiting for other ranks are not in that."
        ]
    said = [
        f"{rate} its bytes need at least {100 * least:.2g} % of its time. A network that cost nothing would "
        f"make it at least {1 / (1 - least):.4g} times as fast if it does not compute meanwhile"
        + _at_most(application, found)
    ]
    if least - at_best >= _NO_MATTER:
        said.append(
            f"Large messages alone, at the {format_quantity(network.best, 'B/s', 3)} that they reach, would "
            f"make it at least {1 / (1 - least + at_best):.4g} times as fast then."
        )
    said.append("Latency and waiting for other ranks come on top.")  # hence "at least"
    return said


def without_network(application: Application, found: Sequence[Bound]) -> tuple[float, Ceiling] | None:
    """How many times as fast it could be at most if the network cost nothing, and the ceiling that bounds it
    then: the lowest of its other `bounds`. None where that is not known."""
    others = [bound for bound in found if bound.ceiling.kind != "network"]
    peak = next((bound for bound in others if bound.ceiling.kind == "compute"), None)
    if peak is None:
        return None
    paths = [
        (application.memory_intensity, bound.ceiling.value)
        for bound in others
        if bound.ceiling.kind == "memory" and application.memory_intensity is not None
    ]
    most = attainable(peak.flops, paths) / application.flops.median
    return (most, others[0].ceiling) if most > 1 else None


def _at_most(application: Application, found: Sequence[Bound]) -> str:
    best = without_network(application, found)
    if best is None:
        return "; by how much at most is not known."
    return f", and at most {best[0]:.3g} times, for there {best[1].name} is the limit."
