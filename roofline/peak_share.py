"""Which share of the theoretical peak applications reach, and how steadily.

As table 5 of Bartelheimer, Zhu, Neuwirth (2023). The share there is that of the mean over all measurements;
the median stands beside it, because a night or two on a bad node pull a mean down. The theoretical peak is
`npc.machine.platform.Platform.peak_flops` (their Eq. 6 and 7).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from npc.machine.platform import PRECISION_BITS, Platform
from npc.page.blocks import Column, Table, count, percent, quantity
from npc.records.units import between
from npc.roofline.applications import Application
from npc.statistics.medians import Summary


@dataclass(frozen=True, slots=True)
class PeakShare:
    """Which share of the theoretical peak an application reaches on all its nodes together."""

    #: The application with its runs.
    application: Application
    #: Mean FLOP/s over its runs.
    mean: float
    #: Theoretical peak of its nodes, in FLOP/s.
    peak: float
    #: `mean` as a share of `peak`.
    share: float
    #: Standard deviation of its nights, as a share of `mean`; None of one night.
    deviation: float | None
    #: Median with its interval over the nights, as shares of `peak`.
    median: Summary

    def as_json(self) -> dict[str, Any]:
        """Plain types for `json.dump`."""
        application = self.application
        return {
            "name": application.name,
            "label": application.label,
            "nodes": application.nodes,
            "ranks": application.ranks or None,
            "precision": application.precision,
            "nights": len(application.nights),
            "runs": len(application.runs),
            "mean": self.mean,
            "peak": self.peak,
            "share": self.share,
            "deviation": self.deviation,
            "median": self.median._asdict(),
        }


def peak_shares(applications: Iterable[Application], platform: Platform) -> list[PeakShare]:
    """The shares of the applications for whose precision the platform's file gives a peak."""
    shares = []
    for application in applications:
        a_node = next(
            (platform.peak_flops(name) for name in PRECISION_BITS if name == application.precision), None
        )
        if a_node is None:
            continue
        n, middle, low, high, coverage = application.flops
        low, high = (None if value is None else value / a_node for value in (low, high))
        shares.append(
            PeakShare(
                application=application,
                mean=application.mean * application.nodes,
                peak=a_node * application.nodes,
                share=application.mean / a_node,
                deviation=None if application.deviation is None else application.deviation / application.mean,
                median=Summary(n, middle / a_node, low, high, coverage),
            )
        )
    return shares


def peak_table(shares: Sequence[PeakShare]) -> Table:
    """Table 5 of the paper, with the number of nights and how much they differ."""
    columns: list[Column[PeakShare]] = [
        Column("application", lambda share: share.application.label),
        Column("nodes", lambda share: count(share.application.nodes)),
        Column("ranks", lambda share: count(share.application.ranks) if share.application.ranks else ""),
        Column("precision", lambda share: share.application.precision),
        Column("nights", lambda share: count(len(share.application.nights))),
        Column("mean", lambda share: quantity(share.mean, "FLOP/s")),
        Column("theoretical peak", lambda share: quantity(share.peak, "FLOP/s")),
        Column("of peak", lambda share: percent(share.share, 4)),
        Column("deviation", lambda share: percent(share.deviation, 2)),
        Column("median of peak", lambda share: percent(share.median.median, 4)),
        Column("95 % interval", lambda share: _interval(share.median)),
    ]
    return Table.of("Share of the theoretical peak", shares, columns)


def _interval(share: Summary) -> str:
    return between(share.low, share.high, lambda end: f"{100 * end:.4g}", "[{}, {}] %")
