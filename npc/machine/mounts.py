"""The file systems that this process sees: the only place that reads /proc/self/mountinfo (proc(5))."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple


class Mount(NamedTuple):
    """A file system that is mounted."""

    #: ``MAJOR:MINOR`` of its device.
    number: str
    #: The folder that it is mounted on.
    place: str
    #: The file system's type, such as ``ext4`` or ``nfs4``; empty if not known.
    kind: str
    #: What is mounted there: ``/dev/sda1``, ``server:/home``; empty if not known.
    device: str


def mounts() -> list[Mount]:
    """All file systems in the order of their mounting; empty where the kernel does not list them."""
    try:
        lines = Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []
    points = []
    for line in lines:
        words, _, behind = line.partition(" - ")
        _, _, number, _, place, *_ = words.split()
        kind, device, *_ = [*behind.split(), "", ""]
        plain = re.sub(r"\\([0-7]{3})", lambda code: chr(int(code[1], 8)), place)
        points.append(Mount(number, plain, kind, device))
    return points


def mounted(folder: Path) -> tuple[str, str]:
    """(type, device) of the file system of a folder; the last one where several are mounted on each other. ""
    if unknown."""
    there, best = folder.resolve(), Mount("", "", "", "")
    for mount in mounts():
        if there.is_relative_to(mount.place) and len(mount.place) >= len(best.place):
            best = mount
    return best.kind, best.device
