"""JUBE, MPI and Python: whether the tools start and belong together."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

from npc.machine.preflight import OLDEST_JUBE, Environment, MpiTrial, check


@check(
    "error",
    "the benchmark files use what JUBE has had since 2.5",
    "install 2.5.1 or later: Debian 12 and Ubuntu 24.04 have it as the package jube, EasyBuild as JUBE",
)
def old_jube(environment: Environment, trial: MpiTrial) -> Iterator[str]:
    """JUBE too old for the benchmark files."""
    tool = environment["tools"].get("jube")
    version = re.match(r"(\d+)\.(\d+)", (tool and tool["version"]) or "")
    if version and (int(version[1]), int(version[2])) < OLDEST_JUBE:
        yield f"JUBE {tool['version']}"


@check(
    "error",
    "its Python lacks what it needs, and every run would end before it begins",
    "jube --version says why; for distutils, gone from Python since 3.12: apt-get install python3-setuptools",
)
def jube_fails(environment: Environment, trial: MpiTrial) -> Iterator[str]:
    """JUBE that does not start, as Ubuntu 24.04's package 2.5.1 alone."""
    tool = environment["tools"].get("jube")
    if tool and tool["path"] and not tool["version"]:
        yield f"{tool['path']} does not start"


@check(
    "error",
    "mpirun and mpi4py's library are of different MPIs: every network test would measure nothing",
    "put the mpirun of the same MPI first in PATH, or name its library: MPI4PY_LIBMPI=/…/libmpi.so",
)
def mpi_mismatch(environment: Environment, trial: MpiTrial) -> Iterator[str]:
    """mpirun and the library that mpi4py loads do not belong together."""
    if trial.ranks == "1":
        launcher, library = environment["mpi"]["launcher"], environment["mpi"]["library"]
        yield f"two ranks under mpirun ({launcher}) each believe to be alone (library: {library})"


@check(
    "warning",
    "what is measured is neither of the two as it was installed",
    "put the mpirun of the same MPI first in PATH, or name its library: MPI4PY_LIBMPI=/…/libmpi.so",
)
def mpi_versions(environment: Environment, trial: MpiTrial) -> Iterator[str]:
    """mpirun and the library that mpi4py loads are of one MPI, but of two versions."""
    versions = (environment["mpi"][part] or "" for part in ("launcher", "library"))
    matches = [re.search(r"(Open MPI|MPICH|Intel)\D*(\d+(?:\.\d+)*)", text) for text in versions]
    if matches[0] and matches[1] and matches[0][1] == matches[1][1] and matches[0][2] != matches[1][2]:
        yield f"{matches[0][1]}: mpirun {matches[0][2]}, the library that mpi4py loads {matches[1][2]}"


@check(
    "error",
    "npb and the OSU benchmarks are MPI programs",
    "repeat it by hand: mpirun -n 2 npc-python -c 'from mpi4py import MPI; print(MPI.COMM_WORLD.size)'",
)
def mpi_fails(environment: Environment, trial: MpiTrial) -> Iterator[str]:
    """MPI does not start."""
    if trial.ranks not in ("1", "2", "no mpirun"):
        last = [line.strip() for line in trial.mpi_output.splitlines() if line.strip(" -")][-3:]
        yield f"two ranks did not start: {trial.ranks}" + (f" ({'; '.join(last)})" if last else "")


@check(
    "note",
    "npc observe --mpit reads them; SPC tells unexpected and out-of-sequence messages, which MPI alone knows",
    "for more, build MPI with them: Open MPI's configure --enable-spc, MPICH's --enable-mpit-pvars=all",
)
def mpi_variables(environment: Environment, trial: MpiTrial) -> Iterator[str]:
    """The counters that MPI keeps of itself: most builds have few."""
    offered = trial.mpi_variables
    if offered is not None:
        version = environment["mpi"]["library"] or "MPI"
        library = re.sub(r"(\d+(\.\d+)+).*", r"\1", version, flags=re.DOTALL)
        classes = ", ".join(f"{count} {name}" for name, count in sorted(offered["classes"].items()))
        number = f"{sum(offered['classes'].values())} performance variables ({classes})"
        without = "" if "Open MPI" not in library else " with SPC" if offered["spc"] else " without SPC"
        yield f"{library}{without} has {number if classes else 'no performance variables'}"


@check(
    "warning",
    "NPC runs with modules that it was not tested with, or not at all",
    "unset PYTHONPATH, or install NPC into an environment of its own: python3 -m venv (docs/install.md)",
    name="shadows",
)
def taken_modules(environment: Environment, trial: MpiTrial) -> Iterator[str]:
    """Modules of PYTHONPATH in place of ours."""
    yield from _shadows(taken=True)


@check(
    "note",
    "other Python programs take those; NPC and npb do not look there",
    "nothing; if the site's mpi4py is meant: export NPC_MPI4PY=FOLDER, the folder in which it is",
    name="shadows",
)
def other_modules(environment: Environment, trial: MpiTrial) -> Iterator[str]:
    """Modules of PYTHONPATH that would be in place of ours."""
    yield from _shadows(taken=False)


def _shadows(taken: bool) -> Iterator[str]:
    from npc.machine.shadows import shadows

    same = [shadow for shadow in shadows() if shadow.taken is taken]
    for folder in dict.fromkeys(shadow.folder for shadow in same):
        names = ", ".join(shadow.name for shadow in same if shadow.folder == folder)
        yield f"{folder} has modules of the same names: {names}"


@check(
    "note",
    "Open MPI's mpirun refuses to run as root; the localhost platform allows it, your own shell does not",
    "export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1, or be a user",
    name="root",
)
def root_and_open_mpi(environment: Environment, trial: MpiTrial) -> Iterator[str]:
    """Open MPI refuses root."""
    variables = environment["variables"]
    allowed = variables.get("OMPI_ALLOW_RUN_AS_ROOT") and variables.get("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM")
    if os.geteuid() == 0 and not allowed and "Open MPI" in (environment["mpi"]["launcher"] or ""):
        yield "root, without OMPI_ALLOW_RUN_AS_ROOT"
