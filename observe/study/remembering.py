"""The placement that a study has shown to be the best, kept for the platform (`npc.machine.programs`)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from npc.machine.programs import BestSetting, keep
from npc.observe.study.judgement import placements_of, tied
from npc.observe.study.records import Condition, Placement, Study
from npc.records.launch import now
from npc.records.run import read_run


def keep_best(study: Study, folder: Path) -> Iterator[str]:
    """Remember what is best on each number of nodes; a sentence for each that says where.

    Raises OSError where neither the platform's folder nor the study's can be written.
    """
    hosts = sorted({host for record in read_run(folder) for host in record.hosts})
    for setting in best_of(study, folder, tuple(hosts)):
        yield keep(study.platform_folder or study.platform, setting, folder)


def best_of(study: Study, folder: Path, hosts: tuple[str, ...] = ()) -> Iterator[BestSetting]:
    """The best placement on each number of nodes, where it is told apart from all others that were tried."""
    for nodes in sorted({condition.nodes for condition in study.conditions}):
        usual = tuple(
            condition for condition in study.conditions if condition.nodes == nodes and condition.usual
        )
        order = placements_of(replace(study, conditions=usual))
        if len(order) < 2 or tied(order):
            continue
        known = {setting.name: setting for setting in usual}
        best = known[order[0].condition]
        other = _against(best, order, known)
        low, high = (None if end is None else 1 + end for end in (other.loses_low, other.loses_high))
        ranks = {setting.ranks for setting in usual}
        yield BestSetting(
            program=study.program,
            setting=best.name,
            nodes=nodes,
            ranks=best.ranks if len(ranks) == 1 else 0,
            variables=dict(best.variables),
            times=1 + other.loses,
            low=low,
            high=high,
            against=other.condition,
            time=now(),
            hosts=hosts,
            by="npc program study",
            run=str(folder.absolute()),
        )


def _against(best: Condition, order: tuple[Placement, ...], known: dict[str, Condition]) -> Placement:
    """What one has without choosing: the launcher's own binding of as many ranks and threads; where that was
    not tried the second best."""
    for placement in order[1:]:
        other = known[placement.condition]
        same = (other.ranks, other.threads) == (best.ranks, best.threads)
        if same and not other.binding and not other.variables:
            return placement
    return order[1]
