"""What of a study tells how a program's time depends on each resource: its conditions as times and rates."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Final, Literal

import numpy as np

from npc.observe.study.propagation import Input, pooled, trimmed_mean
from npc.observe.study.records import Condition, ProgramRun, Study
from npc.statistics.arrays import Floats

Resource = Literal["cpu", "memory", "mpi", "io"]
#: The resources, and the key of `ProgramRun.rates` that says what each gave.
RATES: Final[Mapping[Resource, str]] = {"cpu": "cpu", "memory": "memory", "mpi": "network", "io": "io"}
#: What is varied of each, in a sentence.
WORDS: Final[Mapping[Resource, str]] = {
    "cpu": "the clock", "memory": "memory bandwidth", "mpi": "network bandwidth", "io": "I/O bandwidth",
}  # fmt: skip
#: A resource counts as varied from this factor between two conditions on, and from this number of standard
#: uncertainties: below, the errors of the rates would make the fit.
VARIED: Final = 1.2
SURELY: Final = 4.0


@dataclass(frozen=True, slots=True)
class Conditions:
    """Conditions that do the same work, the reference first."""

    #: What each is called.
    names: tuple[str, ...]
    #: Those that were varied; empty where none was.
    resources: tuple[Resource, ...]
    #: ln of each condition's time in s.
    times: tuple[Input, ...]
    #: ln of what each resource gave, in Hz or B/s: a row a resource, in it a value a condition.
    rates: tuple[tuple[Input, ...], ...]
    #: Resource → why it does not count as varied; empty where all do.
    reasons: Mapping[Resource, str]
    #: Condition → why it is none of these; empty where all are.
    left_out: Mapping[str, str]

    @property
    def inputs(self) -> tuple[Floats, Floats, Floats]:
        """Values, variances and degrees of freedom of the times, then of the rates of each resource."""
        values, variances, dof = np.array(sum(self.rates, self.times), dtype=float).T
        return values, variances, dof

    def without(self, place: int) -> Conditions:
        """These without one condition."""

        def rest(values: Sequence[Input]) -> tuple[Input, ...]:
            return (*values[:place], *values[place + 1 :])

        return replace(
            self,
            names=(*self.names[:place], *self.names[place + 1 :]),
            times=rest(self.times),
            rates=tuple(map(rest, self.rates)),
        )

    def of(self, resources: Sequence[Resource]) -> Conditions:
        """These with some of their resources."""
        rates = tuple(row for name, row in zip(self.resources, self.rates, strict=True) if name in resources)
        return replace(self, resources=tuple(resources), rates=rates)


def reference_of(conditions: Sequence[Condition]) -> Condition | None:
    """Of the conditions that leave the machine as it is, the first of those with which most others share
    nodes, ranks, threads, binding and variables; None where there is none."""
    usual = [member for member in conditions if member.usual]

    def alike(condition: Condition) -> int:
        return sum(other.same_work(condition) for other in conditions)

    return max(usual, key=alike, default=None)


def gather(study: Study) -> Conditions:
    """The conditions with the reference's nodes, ranks, threads, binding and variables, and what they took.

    Raises ValueError where the reference has no run that succeeded.
    """
    reference = reference_of(study.conditions)
    if reference is None:
        raise ValueError("no condition leaves the machine as it is: there is no reference")
    alike = [reference, *(c for c in study.conditions if c != reference and c.same_work(reference))]
    runs = {
        member.name: [run for run in study.ran if run.condition == member.name and _good(run)]
        for member in alike
    }
    if not runs[reference.name]:
        raise ValueError(f"no run of the reference, {reference.name}, succeeded: there is nothing to fit")
    left_out = {name: "no run of it succeeded" for name, good_runs in runs.items() if not good_runs}
    runs = {name: good_runs for name, good_runs in runs.items() if good_runs}
    reasons: dict[Resource, str] = {}
    for resource, key in RATES.items():
        if reason := _not_varied(key, runs, reference.name):
            reasons[resource] = f"{WORDS[resource]} {reason}"
    resources = tuple(resource for resource in RATES if resource not in reasons)
    for name, good_runs in list(runs.items()):
        lacking = [WORDS[resource] for resource in resources if not _rates(good_runs, RATES[resource])]
        if lacking:
            left_out[name] = f"{' and '.join(lacking)} not measured in it"
            del runs[name]
    return Conditions(
        names=tuple(runs),
        resources=resources,
        times=_means(
            [math.log(run.seconds) for run in good_runs if run.seconds] for good_runs in runs.values()
        ),
        rates=tuple(
            _means(_rates(good_runs, RATES[resource_name]) for good_runs in runs.values())
            for resource_name in resources
        ),
        reasons=reasons,
        left_out=left_out,
    )


def _good(run: ProgramRun) -> bool:
    return run.status == "ok" and run.seconds is not None and 0 < run.seconds < math.inf


def _rates(runs: Iterable[ProgramRun], key: str) -> list[float]:
    """ln of a rate in the runs that have it."""
    return [math.log(run.rates[key]) for run in runs if 0 < run.rates.get(key, 0) < math.inf]


def _means(values: Iterable[Sequence[float]]) -> tuple[Input, ...]:
    return tuple(pooled([trimmed_mean(value) for value in values]))


def _not_varied(key: str, runs: Mapping[str, Sequence[ProgramRun]], reference: str) -> str:
    """Why a rate tells nothing; empty where it does."""
    measured = {
        name: measured_rates
        for name, condition_runs in runs.items()
        if (measured_rates := _rates(condition_runs, key))
    }
    if reference not in measured:
        return "was not measured in the reference" if measured else "was not measured"
    means = pooled([trimmed_mean(values) for values in measured.values()])
    apart = max(mean.value for mean in means) - min(mean.value for mean in means)
    if apart < math.log(VARIED):
        return f"was changed by no condition (at most {math.exp(apart):.3g} times)"
    if not any(map(_surely_apart, *zip(*combinations(means, 2), strict=True))):
        return f"was not surely changed: {math.exp(apart):.3g} times is within the errors of its rates"
    return ""


def _surely_apart(one: Input, other: Input) -> bool:
    apart = abs(one.value - other.value)
    return apart > max(math.log(VARIED), SURELY * math.sqrt(one.variance + other.variance))
