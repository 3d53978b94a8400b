"""What was seen of one run of a program, and its readings.

``observed.json``, schema 3: docs/observe.md describes every key. Bytes and seconds throughout.
"""

from __future__ import annotations

import json
import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, is_dataclass, replace
from pathlib import Path
from typing import Any, Final

from npc.files import read_text
from npc.hostlist import host_text
from npc.machine.sysfs import parse_cpus
from npc.observe.counters import RECEIVED, SENT, passed
from npc.observe.monitoring import RankFlow, read_calls, read_flows
from npc.observe.observer import MessageCounts, ObservedPart, RanksLeft, RunObserver
from npc.observe.overhead import overhead_of
from npc.observe.rank_files import Flop, WatchedRank, read_ranks
from npc.records.observed import CollectiveCalls, CountedFlop, Io, Messages, ObservedNode, Port
from npc.records.overhead import Overhead
from npc.records.units import format_quantity

SCHEMA: Final = 3
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
    """One run of a program."""

    #: The command line that was observed, word by word.
    command: tuple[str, ...]
    #: What the program said of itself, by metric (`npc.records.units.METRICS`): flops (FLOP/s), flop.
    reported: Mapping[str, float]
    #: How many ranks there were to be.
    ranks: int
    #: What was seen on each node.
    nodes: tuple[ObservedNode, ...]
    #: MPI's own count, or an observer's; None without.
    messages: Messages | None
    #: What was odd.
    notes: tuple[str, ...]
    #: What the hardware counted; None where nobody asked.
    counted: CountedFlop | None = None
    #: What watching took; None where nothing of it is known.
    overhead: Overhead | None = None
    #: What observers read, by their keys: dataclasses, or what JSON knows; None where one saw nothing.
    parts: Mapping[str, Any] = field(default_factory=dict)


def read_observation(
    folder: Path,
    command: Sequence[str],
    hosts: Sequence[str] = (),
    reported: Mapping[str, float] | None = None,
    observers: Sequence[RunObserver] = (),
) -> Observation:
    """The observation of the rank files and ``*.prof`` files in `folder`, and of what the observers read
    there.

    hosts: nodes that were to take part, as far as that is known.
    """
    ranks, damaged = read_ranks(folder)
    by_host: defaultdict[str, list[WatchedRank]] = defaultdict(list)
    for rank in ranks:
        by_host[rank.host].append(rank)
    nodes = tuple(_node(host, local) for host, local in sorted(by_host.items()))
    placed = {rank.rank: rank.host for rank in ranks}
    monitored = sorted(folder.glob("*.prof"))
    texts = [read_text(path, "replace") for path in monitored]
    left = RanksLeft(folder=folder, ranks=ranks, flows=read_flows(texts))
    parts = {observer.key: observer.read(left) for observer in observers}
    messages = _counted_messages(texts, left.flows, parts.values(), placed)
    overhead, unknown = overhead_of(
        {observer.name: estimate for observer in observers if (estimate := parts[observer.key].overhead)},
        next((observer.budget for observer in observers if observer.budget is not None), None),
    )
    total = max((rank.ranks for rank in ranks), default=0)
    known = {host.split(".")[0] for host in by_host}
    notes = [
        *_missing(total, placed, [host for host in hosts if host.split(".")[0] not in known]),
        *_uncounted(monitored, placed),
        *(f"{node.host} {port.name}: {port.note}" for node in nodes for port in node.ports if port.note),
        *_foreign(nodes, messages),
        *(
            f"{node.host}: the I/O of {node.io.incomplete} of {node.ranks} ranks could not be read"
            for node in nodes
            if node.io and node.io.incomplete
        ),
        *(note for host, local in sorted(by_host.items()) for note in _crowded(host, local)),
        *(note for part in parts.values() for note in part.notes),
        *unknown,
    ]
    return Observation(
        command=tuple(command),
        reported=reported or {},
        ranks=total,
        nodes=nodes,
        messages=messages,
        notes=(*damaged, *notes),
        counted=_counted(by_host),
        overhead=overhead if overhead.estimated else None,
        parts={key: part.content for key, part in parts.items()},
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
    for rank_io in known:
        total.update(rank_io)
    most = max(rank_io["write_bytes"] for rank_io in known)
    return Io(
        total["rchar"],
        total["wchar"],
        total["syscr"],
        total["syscw"],
        total["read_bytes"],
        max(0, total["write_bytes"] - total["cancelled_write_bytes"]),
        sum(rank_io["write_bytes"] > most / 100 for rank_io in known) if most else 0,
        len(ranks) - len(known),
    )


def _counted(by_host: Mapping[str, Sequence[WatchedRank]]) -> CountedFlop | None:
    """The FLOP of all nodes together; without those of one there is no sum."""
    by_host_counted = {host: [rank.counted for rank in by_host[host] if rank.counted] for host in by_host}
    every = [flop for counted in by_host_counted.values() for flop in counted]
    if not every:
        return None
    group = every[0].group
    for host, counted in sorted(by_host_counted.items()):
        for flop in counted or [Flop(group=group)]:
            if flop.flop is None and flop.moved is None:
                return CountedFlop(group, None, f"no counters of {group} on {host}: {flop.reason}")
    moved = {
        host: flop.moved
        for host, counted in sorted(by_host_counted.items())
        for flop in counted
        if flop.moved
    }
    if moved:
        return CountedFlop(group, None, "the group counts bytes", moved)
    return CountedFlop(group, math.fsum(flop.flop or 0.0 for flop in every))


def _counted_messages(
    monitored: Sequence[str],
    flows: Sequence[RankFlow],
    parts: Iterable[ObservedPart],
    placed: Mapping[int, str],
) -> Messages | None:
    """MPI's own count where it has one, which knows the messages that collectives are made of; else that of
    an observer. The collectives' names only that knows."""
    counts: MessageCounts | None = next((part.messages for part in parts if part.messages), None)
    collectives = counts.collectives if counts else {}
    if monitored:
        return _messages(flows, collectives or read_calls(monitored), placed)
    if not counts:
        return None
    messages = _messages(counts.flows, collectives, placed, counts.by_size)
    return replace(messages, between_nodes=None) if collectives else messages


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
        yield f"no rank ran on {host_text(absent)}, of the job's nodes"


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
    document = {"schema": SCHEMA, **asdict(replace(observation, parts={}))}
    del document["parts"]
    for key, part in observation.parts.items():  # what is plain already is large, and stays as it is
        document[key] = asdict(part) if is_dataclass(part) and not isinstance(part, type) else part
    return document


def to_text(observation: Observation) -> str:
    """``observed.json``; the parts, which are for programs, on one line each."""
    lines = [
        f" {json.dumps(name)}: {json.dumps(value, indent=None if name in observation.parts else 1)}"
        for name, value in to_document(observation).items()
    ]
    return "{\n" + ",\n".join(lines) + "\n}\n"
