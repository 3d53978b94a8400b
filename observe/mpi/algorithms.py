"""Which algorithms the collectives of a program used, from the messages that MPI sent for them.

Open MPI's monitoring counts the messages from each rank to each other rank inside of collectives, all
collectives together; the profiles count the calls. How many calls used which algorithm is the solution of a
linear program: no pair of ranks sends more than was counted, every call has an algorithm, and as many
messages as possible are explained. Each further algorithm must explain another hundredth of the messages, so
the few messages that MPI sends for new communicators are not taken for one. A result is given only where
nearly all messages are explained; where several solutions are equally good, it names the algorithms of all.
(Eberius, 2020, section 3.8, compares by eye.)
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, permutations
from typing import Any, Final, NamedTuple

from npc.observe.monitoring import RankFlow
from npc.observe.mpi.patterns import Messages, patterns
from npc.observe.mpi.profile import RankProfile
from npc.observe.mpi.records import Algorithms, CollectiveAlgorithm, operation

#: Collectives of more ranks are left out: the linear program has a row for each pair of ranks.
_MOST_RANKS: Final = 256
#: Share of the messages that may stay unexplained: MPI also sends some for new communicators.
_UNEXPLAINED: Final = 0.01
#: Operations that send a large message in pieces, one after another along the same tree.
_SEGMENTED: Final = frozenset(("bcast", "reduce"))
#: Most solutions that are looked for, all with the same number of algorithms.
_MOST_SOLUTIONS: Final = 6
#: Most roots of one operation on one communicator.
_MOST_ROOTS: Final = 8
#: The solver's numbers of calls are whole numbers to this precision.
_WHOLE: Final = 0.01
#: Messages by which a solution may explain less than the best one and still count as equally good.
_SLACK: Final = 1e-3

Members = tuple[int, ...]


class _Column(NamedTuple):
    """An unknown of the linear program: how often an algorithm's messages were sent for a collective."""

    #: Its place in the list of collectives.
    collective: int
    #: The algorithm's.
    name: str
    #: Of one call.
    messages: Messages


@dataclass(slots=True)
class _Collective:
    """Calls of one operation by the same ranks with the same root."""

    #: As the catalogue names it: ``allreduce``.
    operation: str
    #: The ranks, sorted, as numbers in MPI_COMM_WORLD.
    members: Members
    #: Among `members`; None where the operation has none.
    root: int | None
    #: Class of sizes (`Calls.size_class`) → calls; −1 where the size is not known.
    by_class: Counter[int] = field(default_factory=Counter)

    @property
    def calls(self) -> int:
        return sum(self.by_class.values())


def algorithms_of(profiles: Sequence[RankProfile], flows: Iterable[RankFlow]) -> Algorithms | None:
    """The algorithms of a run's collectives; None where there were none or nothing counted their messages."""
    sent: Counter[tuple[int, int]] = Counter()
    for flow in flows:
        if flow.kind == "internal" and flow.source != flow.target:
            sent[flow.source, flow.target] += flow.messages
    reasons: dict[str, str] = {}
    collectives = list(_collectives(profiles, reasons))
    if not collectives or not sent:
        return Algorithms(reasons=reasons) if reasons and sent else None
    solved = _solve(collectives, sent)
    if isinstance(solved, str):
        return Algorithms(reasons={**reasons, **{collective.operation: solved for collective in collectives}})
    explained, calls = solved
    ran = tuple(
        one
        for collective, made in zip(collectives, calls, strict=True)
        for one in _algorithms_that_ran(collective, made)
    )
    return Algorithms(ran=ran, explained=explained / sent.total(), reasons=reasons)


def _collectives(profiles: Sequence[RankProfile], reasons: dict[str, str]) -> Iterator[_Collective]:
    """The collectives that were called; adds to `reasons` why others are left out."""
    sizes = {
        communicator.key: communicator.size for profile in profiles for communicator in profile.communicators
    }
    ranks: defaultdict[str, list[int]] = defaultdict(list)
    for profile in profiles:
        for communicator in profile.communicators:
            ranks[communicator.key].append(profile.rank)
    made: dict[tuple[str, Members], Counter[int]] = {}
    roots: defaultdict[tuple[str, Members], Counter[int | None]] = defaultdict(Counter)
    for profile in profiles:
        for call in profile.calls:
            name, members = operation(call.call), tuple(sorted(ranks[call.communicator]))
            if name and sizes.get(call.communicator, 0) > 1:
                made.setdefault((name, members), Counter())[call.size_class] += call.calls
                if len(members) != sizes[call.communicator]:
                    reasons[name] = "not all ranks of its communicator left a profile"
        for arrival in profile.arrivals:
            name, members = operation(arrival.call), tuple(sorted(ranks[arrival.communicator]))
            if name and members and profile.rank == members[0]:
                roots[name, members][arrival.root] += 1
    for (name, members), counted in made.items():
        by_class = Counter({size_class: round(calls / len(members)) for size_class, calls in counted.items()})
        if name in reasons:
            continue
        if len(members) > _MOST_RANKS:
            reasons[name] = f"more than {_MOST_RANKS} ranks"
        elif not patterns(name, len(members)):
            reasons[name] = "its algorithms have no known pattern"
        else:
            yield from _by_root(_Collective(name, members, None, by_class), roots[name, members], reasons)


def _by_root(
    collective: _Collective, roots: Mapping[int | None, int], reasons: dict[str, str]
) -> Iterator[_Collective]:
    """One collective for each root of an operation that has roots. With several roots, the root of every call
    must be known."""
    known = {root: number for root, number in roots.items() if root in collective.members}
    if collective.operation not in ("bcast", "reduce", "gather", "gatherv", "scatter", "scatterv"):
        yield collective
    elif len(known) == 1 and len(roots) == 1:
        yield _Collective(collective.operation, collective.members, next(iter(known)), collective.by_class)
    elif known and sum(known.values()) == collective.calls and len(known) <= _MOST_ROOTS:
        for root, number in known.items():
            yield _Collective(collective.operation, collective.members, root, Counter({-1: number}))
    else:
        reasons[collective.operation] = "its roots are not known of all calls"


def _solve(
    collectives: Sequence[_Collective], sent: Mapping[tuple[int, int], int]
) -> tuple[float, list[dict[str, tuple[float, float]]]] | str:
    """(messages explained, for each collective its algorithms → least and largest number of times that their
    messages were sent); or why there is no solution."""
    # A tree's messages are sent once for a call; where that explains nothing, large ones went in pieces.
    for in_pieces in (frozenset[str](), _SEGMENTED):
        solved = _solved(collectives, sent, in_pieces)
        if solved is not None:
            return solved
    return "the messages are those of no algorithms known here"


def _solved(
    collectives: Sequence[_Collective], sent: Mapping[tuple[int, int], int], in_pieces: frozenset[str]
) -> tuple[float, list[dict[str, tuple[float, float]]]] | None:
    """As `_solve`, where only the operations `in_pieces` may send an algorithm's messages several times a
    call; None without a solution."""
    import numpy as np
    from scipy.optimize import linprog

    columns: list[_Column] = []
    for number, collective in enumerate(collectives):
        place = collective.members.index(collective.root) if collective.root is not None else 0
        for name, messages in patterns(collective.operation, len(collective.members), place):
            columns.append(_Column(number, name, messages))
    rows = _limits(collectives, columns, sent)
    limits = np.zeros((len(rows), len(columns)))
    for place, row in enumerate(rows):
        for number, times in row:
            limits[place, number] = times
    made = np.array(
        [[float(column.collective == number) for column in columns] for number in range(len(collectives))]
    )
    calls = np.array([collective.calls for collective in collectives], dtype=float)
    several = np.array([collective.operation in in_pieces for collective in collectives])
    weights = np.array([float(column.messages.total()) for column in columns])
    upper = np.vstack([limits, -made[several]])
    bounds = np.concatenate([np.array(list(rows.values()), dtype=float), -calls[several]])
    equal = {} if several.all() else {"A_eq": made[~several], "b_eq": calls[~several]}
    keys = list(dict.fromkeys(column[:2] for column in columns))
    groups = np.array([[float(column[:2] == key) for column in columns] for key in keys])
    total = sum(sent.values())
    used, explained = _simplest(groups, weights, _UNEXPLAINED * total, upper, bounds, equal)
    if explained < (1 - _UNEXPLAINED) * total:
        return None
    unused = groups[[place for place in range(len(keys)) if place not in used]].sum(axis=0)
    upper = np.vstack([upper, -weights, unused])
    bounds = np.concatenate([bounds, [_SLACK - explained, 0.0]])
    solved: list[dict[str, tuple[float, float]]] = [{} for _ in collectives]
    for place in sorted(used):
        ends = [linprog(sign * groups[place], A_ub=upper, b_ub=bounds, **equal) for sign in (1, -1)]
        if not all(end.success for end in ends):
            return None
        number, name = keys[place]
        solved[number][name] = (float(ends[0].fun), float(-ends[1].fun))
    return explained, solved


def _simplest(
    groups: Any, weights: Any, penalty: float, upper: Any, bounds: Any, equal: Mapping[str, Any]
) -> tuple[set[int], float]:
    """The algorithms (rows of `groups`) of all equally good best solutions, and how many messages these
    explain. Each further algorithm must explain `penalty` more messages."""
    import numpy as np
    from scipy.optimize import Bounds, LinearConstraint, milp

    number, unknown = groups.shape
    large = float(np.abs(bounds).max()) + 1
    constraints = [
        LinearConstraint(np.hstack([upper, np.zeros((len(upper), number))]), -np.inf, bounds),
        LinearConstraint(np.hstack([groups, -large * np.eye(number)]), -np.inf, np.zeros(number)),
    ]
    if equal:
        fixed = np.hstack([equal["A_eq"], np.zeros((len(equal["A_eq"]), number))])
        constraints.append(LinearConstraint(fixed, equal["b_eq"], equal["b_eq"]))
    costs = np.concatenate([-weights, np.full(number, penalty)])
    whole = np.concatenate([np.zeros(unknown), np.ones(number)])
    limits = Bounds(0, np.concatenate([np.full(unknown, np.inf), np.ones(number)]))
    numbers: set[int] = set()
    best, explained = np.inf, 0.0
    for _ in range(_MOST_SOLUTIONS):
        solution = milp(
            costs, integrality=whole, bounds=limits, constraints=constraints, options={"mip_rel_gap": 0.0}
        )
        if not solution.success or solution.fun > best + _SLACK:
            break
        chosen = {place for place in range(number) if solution.x[unknown + place] > 0.5}
        if not numbers:
            best, explained = solution.fun, float(weights @ solution.x[:unknown])
        numbers |= chosen
        again = np.concatenate([np.zeros(unknown), [float(place in chosen) for place in range(number)]])
        constraints.append(LinearConstraint(again, -np.inf, len(chosen) - 1))
    return numbers, explained


def _limits(
    collectives: Sequence[_Collective], columns: Sequence[_Column], sent: Mapping[tuple[int, int], int]
) -> dict[tuple[tuple[int, int], ...], int]:
    """For each pair of ranks: (column, messages of one call) of all that it takes part in → how many messages
    it sent. Of pairs with the same terms the one that sent least is the limit."""
    by_pair: defaultdict[tuple[int, int], list[tuple[int, int]]] = defaultdict(list)
    for place, column in enumerate(columns):
        members = collectives[column.collective].members
        for (source, target), times in column.messages.items():
            by_pair[members[source], members[target]].append((place, times))
    rows: dict[tuple[tuple[int, int], ...], int] = {}
    for pair, terms in by_pair.items():
        number = sent.get(pair, 0)
        rows[tuple(terms)] = min(rows.get(tuple(terms), number), number)
    return rows


def _algorithms_that_ran(
    collective: _Collective, made: Mapping[str, tuple[float, float]]
) -> Iterator[CollectiveAlgorithm]:
    """The algorithms that ran, each with its calls and sizes as far as they are certain."""
    possible = {name: times for name, times in made.items() if times[1] > _WHOLE}
    names = tuple(possible)
    where = (collective.operation, len(collective.members), collective.root)
    smallest, largest = _sizes(collective.by_class)
    certain = all(most - least < max(_WHOLE, 1e-6 * most) for least, most in possible.values())
    if len(names) == 1 and certain:
        pieces = possible[names[0]][1] / collective.calls
        yield CollectiveAlgorithm(*where, names, collective.calls, smallest, largest, round(pieces, 2))
    elif not certain or round(sum(most for _, most in possible.values())) != collective.calls:
        yield CollectiveAlgorithm(*where, names, collective.calls, smallest, largest)
    else:
        times = {name: round(most) for name, (_, most) in possible.items()}
        parts = _parts(collective.by_class, times)
        for name, calls in times.items():
            first, last = parts.get(name, (smallest, largest))
            yield CollectiveAlgorithm(*where, (name,), calls, first, last)


def _sizes(classes: Iterable[int]) -> tuple[int | None, int | None]:
    """The least and the largest size of the classes in bytes; None where they are not known."""
    known = [class_ for class_ in classes if class_ >= 0]
    if not known:
        return None, None
    return (1 << min(known)) >> 1, (1 << max(known)) - 1 if max(known) else 0


def _parts(by_class: Mapping[int, int], times: Mapping[str, int]) -> dict[str, tuple[int | None, int | None]]:
    """Algorithm → (smallest, largest size), as a library that changes its algorithm with the size uses them;
    empty where not exactly one order of the algorithms fits the numbers of calls."""
    classes = sorted(by_class)
    sums = list(accumulate((by_class[class_] for class_ in classes), initial=0))
    solutions = []
    for order in permutations(times):
        ends = list(accumulate((times[name] for name in order), initial=0))
        if all(end in sums for end in ends):
            places = [sums.index(end) for end in ends]
            pieces = zip(order, places, places[1:], strict=False)
            solutions.append({name: _sizes(classes[first:last]) for name, first, last in pieces})
    return solutions[0] if len(solutions) == 1 else {}
