"""Units: sizes and quantities are read back as they were written."""

from __future__ import annotations

import math
import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from npc.records.units import (
    METRICS,
    PREFIXES,
    format_duration,
    format_quantity,
    format_size,
    parse_duration,
    parse_size,
)


@given(st.integers(min_value=0, max_value=2**62))
@example(0)
@example(2**40)
@example(2**53 + 1)
def test_a_formatted_size_is_read_back(size: int) -> None:
    text = format_size(size)
    assert len(text) <= 8 or text.endswith((" B", " PiB")), "three digits and a unit, or all bytes"
    assert not re.search(r"\d[kMG]?B$", text), "one way to write it"
    try:
        assert parse_size(text) == pytest.approx(size, rel=5e-3)
    except ValueError:  # rounded to what is no whole number of bytes
        number, unit = text.split()
        assert float(number) * PREFIXES[unit.removesuffix("B")] == pytest.approx(size, rel=5e-3)


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (None, ""), (0, "0 B"), (14, "14 B"), (1024, "1 KiB"), (1472, "1472 B"), (1536, "1.5 KiB"),
        (9000, "9000 B"), (61440, "60 KiB"), (64896, "63.4 KiB"), (65507, "65507 B"), (65539, "65539 B"),
        (1047552, "1023 KiB"), (16776704, "16 MiB"), (400_000_000, "381 MiB"), (2**42, "4 TiB"),
        (2048.5, "2 KiB"), (23.4, "23.4 B"),
    ],
)  # fmt: skip
def test_sizes_for_people_are_binary(size: float | None, text: str) -> None:
    assert format_size(size) == text


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("0", 0), ("65536", 65536), ("1K", 1024), ("1k", 1000), ("4K", 4096), ("64KiB", 65536),
        ("1 MiB", 2**20), ("400kB", 400_000), ("1MB", 10**6), ("1M", 2**20), ("1G", 2**30),
        ("1GB", 10**9), ("2TiB", 2**41), ("1.5K", 1536), ("0.5k", 500), (" 8 ", 8), ("7B", 7),
    ],
)  # fmt: skip
def test_sizes_as_the_tools_write_them(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize(
    "text", ["", "K", "-1", "1Q", "1.5", "1.0001K", "1e3", "1 2", "1KK", "0x10", "i", "1iB"]
)
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="byte"):
        parse_size(text)


@given(
    value=st.floats(min_value=1e-9, max_value=1e18),
    unit=st.sampled_from(sorted({metric.unit for metric in METRICS.values()})),
    digits=st.integers(min_value=3, max_value=8),
)
@example(value=999.9999, unit="B/s", digits=4)
@example(value=999999.0, unit="B/s", digits=4)
@example(value=9.9999e-7, unit="s", digits=4)
@example(value=123456.0, unit="s", digits=4)
@example(value=1.0, unit="1", digits=4)
def test_a_formatted_quantity_is_read_back_within_its_rounding(value: float, unit: str, digits: int) -> None:
    text = format_quantity(value, unit, digits)
    name = {"1": "", "1/s": "/s"}.get(unit, unit)
    number, _, prefixed = text.partition(" ")
    assert prefixed.endswith(name)
    read = float(number) * PREFIXES[prefixed.removesuffix(name)]
    assert math.isclose(read, value, rel_tol=0.5 * 10 ** (1 - digits) * 1.001)


@given(value=st.floats(min_value=1.0, max_value=9.99e14), digits=st.integers(min_value=3, max_value=8))
def test_a_quantity_is_written_without_exponent_and_below_a_thousand(value: float, digits: int) -> None:
    number = format_quantity(value, "B/s", digits).split()[0]
    assert re.fullmatch(r"\d{1,3}(\.\d+)?", number)


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (27.22e-6, "s", "27.22 µs"),
        (3.1e9, "B/s", "3.1 GB/s"),
        (999.99e6, "B/s", "1 GB/s"),
        (0.0, "B/s", "0 B/s"),
        (0.0, "s", "0 s"),
        (0.0, "1", "0"),
        (0.0, "1/s", "0 /s"),
        (0.25, "1", "0.25"),
        (1234567.0, "1", "1234567"),
        (1.2e6, "1/s", "1.2 M/s"),
        (86400.0, "s", "86400 s"),
        (float("nan"), "s", "nan s"),
        (float("inf"), "1/s", "inf /s"),
    ],
)
def test_quantities_as_people_read_them(value: float, unit: str, text: str) -> None:
    assert format_quantity(value, unit) == text


@pytest.mark.parametrize("unit", ["B/s", "s", "FLOP/s"])
def test_a_minus_sign_changes_nothing_else(unit: str) -> None:
    assert format_quantity(-1500.0, unit) == "-" + format_quantity(1500.0, unit)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90", 90),
        ("0.5", 0.5),
        ("90s", 90),
        ("10m", 600),
        ("10 min", 600),
        ("2h", 7200),
        ("1h30m", 5400),
        ("1d", 86400),
    ],
)
def test_durations_are_read_with_and_without_units(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["", "soon", "5x", "m", "1h-3m", "-5", "1:00", "nan", "1h 30"])
def test_what_is_no_duration_is_refused_with_examples(text: str) -> None:
    with pytest.raises(ValueError, match=r"examples: 90, 90s, 10m, 2h"):
        parse_duration(text)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"), (45.4, "45 s"), (60, "1 min"), (90, "1 min 30 s"), (3600, "1 h"), (5400, "1 h 30 min"),
        (3601, "1 h"), (172800, "2 d"), (93784, "1 d 2 h"),
    ],
)  # fmt: skip
def test_durations_are_written_in_two_units(seconds: float, text: str) -> None:
    assert format_duration(seconds) == text
