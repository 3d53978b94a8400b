"""The drivers of mathematical libraries: what they find, what they check, and what they refuse."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from npc import parsers
from npc.machine.libraries import find_library
from npc.records.record import OK
from tests.paths import ROOT

STRICT = "-O2 -std=gnu11 -Wall -Wextra -Werror"
FOLDERS = ROOT / "benchmarks"
#: A library with OpenBLAS' interface: products by a plain loop, but for what WRONG does to them.
LIBRARY = r"""
#include <complex.h>
static int threads = 1;
char *openblas_get_config(void) { return "OpenBLAS 0.0.1 PLAIN"; }
int openblas_get_num_threads(void) { return threads; }
void openblas_set_num_threads(int n) { threads = n > MOST ? MOST : n; }
void cblas_dgemm(int o, int ta, int tb, int m, int n, int k, double alpha, const double *a, int lda,
                 const double *b, int ldb, double beta, double *c, int ldc)
{
    (void)o, (void)ta, (void)tb, (void)alpha, (void)beta;
    for (int j = 0; j < n; j++)
        for (int i = 0; i < m; i++) {
            double sum = 0;
            for (int l = 0; l < k; l++)
                sum += a[l * lda + i] * b[j * ldb + l];
            WRONG;
            c[j * ldc + i] = sum;
        }
}
void cblas_zgemm(int o, int ta, int tb, int m, int n, int k, const void *alpha, const double complex *a,
                 int lda, const double complex *b, int ldb, const void *beta, double complex *c, int ldc)
{
    (void)o, (void)ta, (void)tb, (void)alpha, (void)beta;
    for (int j = 0; j < n; j++)
        for (int i = 0; i < m; i++) {
            double complex sum = 0;
            for (int l = 0; l < k; l++)
                sum += a[l * lda + i] * b[j * ldb + l];
            WRONG;
            c[j * ldc + i] = sum;
        }
}
"""


def build(name: str, folder: Path, cc: str = "cc") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", FOLDERS / "kernels.sh", FOLDERS / name / f"{name}.c", cc, STRICT],
        cwd=folder, capture_output=True, text=True, check=False,
    )  # fmt: skip


@pytest.fixture(scope="module")
def drivers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("drivers")
    for name in ("blas", "fft"):
        built = build(name, folder)
        assert built.returncode == 0 and not built.stderr, built.stderr
    return folder


def run(driver: Path, *words: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([driver, *words], capture_output=True, text=True, check=False, timeout=60)


def library(name: str) -> Path:
    path = find_library(name)
    if path is None:
        pytest.skip(f"no {name}: npc/setup.sh --tests installs it")
    return path


def plain_library(folder: Path, wrong: str, most: int = 64) -> Path:
    (folder / "plain.c").write_text(LIBRARY)
    made = folder / "libopenblas.so.0"
    flags = ["-O2", "-shared", "-fPIC", f"-DWRONG={wrong}", f"-DMOST={most}"]
    subprocess.run(["cc", *flags, folder / "plain.c", "-o", made], check=True)
    return made


@pytest.mark.slow
@pytest.mark.parametrize("name", ["OpenBLAS", "BLIS"])
@pytest.mark.parametrize("threads", [1, 2])
def test_a_blas_multiplies_and_says_which_it_is(drivers: Path, name: str, threads: int) -> None:
    path = library(name)
    if threads > len(os.sched_getaffinity(0)):
        pytest.skip("one CPU: threads would take turns")
    done = run(drivers / "blas", path, str(threads), "dgemm:64", "dgemm:97", "zgemm:64")
    assert done.returncode == 0, done.stderr
    assert f"Library = {name}, {path.resolve()}\n" in done.stdout
    readings = parsers.parse("blas", done.stdout)
    assert [(each.case, each.params["n"]) for each in readings] == [
        ("dgemm", "64"), ("dgemm", "97"), ("zgemm", "64"),
    ]  # fmt: skip
    for reading in readings:
        assert (reading.status, reading.metric, reading.params["library"]) == (OK, "flops", name)
        assert reading.params["threads"] == str(threads) and reading.tool_version
        assert reading.value is not None and reading.value > 1e6


@pytest.mark.slow
@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        ("(void)0", ""),
        ("if (i == 17 && j == 40) sum += 1e-7", "the result is wrong"),
        ("if (i == 17 && j == 40) continue", "the result is wrong"),  # nothing is written there
        ("sum = (float)creal(sum)", "the result is wrong"),
    ],
    ids=["right", "one element", "one left out", "single precision"],
)
@pytest.mark.parametrize("routine", ["dgemm", "zgemm"])
def test_a_wrong_product_is_seen(
    drivers: Path, tmp_path: Path, routine: str, wrong: str, reason: str
) -> None:
    done = run(drivers / "blas", plain_library(tmp_path, wrong), "1", f"{routine}:64")
    readings = parsers.parse("blas", parsers.joined(done.stdout, done.stderr))
    assert (done.returncode == 0) == (not reason), done.stderr
    assert readings[0].status == OK if not reason else reason in readings[0].status
    assert all(reading.status != OK for reading in readings) == bool(reason)


@pytest.mark.slow
def test_a_library_that_takes_fewer_threads_than_it_is_told(drivers: Path, tmp_path: Path) -> None:
    done = run(drivers / "blas", plain_library(tmp_path, "(void)0", most=1), "2", "dgemm:64")
    (reading,) = parsers.parse("blas", done.stdout)
    assert reading.status == "invalid: the library has 1 threads, 2 were asked for"


@pytest.mark.slow
def test_no_library_is_taken_for_another(drivers: Path, tmp_path: Path) -> None:
    """One without a name, as the reference BLAS; one whose products come from another file; none."""
    nameless = tmp_path / "libblas.so.3"
    made = subprocess.run(
        ["cc", "-shared", "-fPIC", "-x", "c", "-", "-o", nameless],
        input="void cblas_dgemm(void) {}", text=True, check=False,
    )  # fmt: skip
    assert made.returncode == 0
    refused = run(drivers / "blas", nameless, "1", "dgemm:64")
    assert refused.returncode == 1 and "it may be the reference BLAS" in refused.stderr
    (tmp_path / "front.c").write_text('char *openblas_get_config(void) { return "OpenBLAS"; }')
    behind = plain_library(tmp_path, "(void)0").rename(tmp_path / "libbehind.so")
    front = tmp_path / "libfront.so"
    subprocess.run(
        ["cc", "-shared", "-fPIC", tmp_path / "front.c", "-Wl,--no-as-needed", behind, "-o", front],
        check=True,
    )  # fmt: skip
    mixed = run(drivers / "blas", front, "1", "dgemm:64")
    assert mixed.returncode == 1 and f"cblas_dgemm comes from {behind}" in mixed.stderr
    missing = run(drivers / "blas", "libnosuch.so", "1", "dgemm:64")
    assert missing.returncode == 1 and "blas: libnosuch.so: cannot open shared object" in missing.stderr
    for done in (refused, mixed, missing):
        (reading,) = parsers.parse("blas", done.stderr)
        assert reading.status.startswith("failed: ") and reading.value is None


@pytest.mark.slow
def test_another_blas_in_the_process_is_not_what_runs(drivers: Path, tmp_path: Path) -> None:
    """Preloaded, a library comes before all others, but not before the one that the driver opened."""
    wrong = plain_library(tmp_path, "sum += 1")
    ended = subprocess.run(
        [drivers / "blas", library("OpenBLAS"), "1", "dgemm:64"],
        capture_output=True, text=True, check=False, timeout=60, env={**os.environ, "LD_PRELOAD": str(wrong)},
    )  # fmt: skip
    (reading,) = parsers.parse("blas", ended.stdout)
    assert reading.status == OK and reading.tool_version != "0.0.1"


@pytest.mark.slow
@pytest.mark.parametrize("threads", ["1", "2"])
def test_transforms_of_every_kind_are_those_of_the_definition(drivers: Path, threads: str) -> None:
    words = ["1d:8", "1d:30:in", "1d:4096", "1d:4099", "3d:6", "3d:15:in", "3d:32"]
    done = run(drivers / "fft", library("FFTW"), threads, "estimate", *words)
    assert done.returncode == 0, done.stderr
    readings = parsers.parse("fft", done.stdout)
    kinds = [(each.case, each.params["n"], each.params["place"]) for each in readings]
    assert kinds[:2] == [("fft_1d", "8", "out"), ("fft_1d", "30", "in")] and len(kinds) == len(words)
    errors = [float(line.split()[-1]) for line in done.stdout.splitlines() if re.match("[13]d:", line)]
    assert all(error < 0.1 for error in errors), "a tenth of the tolerance"
    assert all(each.tool_version and each.params["library"] == "FFTW" for each in readings)


@pytest.mark.slow
@pytest.mark.parametrize(
    "change",
    [
        ("* of_bin[axis]", "* of_bin[rank - 1 - axis]"),
        ("turn = -2", "turn = 2"),
        ("t.kept[i][part] = random_number();\n    refill(&t);",
         "t.kept[i][part] = random_number();\n    refill(&t);\n    t.kept[5][0] += 1e-12;"),
    ],
    ids=["axes", "sign", "numbers"],
)  # fmt: skip
def test_a_wrong_transform_is_seen(tmp_path: Path, change: tuple[str, str]) -> None:
    """A check that differs from the library by the order of axes, the sign, or one number, is not passed."""
    text = (FOLDERS / "fft/fft.c").read_text()
    assert change[0] in text
    (tmp_path / "wrong.c").write_text(text.replace(*change))
    flags = ["-O2", f"-I{FOLDERS}", "-ldl", "-lm"]
    subprocess.run(["cc", tmp_path / "wrong.c", "-o", tmp_path / "wrong", *flags], check=True)
    done = run(tmp_path / "wrong", library("FFTW"), "1", "estimate", "3d:16")
    assert done.returncode == 1 and "Failed validation" in done.stderr
    reading, end = parsers.parse("fft", parsers.joined(done.stdout, done.stderr))
    assert reading.status.startswith("invalid: the result is wrong") and end.status.startswith("failed: ")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("driver", "words"),
    [
        ("blas", []), ("blas", ["lib.so", "1"]), ("blas", ["lib.so", "0", "dgemm:8"]),
        ("blas", ["lib.so", "1", "sgemm:8"]), ("blas", ["lib.so", "1", "dgemm:0"]),
        ("blas", ["lib.so", "1", "dgemm:46341"]), ("blas", ["lib.so", "1x", "dgemm:8"]),
        ("fft", ["lib.so", "1", "fast", "1d:8"]), ("fft", ["lib.so", "1", "measure", "2d:8"]),
        ("fft", ["lib.so", "1", "measure", "3d:8:out"]), ("fft", ["lib.so", "1", "measure", "1d:1"]),
        ("fft", ["lib.so", "1", "measure", "1d:"]), ("fft", ["lib.so", "1", "measure", "3d:1025"]),
    ],
)  # fmt: skip
def test_bad_arguments_are_two_with_a_message(drivers: Path, driver: str, words: list[str]) -> None:
    done = run(drivers / driver, *words)
    assert done.returncode == 2 and not done.stdout
    assert done.stderr.startswith(f"usage: {driver} ") and done.stderr.count("\n") == 1


def test_without_a_compiler_it_is_unavailable(tmp_path: Path) -> None:
    for name in ("blas", "fft"):
        built = build(name, tmp_path, cc="no-such-cc")
        assert built.returncode == 1 and built.stderr.startswith(
            "unavailable: no C compiler 'no-such-cc' on "
        )
        assert f"set NPC_{name.upper()}_CC" in built.stderr


# -- which libraries, how many threads ---------------------------------------------------------------------


def cases(name: str, *words: str, path: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, FOLDERS / name / "cases.py", *words],
        capture_output=True, text=True, check=False, env={**os.environ, "LD_LIBRARY_PATH": path},
    )  # fmt: skip


def read_cases(name: str, *words: str, path: str = "") -> list[dict[str, Any]]:
    ended = cases(name, *words, path=path)
    assert ended.returncode == 0, ended.stderr
    return [json.loads(line) for line in ended.stdout.splitlines()]


def test_every_library_has_a_case_for_one_thread_and_for_all(tmp_path: Path) -> None:
    """A library of a loaded module comes before the system's."""
    (tmp_path / "libopenblas.so.0").touch()
    found = read_cases(
        "blas", "--cores", "9", "--libraries", "openblas,/opt/x/libblis-mt.so,mkl", path=str(tmp_path)
    )
    names = [case["name"] for case in found]
    assert names == [f"{name} {threads}" for name in ("OpenBLAS", "BLIS", "MKL") for threads in (1, 9)]
    assert found[0]["values"]["library"] == str(tmp_path / "libopenblas.so.0")
    assert found[2]["values"]["library"] == "/opt/x/libblis-mt.so"
    assert found[1]["values"]["products"] == "dgemm:256 dgemm:2304 zgemm:128 zgemm:1152"
    assert found[1]["params"] == {"library": "OpenBLAS", "threads": "9"}


def test_sizes_threads_and_places_are_those_asked_for() -> None:
    (case,) = read_cases(
        "blas", "--libraries", "/x/lib.so", "--threads", "4", "--sizes", "10,20", "--routines", "zgemm"
    )
    assert case["values"] == {"library": "/x/lib.so", "threads": "4", "products": "zgemm:10 zgemm:20"}
    (case,) = read_cases(
        "fft", "--libraries", "/x/libfftw3.so.3", "--threads", "4", "--sizes", "3d:10:in,1d:8"
    )
    assert case["values"]["transforms"] == "3d:10:in 1d:8" and case["params"]["library"] == "FFTW"


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("blas", ["--libraries", "atlas"]), ("blas", ["--threads", "0"]), ("blas", ["--sizes", "x"]),
        ("blas", ["--routines", "sgemm"]), ("fft", ["--libraries", "openblas"]), ("fft", ["--sizes", "2d:8"]),
        ("fft", ["--sizes", "3d:8:out"]), ("fft", ["--planner", "fast"]), ("fft", ["--threads", "-1"]),
    ],
)  # fmt: skip
def test_a_setting_that_does_not_exist_is_named(name: str, words: list[str]) -> None:
    ended = cases(name, *words)
    assert ended.returncode == 1 and not ended.stdout
    assert f"{name}_{words[0][2:]} {words[1]}: " in ended.stderr and "Traceback" not in ended.stderr


@pytest.mark.parametrize("name", ["blas", "fft"])
def test_without_any_library_the_benchmark_is_unavailable(name: str) -> None:
    """Where no folder has one: a search that begins at another root."""
    code = (
        "import runpy, sys; from pathlib import Path; import npc.machine.libraries as l;"
        "l._folders = lambda: iter([Path('/nowhere')]); sys.argv = ['cases.py'];"
        f"runpy.run_path({str(FOLDERS / name / 'cases.py')!r}, run_name='__main__')"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert ended.returncode == 1 and not ended.stdout
    assert ended.stderr.startswith("unavailable: none of ") and "apt-get install lib" in ended.stderr
