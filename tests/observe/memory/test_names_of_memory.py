"""Names of allocations by their source lines, and which structure an access is of."""

from __future__ import annotations

from pathlib import Path

import pytest

from npc.observe.elf import SourceLine
from npc.observe.memory.reduce import rank_memory
from npc.observe.memory.source_names import names_at
from tests.made.memory_tables import PAGE_BYTES, MadeTables

HEAP = 0x7F0000000000
MS = 1_000_000


@pytest.mark.parametrize(
    ("source", "line", "names"),
    [
        ("double *a = malloc(n);", 1, ("a",)),
        ("MyData *x =\n  // an allocation\n  (MyData *)malloc(n);", 3, ("x",)),
        ("if (n == 3)\n  grid->cells = calloc(n, 8);", 2, ("grid->cells",)),
        ("rows[i] = (float *)malloc(n);", 1, ("rows[i]",)),
        ("a = malloc(n); b = malloc(n);", 1, ("a", "b")),
        ("posix_memalign((void **)&field, 64, n);", 1, ("field",)),
        ("MPI_Alloc_mem(n, MPI_INFO_NULL, &window);", 1, ("window",)),
        ("this->data = new double[n];", 1, ("data",)),
        ("std::vector<std::pair<int, double>> v(n);", 1, ("v",)),
        ("field.resize(n);", 1, ("field",)),
        ("auto p = std::make_unique<double[]>(n);", 1, ("p",)),
        ("for (int i = 0; i < n; i++)\n  list.push_back(i);", 2, ("list",)),
        ("if ((p = malloc(n)) == NULL)\n  exit(1);", 1, ("p",)),
        ("M(int n) : a(n), b(new int[n]) {}", 1, ("a", "b")),
        ("use(malloc(n));", 1, ()),
    ],
)
def test_a_line_of_c_names_what_is_allocated(
    source: str, line: int, names: tuple[str, ...], tmp_path: Path
) -> None:
    (tmp_path / "a.cpp").write_text(f"void f(void) {{\n{source}\n}}\n", encoding="utf-8")
    assert names_at(SourceLine(str(tmp_path / "a.cpp"), line + 1)) == (names, False)


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ("allocate(a(n, n), b(0:n))", ("a", "b")),
        ("ALLOCATE ( mesh%x(n), &\n  stat=ierr)", ("mesh%x",)),
        ("if (.not. allocated(u)) allocate(u(n))", ("u",)),
        ("allocate(real(8) :: work(n))", ("work",)),
        ("b = a  ! allocated by assignment", ("b",)),
    ],
)
def test_a_line_of_fortran_too(source: str, names: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "a.f90").write_text(source, encoding="utf-8")
    assert names_at(SourceLine(str(tmp_path / "a.f90"), 1)) == (names, False)


def test_a_function_that_returns_what_it_got_is_a_wrapper(tmp_path: Path) -> None:
    path = tmp_path / "x.c"
    path.write_text(
        "void *x(long n)\n{\n  void *p = malloc(n);\n  if (!p) abort();\n  return p;\n}\n", encoding="utf-8"
    )
    assert names_at(SourceLine(str(path), 3)) == (("p",), True)
    path = tmp_path / "y.c"
    path.write_text("void *y(long n)\n{\n  return malloc(n);\n}\n", encoding="utf-8")
    assert names_at(SourceLine(str(path), 3)) == ((), True)
    assert names_at(SourceLine(str(tmp_path / "gone.c"), 3)) == ((), False)


def test_arrays_that_meet_in_a_page_are_told_apart_by_their_lines():
    border = HEAP + PAGE_BYTES + 1024
    made = MadeTables(objects=[(HEAP, border - HEAP, 0, 0, (1,)), (border, 3 * PAGE_BYTES, 0, 0, (2,))])
    made.write(0, 1 * MS, range(HEAP, border, 8), times=2)
    made.read(0, 2 * MS, range(border, border + 3 * PAGE_BYTES, 8))
    found = {each.name: each for each in rank_memory(made.table(), 0, "here", nodes={0: 0}).structures}
    assert (found["malloc#1"].reads, found["malloc#1"].writes) == (0, 2 * (border - HEAP) // 8)
    assert (found["malloc#2"].reads, found["malloc#2"].writes) == (3 * PAGE_BYTES // 8, 0)
    assert (found["malloc#1"].pages, found["malloc#2"].pages) == (2, 4)


def test_small_blocks_are_known_where_a_line_has_one_in_use():
    made = MadeTables(objects=[(HEAP + 64 * number, 32, 0, 0, (number % 2 + 1,)) for number in range(8)])
    made.objects.append((HEAP + 32, 32, 0, 0, (3,)))
    made.write(0, 1 * MS, [HEAP, HEAP + 32], times=5)  # two blocks in one line
    for number in range(1, 8):
        made.write(0, 2 * MS, [HEAP + 64 * number], times=number)
    found = {each.name: each for each in rank_memory(made.table(), 0, "here", nodes={0: 0}).structures}
    assert found["small heap blocks"].writes == 10
    assert (found["malloc#1"].writes, found["malloc#2"].writes) == (2 + 4 + 6, 1 + 3 + 5 + 7)
    assert found["malloc#1"].allocations == 4


def test_what_nobody_allocated_is_of_its_region_and_the_heap_goes_before_what_was_mapped():
    made = MadeTables(objects=[(HEAP, PAGE_BYTES, 0, 0, (1,))])
    made.maps = (
        f"{HEAP - PAGE_BYTES:x}-{HEAP + 2 * PAGE_BYTES:x} rw-p 00000000 00:00 0 \n"
        f"{HEAP + 16 * PAGE_BYTES:x}-{HEAP + 17 * PAGE_BYTES:x} rw-p 00000000 00:00 0                [heap]\n"
    )
    made.write(
        0,
        1 * MS,
        [HEAP - PAGE_BYTES, HEAP, HEAP + PAGE_BYTES, HEAP + 16 * PAGE_BYTES, HEAP + 99 * PAGE_BYTES],
    )
    found = {each.name: each.writes for each in rank_memory(made.table(), 0, "here", nodes={0: 0}).structures}
    assert found == {"anonymous memory": 2, "malloc#1": 1, "rest of heap": 1, "unknown": 1}


class LinesOf:
    """An ELF file of which only lines are known."""

    symbols = ()

    def __init__(self, path: str) -> None:
        self.path = path

    def address(self, offset: int) -> int:
        return offset

    def lines(self, addresses: list[int]) -> list[tuple[SourceLine, ...]]:
        known = () if self.path.endswith("/app") else (SourceLine("/usr/src/start.h", 58),)
        return [known for _ in addresses]


def test_allocations_of_a_program_without_lines_are_told_apart_though_the_c_library_has_some(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("npc.observe.memory.names.elf_file", LinesOf)
    app, libc, openmp = 0x400000, 0x7E0000000000, 0x7E1000000000
    paths = {app: "/home/me/app", libc: "/usr/lib/libc.so.6", openmp: "/usr/lib/libgomp.so.1"}
    made = MadeTables(
        maps="".join(f"{at:x}-{at + 0x1000:x} r-xp 00000000 00:00 1 {paths[at]}\n" for at in paths)
    )
    for number, inside in enumerate(((), (), (openmp + 1,))):
        callers = (*inside, app + 16 + number, libc + 16)
        made.objects.append((HEAP + 4 * number * PAGE_BYTES, PAGE_BYTES, 0, 0, callers))
        made.write(0, 1 * MS, [HEAP + 4 * number * PAGE_BYTES])
    found = {each.where for each in rank_memory(made.table(), 0, "here", nodes={0: 0}).structures}
    assert found == {"app+0x10", "app+0x11", "app+0x12"}
