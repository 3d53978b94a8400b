"""The heat map of a pattern: server by client, each pair against the median of all.

A large cluster is drawn by groups of nodes (its leaf switches, if the topology is known), with a strip that
still shows every node.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Final

from npc.figures.axes import Axis, Tick, linear_ticks, quantity_axis
from npc.figures.chart import Chart, Mark, Note, Trace
from npc.figures.pairs import Pair, Pairs
from npc.figures.scale import ratio_scale
from npc.machine.fabric import Topology
from npc.records.pair_verdicts import Localisation, PairResult
from npc.records.units import format_quantity

#: More nodes than this are drawn as groups.
MAX_NODES: Final = 128
#: Nodes that are named in the strip.
_MOST_NAMED: Final = 12
#: The side of all pairs, and of one at least and at most, in hundredths of an inch.
_SIDE: Final = 600.0
_LEAST_CELL: Final = 24.0
_MOST_CELL: Final = 120.0


def draw(
    results: Sequence[PairResult],
    localisation: Localisation,
    path: Path,
    *,
    title: str,
    unit: str,
    topology: Topology | None = None,
    source: str = "",
) -> None:
    """Draw all pairs as a PNG. `title` says pattern and metric, `unit` is the metric's, `source` whose they
    are, and of when.

    A pair measured several times shows the median of its values. Raises OSError if `path` cannot be
    written, ValueError if there are no results.
    """
    from npc.figures.printed_grids import save_grids

    if not results:
        raise ValueError("no pairs to draw")
    values: dict[Pair, list[float]] = {}
    for result in results:
        of_pair = values.setdefault((result.a, result.b), [])
        if result.usable and result.value is not None:
            of_pair.append(result.value)
    pairs = Pairs(values, unit, localisation.better, localisation.typical or 1.0, topology, MAX_NODES)
    named = [
        f"{s.whom} " + ("dead" if s.slowdown is None else f"{s.slowdown:.1%} slower")
        for s in localisation.suspects
    ]
    typical = (
        "" if localisation.typical is None else f", median {format_quantity(localisation.typical, unit)}"
    )
    grid = pairs.grid(
        "pairs",
        f"{title}{typical}",
        "",
        blamed={host for suspect in localisation.suspects for host in suspect.nodes},
        links=[suspect.nodes for suspect in localisation.suspects if suspect.kind == "link"],
    )
    nodes = len(pairs.groups[0][1])
    columns = f"client (median of each group, about {nodes} nodes)" if nodes > 1 else "client"
    scale = ratio_scale((cell.value for cell in grid.cells if cell.value is not None), finest=1)
    side = min(max(_SIDE / len(grid.rows), _LEAST_CELL), _MOST_CELL)
    save_grids(
        [replace(grid, column_title=columns, scale=scale, side=side)],
        path,
        subtitle=localisation.conclusion(named, 3),
        source=source,
        below=_strip(pairs, localisation) if len(pairs.hosts) > MAX_NODES else None,
    )


def _strip(pairs: Pairs, localisation: Localisation) -> Chart:
    """Every node by itself: the median of its pairs."""
    own: defaultdict[str, list[float]] = defaultdict(list)
    for pair, ratio in pairs.ratios.items():
        for host in pair:
            own[host] += [] if ratio is None else [ratio]
    medians = [median(own[host]) if own[host] else None for host in pairs.hosts]
    known = [middle for middle in medians if middle is not None]
    y = quantity_axis("median of its pairs\nover the median", known or [1.0], "1", log=False)
    ticks = tuple(Tick(at, f"{at:g}") for at in linear_ticks(0, len(pairs.hosts)))
    x = Axis("node, in the order above", -1.0, float(len(pairs.hosts)), False, ticks)
    kinds = {host: suspect.kind for suspect in reversed(localisation.suspects) for host in suspect.nodes}
    places = list(zip(range(len(medians)), pairs.hosts, medians, strict=True))
    ill = [(at, host, middle) for at, host, middle in places if host in kinds and middle is not None]
    named = [(at, host, middle) for at, host, middle in ill if kinds[host] == "node"][:_MOST_NAMED]
    dead = [at for at, _, middle in places if middle is None]
    traces = (
        Trace("normal", "ink", lines=(((x.low, 1.0), (x.high, 1.0)),), width=0.5),
        Trace(
            "nodes", "grey", marks=tuple(Mark(at, m) for at, _, m in places if m is not None),
            small=True, faint=True,
        ),
        Trace(
            "to blame", "bad", marks=tuple(Mark(at, middle) for at, _, middle in ill), small=True,
            notes=tuple(Note(at, middle, host, above=True) for at, host, middle in named),
        ),
        Trace("dead", "ink", marks=tuple(Mark(at, min(known, default=1.0)) for at in dead), shape=4),
    )  # fmt: skip
    return Chart("strip", "Every node by itself", "The median of each node's pairs.", x, y, traces)
