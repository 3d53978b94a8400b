"""A rank's file, as the profiling library and `npc.observe.mpi.place` leave it (layout: library/file.h)."""

from __future__ import annotations

import errno
import os
import struct
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from npc.files import LARGEST_TABLE, read_bytes
from npc.machine.sysfs import format_cpus
from npc.observe.mpi.place import HEADER, MAGIC, SECTION, VERSION, TableSection
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
from npc.observe.mpi.variables import read_counters
from npc.observe.rank_files import WatchedRank
from npc.records.units import plural

#: Names of the header's fields.
_HEADER: Final = (
    "magic", "version", "header_bytes", "state", "sections", "pid", "rank", "ranks", "thread_level", "single",
    "funneled", "serialized", "multiple", "threads", "openmp_threads", "notes", "counters_errno", "region",
    "paused", "reserved", "began", "ended", "region_since", "paused_ns", "cpu_ns", "instructions", "cycles",
    "host", "library", "reason",
)  # fmt: skip
_NAMES, _REGIONS, _COMMS, _PLACES, _CLOCK, _ARRIVALS, _SENT, _RECEIVED, _COUNTS, _PEERS = range(1, 11)
_VARIABLES, _SNAPSHOTS = 11, 12
_ENTRY: Final[Mapping[int, struct.Struct]] = {
    _NAMES: struct.Struct("<48s"),
    _REGIONS: struct.Struct("<q56s"),
    _COMMS: struct.Struct("<Qi4x64s"),
    _PLACES: struct.Struct("<qqI4x"),
    _CLOCK: struct.Struct("<qqq"),
    _ARRIVALS: struct.Struct("<3H2xi4xQqq"),
    _SENT: struct.Struct("<3H2xii8xQqqqQ"),
    _RECEIVED: struct.Struct("<3H2xii8xQqqqQ"),
    _COUNTS: struct.Struct("<4H3Q"),
    _PEERS: struct.Struct("<iIQQ"),
}
_LOADED, _COUNTING, _FINALIZED = range(3)
_LEVELS: Final = ("single", "funneled", "serialized", "multiple")
_KINDS: Final = ("user", "put", "get")
#: Of what a time service tells the kernel, no less is believed: some say 0 (systemd-timesyncd).
_TIME_SERVICE_S: Final = 0.01
#: The last number of communicators stands for all that came when there was no room (communicators.c).
_OTHERS: Final = 1023
#: Bits of `npc_note`.
_NOTES: Final = {
    1: "calls of too many kinds: some were counted by name only",
    2: "too many communicators: some were counted as one",
    4: "too many regions: some were counted as the one around them",
    8: "messages between too many partners and tags: some have no moments",
    16: "too many requests under way: bytes received are a lower bound",
    32: "too many partners: messages to some are missing in the matrix",
    64: "more than 64 threads called MPI: the last ones were counted together",
    128: "messages to processes outside MPI_COMM_WORLD are in no matrix",
    256: "MPI_Init went past the profiling library, which counts from the first call on that it saw",
    512: "a second MPI program in this rank was not counted",
    1024: "no memory for the counters of some threads: their calls are missing",
}


class NoProfile(ValueError):
    """The file holds no profile; the message says why."""


def read_profiles(folder: Path, ranks: Iterable[WatchedRank]) -> tuple[list[RankProfile], list[str]]:
    """The profiles of the ranks that left one in `folder` (``HOST.RANK.mpi``), and why others did not, as
    `ranks` say."""
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
    """Few ranks or many."""
    return f"rank {min(ranks)}" if len(ranks) == 1 else f"{plural(len(ranks), 'rank')} ({format_cpus(ranks)})"


def read_rank_file(path: Path) -> RankProfile:
    """The profile of a rank. Raises `NoProfile`, and OSError as the file system does."""
    content = read_bytes(path, LARGEST_TABLE)
    if len(content) < HEADER.size or not content.startswith(MAGIC):
        raise NoProfile(f"{path}: not a file of the profiling library")
    head = dict(zip(_HEADER, HEADER.unpack_from(content), strict=True))
    if head["version"] != VERSION:
        raise NoProfile(f"{path}: its version is {head['version']}, not {VERSION}")
    try:
        return _profile(content, head)
    except NoProfile:
        raise
    except (struct.error, LookupError, ValueError, OverflowError) as error:
        raise NoProfile(f"{path}: damaged: {error!r}") from None


def _profile(content: bytes, head: Mapping[str, Any]) -> RankProfile:
    if reason := _text(head["reason"]):
        raise NoProfile(reason)
    if head["state"] == _LOADED:
        raise NoProfile("the program ended before MPI_Init did")
    table = [
        TableSection(*SECTION.unpack_from(content, HEADER.size + number * SECTION.size))
        for number in range(head["sections"])
    ]

    def entries(kind: int) -> list[tuple[Any, ...]]:
        return [entry for section in table if section.kind == kind for entry in _read(content, section)]

    names = [_text(name) for (name,) in entries(_NAMES)]
    regions = {number: _text(name) for number, (_, name) in enumerate(entries(_REGIONS))} or {0: WHOLE}
    communicators = [Communicator(f"{key:016x}", _text(name), size) for key, size, name in entries(_COMMS)]
    keys = {0: "", _OTHERS: "others"} | {number: each.key for number, each in enumerate(communicators, 1)}
    places = entries(_PLACES)
    ended = _ended(head, places)
    counted: defaultdict[tuple[str, str, str, int], list[int]] = defaultdict(lambda: [0, 0, 0])
    by_thread: defaultdict[int, int] = defaultdict(int)
    for section in table:
        if section.kind != _COUNTS:
            continue
        for call, region, on, size_class, calls, nanoseconds, size in _read(content, section):
            so_far = counted[regions[region], names[call], keys[on], size_class]
            for place, more in enumerate((calls, nanoseconds, size)):
                so_far[place] += more
            by_thread[section.thread] += nanoseconds
    counters = _counters(content, table)
    return RankProfile(
        rank=head["rank"],
        ranks=head["ranks"],
        host=_text(head["host"]),
        library=_text(head["library"]),
        thread_level=dict(zip((head[level] for level in _LEVELS), _LEVELS, strict=True)).get(
            head["thread_level"], "unknown"
        ),
        threads=head["threads"],
        began=head["began"] * 1e-9,
        ended=ended * 1e-9,
        finalized=head["state"] == _FINALIZED,
        calls=[Calls(*key, calls, ns * 1e-9, size) for key, (calls, ns, size) in counted.items()],
        peers=_peers(entries(_PEERS)),
        communicators=communicators,
        arrivals=[
            Arrival(keys[on], sequence, names[call], entered * 1e-9, left * 1e-9, root if root >= 0 else None)
            for on, call, _, root, sequence, entered, left in entries(_ARRIVALS)
        ],
        sent=list(_messages(entries(_SENT), keys, names, posted=False)),
        received=list(_messages(entries(_RECEIVED), keys, names, posted=True)),
        clock=[
            ClockReading(at * 1e-9, unix * 1e-9, max(error * 1e-9, _TIME_SERVICE_S))
            for at, unix, error in entries(_CLOCK)
            if error >= 0
        ],
        regions=_regions(head, entries(_REGIONS), ended),
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


def _read(content: bytes, section: TableSection) -> Iterator[tuple[Any, ...]]:
    entry = _ENTRY[section.kind]
    if entry.size != section.entry_bytes:
        raise struct.error(f"entries of {section.entry_bytes} bytes")
    return entry.iter_unpack(_bytes(content, section))


def _bytes(content: bytes, section: TableSection) -> bytes:
    return content[section.offset : section.offset + section.used * section.entry_bytes]


def _ended(head: Mapping[str, Any], places: Sequence[tuple[Any, ...]]) -> int:
    """When MPI_Finalize began, else the last moment at which a thread is known to have run."""
    return int(head["ended"]) or max((head["began"], *(max(entered, left) for entered, left, _ in places)))


def _peers(entries: Sequence[tuple[Any, ...]]) -> list[Peer]:
    """Of all threads together."""
    total: defaultdict[tuple[int, int], list[int]] = defaultdict(lambda: [0, 0])
    for rank, kind, size, messages in entries:
        total[rank, kind][0] += size
        total[rank, kind][1] += messages
    return [Peer(rank, size, messages, _KINDS[kind]) for (rank, kind), (size, messages) in total.items()]


def _messages(
    entries: Sequence[tuple[Any, ...]], keys: Mapping[int, str], names: Sequence[str], *, posted: bool
) -> Iterator[Message]:
    for on, call, _, tag, peer, sequence, entered, left, asked, size in entries:
        yield Message(
            keys[on], tag, peer, sequence, names[call], entered * 1e-9, left * 1e-9, size,
            asked * 1e-9 if posted else None,
        )  # fmt: skip


def _regions(head: Mapping[str, Any], entries: Sequence[tuple[Any, ...]], ended: int) -> dict[str, float]:
    """Seconds by name; the one that a rank without MPI_Finalize was in lasted until its end."""
    spent = [nanoseconds for nanoseconds, _ in entries]
    if not head["ended"] and not head["paused"]:
        spent[head["region"]] += max(0, ended - head["region_since"])
    return {_text(name): total * 1e-9 for (_, name), total in zip(entries, spent, strict=True)}


def _paused(head: Mapping[str, Any], ended: int) -> float:
    going_on = head["paused"] and not head["ended"]
    return float(head["paused_ns"] + (max(0, ended - head["region_since"]) if going_on else 0)) * 1e-9


def _counted(head: Mapping[str, Any], name: str) -> int | None:
    return head[name] if not head["counters_errno"] and head["ended"] else None


def _counters(content: bytes, table: Sequence[TableSection]) -> Any:
    found = {section.kind: _bytes(content, section) for section in table}
    if not found.get(_VARIABLES):
        return None
    return read_counters(found[_VARIABLES], found.get(_SNAPSHOTS, b""))


def _notes(
    head: Mapping[str, Any], ended: int, places: Sequence[tuple[Any, ...]], names: Sequence[str]
) -> Iterator[str]:
    for bit, note in _NOTES.items():
        if head["notes"] & bit:
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
