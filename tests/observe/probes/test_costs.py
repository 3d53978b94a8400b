"""What an event costs, and that it is measured once."""

from __future__ import annotations

import json
import os
import resource
import subprocess
from pathlib import Path

import pytest

from npc.observe.costs import cache as cost_cache
from npc.observe.costs.cache import NoCost, cached_costs
from npc.observe.hotspots import sample_cost as stacks
from npc.observe.hotspots.perf import find_perf, perf_access
from npc.observe.probes.costs import costs
from tests.lab.uprobes import may_lack_uprobes, needs_uprobes
from tests.paths import ROOT


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache/npc/costs"


def test_a_cost_is_measured_once_for_a_machine_and_a_version(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    measured = []

    def measure() -> dict[str, float]:
        measured.append(1)
        return {"function": 1e-5 * len(measured)}

    for _ in range(2):
        assert cached_costs("probes", {"tool": "v1"}, measure) == {"function": 1e-5}
    assert cached_costs("probes", {"tool": "v2"}, measure) == {"function": 2e-5}
    monkeypatch.setattr(cost_cache, "machine", lambda: {"kernel": "another", "processor": "one"})
    assert cached_costs("probes", {"tool": "v1"}, measure) == {"function": pytest.approx(3e-5)}
    (first, *_) = [json.loads(path.read_text()) for path in cache.glob("*/*.json")]
    assert set(first) == {"kernel", "processor", "tool", "seconds"}


def test_a_damaged_cache_is_measured_again(cache: Path) -> None:
    cached_costs("probes", {}, lambda: {"function": 1.0})
    (path,) = cache.glob("*/*.json")
    for text in ("", "[]", '{"seconds": 3}', '{"seconds": {"function": "x"}}'):
        path.write_text(text)
        assert cached_costs("probes", {}, lambda: {"function": 2.0}) == {"function": 2.0}


def test_a_cache_that_cannot_be_written_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    with pytest.raises(NoCost, match="cannot write into"):
        cached_costs("probes", {}, dict)


@pytest.mark.slow
@needs_uprobes
@may_lack_uprobes
@pytest.mark.measures
def test_the_cost_of_a_call_is_what_a_program_loses_by_it(cache: Path, tmp_path: Path) -> None:
    seconds = costs()
    # each is right to a third or so: an entry costs little less than an entry and a return
    assert 0 < seconds["syscall"] < seconds["entry"] < 1.3 * seconds["function"] < 1e-3
    assert 0 < seconds["apparent"] < seconds["function"]
    (kept_one,) = cache.glob("*/probes.json")
    changed = kept_one.stat().st_mtime_ns
    assert costs() == seconds
    assert kept_one.stat().st_mtime_ns == changed
    program, calls = tmp_path / "calls", 20000
    subprocess.run(["gcc", "-O1", ROOT / "tests/observe/programs/called.c", "-o", program], check=True)
    script = (
        f"uprobe:{program}:called {{ @b[tid] = nsecs; }} uretprobe:{program}:called /@b[tid]/ "
        "{ @d[pid] = hist(nsecs - @b[tid]); @s[pid] = sum(nsecs - @b[tid]); delete(@b[tid]); }"
    )
    with_probe = cpu_seconds("bpftrace", "-e", script, "-c", f"{program} {calls} 0")
    without = cpu_seconds("bpftrace", "-e", script, "-c", f"{program} 1 0")
    # another program, another script, C in place of Python
    assert (with_probe - without) / calls == pytest.approx(seconds["function"], rel=0.3)


def cpu_seconds(*command: str) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True, capture_output=True, env={**os.environ, "BPFTRACE_STRLEN": "64"})
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


@pytest.mark.slow
@pytest.mark.measures
@pytest.mark.skipif(
    bool(find_perf().problem) or not perf_access().own, reason="no perf, or it may not sample"
)
@pytest.mark.optional_skip("a container may have no perf")
def test_the_cost_of_a_sample_is_some_microseconds(cache: Path) -> None:
    seconds = stacks.cost("fp")
    assert 2e-7 < seconds < 2e-4
    assert stacks.cost("fp") == seconds
    (kept_one,) = cache.glob("*/stacks.json")
    assert json.loads(kept_one.read_text())["tool"].startswith("perf ")
