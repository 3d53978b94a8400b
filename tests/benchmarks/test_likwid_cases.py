"""The likwid-bench runs chosen for a node: kernels that its CPU has, working sets that lie in their level."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from npc import parsers
from npc.jobs.sample import fill_in, read_cases
from npc.records.record import OK
from tests.paths import ROOT

PATH = ROOT / "benchmarks/likwid/cases.py"


def load() -> ModuleType:
    spec = importlib.util.spec_from_file_location("likwid_cases", PATH)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


cases = load()
LISTED = {f"{family}{suffix}" for family in ("load", "peakflops", "peakflops_sp") for suffix in
          ("", "_sse", "_avx", "_avx_fma", "_avx512", "_avx512_fma")}  # fmt: skip


# -- kernels -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("flags", "kernel"),
    [
        ({"sse2", "avx", "fma", "avx512f"}, "peakflops_avx512_fma"),
        ({"sse2", "avx", "fma"}, "peakflops_avx_fma"),
        ({"sse2", "avx"}, "peakflops_avx"),
        ({"sse2"}, "peakflops_sse"),
        (set(), "peakflops"),
        ({"asimd", "fp"}, "peakflops"),
    ],
    ids=["avx512", "avx2", "sandy bridge", "sse2", "nothing", "another architecture"],
)
def test_the_kernel_is_the_widest_that_the_cpu_executes(flags: set[str], kernel: str) -> None:
    assert cases.widest("peakflops", LISTED, flags) == kernel


def test_a_kernel_that_likwid_does_not_have_is_not_chosen() -> None:
    every = {"sse2", "avx", "fma", "avx512f"}
    assert cases.widest("load", {"load", "load_avx", "load_sse"}, every) == "load_avx"
    assert cases.widest("load", {"load"}, every) == "load"


@given(st.sets(st.sampled_from(sorted(LISTED))), st.sets(st.sampled_from(["sse2", "avx", "fma", "avx512f"])))
def test_a_chosen_kernel_is_listed_and_within_the_flags(available: set[str], flags: set[str]) -> None:
    kernel = cases.widest("load", available, flags)
    if kernel != "load":
        assert kernel in available
        assert dict(cases.WIDTHS)[kernel.removeprefix("load_")] <= flags


# -- working sets --------------------------------------------------------------------------------------

sizes = st.lists(st.integers(2**13, 2**34), max_size=4)
memories = st.integers(2**30, 2**45)


def levels(values: list[int]) -> dict[str, int]:
    return {f"L{number}": size for number, size in enumerate(values, 1)}


@given(sizes, memories)
def test_a_working_set_fits_its_level_and_not_the_ones_below(values: list[int], memory: int) -> None:
    caches = levels(values)
    below = 0
    for level, size in cases.working_sets(caches, memory).items():
        if level == "MEM":
            continue
        below = max([caches[name] for name in caches if name < level], default=0)
        assert below <= size < caches[level]


@given(sizes, memories)
def test_a_level_is_left_out_only_where_one_below_is_as_large(values: list[int], memory: int) -> None:
    caches = levels(values)
    sets = cases.working_sets(caches, memory)
    for level, size in caches.items():
        smaller = all(caches[name] < size for name in caches if name < level)
        assert (level in sets) == smaller


@given(sizes, memories)
def test_the_memory_set_is_beyond_every_cache_and_within_the_memory(values: list[int], memory: int) -> None:
    size = cases.working_sets(levels(values), memory)["MEM"]
    assert size <= memory // 4
    assert size == memory // 4 or size >= max([4 * value for value in values], default=400_000_000)


@given(st.integers(0, 2**50))
def test_a_size_is_whole_thousands_of_bytes(size: int) -> None:
    text = cases.likwid_size(size)
    assert text.endswith("kB")
    kilobytes = int(text[:-2])
    assert kilobytes >= 1 and (kilobytes * 1000 <= size or kilobytes == 1)


#: CPUs in pairs: L1 and L2 of each, one L3 for a pair; an instruction cache, which does not count.
CACHES = [
    {"level": level, "type": kind, "size_bytes": size, "shared_cpus": shared}
    for level, kind, size, shared in (
        (1, "data", 2**15, ["0", "1", "2", "3"]), (1, "instruction", 2**16, ["0", "1", "2", "3"]),
        (2, "unified", 2**20, ["0", "1", "2", "3"]), (3, "unified", 2**24, ["0-1", "2-3"]),
    )
]  # fmt: skip


def test_shared_caches_are_counted_once() -> None:
    assert cases.cache_bytes({0, 1, 2, 3}, CACHES) == {"L1": 4 * 2**15, "L2": 4 * 2**20, "L3": 2 * 2**24}
    assert cases.cache_bytes({0}, CACHES) == {"L1": 2**15, "L2": 2**20, "L3": 2**24}


def test_a_machine_that_tells_nothing_of_its_caches_has_a_memory_set() -> None:
    assert cases.working_sets(cases.cache_bytes({0, 1}, ()), 2**34) == {"MEM": 400_000_000}


# -- the program ---------------------------------------------------------------------------------------


def write_cases(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, PATH, *words],
        capture_output=True, text=True, check=False, timeout=60, env={**os.environ, **environment},
    )  # fmt: skip


@pytest.fixture(scope="module")
def written() -> list[dict[str, Any]]:
    ended = write_cases("--side-samples", "1")
    assert ended.returncode == 0, ended.stderr
    return [json.loads(line) for line in ended.stdout.splitlines()]


def test_the_ceilings_have_as_many_samples_as_are_needed_and_the_rest_few(
    written: list[dict[str, Any]],
) -> None:
    runs = {case["name"].split()[0].split("_")[0]: case.get("runs") for case in written}
    assert runs == {"peakflops": None, "load": None, "copy": 1, "stream": 1, "triad": 1}
    assert [case["params"]["precision"] for case in written[:2]] == ["double", "single"]
    assert len({case["name"] for case in written}) == len(written)


def test_the_cases_are_what_npc_sample_reads(tmp_path: Path) -> None:
    path = tmp_path / "cases.jsonl"
    path.write_text(write_cases().stdout)
    for case in read_cases(path, 1):
        argv = fill_in(["likwid-bench", "{case}"], case.values)
        assert argv[1] == "-t" and argv[3] == "-W" and argv[5] == "-i"


@pytest.mark.parametrize("threads", [1, 10_000])
def test_the_threads_are_at_most_those_asked_for(threads: int) -> None:
    expected = min(threads, len(os.sched_getaffinity(0)))
    lines = write_cases("--threads", str(threads)).stdout.splitlines()
    groups = [json.loads(line)["values"]["case"].split()[3] for line in lines]
    assert groups and all(group.endswith(f"kB:{expected}") for group in groups)


@pytest.mark.parametrize("counts", ["0", "1,-3", "abc"])
def test_numbers_of_threads_that_are_none_are_refused_by_the_settings_name(counts: str) -> None:
    ended = write_cases("--counts", counts)
    assert ended.returncode == 1 and not ended.stdout
    assert f"likwid_threads {counts}: whole numbers of at least 1" in ended.stderr


def test_no_likwid_is_unavailable(tmp_path: Path) -> None:
    ended = write_cases(PATH=str(tmp_path))
    assert ended.returncode == 1 and not ended.stdout
    assert ended.stderr == f"unavailable: likwid-bench: not found in PATH on {os.uname().nodename}\n"


@pytest.mark.slow
def test_every_chosen_kernel_runs_here_and_gives_its_number(written: list[dict[str, Any]]) -> None:
    chosen = {case["values"]["case"].split()[1]: case for case in written}
    assert len(chosen) == 6
    for kernel, case in chosen.items():
        words = case["values"]["case"].split()
        argv = ["likwid-bench", *words[:-1], "1"]
        ended = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=60)
        assert ended.returncode == 0, f"{kernel}: {ended.stderr}"
        readings = parsers.parse("likwid", ended.stdout, argv)
        metric = "flops" if kernel.startswith("peakflops") else "bandwidth"
        (number,) = [reading for reading in readings if reading.metric == metric]
        assert (number.case, number.status) == (kernel, OK) and number.value


# -- domains, threads, variants, counters ------------------------------------------------------------------


def read_written(*words: str) -> list[dict[str, Any]]:
    ended = write_cases(*words)
    assert ended.returncode == 0, ended.stderr
    return [json.loads(line) for line in ended.stdout.splitlines()]


def test_domains_are_read_as_likwid_prints_them() -> None:
    text = "Number of Domains 3\nDomain 0:\n\tTag N: 0 1 2 3\nDomain 1:\n\tTag M0: 0 1\n"
    text += "Domain 2:\n\tTag M1: 2 3\n"
    found = cases.domains_of(text)
    assert found == {"N": [0, 1, 2, 3], "M0": [0, 1], "M1": [2, 3]}
    assert list(cases.chosen_domains("N,M", found)) == ["N", "M0", "M1"]
    assert cases.chosen_domains("M1", found) == {"M1": [2, 3]}
    with pytest.raises(ValueError, match="likwid_domains S: this node has N, M0, M1"):
        cases.chosen_domains("S", found)


def test_all_variants_are_those_that_the_cpu_executes() -> None:
    found = cases.variants("load", LISTED, {"sse2", "avx", "fma"}, every=True)
    assert found == ["load_avx_fma", "load_avx", "load_sse", "load"]


def test_a_variant_is_a_setting_where_every_one_is_asked_for() -> None:
    assert cases.params_of("peakflops_sp_avx_fma", "peakflops_sp", every=True) == {"variant": "avx_fma"}
    assert cases.params_of("copy_mem", "copy_mem", every=True) == {"variant": "scalar"}
    assert cases.params_of("load_avx512", "load", every=False) == {}


@pytest.mark.slow
def test_each_domain_and_number_of_threads_has_its_cases() -> None:
    cpus = len(os.sched_getaffinity(0))
    written = read_written("--domains", "N,M", "--counts", f"1,{cpus}", "--non-temporal", "yes")
    groups = {case["values"]["case"].split()[3] for case in written}
    assert {group.split(":")[0] for group in groups} >= {"N", "M0"}
    assert {int(group.split(":")[2]) for group in groups} == {1, cpus}
    past = [case for case in written if "_mem" in case["name"].split()[0]]
    assert past and {case["params"]["level"] for case in past} == {"MEM"}
    assert all(("domain" in case["params"]) == (" M" in case["values"]["case"]) for case in written)


@pytest.mark.slow
def test_counters_that_cannot_be_had_are_unavailable() -> None:
    """As in most virtual machines; where there are counters, the kernel's own figure is read as well."""
    (case,) = (case for case in read_written("--groups", "MEM") if "counters" in case["params"])
    assert "level" not in case["params"], "else what was counted would be taken for a ceiling of that level"
    argv = fill_in(["{program}", "{case}"], case["values"])
    ended = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=120)
    if ended.returncode:
        assert ended.stderr.splitlines()[-1].startswith("unavailable: no counters for MEM: ")
    else:
        assert any(reading.status == OK for reading in parsers.parse("likwid", ended.stdout, argv))
