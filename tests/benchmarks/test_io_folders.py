"""Commands on files of their own, and the launches of IOR and mdtest, which no registry brings."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path

import pytest

from tests.paths import ROOT

IN_FOLDER = [sys.executable, str(ROOT / "benchmarks/in_folder.py")]


def told(benchmark: str, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / f"benchmarks/{benchmark}/cases.py"), *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


def test_a_command_works_in_a_folder_that_is_gone_when_it_has_ended(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    command = ["--", "dd", "if=/dev/zero", "of=FOLDER/file", "bs=1024", "count=4"]
    done = subprocess.run([*IN_FOLDER, "--target", tmp_path, *command], capture_output=True, text=True)
    assert done.returncode == 0 and "4096 bytes" in done.stderr
    head = json.loads(done.stdout.removeprefix("# NPC files: "))
    assert head["target"] == str(tmp_path) and head["filesystem"] and head["device"]
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("file", "mine")]
    failed = subprocess.run(
        [*IN_FOLDER, "--target", tmp_path, "--", "ls", "FOLDER/none"], capture_output=True
    )
    assert failed.returncode == 2, "the command's own exit code"
    assert len(list(tmp_path.iterdir())) == 1


def test_a_signal_ends_the_command_and_removes_the_folder(tmp_path: Path) -> None:
    command = [*IN_FOLDER, "--target", tmp_path, "--", "sh", "-c", "echo > FOLDER/begun; exec sleep 60"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as running:
        deadline = time.monotonic() + 30
        while not list(tmp_path.glob("*/begun")) and time.monotonic() < deadline:
            time.sleep(0.01)
        running.terminate()
        assert running.wait(30) == 128 + signal.SIGTERM
    assert list(tmp_path.iterdir()) == []


def test_too_little_space_and_no_such_command_are_unavailable(tmp_path: Path) -> None:
    for words, says in (
        (["--size", "1048576T", "--", "true"], f"unavailable: {tmp_path} has "),
        (["--", "nosuch-program"], "unavailable: nosuch-program: No such file"),
    ):
        done = subprocess.run([*IN_FOLDER, "--target", tmp_path, *words], capture_output=True, text=True)
        assert done.returncode == 1 and done.stderr.startswith(says)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("benchmark", ["ior", "mdtest"])
def test_without_the_program_it_is_unavailable_and_says_how_to_get_it(benchmark: str, tmp_path: Path) -> None:
    done = told(benchmark, "--prefix", str(tmp_path))
    assert done.returncode == 1 and done.stdout == ""
    assert done.stderr.startswith(f"unavailable: {benchmark}: not found ")
    assert f"--set {benchmark}_prefix=PATH" in done.stderr


def test_iors_launches_stay_within_their_bytes_and_have_io500s_forms(tmp_path: Path) -> None:
    (tmp_path / "ior").touch()
    words = ["--prefix", str(tmp_path), "--bytes", "1G", "--samples", "2", "--tasks", "8", "--processes", "4"]
    cases = [json.loads(line) for line in told("ior", *words).stdout.splitlines()]
    assert [case["name"] for case in cases] == ["easy POSIX run", "hard POSIX run"]
    asked = [case["values"]["words"].split() for case in cases]
    moved = 0
    for line in asked:
        options = dict(pairwise(line))
        assert int(options["-b"]) % int(options["-t"]) == 0 and options["-Q"] == "4"
        moved += 2 * 2 * 8 * int(options["-b"]) * int(options["-s"])
    assert 0.9 * 2**30 < moved <= 2**30
    assert "-F" in asked[0] and "-F" not in asked[1] and "47008" in asked[1]
    refused = told("ior", *words, "--bytes", "10M")
    assert "io_bytes" not in refused.stdout and "--set ior_bytes=" in refused.stderr
