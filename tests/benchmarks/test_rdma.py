"""RDMA, really: the benchmarks of the tag rdma in a guest with an RDMA device in software, and without one.

JUBE makes the jobs here, as on any machine; the guest is the cluster that runs their scripts; what they leave
is collected here. Emulated and in software it is slow, but every packet and every figure is genuine.
"""

from __future__ import annotations

import compileall
import os
import re
import subprocess
from pathlib import Path

import pytest

from npc.records.launch import LAUNCHES, Launch, read_launches
from npc.records.record import Record, read_csv
from npc.records.run import read_run
from tests.lab import rdma_guest
from tests.lab.jube_job import NPC, finish, platform, run_jube
from tests.lab.jube_tables import assert_same_numbers, collect
from tests.paths import ROOT

#: The guest takes about two minutes, and far longer where others compute as well: its limit is for those.
pytestmark = [pytest.mark.slow, pytest.mark.guest, pytest.mark.timeout(800)]

#: Little of everything: every test of perftest and of qperf that the suite runs, the cheapest one over all
#: sizes: reading, the other side does not poll, and leaves the emulated processors to those that work.
SWEPT = ["ib_read_bw"]
OF_ONE_SIZE = ["ib_read_lat", "ib_write_bw", "ib_send_bw", "ib_write_lat", "ib_send_lat"]
SIZE = 65536
SETTINGS = {
    "NPC_PERFTEST_ITERATIONS": "5",
    "NPC_RDMA_DEVICE": rdma_guest.DEVICE,
    "NPC_RDMA_GID_INDEX": "1",
    "NPC_RDMA_INTERFACE": "roce",
    "NPC_QPERF_RDMA_CM": "yes",
    "NPC_QPERF_KINDS": "rdma_bandwidth,rdma_latency",
    "NPC_QPERF_RDMA_BANDWIDTH_SIZES": "4K",
    "NPC_QPERF_RDMA_LATENCY_SIZES": "16",
    # With the header that RoCE demands and qperf does not send (`DATAGRAMS`): over RoCE it is no default.
    "NPC_QPERF_RDMA_LATENCY_TESTS": "rc_lat,rc_rdma_write_lat,rc_rdma_read_lat,ud_lat",
}
#: The library that adds it.
DATAGRAMS = ROOT / "tests/lab/roce_datagrams.c"
#: The guest's job script: nothing but the benchmark. Open MPI's own transport is not what is measured.
SUBMIT_JOB = """#!/bin/sh
exec >#STDOUTLOGFILE# 2>#STDERRLOGFILE#
#ENV#
#STARTER# #ARGS_STARTER# #EXECUTABLE# #ARGS_EXECUTABLE# && #FLAG# || #FLAG_ERROR#
"""
ENVIRONMENT = (
    "export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 "
    "OMPI_MCA_pml=ob1 OMPI_MCA_btl=self,vader "
    f"LD_PRELOAD={rdma_guest.SHARED}/datagrams.so"
)


@pytest.fixture(scope="module")
def outpaths(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """JUBE runs whose jobs ran in the guest: the suite with sweeps, perftest alone at one size."""
    if rdma_guest.problem():
        pytest.skip(f"needs a guest with RDMA in software: {rdma_guest.problem()}")
    for package in ("npb", "npc", "parsers"):  # which the guest would do at each start, and slowly
        compileall.compile_dir(ROOT / package, quiet=2)
    folder = tmp_path_factory.mktemp("rdma")
    site = platform(folder / "guest", "guest", submit="true", env=ENVIRONMENT)
    (site / "submit.job.in").write_text(SUBMIT_JOB)
    suite = ["jube.yml", folder / "suite", "--include-path", site, "--tag", "rdma"]
    run_jube(*suite, **SETTINGS, NPC_PERFTEST_TESTS=",".join(SWEPT))
    alone = ["benchmarks/perftest/benchmark.xml", folder / "alone", "--include-path", site]
    one_size = {"NPC_PERFTEST_KINDS": "sizes", "NPC_PERFTEST_SIZES": f"-s {SIZE}"}
    run_jube(*alone, **SETTINGS, **one_size, NPC_PERFTEST_TESTS=",".join(OF_ONE_SIZE))
    compiled = ["cc", "-shared", "-fPIC", "-O1", "-Wall", "-Werror", DATAGRAMS, "-o", folder / "datagrams.so"]
    subprocess.run(compiled, check=True)
    script = "for job in */000000/*/work; do (cd $job && sh ./submit.job); done"
    code, printed = rdma_guest.run(script, folder, limit_s=700.0)
    assert code == 0, printed
    for outpath in (folder / "suite", folder / "alone"):
        finish("jube", "continue", outpath)
    return [folder / "suite", folder / "alone"]


@pytest.fixture(scope="module")
def records_of(outpaths: list[Path]) -> dict[Path, list[Record]]:
    """What each of those runs measured."""
    return {outpath: collect(outpath) for outpath in outpaths}


@pytest.fixture(scope="module")
def records(records_of: dict[Path, list[Record]]) -> list[Record]:
    """What all of them measured."""
    return [record for found in records_of.values() for record in found]


def of(records: list[Record], benchmark: str, case: str, metric: str) -> list[Record]:
    """The headline records of a case."""
    return [
        record
        for record in records
        if (record.benchmark, record.case, record.metric) == (benchmark, case, metric)
        and "statistic" not in record.params
    ]


def test_every_job_measures_in_the_guest(records_of: dict[Path, list[Record]], records: list[Record]) -> None:
    bad = [record.status for record in records if not record.ok]
    # Emulated, a receiver may come too late for the first message, which is then sent again seconds later.
    assert bad in ([], ["failed: the result is 0.00"]), records
    assert {record.hosts for record in records} == {("guest", "guest")}
    # what the guest's own driver counts is read before and after each launch
    made = [launch for folder in records_of for launch in launches_of(folder)]
    assert made and all(launch.moved is not None and set(launch.moved) == {"guest"} for launch in made)
    suite, alone = records_of.values()
    assert {record.case for record in suite if record.benchmark == "perftest"} == {
        *SWEPT, "ib_atomic_bw", "ib_atomic_lat",
    }  # fmt: skip
    assert {record.case for record in alone} == set(OF_ONE_SIZE)
    assert {record.benchmark for record in records} == {"qperf", "perftest"}


def launches_of(outpath: Path) -> list[Launch]:
    """All launches of the jobs of a run."""
    folders = (file.parent for file in outpath.rglob(LAUNCHES))
    return [launch for folder in folders for launch in read_launches(folder).launches]


def sizes_of(case: str) -> list[int]:
    """The sizes at which a test of perftest is measured here."""
    return [2**power for power in range(1, 24)] if case in SWEPT else [SIZE]


@pytest.mark.parametrize("case", ["ib_write_bw", "ib_read_bw", "ib_send_bw"])
def test_perftest_measures_bandwidth(records: list[Record], case: str) -> None:
    bandwidths = of(records, "perftest", case, "bandwidth")
    assert [record.size for record in bandwidths] == sizes_of(case)
    rates = {record.size: record.value for record in of(records, "perftest", case, "message_rate")}
    for record in filter(lambda record: record.ok, bandwidths):
        assert record.unit == "B/s" and record.value and record.size
        assert record.value == pytest.approx(record.size * (rates[record.size] or 0.0))
        assert record.params["connection"] == "RC"
        assert record.params["device"] == rdma_guest.DEVICE
    if case in SWEPT:
        assert (rates[2] or 0.0) > (rates[2**23] or 0.0)
    # software on an emulated processor moves megabytes a second, a wrong unit would make it far more or less
    assert 1e5 < max(record.value or 0.0 for record in bandwidths) < 2e9


@pytest.mark.parametrize("case", ["ib_write_lat", "ib_read_lat", "ib_send_lat"])
def test_perftest_measures_latency(records: list[Record], case: str) -> None:
    latencies = of(records, "perftest", case, "latency")
    assert [(record.size, record.unit) for record in latencies] == [(SIZE, "s")]
    (latency,) = (record.value or 0.0 for record in latencies)
    assert latency > 1e-7
    # No message is sent faster than the measured bandwidth allows. Beside other tests one of the two may be
    # measured at a tenth of its speed and more; a wrong unit makes a thousandfold.
    bandwidths = of(records, "perftest", case.replace("_lat", "_bw"), "bandwidth")
    assert latency > SIZE / (100 * max(record.value or 0.0 for record in bandwidths))


def test_perftest_counts_atomic_operations(records: list[Record]) -> None:
    (rate,) = of(records, "perftest", "ib_atomic_bw", "message_rate")
    (latency,) = of(records, "perftest", "ib_atomic_lat", "latency")
    assert rate.size == latency.size == 8
    assert rate.params["operation"] == latency.params["operation"] == "fetch_add"
    assert rate.value and latency.value


@pytest.mark.parametrize("case", ["rc_bw", "rc_rdma_write_bw", "rc_rdma_read_bw"])
def test_qperf_measures_rdma_bandwidth(records: list[Record], case: str) -> None:
    (record,) = of(records, "qperf", case, "bandwidth")
    assert (record.unit, record.size) == ("B/s", 4096)
    assert 1e5 < (record.value or 0.0) < 2e9


@pytest.mark.parametrize("case", ["rc_lat", "rc_rdma_write_lat", "rc_rdma_read_lat", "ud_lat"])
def test_qperf_measures_rdma_latency(records: list[Record], case: str) -> None:
    (record,) = of(records, "qperf", case, "latency")
    assert (record.unit, record.size) == ("s", 16)
    assert 1e-7 < (record.value or 0.0) < 1.0


def test_the_raw_output_is_kept_beside_every_record(records_of: dict[Path, list[Record]]) -> None:
    texts = [
        (outpath / "000000" / raw).read_text()
        for outpath, records in records_of.items()
        for raw in {record.raw for record in records}
    ]
    assert sum("#bytes" in text for text in texts) == 8
    assert sum("use_cm" in text for text in texts) == 6
    assert sum("ud_lat:\n" in text for text in texts) == 1


def test_jubes_own_tables_have_the_same_numbers(records_of: dict[Path, list[Record]]) -> None:
    (suite, of_suite), (alone, of_alone) = records_of.items()
    assert assert_same_numbers("perftest", suite, of_suite) == 3
    assert assert_same_numbers("perftest", alone, of_alone) == 5
    assert assert_same_numbers("qperf", suite, of_suite) == 7


# -- without a device --------------------------------------------------------------------------------------

RDMA_DEVICES = Path("/sys/class/infiniband")
without_device = pytest.mark.skipif(
    RDMA_DEVICES.is_dir() and any(RDMA_DEVICES.iterdir()), reason="this machine has an RDMA device"
)


@pytest.mark.optional_skip("a machine with an RDMA device")
@without_device
def test_without_a_device_everything_is_unavailable_and_nothing_has_failed(tmp_path: Path) -> None:
    settings = ["--set", "perftest_tests=ib_write_bw,ib_read_bw", "--set", "qperf_rdma_latency_sizes=1"]
    settings += ["--set", "samples=1"]
    ended = finish(NPC, "characterise", "--tag", "rdma", "--output", tmp_path, *settings)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    records = read_run(tmp_path / "000000")
    assert {record.benchmark for record in records} == {"qperf", "perftest"}
    assert {record.case for record in records} >= {
        "ib_write_bw", "ib_read_bw", "ib_atomic_lat", "rc_lat", "ud_lat",
    }  # fmt: skip
    for record in records:
        assert record.value is None
        assert record.status.startswith("unavailable: no RDMA device: ")
    assert re.search(r"^perftest \d: unavailable: no RDMA device", ended.stderr, re.MULTILINE)


@pytest.mark.optional_skip("a machine with an RDMA device")
@without_device
@pytest.mark.parametrize(
    ("server", "client"),
    [("ib_send_lat -F", "ib_send_lat -F HOSTNAME"), ("qperf", "qperf HOSTNAME -t 1 -uu rc_lat")],
    ids=["perftest", "qperf"],
)
def test_npb_alone_says_that_there_is_no_device(tmp_path: Path, server: str, client: str) -> None:
    output = tmp_path / "launches"
    ended = finish(
        "mpirun", "-n", "2", "--oversubscribe", NPC.with_name("npb"), "--servercmd", server,
        "--clientcmd", client, "--killserver", "--output", output,
        OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1",
    )  # fmt: skip
    assert ended.returncode != 0
    (record,) = read_csv(output / "records.csv")
    assert record.status.startswith("unavailable: no RDMA device: ")
    assert record.status in ended.stdout + os.linesep
