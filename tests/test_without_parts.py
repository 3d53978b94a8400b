"""A checkout from which a folder of program analysis was taken away: no trace of it is left."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.made.run_folder import everything, make_run
from tests.paths import ROOT

#: What a folder adds: its command, and the title of its section.
TRACES = {"study": (("program", "study"), "Studies")}
COPIED = ("benchmarks", "cron", "npb", "npc", "observe", "parsers", "platforms", "report", "roofline")


def shown(checkout: Path, *words: str | Path) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-m", "npc", *map(str, words)]
    return subprocess.run(argv, cwd=checkout, capture_output=True, text=True, check=False, timeout=100)


@pytest.mark.parametrize("part", TRACES)
def test_nothing_is_left_of_a_part_that_was_taken_away(part: str, tmp_path: Path) -> None:
    checkout = tmp_path / "checkout"
    checkout.mkdir()
    shutil.copy(ROOT / "jube.yml", checkout)
    for name in COPIED:
        shutil.copytree(ROOT / name, checkout / name, symlinks=True)
    (group, command), title = TRACES[part]
    make_run(tmp_path / "run", everything()[:40])
    page = ("report", tmp_path / "run", "--output", tmp_path / "page.html", "--json")
    before, told = shown(checkout, group, "--help"), shown(checkout, *page)
    assert f"  {command} " in before.stdout and title in json.loads(told.stdout)["absent"]

    shutil.rmtree(checkout / "observe" / part)
    after, told = shown(checkout, group, "--help"), shown(checkout, *page)
    assert after.returncode == 0 and f"  {command} " not in after.stdout
    assert f"No such command '{command}'" in shown(checkout, group, command).stderr
    assert told.returncode == 0 and title not in told.stdout + (tmp_path / "page.html").read_text()
    assert "cannot be loaded" not in after.stdout + told.stdout
