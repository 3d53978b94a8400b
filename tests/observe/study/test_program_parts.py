"""A real study of a program whose parts are timed by its own clock: its shares come back."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from npc.observe.study.program_model import fit
from npc.observe.study.records import read_study
from tests.lab.mpis import MPIS
from tests.paths import ROOT

LACKING = [name for name in (MPIS["openmpi"].compiler, "unshare", "tc", "taskset") if not shutil.which(name)]


@pytest.mark.slow
@pytest.mark.measures
@pytest.mark.netns
@pytest.mark.skipif(os.geteuid() != 0, reason="network namespaces need root")
@pytest.mark.skipif(bool(LACKING), reason=f"not here: {', '.join(LACKING)}")
def test_the_shares_of_a_real_program_come_back(tmp_path: Path) -> None:
    """In one of five short studies: others on this machine take their part of three runs a condition."""
    told: list[str] = []
    for number in range(5):
        off = what_is_off(tmp_path / str(number))
        if not off:
            return
        told.extend(off)
    pytest.fail("\n".join(told))


def what_is_off(folder: Path) -> list[str]:
    """The shares of a fresh study that are not those of the program's own clock."""
    folder.mkdir()
    command = ["unshare", "-n", sys.executable, "-m", "tests.lab.parts_study", "--once", "3", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, timeout=120, start_new_session=True)
    truth = msgspec.json.decode((folder / "truth.json").read_bytes(), type=dict[str, float])
    shares = {share.name: share for share in fit(read_study(folder)).shares if share.value is not None}
    off = [f"no share of {name}" for name in sorted({"memory", "mpi"} - shares.keys())]
    for name, value, low, high, _ in shares.values():
        assert value is not None and low is not None and high is not None
        expected = truth.get(name, 0.0)  # nothing else takes time
        if not (low <= expected <= high and abs(value - expected) < 0.15):
            off.append(f"{name}: {value:.3f} [{low:.3f}, {high:.3f}], by its clock {expected:.3f}")
    return off
