"""The MPI roofline, jobs of several nodes, one message size, and overlays: numbers worked out by hand."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from PIL import Image

from npc.records.record import Record, replace, save_csv
from npc.records.units import METRICS
from npc.roofline.analyse import analyse
from npc.roofline.commands import roofline as command
from npc.roofline.commands import write_pictures
from npc.roofline.mpi import BACK_TO_BACK, ONE_AT_A_TIME, find_callers, mpi_ceilings, verdict
from npc.roofline.mpi_plot import draw_mpi
from npc.roofline.overlay import MOST, draw_overlay, leading, split
from tests.made.measured import level, peak, records
from tests.made.observed import launch


def latency(
    size: int, seconds: float, case: str = "osu_latency", nodes: int = 2, ranks: int = 0
) -> Iterator[Record]:
    ranks = ranks or (2 if case == "osu_latency" else 4)
    params = {"ranks": str(ranks)}
    return records("osu", case, seconds, metric="latency", size=size, nodes=nodes, params=params)


def test_a_latency_is_a_rate_of_messages_one_at_a_time() -> None:
    (ceiling,) = mpi_ceilings([*latency(1, 2e-6), *latency(1024, 4e-6), *latency(0, 1e-6)])
    assert (ceiling.kind, ceiling.nodes) == (ONE_AT_A_TIME, 2)
    assert [(rate.size, rate.rate) for rate in ceiling.rates] == [
        (1, pytest.approx(500e3)),
        (1024, pytest.approx(250e3)),
    ]
    # The interval of a time turned over: [0.9, 1.1] of 2 µs.
    assert ceiling.rates[0].low == pytest.approx(1 / 2.2e-6)
    assert ceiling.rates[0].high == pytest.approx(1 / 1.8e-6)


def test_a_bandwidth_is_a_rate_of_messages_back_to_back() -> None:
    (ceiling,) = mpi_ceilings(records("osu", "osu_bw", 1e9, size=1000))
    assert ceiling.kind == BACK_TO_BACK
    assert ceiling.rates[0].rate == pytest.approx(1e6)


def test_the_bandwidth_of_a_ping_pong_is_not_back_to_back() -> None:
    assert mpi_ceilings(records("imb", "PingPong", 1e9, size=1000)) == []


def test_times_lie_on_straight_lines_between_the_sizes_measured() -> None:
    (ceiling,) = mpi_ceilings([*latency(100, 1e-6), *latency(300, 3e-6)])
    assert ceiling.seconds(200) == pytest.approx(2e-6)
    assert ceiling.seconds(1) == pytest.approx(1e-6)  # not below what was measured
    assert ceiling.seconds(600) == pytest.approx(6e-6)  # the bandwidth stays


def caller_records(
    sizes: dict[int, int],
    seconds: float = 10.0,
    ranks: int = 4,
    collectives: dict[str, tuple[int, int]] | None = None,
    inside: float | None = None,
) -> Iterator[Record]:
    """An observed run on two nodes with the given messages of each size class, and collective calls of
    each class (or name and size of communicator) and size, one for each rank; inside MPI for that long."""

    def record(metric: str, value: float, size: int | None = None, **params: str) -> Record:
        return Record(
            time="2026-11-20T08:00:00+00:00", platform="fuchs", benchmark="observed", case="observed",
            metric=metric, value=value, unit=METRICS[metric].unit, size=size, nodes=2, hosts=("n1", "n2"),
            params={"program": "app", **params}, raw="o/raw/0000.observed.json",
        )  # fmt: skip

    mpi = {"layer": "mpi", "ranks": str(ranks)}
    yield record("time", seconds)
    yield record("messages", sum(sizes.values()), kind="user", **mpi)
    yield record("traffic", sum(size * count for size, count in sizes.items()), kind="user", **mpi)
    for size, count in sizes.items():
        yield record("messages", count, size, kind="by size", **mpi)
    if inside is not None:
        yield record("time", inside, part="inside MPI", **mpi)
    for name, (count, size) in (collectives or {}).items():
        kind, _, members = name.partition(" of ")
        calls = {"layer": "mpi collectives", "ranks": str(ranks), "kind": kind}
        calls |= {"communicator": members} if members else {}
        yield record("messages", count, **calls)
        yield record("traffic", count * size, **calls)


def test_an_application_is_bound_by_its_own_mix_of_sizes() -> None:
    """900 messages of about 192 B at 2 µs and 100 of about 3072 B at 32 µs: 1000 in 5 ms, on 4 ranks."""
    measured = [*latency(192, 2e-6), *latency(3072, 32e-6)]
    (caller,) = find_callers(caller_records({128: 900, 2048: 100}))
    (ceiling,) = mpi_ceilings(measured)
    assert caller.rate == pytest.approx(1000 / 10 / 4)
    assert caller.bound(ceiling) == pytest.approx(1000 / (900 * 2e-6 + 100 * 32e-6))
    words = verdict(caller, [ceiling])
    assert words.startswith("app, 4 ranks on 2 nodes: each rank sends 25 /s messages, of 320 B on average.")
    assert (
        "could go at 200 k/s (osu_latency, 2 ranks on 2 nodes): they need 0.0125 % of the run time" in words
    )


def test_an_application_is_bound_by_its_own_mix_of_calls() -> None:
    """A rank's 100 messages of 192 B at 2 µs, 50 broadcasts of 8 B at 5 µs, 200 synchronisations that no test
    of their class measured and that take a message at least, 2 µs: 350 in 850 µs, once in 10 s."""
    calls = {"one to all": (4 * 50, 8), "all to all": (4 * 200, 0)}
    (caller,) = find_callers(caller_records({192: 400}, collectives=calls))
    measured = [*latency(192, 2e-6), *latency(8, 5e-6, "osu_bcast"), *latency(8, 1e-3, "osu_reduce")]
    assert caller.call_rate == pytest.approx(35)
    assert caller.call_size == pytest.approx((100 * 192 + 50 * 8) / 350)
    assert caller.point == pytest.approx((350 / (100 * 192 + 50 * 8), 35))
    words = verdict(caller, mpi_ceilings(measured))
    assert (
        "200 collectives all to all of 0 B, 100 messages of 192 B, 50 collectives one to all of 8 B" in words
    )
    assert "35 /s in all" in words
    two, four = "osu_latency, 2 ranks on 2 nodes", "osu_bcast, 4 ranks on 2 nodes"
    assert f"could go at 412 k/s at most ({two}; {four}; not every collective was measured)" in words
    assert "it needs at least 0.0085 % of the run time" in words


def test_where_only_the_class_of_a_collective_is_known_its_cost_is_a_range() -> None:
    """40 calls a rank of 8 B: 3 µs as all-gather, 5 µs as all-reduce, 9 µs as all-to-all; and 10 messages of
    2 µs. 140 µs to 380 µs of 10 s."""
    (caller,) = find_callers(caller_records({8: 40}, collectives={"all to all": (4 * 40, 8)}))
    measured = [
        *latency(8, 2e-6), *latency(8, 3e-6, "osu_allgather"), *latency(8, 5e-6, "osu_allreduce"),
        *latency(8, 9e-6, "osu_alltoall"),
    ]  # fmt: skip
    words = verdict(caller, mpi_ceilings(measured))
    tests = "osu_allgather, 4 ranks on 2 nodes; osu_alltoall, 4 ranks on 2 nodes; osu_latency, 2 ranks"
    assert f"could go at 132 k/s to 357 k/s ({tests} on 2 nodes), depending on which" in words
    assert words.endswith("it needs 0.0014 to 0.0038 % of the run time if nothing overlaps.")


def test_each_call_is_held_against_tests_with_as_many_ranks_as_its_communicator_has() -> None:
    """An all-reduce takes 5 µs with 4 ranks, 40 µs with 256. A rank of 128 calls it 100 times among 4, 10
    times among all; an all-to-all of 16 ranks hands over 16 times the 8 B that its test counts: 9 µs. In all
    500 + 400 + 90 µs and 10 messages of 2 µs, of 10 s."""
    measured = [
        *latency(8, 2e-6), *latency(8, 5e-6, "osu_allreduce"), *latency(8, 40e-6, "osu_allreduce", ranks=256),
        *latency(8, 9e-6, "osu_alltoall", ranks=16), *latency(1024, 1e-3, "osu_alltoall", ranks=16),
    ]  # fmt: skip
    calls = {
        "allreduce of 4": (128 * 100, 8), "allreduce of 128": (128 * 10, 8), "alltoall of 16": (1280, 128),
    }  # fmt: skip
    (caller,) = find_callers(caller_records({8: 1280}, ranks=128, collectives=calls, inside=2.5))
    words = verdict(caller, mpi_ceilings(measured))
    assert "It is inside MPI for 25 % of its time, waiting included." in words
    for call in ("100 allreduce of 4 ranks", "10 allreduce of 128 ranks", "10 alltoall of 16 ranks"):
        assert f"{call} of 8 B" in words
    assert "it needs 0.0101 % of the run time" in words
    assert words.endswith("Measured with the number of ranks nearest to its 128.")


def test_collectives_of_more_ranks_are_ceilings_of_their_own_and_the_nearest_counts() -> None:
    """An all-reduce of 8 B takes 5 µs with 4 ranks, 40 µs with 256; an application of 128 ranks calls it
    100 times, by name: 100 · 40 µs and 10 messages of 2 µs in 10 s."""
    measured = [
        *latency(8, 2e-6), *latency(8, 5e-6, "osu_allreduce"), *latency(8, 40e-6, "osu_allreduce", ranks=256),
    ]  # fmt: skip
    found = mpi_ceilings(measured)
    assert [ceiling.name for ceiling in found if ceiling.kind == "allreduce"] == [
        "allreduce (osu_allreduce, 4 ranks on 2 nodes)",
        "allreduce (osu_allreduce, 256 ranks on 2 nodes)",
    ]
    calls = {"allreduce": (128 * 100, 8)}
    (caller,) = find_callers(caller_records({8: 1280}, ranks=128, collectives=calls))
    words = verdict(caller, found)
    assert "100 allreduce of 8 B, 10 messages of 8 B" in words
    assert (
        "could go at 27.4 k/s (osu_allreduce, 256 ranks on 2 nodes; osu_latency, 2 ranks on 2 nodes): it "
        "needs 0.0402 % of the run time if nothing overlaps. Measured with the number of ranks nearest to "
        "its 128." in words
    )


def test_a_program_that_only_synchronises_is_judged_and_the_picture_is_drawn(tmp_path: Path) -> None:
    found = [*machine(), *latency(8, 2e-6), *caller_records({0: 400}, collectives={"all to all": (400, 0)})]
    roofline = analyse(found)
    assert roofline.callers[0].call_size == 0 and roofline.callers[0].point is None
    assert draw_mpi(roofline, [tmp_path / "mpi.png"])
    assert "100 collectives all to all of 0 B" in verdict(roofline.callers[0], roofline.mpi)


def test_a_latency_within_a_node_does_not_bound_messages_between_nodes() -> None:
    (caller,) = find_callers(caller_records({128: 900}))
    assert "No latency test over as many nodes" in verdict(caller, mpi_ceilings(latency(8, 1e-6, nodes=1)))


def machine() -> list[Record]:
    return [
        *peak("peakflops_avx_fma", 100e9),
        *level("MEM", "load", 50e9),
        *records("qperf", "tcp_bw", 1e9, size=65536, nodes=2),
        *records("qperf", "tcp_bw", 0.1e9, size=1024, nodes=2),
    ]


def test_a_job_of_n_nodes_has_n_times_the_ceilings_and_the_same_ridge_points() -> None:
    applications = [*launch("small", 2, 20e9, 200e9, 1e9, 1e9), *launch("large", 4, 80e9, 200e9, 1e9, 1e9)]
    one = analyse([*machine(), *applications])
    job = analyse([*machine(), *applications], nodes=4)
    assert [c.value for c in job.ceilings] == [4 * c.value for c in one.ceilings]
    assert [c.low for c in job.ceilings] == [c.low and 4 * c.low for c in one.ceilings]
    assert [r.intensity for r in job.ridges] == [r.intensity for r in one.ridges]
    assert [(a.name, a.flops.median) for a in one.applications] == [("large", 20e9), ("small", 10e9)]
    assert [(a.name, a.flops.median) for a in job.applications] == [("large", 80e9)]
    assert job.applications[0].intensity == one.applications[0].intensity


def test_what_a_network_test_reached_within_a_node_is_no_ceiling_of_a_job() -> None:
    shared = records("osu", "osu_bw", 8e9, size=65536)
    assert [c.name for c in analyse([*machine(), *shared], nodes=4).of_kind("network")] == ["qperf tcp_bw"]


def test_an_overlay_s_network_is_between_nodes_where_one_was_measured() -> None:
    shared = [*records("osu", "osu_bw", 8e9, size=65536)]
    assert leading(analyse([*machine(), *shared]))[-1].name == "qperf tcp_bw"
    assert leading(analyse([*peak("peakflops_avx_fma", 100e9), *shared]))[-1].name == "osu_bw"


def test_the_network_s_ceiling_at_one_message_size() -> None:
    found = analyse(machine(), message_size=1024)
    assert [(c.value, c.size) for c in found.of_kind("network")] == [(0.1e9, 1024)]
    assert [c.value for c in found.of_kind("compute", "memory")] == [100e9, 50e9]


def test_a_size_between_two_that_were_measured_is_interpolated_and_said_to_be() -> None:
    """1024 B in 10.24 µs and 65536 B in 65.536 µs: in the middle 33280 B take 37.888 µs."""
    found = analyse(machine(), message_size=33280)
    (ceiling,) = found.of_kind("network")
    assert (ceiling.value, ceiling.size) == (pytest.approx(33280 / 37.888e-6), 33280)
    assert ceiling.low == pytest.approx(0.9 * ceiling.value)
    assert ceiling.coverage == pytest.approx(2 * 0.96875 - 1)
    assert "interpolated between 1 KiB and 64 KiB" in ceiling.note
    assert analyse(machine(), message_size=10).of_kind("network") == []


@pytest.fixture
def file(tmp_path: Path) -> Path:
    save_csv([*machine(), *latency(8, 1e-6), *caller_records({128: 9})], tmp_path / "records.csv")
    return tmp_path / "records.csv"


def invoke(*arguments: object) -> Result:
    return CliRunner().invoke(command, [str(argument) for argument in arguments])


@pytest.mark.slow
def test_the_command_writes_the_mpi_roofline_too(file: Path) -> None:
    done = invoke(file)
    assert done.exit_code == 0, done.output
    assert "app, 4 ranks on 2 nodes" in done.output
    with Image.open(file.with_name("mpi-roofline.png")) as picture:
        assert picture.size == (1920, 1280)
    assert "messages one at a time" in file.with_name("mpi-roofline.svg").read_text()
    document = json.loads(file.with_name("roofline.json").read_text())
    assert document["mpi"][0]["rates"][0]["rate"] == pytest.approx(1e6)
    assert document["callers"][0]["name"] == "app"


@pytest.mark.slow
def test_a_program_of_barriers_alone_has_no_place_and_breaks_nothing(tmp_path: Path) -> None:
    measured = [*machine(), *latency(8, 1e-6), *caller_records({0: 100})]
    save_csv(measured, tmp_path / "records.csv")
    done = invoke(tmp_path)
    assert done.exit_code == 0, done.output
    assert "of 0 B on average" in done.output
    assert "app" not in (tmp_path / "mpi-roofline.svg").read_text()


def test_what_mpi_counted_is_said_without_any_ceiling(tmp_path: Path) -> None:
    save_csv(caller_records({0: 100}), tmp_path / "records.csv")
    done = invoke(tmp_path)
    assert done.exit_code == 0, done.output
    assert "app, 4 ranks on 2 nodes" in done.output


def test_a_picture_that_cannot_be_drawn_leaves_those_before_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> bool:
        raise ZeroDivisionError

    monkeypatch.setattr("npc.roofline.mpi_plot.draw_mpi", broken)
    with pytest.raises(ZeroDivisionError):
        write_pictures(analyse([*machine(), *latency(8, 1e-6)]), tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "roofline.html", "roofline.json", "roofline.png", "roofline.svg",
    ]  # fmt: skip


@pytest.mark.slow
def test_pictures_of_an_earlier_run_do_not_stay(tmp_path: Path) -> None:
    write_pictures(analyse([*machine(), *latency(8, 1e-6)]), tmp_path)
    written = write_pictures(analyse(list(records("qperf", "tcp_bw", 1e9, nodes=2))), tmp_path)
    assert sorted(tmp_path.iterdir()) == written == [tmp_path / "roofline.json"]


def test_without_mpi_operations_there_is_no_such_picture(tmp_path: Path) -> None:
    assert not draw_mpi(analyse(machine()), [tmp_path / "x.png"])
    assert not list(tmp_path.iterdir())


def test_a_message_size_that_nothing_was_measured_at_is_refused_with_those_there_are(file: Path) -> None:
    done = invoke(file, "--message-size", "128K")
    assert done.exit_code == 2
    assert "there are 1 KiB, 64 KiB" in done.stderr
    assert invoke(file, "--message-size", "lots").exit_code == 2
    assert "0.1" not in done.stdout
    assert "100 MB/s" in invoke(file, "--message-size", "1K").output


@pytest.mark.slow
def test_platforms_overlay(tmp_path: Path, file: Path) -> None:
    other = [replace(record, platform="deep", value=(record.value or 0) * 2) for record in machine()]
    save_csv(other, tmp_path / "other.csv")
    assert invoke(file, tmp_path / "other.csv").exit_code == 2  # one roofline is one machine's
    done = invoke(file, tmp_path / "other.csv", "--overlay", "platform", "--output", tmp_path)
    assert done.exit_code == 0, done.output
    words = (tmp_path / "overlay.svg").read_text()
    assert "deep: peak double  200 GFLOP/s" in words
    assert "fuchs: MEM load  50 GB/s" in words
    document = json.loads((tmp_path / "overlay.json").read_text())
    assert sorted(document["rooflines"]) == ["deep", "fuchs"]


def test_what_several_nodes_measured_belongs_to_each() -> None:
    pair = [replace(record, hosts=("n1", "n2")) for record in machine()]
    assert sorted(split([*machine(), *pair], "node")) == ["n1", "n2", "node1"]
    assert len(split(pair, "night")) == 7


def test_more_rooflines_than_can_be_told_apart_are_refused(tmp_path: Path) -> None:
    one = analyse(machine())
    with pytest.raises(ValueError, match="told apart"):
        draw_overlay({str(number): one for number in range(MOST + 1)}, "many", [tmp_path / "x.png"])


def test_too_many_for_an_overlay_are_refused_before_anything_is_printed(tmp_path: Path) -> None:
    many = [replace(record, hosts=(f"n{n:02d}",)) for n in range(MOST + 1) for record in machine()[:7]]
    save_csv(many, tmp_path / "records.csv")
    done = invoke(tmp_path, "--overlay", "node", "--output", tmp_path / "o")
    assert done.exit_code == 2
    assert f"{MOST + 1} rooflines in one picture" in done.stderr
    assert done.stdout == ""
    assert not (tmp_path / "o").exists()


@pytest.mark.slow
def test_those_without_a_roof_are_named(tmp_path: Path) -> None:
    lacking = [replace(record, hosts=("n9",)) for record in records("qperf", "tcp_bw", 1e9, nodes=2)]
    save_csv([*machine(), *lacking], tmp_path / "records.csv")
    done = invoke(tmp_path, "--overlay", "node")
    assert done.exit_code == 0, done.output
    assert "Not in the picture, without a compute ceiling: n9." in done.stderr


def test_an_overlay_without_a_roof_is_said(tmp_path: Path) -> None:
    save_csv(records("qperf", "tcp_bw", 1e9, nodes=2), tmp_path / "records.csv")
    done = invoke(tmp_path / "records.csv", "--overlay", "night")
    assert done.exit_code == 1
    assert "no roof" in done.stderr
