"""Probes: what is asked for, the programs of bpftrace, what it prints, and names."""

from __future__ import annotations

import json
import os
import platform
import re
import shutil
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

import pytest

from npc.observe.probes.bpftrace import Bpftrace, Budget, program_text
from npc.observe.probes.catalogue import (
    FUNCTION,
    NAMED,
    USDT,
    RequestedProbe,
    budget_check,
    program,
    read_wanted,
)
from npc.observe.probes.node_file import read_probes
from npc.observe.probes.places import NoFunction, find
from npc.observe.probes.records import NodeProbe, ProbeRow, Probes
from npc.observe.probes.rows import calls, rows_of
from npc.observe.probes.settings import settings_of
from npc.observe.probes.table import probes
from npc.observe.rank_files import PortReading, WatchedRank
from npc.parsers.observed import parse
from tests.paths import ROOT

LIBC = next(iter(Path("/usr/lib").glob("*-linux-gnu/libc.so.6")), None)
HEADER = Path("/usr/include/x86_64-linux-gnu/asm/unistd_64.h")

#: In the words of bpftrace 0.17.0 and 0.23.2 (helper_error): calls of a function, interrupted.
PRINTED = """\
{"type": "attached_probes", "data": {"probes": 10}}
{"type": "printf", "data": "attached\\n"}
{"type": "printf", "data": "rank 1 4321\\n"}
{"type": "printf", "data": "rank 2 4322\\n"}
{"type": "hist", "data": {"@durations": {"1,0": [{"min": 8192, "max": 16383, "count": 3}, \
{"min": 16384, "max": 32767, "count": 0}, {"min": 32768, "max": 65535, "count": 1}]}}}
{"type": "map", "data": {"@seconds": {"1,0": 71000}}}
{"type": "printf", "data": "snapshot\\n"}
{"type": "printf", "data": "over 2 7300 120000000\\n"}
{"type": "printf", "data": "over 1 7200 110000000\\n"}
{"type": "map", "data": {"@events": {"2,0": 2, "1,0": 5}}}
ERROR: Unknown error -1: couldn't set RLIMIT_MEMLOCK for bpftrace. If your program is not loading, you can try
{"type": "helper_error", "msg": "Can't delete map element because it does not exist.", "helper": \
"map_delete_elem", "retcode": -2, "line": 5, "col": 39}
{"type": "lost_events", "data": {"events": 7}}
{"type": "printf", "data": "end\\n"}


{"type": "hist", "data": {"@durations": {"1,0": [{"min": 0, "max": 0, "count": 1}, \
{"min": 8192, "max": 16383, "count": 4}], "2,0": []}}}
"""


@pytest.fixture
def tracer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bpftrace:
    """Of a bpftrace that prints what a real one has printed."""
    script = tmp_path / "bpftrace"
    (tmp_path / "printed").write_text(PRINTED)
    script.write_text(
        f'#!/bin/sh\n[ "$1" = --version ] && echo "bpftrace v0.17.0" && exit\ncat {tmp_path}/printed\n'
    )
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    places = {"ENTRIES": "uprobe:a:b", "RETURNS": "uretprobe:a:b"}
    text = program_text(FUNCTION, 1234567, 1, places, Budget.of(13e-6, 0.02))
    started = Bpftrace(text, tmp_path / "a.bt", 4096, os.sched_getaffinity(0))
    while started.read():
        os.sched_yield()
    started.close(5)
    return started


def test_what_bpftrace_prints_is_read(tracer: Bpftrace) -> None:
    assert tracer.attached
    assert [tuple(process) for process in tracer.watched] == [(0, 4321), (1, 4322)]
    assert tracer.lost == 7
    assert tracer.messages == []
    assert tracer.overrun is not None  # the first one, since the second was made while bpftrace ended
    assert tracer.overrun[:3] == (1, 7300, pytest.approx(0.12))
    assert tracer.maps["@seconds"] == {(1, 0): 71000}
    assert tracer.maps["@durations"] == {(1, 0): {0: 1, 13: 4}, (2, 0): {}}
    assert rows_of(RequestedProbe("function:daxpy", FUNCTION, "daxpy"), tracer.maps) == (
        ProbeRow(0, "daxpy", 5, 5, 71e-6, None, {0: 1, 13: 4}),
        ProbeRow(1, "daxpy", 2, 0, 0.0, None, {}),
    )


def test_a_full_map_is_noticed(tracer: Bpftrace) -> None:
    assert not tracer.is_full
    tracer.keys = 2  # two classes of one histogram are two entries
    assert tracer.is_full


@pytest.mark.parametrize("kind", [*NAMED, FUNCTION, USDT])
def test_a_program_knows_the_ranks_and_prints_its_maps(kind: str) -> None:
    source = program(kind)
    own = re.findall(r"@\w+", source.text)
    assert {"@rank", "@announced"} <= set(own)
    # what is neither printed nor cleared would be printed at the end, key by key
    assert set(own) - {"@rank", "@announced"} == {*source.maps, *source.scratch}


def test_what_limits_a_program_clears_its_maps() -> None:
    source = budget_check()
    assert set(re.findall(r"@\w+", source.text)) == set(source.scratch)


PLACES = dict.fromkeys(("ENTRIES", "RETURNS", "PLACES", "READ", "WRITE", "FLUSH"), "here")


@pytest.mark.parametrize("kind", [*NAMED, FUNCTION, USDT])
def test_a_program_with_a_budget_pays_for_its_events_and_clears_what_that_takes(kind: str) -> None:
    limited = program_text(kind, 1234567, 0.5, PLACES, Budget(need_ns=650_000, grace_ns=5_000_000_000))
    assert "interval:ms:500" in limited
    assert "$NEED" not in limited
    if kind in ("tcp", "softirq"):  # their events are the node's, and what one costs is not known
        assert "exit()" not in limited
    else:
        assert "$hits * (uint64)650000 > $stretch + (uint64)5000000000" in limited
        assert "clear(@hits); clear(@since); clear(@over);" in limited
    assert "exit()" not in program_text(kind, 1234567, 0.5, PLACES)


def test_a_budget_is_the_run_time_that_pays_for_an_event() -> None:
    assert Budget.of(13e-6, 0.02) == (650_000, 5_000_000_000)
    assert Budget.of(1.7e-6, 1.0) == (1_700, 100_000_000)


@pytest.mark.parametrize(
    ("what", "expected"),
    [
        ("syscalls", RequestedProbe("syscalls", "syscalls")),
        ("function:daxpy_", RequestedProbe("function:daxpy_", "function", "daxpy_")),
        ("function:mesh::step@libmesh.so", RequestedProbe(
            "function:mesh::step@libmesh.so", "function", "mesh::step", "libmesh.so"
        )),
        ("usdt:python:gc__start@/usr/bin/python3", RequestedProbe(
            "usdt:python:gc__start@/usr/bin/python3", "usdt", "python:gc__start", "/usr/bin/python3"
        )),
    ],
)  # fmt: skip
def test_a_probe_is_named(what: str, expected: RequestedProbe) -> None:
    assert read_wanted(what) == expected


@pytest.mark.parametrize("what", ["", "calls", "function:", "usdt:gc", "syscalls:read", 'usdt:a:b"c'])
def test_what_is_no_probe_is_refused_with_those_that_there_are(what: str) -> None:
    with pytest.raises(ValueError, match=r"expected syscalls, .*function:NAME\[@LIBRARY\]"):
        settings_of([what], "a.out")


@pytest.mark.skipif(LIBC is None, reason="this machine's C library is elsewhere")
def test_a_function_is_found_where_the_program_would_load_it() -> None:
    program = sys.executable
    place = find(read_wanted("function:getpid@c"), program)
    assert place.file == os.path.realpath(str(LIBC))
    assert len(place.offsets) == 1
    assert find(read_wanted("function:getpid"), "sh").offsets == place.offsets
    with pytest.raises(NoFunction, match="IFUNC"):
        find(read_wanted("function:strlen@libc.so.6"), program)
    with pytest.raises(NoFunction, match="neither the program nor the loader knows a library libnothing"):
        find(read_wanted("function:getpid@libnothing"), program)
    with pytest.raises(NoFunction, match=r"no static probe a:b in .*bpftrace -l"):
        find(read_wanted("usdt:a:b"), program)
    with pytest.raises(NoFunction, match="no ELF file"):
        find(read_wanted(f"function:getpid@{__file__}"), program)


@pytest.mark.skipif(shutil.which("gcc") is None, reason="no gcc")
def test_a_function_that_is_not_there_says_why(tmp_path: Path) -> None:
    calls, stripped = tmp_path / "calls", tmp_path / "stripped"
    subprocess.run(["gcc", "-O1", ROOT / "tests/observe/programs/called.c", "-o", calls], check=True)
    subprocess.run(["strip", calls, "-o", stripped], check=True)
    with pytest.raises(NoFunction, match="or the compiler has inlined it"):
        find(read_wanted("function:nothing"), str(calls))
    with pytest.raises(NoFunction, match="is stripped"):
        find(read_wanted("function:called"), str(stripped))


def test_system_calls_have_names_on_every_usual_architecture(monkeypatch: pytest.MonkeyPatch) -> None:
    for machine, read, write in (("x86_64", 0, 1), ("aarch64", 63, 64), ("riscv64", 63, 64)):
        calls.cache_clear()
        monkeypatch.setattr(platform, "machine", lambda: machine)  # noqa: B023
        known = calls()
        assert known.names[read] == "read"
        assert known.names[write] == "write"
        assert {known.names[number] for number in known.reads} == {
            "read",
            "readv",
            "pread64",
            "preadv",
            "preadv2",
        }
        assert {known.names[number] for number in known.flushes} == {"fsync", "fdatasync"}
    calls.cache_clear()


@pytest.mark.skipif(not HEADER.exists(), reason=f"no {HEADER} to compare with")
def test_system_calls_are_those_of_the_kernels_header() -> None:
    defined = re.findall(r"^#define __NR_(\w+) (\d+)$", HEADER.read_text(), re.MULTILINE)
    assert len(defined) > 300
    assert {int(number): name for name, number in defined}.items() <= calls().names.items()


def test_rows_have_names() -> None:
    maps = {"@durations": {(1, 0): {12: 2}}, "@seconds": {(1, 0): 9000}, "@events": {(1, 0): 3, (1, 2): 4}}
    rows = rows_of(read_wanted("scheduler"), maps)  # type: ignore[arg-type]
    assert rows == (
        ProbeRow(0, "involuntary switches", 3, 2, 9e-6, None, {12: 2}),
        ProbeRow(0, "voluntary switches", 4),
    )
    assert rows_of(read_wanted("tcp"), {"@peers": {("::ffff:10.0.0.7",): 3}}) == (
        ProbeRow(-1, "10.0.0.7", 3),
    )


def node(**changed: object) -> NodeProbe:
    return NodeProbe(**{"probe": "syscalls", "host": "n1", "status": "attached", **changed})  # type: ignore[arg-type]


def test_nodes_are_read_together_and_late_ranks_added(tmp_path: Path) -> None:
    rows = (ProbeRow(0, "read", 2, 2, 1e-3, None, {10: 2}),)
    for name, host, rank, changed in (
        ("n1.0", "n1", 0, {"rows": rows}),
        ("n1.2", "n1", 2, {"rows": rows, "status": "stopped", "reason": "why", "share": 0.5}),
        ("n2.1", "n2", 1, {"host": "n2"}),
    ):
        content = {"host": host, "ranks": [rank], "probes": [asdict(node(**changed))]}
        (tmp_path / f"{name}.probes").write_text(json.dumps(content))
    moment = PortReading(0.0, {})
    gone = WatchedRank(
        host="n2",
        rank=3,
        ranks=4,
        idle=moment,
        begin=moment,
        end=moment,
        companions={"probes": {"reason": "it had gone"}},
    )
    (tmp_path / "n3.0.probes").write_text('{"probes": [{"probe": 1}]}')
    read, notes = read_probes(tmp_path, [gone])
    assert read is not None
    first, second = read.nodes
    assert (first.status, first.reason, first.share) == ("stopped", "why", 0.5)
    assert first.rows == (ProbeRow(0, "read", 4, 4, 2e-3, None, {10: 4}),)
    assert second.host == "n2"
    assert notes[0].startswith("n3.0.probes is damaged: ")
    assert notes[1:] == (
        "probes: n2: it had gone (1 rank)",
        "probes: not there for 1 of 1 ranks (rank 3)",
    )


def test_records_have_the_mean_of_the_ranks_and_the_rank_with_most() -> None:
    rows = (
        ProbeRow(0, "write ext4 /", 10, 10, 3e-3, 4096, {17: 10}),
        ProbeRow(1, "write ext4 /", 30, 30, 5e-3, 8192, {17: 30}),
        ProbeRow(-1, "write vda", 2, 2, 1e-3, 12288, {19: 2}),
    )
    nodes = (node(probe="io", rows=rows, share=0.5), node(status="unavailable", reason="no bpftrace"))
    document = {
        "schema": 3, "ranks": 2, "reported": {}, "nodes": [], "messages": None,
        "probes": asdict(Probes(nodes=nodes)),
    }  # fmt: skip
    readings = list(parse(json.dumps(document)))
    values = {
        (
            reading.metric,
            reading.params["kind"],
            reading.params.get("statistic", reading.params.get("side")),
        ): reading.value
        for reading in readings[:-1]
    }
    assert values == {
        ("events", "write ext4 /", "mean"): 20, ("events", "write ext4 /", "max"): 30,
        ("traffic", "write ext4 /", "mean"): 6144, ("traffic", "write ext4 /", "max"): 8192,
        ("time", "write ext4 /", "mean"): pytest.approx(4e-3), ("time", "write ext4 /", "max"): 5e-3,
        ("events", "write vda", "node"): 2, ("traffic", "write vda", "node"): 12288,
        ("time", "write vda", "node"): 1e-3,
    }  # fmt: skip
    assert readings[0].params["attached"] == "0.5"
    assert readings[-1].value is None
    assert readings[-1].status == "unavailable: no bpftrace"


def test_the_table_takes_off_what_watching_adds() -> None:
    row = ProbeRow(0, "daxpy", 10, 10, 10 * 108e-6, None, {16: 9, 20: 1})
    lines = list(probes(Probes(nodes=(
        node(probe="function:daxpy", rows=(row, row._replace(rank=1, events=20)), apparent=8e-6),
        node(probe="io", status="unavailable", reason="no bpftrace: apt-get install bpftrace"),
    ))))  # fmt: skip
    assert lines[0] == "probe function:daxpy:"
    assert re.split(" {2,}", lines[1].strip()) == ["of", "events", "time", "mean", "99 % below", "most of it"]
    assert re.split(" {2,}", lines[2].strip()) == ["daxpy", "30", "2 ms", "100 µs", "2.1 ms", "rank 1 (20)"]
    assert lines[3:] == ["probe io:", "  n1: unavailable: no bpftrace: apt-get install bpftrace"]
