"""How each node compares with the others: by the same tests, on all nodes that measured them."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from operator import itemgetter
from statistics import median

from npc.figures.pairs import relative
from npc.machine.fabric import natural
from npc.records.series import Series
from npc.records.units import METRICS

Hosts = tuple[str, ...]
#: Gives the id in the page, and the name, of what some hosts measured of a series.
Lead = Callable[[Series, Hosts], tuple[str, str]]


@dataclass(frozen=True, slots=True)
class NodeHistory:
    """A node: how many rows name it (by month, too), how many of them are not usable, and the median of the
    ratios of its own medians to everybody's, over `series` series that others measured as well; below 1 is
    worse.

    record: the id of the worst of these series in the page, or of any where nothing can be compared. worst:
    that one in words. place: its rack or switch, if that is known.
    """

    name: str
    rows: int
    failed: int
    by_month: Counter[str]
    ratio: float | None
    series: int
    record: str = ""
    worst: str = ""
    place: str = ""


class Nodes:
    """What rows tell of the nodes that they name."""

    def __init__(self) -> None:
        #: (hosts, month, whether it failed or is not to be believed) → rows
        self._rows: Counter[tuple[Hosts, str, bool]] = Counter()
        self._values: defaultdict[Series, defaultdict[Hosts, list[float]]]
        self._values = defaultdict(lambda: defaultdict(list))
        self._any: dict[Hosts, Series] = {}

    def add(self, series: Series, hosts: Hosts, time: str, status: str, value: float | None) -> None:
        """A row."""
        self._rows[hosts, time[:7], status != "ok" and not status.startswith("unavailable")] += 1
        self._any.setdefault(hosts, series)
        if hosts and status == "ok" and value is not None:
            self._values[series][hosts].append(value)

    def compared(self, lead: Lead = lambda series, hosts: ("", ""), least: int = 2) -> Iterator[NodeHistory]:
        """Every node, by its series that at least `least` nodes or groups of nodes have."""
        ratios = self._ratios(least)
        months: defaultdict[str, Counter[str]] = defaultdict(Counter)
        failed: Counter[str] = Counter()
        for (hosts, month, bad), rows in self._rows.items():
            for host in set(hosts):
                months[host][month] += rows
                failed[host] += rows * bad
        known = {host: (series, hosts) for hosts, series in reversed(self._any.items()) for host in hosts}
        for host in sorted(months, key=natural):
            own = ratios.get(host, [])
            ratio, worst = None, ""
            record, _ = lead(*known[host])
            if own:
                ratio = median(ratio for ratio, _, _ in own)
                lowest, series, hosts = min(own, key=itemgetter(0))
                record, name = lead(series, hosts)
                worst = f"worst: {name}, {lowest:.3g} of normal"
            rows = months[host].total()
            yield NodeHistory(host, rows, failed[host], months[host], ratio, len(own), record, worst)

    def _ratios(self, least: int) -> dict[str, list[tuple[float, Series, Hosts]]]:
        """Host → its medians against the median of everybody's, as far as others measured that as well."""
        found: defaultdict[str, list[tuple[float, Series, Hosts]]] = defaultdict(list)
        for series, by_hosts in self._values.items():
            better = METRICS[series.metric].better
            if better == "neither" or len(by_hosts) < least or "statistic" in series.by_name:
                continue
            medians = {hosts: float(median(values)) for hosts, values in by_hosts.items()}
            normal = median(medians.values())
            for hosts, value in medians.items():
                for host in set(hosts):
                    found[host].append((relative(value, normal, better), series, hosts))
        return found
