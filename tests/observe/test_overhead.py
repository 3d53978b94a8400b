"""What watching took: as estimated, as measured, and where it is told."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

from npc.observe.check_observer import measured, table
from npc.observe.overhead import read_budget
from npc.parsers.observed import parse, watching
from npc.records.overhead import MeasuredOverhead, Overhead, percent
from npc.records.reading import Reading
from npc.records.record import Record, read_csv
from npc.records.series import Series
from tests.lab.mpis import MPIS
from tests.lab.npb_job import MPI_ENVIRONMENT
from tests.lab.uprobes import may_lack_uprobes, needs_uprobes
from tests.paths import ROOT

PROGRAMS = ROOT / "tests/observe/programs"


@pytest.mark.parametrize(
    ("text", "share"), [("2%", 0.02), ("0.5 %", 0.005), (" 100% ", 1.0), ("none", None), ("NONE", None)]
)
def test_a_budget_is_a_part_of_the_run_time(text: str, share: float | None) -> None:
    assert read_budget(text) == share


@pytest.mark.parametrize("text", ["", "2", "%", "0%", "-1%", "101%", "two%", "nan%", "inf%", "no"])
def test_other_budgets_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="expected a part of the run time, such as 2%, or none"):
        read_budget(text)


def test_every_figure_of_the_table_follows_from_its_rows() -> None:
    rows = [(2.0, 2.02), (1.0, 1.05), (4.0, 4.0), (1.0, 1.03), (2.0, 2.02), (5.0, 5.1), (1.0, 1.04)]
    found = measured(rows)
    assert found.median == pytest.approx(0.02)
    assert (found.low, found.high) == (pytest.approx(0.0), pytest.approx(0.05))
    # of the range whenever one stops looking, which is that of six
    assert found.coverage == pytest.approx(1 - 2**-5)
    head, *lines, last = table(found)
    assert head.split() == ["pair", "without", "with", "difference", "with", "/", "without"]
    for (without, with_it), line in zip(rows, lines, strict=True):
        cells = line.replace(" s", "").split()
        assert [float(cell) for cell in cells[1:3]] == [without, with_it]
        assert float(cells[3]) == pytest.approx(float(cells[2]) - float(cells[1]), abs=1e-4)
        assert float(cells[4]) == pytest.approx(float(cells[2]) / float(cells[1]), abs=1e-4)
    assert last == (
        "median of the ratios 1.0200, 96.9 % interval 1.0000 to 1.0500: "
        "no difference shown, and none above 5 %"
    )


def test_too_few_pairs_have_no_interval() -> None:
    found = measured([(1.0, 1.1)] * 5)
    assert (found.low, found.high, found.coverage) == (None, None, None)
    assert "too few pairs for an interval: 6 at least" in list(table(found))[-1]


def test_what_is_slower_and_what_is_faster_is_said() -> None:
    assert "watching makes it slower, by 4 % at least" in list(table(measured([(1.0, 1.04)] * 6)))[-1]
    assert "something else differs" in list(table(measured([(1.0, 0.9)] * 6)))[-1]


def test_the_interval_has_the_true_ratio_as_often_as_it_says() -> None:
    """Run times that drift, with stalls now and then and noise that is anything but normal."""
    lot = random.Random(332)
    true, covered, studies = 1.013, 0, 400
    for _ in range(studies):
        rows, machine = [], 1.0
        for _ in range(8):
            machine *= lot.uniform(0.97, 1.03)
            seconds = [machine * (1 + lot.expovariate(1 / 0.01)) for _ in range(2)]
            if lot.random() < 0.1:
                seconds[lot.randrange(2)] *= lot.uniform(1, 3)
            rows.append((seconds[0], true * seconds[1]))
        found = measured(rows)
        assert found.low is not None
        assert found.high is not None
        covered += found.low <= true - 1 <= found.high
    assert covered / studies >= 0.97  # 99.2 % of eight pairs' whole range, less what 400 studies vary by


def test_the_terminal_says_what_it_took() -> None:
    found = Overhead(estimated={"mpi": 0.0004, "probes": 0.011}, budget=0.02)
    assert found.words == (
        "watching took about 1.1 % of the run time, as estimated (mpi 0.04 %, probes 1.1 %); "
        "probes may take 2 % (--overhead)"
    )
    assert percent(1e-7) == "less than 0.001 %"


def observation(**more: object) -> str:
    found = {"schema": 3, "reported": {}, "nodes": [], "messages": None, "ranks": 1, **more}
    return json.dumps(found)


def test_every_record_of_the_run_knows_it_and_no_series_is_another_by_it() -> None:
    checked = MeasuredOverhead(median=0.012, low=0.001, high=0.02, coverage=0.97, pairs=6)
    for text, expected in (
        (observation(), {}),
        (observation(overhead=None), {}),
        (observation(overhead={"estimated": {"mpi": 0.001, "hotspots": 0.002}}), {"overhead": "0.003"}),
        (
            observation(overhead={"estimated": {"mpi": 0.001}, "measured": _plain(checked)}),
            {"overhead": "0.001", "overhead_measured": "0.012"},
        ),
        ("not json", {}),
        ("[]", {}),
    ):
        assert watching(text) == expected
    readings = [each for each in parse(text_of(checked)) if each.metric == "overhead"]
    assert [(each.value, each.params) for each in readings] == [
        (0.001, {"kind": "estimated", "part": "mpi"}),
        (0.012, {"kind": "measured"}),
    ]
    series = {Series.of(_record({"program": "app", "overhead": share})) for share in ("0.001", "0.2")}
    assert len(series) == 1


def text_of(checked: MeasuredOverhead) -> str:
    return observation(overhead={"estimated": {"mpi": 0.001}, "measured": _plain(checked)})


def _plain(checked: MeasuredOverhead) -> dict[str, object]:
    return {name: getattr(checked, name) for name in ("median", "low", "high", "coverage", "pairs")}


def _record(params: dict[str, str]) -> Record:
    reading = Reading("observed", "time", 1.0, params=params)
    where = {"platform": "localhost", "benchmark": "observed", "run": "r", "raw": "raw/0000.observed.json"}
    return Record.of(reading, time="2026-11-23T11:00:00+00:00", **where)


def npc_observe(folder: Path, *words: str | Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, **MPI_ENVIRONMENT}
    command = [sys.executable, "-m", "npc", "observe", "--output", folder, "--background", "0", *words]
    return subprocess.run(command, capture_output=True, text=True, env=environment, cwd=ROOT, check=False)


@pytest.mark.slow
@needs_uprobes
@may_lack_uprobes
@pytest.mark.measures
def test_runs_with_and_without_are_compared_and_kept(tmp_path: Path) -> None:
    program = tmp_path / "called"
    subprocess.run(["gcc", "-O1", PROGRAMS / "called.c", "-o", program], check=True)
    words = ("--no-profile", "--no-mpi", "--probe", "function:called", "--overhead", "none")
    folder = tmp_path / "observed"
    said = npc_observe(folder, *words, "--check-observer", "1", "--", program, "20000", "500")
    assert said.returncode == 0, said.stderr
    assert "2 more runs, half of them without watching" in said.stderr
    kept = json.loads((folder / "raw/0000.observed.json").read_text())["overhead"]
    assert kept["budget"] is None
    assert kept["measured"]["pairs"] == 1
    # 20 000 calls of 13 µs beside 20 ms of work
    assert all(with_it > 2 * without for without, with_it in kept["measured"]["seconds"])
    assert kept["measured"]["median"] > 1
    (node,) = json.loads((folder / "raw/0000.observed.json").read_text())["probes"]["nodes"]
    assert sum(row["events"] for row in map(as_row, node["rows"])) == 20000
    rank = json.loads(next((folder / "raw/0000.ranks").glob("*.json")).read_text())
    lasted = rank["end"]["time"] - rank["begin"]["time"]
    assert kept["estimated"]["probes"] == pytest.approx(node["cost"] / lasted)
    records = list(read_csv(folder / "records.csv"))
    assert {record.params["overhead"] for record in records} == {f"{kept['estimated']['probes']:.2g}"}
    assert {record.params["overhead_measured"] for record in records} == {f"{kept['measured']['median']:.2g}"}
    assert [path.name for path in (folder / "raw").glob("*.ranks")] == ["0000.ranks"]


def as_row(row: object) -> dict[str, int]:
    if isinstance(row, dict):
        return row
    assert isinstance(row, list)
    return {"events": row[2]}


@pytest.mark.slow
def test_a_run_of_the_check_that_fails_ends_it(tmp_path: Path) -> None:
    program = tmp_path / "third.sh"
    program.write_text(
        f"#!/bin/sh\necho x >> {tmp_path}/times\n[ $(wc -l < {tmp_path}/times) -lt 3 ] || exit 5\n"
    )
    program.chmod(0o755)
    said = npc_observe(tmp_path / "observed", "--no-profile", "--check-observer", "--", program)
    assert said.returncode == 5
    assert "--check-observer: run 1 of the check ended with exit code 5" in said.stderr
    assert "kept in" in said.stderr


@pytest.mark.slow
@pytest.mark.measures
def test_the_estimate_of_the_profile_is_calls_times_what_one_costs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mpi = MPIS["openmpi"]
    program = tmp_path / "many"
    subprocess.run([mpi.compiler, "-O1", "-w", PROGRAMS / "many.c", "-o", program, "-lm"], check=True)
    folder = tmp_path / "observed"
    said = npc_observe(folder, "--", mpi.launcher, "-n", "2", "--oversubscribe", program)
    assert said.returncode == 0, said.stderr
    document = json.loads((folder / "raw/0000.observed.json").read_text())
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "npc/costs"
    costs = [json.loads(path.read_text())["seconds"]["call"] for path in cache.glob("*/mpi.json")]
    shares = [
        [sum(calls for calls, _, _ in rank["calls"].values()) * cost / rank["seconds"] for cost in costs]
        for rank in document["profile"]["ranks"]
    ]
    estimated = document["overhead"]["estimated"]["mpi"]
    assert any(max(each) == pytest.approx(estimated, rel=1e-3) for each in zip(*shares, strict=True))
    assert all(2e-8 < cost < 1e-6 for cost in costs)
