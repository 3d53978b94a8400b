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
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from shutil import which
from typing import Any, Final

import click
import msgspec
import numpy as np
import pytest
from click.testing import CliRunner

import parsers
from cron.acceptance import read_acceptances
from cron.matrix import matrix_of
from cron.publish import last_coverage
from npb.schedule import InvalidPattern, read_pairs
from npc import locks
from npc.files import InvalidFile, append_line, read_json, read_lines, write_whole
from npc.jobs import flux, grid_engine, pbs, slurm
from npc.jobs.sample import read_cases
from npc.jobs.scheduler import Silent
from npc.jobs.workpackages import read_workpackages
from npc.machine import fabric
from npc.machine.facts import odd_ones, of_machine, read_environments
from npc.machine.platform import read_platform
from npc.machine.programs import read_programs
from npc.records.history import History
from npc.records.journal import Journal, missed
from npc.records.launch import now, read_launches
from npc.records.record import read_csv
from npc.records.study import read_study, write_study
from npc.validity.check import examine
from observe.efficiency_command import gpu_efficiencies
from observe.elf import ElfFile
from observe.hotspots.merge import read_hotspots
from observe.memory.merge import read_memory
from observe.memory.reduce import reduced
from observe.memory.table import read_table
from observe.mpi.rank_file import read_profiles
from observe.observation import read_observation, to_text
from observe.probes.node_file import read_probes
from observe.rank_files import read_ranks
from parsers.run.collect import collect_run
from report.observed import read_observed
from roofline.fit_commands import fit, predict
from tests import captured
from tests.captured import text_of
from tests.lab.counted import build, count
from tests.lab.npb_job import MPI_ENVIRONMENT
from tests.made.history import BEGUN, a_record
from tests.made.inside import observed_runs
from tests.made.memory_use import memory_use, rank_memory
from tests.made.on_node import hotspots, put
from tests.made.profiles import Job
from tests.made.run_folder import everything, make_pairs, make_run
from tests.made.studies import made_study, random_shares
from tests.made.sweeps import saved, sweep
from tests.paths import ROOT

pytestmark = pytest.mark.slow  # together as long as a tenth of all quick tests
#: Of each file.
CASES: Final = 40
#: Of a tool's output: what is damaged is in its first part then.
MOST_BYTES: Final = 20_000
#: A parser's time for a text, a MB at most: a pattern that tries all ways would take for ever.
LONGEST_S: Final = 5.0
MORNING: Final = datetime(2026, 11, 24, 14, 33, 45)
#: Deeper than Python's own readers go, and than any file of ours.
DEEP: Final = 5000
#: What a value may be instead.
ODD: Final[tuple[object, ...]] = (
    None, True, -1, 0, 10**30, 1e308, float("nan"), float("inf"), "", "x", "x" * 200_000, "\x1b[2J\0",
    "../..", "/", [], {}, [[]], [None], {"": None}, {"x": {"y": [1]}}, "2026-13-41T99:99:99", ["a", 1],
)  # fmt: skip


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """(container, key) of every value in a JSON value."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, below in list(items):
        yield value, key
        yield from places(below)


def changed_json(text: str, chance: random.Random) -> str:
    """One value less, or another one."""
    value = json.loads(text)
    found = list(places(value))
    container, key = chance.choice(found)
    if chance.random() < 0.25:
        del container[key]
    elif isinstance(container, dict) and chance.random() < 0.1:
        container[chance.choice(["", "x" * 300, "\x1b[2J"])] = container.pop(key)
    else:
        container[key] = chance.choice(ODD)
    return json.dumps(value)


def changed_line(text: str, chance: random.Random) -> str:
    lines = text.splitlines()
    number = chance.randrange(len(lines))
    return "\n".join([*lines[:number], changed_json(lines[number], chance), *lines[number + 1 :], ""])


def changed_words(text: str, chance: random.Random) -> str:
    """A cell of CSV, or a word, is something else."""
    ends = [number for number, letter in enumerate(text) if letter in ',\n ="']
    first, last = sorted(chance.sample(ends, 2))
    first, last = first + 1, min(last, first + 40)
    odd = chance.choice([str(value) for value in ODD])
    return text[:first] + odd + text[last:]


def changed_bytes(data: bytes, chance: random.Random) -> bytes:
    """A part is lost, is doubled, or is not what it was; or it is nested deep, or one line of a MB."""
    first, last = sorted(chance.randrange(len(data)) for _ in range(2))
    return chance.choice([
        data[:first],
        data[:first] + data[last:],
        data[:last] + data[first:],
        data[:first] + bytes(chance.randrange(256) for _ in range(4)) + data[first + 4 :],
        b"[" * DEEP,
        b'{"a":' * DEEP + b"1" + b"}" * DEEP,
        b"a = " + b"[" * DEEP,
        b"[" + b"a." * 100 * DEEP + b"a]",
        b"\n".join([data[:first], b'{"a":' * DEEP, data[first:]]),
        b"x" * 2**20,
        b"",
        b"\n\n",
        data.replace(b"\n", b"\r\n"),
        b"\xef\xbb\xbf" + data,
        data.decode("utf-8", "replace").encode("utf-16"),
    ])  # fmt: skip


def changed_number(data: bytes, chance: random.Random) -> bytes:
    """Four or eight bytes are another number, mostly in what stands first and tells how to read the rest."""
    place = chance.randrange(min(len(data), chance.choice([200, 2000, len(data)])) - 8) // 4 * 4
    size = chance.choice([4, 8])
    number = chance.choice([0, 1, *(2**bits - 1 for bits in (16, 31, 32, 63, 64)), chance.getrandbits(64)])
    return data[:place] + (number % 256**size).to_bytes(size, "little") + data[place + size :]


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


def observation(path: Path) -> None:
    run = path.parent.parent
    records = list(read_csv(run / "records.csv"))
    read_observed(records, run, {id(record): "" for record in records})
    collect_run(run)


def fits(folder: Path) -> None:
    folder.mkdir(parents=True)
    done = CliRunner().invoke(fit, [str(saved(folder, sweep())), "--output", str(folder / "fit.json")])
    assert done.exit_code == 0, done.output


def predicted(path: Path) -> None:
    done = CliRunner().invoke(predict, [str(path)])
    if done.exception and not isinstance(done.exception, SystemExit):
        raise done.exception


def a_jube_run(folder: Path) -> None:
    (folder / "000000_stream/work").mkdir(parents=True)
    (folder / "000000_stream/wp_done_00").touch()
    (folder / "000000_stream/work/stdout").write_text("Submitted batch job 7\n")
    (folder / "workpackages.xml").write_text(WORKPACKAGES)
    (folder / "configuration.xml").write_text(CONFIGURATION)


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
    lost = [{"node": "n3", "last": "", "why": "down"}]
    told = {"coverage": {"within": 3, "nodes": 3, "unmeasured": lost}}
    write_whole(folder / "verdict.json", json.dumps(told))


def nights(path: Path) -> None:
    missed(sorted(Journal(path.parent).entries(), key=lambda night: night.name), BEGUN)


def facts(path: Path) -> None:
    found = read_environments([path])
    odd_ones(found)
    for each in found.values():
        of_machine(each)


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

#: What is read → (what writes a good one, the file that is changed, how it is read).
READERS: Final[dict[str, tuple[Callable[[Path], object], str, Callable[[Path], object]]]] = {
    "records": (a_run, "records.csv", lambda path: list(read_csv(path))),
    "launches": (a_run, "launches.jsonl", lambda path: read_launches(path.parent)),
    "rules on launches": (a_run, "launches.jsonl", lambda path: examine(path.parent, "")),
    "rules on an environment": (a_run, "environment.json", lambda path: examine(path.parent, "")),
    "facts of an environment": (a_run, "environment.json", facts),
    "a study": (a_study, "study.json", lambda path: read_study(path.parent)),
    "a history": (a_history, "2026-11.csv", lambda path: list(History(path.parent).records())),
    "points of a history": (a_history, "2026-11.csv", lambda path: list(History(path.parent).points())),
    "the journal": (a_history, "nights.jsonl", nights),
    "what was accepted": (a_history, "accepted.jsonl", lambda path: read_acceptances(path.parent)),
    "pairs of nodes": (make_pairs, "verdict.json", lambda path: matrix_of(path, ("n1",))),
    "a lock": (a_lock, "lock", lambda path: str(locks.holder(path))),
    "a platform": (text("platform.toml", PLATFORM), "platform.toml", read_platform),
    "programs": (text("programs.toml", PROGRAMS), "programs.toml", lambda path: read_programs(path.parent)),
    "cases": (text("cases.jsonl", CASE * 2), "cases.jsonl", lambda path: read_cases(path, 1)),
    "switches": (text("switches", TOPOLOGY), "switches", lambda path: fabric.load(str(path))),
    "pairs": (text("pairs", "n1 n2\nn2 n3\n"), "pairs", lambda path: read_pairs(path, ["n1", "n2", "n3"])),
    "an observation": (an_observation, "raw/0000.observed.json", observation),
    "efficiencies of GPUs": (text("gpu.csv", GPUS), "gpu.csv", gpu_efficiencies),
    "fits": (fits, "fit.json", predicted),
    "the last verdict": (a_verdict, "verdict.json", lambda path: last_coverage(path.parent)),
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
    "JSON lines": (text("a.jsonl", "[1]\n"), "a.jsonl", lambda path: list(read_lines(path))),
}
OURS: Final[tuple[type[Exception], ...]] = (
    InvalidFile, OSError, click.ClickException, fabric.InvalidTopology, InvalidPattern, Silent
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
        if number % 2:
            damaged = changed_bytes(good, chance)
        elif path.suffix == ".json" or file == "lock":
            damaged = changed_json(good.decode(), chance).encode()
        elif path.suffix == ".jsonl":
            damaged = changed_line(good.decode(), chance).encode()
        else:
            damaged = changed_words(good.decode(), chance).encode("utf-8", "replace")
        path.write_bytes(damaged)
        try:
            read(path)
        except OURS as error:
            assert str(error)
        except Exception:
            (tmp_path / f"damaged-{number}").write_bytes(damaged)
            raise


@pytest.mark.parametrize("tool", sorted(set(captured.FOLDERS.values())))
def test_a_parser_reads_or_leaves_what_is_damaged(tool: str) -> None:
    texts = [path.read_bytes() for name, path in captured.all_outputs() if name == tool]
    chance = random.Random(tool)
    for number in range(CASES):
        good = chance.choice(texts)[:MOST_BYTES]
        if number % 2:
            damaged = changed_bytes(good, chance).decode("utf-8", "replace")
        else:
            damaged = changed_words(good.decode("utf-8", "replace"), chance)
        began = time.process_time()
        for reading in parsers.parse(tool, damaged):
            assert len(reading.status) < 1000
        assert time.process_time() - began < LONGEST_S, damaged[:200]


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
                damaged = changed_bytes(good, chance)
            elif suffix in (".json", ".probes", ".stacks"):
                damaged = changed_json(good.decode(), chance).encode()
            elif suffix == ".prof":
                damaged = changed_words(good.decode(), chance).encode()
            else:
                damaged = changed_number(good, chance)
            path.write_bytes(damaged)
            seen, notes = read_ranks(ranks)
            profiles, _ = read_profiles(ranks, seen)
            found = to_text(read_observation(ranks, [program], profiles=profiles))
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
            file.lines(each.address)
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
