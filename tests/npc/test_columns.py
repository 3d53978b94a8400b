"""Tables fit 100 columns, sentences a terminal; both fold between words and keep a number with its unit."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from npc.columns import MOST, columns, sentences

WORDS = st.lists(st.text("abcdef", min_size=1, max_size=14), max_size=12).map(" ".join)
TABLES = st.integers(1, 7).flatmap(
    lambda wide: st.lists(st.lists(WORDS, min_size=wide, max_size=wide), min_size=1, max_size=5)
)


@given(TABLES)
def test_every_table_fits_and_no_word_is_cut_or_lost(rows: list[list[str]]) -> None:
    texts = columns(rows)
    assert len(texts) == len(rows)
    assert max((len(line) for text in texts for line in text.split("\n")), default=0) <= MOST
    names = {word for name in rows[0] for word in name.split()}
    for text, row in list(zip(texts, rows, strict=True))[1:]:
        shown = re.findall(r"[a-f]+", text)
        wanted = [word for cell in row for word in cell.split()]
        assert set(wanted) <= set(shown) <= set(wanted) | names


def test_a_long_cell_of_the_last_column_stands_below_its_row() -> None:
    path = "/usr/lib/" + "deep/" * 16 + "tool"
    rows = [
        ("tool", "version", "path"),
        ("qperf", "0.4", "/usr/bin/qperf"),
        ("other", "cc 12 of the site", path),
    ]
    head, short, long = columns(rows)
    assert (head.split(), short.split()) == (["tool", "version", "path"], ["qperf", "0.4", "/usr/bin/qperf"])
    assert [line.strip() for line in long.split("\n")[1:]] == ["path:", path]


@pytest.mark.parametrize("whole", ["110 GFLOP/s", "[97.1, 112]", "63.4 KiB", "6, 1"])
def test_a_number_stays_with_its_unit_and_an_interval_whole(whole: str) -> None:
    rows = [("words", "number"), (" ".join(["word"] * 60), f"{whole} and {' '.join(['more'] * 30)}")]
    assert any(whole in line for line in columns(rows)[1].split("\n"))


def test_what_is_part_of_the_row_above_stays_farther_to_the_right() -> None:
    rows = [
        ("efficiency", "of n2"),
        ("parallel", "66 %"),
        ("  load balance", "67 %"),
        ("    of the node", "70 %"),
    ]
    assert [len(line) - len(line.lstrip()) for line in columns(rows)] == [0, 0, 2, 4]


def test_a_narrow_terminal_has_narrower_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    rows = [("words", "number"), (" ".join(["word"] * 30), "5 GB/s")]
    assert max(len(line) for line in columns(rows)[1].split("\n")) <= 60


def test_a_row_is_rather_folded_than_parted_from_its_last_cell() -> None:
    rows = [("name", "sizes", "error", "nearest")]
    rows += [
        (f"osu_latency on a host with a name {each} long", "1 B … 1 MiB", "5 %", "yes") for each in "abc"
    ]
    assert all(line.split("\n")[0].endswith("yes") for line in columns(rows)[1:])


def test_a_last_column_with_little_room_stands_whole_below_its_row(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    numbers = ("compute/memory", "1", "1", "60", "34 s")
    rows = [
        ("benchmark", "tag", "nodes", "jobs", "launches", "expected", "measures"),
        ("likwid", *numbers, "peak FLOP/s, bandwidth of caches and memory"),
        ("fft", *numbers, "complex transforms by FFTW"),
    ]
    below = [text.split("\n")[1:] for text in columns(rows)[1:]]
    assert below == [[f"    measures: {row[-1]}"] for row in rows[1:]]


def test_sentences_fit_a_terminal_below_their_label_and_commands_stay_whole(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    command = "  npc characterise --set name=" + "value," * 10
    text = f"note: one sentence of more than forty characters, 34.1 GB/s\n{command}\n  governor: short"
    assert sentences(text) == text, "programs read a pipe"
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    assert sentences(text).split("\n") == [
        "note: one sentence of more than forty",
        "      characters, 34.1 GB/s",
        command,
        "  governor: short",
    ]
