"""How series vary from night to night, as a table for a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Final

from npc.columns import columns
from npc.cron.series import label
from npc.cron.variation import Variation
from npc.page.blocks import Column, Table
from npc.records.units import METRICS, between, format_quantity

#: Whether a series varies in time; None where neither test can be made.
_IN_TIME: Final = {True: "varies", False: "steady", None: "-"}


def variation_table(variations: Iterable[Variation]) -> list[str]:
    """A text for each row, the names of the columns first."""
    return columns(Table.of("", variations, _COLUMNS).texts())


def _quantity(variation: Variation, value: float) -> str:
    return format_quantity(value, METRICS[variation.key.metric].unit)


def _interval(variation: Variation) -> str:
    summary, write = variation.summary, partial(_quantity, variation)
    return between(summary.low, summary.high, write, "{} … {}") or "-"


def _deviation(variation: Variation) -> str:
    """As a share of the mean."""
    if variation.deviation is None or not variation.mean:
        return "-"
    return f"{variation.deviation / variation.mean:.1%}"


def _between(variation: Variation) -> str:
    return "-" if variation.between is None else f"p {variation.between:.2g}"


def _trend(variation: Variation) -> str:
    if variation.tau is None or variation.trend is None:
        return "-"
    return f"τ {variation.tau:+.2f}, p {variation.trend:.2g}"


_COLUMNS: Final[Sequence[Column[Variation]]] = (
    Column("series", lambda variation: label(variation.key)),
    Column("nights", lambda variation: str(variation.summary.n)),
    Column("median", lambda variation: _quantity(variation, variation.summary.median)),
    Column("95 % interval", _interval),
    Column("deviation", _deviation),
    Column("nights differ", _between),
    Column("trend", _trend),
    Column("in time", lambda variation: _IN_TIME[variation.time_variant]),
)
