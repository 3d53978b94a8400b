"""Finds the loops in a function's machine code, and the path through the hottest one.

Basic blocks, dominators and natural loops as in Aho, Lam, Sethi and Ullman, Compilers, section 9.6.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import cached_property, reduce
from itertools import pairwise
from typing import Final, NamedTuple

from npc.observe.hotspots.disassembly import Instruction
from npc.observe.hotspots.instructions import obstacle

#: A loop with fewer samples is not called hot.
_LEAST: Final = 10
#: With fewer samples in the loop it is not decided which of several paths is taken: no sample of 30 in a path
#: still allows it up to 10 % of the time (the rule of three).
_LEAST_TO_CHOOSE: Final = 30
#: A block is rarely run where its samples per instruction are below this share of the loop's mean.
_RARE: Final = 0.1
_MOST_PATHS: Final = 64


class NoLoop(Exception):
    """Why no loop can be modelled, as a message for the user."""


class Loop(NamedTuple):
    """A loop of a function."""

    #: Its instructions, in the order in which one iteration runs them.
    code: tuple[Instruction, ...]
    #: Share of the function's samples (0 to 1).
    share: float


@dataclass(frozen=True)
class Graph:
    """The basic blocks of a function, each named by the address that it begins at."""

    #: Block → its instructions.
    blocks: Mapping[int, tuple[Instruction, ...]]
    #: Block → the blocks that may follow it.
    leads: Mapping[int, tuple[int, ...]]

    @cached_property
    def from_where(self) -> Mapping[int, tuple[int, ...]]:
        predecessors: dict[int, list[int]] = {start: [] for start in self.blocks}
        for start, targets in self.leads.items():
            for target in targets:
                predecessors[target].append(start)
        return {start: tuple(sources) for start, sources in predecessors.items()}


def hottest_loop(code: Sequence[Instruction], samples: Mapping[int, int]) -> Loop:
    """The innermost loop with most samples, and the path through it. samples: by address. Raises NoLoop."""
    graph = blocks_of(code)
    by_block = _by_block(graph, samples)
    loops = natural_loops(graph)
    if not loops:
        raise NoLoop("its function has no loop: what calls it may have one")
    inner: Counter[int] = Counter()
    for block, count in by_block.items():
        around = [header for header, body in loops.items() if block in body]
        if around:
            inner[min(around, key=lambda header: len(loops[header]))] += count
    total = sum(samples.values())
    header, hot = max(inner.items(), key=lambda item: item[1], default=(0, 0))
    if not hot:
        raise NoLoop(f"none of its {total} samples is in a loop")
    if hot < _LEAST:
        raise NoLoop(
            f"{hot} of its {total} samples are in its hottest loop: it takes {_LEAST} to say anything"
        )
    body = loops[header]
    if any(other != header and other in body for other in loops):
        raise NoLoop(
            f"its hottest loop, at {header:#x}, has another loop in it that is too short to count alone"
        )
    path = _way(graph, header, body, by_block)
    run = tuple(instruction for block in path for instruction in graph.blocks[block])
    if reason := next(filter(None, map(obstacle, run)), ""):
        raise NoLoop(f"its hottest loop, at {header:#x}: {reason}")
    return Loop(run, hot / total)


def blocks_of(code: Sequence[Instruction]) -> Graph:
    """The basic blocks and what follows each of them. A jump out of the function has no successor."""
    inside = {instruction.address for instruction in code}
    starts = {code[0].address}
    for instruction, after in pairwise(code):
        if _ends(instruction):
            starts.add(after.address)
        if instruction.target in inside:
            starts.add(instruction.target)
    if code[-1].target in inside:
        starts.add(code[-1].target)
    blocks: dict[int, list[Instruction]] = {}
    block: list[Instruction] = []
    for instruction in code:
        if instruction.address in starts:
            block = blocks.setdefault(instruction.address, [])
        block.append(instruction)
    order = sorted(blocks)
    leads = {}
    for start, following in zip(order, [*order[1:], None], strict=True):
        last = blocks[start][-1]
        targets = [last.target] if last.target in inside else []
        if following is not None and not last.mnemonic.startswith(("jmp", "ret", "ud2", "hlt")):
            targets.append(following)
        leads[start] = tuple(dict.fromkeys(target for target in targets if target is not None))
    return Graph({start: tuple(block) for start, block in blocks.items()}, leads)


def natural_loops(graph: Graph) -> dict[int, Set[int]]:
    """First block of a loop → all its blocks. Loops with the same first block are one loop."""
    order = _order(graph)
    above = _dominators(graph, order)
    loops: dict[int, set[int]] = {}
    for block in above:
        for header in graph.leads[block]:
            if _is_over(header, block, above, order):
                body = loops.setdefault(header, {header})
                left = [block]
                while left:
                    current = left.pop()
                    if current not in body:
                        body.add(current)
                        left += [source for source in graph.from_where[current] if source in above]
    return dict(loops)


def _order(graph: Graph) -> dict[int, int]:
    """Reachable block → its number in reverse post-order: but for loops, each block comes before its
    successors."""
    entry = min(graph.blocks)
    done: list[int] = []
    visited = {entry}
    left = [(entry, iter(graph.leads[entry]))]
    while left:
        block, targets = left[-1]
        target = next((neighbour for neighbour in targets if neighbour not in visited), None)
        if target is None:
            done.append(block)
            left.pop()
        else:
            visited.add(target)
            left.append((target, iter(graph.leads[target])))
    return {block: number for number, block in enumerate(reversed(done))}


def _dominators(graph: Graph, order: Mapping[int, int]) -> dict[int, int]:
    """Block → its immediate dominator, the last block that every path from the entry passes before it; the
    entry → itself (Cooper, Harvey, Kennedy, A Simple, Fast Dominance Algorithm, 2001)."""
    entry, *others = order
    above = {entry: entry}

    def common(one: int, other: int) -> int:
        while one != other:
            if order[one] > order[other]:
                one = above[one]
            else:
                other = above[other]
        return one

    changed = True
    while changed:
        changed = False
        for block in others:
            sources = [source for source in graph.from_where[block] if source in above]
            now = reduce(common, sources)
            if above.get(block) != now:
                above[block], changed = now, True
    return above


def _is_over(header: int, block: int, above: Mapping[int, int], order: Mapping[int, int]) -> bool:
    """Whether every path to `block` passes `header`."""
    while order[block] > order[header]:
        block = above[block]
    return block == header


def _way(graph: Graph, header: int, body: Set[int], samples: Mapping[int, int]) -> tuple[int, ...]:
    """The blocks of the loop's only path, or of the one that the samples show to be taken."""
    ways = list(_ways(graph, header, body))
    if len(ways) == 1:
        return ways[0]
    number = str(len(ways)) if len(ways) <= _MOST_PATHS else "too many"
    where = f"its hottest loop, at {header:#x}, has {number} ways through it"
    total = sum(samples.get(block, 0) for block in body)
    if not ways or len(ways) > _MOST_PATHS:
        raise NoLoop(where if ways else f"no way leads through its hottest loop, at {header:#x}")
    if total < _LEAST_TO_CHOOSE:
        raise NoLoop(f"{where}, and {total} samples are too few to say which is taken")
    mean = total / sum(len(graph.blocks[block]) for block in body)
    rare = {block for block in body if samples.get(block, 0) < _RARE * mean * len(graph.blocks[block])}
    # A path is clear where every other path has blocks that are not on it, all of them rarely run. Without
    # such blocks nothing shows how often the other path is taken.
    clear = [
        way
        for way in ways
        if all(set(other) - set(way) and set(other) - set(way) <= rare for other in ways if other != way)
    ]
    if len(clear) != 1:
        raise NoLoop(f"{where}, and the samples do not say clearly which is taken")
    return clear[0]


def _ways(graph: Graph, header: int, body: Set[int]) -> Iterator[tuple[int, ...]]:
    """The paths from a loop's first block back to it; at most one more than `_MOST_PATHS`."""
    number = 0
    left: list[tuple[int, ...]] = [(header,)]
    while left and number <= _MOST_PATHS:
        way = left.pop()
        for target in graph.leads[way[-1]]:
            if target == header:
                number += 1
                yield way
            elif target in body and target not in way:
                left.append((*way, target))


def _by_block(graph: Graph, samples: Mapping[int, int]) -> Counter[int]:
    starts = sorted(graph.blocks)
    counts: Counter[int] = Counter()
    for address, count in samples.items():
        if address >= starts[0]:
            counts[starts[bisect_right(starts, address) - 1]] += count
    return counts


def _ends(instruction: Instruction) -> bool:
    return instruction.jumps or instruction.mnemonic.startswith(("ret", "ud2", "hlt"))
