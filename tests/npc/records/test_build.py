"""How a launch and its readings become records."""

from __future__ import annotations

import dataclasses

import pytest

from npc.records.build import Origin, record_of_failure, records_of, swept_size
from npc.records.launch import Launch
from npc.records.reading import Reading
from npc.records.record import Record

LAUNCH = Launch(
    id=0, argv=("/opt/bin/qperf", "n1", "tcp_bw"), started="2026-11-21T08:00:00+00:00", seconds=1.0, exit=0,
    sample=3, params={"msg_size": "64K", "interface": "eth0", "server_cpus": "0"}, nodes=2,
    hosts=("n1", "n2"), raw="raw/0000.out",
)  # fmt: skip
ORIGIN = Origin("fuchs", "qperf", "000003", "4711")


def made(*readings: Reading, **changes: object) -> list[Record]:
    launch = dataclasses.replace(LAUNCH, **changes)  # type: ignore[arg-type]
    return list(records_of(launch, readings, ORIGIN, launch.raw))


def test_a_record_has_all_that_its_reading_its_launch_and_its_origin_say() -> None:
    reading = Reading("tcp_bw", "bandwidth", 1e9, 65536, params={"side": "send"}, tool_version="0.4.11")
    assert made(reading) == [
        Record(
            time=LAUNCH.started, platform="fuchs", benchmark="qperf", case="tcp_bw", metric="bandwidth",
            value=1e9, unit="B/s", size=65536, nodes=2, hosts=("n1", "n2"), job="4711", run="000003",
            sample=3, params={"interface": "eth0", "server_cpus": "0", "side": "send"}, raw="raw/0000.out",
            tool_version="0.4.11",
        )
    ]  # fmt: skip


def test_the_swept_size_is_that_of_a_tool_that_prints_none() -> None:
    (record,) = made(Reading("tcp_bw", "bandwidth", 1e9))
    assert record.size == 65536 and "msg_size" not in record.params


def test_a_swept_option_that_is_not_the_size_stays_a_param() -> None:
    """perftest's -m is the MTU."""
    (record,) = made(Reading("ib_write_bw", "bandwidth", 1e9, 4096), params={"m": "2048"})
    assert (record.size, record.params) == (4096, {"m": "2048"})


@pytest.mark.parametrize(
    ("params", "size"),
    [
        ({"m": "1024"}, 1024),
        ({"msg-size": "64K"}, 65536),
        ({"len": "2M"}, 2**21),
        ({"size": "many", "s": "8"}, 8),
        ({"time": "2"}, None),
    ],
)
def test_the_names_of_a_size(params: dict[str, str], size: int | None) -> None:
    assert swept_size(params) == size


@pytest.mark.parametrize(("case", "there"), [("udp_lat", True), ("rc_bw", False)])
def test_only_what_sockets_send_goes_over_the_interface(case: str, there: bool) -> None:
    (record,) = made(Reading(case, "bandwidth", 1.0))
    assert ("interface" in record.params) == there


def test_a_launch_without_a_reading_has_one_record_with_the_tool_s_name() -> None:
    (record,) = made()
    assert (record.case, record.metric, record.value) == ("qperf", "time", None)
    assert record.status == "failed: nothing in the output that could be read"
    (record,) = made(status="timeout: too long", case="all cores")
    assert (record.case, record.status) == ("all cores", "timeout: too long")


def test_numbers_of_a_failed_launch_are_kept_with_its_status() -> None:
    good, bad = Reading("a", "time", 1.0), Reading("b", "time", None, status="failed: own reason")
    status = "failed: exit code 1"
    assert [record.status for record in made(good, bad, status=status)] == [status, bad.status]
    assert [record.status for record in made(bad, status=status)] == [status], "the launcher knows better"
    assert [record.status for record in made(good, bad, status=bad.status)] == ["ok", bad.status]


def test_a_reading_that_cannot_be_true_is_invalid_and_costs_no_other() -> None:
    good, wrong = Reading("a", "time", 1.0), Reading("b", "latency", -1.0)
    assert [record.status for record in made(good, wrong)] == ["ok", "invalid: value: -1.0 is no measurement"]


@pytest.mark.parametrize(
    ("ran", "status"), [("4", "ok"), ("1", "invalid: 1 MPI ranks ran, 4 were asked for")]
)
def test_the_ranks_that_ran_are_those_that_were_asked_for(ran: str, status: str) -> None:
    (record,) = made(Reading("osu_bw", "bandwidth", 1.0, params={"ranks": ran}), params={"ranks": "4"})
    assert record.status == status


def test_launches_that_were_not_made_are_a_record() -> None:
    record = record_of_failure("failed: 2 of 6", ORIGIN, LAUNCH.started, "launches.jsonl")
    assert (record.status, record.job, record.raw, record.ok) == (
        "failed: 2 of 6", "4711", "launches.jsonl", False,
    )  # fmt: skip
