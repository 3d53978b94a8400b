"""HPCG: its result file, and its build from a site's sources, which a stand-in has the build system of."""

from __future__ import annotations

import re
import subprocess
import tarfile
from pathlib import Path

import pytest

from npc import parsers
from npc.records.reading import Reading
from npc.records.record import OK, read_csv
from tests.captured import DATA, text_of
from tests.lab.jube_job import NPC, finish, results, run_jube, states
from tests.paths import ROOT

FOLDER = ROOT / "benchmarks/hpcg"
WHOLE = text_of("hpcg", "short_2.txt")

# -- the result file -------------------------------------------------------------------------------------


def rating(text: str) -> Reading:
    return next(reading for reading in parsers.parse("hpcg", text) if reading.case == "HPCG")


def test_the_rating_is_the_flop_over_the_time_with_the_set_up() -> None:
    """HPCG: the optimisation and a tenth of the set-up are spread over ten sets of iterations."""
    number = rating(WHOLE)
    assert (
        number.status == OK and number.params["official"] == "no" and number.params["kernels"] == "reference"
    )
    assert number.value == pytest.approx(2.10613e9)
    assert number.value < 3.0193e10 / 14.1595


def test_the_parts_of_the_time_make_the_whole() -> None:
    times = {
        reading.case: reading.value or 0
        for reading in parsers.parse("hpcg", WHOLE)
        if reading.metric == "time" and "part" not in reading.params
    }
    total = times.pop("HPCG")
    assert len(times) == 4 and sum(times.values()) == pytest.approx(total, rel=1e-3)


def test_an_optimised_run_of_half_an_hour_is_official() -> None:
    official = re.sub(r"Final Summary::(Reference|Results|Official).*\n", "", WHOLE)
    official += (
        "Final Summary::Please upload results from the YAML file contents to=http://hpcg-benchmark.org\n"
    )
    assert (rating(official).params["official"], rating(official).params["kernels"]) == ("yes", "optimised")


def test_an_invalid_result_has_no_usable_number() -> None:
    said = "Final Summary::HPCG result is=INVALID.\nFinal Summary::Please review the YAML file contents=\n"
    invalid = re.sub(r"(Final Summary::.*\n)+", said, WHOLE)
    statuses = {reading.status for reading in parsers.parse("hpcg", invalid)}
    assert statuses == {"invalid: HPCG result is INVALID."}


def test_a_rate_that_is_not_its_flop_over_its_time_is_invalid() -> None:
    changed = WHOLE.replace("Benchmark Time Summary::Total=14.1595", "Benchmark Time Summary::Total=7.0797")
    assert rating(changed).status == "invalid: the rate is not the FLOP over the time"


# -- the build -------------------------------------------------------------------------------------------

#: What HPCG's configure does: a Makefile from setup/Make.ARCH, to be used in the folder it was called in.
CONFIGURE = """#!/bin/sh
top=$(dirname "$0")
[ -f "$top/setup/Make.$1" ] || { echo "Please create the configuration file $top/setup/Make.$1" >&2; exit 1; }
mkdir -p bin
{ echo "TOPdir = $top"; cat "$top/setup/Make.$1"; echo 'bin/xhpcg: $(TOPdir)/src/main.c'; } > Makefile
printf '\\t$(CC) -O1 $< -o $@\\n' >> Makefile
"""
#: Writes what HPCG writes, where HPCG writes it; says on stdout what it was asked for.
SOURCE = r"""
#include <mpi.h>
#include <stdio.h>
static const char report[] = {REPORT};
int main(int argc, char **argv)
{
    int rank, size;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (rank == 0) {
        FILE *f = fopen("HPCG-Benchmark_3.1_2026-01-01_00-00-00.txt", "w");
        fputs(report, f);
        fclose(f);
        for (int a = 1; a < argc; a++)
            printf("%s ", argv[a]);
        printf("on %d\n", size);
    }
    MPI_Finalize();
    return 0;
}
"""


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    """A stand-in for HPCG's source archive."""
    top = tmp_path / "hpcg-3.1"
    (top / "setup").mkdir(parents=True)
    (top / "src").mkdir()
    (top / "configure").write_text(CONFIGURE)
    (top / "configure").chmod(0o755)
    (top / "setup/Make.Linux_MPI").write_text("CC = mpicc\n")
    report = ", ".join(map(str, [*WHOLE.encode(), 0]))
    (top / "src/main.c").write_text(SOURCE.replace("{REPORT}", f"{{{report}}}"))
    path = tmp_path / "hpcg-3.1.tar.gz"
    with tarfile.open(path, "w:gz") as tar:
        tar.add(top, "hpcg-3.1")
    return path


def build(folder: Path, *words: str | Path) -> subprocess.CompletedProcess[str]:
    folder.mkdir(exist_ok=True)
    return subprocess.run(
        ["bash", FOLDER / "build.sh", *words], cwd=folder, capture_output=True, text=True, check=False
    )


@pytest.mark.slow
def test_an_archive_a_folder_and_a_prefix_give_the_program(tmp_path: Path, archive: Path) -> None:
    for name, words in (
        ("of_archive", ["", archive, "Linux_MPI"]),
        ("of_folder", ["", tmp_path / "hpcg-3.1", "Linux_MPI"]),
        ("of_prefix", [tmp_path / "of_archive/build", "", ""]),
    ):
        built = build(tmp_path / name, *words)
        assert (built.returncode, built.stdout, built.stderr) == (0, "", "")
        assert (tmp_path / name / "xhpcg").resolve().parent.name == "bin"


@pytest.mark.slow
def test_what_cannot_be_built_is_said(tmp_path: Path, archive: Path) -> None:
    for words, told in (
        (["", "", "Linux_MPI"], "unavailable: no HPCG on "),
        ([tmp_path / "none", "", ""], "hpcg_prefix: no program xhpcg below"),
        (["", tmp_path / "none.tar", ""], "hpcg_source: cannot read"),
        (["", DATA / "hpcg/README.md", ""], "tar cannot unpack"),
        (["", DATA, ""], "no configure in"),
        (["", archive, "Solaris"], "NPC_HPCG_ARCH names another"),
    ):
        built = build(tmp_path / "work", *words)
        assert built.returncode == 1 and told in built.stderr, words
    assert "Make.Solaris" in built.stderr, "configure's own words"
    assert not (tmp_path / "work/xhpcg").exists()


@pytest.mark.slow
def test_jube_builds_it_runs_it_and_reads_its_file(tmp_path: Path, archive: Path) -> None:
    small = {"NPC_HPCG_TASKS": "2", "NPC_HPCG_SIZE": "16", "NPC_HPCG_TIME": "1"}
    ended = run_jube(
        "benchmarks/hpcg/benchmark.xml", tmp_path / "runs", NPC_HPCG_SOURCE=str(archive), **small
    )
    assert states(ended)["hpcg"]["done"] == 1
    finish(NPC, "records", "collect", tmp_path / "runs")
    records = list(read_csv(tmp_path / "runs/000000/records.csv"))
    assert {record.case for record in records} >= {"HPCG", "HPCG_raw", "HPCG_MG"}
    (value,) = (r.value for r in records if (r.case, r.metric) == ("HPCG", "flops"))
    (row,) = results(tmp_path / "runs")["hpcg"]
    assert value == pytest.approx(float(row["rating best [GFLOP/s]"]) * 1e9, rel=1e-3)
    said = next((tmp_path / "runs/000000").rglob("launches/raw/0000.err")).read_text()
    assert said == "--nx=16 --ny=16 --nz=16 --rt=1 on 2\n"
    assert not list((tmp_path / "runs/000000").rglob("work/hpcg.*")), "folders of its runs are left"


@pytest.mark.slow
def test_without_a_build_and_sources_it_is_unavailable(tmp_path: Path) -> None:
    run_jube("benchmarks/hpcg/benchmark.xml", tmp_path)
    finish(NPC, "records", "collect", tmp_path)
    (record,) = read_csv(tmp_path / "000000/records.csv")
    assert record.status.startswith("unavailable: no HPCG on ") and "NPC_HPCG_PREFIX" in record.status
