"""What was seen of one run of a program, and its readings.

``observed.json``, schema 3: docs/observe.md describes every key. Bytes and seconds throughout.
"""

from __future__ import annotations

import json
import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final

from npc.files import read_text
from npc.machine.sysfs import parse_cpus
from npc.observe.counters import RECEIVED, SENT, passed
from npc.observe.monitoring import RankFlow, read_calls, read_flows
from npc.observe.mpi.digest import collectives_of, digest, flows_of, sizes_of
from npc.observe.mpi.profile import RankProfile
from npc.observe.rank_files import Flop, WatchedRank, read_ranks
from npc.records.hotspots import HOTSPOTS, Hotspots
from npc.records.memory_use import MEMORY, MemoryUse
from npc.records.mpi_profile import PROFILE
from npc.records.node_probes import PROBES, Overhead, Probes
from npc.records.observed import CollectiveCalls, CountedFlop, Io, Messages, ObservedNode, Port
from npc.records.units import format_quantity

SCHEMA: Final = 3
_LONG: Final = (PROFILE, PROBES, HOTSPOTS, MEMORY)
#: Foreign traffic below this part of what was measured changes no digit that anybody looks at.
_NOTICED: Final = 0.01
#: How far MPI's own count may be exceeded before it is somebody else's, or the program's own that is not
#: MPI's (files). TCP/IP over Ethernet sends 1514 bytes for 1448, and 66 to acknowledge two of these: 7 %.
_PROTOCOL: Final = 1.08
#: A message has MPI's header, and a packet each way of its own if it is small.
_BYTES_A_MESSAGE: Final = 250
#: Below this many bytes connections and name service are most of what is seen.
_LITTLE: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class Observation:
    """One run: its command, its nodes, MPI's own count where there is one, and what was odd.

    reported: what the program said of itself, by metric (`npc.records.units.METRICS`): flops, flop. counted:
    what the hardware counted, None where nobody asked. profile: what went on inside MPI
    (`npc.observe.mpi.digest`), None without the ranks' profiles. probes, hotspots, overhead, memory: of the
    node, where somebody asked.
    """

    command: tuple[str, ...]
    reported: Mapping[str, float]
    ranks: int
    nodes: tuple[ObservedNode, ...]
    messages: Messages | None
    notes: tuple[str, ...]
    counted: CountedFlop | None = None
    profile: Mapping[str, Any] | None = None
    probes: Probes | None = None
    hotspots: Hotspots | None = None
    overhead: Overhead | None = None
    memory: MemoryUse | None = None


def read_observation(
    folder: Path,
    command: Sequence[str],
    hosts: Sequence[str] = (),
    reported: Mapping[str, float] | None = None,
    profiles: Sequence[RankProfile] = (),
    ranks: Sequence[WatchedRank] | None = None,
) -> Observation:
    """The observation of the rank files and ``*.prof`` files in `folder`, and of the ranks' profiles.

    hosts: nodes that were to take part, as far as that is known. ranks: those in the folder, if they were
    read already, and what was damaged noted.
    """
    seen, damaged = read_ranks(folder) if ranks is None else (ranks, [])
    by_host: defaultdict[str, list[WatchedRank]] = defaultdict(list)
    for rank in seen:
        by_host[rank.host].append(rank)
    nodes = tuple(_node(host, ranks) for host, ranks in sorted(by_host.items()))
    placed = {rank.rank: rank.host for rank in seen}
    monitored = sorted(folder.glob("*.prof"))
    texts = [read_text(path, "replace") for path in monitored]
    messages = _counted_messages(texts, profiles, placed)
    total = max((rank.ranks for rank in seen), default=0)
    known = {host.split(".")[0] for host in by_host}
    notes = [
        *damaged,
        *_missing(total, placed, [host for host in hosts if host.split(".")[0] not in known]),
        *_uncounted(monitored, placed),
        *(f"{node.host} {port.name}: {port.note}" for node in nodes for port in node.ports if port.note),
        *_foreign(nodes, messages),
        *(
            f"{node.host}: the I/O of {node.io.incomplete} of {node.ranks} ranks could not be read"
            for node in nodes
            if node.io and node.io.incomplete
        ),
        *(note for host, ranks in sorted(by_host.items()) for note in _crowded(host, ranks)),
    ]
    counted = _counted(by_host)
    return Observation(
        tuple(command),
        reported or {},
        total,
        nodes,
        messages,
        tuple(notes),
        counted,
        digest(profiles, read_flows(texts)),
    )


def _node(host: str, ranks: Sequence[WatchedRank]) -> ObservedNode:
    """The first reading of the node's ranks and the last one span its run."""
    first = min(ranks, key=lambda rank: rank.begin.time)
    last = max(ranks, key=lambda rank: rank.end.time)
    earlier = min((rank.idle for rank in ranks), key=lambda reading: reading.time)
    before, after = first.begin.counters, last.end.counters
    idle_s = first.begin.time - earlier.time
    ports = []
    for name, end in after.items():
        if name not in before:
            ports.append(Port(name, None, None, 0.0, "it came up meanwhile"))
            continue
        received, sent = (passed(before[name], end, direction) for direction in (RECEIVED, SENT))
        background = 0.0
        if idle_s > 0 and name in earlier.counters:
            idle = earlier.counters[name]
            background = sum(passed(idle, before[name], way).bytes or 0 for way in (RECEIVED, SENT)) / idle_s
        notes = dict.fromkeys(note for note in (received.note, sent.note) if note)
        ports.append(Port(name, received.bytes, sent.bytes, background, "; ".join(notes)))
    ports += [Port(name, None, None, 0.0, "it went down meanwhile") for name in before if name not in after]
    in_order = sorted(ranks, key=lambda rank: rank.rank)
    cpus = tuple(rank.cpus for rank in in_order if rank.cpus is not None)
    seconds = last.end.time - first.begin.time
    return ObservedNode(host, len(ranks), seconds, tuple(ports), cpus, _io(ranks))


def _io(ranks: Sequence[WatchedRank]) -> Io | None:
    """The sum of those ranks whose I/O is known."""
    known = [rank.io for rank in ranks if rank.io]
    if not known:
        return None
    total: Counter[str] = Counter()
    for each in known:
        total.update(each)
    most = max(each["write_bytes"] for each in known)
    return Io(
        total["rchar"],
        total["wchar"],
        total["syscr"],
        total["syscw"],
        total["read_bytes"],
        max(0, total["write_bytes"] - total["cancelled_write_bytes"]),
        sum(each["write_bytes"] > most / 100 for each in known) if most else 0,
        len(ranks) - len(known),
    )


def _counted(by_host: Mapping[str, Sequence[WatchedRank]]) -> CountedFlop | None:
    """The FLOP of all nodes together; without those of one there is no sum."""
    found = {host: [rank.counted for rank in by_host[host] if rank.counted] for host in by_host}
    every = [each for counted in found.values() for each in counted]
    if not every:
        return None
    group = every[0].group
    for host, counted in sorted(found.items()):
        for each in counted or [Flop(group=group)]:
            if each.flop is None and each.moved is None:
                return CountedFlop(group, None, f"no counters of {group} on {host}: {each.reason}")
    moved = {host: each.moved for host, counted in sorted(found.items()) for each in counted if each.moved}
    if moved:
        return CountedFlop(group, None, "the group counts bytes", moved)
    return CountedFlop(group, math.fsum(each.flop or 0.0 for each in every))


def _counted_messages(
    monitored: Sequence[str], profiles: Sequence[RankProfile], placed: Mapping[int, str]
) -> Messages | None:
    """MPI's own count where it has one, which knows the messages that collectives are made of; else that of
    the profiles. The collectives' names only these know."""
    collectives = collectives_of(profiles)
    if monitored:
        return _messages(read_flows(monitored), collectives or read_calls(monitored), placed)
    if not profiles:
        return None
    found = _messages(flows_of(profiles), collectives, placed, sizes_of(profiles))
    return replace(found, between_nodes=None) if collectives else found


def _messages(
    flows: Iterable[RankFlow],
    collectives: Mapping[str, CollectiveCalls],
    placed: Mapping[int, str],
    by_class: Mapping[int, int] | None = None,
) -> Messages:
    """by_class: messages by the class of their size, where the flows do not tell."""
    kinds: dict[str, tuple[int, int]] = {}
    sizes: Counter[int] = Counter(by_class or {})
    sent: Counter[str] = Counter()
    received: Counter[str] = Counter()
    exchanged: Counter[str] = Counter()
    known = True
    for flow in flows:
        size, count = kinds.get(flow.kind, (0, 0))
        kinds[flow.kind] = (size + flow.bytes, count + flow.messages)
        sizes.update(dict(enumerate(flow.by_size)))
        source, target = placed.get(flow.source), placed.get(flow.target)
        if flow.kind == "get":  # the data of a get flow towards the rank that asked
            source, target = target, source
        if source is None or target is None:
            known = False
        elif source != target:
            sent[source] += flow.bytes
            received[target] += flow.bytes
            exchanged.update({source: flow.messages, target: flow.messages})
    largest = max((place for place, number in sizes.items() if number), default=-1)
    by_size = tuple(sizes[place] for place in range(largest + 1))
    between = sum(sent.values()) if known else None
    return Messages(kinds, by_size, between, dict(sent), dict(received), dict(exchanged), collectives)


def _missing(total: int, placed: Mapping[int, str], absent: Sequence[str]) -> Iterable[str]:
    lost = sorted(set(range(total)) - set(placed))
    if not placed:
        yield "no rank was seen: did the program start, and is this folder visible on every node?"
    elif lost:
        which = ", ".join(map(str, lost[:8])) + (" …" if len(lost) > 8 else "")
        yield f"{len(lost)} of {total} ranks left nothing (rank {which}): their nodes' bytes may be missing"
    if absent and placed:
        yield f"no rank ran on {', '.join(absent)}, of the job's nodes"


def _uncounted(profiles: Sequence[Path], placed: Mapping[int, str]) -> Iterable[str]:
    """Ranks that MPI counted and nobody watched, and the reverse; `profiles` are ``NAME.RANK.prof``."""
    counted = {int(rank) for path in profiles if (rank := path.stem.rpartition(".")[2]).isdecimal()}
    unseen, silent = sorted(counted - set(placed)), sorted(set(placed) - counted)
    if unseen:
        yield (
            f"MPI ran {len(counted)} ranks, of which {len(unseen)} were not watched: their nodes may be "
            "missing; put npc observe -- directly before mpirun or srun"
        )
    if counted and silent:
        yield f"{len(silent)} of {len(placed)} ranks left no count of MPI's: its bytes are a lower bound"


def _crowded(host: str, ranks: Sequence[WatchedRank]) -> Iterable[str]:
    """Ranks of a host with fewer CPUs than they have threads of OpenMP (OMP_NUM_THREADS)."""
    tight = [rank for rank in ranks if rank.cpus is not None and len(parse_cpus(rank.cpus)) < rank.threads]
    if tight:
        rank = min(tight, key=lambda rank: rank.rank)
        yield (
            f"{host}: {len(tight)} of {len(ranks)} ranks have fewer CPUs than threads "
            f"(rank {rank.rank}: CPU {rank.cpus} for {rank.threads} threads)"
        )


def _foreign(nodes: Sequence[ObservedNode], messages: Messages | None) -> Iterable[str]:
    for node in nodes:
        total = sum((port.received or 0) + (port.sent or 0) for port in node.ports)
        for port in node.ports:
            measured = (port.received or 0) + (port.sent or 0)
            expected = port.background * node.seconds
            if measured > _LITTLE and expected > _NOTICED * measured:
                rate = format_quantity(port.background, "B/s", 3)
                yield (
                    f"{node.host} {port.name}: {rate} passed before the program began; perhaps "
                    f"{expected / measured:.0%} of its bytes are others'"
                )
        if messages is not None and messages.between_nodes is not None:
            own = messages.sent.get(node.host, 0) + messages.received.get(node.host, 0)
            small = _BYTES_A_MESSAGE * messages.exchanged.get(node.host, 0)
            if total > _PROTOCOL * own + small + _LITTLE:
                yield (
                    f"{node.host}: {format_quantity(total, 'B', 3)} passed its ports, MPI accounts for "
                    f"{format_quantity(own, 'B', 3)}: the rest is protocol, files, or somebody else's"
                )


def to_document(observation: Observation) -> dict[str, Any]:
    """The content of ``observed.json``."""
    rest = asdict(replace(observation, profile=None))  # it is plain already, and large
    return {"schema": SCHEMA, **rest, "profile": observation.profile}


def to_text(observation: Observation) -> str:
    """``observed.json``; what is for programs on one line each."""
    lines = [
        f" {json.dumps(name)}: {json.dumps(value, indent=None if name in _LONG else 1)}"
        for name, value in to_document(observation).items()
    ]
    return "{\n" + ",\n".join(lines) + "\n}\n"
