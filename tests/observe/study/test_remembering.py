"""The best placement is remembered where it is shown to be the best."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from npc.machine.programs import read_programs
from npc.observe.study.records import Condition, ProgramRun, Study
from npc.observe.study.remembering import best_of, keep_best
from npc.records.record import save_csv
from tests.made.history import a_record
from tests.made.studies import study_of

#: Ten runs, within a twentieth.
AROUND = (1.0, 1.02, 1.01, 1.05, 1.03, 1.0, 1.01, 1.04, 1.02, 1.03)
DEFAULT = Condition(name="2 ranks", ranks=2)
CORE = Condition(name="2 ranks, binding core", ranks=2, binding="core")
NONE = Condition(name="2 ranks, binding none", ranks=2, binding="none")


def placed(seconds: Mapping[Condition | str, float], conditions: Sequence[Condition]) -> Study:
    ran = [
        ProgramRun(each.name, sample, seconds[each.name] * factor, "ok")
        for each in conditions
        for sample, factor in enumerate(AROUND)
    ]
    return study_of(conditions, ran, len(AROUND))


def test_the_best_is_held_against_the_launcher_s_own_binding(tmp_path: Path) -> None:
    study = placed({DEFAULT.name: 1.5, CORE.name: 1.0, NONE.name: 1.2}, (DEFAULT, CORE, NONE))
    (found,) = best_of(study, tmp_path, ("n1",))
    assert (found.setting, found.against, found.ranks, found.nodes) == (CORE.name, "2 ranks", 2, 1)
    assert found.times == pytest.approx(1.5, rel=0.01)
    assert found.low is not None and found.high is not None and 1.4 < found.low < found.times < found.high
    assert (found.program, found.by, found.run, found.hosts) == (
        "program", "npc program study", str(tmp_path), ("n1",),
    )  # fmt: skip


def test_a_tie_is_not_remembered(tmp_path: Path) -> None:
    tie = {DEFAULT.name: 1.5, CORE.name: 1.0, NONE.name: 1.01}
    assert not list(best_of(placed(tie, (DEFAULT, CORE, NONE)), tmp_path))
    assert not list(best_of(placed({CORE.name: 1.0}, (CORE,)), tmp_path))


def test_each_number_of_nodes_has_its_best_and_a_changed_machine_is_none(tmp_path: Path) -> None:
    two = Condition(name="2 nodes", nodes=2, ranks=4)
    core = Condition(name="2 nodes, binding core", nodes=2, ranks=4, binding="core")
    slowed = Condition(name="slowed", ranks=2, network=1e8)
    seconds = {DEFAULT.name: 1.0, CORE.name: 1.2, two.name: 0.9, core.name: 0.6, slowed.name: 0.1}
    found = list(best_of(placed(seconds, (DEFAULT, CORE, two, core, slowed)), tmp_path))
    assert [(each.nodes, each.setting) for each in found] == [(1, "2 ranks"), (2, "2 nodes, binding core")]
    assert found[0].against == CORE.name


def test_it_is_kept_with_the_study_where_the_platform_is_not_known(tmp_path: Path) -> None:
    save_csv([a_record()], tmp_path / "records.csv")
    (said,) = keep_best(placed({DEFAULT.name: 1.5, CORE.name: 1.0}, (DEFAULT, CORE)), tmp_path)
    assert f"Remembered in {tmp_path}/programs.toml, not for the platform" in said
    assert read_programs(tmp_path)[0].hosts == ("n1", "n2")


def test_it_is_kept_in_the_folder_that_was_given_not_with_a_platform_of_its_name(tmp_path: Path) -> None:
    save_csv([a_record()], tmp_path / "records.csv")
    given = tmp_path / "elsewhere/localhost"
    given.mkdir(parents=True)
    study = placed({DEFAULT.name: 1.5, CORE.name: 1.0}, (DEFAULT, CORE))
    study = replace(study, platform="localhost", platform_folder=str(given))
    (said,) = keep_best(study, tmp_path)
    assert said.endswith(f", in {given}/programs.toml.")
    assert read_programs(given)[0].setting == CORE.name
