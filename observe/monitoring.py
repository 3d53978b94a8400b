"""What MPI itself counted: Open MPI's monitoring component writes one file a rank (``NAME.RANK.prof``).

Lines of a point-to-point table, tab-separated (ompi/mca/common/monitoring, README)::

    E  0  1  5000 bytes  5 msgs sent  1,0,…        the program's own messages, and how many of which size
    I  0  1  32 bytes    2 msgs sent               MPI's internal ones, such as those of collectives

and under ``# OSC`` one-sided operations, S (put) and R (get). Collectives appear as the internal messages
that they are made of, whatever the algorithm: user and internal together are what went through the network.
The messages by size are both together, on the line of either.

Under ``# COLLECTIVES`` the calls themselves, of each communicator below its members::

    D    MPI_COMM_WORLD  procs: 0,1,2,3
    O2A  0  12000 bytes  500 msgs sent         one to all (bcast, scatter), at their roots
    A2O  0  4800 bytes   50 msgs sent          all to one (reduce, gather), at their roots
    A2A  0  32700 bytes  1324 msgs sent        all to all (allreduce, alltoall, barrier), at every rank

whose bytes are the call's own times the number of the other members.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final, NamedTuple

from npc.records.observed import CollectiveCalls

_LINE: Final = re.compile(
    r"^([EISR])\t(\d{1,9})\t(\d{1,9})\t(\d{1,20}) bytes\t(\d{1,20}) msgs (?:sent|received)"
    r"(?:\t(\d{1,20}(?:,\d{1,20}){0,99}))?",
    re.M,
)
_CALLS: Final = re.compile(
    r"^D\t[^\t\n]*\tprocs: ([\d,]+)\n((?:(?:O2A|A2O|A2A)\t\d+\t\d+ bytes\t\d+ msgs sent\n?)+)", re.M
)
_CALL: Final = re.compile(r"^(O2A|A2O|A2A)\t\d+\t(\d{1,20}) bytes\t(\d{1,20}) msgs sent", re.M)
CLASSES: Final = {"O2A": "one to all", "A2O": "all to one", "A2A": "all to all"}
KINDS: Final = {"E": "user", "I": "internal", "S": "put", "R": "get"}


class RankFlow(NamedTuple):
    """What one rank sent to another."""

    #: What sent it: ``user``, ``internal`` (MPI's own), ``put`` or ``get``.
    kind: str
    #: Number of the rank that its line names first.
    source: int
    #: Number of the rank that its line names second.
    target: int
    #: B of all its messages together.
    bytes: int
    #: How many there were.
    messages: int
    #: Messages by size: entry 0 counts empty ones, entry k those of 2^(k−1) … 2^k − 1 B;
    #: empty where MPI does not say so.
    by_size: tuple[int, ...] = ()


def read_calls(texts: Iterable[str]) -> dict[str, CollectiveCalls]:
    """Class (`CLASSES`) → collective calls of all ranks' files; those of one rank with itself are none."""
    by_name: dict[str, CollectiveCalls] = {}
    for text in texts:
        for members, lines in _CALLS.findall(text):
            others = members.count(",")
            for kind, size, count in _CALL.findall(lines):
                if not others or not int(count):
                    continue
                # At its root a call stands for all its members, else for the rank itself.
                taking_part = 1 if kind == "A2A" else others + 1
                bytes_, calls = by_name.get(CLASSES[kind], CollectiveCalls(0.0, 0))
                by_name[CLASSES[kind]] = CollectiveCalls(
                    bytes_ + taking_part * int(size) / others, calls + taking_part * int(count)
                )
    return by_name


def read_flows(texts: Iterable[str]) -> list[RankFlow]:
    """Flows of all ranks' files, in the order of the texts; lines that are no flow are passed over."""
    flows = []
    for text in texts:
        for kind, source, target, size, messages, sizes in _LINE.findall(text):
            by_size = tuple(map(int, sizes.split(","))) if sizes else ()
            flows.append(RankFlow(KINDS[kind], int(source), int(target), int(size), int(messages), by_size))
    return flows
