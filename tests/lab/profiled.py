"""Programs with the profiling library before them, each rank in its watcher, but without `npc observe`."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from npc.observe.mpi.build import library_for
from npc.observe.mpi.companion import RankLibrary
from npc.observe.mpi.profile import RankProfile
from npc.observe.mpi.rank_file import read_profiles
from npc.observe.mpi.records import PROFILE
from npc.observe.options import CompanionOptions, ObservationOptions
from npc.observe.rank_files import read_ranks
from npc.observe.run import wait_for_ranks
from tests.lab.mpis import WHEELS, Mpi
from tests.paths import ROOT

PROGRAMS = ROOT / "tests/observe/programs"


@dataclass(frozen=True)
class ProfiledEnd:
    """A run of a program, and what its ranks left."""

    code: int
    out: str
    err: str
    profiles: Sequence[RankProfile]
    notes: Sequence[str]


def compiled(mpi: Mpi, name: str, folder: Path, *options: str) -> Path:
    program = folder / name
    source = PROGRAMS / f"{name}.c"
    subprocess.run([mpi.compiler, "-O1", "-w", source, "-o", program, "-lpthread", *options], check=True)
    return program


def run(mpi: Mpi, ranks: int, folder: Path, *command: str | Path, library: str = "") -> ProfiledEnd:
    """Run a program on ranks with the library before it."""
    if mpi.compiler.startswith(str(WHEELS)):
        beside = str(Path(mpi.compiler).with_name("mpirun"))
    else:
        beside = mpi.launcher
    library = library or str(library_for([beside], str(command[0])))
    folder.mkdir()
    companion = CompanionOptions.of(RankLibrary, {"library": str(library)})
    asked = ObservationOptions(companions={PROFILE: companion}).to_text()
    around = [sys.executable, "-ES", ROOT / "npc/observe/rank.py", folder, asked]
    ended = subprocess.run(
        [mpi.launcher, "-n", str(ranks), *around, *command],
        env={**os.environ, **mpi.environment}, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    wait_for_ranks(folder, 3.0)
    return ProfiledEnd(
        ended.returncode, ended.stdout, ended.stderr, *read_profiles(folder, read_ranks(folder)[0])
    )
