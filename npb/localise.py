"""Who is to blame: from the measurements of pairs to a node, a link, an uplink, a switch or a rack.

A bad node is slow in every pair it is in, or in every one in which it is the client (or the server), so a
few random rounds show it; a bad uplink in every pair that crosses it (`npc.npb.slow_groups`); a bad link in
one pair only, again and again (`npc.npb.slow_links`). Slow is a small value, or a large one where
``better="lower"`` (latency). The thresholds are constants at the top of these modules; what is said of pairs
names them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import median
from typing import TYPE_CHECKING, Final

from npc.hostlist import host_text
from npc.machine.fabric import Topology
from npc.npb.pair_readings import PairReadings
from npc.npb.slow_groups import EXCEPTIONS, FALSE_AGAIN, FALSE_ALARM, FALSE_SHARE, MIN_SLOWDOWN, GroupSearch
from npc.npb.slow_links import FALSE_LINK, LINK_READINGS, LINK_SIGMAS, LINK_SLOWDOWN, link_search
from npc.npb.unreachable import FALSE_DEAD, unreachable
from npc.records.pair_verdicts import Better, Localisation, PairResult
from npc.records.units import plural, several
from npc.statistics.localiser import MAX_SHARE, MIN_READINGS
from npc.statistics.mixture import FEW_READINGS

if TYPE_CHECKING:
    from npc.catalogue.row import Sender

_RULE: Final = (
    f"the first suspect: such evidence in less than {FALSE_ALARM:.1%} of healthy runs, all nodes and "
    f"switches together; further ones: at most {FALSE_SHARE:.0%} of the names wrong; {FALSE_AGAIN:.1%} for "
    "both once the worst pairs were measured again",
    f"slower than the rest by at least {MIN_SLOWDOWN:.1%} (in one role only {2 * MIN_SLOWDOWN:.0%}), "
    f"in at least {MIN_READINGS} measurements; "
    f"among fewer than {FEW_READINGS} in all, with one exception in {EXCEPTIONS} at most",
    f"a link: in every one of at least {LINK_READINGS} measurements slower by {LINK_SIGMAS:g} σ and "
    f"{LINK_SLOWDOWN:.0%}, by chance in less than {FALSE_LINK:.1%} of runs",
    f"dead: fails as often by accident in less than {FALSE_DEAD:.0%} of runs",
)


def localise_pairs(
    results: Sequence[PairResult],
    *,
    better: Better = "higher",
    topology: Topology | None = None,
    nodes: Iterable[str] = (),
    sender: Sender = "",
) -> Localisation:
    """What all measurements of one pattern say, repeated ones among them.

    All values must be of one metric and one message size. `nodes` names those that were never measured
    too; `sender` is who sends the bytes, where one of both does. Measurements made again (`worst_pairs`)
    stand beside the first ones and count the same: a disturbance that has passed is outvoted, a lasting fault
    is confirmed.
    """
    readings = PairReadings(results, better, nodes, sender)
    unanswered = unreachable(results, readings.failures)
    search = GroupSearch(readings, topology)
    groups = search.suspects()
    links = link_search(readings, search)
    slow_links, undecided_links = links.suspects() if links else ([], [])
    suspects = (*unanswered.suspects, *groups, *slow_links)
    undecided = [*search.undecided, *undecided_links]
    if unanswered.unexplained:
        failed = [f"{result.a}–{result.b} ({result.status})" for result in unanswered.unexplained]
        undecided.append(
            f"{plural(len(failed), 'pair')} failed too seldom to blame anybody: {several(failed, 3)}"
        )
    judged, unjudged = _judged(readings, {suspect.name for suspect in unanswered.suspects})
    blamed = {name for suspect in suspects for name in suspect.nodes}
    values = [result.value for result in readings.results if result.value is not None]
    return Localisation(
        better=better,
        nodes=len(readings.names),
        judged=judged,
        measurements=len(results),
        failed=len(readings.failures),
        typical=median(values) if values else None,
        noise=search.noise.sigma if search.noise else None,
        disturbed=search.noise.outliers if search.noise else None,
        healthy=not suspects and judged > 0,
        suspects=suspects,
        undecided=(*undecided, *unjudged),
        rule=_RULE,
        slow_nodes=tuple(search.slow_as_its_fleet(blamed)),
    )


def _judged(readings: PairReadings, dead: set[str]) -> tuple[int, list[str]]:
    """Number of nodes with enough readings for a verdict, and sentences about the others.

    dead: names of nodes that do not answer, of which that is known.
    """
    most = min(MAX_SHARE * readings.count, readings.count - MIN_READINGS)
    count = dict(zip(readings.names, readings.count_by_node.tolist(), strict=True))
    few = [name for name, own in count.items() if own < MIN_READINGS and name not in dead]
    in_most = [name for name, own in count.items() if own >= MIN_READINGS and own > most]
    undecided = []
    if few:
        # of so few nodes all pairs are no more measurements than that
        enough = (
            "more rounds, or --pairs all" if len(readings.names) > MIN_READINGS else "it takes more nodes"
        )
        undecided.append(
            f"{plural(len(few), 'node')} with fewer than {MIN_READINGS} good measurements cannot be "
            f"judged ({enough}): {host_text(few)}"
        )
    if in_most:
        undecided.append(f"in most pairs, so that there is no rest to compare with: {host_text(in_most)}")
    return len(readings.names) - len(few) - len(in_most), undecided
