"""JUBE's tables of results against the records that ``npc records collect`` makes of the same run."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

import pytest

from npc.records.record import Record, read_csv, replace
from npc.records.units import parse_size
from tests.lab.jube_job import NPC, finish, results
from tests.lab.jube_patterns import UNITS, meaning_of
from tests.paths import ROOT


class Column(NamedTuple):
    table: str
    filter: str | None
    title: str
    name: str


def columns_alone(benchmark: str) -> list[Column]:
    tree = ET.parse(ROOT / "benchmarks" / benchmark / "benchmark.xml")
    return [
        Column(table.attrib["name"], table.get("filter"), column.attrib["title"], (column.text or "").strip())
        for table in tree.iter("table")
        for column in table
    ]


def collect(outpath: Path) -> list[Record]:
    ended = finish(NPC, "records", "collect", outpath)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    records = list(read_csv(outpath / "000000/records.csv"))
    assert_npb_wrote_the_same(outpath / "000000", records)
    return records


def assert_npb_wrote_the_same(run: Path, records: list[Record]) -> None:
    """Where npb made a job's launches, its own records are those that were collected; npb does not know the
    platform's name and the run's."""
    for file in run.glob("*/work/*/records.csv"):
        folder = file.parent.relative_to(run).as_posix()
        of_job = [record for record in records if record.raw.startswith(f"{folder}/")]
        platform = of_job[0].platform
        assert of_job == [
            replace(record, platform=platform, run=run.name, raw=f"{folder}/{record.raw}")
            for record in read_csv(file)
        ]


STATISTICS: Mapping[str, Callable[[list[float]], float]] = {
    "_max": max,
    "_min": min,
    "_avg": lambda values: sum(values) / len(values),
}


def numbers_of_records(records: list[Record], pattern: str, unit: str) -> list[float]:
    """What a pattern should have found, from the records."""
    meaning = meaning_of(pattern, unit)
    found = [
        record
        for record in records
        if meaning.of(record)
        and record.ok
        and not (pattern.startswith("iperf3_") and record.params.get("side") == "send")
    ]
    # one row of each table: the first of a latency, the last of a bandwidth
    if pattern.startswith(("osu_", "models_", "perftest_")):
        end = max if meaning.metric == "bandwidth" else min
        size = end((record.size or 0 for record in found), default=0)
        found = [record for record in found if (record.size or 0) == size]
    return [record.value for record in found if record.value is not None]


def assert_same_numbers(benchmark: str, outpath: Path, records: list[Record]) -> int:
    """Compare every cell with a measured number; how many there were."""
    spec = ET.parse(ROOT / "benchmarks" / benchmark / "benchmark_spec.xml")
    patterns = {element.attrib["name"]: element for element in spec.iter("pattern")}
    tables, compared = results(outpath), 0
    of_benchmark = [record for record in records if record.benchmark == benchmark]
    for column in columns_alone(benchmark):
        shown = patterns.get(column.name)
        if shown is None:
            continue
        taken = re.search(r"\$(\w+)(_max|_min|_avg)", shown.text or "")
        assert taken and shown.attrib["unit"].replace("percent", "%") in column.title
        pattern, part = taken.groups()
        rows = tables.get(column.table, [])  # the tags leave out a table, or its kind of job
        assert len(rows) <= 1
        if not rows:
            continue
        # a test that several jobs make has other sizes in each, and a table is one job's
        sizes = {parse_size(size) for size in rows[0].get("sizes", "").split()}
        of_job = [record for record in of_benchmark if not sizes or record.size in sizes]
        values = numbers_of_records(of_job, pattern, patterns[pattern].attrib["unit"])
        cell = rows[0][column.title]
        assert bool(cell) == bool(values), f"{column}: {cell!r}, {values}"
        if values:
            expected = STATISTICS[part](values) / UNITS[shown.attrib["unit"]]
            assert float(cell) == pytest.approx(expected, rel=1e-3, abs=1e-9), column
            compared += 1
    return compared
