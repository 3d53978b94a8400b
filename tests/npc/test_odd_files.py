"""Every command on what is no file: a pipe, a device, a socket, a folder, what may not be read, what is not
there. It ends, with a line that says so, and takes no memory for it.

The commands and their parameters are click's own, so a new one is tried without a word here. Programs cannot
be started meanwhile.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.lab.alone import Alone, alone
from tests.lab.every_command import commands, is_path, is_text, lines_with
from tests.made.run_folder import everything, make_run
from tests.paths import ROOT

pytestmark = pytest.mark.slow
COMMANDS: Final = dict(commands())
KINDS: Final = ("pipe", "zeros", "folder", "socket", "locked", "huge", "nothing", "loop")
#: What is waited for, or has no end.
WORST: Final = ("pipe", "zeros")


def odd_path(kind: str, folder: Path) -> Path:
    """What no command can read."""
    path = folder / kind
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "zeros":
        path.symlink_to("/dev/zero")
    elif kind == "folder":
        path.mkdir()
    elif kind == "socket":
        with socket.socket(socket.AF_UNIX) as listener:
            here = os.open(folder, os.O_RDONLY)  # an address has 107 bytes
            listener.bind(f"/proc/self/fd/{here}/{kind}")
            os.close(here)
    elif kind == "locked":
        path.touch(0o000)
    elif kind == "huge":
        path.touch()
        os.truncate(path, 2**40)
    elif kind == "loop":
        path.symlink_to(path)
    return path


@pytest.fixture(scope="module")
def nothing_starts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Alone]:
    folder = tmp_path_factory.mktemp("alone")
    make_run(folder / "run", everything()[:6])
    with alone(folder) as server:
        yield server


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_a_command_ends_whatever_a_path_is(
    words: tuple[str, ...], nothing_starts: Alone, tmp_path: Path
) -> None:
    faults = []
    for kind in KINDS:
        path, command = odd_path(kind, tmp_path), COMMANDS[words]
        wanted = is_text if kind in WORST else is_path
        for line in lines_with(command, str(path), str(nothing_starts.folder / "run"), wanted):
            ended = nothing_starts.run([*words, *line])
            if fault := ended.fault():
                faults.append(f"npc {' '.join([*words, *line])}: {fault}")
    assert not faults, "\n".join(faults)


def test_a_tool_s_text_is_read_from_a_pipe_of_the_shell_and_no_further_than_a_file(
    nothing_starts: Alone, tmp_path: Path
) -> None:
    good = ROOT / "tests/data/qperf/tcp_udp_vv.txt"
    command = f'"{sys.executable}" -m npc records parse qperf'
    for line in (f"{command} - < {good}", f"{command} <(cat {good})"):
        done = subprocess.run(["bash", "-c", line], cwd=ROOT, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0 and "tcp_bw" in done.stdout, done.stderr
    endless = nothing_starts.run(["records", "parse", "qperf", "-"], "0=zero")
    assert (endless.code, endless.err.count("the most that is read")) == (2, 1)
