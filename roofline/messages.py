"""What a message takes, where something else is made of messages: which ping-pong says it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from roofline.prediction import Believed

if TYPE_CHECKING:
    from roofline.cross_validation import Comparison
    from roofline.fits import Fit
    from roofline.sweeps import Source

#: Benchmarks whose ping-pong is MPI's own, and those of transports; the likeliest first.
_MPI: Final = ("osu", "imb", "netpipe", "models")
_PREFERRED: Final = (*_MPI, "perftest", "qperf", "sockperf")
#: Parameters that may differ between a ping-pong and what is made of its messages: numbers of processes.
_PROCESSES: Final = frozenset({"ranks", "waiting"})


def preference(benchmark: str, nodes: int) -> tuple[int, int]:
    """The least is the ping-pong that a prediction takes: of more nodes before of fewer, MPI's own first."""
    order = {name: place for place, name in enumerate(_PREFERRED)}
    return -nodes, order.get(benchmark, len(order))


def message_models(fits: Iterable[Fit], comparisons: Sequence[Comparison]) -> dict[Source, Believed]:
    """The models of every MPI ping-pong, and which of them is believed where."""
    from roofline.models.hockney import Hockney

    found: dict[Source, dict[str, Hockney]] = {}
    for fit in fits:
        if isinstance(fit.fitted, Hockney) and fit.source.benchmark in _MPI:
            found.setdefault(fit.source, {})[fit.name] = fit.fitted
    return {
        source: Believed.among(
            {name: each.pieces for name, each in models.items()},
            [each for each in comparisons if each.source == source],
        )
        for source, models in found.items()
    }


def made_of(source: Source, messages: Mapping[Source, Believed]) -> Source | None:
    """The ping-pong whose messages `source` is made of: on the same platform, within a node or between nodes
    as that is, and of parameters that do not contradict. Among several that of the same benchmark and on its
    hosts."""

    def distance(each: Source) -> tuple[bool, bool, tuple[int, int]]:
        elsewhere = not set(each.hosts) <= set(source.hosts)
        return each.benchmark != source.benchmark, elsewhere, preference(each.benchmark, each.nodes)

    return min((each for each in messages if _together(each, source)), key=distance, default=None)


def _together(a: Source, b: Source) -> bool:
    ours, theirs = json.loads(a.params), json.loads(b.params)
    shared = ours.keys() & theirs.keys() - _PROCESSES
    return (
        a.platform == b.platform
        and (a.nodes > 1) == (b.nodes > 1)
        and all(ours[name] == theirs[name] for name in shared)
    )
