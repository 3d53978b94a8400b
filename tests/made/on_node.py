"""What `npc observe` saw of a program on its nodes, put into the observation of a made run."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from npc.observe.hotspots.records import Frame, Hotspot, Hotspots
from npc.observe.probes.records import NodeProbe, ProbeRow, Probes

#: (function, module)
Place = tuple[str, str]


def put(folder: Path, number: int = 0, **parts: Any) -> Path:
    """The run with `parts` (``hotspots``, ``probes``, ``overhead``) in one of its observations."""
    file = folder / f"raw/{number:04}.observed.json"
    document = json.loads(file.read_text())
    document |= {name: msgspec.to_builtins(part, str_keys=True) for name, part in parts.items()}
    file.write_text(json.dumps(document))
    return folder


def hotspots(stacks: Mapping[Sequence[Place], Sequence[int]], **more: Any) -> Hotspots:
    """Of stacks, outermost function first, with the samples that each rank had there."""
    ranks = len(next(iter(stacks.values())))
    of_rank = [sum(samples[rank] for samples in stacks.values()) for rank in range(ranks)]
    total = sum(of_rank)
    tree: dict[tuple[Place, ...], list[int]] = {(): [0] * ranks}
    own: Counter[tuple[Place, ...]] = Counter()
    flat: dict[Place, list[int]] = {}
    for stack, samples in stacks.items():
        for depth in range(len(stack) + 1):
            tree.setdefault(tuple(stack[:depth]), [0] * ranks)
            counts = tree[tuple(stack[:depth])]
            counts[:] = [before + one for before, one in zip(counts, samples, strict=True)]
        own[tuple(stack)] += sum(samples)
        flat[stack[-1]] = [a + b for a, b in zip(flat.get(stack[-1], [0] * ranks), samples, strict=True)]
    places = {path: number for number, path in enumerate(tree)}

    def shares(samples: Sequence[int]) -> tuple[float, float]:
        found = [each / all_ for each, all_ in zip(samples, of_rank, strict=True)]
        return min(found), max(found)

    frames = tuple(
        Frame(
            places[path[:-1]], *(path[-1] if path else ("all", "")), sum(samples), own[path], *shares(samples)
        )
        for path, samples in tree.items()
    )
    found = tuple(
        Hotspot(*place, sum(samples) / total, *shares(samples), "unknown", "no counters")
        for place, samples in sorted(flat.items(), key=lambda entry: -sum(entry[1]))
    )
    said = {"source": "made", "rate": 99.0, "status": "ok", "hotspots": found} | more
    return Hotspots(samples=total, ranks=ranks, frames=frames, **said)


MAIN = ("main", "app")
#: Of two ranks, the second of which computes twice as long, so that the first waits.
STACKS: Mapping[Sequence[Place], Sequence[int]] = {
    (MAIN, ("solve", "app"), ("stencil", "app")): (300, 600),
    (MAIN, ("solve", "app"), ("sin", "libm.so.6")): (50, 100),
    (MAIN, ("solve", "app")): (10, 20),
    (MAIN, ("MPI_Allreduce", "libmpi.so.40"), ("opal_progress", "libopen-pal.so.40")): (390, 30),
    (MAIN, ("read", "libc.so.6"), ("ext4_file_read_iter", "[kernel]")): (50, 50),
    (("0x7f3a12", "[unknown]"),): (200, 200),
}

#: Two probes of two ranks, the second of which sleeps and loses its CPU, and one that ended itself.
PROBES = Probes(
    nodes=(
        NodeProbe(
            probe="syscalls",
            host="n0",
            status="attached",
            rows=(
                ProbeRow(0, "read", 100, 100, 2e-4, 4096, {10: 90, 14: 10}),
                ProbeRow(1, "clock_nanosleep", 10, 10, 0.9, None, {26: 10}),
                *(ProbeRow(0, name, 1, 1, 1e-6, None, {9: 1}) for name in ("openat", "close")),
            ),
        ),
        NodeProbe(
            probe="scheduler",
            host="n0",
            status="attached",
            rows=(ProbeRow(1, "involuntary switches", 300, 300, 0.4, None, {20: 300}),),
        ),
        NodeProbe(probe="function:dot", host="n0", status="stopped", reason="it is called too often"),
    )
)
