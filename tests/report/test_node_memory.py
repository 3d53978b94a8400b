"""The section of a node's memory: made-up numbers in, tables and pictures out."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

from npc.page.blocks import Block, Figure, Table
from npc.records.record import Record, save_csv
from npc.report.runs import Report, read_runs
from npc.report.sections import NothingToShow
from npc.report.sections.node_memory import build
from tests.made.measured import records


def blocks(folder: Path, records: Iterable[Record]) -> list[Block]:
    save_csv(list(records), folder / "records.csv")
    return list(build(Report(read_runs([folder]), folder)))


def latency(case: str, seconds: float, size: int | None = None, **params: str) -> list[Record]:
    return list(records("memory", case, seconds, metric="latency", size=size, params=params))


def test_levels_have_cycles_by_the_clock_that_was_measured(tmp_path: Path) -> None:
    """4 cycles of 2.5 GHz are 1.6 ns, 180 are 72 ns; a set of no level has no row."""
    (table,) = blocks(
        tmp_path,
        [
            *records("memory", "clock", 2.5e9, metric="clock"),
            *latency("load", 1.6e-9, 16384, level="L1"),
            *latency("load", 9e-9, 65536),
            *latency("load", 72e-9, 2**27, level="MEM"),
            *latency("core_to_core", 40e-9, thread_cpus="0,1", relation="shared-cache"),
            *latency("core_to_core", 10e-9, thread_cpus="0,2", relation="same-core"),
            *latency("numa", 72e-9, 2**27, cpu_node="0", memory_node="0"),
            *latency("numa", 100e-9, 2**27, cpu_node="0", memory_node="1"),
        ],
    )[:1]
    assert isinstance(table, Table)
    assert [row[:3] for row in table.texts()[1:]] == [
        ("L1", "4", "1.6 ns"),
        ("main memory", "180", "72 ns"),
        ("two hardware threads of a core, one way", "25", "10 ns"),
        ("two cores below one last-level cache, one way", "100", "40 ns"),
        ("memory of NUMA node 0 from node 0", "180", "72 ns"),
        ("memory of NUMA node 1 from node 0", "250", "100 ns"),
    ]


def test_the_loaded_curve_goes_from_no_streams_to_streams_without_a_pause(tmp_path: Path) -> None:
    measured = latency("loaded", 90e-9, 2**27, delay_ns="idle")
    for delay, seconds, rate in (("0", 300e-9, 80e9), ("5000", 92e-9, 9e9), ("20000", 91e-9, 2e9)):
        measured += latency("loaded", seconds, 2**27, delay_ns=delay)
        measured += records("memory", "loaded", rate, size=2**27, params={"delay_ns": delay})
    (figure,) = blocks(tmp_path, measured)
    assert isinstance(figure, Figure) and figure.picture.count("data-tip") >= 4
    rows = figure.tables[0].texts()[1:]
    assert [row[1:] for row in rows] == [
        ("0 B/s", "90 ns"), ("2 GB/s", "91 ns"), ("9 GB/s", "92 ns"), ("80 GB/s", "300 ns"),
    ]  # fmt: skip


def test_pairs_of_cpus_are_a_matrix_that_is_the_same_both_ways(tmp_path: Path) -> None:
    pairs = {"0,1": 12e-9, "0,2": 45e-9, "1,2": 46e-9}
    measured = [
        record
        for cpus, seconds in pairs.items()
        for record in latency("core_to_core", seconds, thread_cpus=cpus, relation="shared-cache")
    ]
    _, figure = blocks(tmp_path, measured)
    assert isinstance(figure, Figure) and figure.picture.count("data-tip") == 6
    assert [row[:2] for row in figure.tables[0].texts()[1:]] == [("1", "2"), ("0", "2"), ("0", "1")]


def test_ways_of_access_stand_beside_better_ones(tmp_path: Path) -> None:
    shared = {"relation": "same-socket", "increment": "atomic", "thread_cpus": "0,1"}
    (table,) = blocks(
        tmp_path,
        [
            *latency("sharing", 40e-9, lines="1", **shared),
            *latency("sharing", 5e-9, lines="2", **shared),
            *latency("align", 1.5e-9, load="aligned"),
            *latency("align", 3e-9, load="page-crossing"),
            *records("memory", "stride", 8e9, size=2**27, params={"access": "read", "stride": "8"}),
            *records("memory", "stride", 1e9, size=2**27, params={"access": "read", "stride": "64"}),
            *records("memory", "product", 3.29, metric="time", params={"loops": "ijk", "n": "1024"}),
            *records("memory", "product", 0.365, metric="time", params={"loops": "ikj", "n": "1024"}),
        ],
    )
    assert isinstance(table, Table)
    assert [(row[0], row[4]) for row in table.texts()[1:]] == [
        ("atomic counters on one line, two cores of a socket", "8"),
        ("load: page crossed", "2"),
        ("read words every 64 B", "8"),
        ("matrix product, down columns (ijk)", "9.01"),
    ]


def test_without_the_benchmark_or_by_its_former_name_there_is_nothing(tmp_path: Path) -> None:
    former = records("chase", "load", 1e-9, metric="latency", size=16384, params={"level": "L1"})
    with pytest.raises(NothingToShow, match="tag memory"):
        blocks(tmp_path, former)
