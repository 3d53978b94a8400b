"""Millions of values in groups: what sorts them by group, and their medians."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from npc.statistics.arrays import Floats, Integers


def stable_order(codes: NDArray[Any]) -> Integers:
    """What sorts numbers from 0 on, and leaves what is alike in its order: numpy sorts numbers of 16 bits in
    a twentieth of the time."""
    small = codes.max(initial=0) < 2**16
    order: Integers = np.argsort(codes.astype(np.uint16) if small else codes, kind="stable")
    return order


#: So many values a group: then each is partitioned by itself, which is faster than to sort all values.
LARGE: Final = 64


class GroupMedians(NamedTuple):
    """Medians of values that have the same number; by group, in the order of the numbers."""

    #: The number.
    code: NDArray[np.int64 | np.int32]
    #: Which value is the group's first.
    first: Integers
    #: Of its values.
    median: Floats

    @classmethod
    def of(cls, codes: NDArray[Any], values: Floats) -> GroupMedians:
        """Of values, none of them NaN. codes: by value, from 0 on."""
        order = stable_order(codes)
        sorted_codes = codes[order]
        begins = np.flatnonzero(np.diff(sorted_codes, prepend=-1))
        count = np.diff(begins, append=len(codes))
        middle = values[order[begins]]
        if (several := count > 1).any():
            if len(codes) > LARGE * len(begins):
                for group, begin in enumerate(begins.tolist()):
                    own = values[order[begin : begin + count[group]]]
                    places = [(len(own) - 1) // 2, len(own) // 2]
                    middle[group] = np.partition(own, places)[places].sum() / 2
                return cls(sorted_codes[begins], order[begins], middle)
            # Most groups may have one value, and then this is about few.
            rows = order[np.repeat(several, count)]
            rows = rows[np.argsort(values[rows])]
            rows = rows[stable_order(codes[rows])]
            begin, length = np.cumsum(count[several]) - count[several], count[several]
            ordered = values[rows]
            middle[several] = (ordered[begin + (length - 1) // 2] + ordered[begin + length // 2]) / 2
        return cls(sorted_codes[begins], order[begins], middle)
