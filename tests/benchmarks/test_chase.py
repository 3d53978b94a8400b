"""The pointer chase: one cycle through all lines, and what the parser reads of it."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

import parsers
from npc.records.record import OK
from tests.paths import ROOT

SOURCE = ROOT / "benchmarks/chase/chase.c"
STRICT = "-O2 -std=gnu11 -Wall -Wextra -Werror"
#: Follows the chain of every number of lines up to 300: it must come back after all of them, and not before.
CYCLES = f"""
#define main chase
#include "{SOURCE}"
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
def chase(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("chase")
    built = subprocess.run(
        ["bash", SOURCE.with_name("build.sh"), SOURCE, "cc", STRICT],
        cwd=folder, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert built.returncode == 0 and not built.stderr, built.stderr
    return folder / "chase"


def test_a_ladder_is_read_row_by_row_on_the_first_cpu_allowed(chase: Path) -> None:
    done = subprocess.run([chase, "small", "131072"], capture_output=True, text=True, check=True, timeout=60)
    readings = parsers.parse("chase", done.stdout)
    assert [reading.size for reading in readings] == [16384, 32768, 131072]
    for reading in readings:
        assert reading.status == OK and reading.value is not None and 1e-10 < reading.value < 1e-5
        assert reading.params["pages"] == "small" and reading.params["huge_pages"] == "0.000"
        assert reading.params["thread_cpus"] == str(min(os.sched_getaffinity(0)))
        assert reading.params["cpus"] == str(len(os.sched_getaffinity(0)))


def test_a_ladder_that_was_cut_keeps_its_rows_and_has_failed() -> None:
    text = (ROOT / "tests/data/chase/huge.txt").read_text()
    *rows, end = parsers.parse("chase", text[: text.index("          131072")])
    assert [reading.size for reading in rows] == [16384, 32768, 65536]
    assert end.status == "failed: the ladder was not ended"


def test_the_loads_go_through_every_line_once(tmp_path: Path) -> None:
    (tmp_path / "cycles.c").write_text(CYCLES)
    subprocess.run(["cc", *STRICT.split(), "cycles.c", "-o", "cycles"], cwd=tmp_path, check=True)
    assert subprocess.run([tmp_path / "cycles"], check=False, timeout=60).returncode == 0
