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
    """Calls of a collective operation, or of a class of them; each counts once for each of its ranks."""

    #: Sum of the bytes of these calls.
    bytes: float
    #: How many calls.
    calls: int


class MovedBytes(TypedDict):
    """Bytes that the CPUs of a node moved through a level of its memory."""

    #: ``MEM``, ``L3`` or ``L2``.
    level: str
    #: Read and written together, by all CPUs.
    bytes: float
    #: The time in s in which they were counted.
    seconds: Annotated[float, msgspec.Meta(gt=0)]
    #: Share of the time in which a CPU was halted, the mean of all CPUs; None if not known.
    idle: float | None


@dataclass(frozen=True, slots=True)
class Port:
    """Bytes through one port or interface of a node during the run."""

    #: As its counters are named: ``mlx5_0/1``, ``eth0``.
    name: str
    #: Bytes that came in; None where they cannot be known.
    received: int | None
    #: Bytes that went out; None where they cannot be known.
    sent: int | None
    #: B/s in both directions together, before the program began.
    background: float
    #: What is wrong with these numbers, in words; empty if nothing is.
    note: str = ""


@dataclass(frozen=True, slots=True)
class Io:
    """I/O of a node's ranks, and of what they started and waited for (proc_pid_io(5)). What stays in memory
    (tmpfs, the page cache) does not reach storage."""

    #: Bytes that read(2) and its like returned, whatever they read from: files, pipes, sockets.
    read: int
    #: Bytes that write(2) and its like took.
    written: int
    #: How many of these calls read.
    read_calls: int
    #: How many of these calls wrote.
    write_calls: int
    #: Bytes that had to be fetched from storage.
    storage_read: int
    #: Bytes of pages that became dirty, without those of files that were removed before they were written.
    storage_written: int
    #: How many ranks wrote more than a hundredth of what the busiest one wrote to storage.
    writers: int
    #: How many ranks could not be read.
    incomplete: int = 0


@dataclass(frozen=True, slots=True)
class ObservedNode:
    """What was seen on one host."""

    #: Its name.
    host: str
    #: How many ranks ran there.
    ranks: int
    #: How long the program ran there, in s.
    seconds: float
    #: Its ports and interfaces that have counters.
    ports: tuple[Port, ...]
    #: CPUs of each of its ranks, in their order: Linux CPU lists such as ``0-3,8``; empty if not known.
    cpus: tuple[str, ...] = ()
    #: What its ranks read and wrote; None where the kernel does not count it.
    io: Io | None = None


@dataclass(frozen=True, slots=True)
class Messages:
    """What MPI counted, over all ranks."""

    #: ``user``, ``internal``, ``put``, ``get`` → (bytes, number of messages).
    kinds: Mapping[str, tuple[int, int]]
    #: Number of messages by their size: entry 0 counts empty ones, entry k those of 2^(k−1) … 2^k − 1 bytes.
    #: Empty if not known.
    by_size: tuple[int, ...]
    #: Bytes between nodes; None where it is not known which rank ran where, or what collectives sent.
    between_nodes: int | None
    #: Host → bytes of user, internal and one-sided messages to other nodes.
    sent: Mapping[str, int]
    #: Host → bytes of these messages from other nodes.
    received: Mapping[str, int]
    #: Host → number of these messages, in both directions.
    exchanged: Mapping[str, int]
    #: Operation (or class, where only that is known: `npc.observe.monitoring.CLASSES`) → its calls.
    collectives: Mapping[str, CollectiveCalls] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CountedFlop:
    """What hardware counters said of the program."""

    #: LIKWID's group, or PAPI's event, that was counted.
    group: str
    #: FLOP of all nodes; None where they cannot be known.
    flop: float | None
    #: Why they cannot be known; empty if they are.
    reason: str = ""
    #: Node → bytes that it moved, of a group that counts bytes instead
    #: (`npc.observe.flop_counters.moved_bytes`); None for all others.
    moved: Mapping[str, MovedBytes] | None = None


class _Observation(msgspec.Struct):
    """What every observation has, whatever was looked at; `part_of` reads the other parts."""

    #: Version of the file. The first had no profile of MPI, the second nothing of the node.
    schema: Literal[1, 2, 3]
    #: How many ranks the program had.
    ranks: int
    #: Where they ran, and what was seen there.
    nodes: tuple[ObservedNode, ...]
    #: What the program itself printed, or its user said: ``flops`` in FLOP/s, ``flop`` in FLOP.
    reported: Mapping[str, float]
    #: What MPI counted; None where it was not asked.
    messages: Messages | None = None
    #: What hardware counters counted; None where they were not asked.
    counted: CountedFlop | None = None


def parse_document(text: str | bytes) -> dict[str, Any]:
    """An observation. Raises ValueError, with the key that is not what it should be."""
    document = parse_json(text)
    if not isinstance(document, dict):
        raise InvalidFile("no observation")
    msgspec.convert(document, _Observation)
    return document


def part_of(document: Mapping[str, Any], key: str, kind: type[T]) -> T | None:
    """The part under `key`; None where there is none. Raises ValueError for one that lacks a key, or has one
    of a wrong type."""
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
