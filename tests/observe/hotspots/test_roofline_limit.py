"""What a hot loop allows, from the observation to the point under the ceilings."""

from __future__ import annotations

import json
from collections.abc import Iterable

import msgspec
import pytest

from npc import parsers
from npc.observe.hotspots.records import HOT_LOOP, Hotspot, Hotspots, LoopBound
from npc.observe.hotspots.roofline_limit import hottest
from npc.records.reading import Reading
from npc.records.record import Record, replace
from npc.records.series import Series
from npc.records.units import METRICS
from npc.roofline.analyse import analyse
from npc.roofline.applications import find_applications
from npc.roofline.document import to_document
from npc.roofline.figure import describe
from npc.roofline.points import verdict
from npc.roofline.scene import compose
from tests.made.measured import level, peak
from tests.made.observed import launch

#: 16 FLOP and 96 bytes in 2 cycles of the ports and 8 of the chain, at 3 GHz: 6 GFLOP/s a core.
MODEL = "llvm-mca 19.1.7, znver4"
LOOP = LoopBound(
    MODEL, "0x12a0", "app.c:7", 16, 96, 12, 2.0, 8.0, 3e9, 6e9, share=0.9, precision="double",
)  # fmt: skip


def readings(*found: Hotspot, samples: int = 1980, ranks: int = 4, nodes: int = 1) -> list[Reading]:
    """Of ten seconds at 99 Hz: 1980 samples are two busy cores."""
    seen = Hotspots(status="ok", rate=99.0, samples=samples, ranks=ranks, hotspots=found)
    each = {"seconds": 10.0, "ports": [], "ranks": ranks // nodes}
    document = {
        "schema": 3,
        "reported": {},
        "ranks": ranks,
        "messages": None,
        "nodes": [{"host": f"n{number}", **each} for number in range(nodes)],
        "hotspots": msgspec.to_builtins(seen),
    }
    every = parsers.parse("observed", json.dumps(document))
    assert all(each.status == "ok" or each.value is None for each in every)
    return [each for each in every if each.case == HOT_LOOP]


def hotspot(name: str, share: float, loop: LoopBound | None = None, reason: str = "") -> Hotspot:
    return Hotspot(name, "app", share, share, share, "unknown", "", loop, reason)


def records(found: Iterable[Reading], like: Record) -> list[Record]:
    """Of the launch that `like` is of."""
    return [
        replace(
            like,
            case=each.case,
            metric=each.metric,
            value=each.value,
            unit=METRICS[each.metric].unit,
            status=each.status,
            params=each.params,
            raw=like.raw.replace(".out", ".observed.json"),
        )
        for each in found
    ]


def observed(*found: Reading, nodes: int = 1, flops: float = 12e9) -> list[Record]:
    run = list(launch("app", nodes, flops, 10 * flops, 1e9, 1e9))
    return [*peak("peakflops_avx_fma", 100e9), *level("L1", "load", 500e9), *run, *records(found, run[0])]


def test_an_iteration_s_numbers_are_records_and_what_has_no_loop_says_why() -> None:
    found = readings(hotspot("f", 0.5, LOOP), hotspot("g", 0.3, None, "no loop"), hotspot("h", 0.1))
    assert [(each.metric, each.params.get("part"), each.value) for each in found] == [
        ("cycles", "ports", 2.0), ("cycles", "dependencies", 8.0), ("flop", "an iteration", 16),
        ("traffic", "an iteration", 96), ("instructions", "an iteration", 12), ("clock", None, 3e9),
        ("cycles", "ports", None),
    ]  # fmt: skip
    assert found[0].params == {
        "layer": "hotspots", "kind": "f (app)", "part": "ports", "precision": "double", "loop": "app.c:7",
        "model": "llvm-mca 19.1.7, znver4", "share": "0.45", "cores": "4",
    }  # fmt: skip
    assert found[-1].status == "unavailable: no loop"
    moved = Hotspot(*hotspot("f", 0.2, LOOP._replace(source="app.c:9", model="llvm-mca 20.1.0, znver4")))
    first, second = (Series.of(records([each[0]], observed()[-1])[0]) for each in (found, readings(moved)))
    assert first == second  # where it lies, and the tool's version, make no other series


def test_cores_are_ranks_or_with_threads_what_was_busy() -> None:
    def cores(**more: int) -> str:
        return readings(hotspot("f", 0.5, LOOP), **more)[0].params["cores"]

    assert cores(ranks=4) == "4"
    assert cores(ranks=1) == "2"  # 1980 samples of 99 a second in 10 s
    assert cores(ranks=4, nodes=2, samples=15840) == "8"


def test_the_hottest_loop_with_flop_counts() -> None:
    chase = LOOP._replace(flop=0.0, flops=0.0)
    run = observed(*readings(hotspot("walk", 0.6, chase), hotspot("f", 0.3, LOOP), hotspot("g", 0.1, LOOP)))
    loop = hottest(run)
    assert loop is not None and (loop.function, loop.share) == ("f (app)", 0.27)
    assert (loop.intensity, loop.by_ports, loop.by_dependencies) == (16 / 96, 4 * 24e9, 4 * 6e9)
    assert (loop.flops, loop.holds) == (24e9, "dependencies")
    assert hottest(observed(*readings(hotspot("walk", 0.6, chase)))) is None
    assert hottest(observed()) is None
    free = hottest(observed(*readings(hotspot("f", 0.5, LOOP._replace(chain_cycles=0.0)))))
    assert free is not None and (free.by_dependencies, free.holds) == (None, "execution ports")


def test_the_measured_point_stays_as_it_is() -> None:
    with_loop = find_applications(observed(*readings(hotspot("f", 0.5, LOOP))))
    without = find_applications(observed())
    assert [(each.flops, each.intensity, each.note, each.runs[0].flop) for each in with_loop] == [
        (each.flops, each.intensity, each.note, each.runs[0].flop) for each in without
    ]
    (first,) = with_loop
    assert "loop" in first.code_limits and not without[0].code_limits


@pytest.mark.parametrize(("nodes", "job", "bound"), [(1, 1, 24e9), (2, 1, 24e9), (2, 2, 48e9)])
def test_its_point_has_a_mark_of_its_own(nodes: int, job: int, bound: float) -> None:
    found = analyse(observed(*readings(hotspot("f", 0.5, LOOP)), nodes=nodes), nodes=job)
    scene = compose(found)
    assert scene is not None
    (point,) = scene.code_limits
    x, y = point.limit.intensity, point.limit.flops
    assert (x, y, point.limit.other) == (16 / 96, bound, 4 * bound)
    assert scene.y[0] < point.reached and scene.x[0] < x
    chart = describe(found)
    assert chart is not None
    name = "app: its hottest loop, per byte of the first cache, held by dependencies"
    (trace,) = [each for each in chart.traces if each.name.startswith(name)]
    assert trace.hollow and (trace.marks[0].x, trace.marks[0].y) == (x, y)
    assert "app.c:7: 45 % of the samples" in trace.marks[0].tip
    (kept,) = to_document(found)["points"]
    assert kept["loop"]["by_dependencies"] == bound and kept["loop"]["model"] == LOOP.model


def test_the_sentence_says_what_holds_and_how_much_is_reached() -> None:
    def said(flops: float) -> str:
        found = analyse(observed(*readings(hotspot("f", 0.5, LOOP)), flops=flops))
        return verdict(found.applications[0], found)

    assert (
        "Its hottest loop, f (app) at app.c:7, 45 % of its samples, allows at most 96 GFLOP/s by execution "
        "ports and 24 GFLOP/s by dependencies on 4 cores at 3 GHz, with all data in the first cache "
        "(llvm-mca 19.1.7, znver4); the program reaches 50 % of what the dependencies allow."
    ) in said(12e9)
    assert "the program is faster, so other parts of it count, or the model is wrong." in said(48e9)
