"""Applications under the ceilings: which ceiling bounds each, and what would help.

The least time that the network needs is that of the busier direction, because links carry both at once. Its
rate is what the fastest test between nodes reaches, with the program's own message sizes where MPI counted
them. This part f of the run's time is a lower bound of the network's share. So a network that cost nothing
would make the program at least 1/(1 − f) times as fast (Amdahl 1967) where nothing overlaps; at most the
program gets to the next ceiling.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Final

from npc.records.units import format_quantity, format_size, plural
from npc.roofline.applications import Application, Direction
from npc.roofline.latency import loads_text, messages_text
from npc.roofline.model import attainable, message_seconds
from npc.roofline.result import Ceiling, Roofline, direction_of
from npc.validity.rules.cache import WORKING_SET

#: A smaller share of the run time could not be measured.
_NO_MATTER: Final = 0.005
_MEMORY_LEVEL: Final = "MEM"
#: Ceilings that are a library's rate, which others may exceed; and a whole program's, which bounds no other.
_LIBRARIES: Final = ("dgemm", "DGEMM")
_PROGRAM: Final = "HPL"


@dataclass(frozen=True, slots=True)
class Bound:
    """What one ceiling allows an application."""

    #: What bounds it; its intensity for this ceiling is known.
    ceiling: Ceiling
    #: FLOP/s that it allows a node, or all nodes for a whole job.
    flops: float
    #: Share of `flops` that the application reaches; above 1 where it exceeds the ceiling.
    share: float

    @property
    def theoretical(self) -> bool:
        """Whether it follows from the data sheet, and was not measured."""
        return self.ceiling.n == 0


@dataclass(frozen=True, slots=True)
class Link:
    """The network as an application sees it."""

    #: A test between nodes.
    ceiling: Ceiling
    #: B/s that it allows a node, or all nodes for a whole job.
    bandwidth: float
    #: Whether `bandwidth` is that of the application's own message sizes.
    own_sizes: bool
    #: B/s at the test's best size.
    best: float


def bounds(application: Application, roofline: Roofline) -> list[Bound]:
    """What each ceiling allows the application, the tightest first; only ceilings for which its intensity is
    known.

    Compute: the measured peak of its precision, or the rate of the best library where no peak was measured.
    The theoretical peak comes last, unless no peak was measured. Memory: main memory, or, where the arrays
    are so small that caches may hold them, the fastest cache, which bounds all loads. Network: the busier
    direction (`own_link`). I/O: reading and writing apart, since storage may do both at once, each by the
    fastest file system that was measured.
    """
    measured = _peak(application, roofline)
    theoretical = roofline.theoretical_peak(application.precision)
    rates = [(c, c.value) for c in (measured, theoretical) if c is not None]
    memory = _memory(application, roofline)
    if memory is not None and application.memory_intensity is not None:
        rates.append((memory, application.memory_intensity * memory.value))
    network = own_link(application, roofline)
    if network is not None and application.busier_intensity is not None and application.nodes > 1:
        rates.append((network.ceiling, application.busier_intensity * network.bandwidth))
    for direction, ceiling in storage(roofline).items():
        intensity = application.storage_intensity(direction)
        if intensity is not None:
            rates.append((ceiling, intensity * ceiling.value))
    speed = application.flops.median
    peak_known = measured is not None and measured.name not in _LIBRARIES
    return sorted(
        (Bound(ceiling, flops, speed / flops) for ceiling, flops in rates),
        key=lambda bound: (bound.theoretical and peak_known, bound.flops),
    )


def _peak(application: Application, roofline: Roofline) -> Ceiling | None:
    """What bounds its arithmetic: the highest peak of the precision, or where there is none a library's
    rate."""
    compute = [c for c in roofline.of_kind("compute") if c.precision == application.precision]
    peaks = [c for c in compute if c.name not in (*_LIBRARIES, _PROGRAM)]
    return max(
        peaks or [c for c in compute if c.name in _LIBRARIES], key=lambda ceiling: ceiling.value, default=None
    )


def _memory(application: Application, roofline: Roofline) -> Ceiling | None:
    """What bounds its loads: main memory, or the fastest cache for arrays that caches may hold."""
    levels = roofline.of_kind("memory")
    if not application.caches:
        return next((ceiling for ceiling in levels if ceiling.level == _MEMORY_LEVEL), None)
    caches = (ceiling for ceiling in levels if ceiling.level != _MEMORY_LEVEL)
    return max(caches, key=lambda ceiling: ceiling.value, default=None)


def link(roofline: Roofline) -> Ceiling | None:
    """The fastest network ceiling between nodes; None where none was measured."""
    between = [ceiling for ceiling in roofline.of_kind("network") if ceiling.nodes > 1]
    return max(between, key=lambda ceiling: ceiling.value, default=None)


def storage(roofline: Roofline) -> dict[Direction, Ceiling]:
    """The fastest I/O ceiling of each direction that was measured."""
    fastest: dict[Direction, Ceiling] = {}
    for ceiling in roofline.of_kind("io"):
        direction = direction_of(ceiling)
        if direction not in fastest or ceiling.value > fastest[direction].value:
            fastest[direction] = ceiling
    return fastest


def storage_part(application: Application, roofline: Roofline) -> float | None:
    """The least share of the whole program's time that moving its bytes to and from storage takes at the
    measured rates, if nothing is still in the page cache when it ends; None where bytes or rates are not
    known."""
    ceilings = storage(roofline)
    parts = [stored_part(*moved_and_seconds, ceilings) for moved_and_seconds in application.stored]
    known = [part for part in parts if part is not None]
    return median(known) if known else None


def stored_part(
    moved: Mapping[Direction, float], seconds: float, ceilings: Mapping[Direction, Ceiling]
) -> float | None:
    """The part of `seconds` that the busier direction takes at its ceiling; None without a ceiling."""
    known = [size / ceilings[way].value for way, size in moved.items() if way in ceilings]
    return max(known) / seconds if known else None


def own_link(application: Application, roofline: Roofline) -> Link | None:
    """The fastest test between nodes for the application's own message sizes; None where none was measured.

    n_k messages of s_k bytes take Σ n_k·s_k/b(s_k), where b(s) is the test's curve times the ranks that send
    from a node at once, and no more than its best. Without counted sizes, or without a test at several sizes,
    it is the fastest test at its best size.
    """
    links = []
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
        links.append(Link(ceiling, roofline.job_nodes * mean / least, True, roofline.job_nodes * best))
    if links:
        return max(links, key=lambda candidate: candidate.bandwidth)
    fastest = link(roofline)
    return None if fastest is None else Link(fastest, fastest.value, False, fastest.value)


def verdict(application: Application, roofline: Roofline) -> str:
    """What bounds the application, how far it is from that, and what would help by how much at most."""
    where = plural(application.nodes, "node")
    a_node = " a node" if application.nodes > 1 and not application.whole_job else ""
    rate = format_quantity(application.flops.median, "FLOP/s", 3)
    parts = [f"{application.label} on {where}: {rate}{a_node}{_of_peak_text(application, roofline)}."]
    limits = bounds(application, roofline)
    known = application.memory_intensity is not None
    parts += [_exceeded_text(bound) for bound in limits if bound.share > 1]
    within = [bound for bound in limits if bound.share <= 1]
    if application.caches:
        parts.append(
            f"Its arrays are less than {WORKING_SET} times the last-level caches "
            f"({format_quantity(application.caches, 'B', 3)}): it is not compared with main memory."
        )
    if within:
        certain = known and not application.caches
        parts.append(_bound_text(within[0], own_link(application, roofline), certain))
    elif not limits:
        parts.append("No ceiling of its precision was measured, so nothing can be said of what bounds it.")
    if not known:
        parts.append("How many bytes of memory it moves is not known, so memory may bound it lower.")
    parts += filter(None, [loads_text(application, roofline)])
    parts += _network_text(application, roofline, limits)
    parts += filter(None, [_storage_text(application, roofline)])
    if application.inside is not None:
        share = f"{100 * application.inside:.3g} %"
        parts.append(f"Its ranks are inside MPI for {share} of the run, waiting included.")
    parts += [limit.sentence(application.flops.median) for limit in application.code_limits.values()]
    if application.note and application.nodes > 1:  # of the network
        parts.append(f"Note: {application.note}.")
    return " ".join(parts)


def _of_peak_text(application: Application, roofline: Roofline) -> str:
    """``, 4.36 % of the theoretical peak``, or nothing where none is known."""
    peak = roofline.theoretical_peak(application.precision)
    return f", {100 * application.flops.median / peak.value:.3g} % of the theoretical peak" if peak else ""


def _exceeded_text(bound: Bound) -> str:
    """What it means that the application is faster than a ceiling."""
    name, allowed = bound.ceiling.name, format_quantity(bound.flops, "FLOP/s", 3)
    if bound.theoretical:
        why = "the cores were clocked higher than platform.toml says, or what it says is wrong"
    elif bound.ceiling.kind == "memory":
        why = "part of its data came out of the caches"
    elif name in _LIBRARIES:
        why = "a library is no limit, and the peak of this precision was not measured"
    elif bound.ceiling.kind == "io":
        why = "part of its data was in the page cache, or still there when it ended"
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
        "io": "beyond only by fewer bytes to and from storage or a faster file system",
    }[ceiling.kind]
    if tightest.theoretical:
        beyond = "as far as the cores hold the clock that platform.toml gives"
    room = f"Up to there it can become {faster} times as fast, {beyond}."
    if name in _LIBRARIES:
        room = f"Up to there it can become {faster} times as fast; a library's rate is no hard limit."
    elif not memory_known:
        room = f"It can become not more than {faster} times as fast, {beyond}."
    return (
        f"The tightest ceiling known is {name}, which allows {allowed}; it reaches "
        f"{100 * tightest.share:.3g} % of that. {room}"
    )


def _network_text(application: Application, roofline: Roofline, limits: Sequence[Bound]) -> list[str]:
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
        size = format_size(application.message_size)
        rate += f" with its own message sizes ({size} on average)"
    if least >= 1:
        return [
            f"{rate} its bytes alone would take {least:.3g} times its run time: the ceiling was measured "
            "on a slower path, or the bytes are not its own."
        ]
    if least < _NO_MATTER:
        return [
            f"{rate} its bytes take less than {100 * _NO_MATTER:.2g} % of its time: more bandwidth would not "
            "help. Latency and waiting for other ranks are not in that.",
            *filter(None, [messages_text(application, roofline)]),
        ]
    sentences = [
        f"{rate} its bytes need at least {100 * least:.2g} % of its time. A network that cost nothing would "
        f"make it at least {1 / (1 - least):.4g} times as fast if it does not compute meanwhile"
        + _at_most(application, limits)
    ]
    if least - at_best >= _NO_MATTER:
        sentences.append(
            f"Large messages alone, at the {format_quantity(network.best, 'B/s', 3)} that they reach, would "
            f"make it at least {1 / (1 - least + at_best):.4g} times as fast then."
        )
    latency = messages_text(application, roofline)
    on_top = "Waiting for other ranks comes" if latency else "Latency and waiting for other ranks come"
    sentences += [*filter(None, [latency]), f"{on_top} on top."]  # hence "at least"
    return sentences


def _storage_text(application: Application, roofline: Roofline) -> str:
    """The least part of its time that storage took; empty where nobody counted, or where nothing was
    moved."""
    moved = [sum(by_direction.values()) for by_direction, _ in application.stored]
    if not moved or not median(moved):
        return ""
    amount = format_quantity(median(moved), "B", 3) + (" a node" if application.nodes > 1 else "")
    part = storage_part(application, roofline)
    if part is None:
        return f"It moves {amount} from and to storage; no I/O ceiling was measured (tag io)."
    names = " and ".join(ceiling.name for ceiling in storage(roofline).values())
    text = f"It moves {amount} from and to storage, which at the rates of {names} "
    if part < _NO_MATTER:
        return f"{text}takes less than {100 * _NO_MATTER:.2g} % of its time."
    if part >= 1:
        return f"{text}alone takes {part:.3g} times its run time: the page cache had them."
    return (
        f"{text}takes at least {100 * part:.2g} % of its time, if nothing stays in the page cache when it "
        f"ends. Storage that cost nothing would make it at least {1 / (1 - part):.4g} times as fast where it "
        "does not compute meanwhile."
    )


def without_network(application: Application, limits: Sequence[Bound]) -> tuple[float, Ceiling] | None:
    """How many times as fast it could be at most if the network cost nothing, and the ceiling that bounds it
    then: the lowest of its other `bounds`. None where that is not known."""
    others = [bound for bound in limits if bound.ceiling.kind != "network"]
    peak = next((bound for bound in others if bound.ceiling.kind == "compute"), None)
    if peak is None:
        return None
    paths = [
        (application.memory_intensity, bound.ceiling.value)
        for bound in others
        if bound.ceiling.kind == "memory" and application.memory_intensity is not None
    ]
    stored = [bound.flops for bound in others if bound.ceiling.kind == "io"]
    most = min([attainable(peak.flops, paths), *stored]) / application.flops.median
    return (most, others[0].ceiling) if most > 1 else None


def _at_most(application: Application, limits: Sequence[Bound]) -> str:
    best = without_network(application, limits)
    if best is None:
        return "; by how much at most is not known."
    return f", and at most {best[0]:.3g} times, for there {best[1].name} is the limit."
