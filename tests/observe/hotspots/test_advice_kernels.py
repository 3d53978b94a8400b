"""Advice on libraries: a program whose BLAS another one beats here, planted and real ones."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from npc.observe.hotspots import section
from npc.records.record import save_csv
from npc.report.advice import Advice, advise, gather
from npc.report.advice.rule import Hint
from npc.report.runs import Report
from tests.made.inside import observed_runs
from tests.made.measured import records
from tests.made.on_node import MAIN, Place, hotspots, put
from tests.made.profiles import Job

RULE = "slow_library"
KERNEL = ("bli_dgemm_haswell_asm_6x8", "libblis.so.4")


def program(folder: Path, kernel: Place, own: int = 40) -> Path:
    """One that spends `own` of 100 samples in a kernel."""
    job = Job(2, per_node=2)
    job.compute(1.0, 1.0)
    stacks = {(MAIN, kernel): (own, own), (MAIN,): (100 - own, 100 - own)}
    return put(observed_runs(folder, job.profiles()), hotspots=hotspots(stacks))


def measured(folder: Path, **rates: float) -> Path:
    """dgemm by libraries, with two threads."""
    folder.mkdir()
    found = []
    for library, flops in rates.items():
        params = {"library": library, "threads": "2"}
        found += records("blas", "dgemm", flops, metric="flops", size=1 << 20, params=params)
    save_csv(found, folder / "records.csv")
    return folder


def judged(*folders: Path) -> Advice:
    return advise(gather(folders))


def told(advice: Advice) -> Iterator[Hint]:
    return (hint for rule, hint in advice.hints if rule.name == RULE)


def test_a_library_that_another_beats_is_told_with_what_it_brings(tmp_path: Path) -> None:
    folders = program(tmp_path / "app", KERNEL), measured(tmp_path / "blas", OpenBLAS=100e9, BLIS=50e9)
    (hint,) = told(judged(*folders))
    assert "app, 2 ranks on 1 node: 40% of the time is in dgemm by BLIS (bli_dgemm_haswell" in hint.seen
    assert "here dgemm reaches 100 GFLOP/s by OpenBLAS with 2 threads; 50 GFLOP/s by BLIS" in hint.seen
    # 40 % of the time, by at most 110/45
    assert hint.gain == pytest.approx(1 / (0.6 + 0.4 * 45 / 110))
    assert hint.do.startswith("use OpenBLAS for dgemm") and hint.brings.startswith("app: at most 1.31 times")


def test_the_page_says_so_below_the_hotspots(tmp_path: Path) -> None:
    folders = [program(tmp_path / "app", KERNEL), measured(tmp_path / "blas", OpenBLAS=100e9, BLIS=50e9)]
    run = gather(folders)
    texts = [str(block) for block in section.build(Report([run], tmp_path))]
    assert any("With OpenBLAS the program would be at most 1.31 times as fast" in text for text in texts)


@pytest.mark.parametrize(
    ("kernel", "own", "rates"),
    [
        (KERNEL, 40, {"OpenBLAS": 55e9, "BLIS": 50e9}),
        (KERNEL, 40, {"OpenBLAS": 50e9, "BLIS": 100e9}),
        (KERNEL, 4, {"OpenBLAS": 100e9, "BLIS": 50e9}),
        (("stencil", "app"), 40, {"OpenBLAS": 100e9, "BLIS": 50e9}),
        (("n1_64", "libfftw3.so.3"), 40, {"OpenBLAS": 100e9, "BLIS": 50e9}),
        (("mkl_blas_avx2_dgemm_kernel_0", "app"), 40, {"OpenBLAS": 100e9, "BLIS": 50e9}),
    ],
    ids=["within the intervals", "the best", "a small part", "no kernel", "a transform", "not measured"],
)
def test_nothing_is_said_where_no_library_is_known_to_be_faster(
    tmp_path: Path, kernel: Place, own: int, rates: dict[str, float]
) -> None:
    advice = judged(program(tmp_path / "app", kernel, own), measured(tmp_path / "blas", **rates))
    assert not list(told(advice)) and RULE in advice.silent


def test_a_product_by_an_unknown_library_is_told_without_a_number(tmp_path: Path) -> None:
    folders = program(tmp_path / "app", ("dgemm_", "libblas.so.3")), measured(tmp_path / "blas", BLIS=50e9)
    (hint,) = told(judged(*folders))
    assert hint.gain is None and "a library that no name tells (dgemm_)" in hint.seen


def test_what_is_missing_is_said(tmp_path: Path) -> None:
    without = measured(tmp_path / "blas", OpenBLAS=100e9)
    assert judged(without).lacking[RULE] == "no program whose stacks were taken (npc observe --hotspots)"
    alone = program(tmp_path / "app", KERNEL)
    assert judged(alone).lacking[RULE].startswith("no matrix products by the libraries of this machine")
