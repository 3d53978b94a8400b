"""A checkout from which a folder of program analysis was taken away: no trace of it is left."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.made.run_folder import everything, make_run
from tests.paths import ROOT

#: What a folder adds: its command, and the title of its section.
TRACES = {"study": (("program", "study"), "Studies")}
#: The options that a folder adds to `npc observe`, and its key in ``observed.json``.
OPTIONS: dict[str, tuple[str, tuple[str, ...]]] = {
    "mpi": ("profile", ("--profile", "--mpit", "--sde", "--snapshots")),
    "hotspots": ("hotspots", ("--hotspots", "--rate", "--call-graph")),
    "memory": ("memory", ("--memory", "--interval")),
    "probes": ("probes", ("--probe",)),
    "study": ("", ()),
}
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


def options_of_observe(checkout: Path) -> list[str]:
    """Those that ``--help-all`` shows, each on a line of its own, with what it takes: ``--rate HZ``."""
    text = shown(checkout, "observe", "--help-all").stdout
    return re.findall(r"^  (--[\w-]+)(?: /| [^a-z\s]|  |$)", text, re.MULTILINE)


@pytest.mark.parametrize("part", OPTIONS)
def test_npc_observe_goes_on_without_what_a_part_adds(part: str, tmp_path: Path) -> None:
    checkout = tmp_path / "checkout"
    checkout.mkdir()
    for name in COPIED:
        shutil.copytree(ROOT / name, checkout / name, symlinks=True)
    key, options = OPTIONS[part]
    before = options_of_observe(checkout)
    assert set(options) < set(before)

    shutil.rmtree(checkout / "observe" / part)
    assert options_of_observe(checkout) == [option for option in before if option not in options]
    observed = shown(checkout, "observe", "--output", tmp_path / "seen", "--background", "0", "--", "true")
    assert observed.returncode == 0 and "cannot be loaded" not in observed.stderr, observed.stderr
    document = json.loads((tmp_path / "seen/raw/0000.observed.json").read_text())
    keys = {name for name, _ in OPTIONS.values()} - {"", key}
    assert keys <= document.keys() and key not in document
    for option in options:
        refused = shown(checkout, "observe", option, "--", "true")
        assert refused.returncode == 2 and "No such option" in refused.stderr, refused.stderr
