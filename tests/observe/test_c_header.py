"""Structures of C, as Python reads them from their header and as the compiler lays them out."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from npc.observe.c_header import CField, CHeader, dtype, read_header
from tests.lab.parts import needs_parts
from tests.paths import ROOT

HEADERS = ("mpi/library/file.h", "mpi/library/variables.h", "memory/library/table.h")


@needs_parts
@pytest.mark.parametrize("name", HEADERS)
def test_fields_lie_where_the_compiler_puts_them(name: str, tmp_path: Path) -> None:
    path = ROOT / "observe" / name
    header = read_header(path)
    assert header.structures and header.numbers
    assert compiled(path, header, tmp_path) == "".join(f"{line}\n" for line in described(header))


@needs_parts
@pytest.mark.parametrize("name", HEADERS)
def test_numpy_has_the_same_places(name: str) -> None:
    for structure in read_header(ROOT / "observe" / name).structures.values():
        entry = dtype(structure)
        assert entry.itemsize == structure.size
        assert entry.names == tuple(field.name for field in structure.fields)
        for field in structure.fields:
            kind, offset = entry.fields[field.name][:2]
            assert (offset, kind.itemsize) == (field.offset, size_of(field))


def described(header: CHeader) -> Iterator[str]:
    """Sizes and offsets by our rule."""
    for name, structure in header.structures.items():
        yield f"{name} {structure.size}"
        yield from (f"{name}.{field.name} {field.offset} {size_of(field)}" for field in structure.fields)
    yield from (f"{name} {number}" for name, number in header.numbers.items())
    yield from (f"{name} {len(text) + 1}" for name, text in header.texts.items())


def size_of(field: CField) -> int:
    """Bytes."""
    one = (
        {"s": 1, "H": 2, "I": 4, "i": 4}.get(field.kind, 8)
        if isinstance(field.kind, str)
        else field.kind.size
    )
    return one * (field.length or 1)


def compiled(path: Path, header: CHeader, folder: Path) -> str:
    """The same by the compiler: what a program of it prints."""
    declared = path.read_text(encoding="utf-8")
    lines = []
    for name, structure in header.structures.items():
        kind = f"struct {name}" if f"struct {name} {{" in declared else name
        lines.append(f'printf("{name} %zu\\n", sizeof({kind}));')
        for field in structure.fields:
            place = f"offsetof({kind}, {field.name}), sizeof((({kind} *)0)->{field.name})"
            lines.append(f'printf("{name}.{field.name} %zu %zu\\n", {place});')
    lines += [f'printf("{name} %lld\\n", (long long){name});' for name in header.numbers]
    lines += [f'printf("{name} %zu\\n", sizeof({name}));' for name in header.texts]
    source = folder / "layout.c"
    source.write_text(
        f'#include <stddef.h>\n#include <stdio.h>\n#include "{path}"\n'
        f"int main(void)\n{{\n{chr(10).join(lines)}\nreturn 0;\n}}\n"
    )
    compiler = shutil.which("cc") or shutil.which("gcc")
    assert compiler, "no C compiler"
    subprocess.run([compiler, "-o", source.with_suffix(""), source], check=True)
    return subprocess.run([source.with_suffix("")], capture_output=True, text=True, check=True).stdout


def test_values_are_read_and_written_at_their_places(tmp_path: Path) -> None:
    path = tmp_path / "example.h"
    path.write_text(
        '#define TITLE "A\\tB"\n'
        "enum kind { SMALL = 1 << 3, LARGE, /* , */ LAST = LARGE };\n"
        "struct point { uint16_t x; double y[2]; };\n"
        "typedef struct { char name[3]; struct point one; int32_t i, many[LAST]; } shape; /* } */\n"
    )
    header = read_header(path)
    assert header.texts == {"TITLE": b"A\tB"}
    assert header.numbers == {"SMALL": 8, "LARGE": 9, "LAST": 9}
    shape = header.structures["shape"]
    assert [field.offset for field in shape.fields] == [0, 8, 32, 36]
    assert shape.size == 72
    content = bytearray(2 * shape.size)
    shape.write(content, shape.size, i=-7)
    content[shape.size : shape.size + 2] = b"ab"
    assert shape.read(content, shape.size) == {"name": b"ab\0", "i": -7, "many": (0,) * 9}
    assert shape.read(content)["i"] == 0


@pytest.mark.parametrize(
    "field", ["void *next", "int n", "uint8_t bits : 3", "uint8_t grid[2][2]", "const char text[4]", "char"]
)
def test_what_the_rule_does_not_cover_is_refused(field: str, tmp_path: Path) -> None:
    path = tmp_path / "example.h"
    path.write_text(f"struct example {{ uint64_t before; {field}; }};\n")
    with pytest.raises(ValueError, match="not a field that Python can read"):
        read_header(path)
