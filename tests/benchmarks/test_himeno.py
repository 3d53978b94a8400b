"""Himeno: our source against a plain reference, on every process grid."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from npc import parsers
from npc.records.record import OK
from tests.paths import ROOT

pytestmark = pytest.mark.slow

FOLDER = ROOT / "benchmarks/himeno"
SOURCE = FOLDER / "himeno.c"
STRICT = "-O2 -fopenmp-simd -std=c11 -Wall -Wextra -Werror"
AS_ROOT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}


def build(
    folder: Path, source: Path = SOURCE, cc: str = "mpicc", flags: str = STRICT
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", FOLDER / "build.sh", source, cc, flags],
        cwd=folder, capture_output=True, text=True, check=False,
    )  # fmt: skip


@pytest.fixture(scope="module")
def himeno(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("himeno")
    built = build(folder)
    assert built.returncode == 0 and not built.stderr, built.stderr
    return folder / "himeno"


def run(himeno: Path, *words: str, ranks: int = 1) -> subprocess.CompletedProcess[str]:
    starter = ["mpirun", "-n", str(ranks), "--oversubscribe"] if ranks > 1 else []
    return subprocess.run(
        [*starter, himeno, *words],
        capture_output=True, text=True, check=False, timeout=60, env={**os.environ, **AS_ROOT},
    )  # fmt: skip


def gosa(ended: subprocess.CompletedProcess[str]) -> float:
    assert ended.returncode == 0, ended.stderr
    printed = re.search(r"^ Gosa : (\S+)$", ended.stdout, re.MULTILINE)
    assert printed
    return float(printed[1])


Field = npt.NDArray[np.float32]


def shifted(p: Field, i: int, j: int, k: int) -> Field:
    """The inner cells' neighbours at that distance."""
    x, y, z = p.shape
    return p[1 + i : x - 1 + i, 1 + j : y - 1 + j, 1 + k : z - 1 + k]


def reference(shape: tuple[int, int, int], loops: int) -> float:
    """The residual of the last loop: all 19 terms of the published kernel, in single precision."""
    one, zero, sixth, omega = (np.float32(value) for value in (1, 0, 1 / 6, 0.8))
    line = np.arange(shape[0], dtype=np.float32) ** 2 / np.float32(shape[0] - 1) ** 2
    p = np.broadcast_to(line[:, None, None], shape).astype(np.float32)
    residual = 0.0
    for _ in range(loops):
        s0 = one * shifted(p, 1, 0, 0) + one * shifted(p, 0, 1, 0) + one * shifted(p, 0, 0, 1)
        for i, j, k in ((1, 1, 0), (0, 1, 1), (1, 0, 1)):
            other = (i, -j, 0) if k == 0 else (0, -j, k) if i == 0 else (-i, 0, k)
            s0 = s0 + zero * (
                shifted(p, i, j, k)
                - shifted(p, *other)
                - shifted(p, -other[0], -other[1], -other[2])
                + shifted(p, -i, -j, -k)
            )
        s0 = s0 + one * shifted(p, -1, 0, 0) + one * shifted(p, 0, -1, 0) + one * shifted(p, 0, 0, -1) + zero
        ss = (s0 * sixth - shifted(p, 0, 0, 0)) * one
        residual = float(np.sum((ss * ss).astype(np.float64)))
        p = p.copy()
        p[1:-1, 1:-1, 1:-1] += omega * ss
    return residual


@pytest.mark.parametrize(
    ("shape", "loops"), [((9, 8, 7), 1), ((9, 8, 7), 25), ((17, 12, 33), 10), ((3, 3, 3), 4)]
)
def test_the_residual_is_the_references(himeno: Path, shape: tuple[int, int, int], loops: int) -> None:
    printed = gosa(run(himeno, "x".join(map(str, shape)), "-n", str(loops)))
    assert printed == pytest.approx(reference(shape, loops), rel=1e-5)


@pytest.mark.parametrize(
    ("ranks", "grid"),
    [(2, "2x1x1"), (2, "1x2x1"), (2, "1x1x2"), (4, "2x2x1"), (4, "1x2x2"), (3, "3x1x1"), (2, "")],
)
def test_the_residual_does_not_depend_on_the_process_grid(himeno: Path, ranks: int, grid: str) -> None:
    """Cells that the processes do not divide evenly; one more process than the others have halos."""
    problem = ("20x19x23", "-n", "30")
    alone = gosa(run(himeno, *problem))
    divided = run(himeno, *problem, *(["-g", grid] if grid else []), ranks=ranks)
    assert gosa(divided) == pytest.approx(alone, rel=1e-7)


def test_coefficients_off_the_axes_need_the_edges_of_the_halo(tmp_path: Path) -> None:
    """With the published coefficients the 12 edge neighbours count zero times; here they do not."""
    text = SOURCE.read_text()
    assert "[A3] = 1.0f / 6.0f, " in text
    changed = text.replace(
        "[A3] = 1.0f / 6.0f, ", "[A3] = 1.0f / 6.0f, [B0] = .02f, [B1] = .03f, [B2] = .05f, "
    )
    (tmp_path / "edges.c").write_text(changed)
    assert build(tmp_path, tmp_path / "edges.c").returncode == 0
    problem = ("12x11x13", "-n", "20")
    alone = gosa(run(tmp_path / "himeno", *problem))
    for ranks, grid in ((2, "2x1x1"), (4, "2x2x1"), (4, "2x1x2"), (4, "1x2x2")):
        assert gosa(run(tmp_path / "himeno", *problem, "-g", grid, ranks=ranks)) == pytest.approx(
            alone, rel=1e-6
        )


def test_what_it_prints_is_what_the_parser_reads(himeno: Path) -> None:
    ended = run(himeno, "S", "-t", "0.05", "-r", "2", ranks=2)
    readings = parsers.parse("himeno", ended.stdout)
    assert [reading.metric for reading in readings] == ["flops", "bandwidth", "time", "flop"]
    assert readings[1].value == pytest.approx((readings[0].value or 0.0) / 34 * 64)
    for reading in readings:
        assert (reading.status, reading.size) == (OK, 14 * 4 * 64 * 64 * 128)
        assert reading.params["cells"] == "64x64x128" and reading.params["processes"] == "2"


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (["XXL"], 2, "SIZE is XS, S, M, L, XL"),
        (["2x9x9"], 2, "SIZE is XS"),
        (["9x9x9x9"], 2, "SIZE is XS"),
        (["XS", "-g", "2x1x1"], 2, "another number of processes than there are"),
        (["XS", "-g", "1x1"], 2, "not a value for its option: 1x1"),
        (["XS", "-n", "0"], 2, "not a value for its option: 0"),
        (["XS", "-t", "nan"], 2, "not a value for its option: nan"),
        (["XS", "-x", "1"], 2, "unknown option -x"),
        (["XS", "-n"], 2, "usage: himeno SIZE"),
        ([], 2, "usage: himeno SIZE"),
        (["XS", "-r", "2", "-n", "1"], 1, "is mpirun of the MPI that mpicc compiled for?"),
    ],
)
def test_mistakes_are_said_in_a_line(himeno: Path, words: list[str], code: int, told: str) -> None:
    ended = run(himeno, *words)
    assert ended.returncode == code
    assert told in ended.stderr and ended.stderr.startswith("himeno: ") and not ended.stdout


def test_no_compiler_is_unavailable(tmp_path: Path) -> None:
    missing = build(tmp_path, cc="no-such-mpicc -fast")
    assert missing.returncode == 1
    assert missing.stderr.startswith("unavailable: no MPI compiler 'no-such-mpicc -fast' on ")
    assert f"cannot read {tmp_path}/none.c" in build(tmp_path, tmp_path / "none.c").stderr
