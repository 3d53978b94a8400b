"""Files of the libraries in C call each other in one direction: none needs itself by way of others."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable
from graphlib import TopologicalSorter
from pathlib import Path
from typing import Literal

import pytest

from npc.observe.memory import build as memory
from npc.observe.mpi import build as mpi
from npc.observe.mpi.generate import sources

Mode = Literal["count", "sample"]


def objects(command: Iterable[str | Path], units: Iterable[Path], folder: Path) -> list[Path]:
    """The units, compiled one by one."""
    made = []
    for unit in units:
        made.append(folder / f"{unit.stem}.o")
        subprocess.run([*command, "-c", unit, "-o", made[-1]], check=True)
    return made


def symbols(file: Path) -> tuple[set[str], set[str]]:
    """Names that an object file defines for others, and those that it needs of others.

    Only the library's own: what it puts in the place of the C library's (malloc, sigaction) is called by its
    other files as well, which would call the C library's where it stood there.
    """
    listed = subprocess.run(["nm", "-P", "-g", file], capture_output=True, text=True, check=True).stdout
    defined, needed = set(), set()
    for line in listed.splitlines():
        name, kind = line.split()[:2]
        if name.startswith("npc_"):
            (needed if kind in "Uw" else defined).add(name)
    return defined, needed


def calls_between(files: Iterable[Path]) -> dict[str, set[str]]:
    """File → those that it needs."""
    of_file = {file.stem: symbols(file) for file in files}
    return {
        file: {other for other, (defined, _) in of_file.items() if other != file and defined & needed}
        for file, (_, needed) in of_file.items()
    }


@pytest.mark.slow
def test_no_circle_in_the_profiling_library(tmp_path: Path) -> None:
    compiler = mpi.find_compiler(None, "")
    for name, text in sources(compiler.declared).items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    units = [*mpi.SOURCES.glob("*.c"), *tmp_path.glob("*.c")]
    command = [compiler.path, "-std=gnu11", "-O1", "-fPIC", f"-I{tmp_path}", f"-I{mpi.SOURCES}"]
    calls = calls_between(objects(command, units, tmp_path))
    assert "file" in calls["communicators"]
    assert len(list(TopologicalSorter(calls).static_order())) == len(units)


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["count", "sample"])
def test_no_circle_in_the_libraries_that_look_at_memory(mode: Mode, tmp_path: Path) -> None:
    units = memory.units_of(mode)
    command = [*memory.site_compiler("CC", ("cc", "gcc")), *memory.compiler_flags()]
    calls = calls_between(objects(command, units, tmp_path))
    assert "runtime" in calls[mode]
    assert len(list(TopologicalSorter(calls).static_order())) == len(units)
