"""The time of a whole program as the sum of what each resource takes, fitted to the runs of a study.

T / T_ref = α_MPI NB_ref/NB + α_CPU f_ref/f + α_BW BW_ref/BW + α_IO IOB_ref/IOB with Σα = 1 and α ≥ 0 (Wang, A
Methodology for Performance Engineering with eBPF, 2023, Eq. 3.2). With β = α T_ref that is linear, T = Σ β x,
where x is how many times less a resource gives than in the reference. What no condition changed stands
together in one constant, the rest.

A condition's time and rates are trimmed means of logarithms over its runs: a run beside which something else
happened has no say. The intervals are those of the fit without α ≥ 0, cut to [0, 1], so they cover where an α
is 0, too; those of all shares hold together (Bonferroni). The uncertainties of times and rates are propagated
(`npc.observe.study.propagation`). What the form is off by from condition to condition is estimated by what
the spread of runs leaves unexplained, and widens them (the random effect of DerSimonian and Laird, Controlled
Clinical Trials 7, 1986).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

import numpy as np

from npc.observe.study.program_conditions import RATES, SURELY, WORDS, Conditions, Resource, gather
from npc.observe.study.propagation import derivatives, effective_dof, f_upper_tail, half_width
from npc.observe.study.records import ProgramModel, Share, Study
from npc.statistics.arrays import Floats
from npc.statistics.medians import LEVEL

#: The form is called wrong below this probability, and from this error at a condition left out on: with
#: enough runs every form is found to be wrong.
SIGNIFICANT: Final = 0.01
TOLERABLE: Final = 0.05
#: A column that the others make but for this part of it tells nothing of its own: x, and the largest part.
_OWN: Final = 0.03
_LARGEST_OWN: Final = 0.003


class ModelMisfit(NamedTuple):
    """What the spread of runs does not explain."""

    #: Variance of ln T from condition to condition that is left; 0 where nothing is.
    variance: float
    #: Degrees of freedom of `variance`.
    dof: float
    #: Probability of as much if the form were right; None where there is nothing to tell it by.
    p: float | None


class Number(NamedTuple):
    """A value with its interval."""

    #: The number itself: a time in s, or a share of 1.
    value: float
    #: Lower end of the interval, in the unit of `value`.
    low: float
    #: Upper end of the interval, in the unit of `value`.
    high: float


@dataclass(frozen=True, slots=True)
class Solution:
    """Conditions with their fit."""

    #: What was fitted, the reference first.
    conditions: Conditions
    #: β in s: of the rest, then of each resource; none is below 0.
    seconds: Floats
    #: How far the conditions are off the fit.
    misfit: ModelMisfit

    def number(
        self,
        function: Callable[[Floats], Floats],
        level: float,
        new: float = 0.0,
        more: Sequence[tuple[float, float]] = (),
    ) -> Number:
        """What `function` makes of rows of the conditions' inputs.

        new: how often the form's own error is in it once more (1: in the logarithm of a time that was not
        measured). more: variances, with their degrees of freedom, of what else is in it.
        """
        at, variances, dof = self.conditions.inputs
        slopes = derivatives(lambda rows: function(rows)[:, None], at)[0]
        parts = slopes**2 * variances
        off = self.misfit.variance * (float(np.sum(slopes[: len(self.conditions.names)] ** 2)) + new)
        parts = np.concatenate([parts, [off], [variance for variance, _ in more]])
        dof = np.concatenate([dof, [self.misfit.dof], [dof_of_one for _, dof_of_one in more]])
        value = float(function(at[None])[0])
        half = half_width(float(np.sum(parts)), effective_dof(parts, dof), level)
        return Number(value, value - half, value + half)


def fit(study: Study, level: float = LEVEL) -> ProgramModel:
    """The model of a study's program. Raises ValueError where its reference has no run that succeeded."""
    conditions = gather(study)
    distinguished, confounded = tell_apart(conditions)
    solution = solve(distinguished)
    shares = tuple(_shares(solution, confounded, level))
    overlap = _overlap(solution, level) if distinguished.resources else None
    held_out = dict(_held_out(distinguished))
    wrong = list(_wrong(solution, overlap, held_out))
    return ProgramModel(
        reference=conditions.names[0],
        seconds=float(solution.seconds.sum()),
        rates={
            RATES[name]: math.exp(row[0].value)
            for name, row in zip(conditions.resources, conditions.rates, strict=True)
        },
        shares=shares,
        coverage=level,
        lack_of_fit=solution.misfit.p,
        fits=bool(distinguished.resources) and not wrong,
        overlap=overlap.value if overlap else None,
        overlap_low=overlap.low if overlap else None,
        overlap_high=overlap.high if overlap else None,
        held_out=held_out,
        left_out=conditions.left_out,
        note=" ".join([*wrong, *_remarks(solution)]),
    )


def solve(conditions: Conditions) -> Solution:
    """The fit to some conditions."""
    return Solution(conditions, constrained(conditions), misfit(conditions))


def design(conditions: Conditions, inputs: Floats) -> tuple[Floats, Floats]:
    """(x of the rest, 1, and of each resource in each condition; the seconds) of several rows of inputs."""
    count = len(conditions.names)
    rates = inputs[:, count:].reshape(len(inputs), len(conditions.resources), count)
    slower = np.exp(rates[:, :, :1] - rates)
    x = np.concatenate([np.ones((len(inputs), 1, count)), slower], axis=1).transpose(0, 2, 1)
    return x, np.exp(inputs[:, :count])


def free(conditions: Conditions, inputs: Floats) -> Floats:
    """β by least squares of relative errors, also below 0, of several rows of inputs."""
    return _least_squares(*design(conditions, inputs))[0]


def constrained(conditions: Conditions) -> Floats:
    """β ≥ 0 by least squares of relative errors (Lawson, Hanson, Solving Least Squares Problems, 1974)."""
    from scipy.optimize import nnls

    x, seconds = design(conditions, conditions.inputs[0][None])
    beta: Floats = nnls(x[0] / seconds[0][:, None], np.ones(len(conditions.names)))[0]
    return beta


def _least_squares(x: Floats, seconds: Floats) -> tuple[Floats, Floats]:
    """(coefficients, relative residuals) of several systems."""
    relative = x / seconds[:, :, None]
    beta = np.linalg.pinv(relative).sum(axis=2)
    return beta, 1 - (relative @ beta[:, :, None])[:, :, 0]


def misfit(conditions: Conditions) -> ModelMisfit:
    """How far the conditions are off the form beyond what the spread of their runs explains.

    The squares of the residuals are held against those that the runs' spread makes (their expectation and
    degrees of freedom as Brown and Forsythe, Technometrics 16, 1974, for unequal variances).
    """
    at, variances, dof = conditions.inputs
    count = len(conditions.names)
    left = count - 1 - len(conditions.resources)
    if left < 1:
        return ModelMisfit(0.0, 1.0, None)

    def residuals(rows: Floats) -> Floats:
        return _least_squares(*design(conditions, rows))[1]

    squares = float(np.sum(residuals(at[None]) ** 2))
    slopes = derivatives(residuals, at)
    parts = np.sum(slopes**2, axis=0) * variances
    expected = float(np.sum(parts))
    variance = max(squares - expected, 0.0) / float(np.sum(slopes[:, :count] ** 2))
    if expected <= 0:
        return ModelMisfit(variance, left, None)
    covariance = (slopes * variances) @ slopes.T
    above = expected**2 / float(np.sum(covariance**2))
    return ModelMisfit(variance, left, f_upper_tail(squares / expected, above, effective_dof(parts, dof)))


def tell_apart(conditions: Conditions) -> tuple[Conditions, tuple[Resource, ...]]:
    """(the conditions with resources that differ from each other, those that do not differ).

    A resource that went along with others stands for these; the first of them remains, for all.
    """
    confounded: list[Resource] = []
    while same := _same_as_others(conditions):
        confounded = list(dict.fromkeys([*same, *confounded]))
        conditions = conditions.of([resource for resource in conditions.resources if resource != same[-1]])
    return conditions, tuple(name for name in RATES if name in confounded)


def _same_as_others(conditions: Conditions) -> list[Resource]:
    """The resources whose x is made of the others' but for the error of its rates."""
    if len(conditions.resources) < 2 and len(conditions.names) > 1:
        return []
    x = design(conditions, conditions.inputs[0][None])[0][0]
    resources: list[Resource] = []
    for place, name in enumerate(conditions.resources):
        # the reference's own error makes all x larger or smaller alike
        error = math.sqrt(float(np.mean([rate.variance for rate in conditions.rates[place][1:]])))
        if _own(x, place + 1) < max(_OWN, SURELY * error / 2):
            resources.append(name)
    return resources


def _own(x: Floats, place: int) -> float:
    """The relative part of a column that is not made of the others, as the root of its mean square."""
    own, others = x[:, place], np.delete(x, place, axis=1)
    left = (own - others @ (np.linalg.pinv(others) @ own)) / own
    return math.sqrt(float(np.mean(left**2)))


def _shares(solution: Solution, confounded: tuple[Resource, ...], level: float) -> Iterator[Share]:
    """Each resource's, then the rest's, their intervals with `level` together."""
    conditions = solution.conditions
    total = float(solution.seconds.sum())
    together = 1 - (1 - level) / (1 + len(conditions.resources))
    fixed = [name for name in RATES if name in conditions.reasons]

    def share(name: Resource | Literal["rest"], place: int, reason: str = "") -> Share:
        value = float(solution.seconds[place]) / total
        _, low, high = solution.number(_part(conditions, place), together)
        return Share(name, value, max(min(low, value), 0.0), min(max(high, value), 1.0), reason)

    for name in RATES:
        if name in confounded:
            others = " and ".join(WORDS[resource] for resource in confounded if resource != name)
            why = f"{WORDS[name]} was changed only together with {others or 'others'}"
            yield Share(name, None, None, None, why)
        elif name in conditions.resources:
            yield share(name, 1 + conditions.resources.index(name))
        elif fixed == [name] and not confounded:
            why = f"{conditions.reasons[name]}; by Σα = 1: what no other resource takes, waiting in it"
            yield share(name, 0, why)
        else:
            yield Share(name, None, None, None, conditions.reasons[name])
    if confounded:
        yield Share("rest", None, None, None, "not told apart from what was changed together")
    elif len(fixed) != 1:
        held = " and ".join(WORDS[name].removesuffix(" bandwidth") for name in fixed)
        yield share("rest", 0, f"{held}, with latency and waiting" if fixed else "latency, waiting, start")


def _part(conditions: Conditions, place: int) -> Callable[[Floats], Floats]:
    """α of one part as a function of rows of inputs, also below 0."""

    def part(rows: Floats) -> Floats:
        beta = free(conditions, rows)
        share: Floats = beta[:, place] / beta.sum(axis=1)
        return share

    return part


def _overlap(solution: Solution, level: float) -> Number | None:
    """How far parts run at the same time: o in T = (1 − o) Σ + o max; None where the plan cannot tell.

    One degree of freedom for what is no sum, after Tukey (Biometrics 5, 1949): the largest part of the fit is
    one more column.
    """
    conditions = solution.conditions
    if solution.misfit.dof < 2 or solution.misfit.p is None:
        return None

    def largest(rows: Floats) -> tuple[Floats, Floats]:
        x, seconds = design(conditions, rows)
        beta = _least_squares(x, seconds)[0]
        most = np.maximum(x * beta[:, None, :], 0).max(axis=2)
        return np.concatenate([x, most[:, :, None]], axis=2), seconds

    def overlap(rows: Floats) -> Floats:
        gamma = _least_squares(*largest(rows))[0][:, -1]
        part: Floats = gamma / (1 + gamma)
        return part

    if _own(largest(conditions.inputs[0][None])[0][0], -1) < _LARGEST_OWN:
        return None
    return solution.number(overlap, level)


def _held_out(conditions: Conditions) -> Iterator[tuple[str, float]]:
    """Each condition but the reference with measured / predicted by the fit without it, where that can be."""
    x, seconds = design(conditions, conditions.inputs[0][None])
    for place in range(1, len(conditions.names)):
        others = conditions.without(place)
        if len(others.names) > len(others.resources) and not _same_as_others(others):
            predicted = float(x[0, place] @ constrained(others))
            if predicted > 0:
                yield conditions.names[place], float(seconds[0, place]) / predicted


def _wrong(solution: Solution, overlap: Number | None, held_out: Mapping[str, float]) -> Iterator[str]:
    """What says that the time is no such sum, a sentence each."""
    worst = max(held_out, key=lambda name: abs(math.log(held_out[name])), default="")
    significant = solution.misfit.p is not None and solution.misfit.p < SIGNIFICANT
    if significant and worst and abs(held_out[worst] - 1) > TOLERABLE:
        yield (
            f"The time is no sum of such parts (lack of fit, p = {solution.misfit.p:.2g}): {worst} took "
            f"{held_out[worst]:.3g} times what the other conditions say."
        )
    if overlap and abs(overlap.value) > TOLERABLE and not overlap.low <= 0 <= overlap.high:
        yield (
            f"Parts run at the same time (overlap {_percent(overlap)}): the shares are no parts of a sum."
            if overlap.value > 0
            else f"Parts are in each other's way (overlap {_percent(overlap)}): more than their sum."
        )
    alphas = [
        solution.number(_part(solution.conditions, place), 1 - SIGNIFICANT)
        for place in range(len(solution.seconds))
    ]
    if alphas[0].high < -TOLERABLE:
        yield (
            f"What was varied takes more than the whole time (the rest: {_percent(alphas[0])}): parts run at "
            "the same time."
        )
    for name, alpha in zip(solution.conditions.resources, alphas[1:], strict=True):
        if alpha.high < -TOLERABLE:
            yield f"With less of it the program was faster ({WORDS[name]}): something else changed, too."


def _percent(number: Number) -> str:
    return f"{100 * number.value:.2g} % [{100 * number.low:.2g}, {100 * number.high:.2g}] %"


def _remarks(solution: Solution) -> Iterator[str]:
    """What to know beside the numbers, a sentence each."""
    conditions, runs = solution.conditions, solution.conditions.inputs[2]
    if not conditions.resources:
        yield "No resource was varied: the plan says nothing about the shares."
    elif not runs.any():
        yield "No condition was run twice: the intervals rest on how far conditions are off the form."
    elif solution.misfit.p is None:
        yield "There are no more conditions than parts: nothing tells whether the form is right."
