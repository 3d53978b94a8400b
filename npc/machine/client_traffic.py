"""Bytes that all programs of this node have moved from and to a file system, by its client's counters.

========  ============================================================================================
NFS       ``/proc/self/mountstats``, what came from and went to the server (kernel, fs/nfs/iostat.h)
Lustre    ``llite.*.stats``, ``read_bytes`` and ``write_bytes`` (Lustre Operations Manual, Monitoring a
          File System); since 2.12 in debugfs, which only root may read
a disk    ``/sys/dev/block/MAJOR:MINOR/stat``, sectors of 512 bytes (kernel, Documentation/block/stat.rst)
========  ============================================================================================

GPFS is not read: its mmpmon needs root, and asks a daemon.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from npc.machine import sysfs

_SECTOR = 512


def moved_bytes(folder: Path, kind: str, device: str, root: Path = Path("/")) -> int | None:
    """Bytes that this node has read and written, of the file system that a folder is on; None where no
    counter tells.

    kind, device: type and device of the file system (`npc.machine.mounts.mounted`).
    """
    if kind.startswith("nfs"):
        return _nfs(device, sysfs.text(root / "proc/self/mountstats") or "")
    if kind == "lustre":
        return _lustre(device.rpartition(":/")[2], root)
    number = folder.stat().st_dev
    words = (sysfs.text(root / f"sys/dev/block/{os.major(number)}:{os.minor(number)}/stat") or "").split()
    return _SECTOR * (int(words[2]) + int(words[6])) if len(words) > 6 else None


def _nfs(device: str, stats: str) -> int | None:
    for mount in stats.split("\ndevice "):
        if mount.removeprefix("device ").startswith(f"{device} mounted on "):
            # bytes read and written; the same by direct I/O; the same from and to the server; pages
            counts = re.search(r"\n\s*bytes:\s+(?:\d+\s+){4}(\d+)\s+(\d+)\s", mount)
            return int(counts[1]) + int(counts[2]) if counts else None
    return None


def _lustre(name: str, root: Path) -> int | None:
    for place in ("sys/kernel/debug/lustre/llite", "proc/fs/lustre/llite"):
        for client in sorted((root / place).glob(f"{name}-*")):
            # "write_bytes  16 samples [bytes] 4096 1048576 16777216"
            sums = re.findall(
                r"^(?:read|write)_bytes +\d+ samples \[bytes\] \d+ \d+ (\d+)",
                sysfs.text(client / "stats") or "",
                re.MULTILINE,
            )
            return sum(map(int, sums)) if sums else None
    return None
