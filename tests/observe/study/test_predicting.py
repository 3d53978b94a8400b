"""``npc program study predict``, as a user types it."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from npc.observe.study.records import write_study
from npc.records.record import save_csv
from tests.lab.in_process import npc
from tests.made.measured import AROUND, peak, records
from tests.made.studies import FIXED_CLOCK, made_study, study_of

CLOSE = tuple(1 + (factor - 1) / 10 for factor in AROUND)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A study, and the characterisations of two machines."""
    shares = {"cpu": 0.3, "memory": 0.5, "network": 0.2, "io": 0.0}
    study, _ = made_study(shares, "gamma", np.random.default_rng(1), FIXED_CLOCK)
    for name in ("study", "here", "there"):
        (tmp_path / name).mkdir()
    write_study(study, tmp_path / "study")
    for name, memory in (("here", 10e9), ("there", 40e9)):
        found = [
            *records("stream", "triad", memory, spread=CLOSE),
            *peak("peakflops_avx", 8e9, params={"threads": "2"}, spread=CLOSE),
            *records("osu", "osu_bw", 5e9, size=1 << 20, spread=CLOSE),
        ]
        save_csv(found, tmp_path / name / "records.csv")
    return tmp_path


def test_the_time_on_another_machine(folder: Path) -> None:
    words = ["program", "study", "predict", "study", "--on", "there", "--here", "here", "--ratio", "io=1"]
    said = npc(*words, cwd=folder)
    assert said.returncode == 0, said.stderr
    first, header, *rows = said.stdout.splitlines()
    assert first.startswith("program on fuchs: 6.") and " s with 95 % (on fuchs 10." in first
    assert header.split() == ["part", "times", "as", "long", "seconds", "at", "least", "at", "most", "by"]
    parts = [row.split()[:2] for row in rows if row.startswith(("rest", "memory", "mpi"))]
    assert parts == [["rest", "1"], ["memory", "0.25"], ["mpi", "1"]]
    assert "STREAM triad: 10 GB/s here" in " ".join(said.stdout.split())
    document = json.loads(npc(*words, "--json", cwd=folder).stdout)
    assert document["low"] < 0.3 * 10 + 0.5 * 2.5 + 0.2 * 10 < document["high"]


def test_what_is_missing_is_said_with_what_to_do(folder: Path) -> None:
    said = npc("program", "study", "predict", "study", "--on", "there", cwd=folder)
    assert said.returncode == 1
    assert "nothing tells how the clock and memory bandwidth and network bandwidth compare" in said.stderr
    assert "--ratio cpu=1 --ratio memory=1 --ratio mpi=1" in said.stderr
    said = npc("program", "study", "predict", "study", "--on", "there", "--here", "here", cwd=folder)
    assert "Taken as here: I/O bandwidth, less than 2 % of the time here." in said.stdout
    said = npc("program", "study", "predict", "here", "--on", "there", cwd=folder)
    assert said.returncode == 2
    assert "here holds no study" in said.stderr
    said = npc("program", "study", "predict", "study", "--ratio", "disk=1", cwd=folder)
    assert said.returncode == 2
    assert "--ratio 'disk=1': expected NAME=NUMBER, of cpu, memory, mpi, io" in said.stderr
    for wrong in ("io=0", "io=nan", "io=x"):
        assert npc("program", "study", "predict", "study", "--ratio", wrong, cwd=folder).returncode == 2


def test_a_study_whose_reference_failed_predicts_nothing(folder: Path) -> None:
    study, _ = made_study({"cpu": 1, "memory": 0, "network": 0, "io": 0}, "gamma", np.random.default_rng(1))
    ran = [run for run in study.ran if run.condition != "c0"]
    write_study(study_of(study.conditions, ran), folder / "study")
    said = npc("program", "study", "predict", "study", cwd=folder)
    assert said.returncode == 1
    assert "no run of the reference, c0, succeeded" in said.stderr
