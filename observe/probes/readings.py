"""What probes counted on each node, as readings."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, Final

from npc.observe.probes.records import PROBES, Events, NodeProbe, NodeRow, Probes
from npc.records.observed import part_of
from npc.records.reading import OK, Reading
from npc.records.series import OBSERVED

#: Names that a probe has records of on a node, those with most time or events.
_MOST_NAMES: Final = 16
#: A probe that was attached for more of the run was attached for all of it.
_WHOLE: Final = 0.995


def readings(document: dict[str, Any]) -> Iterator[Reading]:
    """Of an observation with probes. Raises ValueError where these are not whole."""
    probes = part_of(document, PROBES, Probes)
    for probe in probes.nodes if probes else ():
        yield from _probed(probe, str(document["ranks"]))


def _probed(probe: NodeProbe, ranks: str) -> Iterator[Reading]:
    """Events, bytes and seconds of a node's ranks by name, as their mean and of the rank with most; of what
    is no rank's, all together; or why there are none. Seconds are without what watching adds to each."""
    params = {"layer": "probe", "part": probe.probe, "node": probe.host, "ranks": ranks}
    if probe.status == "unavailable":
        yield Reading(OBSERVED, "events", None, None, f"unavailable: {probe.reason}", params)
        return
    by_name: dict[tuple[bool, str], list[NodeRow]] = {}
    for row in probe.rows:
        by_name.setdefault((row.rank < 0, row.name), []).append(NodeRow(probe, row))
    share = {} if probe.share > _WHOLE else {"attached": f"{probe.share:.2g}"}
    members = len({row.rank for row in probe.rows if row.rank >= 0})
    heaviest = sorted(by_name.items(), key=lambda entry: Events.of(entry[1]).weight, reverse=True)
    for (of_node, name), rows in heaviest[:_MOST_NAMES]:
        named = params | share | {"kind": name}
        amounts = {
            "events": [float(node_row.row.events) for node_row in rows],
            "traffic": [float(node_row.row.bytes) for node_row in rows if node_row.row.bytes],
            "time": [node_row.seconds for node_row in rows if node_row.row.timed],
        }
        for metric, values in amounts.items():
            if values and of_node:
                yield Reading(OBSERVED, metric, math.fsum(values), None, OK, named | {"side": "node"})
            elif values:
                mean = math.fsum(values) / members
                yield Reading(OBSERVED, metric, mean, None, OK, named | {"statistic": "mean"})
                yield Reading(OBSERVED, metric, max(values), None, OK, named | {"statistic": "max"})
