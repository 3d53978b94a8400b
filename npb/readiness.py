"""Readiness: a server is ready when a socket of its own listens.

Seen from outside, with no packet sent and no port guessed: the inodes of the sockets that the server's
processes hold (``/proc/PID/fd``), looked up in their own network namespace's tables (``/proc/PID/net``).
TCP counts in state LISTEN; UDP counts when bound and not connected, so a name look-up does not count.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Final

#: /proc/net tables and the states (net/tcp_states.h) in which a client may come: LISTEN, and CLOSE for UDP.
_TABLES: Final = (("tcp", "0A"), ("tcp6", "0A"), ("udp", "07"), ("udp6", "07"))


def socket_inodes(pid: int) -> set[str]:
    """Inodes of the sockets that a process has open; empty if it is gone or not ours."""
    inodes = set()
    try:
        for entry in os.scandir(f"/proc/{pid}/fd"):
            try:
                target = os.readlink(entry.path)  # noqa: PTH115  runs every millisecond
            except OSError:
                continue
            if target.startswith("socket:["):
                inodes.add(target[8:-1])
    except OSError:
        pass
    return inodes


def listening_port(pids: Iterable[int]) -> str | None:
    """``tcp 19765``, ``udp 11111``, …: where one of the processes listens; None if none does yet."""
    for pid in pids:
        inodes = socket_inodes(pid)
        if not inodes:
            continue
        for table, state in _TABLES:
            try:
                rows = Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]
            except OSError:
                continue
            for row in rows:
                cells = row.split()
                if cells[3] == state and cells[9] in inodes:
                    return f"{table} {int(cells[1].rpartition(':')[2], 16)}"
    return None


def datagrams_received() -> int:
    """UDP datagrams that this network namespace has delivered so far (RFC 4113 ``InDatagrams``)."""
    total = 0
    for table, key in (("snmp", "Udp:"), ("snmp6", "Udp6InDatagrams")):
        try:
            rows = Path(f"/proc/self/net/{table}").read_text().splitlines()
        except OSError:
            continue
        cells = [row.split() for row in rows if row.startswith(key)]
        if table == "snmp" and len(cells) == 2:
            total += int(cells[1][cells[0].index("InDatagrams")])
        elif table == "snmp6" and cells:
            total += int(cells[0][1])
    return total
