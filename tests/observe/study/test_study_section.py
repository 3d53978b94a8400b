"""What the page tells of a study: placements, expectations, scaling with efficiencies, the model."""

from __future__ import annotations

from pathlib import Path

import pytest

from npc.observe.study import section
from npc.observe.study.records import STUDY, Placement
from npc.page.blocks import Figure, Listing, Table, Text
from npc.report.runs import Report, read_runs
from npc.report.sections import NothingToShow
from tests.made.scaling_study import CPUS, model, name_of, put_study, seconds_of


def blocks(folder: Path, **more: object) -> list[object]:
    put_study(folder, **more)
    return list(section.build(Report(read_runs([folder]), folder)))


def tables(found: list[object]) -> dict[str, Table]:
    named = [each for each in found if isinstance(each, Table)]
    named += [table for each in found if isinstance(each, Figure) for table in each.tables]
    return {each.caption: each for each in named}


def test_the_best_placement_stands_with_what_the_second_loses(tmp_path: Path) -> None:
    found = blocks(tmp_path)
    (best,) = [each.text for each in found if isinstance(each, Text)]
    second = f"the second best, {name_of(4)}, is 80.0% (70.0% to 90.0%) slower"
    assert best.startswith(f"Best placement: {name_of(8)}, 1.372 s; {second}")
    rows = tables(found)["Placements, the best first"].rows
    assert [cell.text for cell in rows[1]][-2:] == ["80 %", "70.0% – 90.0%"]
    assert rows[0][-1].text == ""


def test_placements_that_cannot_be_told_apart_are_said(tmp_path: Path) -> None:
    close = (Placement("a", 1.0, None, None, 0, 0, 0), Placement("b", 1.01, None, None, 0.01, -0.02, 0.04))
    assert "the two cannot be told apart" in str(blocks(tmp_path, best=close))


def test_what_was_expected_stands_with_what_came(tmp_path: Path) -> None:
    (row,) = tables(blocks(tmp_path))["What was expected before the runs"].rows
    assert [cell.text for cell in row][:4] == ["8 ranks >= 6 x 1 rank", "not held", "5.83", "5.7 – 5.9"]
    assert row[1].kind == "bad"


def test_scaling_has_efficiency_and_pop_below(tmp_path: Path) -> None:
    found = blocks(tmp_path)
    times = tables(found)["Numbers: times of app"].rows
    assert [row[1].text for row in times] == [str(cpus) for cpus in CPUS]
    assert times[3][2].records and times[3][4].text == "× 5.83"
    rows = tables(found)["Numbers: efficiencies of app"].rows
    assert [row[2].text for row in rows] == ["100 %", "90 %", "81 %", "72.9 %"]
    assert [cell.text for cell in rows[3][3:]] == ["81 %", "90 %", "90 %"]
    assert rows[3][3].records
    time, efficiency = [each for each in found if isinstance(each, Figure)][:2]
    assert f"{name_of(8)}\n{seconds_of(8):.3f} s" in str(time.picture)
    assert [entry.name for entry in efficiency.legend][1:] == [
        "POP: parallel",
        "POP: load balance",
        "POP: communication",
    ]


def test_the_model_shows_its_parts_and_whether_to_believe_it(tmp_path: Path) -> None:
    found = blocks(tmp_path)
    rows = tables(found)["Numbers: parts of the time"].rows
    assert [cell.text for cell in rows[0]] == [
        "processor",
        "unknown",
        "",
        "the clock was changed by no condition",
    ]
    assert [cell.text for cell in rows[1]][:3] == ["memory", "75 %", "70.0% – 80.0%"]
    figure = next(each for each in found if isinstance(each, Figure) and "Where the time" in each.title)
    assert "the form fits (lack of fit: p = 0.4)" in figure.shows
    wrong = blocks(
        tmp_path / "wrong", model=model(fits=False, lack_of_fit=1e-4, note="Parts overlap.", overlap=0.3)
    )
    assert "do not predict by it (lack of fit: p = 0.0001)" in str(
        wrong
    ) and "overlap of the parts: 30.0%" in str(wrong)
    unknown = blocks(tmp_path / "unknown", model=model(shares=(), held_out={}))
    assert "No part of the time could be told" in str(unknown)


def test_conditions_that_failed_stand_with_their_reason(tmp_path: Path) -> None:
    found = blocks(tmp_path)
    last = tables(found)["Conditions"].rows[-1]
    assert last[0].text == "1 node, 16 ranks, 1 thread" and last[-1].text == "failed: exit code 1"
    said = next(each for each in found if isinstance(each, Listing))
    assert "29 runs ended, 1 of them without a time" in str(said)


def test_without_a_study_or_with_a_broken_one_the_section_says_what_makes_it(tmp_path: Path) -> None:
    put_study(tmp_path)
    (tmp_path / STUDY).write_text("{")
    with pytest.raises(NothingToShow, match="npc program study"):
        list(section.build(Report(read_runs([tmp_path]), tmp_path)))
