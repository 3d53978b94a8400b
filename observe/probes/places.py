"""Where a probe of functions lies: the file, the symbols and the offsets in it, as a rank would load them.

A name is that of the symbol (``daxpy_``, ``_ZN4mesh4stepEv``), of the function in Fortran (``daxpy``), or the
demangled one of C++ with or without its arguments (``mesh::step``), which takes c++filt of binutils.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from npc.machine.command import run
from npc.observe.elf import FUNCTION as CODE
from npc.observe.elf import IFUNC, ElfFile, Symbol, demangled
from npc.observe.probes.catalogue import FUNCTION, RequestedProbe

_MOST_NAMED: Final = 5


class NoFunction(ValueError):
    """There is no such function to attach to; the message says why, and what there is."""


class ProbePoint(NamedTuple):
    """Where a probe is attached."""

    #: By its own path, not a link.
    file: str
    #: Names of the functions; none for a static probe.
    symbols: tuple[str, ...]
    #: Bytes from the file's beginning.
    offsets: tuple[int, ...]


def find(wanted: RequestedProbe, program: str) -> ProbePoint:
    """Where what is wanted lies, for a rank that runs `program` with this process's environment: in the
    library that was named, else in the program or the first of its libraries that has it. Raises
    `NoFunction`."""
    started = shutil.which(program)
    if wanted.library:
        files = [_library(wanted.library, started)]
    elif started:
        files = [started, *_linked(started)]
    else:
        raise NoFunction(f"{program}: no such program")
    try:
        return (
            _functions(files, wanted.name) if wanted.kind == FUNCTION else _static_probe(files, wanted.name)
        )
    except OSError as error:
        raise NoFunction(f"{error.filename}: {error.strerror}") from None


def _functions(files: Sequence[str], name: str) -> ProbePoint:
    """All functions of this name (versions of a library's function, overloads in C++) in the first file that
    has some. Raises NoFunction, and OSError where a file cannot be read."""
    reasons = []
    for file in files:
        try:
            return _functions_of(file, name)
        except NoFunction as error:
            reasons.append(str(error))
    if chosen := next((reason for reason in reasons if "IFUNC" in reason), ""):
        raise NoFunction(chosen)
    more = f"; nor has one of its {len(reasons) - 1} shared libraries any" if len(reasons) > 1 else ""
    raise NoFunction(reasons[0] + more)


def _static_probe(files: Sequence[str], name: str) -> ProbePoint:
    for file in files:
        if offsets := _read(file).static_probe(name):
            return ProbePoint(os.path.realpath(file), (), offsets)
    raise NoFunction(
        f"no static probe {name} in {' or '.join(files[:3])}{' …' if len(files) > 3 else ''}: "
        f"bpftrace -l 'usdt:{files[0]}:*' shows what there is"
    )


def _read(file: str) -> ElfFile:
    try:
        return ElfFile(Path(file))
    except ValueError as error:
        raise NoFunction(f"{error}: name the program or library that has it") from None


def _functions_of(file: str, name: str) -> ProbePoint:
    elf = _read(file)
    code = [function for function in elf.symbols if function.kind in (CODE, IFUNC)]

    def named(is_it: Callable[[str], bool]) -> list[Symbol]:
        """Of each address the first symbol."""
        return list(
            {function.address: function for function in reversed(code) if is_it(function.name)}.values()
        )[::-1]

    for wanted in (name, f"{name}_", f"{name}__"):  # Fortran's compilers append underscores
        if symbols := named(wanted.__eq__):
            return _placed(symbols, elf, file)
    mangled = sorted({function.name for function in code if function.name.startswith("_Z")})
    plain = {
        symbol for symbol, plain in demangled(mangled).items() if name in (plain, plain.partition("(")[0])
    }
    if symbols := named(plain.__contains__):
        return _placed(symbols, elf, file)
    if elf.is_stripped:
        raise NoFunction(f"{file} is stripped, and {name} is not among what it offers to other files")
    parts = re.compile(rf"(?:.*_MOD_)?{re.escape(name)}_{{0,2}}(?:\..*)?", re.IGNORECASE)
    like = dict.fromkeys(function.name for function in code if parts.fullmatch(function.name))
    hint = f" (it has {', '.join([*like][:_MOST_NAMED])})" if like else ", or the compiler has inlined it"
    raise NoFunction(f"{file} has no function {name}{hint}")


def _placed(functions: Iterable[Symbol], elf: ElfFile, file: str) -> ProbePoint:
    symbols, offsets = [], []
    for function in functions:
        if function.kind == IFUNC:
            raise NoFunction(
                f"{file} chooses {function.name} among variants when it is loaded (IFUNC): name the variant "
                "that runs here, as perf shows it"
            )
        offset = elf.offset(function.address)
        if offset is None:
            raise NoFunction(f"{file}: the code of {function.name} is not in the file")
        symbols.append(function.name)
        offsets.append(offset)
    return ProbePoint(os.path.realpath(file), tuple(symbols), tuple(offsets))


def _library(library: str, program: str | None) -> str:
    """The file of a library: a path, or a name such as ``libm.so.6``, ``libm`` or ``m``."""
    if "/" in library:
        return str(Path(library).absolute())
    pattern = re.compile(rf"(lib)?{re.escape(library)}(\.so[\d.]*)?")
    known = run([shutil.which("ldconfig") or "/sbin/ldconfig", "-p"]).stdout
    files: list[str] = _linked(program) if program else []
    files += re.findall(r"=> (/\S+)$", known, re.MULTILINE)
    for path in files:
        if pattern.fullmatch(Path(path).name):
            return path
    raise NoFunction(f"neither the program nor the loader knows a library {library}: name its path")


def _linked(program: str) -> list[str]:
    """The libraries that a program is linked with; none for a script."""
    return re.findall(r"=> (/\S+) \(0x", run(["ldd", program]).stdout)
