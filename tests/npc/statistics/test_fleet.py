"""Members of one fleet: their spread, the memory and the tails of the noise, levels of few readings."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from npc.statistics.arrays import Floats
from npc.statistics.fleet import KNOWN, FleetNight, FleetWatch

Rng = np.random.Generator


def watched(readings: Floats) -> list[FleetNight]:
    """What is known after each night. readings: nights × members, NaN for none."""
    watch = FleetWatch(1, readings.shape[1])
    return [watch.night(number, night[None]) for number, night in enumerate(readings)]


def normal(nights: int, members: int, spread: float = 0.01, sigma: float = 0.003, seed: int = 1) -> Floats:
    """Nights of members that differ for good, with independent noise."""
    rng = np.random.default_rng(seed)
    readings: Floats = spread * rng.standard_normal(members) + sigma * rng.standard_normal((nights, members))
    return readings


def with_memory(phi: float, nights: int, members: int, seed: int = 1) -> Floats:
    """The same noise, but each reading remembers the one before: an AR(1)."""
    rng = np.random.default_rng(seed)
    noise = rng.standard_normal((nights, members))
    for night in range(1, nights):
        noise[night] = phi * noise[night - 1] + np.sqrt(1 - phi**2) * noise[night]
    readings: Floats = 0.01 * rng.standard_normal(members) + 0.005 * noise
    return readings


def lottery(nights: int, members: int, seed: int = 1) -> Floats:
    """One healthy reading of twenty is 10 to 40 % low, whoever's it is."""
    rng = np.random.default_rng(seed)
    lost = np.log1p(-rng.uniform(0.1, 0.4, (nights, members)))
    readings: Floats = normal(nights, members) + np.where(rng.random((nights, members)) < 0.05, lost, 0.0)
    return readings


def accused(nights: list[FleetNight]) -> Iterator[int]:
    """How many are worse, night by night."""
    return (int(night.worse.sum()) for night in nights)


@pytest.mark.parametrize("spread", [0.005, 0.01, 0.02])
def test_the_spread_is_that_of_the_members(spread: float) -> None:
    last = watched(normal(20, 64, spread))[-1]
    assert last.spread[0] == pytest.approx(spread, rel=0.35)
    assert last.sigma[0] == pytest.approx(0.003, rel=0.2)


@pytest.mark.parametrize(("members", "bad"), [(16, 2), (32, 3), (32, 4), (128, 8), (512, 8)])
def test_a_few_bad_members_do_not_widen_the_spread_and_are_unlike_the_others(members: int, bad: int) -> None:
    """As many as the devices of one node or two."""
    readings = normal(12, members, spread=0.01)
    readings[:, :bad] -= 0.10
    last = watched(readings)[-1]
    assert last.spread[0] < 0.022
    assert np.flatnonzero(last.unlike[0]).tolist() == list(range(bad))
    assert not last.worse.any(), "they did not fall"


def test_of_a_skewed_fleet_the_slow_tail_counts() -> None:
    """A quarter of it is of a slower make, by three standard deviations of the others."""
    readings = normal(12, 64, spread=0.005)
    readings[:, ::4] -= 0.015
    nights = watched(readings)
    assert nights[-1].spread[0] > 0.0075
    assert not nights[-1].unlike.any() and not any(accused(nights))


@pytest.mark.parametrize("phi", [0.5, 0.9])
def test_noise_with_a_memory_accuses_nobody(phi: float) -> None:
    assert sum(accused(watched(with_memory(phi, nights=150, members=32)))) == 0


def test_a_lottery_names_nobody_but_who_has_become_worse() -> None:
    readings = lottery(120, 32)
    assert sum(accused(watched(readings))) == 0
    readings[80:, 5] -= 0.06
    last = watched(readings)[-1]
    assert np.flatnonzero(last.worse[0]).tolist() == [5]
    assert 80 <= last.since[0, 5] <= 90


def test_a_level_of_few_readings_leans_on_the_fleet() -> None:
    readings = normal(10, 32)
    readings[:, 4] = np.nan
    readings[-1, 4] = -0.05
    (once,) = watched(readings)[-1:]
    assert -0.05 < once.level[0, 4] < 0 and once.known[0, 4] == 1
    assert not once.unlike[0, 4], "one reading is no level"
    readings[-KNOWN:, 4] = -0.06
    often = watched(readings)[-1]
    assert often.unlike[0, 4] and often.level[0, 4] == pytest.approx(-0.06, abs=0.01)
    assert not often.worse[0, 4]


def test_one_bad_first_reading_is_no_level_to_rise_or_fall_from() -> None:
    for first in (-0.2, 0.2):
        readings = normal(20, 16)
        readings[0, 3] += first
        assert sum(accused(watched(readings))) == 0, first


def test_a_night_that_is_slow_for_all_accuses_nobody() -> None:
    readings = normal(30, 16)
    readings[20:25] -= 0.2
    nights = watched(readings)
    assert sum(accused(nights)) == 0
    assert nights[22].common[0] == pytest.approx(-0.2, abs=0.01)


def test_who_is_worse_since_when_and_by_how_much() -> None:
    readings = normal(40, 16)
    readings[25:, 7] -= 0.05
    nights = watched(readings)
    assert list(accused(nights[:26])) == [0] * 26 and list(accused(nights[27:])) == [1] * 13
    assert (nights[-1].since[0, 7], nights[-1].step[0, 7]) == (25, pytest.approx(0.05, abs=0.005))
    assert not nights[-1].unlike[0, 7], "who became worse was not always so"


def test_what_was_accepted_is_forgotten() -> None:
    readings = normal(40, 16)
    readings[20:, 7] -= 0.05
    watch = FleetWatch(1, 16)
    worse = []
    for number, night in enumerate(readings):
        if number == 30:
            watch.begin_anew(np.arange(16)[None] == 7)
        worse.append(bool(watch.night(number, night[None]).worse[0, 7]))
    assert worse[22:30] == [True] * 8 and worse[30:] == [False] * 10
