"""sockperf and likwid-bench sleep less before they measure, and measure the same."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.paths import ROOT

BUILD = ROOT / "benchmarks/short_start.sh"
STRICT = "cc -std=gnu11 -Wall -Wextra -Werror"
#: Sleeps by both functions, and prints how long each took.
SLEEPS = """
import ctypes, time
libc = ctypes.CDLL(None)
three = (ctypes.c_long * 2)(3, 0)
for call in (lambda: libc.sleep(3), *[lambda: libc.nanosleep(ctypes.byref(three), None)] * 2):
    begun = time.monotonic(); returned = call(); print(returned, time.monotonic() - begun)
"""


def prefix(folder: Path, cc: str = STRICT, **environ: str) -> list[str]:
    built = subprocess.run(
        ["bash", BUILD, folder], env={**os.environ, "CC": cc, **environ},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert not built.stderr
    return built.stdout.split()


def test_it_is_built_once_and_keeps_what_is_preloaded_already(tmp_path: Path) -> None:
    first = prefix(tmp_path)
    assert first == ["env", f"LD_PRELOAD={tmp_path}/short_start.so"]
    assert prefix(tmp_path, cc="false") == first
    assert prefix(tmp_path, LD_PRELOAD="libm.so.6") == ["env", f"{first[1]}:libm.so.6"]


def test_where_it_cannot_be_built_there_is_nothing_before_the_tool(tmp_path: Path) -> None:
    assert prefix(tmp_path, cc="no-such-compiler") == []
    assert not list(tmp_path.iterdir())
    assert prefix(tmp_path / "a blank") == []
    assert prefix(Path("share")) == [], "npb is nowhere"


def test_sleeps_become_short_and_the_second_the_shorter_one(tmp_path: Path) -> None:
    printed = subprocess.run(
        [*prefix(tmp_path), sys.executable, "-c", SLEEPS], capture_output=True, text=True, check=True
    ).stdout
    took = [float(line.split()[1]) for line in printed.splitlines() if line.startswith("0 ")]
    assert len(took) == 3 and took[0] < 2 and 0.1 <= took[1] < 2 and 0.05 <= took[2] < 2


@pytest.mark.slow
def test_likwid_bench_learns_the_same_clock(tmp_path: Path) -> None:
    """The rate that its times follow from; on a full machine it is wrong by two percent without."""
    command = ["likwid-bench", "-t", "load", "-W", "N:16kB:1", "-i", "1000"]
    clocks, seconds = [], []
    for words in (command, [*prefix(tmp_path), *command]):
        begun = time.monotonic()
        printed = subprocess.run(words, capture_output=True, text=True, check=True).stdout
        seconds.append(time.monotonic() - begun)
        (clock,) = re.findall(r"^CPU Clock:\s+(\d+)$", printed, re.MULTILINE)
        clocks.append(int(clock))
    assert clocks[1] == pytest.approx(clocks[0], rel=0.1)
    assert seconds[1] < seconds[0]
