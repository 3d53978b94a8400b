"""The tutorial of docs/node.md, carried out: it finds the planted hotspot and the slow system call."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from npc.observe.hotspots.records import HOTSPOTS, Hotspots
from npc.observe.probes.records import PROBES, Probes
from npc.records.observed import read_part
from tests.lab.jube_job import NPC
from tests.lab.npb_job import MPI_ENVIRONMENT
from tests.paths import ROOT

pytestmark = [pytest.mark.slow, pytest.mark.netns]

PAGE = (ROOT / "docs/node.md").read_text(encoding="utf-8")
STEPS = 200


def typed(*words: str) -> list[str]:
    """The lines of the page that begin with these words, one of them at a time."""
    lines = [line.strip() for line in PAGE.splitlines() if line.startswith("    ")]
    return [line.partition(" #")[0] for word in words for line in lines if line.startswith(word)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where all lines of the tutorial were typed."""
    if shutil.which("bpftrace") is None or shutil.which("perf") is None:
        pytest.skip("no bpftrace or no perf (Debian packages bpftrace, linux-perf)")
    folder = tmp_path_factory.mktemp("tutorial")
    (source,) = re.findall(r"^```c\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    (folder / "heat.c").write_text(source)
    lines = typed(
        "mpicc",
        "npc observe --hotspots --probe syscalls --probe scheduler --output before",
        "npc report before",
    )
    assert len(lines) == 3
    path = f"{NPC.parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, **MPI_ENVIRONMENT, "PATH": path}
    for line in lines:
        # a machine that is full of other tests has CPUs for everybody now and then
        line = line.replace("mpicc ", "mpicc.openmpi ").replace("mpirun ", "mpirun.openmpi --oversubscribe ")
        ended = subprocess.run(
            ["bash", "-c", line], cwd=folder, env=environment, capture_output=True, text=True, check=False
        )
        assert ended.returncode == 0, ended.stderr
        (folder / "printed.txt").open("a").write(ended.stdout + ended.stderr)
    return folder


def test_the_planted_hotspot_is_found_with_its_loop(folder: Path) -> None:
    found = read_part(folder / "before/raw/0000.observed.json", HOTSPOTS, Hotspots)
    assert found is not None and found.status == "ok"
    first = next(each for each in found.hotspots if each.bound != "mpi")
    assert (first.function, first.module) == ("series", "heat")
    if first.loop:  # LLVM has to know the processor
        assert first.loop.flop == 2 and first.loop.holds == "dependencies" and "heat.c:" in first.loop.source
    else:
        assert first.loop_reason
    names = [frame.function for frame in found.frames]
    callers = {found.frames[frame.parent].function for frame in found.frames if frame.function == "series"}
    assert callers <= {"main", "step"} and {"main", "step"} <= set(names)


def test_the_planted_system_call_is_found_with_its_rank(folder: Path) -> None:
    found = read_part(folder / "before/raw/0000.observed.json", PROBES, Probes)
    assert found is not None
    (calls,) = [each for each in found.nodes if each.probe == "syscalls"]
    assert calls.status == "attached", calls.reason
    rows = [row for row in calls.rows if row.name == "pselect6"]
    assert [(row.rank, row.events) for row in rows] == [(1, STEPS)]
    assert rows[0].seconds is not None and rows[0].seconds > STEPS * 0.005
    assert "pselect6" in (folder / "printed.txt").read_text()


def test_the_page_blames_the_call_and_shows_the_hotspot(folder: Path) -> None:
    page = (folder / "before/report.html").read_text(encoding="utf-8")
    text = re.sub(r"<[^>]+>", " ", page)
    assert re.search(rf"for rank 1 \(\S+\), which .*was in pselect6 for \S+ \S+ \({STEPS} calls\)", text)
    assert 'data-tip="series\nheat (the program)' in page


def test_what_the_page_says_of_the_two_holds_what_the_program_is(folder: Path) -> None:
    """The numbers of the page that do not depend on the machine."""
    shown = "".join(re.findall(r"^```text\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL))
    assert re.search(rf"^  pselect6 +{STEPS} events", shown, re.MULTILINE)
    assert "series (heat)" in shown and "2 FLOP, 0 B, 4 instructions an iteration" in shown
