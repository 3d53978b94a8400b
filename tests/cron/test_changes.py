"""Change points: evidence grows with the nights, and real histories are read as people read them."""

from __future__ import annotations

import math

import numpy as np
import pytest

from npc.cron.changes import changed, level_score
from tests.bench.acceptance import simulate
from tests.bench.histories import (
    BEFORE,
    RULES,
    counted,
    planted,
    published,
    quiet_stretches,
    total,
)


def test_a_change_ten_nights_after_the_beginning_is_told() -> None:
    """20 %: of twelve series most in ten nights, all but one in a month."""
    for sigma in (0.01, 0.02):
        by_nights = dict.fromkeys((10, 30), 0)
        for seed in range(12):
            nights = sigma * np.random.default_rng(seed).standard_normal(70)
            nights[10:] += math.log(1.2)
            for count in by_nights:
                change = changed(nights[: 10 + count])
                by_nights[count] += change is not None and abs(change.night - 10) <= 1 and change.effect > 0.1
        assert by_nights[10] >= 9 and by_nights[30] >= 11, (sigma, by_nights)


def test_evidence_grows_with_the_nights_on_both_sides() -> None:
    by_nights = []
    for seed in range(8):
        rng = np.random.default_rng(seed)
        old, new = 0.02 * rng.standard_normal(300), 0.02 * rng.standard_normal(60) - 0.05
        by_nights.append(
            [
                [level_score(old[-before:], new[:count], -0.05) for count in (7, 20, 60)]
                for before in (30, 100, 300)
            ]
        )
    scores = np.median(by_nights, axis=0)
    assert (np.diff(scores, axis=0) > 0.5).all(), "with the past"
    assert (np.diff(scores[1:], axis=1) > 0.3).all(), "with the nights since then"
    assert scores[2, 2] > 6


def test_what_has_wandered_before_is_no_change() -> None:
    """The same step counts for less where nights resemble each other."""
    rng = np.random.default_rng(4)
    white, wandering = 0.02 * rng.standard_normal((2, 200))
    for t in range(1, 200):
        wandering[t] = 0.95 * wandering[t - 1] + math.sqrt(1 - 0.95**2) * wandering[t]
    scores = [level_score(of[:150], of[150:] - of[150:].mean() - 0.05, -0.05) for of in (white, wandering)]
    assert scores[0] > 4.5 > scores[1]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["independent", "skewed (gamma, 2)"])
def test_a_small_fault_that_stayed_a_quarter_of_a_year_is_not_forgotten(kind: str) -> None:
    """5 % with 2 % of noise: what no three nights told is told by ninety."""
    history = simulate(kind, 3, (60, 190), 0.05, last=90)
    told = [(change := changed(values)) is not None and change.effect < 0 for values in history.values]
    assert (np.array(told) | history.alarms[:, -1]).mean() >= 0.93


#: By rule, steps seen in all published series at least, other alarms at most; and the same of the series that
#: the rule was not looked at with.
TABLE = {
    "NPC": ((22, 19), (5, 10)),
    "XDMoD's control chart": ((12, 6), (4, 4)),
    "3 sigma of 30 nights": ((14, 195), (3, 100)),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", TABLE)
def test_rules_see_as_much_of_real_histories_as_the_page_says(name: str) -> None:
    (rule, _), series = RULES[name], published()
    counts = [counted(rule, row.values, row.steps) for row in series]
    held_out = [count for count, row in zip(counts, series, strict=True) if not row.tuned]
    for count, (seen, others) in zip((total(counts), total(held_out)), TABLE[name], strict=True):
        assert count.seen >= seen and count.others <= others, str(count)


@pytest.mark.slow
def test_steps_that_are_planted_in_real_quiet_stretches_are_seen() -> None:
    """One stretch in three; ``make bench-histories`` takes all."""
    (rule, _), stretches = RULES["NPC"], quiet_stretches()
    assert len(stretches) >= 80
    count = total([counted(rule, planted(stretch, -0.05), (BEFORE,)) for stretch in stretches[::3]])
    assert count.seen >= 0.75 * count.steps and count.others <= 10
