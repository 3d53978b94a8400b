"""What MPI itself counted: Open MPI's monitoring component writes one file a rank (``NAME.RANK.prof``).

Lines of a point-to-point table, tab-separated (ompi/mca/common/monitoring, README)::

    E  0  1  5000 bytes  5 msgs sent  1,0,…        the program's own messages, and how many of which size
    I  0  1  32 bytes    2 msgs sent               MPI's internal ones, such as those of collectives

and under ``# OSC`` one-sided operations, S (put) and R (get). Collectives appear as the internal messages
that they are made of, whatever the algorithm: user and internal together are what went through the network.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final, NamedTuple

_LINE: Final = re.compile(
    r"^([EISR])\t(\d+)\t(\d+)\t(\d+) bytes\t(\d+) msgs (?:sent|received)(?:\t([\d,]+))?", re.M
)
KINDS: Final = {"E": "user", "I": "internal", "S": "put", "R": "get"}


class Flow(NamedTuple):
    """What one rank sent to another: `kind` is user, internal, put or get.

    by_size: messages by size, where MPI says so: entry 0 counts empty ones, entry k those of
    2^(k−1) … 2^k − 1 bytes.
    """

    kind: str
    source: int
    target: int
    bytes: int
    messages: int
    by_size: tuple[int, ...] = ()


def read_flows(texts: Iterable[str]) -> list[Flow]:
    """Flows of all ranks' files, in the order of the texts; lines that are no flow are passed over."""
    flows = []
    for text in texts:
        for kind, source, target, size, messages, sizes in _LINE.findall(text):
            by_size = tuple(map(int, sizes.split(","))) if sizes else ()
            flows.append(Flow(KINDS[kind], int(source), int(target), int(size), int(messages), by_size))
    return flows
