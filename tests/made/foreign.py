"""Folders with every file that commands read, whole as they are written: what tests damage."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import numpy as np
from click.testing import CliRunner

from npc.files import append_line
from npc.observe.study.records import write_study
from npc.records.history import History
from npc.records.journal import Journal
from npc.records.launch import now
from npc.roofline.fit_commands import fit
from tests.made.history import a_record
from tests.made.inside import observed_runs
from tests.made.memory_use import memory_use, rank_memory
from tests.made.on_node import hotspots, put
from tests.made.profiles import Job
from tests.made.run_folder import everything, make_run
from tests.made.studies import made_study, random_shares
from tests.made.sweeps import saved, sweep

WORKPACKAGES: Final = """<?xml version="1.0" encoding="UTF-8"?>
<workpackages><workpackage id="0"><step>stream</step><parameterset>
<parameter name="tasks" type="int"><value>2</value><selection>2</selection></parameter>
<parameter name="nodes" type="int"><value>1</value></parameter>
<parameter name="submit" type="string"><value>sbatch</value></parameter>
</parameterset><parents></parents></workpackage></workpackages>
"""
CONFIGURATION: Final = """<?xml version="1.0" encoding="UTF-8"?>
<jube><benchmark name="npc" file_path_ref="../.."><step name="stream" work_dir="x">
<do done_file="ready" error_file="error">$submit submit.job</do></step></benchmark></jube>
"""


def a_run(folder: Path) -> None:
    make_run(folder, everything()[:6])


def a_study(folder: Path) -> None:
    rng = np.random.default_rng(1)
    folder.mkdir(parents=True)
    write_study(made_study(random_shares(rng), "gamma", rng, runs=1)[0], folder)


def a_history(folder: Path) -> None:
    History(folder).append([a_record(sample, day) for sample in range(2) for day in range(2)])
    journal = Journal(folder)
    part = {"part": "first", "kind": "first", "words": ["--tag", "network"], "hosts": ["n1"]}
    for name in ("n1", "n2"):
        journal.note(name, "begun", folder=str(folder), words=["npc"])
        journal.note(name, "measuring", **part)
        journal.note(
            name, "measured", part="first", exit=0, costs={"qperf": [1.5, 2]}, unmeasured={"n3": "down"}
        )
        journal.note(name, "kept", part="first", rows=4)
        journal.note(name, "lost", nodes={"n4": "no answer"})
        journal.note(name, "postponed", benchmarks=["osu"])
        journal.note(name, "judged", verdict="PASS", suspects=[])
        journal.note(name, "ended", verdict="PASS", cut=True)
    key = {"platform": "fuchs", "benchmark": "qperf", "case": "tcp_bw", "metric": "bandwidth", "size": 65536,
           "nodes": 2, "params": "{}", "value": 1e9, "since": ""}  # fmt: skip
    append_line(
        folder / "accepted.jsonl",
        {"time": now(), "who": "me", "reason": "new", "pattern": "*", "baselines": [key]},
    )


def an_observation(folder: Path) -> None:
    job = Job(2)
    job.compute(0.5, 1.0)
    job.collective("MPI_Barrier")
    put(
        observed_runs(folder, job.profiles()),
        hotspots=hotspots({(("main", "app"),): [3, 4]}),
        memory=memory_use(rank_memory(2, 3)),
    )


def fits(folder: Path) -> None:
    folder.mkdir(parents=True)
    done = CliRunner().invoke(fit, [str(saved(folder, sweep())), "--output", str(folder / "fit.json")])
    assert done.exit_code == 0, done.output


def a_jube_run(folder: Path) -> None:
    (folder / "000000_stream/work").mkdir(parents=True)
    (folder / "000000_stream/wp_done_00").touch()
    (folder / "000000_stream/work/stdout").write_text("Submitted batch job 7\n")
    (folder / "workpackages.xml").write_text(WORKPACKAGES)
    (folder / "configuration.xml").write_text(CONFIGURATION)
