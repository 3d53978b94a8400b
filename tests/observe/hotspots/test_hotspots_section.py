"""Hotspots: how a flame graph is laid out, what its colours mean, and what the section tells."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from npc.observe.hotspots import flame, section
from npc.observe.hotspots.flame import KINDS, MOST, draw_flame, flame_graph, kind_of
from npc.observe.hotspots.records import Frame, Hotspot, Hotspots, LoopBound
from npc.page.blocks import Listing, Table
from npc.report.runs import Report, read_runs
from npc.report.sections import NothingToShow
from tests.made.inside import observed_runs
from tests.made.on_node import MAIN, STACKS, hotspots, put
from tests.made.profiles import Job
from tests.made.run_folder import HOSTILE


def test_a_bar_is_as_wide_as_its_share_and_stands_below_its_caller() -> None:
    bars = flame_graph(hotspots(STACKS), "c1", "title", "text").bars
    names = [(bar.depth, bar.frame.function, round(bar.left, 4), round(bar.share, 4)) for bar in bars]
    assert names == [
        (0, "all", 0.0, 1.0),
        (1, "main", 0.0, 0.8),
        (2, "solve", 0.0, 0.54),
        (3, "stencil", 0.0, 0.45),
        (3, "sin", 0.45, 0.075),
        (2, "MPI_Allreduce", 0.54, 0.21),
        (3, "opal_progress", 0.54, 0.21),
        (2, "read", 0.75, 0.05),
        (3, "ext4_file_read_iter", 0.75, 0.05),
        (1, "0x7f3a12", 0.8, 0.2),
    ]


def test_a_bar_tells_its_share_and_where_ranks_differ() -> None:
    bars = {bar.frame.function: bar for bar in flame_graph(hotspots(STACKS), "c1", "title", "text").bars}
    lines = ["solve", "app (the program)", "54 % of all samples, 1.5 % its own", "ranks: 36 % to 72 %"]
    assert bars["solve"].tip.splitlines() == lines
    assert bars["solve"].uneven and bars["opal_progress"].uneven
    assert not bars["main"].uneven and not bars["sin"].uneven


def test_only_so_many_bars_are_drawn_and_those_are_the_longest() -> None:
    stacks = {(MAIN, (f"f{number}", "app")): (number + 5000,) for number in range(3000)}
    graph = flame_graph(hotspots(stacks), "c1", "title", "text")
    assert len(graph.bars) == 2 and graph.left_out == 3000  # below half a pixel
    chain = [Frame(max(depth - 1, 0), f"f{depth}", "app", 5000 - depth, 1, 0, 0) for depth in range(2500)]
    found = Hotspots(status="ok", samples=5000, frames=tuple(chain))
    graph = flame_graph(found, "c1", "title", "text")
    assert len(graph.bars) == MOST and graph.left_out == 2500 - MOST
    assert graph.levels == MOST


@pytest.mark.parametrize(
    ("module", "kind"),
    [
        ("himeno", "program"), ("a.out", "program"), ("/opt/app/xhpcg", "program"), ("libexec", "program"),
        ("libmpi.so.40.30.4", "mpi"), ("mca_btl_vader.so", "mpi"), ("libopen-pal.so.40", "mpi"),
        ("libmpich.so.12", "mpi"), ("libucp.so.0", "mpi"), ("libnpc-openmpi.so", "mpi"),
        ("libm.so.6", "math"), ("libm-2.28.so", "math"), ("libopenblasp-r0.3.21.so", "math"),
        ("libmkl_avx2.so.2", "math"), ("libfftw3.so.3", "math"),
        ("libgomp.so.1", "openmp"), ("libc.so.6", "libc"),
        ("ld-linux-x86-64.so.2", "libc"), ("libc-2.31.so", "libc"),
        ("[kernel]", "kernel"), ("[kernel.kallsyms]", "kernel"), ("[vdso]", "kernel"),
        ("mlx5_core.ko", "kernel"),
        ("libpython3.11.so.1.0", "other"), ("[unknown]", "other"), ("", "other"), ("//anon", "other"),
    ],
)  # fmt: skip
def test_code_belongs_to_what_its_file_says(module: str, kind: str) -> None:
    assert kind_of(module) == kind


def luminance(colour: str) -> float:
    """Relative luminance (WCAG 2.1)."""
    parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    linear = [each / 12.92 if each <= 0.04045 else ((each + 0.055) / 1.055) ** 2.4 for each in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_names_can_be_read_on_every_colour_and_colours_told_from_each_other() -> None:
    style = Path(flame.__file__).with_suffix(".css").read_text()
    colours = {kind: re.findall(rf"\.k-{kind} {{ --h: (#\w+) }}", style)[0] for kind in KINDS}
    (ink,) = re.findall(r"\.bar text {[^}]*fill: #(\w+)", style)
    for colour in colours.values():
        assert (luminance(colour) + 0.05) / (luminance(f"#{ink * 2}") + 0.05) > 7  # WCAG's AAA
    assert len(set(colours.values())) == len(KINDS)


def made(folder: Path, *, found: object) -> Report:
    job = Job(2)
    job.compute(1.0, 2.0)
    job.collective("MPI_Allreduce")
    put(observed_runs(folder, job.profiles()), hotspots=found)
    return Report(read_runs([folder]), folder)


def test_the_section_shows_flame_graph_and_what_could_be_gained(tmp_path: Path) -> None:
    text = str(list(section.build(made(tmp_path / "app", found=hotspots(STACKS)))))
    for words in ("app, 2 ranks on 1 node", "45 % of the samples are in stencil (app)", "× 1.29", "× 1.82"):
        assert words in text, words


def test_loops_stand_with_their_bounds_or_the_reason() -> None:
    loop = LoopBound("llvm-mca 14.0.6, znver2", "0x1204", "app.c:12", 2.0, 24.0, 6, 2.0, 4.0, 3e9, 1.5e9)
    first = Hotspot("dot", "app", 0.6, 0.5, 0.7, "compute", "2.1 instructions a cycle", loop)
    rest = Hotspot("copy", "app", 0.4, 0.3, 0.5, "memory", "", None, "no loop was found", {"ipc": 0.4})
    found = hotspots(STACKS, hotspots=(first, rest))
    (dot, copy) = [[cell.text for cell in row] for row in section.hotspots_table(found).rows]
    assert (dot[9], copy[9]) == ("", "0.4")
    loops, reasons = section.loops_table(found)
    assert isinstance(loops, Table) and isinstance(reasons, Listing)
    said = [cell.text for cell in loops.rows[0]]
    assert said[:2] == ["dot", "app.c:12"] and said[3:5] == ["1.5 GFLOP/s", "dependencies"]
    assert reasons.items[0].text == "copy: no loop was found"


def test_what_takes_all_the_time_has_no_bound() -> None:
    table = section.hotspots_table(hotspots({(MAIN,): (5, 5)}))
    assert [cell.text for cell in table.rows[0][7:9]] == ["× 2", "× ∞"]


def test_without_stacks_the_reason_stands_there(tmp_path: Path) -> None:
    report = made(tmp_path / "app", found=hotspots(STACKS, status="no perf: install it", hotspots=()))
    assert "No stacks: no perf: install it" in str(list(section.build(report)))
    with pytest.raises(NothingToShow, match="npc observe --hotspots"):
        list(section.build(made(tmp_path / "other", found=None)))


def test_hostile_names_stay_text() -> None:
    graph = flame_graph(hotspots({((HOSTILE, HOSTILE),): (1,)}), "c1", HOSTILE, HOSTILE)
    drawn = str(draw_flame(graph))
    assert "<img" not in drawn and "<svg/" not in drawn and "\"'" not in drawn
