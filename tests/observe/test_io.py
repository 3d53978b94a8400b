"""npc observe: bytes and calls of a real program's I/O, beside what the program reads of itself."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from npc import parsers
from npc.observe.observation import read_observation
from npc.observe.run import append_report
from npc.records.record import read_csv
from tests import captured
from tests.lab.npb_job import MPI_ENVIRONMENT
from tests.paths import ROOT

MIB = 1 << 20
#: Writes as many MiB as its argument says, by blocks of 64 KiB, as a child of a child, and reads them.
PROGRAM = """
import os, subprocess, sys
from pathlib import Path
if len(sys.argv) > 3:
    with open(sys.argv[1], "wb", buffering=0) as file:
        for _ in range(16 * int(sys.argv[2])):
            file.write(bytes(65536))
        os.fsync(file.fileno())
    Path(sys.argv[1]).read_bytes()
else:
    rank = int(os.environ.get("OMPI_COMM_WORLD_RANK", 0))
    size = int(sys.argv[2]) if rank == 0 else 0
    words = [sys.executable, "-S", sys.argv[0], f"{sys.argv[1]}{rank}", str(size), "child"]
    subprocess.run(words, check=True)
    print(Path("/proc/self/io").read_text().replace("\\n", " "), flush=True)
"""


@pytest.mark.slow
def test_bytes_calls_and_storage_of_ranks_and_their_children(tmp_path: Path) -> None:
    script = tmp_path / "writer.py"
    script.write_text(PROGRAM)
    command = ["mpirun", "-n", "2", sys.executable, "-S", str(script), str(tmp_path / "file"), "6"]
    ended = subprocess.run(
        [sys.executable, "-m", "npc", "observe", "--output", tmp_path / "seen", "--", *command],
        cwd=ROOT, env={**os.environ, **MPI_ENVIRONMENT}, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    truth = {"rchar": 0, "wchar": 0, "syscr": 0, "syscw": 0, "write_bytes": 0}
    for line in ended.stdout.splitlines():
        words = line.replace(":", "").split()
        told = dict(zip(words[::2], map(int, words[1::2]), strict=True))
        truth = {name: number + told[name] for name, number in truth.items()}
    (node,) = json.loads((tmp_path / "seen/raw/0000.observed.json").read_text())["nodes"]
    io = node["io"]
    # the program's own look, and its end, come on top
    assert truth["wchar"] <= io["written"] < truth["wchar"] + 100_000
    assert truth["rchar"] <= io["read"] < truth["rchar"] + 1_000_000
    assert truth["syscw"] <= io["write_calls"] < truth["syscw"] + 100
    assert truth["write_bytes"] <= io["storage_written"] < truth["write_bytes"] + 100_000
    assert io["written"] > 6 * MIB and io["read"] > 6 * MIB and io["incomplete"] == 0
    if truth["write_bytes"] > MIB:  # no tmpfs
        assert io["writers"] == 1
    records = [each for each in read_csv(tmp_path / "seen/records.csv") if each.params.get("layer") == "io"]
    found = {(r.metric, r.params["part"], r.params["direction"]): r.value for r in records}
    assert len(records) == len(found) == 6
    assert found["traffic", "calls", "write"] == io["written"]
    assert found["events", "calls", "read"] == io["read_calls"]
    assert found["traffic", "storage", "write"] == io["storage_written"]
    assert "  storage      read" in ended.stderr


def test_a_rank_that_was_killed_from_outside_has_no_io_and_the_rest_says_so(tmp_path: Path) -> None:
    moments = {"idle": 0.0, "begin": 1.0, "end": 2.0}
    for rank, moved in ((0, {"rchar": 5, "wchar": 7, "syscr": 1, "syscw": 2, "read_bytes": 4096,
                             "write_bytes": 8192, "cancelled_write_bytes": 4096}), (1, None)):  # fmt: skip
        seen = {name: {"time": moment, "counters": {}} for name, moment in moments.items()}
        (tmp_path / f"n1.{rank}.json").write_text(
            json.dumps(seen | {"host": "n1", "rank": rank, "ranks": 2, "threads": 1, "io": moved})
        )
    found = read_observation(tmp_path, ["app"])
    (node,) = found.nodes
    assert node.io is not None
    assert (node.io.read, node.io.write_calls, node.io.storage_written, node.io.writers) == (5, 2, 4096, 1)
    assert "n1: the I/O of 1 of 2 ranks could not be read" in found.notes


def test_a_darshan_log_is_told_by_darshans_own_parser(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """No registry brings that program: here a script of its name prints what it would."""
    log, kept, text = (
        tmp_path / "me.darshan",
        tmp_path / "0000.out",
        captured.DATA / "darshan/v3.2.1_ior_hdf5.txt",
    )
    log.write_bytes(b"\x7fDARSHAN")
    kept.write_text("the program's own words\n")
    monkeypatch.setenv("PATH", str(tmp_path))
    append_report(f"{tmp_path}/*.darshan", 0.0, kept)
    assert "darshan-parser is not in PATH" in capsys.readouterr().err
    script = tmp_path / "darshan-parser"
    script.write_text(f'#!/bin/sh\n[ "$1" = {log} ] && exec /bin/cat {text}\n')
    script.chmod(0o755)
    append_report(f"{tmp_path}/*.darshan", 0.0, kept)
    found = parsers.parse("darshan", kept.read_text())
    written = [
        each.value for each in found if each.params.get("direction") == "write" and each.metric == "traffic"
    ]
    assert written == [4195800, 2421]
