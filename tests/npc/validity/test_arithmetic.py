"""Rate, time and bytes of one row: what contradicts itself is named, and rounding accuses nobody."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from npc.validity.arithmetic import last_digit, row_contradiction

MEBI = 2**20 / 1e6


@given(
    st.integers(1, 2**33),
    st.floats(0.004, 1e6),
    st.sampled_from([1, 2, 4]),
    st.sampled_from([(1e6, 2), (1e9, 2), (1e6, 0), (2.0**20, 2), (125e6, 1)]),
    st.integers(0, 3),
)
def test_rounding_accuses_nobody(
    size: int, microseconds: float, counted: int, rate_as: tuple[float, int], digits: int
) -> None:
    unit, rate_digits = rate_as
    rate = counted * size / (microseconds * 1e-6) / unit
    printed = f"{rate:.{rate_digits}f}", f"{microseconds:.{digits}f}"
    assert not row_contradiction(printed[0], unit, counted * size, printed[1], 1e-6)


@pytest.mark.parametrize(
    ("factor", "said"),
    [
        (1 / MEBI, "a factor of 1.0486, MiB printed as MB"),
        (MEBI, "a factor of 1.0486, MB converted as MiB"),
        (1 / 1.024, "a factor of 1.024, KiB printed as kB"),
        (8.0, "a factor of 8, bits printed as bytes"),
        (1 / 8, "a factor of 8, bytes printed as bits"),
        (2.0, "a factor of 2, both directions"),
        (0.5, "a factor of 2, one of two directions"),
        (1e3, "a factor of 1000, the prefix"),
        (3.0, ""),
    ],
)
def test_a_slip_is_named_by_its_factor(factor: float, said: str) -> None:
    rate = 4194304 / 1082.94e-6 / 1e6 * factor
    reason = row_contradiction(f"{rate:.2f}", 1e6, 4194304, "1082.94", 1e-6)
    assert reason.startswith(f"{rate * 1e6:.4g}"[:3]) or "is printed, but 4.194 MB in 1.083 ms are" in reason
    assert reason.partition("GB/s: ")[2].startswith(said)


def test_a_time_of_nothing_is_believed_as_far_as_its_digits_go() -> None:
    assert not row_contradiction("900.00", 1e6, 1, "0.00", 1e-6)
    assert row_contradiction("9.00", 1e6, 1, "0.00", 1e-6) == "a time of 0 s is printed beside 9 MB/s"


@pytest.mark.parametrize(
    ("printed", "step"), [("3.81", 0.01), ("12", 1.0), ("1.2e+04", 1000.0), ("0.0000", 1e-4), ("1e-07", 1e-7)]
)
def test_the_last_digit(printed: str, step: float) -> None:
    assert last_digit(printed) == pytest.approx(step)
