"""What preflight says of perf and llvm-mca."""

from __future__ import annotations

import copy
import os
from typing import Any

import pytest

from npc.machine.preflight import preflight
from tests.made.sound_node import QUIET, only_checks_of, sound_environment


@pytest.fixture(scope="module")
def sound() -> dict[str, Any]:
    return sound_environment()


@pytest.fixture(autouse=True)
def own_checks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of hotspots alone; llvm-mca knows the processor."""
    monkeypatch.setattr("npc.observe.hotspots.llvm.model_of", lambda processor: None)
    only_checks_of("npc.observe.hotspots", monkeypatch)


def test_a_node_without_perf_is_told(sound: dict[str, Any]) -> None:
    assert preflight(sound, QUIET) == []
    environment = copy.deepcopy(sound)
    environment["tools"].update(perf=None)
    (finding,) = preflight(environment, QUIET)
    assert (finding.name, finding.level) == ("perf", "note")
    assert "there is no perf" in finding.symptom


@pytest.mark.parametrize(("paranoid", "shown"), [(2, "this user's programs, not the system"), (3, "nothing")])
def test_what_perf_does_not_show_is_told(
    sound: dict[str, Any], paranoid: int, shown: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    environment = copy.deepcopy(sound)
    environment["kernel"]["perf_event_paranoid"] = paranoid
    environment["tools"]["likwid-perfctr"] = None
    assert os.geteuid() != 0 or preflight(environment, QUIET) == []
    monkeypatch.setattr("npc.observe.hotspots.perf.is_privileged", lambda: False)
    (finding,) = preflight(environment, QUIET)
    assert finding.name == "perf"
    assert finding.symptom.startswith(f"perf shows {shown}")
    assert "sysctl kernel.perf_event_paranoid=1" in finding.do
