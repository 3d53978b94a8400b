"""The counters of the MPI library and of software-defined events, as people read them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from npc.observe.mpi.records import Profile, UnexpectedMessages, VariableTotals
from npc.records.units import format_quantity

#: Most counters that are shown; the document has all.
_MOST: Final = 16
#: A smaller share of possibly unexpected messages is not shown.
_LEAST: Final = 0.01
#: Prefix of the profile's own totals, which the summary already has.
_OWN: Final = "npc::"
_ADDED_UP: Final = frozenset({"counter", "aggregate", "timer"})


def counters(profile: Profile) -> list[str]:
    """A line on unexpected messages, and one for each counter that was asked for and is not 0."""
    variables = [variable for variable in profile.variables if not variable.name.startswith(_OWN)]
    notable = [variable for variable in variables if variable.least or variable.most or variable.peak]
    lines = [*_unexpected(profile.unexpected)] if profile.unexpected else []
    lines += [_line(variable) for variable in notable[:_MOST]]
    if len(notable) > _MOST:
        lines.append(
            f"further counters: {len(notable) - _MOST} (--json has them; --mpit NAME,NAME asks for some)"
        )
    if len(variables) > len(notable):
        lines.append(f"counters that stayed 0: {len(variables) - len(notable)}")
    return lines


def _unexpected(messages: UnexpectedMessages) -> Iterator[str]:
    queue = (
        ""
        if messages.longest_queue is None
        else f"; at most {messages.longest_queue} were seen in a rank's queue"
    )
    if messages.counted is not None:
        parts = [f"{messages.counted} unexpected messages"]
        if messages.by_rank:
            rank, most = max(messages.by_rank.items(), key=lambda entry: entry[1])
            parts.append(f"{most} of them at rank {rank}")
        if messages.out_of_sequence is not None:
            parts.append(f"{messages.out_of_sequence} out of sequence")
        yield ", ".join(parts) + queue
    elif messages.possible and messages.possible > _LEAST * messages.known:
        yield (
            f"unexpected messages: not more than {messages.possible / messages.known:.0%} "
            f"({messages.possible} of {messages.known} were sent before their receive was posted){queue}"
        )


def _line(variable: VariableTotals) -> str:
    unit = variable.unit or "1"
    least, most = (format_quantity(value, unit) for value in (variable.least, variable.most))
    where = f" (rank {variable.rank})" if variable.least != variable.most else ""
    spread = f"{least} to {most}{where}" if variable.least != variable.most else f"{most} in each rank"
    if variable.kind in _ADDED_UP:
        return f"{variable.name}: {format_quantity(variable.total, unit)}, {spread}"
    peak = variable.most if variable.peak is None else variable.peak
    before = f" at the end, {format_quantity(peak, unit)} at most before" if peak > variable.most else ""
    return f"{variable.name}: {spread}{before}"
