"""Nodes of a fleet by what each measures alone: who became worse, who always was, and what is accepted.

Histories are made in memory, small and of one seed: nodes differ by 1 %, a reading repeats to 0.3 %.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from pathlib import Path

import numpy as np
import pytest

from npc.cron.acceptance import accepted_nodes, baselines_of, read_acceptances
from npc.cron.judge import judge_last_night, replay
from npc.cron.outputs import table
from npc.cron.publish import write_verdict
from npc.cron.series import panel
from npc.cron.verdict import NightVerdict
from npc.machine.fabric import Group, Topology
from npc.records.history import History, HistoryRow, night_name
from npc.records.series import GPU
from npc.records.verdicts import VERDICT, Verdict, read_night
from tests.lab import in_process
from tests.made.fleets import write_csv
from tests.made.history import BEGUN, KEY

SPREAD, SIGMA = 0.01, 0.003
ONSET = 14
#: By how much (0.05: 5 %) a node, or device of it, is slower in a night.
Slower = Callable[[int, int, int], float]


def history(
    nodes: int, nights: int, slower: Slower, devices: int = 1, begins: Mapping[int, int] | None = None
) -> list[HistoryRow]:
    """Nights of a fleet. begins: by node the first night that measured it, where that is not the first."""
    rng = np.random.default_rng(1)
    levels = SPREAD * rng.standard_normal((nodes, devices))
    rows = []
    for night in range(nights):
        begun = BEGUN + timedelta(days=night)
        noise = SIGMA * rng.standard_normal((nodes, devices))
        for node in range(nodes):
            for device in range(devices):
                key = KEY._replace(platform="made", benchmark="stream", case="triad", size=None, nodes=1)
                if devices > 1:
                    key = key._replace(params=f'{{"{GPU}": "{device}"}}')
                value = 1e11 * np.exp(levels[node, device] + noise[node, device])
                value *= 1 - slower(node, device, night)
                hosts = (f"n{node:02d}",)
                row = HistoryRow(key, night_name(begun), begun.isoformat(), float(value), "ok", hosts, False)
                if night >= (begins or {}).get(node, 0):
                    rows.append(row)
    return rows


def judged(rows: Sequence[HistoryRow], topology: Topology | None = None) -> NightVerdict:
    """The verdict on the last night."""
    return judge_last_night(panel(rows), "made", topology=topology)


def replayed(rows: Sequence[HistoryRow]) -> list[NightVerdict]:
    """The verdicts on all nights, the oldest first."""
    return list(replay(panel(rows), "made"))


def named(night: NightVerdict) -> list[str]:
    """Whom a night names, with the device."""
    return [f"{suspect.name} {suspect.device}".strip() for suspect in night.suspects if suspect.named]


def name_of(night: int) -> str:
    """A night's name by its number."""
    return night_name(BEGUN + timedelta(days=night))


def since(*nodes: int, loss: float = 0.05, begin: int = ONSET, end: int = 10**6) -> Slower:
    """These nodes are slower from a night on, until another one."""
    return lambda node, device, night: loss if node in nodes and begin <= night < end else 0.0


def test_a_rack_that_becomes_slow_is_one_suspect() -> None:
    racks = [frozenset(f"n{node:02d}" for node in range(first, first + 4)) for first in (0, 4, 8, 12)]
    topology = Topology(tuple(Group(f"r{number}", "rack", rack) for number, rack in enumerate(racks)))
    night = judged(history(16, ONSET + 4, since(4, 5, 6, 7)), topology)
    assert [(suspect.kind, suspect.name) for suspect in night.suspects if suspect.named] == [("rack", "r1")]
    (rack,) = (suspect for suspect in night.suspects if suspect.named)
    assert frozenset(rack.nodes) == racks[1] and rack.since == name_of(ONSET)
    assert rack.slowdown == pytest.approx(0.05, abs=0.01)
    assert night.exit_code == Verdict.DEGRADED.exit_code


def test_one_device_of_eight_is_named_as_such_and_most_of_them_as_the_node() -> None:
    def one(node: int, device: int, night: int) -> float:
        return 0.05 if (node, device) == (3, 5) and night >= ONSET else 0.0

    def most(node: int, device: int, night: int) -> float:
        return 0.05 if node == 3 and device != 5 and night >= ONSET else 0.0

    assert named(judged(history(6, ONSET + 4, one, devices=8))) == ["n03 gpu 5"]
    assert named(judged(history(6, ONSET + 4, most, devices=8))) == ["n03"]


def test_two_nodes_that_become_slow_at_once_are_both_named() -> None:
    night = judged(history(16, ONSET + 4, since(3, 9)))
    assert sorted(named(night)) == ["n03", "n09"]
    assert {suspect.since for suspect in night.suspects} == {name_of(ONSET)}


def test_a_node_that_heals_is_no_suspect_any_more() -> None:
    healed = ONSET + 6
    verdicts = replayed(history(16, healed + 8, since(3, end=healed)))
    assert all(named(night) == ["n03"] for night in verdicts[ONSET + 3 : healed])
    assert all(not named(night) and night.exit_code == 0 for night in verdicts[healed + 3 :])
    assert all(not night.findings for night in verdicts[healed + 3 :]), "it was not always so"


def test_a_node_that_stays_slow_for_90_nights_is_still_named_with_its_first_night() -> None:
    night = judged(history(10, ONSET + 90, since(3)))
    assert named(night) == ["n03"] and night.exit_code == Verdict.DEGRADED.exit_code
    (suspect,) = night.suspects
    assert suspect.since == name_of(ONSET)
    assert suspect.slowdown == pytest.approx(0.05, abs=0.01)
    assert night.findings == ()


@pytest.mark.parametrize("nodes", [8, 16])
def test_half_of_the_fleet_slower_accuses_nobody(nodes: int) -> None:
    for night in replayed(history(nodes, ONSET + 6, since(*range(nodes // 2)))):
        assert not named(night)


def test_an_accepted_node_is_quiet_and_its_next_loss_is_named(tmp_path: Path) -> None:
    folder, accepted, again = tmp_path / "made", ONSET + 4, ONSET + 14

    def slower(node: int, device: int, night: int) -> float:
        return (0.0 if night < ONSET else 0.05 if night < again else 0.10) if node == 3 else 0.0

    rows = history(16, again + 4, slower)
    folder.mkdir()
    of_nights = sorted({row.run for row in rows})

    def keep(first: int, last: int) -> None:
        some = [row for row in rows if row.run in of_nights[first:last]]
        write_csv(some, folder / f"2026-{11 + (first > 0)}.csv")

    keep(0, accepted)
    platform = tmp_path / "platforms/made"
    platform.mkdir(parents=True)
    (platform / "platform.xml").write_text("<jube/>\n")
    words: list[str | Path] = ["--platform", platform, "--history", tmp_path, "--reason", "new firmware"]
    ended = in_process.npc("night", "accept", *words)
    assert ended.returncode == 0, ended.stderr
    assert f"node n03: as it is since {of_nights[ONSET]}" in ended.stdout
    keep(accepted, len(of_nights))
    acceptances = read_acceptances(folder)
    (acceptance,) = acceptances
    assert acceptance.nodes == {"n03": of_nights[ONSET]}

    past = History(folder)
    for last in range(accepted, len(of_nights)):
        chosen = [row for row in past.points() if row.run <= of_nights[last]]
        night = judge_last_night(
            panel(chosen), "made", baselines_of(acceptances), nodes=accepted_nodes(acceptances)
        )
        if last < again:
            assert (named(night), night.exit_code) == ([], 0), night.run
        elif last > again + 1:
            assert named(night) == ["n03"], night.run
    past.close()
    (suspect,) = night.suspects
    assert suspect.since == of_nights[again] and suspect.slowdown == pytest.approx(0.05, abs=0.01)


def test_who_always_was_slow_is_a_finding_that_is_new_once_and_is_read_back(tmp_path: Path) -> None:
    """The folder keeps what each night said of it."""
    always = since(3, loss=0.06, begin=0)
    verdicts = replayed(history(16, 10, always))
    assert all((night.exit_code, named(night)) == (0, []) for night in verdicts)
    new = [night for night in verdicts if any(finding.new for finding in night.findings)]
    assert len(new) == 1 and "finding: n03 is " in table(new[0])
    told = verdicts.index(new[0])
    assert told == 2, "as soon as its level is known"
    for night in verdicts[told:]:
        document = write_verdict(tmp_path, night, [])
        assert read_night(tmp_path / VERDICT) == document
        (finding,) = document.findings
        assert (finding.name, finding.since, finding.rank, finding.members) == ("n03", new[0].run, 1, 16)
        assert 0.03 < finding.slowdown < 0.09
        assert ("finding:" in table(night)) == (night is new[0])


def test_a_slow_node_that_was_measured_only_later_is_a_finding_as_well() -> None:
    rows = history(16, 14, since(3, loss=0.06, begin=0), begins={3: 8})
    verdicts = replayed(rows)
    assert all((night.exit_code, named(night)) == (0, []) for night in verdicts)
    assert [night.run for night in verdicts if night.findings] == [name_of(night) for night in range(10, 14)]
    assert {finding.since for night in verdicts for finding in night.findings} == {name_of(10)}


def test_of_a_fleet_of_three_who_becomes_slow_is_named() -> None:
    verdicts = replayed(history(3, ONSET + 5, since(1)))
    assert all((night.exit_code, named(night)) == (0, []) for night in verdicts[:ONSET])
    assert named(verdicts[-1]) == ["n01"]
