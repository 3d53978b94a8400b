"""What watching took of a run, as estimated: events times what one costs on this machine.

Of each part the rank that paid most counts, which is what the program lost where ranks wait for each other
anyway. Costs are those of the machine that this runs on: of a job its first node.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from npc.observe.companions import HOTSPOTS, PROBES
from npc.observe.costs.cache import NoCost
from npc.observe.hotspots import sample_cost as stacks
from npc.observe.mpi import call_cost as mpi_calls
from npc.observe.mpi.profile import RankProfile
from npc.observe.options import ObservationOptions
from npc.observe.rank_files import WatchedRank
from npc.records.node_probes import Overhead, Probes

#: The parts of an estimate.
MPI: Final = "mpi"
NO_LIMIT: Final = "none"


def read_budget(text: str) -> float | None:
    """The share of ``2 %``, ``2%`` or ``0.5%``; None for ``none``. Raises ValueError."""
    if text.strip().lower() == NO_LIMIT:
        return None
    try:
        percent = float(text.strip().removesuffix("%"))
    except ValueError:
        percent = -1.0
    if not text.strip().endswith("%") or not 0 < percent <= 100:
        raise ValueError(f"--overhead {text!r}: expected a part of the run time, such as 2%, or {NO_LIMIT}")
    return percent / 100


def overhead_of(
    asked: ObservationOptions,
    launcher: Sequence[str],
    program: str,
    seen: Sequence[WatchedRank],
    profiles: Sequence[RankProfile],
    probes: Probes | None,
) -> tuple[Overhead, tuple[str, ...]]:
    """The estimate, and what of it is not known. seen: the ranks."""
    estimated: dict[str, float] = {}
    notes = []
    settings = asked.companions
    parts: dict[str, Callable[[], float | None]] = {
        MPI: lambda: _of_calls(profiles, asked.library, launcher, program),
        PROBES: lambda: _of_probes(probes, seen),
        HOTSPOTS: lambda: _of_samples(seen, str(settings[HOTSPOTS]["call_graph"])),
    }
    wanted = {
        MPI: bool(asked.library and profiles),
        PROBES: probes is not None,
        HOTSPOTS: HOTSPOTS in settings,
    }
    for name, estimate in parts.items():
        if not wanted[name]:
            continue
        try:
            share = estimate()
        except NoCost as error:
            notes.append(f"overhead of {name}: not known: {error}")
            continue
        if share is not None:
            estimated[name] = share
    budget = settings[PROBES]["overhead"] if PROBES in settings else None
    return Overhead(estimated=estimated, budget=budget), tuple(notes)


def _of_calls(
    profiles: Sequence[RankProfile], library: str, launcher: Sequence[str], program: str
) -> float | None:
    calls = {rank.rank: sum(each.calls for each in rank.calls) for rank in profiles if rank.seconds > 0}
    if not calls:
        return None
    seconds = mpi_calls.cost(library, launcher, program)
    return max(calls[rank.rank] * seconds / rank.seconds for rank in profiles if rank.rank in calls)


def _of_samples(seen: Sequence[WatchedRank], call_graph: str) -> float | None:
    taken = [(rank.hotspots.samples, rank.seconds) for rank in seen if rank.hotspots]
    if not any(samples for samples, _ in taken):
        return None
    seconds = stacks.cost(call_graph)
    return max((samples * seconds / lasted for samples, lasted in taken if lasted > 0), default=None)


def _of_probes(probes: Probes | None, seen: Sequence[WatchedRank]) -> float | None:
    """Of the node where all probes together took most; each of the rank that it took most of."""
    shares = []
    nodes = [node for node in probes.nodes if node.cost is not None] if probes else []
    for host in {node.host for node in nodes}:
        lasted = max((rank.seconds for rank in seen if rank.host == host), default=0.0)
        if lasted > 0:
            shares.append(sum(node.cost or 0.0 for node in nodes if node.host == host) / lasted)
    return max(shares, default=None)
