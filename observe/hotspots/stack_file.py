"""The file with the stacks of one rank, ``HOST.RANK.stacks``, made to be merged with thousands of others.

A JSON object: ``status`` (``ok``, or why there are none); ``source``, ``rate`` (1/s), ``samples``, ``lost``,
``cut`` (samples of stacks that do not reach the program's start), ``unnamed`` (samples without a symbol),
``kernel`` (whether the system could be seen), ``counters`` (why there are none), ``notes``; ``processor``: of
a node's first rank what `npc.observe.hotspots.processor` says, else empty;
``frames``: [function, path of the module]; ``tree``: [parent, place in frames, samples, own], parents first,
the first is the root; ``own``: [place in frames, samples at the top of the stack, {``mpi``, ``io``,
``network``: of these in MPI, in files, in sockets}, {event: times}]; ``addresses``: of the functions with
most own samples ``function``, ``module``, ``build_id``, ``own``, ``range`` ([first, after the last], or null
where the file does not tell) and ``counts``: address, as a disassembler shows it → samples there. Only the
standard library.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from npc import own_folder
from npc.observe.hotspots.bounds import kind_of
from npc.observe.hotspots.stacks import KERNEL, NOWHERE, Stacks

SUFFIX: Final = ".stacks"
OTHER: Final = "(other)"
#: Nodes with a smaller share of the rank's samples are counted as `OTHER` of their parent.
_LEAST_SHARE: Final = 0.0005
#: Functions whose addresses are kept.
_HOTTEST: Final = 10
#: Functions in which programs and threads begin, and the C libraries that have such functions.
_STARTS: Final = {
    "_start", "__libc_start_main", "__libc_start_call_main", "__libc_start_main_impl", "main", "_dl_start",
    "_dl_start_user", "clone", "__clone", "clone3", "__clone3", "start_thread",
}  # fmt: skip
_START_MODULES: Final = ("libc.so", "libc-", "libpthread", "ld-linux", "ld-musl", "libc.musl")


def to_document(stacks: Stacks, about: dict[str, Any]) -> dict[str, Any]:
    """What the file holds. about: ``status``, ``source``, ``rate``, ``notes``, ``processor``."""
    functions = stacks.functions
    own: Counter[int] = Counter()
    kinds: defaultdict[int, Counter[str]] = defaultdict(Counter)
    cut = 0
    for stack, count in stacks.counts.items():
        named = [functions[place] for place in stack]
        own[stack[-1]] += count
        kinds[stack[-1]][kind_of(named)] += count
        cut += 0 if _is_whole(named) else count
    hottest = [place for place, _count in own.most_common(_HOTTEST)]
    return {
        **about,
        "samples": stacks.samples,
        "lost": stacks.lost,
        "cut": cut,
        "unnamed": sum(count for place, count in own.items() if place in stacks.unnamed),
        "frames": functions,
        "tree": _tree(stacks),
        "own": [
            [place, own[place], kinds[place], stacks.events[place]]
            for place in sorted({*own, *stacks.events})
        ],
        "addresses": [
            _addresses(stacks, place, own[place])
            for place in hottest
            if functions[place][1] not in (KERNEL, NOWHERE)
        ],
    }


def save(document: dict[str, Any], path: Path) -> None:
    """Write the file whole or not at all. Raises OSError."""
    own_folder.save(path, [json.dumps(document, separators=(",", ":")).encode()])


def _is_whole(stack: Sequence[tuple[str, str]]) -> bool:
    """Whether a stack reaches the function in which its program or thread began."""
    function, module = stack[0]
    if module == KERNEL:  # a process before its program begins, or at its end
        return True
    # A function of libc without a symbol that calls others is one that starts programs or threads.
    return function in _STARTS or (len(stack) > 1 and module.rpartition("/")[2].startswith(_START_MODULES))


def _tree(stacks: Stacks) -> list[list[int]]:
    """The prefix tree; samples of nodes that are too small are counted in their parents only."""
    children: list[dict[int, int]] = [{}]
    nodes = [[0, -1, 0, 0]]
    for stack, count in stacks.counts.items():
        node = 0
        nodes[0][2] += count
        for place in stack:
            child = children[node].get(place)
            if child is None:
                child = children[node][place] = len(nodes)
                nodes.append([node, place, 0, 0])
                children.append({})
            nodes[child][2] += count
            node = child
        nodes[node][3] += count
    return _pruned(nodes, _LEAST_SHARE * nodes[0][2])


def _pruned(nodes: list[list[int]], least: float) -> list[list[int]]:
    """The nodes with at least `least` samples. Samples of the others stay in their parent's total, but are
    neither its own nor in one of its children."""
    numbers: dict[int, int] = {}
    rows: list[list[int]] = []
    for number, (parent, place, samples, own) in enumerate(nodes):
        if number == 0 or (samples >= least and parent in numbers):
            numbers[number] = len(rows)
            rows.append([numbers[parent], place, samples, own])
    return rows


def _addresses(stacks: Stacks, place: int, own: int) -> dict[str, Any]:
    function, module = stacks.functions[place]
    counts = stacks.addresses[place]
    file = stacks.file(module)
    within = file.function(counts.most_common(1)[0][0]) if file is not None else None
    return {
        "function": function,
        "module": module,
        "build_id": file.build_id if file is not None else "",
        "own": own,
        "range": [within.first, within.after] if within is not None else None,
        "counts": {hex(address): count for address, count in sorted(counts.items())},
    }
