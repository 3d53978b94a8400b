"""A real Slurm cluster with a node that was always slower than the others and one that becomes so.

Every link is shaped to a rate, so that nodes are told apart by what qperf measures over them. The past is
measured, too: each sample of one job is a night of it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from npc.records.history import History, night_name, of_night
from npc.records.record import replace
from tests.lab import in_process
from tests.lab.cluster import Cluster
from tests.lab.jube_job import NPC
from tests.paths import ROOT

pytestmark = [pytest.mark.slow, pytest.mark.slurm, pytest.mark.links]

LINK_MBIT = 60.0
#: 5 % less.
SLOW_MBIT = 57.0
ALWAYS_SLOW, BECOMES_SLOW = "n3", "n7"
#: Nights that are known before the first one.
PAST = 6
#: A fault is named within as many nights.
NIGHTS = 3


class PairNights:
    """Nights that measure all pairs of a cluster."""

    def __init__(self, cluster: Cluster, folder: Path) -> None:
        self._cluster, self._folder = cluster, folder
        self.history = folder / "history/slurm"

    def measure_past(self) -> None:
        """Measure all pairs `PAST` times in one night, and make a night of a day before of each sample."""
        self.night(PAST)
        measured = list(History(self.history).records())
        for file in self.history.glob("*.csv"):
            file.unlink()
        for days in range(1, PAST + 1):
            back = timedelta(days=days)
            made = [
                replace(record, sample=0, time=(datetime.fromisoformat(record.time) - back).isoformat())
                for record in measured
                if record.sample == days - 1
            ]
            History(self.history).append(of_night(made, night_name(datetime.fromisoformat(made[0].time))))

    def night(self, runs: int = 1) -> tuple[int, dict[str, Any]]:
        """A night's exit code and its verdict.json."""
        nodes = self._cluster.nodes
        words: list[str | Path] = [
            NPC, "night", "run", "--platform", "slurm", "--benchmark", ROOT / "cron/pairs/benchmark.xml",
            "--set", f"nodelist={','.join(nodes)}", "--set", f"pairs_nodes={len(nodes)}",
            "--set", f"pairs_runs={runs}", "--limit", "280s", "--history", self._folder / "history",
            "--output", self._folder / "runs", "--no-pairs", "--json",
        ]  # fmt: skip
        ended = self._cluster.run("head", words, timeout=300)
        assert ended.stdout, ended.stderr
        return ended.returncode, json.loads(ended.stdout)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(nodes=10) as ten:
        for node in ten.nodes:
            ten.shape(node, SLOW_MBIT if node == ALWAYS_SLOW else LINK_MBIT)
        yield ten


def named(verdict: dict[str, Any]) -> list[str]:
    """Whom a night names."""
    return [suspect["name"] for suspect in verdict["suspects"] if suspect["named"]]


@pytest.mark.xdist_group("unlike_nodes")
@pytest.mark.timeout(900)
def test_who_becomes_slow_is_named_and_who_always_was_is_a_finding(cluster: Cluster, tmp_path: Path) -> None:
    site = PairNights(cluster, tmp_path)
    site.measure_past()
    code, as_always = site.night()
    assert (code, named(as_always)) == (0, []), as_always

    cluster.shape(BECOMES_SLOW, SLOW_MBIT)
    try:
        ended = [site.night() for _ in range(NIGHTS)]
    finally:
        cluster.shape(BECOMES_SLOW, LINK_MBIT)
    assert {name for _, verdict in ended for name in named(verdict)} == {BECOMES_SLOW}
    code, last = ended[-1]
    assert (code, last["verdict"], named(last)) == (13, "DEGRADED", [BECOMES_SLOW])

    past: list[str | Path] = ["--platform", "slurm", "--history", site.history.parent]
    replayed = in_process.npc("night", "history", "--replay", "--json", *past)
    findings = [finding for night in json.loads(replayed.stdout)["nights"] for finding in night["findings"]]
    assert {finding["node"] for finding in findings} == {ALWAYS_SLOW}, "told when known"
