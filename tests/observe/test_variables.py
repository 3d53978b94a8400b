"""Counters of the MPI library (MPI_T) and the profile's own totals over time, under real MPIs."""

from __future__ import annotations

import pytest

from observe.mpi.asked import settings


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
