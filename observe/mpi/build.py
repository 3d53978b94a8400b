"""Builds the profiling library for a program's MPI, once, by the site's own compiler wrapper.

A built library is kept and used again for the same sources, MPI and compiler (`npc.observe.built`). It is
compiled with mpi.h for handles and constants, but not linked with libmpi. So one for MPICH also serves Intel
MPI, MVAPICH and Cray MPICH (the MPICH ABI), and one for Open MPI 4 serves Open MPI 5.
"""

from __future__ import annotations

import re
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from npc.machine.command import run
from npc.observe.built import NoLibrary, built, compile_library
from npc.observe.mpi.calls import TABLE
from npc.observe.mpi.generate import sources

SOURCES: Final = Path(__file__).with_name("library")
OPEN_MPI: Final = "Open MPI"
MPICH: Final = "MPICH"
_FLAGS: Final = ("-std=gnu11", "-O1", "-fPIC", "-shared", "-Wl,--as-needed", "-Wl,-z,lazy")
_LIBRARIES: Final = ("-ldl", "-lpthread", "-lm")
#: Names of libmpi: Open MPI's and MPICH's, Debian's MPICH, Cray's.
_LIBMPI: Final = re.compile(r"^\s*(?:\S*/)?(libmpi(?:ch)?(?:_\w+)?\.so[.\d]*) => (\S+)", re.M)
#: Libraries that come along with libmpi and are not meant.
_NO_MPI: Final = re.compile(r"libmpi_(?:mpifh|usempi|cxx|java|f90|f77|abi)")
_COMPILERS: Final = ("mpicc", "mpicc.openmpi", "mpicc.mpich", "mpigcc", "mpiicc", "mpiicx", "cc")
#: Three programs, each in a process of its own, since a library may do anything when it is loaded. They print
#: a library's version; those of the functions named on the input that it has; the libraries mpi4py loads.
_VERSION: Final = """
import ctypes, sys
text, length = ctypes.create_string_buffer(8192), ctypes.c_int()
ctypes.CDLL(sys.argv[1]).MPI_Get_library_version(text, ctypes.byref(length))
print(text.value.decode(errors="replace").splitlines()[0])
"""
_OFFERED: Final = """
import ctypes, sys
library = ctypes.CDLL(sys.argv[1])
print(*(name for name in sys.stdin.read().split() if hasattr(library, name)))
"""
_MPI4PY: Final = """
import mpi4py
mpi4py.rc.initialize = mpi4py.rc.finalize = False
from mpi4py import MPI
print(*(line.split()[-1] + " => " + line.split()[-1] for line in open("/proc/self/maps")), sep="\\n")
"""


class Compiler(NamedTuple):
    """A compiler wrapper and the MPI that it compiles for."""

    #: The wrapper's.
    path: str
    #: `OPEN_MPI` or `MPICH`.
    family: str
    #: Open MPI's major version, or MPICH_NUMVERSION.
    version: str
    #: Functions that its mpi.h declares.
    declared: frozenset[str]


def library_for(launcher: Sequence[str], program: str) -> Path:
    """The library for `program` as started by `launcher` (empty: without one), built if it is not there yet.

    Raises `NoLibrary`.
    """
    mpi = mpi_of(program)
    compiler = find_compiler(mpi, launcher[0] if launcher else "")
    return _built(compiler)


def mpi_of(program: str) -> Path | None:
    """The MPI library that a program is linked with, or that mpi4py loads into Python; None of other scripts.

    Raises `NoLibrary` for a program that no library can be put before.
    """
    path = shutil.which(program)
    if path is None:
        return None
    status = Path(path).stat()
    if status.st_mode & 0o6000:
        raise NoLibrary(f"{program} is set-user-ID or set-group-ID, which takes no LD_PRELOAD")
    with Path(path).open("rb") as stream:
        begin = stream.read(256)
    if begin.startswith(b"#!"):
        words = begin[2:].split(b"\n")[0].decode(errors="replace").split()
        interpreter = shutil.which(words[-1]) if words else None
        return _of_python(interpreter) if interpreter and _is_python(interpreter) else None
    if not begin.startswith(b"\x7fELF"):
        return None
    if _static(Path(path)):
        raise NoLibrary(f"{program} is linked statically, so nothing can stand between it and MPI")
    return _libmpi(run(["ldd", path]).stdout) or (_of_python(path) if _is_python(path) else None)


def _libmpi(listed: str) -> Path | None:
    """The first MPI library among lines of ldd."""
    for name, path in _LIBMPI.findall(listed):
        if not _NO_MPI.match(name) and path.startswith("/"):
            return Path(path)
    return None


def _is_python(program: str) -> bool:
    return Path(program).name.startswith("python")


def _of_python(interpreter: str) -> Path | None:
    """The MPI that mpi4py brings; None without mpi4py."""
    return _libmpi(run([interpreter, "-c", _MPI4PY]).stdout)


def _static(program: Path) -> bool:
    """Whether an ELF file (64 bits) names no interpreter: PT_INTERP of its program headers (elf(5))."""
    content = program.open("rb").read(65536)
    if len(content) < 64 or content[4] != 2:
        return True
    first = int.from_bytes(content[32:40], "little")
    size, number = (int.from_bytes(content[at : at + 2], "little") for at in (54, 56))
    kinds = [content[first + place * size : first + place * size + 4] for place in range(number)]
    return (3).to_bytes(4, "little") not in kinds


def find_compiler(mpi: Path | None, launcher: str) -> Compiler:
    """The wrapper that belongs to the MPI of the program, else of the launcher. Raises `NoLibrary`."""
    version = _version_of(mpi) if mpi is not None else ""
    family = _family_of(version) if version else ""
    others = []
    for path in _candidates(mpi, launcher):
        compiler = _examine(path)
        if compiler is None:
            continue
        if mpi is None:
            return compiler
        if compiler.family == family:
            offered = run([sys.executable, "-IS", "-c", _OFFERED, str(mpi)], " ".join(compiler.declared))
            # A program may test whether its MPI has a function; the profiling library must not pretend it.
            return compiler._replace(declared=compiler.declared.intersection(offered.stdout.split()))
        others.append(f"{path} is {compiler.family}'s")
    if not others:
        raise NoLibrary("no mpicc that compiles: load the MPI's module, or install its development files")
    raise NoLibrary(f"no mpicc of {version.split(',')[0]}: {'; '.join(others)}")


def _candidates(mpi: Path | None, launcher: str) -> Iterator[str]:
    """Paths of compilers, each once: first beside the MPI, then beside the launcher, then in PATH."""
    folders = []
    if mpi is not None:
        folders += [parent / "bin" for path in (mpi, mpi.resolve()) for parent in path.parents[1:4]]
    launcher_path = shutil.which(launcher) if launcher else None
    if launcher_path is not None:
        folders += [Path(launcher_path).parent, Path(launcher_path).resolve().parent]
        flavour = Path(launcher_path).name.partition(".")[2]  # mpirun.mpich
    else:
        flavour = ""
    names = [f"mpicc.{flavour}", *_COMPILERS] if flavour in ("openmpi", "mpich") else list(_COMPILERS)
    beside = [shutil.which(str(folder / name)) for folder in folders for name in names if name != "cc"]
    everything = [*beside, *map(shutil.which, names)]
    # Links of folders are followed; a link of the wrapper is not, because its name decides what it does.
    yield from dict.fromkeys(
        str(Path(path).parent.resolve() / Path(path).name) for path in everything if path
    )


def _examine(path: str) -> Compiler | None:
    """The compiler by what its mpi.h says; None if it cannot compile mpi.h."""
    text = "#include <mpi.h>\nnpc_open OPEN_MPI OMPI_MAJOR_VERSION\nnpc_mpich MPICH_NUMVERSION\n"
    preprocessed = run([path, "-E", "-P", "-x", "c", "-"], text)
    if preprocessed.returncode:
        return None
    open_mpi = re.search(r"^npc_open 1 (\d+)", preprocessed.stdout, re.M)
    mpich = re.search(r"^npc_mpich (\d+)", preprocessed.stdout, re.M)
    if open_mpi is None and mpich is None:
        return None
    declared = frozenset(re.findall(r"\b(MPI_\w+)\s*\(", preprocessed.stdout))
    number = open_mpi or mpich
    assert number is not None
    return Compiler(path, OPEN_MPI if open_mpi else MPICH, number[1], declared)


def _version_of(mpi: Path) -> str:
    printed = run([sys.executable, "-IS", "-c", _VERSION, str(mpi)])
    if printed.returncode or not printed.stdout.strip():
        raise NoLibrary(f"{mpi} does not say its version")
    return printed.stdout.strip()


def _family_of(version: str) -> str:
    """By MPI_Get_library_version."""
    if version.startswith("Open MPI"):
        return OPEN_MPI
    if re.search(r"MPICH|Intel\(R\) MPI|MVAPICH", version):
        return MPICH
    raise NoLibrary(f"{version}: neither Open MPI nor of MPICH's ABI")


def _built(compiler: Compiler) -> Path:
    made = sources(compiler.declared)
    files = sorted((*SOURCES.glob("*.[ch]"), TABLE))
    texts = [compiler.path, compiler.version, *(path.read_text(encoding="utf-8") for path in files)]
    return built(
        "mpi", "libnpcmpi.so", (*texts, *(made[name] for name in sorted(made))),
        lambda library: _compile(compiler, made, library),
    )  # fmt: skip


def _compile(compiler: Compiler, made: dict[str, str], library: Path) -> None:
    with tempfile.TemporaryDirectory(dir=library.parent) as folder:
        for name, text in made.items():
            Path(folder, name).write_text(text, encoding="utf-8")
        units = [*sorted(SOURCES.glob("*.c")), *sorted(Path(folder).glob("*.c"))]
        command = [compiler.path, *_FLAGS, f"-I{folder}", f"-I{SOURCES}", *map(str, units), *_LIBRARIES]
        compile_library(command, library, "the profiling library")
