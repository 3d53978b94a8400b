"""Measured collectives against their predictions: of formulas with noise the right algorithm is named."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from npc import parsers
from npc.records.record import Record, replace, save_csv
from npc.report.command import report
from npc.roofline.fit_commands import fit
from npc.roofline.fits import Fits, fit_series
from npc.roofline.models.collectives import OPERATIONS
from npc.roofline.sweeps import SweepSource, SweepTimes, find_series
from tests.lab.npb_job import environment_of_test, mpirun
from tests.made.sweeps import of_output, run, saved
from tests.paths import ROOT

SCRIPT = ROOT / "benchmarks/osu/osu.py"
ALPHA, BETA = 2e-6, 1e-9
SIZES = [2**power for power in range(21)]
PING_PONG = SweepSource("fuchs", "osu", "osu_latency", 2, ("a", "b"), '{"mpi": "openmpi", "ranks": "2"}')
NOISE = 0.02


def noisy(time: Callable[[int], float], rng: np.random.Generator) -> Mapping[int, Mapping[str, float]]:
    """Six launches."""
    return {
        size: {str(launch): time(size) * (1 + NOISE * rng.standard_normal()) for launch in range(6)}
        for size in SIZES
    }


def by_formula(operation: str, algorithm: str, processes: int, size: int) -> float:
    rounds = OPERATIONS[operation][algorithm](processes, size)
    return sum(each.messages * (ALPHA + BETA * each.size) for each in rounds)


def ping_pong(source: SweepSource = PING_PONG) -> SweepTimes:
    return SweepTimes(
        source, "half round trip", noisy(lambda size: ALPHA + BETA * size, np.random.default_rng(1)), ()
    )


def collective(
    operation: str, time: Callable[[int], float], processes: int = 8, seed: int = 2, **place: object
) -> SweepTimes:
    params = json.dumps({"mpi": "openmpi", "ranks": str(processes)})
    source = PING_PONG._replace(case=f"osu_{operation}", params=params)._replace(**place)
    return SweepTimes(source, "collective", noisy(time, np.random.default_rng(seed)), ())


def compared(*series: SweepTimes) -> Fits:
    return fit_series([ping_pong(), *series])


@pytest.mark.parametrize("processes", [6, 8])
@pytest.mark.parametrize(
    ("operation", "algorithm"),
    [
        (operation, algorithm)
        for operation in ("bcast", "allreduce", "alltoall")
        for algorithm in OPERATIONS[operation]
    ],
)
def test_the_algorithm_of_known_times_is_named(operation: str, algorithm: str, processes: int) -> None:
    measured = collective(
        operation, lambda size: by_formula(operation, algorithm, processes, size), processes
    )
    (agreement,) = compared(measured).collectives
    assert (agreement.operation, agreement.processes) == (operation, processes)
    assert (agreement.first, agreement.last, agreement.sizes) == (1, 2**20, 21)
    assert algorithm in (agreement.nearest, *agreement.tied)
    others = [each for each in agreement.algorithms if each.name not in (agreement.nearest, *agreement.tied)]
    assert len(others) + len(agreement.tied) + 1 == len(OPERATIONS[operation])
    (nearest,) = (each for each in agreement.algorithms if each.name == algorithm)
    assert nearest.error < 2 * NOISE and abs(nearest.ratio - 1) < 2 * NOISE
    assert nearest.inside >= 18, "of 21 at 90 %"
    assert all(each.error > 2 * nearest.error for each in others)


def test_another_algorithm_for_large_messages_is_found_with_its_switch() -> None:
    def time(size: int) -> float:
        return by_formula("allreduce", "recursive doubling" if size <= 4096 else "ring", 8, size)

    # the ring's formula lies above recursive doubling's at 4 KiB and below it at 64 KiB
    small, large = compared(collective("allreduce", time)).collectives
    assert (small.nearest, small.tied, small.last) == ("recursive doubling", (), 4096)
    assert (large.nearest, large.tied, large.first) == ("ring", (), 8192)
    assert {each.name: each.error < 0.05 for each in large.algorithms} == {
        "recursive doubling": False, "ring": True, "Rabenseifner": False,
    }  # fmt: skip


def test_noise_alone_parts_few_sweeps() -> None:
    def time(size: int) -> float:
        return by_formula("bcast", "binomial", 8, size)

    found = [compared(collective("bcast", time, seed=seed)).collectives for seed in range(20)]
    assert sum(len(ranges) > 1 for ranges in found) <= 2


def test_a_time_that_no_formula_has_is_outside_of_the_intervals() -> None:
    (agreement,) = compared(
        collective("bcast", lambda size: 5 * by_formula("bcast", "binomial", 8, size))
    ).collectives
    binomial = agreement.algorithms[0]
    assert binomial.inside == 0 and binomial.ratio == pytest.approx(5, rel=0.03)
    assert binomial.error == pytest.approx(4, rel=0.03)


def test_two_processes_do_not_tell_what_sends_the_same() -> None:
    (agreement,) = compared(
        collective("alltoall", lambda size: by_formula("alltoall", "Bruck", 2, size), 2)
    ).collectives
    assert (agreement.nearest, agreement.tied) == ("pairwise", ("Bruck",))


def test_sizes_that_need_far_larger_messages_than_were_fitted_are_left_out() -> None:
    """Bruck's messages are of 16 blocks with 32 processes."""
    (agreement,) = compared(
        collective("alltoall", lambda size: by_formula("alltoall", "pairwise", 32, size), 32)
    ).collectives
    assert agreement.last == 2**18


def test_messages_that_would_take_no_time_predict_nothing() -> None:
    """Where a line through zero fits best the start of a message is not known, and so no barrier."""
    steep = noisy(lambda size: 1e-9 * size**1.05, np.random.default_rng(1))
    barrier = SweepTimes(
        PING_PONG._replace(case="osu_barrier", params='{"ranks": "8"}'), "collective", {0: {"0": 1e-5}}, ()
    )
    found = fit_series([SweepTimes(PING_PONG, "half round trip", steep, ()), barrier])
    assert not found.collectives
    assert "say nothing about messages of its sizes" in found.skipped["osu_barrier"]


@pytest.mark.parametrize(
    ("place", "reason"),
    [
        ({"platform": "elsewhere"}, "no ping-pong of MPI beside it"),
        ({"nodes": 1}, "no ping-pong of MPI beside it"),
        ({"params": '{"mpi": "mpich", "ranks": "8"}'}, "no ping-pong of MPI beside it"),
        ({"params": '{"mpi": "openmpi"}'}, "its number of processes is not known"),
        ({"params": '{"mpi": "openmpi", "ranks": "1"}'}, "a single process"),
    ],
)
def test_what_cannot_be_predicted_is_said(place: dict[str, object], reason: str) -> None:
    found = compared(collective("bcast", lambda size: 1e-6 * size, **place))
    assert not found.collectives
    assert reason in found.skipped["osu_bcast"]


def test_the_ping_pong_of_the_same_benchmark_and_hosts_is_taken() -> None:
    others = [
        PING_PONG._replace(benchmark="models", case="prtt", params='{"ranks": "2"}'),
        PING_PONG._replace(hosts=("c", "d")),
        PING_PONG._replace(benchmark="qperf", case="tcp_lat"),
    ]
    found = fit_series(
        [
            *map(ping_pong, others),
            ping_pong(),
            collective("bcast", lambda size: 1e-6 * size, hosts=("b", "a")),
        ]
    )
    assert found.collectives[0].predicted_from == PING_PONG


def test_collectives_are_found_in_a_capture() -> None:
    records = of_output("imb", "three.txt")
    kinds = {(series.source.case, series.kind) for series in find_series(records)}
    assert kinds == {("PingPong", "half round trip"), ("Allreduce", "collective")}


def test_the_table_and_the_document_of_a_captured_run(tmp_path: Path) -> None:
    """IMB under two ranks: PingPong, Allreduce and Barrier."""
    records = [record for name in ("three.txt", "Barrier.txt") for record in of_output("imb", name)]
    result = run(fit, saved(tmp_path, records), "--output", tmp_path / "fit.json")
    assert result.exit_code == 0
    allreduce, barrier = json.loads((tmp_path / "fit.json").read_text())["collectives"]
    assert (allreduce["operation"], allreduce["processes"], allreduce["first"]) == ("allreduce", 2, 4)
    assert allreduce["predicted_from"]["name"] == "imb PingPong"
    assert [each["name"] for each in allreduce["algorithms"]] == list(OPERATIONS["allreduce"])
    assert (barrier["nearest"], barrier["sizes"], barrier["last"]) == ("dissemination", 1, 0)
    lines = [" ".join(line.split()) for line in result.stdout.splitlines()]
    doubling = allreduce["algorithms"][0]
    assert any(
        line.startswith("imb Allreduce")
        and f" {doubling['ratio']:.3g} {doubling['inside']} of {allreduce['sizes']}" in line
        for line in lines
    )
    assert re.search(r" ring [\d.% ]+of \d+ nearest ", " ".join(lines))
    assert any("The arithmetic of all-reduce is not in it" in line for line in lines)


def ran(algorithm: str, **changes: Any) -> Record:
    """What npc observe saw: that all-reduces of two ranks up to 64 KiB ran by an algorithm."""
    params = {"layer": "mpi algorithms", "kind": "allreduce", "communicator": "2", "largest_size": "65535"}
    place = of_output("imb", "three.txt")[0]
    seen = {"case": "observed", "metric": "messages", "unit": "1", "value": 100.0, "size": 4}
    params |= {"algorithm": algorithm, "ranks": "2"}
    return replace(place, **{**seen, "params": params, **changes})


def test_the_algorithm_that_ran_by_its_messages_stands_beside_the_nearest_by_time(tmp_path: Path) -> None:
    """By its times a ring is nearest."""
    records = of_output("imb", "three.txt")
    result = run(fit, saved(tmp_path, [*records, ran("recursive doubling")]), "--json")
    (agreement,) = json.loads(result.stdout)["collectives"]
    assert (agreement["nearest"], agreement["ran"]) == ("ring", ["recursive doubling"])
    text = " ".join(run(fit, tmp_path).stdout.split())
    assert "0 of 15 ran by its" in text  # and "messages" in the next line of the cell
    assert "ran recursive doubling of 4 B … 64 KiB; its times lie nearest to ring." in text


def test_messages_that_agree_with_the_times_are_not_contradicted(tmp_path: Path) -> None:
    records = of_output("imb", "three.txt")
    stdout = run(fit, saved(tmp_path, [*records, ran("ring or Rabenseifner")])).stdout
    assert "nearest, ran by its messages" in " ".join(stdout.split())
    assert "By its messages" not in stdout


@pytest.mark.parametrize(
    "changes", [{"platform": "elsewhere"}, {"nodes": 2}, {"size": 1 << 20}, {"status": "failed: no"}]
)
def test_messages_of_other_nodes_or_sizes_say_nothing(tmp_path: Path, changes: dict[str, Any]) -> None:
    records = [*of_output("imb", "three.txt"), ran("recursive doubling", **changes)]
    result = run(fit, saved(tmp_path, records), "--json")
    assert all(each["ran"] == [] for each in json.loads(result.stdout)["collectives"])


def test_the_report_shows_them(tmp_path: Path) -> None:
    saved(tmp_path, of_output("imb", "three.txt"))
    assert run(report, tmp_path).exit_code == 0
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "recursive doubling" in page and "ties with it" in page


@pytest.mark.measures
@pytest.mark.slow
def test_a_real_run_is_compared(tmp_path: Path) -> None:
    """Two ranks of this machine: every collective has its prediction, right to a small factor."""
    records = []
    for test in ("latency", "allreduce", "bcast", "alltoall", "barrier"):
        command = [mpirun(), "-n", "2", sys.executable, str(SCRIPT), test, "--max-size", "16384"]
        ended = subprocess.run(
            command, capture_output=True, text=True, check=True, timeout=60, env=environment_of_test({})
        )
        records += [
            Record.of(
                reading, time="2026-11-22T03:00:00Z", platform="here", benchmark="osu", params={"ranks": "2"}
            )
            for reading in parsers.parse("osu", ended.stdout, ["osu.py", test])
        ]
    save_csv(records, tmp_path / "records.csv")
    result = run(fit, tmp_path / "records.csv", "--json")
    found = json.loads(result.stdout)["collectives"]
    assert {each["operation"] for each in found} == {"allreduce", "bcast", "alltoall", "barrier"}
    for each in found:
        nearest = next(one for one in each["algorithms"] if one["name"] == each["nearest"])
        assert 1 / 20 < nearest["ratio"] < 20, each
