"""Memory on the page: maps of threads and pages, bars, sharing over time, and what the section tells."""

from __future__ import annotations

import base64
import io
import re
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from npc.figures.scale import DEPTH_COLOURS
from npc.figures.svg import draw
from npc.observe.memory import section as memory
from npc.observe.memory.density_picture import draw_density
from npc.observe.memory.figures import (
    MOST_COLUMNS,
    MOST_ROWS,
    density_map,
    moments,
    sharing_chart,
    structure_bars,
    thread_accesses,
)
from npc.observe.memory.records import Density, MemoryUse, SharingInterval, Structure
from npc.page.blocks import Block, Figure, Listing, Table
from npc.report.command import report
from npc.report.runs import Report, read_runs
from npc.report.sections import NothingToShow
from tests.made.inside import observed_runs
from tests.made.memory_use import HINTS, memory_use, rank_memory
from tests.made.on_node import put
from tests.made.profiles import Job
from tests.made.run_folder import HOSTILE

#: Two threads on four bins of two pages: the first initialises all, then each uses its half.
HALVES = Density(
    pages=2,
    threads=(0, 1),
    reads=((800, 800, 0, 0), (0, 0, 800, 800)),
    writes=((2, 2, 2, 2), (0, 0, 80, 80)),
    first=(0, 0, 0, 1),
)


def images(drawn: str) -> list[list[list[str]]]:
    """The images in a picture as rows of colours, read by another decoder."""
    found = []
    for text in re.findall(r'href="data:image/png;base64,([^"]+)"', drawn):
        image = Image.open(io.BytesIO(base64.b64decode(text))).convert("RGB")
        image.load()
        places = [[image.getpixel((x, y)) for x in range(image.width)] for y in range(image.height)]
        found.append([[f"#{''.join(f'{part:02x}' for part in place)}" for place in row] for row in places])  # type: ignore[union-attr]
    return found


def test_places_are_as_dark_as_a_thread_accesses_a_page() -> None:
    drawn = density_map(HALVES, "c1", "title")
    assert drawn is not None
    none, least, *_, most = DEPTH_COLOURS
    mean_reads, reads, _, writes = images(str(draw_density(drawn)))
    assert reads == [[most, most, none, none], [none, none, most, most]]  # 400 a page
    assert writes[0] == [least] * 4  # 1 a page
    between = {DEPTH_COLOURS.index(colour) for colour in writes[1][2:]}  # 40 a page
    assert writes[1][:2] == [none, none] and min(between) > 1 and max(between) < 6
    assert len(mean_reads) == 1 and len(set(mean_reads[0])) == 1 and none not in mean_reads[0]
    assert drawn.text == "3.2 k reads and 168 writes. First touched by 2 threads, 75 % of it by thread 0."


def test_who_was_first_is_marked_and_rows_and_columns_tell_their_numbers() -> None:
    drawn = density_map(HALVES, "c1", "title")
    assert drawn is not None
    assert [(each.begin, each.end, each.row) for each in drawn.first] == [(0, 3, 0), (3, 4, 1)]
    assert drawn.first[1].tip == "pages 6 to 7\nfirst touched by thread 1"
    tip = ["thread 0", "1.6 k reads, 8 writes", "most in pages 0 to 1", "touched some 6 pages first"]
    assert drawn.tips[0].splitlines() == tip
    assert drawn.panels[1].tips[2] == "pages 4 to 5\n82 writes by 2 of 2 rows"
    assert drawn.pages == 8


def test_what_was_never_written_has_no_picture_of_writes() -> None:
    drawn = density_map(HALVES._replace(writes=((0,) * 4,) * 2), "c1", "title")
    assert drawn is not None and [panel.name for panel in drawn.panels] == ["reads"]
    assert density_map(HALVES._replace(reads=((0,) * 4,) * 2, writes=((0,) * 4,) * 2), "c1", "title") is None


def test_thousands_of_rows_and_columns_are_put_together_with_their_neighbours() -> None:
    threads, bins = 3 * MOST_ROWS, 5 * MOST_COLUMNS
    diagonal = tuple(tuple(int(at * threads // bins == row) for at in range(bins)) for row in range(threads))
    first = tuple(at * threads // bins for at in range(bins))
    density = Density(1, tuple(range(0, 4 * threads, 4)), diagonal, ((0,) * bins,) * threads, first, 4)
    drawn = density_map(density, "c1", "title")
    assert drawn is not None
    (panel,) = drawn.panels
    assert panel.depths.shape == (MOST_ROWS, MOST_COLUMNS)
    assert {(row, row) for row in range(256)} <= set(zip(*panel.depths.nonzero(), strict=True))
    assert panel.depths.astype(bool).sum(axis=0).max() <= 2  # the diagonal stays one
    assert drawn.names[:2] == ("threads 0–11", "threads 12–23")
    assert all(before.row < after.row for before, after in pairwise(drawn.first))
    assert len(str(draw_density(drawn))) < 200_000


def test_a_row_of_one_thread_is_not_taken_for_a_group() -> None:
    drawn = density_map(HALVES._replace(threads=(0, 32), first=(0, 0, 32, -1)), "c1", "title")
    assert drawn is not None and drawn.names == ("thread 0", "thread 32")
    assert [(each.begin, each.end, each.row) for each in drawn.first] == [(0, 2, 0), (2, 3, 1)]


@given(
    st.integers(1, 5).flatmap(
        lambda bins: st.lists(st.lists(st.integers(0, 10**6), min_size=bins, max_size=bins), min_size=1)
    ),
    st.integers(1, 9),
)
def test_numbers_by_thread_are_those_of_the_density(counts: list[list[int]], pages: int) -> None:
    rows = tuple(map(tuple, counts))
    first = tuple(at % len(rows) for at in range(len(rows[0])))
    found = thread_accesses(Density(pages, tuple(range(len(rows))), rows, rows, first))
    assert [each.reads for each in found] == [sum(row) for row in rows]
    assert sum(each.first for each in found) == pages * len(first)
    for each, row in zip(found, rows, strict=True):
        assert row[each.busiest[0] // pages] == max(row)


def structure(name: str, size: int, reads: int, writes: int) -> Structure:
    return Structure(name, "heap", "", size, 1, reads, writes, 1, {"private": 1}, 1, 0, 1.0)


def test_bars_are_parts_of_all_bytes_and_accesses() -> None:
    found = [structure("a", 100, 0, 0), structure("b", 300, 60, 20), structure("c", 0, 0, 20)]
    chart = structure_bars(found, "c1", "title")
    bars = {
        (part.name, part.tip.split()[0]): (line[0][0], line[1][0])
        for trace in chart.traces
        for part in (trace, *trace.over)
        for line in part.lines
    }
    assert [tick.label for tick in chart.y.ticks] == ["b", "a", "c"]
    assert bars == {
        ("size", "a"): (0.0, 0.25), ("size", "b"): (0.0, 0.75),
        ("reads", "b"): (0.0, 0.6), ("writes", "b"): (0.6, 0.8), ("writes", "c"): (0.0, 0.2),
    }  # fmt: skip
    assert "b 75 % of the bytes, 80 % of the accesses" in chart.text


@pytest.mark.parametrize("sizes", [[0], [1] * 2000, [1, 10**12]])
def test_structures_without_size_or_of_very_many_sizes_have_bars(sizes: list[int]) -> None:
    chart = structure_bars([structure(f"s{at}", size, 0, 0) for at, size in enumerate(sizes)], "c1", "title")
    assert 1 <= len(chart.y.ticks) <= 24 and str(draw(chart)).startswith("<svg")


def test_kinds_of_sharing_stand_one_above_the_other() -> None:
    found = moments(
        [
            SharingInterval(0.0, 1.0, "a", {"private": 3}),
            SharingInterval(1.0, 2.0, "a", {"private": 1, "false-shared": 2}),
            SharingInterval(1.0, 2.0, "b", {"false-shared": 1}),
        ]
    )
    chart = sharing_chart(found, 2.0, "c1", "title", 200)
    bands = {trace.name: trace.bands[0] for trace in chart.traces}
    assert bands["private"] == (
        (0.0, 3), (1.0, 3), (1.0, 1), (2.0, 1), (2.0, 0), (1.0, 0), (1.0, 0), (0.0, 0),
    )  # fmt: skip
    assert bands["false-shared"][:4] == ((0.0, 3), (1.0, 3), (1.0, 4), (2.0, 4))
    assert "42.9 % false-shared" in chart.text
    assert moments([], "a") == []


# --- the section -------------------------------------------------------------------------------------------


def built(folder: Path, found: MemoryUse) -> list[Block]:
    return list(memory.build(made(folder, found)))


def made(folder: Path, found: MemoryUse | None) -> Report:
    job = Job(2)
    job.compute(1.0, 2.0)
    job.collective("MPI_Allreduce")
    put(observed_runs(folder, job.profiles()), **({"memory": found} if found else {}))
    return Report(read_runs([folder]), folder)


def tables(blocks: list[Block]) -> dict[str, Table]:
    alone = [block for block in blocks if isinstance(block, Table)]
    below = [table for block in blocks if isinstance(block, Figure) for table in block.tables]
    return {table.caption: table for table in (*alone, *below)}


def test_the_section_says_what_is_wrong_and_how_it_was_looked_at(tmp_path: Path) -> None:
    blocks = built(tmp_path / "run", memory_use(rank_memory(2, 8)))
    seen, wrong = (block for block in blocks if isinstance(block, Listing))
    how, slower, *_ = (cell.text for cell in seen.items)
    assert how.startswith("every access of code by npc program cc, by pages of 4096 and cache lines of 64 B")
    assert slower.startswith("so observed it ran 4 s, 12 times as long as without (Tabarnac, of the NAS")
    assert wrong.items[0].text == (
        "false sharing. counts: 2 threads write other words of one cache line 400 M times. To do: give each "
        "thread's counter a line of its own: alignas(64). Gain at most: 17 s of waiting for the line."
    )
    titles = [block.title.partition(":")[0] for block in blocks if isinstance(block, Figure)]
    assert titles == [
        "Size and use", "Threads and pages of B", "Threads and pages of C", "Threads and pages of A",
        "Threads and pages of bins", "Sharing over time", "Sharing of bins over time",
        "Sharing of counts over time",
    ]  # fmt: skip


def test_hints_of_one_rule_say_once_what_to_do(tmp_path: Path) -> None:
    same = HINTS[1]._replace(structure="A", evidence="thread 0 touched all of it")
    blocks = built(tmp_path / "run", memory_use(rank_memory(2, 8), hints=(HINTS[1], same)))
    (wrong,) = [block for block in blocks if isinstance(block, Listing)][1:]
    (line,) = [cell.text for cell in wrong.items]
    assert line.count(HINTS[1].do) == 1 and "A: thread 0 touched all of it." in line


def test_tables_have_the_numbers_of_every_picture(tmp_path: Path) -> None:
    found = tables(built(tmp_path / "run", memory_use(rank_memory(2, 8))))
    rows = {row[0].text: [cell.text for cell in row] for row in found["Numbers: 8 structures"].rows}
    assert rows["C"][2:8] == ["matmul.c:14", "16 MiB", "1", "115.2 M", "115.2 M", "39.1 %"]
    assert rows["C"][10:12] == ["1 false-shared", "thread 0: 50 %"]
    (line,) = found["Cache lines that threads contend for"].rows
    assert [cell.text for cell in line][:4] == ["counts + 0 B", "", "false-shared", "0, 1"]
    assert line[6].text == "thread 0 writes counts[0]; thread 1 writes counts[1]"
    (place,) = found["Where pages lie"].rows
    assert [cell.text for cell in place] == ["B", "node 0: 4096, node 1: 0", "50 %", "50 %", "2 %"]
    assert len(found["Numbers by thread: B"].rows) == 2
    assert len(found["Numbers: touched pages of counts"].rows) == 30


def test_ranks_stand_side_by_side_and_the_busiest_is_drawn(tmp_path: Path) -> None:
    ranks = [replace(rank_memory(2, 8, rank=number, numa=False), reads=number) for number in range(3)]
    hint = HINTS[0]._replace(rank=1, ranks=3)
    use = memory_use(*ranks, ranks_seen=64, rest=ranks[0].structures, hints=(hint,))
    blocks = built(tmp_path / "run", use)
    found = tables(blocks)
    assert [row[0].text for row in found["Ranks that are kept in detail"].rows] == [
        "rank 0",
        "rank 1",
        "rank 2",
    ]
    assert "All other ranks together: 8 structures" in found
    assert len(found["Cache lines that threads contend for"].rows) == 3
    text = str(blocks)
    for words in (
        "app, 2 ranks on 1 node, rank 2",
        "3 of 64 ranks",
        "counts (rank 1 and 2 more)",
        "one NUMA node",
    ):
        assert words in text, words


def test_sampled_numbers_are_not_called_accesses(tmp_path: Path) -> None:
    rank = replace(rank_memory(2, 8), guarded=0.25)
    use = memory_use(rank, mode="sampling", source="first accesses, every 0.1 s", hints=())
    text = str(built(tmp_path / "run", use))
    assert "first accesses, every 0.1 s, of 25 % of the pages at a time: numbers say who shares" in text
    assert "Nothing looks wrong" in text and "every access" not in text


def test_without_memory_the_reason_stands_there(tmp_path: Path) -> None:
    nothing = MemoryUse(status="unavailable: the program is not built by npc program cc")
    assert "unavailable: the program is not built by npc program cc" in str(built(tmp_path / "one", nothing))
    assert "no rank left anything" in str(built(tmp_path / "two", MemoryUse(status="ok")))
    with pytest.raises(NothingToShow, match="npc observe --memory"):
        list(memory.build(made(tmp_path / "three", None)))


@pytest.mark.parametrize("threads", [64, 4000])
def test_thousands_of_threads_and_hundreds_of_structures_stay_small(tmp_path: Path, threads: int) -> None:
    made(tmp_path / "run", memory_use(rank_memory(threads, 200)))
    assert CliRunner().invoke(report, [str(tmp_path / "run")]).exit_code == 0
    page = (tmp_path / "run/report.html").read_text(encoding="utf-8")
    assert len(page) < 1_000_000 and page.count("data:image/png") == 16
    assert "img-src data:;" in page


def test_hostile_names_stay_text(tmp_path: Path) -> None:
    rank = rank_memory(2, 8)
    named = tuple(each._replace(name=HOSTILE + each.name, where=HOSTILE) for each in rank.structures)
    intervals = tuple(each._replace(structure=HOSTILE) for each in rank.intervals)
    lines = tuple(each._replace(structure=HOSTILE, words=(HOSTILE,)) for each in rank.lines)
    hostile = replace(
        rank, structures=named, intervals=intervals, lines=lines, host=HOSTILE, notes=(HOSTILE,)
    )
    made(tmp_path / "run", memory_use(hostile, source=HOSTILE))
    assert CliRunner().invoke(report, [str(tmp_path / "run")]).exit_code == 0
    page = (tmp_path / "run/report.html").read_text(encoding="utf-8")
    assert "<img" not in page and "<svg/" not in page
