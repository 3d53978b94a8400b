"""Counters that rose during a launch: which of them are worth reporting, and what they say of a suspect."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from npc.machine.counters import Meaning, meaning

#: Share of packets lost or sent again from which on it is reported, because TCP's rate suffers: at 0.1 %,
#: 1460 bytes a segment and 1 ms round trip one connection has 1460 B / 1 ms × sqrt(3/2 / 0.001) = 57 MB/s at
#: most (Mathis, Semke, Mahdavi, Ott, "The macroscopic behavior of the TCP congestion avoidance algorithm",
#: 1997).
LOST: Final = 0.001
#: A share of fewer packets says nothing: on a management network frames that nobody wants count as dropped.
FEWEST: Final = 1000
#: Waiting is reported from so many ticks for each word (4 bytes) sent on; any busy port waits a little.
WAITED: Final = 0.1
#: Losses and congestion are evidence where they are so many times as frequent with a suspect as without it.
MORE_OFTEN: Final = 3.0
#: A suspect's evidence names so many counters at most.
MOST_NAMED: Final = 3
#: Counters that include others (kernel, networking/statistics.rst; net/ipv4/udp.c, tcp_ipv4.c). Where these
#: explain the rise, only they are reported.
_SUMS: Final[Mapping[str, Sequence[str]]] = {
    "InErrors": ("RcvbufErrors", "InCsumErrors"),
    "InErrs": ("InCsumErrors",),
    "rx_errors": ("rx_crc_errors", "rx_frame_errors", "rx_length_errors", "rx_over_errors",
                  "rx_fifo_errors", "rx_missed_errors"),
}  # fmt: skip
_GRAVE_FIRST: Final[Sequence[Meaning]] = ("down", "error", "throttling", "loss", "congestion")


class CounterIncrease(NamedTuple):
    """A counter that rose by enough to be reported."""

    #: Name of the host whose counter it is.
    host: str
    #: Owner and counter: ``mlx5_0/1 symbol_error``.
    name: str
    #: By how much it rose.
    by: int
    #: What it means that this counter rises.
    means: Meaning
    #: Number of packets that the rise is compared with; 0: it is not a share of packets.
    traffic: int = 0

    @property
    def short(self) -> str:
        """``n07 mlx5_0/1 symbol_error 412``."""
        return f"{self.host} {self.name} {self.by}"

    def __str__(self) -> str:
        of = f" ({self.by / self.traffic:.2%} of {self.traffic} packets)" if self.traffic else ""
        return f"{self.host}: {self.name} rose by {self.by}{of}"


def notable_increases(moved: Mapping[str, Mapping[str, int]] | None) -> list[CounterIncrease]:
    """The counters worth reporting of all that rose during a launch (its field ``moved``), the gravest first.

    All count but the usual waiting of a busy port, and few losses: below `LOST` of the packets. RDMA loses
    nothing in a healthy network, so there every loss counts.
    """
    increases = []
    for host, counters in (moved or {}).items():
        for name, by in counters.items():
            means, owner = meaning(name), name.partition(" ")[0]
            # the larger one of what came in and what went out: the other may be acknowledgements alone
            traffic = (
                count
                for other, count in counters.items()
                if other.startswith(f"{owner} ") and meaning(other) == "traffic" and "data" not in other
            )
            packets = max(traffic, default=0)
            parts = _SUMS.get(name.rpartition(" ")[2], ())
            of_parts = sum(counters.get(f"{owner} {part}", 0) for part in parts)
            if means is None or means == "traffic" or (parts and of_parts >= by):
                continue
            if name.endswith("port_xmit_wait"):
                if by >= WAITED * counters.get(f"{owner} port_xmit_data", 0):
                    increases.append(CounterIncrease(host, name, by, means))
            elif means == "loss" and "/" not in owner:
                if packets >= FEWEST and by >= LOST * packets:
                    increases.append(CounterIncrease(host, name, by, means, packets))
            else:
                increases.append(CounterIncrease(host, name, by, means))
    return sorted(increases, key=lambda increase: _GRAVE_FIRST.index(increase.means))


class DuringLaunch(NamedTuple):
    """The counters that rose during one launch."""

    #: Names of the hosts that the launch ran on.
    hosts: tuple[str, ...]
    #: The counters that rose on these hosts; empty if none did.
    moved: Sequence[CounterIncrease]


def of_mark(mark: str) -> list[CounterIncrease]:
    """The counters of a record's mark, ``n07 mlx5_0/1 symbol_error 412; …``."""
    matches = re.findall(r"(?:^|; )(\S+) (\S+ \S+) (\d+)(?=;|$)", mark)
    return [
        CounterIncrease(host, name, int(by), means) for host, name, by in matches if (means := meaning(name))
    ]


def evidence(nodes: Collection[str], launches: Iterable[DuringLaunch], link: bool = False) -> str:
    """What counters say against nodes: ``n07: mlx5_0/1 symbol_error 412 in 5 launches``; empty if they say
    nothing.

    Errors count for the node that counted them. Losses and congestion may be caused at one end and counted at
    the other one. So they are taken from all launches with one of the nodes (of a link: with both), and count
    where they are `MORE_OFTEN` times as frequent there as in other launches.
    """
    mine, others = list[DuringLaunch](), list[DuringLaunch]()
    for launch in launches:
        at = set(nodes).intersection(launch.hosts)
        (mine if (at == set(nodes) if link else at) else others).append(launch)
    errors, times = Counter[tuple[str, str]](), Counter[tuple[str, str]]()
    with_it, without = Counter[str](), Counter[str]()
    for launch in mine:
        for moved in launch.moved:
            if moved.means in ("loss", "congestion"):
                with_it[moved.name.rpartition(" ")[2]] += moved.by
            elif moved.host in nodes:
                errors[moved.host, moved.name] += moved.by
                times[moved.host, moved.name] += 1
    for launch in others:
        without.update({moved.name.rpartition(" ")[2]: moved.by for moved in launch.moved})
    sentences = [
        f"{host}: {name} {by} in {times[host, name]} launch{'es' * (times[host, name] > 1)}"
        for (host, name), by in errors.most_common(MOST_NAMED)
    ]
    sentences += [
        f"{name} {by} in {len(mine)} launches with it, {without[name]} in {len(others)} without"
        for name, by in with_it.most_common(MOST_NAMED)
        if by * len(others) >= MORE_OFTEN * without[name] * len(mine)
    ]
    return "; ".join(sentences[:MOST_NAMED])
