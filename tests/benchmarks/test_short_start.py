"""sockperf and likwid-bench sleep less before they measure, and measure the same."""

from __future__ import annotations

import json
import os
import shlex
import shutil
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


def prefix(folder: Path, cc: str = STRICT, build: Path = BUILD, **environ: str) -> list[str]:
    built = subprocess.run(
        ["bash", build, folder], env={**os.environ, "CC": cc, **environ},
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


@pytest.mark.parametrize("part", ["", "short_start.so"])
def test_nothing_is_preloaded_where_others_may_write(tmp_path: Path, part: str) -> None:
    assert prefix(tmp_path)
    mode = (tmp_path / part).stat().st_mode
    (tmp_path / part).chmod(0o707)
    assert prefix(tmp_path) == []
    (tmp_path / part).chmod(mode)
    assert prefix(tmp_path)
    if os.geteuid() == 0:
        os.chown(tmp_path / part, 65534, 65534)
        assert prefix(tmp_path) == []


def test_sleeps_become_short_and_the_second_the_shorter_one(tmp_path: Path) -> None:
    printed = subprocess.run(
        [*prefix(tmp_path), sys.executable, "-c", SLEEPS], capture_output=True, text=True, check=True
    ).stdout
    took = [float(line.split()[1]) for line in printed.splitlines() if line.startswith("0 ")]
    assert len(took) == 3 and took[0] < 2 and 0.1 <= took[1] < 2 and 0.05 <= took[2] < 2


@pytest.mark.slow
def test_likwid_bench_learns_the_same_clock_or_runs_without(tmp_path: Path) -> None:
    """A library whose second sleep is the longer one is what another way of learning the clock would be."""
    shutil.copy(BUILD, tmp_path)
    source = BUILD.with_suffix(".c").read_text(encoding="utf-8")
    turned = source.replace("SHORT_NS : 2 * SHORT_NS", "2 * SHORT_NS : SHORT_NS")
    assert turned != source
    (tmp_path / "short_start.c").write_text(turned, encoding="utf-8")
    words = [sys.executable, ROOT / "benchmarks/likwid/cases.py", "--prefix"]
    for build, told, program in ((BUILD, False, "env"), (tmp_path / BUILD.name, True, "likwid-bench")):
        prefixed = shlex.join(prefix(tmp_path / build.parent.name, build=build))
        ran = subprocess.run([*words, prefixed], capture_output=True, text=True, check=True)
        assert ("another clock" in ran.stderr) == told
        programs = {json.loads(line)["values"]["program"].split()[0] for line in ran.stdout.splitlines()}
        assert programs == {program}


@pytest.mark.slow
@pytest.mark.measures
def test_likwid_bench_starts_sooner(tmp_path: Path) -> None:
    command = ["likwid-bench", "-t", "load", "-W", "N:16kB:1", "-i", "1000"]
    seconds = []
    for words in (command, [*prefix(tmp_path), *command]):
        begun = time.monotonic()
        subprocess.run(words, stdout=subprocess.DEVNULL, check=True)
        seconds.append(time.monotonic() - begun)
    assert seconds[1] < seconds[0]
