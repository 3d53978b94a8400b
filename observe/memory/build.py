"""Builds the libraries that record a program's accesses to memory (library/), by the site's C compiler."""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import Final, Literal

from npc.machine.command import run
from npc.observe.built import NoLibrary, built, compile_library

SOURCES: Final = Path(__file__).with_name("library")
#: Sources of both libraries.
_COMMON: Final = ("runtime", "allocations")
_FLAGS: Final = ("-std=gnu11", "-O2", "-g1", "-fPIC", "-fvisibility=hidden", "-fno-builtin")
#: Atomic operations of 16 bytes, which the baseline of x86-64 lacks and every processor since 2005 has.
_MACHINE: Final = {"x86_64": ("-mcx16",)}
_LIBRARIES: Final = ("-ldl", "-lpthread")


def memory_library(mode: Literal["count", "sample"]) -> Path:
    """The library that is loaded before the program. Raises `NoLibrary`.

    The one that counts lies in a folder where compilers take it for ThreadSanitizer's own: beside it are
    libtsan.so and the object file that gcc links programs with.
    """
    compiler = site_compiler("CC", ("cc", "gcc"))
    version = run([*compiler, "--version"])
    if version.returncode:
        raise NoLibrary(f"{compiler[0]} does not run: set CC, or install a C compiler")
    units = units_of(mode)
    name = f"libnpc-memory-{mode}.so"
    linked = ("-shared", "-Wl,--as-needed", "-Wl,-z,now", f"-Wl,-soname,{name}")
    command = [*compiler, *compiler_flags(), *linked, *map(str, units), *_LIBRARIES]

    def build(library: Path) -> None:
        if mode == "count":
            _stand_in(compiler, library)
        compile_library(command, library, "the library that looks at memory")

    texts = [path.read_text(encoding="utf-8") for path in (*units, *sorted(SOURCES.glob("*.h")))]
    return built("memory", name, (*command, version.stdout, *texts), build)


def units_of(mode: Literal["count", "sample"]) -> list[Path]:
    """The sources of a library."""
    return sorted({SOURCES / f"{name}.c" for name in _COMMON} | {*SOURCES.glob(f"{mode}*.c")})


def compiler_flags() -> list[str]:
    """The flags with which each source is compiled on this machine."""
    return [*_FLAGS, *_MACHINE.get(os.uname().machine, ()), f"-I{SOURCES}"]


def _stand_in(compiler: list[str], library: Path) -> None:
    """Make beside the library the files that gcc looks for when it links with -fsanitize=thread."""
    other = library.with_name("libtsan.so")
    other.unlink(missing_ok=True)
    other.symlink_to(library.name)
    empty = [*compiler, "-c", "-x", "c", os.devnull]
    compile_library(empty, library.with_name("libtsan_preinit.o"), "an empty object file")


def site_compiler(variable: str, names: tuple[str, ...]) -> list[str]:
    """The words of an environment variable, unless it names `npc program cc` itself, as make exports it;
    else the first of `names` that is installed, or the first of them."""
    from shutil import which

    words = shlex.split(os.environ.get(variable, ""))
    if words and Path(words[0]).name != "npc":
        return words
    return [next((name for name in names if which(name)), names[0])]
