"""Links that somebody has planted where NPC will write, and who may read and lock what it has written."""

from __future__ import annotations

import os
import resource
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from npc import locks
from npc.files import append_line, write_whole
from npc.npb.results import Results
from npc.parsers.run.collect import collect_run
from npc.records.history import History
from npc.records.launch import LaunchLog
from npc.records.record import save_csv
from tests.made.history import a_record
from tests.made.jube_run import launch, write_launches

#: What writes, and the name at which the link lies.
WRITERS: dict[str, tuple[str, Callable[[Path], object]]] = {
    "a line": ("nights.jsonl", lambda folder: append_line(folder / "nights.jsonl", {"a": 1})),
    "a month of the history": ("2026-11.csv", lambda folder: History(folder).append([a_record()])),
    "the history's lock": (".lock", lambda folder: History(folder).append([a_record()])),
    "a verdict": ("verdict.prom", lambda folder: write_whole(folder / "verdict.prom", "x")),
    "records": ("records.csv", lambda folder: save_csv([a_record()], folder / "records.csv")),
    "launches": ("launches.jsonl", lambda folder: LaunchLog(folder, "qperf", 1)),
    "raw output": ("raw", lambda folder: LaunchLog(folder, "qperf", 1)),
}


@pytest.mark.parametrize("what", WRITERS)
@pytest.mark.parametrize("dangling", [False, True])
def test_a_planted_link_is_never_written_through(what: str, dangling: bool, tmp_path: Path) -> None:
    name, write = WRITERS[what]
    precious, folder = tmp_path / "precious", tmp_path / "shared"
    folder.mkdir()
    if not dangling:
        precious.write_text("thesis\nwithout its end")
    (folder / name).symlink_to(precious)
    try:
        write(folder)
        assert not (folder / name).is_symlink()
    except (OSError, ValueError):
        assert (folder / name).is_symlink()
    assert not precious.exists() if dangling else precious.read_text() == "thesis\nwithout its end"


def test_what_npb_keeps_has_a_name_that_nobody_knew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    folders = {Results(None, "qperf", 1, None, "here", "qperf").folder for _ in range(20)}
    assert len(folders) == 20
    assert all(stat.S_IMODE(folder.stat().st_mode) == 0o700 for folder in folders)


@pytest.mark.parametrize(("folder", "lock"), [(0o755, 0o600), (0o775, 0o660), (0o777, 0o666)])
def test_who_may_write_into_its_folder_may_take_a_lock(folder: int, lock: int, tmp_path: Path) -> None:
    tmp_path.chmod(folder)
    with locks.only_one(tmp_path / "lock"):
        assert stat.S_IMODE((tmp_path / "lock").stat().st_mode) == lock


@pytest.mark.parametrize("mask", [0o022, 0o077])
def test_the_umask_holds(mask: int, tmp_path: Path) -> None:
    before = os.umask(mask)
    try:
        write_whole(tmp_path / "verdict.json", "x")
        History(tmp_path / "history").append([a_record()])
        write_launches(tmp_path / "launches", (launch(), "text"))
    finally:
        os.umask(before)
    modes = [path.stat().st_mode for path in tmp_path.rglob("*")]
    assert len(modes) > 6 and not any(mode & mask for mode in modes)


def test_a_launch_names_no_file_outside_of_its_run(tmp_path: Path) -> None:
    (tmp_path / "shadow").write_text("root:secret\n")
    (tmp_path / "raw").mkdir()
    out = write_launches(tmp_path / "out", (launch(raw="../raw/shadow"), "secret"))
    assert "leads out of its folder" in str(collect_run(out, "here"))
    assert "secret" not in str(collect_run(out, "here"))
    run = write_launches(tmp_path / "run", (launch(status="failed: no"), ""))
    (run / "raw/0000.out").unlink()
    (run / "raw/0000.out").symlink_to(tmp_path / "shadow")
    assert "secret" not in str(collect_run(run, "here"))


def test_a_full_disk_is_said_with_the_file_that_it_kept_from_being_written(tmp_path: Path) -> None:
    """A limit of a file's size ends write(2) as a full disk does: without a name."""
    text = "x" * 20_000
    writers: list[Callable[[Path], object]] = [
        lambda path: append_line(path, text),
        lambda path: write_whole(path, text),
        lambda path: save_csv([a_record()] * 100, path),
    ]
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, limits[1]))
    try:
        for number, write in enumerate(writers):
            with pytest.raises(OSError, match=f"too large: '{tmp_path}/{number}'"):
                write(tmp_path / f"{number}")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
