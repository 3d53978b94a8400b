"""`npc night history`: level, spread, time variance, shares and pictures of a history."""

from __future__ import annotations

import json
import math
import os
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from npc.cron.commands.history import _shares
from npc.cron.figures import _alike, _when, course, pictures, relative_by_node
from npc.cron.variation import variations
from npc.cron.verdict import SeriesVerdict
from npc.figures.axes import quantity_axis, time_axis
from npc.figures.nights import Course, NightPoint, traces
from npc.machine.fabric import parse
from npc.machine.platform import read_platform
from npc.records.history import History, HistoryRow
from npc.records.history_reading import record_of
from npc.records.nights import series_nights
from npc.records.record import Record
from npc.records.series import Series
from npc.records.verdicts import Verdict
from npc.roofline.ceilings import find_ceilings
from tests.made.history import KEY, a_record
from tests.paths import ROOT

NPC = Path(sys.executable).with_name("npc")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Thirty nights of fuchs-csc on two of six nodes; n3 is slow, and latency creeps up."""
    rng = np.random.default_rng(1)
    records = []
    for day in range(30):
        a, b = rng.permutation(6)[:2]
        for sample in range(4):
            hosts, noise = (f"n{a}", f"n{b}"), float(np.exp(0.01 * rng.standard_normal()))
            slow = 0.9 if 3 in (a, b) else 1.0
            common = {"platform": "fuchs-csc", "hosts": hosts}
            records.append(a_record(sample, day, case="rc_bw", value=6.2e9 * slow * noise, **common))
            late = 1e-6 * noise * float(np.exp(0.005 * day))
            records.append(
                a_record(sample, day, case="rc_lat", metric="latency", unit="s", value=late, **common)
            )
    History(tmp_path / "fuchs-csc").append(records)
    return tmp_path


def npc_history(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [NPC, "night", "history", "--platform", "fuchs-csc", "--history", folder, *words],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


@pytest.mark.slow
def test_says_on_a_terminal_what_it_does_and_clears_that_line(folder: Path) -> None:
    terminal, stderr = os.openpty()
    command = [NPC, "night", "history", "--platform", "fuchs-csc", "--history", folder]
    with os.fdopen(terminal, "rb", buffering=0) as shown:
        subprocess.run(command, stdout=subprocess.DEVNULL, stderr=stderr, check=True, timeout=120)
        os.close(stderr)
        said = shown.read(65536).decode()
    assert "series 2 of 2" in said and said.endswith("\r\x1b[K")
    assert npc_history(folder).stderr == ""


def nights_of(samples: Sequence[Sequence[float]]) -> list[HistoryRow]:
    return [
        HistoryRow(KEY, f"night{t:02d}", f"2026-01-{t + 1:02d}", value, "ok", ("n1", "n2"), False)
        for t, values in enumerate(samples)
        for value in values
    ]


def test_the_same_every_night_is_steady_and_a_trend_is_not() -> None:
    rng = np.random.default_rng(3)
    (steady,) = variations(nights_of(1 + 0.01 * rng.standard_normal((20, 5))))
    assert steady.time_variant is False
    assert steady.summary.n == 20 and steady.samples == 100
    creeping = 1 + 0.01 * rng.standard_normal((20, 1)) + 0.005 * np.arange(20)[:, None]
    (trend,) = variations(nights_of(creeping))
    assert (trend.time_variant, trend.between) == (True, None)
    assert trend.trend is not None and trend.trend < 1e-4
    assert trend.tau is not None and trend.tau > 0.5
    jumping = 1 + 0.01 * rng.standard_normal((20, 5)) + 0.03 * rng.standard_normal((20, 1))
    (jumps,) = variations(nights_of(jumping))
    assert jumps.between is not None and jumps.between < 1e-4 and jumps.time_variant


def test_kruskal_and_kendall_say_what_they_say_elsewhere() -> None:
    """Against both tests by hand: ranks without ties."""
    samples = [[2.9, 3.0], [2.5, 2.6], [3.2, 3.8], [2.7, 4.0], [2.4, 2.0]]
    (found,) = variations(nights_of(samples))
    ranks = {value: rank for rank, value in enumerate(sorted(v for night in samples for v in night), 1)}
    n = len(ranks)
    h = 12 / (n * (n + 1)) * sum(sum(ranks[v] for v in night) ** 2 / 2 for night in samples) - 3 * (n + 1)
    chi2 = np.exp(-h / 2) * (1 + h / 2)  # upper tail, four degrees of freedom
    assert found.between == pytest.approx(chi2, rel=1e-9)
    middles = [sum(night) / 2 for night in samples]
    pairs = [(i, j) for i in range(5) for j in range(i + 1, 5)]
    tau = sum(np.sign(middles[j] - middles[i]) for i, j in pairs) / len(pairs)
    assert found.tau == pytest.approx(tau)


def test_too_few_nights_or_equal_values_are_not_tested() -> None:
    (few,) = variations(nights_of([[1.0, 2.0]] * 4))
    (equal,) = variations(nights_of([[1.0, 1.0]] * 9))
    assert few.time_variant is None and equal.time_variant is None


def test_what_was_measured_again_is_no_part_of_the_level() -> None:
    nights = nights_of([[1.0], [1.0]])
    (found,) = variations([*nights, nights[1]._replace(value=9.0, remeasured=True)])
    assert found.mean == 1.0


def test_a_node_is_as_good_as_what_it_had_part_in() -> None:
    nights = nights_of([[1.0], [0.5], [1.0]])
    others = [("n3", "n4"), ("n5", "n6")]
    every = [night._replace(hosts=hosts, value=1.0) for night in nights for hosts in others] + nights
    found = relative_by_node(every)
    assert (found["n1", "night01"], found["n1", "night00"], found["n3", "night01"]) == (0.5, 1.0, 1.0)
    late = [row._replace(key=KEY._replace(metric="latency")) for row in every]
    assert relative_by_node(late)["n1", "night01"] == 2.0
    assert relative_by_node(nights) == {}, "who was measured alone in a night is compared with nobody"
    assert parse("leaf1: n[1-3]").order(["n3", "n1"]) == ["n1", "n3"]


@pytest.mark.slow
def test_the_tables_and_the_share_of_the_nominal_limit(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "160")  # a row is a line, but for its parameters
    done = npc_history(folder)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0].split()[:2] == ["series", "nights"]
    assert any("of the nominal 6.818 GB/s" in line for line in lines)
    assert lines[-1] == "Nodes allocated: qperf: 6 of 6 nodes."
    (latency,) = (line for line in lines if "rc_lat" in line)
    assert "varies" in latency and "τ +0." in latency
    told = json.loads(npc_history(folder, "qperf rc_bw", "--json").stdout)
    (series,) = told["series"]
    assert (series["case"], series["summary"]["n"], series["time_variant"]) == ("rc_bw", 30, True)
    assert told["nodes"] == [{"benchmark": "qperf", "seen": 6, "known": 6}]
    (share,) = told["shares"]
    assert share["share"] == pytest.approx(6.1e9 / 6.818e9, rel=0.02)


def test_shares_of_nominal_limits_are_those_of_all_rows_and_few_rows_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ceilings by the index: a best size, one measured once, two rails tried in every night, a program."""
    chance = random.Random(1)
    past = History(tmp_path / "fuchs-csc")
    sizes = ((65536, 5e9, 30), (4194304, 6.2e9, 30), (8388608, 6.7e9, 1))
    records = []
    for day in range(30):
        made = [("rc_bw", size, level, {"ranks": "2"}) for size, level, nights in sizes if day < nights]
        made += [
            ("ud_bw", 65536, 5e9 + 1e9 * (rail == "mlx5_1"), {"device": rail})
            for rail in ("mlx5_0", "mlx5_1")
        ]
        records += [
            a_record(sample, day, platform="fuchs-csc", case=case, size=size, params=params,
                     value=level * chance.gauss(1, 0.01), hosts=("n1", f"n{2 + sample}"))
            for case, size, level, params in made for sample in range(3)
        ]  # fmt: skip
        for metric, unit, value in (("flops", "FLOP/s", 1e10 + day), ("time", "s", 60.0)):
            records.append(
                a_record(day=day, platform="fuchs-csc", benchmark="himeno", case="himeno", metric=metric,
                         unit=unit, value=value, size=None, params={}, raw="himeno/out.log")
            )  # fmt: skip
    past.append(records)
    every = past.points()
    limits = read_platform(ROOT / "platforms/fuchs-csc/platform.toml")
    expected = [ceiling for ceiling in find_ceilings(records, limits).ceilings if ceiling.share is not None]
    read: list[str] = []

    def counted(path: Path, header: Sequence[str], cells: Sequence[str]) -> Record:
        record = record_of(path, header, cells)
        read.append(record.case)
        return record

    monkeypatch.setattr("npc.records.history.record_of", counted)
    ceilings, peaks = _shares(past, every, "fuchs-csc", set(every.keys))
    assert [(c.name, c.value, c.share) for c in ceilings] == [(c.name, c.value, c.share) for c in expected]
    assert [(peak.application.name, len(peak.application.runs)) for peak in peaks] == [("himeno", 30)]
    assert Counter(read)["rc_bw"] == 3 * len(sizes), "one night of each series"
    assert len(read) < len(records)


def test_nights_are_steps_and_what_is_missing_is_a_gap() -> None:
    day = 86400.0
    values = [1.0, 1.1, math.nan, 0.9, 0.9]
    nights = [NightPoint(t * day, value, value, value) for t, value in enumerate(values)]
    nights[-1] = nights[-1]._replace(verdict="DEGRADED", low=0.8)
    course = Course("2 nodes", nights, [(3 * day, "another level")])
    y = quantity_axis("", [0.5, 1.5], "", log=False)
    line, level, degraded, lost = (
        trace for trace, _ in traces([course, course], y) if trace.colour != "vermillion"
    )
    assert [[x / day for x, _ in piece] for piece in line.lines] == [
        [-0.5, 0.5, 0.5, 1.5],
        [2.5, 3.5, 3.5, 4.5],
    ]
    assert line.lines[-1][-1] == (4.5 * day, 0.9), "the last night has its median, too"
    assert len(line.bands) == 1 and level.lines[0][0][0] == 2.5 * day
    assert [mark.x for mark in degraded.marks] == [4 * day] * 2
    assert {mark.x for mark in lost.marks} == {2 * day} and y.low < lost.marks[0].y < 0.6


def test_every_series_of_a_benchmark_is_in_its_pictures_all_numbers_of_nodes_in_one_panel() -> None:
    himeno = Series("fuchs", "himeno", "himeno", "flops", None, 2, "{}")
    keys = [himeno._replace(nodes=nodes) for nodes in (8, 2, 4)]
    sizes = [KEY._replace(size=2**power) for power in range(30)]
    keys += [*sizes, *(key._replace(metric="latency", case="tcp_lat") for key in sizes)]
    found = {figure.name: figure.panels for figure in pictures(keys)}
    assert [len(panels) for panels in found.values()] == [1, 30, 30]
    assert list(found) == ["himeno", "qperf-tcp_bw-bandwidth", "qperf-tcp_lat-latency"]
    assert [key.nodes for key in found["himeno"][0]] == [2, 4, 8]
    assert {key for panels in found.values() for panel in panels for key in panel} == set(keys)


def test_another_level_begins_where_the_last_verdict_on_it_says() -> None:
    points = nights_of([[1.0]] * 4 + [[0.9]] * 5 + [[1.0]])
    moments = {point.run: float(t) for t, point in enumerate(points)}
    said = {5: "WATCH", 6: "CHANGED", 7: "MISSING", 8: "DEGRADED"}
    judged = {
        f"night{t:02d}": SeriesVerdict(
            key=KEY, verdict=Verdict[word], since={6: "night03", 8: "night04"}.get(t, "")
        )
        for t, word in said.items()
    }
    found = course(KEY, series_nights(points)[KEY], judged, moments)
    assert [begun for begun, _ in found.changes] == [4.0]
    assert [night.verdict for night in found.nights if night.verdict] == list(said.values())


def test_time_has_dates_and_months_where_there_is_room() -> None:
    day = 86400.0
    for days, label, most in ((3, "1970-01-01", 3), (400, "1970-01", 9), (4000, "1970-01", 9)):
        ticks = time_axis("", [0, days * day]).ticks
        assert ticks[0].label == label and 3 <= len(ticks) <= most + 1
        assert all(tick.value % day == 0 for tick in ticks)


def test_what_all_panels_share_stands_above_them_once() -> None:
    """A parameter, or the number of nodes where no panel has two."""
    small = KEY._replace(size=64, params='{"mpi": "mpich", "ranks": "2"}')
    large, other = small._replace(size=4096), small._replace(case="osu_bw", params='{"mpi": "mpich"}')
    assert _alike([[small], [large]]) == {"nodes": "2", "mpi": "mpich", "ranks": "2"}
    assert _alike([[small], [large], [other]]) == {"nodes": "2", "mpi": "mpich"}
    assert _alike([[small], [large, large._replace(nodes=4)]]) == {"mpi": "mpich"}
    assert _alike([[small]]) == {}, "its own title says it"
    assert _when(["2026-11-23T00:00", "2026-11-23T12:00"]) == "2 nights of 2026-11-23"
    assert _when(["2026-11-22T12:00", "2026-11-23T00:00"]) == "2 nights from 2026-11-22 to 2026-11-23"


@pytest.mark.slow
def test_the_pictures_are_drawn(folder: Path, tmp_path: Path) -> None:
    from matplotlib import image

    History(folder / "fuchs-csc").append(
        a_record(
            day=day, platform="fuchs-csc", benchmark="stream", case="triad", size=None, nodes=1, params={},
            hosts=(f"n{node}",), value=1e11 * (0.9 if node == 3 else 1.0) * (1 + day / 1000),
        )
        for day in range(30)
        for node in range(6)
    )  # fmt: skip
    done = npc_history(folder, "--figures", str(tmp_path / "figures"))
    assert done.returncode == 0, done.stderr
    drawn = sorted(path.name for path in (tmp_path / "figures").iterdir())
    assert drawn == ["allocation.png", "nodes.png", "qperf.png", "stream.png"]
    pixels = image.imread(tmp_path / "figures" / "nodes.png")[..., :3]
    red = (pixels[..., 0] - pixels[..., 2] > 0.2).mean()
    assert red > 0.05, "the slow node is not to be seen"
    pixels = image.imread(tmp_path / "figures" / "allocation.png")[..., :3]
    dark = (pixels.max(axis=2) < 0.4).mean()
    assert dark > 0.02, "the most frequent node is not to be seen"


@pytest.mark.slow
def test_mistakes_are_one_line_that_names_the_mend(folder: Path) -> None:
    nothing = npc_history(folder, "osu")
    assert (nothing.returncode, nothing.stderr.count("\n")) == (1, 1)
    assert "'osu'" in nothing.stderr and "npc night run" in nothing.stderr
    (folder / "fuchs-csc" / "2020-01.csv").write_text("a,b\n1,2\n")
    broken = npc_history(folder)
    assert broken.returncode == 1 and "2020-01.csv" in broken.stderr and "Traceback" not in broken.stderr
