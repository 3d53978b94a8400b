"""What earlier runs of a platform say of a plan's steps: how long a launch took, and how many it took."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

from npc.jobs.workpackages import NoRun, read_workpackages
from npc.records.launch import LAUNCHES, Launch, read_launches
from npc.records.record import OK
from npc.records.series import identity

#: Only the last runs are looked at: the machine of long ago is another one.
_LAST: Final = 10


class EarlierStep(NamedTuple):
    """A step as it was in a run."""

    #: How long a launch took, in s: the mean of all.
    seconds: float
    #: How many launches each case had: as many as its precision took.
    needed: tuple[int, ...]
    #: Name of the run's folder.
    run: str


def steps_seen(runs: Path, platform: str) -> Mapping[str, EarlierStep]:
    """By step what the newest run of the platform in `runs` shows in which all its launches worked."""
    by_step: dict[str, EarlierStep] = {}
    for run in sorted(runs.glob("[0-9]" * 6), reverse=True)[:_LAST]:
        made: dict[str, list[Launch]] = {}
        cases: dict[str, Counter[tuple[str, ...]]] = {}
        with contextlib.suppress(NoRun):
            for workpackage in read_workpackages(run):
                if workpackage.parameters.get("npc_platform_name") != platform:
                    continue
                for log in (workpackage.folder / "work").glob(f"*/{LAUNCHES}"):
                    with contextlib.suppress(OSError, ValueError):
                        for launch in read_launches(log.parent).launches:
                            made.setdefault(workpackage.step, []).append(launch)
                            what = (workpackage.name, launch.case, *map(str, identity(launch.params).items()))
                            cases.setdefault(workpackage.step, Counter())[what] += 1
        for step, launches in made.items():
            if all(launch.status == OK for launch in launches):
                mean = sum(launch.seconds for launch in launches) / len(launches)
                by_step.setdefault(step, EarlierStep(mean, tuple(cases[step].values()), run.name))
    return by_step
