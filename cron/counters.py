"""Counters of a night: those of errors that rise faster than they do on sound hardware, although bandwidth
may not show it yet; and what counters say of a suspect.

Two sources: by how much counters rose during the night's launches (``launches.jsonl``), and where they stood
when a job of the night looked (``environment.json``) against the night that looked at the same node before,
which ``counters.json`` in the history's folder remembers. Losses and congestion depend on who sends what:
they are evidence about records and suspects only.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from npc.cron.verdict import NightVerdict
from npc.files import read_json, write_whole
from npc.machine.counters import meaning, rise
from npc.machine.fabric import natural, short_name
from npc.machine.facts import read_environments
from npc.machine.interfaces import with_lanes
from npc.machine.pcie import narrow
from npc.records.history import History
from npc.records.launch import ENVIRONMENT, LAUNCHES, read_launches
from npc.records.record import moment, read_hosts, read_params
from npc.records.series import MOVED
from npc.records.units import format_duration
from npc.statistics.distributions import events_at_least
from npc.validity.moved import MOST_NAMED, DuringLaunch, evidence, of_mark

#: In the history's folder: by node ``night``, ``time``, ``counters``.
STANDS: Final = "counters.json"
#: Bits that may be wrong: of InfiniBand (NVIDIA, ibdiagnet manual, "Bit Error Rate"), Ethernet (IEEE 802.3,
#: clauses 49 and 82) and a lane of PCI Express (Base Specification, chapter 4).
BIT_ERROR_RATE: Final = 1e-12
#: What does not rise on a sound machine, whoever sends how much.
_REPORTED: Final = ("down", "error")
#: Counters of what many wrong bits did, not of bits.
_OF_LINKS: Final = ("link_error_recovery", "local_link_integrity_errors")
#: Of other errors, and where no rate of a link is known, a day at most: mcelog.conf(5), corrected errors of a
#: memory module, ``ce-error-threshold = 10 / 24h``.
A_DAY: Final = 10.0
#: Uncorrected errors, machine checks and links that were down: ``uc-error-threshold = 1 / 24h`` there.
GRAVE_A_DAY: Final = 1.0
#: Chance of a line about a counter that rises just as fast as it may.
FALSE_LINE: Final = 1e-4
#: Lines, at most.
MOST: Final = 10
#: Nights whose launches are evidence about a suspect.
NIGHTS: Final = 3
_DAY_S: Final = 86400.0

#: By node its last ``environment.json`` of a night.
Stands = Mapping[str, Mapping[str, Any]]


class NodeCounterIncrease(NamedTuple):
    """By how much a node's counter rose, and by how much it may."""

    #: Name of the node that has the counter.
    node: str
    #: Of the counter, behind what it belongs to: ``mlx5_0/1 symbol_error``.
    name: str
    #: How many more events it counts now.
    by: int
    #: In which time, in s.
    seconds: float
    #: By how much a sound machine's rises at most in that time.
    allowed: float
    #: Where `allowed` is from, in words.
    limit: str
    #: Which time it was, in words.
    when: str

    @property
    def chance(self) -> float:
        """That a sound one rises by as much."""
        return events_at_least(self.by, self.allowed)

    def __str__(self) -> str:
        return (
            f"{self.node}: {self.name} rose by {self.by} in {format_duration(self.seconds)} {self.when}, "
            f"{self.allowed:.2g} at most are sound ({self.limit})"
        )


def rising(night: Path, history: Path, name: str) -> list[str]:
    """A line for each counter of a node that rose faster in the night `name` than it may, the worst first;
    where the counters stand is remembered in `history`. night: the folder of its raw runs. Raises OSError."""
    stands = _stands(night)
    increases = [*_during_launches(night, stands), *_since(stands, _remembered(history))]
    worst: dict[tuple[str, str], NodeCounterIncrease] = {}
    for increase in sorted(increases, key=lambda rose: (rose.chance, rose.allowed / rose.by)):
        if increase.chance < FALSE_LINE:
            worst.setdefault((increase.node, increase.name), increase)
    _remember(history, name, stands)
    lines = [str(increase) for increase in worst.values()]
    return lines[:MOST] + ([f"and {len(lines) - MOST} more counters that rise"] if lines[MOST:] else [])


def with_counters(night: NightVerdict, history: History) -> NightVerdict:
    """The verdict with what counters say of whom it suspects, by the marks of the last nights' records."""
    of_night: dict[str, list[DuringLaunch]] = {}
    suspects = []
    for suspect in night.suspects:
        runs = suspect.runs[-NIGHTS:]
        for run in runs:
            if run not in of_night:
                of_night[run] = _launches_of(history, run)
        words = evidence(
            suspect.nodes, (launch for run in runs for launch in of_night[run]), link=suspect.kind == "link"
        )
        text = f"{suspect.evidence}; meanwhile {words}" if words else suspect.evidence
        suspects.append(dataclasses.replace(suspect, evidence=text))
    return dataclasses.replace(night, suspects=tuple(suspects))


def with_links(verdict: NightVerdict, night: Path) -> NightVerdict:
    """The verdict with those links of the suspects that run below what they could, by the raw runs."""
    stands = _stands(night)
    suspects = []
    for suspect in verdict.suspects:
        below_them = [
            f"{node}: {words}"
            for node in suspect.nodes
            for words in _below(stands.get(node) or stands.get(short_name(node)) or {})
        ]
        text = "; ".join([suspect.evidence, *below_them[:MOST_NAMED]])
        suspects.append(dataclasses.replace(suspect, evidence=text))
    return dataclasses.replace(verdict, suspects=tuple(suspects))


def _below(environment: Mapping[str, Any]) -> Iterator[str]:
    with contextlib.suppress(KeyError, TypeError):  # of another version
        yield from with_lanes(environment.get("rdma") or (), 1)
        yield from narrow(environment.get("pcie") or ())


def _launches_of(history: History, run: str) -> list[DuringLaunch]:
    """Each launch of a night once: its records have the same mark."""
    marks: dict[tuple[str, str, str], str] = {}
    for raw, time, hosts, params in history.cells(run, ("raw", "time", "hosts", "params")):
        if hosts:
            mark = read_params(params).get(MOVED, "") if MOVED in params else ""
            marks[raw, time, hosts] = max(marks.get((raw, time, hosts), ""), mark, key=len)
    return [DuringLaunch(read_hosts(hosts), of_mark(mark)) for (_, _, hosts), mark in marks.items()]


def _stands(night: Path) -> Stands:
    environments = read_environments(night.rglob(f"work/{ENVIRONMENT}"))
    return {
        node: environment
        for node, environment in environments.items()
        if isinstance(environment.get("counters"), dict) and isinstance(environment.get("time"), str)
    }


def _during_launches(night: Path, stands: Stands) -> Iterator[NodeCounterIncrease]:
    """What rose during all launches of the night together, by node."""
    rose: defaultdict[tuple[str, str], int] = defaultdict(int)
    seconds: defaultdict[str, float] = defaultdict(float)
    for file in night.rglob(LAUNCHES):
        with contextlib.suppress(OSError, ValueError):
            for launch in read_launches(file.parent).launches:
                for node, counters in (launch.moved or {}).items():
                    seconds[node] += launch.seconds
                    for name, by in counters.items():
                        rose[node, name] += by
    for (node, name), by in rose.items():
        environment = stands.get(node) or next(iter(stands.values()), {})  # of one make, most likely
        yield from _rose(node, name, by, seconds[node], environment, "of launches")


def _since(stands: Stands, before: Mapping[str, Any]) -> Iterator[NodeCounterIncrease]:
    """What rose since an earlier night looked at the same node."""
    for node, environment in stands.items():
        with contextlib.suppress(KeyError, TypeError, ValueError):
            earlier = before[node]
            past = moment(environment["time"]) - moment(earlier["time"])
            now = environment["counters"]  # those that are not 0
            for name, by in rise({**dict.fromkeys(now, 0), **earlier["counters"]}, now).items():
                when = f"since night {earlier['night']}"
                yield from _rose(node, name, by, past.total_seconds(), environment, when)


def _rose(
    node: str, name: str, by: int, seconds: float, environment: Mapping[str, Any], when: str
) -> Iterator[NodeCounterIncrease]:
    """The counter with its limit, if it has one."""
    means, (owner, _, own) = meaning(name), name.partition(" ")
    if means not in _REPORTED or seconds <= 0:
        return
    rate = link_rate(owner, environment) if means == "error" and own not in _OF_LINKS else None
    a_day = GRAVE_A_DAY if means == "down" else A_DAY
    if rate:
        limit = f"bit error rate {BIT_ERROR_RATE:g} at {rate / 1e9:g} Gbit/s"
        yield NodeCounterIncrease(node, name, by, seconds, BIT_ERROR_RATE * rate * seconds, limit, when)
    else:
        yield NodeCounterIncrease(node, name, by, seconds, a_day * seconds / _DAY_S, f"{a_day:g} a day", when)


def link_rate(owner: str, environment: Mapping[str, Any]) -> float | None:
    """Bits a second of the link that a counter's owner is: a port, an interface, or a device on PCI Express;
    None where the node's ``environment.json`` does not tell."""
    for port in environment.get("rdma") or ():
        if owner == f"{port['device']}/{port['port']}":
            return port["rate_bit_s"] or None
    for interface in environment.get("interfaces") or ():
        if owner == interface["name"]:
            return interface["speed_bit_s"] or None
    for link in environment.get("pcie") or ():
        if owner == link["name"] and link["transfers_s"]:
            return float(link["transfers_s"] * link["width"])
    return None


def _remembered(history: Path) -> Mapping[str, Any]:
    document = read_json(history / STANDS)
    return document if isinstance(document, dict) else {}


def _remember(history: Path, night: str, stands: Stands) -> None:
    if stands:
        new = {
            node: {
                "night": night,
                "time": environment["time"],
                "counters": {
                    name: value
                    for name, value in environment["counters"].items()
                    if meaning(name) in _REPORTED
                },
            }
            for node, environment in stands.items()
        }
        every = {**_remembered(history), **new}
        ordered = {node: every[node] for node in sorted(every, key=natural)}
        write_whole(history / STANDS, json.dumps(ordered, indent=1, ensure_ascii=False) + "\n")
