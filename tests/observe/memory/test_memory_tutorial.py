"""The tutorial of docs/memory.md, carried out: it finds the false sharing and the bad first touch."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from npc.observe.memory.records import MEMORY, MemoryUse
from npc.records.observed import read_part
from tests.lab.jube_job import NPC
from tests.paths import ROOT

pytestmark = pytest.mark.slow

PAGE = (ROOT / "docs/memory.md").read_text(encoding="utf-8")
THREADS = "OMP_NUM_THREADS=4 "


def typed(*words: str) -> list[str]:
    """The lines of the page that begin with these words, one of them at a time."""
    lines = [line.strip() for line in PAGE.splitlines() if line.startswith("    ")]
    return [line for word in words for line in lines if line.startswith(word)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the lines of the tutorial were typed."""
    folder = tmp_path_factory.mktemp("tutorial")
    (source,) = re.findall(r"^```c\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    (folder / "smooth.c").write_text(source)
    lines = typed(
        "npc program cc -O2 -fopenmp -o smooth", f"{THREADS}npc observe --memory", "npc report before"
    )
    assert len(lines) == 4
    environment = {**os.environ, "PATH": f"{NPC.parent}{os.pathsep}{os.environ['PATH']}"}
    for line in lines:
        ended = subprocess.run(
            ["bash", "-c", line], cwd=folder, env=environment, capture_output=True, text=True, check=False
        )
        assert ended.returncode == 0, ended.stderr
        (folder / "printed.txt").open("a").write(ended.stdout + ended.stderr)
    return folder


def seen(folder: Path, name: str) -> MemoryUse:
    found = read_part(folder / name / "raw/0000.observed.json", MEMORY, MemoryUse)
    assert found is not None and found.status == "ok"
    return found


def test_the_planted_false_sharing_is_found_with_its_elements(folder: Path) -> None:
    found = seen(folder, "before")
    assert found.hints[0].rule == "false sharing" and found.hints[0].structure == "changes"
    (line,) = [each for each in found.ranks[0].lines if each.structure == "changes"]
    assert line.kind == "false-shared" and line.threads == (0, 1, 2, 3)
    users, elements = zip(*(re.findall(r"\d", words) for words in line.words), strict=True)
    assert sorted(users) == sorted(elements) == ["0", "1", "2", "3"]  # in which order threads begin is open


def test_the_planted_first_touch_is_found_and_seen_in_the_map(folder: Path) -> None:
    found = seen(folder, "before")
    if not found.ranks[0].numa:  # elsewhere it depends on where the threads ran
        assert {each.structure for each in found.hints if each.rule == "first touch"} == {"points", "next"}
    structures = {each.name: each for each in found.ranks[0].structures}
    points, other = structures["points"], structures["next"]
    # OpenMP's own memory is nobody's, though its line is that of the allocation in smooth's tables
    assert [(each.bytes, each.allocations) for each in (points, other)] == [(1_600_000, 1)] * 2
    assert points.density is not None and set(points.density.first) == {0}
    (mended,) = [each for each in seen(folder, "after").ranks[0].structures if each.name == "points"]
    assert mended.density is not None and set(mended.density.first) == {0, 1, 2, 3}


def test_the_mended_program_has_neither(folder: Path) -> None:
    after = seen(folder, "after")
    assert not {"false sharing", "first touch"} & {each.rule for each in after.hints}


def test_the_page_shows_what_the_terminal_says(folder: Path) -> None:
    page = (folder / "before/report.html").read_text(encoding="utf-8")
    assert "Threads and pages of points" in page and re.search(r"thread \d writes changes\[3\]", page)
    shown = "".join(re.findall(r"^```text\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL))
    printed = (folder / "printed.txt").read_text()
    for words in ("false sharing: changes:", "changes (smooth) ", "points (smooth.c:19)"):
        assert words in shown and words in printed, words
