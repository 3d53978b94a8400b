"""Collectives made of messages: the closed formulas of the papers, and what a message-counting run sees."""

from __future__ import annotations

import math

import numpy as np
import pytest

from npc.roofline.models.collectives import OPERATIONS, Round
from npc.roofline.models.piecewise import Sweep, fit_pieces
from npc.roofline.prediction import BelievedModels, predict

ALPHA, BETA, GAMMA = 2e-6, 1e-9, 3e-10
SIZES = 2.0 ** np.arange(24)
PIECES = BelievedModels.alone("Hockney", fit_pieces(Sweep(SIZES, (ALPHA + BETA * SIZES)[:, None])))


def time(operation: str, algorithm: str, processes: int, size: int) -> float:
    """The predicted time without its interval."""
    found = predict(PIECES, [operation], [processes], [size], GAMMA)
    return next(each.time for each in found if each.algorithm == algorithm)


def total(rounds: list[Round]) -> tuple[int, int, int]:
    """Messages, bytes, bytes reduced."""
    return (
        sum(each.messages for each in rounds),
        sum(each.messages * each.size for each in rounds),
        sum(each.messages * each.reduced for each in rounds),
    )


@pytest.mark.parametrize("processes", [2, 4, 16, 1024])
@pytest.mark.parametrize("size", [1024, 1 << 20])
def test_powers_of_two_follow_the_closed_formulas(processes: int, size: int) -> None:
    lg, rest = math.log2(processes), (processes - 1) / processes
    expected = {
        ("bcast", "binomial"): lg * (ALPHA + size * BETA),
        ("bcast", "van de Geijn"): (lg + processes - 1) * ALPHA + 2 * rest * size * BETA,
        ("allreduce", "recursive doubling"): lg * (ALPHA + size * (BETA + GAMMA)),
        ("allreduce", "Rabenseifner"): 2 * lg * ALPHA + rest * size * (2 * BETA + GAMMA),
        ("allreduce", "ring"): 2 * (processes - 1) * ALPHA + rest * size * (2 * BETA + GAMMA),
        ("alltoall", "pairwise"): (processes - 1) * (ALPHA + size * BETA),
        ("alltoall", "Bruck"): lg * (ALPHA + processes / 2 * size * BETA),
        ("barrier", "dissemination"): lg * ALPHA,
    }
    for (operation, algorithm), value in expected.items():
        assert time(operation, algorithm, processes, size) == pytest.approx(value, rel=1e-6), algorithm


@pytest.mark.parametrize("processes", [3, 5, 12, 1000])
def test_other_numbers_of_processes_take_the_steps_of_their_algorithms(processes: int) -> None:
    lg = math.ceil(math.log2(processes))
    size = 1 << 20
    assert total(OPERATIONS["bcast"]["binomial"](processes, size)) == (lg, lg * size, 0)
    messages, volume, _ = total(OPERATIONS["bcast"]["van de Geijn"](processes, size))
    assert messages == lg + processes - 1
    assert volume == pytest.approx(2 * (processes - 1) / processes * size, rel=1e-2)
    steps = lg - 1
    assert total(OPERATIONS["allreduce"]["recursive doubling"](processes, size)) == (
        steps + 2, (steps + 2) * size, (steps + 1) * size,
    )  # fmt: skip
    assert total(OPERATIONS["alltoall"]["Bruck"](processes, 1))[0] == lg
    blocks = sum(block.bit_count() for block in range(processes))
    assert total(OPERATIONS["alltoall"]["Bruck"](processes, 1))[1] == blocks, "each block moves by its bits"
    assert total(OPERATIONS["barrier"]["dissemination"](processes, 0)) == (lg, 0, 0)


@pytest.mark.parametrize("operation", OPERATIONS)
def test_parts_are_whole_bytes(operation: str) -> None:
    for algorithm in OPERATIONS[operation].values():
        for rounds in (algorithm(7, 1), algorithm(1000, 8), algorithm(2, 0)):
            assert all(isinstance(each.size, int) and each.size >= 0 for each in rounds)


def test_the_fastest_algorithm_is_marked_once() -> None:
    for size, best in ((8, "recursive doubling"), (1 << 20, "Rabenseifner")):
        found = [each for each in predict(PIECES, ["allreduce"], [64], [size]) if each.fastest]
        assert [each.algorithm for each in found] == [best]


def test_messages_outside_of_the_fit_are_named() -> None:
    (pairwise, bruck) = predict(PIECES, ["alltoall"], [64], [1 << 20])
    assert pairwise.beyond == ()
    assert bruck.beyond == (32 << 20,)
    (barrier,) = predict(PIECES, ["barrier"], [64], [8])
    assert barrier.beyond == (0,) and barrier.size is None


def test_the_interval_is_as_wide_as_the_model_s_errors() -> None:
    rng = np.random.default_rng(1)
    times = (ALPHA + BETA * SIZES)[:, None] * (1 + 0.1 * rng.standard_normal((len(SIZES), 6)))
    (made,) = predict(BelievedModels.alone("Hockney", fit_pieces(Sweep(SIZES, times))), ["send"], [2], [3000])
    assert made.low and made.high
    assert made.low < ALPHA + BETA * 3000 < made.high
    assert 1.05 < made.high / made.low < 2
