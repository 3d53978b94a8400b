"""How many messages each rank sends to each other one in a collective call, by algorithm.

Ranks are counted from 0 in the communicator. The trees, rings and exchanges are those of MPI libraries
(Thakur, Rabenseifner, Gropp, IJHPCA 19(1), 2005; Open MPI, ompi/mca/coll/base); algorithms have the names
that `npc model fit` and `npc model predict` have for them. Where P is no power of two, let P' be the next
smaller one and M = P − P': in each of the first M pairs of ranks, one rank hands its data to the other before
and gets the result afterwards. By recursive doubling M ranks then send one message, M send lg P' + 1, and the
others lg P' (Eberius, 2020, section 3.8).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Final

#: (sender, receiver) → messages of one call.
Messages = Counter[tuple[int, int]]
#: Parent of a rank > 0 in a tree whose root is 0.
_Parent = Callable[[int], int]
_CHAINS: Final = 4


def patterns(operation: str, ranks: int, root: int = 0) -> list[tuple[str, Messages]]:
    """The algorithms of an operation (`npc.catalogue.row.Test.operation`); empty for an unknown operation.

    Algorithms that send the same messages share an entry, their names joined by "or". Variants of one
    algorithm have the same name.
    """
    by_messages: dict[frozenset[tuple[tuple[int, int], int]], list[str]] = {}
    for name, messages in _algorithms(operation, ranks, root):
        if messages:
            names = by_messages.setdefault(frozenset(messages.items()), [])
            if name not in names:
                names.append(name)
    return [(" or ".join(names), Counter(dict(messages))) for messages, names in by_messages.items()]


def _algorithms(operation: str, ranks: int, root: int) -> Iterable[tuple[str, Messages]]:
    """Name and messages; a name may have several variants."""
    every = operation.removesuffix("v").removesuffix("w") if operation not in ("scatterv",) else "scatter"
    if every == "bcast":
        trees = _trees(ranks, root)
        yield from ((name, _down(parents)) for name, parents in trees)
        scatter = _down(_tree(ranks, root, _low))
        yield "van de Geijn", scatter + _shifts(ranks, {1: ranks - 1})
        if not ranks & (ranks - 1):
            yield "scatter and recursive doubling", scatter + _around(_exchanges(range(ranks)), ranks, root)
    elif every == "reduce":
        yield from ((name, _up(parents)) for name, parents in _trees(ranks, root))
    elif every in ("gather", "scatter"):
        way = _up if every == "gather" else _down
        for name, parents in _trees(ranks, root):
            if name in ("linear", "binomial"):
                yield name, way(parents)
        if every == "gather":
            star = _tree(ranks, root, lambda _: 0)
            yield "linear, synchronised", _down(star) + _up(star) + _up(star)
    elif every == "allreduce":
        yield "recursive doubling", _recursive_doubling(ranks)
        yield "ring", _shifts(ranks, {1: 2 * (ranks - 1)})
        yield "Rabenseifner", _rabenseifner(ranks)
        star = _tree(ranks, 0, lambda _: 0)
        yield "linear", _up(star) + _down(star)
        for up in (_low, _high):
            for down in (_low, _high):
                messages = _up(_tree(ranks, 0, up)) + _down(_tree(ranks, 0, down))
                yield "binomial reduce and broadcast", messages
    elif every == "barrier":
        yield "dissemination", _shifts(ranks, dict.fromkeys(_powers(ranks), 1))
        yield "recursive doubling", _joined_exchanges(ranks)
        yield "double ring", _shifts(ranks, {1: 2})
        star = _tree(ranks, 0, lambda _: 0)
        yield "linear", _up(star) + _down(star)
    elif every == "allgather":
        yield "ring", _shifts(ranks, {1: ranks - 1})
        yield "Bruck", _shifts(ranks, dict.fromkeys((-power for power in _powers(ranks)), 1))
        if not ranks & (ranks - 1):
            yield "recursive doubling", _exchanges(range(ranks))
        if ranks % 2 == 0:
            yield "neighbour exchange", _neighbour_exchange(ranks)
        star = _tree(ranks, 0, lambda _: 0)
        yield "linear", _up(star) + _down(star)
    elif every == "alltoall":
        everybody = dict.fromkeys(range(1, ranks), 1)
        yield "pairwise", _shifts(ranks, everybody)
        yield "linear", _shifts(ranks, everybody)
        yield "Bruck", _shifts(ranks, dict.fromkeys(_powers(ranks), 1))
    elif every.startswith("reduce_scatter"):
        yield "ring", _shifts(ranks, {1: ranks - 1})
        if not ranks & (ranks - 1):
            yield "recursive halving", _exchanges(range(ranks))
    elif every in ("scan", "exscan"):
        yield "linear", Counter({(rank, rank + 1): 1 for rank in range(ranks - 1)})


# --- trees -----------------------------------------------------------------------------------------------


def _low(rank: int) -> int:
    """Binomial tree: the parent is the rank without its lowest bit."""
    return rank & (rank - 1)


def _high(rank: int) -> int:
    """Binomial tree: the parent is the rank without its highest bit."""
    return rank ^ (1 << (rank.bit_length() - 1))


def _wide(rank: int) -> int:
    """Binary tree as Open MPI numbers it: from level to level ranks are twice as far apart."""
    apart = 1 << ((rank + 1).bit_length() - 2)
    return rank - 2 * apart if rank >= 3 * apart - 1 else rank - apart


def _nomial(rank: int) -> int:
    """Tree in base 4: the parent is the rank without its lowest digit that is not 0."""
    digit = next(place for place in range(0, rank.bit_length(), 2) if rank >> place & 3)
    return rank & ~(3 << digit)


def _trees(ranks: int, root: int) -> list[tuple[str, dict[int, int]]]:
    """Trees: name, and the parent of each rank."""
    length = -(-(ranks - 1) // _CHAINS)
    longer = (ranks - 1) % _CHAINS or _CHAINS

    def chains(rank: int) -> int:
        before = rank - 1
        if before < longer * length:
            return 0 if before % length == 0 else rank - 1
        return 0 if (before - longer * length) % (length - 1) == 0 else rank - 1

    shapes: list[tuple[str, _Parent]] = [
        ("binomial", _high), ("binomial", _low), ("linear", lambda _: 0), ("pipeline", lambda rank: rank - 1),
        ("chains", chains), ("binary", lambda rank: (rank - 1) // 2), ("binary", _wide),
        ("4-nomial", _nomial),
    ]  # fmt: skip
    return [(name, _tree(ranks, root, parent)) for name, parent in shapes]


def _tree(ranks: int, root: int, parent: _Parent) -> dict[int, int]:
    """Rank → its parent, of a tree that is turned so that `root` is its root."""
    return {(rank + root) % ranks: (parent(rank) + root) % ranks for rank in range(1, ranks)}


def _down(parents: Mapping[int, int]) -> Messages:
    return Counter({(parent, child): 1 for child, parent in parents.items()})


def _up(parents: Mapping[int, int]) -> Messages:
    return Counter(dict.fromkeys(parents.items(), 1))


# --- rings and exchanges -----------------------------------------------------------------------------------


def _powers(ranks: int) -> list[int]:
    """1, 2, 4 … below the number of ranks."""
    return [1 << bit for bit in range((ranks - 1).bit_length())]


def _shifts(ranks: int, times: Mapping[int, int]) -> Messages:
    """Every rank sends `times[distance]` messages to the rank `distance` places further."""
    messages: Messages = Counter()
    for distance, number in times.items():
        for rank in range(ranks):
            messages[rank, (rank + distance) % ranks] += number
    return messages


def _around(messages: Messages, ranks: int, root: int) -> Messages:
    """The messages with ranks counted from the root."""
    return Counter({
        ((one + root) % ranks, (other + root) % ranks): number for (one, other), number in messages.items()
    })  # fmt: skip


def _exchanges(members: Iterable[int]) -> Messages:
    """Each member, of a power of two of them, sends to those whose place differs in one bit."""
    places = list(members)
    powers = _powers(len(places))
    return Counter({(rank, places[at ^ power]): 1 for at, rank in enumerate(places) for power in powers})


def _parted(ranks: int) -> tuple[list[int], list[int]]:
    """(ranks that stay out, the P' ranks that exchange): of the first M pairs the even rank stays out."""
    most = 1 << (ranks.bit_length() - 1)
    left = ranks - most
    return list(range(0, 2 * left, 2)), [*range(1, 2 * left, 2), *range(2 * left, ranks)]


def _recursive_doubling(ranks: int) -> Messages:
    out, within = _parted(ranks)
    sends = _exchanges(within)
    for rank in out:
        sends[rank, rank + 1] += 1
        sends[rank + 1, rank] += 1
    return sends


def _rabenseifner(ranks: int) -> Messages:
    """Reduce-scatter by halving, then all-gather by doubling. The ranks of each of the first M pairs exchange
    halves of the vector first; the odd one hands over what it reduced and gets the result at the end."""
    even, others = _parted(ranks)
    within = [*even, *others[len(even) :]]
    sends = _exchanges(within) + _exchanges(within)
    for rank in even:
        sends[rank, rank + 1] += 2
        sends[rank + 1, rank] += 2
    return sends


def _joined_exchanges(ranks: int) -> Messages:
    """Ranks from P' on each send to one of the first P' ranks, which exchange, and get an answer."""
    most = 1 << (ranks.bit_length() - 1)
    sends = _exchanges(range(most))
    for rank in range(most, ranks):
        sends[rank, rank - most] += 1
        sends[rank - most, rank] += 1
    return sends


def _neighbour_exchange(ranks: int) -> Messages:
    """P/2 steps, alternately with the left and the right neighbour (Chen and others, 2005)."""
    messages: Messages = Counter()
    for rank in range(ranks):
        side = 1 if rank % 2 == 0 else -1
        for step in range(ranks // 2):
            messages[rank, (rank + (side if step % 2 == 0 else -side)) % ranks] += 1
    return messages
