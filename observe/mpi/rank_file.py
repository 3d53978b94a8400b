"""A rank's file, as the profiling library and `npc.observe.mpi.place` leave it.

Its structures and the numbers in them are those of library/file.h, and have the names that they have there.
"""

from __future__ import annotations

import errno
import os
import struct
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

from npc.files import LARGEST_TABLE, read_bytes
from npc.machine.sysfs import format_cpus
from npc.observe.c_header import dtype
from npc.observe.mpi.place import HEADER, LAYOUT, MAGIC, SECTION, TABLE_OFFSET
from npc.observe.mpi.profile import (
    WHOLE,
    Arrival,
    Calls,
    ClockReading,
    Communicator,
    Message,
    Peer,
    RankProfile,
)  # fmt: skip
from npc.observe.mpi.records import PROFILE
from npc.observe.mpi.variables import RankCounters, read_counters
from npc.observe.rank_files import WatchedRank
from npc.records.units import plural

_NUMBERS: Final = LAYOUT.numbers
#: What the entries of a section are, by its kind.
_ENTRIES: Final = {
    _NUMBERS[kind]: dtype(LAYOUT.structures[structure])
    for kind, structure in {
        "NPC_NAMES": "npc_call_name",
        "NPC_REGIONS": "npc_region_entry",
        "NPC_COMMS": "npc_comm_entry",
        "NPC_PLACE": "npc_thread_place",
        "NPC_CLOCK": "npc_clock_reading",
        "NPC_ARRIVALS": "npc_arrival",
        "NPC_SENT": "npc_message",
        "NPC_RECEIVED": "npc_message",
        "NPC_COUNTS": "npc_calls",
        "NPC_PEERS": "npc_peer",
    }.items()
}
#: MPI's levels of threads, in the order of the header's `levels`.
_THREAD_LEVELS: Final = ("single", "funneled", "serialized", "multiple")
#: Fields of a message's stamp that are read.
_STAMP: Final = ("on", "call", "tag", "peer", "sequence", "entered", "left", "posted", "bytes")
_PEER_KINDS: Final = {
    _NUMBERS["NPC_USER"]: "user", _NUMBERS["NPC_PUT"]: "put", _NUMBERS["NPC_GET"]: "get",
}  # fmt: skip
#: The clock's error is taken as at least this, in s: some time services tell the kernel 0
#: (systemd-timesyncd).
_TIME_SERVICE_S: Final = 0.01
#: What a bit of the header's `notes` (npc_note) means.
_NOTES: Final = {
    "NPC_FULL_CALLS": "calls of too many kinds: some were counted by name only",
    "NPC_FULL_COMMS": "too many communicators: some were counted as one",
    "NPC_FULL_REGIONS": "too many regions: some were counted as the one around them",
    "NPC_FULL_SEQUENCES": "messages between too many partners and tags: some have no moments",
    "NPC_FULL_REQUESTS": "too many requests under way: bytes received are a lower bound",
    "NPC_FULL_PEERS": "too many partners: messages to some are missing in the matrix",
    "NPC_MANY_THREADS": "more than 64 threads called MPI: the last ones were counted together",
    "NPC_OTHER_WORLD": "messages to processes outside MPI_COMM_WORLD are in no matrix",
    "NPC_LATE": "MPI_Init went past the profiling library, which counts from the first call on that it saw",
    "NPC_SECOND": "a second MPI program in this rank was not counted",
    "NPC_NO_MEMORY": "no memory for the counters of some threads: their calls are missing",
}


class FileSection(NamedTuple):
    """A section of the file: what is read of `npc_section`."""

    #: A number of `npc_kind`.
    kind: int
    #: Number of the thread that wrote it.
    thread: int
    #: Size of one entry (B).
    entry_bytes: int
    #: Of its first entry from the file's begin (B).
    offset: int
    #: Number of entries.
    used: int


class NoProfile(ValueError):
    """The file holds no profile; the message says why."""


def read_profiles(folder: Path, ranks: Iterable[WatchedRank]) -> tuple[list[RankProfile], list[str]]:
    """The profiles that ranks left in `folder` (``HOST.RANK.mpi``), and notes on why others, of `ranks`, left
    none."""
    profiles: list[RankProfile] = []
    reasons: defaultdict[str, set[int]] = defaultdict(set)
    for path in sorted(folder.glob("*.mpi")):
        try:
            profiles.append(read_rank_file(path))
        except (NoProfile, OSError) as error:
            number = path.stem.rpartition(".")[2]
            reasons[str(error)].add(int(number) if number.isdecimal() else 0)
    for rank in ranks:
        if reason := rank.left_by(PROFILE, str):
            reasons[reason].add(rank.rank)
    notes = [f"inside MPI: unavailable of {_named(lost)}: {reason}" for reason, lost in reasons.items()]
    return sorted(profiles, key=lambda profile: profile.rank), notes


def _named(ranks: Collection[int]) -> str:
    """``rank 3``, or ``5 ranks (0-4)``."""
    return f"rank {min(ranks)}" if len(ranks) == 1 else f"{plural(len(ranks), 'rank')} ({format_cpus(ranks)})"


def read_rank_file(path: Path) -> RankProfile:
    """The profile of a rank. Raises `NoProfile`, and OSError as the file system does."""
    content = read_bytes(path, LARGEST_TABLE)
    if len(content) < TABLE_OFFSET or not content.startswith(MAGIC):
        raise NoProfile(f"{path}: not a file of the profiling library")
    head = HEADER.read(content)
    if head["version"] != _NUMBERS["NPC_VERSION"]:
        raise NoProfile(f"{path}: its version is {head['version']}, not {_NUMBERS['NPC_VERSION']}")
    try:
        return _profile(content, head)
    except NoProfile:
        raise
    except (struct.error, LookupError, ValueError, OverflowError) as error:
        raise NoProfile(f"{path}: damaged: {error!r}") from None


def _profile(content: bytes, head: Mapping[str, Any]) -> RankProfile:
    if reason := _text(head["reason"]):
        raise NoProfile(reason)
    if head["state"] == _NUMBERS["NPC_LOADED"]:
        raise NoProfile("the program ended before MPI_Init did")
    table = list(_sections(content, head["sections"]))

    def entries(kind: str, *fields: str) -> list[tuple[Any, ...]]:
        """These fields of all entries of sections of a kind."""
        number = _NUMBERS[kind]
        return [
            values
            for section in table
            if section.kind == number
            for values in _entries(content, section, fields)
        ]

    names = [_text(name) for (name,) in entries("NPC_NAMES", "text")]
    region_times = entries("NPC_REGIONS", "name", "nanoseconds")
    regions = {number: _text(name) for number, (name, _) in enumerate(region_times)} or {0: WHOLE}
    communicators = [
        Communicator(f"{key:016x}", _text(name), size)
        for key, name, size in entries("NPC_COMMS", "key", "name", "size")
    ]
    keys = {0: "", _NUMBERS["NPC_OTHERS"]: "others"}
    keys |= {number: communicator.key for number, communicator in enumerate(communicators, 1)}
    places = entries("NPC_PLACE", "entered", "left", "call")
    ended = _ended(head, places)
    totals: defaultdict[tuple[str, str, str, int], list[int]] = defaultdict(lambda: [0, 0, 0])
    by_thread: defaultdict[int, int] = defaultdict(int)
    for section in table:
        if section.kind != _NUMBERS["NPC_COUNTS"]:
            continue
        fields = ("key", "calls", "nanoseconds", "bytes")
        for key, calls, nanoseconds, size in _entries(content, section, fields):
            call, region, on, size_class = (key >> shift & 0xFFFF for shift in (0, 16, 32, 48))
            total = totals[regions[region], names[call], keys[on], size_class]
            for place, more in enumerate((calls, nanoseconds, size)):
                total[place] += more
            by_thread[section.thread] += nanoseconds
    counters = _counters(content, table)
    return RankProfile(
        rank=head["rank"],
        ranks=head["ranks"],
        host=_text(head["host"]),
        library=_text(head["library"]),
        thread_level=dict(zip(head["levels"], _THREAD_LEVELS, strict=True)).get(
            head["thread_level"], "unknown"
        ),
        threads=head["threads"],
        began=head["began"] * 1e-9,
        ended=ended * 1e-9,
        finalized=head["state"] == _NUMBERS["NPC_FINALIZED"],
        calls=[Calls(*key, calls, ns * 1e-9, size) for key, (calls, ns, size) in totals.items()],
        peers=_peers(entries("NPC_PEERS", "rank", "kind", "bytes", "messages")),
        communicators=communicators,
        arrivals=[
            Arrival(keys[on], sequence, names[call], entered * 1e-9, left * 1e-9, root if root >= 0 else None)
            for on, call, root, sequence, entered, left in entries(
                "NPC_ARRIVALS", "on", "call", "root", "sequence", "entered", "left"
            )
        ],
        sent=list(_messages(entries("NPC_SENT", *_STAMP), keys, names, posted=False)),
        received=list(_messages(entries("NPC_RECEIVED", *_STAMP), keys, names, posted=True)),
        clock=[
            ClockReading(at * 1e-9, unix * 1e-9, max(error * 1e-9, _TIME_SERVICE_S))
            for at, unix, error in entries("NPC_CLOCK", "at", "unix_ns", "error")
            if error >= 0
        ],
        regions=_regions(head, region_times, ended),
        paused=_paused(head, ended),
        variables=counters.variables if counters else (),
        snapshots=counters.snapshots if counters else (),
        mpi_by_thread=[by_thread[thread] * 1e-9 for thread in sorted(by_thread)],
        openmp_threads=max(head["openmp_threads"], 1),
        cpu_seconds=head["cpu_ns"] * 1e-9 if head["cpu_ns"] >= 0 else None,
        instructions=_counted(head, "instructions"),
        cycles=_counted(head, "cycles"),
        notes=(*_notes(head, ended, places, names), *(counters.notes if counters else ())),
    )


def _text(field: bytes) -> str:
    return field.split(b"\0", 1)[0].decode(errors="replace")


def _sections(content: bytes, number: int) -> Iterator[FileSection]:
    for place in range(number):
        fields = SECTION.read(content, TABLE_OFFSET + place * SECTION.size)
        yield FileSection(**{name: fields[name] for name in FileSection._fields})


def _entries(content: bytes, section: FileSection, fields: Sequence[str]) -> list[tuple[Any, ...]]:
    """These fields of a section's entries. Raises ValueError for entries of another size."""
    kind = _ENTRIES[section.kind]
    if kind.itemsize != section.entry_bytes:
        raise ValueError(f"entries of {section.entry_bytes} bytes")
    entries: list[tuple[Any, ...]] = np.frombuffer(_bytes(content, section), kind)[list(fields)].tolist()
    return entries


def _bytes(content: bytes, section: FileSection) -> bytes:
    return content[section.offset : section.offset + section.used * section.entry_bytes]


def _ended(head: Mapping[str, Any], places: Sequence[tuple[Any, ...]]) -> int:
    """When MPI_Finalize began, else the last moment at which a thread is known to have run."""
    return int(head["ended"]) or max((head["began"], *(max(entered, left) for entered, left, _ in places)))


def _peers(entries: Sequence[tuple[Any, ...]]) -> list[Peer]:
    """The partners of all threads together."""
    total: defaultdict[tuple[int, int], list[int]] = defaultdict(lambda: [0, 0])
    for rank, kind, size, messages in entries:
        total[rank, kind][0] += size
        total[rank, kind][1] += messages
    return [Peer(rank, size, messages, _PEER_KINDS[kind]) for (rank, kind), (size, messages) in total.items()]


def _messages(
    entries: Sequence[tuple[Any, ...]], keys: Mapping[int, str], names: Sequence[str], *, posted: bool
) -> Iterator[Message]:
    """posted: whether the entries say when the messages were asked for."""
    for on, call, tag, peer, sequence, entered, left, posted_at, size in entries:
        yield Message(
            keys[on], tag, peer, sequence, names[call], entered * 1e-9, left * 1e-9, size,
            posted_at * 1e-9 if posted else None,
        )  # fmt: skip


def _regions(head: Mapping[str, Any], entries: Sequence[tuple[Any, ...]], ended: int) -> dict[str, float]:
    """Region → seconds. Without MPI_Finalize the last region lasted until the rank's end."""
    spent = [nanoseconds for _, nanoseconds in entries]
    if not head["ended"] and not head["paused"]:
        spent[head["region"]] += max(0, ended - head["region_since"])
    return {_text(name): total * 1e-9 for (name, _), total in zip(entries, spent, strict=True)}


def _paused(head: Mapping[str, Any], ended: int) -> float:
    going_on = head["paused"] and not head["ended"]
    return float(head["paused_ns"] + (max(0, ended - head["region_since"]) if going_on else 0)) * 1e-9


def _counted(head: Mapping[str, Any], name: str) -> int | None:
    return head[name] if not head["counters_errno"] and head["ended"] else None


def _counters(content: bytes, table: Sequence[FileSection]) -> RankCounters | None:
    """None where nothing was asked for."""
    sections = {section.kind: _bytes(content, section) for section in table}
    variables = sections.get(_NUMBERS["NPC_VARIABLES"])
    return read_counters(variables, sections.get(_NUMBERS["NPC_SNAPSHOTS"], b"")) if variables else None


def _notes(
    head: Mapping[str, Any], ended: int, places: Sequence[tuple[Any, ...]], names: Sequence[str]
) -> Iterator[str]:
    for bit, note in _NOTES.items():
        if head["notes"] & _NUMBERS[bit]:
            yield note
    if head["counters_errno"]:
        number = head["counters_errno"]
        closed = number == errno.EBADF
        reason = "the program has closed them" if closed else f"{os.strerror(number)} (perf_event_open)"
        yield f"no counters of instructions and cycles: {reason}"
    if not head["ended"]:
        inside = [(entered, names[call]) for entered, left, call in places if entered > left]
        where = f", in {max(inside)[1]}" if inside else ""
        yield f"it ended without MPI_Finalize{where}"
