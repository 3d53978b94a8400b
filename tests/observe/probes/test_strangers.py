"""Other users of a node, who see names and command lines, and whose sockets wait where ranks meet."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from npc import own_folder
from npc.observe.probes.companion import RankProbes
from npc.observe.probes.records import PROBES, Probes
from npc.observe.probes.rights import refusal
from npc.observe.probes.settings import keep_token, read_token, settings_of
from npc.records.observed import read_part
from tests.lab.strangers import STRANGER, needs_strangers, shared_folder, stranger

NPC = Path(sys.executable).with_name("npc")
SETPRIV = f"setpriv --reuid={STRANGER} --regid={STRANGER} --clear-groups"
#: Binds a name, says so, and never answers who connects.
LISTENER = """
    listening = socket.socket(socket.AF_UNIX)
    listening.bind("\\0" + sys.argv[1])
    listening.listen(64)
    print("listens", flush=True)
    time.sleep(300)
"""


@pytest.fixture
def ranks(tmp_path: Path) -> Path:
    folder = tmp_path / "ranks"
    own_folder.make(folder)
    keep_token(folder)
    return folder


@pytest.fixture
def impostor(ranks: Path) -> Iterator[None]:
    """Another user's process that listens where the keeper of probes would."""
    name = f"npc-probes-{read_token(ranks)}"
    with stranger(LISTENER, [name]) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "listens\n"
            yield
        finally:
            process.kill()


@needs_strangers
def test_another_users_socket_in_the_keepers_place_costs_a_rank_nothing(ranks: Path, impostor: None) -> None:
    began = time.monotonic()
    probes = RankProbes(ranks, "here.0", settings_of(["syscalls"], "true"))
    probes.begin(os.getpid())
    ended = probes.end()
    assert time.monotonic() - began < 10  # an answer is waited for six times as long
    assert ended is not None
    assert f"user {STRANGER} listens in its place" in ended["reason"]
    assert not probes.files


@needs_strangers
def test_a_keeper_hangs_up_on_other_users(ranks: Path) -> None:
    probes = RankProbes(ranks, "here.0", settings_of([], "true"))
    name = f"npc-probes-{read_token(ranks)}"
    calls = f"""
        stranger = socket.socket(socket.AF_UNIX)
        stranger.settimeout(20)
        stranger.connect("\\0{name}")
        try:
            stranger.sendall(b'{{"rank": 0, "process": 1}}\\n')
            print(stranger.recv(64))
        except ConnectionError:
            print(b"")
    """
    with stranger(calls) as caller:
        assert caller.communicate(timeout=60)[0] == "b''\n"
    probes.begin(os.getpid())
    assert probes.end() is None
    with pytest.raises(OSError, match="refused"), socket.socket(socket.AF_UNIX) as gone:
        gone.connect(f"\0{name}")


@needs_strangers
@pytest.mark.slow
@pytest.mark.skipif(bool(refusal(types=True)), reason=refusal(types=True))
def test_nobody_else_can_know_where_ranks_and_keeper_meet(tmp_path: Path) -> None:
    """The observed program looks at all that another user sees: command lines, and the ranks' folder."""
    with shared_folder() as folder:
        _look(folder, tmp_path)


def _look(folder: Path, own: Path) -> None:
    look = folder / "look.sh"
    look.write_text(
        f"cat /proc/*/cmdline /proc/*/environ > {folder}/seen 2>/dev/null\n"
        f"cp {folder}/observed/raw/0000.ranks/probes.token {folder}/token\n"
        f"{SETPRIV} sh -c 'cat /proc/*/cmdline /proc/*/environ; "
        f"cat {folder}/observed/raw/0000.ranks/*' > {folder}/strangers 2> {folder}/refused\n"
        "true\n"
    )
    words = ["--no-profile", "--no-mpi", "--background", "0", "--probe", "syscalls", "--", "sh", look]
    before = os.umask(0)
    try:
        ended = subprocess.run(
            [NPC, "observe", "--output", folder / "observed", *words],
            env={**os.environ, "XDG_CACHE_HOME": str(own / "cache")},
            capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip
    finally:
        os.umask(before)
    assert ended.returncode == 0, ended.stderr
    found = read_part(folder / "observed/raw/0000.observed.json", PROBES, Probes)
    assert found is not None
    assert [node.status for node in found.nodes] == ["attached"]
    token = (folder / "token").read_bytes()
    assert len(token) == 10
    assert b"rank.py" in (folder / "strangers").read_bytes()
    assert token not in (folder / "strangers").read_bytes()
    assert token not in (folder / "seen").read_bytes()
    assert "Permission denied" in (folder / "refused").read_text()
