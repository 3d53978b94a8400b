"""Nodes of one fleet differ for good: the nights of a history name who became slow, and no other."""

from __future__ import annotations

import json
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from npc.cron.fleet_nights import fleet_after
from npc.cron.series import panel
from npc.records.verdicts import Verdict
from tests.lab import in_process
from tests.made.fleets import OLD_LOSS, ONSET, Fleet, FleetHistory, fleet_history, node_name, write_csv

DEGRADED = Verdict.DEGRADED.exit_code


def replayed(history: FleetHistory, folder: Path) -> list[dict[str, Any]]:
    """What `npc night history --replay` says of it, night by night."""
    (folder / "made").mkdir()
    write_csv(history.rows, folder / "made/2026-11.fleet.csv")
    words: list[str | Path] = ["--platform", "made", "--history", folder, "--replay", "--json"]
    ended = in_process.npc("night", "history", *words)
    assert ended.returncode == 0, ended.stderr
    nights: list[dict[str, Any]] = json.loads(ended.stdout)["nights"]
    assert len(nights) == len(history.nights)
    return nights


def exit_code(night: dict[str, Any]) -> int:
    """That of the night's command."""
    return Verdict(night["verdict"]).exit_code


def named(night: dict[str, Any]) -> list[str]:
    """Whom a night names."""
    return [suspect["name"] for suspect in night["suspects"] if suspect["named"]]


@pytest.mark.parametrize("spread", [0.01, "frontier"])
def test_nobody_is_named_for_being_as_it_always_was(spread: float | str, tmp_path: Path) -> None:
    healthy = fleet_history(Fleet(nodes=16, spread=spread, sigma=0.003, nights=30), "healthy", seed=1)
    nights = replayed(healthy, tmp_path)
    assert [(exit_code(night), named(night)) for night in nights] == [(0, [])] * len(nights)


def test_who_becomes_slow_is_named_in_time_and_who_always_was_never(tmp_path: Path) -> None:
    """5 % and 6 %, where nodes differ by 1 %."""
    history = fleet_history(Fleet(nodes=16, sigma=0.003, nights=ONSET + 6), "node", seed=1)
    (slow,) = history.faults[0].nodes
    always_slow = next(name for name in map(node_name, range(16)) if name != slow)
    history.rows = [
        row._replace(value=row.value * (1 - OLD_LOSS)) if row.value and row.hosts == (always_slow,) else row
        for row in history.rows
    ]
    before = [t for t, night in enumerate(history.nights) if night < ONSET]
    nights = replayed(history, tmp_path)
    assert {(exit_code(nights[t]), *named(nights[t])) for t in before} == {(0,)}
    after = nights[len(before) :]
    assert {name for night in after for name in named(night)} == {slow}
    assert {(exit_code(night), *named(night)) for night in after[2:]} == {(DEGRADED, slow)}


def test_nights_of_a_fleet_take_little_memory_beside_their_readings() -> None:
    """A year of a thousand nodes has five million rows: nothing may be made of all of them at once."""
    history = fleet_history(Fleet(nodes=50, nights=120, cases=6), "healthy", seed=1)
    rows, nights = len(history.rows), panel(history.rows)
    fleet_after(panel(history.rows[:300]))  # what is loaded once
    tracemalloc.start()
    try:
        fleet_after(nights)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 60 * rows
