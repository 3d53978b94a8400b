"""The I/O roofline: ceilings of storage, programs that move bytes of it, and what is said of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from npc.machine.platform import Platform
from npc.records.record import Record, replace
from npc.records.units import METRICS
from npc.report.advice import advise
from npc.report.runs import Run
from npc.report.score import find_scores
from npc.roofline.analyse import analyse
from npc.roofline.points import bounds, storage_part, verdict
from npc.roofline.scene import compose

PLATFORM = Platform(name="here", io_read_bandwidth=4e9, io_write_bandwidth=2e9)


def record(benchmark: str, case: str, metric: str, value: float, **fields: Any) -> Record:
    usual = {"time": "2026-11-24T12:00:00Z", "platform": "here", "hosts": ("n1",), "nodes": 1}
    return Record(
        benchmark=benchmark,
        case=case,
        metric=metric,
        value=value,
        unit=METRICS[metric].unit,
        **usual | fields,
    )


def fio(case: str, rate: float, nodes: int = 1, **params: str) -> list[Record]:
    """Six launches."""
    settings = {"target": "run", "direct": "1", "filesystem": "ext4"} | params
    return [
        record(
            "fio", case, "bandwidth", rate * factor, size=1 << 20, nodes=nodes, sample=sample,
            params=settings,
            raw=f"fio/raw/{case}{nodes}{settings['target']}{settings['direct']}{sample}.out",
        )
        for sample, factor in enumerate((0.98, 0.99, 1.0, 1.0, 1.01, 1.02))
    ]  # fmt: skip


def peak() -> list[Record]:
    return [
        record("likwid", "peakflops_avx_fma", "flops", 1e11, sample=sample, raw=f"likwid/raw/{sample}.out")
        for sample in range(6)
    ]


def program(
    flop: float, read: float, written: float, seconds: float = 10.0, calls: int = 100, writers: int = 2
) -> list[Record]:
    """What npc observe keeps of a program of two ranks on one node."""
    io = {"layer": "io", "node": "n1", "ranks": "2", "program": "app"}
    told = [
        ("flop", flop, {}), ("flops", flop / seconds, {}), ("time", seconds, {}),
        ("traffic", 0.0, {"direction": "received", "node": "n1", "port": "eth0"}),
        ("traffic", 0.0, {"direction": "sent", "node": "n1", "port": "eth0"}),
    ]  # fmt: skip
    for way, moved in (("read", read), ("write", written)):
        wrote = {"writers": str(writers)} if way == "write" else {}
        told += [
            ("traffic", moved, io | {"direction": way, "part": "storage"} | wrote),
            ("traffic", moved, io | {"direction": way, "part": "calls"}),
            ("events", float(calls), io | {"direction": way, "part": "calls"}),
        ]
    return [
        record(
            "observed", "observed", metric, value, raw="app/raw/0000.observed.json",
            params={"program": "app"} | params,
        )
        for metric, value, params in told
    ]  # fmt: skip


def test_ceilings_are_what_reached_storage() -> None:
    records = [
        *fio("read", 2e9), *fio("write", 1e9), *fio("read", 9e9, direct="0"),
        *fio("write", 8e9, direct="0"), *fio("write", 0.9e9, direct="0", end_fsync="1"),
        *fio("read", 6e9, nodes=2), *fio("write", 0.5e9, target="/scratch"),
        *fio("randread", 3e9),
        *(replace(each, benchmark="ior") for each in fio("write", 3e9, nodes=4, direct="0")),
    ]  # fmt: skip
    found = analyse(records, PLATFORM)
    ceilings = {ceiling.name: ceiling for ceiling in found.of_kind("io")}
    assert {name: each.value for name, each in ceilings.items()} == {
        "ior write": 0.75e9,
        "fio read, 2 nodes": 3e9, "fio read, 1 node": 2e9, "fio write": 1e9, "fio write /scratch": 0.5e9,
    }  # fmt: skip
    assert ceilings["fio read, 1 node"].share == pytest.approx(0.5)
    assert ceilings["fio write /scratch"].nominal is None
    assert ceilings["fio read, 2 nodes"].note == "ext4; the share of one of 2 nodes that did so at once"
    scores = find_scores(found)
    assert scores.parts["I/O"].value == pytest.approx((0.75 * 0.5) ** 0.5)
    assert [each.name for each in analyse(records, PLATFORM, nodes=2).of_kind("io")] == ["fio read, 2 nodes"]


def test_a_program_that_storage_bounds() -> None:
    records = [*peak(), *fio("read", 2e9), *fio("write", 1e9), *program(1e10, 2e9, 5e9)]
    found = analyse(records)
    (application,) = found.applications
    assert application.io_intensity is not None
    assert application.io_intensity.median == pytest.approx(1e10 / 7e9)
    tightest = bounds(application, found)[0]
    assert (tightest.ceiling.name, tightest.flops) == ("fio write", pytest.approx(2e9))
    assert storage_part(application, found) == pytest.approx(0.5)  # 5 GB at 1 GB/s of 10 s; reading beside it
    words = verdict(application, found)
    assert "takes at least 50 % of its time, if nothing stays in the page cache when it ends" in words
    assert "at least 2 times as fast" in words
    assert {(ridge.compute, ridge.bandwidth, ridge.intensity) for ridge in found.ridges} == {
        ("peak double", "fio read", 50.0), ("peak double", "fio write", 100.0),
    }  # fmt: skip
    scene = compose(found)
    assert scene is not None
    (mark,) = [mark for mark in scene.marks if mark.of == "storage"]
    assert (mark.x, mark.y) == (pytest.approx(1e10 / 7e9), 1e9)
    lines = {line.ceiling.name: line.stroke for line in scene.lines}
    assert lines["fio read"].dashes == lines["fio write"].dashes != lines["peak double"].dashes
    assert all(
        line.start >= scene.x[0] and line.height(line.start) >= scene.y[0] * 0.99 for line in scene.lines
    )


def test_a_program_without_much_io_has_no_place_in_the_picture() -> None:
    records = [*peak(), *fio("read", 2e9), *fio("write", 1e9), *program(1e10, 1e3, 1e3)]
    found = analyse(records)
    scene = compose(found)
    assert scene is not None and not [mark for mark in scene.marks if mark.of == "storage"]
    assert "takes less than 0.5 % of its time" in verdict(found.applications[0], found)


def hints(tmp_path: Path, *records: Record) -> dict[str, str]:
    run = Run(0, "run", tmp_path, list(records), None)
    return {rule.name: hint.seen for rule, hint in advise(run).hints}


def test_advice(tmp_path: Path) -> None:
    ceilings = [*peak(), *fio("read", 2e9), *fio("write", 1e9)]
    usual = hints(tmp_path, *ceilings, *program(1e10, 2e9, 5e9, calls=10_000))
    assert usual.keys() == {"io_bound"} and "50 % of its time" in usual["io_bound"]
    alone = hints(tmp_path, *ceilings, *program(1e10, 0.0, 5e9, calls=1_000_000, writers=1))
    assert alone.keys() == {"io_bound", "small_io", "one_writer"}
    assert "1,000,000 calls write 5000 B each" in alone["small_io"]
    assert "by one of its 2 ranks" in alone["one_writer"]
    cached = hints(tmp_path, *ceilings, *program(1e10, 0.0, 30e9, calls=10_000))
    assert cached.keys() == {"io_cached"} and "3 times" in cached["io_cached"]
    probed = {"layer": "probe", "part": "syscalls", "kind": "openat", "statistic": "mean", "program": "app"}
    names = record("observed", "observed", "time", 4.0, raw="app/raw/0000.observed.json", params=probed)
    found = hints(tmp_path, *ceilings, *program(1e10, 2e7, 0.0, calls=10), names)
    assert found.keys() == {"metadata"} and "40 % of the run" in found["metadata"]
    assert hints(tmp_path, *ceilings, *program(1e10, 1e6, 1e6)) == {}
