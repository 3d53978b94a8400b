"""The catalogue: a row for every benchmark, and what rows say of tests, as the tools' manuals have it."""

from __future__ import annotations

import json

import pytest

from npc import catalogue
from npc.catalogue.benchmarks import BENCHMARKS
from npc.catalogue.row import Benchmark
from tests.paths import ROOT


def test_every_benchmark_has_a_row() -> None:
    folders = {path.parent.name for path in ROOT.glob("benchmarks/*/benchmark_spec.xml")}
    assert sorted(benchmark.name for benchmark in BENCHMARKS) == sorted(folders)


@pytest.mark.parametrize("benchmark", BENCHMARKS, ids=lambda benchmark: benchmark.name)
def test_every_row_of_a_captured_test_is_reached(benchmark: Benchmark) -> None:
    """Rows above do not hide rows below: each is the first that fits a test of its own name."""
    for row in benchmark.tests:
        name = row.case.replace("[cd]", "c").replace("*", "")
        if name:
            found = catalogue.find(benchmark.name, name, row.metric)
            assert found == row or "*" in row.case


def test_the_case_of_letters_does_not_matter_and_the_metric_does() -> None:
    assert catalogue.find("imb", "pingpong", "latency").timing == "half round trip"
    assert catalogue.find("imb", "PINGPONG", "bandwidth").counted == 1
    assert catalogue.find("imb", "PingPong", "message_rate").timing == ""


@pytest.mark.parametrize(
    ("benchmark", "case"), [("nosuch", "tcp_bw"), ("stream", "nosuch"), ("himeno", "himeno")]
)
def test_what_has_no_row_means_nothing(benchmark: str, case: str) -> None:
    row = catalogue.find(benchmark, case, "latency")
    assert (row.layer, row.timing, row.quantity, row.operation) == ("", "", "", "")


def test_tests_of_one_quantity_are_timed_alike_and_stand_on_one_layer() -> None:
    by_quantity: dict[str, set[tuple[str, str, bool]]] = {}
    for benchmark in BENCHMARKS:
        for row in benchmark.tests:
            if row.quantity:
                streamed = row.timing in ("stream", "interval between messages")
                timing = "stream" if streamed else row.timing
                by_quantity.setdefault(row.quantity, set()).add((row.layer, timing, row.both_ways))
    assert {quantity for quantity, said in by_quantity.items() if len(said) > 1} == set()


def test_what_a_captured_output_shows_of_the_network_has_a_layer() -> None:
    """No test of a network tool is without a row, or its bandwidth would never be held against a link."""
    of_network = {benchmark.name for benchmark in BENCHMARKS if catalogue.MESSAGES & layers(benchmark)}
    for tool in sorted(of_network - {"hpcc", "models"}):
        texts = json.loads((ROOT / "tests/data" / tool / "expected.json").read_text(encoding="utf-8"))
        cases = {reading[0] for readings in texts.values() for reading in readings}
        assert {case for case in cases if not catalogue.find(tool, case).layer} == set()


def layers(benchmark: Benchmark) -> set[str]:
    return {row.layer for row in benchmark.tests}


@pytest.mark.parametrize(
    ("benchmark", "case", "metric", "params", "sender"),
    [
        ("qperf", "tcp_bw", "bandwidth", {}, "client"),
        ("qperf", "rc_rdma_read_bw", "bandwidth", {}, "server"),
        ("qperf", "tcp_lat", "latency", {}, ""),
        ("perftest", "ib_read_bw", "message_rate", {}, "server"),
        ("perftest", "ib_write_bw", "bandwidth", {"direction": "bidir"}, ""),
        ("iperf3", "tcp", "bandwidth", {"direction": "reverse"}, "server"),
        ("qperf", "rc_rdma_read_bw", "bandwidth", {"direction": "reverse"}, "client"),
        ("iperf3", "tcp", "bandwidth", {"direction": "bidir_forward"}, "client"),
        ("osu", "osu_bw", "bandwidth", {}, ""),
        ("pairs", "tcp_bw", "bandwidth", {}, "client"),
        ("nosuch", "mine", "bandwidth", {}, ""),
    ],
)
def test_which_end_sends(benchmark: str, case: str, metric: str, params: dict[str, str], sender: str) -> None:
    assert catalogue.sender(benchmark, case, metric, params) == sender
