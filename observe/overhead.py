"""What watching took of a run, as estimated: events times what one costs on this machine.

Of each part the rank that paid most counts, which is what the program lost where ranks wait for each other
anyway. Costs are those of the machine that this runs on: of a job its first node.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from npc.observe.costs.cache import NoCost
from npc.records.overhead import Overhead

NO_LIMIT: Final = "none"


def read_budget(text: str) -> float | None:
    """The share of ``2 %``, ``2%`` or ``0.5%``; None for ``none``. Raises ValueError."""
    if text.strip().lower() == NO_LIMIT:
        return None
    try:
        percent = float(text.strip().removesuffix("%"))
    except ValueError:
        percent = -1.0
    if not text.strip().endswith("%") or not 0 < percent <= 100:
        raise ValueError(f"--overhead {text!r}: expected a part of the run time, such as 2%, or {NO_LIMIT}")
    return percent / 100


def overhead_of(
    estimates: Mapping[str, Callable[[], float | None]], budget: float | None
) -> tuple[Overhead, tuple[str, ...]]:
    """The shares of the run time by part, and what of them is not known. estimates:
    `npc.observe.observer.ObservedPart.overhead`; budget: the share that a part keeps within."""
    shares: dict[str, float] = {}
    notes = []
    for name, estimate in estimates.items():
        try:
            share = estimate()
        except NoCost as error:
            notes.append(f"overhead of {name}: not known: {error}")
            continue
        if share is not None:
            shares[name] = share
    return Overhead(estimated=shares, budget=budget), tuple(notes)
