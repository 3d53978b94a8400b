"""Builds the libraries that keep where a program's memory goes (library/), by the site's C compiler."""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import Final, Literal

from observe.built import Unavailable, built, compile_library, run

SOURCES: Final = Path(__file__).with_name("library")
#: Of both libraries.
_COMMON: Final = ("runtime", "allocations")
_FLAGS: Final = (
    "-std=gnu11", "-O2", "-g1", "-Wall", "-fPIC", "-shared", "-fvisibility=hidden", "-fno-builtin-malloc",
    "-Wl,--as-needed", "-Wl,-z,now",
)  # fmt: skip
_LIBRARIES: Final = ("-ldl", "-lpthread")


def memory_library(mode: Literal["count", "sample"]) -> Path:
    """What is put before the program, and before the compilers' own run-time library, to keep its memory.

    Raises `Unavailable`.
    """
    compiler = shlex.split(os.environ.get("CC", "")) or ["cc"]
    version = run([*compiler, "-dumpfullversion", "-dumpmachine"])
    if version.returncode:
        raise Unavailable(f"{compiler[0]} does not run: set CC, or install a C compiler")
    units = sorted({SOURCES / f"{name}.c" for name in _COMMON} | {*SOURCES.glob(f"{mode}*.c")})
    texts = [path.read_text(encoding="utf-8") for path in (*units, *sorted(SOURCES.glob("*.h")))]
    command = [*compiler, *_FLAGS, f"-I{SOURCES}", *map(str, units), *_LIBRARIES]
    return built(
        "memory", f"libnpc-memory-{mode}.so", (*command, version.stdout, *texts),
        lambda library: compile_library(command, library, "the library that looks at memory"),
    )  # fmt: skip
