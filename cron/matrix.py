"""The pair matrix of npb on exactly the suspects: the confirmation of what the history accuses.

A history names who was there whenever it was slow. Here the suspects are measured against healthy nodes,
every pair of them, and npb (docs/blame.md) says who is slow now.
"""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Final

from npc.cron.series import case_of
from npc.cron.verdict import NightVerdict, SeriesVerdict
from npc.places import suite
from npc.records.history import HistoryRow
from npc.records.journal import Part
from npc.records.pair_verdicts import PAIRS as PAIRS_FILE
from npc.records.pair_verdicts import read_pairs
from npc.records.verdicts import PairMatrix, SlowSuspect, Verdict

#: The test between two nodes, in the suite.
PAIRS: Final = "cron/pairs/benchmark.xml"
#: Fewer nodes cannot be compared with each other (docs/blame.md).
LEAST_NODES: Final = 5
#: Nodes in a matrix if the history knows as many; with more than half as many suspects, two nodes a suspect.
USUAL_NODES: Final = 6
MOST_SUSPECTS: Final = 12
#: With more nodes than this a sample of the pairs has to do.
ALL_PAIRS: Final = 8
SAMPLED_ROUNDS: Final = 8


def chosen(
    night: NightVerdict, points: Iterable[HistoryRow], out: Collection[str] = ()
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Suspects, and witnesses: healthy nodes to compare them with. No suspects where nothing is bad, no
    witnesses where there are too few.

    out: nodes that cannot be measured now.

    Suspects are the nodes against which the history has grave evidence from benchmarks between nodes; where
    such a series is bad tonight, also whom it names for anything else, and if it names nobody, all on which
    these series ran. Witnesses are other nodes that the history knows, those measured last before others.
    """
    between = {case_of(series.key) for series in night.series if series.key.nodes > 1}
    bad = [series for series in night.series if is_bad(series) and series.key.nodes > 1]
    considered = [
        suspect
        for suspect in night.suspects
        if (suspect.grave and between.intersection(suspect.benchmarks)) or (bad and suspect.named)
    ]
    accused = [node for suspect in considered for node in suspect.nodes]
    if not any(suspect.named for suspect in considered):
        accused += [host for series in bad for host in series.hosts]
    suspects = tuple(host for host in dict.fromkeys(accused) if host not in out)[:MOST_SUSPECTS]
    if not suspects:
        return (), ()
    last_measured: dict[str, str] = {}
    for point in points:
        if point.key.nodes > 1:
            for host in set(point.hosts).difference(out):
                last_measured[host] = max(point.time, last_measured.get(host, ""))
    others = sorted((host for host in last_measured if host not in suspects), key=last_measured.__getitem__)[
        ::-1
    ]
    wanted = max(USUAL_NODES, 2 * len(suspects)) - len(suspects)
    witnesses = tuple(others[:wanted])
    return (suspects, witnesses) if len(suspects) + len(witnesses) >= LEAST_NODES else (suspects, ())


def is_bad(series: SeriesVerdict) -> bool:
    """Whether a series is worse tonight than it should be."""
    worse = series.verdict is Verdict.CHANGED and series.direction == "worse"
    return worse or series.verdict in (Verdict.WATCH, Verdict.DEGRADED, Verdict.FAIL)


def part_of(
    suspects: Sequence[str], witnesses: Sequence[str], night: NightVerdict, topology: str = ""
) -> Part:
    """The measurement of the matrix; `topology` as npb takes it."""
    nodes = (*suspects, *witnesses)
    which = "all" if len(nodes) <= ALL_PAIRS else f"sample:{SAMPLED_ROUNDS}"
    settings = {"nodelist": ",".join(nodes), "pairs_nodes": str(len(nodes)), "pairs_which": which}
    test = _qperf_test(night)
    if test != "tcp_bw":
        settings["pairs_client"] = f"qperf HOSTNAME -lp PORT -t 1 -uu -vu -m 64K {test}"
    if topology:
        settings["pairs_topology"] = topology
    words = words_of(suite() / PAIRS, settings)
    return Part(name="pairs", kind="pairs", words=words, hosts=tuple(suspects))


def words_of(file: Path, given: Mapping[str, str]) -> tuple[str, ...]:
    """What ``npc characterise`` is told: a benchmark's file and its settings."""
    sets = (word for name, value in given.items() for word in ("--set", f"{name}={value}"))
    return ("--benchmark", str(file), *sets)


def settings_of(words: Sequence[str]) -> dict[str, str]:
    """The settings among such words."""
    given = (word for flag, word in pairwise(words) if flag == "--set")
    return dict(word.partition("=")[::2] for word in given)


def too_few(part: Part, platform: Path) -> str:
    """What to do where the history knows too few nodes: the measurement that would tell, for a shell."""
    few = f"{LEAST_NODES} nodes at least can be compared, the history knows fewer"
    if len(nodes_of(part)) < LEAST_NODES:
        return f"{few}: measure others as well (npc night run --each-node)"
    words = ["npc", "characterise", "--platform", str(platform), *part.words]
    return f"{few}; this would tell who it is: {shlex.join(words)}"


def nodes_of(part: Part) -> tuple[str, ...]:
    """All nodes that the measurement of a matrix is made on."""
    return tuple(settings_of(part.words).get("nodelist", "").split(","))


def _qperf_test(night: NightVerdict) -> str:
    """qperf's bandwidth test that is bad tonight, or somebody is accused of; TCP's if none of its own is."""
    bad = [(series.key.benchmark, series.key.case) for series in night.series if is_bad(series)]
    accused = [case.split() for suspect in night.suspects if suspect.grave for case in suspect.benchmarks]
    bad += [(words[0], words[1]) for words in accused if len(words) > 1]
    tests = [case for benchmark, case in bad if benchmark == "qperf" and case.endswith("_bw")]
    return next((test for test in tests if test != "udp_bw"), "tcp_bw")


def read_matrix(part: Part, run: Path | None, words: str) -> PairMatrix:
    """What npb's ``pairs.json`` of the run says; `words` are the last that the part printed."""
    nodes = nodes_of(part)
    files = pair_files_of(run) if run else []
    if not files:
        return PairMatrix(nodes=nodes, suspects=part.hosts, problem=f"not measured: {words or 'no output'}")
    return matrix_of(files[-1], nodes, part.hosts)


def pair_files_of(run: Path) -> list[Path]:
    """The ``pairs.json`` of every measurement of pairs in a run."""
    return sorted(run.rglob(f"launches/{PAIRS_FILE}"))


def matrix_of(file: Path, nodes: tuple[str, ...], suspects: tuple[str, ...] = ()) -> PairMatrix:
    """What a ``pairs.json`` says of pairs of these nodes; a damaged one says nothing."""
    try:
        entries = read_pairs(file)
    except (OSError, ValueError) as error:
        return PairMatrix(nodes=nodes, suspects=suspects, problem=str(error))
    slow: dict[tuple[str, str, str], SlowSuspect] = {}
    for entry in entries:
        for suspect in entry.verdict.suspects:
            named = SlowSuspect(
                kind=suspect.kind, name=suspect.name, nodes=suspect.nodes, slowdown=suspect.slowdown,
                evidence=suspect.evidence, series=entry.series, role=suspect.role,
            )  # fmt: skip
            slow.setdefault((named.kind, named.name, named.role), named)
    pairs = sum(entry.verdict.measurements for entry in entries)
    known = sum(entry.verdict.judged for entry in entries)
    undecided = [sentence for entry in entries for sentence in entry.verdict.undecided]
    problem = "" if known or slow else "; ".join(dict.fromkeys(undecided)) or "nobody can be judged"
    return PairMatrix(nodes=nodes, suspects=suspects, slow=tuple(slow.values()), pairs=pairs, problem=problem)
