"""The mathematical libraries of this machine, in the folders of the loader and in customary ones.

What a user has loaded comes first: the folders of ``LD_LIBRARY_PATH`` and ``LIBRARY_PATH``, MKL's of
``MKLROOT``, this Python's own (wheels of PyPI). Then the system's: Debian keeps each build of a BLAS in a
folder of its own (``openblas-pthread``) and lets one of them be the ``libblas.so.3`` of all programs; here
each has its own name, so that nobody takes the reference BLAS for another.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

#: Library → file names (glob), with integers of 32 bits, those with threads first.
NAMES: Final[Mapping[str, tuple[str, ...]]] = {
    "OpenBLAS": ("libopenblas.so*", "libopenblasp.so*", "libopenblaso.so*"),
    "BLIS": ("libblis-mt.so*", "libblis.so*"),
    "MKL": ("libmkl_rt.so*",),
    "FFTW": ("libfftw3.so*",),
}
#: File names of MPI and of what Open MPI, MPICH and Intel MPI stand on.
MPI: Final = re.compile(
    r"(libp?mpi|libopen-(pal|rte)|libmpich|libfabric|libpmix|libprrte|libpsm|libuc[mpst]|libibverbs|librdmacm|"
    r"libmlx|libefa|libhfi|libportals|libcoll|libhcoll|libsharp|lib\w+-(fi|rdmav\d+)\.so|mca_|libnpc).*"
)
#: Folders below the system's, builds with threads first.
_BUILDS: Final = ("*-pthread", "*-openmp", "", "*-serial")
_SYSTEM: Final = ("/usr/local/lib", "/usr/local/lib64", "/usr/lib/*-linux-gnu", "/usr/lib64", "/usr/lib")


def find_library(name: str) -> Path | None:
    """The file of one of `NAMES`, the first in the order above; None where there is none."""
    for folder in _folders():
        for pattern in NAMES[name]:
            for path in sorted(folder.glob(pattern), key=lambda path: (len(path.name), path.name)):
                if path.is_file():
                    return path
    return None


def _folders() -> Iterator[Path]:
    for variable in ("LD_LIBRARY_PATH", "LIBRARY_PATH"):
        yield from (Path(word) for word in os.environ.get(variable, "").split(os.pathsep) if word)
    if os.environ.get("MKLROOT"):
        yield from (Path(os.environ["MKLROOT"]) / folder for folder in ("lib", "lib/intel64"))
    yield Path(sys.prefix) / "lib"
    for folder in _SYSTEM:
        parents = sorted(Path("/").glob(folder.lstrip("/")))
        for build in _BUILDS:
            yield from (
                path for parent in parents for path in (sorted(parent.glob(build)) if build else [parent])
            )


def chosen(words: str, known: Sequence[str]) -> dict[str, str]:
    """Path → name of the libraries that a setting names, with commas between; for an empty setting, of all of
    `known` that are there.

    A word of the setting is one of `known`, in small or capital letters, or a path; the library of a path is
    recognised by its file name, else that is its name. A known library that is not found has its usual file
    name as its path: the loader may still find it, or reports that it does not. Raises ValueError for any
    other word.
    """
    if not words:
        there = ((name, find_library(name)) for name in known)
        return {str(path): name for name, path in there if path}
    names_by_path = {}
    by_name = {name.lower(): name for name in known}
    for word in words.split(","):
        if "/" in word:
            named = (name for name in known if any(Path(word).match(pattern) for pattern in NAMES[name]))
            names_by_path[word] = next(named, Path(word).name)
        elif word.lower() in by_name:
            name = by_name[word.lower()]
            names_by_path[str(find_library(name) or NAMES[name][-1].rstrip("*"))] = name
        else:
            raise ValueError(f"{word}: of {', '.join(known)}, or a path")
    return names_by_path
