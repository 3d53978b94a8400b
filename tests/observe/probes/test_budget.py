"""Probes that end themselves: real ones, around programs that make millions of events."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from npc.observe.probes.records import PROBES, NodeProbe, Probes
from npc.observe.probes.rights import refusal
from npc.records.observed import read_part
from tests.lab.uprobes import may_lack_uprobes, needs_uprobes
from tests.paths import ROOT

pytestmark = [pytest.mark.slow, needs_uprobes, may_lack_uprobes]

NPC = Path(sys.executable).with_name("npc")
#: As many as it takes more than a second to make without a probe.
MANY = 24_000_000


@pytest.fixture(scope="module")
def calls(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """``calls CALLS WORK [RATE]``"""
    program = tmp_path_factory.mktemp("calls") / "calls"
    subprocess.run(["gcc", "-O1", ROOT / "tests/observe/programs/called.c", "-o", program], check=True)
    return program


def probed(folder: Path, probe: str, *program: str | Path, overhead: str = "2%") -> NodeProbe:
    """What one probe around a program came to."""
    words = ["--output", folder, "--no-profile", "--no-mpi", "--background", "0"]
    ended = subprocess.run(
        [NPC, "observe", *words, "--probe", probe, "--overhead", overhead, "--", *program],
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    probes = read_part(folder / "raw/0000.observed.json", PROBES, Probes)
    assert probes is not None, ended.stderr
    assert len(probes.nodes) == 1
    if probes.nodes[0].status == "stopped":
        assert f"stopped: {probes.nodes[0].reason}" in ended.stderr
    return probes.nodes[0]


def events(node: NodeProbe) -> int:
    return sum(row.events for row in node.rows)


def test_a_function_called_millions_of_times_stops_its_probe_at_once(tmp_path: Path, calls: Path) -> None:
    node = probed(tmp_path / "observed", "function:called", calls, str(MANY), "40")
    assert node.status == "stopped"
    assert re.fullmatch(
        r"after \S+ s: (at least )?[\d,]+ events a second of \S+ µs each in rank 0; it would have cost "
        r"(at least )?[\d.,]+ % of the run time, and 2 % are allowed \(--overhead\)",
        node.reason,
    )
    # each costs some microseconds: these are some tenths of a second of all that it ran
    assert 1000 < events(node) < MANY / 100
    assert node.share < 1


@pytest.mark.parametrize("probe", ["syscalls", "io"])
def test_millions_of_system_calls_stop_their_probe(tmp_path: Path, probe: str) -> None:
    if reason := refusal(types=True):
        pytest.skip(reason)
    copy = ("dd", "if=/dev/zero", "of=/dev/null", "bs=1", "count=6000000", "status=none")
    node = probed(tmp_path / "observed", probe, *copy)
    assert node.status == "stopped"
    assert "it would have cost " in node.reason
    assert 10_000 < events(node) < 6_000_000
    assert {"read", "write"} <= {row.name.split()[0] for row in node.rows}


def test_a_phase_that_makes_more_events_stops_the_probe(tmp_path: Path, calls: Path) -> None:
    """What was counted before is kept, and no budget was saved up in the quiet phase."""
    script = f"{calls} 400 0 400; {calls} {MANY} 40"
    node = probed(tmp_path / "observed", f"function:called@{calls}", "sh", "-c", script)
    assert node.status == "stopped"
    after = re.match(r"after (\S+) s", node.reason)
    assert after is not None
    assert float(after[1]) > 1
    assert 400 < events(node) < MANY / 100


def test_within_the_budget_every_event_is_counted_with_its_duration(tmp_path: Path, calls: Path) -> None:
    node = probed(tmp_path / "observed", "function:called", calls, "700", "0", "500")
    assert (node.status, node.reason) == ("attached", "")
    (row,) = node.rows
    assert (row.events, row.timed) == (700, 700)


def test_what_children_make_counts_for_their_rank(tmp_path: Path, calls: Path) -> None:
    both = f"{calls} 30 0; {calls} 12 0"
    assert events(probed(tmp_path / "observed", f"function:called@{calls}", "sh", "-c", both)) == 42


def test_no_limit_means_none(tmp_path: Path, calls: Path) -> None:
    node = probed(tmp_path / "observed", "function:called", calls, "40000", "40", overhead="none")
    assert (node.status, events(node)) == ("attached", 40_000)


def test_without_a_known_cost_the_probe_is_not_limited_and_says_so(
    tmp_path: Path, calls: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))  # where nothing can be kept
    node = probed(tmp_path / "observed", "function:called", calls, "30000", "40")
    assert (node.status, events(node)) == ("attached", 30_000)
    assert node.notes[0] == "not limited: what an event costs is not known on this machine"
