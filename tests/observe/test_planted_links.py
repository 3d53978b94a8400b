"""Links that another user plants where `npc observe` will write, in folders that all may write into."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.lab.npb_job import MPI_ENVIRONMENT
from tests.lab.strangers import needs_strangers, shared_folder, stranger
from tests.paths import ROOT

pytestmark = [
    needs_strangers,
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("mpicc") is None, reason="no mpicc"),
]

NPC = Path(sys.executable).with_name("npc")
MPIRUN: Final = ("mpirun", "-n", "1", "./waits")
#: What is asked for, and the command that is observed.
TOOLS: Final[dict[str, tuple[tuple[str, ...], tuple[str, ...]]]] = {
    "calls of MPI": (("--mpit", "all"), MPIRUN),
    "stacks": (("--hotspots",), MPIRUN),
    "probes": (("--probe", "syscalls", "--overhead", "none"), MPIRUN),
    "memory": (("--memory=sample",), MPIRUN),
    "LIKWID": (("--counters", "FLOPS_DP"), MPIRUN),
    "PAPI": (
        ("--counters", "PAPI_DP_OPS"),
        ("sh", "-c", "touch $READY; while ! [ -e $PLANTED ]; do sleep .01; done; "
         "mkdir -p $PAPI_OUTPUT_DIRECTORY; echo {} > $PAPI_OUTPUT_DIRECTORY/rank_0.json"),
    ),
    "report": (("--report", "report.txt"), MPIRUN),
}  # fmt: skip
#: Once READY is there, plants links to the files of PRECIOUS under all NAMES below FOLDER, and says which it
#: could plant. With SWAP it puts a folder of its own in the place of the ranks' folder before.
PLANTER: Final = """
    folder, names, precious, ready, planted, swap, dangling = json.loads(sys.argv[1])
    until = time.monotonic() + 60
    while not os.path.exists(ready) and time.monotonic() < until:
        time.sleep(0.005)
    ranks = os.path.join(folder, "raw/0000.ranks")
    if swap:
        os.rename(ranks, ranks + ".gone")
        os.mkdir(ranks, 0o777)
    could = []
    for number, name in enumerate(names):
        try:
            os.symlink(f"{precious}/{'none' if dangling else 'file'}{number}", os.path.join(folder, name))
            could.append(name)
        except OSError:
            pass
    print(json.dumps(could), flush=True)
    open(planted, "w").close()
"""


def _observe(
    folder: Path, own: Path, tool: str, environment: dict[str, str]
) -> subprocess.CompletedProcess[str]:
    words, command = TOOLS[tool]
    before = os.umask(0)
    try:
        return subprocess.run(
            [NPC, "observe", "--output", folder, "--background", "0", *words, "--", *command],
            cwd=own, env={**os.environ, **MPI_ENVIRONMENT, **environment},
            capture_output=True, text=True, timeout=200, check=False,
        )  # fmt: skip
    finally:
        os.umask(before)


def _names(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


@pytest.fixture
def shared() -> Iterator[Path]:
    with shared_folder() as folder:
        yield folder


@pytest.mark.parametrize("tool", TOOLS)
def test_no_link_under_a_name_of_an_observation_is_written_through(
    tool: str, tmp_path: Path, shared: Path
) -> None:
    own = tmp_path
    program = ROOT / "tests/observe/programs/waits_for_file.c"
    subprocess.run(["mpicc", "-g", program, "-o", own / "waits"], check=True)
    (own / "report.txt").touch()
    ready, planted = shared / "ready", shared / "planted"
    environment = {"READY": str(ready), "PLANTED": str(planted), "XDG_CACHE_HOME": str(own / "cache")}

    # which names there are, also those that are only there meanwhile
    look = f"for i in $(seq 3000); do [ -e {ready} ] && break; sleep .01; done; cd {shared}/names; "
    look += f"find . -mindepth 1; touch {planted}"
    with subprocess.Popen(["sh", "-c", look], stdout=subprocess.PIPE, text=True) as looker:
        first = _observe(shared / "names", own, tool, environment)
        assert first.returncode == 0, first.stderr
        assert looker.stdout is not None
        meanwhile = {line.strip()[2:] for line in looker.stdout}
    names = sorted(_names(shared / "names") | meanwhile)
    assert any(name.endswith(".json") for name in names)

    for swap in (False, True):
        for dangling in (False, True):
            _plant_and_observe(tool, sorted(names), own, shared, environment, swap, dangling)


def _plant_and_observe(
    tool: str,
    names: list[str],
    own: Path,
    shared: Path,
    environment: dict[str, str],
    swap: bool,
    dangling: bool,
) -> None:
    folder, precious = shared / f"again-{swap}-{dangling}", own / f"precious-{swap}-{dangling}"
    precious.mkdir()
    for number in range(0 if dangling else len(names)):
        (precious / f"file{number}").write_text("thesis")
    for path in (environment["READY"], environment["PLANTED"]):
        Path(path).unlink(missing_ok=True)
    asked = [str(folder), names, str(precious), environment["READY"], environment["PLANTED"], swap, dangling]
    with stranger(PLANTER, [json.dumps(asked)]) as planter:
        done = _observe(folder, own, tool, environment)
        assert planter.stdout is not None
        could = json.loads(planter.stdout.readline())
    inside = [name for name in could if name.startswith("raw/0000.ranks/")]
    assert bool(inside) == swap, inside
    assert "raw/0000.observed.json" in could
    assert "Traceback" not in done.stderr
    assert done.returncode == 0, done.stderr
    assert {path.name for path in precious.iterdir()} == {
        f"file{n}" for n in range(0 if dangling else len(names))
    }
    assert all(path.read_text() == "thesis" for path in precious.iterdir())
    if not swap:
        assert not re.search("damaged|cannot write|not observed", done.stderr), done.stderr
        assert not (folder / "raw/0000.observed.json").is_symlink()
