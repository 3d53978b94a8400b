"""Every captured output gives exactly the readings that were checked against its text."""

from __future__ import annotations

from itertools import zip_longest
from typing import Any

import pytest

from npc import parsers
from npc.parsers.text.options import option, words_after
from npc.records.reading import Reading
from npc.records.record import OK, InvalidRecord, Record
from npc.records.units import METRICS
from tests import captured


@pytest.mark.parametrize("folder", captured.FOLDERS)
def test_expected_names_every_captured_output(folder: str) -> None:
    assert list(captured.expected(folder)) == [path.name for path in captured.outputs(folder)]
    assert (captured.DATA / folder / "README.md").is_file()


@pytest.mark.parametrize("folder", captured.FOLDERS)
def test_captured_outputs_give_the_expected_readings(folder: str) -> None:
    rows = captured.expected(folder)
    wrong = [
        f"{name}, reading {number}: {read}\n    expected: {row}"
        for name, readings in readings_of(folder).items()
        for number, (read, row) in enumerate(zip_longest(map(captured.as_json, readings), rows[name]), 1)
        if not agree(read, row)
    ]
    assert not wrong, listed(folder, wrong)


@pytest.mark.parametrize("folder", captured.FOLDERS)
def test_every_reading_makes_a_record(folder: str) -> None:
    wrong = []
    for name, readings in readings_of(folder).items():
        for reading in readings:
            try:
                record = Record.of(
                    reading,
                    time="2026-11-21T09:00:00Z",
                    platform="localhost",
                    benchmark=captured.FOLDERS[folder],
                )
            except InvalidRecord as error:
                wrong.append(f"{name}: {reading}: {error}")
                continue
            told = record.value is not None or record.status.startswith(NO_NUMBER)
            if not told or record.unit != METRICS[reading.metric].unit:
                wrong.append(f"{name}: {record}")
    assert not wrong, listed(folder, wrong)


@pytest.mark.parametrize("folder", captured.FOLDERS)
def test_failures_are_told_and_have_no_usable_number(folder: str) -> None:
    wrong = [
        f"{name}: {reading}"
        for name, readings in readings_of(folder).items()
        for reading in readings
        if name.startswith("fail_") and name not in {*LIES, *PARTLY_GOOD} and reading.status == OK
    ]
    assert not wrong, listed(folder, wrong)


def readings_of(folder: str) -> dict[str, list[Reading]]:
    """What the parser reads in each captured output of a folder now."""
    found = {}
    for path in captured.outputs(folder):
        try:
            found[path.name] = captured.read(captured.FOLDERS[folder], path)
        except Exception as error:
            raise AssertionError(f"{folder}/{path.name}: the parser raises {error!r}") from error
    return found


def agree(read: list[Any] | None, row: list[Any] | None) -> bool:
    """Whether a reading is the expected one, its value (third in the list) within what floats lose."""
    if read is None or row is None:
        return False
    value = row[2] if row[2] is None else pytest.approx(row[2], rel=1e-12)
    return read == [*row[:2], value, *row[3:]]


def listed(folder: str, wrong: list[str]) -> str:
    """All that is wrong in a folder, a line each."""
    return f"{folder}:\n  " + "\n  ".join(wrong)


#: How the status of a record without a value begins; no record holds a negative loss, which is invalid.
NO_NUMBER = ("failed: ", "invalid: ", "unavailable: ")
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


@pytest.mark.parametrize("name", ["nosuch", "commands", "", "os", "../qperf", "npc.parsers.qperf"])
def test_unknown_parser_lists_those_there_are(name: str) -> None:
    with pytest.raises(parsers.UnknownParser, match=r"there are: .*qperf.*stream"):
        parsers.load(name)


@pytest.mark.parametrize("tool", sorted(set(captured.FOLDERS.values())))
def test_text_of_no_tool_gives_nothing(tool: str) -> None:
    for text in ("", "\n", " ", "\0", "#@ cmd:", "#@ cmd: 'unbalanced\n", "no tool's text\n"):
        assert [reading for reading in parsers.parse(tool, text) if reading.value is not None] == [], text


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
    assert option(words, "-m", "--msg-size") == value


def test_words_after_skips_what_started_the_tool() -> None:
    argv = ["timeout", "-s", "INT", "2", "/usr/bin/sockperf", "ping-pong", "-t", "6"]
    assert words_after(argv, "sockperf") == ["ping-pong", "-t", "6"]
    assert words_after(["mpirun", "x"], "sockperf") == ["mpirun", "x"]
