"""POP's efficiencies and the load imbalance, of runs whose numbers are known."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from npc.observe.mpi.efficiency import (
    efficiency_by_region,
    efficiency_of,
    load_of,
    scaling_of,
)
from npc.observe.mpi.records import Rank
from tests.made.profiles import Job

SECONDS = st.lists(st.floats(0.001, 1e4), min_size=1, max_size=30)


def loads_of(job: Job) -> list[Rank]:
    return [load_of(profile) for profile in job.profiles()]


def rank(number: int, seconds: float, mpi: float, **more: float) -> Rank:
    return Rank(rank=number, host="n0", seconds=seconds, mpi=mpi, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize("percent", [0, 20, 50])
def test_an_imbalance_of_so_many_percent_is_found(percent: int) -> None:
    """Three ranks compute a little less than the mean, the last one so much more."""
    above = percent / 100
    job = Job(4, per_node=2, ahead=3600.0)
    for _ in range(100):
        job.compute(*[1 - above / 3] * 3, 1 + above)
        job.collective("MPI_Allreduce", seconds=0.1)
    found = efficiency_of(loads_of(job))
    assert found.imbalance == pytest.approx(above, abs=1e-6)
    assert found.slowest == 3 or not percent
    assert found.seconds == pytest.approx(100 * (1.1 + above))
    assert found.gain == pytest.approx(100 * above, abs=1e-6)
    assert found.load_balance == pytest.approx(1 / (1 + above))
    assert found.communication == pytest.approx((1 + above) / (1.1 + above))
    assert found.parallel == found.mpi == pytest.approx(1 / (1.1 + above))
    assert found.openmp is None and found.reasons == {"openmp": "each rank has one thread"}


@given(SECONDS, st.floats(0, 10))
def test_efficiencies_are_shares_whose_products_hold(computing: list[float], transfer: float) -> None:
    job = Job(len(computing))
    job.compute(*computing)
    job.collective("MPI_Barrier", seconds=transfer)
    found = efficiency_of(loads_of(job))
    assert found.load_balance and found.communication and found.mpi
    assert 0 < found.mpi <= min(found.load_balance, found.communication) + 1e-9
    assert max(found.load_balance, found.communication) <= 1 + 1e-9
    assert found.mpi == pytest.approx(found.load_balance * found.communication)
    assert found.imbalance == pytest.approx(1 / found.load_balance - 1, abs=1e-9)
    assert found.gain == pytest.approx(max(computing) - sum(computing) / len(computing), abs=1e-6)


def test_threads_that_had_nothing_to_do_are_openmps_part() -> None:
    """Two ranks with four threads, outside MPI for 8 of 10 s: 20 s of CPU in 8 s by 4 threads."""
    hybrid = [rank(number, 10, 2, threads=4, cpu=22) for number in range(2)]
    found = efficiency_of(hybrid)
    assert found.threads == 8
    assert found.mpi == pytest.approx(0.8)
    assert found.openmp == pytest.approx(20 / 32)
    assert found.parallel == pytest.approx(0.5)
    assert found.reasons == {}


def test_without_cpu_time_openmps_part_is_unavailable_and_the_reason_is_said() -> None:
    found = efficiency_of([rank(0, 10, 2, threads=4, cpu=22), rank(1, 10, 2, threads=4)])
    assert found.parallel is None and found.openmp is None
    assert found.mpi == pytest.approx(0.8)
    assert "CPU time" in found.reasons["parallel"] and "CPU time" in found.reasons["openmp"]


def test_a_run_all_inside_mpi_or_without_time_divides_by_nothing() -> None:
    inside = efficiency_of([rank(0, 1, 1), rank(1, 1, 1)])
    assert inside.imbalance is None and inside.load_balance is None and inside.mpi == 0
    assert set(inside.reasons) == {"imbalance", "load_balance", "openmp"}
    at_once = efficiency_of([rank(0, 0, 0)])
    assert at_once.parallel is None and at_once.reasons["parallel"] == "no time passed"
    with pytest.raises(ValueError, match="no rank"):
        efficiency_of([])


def test_the_gpus_efficiency_moves_the_load() -> None:
    """Eq. 4.5: what a rank's kernels took counts as much as they used of the GPU."""
    loads = [rank(0, 10, 2), rank(1, 10, 6)]
    assert efficiency_of(loads).imbalance == pytest.approx(8 / 6 - 1)
    assert efficiency_of(loads, {0: 0.5, 1: 1.0}).imbalance == pytest.approx(0)
    with pytest.raises(KeyError):
        efficiency_of(loads, {0: 0.5})


def test_each_region_has_its_own_efficiencies() -> None:
    job = Job(2)
    for _ in range(10):
        with job.region("balanced"):
            job.compute(1.0)
            job.collective("MPI_Allreduce", seconds=0.25)
        with job.region("not"):
            job.compute(1.0, 3.0)
            job.collective("MPI_Barrier", seconds=0)
    loads = loads_of(job)
    found = efficiency_by_region(loads)
    assert found["balanced"].imbalance == pytest.approx(0, abs=1e-6)
    assert found["balanced"].communication == pytest.approx(0.8)
    assert found["not"].imbalance == pytest.approx(0.5)
    assert found["not"].communication == pytest.approx(1)
    assert found["not"].slowest == 1
    assert efficiency_of(loads).seconds == pytest.approx(42.5)


def test_strong_and_weak_scaling() -> None:
    """Twice the ranks: the same work and 10 % on top, or twice the work and 10 %."""
    before = [rank(number, 11, 1) for number in range(2)]
    strong = scaling_of([rank(number, 6, 0.5) for number in range(4)], before, weak=False)
    assert strong.computation == pytest.approx(20 / 22)
    assert strong.total == pytest.approx(20 / 22 * 5.5 / 6)
    weak = scaling_of([rank(number, 12, 1) for number in range(4)], before, weak=True)
    assert weak.computation == pytest.approx(10 / 11)
    itself = scaling_of(before, before, weak=False)
    assert itself.computation == 1 and itself.total == efficiency_of(before).parallel
    assert "not counted" in itself.reasons["ipc"] and itself.ipc is None


COUNTS = st.integers(10**6, 10**12)


@given(COUNTS, COUNTS, COUNTS, COUNTS, st.floats(1, 100), st.booleans())
def test_computation_is_instructions_by_ipc_by_frequency(
    executed: int, cycles: int, executed_before: int, cycles_before: int, seconds: float, weak: bool
) -> None:
    before = [rank(0, 10, 0.1, instructions=executed_before, cycles=cycles_before)]
    after = [rank(number, seconds, 0, instructions=executed, cycles=cycles) for number in range(3)]
    found = scaling_of(after, before, weak)
    assert found.instructions and found.ipc and found.frequency
    assert found.instructions * found.ipc * found.frequency == pytest.approx(found.computation)


def test_instructions_of_a_run_that_polled_in_mpi_are_not_taken() -> None:
    counted = {"instructions": 10**9, "cycles": 10**9}
    found = scaling_of([rank(0, 10, 5, **counted)], [rank(0, 10, 0, **counted)], weak=False)
    assert found.computation == 2 and found.instructions is None
    assert found.reasons["instructions"].startswith("50% of the time was inside MPI")


def test_a_load_is_read_as_it_was_written() -> None:
    job = Job(2)
    with job.region("solve"):
        job.compute(1.0, 2.0)
        job.collective("MPI_Allreduce")
    for load in loads_of(job):
        more = replace(load, threads=4, cpu=3.0)
        assert msgspec.json.decode(msgspec.json.encode(more), type=Rank) == more
        assert more.calls["MPI_Allreduce"].calls == 1
