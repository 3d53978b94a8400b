"""The shares of a program whose parts are known; what a plan cannot tell apart; a form that is wrong."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from npc.observe.study.program_model import fit
from npc.observe.study.records import (
    Condition,
    ProgramModel,
    ProgramRun,
    Share,
    Study,
    read_study,
    write_study,
)
from tests.made.studies import FIXED_CLOCK, NOISE, PLAN, USUAL, made_study, random_shares, study_of

SHARES = {"cpu": 0.4, "memory": 0.3, "network": 0.2, "io": 0.1}


def exact(
    plan: Sequence[Mapping[str, float]] = PLAN, shares: Mapping[str, float] = SHARES, runs: int = 3
) -> Study:
    """A study without noise, but for a thousandth from run to run."""
    study, _ = made_study(shares, "gamma", np.random.default_rng(1), plan, runs, rate_error=0.0)
    seconds = {
        f"c{place}": 10 * sum(each.get(name, 1.0) * shares[name] for name in USUAL)
        for place, each in enumerate(plan)
    }
    ran = [run._replace(seconds=seconds[run.condition] * (1 + 1e-3 * run.sample)) for run in study.ran]
    return study_of(study.conditions, ran, runs)


def shares_of(model: ProgramModel) -> dict[str, Share]:
    return {share.name: share for share in model.shares}


def covers(model: ProgramModel, truth: Mapping[str, float]) -> bool:
    return all(
        low - 1e-12 <= truth.get(name, 0.0) <= high + 1e-12
        for name, _, low, high, _ in model.shares
        if low is not None and high is not None
    )


def test_the_shares_of_a_program_come_back() -> None:
    model = fit(exact())
    found = shares_of(model)
    assert {name: round(share.value or 0, 3) for name, share in found.items()} == {
        "cpu": 0.4, "memory": 0.3, "mpi": 0.2, "io": 0.1, "rest": 0,
    }  # fmt: skip
    assert model.seconds == pytest.approx(10, rel=2e-3)
    assert model.rates == pytest.approx(USUAL)
    assert (model.reference, model.fits, model.note) == ("c0", True, "")
    assert all(abs(ratio - 1) < 1e-3 for ratio in model.held_out.values())
    assert set(model.held_out) == {f"c{place}" for place in range(1, len(PLAN))}


def test_a_model_is_kept_with_its_study(tmp_path: Path) -> None:
    study = exact()
    write_study(replace(study, model=fit(study)), tmp_path)
    assert read_study(tmp_path).model == fit(study)


def test_shares_are_parts_of_one() -> None:
    rng = np.random.default_rng(3)
    for kind in NOISE:
        model = fit(made_study(random_shares(rng), kind, rng)[0])
        assert sum(share.value or 0 for share in model.shares) == pytest.approx(1)
        for _, value, low, high, _ in model.shares:
            assert value is not None and low is not None and high is not None
            assert 0 <= low <= value <= high <= 1


def test_a_clock_that_cannot_be_set_takes_what_the_others_leave() -> None:
    cpu = shares_of(fit(exact(FIXED_CLOCK)))["cpu"]
    assert cpu.value == pytest.approx(0.4, abs=1e-3)
    assert cpu.reason == (
        "the clock was changed by no condition (at most 1 times); by Σα = 1: what no other resource takes, "
        "waiting in it"
    )


def test_resources_that_nobody_varied_stand_together() -> None:
    plan = [each for each in PLAN if not {"cpu", "io"} & each.keys()]
    found = shares_of(fit(exact(plan)))
    assert found["cpu"].value is None and found["io"].value is None
    assert found["io"].reason == "I/O bandwidth was changed by no condition (at most 1 times)"
    assert found["rest"].value == pytest.approx(0.5, abs=1e-3)
    assert found["rest"].reason == "the clock and I/O, with latency and waiting"


def test_resources_that_only_changed_together_have_no_share() -> None:
    plan = [{}, {"memory": 2, "cpu": 2}, {"memory": 3, "cpu": 3}, {"network": 2}, {"network": 4}]
    found = shares_of(fit(exact(plan)))
    assert found["cpu"].value is None
    assert found["memory"].reason == "memory bandwidth was changed only together with the clock"
    assert found["mpi"].value == pytest.approx(0.2, abs=1e-3)
    assert found["rest"].value is None


def test_fewer_conditions_than_parts_tell_nothing() -> None:
    found = shares_of(fit(exact([{}, {"memory": 2, "network": 3}])))
    assert [name for name, share in found.items() if share.value is not None] == []


def test_as_many_conditions_as_parts_say_nothing_of_the_form() -> None:
    model = fit(exact([{}, {"memory": 2}]))
    assert shares_of(model)["memory"].value == pytest.approx(0.3, abs=1e-3)
    assert model.lack_of_fit is None
    assert model.note == "There are no more conditions than parts: nothing tells whether the form is right."


def test_a_study_of_its_reference_alone_says_so() -> None:
    model = fit(exact([{}]))
    assert not model.fits
    assert model.note == "No resource was varied: the plan says nothing about the shares."


def test_other_ranks_and_failed_runs_are_not_in_the_fit() -> None:
    study = exact()
    other = Condition(name="more", ranks=8)
    ran = [
        *study.ran,
        ProgramRun("more", 0, 99.0, "ok", dict(USUAL)),
        ProgramRun("c1", 9, None, "failed: exit code 1"),
    ]
    ran = [run for run in ran if run.condition != "c2"]
    model = fit(study_of([*study.conditions, other], ran))
    assert shares_of(model)["memory"].value == pytest.approx(0.3, abs=1e-3)
    assert model.left_out == {"c2": "no run of it succeeded"}


def test_a_reference_that_failed_leaves_nothing_to_fit() -> None:
    study = exact()
    with pytest.raises(ValueError, match="no run of the reference, c0, succeeded"):
        fit(study_of(study.conditions, [run for run in study.ran if run.condition != "c0"]))
    with pytest.raises(ValueError, match="there is no reference"):
        fit(study_of(study.conditions[1:], study.ran))


def test_memory_and_computing_at_the_same_time_are_no_sum() -> None:
    plan = [{}, *({"memory": slower} for slower in (1.3, 1.7, 2.5, 4)), *({"cpu": c} for c in (1.3, 2, 3))]
    study = exact(plan, {"cpu": 0.5, "memory": 0.5, "network": 0.0, "io": 0.0})
    ran = []
    for run in study.ran:
        slower = plan[int(run.condition[1:])]
        longest = 10 * max(slower.get("cpu", 1.0), slower.get("memory", 1.0))
        ran.append(run._replace(seconds=longest * (1 + 1e-3 * run.sample)))
    model = fit(study_of(study.conditions, ran))
    assert not model.fits
    assert "What was varied takes more than the whole time (the rest: -1e+02 %" in model.note


def test_a_form_that_is_wrong_is_called_so() -> None:
    plan = [{}, *({"memory": slower} for slower in (1.2, 1.5, 2, 3, 4))]
    study = exact(plan)
    ran = [
        run._replace(seconds=10 * max(1.5, plan[int(run.condition[1:])].get("memory", 1)) + 0.01 * run.sample)
        for run in study.ran
    ]
    model = fit(study_of(study.conditions, ran))
    assert not model.fits
    assert model.lack_of_fit is not None and model.lack_of_fit < 0.01
    assert "no sum of such parts (lack of fit, p = " in model.note


def test_overlap_is_found_and_measured() -> None:
    shares = {"cpu": 0.45, "memory": 0.4, "network": 0.1, "io": 0.05}
    plan = [*PLAN, {"memory": 4}, {"cpu": 3}, {"memory": 2.5, "cpu": 1.8}]
    for overlap in (0.0, 0.3):
        rng = np.random.default_rng(5)
        found = [fit(made_study(shares, "gamma", rng, plan, runs=8, overlap=overlap)[0]) for _ in range(6)]
        within = [(each.overlap_low or 0) <= overlap <= (each.overlap_high or 0) for each in found]
        assert sum(within) >= 5
        right = sum(each.fits for each in found)
        assert right >= 5 if not overlap else right <= 2


def test_most_true_shares_lie_within_their_intervals() -> None:
    """The bench makes 200 studies of each family; here a few of each."""
    rng = np.random.default_rng(11)
    within = [covers(fit(study), truth) for study, truth in _studies(rng, 4)]
    assert sum(within) >= 0.9 * len(within)


def test_intervals_are_no_wider_than_the_noise_makes_them() -> None:
    rng = np.random.default_rng(12)
    widths = [
        high - low
        for study, _ in _studies(rng, 2)
        for _, _, low, high, _ in fit(study).shares
        if low is not None and high is not None
    ]
    assert np.median(widths) < 0.15


def _studies(rng: np.random.Generator, number: int) -> list[tuple[Study, dict[str, float]]]:
    return [made_study(random_shares(rng), kind, rng) for kind in NOISE for _ in range(number)]
