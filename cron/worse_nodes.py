"""Nodes that became worse than they were, and nodes unlike their fleet, by what each measures alone."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final, NamedTuple, cast

import numpy as np

from npc.cron.fleet_nights import FleetNights, MemberNights
from npc.cron.series import Panel
from npc.machine.fabric import Topology, group_members, natural
from npc.records.units import plural
from npc.records.verdicts import NightSuspect, NodeFinding
from npc.statistics.distributions import upper_tail
from npc.statistics.fleet import FleetNight
from npc.statistics.localiser import Effect
from npc.statistics.suspect import Kind

#: A switch or rack is to blame where this share of its nodes is worse, two at least; everything is where this
#: share of all nodes is.
MOST_OF_GROUP: Final = 2 / 3
MOST_OF_ALL: Final = 1 / 2


class _Worse(NamedTuple):
    """A member that became worse in one case."""

    #: The number of the case.
    case: int
    #: The number of the member.
    member: int
    #: By how much, since when and how surely.
    night: FleetNight

    @property
    def effect(self) -> Effect:
        at = self.case, self.member
        return Effect(float(self.night.step[at]), float(self.night.error[at]), self.score, np.inf)

    @property
    def score(self) -> float:
        return float(self.night.score[self.case, self.member])

    @property
    def since(self) -> int:
        return int(self.night.since[self.case, self.member])


def worse_nodes(panel: Panel, fleet: FleetNights, topology: Topology | None = None) -> list[NightSuspect]:
    """Suspects: nodes, or devices of them, and switches and racks of which most nodes became worse."""
    night, members = fleet.alone.known, fleet.alone.members
    if night is None or not night.worse.any():
        return []
    by_host: dict[str, list[_Worse]] = defaultdict(list)
    for case, member in np.argwhere(night.worse).tolist():
        by_host[members[member].host].append(_Worse(case, member, night))
    suspects = {host: _node(panel, fleet, host, worse) for host, worse in by_host.items()}
    hosts = sorted({member.host for member in members}, key=natural)
    if len(suspects) > MOST_OF_ALL * len(hosts):
        rival = "everything"
        return [replace(suspect, named=False, rivals=(rival,)) for suspect in suspects.values()]
    groups = []
    for kind, name, below in _groups(topology, hosts, suspects):
        of_group = [suspects.pop(host) for host in below if host in suspects]
        if of_group:
            groups.append(_group(kind, name, below, of_group))
    return [*groups, *suspects.values()]


def _groups(
    topology: Topology | None, hosts: Sequence[str], worse: Iterable[str]
) -> Iterable[tuple[Kind, str, list[str]]]:
    """Switches and racks most of whose nodes are worse, the largest first."""
    bad = np.isin(hosts, list(worse))
    for group, below in sorted(group_members(topology, hosts), key=lambda members: -int(members.below.sum())):
        least = max(2, MOST_OF_GROUP * int(below.sum()))
        if group.kind in ("switch", "rack") and not below.all() and int(bad[below].sum()) >= least:
            yield cast(Kind, group.kind), group.name, np.array(hosts)[below].tolist()


def _group(kind: Kind, name: str, below: list[str], members: list[NightSuspect]) -> NightSuspect:
    worst = max(members, key=lambda suspect: suspect.score)
    slowdowns = [suspect.slowdown or 0.0 for suspect in members]
    return replace(
        worst,
        kind=kind,
        name=name,
        nodes=tuple(below),
        device="",
        benchmarks=tuple(dict.fromkeys(case for suspect in members for case in suspect.benchmarks)),
        since=min(suspect.since for suspect in members),
        slowdown=float(np.median(slowdowns)),
        low=min(suspect.low or 0.0 for suspect in members),
        high=max(suspect.high or 0.0 for suspect in members),
        evidence=f"{len(members)} of its {plural(len(below), 'node')} became worse; {worst.evidence}",
    )


def _node(panel: Panel, fleet: FleetNights, host: str, worse: Sequence[_Worse]) -> NightSuspect:
    """One node of all that is worse of it."""
    main = max(worse, key=lambda one: one.score)
    night, at = main.night, (main.case, main.member)
    slowdown, low, high = main.effect.slowdowns()
    members, cases = fleet.alone.members, fleet.alone.cases
    devices = list(dict.fromkeys(members[one.member].device for one in worse))
    own = [member.device for member in members if member.host == host and member.device]
    one_device = len(devices) == 1 and len(own) > 1
    nights, is_disturbed = fleet.nights_of(*at)
    later = nights >= main.since
    runs = tuple(panel.runs[t] for t in nights[later].tolist())
    text = (
        f"{cases[main.case]}: worse for {plural(len(runs), 'night')} than in the "
        f"{plural(int((~later).sum()), 'night')} before, {main.score:.1f} σ; nodes of this fleet differ by "
        f"{night.spread[main.case]:.1%}"
    )
    if disturbed := int(is_disturbed[later].sum()):
        text += f"; others used the CPUs in {disturbed} of them"
    tested = len(fleet.cases) * len(members)
    return NightSuspect(
        kind="node",
        name=host,
        nodes=(host,),
        device=devices[0] if one_device else "",
        benchmarks=tuple(dict.fromkeys(cases[one.case] for one in worse)),
        since=panel.runs[min(one.since for one in worse)],
        evidence=text,
        chance=min(upper_tail(main.score) * tested, 1.0),
        score=main.score,
        grave=True,
        named=True,
        slowdown=slowdown,
        low=low,
        high=high,
        runs=runs,
    )


def unlike_nodes(panel: Panel, fleet: FleetNights) -> tuple[NodeFinding, ...]:
    """Nodes, or devices, that are unlike their fleet since they are known, the furthest first.

    Of each the case in which it is furthest.
    """
    findings: dict[str, NodeFinding] = {}
    for members in (fleet.alone, fleet.together):
        if members.known is None:
            continue
        for case, member in np.argwhere(members.known.unlike).tolist():
            finding = _finding(panel, members, members.known, case, member)
            before = findings.get(finding.name)
            if before is None or finding.slowdown > before.slowdown:
                findings[finding.name] = finding
    return tuple(sorted(findings.values(), key=lambda finding: -finding.slowdown))


def _finding(panel: Panel, members: MemberNights, night: FleetNight, case: int, member: int) -> NodeFinding:
    """case, member: numbers in `members`. night: what is known of them."""
    levels = night.level[case]
    first = int(members.unlike_since[case, member])
    return NodeFinding(
        node=members.members[member].host,
        device=members.members[member].device,
        case=members.cases[case],
        slowdown=float(-np.expm1(levels[member])),
        spread=float(night.spread[case]),
        rank=int((levels <= levels[member]).sum()),
        members=int((~np.isnan(levels)).sum()),
        since=panel.runs[first],
        new=first == len(panel.runs) - 1,
    )
