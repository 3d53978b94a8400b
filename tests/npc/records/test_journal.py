"""The journal of the nights: what is read of it, and how often."""

from __future__ import annotations

from pathlib import Path

import pytest

from npc.records import journal
from npc.records.journal import Journal


def note_nights(log: Journal, *numbers: int) -> None:
    for number in numbers:
        log.note(f"night{number}", "begun", folder=f"runs/{number}", words=[])
        log.note(f"night{number}", "ended", verdict="PASS")


def test_no_line_is_taken_twice_however_often_a_night_asks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With every line anew each time, a night of a long history read it all five times."""
    taken = []
    take = journal._take
    monkeypatch.setattr(journal, "_take", lambda nights, line: (taken.append(line), take(nights, line)))
    log = Journal(tmp_path)
    assert log.entries() == []
    note_nights(log, *range(20))
    for number in range(20, 25):
        assert [night.name for night in log.entries()] == [f"night{n}" for n in range(number)]
        note_nights(log, number)
    assert log.entries() == Journal(tmp_path).entries()
    assert len(taken) == 2 * 2 * 25, "all of them once by each of the two"


def test_half_a_line_is_read_when_it_is_whole_and_another_file_from_its_beginning(tmp_path: Path) -> None:
    log = Journal(tmp_path)
    note_nights(log, 1)
    whole = log.path.read_bytes()
    log.path.write_bytes(whole[:-5])
    assert [night.ended for night in log.entries()] == [False]
    log.path.write_bytes(whole)
    assert [night.ended for night in log.entries()] == [True]
    log.path.unlink()
    assert log.entries() == []
    note_nights(log, 2)
    assert [night.name for night in log.entries()] == ["night2"]
