"""iperf3's numbers that passed through people's hands, or contradict each other, are not called good."""

from __future__ import annotations

import json

import pytest

from npc import parsers
from npc.records.reading import NOTE, OK, Reading
from tests.captured import text_of


def read(text: str, command: str = "") -> list[Reading]:
    return parsers.parse("iperf3", text, command.split())


def statuses(folder: str, name: str) -> dict[tuple[str, str], str]:
    """The status of each reading of an output, by its metric and its side."""
    readings = read(text_of(folder, name))
    return {(reading.metric, reading.params.get("side", "")): reading.status for reading in readings}


@pytest.mark.parametrize("name", ["tcp_bidir_server_output.txt", "tcp_bidir_P2_server_output.txt"])
def test_both_directions_are_read_around_the_servers_output(name: str) -> None:
    text = text_of("iperf3", name)
    rows = [line.split() for line in text.splitlines() if line.endswith("receiver") and "-C]" in line]
    rows = [row for row in rows if row[0].startswith("[SUM]")] or rows
    printed = [float(row[row.index("sec") + 3]) * 1e9 / 8 for row in rows]
    directions = {
        reading.params["direction"]: reading.value
        for reading in read(text)
        if reading.metric == "bandwidth" and "side" not in reading.params
    }
    assert directions == pytest.approx(dict(zip(("bidir_forward", "bidir_reverse"), printed, strict=True)))


def test_a_direction_without_its_summary_has_failed() -> None:
    lines = text_of("iperf3", "tcp_bidir_server_output.txt").splitlines(keepends=True)
    readings = read("".join(line for line in lines if "[RX-C]" not in line))
    readings = [reading for reading in readings if reading.params["direction"] == "bidir_reverse"]
    assert [(reading.value, reading.status) for reading in readings] == [
        (None, "failed: the summary of this direction is missing")
    ]


def test_one_of_several_streams_is_not_their_sum() -> None:
    lines = text_of("iperf3", "tcp_bidir_P2_server_output.txt").splitlines(keepends=True)
    left = [line for line in lines if not line.startswith(("[SUM]", "[  7]", "[ 12]")) or "local" in line]
    assert {reading.params["streams"] for reading in read("".join(left))} == {"2"}
    seven = next(line for line in lines if line.startswith("[  7]") and "local" not in line)
    left.insert(left.index(next(line for line in left if line.startswith("- -"))), seven)
    assert [reading.status for reading in read("".join(left))] == ["failed: the summary lacks stream 7"]


def test_the_summary_of_another_run_is_not_that_of_one_without_its_end() -> None:
    """As where somebody pastes a server's text without its last lines, and below it a client's summary."""
    server = "".join(text_of("iperf3", "server_one_off.txt").partition("receiver\n")[:2])
    several = without_heading(text_of("iperf3", "tcp_bidir_P2_server_output.txt").replace("[RX-C]", ""))
    assert read(server, "iperf3 -s -1")[0].status == OK
    assert {reading.status for reading in read(server + several)} == {
        "failed: the summary is not that of one run"
    }


def without_heading(text: str) -> str:
    """The last summary of a client, as an excerpt has it."""
    return text[text.rindex("\n\n[") + 2 :]


def test_an_excerpt_without_its_heading_is_told_so() -> None:
    text = text_of("iperf3-formats", "fail_excerpt.txt")
    (reading,) = read(text)
    assert reading.value is None
    assert reading.status.startswith("failed: looks like iperf3's summary, but its heading is missing: ")
    received = [reading.value for reading in read(text, "iperf3 -c h") if "side" not in reading.params]
    assert received == [9.36e9 / 8, 12]  # the command tells protocol and direction


def test_a_wrapped_summary_is_not_the_old_form_without_sides() -> None:
    text = text_of("iperf3-formats", "fail_udp_wrapped.txt")
    assert [(reading.value, reading.status) for reading in read(text)] == [
        (None, "failed: the summary lacks 'sender' and 'receiver': its lines were wrapped or cut")
    ]
    quoted_printable = text.replace("0%)\nsender", "=\n0%)  sender").replace(
        "10%)\nreceiver", "=\n10%)  receiver"
    )
    assert read(quoted_printable) == read(text)
    old = text_of("iperf3-formats", "v3.1_udp_P2.txt")
    assert {reading.metric for reading in read(old)} == {"bandwidth", "jitter", "loss"}


def test_the_last_line_needs_no_line_end() -> None:
    text = text_of("iperf3", "tcp_text.txt")
    assert text.endswith("iperf Done.\n")
    assert read(text[:-1]) == read(text) and read(text)[0].status == OK


@pytest.mark.parametrize(
    ("name", "wrong", "good"),
    [
        ("v3.9_udp_percent.txt", [("loss", "")], [("bandwidth", ""), ("bandwidth", "send"), ("jitter", "")]),
        ("v3.9_udp_bytes_against_loss.txt", [("loss", "")], [("bandwidth", ""), ("bandwidth", "send")]),
        ("v3.9_udp_negative_loss.txt", [("loss", "")], [("bandwidth", ""), ("bandwidth", "send")]),
        ("v3.18_udp_negative_loss_json.txt", [("loss", "")], [("bandwidth", "")]),
        ("v3.9_udp_more_received.txt", [("bandwidth", ""), ("bandwidth", "send"), ("loss", "")], []),
        ("v3.1_R_omit.txt", [("bandwidth", ""), ("bandwidth", "send")], []),
        ("v3.18_rate_json.txt", [("bandwidth", ""), ("bandwidth", "send")], []),
    ],
)
def test_numbers_that_contradict_each_other_are_invalid(
    name: str, wrong: list[tuple[str, str]], good: list[tuple[str, str]]
) -> None:
    by_reading = statuses("iperf3-formats", name)
    assert all(by_reading[key].startswith("invalid: ") for key in wrong)
    assert [by_reading[key] for key in good] == [OK] * len(good)


def changed_json(**sums: dict[str, float]) -> list[Reading]:
    """What is read where some sums of a real run are others."""
    document = json.loads(text_of("iperf3", "udp_overload_json.txt"))
    for name, numbers in sums.items():
        document["end"][name].update(numbers)
    return read(json.dumps(document))


@pytest.mark.parametrize(
    ("sums", "metric"),
    [
        ({"sum_received": {"lost_percent": 1.0}}, "loss"),
        ({"sum_received": {"lost_packets": 0, "lost_percent": 0}}, "loss"),
        ({"sum_received": {"bits_per_second": 5.5e10}}, "bandwidth"),
        ({"sum_received": {"bytes": 3e10, "bits_per_second": 1.2e11}}, "bandwidth"),
        ({"sum_sent": {"bytes": 1e10}}, "bandwidth"),
    ],
)
def test_the_json_is_held_against_itself(sums: dict[str, dict[str, float]], metric: str) -> None:
    assert {reading.status for reading in changed_json()} == {OK}
    lies = [reading.metric for reading in changed_json(**sums) if reading.status.startswith("invalid: ")]
    assert metric in lies


def test_a_json_that_is_cut_is_told_so_and_one_within_a_line_is_read() -> None:
    text = text_of("iperf3", "tcp_json.txt")
    (reading,) = read(text[: len(text) // 2])
    assert reading.value is None and "the JSON is cut off" in reading.status
    one_line = json.dumps(json.loads(text))
    assert read(f"result of n1: {one_line} (stored)\n") == read(text)


@pytest.mark.parametrize(
    ("version", "noted"), [("3.12", True), ("3.15", True), ("3.16", False), ("3.20", False)]
)
def test_one_thread_for_all_streams_is_noted(version: str, noted: bool) -> None:
    text = text_of("iperf3", "tcp_P4_json.txt").replace("iperf 3.12", f"iperf {version}")
    readings = read(text)
    assert {NOTE in reading.params for reading in readings} == {noted}
    assert {reading.status for reading in readings} == {OK}
    assert not any(NOTE in reading.params for reading in read(text_of("iperf3", "tcp_json.txt")))


def test_the_number_of_streams_is_counted_where_no_command_tells_it() -> None:
    text = text_of("iperf3-formats", "v3.1_udp_P2.txt")
    assert {reading.params.get("streams") for reading in read(text)} == {"2"}


def test_a_json_with_two_values_of_one_name_is_that_of_two_runs() -> None:
    text = text_of("iperf3", "server_json.txt")
    lines = text.splitlines(keepends=True)
    line = next(line for line in lines[::-1] if '"bits_per_second"' in line and line.endswith(",\n"))
    (reading,) = read(text.replace(line, line + line.replace(":\t", ":\t1")))
    assert reading.value is None and "two values of 'bits_per_second'" in reading.status
    assert read(text.replace(line, line + line)) == read(text)
