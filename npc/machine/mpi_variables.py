"""Performance variables that the MPI of mpi4py offers (MPI_T, MPI 4.0 chapter 15.3), by class.

No compiler is needed: the functions are called by ctypes.
"""

from __future__ import annotations

import ctypes
from collections import Counter
from pathlib import Path
from typing import Any, Final

#: In the order of their numbers, which is the same in all MPIs.
CLASSES: Final = (
    "state", "level", "size", "percentage", "highwatermark", "lowwatermark", "counter", "aggregate", "timer",
    "generic",
)  # fmt: skip
_MPICH_FIRST: Final = 240
_THREAD_MULTIPLE: Final = 3


def offered() -> dict[str, Any] | None:
    """{"classes": {class: how many variables}, "spc": how many of them are Open MPI's SPC}, after MPI_Init;
    None where MPI_T cannot be used."""
    library = _library()
    number = ctypes.c_int()
    if library is None or library.MPI_T_init_thread(_THREAD_MULTIPLE, ctypes.byref(number)) != 0:
        return None
    library.MPI_T_pvar_get_num(ctypes.byref(number))
    # The MPI standard's ABI counts from 1, Open MPI from 0.
    first = 1 if "mpi_abi" in Path(library._name or "").name else 0
    classes: Counter[str] = Counter()
    spc = 0
    for index in range(number.value):
        name, kind = _variable(library, index)
        if name:
            kind -= _MPICH_FIRST if kind >= _MPICH_FIRST else first
            classes[CLASSES[kind] if 0 <= kind < len(CLASSES) else "unknown"] += 1
            spc += "OMPI_SPC_" in name
    return {"classes": dict(classes), "spc": spc}


def _library() -> ctypes.CDLL | None:
    """The MPI library of this process, by its file: mpi4py may have loaded it so that others do not see its
    functions."""
    paths = {line.split()[-1] for line in Path("/proc/self/maps").read_text().splitlines()}
    for path in sorted(
        path for path in paths if Path(path).name.startswith(("libmpi.so", "libmpich.so", "libmpi_abi"))
    ):
        library = ctypes.CDLL(path)
        if hasattr(library, "MPI_T_init_thread"):
            return library
    return None


def _variable(library: ctypes.CDLL, index: int) -> tuple[str, int]:
    """Name and class of a variable; the name is empty where it is of a component that Open MPI has closed."""
    name = ctypes.create_string_buffer(256)
    length, kind, number = ctypes.c_int(256), ctypes.c_int(), ctypes.c_int()
    none, ignored, handle = ctypes.c_int(0), ctypes.byref(number), ctypes.byref(ctypes.c_void_p())
    failed = library.MPI_T_pvar_get_info(
        index, name, ctypes.byref(length), ignored, ctypes.byref(kind), handle, handle,
        None, ctypes.byref(none), ignored, ignored, ignored, ignored,
    )  # fmt: skip
    return ("" if failed else name.value.decode(errors="replace")), kind.value
