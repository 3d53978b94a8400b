"""fio's text, terse lines and JSON give the same numbers; none where they are cut or disagree."""

from __future__ import annotations

import json
import re

import pytest

from npc import parsers
from npc.records.reading import OK, Reading
from tests.captured import text_of


def read(text: str, command: str = "") -> list[Reading]:
    return parsers.parse("fio", text, command.split())


def numbers(readings: list[Reading]) -> dict[tuple[str, ...], float | None]:
    """The usable values by case, metric, size and what tells a tool's numbers apart."""
    return {
        (
            reading.case, reading.metric, str(reading.size), reading.params.get("direction", ""),
            reading.params.get("statistic", ""),
        ): reading.value
        for reading in readings if reading.status == OK
    }  # fmt: skip


def without(text: str, *beginnings: str) -> str:
    lines = text.splitlines(keepends=True)
    return "".join(line for line in lines if not line.lstrip().startswith(beginnings))


def test_text_and_json_of_one_run_agree() -> None:
    text = text_of("fio", "normal_json.txt")
    begin, end = text.index("\n{\n") + 1, text.index("\n}\n") + 3
    of_text, of_json = numbers(read(text[:begin] + text[end:])), numbers(read(text[begin:end]))
    assert len(of_json) >= 5 and of_text == pytest.approx(of_json, rel=0.01)
    assert numbers(read(text)) == of_json


@pytest.mark.parametrize("version", [2, 3, 4, 5])
def test_a_terse_line_is_in_kib_and_microseconds(version: int) -> None:
    text = text_of("fio", f"terse_v{version}.txt")
    cells = next(line for line in text.splitlines() if line.startswith(f"{version};")).split(";")
    read_begin = 4 if version == 2 else 5
    values = {key[1:]: value for key, value in numbers(read(text)).items()}
    p99 = next(cell for cell in cells[read_begin:] if cell.startswith("99.000000%="))
    assert values["bandwidth", "None", "read", ""] == 1024 * int(cells[read_begin + 1])
    assert values["operation_rate", "None", "read", ""] == int(cells[read_begin + 2])
    assert values["latency", "None", "read", ""] == pytest.approx(1e-6 * float(cells[read_begin + 34]))
    assert values["latency", "None", "read", "p99"] == pytest.approx(1e-6 * float(p99.partition("=")[2]))
    (reading,) = read(text + text)
    assert reading.value is None and "several terse lines of one job" in reading.status
    named = read(text, "fio --name=rand --rw=randrw --bs=4k --size=16M --direct=1")
    settings = {(reading.case, reading.size, reading.params["direct"]) for reading in named}
    assert settings == {("randrw", 4096, "1")}
    assert read(text[: text.rindex(";")])[0].value is None


@pytest.mark.parametrize(
    ("name", "rate"),
    [
        ("text_group.txt", 78.2 * 2**20),
        ("text_kb_base_1000.txt", 53.1e6),
        ("text_bits.txt", 454 * 2**20 / 8),
        ("text_mixed.txt", 93.6 * 2**20),
        ("client_text.txt", 39.9 * 2**20),
    ],
)
def test_units_of_the_text(name: str, rate: float) -> None:
    bandwidths = [reading for reading in read(text_of("fio", name)) if reading.metric == "bandwidth"]
    assert [(reading.value, reading.status) for reading in bandwidths] == [(pytest.approx(rate), OK)]
    assert "direct" not in bandwidths[0].params  # the text does not tell


def test_clones_are_their_sum_as_the_status_of_the_group_has_it() -> None:
    values = numbers(read(text_of("fio", "text_clones.txt")))
    assert values["randrw", "bandwidth", "4096", "read", ""] == pytest.approx(94.9e6, rel=5e-3)
    assert values["randrw", "bandwidth", "8192", "write", ""] == pytest.approx(200e6, rel=5e-3)


def test_two_clients_are_their_sum() -> None:
    text = text_of("fio", "two_clients_json.txt")
    entries = json.loads(text[text.index("{") : text.rindex("}") + 1])["client_stats"]
    (total,) = (entry["read"]["bw_bytes"] for entry in entries if entry["jobname"] == "All clients")
    readings = read(text)
    assert numbers(readings)["randread", "bandwidth", "4096", "", ""] == pytest.approx(total)
    assert {(reading.params["clients"], reading.params["processes"]) for reading in readings} == {("2", "1")}


@pytest.mark.parametrize(
    "name", ["text_clones.txt", "text_group.txt", "text_two_jobs.txt", "client_text.txt"]
)
def test_a_text_without_its_end_is_cut(name: str) -> None:
    text = text_of("fio", name)
    for end in ("Run status group", "issued rwts"):
        readings = read(text[: text.index(end)])
        assert [reading.value for reading in readings] == [None] * len(readings)
        assert readings and "cut off" in readings[0].status


@pytest.mark.parametrize("name", ["read_json.txt", "normal_json.txt", "two_clients_json.txt"])
def test_a_json_without_its_end_is_cut_and_one_within_other_text_is_read(name: str) -> None:
    text = text_of("fio", name)
    document = text[text.index("{") : text.rindex("\n}") + 2]
    (reading,) = read(document[: len(document) // 2] + "\n")
    assert (reading.value, "cut off" in reading.status) == (None, True)
    one_line = json.dumps(json.loads(document))
    assert (
        read(one_line)
        == read(f"n1: {one_line} done\n")
        == read(f"$ fio job\n  {document}\nreal 1 s\n")
        == read(text)
    )


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("text_group.txt", r"BW=78\.2MiB/s \(82\.0MB/s\)", "BW=78.2MiB/s (78.2MB/s)"),
        ("text_group.txt", r"BW=78\.2MiB/s \(82\.0MB/s\)", "BW=98.2MiB/s (103MB/s)"),
        ("text_group.txt", r"IOPS=20\.0k", "IOPS=2.0k"),
        ("text_group.txt", r"READ: bw=78\.2MiB/s \(82\.0MB/s\)", "READ: bw=39.1MiB/s (41.0MB/s)"),
        ("text_group.txt", r"total=8192", "total=4096"),
        ("text_group.txt", r"(  read: [^\n]*\n)", r"\1\1"),
        ("read_json.txt", r'"bw_bytes" : \d+', '"bw_bytes" : 5592405332'),
    ],
)
def test_numbers_that_contradict_each_other_are_invalid(name: str, old: str, new: str) -> None:
    text, number = re.subn(old, new, text_of("fio", name), count=1)
    assert number == 1 and {reading.status for reading in read(text_of("fio", name))} == {OK}
    assert all(reading.status.startswith("invalid: ") for reading in read(text))


def test_a_kilobyte_of_1000_bytes_is_found_in_the_text_of_2() -> None:
    assert {reading.status for reading in read(text_of("fio-formats", "v2.2.10_text.txt"))} == {OK}
    readings = read(text_of("fio-formats", "v2.2.10_kb_base_1000_text.txt"))
    assert all("600012 blocks of 4096 B" in reading.status for reading in readings)


@pytest.mark.parametrize("name", ["v2.0.8_text.txt", "v2.2.10_text.txt"])
def test_the_text_of_2_has_binary_units_and_named_latencies(name: str) -> None:
    values = numbers(read(text_of("fio-formats", name)))
    assert values["randwrite", "bandwidth", "4096", "", ""] == 40000 * 1024
    assert values["randwrite", "latency", "4096", "", ""] == pytest.approx(3193.10e-6)
    assert values["randwrite", "latency", "4096", "", "p99"] == pytest.approx(4256e-6)
    in_milliseconds = (
        text_of("fio-formats", name).replace("(usec):", "(msec):").replace("avg=3193.10", "avg=3.19")
    )
    values = numbers(read(in_milliseconds))
    assert values["randwrite", "latency", "4096", "", ""] == pytest.approx(3.19e-3)
    assert values["randwrite", "latency", "4096", "", "p99"] == pytest.approx(4.256)


def test_a_count_that_is_absent_is_no_zero() -> None:
    values = numbers(read(text_of("fio-formats", "v2.1_json.txt")))
    assert values["4k", "bandwidth", "None", "", ""] == 40012 * 1024
    zero = text_of("fio", "read_json.txt").replace('"total_ios" : 128', '"total_ios" : 0')
    assert [reading.status for reading in read(zero)] == ["failed: no operation was done"]


def test_several_sizes_of_blocks_are_no_size() -> None:
    text = text_of("fio", "read_json.txt").replace('"bs" : "256k"', '"bsrange" : "4k-256k"')
    assert {reading.size for reading in read(text)} == {None}


def test_two_runs_in_one_text_are_both_read() -> None:
    one, two = text_of("fio", "text_group.txt"), text_of("fio-formats", "v2.2.10_text.txt")
    assert len(read(one)) >= 5 and read(one + two) == [*read(one), *read(two)]
    assert len(read(one + one)) == 2 * len(read(one))


def test_an_excerpt_is_told_so() -> None:
    text = text_of("fio-formats", "fail_run_status_only.txt")
    (reading,) = read(text)
    assert reading.value is None and "looks like fio's output" in reading.status
    entry = json.dumps({"jobname": "a", "read": {"bw_bytes": 5}})
    assert "looks like fio's JSON" in read(entry)[0].status
    headless = without(text_of("fio", "text_group.txt"), "rand: (g=0)")
    assert "its heading 'NAME: (g=0): rw=…' is missing" in read(headless)[0].status
    by_command = numbers(read(headless, "fio --name=rand --rw=randread --bs=4k --numjobs=2"))
    assert by_command == numbers(read(text_of("fio", "text_group.txt")))
