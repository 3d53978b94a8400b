"""``npc model sweep``: which lines the comparison has, and what it says of them."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from npc.records.record import Record, replace, save_csv
from npc.roofline.comparison import axes_of, by_network, describe, find_sweeps, format_sweeps
from tests.lab.in_process import npc
from tests.made.measured import AROUND, records

SIZES = (1, 1024, 1048576)


def swept(
    benchmark: str, case: str, mpi: str, metric: str = "bandwidth", **fields: object
) -> Iterator[Record]:
    params = {"mpi": mpi, "ranks": "2"} if mpi else {}
    for size in SIZES:
        yield from records(benchmark, case, float(size), metric=metric, size=size, params=params, **fields)


def run(path: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return npc("model", "sweep", path, *words)


def test_programs_whose_tests_have_one_name_are_lines_of_their_own() -> None:
    lines = [
        replace(record, params={**record.params, "program": program})
        for program in ("IMB-MPI1", "IMB-P2P")
        for record in swept("imb", "PingPong", "mpich")
    ]
    assert len(find_sweeps(lines)) == 2


def test_a_line_for_each_tool_test_and_mpi() -> None:
    found = find_sweeps(
        [
            *swept("osu", "osu_bw", "openmpi"),
            *swept("osu", "osu_bw", "mpich"),
            *swept("imb", "PingPong", "impi", "latency"),
            *swept("qperf", "tcp_bw", ""),
        ]
    )
    assert [(sweep.name, sweep.metric) for sweep in found] == [
        ("osu_bw · mpich", "bandwidth"),
        ("osu_bw · openmpi", "bandwidth"),
        ("qperf tcp_bw", "bandwidth"),
        ("imb PingPong · impi", "latency"),
    ]
    for sweep in found:
        assert list(sweep.points) == list(SIZES)
        for size, summary in sweep.points.items():
            assert summary.n == len(AROUND)
            assert (summary.median, summary.low, summary.high) == pytest.approx(
                (size * 1.0, size * 0.9, size * 1.1)
            )


def test_what_is_unusable_or_no_headline_or_of_one_size_makes_no_line() -> None:
    bad = [replace(record, status="invalid: loaded") for record in swept("osu", "osu_bw", "openmpi")]
    least = [replace(record, params={"statistic": "min"}) for record in swept("imb", "PingPong", "impi")]
    assert find_sweeps([*bad, *least, *records("osu", "osu_bw", 1.0, size=8)]) == []


def test_collectives_only_on_request() -> None:
    collective = list(swept("osu", "osu_allreduce", "openmpi", "latency"))
    assert find_sweeps(collective) == []
    for pattern in ("osu_allreduce", "osu/*"):
        assert [sweep.name for sweep in find_sweeps(collective, [pattern])] == ["osu_allreduce · openmpi"]


def test_qualifiers_and_numbers_of_nodes_are_lines_of_their_own() -> None:
    found = find_sweeps(
        [
            *swept("osu", "osu_bw", "openmpi", nodes=1),
            *swept("osu", "osu_bw", "openmpi", nodes=2),
            *(replace(r, params={"streams": "4"}) for r in swept("iperf3", "tcp", "")),
        ]
    )
    assert [sweep.name for sweep in found] == [
        "iperf3 tcp, streams 4", "osu_bw, 1 nodes · openmpi", "osu_bw, 2 nodes · openmpi",
    ]  # fmt: skip


def over(network: str, sweeps: Iterator[Record], launches: int = len(AROUND)) -> Iterator[Record]:
    """The first launches of each size, with the interface that npb saw."""
    for record in sweeps:
        if record.sample < launches:
            yield replace(record, params={**record.params, "interface": network})


def test_networks_are_lines_and_panels_of_their_own_where_several_are_named() -> None:
    mpi = list(swept("osu", "osu_bw", "openmpi"))
    ethernet = list(over("eth0", swept("qperf", "tcp_bw", "")))
    panels = by_network(find_sweeps([*mpi, *ethernet]))
    assert {panel: len(lines) for panel, lines in panels.items()} == {"": 2}, "to be compared"
    panels = by_network(find_sweeps([*mpi, *ethernet, *over("ib0", swept("qperf", "tcp_bw", ""))]))
    assert {panel: [line.name for line in lines] for panel, lines in panels.items()} == {
        "over eth0": ["qperf tcp_bw"],
        "over ib0": ["qperf tcp_bw"],
        "over a network that is not recorded": ["osu_bw · openmpi"],
    }
    told = [replace(record, params={**record.params, "network": "ib0"}) for record in mpi]
    assert [line.name for line in by_network(find_sweeps([*told, *ethernet]))["over ib0"]] == [
        "osu_bw · openmpi"
    ]


def test_fewer_than_six_launches_have_a_band_of_their_range_and_say_so() -> None:
    (sweep,) = find_sweeps(over("eth0", swept("qperf", "tcp_bw", ""), 3))
    values = [size * value for size in SIZES for value in AROUND[:3]]
    assert sweep.points[1].low is None
    assert sweep.edges(1) == pytest.approx((min(values[:3]), max(values[:3])))
    (trace,) = describe([sweep], "bandwidth", "", "", axes_of([sweep])).traces
    assert not trace.lines and not trace.interval  # three sizes are no sweep to draw: marks with whiskers
    assert None not in [mark.low for mark in trace.marks] and ", range" in trace.marks[0].tip
    assert all(word in format_sweeps([sweep]) for word in ("range", "1 MiB  3"))


@pytest.mark.slow
def test_the_command_prints_the_table_and_draws(tmp_path: Path) -> None:
    save_csv([*swept("osu", "osu_bw", "openmpi"), *swept("osu", "osu_bw", "impi")], tmp_path / "records.csv")
    ended = run(tmp_path)
    assert ended.returncode == 0, ended.stderr
    row = "osu_bw · openmpi bandwidth 1 B–1 MiB 1.05 MB/s [0.944, 1.15] 1 MiB 7"
    assert row in re.sub(" +", " ", ended.stdout)
    assert (tmp_path / "sweep.png").read_bytes().startswith(b"\x89PNG")
    drawn = (tmp_path / "sweep.svg").read_text()
    assert "osu_bw · openmpi" in drawn and "Message size" in drawn
    document = json.loads(run(tmp_path, "--json", "--output", str(tmp_path / "other")).stdout)
    assert (document["schema"], document["sweeps"][0]["unit"]) == (1, "B/s")
    (point,) = (each for each in document["sweeps"][0]["points"] if each["size"] == 1024)
    assert (point["n"], point["median"]) == (7, 1024.0)


def test_nothing_to_compare_is_one_and_no_records_two(tmp_path: Path) -> None:
    save_csv(list(records("osu", "osu_bw", 1.0, size=8)), tmp_path / "records.csv")
    ended = run(tmp_path)
    assert ended.returncode == 1 and "two message sizes" in ended.stderr and not ended.stdout
    assert "osu_lat* (--case)" in run(tmp_path, "--case", "osu_lat*").stderr
    ended = run(tmp_path / "nowhere")
    assert ended.returncode == 2 and "Traceback" not in ended.stderr
