"""The history: whole rows only, no row twice, old files too, and an index that may be lost."""

from __future__ import annotations

import csv
import errno
import os
import shutil
import zipfile
from multiprocessing import get_context
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from npc.cron.series import panel
from npc.records.history import INDEXES, LOCK, History, InvalidHistory, night_name, of_night
from npc.records.history_index import index_path, load_index
from npc.records.nights import begun
from npc.records.record import COLUMNS, Record, read_csv
from npc.records.series import Series
from tests.made.history import BEGUN, a_record


@pytest.fixture
def history(tmp_path: Path) -> History:
    return History(tmp_path / "fuchs")


def test_records_come_back_as_they_were(history: History) -> None:
    records = [a_record(sample, day) for day in range(12) for sample in range(3)]
    assert history.append(records) == 36
    assert list(history.records()) == records
    assert [path.name for path in history.files()] == ["2026-11.csv", "2026-12.csv"]
    assert list(read_csv(history.files()[0])) == [record for record in records if record.time < "2026-12"]
    assert list(history.records(run="night3")) == records[9:12]
    assert list(history.records(Series.of(records[0]))) == records


def test_a_night_that_is_appended_again_is_not_doubled(history: History) -> None:
    assert history.append([a_record(0), a_record(1), a_record(1)]) == 2
    assert history.append([a_record(0), a_record(1), a_record(2)]) == 1
    assert [record.sample for record in history.records()] == [0, 1, 2]


@settings(max_examples=40)
@given(cut=st.integers(0, 700))
def test_a_file_that_was_cut_anywhere_gives_whole_rows_and_is_repaired(
    cut: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    history = History(tmp_path_factory.mktemp("h"))
    awkward = 'failed: "quoted", comma\nand a second line\r'
    records = [a_record(0), a_record(1, value=None, status=awkward), a_record(2)]
    history.append(records)
    (file,) = history.files()
    whole = file.read_bytes()
    file.write_bytes(whole[: min(cut, len(whole))])
    left = list(history.records())
    assert left == list(history.records())
    assert [record.sample for record in left] == list(range(len(left)))
    history.append(records)
    assert file.read_bytes() == whole
    assert sorted(record.sample for record in History(history.folder).records()) == [0, 1, 2]
    assert not history.problems
    history.close()


_records = st.builds(
    lambda sample, day, case, status: a_record(
        sample, day, case=case, status=status, value=None if status != "ok" else float(sample)
    ),
    st.integers(0, 4),
    st.integers(0, 40),
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\n\r\0"), max_size=5),
    st.sampled_from(["ok", "failed: it broke", "invalid: ü€"]),
)


@settings(max_examples=15)
@given(ours=st.lists(_records, max_size=12), theirs=st.lists(_records, max_size=12))
def test_merging_two_histories_is_a_union(
    ours: list[Record], theirs: list[Record], tmp_path_factory: pytest.TempPathFactory
) -> None:
    one, other = (History(tmp_path_factory.mktemp(name)) for name in ("one", "other"))
    one.append(ours)
    other.append(theirs)

    def rows(history: History) -> list[str]:
        return sorted(map(repr, history.records()))

    added = one.append(other.records())
    assert rows(one) == sorted(set(map(repr, [*ours, *theirs])))
    assert added == len(rows(one)) - len(set(map(repr, ours)))
    assert one.append(other.records()) == 0
    for history in (one, other):
        history.close()


def test_a_full_disk_leaves_the_file_as_it_was(history: History, monkeypatch: pytest.MonkeyPatch) -> None:
    history.append([a_record(0)])
    before = history.files()[0].read_bytes()
    write = os.write

    def full(number: int, data: bytes) -> int:
        if len(data) <= 100:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return write(number, bytes(data)[: len(data) - 100])

    with monkeypatch.context() as patched:
        patched.setattr("npc.files.os.write", full)
        with pytest.raises(OSError, match="No space left"):
            history.append([a_record(sample) for sample in range(9)])
    assert history.files()[0].read_bytes() == before
    assert history.append([a_record(sample) for sample in range(9)]) == 8


def _append(folder: Path, first: int) -> None:
    History(folder).append([a_record(sample) for sample in range(first, first + 40)])


def test_two_writers_at_once_lose_and_double_nothing(history: History) -> None:
    context = get_context("fork")
    writers = [context.Process(target=_append, args=(history.folder, first)) for first in (0, 20, 40, 60)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(60)
        assert writer.exitcode == 0
    assert sorted(record.sample for record in history.records()) == list(range(100))


@pytest.mark.parametrize("damage", ["gone", "nonsense", "other version", "half", "a folder"])
def test_a_lost_index_is_made_anew(history: History, damage: str, monkeypatch: pytest.MonkeyPatch) -> None:
    history.append([a_record(sample) for sample in range(5)])
    assert len(list(history.records())) == 5
    index = index_path(history.files()[0])
    content = index.read_bytes()
    if damage in ("gone", "a folder"):
        index.unlink()
        if damage == "a folder":
            index.mkdir()
    elif damage == "nonsense":
        index.write_bytes(b"not an archive at all" * 500)
    elif damage == "half":
        index.write_bytes(content[: len(content) // 2])
    else:
        index.unlink()
        with monkeypatch.context() as patched:
            patched.setattr("npc.records.history_reading.VERSION", 99)
            assert len(History(history.folder).points()) == 5
        assert index.exists() and not load_index(history.files()[0])
    assert [record.sample for record in History(history.folder).records()] == list(range(5))
    assert index.is_dir() or load_index(history.files()[0])


def damage_column(index: Path, column: str) -> None:
    """Change a byte of a column, which is noticed only when it is loaded."""
    content = bytearray(index.read_bytes())
    with zipfile.ZipFile(index) as archive:
        begin = archive.getinfo(f"{column}.npy").header_offset
    content[begin + 1000] ^= 1
    index.write_bytes(content)


def test_an_index_whose_bytes_have_changed_is_made_anew_with_a_note(history: History) -> None:
    history.append([a_record(sample) for sample in range(500)])
    expected = list(history.points())
    (file,) = history.files()
    for column, read in (("value", History.points), ("start", History.records), ("place", History.places)):
        damage_column(index_path(file), column)
        past = History(history.folder)
        assert len(list(read(past))) == len(list(read(history)))
        (note,) = past.notes
        assert note.startswith("the index of 2026-11.csv was damaged (") and note.endswith("made anew")
        fresh = History(history.folder)
        assert list(fresh.points()) == expected and not fresh.notes, "it lies there whole again"


def test_whatever_byte_of_an_index_is_another_one_the_rows_are_the_same(history: History) -> None:
    history.append([a_record(sample) for sample in range(30)])
    records, points = list(history.records()), list(history.points())
    index = index_path(history.files()[0])
    good = index.read_bytes()
    for place in [*range(0, len(good), 61), *range(good.index(b"PK\1\2"), len(good), 7)]:
        index.write_bytes(good[:place] + bytes([good[place] ^ 0x81]) + good[place + 1 :])
        past = History(history.folder)
        assert list(past.points()) == points and list(past.records()) == records, place


def test_a_damaged_index_of_a_file_that_has_grown_is_made_anew(history: History) -> None:
    history.append([a_record(sample) for sample in range(500)])
    assert len(history.points()) == 500
    damage_column(index_path(history.files()[0]), "value")
    assert History(history.folder).append([a_record(sample, 1) for sample in range(9)]) == 9
    assert len(History(history.folder).points()) == 509


def test_a_damaged_file_is_an_error_though_its_index_is_whole(history: History) -> None:
    history.append([a_record()])
    assert len(history.points()) == 1
    (file,) = history.files()
    file.write_text("a,b\n1,2\n")
    with pytest.raises(InvalidHistory, match=r"2026-11\.csv: no column time, metric, value"):
        History(history.folder).points()


def test_what_others_write_is_seen(history: History) -> None:
    history.append([a_record(sample) for sample in range(5)])
    assert len(list(history.records())) == 5
    (file,) = history.files()
    lines = file.read_text().splitlines(keepends=True)
    file.write_text("".join([*lines, lines[-1].replace(",4,ok", ",5,ok")]))  # grown
    assert [record.sample for record in history.records()] == [0, 1, 2, 3, 4, 5]
    file.write_text("".join([lines[0], *lines[2:]]))  # a row taken out
    assert [record.sample for record in history.records()] == [1, 2, 3, 4]
    file.write_text("".join([lines[0], *lines[2:]]).replace("n1;n2", "n1;n3"))  # changed, of the same length
    assert {record.hosts for record in history.records()} == {("n1", "n3")}
    file.unlink()
    assert not list(history.records()) and not history.nights()


def test_an_old_file_is_read_and_left_alone(history: History) -> None:
    history.folder.mkdir()
    old = history.folder / "2026-11.csv"
    text = (
        "time,platform,benchmark,case,metric,value,hosts\n"
        "2026-11-01T02:30:00+00:00,fuchs,qperf,tcp_bw,bandwidth,1.0e9,n1;n2\n"
    )
    old.write_text(text)
    (record,) = history.records()
    assert (record.value, record.unit, record.status, record.nodes, record.size) == (
        1e9,
        "B/s",
        "ok",
        1,
        None,
    )
    history.append([a_record()])
    assert old.read_text() == text
    assert [path.name for path in history.files()] == ["2026-11.2.csv", "2026-11.csv"]
    assert len(list(history.records())) == 2
    assert history.append([record]) == 0


def test_a_damaged_row_hides_no_other(history: History) -> None:
    history.append([a_record(sample) for sample in range(3)])
    (file,) = history.files()
    file.write_text(file.read_text().replace("1100000001.0", "fast"))
    assert [record.sample for record in history.records()] == [0, 2]
    assert len(history.problems) == 1 and "fast" in history.problems[0]


def test_a_file_of_something_else_is_refused_by_name(history: History) -> None:
    history.folder.mkdir()
    (history.folder / "2026-11.csv").write_text("a,b\n1,2\n")
    with pytest.raises(InvalidHistory, match=r"2026-11\.csv: no column time, metric, value: .* move it"):
        history.nights()


def test_measured_again_belongs_to_the_same_series(history: History) -> None:
    night = night_name(BEGUN, "000003")
    assert night == "20261120T023000Z-000003"
    history.append(of_night([a_record(0)], night))
    history.append(of_night([a_record(0, value=9e8)], night, remeasured=True))
    assert len({point.key for point in history.points()}) == 1
    assert [(point.value, point.remeasured) for point in history.points()] == [(1.1e9, False), (9e8, True)]
    (found,) = history.nights()
    assert (found.run, found.rows) == (night, 2)
    assert all(record.params.get("remeasured", "1") == "1" for record in history.records())


def test_one_line_a_row_whatever_a_status_holds(history: History) -> None:
    history.append([a_record(value=None, status="failed: first\nsecond\r\0third")])
    (file,) = history.files()
    assert file.read_bytes().count(b"\n") == 2
    (record,) = history.records()
    assert record.status == "failed: first␊second␍␀third"
    assert file.read_text().startswith(",".join(COLUMNS))


def test_rows_of_another_tool_are_read(history: History) -> None:
    """The documented columns in another order, with the byte order mark and line ends of a spreadsheet, cells
    that are quoted and of two lines, numbers among the params, and some columns empty."""
    history.folder.mkdir()
    (history.folder / "2026-11.csv").write_bytes(
        b"\xef\xbb\xbftime,metric,value,unit,benchmark,case,platform,nodes,hosts,run,params,status,sample,note\r\n"
        b'2026-11-20T02:30:00Z,bandwidth,2e9,B/s,osu,"osu_bw",fuchs,2,n1;n2,night,"{""window"": 64}",,0,x\r\n'
        b'2026-11-20T02:30:00Z,bandwidth,,,osu,osu_bw,fuchs,,,night,,"failed: two\r\nlines",,\r\n'
        b"2026-11-20T02:31:00Z,bandwidth,3e9,,osu,osu_bw,fuchs,2,n1;n2,night,,ok,1,\r\n"
    )
    good, failed, last = history.records()
    assert (good.value, good.nodes, good.hosts, dict(good.params)) == (2e9, 2, ("n1", "n2"), {"window": "64"})
    assert (failed.value, failed.unit, failed.nodes, failed.status) == (
        None,
        "B/s",
        1,
        "failed: two␍␊lines",
    )
    assert last.value == 3e9
    assert not history.problems


def test_what_a_plain_script_writes_is_read_a_day_is_a_night_and_bad_rows_are_told_by_line(
    history: History,
) -> None:
    history.folder.mkdir()
    (history.folder / "note.csv").write_text("mine,too\n")  # no month: not of the history
    with (history.folder / "2026-11.monitoring.csv").open("w", newline="") as stream:
        out = csv.DictWriter(stream, ["value", "hosts", "metric", "case", "time"])  # \r\n, as the module does
        out.writeheader()
        for day, clock, value in (
            (20, "02:30:00Z", 1e9), (20, "14:30:00+00:00", "1,5"), (20, "14:30:00+01:00", 2e9),
            (21, "02:30:00", 1e9), (21, "02:30:00Z", 3e9),
        ):  # fmt: skip
            out.writerow(
                {
                    "time": f"2026-11-{day}T{clock}",
                    "metric": "bandwidth",
                    "case": "tcp",
                    "value": value,
                    "hosts": "n1",
                }
            )
        stream.write("4e9,n1,bandwidth,tcp,2026-11-22T02:30:00Z,too many\r\n")
    assert [(night.run, night.platform, night.rows) for night in history.nights()] == [
        ("2026-11-20", history.folder.name, 2),
        ("2026-11-21", history.folder.name, 1),
    ]
    assert [record.value for record in history.records()] == [1e9, 2e9, 3e9]
    name = history.folder / "2026-11.monitoring.csv"
    assert [problem.partition(": ")[0] for problem in history.problems] == [f"{name}:{n}" for n in (3, 5, 7)]
    told = "\n".join(history.problems)
    assert (
        "column value: '1,5' is not a number" in told
        and "has no UTC offset" in told
        and "6 cells, but 5 columns" in told
    )
    assert history.append([a_record()]) == 1 and len(history.files()) == 2


def test_a_history_that_only_others_may_write_is_read_and_nothing_is_left(history: History) -> None:
    """A file stands where the folder of the indexes would: nothing can be made there, for root either."""
    history.append([a_record(sample) for sample in range(3)])
    shutil.rmtree(history.folder / INDEXES, ignore_errors=True)
    (history.folder / INDEXES).write_text("")
    (history.folder / LOCK).unlink()
    again = History(history.folder)
    assert [record.sample for record in again.records()] == [0, 1, 2]
    assert len(again.points()) == 3 and len(again.nights()) == 1
    assert {path.name for path in history.folder.iterdir()} == {INDEXES, "2026-11.csv"}


def test_rows_that_cannot_be_true_are_told_by_every_reader(history: History) -> None:
    """Also by one that finds them in the index."""
    history.append([a_record(sample) for sample in range(3)])
    (file,) = history.files()
    file.write_text(file.read_text().replace("1100000001.0", "fast"))
    assert list(history.points())
    again = History(history.folder)
    assert len(list(again.points())) == 2
    assert len(again.problems) == 1 and "fast" in again.problems[0]


def test_rows_of_a_night_are_those_of_some_days(history: History) -> None:
    history.append([a_record(day=day) for day in (0, 1, 10, 11)])
    for days, nights in (
        (("2026-11-21", "2026-11-30"), ["night1", "night10"]),
        (("2026-12", "2026-12"), ["night11"]),
        (("2026", "2026-11-20"), ["night0"]),
    ):
        assert [record.run for record in history.records(days=days)] == nights


#: Four nights, 90 minutes apart, as sites in other time zones write them: as texts they are in another order.
ZONES = {
    "first": "2026-11-20T23:00:00+00:00",
    "second": "2026-11-21T06:15:00+05:45",
    "third": "2026-11-20T16:00:00-10:00",
    "fourth": "2026-11-21T03:30:00Z",
}


def test_nights_with_other_offsets_are_in_the_order_in_which_they_were(history: History) -> None:
    assert [*ZONES.values()] != sorted(ZONES.values())
    history.append(a_record(time=time, run=run) for run, time in [*ZONES.items()][::-1])
    assert [night.run for night in history.nights()] == [*ZONES]
    assert {row.run for row in history.points(since="2026-11-21T01:00:00+01:00")} == {*ZONES} - {"first"}
    assert {record.run for record in history.records(days=("2026-11-21", "2026-11-21"))} == {*ZONES} - {
        "first"
    }
    assert panel(history.points()).runs == tuple(ZONES)


def test_a_file_from_another_time_zone_joins_what_is_there(history: History) -> None:
    """The same row with its time in another form is the same row; a night's beginning is its first moment."""
    first, later = "2026-11-20T09:00:00+09:00", "2026-11-20T01:00:00+00:00"
    for time in (first, "2026-11-20T00:00:00Z", later):
        history.append([a_record(time=time)])
    (night,) = history.nights()
    assert (night.rows, night.begun, night.ended) == (2, "2026-11-20T00:00:00+00:00", later)
    others = [row._replace(time=time) for row in history.points() for time in (first, later)]
    assert begun(others)[night.run] == first
