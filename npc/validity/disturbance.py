"""Disturbed records: usable ones that were measured while others used the CPUs.

The rules of ``npc/validity/rules/load.py`` say from which share on. Such a record has that share as its
parameter ``disturbed``, so that everything that reads records knows it, even where the files of the launches
are gone, as in a history.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from npc.records.record import Record, replace
from npc.records.series import DISTURBED, share_taken
from npc.validity.rule import Circumstances
from npc.validity.rules.load import shares_taken


def marked(records: Sequence[Record], circumstances: Circumstances) -> list[Record]:
    """The records; those that are usable and disturbed have the mark."""
    shares = shares_taken(records, circumstances)
    return [
        replace(record, params={**record.params, DISTURBED: f"{shares[place]:.2f}"})
        if place in shares and record.ok
        else record
        for place, record in enumerate(records)
    ]


def in_words(records: Iterable[Record]) -> str:
    """``42 of 90 usable records were measured while others took 40 to 51 % of the CPUs``, or nothing."""
    return of_shares(share_taken(record) for record in records if record.ok)


def of_shares(usable: Iterable[float]) -> str:
    """The same, from the share of the CPUs that others took beside each usable record, 0 for none."""
    count, shares = 0, []
    for share in usable:  # there may be millions
        count += 1
        if share:
            shares.append(share)
    if not shares:
        return ""
    were = "were" if count > 1 else "was"
    return f"{len(shares)} of {count} usable records {were} measured while {taken(shares)}"


def remark(words: str) -> str:
    """What `in_words` says, as a sentence below numbers; empty where that is empty."""
    return words and f"Disturbed: {words} (npc check says by whom)."


def taken(shares: Sequence[float]) -> str:
    """``others took 40 to 51 % of the CPUs``."""
    low, high = (f"{100 * share:.0f}" for share in (min(shares), max(shares)))
    return f"others took {low if low == high else f'{low} to {high}'} % of the CPUs"
