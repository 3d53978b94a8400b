"""A checkout from which folders of program analysis were taken away: no trace of them is left."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from tests.lab.parts import PARTS
from tests.made.inside import observed_runs
from tests.made.memory_use import memory_use, rank_memory
from tests.made.on_node import PROBES, STACKS, hotspots, put
from tests.made.profiles import Job
from tests.made.run_folder import everything, make_run
from tests.paths import ROOT

#: What a folder adds: its command, the titles of its sections, its options of `npc advise`.
TRACES = {
    "study": (("program", "study"), ("Studies", "Tried hints"), ("--try", "--set", "--replace", "--launches"))
}
#: The options that a folder adds to `npc observe`, and its key in ``observed.json``.
OPTIONS: dict[str, tuple[str, tuple[str, ...]]] = {
    "mpi": ("profile", ("--profile", "--mpit", "--sde", "--snapshots")),
    "hotspots": ("hotspots", ("--hotspots", "--rate", "--call-graph")),
    "memory": ("memory", ("--memory", "--interval")),
    "probes": ("probes", ("--probe",)),
    "study": ("", ()),
}
#: The sections of all folders.
TITLES: Final = ("Inside MPI", "Memory", "Hotspots", "On the node", "Studies", "Tried hints")
#: Of their figures, in the style and the script of a page.
DRAWN: Final = re.compile(r"flame|\.pixels|\.casing")
#: Tools that only they start.
TOOLS: Final = ("perf", "bpftrace", "Valgrind", "llvm-mca", "binutils")
COPIED = ("benchmarks", "cron", "npb", "npc", "observe", "parsers", "platforms", "report", "roofline")


def shown(checkout: Path, *words: str | Path) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-m", "npc", *map(str, words)]
    return subprocess.run(argv, cwd=checkout, capture_output=True, text=True, check=False, timeout=100)


def copy_of(folder: Path, *names: str) -> Path:
    """The checkout, or some of what stands in it."""
    folder.mkdir()
    shutil.copy(ROOT / "jube.yml", folder)
    for name in names:
        shutil.copytree(ROOT / name, folder / name, symlinks=True)
    return folder


@pytest.mark.parametrize("part", TRACES)
def test_nothing_is_left_of_a_part_that_was_taken_away(part: str, tmp_path: Path) -> None:
    checkout = copy_of(tmp_path / "checkout", *COPIED)
    (group, command), titles, options = TRACES[part]
    make_run(tmp_path / "run", everything())
    page = ("report", tmp_path / "run", "--output", tmp_path / "page.html", "--json")
    before, reported = shown(checkout, group, "--help"), shown(checkout, *page)
    assert f"  {command} " in before.stdout and {*titles} <= json.loads(reported.stdout)["absent"].keys()
    advice = shown(checkout, "advise", "--help").stdout
    assert all(f"  {option} " in advice for option in options)

    shutil.rmtree(checkout / "observe" / part)
    after, reported = shown(checkout, group, "--help"), shown(checkout, *page)
    assert after.returncode == 0 and f"  {command} " not in after.stdout
    assert f"No such command '{command}'" in shown(checkout, group, command).stderr
    page_text = reported.stdout + (tmp_path / "page.html").read_text()
    assert reported.returncode == 0 and not [title for title in titles if title in page_text]
    advice = shown(checkout, "advise", "--help").stdout
    assert "  --score " in advice and not [option for option in options if option in advice]
    refused = shown(checkout, "advise", tmp_path / "run", options[0], "1")
    assert refused.returncode == 2 and "No such option" in refused.stderr
    listed = shown(checkout, "advise", tmp_path / "run").stdout
    assert "   seen: " in listed and "   try: " not in listed
    assert "cannot be loaded" not in after.stdout + reported.stdout + advice + listed


def options_of_observe(checkout: Path) -> list[str]:
    """Those that ``--help-all`` shows, each on a line of its own, with what it takes: ``--rate HZ``."""
    text = shown(checkout, "observe", "--help-all").stdout
    return re.findall(r"^  (--[\w-]+)(?: /| [^a-z\s]|  |$)", text, re.MULTILINE)


@pytest.mark.parametrize("part", OPTIONS)
def test_npc_observe_goes_on_without_what_a_part_adds(part: str, tmp_path: Path) -> None:
    checkout = copy_of(tmp_path / "checkout", *COPIED)
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


@pytest.fixture(scope="module")
def core(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkout without all five."""
    checkout = copy_of(tmp_path_factory.mktemp("core") / "checkout", *COPIED)
    for part in PARTS:
        shutil.rmtree(checkout / "observe" / part)
    return checkout


def looked_into(folder: Path) -> Path:
    """A run of a program of which everything was observed."""
    job = Job(2)
    job.compute(1.0, 2.0)
    job.collective("MPI_Allreduce")
    parts = {"hotspots": hotspots(STACKS), "probes": PROBES, "memory": memory_use(rank_memory())}
    return put(observed_runs(folder, job.profiles()), **parts)


def test_help_knows_no_command_of_theirs(core: Path) -> None:
    for words in (("--help",), ("--help-all",)):
        ended = shown(core, *words)
        assert ended.returncode == 0 and "cannot be loaded" not in ended.stdout + ended.stderr
        assert not re.search(r"^  (program|study|efficiency|cc|c\+\+|fc)\b", ended.stdout, re.MULTILINE)


def test_doctor_looks_for_no_tool_of_theirs(core: Path) -> None:
    document = json.loads(shown(core, "doctor", "--json").stdout)
    names = {tool["name"] for tool in document["tools"]}
    assert names and not names & set(TOOLS)
    text = shown(core, "doctor").stdout
    assert not re.search("cannot be loaded|hotspots|--probe|--memory", text)


def test_a_page_of_an_observed_program_shows_nothing_of_theirs(core: Path, tmp_path: Path) -> None:
    page = ("report", looked_into(tmp_path / "run"), "--output", tmp_path / "page.html", "--json")
    before = json.loads(shown(ROOT, *page).stdout)
    titles = {section["title"] for section in before["sections"]} | before["absent"].keys()
    assert set(TITLES) <= titles and DRAWN.search((tmp_path / "page.html").read_text())

    ended = shown(core, *page)
    assert ended.returncode == 0, ended.stderr
    after = json.loads(ended.stdout)
    assert {section["title"] for section in after["sections"]} | after["absent"].keys() == titles - {*TITLES}
    text = (tmp_path / "page.html").read_text()
    assert not DRAWN.search(text) and "cannot be loaded" not in text


def test_an_observation_is_read_without_them(core: Path, tmp_path: Path) -> None:
    """Their records are gone with them; those of the ground floor stay."""
    (file,) = looked_into(tmp_path / "run").glob("raw/*.observed.json")
    layers = [
        {reading["params"].get("layer", "") for reading in json.loads(ended.stdout)}
        for checkout in (ROOT, core)
        for ended in [shown(checkout, "records", "parse", "observed", file, "--format", "json")]
    ]
    assert layers[0] == {"memory"}  # which counts alone
    assert layers[1] <= {"", "mpi", "mpi collectives", "io"} and "mpi collectives" in layers[1]


@pytest.mark.slow
def test_all_other_quick_tests_pass_without_them(tmp_path: Path) -> None:
    checkout = tmp_path / "checkout"
    subprocess.run(["git", "clone", "-q", "--no-hardlinks", ROOT, checkout], check=True)
    for part in PARTS:
        shutil.rmtree(checkout / "observe" / part)
        shutil.rmtree(checkout / "tests/observe" / part)
    # some are left out, and a temporary folder within this test's own has too long a name for sockets
    environment = {name: value for name, value in os.environ.items() if name not in ("CI", "TMPDIR")}
    argv = [sys.executable, "-m", "pytest", "-q", "-m", "not slow", "-n", "2", "-p", "no:cacheprovider"]
    ended = subprocess.run(
        [*argv, "tests"], cwd=checkout, env=environment, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stdout[-4000:]
