"""What latency bounds, worked out by hand: dependent loads, and messages one at a time."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from npc.records.record import Record, replace
from npc.records.units import METRICS
from npc.roofline.analyse import analyse
from npc.roofline.figure import describe
from npc.roofline.latency import one_at_a_time
from npc.roofline.points import verdict
from npc.roofline.result import Roofline
from tests.made.measured import level, peak, records
from tests.made.observed import launch


def load(name: str, seconds: float, size: int, pages: str = "huge", huge: str = "1.000") -> Iterator[Record]:
    params = {"pages": pages, "huge_pages": huge, "cpus": "20", "line": "64", "thread_cpus": "0"}
    params |= {"level": name} if name else {}
    return records("memory", "load", seconds, metric="latency", size=size, params=params)


def latency(size: int, seconds: float, benchmark: str = "osu", case: str = "osu_latency") -> Iterator[Record]:
    return records(benchmark, case, seconds, metric="latency", size=size, nodes=2)


def counted(messages: dict[int, int], ranks: int = 40, **more: float) -> list[Record]:
    """An application of 30 GFLOP/s a node on two nodes for 10 s, and its messages by size class."""
    found = list(launch("app", 2, 60e9, 600e9, 2e9, 2e9, **more))
    mpi = {"layer": "mpi", "kind": "by size", "ranks": str(ranks), "program": "app"}
    raw = found[0].raw.replace(".out", ".observed.json")
    of = replace(
        found[0], benchmark="observed", case="observed", metric="messages", params=mpi, raw=raw,
        unit=METRICS["messages"].unit,
    )  # fmt: skip
    return found + [replace(of, size=size, value=float(number)) for size, number in messages.items()]


MACHINE = [*peak("peakflops_avx", 400e9), *level("MEM", "load_avx", 80e9)]


def test_dependent_loads_are_a_line_each_latency_on_every_cpu() -> None:
    """20 CPUs · 64 B / 100 ns = 12.8 GB/s, and [90, 110] ns turned over."""
    found = analyse([*MACHINE, *load("L1", 1.6e-9, 16384), *load("", 9e-9, 65536), *load("MEM", 1e-7, 2**27)])
    assert [(each.name, each.value) for each in found.latencies] == [
        ("L1 latency", 1.6e-9),
        ("MEM latency", 1e-7),
    ]
    bound = found.dependent
    assert bound is not None and bound.unit == "B/s" and "20 CPUs" in bound.note
    assert bound.value == pytest.approx(12.8e9)
    assert (bound.low, bound.high) == (pytest.approx(12.8e9 / 1.1), pytest.approx(12.8e9 / 0.9))
    assert bound not in found.ceilings and all(ridge.bandwidth != bound.name for ridge in found.ridges)
    job = analyse([*MACHINE, *load("MEM", 1e-7, 2**27)], nodes=4)
    assert job.dependent is not None and job.dependent.value == pytest.approx(4 * 12.8e9)


def test_the_quickest_pages_count_and_a_lack_of_huge_ones_is_said() -> None:
    small = load("MEM", 1.5e-7, 2**27, "small", "0.000")
    found = analyse([*load("MEM", 1e-7, 2**27), *small])
    assert found.dependent is not None and found.dependent.params["pages"] == "huge"
    found = analyse(list(load("MEM", 1e-7, 2**27, huge="0.100")))
    assert found.dependent is not None and "no huge pages" in found.dependent.note


@pytest.mark.parametrize(
    ("bandwidth", "said"),
    [
        (80e9, "It is 3.12 times as fast as if each load waited for the one before (9.6 GFLOP/s)."),
        (
            20e9,
            "It is no faster than if each load waited for the one before (38.4 GFLOP/s): memory's latency",
        ),
    ],
)
def test_an_application_is_held_against_dependent_loads(bandwidth: float, said: str) -> None:
    """30 GFLOP/s a node at 40 GB/s are 0.75 FLOP/byte, at 10 GB/s 3 FLOP/byte; times 12.8 GB/s."""
    found = analyse([*MACHINE, *load("MEM", 1e-7, 2**27), *counted({}, bandwidth=bandwidth)])
    assert said in verdict(found.applications[0], found)
    found = analyse([*MACHINE, *counted({}, bandwidth=bandwidth)])
    assert "waited" not in verdict(found.applications[0], found)


def of_messages(messages: dict[int, int]) -> Roofline:
    measured = [
        *latency(1536, 2e-6),
        *latency(98304, 20e-6),
        *records("osu", "osu_bw", 5e9, size=1536, nodes=2),
    ]
    slower = [*latency(1536, 1e-6, "qperf", "tcp_lat"), *records("osu", "osu_bw", 5e9, size=98304, nodes=2)]
    return analyse([*MACHINE, *measured, *slower, *counted(messages)])


def test_messages_one_at_a_time_take_the_latency_of_their_size() -> None:
    """A rank's 500 000 messages of 1.5 KiB at 2 µs and 10 000 of 96 KiB at 20 µs: 1.2 s of 10 s, by MPI's
    ping-pong and not TCP's quicker one; so the 30 GFLOP/s a node would be 250."""
    found = of_messages({1024: 40 * 500_000, 65536: 40 * 10_000})
    alone = one_at_a_time(found.applications[0], found)
    assert alone is not None
    assert (alone.source, alone.part) == ("osu_latency", pytest.approx(0.12))
    assert alone.flops == pytest.approx(250e9)
    words = verdict(found.applications[0], found)
    assert (
        "One at a time, by the latency of osu_latency at their sizes, its messages need 12 % of its" in words
    )
    assert words.endswith("Waiting for other ranks comes on top.")


def test_what_must_overlap_is_said_and_the_picture_has_both_bars() -> None:
    found = of_messages({1024: 40 * 10_000_000})
    assert "need 2 times its time, so they overlap" in verdict(found.applications[0], found)
    chart = describe(found)
    assert chart is not None
    notes = [(note.text, note.y) for trace in chart.traces for each in trace.under for note in each.notes]
    assert ("own messages one at a time", pytest.approx(15e9)) in notes


def test_without_counted_messages_or_a_ping_pong_between_nodes_nothing_is_said() -> None:
    found = analyse([*MACHINE, *latency(1536, 2e-6), *counted({})])
    assert one_at_a_time(found.applications[0], found) is None
    found = analyse([*MACHINE, *counted({1024: 40})])
    assert one_at_a_time(found.applications[0], found) is None
