"""Read /proc and /sys, where any file may be missing, empty or forbidden: then the answer is None."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Final

#: Where the kernel tells of processors and memory.
SYSTEM: Final = Path("/sys/devices/system")


def text(path: Path) -> str | None:
    """The file's stripped content; None if it is empty or cannot be read."""
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip() or None
    except OSError:
        return None


def number(path: Path) -> int | None:
    """The whole number that the file holds; None if it holds none."""
    try:
        return int(text(path) or "")
    except ValueError:
        return None


def size_bytes(path: Path) -> int | None:
    """Bytes of a size as the kernel writes it: ``32K``, ``1M``, ``512``; None if the file holds none."""
    from npc.records.units import parse_size  # the launcher starts without it

    try:
        return parse_size(text(path) or "")
    except ValueError:
        return None


def parse_cpus(cpu_list: str) -> frozenset[int]:
    """CPUs of a Linux CPU list such as ``0-3,8``; none of an empty one. Raises ValueError."""
    cpus: set[int] = set()
    for part in cpu_list.split(",") if cpu_list.strip() else ():
        match = re.fullmatch(r"\s*(\d{1,5})(?:-(\d{1,5}))?\s*", part)
        numbers = range(int(match[1]), int(match[2] or match[1]) + 1) if match else ()
        if not numbers:
            raise ValueError(f"{cpu_list!r} is no CPU list (example: 0-3,8)")
        cpus.update(numbers)
    return frozenset(cpus)


def format_cpus(cpus: Iterable[int]) -> str:
    """The shortest Linux CPU list: ``0-3,8``."""
    parts: list[str] = []
    ordered = sorted(set(cpus))
    start = 0
    for position, cpu in enumerate(ordered):
        if position + 1 == len(ordered) or ordered[position + 1] != cpu + 1:
            first = ordered[start]
            parts.append(str(cpu) if first == cpu else f"{first}-{cpu}")
            start = position + 1
    return ",".join(parts)


def cores_of(cpus: frozenset[int], root: Path = SYSTEM) -> list[list[int]]:
    """The cores that these CPUs belong to, in order: for each, the CPUs (hardware threads) that are among
    them."""
    cores: dict[str, list[int]] = {}
    for cpu in sorted(cpus):
        siblings = text(root / f"cpu/cpu{cpu}/topology/thread_siblings_list") or str(cpu)
        cores.setdefault(siblings, []).append(cpu)
    return list(cores.values())
