"""Memory or a page cache that was measured instead of a file system; file systems that are full, shared, or
above their limit."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from npc import catalogue
from npc.records.record import Record
from npc.records.units import format_quantity
from npc.validity.rule import Circumstances, rule
from npc.validity.unit_errors import likely_slip

#: A short test may count so many times too much, as over a link (`npc.validity.rules.link`).
_TOLERANCE: Final = 1.01
#: File systems that lie in memory (tmpfs(5), Linux's Documentation/filesystems/ramfs-rootfs-initramfs.rst).
_IN_MEMORY: Final = frozenset({"tmpfs", "ramfs", "devtmpfs", "hugetlbfs"})
#: What ``io_paths`` calls the places that nobody named by their path.
_NOT_NAMED: Final = ("run", "scratch")
#: With less than a tenth of free space, free blocks are found late and in pieces (McKusick et al.).
_FULL: Final = 0.9
#: Bytes of others on a node, as a share of the benchmark's own; journals of file systems are a few percent.
_OTHERS: Final = 0.1
_SYNCED: Final = ("end_fsync", "fsync", "fdatasync")


@rule(
    "io_limit",
    "bandwidth of a file system above what a node can get from it",
    "io_read_bandwidth, io_write_bandwidth of platform.toml: the data sheet or the link of a file system",
)
def above_limit(record: Record, circumstances: Circumstances) -> Iterator[str]:
    """Tests of data in the folder of the run, of all nodes together."""
    platform = circumstances.platform
    if platform is None or record.value is None or not _of_data(record):
        return
    limit = platform.io_bandwidth("read" if _reads(record) else "write")
    if limit is None or record.params.get("target", "run") != "run":
        return
    if record.value > limit * record.nodes * _TOLERANCE:
        cause = "" if record.params.get("direct") == "1" else ": a page cache may have answered"
        yield (
            f"{format_quantity(record.value, 'B/s')} is above the {format_quantity(limit, 'B/s')} that "
            f"{'a node' if record.nodes == 1 else f'each of {record.nodes} nodes'} can get{cause}"
            + likely_slip(record.value, limit * record.nodes, "B/s")
        )


@rule(
    "in_memory",
    "a file system that lies in memory",
    "tmpfs(5); Linux, Documentation/filesystems/ramfs-rootfs-initramfs.rst",
)
def in_memory(record: Record, _: Circumstances) -> Iterator[str]:
    """Where the place was not named: a path that somebody has asked for may lie in memory on purpose."""
    kind, target = record.params.get("filesystem", ""), record.params.get("target", "")
    if catalogue.row_of(record).layer == "io" and kind in _IN_MEMORY and target in _NOT_NAMED:
        yield f"the folder of {target} is a {kind}: memory was measured. io_paths names another place"


@rule(
    "page_cache",
    "writing that fits into memory and did not wait for the file system",
    "open(2), O_DIRECT; fsync(2); proc(5), vm.dirty_ratio",
)
def page_cache(record: Record, circumstances: Circumstances) -> Iterator[str]:
    """fio's writing through the page cache without an fsync, its files against the memory of the node."""
    memory, files = _memory(record, circumstances), _files(record)
    unsynced = record.params.get("direct") == "0" and not set(_SYNCED) & set(record.params)
    if record.benchmark != "fio" or not _of_data(record) or _reads(record) or not unsynced:
        return
    if files and memory and files < memory:
        yield (
            f"{format_quantity(files, 'B')} were written into a memory of {format_quantity(memory, 'B')} "
            "and never waited for: the page cache was measured (end_fsync=1, or direct=1)"
        )


@rule(
    "read_cached",
    "reading what the memory of the nodes may hold",
    "posix_fadvise(2): what was just written is dropped where the file system obeys",
    level="note",
)
def read_cached(record: Record, circumstances: Circumstances) -> Iterator[str]:
    """Reading through the page cache, the files against the memory of the nodes."""
    if not _of_data(record) or not _reads(record) or record.params.get("direct") != "0":
        return
    memory, files = _memory(record, circumstances), _files(record)
    if files and memory and files < memory:
        yield (
            f"files of {format_quantity(files, 'B')} on a node with {format_quantity(memory, 'B')} of "
            "memory: its page cache may have answered"
        )


@rule(
    "full",
    "a file system that is nearly full",
    "McKusick, Joy, Leffler, Fabry, A Fast File System for UNIX, TOCS 2(3), 1984: free space reserve",
    level="note",
)
def nearly_full(record: Record, _: Circumstances) -> Iterator[str]:
    """By the share that was taken of it when it was measured."""
    if (taken := _share(record, "filled")) > _FULL:
        yield f"{taken:.0%} of the file system was taken: it finds free blocks late and in pieces"


@rule(
    "other_traffic",
    "a file system that others on the node used as well",
    "npc/machine/client_traffic.py names the counters of its clients",
    level="note",
)
def other_traffic(record: Record, _: Circumstances) -> Iterator[str]:
    """By what the node moved from and to it meanwhile, and what of it was the benchmark's."""
    if (others := _share(record, "others")) >= _OTHERS:
        yield f"others on the node moved {others:.0%} of its bytes from and to the file system meanwhile"


def _share(record: Record, name: str) -> float:
    """The share under `name` of a record of I/O; 0 where nothing tells."""
    try:
        return float(record.params.get(name, 0)) if catalogue.row_of(record).layer == "io" else 0.0
    except ValueError:
        return 0.0


def _of_data(record: Record) -> bool:
    return record.metric == "bandwidth" and catalogue.row_of(record).layer == "io"


def _reads(record: Record) -> bool:
    """Whether a test reads, by the direction that the record names or else by the name of the test."""
    return "read" in record.params.get("direction", record.case)


def _files(record: Record) -> float:
    """Bytes of the files of a node; 0 where nothing tells."""
    texts = [record.params.get(name, "") for name in ("file_size", "block", "segments", "processes")]
    size, *parts = (float(text) if text.isdecimal() else 0.0 for text in texts)
    return size or parts[0] * parts[1] * parts[2]


def _memory(record: Record, circumstances: Circumstances) -> float:
    """Bytes of memory of a node; 0 where nothing tells."""
    size = circumstances.environment(record, "memory", "total_bytes")
    return float(size) if isinstance(size, int | float) else 0.0
