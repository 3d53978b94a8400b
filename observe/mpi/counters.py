"""The counters of the MPI library and of software-defined events, as people read them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from npc.observe.mpi.records import Profile, UnexpectedMessages, VariableTotals
from npc.records.units import format_quantity

#: Counters that are told; the document has all.
_MOST: Final = 16
#: A smaller part of unexpected messages is not told.
_LEAST: Final = 0.01
#: The profile's own totals are in the summary already.
_OWN: Final = "npc::"
_ADDED_UP: Final = frozenset({"counter", "aggregate", "timer"})


def counters(profile: Profile) -> list[str]:
    """A line on unexpected messages, and one for each counter that was asked for and is not 0."""
    asked = [each for each in profile.variables if not each.name.startswith(_OWN)]
    told = [each for each in asked if each.least or each.most or each.peak]
    lines = [*_unexpected(profile.unexpected)] if profile.unexpected else []
    lines += [_line(each) for each in told[:_MOST]]
    if len(told) > _MOST:
        lines.append(
            f"further counters: {len(told) - _MOST} (--json has them; --mpit NAME,NAME asks for some)"
        )
    if len(asked) > len(told):
        lines.append(f"counters that stayed 0: {len(asked) - len(told)}")
    return lines


def _unexpected(found: UnexpectedMessages) -> Iterator[str]:
    queue = (
        "" if found.longest_queue is None else f"; {found.longest_queue} in a rank's queue were seen at most"
    )
    if found.counted is not None:
        parts = [f"{found.counted} unexpected messages"]
        if found.by_rank:
            rank, most = max(found.by_rank.items(), key=lambda entry: entry[1])
            parts.append(f"{most} of them at rank {rank}")
        if found.out_of_sequence is not None:
            parts.append(f"{found.out_of_sequence} out of sequence")
        yield ", ".join(parts) + queue
    elif found.possible and found.possible > _LEAST * found.known:
        yield (
            f"unexpected messages: not more than {found.possible / found.known:.0%} "
            f"({found.possible} of {found.known} were sent before their receive was posted){queue}"
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
