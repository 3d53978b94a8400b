"""The memory benchmark: chains that visit every line, what the parser believes, what holds on any machine."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from npc import parsers
from npc.records.reading import Reading
from npc.records.record import OK, read_csv
from tests import captured
from tests.lab.in_process import npc
from tests.lab.jube_job import finish
from tests.paths import ROOT

SOURCES = ROOT / "benchmarks/memory"
STRICT = "-O2 -std=gnu11 -Wall -Wextra -Werror"
PARTS = ("ladder", "numa", "loaded", "cores", "sharing", "touch", "align", "stride", "product")
#: Follows the chain of every number of lines up to 300: it must come back after all of them, and not before.
CYCLES = f"""
#define main memory
#include "{SOURCES}/memory.c"
#undef main
int main(void)
{{
    static char memory[300 * 64] __attribute__((aligned(64)));
    for (size_t lines = 1; lines <= 300; lines++) {{
        chain(memory, lines, 64);
        size_t steps = 1;
        for (void **place = follow((void **)memory, 1); place != (void **)memory; place = follow(place, 1))
            steps++;
        if (steps != lines || follow((void **)memory, lines) != (void **)memory)
            return 1;
    }}
    return 0;
}}
"""


@pytest.fixture(scope="module")
def memory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("memory")
    built = subprocess.run(
        ["bash", SOURCES / "build.sh", SOURCES, "cc", STRICT],
        cwd=folder, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert built.returncode == 0 and not built.stderr, built.stderr
    return folder / "memory"


def readings(program: Path, *words: str | int) -> list[Reading]:
    done = subprocess.run(
        [program, *map(str, words)], capture_output=True, text=True, check=True, timeout=120
    )
    return list(parsers.parse("memory", done.stdout))


def value(found: list[Reading], case: str, **params: str) -> float:
    """The one number of a case with these params."""
    (number,) = (
        reading.value
        for reading in found
        if reading.case == case and reading.metric != "clock" and params.items() <= reading.params.items()
    )
    assert number is not None
    return number


def test_a_ladder_is_read_row_by_row_on_the_first_cpu_allowed(memory: Path) -> None:
    clock, *loads = readings(memory, "-p", "small", "ladder", 131072)
    assert clock.metric == "clock" and clock.value is not None and 5e8 < clock.value < 1e10
    assert [load.size for load in loads] == [4096, 8192, 16384, 32768, 131072]
    for load in loads:
        assert load.value is not None and 1e-10 < load.value < 1e-5
        assert load.params["pages"] == "small" and load.params["huge_pages"] == "0.000"
        assert load.params["thread_cpus"] == str(min(os.sched_getaffinity(0)))
        assert load.params["cpus"] == str(len(os.sched_getaffinity(0)))


def test_the_loads_go_through_every_line_once(tmp_path: Path) -> None:
    (tmp_path / "cycles.c").write_text(CYCLES)
    others = [SOURCES / name for name in ("ladder.c", "threads.c", "access.c")]
    command = ["cc", *STRICT.split(), "-I", SOURCES, "cycles.c", *others, "-o", "cycles", "-lpthread"]
    subprocess.run(command, cwd=tmp_path, check=True)
    assert subprocess.run([tmp_path / "cycles"], check=False, timeout=60).returncode == 0


@pytest.mark.parametrize(
    "words", [["nosuch"], [], ["ladder", "1"], ["-p", "large", "ladder"], ["-n", "0", "product"]]
)
def test_a_wrong_command_says_how_it_is_used(memory: Path, words: list[str]) -> None:
    done = subprocess.run([memory, *words], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 2 and done.stderr.startswith("usage: memory ")
    assert all(reading.status != OK for reading in parsers.parse("memory", done.stderr))


def test_a_part_that_was_cut_keeps_its_rows_and_has_failed() -> None:
    text = captured.text_of("memory", "ladder.txt")
    clock, *rows, end = parsers.parse("memory", text[: text.index("           16384")])
    assert clock.metric == "clock" and [reading.size for reading in rows] == [4096, 8192]
    assert end.status == "failed: ladder was not ended"


@pytest.mark.parametrize(
    ("name", "row", "becomes", "said"),
    [
        ("ladder", "1.3", "9.3", "a larger set, of "),
        ("ladder", "L3 = ", "L9 = ", "there is no L3"),
        ("ladder", "L1 = 49152", "L1 = 8192", "L1 has 8192 B"),
        ("ladder", "L3 = 503316480", "L3 = 603316480", "the last-level cache has 603316480 B"),
        ("cores", "       0        1 ", "       1        1 ", "CPU 1 with itself"),
        ("sharing", "        0.2", "       10.2", "something else ran"),
        (
            "align",
            "page-crossing       4092 ",
            "page-crossing 4092 0.500 0.400 2.00\n",
            "quicker than an aligned one",
        ),
        ("stride", "     512 ", "     512 99000.0 99000.0\n", "more than words in a row"),
        (
            "numa_256M",
            "           0      1.000",
            "           0      0.500",
            "0.500 of the memory lay on NUMA node 0",
        ),
        ("product", "          0\n", "        0.5\n", "the product is wrong by 0.5"),
        ("product", "          0\n", "        nan\n", "the product is wrong by nan"),
    ],
)
def test_what_contradicts_itself_is_invalid(name: str, row: str, becomes: str, said: str) -> None:
    text = captured.text_of("memory", f"{name}.txt")
    assert row in text
    wrong = [reading.status for reading in parsers.parse("memory", text.replace(row, becomes, 1))]
    assert any(status.startswith("invalid: ") and said in status for status in wrong), wrong


def test_loads_beside_streams_are_not_quicker_than_alone() -> None:
    text = captured.text_of("memory", "loaded.txt")
    idle = next(line for line in text.split("\n") if "idle" in line)
    slower = text.replace(idle, "      idle    900.000    100.000          0.0")
    statuses = [reading.status for reading in parsers.parse("memory", slower) if reading.metric == "latency"]
    assert statuses[0] == OK and all("quicker than without streams" in status for status in statuses[1:])


@pytest.mark.slow
def test_every_part_is_measured_under_jube(tmp_path: Path) -> None:
    """About 5 s of a CPU."""
    settings = {
        "NPC_MEMORY_PARTS": "all", "NPC_MEMORY_MAX_SIZE": "4194304", "NPC_MEMORY_ORDER": "64",
        "NPC_SAMPLES": "1",
    }  # fmt: skip
    ended = finish(
        "jube", "run", ROOT / "benchmarks/memory/benchmark.xml", "-o", tmp_path / "runs", **settings
    )
    assert ended.returncode == 0, ended.stderr
    collected = npc("records", "collect", tmp_path / "runs/000000")
    assert collected.returncode in (0, 1), collected.stderr
    found = list(read_csv(tmp_path / "runs/000000/records.csv"))
    cases = {
        "load",
        "clock",
        "numa",
        "loaded",
        "core_to_core",
        "sharing",
        "touch",
        "align",
        "stride",
        "product",
    }
    assert {record.case for record in found if record.value} == cases
    assert not [record.status for record in found if record.value is None]
    assert {record.benchmark for record in found} == {"memory"}


@pytest.mark.slow
@pytest.mark.measures
def test_what_holds_on_any_machine(memory: Path) -> None:
    """Memory is slower than L1, a line that two threads write than two lines, columns than rows."""
    ladder = [reading for reading in readings(memory, "ladder", 1 << 28) if reading.case == "load"]
    first, *_, last = (reading.value or 0.0 for reading in ladder)
    assert last > 5 * first
    if len(os.sched_getaffinity(0)) > 1:
        shared = readings(memory, "sharing")
        relations = {reading.params["relation"] for reading in shared} - {"same-core"}
        for relation in relations:
            one, two = (
                value(shared, "sharing", relation=relation, increment="atomic", lines=lines) for lines in "12"
            )
            assert one > two
        for reading in readings(memory, "cores"):
            assert reading.value is not None and 1e-9 < reading.value < 1e-5
    product = readings(memory, "-n", 768, "product")
    assert value(product, "product", loops="ijk") > value(product, "product", loops="ikj")
    aligned, crossing = (
        value(readings(memory, "align"), "align", load=load) for load in ("aligned", "page-crossing")
    )
    assert aligned < 1.1 * crossing
