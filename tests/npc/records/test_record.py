"""Records: written to CSV and read back unchanged, and refused where they cannot be true."""

from __future__ import annotations

import csv
import io
import math
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from npc import InvalidRecord, Reading, Record, read_run
from npc.records.record import (
    COLUMNS,
    OK,
    from_row,
    moment,
    read_csv,
    replace,
    save_csv,
    to_row,
    write_csv,
)
from npc.records.units import METRICS

GOOD: dict[str, Any] = {
    "time": "2026-01-02T03:04:05.678+00:00",
    "platform": "localhost",
    "benchmark": "qperf",
    "case": "tcp_bw",
    "metric": "bandwidth",
    "value": 1.25e9,
    "unit": "B/s",
    "size": 65536,
    "nodes": 2,
    "hosts": ("n1", "n2"),
    "job": "4711",
    "run": "000001",
    "sample": 3,
    "params": {"msg_size": "64K"},
    "raw": "000001/raw/0003.out",
}

#: Any text that UTF-8 can carry, control characters, quotes and line ends of all kinds among it.
texts = st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\0"), max_size=30)
hosts = st.lists(
    st.text(st.characters(exclude_categories=("Cs",), exclude_characters=";\0"), min_size=1, max_size=12),
    max_size=4,
).map(tuple)


@st.composite
def records(draw: st.DrawFn) -> Record:
    """Any record that may be made."""
    metric = draw(st.sampled_from(sorted(METRICS)))
    status = draw(st.just(OK) | texts.filter(bool))
    values = st.floats(min_value=0, allow_nan=False, allow_infinity=False)
    moment = draw(st.datetimes(timezones=st.just(timezone.utc)))
    return Record(
        time=moment.isoformat(),
        platform=draw(texts),
        benchmark=draw(texts),
        case=draw(texts),
        metric=metric,
        value=draw(values if status == OK else values | st.none()),
        unit=METRICS[metric].unit,
        size=draw(st.none() | st.integers(min_value=0, max_value=2**63 - 1)),
        nodes=draw(st.integers(min_value=1, max_value=10**6)),
        hosts=draw(hosts),
        job=draw(texts),
        run=draw(texts),
        sample=draw(st.integers(min_value=0, max_value=10**6)),
        status=status,
        tool_version=draw(texts),
        params=draw(st.dictionaries(texts, texts, max_size=4)),
        raw=draw(texts),
    )


@settings(max_examples=50)
@given(st.lists(records(), max_size=5))
@example([Record(**{**GOOD, "status": 'failed: line one\nline "two", or\r\nthree\rfour', "value": None})])
@example([Record(**{**GOOD, "params": {"µ;,\"'\n": "\x00\u2028\x85"}, "raw": "a\rb"})])
def test_records_are_read_back_as_they_were_written(
    tmp_path_factory: pytest.TempPathFactory, written: list[Record]
) -> None:
    path = tmp_path_factory.mktemp("csv") / "records.csv"
    save_csv(written, path)
    assert list(read_csv(path)) == written
    assert list(path.parent.iterdir()) == [path]


@given(records())
def test_a_row_has_a_cell_for_every_column(record: Record) -> None:
    row = to_row(record)
    assert tuple(row) == COLUMNS
    assert from_row(row) == record


def test_the_columns_are_the_ones_of_the_design() -> None:
    stream = io.StringIO()
    write_csv([Record(**GOOD)], stream)
    header, row = stream.getvalue().splitlines()
    assert header == (
        "time,platform,benchmark,case,metric,value,unit,size,nodes,hosts,job,run,sample,status,"
        "tool_version,params,raw"
    )
    assert row == (
        "2026-01-02T03:04:05.678+00:00,localhost,qperf,tcp_bw,bandwidth,1250000000.0,B/s,65536,2,n1;n2,"
        '4711,000001,3,ok,,"{""msg_size"": ""64K""}",000001/raw/0003.out'
    )


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("metric", "speed"),
        ("unit", "MB/s"),
        ("status", ""),
        ("value", None),
        ("value", -1.0),
        ("value", math.nan),
        ("value", math.inf),
        ("size", -1),
        ("nodes", 0),
        ("sample", -1),
        ("time", "yesterday"),
        ("time", "2026-01-02T03:04:05"),
        ("hosts", ("a;b",)),
        ("hosts", ("",)),
    ],
)
def test_a_record_that_cannot_be_true_is_refused_by_the_field_s_name(field: str, value: object) -> None:
    with pytest.raises(InvalidRecord, match=field):
        Record(**{**GOOD, field: value})
    with pytest.raises(InvalidRecord, match=field):
        replace(Record(**GOOD), **{field: value})


@pytest.mark.parametrize(
    ("column", "cell"),
    [
        ("value", "fast"), ("value", "nan"), ("size", "64K"), ("nodes", "two"), ("nodes", ""),
        ("sample", "1.5"), ("params", "{"), ("params", "[1]"), ("params", "{}x"),
        ("time", ""), ("metric", ""),
    ],
)  # fmt: skip
def test_a_bad_cell_is_reported_with_file_line_and_column(tmp_path: Path, column: str, cell: str) -> None:
    path = tmp_path / "records.csv"
    good = to_row(Record(**GOOD))
    with path.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.DictWriter(stream, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows([good, {**good, column: cell}])
    reader = read_csv(path)
    assert next(reader) == Record(**GOOD)
    with pytest.raises(InvalidRecord, match=rf"records\.csv:3: .*{column}"):
        next(reader)


def test_a_missing_column_is_named(tmp_path: Path) -> None:
    path = tmp_path / "records.csv"
    save_csv([Record(**GOOD)], path)
    text = path.read_text(encoding="utf-8").replace(",sample,", ",smple,", 1)
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InvalidRecord, match="sample"):
        list(read_csv(path))


def test_a_truncated_file_gives_its_whole_rows_and_then_an_error(tmp_path: Path) -> None:
    path = tmp_path / "records.csv"
    save_csv([Record(**GOOD), Record(**GOOD)], path)
    text = path.read_text(encoding="utf-8")
    path.write_text(text[: text.rindex("bandwidth")], encoding="utf-8")
    reader = read_csv(path)
    assert next(reader) == Record(**GOOD)
    with pytest.raises(InvalidRecord, match=r"records\.csv:3"):
        next(reader)


def test_what_moves_a_terminal_or_fills_a_cell_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "records.csv"
    shown = Record(
        **{**GOOD, "status": "failed: \0\x1b[2J\x9b2J\n\udcff", "value": None, "hosts": ("n1\x07",)}
    )
    long = Record(**{**GOOD, "tool_version": "x" * 200_000, "params": {"\x1b]0;owned": "y" * 200_000}})
    save_csv([shown, long], path)
    assert list(read_csv(path)) == [shown, long]
    assert shown.status == "failed: \u2400\u241b[2J\ufffd2J\u240a\\udcff"
    assert shown.hosts == ("n1\u2407",)
    assert list(long.params) == ["\u241b]0;owned"] and long.params["\u241b]0;owned"].endswith("y…")


@pytest.mark.parametrize("damage", [b"\xff\xfe", b'"' + b"x" * 200_000 + b'"'])
def test_a_file_that_is_no_csv_is_reported_with_its_name(tmp_path: Path, damage: bytes) -> None:
    path = tmp_path / "records.csv"
    save_csv([Record(**GOOD)], path)
    path.write_bytes(path.read_bytes() + damage + b",,\n")
    with pytest.raises(InvalidRecord, match=r"records\.csv(:\d+)?: .*npc records collect"):
        list(read_csv(path))


def test_a_failed_write_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "records.csv"
    save_csv([Record(**GOOD)], path)
    before = path.read_bytes()

    def broken() -> Any:
        yield Record(**GOOD)
        raise OSError("the disk is full")

    with pytest.raises(OSError, match="full"):
        save_csv(broken(), path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_a_reading_becomes_a_record_with_its_provenance() -> None:
    reading = Reading("tcp_bw", "bandwidth", 1e9, 1024, params={"statistic": "p99"}, tool_version="0.4.11")
    provenance = {key: GOOD[key] for key in ("time", "platform", "benchmark", "hosts", "nodes", "raw")}
    record = Record.of(reading, **provenance, params={"statistic": "mean", "server_cpus": "0-3"})
    assert (record.unit, record.size, record.tool_version) == ("B/s", 1024, "0.4.11")
    assert record.params == {"statistic": "p99", "server_cpus": "0-3"}
    assert record.ok
    with pytest.raises(InvalidRecord, match="metric"):
        Record.of(Reading("x", "speed", 1.0), **provenance)


def test_a_reading_s_own_version_wins_over_that_of_its_provenance() -> None:
    provenance = {key: GOOD[key] for key in ("time", "platform", "benchmark")}
    told = Reading("tcp_bw", "bandwidth", 1.0, tool_version="1")
    silent = Reading("tcp_bw", "bandwidth", 1.0)
    assert Record.of(told, **provenance, tool_version="2").tool_version == "1"
    assert Record.of(silent, **provenance, tool_version="2").tool_version == "2"


def test_read_run_takes_a_folder_or_a_file_and_says_what_makes_the_records(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"no run: name its folder, such as runs/000000"):
        read_run(tmp_path)
    (tmp_path / "launches.jsonl").touch()
    with pytest.raises(FileNotFoundError, match="npc records collect"):
        read_run(tmp_path)
    save_csv([Record(**GOOD)], tmp_path / "records.csv")
    assert read_run(tmp_path) == read_run(str(tmp_path / "records.csv")) == [Record(**GOOD)]


def test_an_empty_file_is_no_file_of_records(tmp_path: Path) -> None:
    path = tmp_path / "records.csv"
    path.touch()
    with pytest.raises(InvalidRecord, match=r"records\.csv: no header: the file is empty"):
        list(read_csv(path))
    save_csv([], path)
    assert list(read_csv(path)) == []


@pytest.mark.parametrize(
    ("cell", "text", "said"),
    [
        ("size", str(2**63), "size"),
        ("nodes", "9" * 30, "nodes"),
        ("params", '{"ranks": "x"}', "ranks: 'x' is no such number"),
        ("params", '{"communicator": 1e999}', "params"),
        ("params", '{"period": "nan"}', "period"),
    ],
)
def test_a_number_that_no_record_has_is_said_with_its_line(
    cell: str, text: str, said: str, tmp_path: Path
) -> None:
    row = to_row(Record(**GOOD)) | {cell: text}
    with (tmp_path / "records.csv").open("w", newline="") as stream:
        csv.writer(stream).writerows([row.keys(), row.values()])
    with pytest.raises(InvalidRecord, match=f"records.csv:2: .*{said}"):
        list(read_csv(tmp_path / "records.csv"))


@given(
    st.lists(
        st.datetimes(
            datetime(2026, 11, 20), datetime(2026, 11, 21), timezones=st.sampled_from([
                timezone(timedelta(minutes=minutes)) for minutes in (-600, -90, 0, 60, 345)
            ]),
        ),
        min_size=2, max_size=6,
    )
)  # fmt: skip
def test_times_sort_as_their_moments_do(times: list[datetime]) -> None:
    records = [replace(Record(**GOOD), time=time.isoformat()) for time in times]
    assert sorted(record.time for record in records) == [
        record.time for record in sorted(records, key=lambda record: moment(record.time))
    ]
    assert [moment(record.time) for record in records] == times


@pytest.mark.parametrize(
    ("given_time", "in_utc"),
    [
        ("2026-11-20T02:30:00+02:00", "2026-11-20T00:30:00+00:00"),
        ("2026-11-20T00:30:00Z", "2026-11-20T00:30:00+00:00"),
        ("2026-11-19T23:30:00.678-01:00", "2026-11-20T00:30:00.678000+00:00"),
        ("2026-11-20T00:30:00.678+00:00", "2026-11-20T00:30:00.678+00:00"),
    ],
)
def test_a_record_has_its_time_in_utc(given_time: str, in_utc: str) -> None:
    assert replace(Record(**GOOD), time=given_time).time == in_utc


def test_a_time_beyond_the_calendar_is_none() -> None:
    with pytest.raises(InvalidRecord, match="calendar"):
        replace(Record(**GOOD), time="9999-12-31T23:30:00-05:00")
