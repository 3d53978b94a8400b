"""Studies of a program whose shares are known, made up: noise and errors of families that no fit assumes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from npc.observe.study.records import Condition, ProgramRun, Study

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

#: What each rate is in the reference, in Hz or bytes/s.
USUAL: Final = {"cpu": 2e9, "memory": 1e10, "network": 1e9, "io": 2e8}
#: How many times less each condition gives; the first is the reference.
PLAN: Final[Sequence[Mapping[str, float]]] = (
    {},
    {"memory": 1.5},
    {"memory": 2.5},
    {"network": 2},
    {"network": 5},
    {"io": 2},
    {"io": 4},
    {"memory": 2, "network": 3},
    {"network": 3, "io": 3},
    {"cpu": 1.3},
    {"cpu": 1.8},
)
#: The same where the clock cannot be set.
FIXED_CLOCK: Final = tuple(each for each in PLAN if "cpu" not in each)
#: Families of noise of a run's time.
NOISE: Final = ("gamma", "telegraph", "heavy", "outliers", "offsets", "drift", "by condition")


def noise(kind: str, rng: np.random.Generator, shape: tuple[int, int]) -> Floats:
    """Factors of run times, (conditions, runs). Runs are shuffled, so what drifts hits all conditions."""
    import numpy as np

    if kind == "gamma":  # bursts of others: some runs take a lot, most hardly anything
        return 1 + rng.gamma(0.6, 0.05, shape)
    if kind == "telegraph":  # two states of the machine
        return 1 + 0.02 * rng.random(shape) + 0.12 * (rng.random(shape) < 0.25)
    if kind == "heavy":
        return np.exp(0.02 * rng.standard_t(2.2, shape))
    if kind == "outliers":
        return 1 + np.where(rng.random(shape) < 0.08, rng.random(shape), 0.02 * rng.random(shape))
    if kind == "offsets":  # of a fresh process: pages, placement
        return np.exp(0.04 * rng.standard_normal(shape))
    if kind == "drift":
        order = rng.permutation(shape[0] * shape[1]).reshape(shape) / (shape[0] * shape[1])
        return 1 + 0.1 * order + 0.01 * rng.random(shape)
    if kind == "by condition":  # some conditions are noisier, and slower by it
        return 1 + rng.gamma(1, 0.03, shape) * (1 + np.arange(shape[0])[:, None] % 3)
    raise ValueError(f"no noise {kind}")


def random_shares(rng: np.random.Generator) -> dict[str, float]:
    """Shares of cpu, memory, network and io; in every second one of them is 0."""
    shares = rng.dirichlet([1, 1, 1, 1])
    if rng.random() < 0.5:
        shares[rng.integers(4)] = 0
    return dict(zip(USUAL, (shares / shares.sum()).tolist(), strict=True))


def made_study(
    shares: Mapping[str, float],
    kind: str,
    rng: np.random.Generator,
    plan: Sequence[Mapping[str, float]] = PLAN,
    runs: int = 6,
    rate_error: float = 0.02,
    overlap: float = 0.0,
) -> tuple[Study, dict[str, float]]:
    """(study, the true shares of what shows in the reference's time) of 10 s of a program.

    rate_error: scale of what a measured rate is too low by, new in each run. overlap: this part of all but
    the largest of the parts is hidden behind that one.
    """
    import numpy as np

    slower = np.array([[each.get(name, 1.0) for name in USUAL] for each in plan])
    parts = slower * np.array([shares[name] for name in USUAL])
    seconds = 10 * ((1 - overlap) * parts.sum(axis=1) + overlap * parts.max(axis=1))
    taken = seconds[:, None] * noise(kind, rng, (len(plan), runs))
    ran = [
        ProgramRun(
            f"c{place}",
            sample,
            float(taken[place, sample]),
            "ok",
            {
                name: float(usual / slower[place, column] * (1 - min(rng.gamma(1, rate_error), 0.5)))
                for column, (name, usual) in enumerate(USUAL.items())
            },
        )
        for place in range(len(plan))
        for sample in range(runs)
    ]
    conditions = tuple(
        Condition(
            name=f"c{place}",
            frequency_hz=_left(each, "cpu"),
            memory=math.ceil(each["memory"]) if "memory" in each else None,
            network=_left(each, "network"),
            io=_left(each, "io"),
        )
        for place, each in enumerate(plan)
    )
    largest = max(shares, key=lambda name: shares[name])
    shown = {name: share * (1 if name == largest else 1 - overlap) for name, share in shares.items()}
    truth = {name: share / sum(shown.values()) for name, share in shown.items()}
    truth["mpi"] = truth.pop("network")
    return study_of(conditions, ran, runs), truth


def study_of(conditions: Sequence[Condition], ran: Sequence[ProgramRun], runs: int = 1) -> Study:
    """A study with these runs."""
    return Study(
        command=("program",), program="program", platform="made", started="2026-11-23T10:00:00+00:00", seed=1,
        runs=runs, conditions=tuple(conditions), ran=tuple(ran),
    )  # fmt: skip


def _left(given: Mapping[str, float], name: str) -> float | None:
    return USUAL[name] / given[name] if name in given else None
