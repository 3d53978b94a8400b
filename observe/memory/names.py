"""What lies where in a process's memory: variables, the allocations of one place in the source, stacks.

A global variable is a symbol of the program or of one of its libraries. An allocation is named by the source
line that made it: the variable on the left of ``= malloc(…)``, ``new``, ``allocate(x(…))``, as in Tabarnac
(Beniamine 2016, 4.1.1). Where a wrapper allocates, the line that calls the wrapper counts.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import groupby
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np

from npc.observe.elf import VARIABLE, ElfFile, SourceLine, Symbol, demangled
from npc.observe.memory.records import StructureKind
from npc.observe.memory.source_names import names_at
from npc.observe.memory.table import LAYOUT, Entries, RankTable

PAGE_BYTES: Final = LAYOUT.numbers["NPC_PAGE_BYTES"]
EXTENT: Final = np.dtype([("begin", "<u8"), ("end", "<u8"), ("structure", "<i8"), ("kind", "<i8")])
_HEAP, _MAPPED, _STACK = 1, 2, 3
#: Where several structures claim the same words, the smallest number gets them: an allocation within mapped
#: memory counts before the mapping.
_CLAIMS: Final[Mapping[StructureKind, int]] = {"heap": 0, "global": 1, "mapped": 2, "stack": 3, "other": 4}
#: Headers of the C++ library, whose code is inlined into the program.
_LIBRARY_SOURCE: Final = re.compile(r"/include/c\+\+/|/bits/|/gcc/")
#: Libraries that allocate for themselves: the line that calls them does not name the allocation.
_RUNTIME: Final = re.compile(r"/lib(?:gomp|omp|iomp5)\.so")
#: The C library: its source lines are useless here, even where they are known.
_C_LIBRARY: Final = re.compile(r"/(?:libc|libpthread|ld-linux[-\w]*)[.-][\d.]*so")
#: Files that are not the program's own.
_SYSTEM: Final = ("/usr/", "/lib")


class Module(NamedTuple):
    """A program or library as it is loaded."""

    #: Its file.
    path: str
    #: First address in memory.
    begin: int
    #: Address in memory after its last.
    end: int
    #: An address in memory less the same address in the file (B).
    bias: int
    #: The file's symbols; None where it cannot be read.
    elf: ElfFile | None


class NamedStructure(NamedTuple):
    """A structure, before its accesses are known (`npc.observe.memory.records.Structure`)."""

    #: The variable's; empty until one is given to an allocation that has none.
    name: str
    #: What it is.
    kind: StructureKind
    #: Place in the source, or a file's name; empty where nothing tells.
    where: str
    #: Most bytes at a time (B).
    bytes: int
    #: How many; 1 of a variable.
    allocations: int
    #: Size of an array's element, or of a single variable (B); 0 where it is not known.
    element: int = 0
    #: Of a variable in memory; 0 of all else.
    address: int = 0


class Layout(NamedTuple):
    """What lies where in a process's memory."""

    #: With unique names.
    structures: list[NamedStructure]
    #: `EXTENT`: where they lie, in the order of their begins. Where several claim the same words, the one
    #: with the smallest ``kind`` gets them.
    extents: Entries
    #: Places in `structures` of those whose largest allocation is below a page.
    small: set[int]


class AllocationSite(NamedTuple):
    """Where an allocation was made."""

    #: Empty where the source does not tell.
    variable: str
    #: ``matmul.c:12``, or ``app+0x1234`` where the file has no line numbers.
    where: str


class _Region(NamedTuple):
    """A mapping of /proc/PID/maps."""

    #: First address in memory.
    begin: int
    #: Address in memory after its last.
    end: int
    #: Where it begins in its file (B).
    offset: int
    #: Of the file, or what it is: ``[heap]``; empty for anonymous memory.
    path: str


def layout(table: RankTable, touched: Entries) -> Layout:
    """What lies where. touched: numbers of the touched pages, in order; variables in other pages are left
    out."""
    regions = list(_regions(table.maps))
    modules = _modules(regions)
    named: list[tuple[NamedStructure, Entries, bool]] = []  # with its extents, and whether it is small
    named += _allocated(table.objects, modules)
    named += _variables(modules, touched)
    named += _stacks(table.threads)
    named += _regions_left(regions)
    structures = _unique([structure for structure, _, _ in named])
    extents = np.concatenate(
        [np.empty(0, EXTENT), *(_extents(number, *fields) for number, fields in enumerate(named))]
    )
    extents = extents[np.argsort(extents["begin"], kind="stable")]
    return Layout(structures, extents, {number for number, fields in enumerate(named) if fields[2]})


def _extents(number: int, structure: NamedStructure, spans: Entries, _small: bool) -> Entries:
    extents = np.empty(len(spans), EXTENT)
    extents["begin"], extents["end"] = spans[:, 0], spans[:, 1]
    extents["structure"], extents["kind"] = number, _CLAIMS[structure.kind]
    return extents


def _unique(structures: Sequence[NamedStructure]) -> list[NamedStructure]:
    """The structures with unique names. Those without a name are numbered. Of several with the same name the
    largest keeps it, since a pointer has the name of what it points to; the others get their places added."""
    numbers: Counter[str] = Counter()
    named = []
    for structure in structures:
        if not structure.name:
            kind = "mmap" if structure.kind == "mapped" else "malloc"
            numbers[kind] += 1
            structure = structure._replace(name=f"{kind}#{numbers[kind]}")
        named.append(structure)
    taken: Counter[str] = Counter()
    for number in sorted(range(len(named)), key=lambda number: -named[number].bytes):
        structure = named[number]
        name = (
            f"{structure.name}@{structure.where}"
            if structure.name in taken and structure.where
            else structure.name
        )
        taken[name] += 1
        named[number] = structure._replace(name=name if taken[name] == 1 else f"{name}#{taken[name]}")
    return named


# --- modules -----------------------------------------------------------------------------------------------


def _regions(maps: str) -> Iterator[_Region]:
    """Of /proc/PID/maps (proc_pid_maps(5))."""
    for line in maps.splitlines():
        match = re.match(r"([0-9a-f]+)-([0-9a-f]+) \S+ ([0-9a-f]+) \S+ \d+ *(.*)", line)
        if match:
            yield _Region(int(match[1], 16), int(match[2], 16), int(match[3], 16), match[4])


def pages_of_table(maps: str) -> list[range]:
    """Pages of the table itself; accesses to it that Valgrind sees are not the program's."""
    return [
        range(region.begin // PAGE_BYTES, region.end // PAGE_BYTES)
        for region in _regions(maps)
        if region.path.startswith("/memfd:npc-memory")
    ]


def _modules(regions: Sequence[_Region]) -> list[Module]:
    modules = []
    for path, mapped in groupby(
        sorted(
            (region for region in regions if region.path.startswith("/")),
            key=lambda region: (region.path, region.begin),
        ),
        key=lambda region: region.path,
    ):
        parts = list(mapped)
        elf = elf_file(path)
        first = parts[0]
        bias = first.begin - (elf.address(first.offset) if elf else first.offset)
        modules.append(Module(path, first.begin, parts[-1].end, bias, elf))
    return sorted(modules, key=lambda module: module.begin)


@lru_cache(maxsize=1024)
def elf_file(path: str) -> ElfFile | None:
    """The ELF file; None for another file, and for one that is gone."""
    try:
        return ElfFile(Path(path))
    except (OSError, ValueError):
        return None


def _module_of(modules: Sequence[Module], address: int) -> Module | None:
    return next((module for module in modules if module.begin <= address < module.end), None)


# --- variables ---------------------------------------------------------------------------------------------


def _variables(modules: Iterable[Module], touched: Entries) -> Iterator[tuple[NamedStructure, Entries, bool]]:
    for module in modules:
        if module.elf is None:
            continue
        try:
            known = [
                variable for variable in module.elf.symbols if variable.kind == VARIABLE and variable.size
            ]
        except ValueError:  # of a damaged file
            continue
        if not known:
            continue
        begins = np.array([variable.address + module.bias for variable in known], np.uint64)
        ends = begins + np.array([variable.size for variable in known], np.uint64)
        places = np.searchsorted(touched, begins // PAGE_BYTES)
        last = np.searchsorted(touched, (ends - np.uint64(1)) // PAGE_BYTES, "right")
        by_address: dict[int, Symbol] = {}
        for number in np.flatnonzero(places < last):
            by_address.setdefault(known[number].address, known[number])  # other names for the same come later
        plain = demangled([variable.name for variable in by_address.values()])
        for symbol in by_address.values():
            own = not module.path.startswith(_SYSTEM)  # reading types takes time
            element = module.elf.element(symbol.address) if own else None
            begin = symbol.address + module.bias
            yield (
                NamedStructure(
                    _variable(plain.get(symbol.name, symbol.name)), "global", Path(module.path).name,
                    symbol.size, 1, element.size if element else 0, begin,
                ),
                np.array([[begin, begin + symbol.size]], np.uint64),
                False,
            )  # fmt: skip


def _variable(name: str) -> str:
    """As the source has it: ``counts.0`` is a static variable in a function of C, ``__mesh_MOD_x`` one of a
    Fortran module, ``x_`` a common block, and libraries give versions to names (``environ@@GLIBC_2.2.5``)."""
    name = name.partition("@")[0]
    if match := re.fullmatch(r"__(\w+)_MOD_(\w+)", name):
        return f"{match[1]}::{match[2]}"
    name = re.sub(r"\.\d+$", "", name)
    return name[:-1] if re.fullmatch(r"[a-z]\w*_", name) else name


def _stacks(threads: Entries) -> Iterator[tuple[NamedStructure, Entries, bool]]:
    for thread in threads:
        low, high = int(thread["stack_low"]), int(thread["stack_high"])
        if low < high:
            stack = NamedStructure(f"stack of thread {int(thread['number'])}", "stack", "", high - low, 1)
            yield stack, np.array([[low, high]], np.uint64), False


def _regions_left(regions: Sequence[_Region]) -> Iterator[tuple[NamedStructure, Entries, bool]]:
    """The rest of the mappings, by file: memory without a symbol, or of an allocation that was not seen."""
    spans: defaultdict[str, list[tuple[int, int]]] = defaultdict(list)
    for region in regions:
        name = region.path.strip("[]") if region.path.startswith("[") else Path(region.path).name
        spans[name or "anonymous memory"].append((region.begin, region.end))
    for name, parts in spans.items():
        size = sum(end - begin for begin, end in parts)
        kind = "rest of " if name != "anonymous memory" else ""
        yield (
            NamedStructure(f"{kind}{name}", "other", "", size, len(parts)),
            np.array(parts, np.uint64),
            False,
        )


# --- allocations -------------------------------------------------------------------------------------------


def _allocated(objects: Entries, modules: Sequence[Module]) -> Iterator[tuple[NamedStructure, Entries, bool]]:
    """The allocations; those of one place in the source are one structure."""
    kinds = objects["kind"]
    objects = objects[(objects["bytes"] > 0) & ((kinds == _HEAP) | (kinds == _MAPPED))]
    if not len(objects):
        return
    key = np.column_stack([objects["kind"].astype(np.uint64), objects["callers"]])
    unique, place = np.unique(key, axis=0, return_inverse=True)
    place = place.reshape(-1)
    members: defaultdict[tuple[int, AllocationSite], list[int]] = defaultdict(list)
    for number, where in enumerate(_places([row[1:] for row in unique.tolist()], modules)):
        members[int(unique[number][0]), where].append(number)
    born = np.full(len(unique), np.iinfo(np.int64).max)
    np.minimum.at(born, place, objects["born"].astype(np.int64))
    for (kind, where), numbers in sorted(
        members.items(), key=lambda item: min(born[number] for number in item[1])
    ):
        mine = objects[np.isin(place, numbers)]
        structure = NamedStructure(
            where.variable, "mapped" if kind == _MAPPED else "heap", where.where, _at_most(mine), len(mine)
        )
        spans = np.column_stack([mine["address"], mine["address"] + mine["bytes"]])
        yield structure, _joined(spans), bool(mine["bytes"].max() < PAGE_BYTES)


def _at_most(objects: Entries) -> int:
    """Most bytes that were allocated at the same time."""
    forever = np.iinfo(np.uint64).max
    freed = np.where(objects["freed"] == 0, forever, objects["freed"])
    times = np.concatenate([objects["born"], freed])
    change = np.concatenate([objects["bytes"].astype(np.int64), -objects["bytes"].astype(np.int64)])
    order = np.lexsort((change, times))  # what is freed goes first
    return int(np.cumsum(change[order]).max())


def _joined(spans: Entries) -> Entries:
    """Spans in order, those that overlap or touch as one."""
    spans = spans[np.argsort(spans[:, 0], kind="stable")]
    reach = np.maximum.accumulate(spans[:, 1])
    first = np.concatenate([[True], spans[1:, 0] > reach[:-1]])
    return np.column_stack([spans[first, 0], reach[np.concatenate([first[1:], [True]])]])


def _places(stacks: Sequence[Sequence[int]], modules: Sequence[Module]) -> list[AllocationSite]:
    """The site of each list of callers. A line that allocates several variables has a call for each of
    them, in their order."""
    lines = _source_lines({address for callers in stacks for address in callers}, modules)
    chosen = [_frame(callers, lines, modules) for callers in stacks]
    calls: defaultdict[str, set[int]] = defaultdict(set)
    for names, where, address in chosen:
        if len(names) > 1:
            calls[where].add(address)
    places = []
    for names, where, address in chosen:
        order = sorted(calls[where])
        if len(names) > 1 and len(order) == len(names):
            names = (names[order.index(address)],)
        places.append(AllocationSite(", ".join(names), where))
    return places


def _source_lines(addresses: Iterable[int], modules: Sequence[Module]) -> dict[int, tuple[SourceLine, ...]]:
    """Return address → lines of the call before it; addresses in the C library are left out."""
    by_module: defaultdict[Module, list[int]] = defaultdict(list)
    for address in sorted(addresses):
        module = _module_of(modules, address) if address else None
        if module is not None and not _C_LIBRARY.search(module.path):
            by_module[module].append(address)
    lines: dict[int, tuple[SourceLine, ...]] = {}
    for module, own in by_module.items():
        if module.elf is not None:
            calls = [address - 1 - module.bias for address in own]  # what is returned to is behind the call
            lines |= zip(own, module.elf.lines(calls), strict=True)
    return lines


def _frame(
    callers: Sequence[int], lines: Mapping[int, tuple[SourceLine, ...]], modules: Sequence[Module]
) -> tuple[tuple[str, ...], str, int]:
    """(variables that the line of the call names, the line, the address) of the innermost caller that is no
    wrapper, that is, does not return the allocation to its own caller."""
    unnamed: tuple[tuple[str, ...], str, int] | None = None
    for address, line in _lines(callers, lines, modules):
        names, is_wrapper = names_at(line)
        source_name = (names, f"{Path(line.file).name}:{line.number}", address)
        if names and not is_wrapper:
            return source_name
        if unnamed is None or is_wrapper:
            unnamed = ((), *source_name[1:])
        if not is_wrapper:
            break
    return unnamed or ((), _offset(callers, modules), next(iter(callers), 0))


def _lines(
    callers: Sequence[int], lines: Mapping[int, tuple[SourceLine, ...]], modules: Sequence[Module]
) -> Iterator[tuple[int, SourceLine]]:
    """The lines of the calls, from the inside out, without those of the C library and of the C++ library's
    headers; none of what the runtime of OpenMP calls for itself."""
    for address in callers:
        module = _module_of(modules, address) if address else None
        if module is not None and module.elf is not None and _RUNTIME.search(module.path):
            return
        for line in lines.get(address, ()):
            if not _LIBRARY_SOURCE.search(line.file):
                yield address, line


def _offset(callers: Sequence[int], modules: Sequence[Module]) -> str:
    """``app+0x1234`` of the innermost caller in the program, else in a library; else its address."""
    callers_in_modules = [
        (module, caller) for caller in callers if caller and (module := _module_of(modules, caller))
    ]
    own = [place for place in callers_in_modules if ".so" not in Path(place[0].path).name]
    for module, address in own or callers_in_modules:
        return f"{Path(module.path).name}+{address - module.bias:#x}"
    return f"{callers[0]:#x}" if callers and callers[0] else ""
