"""Many nodes: from the launches of all pairs to whom they blame, and what is shown of that.

Values are compared within one series only: one case, metric, message size and set of qualifiers. Each
series has its own localisation: who is slow by its values.
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
_COMPARED: Final = ("bandwidth", "latency", "message_rate")


class PairAttempt(NamedTuple):
    """One finished measurement of a pair."""

    #: Name of the node that ran the server.
    server: str
    #: Name of the node that ran the client.
    client: str
    #: Number of its round; None where it was repeated by itself.
    round: int | None
    #: 0, or 1 where it was repeated.
    attempt: int
    #: Its readings, and whether they may be believed.
    result: LaunchResult
    #: Of a message, in bytes, as the command line has it; None where it has none.
    size: int | None


class PairSeries(NamedTuple):
    """The values that are compared with each other."""

    #: The one thing of a tool that was measured: ``tcp_bw``.
    case: str
    #: Which quantity it is: a key of `npc.records.units.METRICS`.
    metric: str
    #: Of a message, in bytes; None where the test has no size.
    size: int | None
    #: Which of the tool's numbers it is: names and values, sorted by name.
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
    results: dict[PairSeries, list[PairResult]] = {}
    failed: list[PairResult] = []
    for attempt in attempts:
        where = (attempt.server, attempt.client)
        how = (attempt.round, attempt.attempt)
        compared = [reading for reading in attempt.result.readings if _is_compared(reading)]
        for reading in compared:
            size = reading.size if reading.size is not None else attempt.size
            series = PairSeries(reading.case, reading.metric, size, tuple(sorted(reading.params.items())))
            status = attempt.result.status if attempt.result.status != OK else reading.status
            results.setdefault(series, []).append(PairResult(*where, reading.value, status, *how))
        if not compared and attempt.result.status != OK:
            failed.append(PairResult(*where, None, attempt.result.status, *how))
    for of_series in results.values():
        of_series += failed
    return results


def pairs_to_repeat(
    results: dict[PairSeries, list[PairResult]], topology: Topology | None
) -> list[tuple[str, str]]:
    """Pairs to measure again before judging, each as often as the series that wants it most often asks."""
    from npc.npb.worst_pairs import worst_pairs

    wanted: Counter[tuple[str, str]] = Counter()
    for series, of_series in results.items():
        wanted |= Counter(worst_pairs(of_series, better=series.better, topology=topology))
    return list(wanted.elements())


def localise_all(
    results: dict[PairSeries, list[PairResult]],
    topology: Topology | None,
    nodes: Sequence[str],
    tool: str = "",
    launches: Sequence[Launch] = (),
) -> dict[PairSeries, Localisation]:
    """Who is slow, by series. tool: as the catalogue calls it, which may know who sends. launches: counters
    that rose during them are evidence, too."""
    from npc.catalogue import sender
    from npc.npb.localise import localise_pairs

    localisations = {
        series: localise_pairs(
            of_series,
            better=series.better,
            topology=topology,
            nodes=nodes,
            sender=sender(tool, series.case, series.metric, dict(series.qualifiers)),
        )
        for series, of_series in results.items()
    }
    return {series: _with_counters(localisation, launches) for series, localisation in localisations.items()}


def _with_counters(localisation: Localisation, launches: Sequence[Launch]) -> Localisation:
    """The same with what counters say of its suspects."""
    from npc.validity.moved import DuringLaunch, evidence, notable_increases

    if not localisation.suspects:
        return localisation
    during = [
        DuringLaunch(launch.hosts, notable_increases(launch.moved))
        for launch in launches
        if launch.moved is not None
    ]
    suspects = []
    for suspect in localisation.suspects:
        if words := evidence(suspect.nodes, during, link=suspect.kind == "link"):
            suspect = replace(suspect, evidence=f"{suspect.evidence}; meanwhile {words}")
        suspects.append(suspect)
    return structs.replace(localisation, suspects=tuple(suspects))


def describe(series: PairSeries, localisation: Localisation) -> str:
    """A localisation in words, for the terminal."""
    unit = METRICS[series.metric].unit
    typical = "none" if localisation.typical is None else format_quantity(localisation.typical, unit)
    return f"{series}, median {typical}: {localisation.table(rule=False)}"


def rules(localisations: Iterable[Localisation]) -> str:
    """The rule by which suspects are named, once for all localisations."""
    sentences = (sentence for localisation in localisations for sentence in localisation.rule)
    return "\n".join(dict.fromkeys(f"rule: {sentence}" for sentence in sentences))


def save(localisations: dict[PairSeries, Localisation], folder: Path) -> None:
    """Write ``pairs.json``."""
    write_pairs(
        folder,
        [
            PairsVerdict(series=str(series), **series._asdict(), verdict=localisation)
            for series, localisation in localisations.items()
        ],
    )


def draw(
    results: dict[PairSeries, list[PairResult]],
    localisations: dict[PairSeries, Localisation],
    path: Path,
    source: str,
    topology: Topology | None,
) -> list[Path]:
    """A heat map for each case and metric, of the largest size: the first at `path`, others beside it.

    Returns the files. Raises OSError.
    """
    from npc.npb import heatmap

    largest: dict[tuple[object, ...], PairSeries] = {}
    for series in results:
        key = (series.case, series.metric, series.qualifiers)
        if key not in largest or (series.size or 0) > (largest[key].size or 0):
            largest[key] = series
    drawn: list[Path] = []
    for series in largest.values():
        name = (
            path if not drawn else path.with_stem(f"{path.stem}-{series.case}-{series.metric}-{len(drawn)}")
        )
        heatmap.draw(
            results[series],
            localisations[series],
            name,
            title=str(series),
            unit=METRICS[series.metric].unit,
            topology=topology,
            source=source,
        )
        drawn.append(name)
    return drawn


def _is_compared(reading: Reading) -> bool:
    """A tool's headline numbers, not its percentiles, and not what was only sent."""
    if reading.metric not in _COMPARED:
        return False
    return reading.params.get("side") != "send" and "statistic" not in reading.params
