"""What is read of ELF files, against binutils."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from npc.observe.elf import FUNCTION, VARIABLE, ElfFile, Symbol, Type

SOURCE = """
struct pair { int index; double value; };
static inline __attribute__((always_inline)) double twice(double value)
{
    return value + value;
}
static const short few[7] = {1, 2};
double table[10][20];
struct pair pairs[50];
int *pointer, number;
int called(int x)
{
    return x * few[x & 7];
}
int main(int count, char **words)
{
    table[count & 7][1] = twice(pairs[1].value);
    pointer = &number;
    return called(**words);
}
"""


def said(*command: str | Path) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout


@pytest.fixture(
    scope="module", params=["-gdwarf-5 -O0", "-gdwarf-5 -O2 -ffunction-sections", "-gdwarf-4 -O1"]
)
def program(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("elf")
    (folder / "a.c").write_text(SOURCE)
    said("gcc", *request.param.split(), folder / "a.c", "-o", folder / "a.out")
    return folder / "a.out"


def symbols(file: ElfFile) -> dict[str, Symbol]:
    return {each.name: each for each in file.symbols}


def test_every_instruction_has_the_lines_that_addr2line_tells(program: Path) -> None:
    file = ElfFile(program)
    for name in ("called", "main"):
        symbol = symbols(file)[name]
        inside = range(symbol.address, symbol.address + symbol.size)
        known = file.lines(inside)
        told = said("addr2line", "-a", "-i", "-e", program, *map(hex, inside)).split("\n0x")
        for found, each in zip(known, told, strict=True):
            lines = [line.partition(" ")[0] for line in each.split("\n")[1:] if line]
            assert [f"{line.file}:{line.number}" for line in found] == lines
    assert file.lines([0, 1 << 40]) == [(), ()]
    numbers = {tuple(line.number for line in found) for found in known}
    source = SOURCE.splitlines()
    inlined, call = (
        number for number, text in enumerate(source, 1) if "value + value" in text or "= twice(" in text
    )
    assert (inlined, call) in numbers, "what is inlined has the line of its call behind it"


def test_symbols_are_those_of_nm(program: Path) -> None:
    file = ElfFile(program)
    listed = re.findall(r"^(\w{16}) (\w{16}) [TtDBbRr] (\w+)$", said("nm", "-S", program), re.MULTILINE)
    told = {(name, int(address, 16), int(size, 16)) for address, size, name in listed}
    found = {each for each in file.symbols if each.size}
    assert told <= {(each.name, each.address, each.size) for each in found}
    assert symbols(file)["called"].kind == FUNCTION
    assert symbols(file)["table"].kind == VARIABLE
    called = symbols(file)["called"]
    assert {file.name(called.address), file.name(called.address + called.size - 1)} == {"called"}
    assert file.name(called.address + called.size) != "called"
    assert file.name(0) == file.name(1 << 40) == ""


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("table", Type("double", 8)),
        ("few", Type("short int", 2)),
        ("pairs", Type("pair", 16)),
        ("pointer", Type("pointer", 8)),
        ("number", Type("int", 4)),
        ("called", None),
    ],
)
def test_elements_of_variables(program: Path, name: str, expected: Type | None) -> None:
    file = ElfFile(program)
    assert file.element(symbols(file)[name].address) == expected


def test_a_stripped_file_has_functions_and_no_names(program: Path, tmp_path: Path) -> None:
    whole, stripped = ElfFile(program), tmp_path / "stripped"
    said("strip", program, "-o", stripped)
    file, address = ElfFile(stripped), symbols(whole)["called"].address
    assert file.is_stripped
    assert not whole.is_stripped
    assert file.function(address + 1) == whole.function(address)
    assert file.build_id == whole.build_id != ""
    assert (file.name(address), file.lines([address]), file.element(symbols(whole)["table"].address)) == (
        "", [()], None,
    )  # fmt: skip


def test_places_in_the_file_and_addresses(program: Path) -> None:
    file = ElfFile(program)
    few = symbols(file)["few"]
    offset = file.offset(few.address)
    assert offset is not None
    assert program.read_bytes()[offset : offset + 4] == b"\1\0\2\0"
    assert file.address(offset) == few.address
    assert file.offset(symbols(file)["table"].address) is None  # zeros are not in the file


def test_what_is_no_program_or_damaged_is_said(program: Path, tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    for content, problem in (
        (b"", "is empty"),
        (b"#!/bin/sh\n", "is no ELF file"),
        (program.read_bytes()[:200], "is damaged"),
    ):
        broken.write_bytes(content)
        with pytest.raises(ValueError, match=problem):
            ElfFile(broken)
