"""Whether others could put something in the place of what is loaded."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from npc.observe.built import NoLibrary, built
from npc.trust import make_private, others_may_write

NOBODY = 65534
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to make folders of another user")


def test_made_folders_are_for_their_owner_alone(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        make_private(tmp_path / "one/two/three")
    finally:
        os.umask(before)
    for part in ("one", "one/two", "one/two/three"):
        assert (tmp_path / part).stat().st_mode & 0o777 == 0o700
    assert others_may_write(tmp_path / "one/two/three") == []


@pytest.mark.parametrize(("mode", "who"), [(0o707, "everybody"), (0o1777, ""), (0o755, "")])
def test_a_folder_on_the_way_that_everybody_may_write_to_is_named(
    tmp_path: Path, mode: int, who: str
) -> None:
    """But for the sticky bit, under which names are safe."""
    (tmp_path / "open/mine").mkdir(parents=True)
    (tmp_path / "open").chmod(mode)
    named = [f"{tmp_path}/open ({who})"] if who else []
    assert others_may_write(tmp_path / "open/mine") == named
    assert others_may_write(tmp_path / "open/mine/not there") == named


def test_where_a_link_leads_is_looked_at_too(tmp_path: Path) -> None:
    (tmp_path / "open/mine").mkdir(parents=True)
    (tmp_path / "open").chmod(0o777)
    (tmp_path / "link").symlink_to("open/mine")
    (tmp_path / "round").symlink_to("round")
    assert others_may_write(tmp_path / "link") == [f"{tmp_path}/open (everybody)"]
    assert others_may_write(tmp_path / "round") == []


@needs_root
def test_what_another_user_owns_is_his(tmp_path: Path) -> None:
    """A folder, a file, and a link in a folder where everybody may make some."""
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o1777)
    theirs = shared / "theirs"
    theirs.mkdir(mode=0o755)
    file, link = tmp_path / "file", shared / "link"
    file.touch()
    link.symlink_to(tmp_path)
    for path in (theirs, file, link):
        os.chown(path, NOBODY, NOBODY, follow_symlinks=False)
        assert others_may_write(path) == [f"{path} (its owner)"]
    assert others_may_write(link / "beyond") == [f"{link} (its owner)"]


@pytest.mark.parametrize("kept", [False, True], ids=["nothing there yet", "a library of theirs"])
@pytest.mark.parametrize("way", ["cache", "cache/npc", "cache/npc/kind"])
@needs_root
def test_a_library_is_not_loaded_from_and_not_built_in_a_cache_of_another_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str, kept: bool
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    made = []

    def build(library: Path) -> None:
        made.append(library)
        library.touch()

    if kept:
        assert built("kind", "library.so", ["source"], build).parent.stat().st_mode & 0o777 == 0o700
        made.clear()
    (tmp_path / way).mkdir(parents=True, exist_ok=True)
    os.chown(tmp_path / way, NOBODY, NOBODY)
    (tmp_path / way).chmod(0o707)
    with pytest.raises(NoLibrary, match=r"nothing is loaded from .* \(its owner, everybody\): set XDG"):
        built("kind", "library.so", ["source"], build)
    assert made == []


def test_a_library_is_written_by_its_owner_alone_whatever_the_umask(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    before = os.umask(0)
    try:
        library = built("kind", "library.so", ["source"], Path.touch)
    finally:
        os.umask(before)
    assert library.stat().st_mode & 0o022 == 0
    assert built("kind", "library.so", ["source"], Path.touch) == library
