"""A folder that nobody else can reach into, and the files that are written there."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from npc import own_folder
from npc.observe.built import built
from tests.lab.strangers import STRANGER, needs_strangers


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    own_folder.make(tmp_path / "ranks")
    return tmp_path / "ranks"


@pytest.mark.parametrize("mask", [0, 0o002, 0o022, 0o077])
def test_only_its_owner_gets_in_until_it_is_handed_out_as_the_umask_says(mask: int, tmp_path: Path) -> None:
    before = os.umask(mask)
    try:
        own_folder.make(tmp_path / "ranks")
        assert stat.S_IMODE((tmp_path / "ranks").stat().st_mode) == 0o700
        own_folder.save(tmp_path / "ranks/a", [b"one", b"two"])
        own_folder.hand_out(tmp_path / "ranks")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "ranks").stat().st_mode) == 0o777 & ~mask
    assert stat.S_IMODE((tmp_path / "ranks/a").stat().st_mode) == 0o666 & ~mask
    assert (tmp_path / "ranks/a").read_bytes() == b"onetwo"


WRITERS: dict[str, Callable[[Path], None]] = {
    "save": lambda folder: own_folder.save(folder / "a", [b"x"]),
    "mark": lambda folder: own_folder.mark(folder / "a"),
}


@pytest.mark.parametrize("write", WRITERS)
@pytest.mark.parametrize("dangling", [False, True])
def test_no_link_is_written_through(write: str, dangling: bool, folder: Path, tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    if not dangling:
        precious.write_text("thesis")
    (folder / "a").symlink_to(precious)
    if write == "mark":
        with pytest.raises(FileExistsError):
            WRITERS[write](folder)
    else:
        WRITERS[write](folder)
        assert not (folder / "a").is_symlink()
    assert not precious.exists() if dangling else precious.read_text() == "thesis"


@pytest.mark.parametrize("write", WRITERS)
@pytest.mark.parametrize("mode", [0o770, 0o707, 0o777])
def test_nothing_is_written_where_others_may_write(write: str, mode: int, folder: Path) -> None:
    folder.chmod(mode)
    with pytest.raises(PermissionError, match="others may write there"):
        WRITERS[write](folder)
    assert not list(folder.iterdir())


@needs_strangers
@pytest.mark.parametrize("write", WRITERS)
def test_nothing_is_written_into_another_users_folder(write: str, folder: Path) -> None:
    os.chown(folder, STRANGER, STRANGER)
    with pytest.raises(PermissionError, match=f"it belongs to user {STRANGER}"):
        WRITERS[write](folder)
    assert not list(folder.iterdir())


@pytest.mark.parametrize("write", WRITERS)
def test_nothing_is_written_where_a_link_leads(write: str, folder: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(folder)
    with pytest.raises(OSError, match="link"):
        WRITERS[write](tmp_path / "link")
    assert not list(folder.iterdir())


def test_a_folder_that_is_there_already_is_not_taken(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    for path in (folder, tmp_path / "dangling"):
        with pytest.raises(FileExistsError):
            own_folder.make(path)


@pytest.mark.parametrize("mask", [0, 0o002])
def test_a_library_that_was_built_is_trusted_whatever_the_umask_was(
    mask: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    before = os.umask(mask)
    try:
        library = built("kind", "lib.so", ["source"], lambda path: path.touch(0o777))
    finally:
        os.umask(before)
    assert built("kind", "lib.so", ["source"], Path.unlink) == library
