"""A site that measures its nights on a real Slurm cluster: the platform, the benchmark, the history."""

from __future__ import annotations

import json
import random
import subprocess
from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from npc.records.history import History, night_name, of_night
from npc.records.journal import Journal, JournalEntry
from npc.records.record import Record, replace
from tests.lab.cluster import Cluster
from tests.lab.jube_job import NPC
from tests.made.nights import CLIENT, TINY

#: Whom the nights before them measured: every node with several others.
EARLIER = ("n1,n3", "n2,n5", "n4,n6", "n1,n5", "n2,n4", "n3,n5", "n2,n6", "n1,n4", "n3,n4")
#: Once is enough of each pair where a night asks all of them.
ONCE = {"NPC_PAIRS_RUNS": "1"}


class NightSite:
    """The platform, the benchmark and the folders of some nights."""

    def __init__(self, cluster: Cluster, folder: Path) -> None:
        self.cluster, self.folder = cluster, folder
        (folder / "tiny.xml").write_text(TINY)
        self.history = folder / "history/slurm"

    def words(self, nodes: str, client: str = CLIENT) -> list[str | Path]:
        return [
            NPC, "night", "run", "--platform", "slurm", "--benchmark", self.folder / "tiny.xml",
            "--set", f"tiny_client={client}", "--set", f"nodelist={nodes}", "--limit", "100s",
            "--history", self.folder / "history", "--output", self.folder / "runs", "--json",
        ]  # fmt: skip

    def night(self, nodes: str, *options: str, client: str = CLIENT) -> tuple[int, dict[str, Any]]:
        """A night's exit code and its verdict.json."""
        ended = self.cluster.run("head", [*self.words(nodes, client), *options], env=ONCE, timeout=180)
        assert ended.stdout, ended.stderr
        return ended.returncode, json.loads(ended.stdout)

    def start(self, nodes: str, client: str = CLIENT) -> subprocess.Popen[str]:
        return self.cluster.popen(
            "head", self.words(nodes, client), text=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip

    def records(self) -> list[Record]:
        return list(History(self.history).records())

    def nights(self) -> list[JournalEntry]:
        return Journal(self.history).entries()


def write_earlier(site: NightSite, earlier: Sequence[str] = EARLIER) -> None:
    """The nights of the days before, in the history: the records of a real one again, on other nodes and with
    a spread of 1 %."""
    measured, by_lot = site.records(), random.Random(1)
    for days, nodes in enumerate(earlier, 1):
        back = timedelta(days=days)
        made = []
        for record in measured:
            moved = dict(zip(record.hosts, nodes.split(","), strict=False))
            params = {name: moved.get(text, text) for name, text in record.params.items()}
            time = datetime.fromisoformat(record.time) - back
            made.append(
                replace(
                    record,
                    time=time.isoformat(timespec="seconds"),
                    hosts=tuple(moved.values()),
                    params=params,
                    value=record.value and record.value * by_lot.gauss(1, 0.01),
                )
            )
        begun = datetime.fromisoformat(measured[0].time) - back
        History(site.history).append(of_night(made, night_name(begun)))


def whole(site: NightSite) -> list[Record]:
    """The history's records; fails if a row is there twice, or not whole."""
    found = site.records()
    places = [(record.run, record.raw, dict(record.params), record.sample) for record in found]
    assert len(places) == len({repr(place) for place in places}), "a measurement is in the history twice"
    for path in site.history.glob("*.csv"):
        assert path.read_bytes().endswith(b"\n")
    return found
