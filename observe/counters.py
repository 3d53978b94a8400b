"""Network byte counters of a node, read before and after a program, and the bytes that lie between.

Sources, all of them counting since the driver was loaded and for everybody:

* InfiniBand and RoCE ports, ``/sys/class/infiniband/DEV/ports/N/counters/port_{rcv,xmit}_data`` in words of
  4 bytes (InfiniBand Architecture Specification, volume 1, PortCounters), or their 64-bit extended forms in
  ``counters_ext``. Omni-Path's driver shows the same files in the same words.
* network interfaces, ``/sys/class/net/DEV/statistics/{rx,tx}_bytes``.

Only the standard library: the reader runs beside every rank.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

from npc.machine import sysfs

#: Bytes of a word of InfiniBand's data counters.
WORD: Final = 4
_INFINIBAND_TYPE: Final = "32"  # ARPHRD_INFINIBAND: IP over InfiniBand, counted at the port already
_COUNTER_32: Final = 2**32

RECEIVED: Final = "received"
SENT: Final = "sent"


class CountedBytes(NamedTuple):
    """Bytes between two readings of a counter."""

    #: What passed, in B; None where it cannot be known.
    bytes: int | None
    #: What was odd, in words; empty where nothing was.
    note: str = ""


def read_counters(root: Path = Path("/")) -> dict[str, dict[str, int]]:
    """{port or interface: {"received": n, "sent": n, "unit": bytes a count}} of this node.

    Ports are named ``mlx5_0/1``. Left out are the loopback, interfaces that are down or only pass on what
    another one counts (those above a lower one: bridges, bonds, teams, VLANs; IP over InfiniBand), and
    counters that cannot be read.
    """
    values = {}
    for port in sorted((root / "sys/class/infiniband").glob("*/ports/*")):
        extended = _pair(port / "counters_ext", "port_rcv_data_64", "port_xmit_data_64")
        counted = extended or _pair(port / "counters", "port_rcv_data", "port_xmit_data")
        if counted:
            values[f"{port.parent.parent.name}/{port.name}"] = {**counted, "unit": WORD}
    ports = bool(values)
    for interface in sorted((root / "sys/class/net").glob("*")):
        if interface.name == "lo" or sysfs.text(interface / "operstate") == "down":
            continue
        if (interface / "bridge").exists() or any(interface.glob("lower_*")):
            continue
        if ports and sysfs.text(interface / "type") == _INFINIBAND_TYPE:
            continue
        counted = _pair(interface / "statistics", "rx_bytes", "tx_bytes")
        if counted:
            values[interface.name] = {**counted, "unit": 1}
    return values


def passed(before: Mapping[str, int], after: Mapping[str, int], direction: str) -> CountedBytes:
    """Bytes that passed a counter of `read_counters` between two readings of it.

    A counter of 32 bits that was in its upper half and is in its lower half now has wrapped (that of
    InfiniBand stays at its largest value instead); any other that went back was reset.
    """
    unit = after["unit"]
    first, last = before[direction], after[direction]
    if unit == WORD and last == _COUNTER_32 - 1:
        return CountedBytes(None, "the counter is full (32 bit) and counts no more: reset it (perfquery -R)")
    if last >= first:
        return CountedBytes((last - first) * unit)
    if unit == 1 and _COUNTER_32 // 2 <= first < _COUNTER_32 and last < _COUNTER_32 // 2:
        return CountedBytes(
            (last + _COUNTER_32 - first) * unit, "the counter (32 bit) wrapped, once at least"
        )
    return CountedBytes(None, "the counter was reset meanwhile")


def _pair(folder: Path, received: str, sent: str) -> dict[str, int] | None:
    values = [sysfs.text(folder / name) or "" for name in (received, sent)]
    if not all(value.isdecimal() for value in values):
        return None
    return {RECEIVED: int(values[0]), SENT: int(values[1])}
