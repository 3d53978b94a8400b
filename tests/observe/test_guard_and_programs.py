"""The guard with the kernel's own uprobes, and bpftrace as the probe."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from npc.observe.probes.counting import CodeAddress, Counters, NoCounter
from npc.observe.probes.places import NoFunction
from tests.lab.guarded import build, function, guarded, held
from tests.lab.uprobes import DEFINED, may_lack_uprobes, needs_uprobes

pytestmark = [pytest.mark.slow, needs_uprobes, may_lack_uprobes]


@pytest.fixture(scope="module")
def calls(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("calls"))


def defined_by(process: int) -> bool:
    """Whether the kernel has a definition of this process; other tests make theirs meanwhile."""
    return f"npc/u{process}_" in DEFINED.read_text()


@pytest.mark.measures
def test_a_function_called_ten_million_times_a_second_is_refused_within_a_second(calls: Path) -> None:
    ended = guarded(calls, "24000000", "40")
    assert ended.judgement.status == "refused"
    assert ended.judgement.rate > 5e4  # more than can be counted at that price: 77 000 a second
    assert ended.counted < 24000  # of 24 million
    assert 0 < ended.judged_s < 1
    assert "slower, and 2 % are allowed (--overhead)" in ended.judgement.reason
    assert not defined_by(os.getpid())


@pytest.mark.measures
def test_a_function_called_now_and_then_is_attached_and_counted_to_the_last_call(calls: Path) -> None:
    ended = guarded(calls, "700", "0", "500")
    assert ended.judgement.status == "attached"
    assert ended.counted == 700
    assert ended.share > 0.3
    assert ended.judgement.rate == pytest.approx(700 / ended.seconds, rel=0.1)


@pytest.mark.measures
def test_near_the_limit_it_is_attached_in_turns(calls: Path) -> None:
    ended = guarded(calls, "16000", "0", "4000")
    assert ended.judgement.status == "sampled"
    assert "attached in turns" in ended.judgement.reason
    assert 0.02 < ended.share < 0.7


def test_no_limit_means_none(calls: Path) -> None:
    ended = guarded(calls, "40000", "40", budget=1e9)
    assert ended.judgement.status == "attached"
    assert ended.counted == 40000


def test_children_and_threads_count_for_their_rank(calls: Path) -> None:
    place = function(calls, "called")
    counters = Counters(CodeAddress(place.file, *place.offsets))
    both = f"{calls} 30 0; {calls} 12 0"
    with held("/bin/sh", "-c", both) as (process, release, _output):
        counters.open(process, from_exec=True)
        os.close(release)
        os.waitpid(process, 0)
    assert counters.read() == {process: 42}
    counters.end()
    assert not defined_by(os.getpid())


def test_a_definition_that_a_killed_process_left_is_removed(calls: Path) -> None:
    place = function(calls, "called")
    point = CodeAddress(place.file, *place.offsets)
    process = os.fork()
    if process == 0:
        Counters(point)
        os.kill(os.getpid(), 9)
    os.waitpid(process, 0)
    assert defined_by(process)
    Counters(point).end()
    assert not defined_by(process) and not defined_by(os.getpid())


def test_what_cannot_be_counted_says_why(calls: Path, tmp_path: Path) -> None:
    with pytest.raises(NoCounter, match="this kernel has no tracepoint block:nothing"):
        Counters("block:nothing")
    with pytest.raises(NoCounter, match="no uprobe"):
        Counters(CodeAddress(str(tmp_path / "nothing"), 16))
    with pytest.raises(NoFunction, match="or the compiler has inlined it"):
        function(calls, "nothing")
    stripped = tmp_path / "stripped"
    subprocess.run(["strip", calls, "-o", stripped], check=True)
    with pytest.raises(NoFunction, match="is stripped"):
        function(stripped, "called")
    with pytest.raises(NoFunction, match="IFUNC"):
        function(calls, "memcpy")
    with pytest.raises(NoFunction, match="no ELF file"):
        function(calls, f"called@{__file__}")
