"""The time of a program on a machine that it has not run on."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest

from npc.observe.study.program_conditions import RATES, gather
from npc.observe.study.program_model import solve, tell_apart
from npc.observe.study.program_prediction import CannotPredict, Ratio, predict, ratios_of, scaled
from npc.observe.study.records import Study
from npc.roofline.ceilings import find_ceilings
from npc.roofline.result import Roofline
from tests.made.measured import AROUND, peak, records
from tests.made.studies import FIXED_CLOCK, NOISE, made_study, random_shares

SHARES = {"cpu": 0.3, "memory": 0.5, "network": 0.2, "io": 0.0}
#: Seven samples within a hundredth.
CLOSE = tuple(1 + (factor - 1) / 10 for factor in AROUND)


def machine(
    memory: float, a_core: float, cores: int, network: float, spread: Sequence[float] = CLOSE
) -> Roofline:
    """Ceilings: STREAM's triad, DGEMM of all cores, bandwidth of MPI messages within a node."""
    return find_ceilings(
        [
            *records("stream", "triad", memory, spread=spread),
            *peak("peakflops_avx", a_core * cores, params={"threads": str(cores)}, spread=spread),
            *records("osu", "osu_bw", network, size=1 << 20, spread=spread),
            *records("qperf", "tcp_bw", 99 * network, size=1 << 20, spread=spread),
        ]
    )


HERE = machine(10e9, 4e9, 2, 5e9)


def a_study(seed: int = 1) -> Study:
    return made_study(SHARES, "gamma", np.random.default_rng(seed), FIXED_CLOCK, rate_error=0.01)[0]


def test_each_part_scales_with_its_resource() -> None:
    there = machine(40e9, 8e9, 64, 2.5e9)
    found = predict(a_study(), HERE, there, {"io": 1})
    exact = 10 * (0.3 / 2 + 0.5 / 4 + 0.2 * 2)
    assert found.low is not None and found.high is not None
    assert found.low <= exact * 1.03 <= found.high
    assert found.high - found.low < 0.25 * exact
    assert found.seconds == pytest.approx(exact * 1.03, rel=0.1)
    assert found.dominates == "mpi"
    terms = {term.name: term for term in found.terms}
    assert terms["memory"].slower == pytest.approx((0.25, 0.25))
    assert terms["memory"].source == "STREAM triad: 10 GB/s here, 40 GB/s there"
    assert found.notes[0].startswith("Beyond what was varied: memory bandwidth. What is hidden behind")
    assert terms["rest"].source.startswith("peak double a thread: 4 GFLOP/s here, 8 GFLOP/s there")


def test_compute_is_compared_by_the_thread_and_the_network_by_mpi() -> None:
    ratios = ratios_of(HERE, machine(10e9, 4e9, 64, 10e9), nodes=1)
    assert ratios["cpu"].value == pytest.approx(1)
    assert ratios["mpi"].value == pytest.approx(0.5)
    assert "osu_bw" in ratios["mpi"].source
    assert "mpi" not in ratios_of(HERE, HERE, nodes=2)


def test_what_is_not_told_apart_scales_as_any_of_it() -> None:
    plan = [each for each in FIXED_CLOCK if "io" not in each]
    study = made_study(SHARES, "gamma", np.random.default_rng(1), plan, rate_error=0.01)[0]
    there = machine(10e9, 8e9, 2, 5e9)
    found = predict(study, HERE, there, {"io": 4})
    rest = next(term for term in found.terms if term.name == "rest")
    assert rest.slower == pytest.approx((0.5, 4))
    assert rest.low < 10 * 0.3 * 0.55 and rest.high > 10 * 0.3 * 3.5
    assert found.dominates == ""
    assert not any("Beyond" in note for note in found.notes)
    assert "Not told apart, so it may scale as any of them: cpu, io." in found.notes


def test_a_ratio_that_nobody_knows_is_asked_for() -> None:
    only_memory = find_ceilings(list(records("stream", "triad", 1e10)))
    with pytest.raises(CannotPredict, match=r"clock and network bandwidth .* --ratio cpu=1 --ratio mpi=1"):
        predict(a_study(), HERE, only_memory, {"io": 1})


def test_few_samples_of_a_ceiling_leave_no_interval() -> None:
    found = predict(a_study(), HERE, machine(40e9, 8e9, 64, 2.5e9, CLOSE[:3]), {"io": 1})
    assert found.low is None and found.dominates == ""
    assert any("fewer than six samples of a ceiling" in note for note in found.notes)


def test_uncertain_ceilings_widen_the_interval() -> None:
    widths = []
    for spread in (CLOSE, AROUND):
        found = predict(a_study(), HERE, machine(40e9, 8e9, 64, 2.5e9, spread), {"io": 1})
        assert found.low is not None and found.high is not None
        widths.append(found.high - found.low)
    assert widths[1] > 1.5 * widths[0]


def test_a_condition_that_was_left_out_is_predicted() -> None:
    """Its rates are the other machine's; what it took is the truth."""
    within = []
    for kind in NOISE:
        rng = np.random.default_rng(7)
        for name in ("c7", "c4"):
            every = gather(made_study(random_shares(rng), kind, rng)[0])
            place = every.names.index(name)
            found = solve(tell_apart(every.without(place))[0])
            ratios = {
                each: Ratio(
                    math.exp(row[0].value - row[place].value),
                    row[0].variance + row[place].variance,
                    row[place].dof,
                    "",
                )
                for each, row in zip(every.resources, every.rates, strict=True)
            }
            rest = [each for each in RATES if each not in found.conditions.resources]
            total, _ = scaled(found, ratios, rest, 0.95)
            within.append(total.low <= math.exp(every.times[place].value) <= total.high)
    assert sum(within) >= 0.85 * len(within)
