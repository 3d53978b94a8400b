"""The time of a program on a machine that it has not run on: each part as that machine's ceilings say.

T_there = Σ β R_here / R_there. What a resource gives here and there is told by the same test in both
characterisations: a ratio of different tests would be none of machines. The compute ceilings are taken a
thread, for the program has as many there as here.

The interval has the uncertainty of the shares and of the reference's time, that of both machines' ceilings,
and once more what the form is off by between conditions (`npc.observe.study.program_model`). How a time
scales that no condition took apart is not known: it lies between the ratios of what is in it, and the
interval has both.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from npc.observe.study.program_conditions import RATES, WORDS, Conditions, Resource, gather
from npc.observe.study.program_model import Number, Solution, fit, free, solve, tell_apart
from npc.observe.study.records import Study
from npc.records.units import format_quantity
from npc.roofline.messages import of_mpi
from npc.roofline.result import Ceiling, Roofline
from npc.statistics.arrays import Floats
from npc.statistics.distributions import student_quantile
from npc.statistics.medians import LEVEL

#: A part that surely is less than this of the time needs no ratio.
NEGLIGIBLE: Final = 0.02
#: So far beyond its conditions (in ln) a ratio may be without a word.
_SPARE: Final = 0.1
#: What a program reaches first: tuned library calls, then kernels in assembler; what compiled code reaches.
_COMPUTE: Final = ("dgemm", "DGEMM", "peak double", "peak single")
_MEMORY: Final = ("STREAM triad", "MEM load")


class CannotPredict(ValueError):
    """Something is missing; the message says what, and what to do."""


class Ratio(NamedTuple):
    """What a resource gives here, compared with there."""

    #: How many times less the resource gives there than here: 2 is half as much.
    value: float
    #: Variance of the logarithm of `value`; None where too few samples tell it.
    variance: float | None
    #: Degrees of freedom of `variance`; infinite where somebody gave the ratio.
    dof: float
    #: What tells it, in words: the test, and what it measured here and there.
    source: str


class Term(NamedTuple):
    """One part of the time there."""

    #: The part: ``cpu``, ``memory``, ``mpi``, ``io``, or ``rest`` for what none of these takes.
    name: str
    #: How long this part takes there, in s.
    seconds: float
    #: Lower end of the interval of `seconds`, in s.
    low: float
    #: Upper end of the interval of `seconds`, in s.
    high: float
    #: How many times as long as here it takes: at least, at most.
    slower: tuple[float, float]
    #: What tells that, in words.
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """The time of a study's program on another platform."""

    #: What the study calls the program.
    program: str
    #: Name of the platform that the study ran on.
    here: str
    #: Name of the platform that the time is predicted for.
    there: str
    #: Name of the condition whose time is predicted.
    reference: str
    #: Time of that condition here, in s, as the model has it.
    measured: float
    #: Its time there, in s.
    seconds: float
    #: Lower end of the interval of `seconds`, in s; None where the error of a ceiling is not known.
    low: float | None
    #: Upper end of the interval of `seconds`, in s; None where `low` is.
    high: float | None
    #: Probability that the interval holds the true time, 0 to 1.
    coverage: float
    #: The parts of the time there; those that take no time are left out.
    terms: tuple[Term, ...]
    #: Name of the part that takes most there; empty where another one may take more.
    dominates: str
    #: What the reader has to know about it, a sentence each; empty where there is nothing.
    notes: tuple[str, ...]


def ratios_of(here: Roofline, there: Roofline, nodes: int) -> dict[Resource, Ratio]:
    """What two characterisations tell, as far as both have the same test. nodes: of the program."""
    pairs: dict[Resource, tuple[Ceiling, Ceiling] | None] = {
        "cpu": _pair(here, there, _COMPUTE),
        "memory": _pair(here, there, _MEMORY),
        "mpi": _network(here, there, nodes),
    }
    return {name: _ratio(*pair, a_thread=name == "cpu") for name, pair in pairs.items() if pair is not None}


def _pair(here: Roofline, there: Roofline, names: Sequence[str]) -> tuple[Ceiling, Ceiling] | None:
    """The first of the ceilings that both have."""
    for name in names:
        pair = tuple(
            next((c for c in roofline.ceilings if c.name == name), None) for roofline in (here, there)
        )
        if pair[0] is not None and pair[1] is not None:
            return pair[0], pair[1]
    return None


def _network(here: Roofline, there: Roofline, nodes: int) -> tuple[Ceiling, Ceiling] | None:
    """The fastest test of messages here that both have, between nodes or within one as the program's are."""
    for ceiling in here.of_kind("network"):
        if not of_mpi(ceiling.benchmark, ceiling.case) or (ceiling.nodes > 1) != (nodes > 1):
            continue
        same = (ceiling.benchmark, ceiling.case, ceiling.nodes)
        for other in there.of_kind("network"):
            if (other.benchmark, other.case, other.nodes) == same:
                return ceiling, other
    return None


def _ratio(here: Ceiling, there: Ceiling, a_thread: bool) -> Ratio:
    rates, variances, per = [], [], ""
    threads = [int(ceiling.params.get("threads", 0)) for ceiling in (here, there)]
    for ceiling, number in zip((here, there), threads, strict=True):
        rates.append(ceiling.value / number if a_thread and all(threads) else ceiling.value)
        if ceiling.low and ceiling.high and ceiling.coverage:
            # the interval of order statistics, as wide as that of a normal distribution would be
            half = math.log(ceiling.high / ceiling.low) / 2
            variances.append((half / student_quantile((1 + ceiling.coverage) / 2, ceiling.n - 1)) ** 2)
    if a_thread and all(threads):
        per = " a thread"
    rates_in_words = [format_quantity(rate, here.unit, 3) for rate in rates]
    dof = float(min(here.n, there.n) - 1)
    known = sum(variances) if len(variances) == 2 else None
    return Ratio(
        rates[0] / rates[1],
        known,
        dof,
        f"{here.name}{per}: {rates_in_words[0]} here, {rates_in_words[1]} there",
    )


def predict(
    study: Study,
    here: Roofline,
    there: Roofline,
    given: Mapping[Resource, float] | None = None,
    level: float = LEVEL,
) -> Prediction:
    """The time of the study's reference on another machine. given: ratios that somebody knows.

    Raises `CannotPredict`, and ValueError where the study has nothing to fit.
    """
    model, conditions = fit(study, level), gather(study)
    solution, confounded = solve(tell_apart(conditions)[0]), tell_apart(conditions)[1]
    reference = next(condition for condition in study.conditions if condition.name == model.reference)
    ratios = ratios_of(here, there, reference.nodes)
    ratios |= {name: Ratio(ratio, 0.0, math.inf, "as given") for name, ratio in (given or {}).items()}
    notes = [f"The form does not fit: {model.note}"] if not model.fits else []
    small = {share.name for share in model.shares if share.high is not None and share.high < NEGLIGIBLE}
    together = [name for name in RATES if name in conditions.reasons or name in confounded]
    for name in (*solution.conditions.resources, *together):
        if name not in ratios and (name in small or (name in together and "rest" in small)):
            ratios[name] = Ratio(1.0, 0.0, math.inf, "not known, taken as here")
            notes.append(
                f"Taken as here: {WORDS[name]}, less than {100 * NEGLIGIBLE:.0f} % of the time here."
            )
    lacking = [name for name in RATES if name not in ratios]
    if lacking:
        words = " and ".join(WORDS[name] for name in lacking)
        raise CannotPredict(
            f"nothing tells how {words} compare: both runs need the same test of it (npc characterise), or "
            f"say how many times less there is there: {' '.join(f'--ratio {name}=1' for name in lacking)}"
        )
    prediction = scaled(solution, ratios, together, level)
    if len(together) > 1:
        notes.append(f"Not told apart, so it may scale as any of them: {', '.join(together)}.")
    beyond = [
        WORDS[name]
        for name, rates in zip(solution.conditions.resources, solution.conditions.rates, strict=True)
        if not _was_varied_to(ratios[name].value, [rates[0].value - rate.value for rate in rates])
    ]
    if beyond:
        notes.append(
            f"Beyond what was varied: {' and '.join(beyond)}. What is hidden behind it here may show."
        )
    unsure = [name for name in RATES if ratios[name].variance is None]
    if unsure:
        notes.append(
            f"Without an interval: fewer than six samples of a ceiling ({', '.join(unsure)}) tell no error."
        )
    total, terms = prediction
    largest = max(terms, key=lambda term: term.seconds)
    alone = all(largest.low > term.high for term in terms if term is not largest)
    return Prediction(
        program=study.program,
        here=here.platform,
        there=there.platform,
        reference=model.reference,
        measured=model.seconds,
        seconds=total.value,
        low=None if unsure else total.low,
        high=None if unsure else total.high,
        coverage=level,
        terms=terms,
        dominates=largest.name if alone and not unsure else "",
        notes=tuple(notes),
    )


def _was_varied_to(ratio: float, slower: Sequence[float]) -> bool:
    """Whether a ratio is as far as conditions went; slower: ln of the ratio in each."""
    return min(slower) - _SPARE <= math.log(ratio) <= max(slower) + _SPARE


def scaled(
    solution: Solution, ratios: Mapping[Resource, Ratio], together: Sequence[Resource], level: float
) -> tuple[Number, tuple[Term, ...]]:
    """(seconds where each resource gives that many times less, the parts of it). together: resources whose
    time stands in the rest, or for each other."""
    conditions = solution.conditions
    names = ("rest", *conditions.resources)
    fixed = [name for name in together if name in conditions.reasons]
    confounded = [name for name in together if name not in conditions.reasons]
    # if all was varied, nothing stands in the rest but latency and waiting
    choices = [[ratios[name] for name in (*fixed, *confounded)] or [_SAME]]
    for name in conditions.resources:
        choices.append([ratios[resource] for resource in (confounded if name in confounded else [name])])
    least, most = (np.array([end(r.value for r in choice) for choice in choices]) for end in (min, max))
    middle = np.sqrt(least * most)
    variances = np.array([max(ratio.variance or 0.0 for ratio in choice) for choice in choices])
    dof = [min(ratio.dof for ratio in choice) for choice in choices]

    def seconds(columns: Sequence[int], new: float) -> Number:
        """Of some parts: [least, most] as far as ratios say, with the error of shares and ratios."""
        chosen = np.isin(np.arange(len(names)), columns)
        value = float(solution.seconds[chosen] @ middle[chosen])
        ends = []
        for slower in (least, most):
            scale = np.where(chosen, slower, 0.0)
            errors = list(zip(((solution.seconds * scale) ** 2 * variances).tolist(), dof, strict=True))
            sum_of = functools.partial(_weighted, conditions, scale)
            ends.append(solution.number(sum_of, level, new * value**2, errors))
        return Number(value, max(min(value, ends[0].low), 0.0), max(value, ends[1].high))

    terms = tuple(
        Term(
            name, *seconds([place], 0.0), (float(least[place]), float(most[place])), _sources(choices[place])
        )
        for place, name in enumerate(names)
        if solution.seconds[place] > 0
    )
    return seconds(range(len(names)), 1.0), terms


#: Of what stays as it is.
_SAME: Final = Ratio(1.0, 0.0, math.inf, "taken as here")


def _weighted(conditions: Conditions, slower: Floats, rows: Floats) -> Floats:
    """Seconds of all parts, each `slower` by its factor, for each row of inputs."""
    seconds: Floats = free(conditions, rows) @ slower
    return seconds


def _sources(ratios: Iterable[Ratio]) -> str:
    return "; ".join(dict.fromkeys(ratio.source for ratio in ratios))
