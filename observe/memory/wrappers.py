"""``npc program cc``, ``npc program c++``, ``npc program fc``: the site's compilers, with code that counts
its accesses to memory.

The compiler's own instrumentation for ThreadSanitizer calls a function before each access; at the link, the
counting library (library/count.c) has these functions in the place of ThreadSanitizer's. Where nobody
observes it, the program runs as without, only slower; it needs the library in the user's cache folder.
"""

from __future__ import annotations

import os
import re
import sys
from typing import TYPE_CHECKING, Final

import click

if TYPE_CHECKING:
    from pathlib import Path

#: Without this macro headers and programs behave as without ThreadSanitizer.
_BOTH: Final = ("-g", "-U__SANITIZE_THREAD__")
#: gcc warns that fences are not instrumented; here they need not be.
_GCC: Final = ("-fsanitize=thread", "-Wno-tsan")
#: For the front end alone: the linker would link ThreadSanitizer's own library by its path.
_CLANG: Final = (
    "-Xclang", "-fsanitize=thread", "-mllvm", "-tsan-instrument-read-before-write=1",
    "-Wno-unused-command-line-argument",
)  # fmt: skip
#: gcc would expand these calls inline after the code was instrumented, so their accesses would be missed. The
#: same holds for copies that it makes itself, and for _FORTIFY_SOURCE, which distributions switch on.
_KEPT_CALLS: Final = ("-fno-builtin-memcpy", "-fno-builtin-memmove", "-fno-builtin-memset")
_KEPT_COPIES: Final = {"x86_64": ("-mstringop-strategy=libcall",)}
_LAST: Final = ("-U_FORTIFY_SOURCE",)
#: So that each element is an access, as with gcc, which instruments before it vectorises. They come last,
#: since a later -O would undo them.
_CLANG_LAST: Final = ("-fno-vectorize", "-fno-slp-vectorize")


def _command(
    name: str, what: str, variable: str, names: tuple[str, ...], mpi: str, source: str
) -> click.Command:
    @click.option(
        "--with", "other", metavar="COMPILER",
        help=f"Use another compiler, such as {mpi} (default: ${variable}, else {names[0]}).",
    )  # fmt: skip
    @click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
    @click.pass_context
    def compile_counted(ctx: click.Context, other: str | None, arguments: tuple[str, ...]) -> None:
        if arguments == ("-h",):  # no option of its own, which click would find in -shared
            click.echo(ctx.get_help())
            return
        from npc.observe.built import NoLibrary
        from npc.observe.memory.build import memory_library, site_compiler

        words = [other] if other else site_compiler(variable, names)
        try:
            if "-static" in arguments:
                raise NoLibrary("-static: a program that counts needs the shared library")
            first, last = flags(words, memory_library("count"), name != "fc")
            os.execvp(words[0], [*words, *first, *arguments, *last])
        except (NoLibrary, OSError) as error:
            reason = f"{words[0]}: {error.strerror}" if isinstance(error, OSError) else error
            click.echo(f"npc program {name}: {reason}", err=True)
            sys.exit(127)

    compile_counted.__doc__ = f"""Compile and link {what} that counts its accesses to memory.

    ARGUMENTS are the compiler's. Build the program as usual, with this as its compiler, and run it by
    `npc observe --memory=count`. The compiler is ${variable}, or else {names[0]}; gcc or clang, or a wrapper
    of theirs such as {mpi}.

    Exit code: the compiler's; 127 if it could not be started.

    \b
    npc program {name} -O2 -fopenmp -o app {source}
    npc program {name} --with {mpi} -O2 -o app {source}
    make {variable}="npc program {name}"
    """
    return click.command(
        name,
        context_settings={
            "ignore_unknown_options": True,
            "allow_interspersed_args": False,
            "help_option_names": ["--help"],
        },
    )(compile_counted)


def flags(compiler: list[str], library: Path, c_like: bool) -> tuple[list[str], list[str]]:
    """What goes before and after the compiler's own arguments, whether it compiles or links. Raises
    `NoLibrary`."""
    from npc.machine.command import run
    from npc.observe.built import NoLibrary

    version = run([*compiler, "--version"])
    if version.returncode == 127:
        raise NoLibrary(f"{compiler[0]}: no such compiler")
    folder = str(library.parent)
    wrapped = [f"-Wl,--wrap={name}" for name in wrapped_calls()]
    common = [*_BOTH, *(_KEPT_CALLS if c_like else ()), f"-Wl,-rpath,{folder}", *wrapped]
    last = _LAST if c_like else ()
    if "clang" in version.stdout:
        linked = f"-Wl,--push-state,--no-as-needed,{library},--pop-state"
        return [*_CLANG, *common, linked], [*last, *_CLANG_LAST]
    if "Free Software Foundation" in version.stdout:
        return [*_GCC, *_KEPT_COPIES.get(os.uname().machine, ()), *common, f"-B{folder}"], [*last]
    raise NoLibrary(f"{compiler[0]} is neither gcc nor clang, whose code alone can count its accesses")


def wrapped_calls() -> list[str]:
    """The C library's functions that library/count_calls.c stands before."""
    from npc.observe.memory.build import SOURCES

    return re.findall(r"WRAPPED\((\w+)\)\(", (SOURCES / "count_calls.c").read_text(encoding="utf-8"))


cc: Final = _command("cc", "C", "CC", ("gcc", "cc", "clang"), "mpicc", "app.c")
cxx: Final = _command("c++", "C++", "CXX", ("g++", "c++", "clang++"), "mpicxx", "app.cpp")
fc: Final = _command("fc", "Fortran", "FC", ("gfortran",), "mpif90", "app.f90")
