"""OSU micro-benchmarks as an MPI rank: ``mpirun -n 2 python osu.py latency --prefix /opt/osu``.

With a prefix the C program is found below it (layouts differ between versions: ``libexec/…/mpi/pt2pt``,
``…/mpi/pt2pt/standard``, ``bin``) and takes this process' place, so nothing of Python is left beside it.
Without one it is the port in mpi4py's source distribution, which set-up has put beside the Python
environment; all-reduce, which has no port there, follows the same loop in ``osu_allreduce.py``. Several
ports run one after another: ``osu.py latency bw``.
"""

from __future__ import annotations

import argparse
import importlib.util
import inspect
import os
import shlex
import sys
from collections.abc import Callable
from pathlib import Path

PORTS = (Path(__file__).parent, Path(sys.prefix) / "share" / "npc" / "osu-mpi4py")
#: Iterations of a small message in a port: not counted, counted.
SKIP, LOOP = 200, 2000
#: Tests without a message size.
SIZELESS = frozenset({"barrier", "ibarrier", "init", "hello"})


def find_program(prefix: Path, test: str) -> Path | None:
    """The C program ``osu_TEST`` below `prefix`; among several the first in the order of their paths."""
    programs = (path for path in prefix.rglob(f"osu_{test}") if path.is_file() and os.access(path, os.X_OK))
    return min(programs, default=None)


def find_port(test: str) -> Callable[..., None] | None:
    """The function of mpi4py's port of a test."""
    path = next((folder / f"osu_{test}.py" for folder in PORTS if (folder / f"osu_{test}.py").exists()), None)
    if path is None:
        return None
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    function: Callable[..., None] = getattr(module, path.stem)
    return function


def main() -> str | None:
    """Become the C program, or run the port. Returns what went wrong, for a person."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tests", nargs="+", help="latency, bw, …: the programs' names without osu_")
    parser.add_argument("--prefix", default="", help="root of a C build; empty: mpi4py's ports")
    parser.add_argument("--options", default="", help="such as '-f -c', of the C program alone")
    parser.add_argument("--max-size", type=int, default=1 << 20, help="largest message in bytes")
    options = parser.parse_args()
    if options.prefix:
        test, *others = options.tests
        if others:
            return "osu_tests: C programs have a launch each: write commas between them"
        program = find_program(Path(options.prefix), test)
        if program is None:
            return f"unavailable: no osu_{test} below osu_prefix {options.prefix}"
        sizes = [] if test in SIZELESS else ["-m", str(options.max_size)]
        os.execv(program, [str(program), *sizes, *shlex.split(options.options)])
    if options.options:
        return f"unavailable: mpi4py's ports take no {options.options}: NPC_OSU_PREFIX names a C build"
    ports = {test: find_port(test) for test in options.tests}
    if missing := [test for test, port in ports.items() if port is None]:
        return (
            f"unavailable: mpi4py has no port of osu_{missing[0]} in {PORTS[1]}: "
            f"`{sys.executable} -m npc.machine.fetch osu` fetches the ports; NPC_OSU_PREFIX names a C build"
        )
    from mpi4py import MPI

    if MPI.COMM_WORLD.size < 2:  # not every port asks, and alone it would time messages to itself
        library = MPI.Get_library_version().partition(",")[0]
        return (
            f"osu_{options.tests[0]} needs two ranks, and this one is alone: is what started it the launcher "
            f"of {library}, and does it use its PMI?"
        )
    # the ports' 10 000 iterations of a small message take seconds where Python calls MPI
    loops = {"skip": SKIP, "loop": LOOP, "skip_small": SKIP, "loop_small": LOOP}
    for port in filter(None, ports.values()):
        takes = inspect.signature(port).parameters
        fewer = {name: n for name, n in loops.items() if name in takes and n <= takes[name].default}
        port(**{**fewer, "MAX_MSG_SIZE": options.max_size})
    return None


if __name__ == "__main__":
    sys.exit(main())
