"""What the page tells of probes: by name, by rank beside MPI, how long events took, and what it cost."""

from __future__ import annotations

from pathlib import Path

import pytest

from npc.observe.probes import section as on_node
from npc.observe.probes.records import NodeProbe, ProbeRow, Probes
from npc.page.blocks import Figure, Listing, Table
from npc.records.overhead import MeasuredOverhead, Overhead
from npc.report.runs import Report, read_runs
from npc.report.sections import NothingToShow
from tests.made.inside import observed_runs
from tests.made.on_node import put
from tests.made.profiles import Job

CALLS = NodeProbe(
    probe="syscalls",
    host="n0",
    status="attached",
    apparent=1e-6,
    rows=(
        ProbeRow(0, "read", 100, 100, 2e-4 + 1e-4, 4096, {10: 90, 14: 10}),
        ProbeRow(1, "clock_nanosleep", 10, 10, 0.9, None, {26: 10}),
        ProbeRow(1, "read", 5, 5, 1e-4, None, {10: 5}),
        *(ProbeRow(0, name, 1, 1, 1e-6, None, {9: 1}) for name in ("openat", "close")),
    ),
)
SCHEDULER = NodeProbe(
    probe="scheduler",
    host="n0",
    status="stopped",
    reason="it would have cost 4 %",
    share=0.25,
    rows=(
        ProbeRow(0, "involuntary switches", 2, 2, 1e-3, None, {18: 2}),
        ProbeRow(1, "involuntary switches", 300, 300, 0.4, None, {20: 300}),
        ProbeRow(1, "voluntary switches", 7),
    ),
)
UNAVAILABLE = NodeProbe(probe="function:dot", host="n0", status="unavailable", reason="no bpftrace")


def page(folder: Path, *probes: NodeProbe, **more: object) -> list[object]:
    job = Job(2)
    for _ in range(3):
        job.compute(1.0, 1.5)
        job.collective("MPI_Allreduce")
    put(observed_runs(folder / "run", job.profiles()), probes=Probes(nodes=probes), **more)
    return list(on_node.build(Report(read_runs([folder / "run"]), folder)))


def test_each_rank_stands_with_what_mpi_and_the_probes_say(tmp_path: Path) -> None:
    blocks = page(tmp_path, CALLS, SCHEDULER)
    table = next(block for block in blocks if isinstance(block, Table))
    assert table.columns == (
        "rank", "on", "inside MPI", "waited", "others waited for it", "in system calls", "waiting for a CPU",
        "of this after losing it", "involuntary switches",
    )  # fmt: skip
    assert [cell.text for cell in table.rows[1]] == [
        "rank 1", "n0", "0.000667 %", "0 s", "1.5 s", "900.1 ms", "400 ms", "400 ms", "300",
    ]  # fmt: skip


def test_a_late_rank_is_explained_by_what_it_has_more_of(tmp_path: Path) -> None:
    (late,) = [block for block in page(tmp_path, CALLS, SCHEDULER) if isinstance(block, Listing)][1:]
    (line,) = [cell.text for cell in late.items]
    assert line.startswith("others waited 1.5 s for rank 1 (n0), which had no CPU for 400 ms")
    assert "(300 involuntary switches)" in line
    assert "was in clock_nanosleep for 900 ms (10 calls), 900 ms more than the others" in line


def test_times_are_without_what_watching_adds_to_each(tmp_path: Path) -> None:
    figures = [block for block in page(tmp_path, CALLS, SCHEDULER) if isinstance(block, Figure)]
    names, ranks = figures[0].tables
    (read,) = [row for row in names.rows if row[0].text == "read"]
    # 105 calls that took 400 µs in all, 1 µs each of it the probe's
    assert [cell.text for cell in read[1:6]] == ["105", "295 µs", "2.81 µs", "32.77 µs", "4.096 kB"]
    assert read[6].text == "rank 0" and len(ranks.rows) == 5
    assert "at least" in str(figures[0].picture) and "95 events" in str(figures[0].picture)
    assert str(figures[1].picture).count("rank 1") >= 1  # of few names a row a rank


def test_what_was_stopped_or_cannot_be_had_is_said_with_the_cost(tmp_path: Path) -> None:
    measured = MeasuredOverhead(
        median=0.004, low=-0.001, high=0.009, coverage=0.95, pairs=12, seconds=((2.0, 2.02),)
    )
    overhead = Overhead(estimated={"mpi": 0.001, "probes": 0.012}, budget=0.02, measured=measured)
    text = str(page(tmp_path, SCHEDULER, UNAVAILABLE, overhead=overhead)[1])
    for words in (
        "watching took about 1.3 % of the run time, as estimated (mpi 0.1 %, probes 1.2 %); probes",
        "measured: +0.40% in the median of 12 pairs", "95.0% interval: -0.10% to +0.90%",
        "scheduler stopped: it would have cost 4 % (n0)", "function:dot unavailable: no bpftrace (n0)",
    ):  # fmt: skip
        assert words in text, words


def test_without_probes_the_section_says_what_makes_it(tmp_path: Path) -> None:
    folder = observed_runs(tmp_path / "run", Job(2).profiles())
    with pytest.raises(NothingToShow, match="--probe"):
        list(on_node.build(Report(read_runs([folder]), folder)))
