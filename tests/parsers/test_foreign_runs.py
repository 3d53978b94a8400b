"""Runs of other people's JUBE specifications: what supported tools printed is read, the rest is named."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from npc import read_run
from tests.lab.jube_job import NPC, finish
from tests.made.foreign_spec import CLASH, site_benchmark
from tests.paths import ROOT

pytestmark = pytest.mark.slow

STREAM = ROOT / "tests/data/stream/stream_t2.txt"


def npc(*words: str | Path) -> subprocess.CompletedProcess[str]:
    return finish(NPC, "records", *words)


def test_a_tool_s_output_in_a_foreign_run_becomes_records_and_a_compile_step_is_no_failure(
    tmp_path: Path,
) -> None:
    shutil.copy(STREAM, tmp_path / "stream.txt")
    run = site_benchmark(tmp_path, execute="sed 1d $jube_benchmark_home/stream.txt > table.$threads")
    assert npc("wait", run).returncode == 0
    done = npc("collect", run)
    assert done.returncode == 0, done.stderr
    assert "not measured by NPC: 1 × compile; what its authors read: jube result " in done.stderr
    records = read_run(run)
    assert {(r.benchmark, r.status, r.platform) for r in records} == {("stream", "ok", "their-site")}
    triads = [r for r in records if r.case == "triad"]
    assert [(r.params["jube_threads"], r.sample) for r in triads] == [
        ("1", 0), ("1", 1), ("2", 0), ("2", 1),
    ]  # fmt: skip
    assert triads[0].raw == "000001_execute_of_theirs/work/table.1"
    assert (run / triads[0].raw).is_file()


def test_a_foreign_run_without_a_supported_tool_is_not_measured_and_no_failure(tmp_path: Path) -> None:
    run = site_benchmark(tmp_path, execute="echo walltime 17.5 > table.$threads")
    assert npc("wait", run).returncode == 0
    done = npc("collect", run)
    assert done.returncode == 0 and "1 × compile, 4 × execute; what its " in done.stderr
    assert not read_run(run)


def test_a_foreign_workpackage_that_failed_is_a_failure(tmp_path: Path) -> None:
    run = site_benchmark(tmp_path, execute="echo no converging solution >&2; false")
    assert npc("wait", run).returncode == 6, "it compiled"
    assert npc("collect", run).returncode == 1
    assert {r.status.partition(":")[0] for r in read_run(run)} == {"failed"}


def test_a_step_of_which_jube_makes_no_workpackage_is_named_with_the_parameters(tmp_path: Path) -> None:
    run = site_benchmark(tmp_path, execute="true", more=CLASH)
    waited = npc("wait", run)
    assert waited.returncode == 6
    expected = "step execute has no workpackage: its parameter sets give one name two values: modules"
    assert expected in waited.stderr
    done = finish(
        NPC, "characterise", "--benchmark", tmp_path / "site.xml", "--output", tmp_path / "more",
    )  # fmt: skip
    assert done.returncode != 0 and expected in done.stderr
