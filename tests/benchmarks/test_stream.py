"""STREAM: our source, and the official one built by the same script."""

from __future__ import annotations

import itertools
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from npc import parsers
from npc.jobs.sample import fill_in
from npc.machine.sysfs import parse_cpus
from npc.records.record import OK
from tests.paths import ROOT

FOLDER = ROOT / "benchmarks/stream"
SOURCE = FOLDER / "stream.c"
STRICT = "-O2 -fopenmp -std=c11 -Wall -Wextra -Werror"
#: Enough elements for a run whose times are many clock ticks.
ELEMENTS = "1000000"
#: Stands in for the official stream.c, whose array size is compiled in.
OFFICIAL = """
#include <stdio.h>
#ifndef STREAM_ARRAY_SIZE
#define STREAM_ARRAY_SIZE 10000000
#endif
int main(void) { printf("%llu\\n", (unsigned long long)STREAM_ARRAY_SIZE); return 0; }
"""


def build(
    folder: Path,
    source: Path = SOURCE,
    cc: str = "cc",
    flags: str = STRICT,
    size: str = "",
    stores: str = "",
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", FOLDER / "build.sh", source, cc, flags, size, stores],
        cwd=folder, capture_output=True, text=True, check=False,
    )  # fmt: skip


@pytest.fixture(scope="module")
def stream(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("stream")
    built = build(folder)
    assert built.returncode == 0 and not built.stderr, built.stderr
    return folder / "stream"


def run(stream: Path, *words: str, threads: int = 1) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [stream, *words],
        capture_output=True, text=True, check=False, timeout=60,
        env={**os.environ, "OMP_NUM_THREADS": str(threads)},
    )  # fmt: skip


def last_level_caches() -> int:
    """Bytes of all last-level caches, each once, read in another way than the program does."""
    caches: dict[tuple[int, str], int] = {}
    for index in Path("/sys/devices/system/cpu").glob("cpu[0-9]*/cache/index*"):
        if (index / "type").read_text().strip() != "Instruction":
            size = (index / "size").read_text().strip()
            scale = {"K": 2**10, "M": 2**20}.get(size[-1], 1)
            level = int((index / "level").read_text())
            caches[level, (index / "shared_cpu_list").read_text()] = int(size.rstrip("KM")) * scale
    top = max((level for level, _ in caches), default=0)
    return sum(size for (level, _), size in caches.items() if level == top)


def test_our_source_has_what_the_parser_reads(stream: Path) -> None:
    ended = run(stream, ELEMENTS)
    assert ended.returncode == 0 and not ended.stderr
    readings = parsers.parse("stream", ended.stdout)
    assert [reading.case for reading in readings] == ["copy", "scale", "add", "triad"]
    for reading in readings:
        assert (reading.status, reading.metric) == (OK, "bandwidth")
        assert reading.value is not None and reading.value > 1e6


def test_a_rate_is_the_bytes_moved_over_the_least_time(stream: Path) -> None:
    """16 bytes an element for Copy and Scale, 24 for Add and Triad; MB of 10^6."""
    printed = run(stream, ELEMENTS).stdout
    for name, words in (("Copy", 2), ("Scale", 2), ("Add", 3), ("Triad", 3)):
        row = re.search(rf"^{name}: +(.*)$", printed, re.MULTILINE)
        assert row
        rate, average, least, most = map(float, row[1].split())
        assert least <= average <= most
        # the time is printed to a microsecond
        assert rate == pytest.approx(8e-6 * words * int(ELEMENTS) / least, rel=2e-6 / least)


def test_by_default_an_array_is_four_times_the_last_level_caches(stream: Path) -> None:
    """What it says before it touches them; that it measures then is seen where JUBE runs it."""
    with subprocess.Popen(["stdbuf", "-oL", stream], stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        said = "".join(itertools.takewhile(lambda line: "Stores" not in line, running.stdout))
        running.kill()
    elements = re.search(r"Array size = (\d+) \(elements\)", said)
    assert elements
    caches = last_level_caches()
    assert int(elements[1]) == max(4 * caches // 8, 10_000_000)
    assert f"Last-level caches = {caches / 2**20:.1f} MiB." in said


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_the_threads_are_those_that_openmp_is_told(stream: Path, threads: int) -> None:
    printed = run(stream, ELEMENTS, "2", threads=threads).stdout
    assert f"Threads requested = {threads}\n" in printed
    assert f"Threads counted = {threads}\n" in printed


@pytest.mark.parametrize("rounds", ["2", "10", "200"])
def test_it_validates_for_every_number_of_rounds_it_accepts(stream: Path, rounds: str) -> None:
    ended = run(stream, "1000", rounds)
    assert ended.returncode == 0, ended.stdout
    assert f"executed {rounds} times" in ended.stdout
    assert "Solution Validates" in ended.stdout


@pytest.mark.parametrize(
    "words",
    [
        ["0"], ["-1"], ["x"], ["10x"], [""], ["99999999999999999999999"], ["1e6"],
        ["1000", "1"], ["1000", "201"], ["1000", "0"], ["1000", "-2"], ["1000", "10", "2"],
        ["2305843009213693951"],
    ],
)  # fmt: skip
def test_bad_arguments_are_two_with_a_message(stream: Path, words: list[str]) -> None:
    ended = run(stream, *words)
    assert ended.returncode == 2
    assert ended.stderr.count("\n") == 1 and "stream" in ended.stderr
    assert not ended.stdout


def test_arrays_that_no_address_space_holds_are_one_with_a_message(stream: Path) -> None:
    ended = run(stream, "100000000000000")
    assert ended.returncode == 1
    assert ended.stderr == "stream: no memory for three arrays of 800000000000000 bytes\n"


@pytest.mark.parametrize(
    "change",
    [
        ("store(&c[i], load(&a[i]));", "store(&c[i], 1.0001 * load(&a[i]));"),
        ("store(&b[i], scalar * load(&c[i]));", "store(&b[i], (scalar + 1e-9) * load(&c[i]));"),
        ("load(&b[i]) + scalar * load(&c[i]));", "load(&b[i]) + scalar * load(&c[i]) * (i > 0));"),
    ],
    ids=["copy", "scale", "one element of triad"],
)
def test_wrong_arithmetic_fails_validation_and_no_number_is_usable(
    tmp_path: Path, change: tuple[str, str]
) -> None:
    text = SOURCE.read_text()
    assert change[0] in text
    (tmp_path / "wrong.c").write_text(text.replace(*change))
    assert build(tmp_path, tmp_path / "wrong.c").returncode == 0
    ended = run(tmp_path / "stream", ELEMENTS)
    assert ended.returncode == 1
    assert "Failed Validation" in ended.stdout
    readings = parsers.parse("stream", ended.stdout)
    assert len(readings) == 4 and all(reading.status.startswith("invalid: ") for reading in readings)


# -- build.sh --------------------------------------------------------------------------------------------


@pytest.fixture
def official(tmp_path: Path) -> Path:
    (tmp_path / "official.c").write_text(OFFICIAL)
    return tmp_path / "official.c"


def test_the_official_source_gets_four_times_the_last_level_caches(tmp_path: Path, official: Path) -> None:
    assert build(tmp_path, official).returncode == 0
    assert int(run(tmp_path / "stream").stdout) == max(4 * last_level_caches() // 8, 10_000_000)


def test_the_official_source_gets_the_size_that_is_asked_for(tmp_path: Path, official: Path) -> None:
    assert build(tmp_path, official, size="12345678").returncode == 0
    assert run(tmp_path / "stream").stdout == "12345678\n"


def test_ours_finds_its_size_itself() -> None:
    assert "STREAM_ARRAY_SIZE" not in SOURCE.read_text(), "what build.sh knows the official source by"


def test_arrays_beyond_two_gigabytes_link(tmp_path: Path) -> None:
    """The official source has them as static arrays; the small code model does not reach beyond 2 GiB."""
    (tmp_path / "large.c").write_text(
        "static double a[STREAM_ARRAY_SIZE], b[STREAM_ARRAY_SIZE];\n"
        "int main(int n, char **v) { (void)v; return (int)(a[n] + b[n]); }\n"
    )
    assert build(tmp_path, tmp_path / "large.c", size="300000000").returncode == 0
    assert run(tmp_path / "stream").returncode == 0


def test_a_compiler_with_options_is_one(tmp_path: Path, official: Path) -> None:
    assert build(tmp_path, official, cc="cc -DNDEBUG -O1").returncode == 0


def test_what_cannot_be_built_is_said(tmp_path: Path, official: Path) -> None:
    missing = build(tmp_path, tmp_path / "no-such.c")
    assert missing.returncode == 1 and f"cannot read {tmp_path}/no-such.c" in missing.stderr
    no_compiler = build(tmp_path, official, cc="no-such-cc")
    assert no_compiler.returncode == 1
    assert no_compiler.stderr.startswith("unavailable: no C compiler 'no-such-cc' on ")
    assert build(tmp_path, official, flags="--no-such-flag").returncode != 0
    assert not (tmp_path / "stream").exists()


# -- threads, domains, stores ------------------------------------------------------------------------------


def cases(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, FOLDER / "cases.py", *words], capture_output=True, text=True, check=False
    )


def read_cases(*words: str) -> list[dict[str, Any]]:
    ended = cases(*words)
    assert ended.returncode == 0, ended.stderr
    return [json.loads(line) for line in ended.stdout.splitlines()]


def test_by_default_all_cores_of_the_node_run_once() -> None:
    (case,) = read_cases("--cores", str(len(os.sched_getaffinity(0))))
    assert "runs" not in case and case["params"] == {"domain": "N", "bind": "spread"}
    assert case["values"]["case"].split()[0] == f"OMP_NUM_THREADS={len(os.sched_getaffinity(0))}"


def test_every_combination_is_a_case_of_its_own() -> None:
    found = read_cases(
        "--threads", "1,2", "--bind", "spread,close", "--domains", "all", "--stores", "ordinary,non-temporal"
    )
    numa = len({case["params"]["domain"] for case in found}) - 1
    threads = min(2, len(os.sched_getaffinity(0)))
    assert numa >= 1 and len(found) == threads * 2 * 2 * (1 + numa)
    assert len({case["name"] for case in found}) == len(found)


@pytest.mark.parametrize(
    "words",
    [["--threads", "0"], ["--threads", "x"], ["--bind", "far"], ["--domains", "M0"], ["--stores", "nt"]],
)
def test_a_setting_that_does_not_exist_is_named(words: list[str]) -> None:
    ended = cases(*words)
    assert ended.returncode == 1 and not ended.stdout
    assert f"stream_{words[0][2:]} {words[1]}: " in ended.stderr and "Traceback" not in ended.stderr


@pytest.fixture(scope="module")
def of_three_threads(stream: Path) -> str:
    """What it prints with three threads, which nothing bound."""
    return run(stream, ELEMENTS, threads=3).stdout


def run_case(stream: Path, case: dict[str, Any], *before: str) -> subprocess.CompletedProcess[str]:
    """A case as `npc records sample` starts it, with few elements."""
    words = fill_in(["env", "{case}", ELEMENTS], case["values"])
    return subprocess.run(
        [*before, *words], cwd=stream.parent, capture_output=True, text=True, check=False, timeout=60
    )


@pytest.mark.parametrize("bind", ["spread", "close"])
def test_the_cpus_that_the_threads_were_bound_to_are_noted(stream: Path, bind: str) -> None:
    cpus = os.sched_getaffinity(0)
    if len(cpus) < 2:
        pytest.skip("one CPU: nothing is bound")
    (case,) = read_cases("--threads", "2", "--bind", bind)
    ended = run_case(stream, case)
    for reading in parsers.parse("stream", parsers.joined(ended.stdout, ended.stderr)):
        bound = parse_cpus(reading.params["thread_cpus"])
        assert (reading.status, reading.params["threads"]) == (OK, "2")
        assert bound <= cpus and len(bound) >= 2


def test_threads_that_got_one_cpu_together_are_no_measurement(stream: Path) -> None:
    """As under a batch system or an MPI starter that binds a process to a core."""
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("one CPU: more threads are never asked for")
    (case,) = read_cases("--threads", "2")
    cpu = str(min(os.sched_getaffinity(0)))
    ended = run_case(stream, case, "taskset", "-c", cpu)
    readings = parsers.parse("stream", parsers.joined(ended.stdout, ended.stderr))
    assert {reading.status for reading in readings} == {f"invalid: 2 threads took turns on CPU {cpu}"}
    assert {reading.params["thread_cpus"] for reading in readings} == {cpu}


@pytest.mark.parametrize(
    ("places", "cpus", "shared"),
    [
        (["0", "1", "2"], "0-2", ""),
        (["0,64", "1,65", "2,66"], "0-2,64-66", ""),
        (["0-2", "0-2", "0-2"], "0-2", ""),
        (["0", "1", "1"], "0-1", "2 threads took turns on CPU 1"),
        (["0", "0-1", "0-1"], "0-1", "3 threads took turns on CPU 0-1"),
        (["0", "1"], None, ""),
        (["0", "1", "2-1000000"], None, ""),
        (["0", "1", "1-"], None, ""),
    ],
    ids=["one each", "hardware threads", "unbound", "two on one", "nested", "one unknown", "no CPUs", "cut"],
)
def test_threads_share_cpus_where_there_are_fewer(
    of_three_threads: str, places: list[str], cpus: str | None, shared: str
) -> None:
    lines = [f"OpenMP thread {thread} of 3 on CPUs {place}" for thread, place in enumerate(places)]
    text = "\n".join([of_three_threads, *lines, ""])
    for reading in parsers.parse("stream", text):
        assert reading.params.get("thread_cpus") == cpus
        assert reading.status == (f"invalid: {shared}" if shared else OK)


@pytest.mark.slow
def test_non_temporal_stores_are_in_one_program_and_not_in_the_other(tmp_path: Path) -> None:
    built = build(tmp_path, flags=f"{STRICT} -march=native", stores="ordinary,non-temporal")
    assert built.returncode == 0 and not built.stderr
    for name, told in (("stream", None), ("stream_nontemporal", "non-temporal")):
        code = subprocess.run(["objdump", "-d", tmp_path / name], capture_output=True, text=True, check=True)
        assert ("movnt" in code.stdout) == (told is not None)
        for elements in (ELEMENTS, "1000003"):  # not a multiple of a vector either
            ended = run(tmp_path / name, elements, threads=2)
            assert ended.returncode == 0, ended.stdout
            readings = parsers.parse("stream", ended.stdout)
            assert {reading.status for reading in readings} == {OK}
            assert {reading.params.get("stores") for reading in readings} == {told}


@pytest.mark.slow
def test_stores_that_cannot_be_had_are_unavailable(tmp_path: Path, official: Path) -> None:
    assert build(tmp_path, official, stores="non-temporal").returncode == 0
    ended = run(tmp_path / "stream_nontemporal")
    assert ended.returncode == 1 and ended.stderr.startswith("unavailable: ")
    assert "has no variant with non-temporal stores" in ended.stderr
