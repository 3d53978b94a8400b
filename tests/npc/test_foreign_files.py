"""Every reader of files that others may have written, on damaged ones: its own error or an answer, no other.

Each starts from a good file. What is changed: any value of its JSON or CSV for one of another type, size or
depth, and any bytes of it. The cases are the same in every run.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import subprocess
import sys
import time
import traceback
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from shutil import which
from typing import Any, Final

import click
import msgspec
import pytest
from click.testing import CliRunner

from npc import locks, parsers
from npc.cron.acceptance import read_acceptances
from npc.cron.matrix import matrix_of
from npc.errors import CommandFailed
from npc.files import InvalidFile, read_json, read_lines, write_whole
from npc.jobs import flux, grid_engine, pbs, slurm
from npc.jobs.jube_file import step_names
from npc.jobs.sample import read_cases
from npc.jobs.scheduler import SchedulerUnavailable
from npc.jobs.suite import settings, submit_command
from npc.jobs.workpackages import read_workpackages
from npc.machine import fabric
from npc.machine.facts import odd_ones, of_machine, read_environments
from npc.machine.platform import read_platform
from npc.machine.programs import read_programs
from npc.machine.proposal import links, propose, virtual
from npc.npb.schedule import InvalidPattern, read_pairs
from npc.observe.elf import ElfFile
from npc.observe.hotspots.merge import read_hotspots
from npc.observe.memory.merge import read_memory
from npc.observe.memory.records import Density, MemoryUse, Structure
from npc.observe.memory.reduce import reduced
from npc.observe.memory.table import read_table
from npc.observe.mpi.efficiency_command import gpu_efficiencies
from npc.observe.mpi.rank_file import read_profiles
from npc.observe.observation import read_observation, to_text
from npc.observe.probes.node_file import read_probes
from npc.observe.rank_files import read_ranks
from npc.observe.study.records import read_study
from npc.parsers.run.collect import collect_run
from npc.records.history import History
from npc.records.journal import Journal, missed
from npc.records.launch import read_launches
from npc.records.observed import part_of
from npc.records.record import read_csv
from npc.records.verdicts import (
    Coverage,
    JudgedSeries,
    NightDocument,
    PairMatrix,
    UnmeasuredNode,
    Verdict,
    read_night,
    write_night,
)
from npc.report.observed import read_observed
from npc.roofline.fit_commands import predict
from npc.validity.check import examine
from tests import captured
from tests.captured import text_of
from tests.lab.counted import build, count
from tests.lab.npb_job import MPI_ENVIRONMENT
from tests.made.damaged import (
    changed_bytes,
    changed_json,
    changed_number,
    changed_words,
    damaged,
    every_json,
    places,
)
from tests.made.foreign import a_history, a_jube_run, a_run, a_study, an_observation, fits
from tests.made.history import BEGUN, KEY
from tests.made.memory_use import memory_use, rank_memory
from tests.made.profiles import MadeProfiles
from tests.made.run_folder import make_pairs
from tests.paths import ROOT

pytestmark = pytest.mark.slow  # together as long as a tenth of all quick tests
#: Where these stand in an array.
DENSITY, READS = Structure._fields.index("density"), Density._fields.index("reads")
#: Of each file.
CASES: Final = 40
#: Of a tool's output: what is damaged is in its first part then.
MOST_BYTES: Final = 20_000
#: A parser's time for a text, a MB at most: a pattern that tries all ways would take for ever.
LONGEST_S: Final = 5.0
MORNING: Final = datetime(2026, 11, 24, 14, 33, 45)


def observation(path: Path) -> None:
    run = path.parent.parent
    records = list(read_csv(run / "records.csv"))
    read_observed(records, run, {id(record): "" for record in records})
    collect_run(run)


def predicted(path: Path) -> None:
    done = CliRunner().invoke(predict, [str(path)])
    if done.exception and not isinstance(done.exception, SystemExit):
        raise done.exception


def workpackages(path: Path) -> None:
    for each in read_workpackages(path.parent):
        assert each.reason() and each.asked_nodes() and each.progress()
        each.batch_job()
        each.told_by("done_file")
    collect_run(path.parent)


def of_scheduler(name: str, read: Callable[[str], object]) -> tuple[Any, str, Callable[[Path], object]]:
    def parse(path: Path) -> object:
        return read(path.read_text(encoding="utf-8", errors="replace"))

    folder, _, file = name.partition("/")
    return text(file, text_of(folder, file)), file, parse


def a_lock(folder: Path) -> None:
    folder.mkdir(parents=True)
    with locks.only_one(folder / "lock"):
        held = (folder / "lock").read_bytes()
    (folder / "lock").write_bytes(held)


def text(name: str, good: str) -> Callable[[Path], None]:
    def write(folder: Path) -> None:
        folder.mkdir(parents=True)
        write_whole(folder / name, good)

    return write


def a_verdict(folder: Path) -> None:
    folder.mkdir(parents=True)
    series = JudgedSeries(**KEY._asdict(), verdict=Verdict.FAIL, value=1.0, hosts=("n1", "n2"))
    write_night(
        folder,
        NightDocument(
            platform="p", run="x", time="2026-11-20T02:30:00Z", verdict=Verdict.FAIL, exit_code=14,
            series=(series,), lost={"n3": "it fell silent"}, notes=("a note",),
            coverage=Coverage(
                within=3, nodes=3, unmeasured=(UnmeasuredNode(node="n3", last="", why="down"),)
            ),
            pairs=PairMatrix(nodes=("n1", "n2"), suspects=("n1",), problem="too few"),
        ),
    )  # fmt: skip


def nights(path: Path) -> None:
    missed(sorted(Journal(path.parent).entries(), key=lambda night: night.name), BEGUN)


def facts(path: Path) -> None:
    found = read_environments([path])
    odd_ones(found)
    for each in found.values():
        of_machine(each)


def suggested(path: Path) -> None:
    for environment in read_environments([path]).values():
        propose(environment)
        links(environment)
        virtual(environment)


def of_jube(path: Path) -> None:
    step_names(path, ("network",))
    settings(ROOT, None, path)
    if path.name == "platform.xml":
        submit_command(path.parent)


SLURM: Final = ROOT / "platforms/slurm/platform.xml"
JUBE: Final = """name: site
parameterset: {name: p, parameter: [{name: n, mode: shell, type: int, _: 'printf %s "${NPC_N:-5}"'}]}
step:
  - {name: one, tag: &both "network|!memory", use: p, do: ["echo $n", {done_file: ready, _: sbatch x}]}
  - name: two
    tag: *both
selection: {tag: "a,b"}
"""
PLATFORM: Final = """description = "a cluster"
[node]
cores = 20
clock_hz = 2.5e9
memory_bandwidth = 1e11
proposed = ["cores"]
[interfaces.ib0]
link = "4x FDR"
[bands]
"qperf tcp_bw 64K" = { low = 1e9, high = 2e9 }
"""
GPUS: Final = "rank,sm_efficiency,warp_execution_efficiency\n0,80%,90\n1,81%,90.5\n"
PROGRAMS: Final = """[[setting]]
program = "himeno"
setting = "2 ranks"
nodes = 1
ranks = 2
times = 1.2
variables = { OMP_NUM_THREADS = "2" }
hosts = ["n1"]
"""
CASE: Final = json.dumps({"name": "a", "values": {"size": "64K"}, "params": {"x": "1"}, "runs": 2}) + "\n"
TOPOLOGY: Final = (
    "SwitchName=leaf1 Nodes=n[1-4]\nSwitchName=leaf2 Nodes=n[5-8]\nSwitchName=top Switches=leaf[1-2]\n"
)

#: What is read → (what writes a good one, the file that is changed, how it is read).
READERS: Final[dict[str, tuple[Callable[[Path], object], str, Callable[[Path], object]]]] = {
    "records": (a_run, "records.csv", lambda path: list(read_csv(path))),
    "launches": (a_run, "launches.jsonl", lambda path: read_launches(path.parent)),
    "rules on launches": (a_run, "launches.jsonl", lambda path: examine(path.parent, "")),
    "rules on an environment": (a_run, "environment.json", lambda path: examine(path.parent, "")),
    "facts of an environment": (a_run, "environment.json", facts),
    "limits that an environment suggests": (a_run, "environment.json", suggested),
    "a study": (a_study, "study.json", lambda path: read_study(path.parent)),
    "a history": (a_history, "2026-11.csv", lambda path: list(History(path.parent).records())),
    "points of a history": (a_history, "2026-11.csv", lambda path: list(History(path.parent).points())),
    "the journal": (a_history, "nights.jsonl", nights),
    "what was accepted": (a_history, "accepted.jsonl", lambda path: read_acceptances(path.parent)),
    "pairs of nodes": (make_pairs, "pairs.json", lambda path: matrix_of(path, ("n1",))),
    "a lock": (a_lock, "lock", lambda path: str(locks.holder(path))),
    "a platform of JUBE": (text("platform.xml", SLURM.read_text()), "platform.xml", of_jube),
    "a JUBE file": (text("jube.yml", JUBE), "jube.yml", of_jube),
    "a platform": (text("platform.toml", PLATFORM), "platform.toml", read_platform),
    "programs": (text("programs.toml", PROGRAMS), "programs.toml", lambda path: read_programs(path.parent)),
    "cases": (text("cases.jsonl", CASE * 2), "cases.jsonl", lambda path: read_cases(path, 1)),
    "switches": (text("switches", TOPOLOGY), "switches", lambda path: fabric.load(str(path))),
    "pairs": (text("pairs", "n1 n2\nn2 n3\n"), "pairs", lambda path: read_pairs(path, ["n1", "n2", "n3"])),
    "an observation": (an_observation, "raw/0000.observed.json", observation),
    "efficiencies of GPUs": (text("gpu.csv", GPUS), "gpu.csv", gpu_efficiencies),
    "fits": (fits, "fit.json", predicted),
    "the last verdict": (a_verdict, "verdict.json", read_night),
    "JUBE's workpackages": (a_jube_run, "workpackages.xml", workpackages),
    "JUBE's configuration": (a_jube_run, "configuration.xml", workpackages),
    "squeue": of_scheduler("slurm/squeue.txt", slurm.parse_squeue),
    "sacct": of_scheduler("slurm/sacct.txt", slurm.parse_sacct),
    "qstat": of_scheduler("grid-engine/qstat.xml", lambda said: grid_engine.parse_qstat(said, MORNING)),
    "qacct": of_scheduler("grid-engine/qacct.txt", grid_engine.parse_qacct),
    "PBS's qstat": of_scheduler("pbs/running.json", pbs.parse_json),
    "Torque's qstat": of_scheduler("pbs/torque.txt", pbs.parse_text),
    "flux jobs": of_scheduler("flux/running.json", flux.parse_jobs),
    "a JSON file": (text("a.json", "[1]"), "a.json", read_json),
    "JSON lines": (text("a.jsonl", "[1]\n"), "a.jsonl", read_lines),
}
OURS: Final[tuple[type[Exception], ...]] = (
    InvalidFile, OSError, click.ClickException, CommandFailed, InvalidPattern, SchedulerUnavailable
)  # fmt: skip


@pytest.mark.parametrize("name", READERS)
def test_a_damaged_file_is_an_error_of_ours_or_is_read(name: str, tmp_path: Path) -> None:
    write, file, read = READERS[name]
    folder = tmp_path / "made"
    write(folder)
    path, chance = folder / file, random.Random(name)
    read(path)
    good = path.read_bytes()
    for number in range(CASES):
        damage = damaged(good, ".json" if file == "lock" else path.suffix, number, chance)
        path.write_bytes(damage)
        try:
            read(path)
        except OURS as error:
            assert str(error)
        except Exception:
            (tmp_path / f"damaged-{number}").write_bytes(damage)
            raise


#: Of those that are JSON, how many of the values are changed into everything that they may be instead.
PLACES: Final = 60


@pytest.mark.parametrize("name", [name for name, (_, file, _) in READERS.items() if file.endswith(".json")])
def test_any_value_of_json_may_be_any_other(name: str, tmp_path: Path) -> None:
    write, file, read = READERS[name]
    write(tmp_path / "made")
    path = tmp_path / "made" / file
    faults = set()
    for damage in every_json(path.read_text(), PLACES, random.Random(name)):
        path.write_text(damage, errors="replace")
        try:
            read(path)
        except OURS as error:
            assert str(error)
        except Exception as error:
            frames = traceback.extract_tb(error.__traceback__)
            faults.add(f"{frames[-1].filename}:{frames[-1].lineno}: {error!r}"[:300])
    assert not faults, "\n".join(sorted(faults))


@pytest.mark.parametrize("tool", sorted(set(captured.FOLDERS.values())))
def test_a_parser_reads_or_leaves_what_is_damaged(tool: str) -> None:
    texts = [path.read_bytes() for name, path in captured.all_outputs() if name == tool]
    chance = random.Random(tool)
    for number in range(CASES):
        good = chance.choice(texts)[:MOST_BYTES]
        if number % 2:
            damage = changed_bytes(good, chance).decode("utf-8", "replace")
        else:
            damage = changed_words(good.decode("utf-8", "replace"), chance)
        began = time.process_time()
        for reading in parsers.parse(tool, damage):
            assert len(reading.status) < 1000
        assert time.process_time() - began < LONGEST_S, damage[:200]


def test_damaged_files_of_ranks_cost_what_they_held(tmp_path: Path) -> None:
    """What a program's ranks left, with all that watched them, one file after the other damaged."""
    program = "from mpi4py import MPI; [MPI.COMM_WORLD.allreduce(1) for _ in range(9)]; sum(range(9**7))"
    companions = ["--hotspots"] * bool(which("perf")) + ["--probe", "syscalls"] * bool(which("bpftrace"))
    subprocess.run(
        [sys.executable, "-m", "npc", "observe", *companions, "--output", tmp_path / "seen", "--", "mpirun",
         "-n", "2", sys.executable, "-c", program],
        cwd=ROOT, env={**os.environ, **MPI_ENVIRONMENT}, check=True, capture_output=True, timeout=120,
    )  # fmt: skip
    ranks = tmp_path / "seen/raw/0000.ranks"
    left = {path.suffix: path for path in ranks.iterdir() if path.suffix != ".bt"}
    assert {".json", ".mpi"} <= left.keys()
    for suffix, path in sorted(left.items()):
        good, chance = path.read_bytes(), random.Random(suffix)
        for number in range(CASES):
            if number % 2:
                damage = changed_bytes(good, chance)
            elif suffix in (".json", ".probes", ".stacks"):
                damage = changed_json(good.decode(), chance).encode()
            elif suffix == ".prof":
                damage = changed_words(good.decode(), chance).encode()
            else:
                damage = changed_number(good, chance)
            path.write_bytes(damage)
            seen, notes = read_ranks(ranks)
            profiles, _ = read_profiles(ranks, seen)
            found = to_text(read_observation(ranks, [program], observers=[MadeProfiles(profiles)]))
            assert list(parsers.parse("observed", found))
            if suffix == ".probes":
                read_probes(ranks, seen)
            elif suffix == ".stacks":
                read_hotspots(ranks, notes)
        path.write_bytes(good)


def test_a_damaged_program_or_table_of_its_memory_is_said(tmp_path: Path) -> None:
    program = build("cc", "memory_counts.c", tmp_path, "-O1", "-g", CC="gcc")
    table, about = count(program, "2", "7", "5", "3", "exit").content, {"rank": 0, "host": "n1"}
    path, chance = tmp_path / "n1.0.memory", random.Random(1)

    def symbols(path: Path) -> None:
        file = ElfFile(path)
        for each in file.symbols[:5]:
            file.function(each.address)
            file.lines([each.address])
            file.element(each.address)
        file.static_probe("a:b")

    def of_table(path: Path) -> str:
        return msgspec.json.encode(reduced(read_table(path), about)).decode()

    for good, read in ((program.read_bytes(), symbols), (table, of_table)):
        for number in range(CASES):
            path.write_bytes(changed_bytes(good, chance) if number % 3 == 0 else changed_number(good, chance))
            with contextlib.suppress(ValueError):
                read(path)
    path.write_bytes(table)
    merged = of_table(path)
    for number in range(CASES):
        path.write_text(changed_json(merged, chance))
        read_memory(tmp_path, [])


@pytest.mark.parametrize("key", ["ranks", "seconds"])
def test_a_text_in_place_of_a_number_is_no_observation(key: str, tmp_path: Path) -> None:
    an_observation(tmp_path / "made")
    document = json.loads((tmp_path / "made/raw/0000.observed.json").read_text())
    document.pop("memory")
    assert [reading.status for reading in parsers.parse("observed", json.dumps(document))].count("ok") > 3
    for container, name in places(document):
        if name == key:
            container[name] = "0.72"
    (told,) = parsers.parse("observed", json.dumps(document))
    assert told.status.startswith("failed: not an observation: Expected") and f"{key}`" in told.status


def test_a_map_of_pages_that_is_no_table_is_no_part_of_an_observation() -> None:
    use = json.loads(msgspec.json.encode(memory_use(rank_memory(2, 3))))
    structure = next(each for rank in use["ranks"] for each in rank["structures"] if each[DENSITY])
    assert part_of({"memory": use}, "memory", MemoryUse)
    structure[DENSITY][READS][0].append(1)
    with pytest.raises(ValueError, match="no table of threads and bins"):
        part_of({"memory": use}, "memory", MemoryUse)
