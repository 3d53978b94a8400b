"""Counters of the MPI library (MPI_T) and the profile's own totals over time, under real MPIs."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from npc.observe.mpi.asked import settings
from npc.observe.mpi.profile import RankProfile
from npc.observe.mpi.rank_file import read_rank_file
from npc.observe.mpi.variables import ROWS
from tests.lab.in_process import npc
from tests.lab.mpis import MPIS, Mpi
from tests.lab.npb_job import MPI_ENVIRONMENT
from tests.paths import ROOT


def test_nothing_asked_for_is_nothing_set() -> None:
    assert settings(None, None, None) == {}


def test_names_are_read_every_second_unless_told_otherwise() -> None:
    assert settings("a,b*", None, None) == {
        "NPC_MPIT": "a,b*", "NPC_SNAPSHOTS": "1.0", "OMPI_MCA_mpi_spc_attach": "all",
    }  # fmt: skip
    assert settings(None, "all", 0.25) == {"NPC_SDE": "all", "NPC_SNAPSHOTS": "0.25"}
    assert settings(None, None, 0.0) == {"NPC_SNAPSHOTS": "0.0"}


@pytest.mark.parametrize("names", ["x" * 600, "a," * 70])
def test_more_names_than_there_is_room_for_are_refused(names: str) -> None:
    with pytest.raises(ValueError, match="--sde: 64 names"):
        settings(None, names, None)


def test_without_a_profile_there_is_nothing_to_ask_for() -> None:
    ended = npc("observe", "--no-profile", "--sde", "all", "--", "true")
    assert ended.returncode == 2
    assert "not with --no-profile" in ended.stderr


# --- real MPIs -----------------------------------------------------------------------------------------

PROGRAMS: Final = ROOT / "tests/observe/programs"
NPC: Final = Path(sys.executable).with_name("npc")
ROUNDS: Final = 12
UNEXPECTED: Final = "pml_ob1_unexpected_msgq_length"


def observed(folder: Path, mpi: Mpi, *options: str, killed: bool = False) -> dict[int, RankProfile]:
    """The profiles of the two ranks of `queues`; the observation is in folder/run."""
    program = folder / "queues"
    subprocess.run([mpi.compiler, "-O2", PROGRAMS / "queues.c", "-o", program], check=True, timeout=60)
    done = subprocess.run(
        [NPC, "observe", "--background", "0", "--output", folder / "run", *options, "--",
         mpi.launcher, "-n", "2", program, str(ROUNDS), str(int(killed))],
        capture_output=True, text=True, timeout=120, env={**os.environ, **mpi.environment},
    )  # fmt: skip
    profiles = [read_rank_file(path) for path in folder.glob("run/raw/0000.ranks/*.mpi")]
    assert len(profiles) == 2, done.stderr
    return {profile.rank: profile for profile in profiles}


def series(profile: RankProfile, name: str) -> list[float]:
    return [snapshot.values[name] for snapshot in profile.snapshots]


@pytest.fixture(scope="module")
def open_mpi(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[int, RankProfile]]:
    """Rank 1 is killed after the last round."""
    folder = tmp_path_factory.mktemp("open-mpi")
    options = ("--mpit", "all,nosuch", "--snapshots", "0.02")
    return folder, observed(folder, MPIS["openmpi"], *options, killed=True)


@pytest.mark.slow
def test_open_mpi_s_queue_is_seen_in_snapshots(open_mpi: tuple[Path, dict[int, RankProfile]]) -> None:
    ranks = open_mpi[1]
    # the barriers' own messages, one or two, may come early as well
    assert max(series(ranks[0], UNEXPECTED)) <= 2
    assert 10 <= max(series(ranks[1], UNEXPECTED)) <= 12
    kinds = {variable.name: variable.kind for variable in ranks[1].variables}
    assert kinds[UNEXPECTED] == "level"
    assert kinds["npc::calls"] == "counter"


@pytest.mark.slow
def test_a_killed_rank_leaves_what_its_last_snapshot_had(
    open_mpi: tuple[Path, dict[int, RankProfile]],
) -> None:
    profile = open_mpi[1][1]
    assert not profile.finalized
    received = series(profile, "npc::messages_received")
    assert received == sorted(received)
    assert 10 * (ROUNDS - 2) <= received[-1] <= 10 * ROUNDS
    assert series(profile, "npc::bytes_received")[-1] == 32 * received[-1]


@pytest.mark.slow
def test_what_is_not_there_is_told(open_mpi: tuple[Path, dict[int, RankProfile]]) -> None:
    notes = " ".join(open_mpi[1][0].notes)
    assert "--mpit nosuch: there is no such performance variable" in notes


@pytest.mark.slow
def test_the_document_has_them_for_people(open_mpi: tuple[Path, dict[int, RankProfile]]) -> None:
    document = json.loads((open_mpi[0] / "run/raw/0000.observed.json").read_text())["profile"]
    assert 10 <= document["unexpected"]["longest_queue"] <= 12
    assert "npc doctor" in document["unexpected"]["reasons"]["out_of_sequence"]
    assert UNEXPECTED in document["snapshots"]["values"]


@pytest.mark.slow
def test_a_full_table_keeps_every_second_snapshot(tmp_path: Path) -> None:
    """Far more are due than the table's 256; what is nearly 0 seconds is 10 µs."""
    profile = observed(tmp_path, MPIS["openmpi"], "--snapshots", "1e-12")[0]
    moments = [snapshot.at for snapshot in profile.snapshots]
    assert moments == sorted(moments)
    assert len(moments) <= ROWS
    assert moments[0] == pytest.approx(profile.began, abs=0.01)
    assert series(profile, "npc::calls")[-1] == sum(each.calls for each in profile.calls)


@pytest.mark.slow
@pytest.mark.parametrize("mpi", ["mpich", "intel"])
def test_mpis_with_few_variables_or_none_have_the_profile_s_totals(mpi: str, tmp_path: Path) -> None:
    if not Path(shutil.which(MPIS[mpi].launcher) or "").is_file():
        pytest.skip(f"{mpi} is not there: npc/fetch_mpi.sh")
    ranks = observed(tmp_path, MPIS[mpi], "--mpit", "all", "--snapshots", "0.05")
    assert series(ranks[0], "npc::messages_sent")[-1] == 10 * ROUNDS
    assert series(ranks[1], "npc::bytes_received")[-1] == 10 * ROUNDS * 32
    names = {variable.name for variable in ranks[0].variables if not variable.name.startswith("npc::")}
    if mpi == "intel":
        assert names == {"idle", "idle (counter)"}
    else:
        assert names == set()
        assert "this MPI offers no performance variables (npc doctor)" in ranks[0].notes


@pytest.mark.slow
@pytest.mark.skipif("NPC_SPC_MPI" not in os.environ, reason="NPC_SPC_MPI: an Open MPI with --enable-spc")
@pytest.mark.optional_skip("nobody distributes Open MPI with SPC")
def test_spc_counts_unexpected_messages(tmp_path: Path) -> None:
    prefix = os.environ["NPC_SPC_MPI"]
    spc = Mpi(f"{prefix}/bin/mpicc", f"{prefix}/bin/mpirun", MPI_ENVIRONMENT, "Open MPI v4")
    ranks = observed(tmp_path, spc, "--mpit", "OMPI_SPC_*")
    name = "runtime_spc_OMPI_SPC_"
    # the barriers' own messages may come early as well
    assert 10 * ROUNDS <= series(ranks[1], f"{name}UNEXPECTED")[-1] <= 10 * ROUNDS + 6 * ROUNDS
    assert series(ranks[1], f"{name}BYTES_RECEIVED_USER")[-1] == 10 * ROUNDS * 32
    assert series(ranks[1], f"{name}MAX_UNEXPECTED_IN_QUEUE")[-1] >= 10
    assert {each.name: each.kind for each in ranks[1].variables}[f"{name}UNEXPECTED"] == "counter"
