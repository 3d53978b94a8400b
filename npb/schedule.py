"""Who is measured with whom, and when: rounds of disjoint pairs, so that no node serves two at once.

A pair is (server, client), by rank. Patterns: ``all`` (each pair once), ``ring`` (each with its
neighbours), ``one-to-all`` (rank 0 with each), ``bisection`` (lower half with upper half), ``sample:K``
(K random rounds) or a file of pairs. Rounds are made as they are asked for: all pairs of 4096 nodes are
8.4 million.
"""

from __future__ import annotations

import random
import re
import secrets
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from npc.files import read_text
from npc.hostlist import host_text

Pair = tuple[int, int]
Round = list[Pair]

_SAMPLE: Final = re.compile(r"sample[: ]\s*(\d+)")
_NAMED: Final = ("all", "ring", "one-to-all", "bisection")


class InvalidPattern(ValueError):
    """A pattern that names no pairs; the message says what would."""


@dataclass(frozen=True, slots=True)
class Schedule:
    """Rounds of pairs among the ranks 0…nodes-1; iterate over it to get them."""

    #: As the command line has it.
    pattern: str
    #: How many ranks there are.
    nodes: int
    #: The rounds of one run; the pairs of a round are measured at the same time.
    rounds: Sequence[Round] | AllPairs
    #: How many pairs all rounds have.
    pairs: int
    #: What ``sample`` was drawn with; None for other patterns.
    seed: int | None = None
    #: Whether one pair is measured at a time, whatever round it belongs to.
    serial: bool = False
    #: Whether server and client stay what they are when the pattern is run again.
    fixed: bool = False

    def of_run(self, run: int) -> Iterator[Round]:
        """The rounds of run 0, 1, …: in every other one server and client change places."""
        for pairs in self:
            yield [(b, a) for a, b in pairs] if run % 2 and not self.fixed else pairs

    def __iter__(self) -> Iterator[Round]:
        if not self.serial:
            yield from self.rounds
            return
        for pairs in self.rounds:
            for pair in pairs:
                yield [pair]

    def __len__(self) -> int:
        """Number of rounds that iterating gives."""
        return self.pairs if self.serial else len(self.rounds)


def schedule(
    pattern: str, hosts: Sequence[str], *, seed: int | None = None, serial: bool = False
) -> Schedule:
    """The schedule of `pattern` among `hosts`, one a rank.

    `seed` fixes what ``sample:K`` draws; without one it is drawn, and recorded in the schedule. Raises
    `InvalidPattern` for fewer than two hosts, an unknown pattern, or a file with a line that is no pair.
    """
    n = len(hosts)
    if n < 2:
        raise InvalidPattern(f"pairs need at least two nodes, there {'is' if n == 1 else 'are'} {n}")
    rounds: Sequence[Round]
    fixed = False
    sample = _SAMPLE.fullmatch(pattern.strip())
    if sample:
        seed = secrets.randbits(32) if seed is None else seed
        rounds = sample_rounds(n, int(sample[1]), seed)
    else:
        seed = None
        if pattern == "all":
            return Schedule(pattern, n, AllPairs(n), n * (n - 1) // 2, serial=serial)
        if pattern == "ring":
            rounds = ring_rounds(n)
        elif pattern == "one-to-all":
            # The one is always the server, so that all values have the same sense and can be compared.
            rounds, fixed = [[(0, other)] for other in range(1, n)], True
        elif pattern == "bisection":
            rounds = [[(low, low + (n + 1) // 2) for low in range(n // 2)]]
        elif Path(pattern).is_file():
            rounds, fixed = disjoint_rounds(read_pairs(Path(pattern), hosts)), True
        else:
            raise InvalidPattern(
                f"--pairs {pattern}: neither a file nor one of {', '.join(_NAMED)}, sample:K (K random ones)"
            )
    return Schedule(pattern, n, rounds, sum(map(len, rounds)), seed, serial, fixed)


def circle_round(n: int, r: int) -> Round:
    """Round r of the circle method, which pairs n nodes, each once with each other, in the fewest rounds.

    Round r pairs the nodes that lie symmetrically about r on a circle of m places (m = n-1 or n, odd);
    for even n the last node, which is not on the circle, meets r itself (Kirkman, 1847; de Werra, "Some
    models of graphs for scheduling sports competitions", 1988). In an odd cluster r rests. Every node is
    server and client equally often, to within one.
    """
    m = circle_rounds(n)
    servers = [(r + distance) % m for distance in range(1, m // 2 + 1)]
    clients = [(r - distance) % m for distance in range(1, m // 2 + 1)]
    # Roles alternate along the circle: a node takes each distance once on either side of r, hence
    # is server in half of its rounds, and not in one long run of them.
    servers[1::2], clients[1::2] = clients[1::2], servers[1::2]
    pairs = list(zip(servers, clients, strict=True))
    if n % 2 == 0:
        pairs.append((r, m) if r % 2 else (m, r))
    return pairs


def circle_rounds(n: int) -> int:
    """How many rounds the circle method needs: n-1 for even n, n for odd n."""
    return n - 1 + n % 2


@dataclass(frozen=True, slots=True)
class AllPairs:
    """All rounds of the circle method among n nodes, each made when it is asked for."""

    #: How many nodes there are, numbered from 0.
    n: int

    def __len__(self) -> int:
        return circle_rounds(self.n)

    def __iter__(self) -> Iterator[Round]:
        return (circle_round(self.n, r) for r in range(len(self)))


def sample_rounds(n: int, count: int, seed: int) -> list[Round]:
    """`count` random rounds, each a perfect matching (for odd n all but one node, another one each time).

    Rounds of the circle method in random order with randomly renamed nodes: each alone is uniformly
    distributed over all perfect matchings, and no pair comes twice before every pair has come once.
    Raises `InvalidPattern` for no rounds.
    """
    if count < 1:
        raise InvalidPattern("--pairs sample:K needs at least one round")
    draw = random.Random(seed)
    circle = range(circle_rounds(n))
    rounds: list[Round] = []
    served = [0] * n  # rounds as server minus rounds as client
    while len(rounds) < count:
        name = list(range(n))
        draw.shuffle(name)
        for r in draw.sample(circle, min(len(circle), count - len(rounds))):
            pairs: Round = []
            for first, second in circle_round(n, r):
                a, b = name[first], name[second]
                if served[a] > served[b]:
                    a, b = b, a
                served[a] += 1
                served[b] -= 1
                pairs.append((a, b))
            rounds.append(pairs)
    return rounds


def ring_rounds(n: int) -> list[Round]:
    """Each rank serves the next one and the last serves the first: two rounds, three if n is odd."""
    if n == 2:
        return [[(0, 1)]]
    pairs = [(rank, (rank + 1) % n) for rank in range(n)]
    if n % 2:
        return [pairs[:-1:2], pairs[1:-1:2], pairs[-1:]]
    return [pairs[::2], pairs[1::2]]


def read_pairs(path: Path, hosts: Sequence[str]) -> list[Pair]:
    """Pairs of a file: ``SERVER CLIENT`` a line by host name, ``#`` comments, blank lines.

    A name may leave out or add the domain where that is unambiguous. Raises `InvalidPattern` with file
    and line for anything else, and for a file without pairs.
    """
    ranks: dict[str, list[int]] = {}
    for rank, host in enumerate(hosts):
        for name in {host, host.partition(".")[0]}:
            ranks.setdefault(name, []).append(rank)

    def rank_of(name: str, where: str) -> int:
        there = ranks.get(name) or ranks.get(name.partition(".")[0], [])
        if len(there) != 1:
            what = f"{len(there)} ranks run on" if there else "no rank runs on"
            raise InvalidPattern(f"{where}: {what} {name!r}; hosts of this job: {host_text(hosts)}")
        return there[0]

    pairs: list[Pair] = []
    for number, line in enumerate(read_text(path, "replace").splitlines(), 1):
        names = line.partition("#")[0].split()
        where = f"{path}:{number}"
        if not names:
            continue
        if len(names) != 2:
            raise InvalidPattern(f"{where}: expected two host names, SERVER CLIENT, found {len(names)} words")
        server, client = (rank_of(name, where) for name in names)
        if server == client:
            raise InvalidPattern(f"{where}: {names[0]} with itself is no pair")
        pairs.append((server, client))
    if not pairs:
        raise InvalidPattern(f"{path}: no pairs in it")
    return pairs


def disjoint_rounds(pairs: Sequence[Pair]) -> list[Round]:
    """Each pair into the first round where both its nodes are free (greedy edge colouring).

    At most 2·d-1 rounds where no node is in more than d pairs; d is the least there can be.
    """
    rounds: list[Round] = []
    busy: dict[int, int] = {}  # by node: bit r is set if it is taken in round r
    for pair in pairs:
        taken = busy.get(pair[0], 0) | busy.get(pair[1], 0)
        first_free = (~taken & (taken + 1)).bit_length() - 1
        if first_free == len(rounds):
            rounds.append([])
        rounds[first_free].append(pair)
        for node in pair:
            busy[node] = busy.get(node, 0) | 1 << first_free
    return rounds
