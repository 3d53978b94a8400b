"""The heat map of a pattern: server by client, each pair against the median of all.

The colours are ColorBrewer's RdBu, which people with any common colour blindness tell apart: white is
normal, red slow, blue fast. Grey is a pair that was not measured, a cross one that failed. A large
cluster is drawn by groups of nodes (its leaf switches, if the topology is known), with a strip that still
shows every node.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from npb.suspects import Localisation, PairResult
from npc.machine.fabric import Topology, in_order, neighbours
from npc.records.units import format_quantity

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Matrix = NDArray[np.float64]

#: More nodes than this are drawn as groups.
MAX_NODES: Final = 128
#: So many groups at most, where no topology names them.
MAX_GROUPS: Final = 64
#: Names fit beside the axes up to so many rows.
_MAX_NAMES: Final = 64
#: The colours span this share of the values, and these factors either way at least and at most: a few
#: very bad pairs must not make everything else look the same.
_IN_RANGE: Final = 0.99
_MAX_FACTOR: Final = 2.0
_MIN_FACTOR: Final = 1.1
_TICKS: Final = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 1.0, 1.05, 1.1, 1.2, 1.4, 1.6, 2.0)
_COLOURS: Final = "RdBu"
_MISSING: Final = "0.85"


def draw(
    results: Sequence[PairResult],
    found: Localisation,
    path: Path,
    *,
    title: str,
    unit: str,
    topology: Topology | None = None,
) -> None:
    """Draw all pairs as a PNG. `title` says pattern and metric, `unit` is the metric's.

    A pair measured several times shows the median of its values. Raises OSError if `path` cannot be
    written, ValueError if there are no results.
    """
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    if not results:
        raise ValueError("no pairs to draw")
    names = {result.a for result in results} | {result.b for result in results}
    hosts = in_order(names, topology)
    ratio, failed = _matrix(results, hosts, found)
    groups = neighbours(hosts, topology, MAX_GROUPS) if len(hosts) > MAX_NODES else None
    if groups is None:
        size = min(max(5.0, 0.14 * len(hosts) + 3.0), 13.0)
        figure, axes = pyplot.subplots(figsize=(size + 1.2, size), layout="constrained")
        image = _draw_pairs(axes, ratio, failed, hosts, found)
    else:
        figure, (axes, strip) = pyplot.subplots(
            2, 1, figsize=(10.5, 12.0), height_ratios=(4, 1), layout="constrained"
        )
        image = _draw_groups(axes, ratio, failed, hosts, groups, found)
        _draw_strip(strip, ratio, failed, hosts, found)
    ticks = [share for share in _TICKS if image.norm.vmin <= share <= image.norm.vmax]
    bar = figure.colorbar(image, ax=axes, extend="both", shrink=0.8, ticks=ticks, format="%g")
    bar.minorticks_off()
    bar.set_label("ratio to the median; red is slow, grey was not measured, × failed")
    typical = "" if found.typical is None else f", median {format_quantity(found.typical, unit)}"
    axes.set_title(f"{title}{typical}\n{_summary(found)}", fontsize=10, loc="left")
    figure.supxlabel(
        "\n".join(f"rule: {part}" for part in found.rule), fontsize=6, color="0.35", x=0.01, ha="left"
    )
    try:
        figure.savefig(path, dpi=130)
    finally:
        pyplot.close(figure)


def _matrix(
    results: Sequence[PairResult], hosts: Sequence[str], found: Localisation
) -> tuple[Matrix, Matrix]:
    """(ratio, failed) by server and client: the median value of each pair over the median of all; NaN
    where there is none; and whether a pair that has no value failed. What was measured one way round only
    stands on both sides of the diagonal."""
    import numpy as np

    number = {host: i for i, host in enumerate(hosts)}
    values: dict[tuple[int, int], list[float]] = {}
    failed = np.zeros((len(hosts), len(hosts)))
    for result in results:
        cell = number[result.a], number[result.b]
        if result.usable and result.value is not None:
            values.setdefault(cell, []).append(result.value)
        else:
            failed[cell] = 1
    ratio = np.full((len(hosts), len(hosts)), np.nan)
    for cell, some in values.items():
        ratio[cell] = float(np.median(some)) / (found.typical or 1.0)
    ratio = np.where(np.isnan(ratio), ratio.T, ratio)
    return ratio, np.where(np.isnan(ratio), np.maximum(failed, failed.T), 0)


def _norm(ratio: Matrix) -> Any:
    """Colours symmetrical about 1 on a logarithmic scale."""
    import numpy as np
    from matplotlib.colors import LogNorm

    known = ratio[np.isfinite(ratio)]
    factor = float(np.exp(np.quantile(np.abs(np.log(known)), _IN_RANGE))) if len(known) else 1.0
    factor = min(max(factor, _MIN_FACTOR), _MAX_FACTOR)
    return LogNorm(1 / factor, factor)


def _colours(better: str) -> Any:
    from matplotlib import colormaps

    colours = colormaps[_COLOURS if better == "higher" else f"{_COLOURS}_r"].copy()
    colours.set_bad(_MISSING)
    return colours


def _draw_pairs(axes: Any, ratio: Matrix, failed: Matrix, hosts: Sequence[str], found: Localisation) -> Any:
    import numpy as np

    image = axes.imshow(ratio, norm=_norm(ratio), cmap=_colours(found.better))
    rows, columns = np.nonzero(failed)
    axes.plot(columns, rows, "x", color="black", markersize=max(2.0, 180 / len(hosts) / 2), markeredgewidth=1)
    axes.set(xlabel="client (a pair measured one way round is shown both ways)", ylabel="server")
    blamed = {host for suspect in found.suspects for host in suspect.nodes}
    step = math.ceil(len(hosts) / _MAX_NAMES)
    ticks = [i for i, host in enumerate(hosts) if i % step == 0 or host in blamed]
    # A suspect's name pushes out the ordinary names beside it, not the other way round.
    ticks = [i for i in ticks if hosts[i] in blamed or not _crowded(i, hosts, blamed, step)]
    labels = [hosts[i] for i in ticks]
    size = 9.0 if len(hosts) <= 32 else 6.0
    axes.set_xticks(ticks, labels, rotation=90, fontsize=size)
    axes.set_yticks(ticks, labels, fontsize=size)
    for tick in (*axes.get_xticklabels(), *axes.get_yticklabels()):
        if tick.get_text() in blamed:
            tick.set(color="firebrick", fontweight="bold")
    for suspect in found.suspects:
        if suspect.kind == "link":
            first, second = (hosts.index(host) for host in suspect.nodes)
            axes.plot(
                [first, second],
                [second, first],
                "s",
                markersize=max(6.0, 400 / len(hosts) / 2),
                markerfacecolor="none",
                markeredgecolor="black",
                markeredgewidth=1.5,
            )
    return image


def _crowded(i: int, hosts: Sequence[str], blamed: set[str], step: int) -> bool:
    near = range(max(i - step + 1, 0), min(i + step, len(hosts)))
    return step > 1 and any(hosts[j] in blamed for j in near)


def _draw_groups(
    axes: Any,
    ratio: Matrix,
    failed: Matrix,
    hosts: Sequence[str],
    groups: Sequence[tuple[str, tuple[str, ...]]],
    found: Localisation,
) -> Any:
    import numpy as np

    number = {host: i for i, host in enumerate(hosts)}
    places = [[number[host] for host in members] for _, members in groups]
    blocks = np.full((len(groups), len(groups)), np.nan)
    lost = np.zeros_like(blocks)
    for row, servers in enumerate(places):
        band, band_failed = ratio[servers], failed[servers]
        for column, clients in enumerate(places):
            cell = band[:, clients]
            cell = cell[np.isfinite(cell)]
            if len(cell):
                blocks[row, column] = np.median(cell)
            elif band_failed[:, clients].any():
                lost[row, column] = 1
    image = axes.imshow(blocks, norm=_norm(blocks), cmap=_colours(found.better))
    rows, columns = np.nonzero(lost)
    axes.plot(columns, rows, "x", color="black", markersize=3)
    each = len(groups[0][1])
    axes.set(xlabel=f"client, median of each group (about {each} nodes)", ylabel="server")
    blamed = {host for suspect in found.suspects for host in suspect.nodes}
    step = math.ceil(len(groups) / _MAX_NAMES)
    ill = [not blamed.isdisjoint(members) for _, members in groups]
    ticks = [i for i in range(len(groups)) if i % step == 0 or ill[i]]
    ticks = [i for i in ticks if ill[i] or step == 1 or not any(ill[max(i - 1, 0) : i + 2])]
    axes.set_xticks(ticks, [groups[i][0] for i in ticks], rotation=90, fontsize=6)
    axes.set_yticks(ticks, [groups[i][0] for i in ticks], fontsize=6)
    for index, tick in zip(ticks * 2, [*axes.get_xticklabels(), *axes.get_yticklabels()], strict=True):
        if ill[index]:
            tick.set(color="firebrick", fontweight="bold")
    return image


def _draw_strip(axes: Any, ratio: Matrix, failed: Matrix, hosts: Sequence[str], found: Localisation) -> None:
    """Every node by itself: the median of its pairs."""
    import numpy as np

    medians = np.full(len(hosts), np.nan)
    for i in range(len(hosts)):
        own = np.concatenate([ratio[i], ratio[:, i]])
        own = own[np.isfinite(own)]
        if len(own):
            medians[i] = np.median(own)
    axes.plot(np.arange(len(hosts)), medians, ".", color="0.55", markersize=2, rasterized=True)
    blamed = {host: suspect for suspect in reversed(found.suspects) for host in suspect.nodes}
    ill = [i for i, host in enumerate(hosts) if host in blamed]
    axes.plot(ill, medians[ill], "o", color="firebrick", markersize=4)
    nodes = [i for i in ill if blamed[hosts[i]].kind == "node" and math.isfinite(medians[i])]
    for i in nodes[:12]:
        right = i < 0.9 * len(hosts)
        axes.annotate(
            hosts[i],
            (i, medians[i]),
            xytext=(4 if right else -4, 0),
            textcoords="offset points",
            fontsize=7,
            color="firebrick",
            va="center",
            ha="left" if right else "right",
        )
    dead = [i for i, host in enumerate(hosts) if not math.isfinite(medians[i])]
    axes.plot(
        dead, np.full(len(dead), np.nanmin(medians) if len(dead) < len(hosts) else 1.0), "x", color="black"
    )
    axes.axhline(1.0, color="black", linewidth=0.5)
    axes.set(
        xlim=(-1, len(hosts)),
        xlabel="node, in the order above",
        ylabel="median of its pairs\nover the median",
    )


def _summary(found: Localisation) -> str:
    if found.suspects:
        named = [
            f"{s.kind} {s.name} " + ("dead" if s.slowdown is None else f"{s.slowdown:.1%} slower")
            for s in found.suspects
        ]
        more = len(named) - 3
        return "to blame: " + ", ".join(named[:3]) + (f" and {more} more" if more > 0 else "")
    return "nobody is to blame" if found.healthy else "too few measurements to blame anybody"
