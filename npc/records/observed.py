"""What `npc observe` keeps of a run, ``*.observed.json``, as typed parts.

docs/observe.md describes every key. What a newer version adds is passed over.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, TypedDict, TypeVar

import msgspec

from npc.files import InvalidFile, parse_json, read_bytes, valid

T = TypeVar("T")


class CollectiveCalls(NamedTuple):
    """Collective calls of a class, one for each rank that took part; bytes: the calls' own, as often."""

    bytes: float
    calls: int


class MovedBytes(TypedDict):
    """Bytes that a node's CPUs moved through a level (MEM, L3, L2). idle: the mean part of the time in which
    a CPU was halted, where that is known."""

    level: str
    bytes: float
    seconds: Annotated[float, msgspec.Meta(gt=0)]
    idle: float | None


@dataclass(frozen=True, slots=True)
class Port:
    """Bytes through one port or interface of a node during the run; None where they cannot be known.

    background: B/s that passed in both directions while the program had not begun.
    """

    name: str
    received: int | None
    sent: int | None
    background: float
    note: str = ""


@dataclass(frozen=True, slots=True)
class Io:
    """Bytes and calls of a node's ranks and of what they started and waited for (proc_pid_io(5)).

    read, written: bytes through read(2), write(2) and their like, whatever is behind them: files, pipes,
    sockets; read_calls, write_calls: their number. storage_read: bytes that had to be fetched from storage;
    storage_written: those that made pages dirty, less those of files that were removed before they were
    written. What memory has (tmpfs, the page cache) reaches no storage. writers: ranks that wrote more to it
    than a hundredth of what the busiest did. incomplete: ranks that nobody could read.
    """

    read: int
    written: int
    read_calls: int
    write_calls: int
    storage_read: int
    storage_written: int
    writers: int
    incomplete: int = 0


@dataclass(frozen=True, slots=True)
class ObservedNode:
    """One host: its ranks, how long the program ran there, its ports, the CPUs of each rank (Linux CPU lists,
    in the order of the ranks), and its I/O; None where the kernel counts none."""

    host: str
    ranks: int
    seconds: float
    ports: tuple[Port, ...]
    cpus: tuple[str, ...] = ()
    io: Io | None = None


@dataclass(frozen=True, slots=True)
class Messages:
    """What MPI counted, over all ranks: bytes and messages by kind, and what went between nodes.

    sent, received: bytes of user, internal and one-sided messages to and from other nodes, by host;
    exchanged: the number of these messages. None in `between_nodes` where it is not known which rank ran
    where, or what collectives sent. collectives: calls by the name of their operation, or by class where only
    that is known (`npc.observe.monitoring.CLASSES`).
    """

    kinds: Mapping[str, tuple[int, int]]
    by_size: tuple[int, ...]
    between_nodes: int | None
    sent: Mapping[str, int]
    received: Mapping[str, int]
    exchanged: Mapping[str, int]
    collectives: Mapping[str, CollectiveCalls] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CountedFlop:
    """FLOP of all nodes by `group`, LIKWID's or an event of PAPI's; None where they cannot be had, for
    `reason`. moved: of a group that counts bytes instead, by node:
    `npc.observe.flop_counters.moved_bytes`."""

    group: str
    flop: float | None
    reason: str = ""
    moved: Mapping[str, MovedBytes] | None = None


class _Observation(msgspec.Struct):
    """What every observation has, whatever was looked at; `part_of` sees the other parts."""

    #: The first one had no profile of MPI, the second nothing of the node.
    schema: Literal[1, 2, 3]
    ranks: int
    nodes: tuple[ObservedNode, ...]
    reported: Mapping[str, float]
    messages: Messages | None = None
    counted: CountedFlop | None = None


def parse_document(text: str | bytes) -> dict[str, Any]:
    """An observation. Raises ValueError, with the key that is not what it should be."""
    document = parse_json(text)
    if not isinstance(document, dict):
        raise InvalidFile("no observation")
    msgspec.convert(document, _Observation)
    return document


def part_of(document: Mapping[str, Any], key: str, kind: type[T]) -> T | None:
    """The part under `key`; None where there is none. Raises ValueError for one that is not whole."""
    part = document.get(key)
    if not part:
        return None
    try:
        return msgspec.convert(part, kind, str_keys=True)
    except msgspec.ValidationError as error:
        raise InvalidFile(f"{key}: {error}") from None


def read_document(path: Path) -> dict[str, Any]:
    """An ``*.observed.json``. Raises OSError, ValueError."""
    with valid(path):
        return parse_document(read_bytes(path))


def read_part(path: Path, key: str, kind: type[T]) -> T | None:
    """The part in an ``*.observed.json``; None where there is none. Raises OSError, ValueError."""
    document = read_document(path)
    with valid(path):
        return part_of(document, key, kind)
