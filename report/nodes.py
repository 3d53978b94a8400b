"""How each node compares with the others: by the same tests, on all nodes that were measured with it."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
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
    """A node beside the others that measured the same in the same night."""

    #: Host name of the node.
    name: str
    #: How many rows of the history name the node.
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


class Nodes:
    """What rows tell of the nodes that they name."""

    def __init__(self, least: int = 2) -> None:
        """least: nodes or groups of nodes that must have measured a series for any to be compared."""
        self._least = least
        #: (hosts, month, whether it failed or is not to be believed) → rows
        self._rows: Counter[tuple[Hosts, str, bool]] = Counter()
        #: By series and hosts, a night each: how good they were beside the others of that night.
        self._ratios: defaultdict[tuple[Series, Hosts], list[float]] = defaultdict(list)
        self._any: dict[Hosts, Series] = {}

    @classmethod
    def of_run(cls, records: Iterable[Record], least: int = 2) -> Nodes:
        """Of the records of one run: all are of one night."""
        by_series: defaultdict[Series, list[Record]] = defaultdict(list)
        for record in records:
            by_series[Series.of(record)].append(record)
        nodes = cls(least)
        for series, same in by_series.items():
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
            self._rows[row.hosts, row.time[:7], bad] += 1
            self._any.setdefault(row.hosts, series)
        for hosts, ratio in beside_others(series, values, self._least).items():
            self._ratios[series, hosts].append(ratio)

    def compared(self, lead: Lead = lambda series, hosts: ("", "")) -> Iterator[NodeHistory]:
        """Every node."""
        of_host: defaultdict[str, list[tuple[float, Series, Hosts]]] = defaultdict(list)
        for (series, hosts), ratios in self._ratios.items():
            for host in set(hosts):
                of_host[host].append((median(ratios), series, hosts))
        months: defaultdict[str, Counter[str]] = defaultdict(Counter)
        failed: Counter[str] = Counter()
        for (hosts, month, bad), rows in self._rows.items():
            for host in set(hosts):
                months[host][month] += rows
                failed[host] += rows * bad
        known = {host: (series, hosts) for hosts, series in reversed(self._any.items()) for host in hosts}
        for host in sorted(months, key=natural):
            own = of_host.get(host, [])
            ratio, worst = None, ""
            record, _ = lead(*known[host])
            if own:
                ratio = median(ratio for ratio, _, _ in own)
                lowest, series, hosts = min(own, key=itemgetter(0))
                record, name = lead(series, hosts)
                worst = f"worst: {name}, {lowest:.3g} of normal"
            rows = months[host].total()
            yield NodeHistory(host, rows, failed[host], months[host], ratio, len(own), record, worst)
