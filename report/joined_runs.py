"""Several runs of a platform as one: a run with guests, whose records are among its own."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

from npc.records.record import replace
from npc.records.series import Series
from npc.report.runs import Run
from npc.validity.rule import Circumstances


def joined(run: Run, guests: Sequence[Run]) -> Run:
    """`run` with the records, launches and environments of other runs of its platform as its own; their raw
    paths lead from its folder to theirs."""
    environments, launches = dict(run.circumstances.environments), dict(run.circumstances.launches)
    records = list(run.records)
    for guest in guests:
        way = Path(os.path.relpath(guest.folder, run.folder))
        raws = {record.raw for record in guest.records}
        moved = {raw: (way / raw).as_posix() if raw else "" for raw in raws}
        records += [replace(record, raw=moved[record.raw]) for record in guest.records]
        environments |= {moved[raw]: known for raw, known in guest.circumstances.environments.items()}
        launches |= {moved[raw]: launch for raw, launch in guest.circumstances.launches.items()}
    whole = Run(run.number, run.label, run.folder, records, run.platform, run.problem, tuple(guests))
    whole.circumstances = Circumstances(run.circumstances.platform, environments, launches)
    return whole


def under_ceilings(runs: Sequence[Run]) -> list[Run]:
    """The runs; those that are applications alone are joined to the newest of their platform with ceilings.

    What `npc observe` saw has no ceilings of its own, and says nothing without them. What both measured is
    there to be compared, so such runs stay apart.
    """
    if len(runs) < 2:
        return list(runs)
    newest: dict[str, Run] = {}
    for run in sorted(runs, key=lambda run: max((record.time for record in run.records), default="")):
        if run.roofline.ceilings:
            newest[run.platform_name] = run
    guests: defaultdict[int, list[Run]] = defaultdict(list)
    hosts = []
    for run in runs:
        host = newest.get(run.platform_name)
        alone = run.roofline.applications and not run.roofline.ceilings
        if host and alone and not _tests(run) & _tests(host):
            guests[host.number].append(run)
        else:
            hosts.append(run)
    return [joined(run, guests[run.number]) if run.number in guests else run for run in hosts]


def _tests(run: Run) -> set[tuple[object, ...]]:
    return {Series.of(record) for record in run.records}
