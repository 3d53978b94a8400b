"""The GPU benchmark: on a node without a GPU, and on one that has some."""

from __future__ import annotations

import shutil
from collections import defaultdict
from pathlib import Path

import pytest

from npc.machine.gpus import gpus
from npc.records.record import Record, read_csv
from tests.lab.jube_job import NPC, finish

GPUS = gpus()
pytestmark = pytest.mark.slow


def characterise(folder: Path, *settings: str) -> list[Record]:
    given = [word for setting in settings for word in ("--set", setting)]
    ended = finish(NPC, "characterise", "--benchmark", "gpu", "--output", folder, *given)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return list(read_csv(folder / "000000/records.csv"))


@pytest.mark.skipif(bool(GPUS), reason="this node has a GPU")
@pytest.mark.optional_skip("a node with a GPU")
def test_a_node_without_a_gpu_fails_at_nothing(tmp_path: Path) -> None:
    (record,) = characterise(tmp_path)
    assert record.status.startswith("unavailable: no NVIDIA GPU on ")


@pytest.mark.skipif(not (GPUS and shutil.which("nvcc")), reason="no GPU, or no nvcc")
@pytest.mark.optional_skip("a GPU")
def test_a_gpu_is_measured_within_what_it_can_do(tmp_path: Path) -> None:
    records = characterise(tmp_path, "samples=2")
    assert all(record.ok for record in records), [each.status for each in records if not each.ok]
    best: defaultdict[tuple[str, str], float] = defaultdict(float)
    for record in records:
        kind = next(
            (record.params[name] for name in ("level", "precision", "host_memory") if name in record.params),
            "",
        )
        best[record.case, kind] = max(best[record.case, kind], record.value or 0.0)
    assert best["load", "L2"] > best["load", "MEM"] > 0.5 * best["triad", "MEM"]
    assert best["to_gpu", "pinned"] > best["to_gpu", "pageable"] > 0
    assert best["gemm", "half"] > best["gemm", "single"]
    assert {record.params["gpu"] for record in records} == {str(gpu["index"]) for gpu in GPUS}
