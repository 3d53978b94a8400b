"""A real study of a program whose parts are timed by its own clock: its shares come back."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from npc.records.study import read_study
from roofline.program_model import fit
from tests.lab.mpis import MPIS
from tests.paths import ROOT

LACKING = [name for name in (MPIS["openmpi"].compiler, "unshare", "tc", "taskset") if not shutil.which(name)]


@pytest.mark.slow
@pytest.mark.measures
@pytest.mark.netns
@pytest.mark.skipif(os.geteuid() != 0, reason="network namespaces need root")
@pytest.mark.skipif(bool(LACKING), reason=f"not here: {', '.join(LACKING)}")
def test_the_shares_of_a_real_program_come_back(tmp_path: Path) -> None:
    command = ["unshare", "-n", sys.executable, "-m", "tests.lab.parts_study", "--once", "3", str(tmp_path)]
    subprocess.run(command, cwd=ROOT, check=True, timeout=120, start_new_session=True)
    study = read_study(tmp_path)
    truth = msgspec.json.decode((tmp_path / "truth.json").read_bytes(), type=dict[str, float])
    model = fit(study)
    told = [share for share in model.shares if share.value is not None]
    assert {"memory", "mpi"} <= {share.name for share in told}
    for name, value, low, high, _ in told:
        assert value is not None and low is not None and high is not None
        assert low <= truth[name] <= high
        assert abs(value - truth[name]) < 0.15
