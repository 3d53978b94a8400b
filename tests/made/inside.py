"""Folders of programs whose ranks left profiles, as `npc observe` makes them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from npc.observe.mpi.profile import RankProfile
from npc.observe.observation import read_observation, to_text
from npc.parsers.run.collect import collect_run
from npc.records.record import save_csv
from tests.made.jube_run import launch, write_launches
from tests.made.profiles import MadeProfiles


def observed_runs(folder: Path, *runs: Sequence[RankProfile], program: str = "app") -> Path:
    """A folder of launches of the program, one for the profiles of each run, with its ``records.csv``.

    The observation is written by npc observe's own code, the records are made by npc records collect's.
    """
    made = []
    folder.mkdir(parents=True)
    for number, profiles in enumerate(runs):
        hosts = tuple(sorted({each.host for each in profiles}))
        started = f"2026-11-20T{8 + number:02}:00:00+00:00"
        fields = {"argv": ("mpirun", program), "hosts": hosts, "nodes": len(hosts), "started": started}
        made.append((launch(number, params={"program": program}, **fields), ""))
    write_launches(folder, *made, tool="observed")
    for number, profiles in enumerate(runs):
        ranks = folder / f"raw/{number:04}.ranks"
        ranks.mkdir()
        for each in profiles:
            moment = {"time": 0.0, "counters": {}}
            seen = {
                "host": each.host,
                "rank": each.rank,
                "ranks": each.ranks,
                "idle": moment,
                "begin": moment,
            }
            seen["end"] = {"time": each.seconds, "counters": {}}
            (ranks / f"{each.host}.{each.rank}.json").write_text(json.dumps(seen))
        text = to_text(read_observation(ranks, [program], observers=[MadeProfiles(profiles)]))
        (folder / f"raw/{number:04}.observed.json").write_text(text)
    records = [each for each in collect_run(folder, "fuchs") if each.raw.endswith(".observed.json")]
    save_csv(records, folder / "records.csv")
    return folder
