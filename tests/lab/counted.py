"""Programs that count their accesses to memory: built by npc program cc, run as a rank, read."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

from npc.observe.memory.build import memory_library
from npc.observe.memory.companion import RankMemoryTable
from npc.observe.memory.table import RankTable, read_table
from tests.paths import ROOT

PROGRAMS = ROOT / "tests/observe/programs"


def build(compiler: str, name: str, folder: Path, *options: str, **environ: str) -> Path:
    """The program, built by an npc command."""
    program = folder / Path(name).stem
    command = [
        sys.executable,
        "-m",
        "npc",
        "program",
        compiler,
        *options,
        PROGRAMS / name,
        "-o",
        program,
        "-pthread",
    ]
    subprocess.run(command, check=True, cwd=ROOT, env={**os.environ, **environ})
    return program


class CountedRun(NamedTuple):
    code: int
    out: str
    err: str
    table: RankTable
    content: bytes


def count(program: Path, *arguments: str) -> CountedRun:
    """Run it as `npc.observe.rank` does, and read the table."""
    settings = {"mode": "count", "library": str(memory_library("count"))}
    companion = RankMemoryTable(program.parent, "host.0", settings)
    with subprocess.Popen(
        [program, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=companion.become,
    ) as process:
        companion.begin(process.pid)
        out, err = process.communicate(timeout=60)
    companion.stop()
    table = read_table(Path(f"/proc/self/fd/{companion.files[0]}"))
    content = os.pread(companion.files[0], int(table.header["used"]), 0)
    os.close(companion.files[0])
    return CountedRun(process.returncode, out, err, table, content)
