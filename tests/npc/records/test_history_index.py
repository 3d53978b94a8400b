"""An index says what the files say, whatever happens to them: rows, problems, verdicts."""

from __future__ import annotations

import csv
import os
import random
import shutil
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from multiprocessing import get_context
from pathlib import Path
from typing import IO

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from npc.cron.judge import judge_last_night, replay
from npc.cron.series import panel
from npc.records import history_reading
from npc.records.history import INDEXES, History, HistoryRow, night_name, of_night
from npc.records.history_columns import HistoryColumns
from npc.records.history_index import FileIndex, file_state, index_path, load_index, time_text
from npc.records.history_reading import header_of, make_index, microseconds, record_of
from npc.records.record import COLUMNS, Record
from npc.records.series import REMEASURED, Series, share_taken
from tests.bench.history import write_history
from tests.made.history import a_record
from tests.paths import ROOT


def plain_rows(path: Path) -> Iterator[tuple[int, Record | str]]:
    """By line: each row as a record, made one by one, or why it is none."""
    header = header_of(path)
    with path.open("rb") as stream:
        whole = (line.decode("utf-8", "replace") for line in stream if line.endswith(b"\n"))
        reader = csv.reader(whole)
        next(reader, None)
        while True:
            line = reader.line_num + 1
            try:
                cells = next(reader)
                if cells:
                    yield line, record_of(path, header, cells)
            except StopIteration:
                return
            except (ValueError, csv.Error) as error:
                yield line, str(error)


def plain_points(folder: Path) -> list[HistoryRow]:
    """What judging needs, by records alone."""
    rows = [
        HistoryRow(
            Series.of(record), record.run, time_text(microseconds(record.time)), record.value, record.status,
            record.hosts, REMEASURED in record.params, share_taken(record),
        )
        for path in sorted(folder.glob("*.csv"))
        for _, record in plain_rows(path)
        if isinstance(record, Record)
    ]  # fmt: skip
    return sorted(rows, key=lambda row: (row.key.order, row.run, row.time))


def see_the_same(folder: Path) -> None:
    history = History(folder)
    assert list(history.points()) == plain_points(folder)
    files = sorted(folder.glob("*.csv"))
    rows = [row for path in files for _, row in plain_rows(path)]
    assert list(history.records()) == [row for row in rows if isinstance(row, Record)]
    told = [f"{path}:{n}: {row}" for path in files for n, row in plain_rows(path) if isinstance(row, str)]
    assert history.problems == told
    assert sum(night.rows for night in history.nights()) == len(rows) - len(told)


_WHAT = "fuchs,qperf,tcp_bw,bandwidth"
_LATENCY = "fuchs,qperf,tcp_lat,latency"
_TEXT = (
    ",".join(COLUMNS) + "\n"
    f'2026-11-20T02:30:00+00:00,{_WHAT},1e9,B/s,64,2,n1;n2,7,night1,0,ok,0.4,"{{""runtime"": ""2""}}",a\n'
    f'2026-11-20T02:30:00+00:00,{_WHAT},2e9,B/s,64,2,n1;n2,7,night1,1,ok,0.4,"{{""runtime"": ""2""}}",b\n'
    '2026-11-20T03:31:00+01:00,,qperf,tcp_bw,bandwidth,3e9,,64,2,n3;n4,7,,0,,,"{""disturbed"": ""0.2""}",c\n'
    f"2026-11-20T02:30:00Z,{_LATENCY},,s,1,2,n1;n2,7,night1,0,failed: gone,0.4,,d\n"
    f"2026-11-20T02:32:00.125Z,{_LATENCY},1e-5,s,1,2,n1;n2,7,night1,0,ok,0.4,,d\n"
    f'2026-11-20T02:33:00Z,{_LATENCY},2e-5,s,1,2,n1;n2,7,night1,0,ok,0.4,"{{""remeasured"": ""1""}}",d\n'
)
_BYTES = st.sampled_from([b'"', b",", b"\n", b"x", b"-", b"\xff", b"nan", b"1e999", b";", b"\r\n", b"{"])
_CHANGES = st.lists(
    st.tuples(
        st.sampled_from(["grow", "half a row", "cut", "write over", "put in", "say twice"]),
        st.floats(0, 1),
        _BYTES,
    ),
    min_size=1,
    max_size=6,
)


def changed(content: bytes, how: str, share: float, what: bytes) -> bytes:
    at = round(share * len(content))
    rows = _TEXT.encode().splitlines(keepends=True)[1:]
    row = rows[round(share * (len(rows) - 1))]
    return {
        "grow": content + row,
        "half a row": content + row[: round(share * len(row))],
        "cut": content[:at],
        "write over": content[:at] + what + content[at + len(what) :],
        "put in": content[:at] + what + content[at:],
        "say twice": content + content[at:],
    }[how]


@settings(max_examples=20, deadline=None)
@given(changes=_CHANGES)
def test_whatever_happens_to_a_file_its_index_says_what_its_records_say(
    changes: list[tuple[str, float, bytes]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("history")
    file, time = folder / "2026-11.csv", 1_800_000_000
    header, content = _TEXT.encode().partition(b"\n")[0] + b"\n", _TEXT.encode()
    for how, share, what in [("grow", 0.0, b""), *changes]:
        body = content[len(header) :]
        content = header + changed(body, how, share, what)
        time += 1
        file.write_bytes(content)
        os.utime(file, (time, time))
        see_the_same(folder)


@pytest.mark.parametrize("run", ["localhost", "h100"])
def test_of_what_real_machines_measured_it_says_what_the_records_say(run: str, tmp_path: Path) -> None:
    shutil.copy(ROOT / "docs/example" / run / "records.csv", tmp_path / "2026-11.csv")
    see_the_same(tmp_path)
    by_index, by_records = panel(History(tmp_path).points()), panel(plain_points(tmp_path))
    assert judge_last_night(by_index, "p") == judge_last_night(by_records, "p")


@pytest.mark.slow
def test_verdicts_on_real_nights_by_index_and_by_records_are_the_same(tmp_path: Path) -> None:
    """111 nights of a machine that others used, each with a second draw."""
    history, begun = History(tmp_path / "fuchs"), datetime(2026, 1, 1, 2, 30, tzinfo=timezone.utc)
    records: list[Record] = []
    with (ROOT / "tests/data/nights/shared.csv").open(newline="") as stream:
        for row in csv.DictReader(stream):
            time = begun + timedelta(days=int(row["night"]))
            record = a_record(
                case=row["series"], value=float(row["value"]), time=time.isoformat(), hosts=("n1",), nodes=1
            )
            records += of_night([record], night_name(time), remeasured=row["draw"] == "2")
    history.append(records)
    see_the_same(history.folder)
    by_index, by_records = (panel(points) for points in (history.points(), plain_points(history.folder)))
    assert list(replay(by_index, "fuchs")) == list(replay(by_records, "fuchs"))
    assert len(by_index.runs) == 111


def test_a_file_that_grew_is_read_from_its_last_row_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    history = History(tmp_path / "fuchs")
    history.append([a_record(sample) for sample in range(50)])
    before = history.points()
    read: list[int] = []
    original = history_reading._Builder.rows

    def counted(
        self: history_reading._Builder, stream: IO[bytes], start: int, line: int
    ) -> Iterator[tuple[int | float, ...]]:
        for row in original(self, stream, start, line):
            read.append(line)
            yield row

    monkeypatch.setattr(history_reading._Builder, "rows", counted)
    history.append([a_record(sample) for sample in range(50, 53)])
    assert len(history.points()) == len(before) + 3
    assert read == [51] * 4, "the last row, which may have had no end, and those behind it"
    see_the_same(history.folder)


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Forty nights of twelve nodes, with the structure of a real history, over two months."""
    folder = tmp_path_factory.mktemp("history") / "bench"
    write_history(folder, 12, 40, seed=3)
    return folder


@pytest.mark.slow
def test_verdicts_by_index_and_by_records_are_the_same(fleet: Path) -> None:
    by_index, by_records = panel(History(fleet).points()), panel(plain_points(fleet))
    np.testing.assert_array_equal(by_index.value, by_records.value)
    np.testing.assert_array_equal(by_index.again, by_records.again)
    assert (by_index.keys, by_index.runs, by_index.times) == (
        by_records.keys,
        by_records.runs,
        by_records.times,
    )
    assert dict(by_index.measured) == dict(by_records.measured)
    assert {run: sorted(by_index.attempts[run]) for run in by_index.runs} == {
        run: sorted(by_records.attempts[run]) for run in by_index.runs
    }
    nights = [list(replay(nights, "bench")) for nights in (by_index, by_records)]
    assert nights[0] == nights[1] and len(nights[0]) == 40
    assert judge_last_night(by_index, "bench") == nights[0][-1]


def test_what_a_night_needs_is_all_that_is_read(fleet: Path, tmp_path: Path) -> None:
    """The files of other months may be gone by then: neither they nor the columns of their indexes are
    opened."""
    folder = tmp_path / "bench"
    shutil.copytree(fleet, folder)
    records = list(History(folder).records())  # makes the indexes
    history = History(folder)
    last = history.nights()[-1]
    expected = [record for record in records if record.run == last.run]
    loaded = {index.name: index._loaded for index in history._refreshed()}
    assert list(history.records(run=last.run)) == expected
    assert len(history.points(since=last.begun)) == last.rows
    assert [bool(columns) for name, columns in sorted(loaded.items()) if name != last.file] == [False]


def _read(folder: Path, expected: int) -> None:
    assert len(History(folder).points()) == expected


def test_many_processes_index_at_once_and_all_read_the_same(fleet: Path, tmp_path: Path) -> None:
    folder = tmp_path / "bench"
    shutil.copytree(fleet, folder, ignore=shutil.ignore_patterns(INDEXES))
    expected = len(plain_points(folder))
    readers = [get_context("fork").Process(target=_read, args=(folder, expected)) for _ in range(4)]
    for reader in readers:
        reader.start()
    for reader in readers:
        reader.join(60)
        assert reader.exitcode == 0
    assert not [path for path in (folder / INDEXES).iterdir() if path.name.startswith(".")]


def test_what_a_killed_process_left_is_removed_later_and_so_is_the_index_of_a_lost_file(
    tmp_path: Path,
) -> None:
    history = History(tmp_path / "fuchs")
    history.append([a_record(day=day) for day in (0, 20)])
    assert len(history.points()) == 2
    lost = index_path(history.folder / "2026-12.csv")
    left = lost.with_name(".2026-12.csv.0123456789abcdef.npz")
    left.write_bytes(b"half an index")
    (history.folder / "2026-12.csv").unlink()
    assert len(history.points()) == 1 and left.exists() and lost.exists(), "somebody may be at it"
    for path in (left, lost):
        os.utime(path, (0, 0))
    assert len(history.points()) == 1 and not left.exists() and not lost.exists()


def test_an_index_of_another_state_is_not_believed(tmp_path: Path) -> None:
    history = History(tmp_path / "fuchs")
    history.append([a_record(sample) for sample in range(3)])
    assert len(history.points()) == 3
    (file,) = history.files()
    index = load_index(file)
    assert isinstance(index, FileIndex) and index.tables.state == file_state(file)
    make_index(file, "1 1")  # as if it had been read before it was written
    assert len(History(history.folder).points()) == 3
    assert (load_index(file) or index).tables.state == file_state(file)


def test_columns_of_objects_are_those_objects() -> None:
    chance = random.Random(1)
    begun = datetime(2026, 1, 1)
    rows = [
        HistoryRow(
            Series("p", "b", f"c{chance.randrange(3)}", "latency", None, 1, "{}"),
            f"night{chance.randrange(4)}",
            (begun + timedelta(hours=chance.randrange(90))).isoformat(),
            chance.choice([None, 1.0, 2.0]), chance.choice(["ok", "failed: x"]),
            chance.choice([(), ("n1",), ("n1", "n2")]), chance.random() < 0.5, chance.choice([0.0, 0.25]),
        )
        for _ in range(200)
    ]  # fmt: skip
    columns = HistoryColumns.of(rows)
    assert list(columns) == rows
    assert [row for _, part in columns.by_series() for row in part] == [
        row for key in dict.fromkeys(row.key for row in rows) for row in rows if row.key == key
    ]
    assert set(columns.measured_where()) == {(row.key.benchmark, row.run, row.hosts) for row in rows}
