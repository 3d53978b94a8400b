"""Stacks as perf prints them, and what becomes of those of many ranks: no perf is needed here."""

from __future__ import annotations

import math
import shutil
import stat
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binomtest

from npc.observe.hotspots.bounds import bound_of, is_mpi, kind_of
from npc.observe.hotspots.merge import RankStacks, merge, read_hotspots
from npc.observe.hotspots.perf import find_perf, perf_access
from npc.observe.hotspots.recorder import is_counted
from npc.observe.hotspots.records import Hotspot, Hotspots
from npc.observe.hotspots.stack_file import OTHER, save, to_document
from npc.observe.hotspots.stacks import JIT, KERNEL, NOWHERE, Stacks
from npc.observe.hotspots.table import hotspots as table
from npc.observe.hotspots.table import wilson
from npc.parsers.observed import parse
from npc.records.series import OBSERVED
from tests.lab.in_process import npc

#: perf 6.1.187: perf record -e cpu-clock -e page-faults/call-graph=no,freq=99/ -g ./app;
#: perf script --show-mmap-events --show-lost-events -F pid,event,period,ip,sym,symoff,dso
PRINTED = """\
PERF_RECORD_MMAP -1/0: [0xffffffff81000000(0x120bb08) @ 0xffffffff81000000]: x [kernel.kallsyms]_text
PERF_RECORD_MMAP2 24279/24279: [0x555ded2f9000(0x1000) @ 0x1000 fe:00 99 14]: r-xp /nowhere/app
PERF_RECORD_MMAP2 24279/24279: [0x7f5695580000(0x2000) @ 0 00:00 0 0]: r-xp [vdso]
24279          1 page-faults/call-graph=no,freq=99/:  ffffffff817554ea elf_load+0x28a ([kernel.kallsyms])
24279         55 page-faults/call-graph=no,freq=99/:      555ded2f926c heavy+0xac (/nowhere/app)
24279   10101010                 cpu-clock: 
\t            126c heavy+0xac (/nowhere/app)
\t            10a2 main+0x42 (/nowhere/app)
\t           2724a __libc_start_call_main+0x7a (/usr/lib/nowhere/libc.so.6)

24279   10101010                 cpu-clock: 
\t    555ded2f926c heavy+0xac (/nowhere/app)
\t            10a2 main+0x42 (/nowhere/app)
\t           2724a __libc_start_call_main+0x7a (/usr/lib/nowhere/libc.so.6)

PERF_RECORD_LOST lost 12
24279   10101010                 cpu-clock: 
\tffffffff817554ea elf_load+0x28a ([kernel.kallsyms])
\t            1130 operator()(int) const+0x20 (/nowhere/a lib (1).so (deleted))
\t            1130 inside (inlined)
\t            10a2 main+0x42 (/nowhere/app)

24279   10101010                 cpu-clock:u: 
\t    7f0000000010 [unknown] (//anon)
\t    3ff0000000000000 [unknown] ([unknown])
\t    4ff0000000000000 [unknown] ([unknown])

24279   10101010                 cpu-clock: 
\t            1348 [unknown] (/nowhere/app)
"""  # noqa: W291  perf ends these lines with a blank

APP, LIBC = "/nowhere/app", "/usr/lib/nowhere/libc.so.6"


@pytest.fixture(name="stacks")
def printed() -> Stacks:
    stacks = Stacks()
    stacks.read(PRINTED.splitlines(keepends=True))
    return stacks


def named(stacks: Stacks) -> Counter[tuple[tuple[str, str], ...]]:
    """The stacks by name."""
    found: Counter[tuple[tuple[str, str], ...]] = Counter()
    for stack, count in stacks.counts.items():
        found[tuple(stacks.functions[place] for place in stack)] += count
    return found


def test_stacks_are_counted_outermost_first(stacks: Stacks) -> None:
    start = ("__libc_start_call_main", LIBC)
    library = "/nowhere/a lib (1).so"
    assert named(stacks) == {
        (start, ("main", APP), ("heavy", APP)): 2,
        (("main", APP), ("inside", APP), ("operator()(int) const", library), ("elf_load", KERNEL)): 1,
        (("0x7f0000000010", JIT),): 1,  # where no code lies ends the stack
        (("0x1348", APP),): 1,
    }
    assert stacks.samples == 5
    assert stacks.lost == 12


def test_addresses_in_memory_and_in_the_file_are_one(stacks: Stacks) -> None:
    heavy = stacks.functions.index(("heavy", APP))
    assert stacks.addresses[heavy] == {0x126C: 2}


def test_events_of_the_hardware_are_summed_by_function(stacks: Stacks) -> None:
    heavy, system = (stacks.functions.index(each) for each in (("heavy", APP), ("elf_load", KERNEL)))
    assert stacks.events[heavy] == {"page-faults": 55}
    assert stacks.events[system] == {"page-faults": 1}


def test_a_stack_without_its_beginning_is_cut(stacks: Stacks) -> None:
    document = to_document(stacks, {})
    assert document["cut"] == 2  # the two without symbols; main is a beginning
    assert document["unnamed"] == 2


@pytest.mark.parametrize(
    ("printed", "cut"),
    [
        ("\t1 memset+0x1 (/lib/libc.so.6)\n", 1),  # what called it is not known
        ("\t1 f+0x1 (/app)\n\t2 [unknown] (/lib/libc.so.6)\n", 0),  # a stripped libc has no name for it
        ("\t1 f+0x1 (/app)\n\t2 clone3+0x2c (/lib/libc.so.6)\n", 0),
        ("\t1 f+0x1 (/app)\n\t2 g+0x2 (/app)\n", 1),
    ],
)
def test_whole_stacks_go_down_to_where_threads_begin(printed: str, cut: int) -> None:
    stacks = Stacks()
    stacks.read(["7 1 cpu-clock: \n", *printed.splitlines(keepends=True)])
    assert to_document(stacks, {})["cut"] == cut


def test_nonsense_is_no_stack() -> None:
    stacks = Stacks()
    stacks.read(["what is this?\n", "7 1 cpu-clock: \n", "\tnot a frame\n", "\n"])
    assert named(stacks) == {((NOWHERE, NOWHERE),): 1}


@pytest.mark.parametrize(
    ("stack", "kind"),
    [
        ([("main", APP), ("PMPI_Wait", "/usr/lib/libmpi.so.40"), ("write", LIBC)], "mpi"),
        ([("0x4d50", "/usr/lib/openmpi/mca_btl_vader.so")], "mpi"),
        ([("uct_rc_iface_progress", "/usr/lib/libuct_ib.so.0")], "mpi"),
        ([("main", APP), ("__GI___libc_write", LIBC), ("vfs_write", KERNEL)], "io"),
        ([("main", APP), ("ksys_read", KERNEL), ("ext4_file_read_iter", KERNEL)], "io"),
        ([("send", LIBC), ("vfs_write", KERNEL), ("tcp_sendmsg", KERNEL)], "network"),
        ([("main", APP), ("readings", APP)], ""),
        ([("mpi_halo_", APP)], ""),  # a name of the program's own
        ([("main", APP), ("asm_exc_page_fault", KERNEL)], ""),
    ],
)
def test_what_a_stack_is_in(stack: list[tuple[str, str]], kind: str) -> None:
    assert kind_of(stack) == kind


@pytest.mark.parametrize("module", ["libmpich.so.12", "libpsm2.so.2", "libfabric.so.1", "libopen-pal.so.40"])
def test_libraries_of_mpi(module: str) -> None:
    assert is_mpi("0x10", f"/opt/{module}")
    assert not is_mpi("0x10", f"/opt/not{module}")


GHZ, SECONDS = 3e9, 10.0


@pytest.mark.parametrize(
    ("instructions_a_cycle", "misses_a_second", "bound"),
    [
        (0.4, 20e6, "memory"),  # 20e6/s × 80 ns = 1.6 on their way
        (0.4, 1e6, "unknown"),
        (2.5, 1e5, "compute"),
        (2.5, 20e6, "memory"),
    ],
)
def test_counters_tell_memory_from_computing(
    instructions_a_cycle: float, misses_a_second: float, bound: str
) -> None:
    events = {
        "cycles": int(GHZ * SECONDS),
        "instructions": int(instructions_a_cycle * GHZ * SECONDS),
        "LLC-load-misses": int(misses_a_second * SECONDS),
    }
    found, _, metrics = bound_of(990, {}, events, 99.0, "")
    assert found == bound
    assert metrics["ipc"] == pytest.approx(instructions_a_cycle)
    assert metrics["llc_misses_per_instruction"] == pytest.approx(
        misses_a_second / (instructions_a_cycle * GHZ)
    )
    assert metrics["loads_from_memory"] == pytest.approx(misses_a_second * 80e-9)
    assert bound_of(29, {}, events, 2.9, "")[0] == "unknown"  # of too few samples
    assert bound_of(990, {"mpi": 600}, events, 99.0, "")[0] == "mpi"


#: perf 6.1.187: perf stat -x ';' -e cycles,instructions,page-faults,cpu-clock -- true
COUNTED = """\
<not supported>;;cycles;0;100.00;;
49;;page-faults:u;668273;100.00;73.660;K/sec
0.67;msec;cpu-clock;668273;100.00;0.169;CPUs utilized
"""


@pytest.mark.parametrize(("event", "is_there"), [("cycles", False), ("page-faults", True), ("other", False)])
def test_only_events_that_the_processor_counts_are_asked_for(event: str, is_there: bool) -> None:
    assert is_counted(event, COUNTED) == is_there


@pytest.mark.parametrize(
    "event",
    ["cycles:u", "cycles/call-graph=no,freq=99/", "cycles/call-graph=no,freq=99/u", "cpu_core/cycles/"],
)
def test_events_have_their_plain_names(event: str) -> None:
    stacks = Stacks()
    stacks.read([f"7 2000000 {event}:      126c heavy+0xac (/nowhere/app)\n"] * 2)
    assert dict(stacks.events) == {0: {"cycles": 4000000}}


def test_without_counters_there_is_the_reason() -> None:
    told = bound_of(990, {"mpi": 400}, {}, 99.0, "no hardware counters here")
    assert told == ("unknown", "no hardware counters here", {})


ABOUT = {
    "status": "ok", "source": "perf 6.1, cpu-clock", "rate": 99.0, "kernel": True, "counters": "",
    "notes": [],
}  # fmt: skip
STACKS = st.lists(st.sampled_from("abcde"), min_size=1, max_size=6).map(tuple)
#: Samples of each stack of functions "a" to "e": few enough for none to be rare among its rank's.
COUNTS = st.dictionaries(STACKS, st.integers(1, 150), max_size=12)


def rank_stacks(counts: dict[tuple[str, ...], int]) -> RankStacks:
    """What a rank with these stacks leaves, by way of its file."""
    blocks = [
        [f"\t{ord(name):x} {name}+0x0 (/nowhere/app)\n" for name in reversed(stack)] for stack in counts
    ]
    text = "\n".join("7 10101010 cpu-clock: \n" + "".join(block) for block in blocks)
    stacks = Stacks()
    stacks.read(text.splitlines(keepends=True))
    for stack, count in zip(list(stacks.counts), counts.values(), strict=True):
        stacks.counts[stack] = count
    return msgspec.convert(to_document(stacks, ABOUT), RankStacks)


@settings(max_examples=40)
@given(st.lists(COUNTS, min_size=1, max_size=4))
def test_the_tree_of_all_ranks_has_every_sample_once(ranks: list[dict[tuple[str, ...], int]]) -> None:
    merged = merge(map(rank_stacks, ranks))
    everything: Counter[tuple[str, ...]] = Counter()
    for counts in ranks:
        everything.update(counts)
    total = everything.total()
    assert merged.samples == total
    assert sum(frame.own for frame in merged.frames) == total
    paths: list[tuple[str, ...]] = []
    for place, frame in enumerate(merged.frames):
        assert frame.parent < place or place == 0
        paths.append((*paths[frame.parent], frame.function) if place else ())
        if all(sum(counts.values()) >= 100 for counts in ranks):
            assert frame.least - 1e-9 <= frame.samples / total <= frame.most + 1e-9
        if frame.function != OTHER:
            below = [n for stack, n in everything.items() if stack[: len(paths[place])] == paths[place]]
            assert frame.samples == sum(below)
            assert frame.own == everything[paths[place]] if place else frame.own == 0
        else:
            assert frame.samples < 0.001 * total * len(everything) * len(ranks)
    own = {each.function: each.share * total for each in merged.hotspots}
    for function in "abcde":
        there = sum(n for stack, n in everything.items() if stack[-1] == function)
        if there >= 0.005 * total and there:
            assert own[function] == pytest.approx(there)


def test_the_spread_is_of_ranks_with_enough_samples() -> None:
    merged = merge([rank_stacks({("a",): 900, ("b",): 100}), rank_stacks({("a",): 500, ("b",): 500}),
                    rank_stacks({("c",): 3})])  # fmt: skip
    hottest = merged.hotspots[0]
    assert (hottest.function, hottest.least, hottest.most) == ("a", 0.5, 0.9)
    assert hottest.share == pytest.approx(1400 / 2003)
    assert any("fewer than 100 samples" in note for note in merged.notes)


def test_what_is_rare_is_counted_together() -> None:
    merged = merge([rank_stacks({("a",): 99_000, **{("a", "b", name): 3 for name in "cde"}})])
    assert [(frame.function, frame.samples) for frame in merged.frames] == [
        ("", 99_009), ("a", 99_009), (OTHER, 9),
    ]  # fmt: skip


def test_ranks_without_stacks_say_why(tmp_path: Path) -> None:
    reason = "unavailable: there is no perf here"
    save(to_document(Stacks(), {**ABOUT, "status": reason}), tmp_path / "n1.0.stacks")
    damaged: list[str] = []
    assert read_hotspots(tmp_path, damaged) == Hotspots(status=reason)
    save(msgspec.to_builtins(rank_stacks({("a",): 200})), tmp_path / "n0.1.stacks")
    merged = read_hotspots(tmp_path, damaged)
    assert merged is not None and not damaged
    assert (merged.samples, merged.ranks) == (200, 1)
    assert f"stacks of 1 ranks: {reason}" in merged.notes
    (tmp_path / "n0.2.stacks").write_text("{", encoding="utf-8")
    rank = rank_stacks({("a",): 200})
    rank.tree.append((7, 0, 1, 1))
    save(msgspec.to_builtins(rank), tmp_path / "n0.3.stacks")
    assert read_hotspots(tmp_path, damaged) == merged, "what is damaged costs itself alone"
    assert [each.partition(" is damaged: ")[0] for each in damaged] == ["n0.2.stacks", "n0.3.stacks"]


def test_amdahl_bounds_what_a_hotspot_can_give() -> None:
    hotspot = Hotspot("f", "app", 0.7, 0.7, 0.7, "unknown", "")
    assert hotspot.speedup(2) == pytest.approx(1 / 0.65)
    assert hotspot.speedup(math.inf) == pytest.approx(1 / 0.3)


def test_wilson_s_interval() -> None:
    ours, theirs = wilson(0.7, 1000), binomtest(700, 1000).proportion_ci(0.95, "wilson")
    assert ours == pytest.approx((theirs.low, theirs.high), abs=1e-6)
    assert wilson(0.0, 0) == (0.0, 1.0)


def test_the_table_shows_shares_bounds_and_what_a_change_gives() -> None:
    lines = list(table(merge([rank_stacks({("a",): 700, ("b",): 300})])))
    assert "1000 samples of 1 rank at 99 Hz, 10.1 s of CPU time" in lines[0]
    row = next(line for line in lines if line.split()[0] == "a")
    assert row.split()[1:] == ["(app)", "70.0%", "±2.8%", "70%-70%", "1.54x", "3.33x", "unknown"]


def test_readings_are_seconds_of_a_rank_in_functions_with_names() -> None:
    merged = merge([rank_stacks({("a",): 990}), rank_stacks({("b",): 990})])
    document: dict[str, Any] = {
        "schema": 3, "reported": {}, "nodes": [], "messages": None, "ranks": 2,
        "hotspots": msgspec.to_builtins(merged),
    }  # fmt: skip
    readings = [each for each in parse(msgspec.json.encode(document).decode()) if each.case == OBSERVED]
    assert [(each.params.get("kind"), each.value) for each in readings] == [
        (None, 10.0), ("a (app)", 5.0), ("b (app)", 5.0),
    ]  # fmt: skip
    document["hotspots"] = msgspec.to_builtins(Hotspots(status="unavailable: there is no perf here"))
    (reading,) = parse(msgspec.json.encode(document).decode())
    assert (reading.value, reading.status) == (None, "unavailable: there is no perf here")


@pytest.mark.parametrize(
    ("paranoid", "capabilities", "sees", "line"),
    [
        ("-1", 0, (True, True), ""),
        ("1", 0, (True, True), ""),
        ("2", 0, (True, False), "=1"),
        ("3", 0, (False, False), "=2"),
        ("4", 1 << 38, (True, True), ""),  # CAP_PERFMON
        ("4", 1 << 21, (True, True), ""),  # CAP_SYS_ADMIN
        (None, 0, (False, False), "CONFIG_PERF_EVENTS"),
    ],
)
def test_what_perf_may_see(
    paranoid: str | None, capabilities: int, sees: tuple[bool, bool], line: str, tmp_path: Path
) -> None:
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/status").write_text(f"Name:\tx\nCapEff:\t{capabilities:016x}\n")
    if paranoid is not None:
        (tmp_path / "proc/sys/kernel").mkdir(parents=True)
        (tmp_path / "proc/sys/kernel/perf_event_paranoid").write_text(f"{paranoid}\n")
    seen = perf_access(tmp_path)
    assert (seen.own, seen.kernel) == sees
    assert line in seen.line
    assert bool(seen.line) == (not all(sees))


@pytest.mark.skipif(shutil.which("perf") is None, reason="needs perf")
def test_the_perf_of_another_kernel_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wrapper = tmp_path / "bin/perf"
    wrapper.parent.mkdir()
    wrapper.write_text("#!/bin/sh\necho WARNING: perf not found for kernel 5.15.0-91 >&2\nexit 2\n")
    wrapper.chmod(wrapper.stat().st_mode | stat.S_IXUSR)
    real = shutil.which("perf")
    assert real is not None
    monkeypatch.setenv("PATH", str(wrapper.parent), prepend=":")
    assert "perf not found for kernel 5.15.0-91" in find_perf(tmp_path).problem
    other = tmp_path / "usr/lib/linux-tools/5.15.0-90-generic/perf"
    other.parent.mkdir(parents=True)
    other.symlink_to(real)
    assert find_perf(tmp_path).path == str(other)
    monkeypatch.setenv("PATH", str(tmp_path))
    other.unlink()
    assert "there is no perf here" in find_perf(tmp_path).problem


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--rate", "99"], "go with --hotspots"),
        (["--call-graph", "dwarf"], "go with --hotspots"),
        (["--hotspots", "--rate", "0"], "--rate"),
        (["--hotspots", "--call-graph", "magic"], "--call-graph"),
    ],
)
def test_wrong_options_end_in_one_clear_line(words: list[str], said: str, tmp_path: Path) -> None:
    ended = npc("observe", *words, "--", "true", cwd=tmp_path)
    assert ended.returncode == 2
    assert said in ended.stderr
    assert not list(tmp_path.iterdir())
