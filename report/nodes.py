"""How each node compares with the others: by the same tests, on all nodes that were measured with it.

A node with several devices is compared device by device: one bad GPU of eight is hidden in its node's median.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from operator import attrgetter, itemgetter
from statistics import median

from npc.machine.fabric import natural
from npc.records.history import HistoryRow
from npc.records.nodes import Hosts, beside_others
from npc.records.record import Record
from npc.records.series import Series

#: Gives the id in the page, and the name, of what some hosts measured of a series.
Lead = Callable[[Series, Hosts], tuple[str, str]]


@dataclass(frozen=True, slots=True)
class NodeHistory:
    """A node, or a device of it, beside the others that measured the same in the same night."""

    #: Host name of the node.
    node: str
    #: Which device of it (``gpu 3``); empty: what names no device, and all where it has one device only.
    device: str
    #: How many rows of the history name it.
    rows: int
    #: How many of these rows are not usable.
    failed: int
    #: Month (``2026-11``) → how many of these rows are of it.
    by_month: Counter[str]
    #: How good it is: the median over its series of the median over the nights; below 1 is worse, None where
    #: nothing can be compared.
    ratio: float | None
    #: How many series were compared.
    series: int
    #: The id in the page of the worst of these series, or of any where nothing can be compared.
    record: str = ""
    #: The worst series in words; empty where nothing can be compared.
    worst: str = ""
    #: Its rack or switch; empty if that is not known.
    place: str = ""

    @property
    def name(self) -> str:
        """The node, and its device where it is one."""
        return f"{self.node} {self.device}".strip()


class Nodes:
    """What rows tell of the nodes that they name."""

    def __init__(self, least: int = 2) -> None:
        """least: nodes or groups of nodes that must have measured a series for any to be compared."""
        self._least = least
        #: (hosts, device, month, whether it failed or is not to be believed) → rows
        self._rows: Counter[tuple[Hosts, str, str, bool]] = Counter()
        #: By series and hosts, a night each: how good they were beside the others of that night.
        self._ratios: defaultdict[tuple[Series, Hosts], list[float]] = defaultdict(list)
        self._any: dict[tuple[Hosts, str], Series] = {}

    @classmethod
    def of_run(cls, records: Iterable[Record], least: int = 2) -> Nodes:
        """Of the records of one run, which are of one night, or of a file with several nights."""
        by_night: defaultdict[tuple[Series, str], list[Record]] = defaultdict(list)
        for record in records:
            by_night[Series.of(record), record.run].append(record)
        nodes = cls(least)
        for (series, _), same in by_night.items():
            values: defaultdict[Hosts, list[float]] = defaultdict(list)
            for record in same:
                if record.hosts and record.ok and record.value is not None:
                    values[record.hosts].append(record.value)
            nodes.add(series, same, values)
        return nodes

    def add(
        self,
        series: Series,
        rows: Iterable[Record | HistoryRow],
        values: Mapping[Hosts, Sequence[float]],
    ) -> None:
        """A series in one night: its rows, and by hosts the samples that count."""
        for row in rows:
            bad = row.status != "ok" and not row.status.startswith("unavailable")
            device = _device(series, row.hosts)
            self._rows[row.hosts, device, row.time[:7], bad] += 1
            self._any.setdefault((row.hosts, device), series)
        for hosts, ratio in beside_others(series, values, self._least).items():
            self._ratios[series, hosts].append(ratio)

    def compared(self, lead: Lead = lambda series, hosts: ("", "")) -> Iterator[NodeHistory]:
        """Every node, and where it has several devices each of them behind it."""
        devices: defaultdict[str, set[str]] = defaultdict(set)
        for hosts, device in self._any:
            for host in set(hosts):
                devices[host].add(device)
        several = {host for host, of_host in devices.items() if len(of_host - {""}) > 1}

        def members(hosts: Hosts, device: str) -> Iterator[tuple[str, str]]:
            return ((host, device if host in several else "") for host in set(hosts))

        ratios: defaultdict[tuple[str, str], list[tuple[float, Series, Hosts]]] = defaultdict(list)
        for (series, hosts), of_nights in self._ratios.items():
            for member in members(hosts, _device(series, hosts)):
                ratios[member].append((median(of_nights), series, hosts))
        months: defaultdict[tuple[str, str], Counter[str]] = defaultdict(Counter)
        failed: Counter[tuple[str, str]] = Counter()
        for (hosts, device, month, bad), rows in self._rows.items():
            for member in members(hosts, device):
                months[member][month] += rows
                failed[member] += rows * bad
        known = {
            member: (series, hosts)
            for (hosts, device), series in reversed(self._any.items())
            for member in members(hosts, device)
        }
        for member in sorted(months, key=lambda member: (natural(member[0]), natural(member[1]))):
            own = ratios.get(member, [])
            ratio, worst = None, ""
            record, _ = lead(*known[member])
            if own:
                ratio = median(ratio for ratio, _, _ in own)
                lowest, series, hosts = min(own, key=itemgetter(0))
                record, name = lead(series, hosts)
                worst = f"worst: {name}, {lowest:.3g} of normal"
            total = months[member].total()
            yield NodeHistory(*member, total, failed[member], months[member], ratio, len(own), record, worst)


def _device(series: Series, hosts: Hosts) -> str:
    """The device that hosts measured; empty where it is that of no single node."""
    return series.device if len(set(hosts)) == 1 else ""


def by_node(members: Iterable[NodeHistory]) -> list[NodeHistory]:
    """One for each node: the worst of its devices and of what names none, with the rows of all of them.

    members: those of a node behind each other.
    """
    nodes = []
    for _, of_node in groupby(members, attrgetter("node")):
        own = list(of_node)
        worst = min(own, key=lambda member: (member.ratio is None, member.ratio))
        months = sum((member.by_month for member in own), Counter[str]())
        rows, failed = (sum(map(attrgetter(name), own)) for name in ("rows", "failed"))
        nodes.append(replace(worst, rows=rows, failed=failed, by_month=months))
    return nodes
