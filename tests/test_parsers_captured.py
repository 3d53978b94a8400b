"""Every captured output gives exactly the readings that were checked against its text."""

from __future__ import annotations

import json
from pathlib import Path

import captured
import pytest

import parsers
from npc.record import OK, Record
from npc.units import METRICS

ALL = list(captured.all_outputs())


@pytest.mark.parametrize("folder", captured.FOLDERS)
def test_expected_names_every_captured_output(folder: str) -> None:
    expected = json.loads((captured.DATA / folder / captured.EXPECTED).read_text())
    assert list(expected) == [path.name for path in captured.outputs(folder)]
    assert (captured.DATA / folder / "README.md").is_file()


@pytest.mark.parametrize(("tool", "path"), ALL, ids=lambda value: getattr(value, "name", value))
def test_captured_output_gives_the_expected_readings(tool: str, path: Path) -> None:
    expected = json.loads((path.parent / captured.EXPECTED).read_text())[path.name]
    readings = [captured.as_json(reading) for reading in captured.read(tool, path)]
    assert readings == [[*row[:2], pytest.approx(row[2], rel=1e-12), *row[3:]] for row in expected]


@pytest.mark.parametrize(("tool", "path"), ALL, ids=lambda value: getattr(value, "name", value))
def test_every_reading_makes_a_record(tool: str, path: Path) -> None:
    for reading in captured.read(tool, path):
        record = Record.of(reading, time="2026-11-21T09:00:00Z", platform="localhost", benchmark=tool)
        assert record.unit == METRICS[reading.metric].unit
        assert record.value is not None or record.status.startswith(("failed: ", "unavailable: "))


@pytest.mark.parametrize(("tool", "path"), ALL, ids=lambda value: getattr(value, "name", value))
def test_failures_are_told_and_have_no_usable_number(tool: str, path: Path) -> None:
    if not path.name.startswith("fail_") or path.name in LIES:
        return
    assert not any(reading.status == OK for reading in captured.read(tool, path)) or path.name in PARTLY_GOOD


#: Failures that neither the text nor the command line shows.
LIES = {
    "fail_serverkilled.txt": "qperf prints the bandwidth of a server that was killed half-way",
    "fail_server_killed.client.txt": "perftest says on stderr only that its server was killed",
    "fail_limit_bw.client.txt": "perftest says on stderr only that the bandwidth is below the one asked for",
    "fail_udp_tp_noserver.txt": "sockperf counts what it sent; the readings say so (side: send)",
}
#: Failures in which a test before the bad one measured.
PARTLY_GOOD = {"fail_good_then_bad.txt"}


def test_names_are_the_parser_modules() -> None:
    assert set(captured.FOLDERS.values()) <= set(parsers.names())
    assert parsers.names() == sorted(parsers.names())
    for name in parsers.names():
        assert callable(parsers.load(name))


@pytest.mark.parametrize("name", ["nosuch", "commands", "", "os", "../qperf", "parsers.qperf"])
def test_unknown_parser_lists_those_there_are(name: str) -> None:
    with pytest.raises(parsers.UnknownParser, match=r"there are: .*qperf.*stream"):
        parsers.load(name)


@pytest.mark.parametrize("tool", sorted(set(captured.FOLDERS.values())))
@pytest.mark.parametrize(
    "text", ["", "\n", " ", "\0", "#@ cmd:", "#@ cmd: 'unbalanced\n", "no tool's text\n"]
)
def test_text_of_no_tool_gives_nothing(tool: str, text: str) -> None:
    assert [reading for reading in parsers.parse(tool, text) if reading.value is not None] == []


def test_the_header_line_gives_the_command_unless_one_is_given() -> None:
    text = "#@ cmd: qperf HOST -m 1K tcp_bw\ntcp_bw:\n    bw  =  1 GB/sec\n"
    assert [reading.size for reading in parsers.parse("qperf", text)] == [1024]
    assert [reading.size for reading in parsers.parse("qperf", text, ["qperf", "HOST", "-m2K"])] == [2048]


@pytest.mark.parametrize(
    ("words", "value"),
    [
        (["-m", "9"], "9"),
        (["-m9"], "9"),
        (["--msg-size", "9"], "9"),
        (["--msg-size=9"], "9"),
        (["-m", "8", "--msg-size=9"], "9"),
        (["--mps=9"], None),
        (["-mc-rx-if", "eth0"], None),
        (["-m"], None),
        ([], None),
    ],
)
def test_option_finds_the_value_as_the_tools_do(words: list[str], value: str | None) -> None:
    assert parsers.option(words, "-m", "--msg-size") == value


def test_words_after_skips_what_started_the_tool() -> None:
    argv = ["timeout", "-s", "INT", "2", "/usr/bin/sockperf", "ping-pong", "-t", "6"]
    assert parsers.words_after(argv, "sockperf") == ["ping-pong", "-t", "6"]
    assert parsers.words_after(["mpirun", "x"], "sockperf") == ["mpirun", "x"]
