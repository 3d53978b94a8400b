"""How much the members of a fleet differ: one estimator for the nodes of a run and for all nights."""

from __future__ import annotations

import numpy as np
import pytest

from npc.statistics.spread import LONGEST_TAIL, KnownSpread, centres_and_deviations, medians


def test_medians_of_rows_are_those_of_numpy() -> None:
    draw = np.random.default_rng(1)
    values = draw.standard_normal((40, 9))
    values[draw.random(values.shape) < 0.4] = np.nan
    values[:, 0] = 1.0  # numpy warns of a row of nothing
    assert medians(values).tolist() == np.nanmedian(values, axis=1).tolist()
    assert np.isnan(medians(np.full((1, 4), np.nan))).all()


@pytest.mark.parametrize("count", [8, 16, 64, 1000])
def test_the_deviation_of_normal_members_is_theirs(count: int) -> None:
    levels = 0.3 + 0.02 * np.random.default_rng(2).standard_normal((400, count))
    centre, deviation = centres_and_deviations(levels)
    assert np.median(centre) == pytest.approx(0.3, abs=0.002)
    assert np.median(deviation) == pytest.approx(0.02, rel=0.2)


def test_bad_members_hide_neither_behind_each_other_nor_widen_the_fleet() -> None:
    levels = 0.01 * np.random.default_rng(3).standard_normal((1, 64))
    healthy = centres_and_deviations(levels)[1][0]
    levels[0, :6] = -0.5
    assert centres_and_deviations(levels)[1][0] < 1.2 * LONGEST_TAIL * healthy


def test_a_slow_tail_is_wider_than_the_middle_and_a_fast_one_is_not() -> None:
    levels = 0.01 * np.random.default_rng(4).standard_normal((1, 200))
    levels[0, :14] -= 0.04
    slow, fast = (centres_and_deviations(sense * levels)[1][0] for sense in (1, -1))
    assert slow > 1.2 * fast


def test_missing_members_change_nothing() -> None:
    levels = np.random.default_rng(5).standard_normal((1, 20))
    more = np.concatenate([levels, np.full((1, 7), np.nan)], axis=1)
    assert centres_and_deviations(more) == centres_and_deviations(levels)


def test_what_is_known_of_other_fleets_counts_as_some_members() -> None:
    known = KnownSpread(0.02, 4)
    assert known.with_members(0.0, 0) == pytest.approx(0.02)
    assert known.with_members(0.01**2, 4) == pytest.approx(np.sqrt((0.01**2 + 0.02**2) / 2))
    assert known.with_members(0.01**2, 10_000) == pytest.approx(0.01, rel=0.01)
