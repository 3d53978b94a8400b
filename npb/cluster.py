"""Many nodes: from the launches of all pairs to verdicts, and what is shown of them.

Values are compared within one series only: one case, metric, message size and set of qualifiers. Each
series has its own verdict.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, cast

from msgspec import structs

from npc.npb.launch_result import LaunchResult
from npc.records.pair_verdicts import Better, Localisation, PairResult, PairsVerdict, write_pairs
from npc.records.reading import Reading
from npc.records.record import OK
from npc.records.units import METRICS, format_quantity, format_size

if TYPE_CHECKING:
    from npc.machine.fabric import Topology
    from npc.records.launch import Launch

#: What can say that a node is slow; losses and retransmissions cannot.
_JUDGED: Final = ("bandwidth", "latency", "message_rate")


class PairAttempt(NamedTuple):
    """One finished measurement of a pair. round: None where it was repeated by itself (attempt 1)."""

    server: str
    client: str
    round: int | None
    attempt: int
    result: LaunchResult
    size: int | None


class PairSeries(NamedTuple):
    """What is compared with each other."""

    case: str
    metric: str
    size: int | None
    qualifiers: tuple[tuple[str, str], ...]

    @property
    def better(self) -> Better:
        """Which direction is good."""
        return cast(Better, METRICS[self.metric].better)

    def __str__(self) -> str:
        qualifiers = (f"{key}={value}" for key, value in self.qualifiers)
        return " ".join(filter(None, [self.case, self.metric, format_size(self.size), *qualifiers]))


def labels(hosts: Sequence[str]) -> list[str]:
    """A name for each rank: its host, with the rank where several ranks are on one host."""
    count = Counter(hosts)
    return [host if count[host] == 1 else f"{host}:{rank}" for rank, host in enumerate(hosts)]


def by_series(attempts: Iterable[PairAttempt]) -> dict[PairSeries, list[PairResult]]:
    """Results of each series. A measurement that failed without a value failed in all of them."""
    found: dict[PairSeries, list[PairResult]] = {}
    failed: list[PairResult] = []
    for attempt in attempts:
        where = (attempt.server, attempt.client)
        how = (attempt.round, attempt.attempt)
        judged = [reading for reading in attempt.result.readings if _is_judged(reading)]
        for reading in judged:
            size = reading.size if reading.size is not None else attempt.size
            series = PairSeries(reading.case, reading.metric, size, tuple(sorted(reading.params.items())))
            status = attempt.result.status if attempt.result.status != OK else reading.status
            found.setdefault(series, []).append(PairResult(*where, reading.value, status, *how))
        if not judged and attempt.result.status != OK:
            failed.append(PairResult(*where, None, attempt.result.status, *how))
    for results in found.values():
        results += failed
    return found


def pairs_to_repeat(
    series: dict[PairSeries, list[PairResult]], topology: Topology | None
) -> list[tuple[str, str]]:
    """Pairs to measure again before judging, each as often as the series that wants it most often asks."""
    from npc.npb.worst_pairs import worst_pairs

    wanted: Counter[tuple[str, str]] = Counter()
    for which, results in series.items():
        wanted |= Counter(worst_pairs(results, better=which.better, topology=topology))
    return list(wanted.elements())


def judge_all(
    series: dict[PairSeries, list[PairResult]],
    topology: Topology | None,
    nodes: Sequence[str],
    tool: str = "",
    launches: Sequence[Launch] = (),
) -> dict[PairSeries, Localisation]:
    """The verdict on each series. tool: as the catalogue calls it, which may know who sends. launches: what
    rose during them is evidence, too."""
    from npc.catalogue import sender
    from npc.npb.localise import localise_pairs

    verdicts = {
        which: localise_pairs(
            results,
            better=which.better,
            topology=topology,
            nodes=nodes,
            sender=sender(tool, which.case, which.metric, dict(which.qualifiers)),
        )
        for which, results in series.items()
    }
    return {which: _with_counters(verdict, launches) for which, verdict in verdicts.items()}


def _with_counters(verdict: Localisation, launches: Sequence[Launch]) -> Localisation:
    """The verdict with what counters say of its suspects."""
    from npc.validity.moved import DuringLaunch, evidence, told

    if not verdict.suspects:
        return verdict
    beside = [DuringLaunch(each.hosts, told(each.moved)) for each in launches if each.moved is not None]
    suspects = []
    for suspect in verdict.suspects:
        said = evidence(suspect.nodes, beside, link=suspect.kind == "link")
        suspects.append(
            replace(suspect, evidence=f"{suspect.evidence}; meanwhile {said}") if said else suspect
        )
    return structs.replace(verdict, suspects=tuple(suspects))


def describe(which: PairSeries, verdict: Localisation) -> str:
    """A verdict in words, for the terminal."""
    typical = (
        "none" if verdict.typical is None else format_quantity(verdict.typical, METRICS[which.metric].unit)
    )
    return f"{which}, median {typical}: {verdict.table(rule=False)}"


def rules(verdicts: Iterable[Localisation]) -> str:
    """The rule by which suspects are named, once for all verdicts."""
    return "\n".join(dict.fromkeys(f"rule: {part}" for verdict in verdicts for part in verdict.rule))


def save(verdicts: dict[PairSeries, Localisation], folder: Path) -> None:
    """Write ``pairs.json``."""
    write_pairs(
        folder,
        [
            PairsVerdict(series=str(series), **series._asdict(), verdict=verdict)
            for series, verdict in verdicts.items()
        ],
    )


def draw(
    series: dict[PairSeries, list[PairResult]],
    verdicts: dict[PairSeries, Localisation],
    path: Path,
    source: str,
    topology: Topology | None,
) -> list[Path]:
    """A heat map for each case and metric, of the largest size: the first at `path`, others beside it.

    Returns the files. Raises OSError.
    """
    from npc.npb import heatmap

    largest: dict[tuple[object, ...], PairSeries] = {}
    for which in series:
        key = (which.case, which.metric, which.qualifiers)
        if key not in largest or (which.size or 0) > (largest[key].size or 0):
            largest[key] = which
    drawn: list[Path] = []
    for which in largest.values():
        name = path if not drawn else path.with_stem(f"{path.stem}-{which.case}-{which.metric}-{len(drawn)}")
        heatmap.draw(
            series[which],
            verdicts[which],
            name,
            title=str(which),
            unit=METRICS[which.metric].unit,
            topology=topology,
            source=source,
        )
        drawn.append(name)
    return drawn


def _is_judged(reading: Reading) -> bool:
    """A tool's headline numbers, not its percentiles, and not what was only sent."""
    if reading.metric not in _JUDGED:
        return False
    return reading.params.get("side") != "send" and "statistic" not in reading.params
