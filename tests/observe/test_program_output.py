"""What a program prints is passed on and kept; where that cannot be, the program runs on and it is said."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.lab.npb_job import MPI_ENVIRONMENT
from tests.lab.process_group import process_group

NPC = Path(sys.executable).with_name("npc")
ENVIRONMENT = {**os.environ, **MPI_ENVIRONMENT}
OBSERVE = [NPC, "observe", "--no-mpi", "--no-profile"]
#: Ten megabytes, more than any pipe holds, and then that it came to its end.
PRINTS = "yes | head -c 10000000; echo came to the end >ended"
SIZE = 10_000_000


def notes(folder: Path) -> list[str]:
    return list(json.loads((folder / "raw/0000.observed.json").read_bytes())["notes"])


@pytest.mark.slow
@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_a_reader_that_has_gone_leaves_the_program_running(tmp_path: Path, stream: str) -> None:
    other = {"stdout": "stderr", "stderr": "stdout"}[stream]
    redirection = {"stdout": "", "stderr": "exec 1>&2; "}[stream]
    with (tmp_path / "other").open("wb") as file:
        words = [*OBSERVE, "--", "sh", "-c", redirection + PRINTS]
        streams = {stream: subprocess.PIPE, other: file}
        with process_group(words, cwd=tmp_path, env=ENVIRONMENT, **streams) as job:
            pipe = getattr(job, stream)
            assert pipe.readline() == "y\n"
            pipe.close()
            assert job.wait(30) == 0
    assert (tmp_path / "ended").exists()
    suffix = {"stdout": "out", "stderr": "err"}[stream]
    assert (tmp_path / f"observed/raw/0000.{suffix}").stat().st_size == SIZE
    assert (tmp_path / "observed/records.csv").exists()
    said = (tmp_path / "other").read_text()
    assert said.count("standard output is no longer passed on: Broken pipe") == (stream == "stdout")


@pytest.mark.slow
@pytest.mark.parametrize("options", [[], ["--json"]])
def test_a_full_device_as_the_terminal_loses_nothing_that_is_kept(tmp_path: Path, options: list[str]) -> None:
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [*OBSERVE, *options, "--", "sh", "-c", f"{PRINTS}; exit 3"],
            cwd=tmp_path, env=ENVIRONMENT, stdout=full, stderr=subprocess.PIPE, text=True, timeout=60,
        )  # fmt: skip
    assert done.returncode == 3
    assert done.stderr.count("standard output is no longer passed on: No space left on device") == 1
    assert done.stderr.count("cannot print: No space left") == len(options)
    assert "Traceback" not in done.stderr
    assert "Exception" not in done.stderr
    assert (tmp_path / "observed/raw/0000.out").stat().st_size == SIZE


@pytest.mark.slow
@pytest.mark.netns
@pytest.mark.parametrize("has_room", [True, False])
def test_a_full_disk_cuts_what_is_kept_and_says_so(tmp_path: Path, has_room: bool) -> None:
    """The program fills the disk by what it prints, or all that is left of it by files of its own."""
    disk = tmp_path / "disk"
    disk.mkdir()
    fills = "" if has_room else f"dd if=/dev/zero of={disk}/filler bs=4k 2>filled; "
    script = f"""
mount -t tmpfs -o size=6m tmpfs {disk} || exit 99
head -c {2 * 1024**2} /dev/zero >{disk}/others
{NPC} observe --no-mpi --no-profile --output {disk}/o -- sh -c '{fills}{PRINTS}; exit 3'
code=$?
cp -r {disk}/o kept
exit $code
"""
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-c", script],
        cwd=tmp_path, env=ENVIRONMENT, capture_output=True, timeout=60,
    )  # fmt: skip
    said = done.stderr.decode()
    assert done.returncode == 3, said
    assert len(done.stdout) == SIZE
    assert (tmp_path / "ended").exists()
    assert "Traceback" not in said
    assert said.count("npc observe: standard output is kept up to byte") == 1
    if has_room:
        size = (tmp_path / "kept/raw/0000.out").stat().st_size
        assert 2_000_000 < size < 4_000_000
        (cut,) = [note for note in notes(tmp_path / "kept") if "is kept up to byte" in note]
        assert f"up to byte {size} only" in cut
        assert cut in said
        assert (tmp_path / "kept/records.csv").exists()
    else:
        assert said.count("the observation is not kept: cannot write") == 1


@pytest.mark.slow
def test_a_limit_on_the_size_of_files_cuts_what_is_kept(tmp_path: Path) -> None:
    script = f"ulimit -f 1000; {NPC} observe --no-mpi --no-profile -- sh -c '{PRINTS}'"
    done = subprocess.run(
        ["bash", "-c", script], cwd=tmp_path, env=ENVIRONMENT, capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, len(done.stdout)) == (0, SIZE)
    assert done.stderr.count("File too large; the program runs on") == 1
    assert (tmp_path / "observed/raw/0000.out").stat().st_size == 1_024_000
    assert any("up to byte 1024000 only" in note for note in notes(tmp_path / "observed"))


@pytest.mark.slow
def test_what_the_program_leaves_behind_goes_on_and_is_not_waited_for(tmp_path: Path) -> None:
    program = "(while [ ! -e go ]; do sleep 0.05; done; yes late | head -100000; touch done) & echo early"
    with process_group(
        [*OBSERVE, "--", "sh", "-c", program],
        cwd=tmp_path, env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
    ) as job:  # fmt: skip
        assert job.stdout is not None
        assert job.stdout.readline() == "early\n"
        assert job.wait(30) == 0  # before `go` is there
        (tmp_path / "go").touch()
        assert job.stdout.read() == "late\n" * 100_000
        deadline = time.monotonic() + 10
        while not (tmp_path / "done").exists() and time.monotonic() < deadline:
            time.sleep(0.05)
    assert (tmp_path / "done").exists()
    assert (tmp_path / "observed/raw/0000.out").read_text() == "early\n"
    assert any("left behind" in note for note in notes(tmp_path / "observed"))


@pytest.mark.slow
@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_closed_standard_streams_are_no_obstacle(tmp_path: Path, closed: str) -> None:
    """Their numbers go to no other file: the profile's would be the program's input then."""
    program = "ls -l /proc/self/fd >seen 2>&1; cat >copied; echo printed; echo problem >&2; exit 3"
    done = subprocess.run(
        ["sh", "-c", f'exec "$@" {closed}', "sh", NPC, "observe", "--", "sh", "-c", program],
        cwd=tmp_path, env=ENVIRONMENT, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert done.returncode == 3, done.stderr
    assert "Traceback" not in done.stdout + done.stderr
    assert (tmp_path / "observed/raw/0000.out").read_text() == "printed\n"
    assert (tmp_path / "observed/raw/0000.err").read_text().endswith("problem\n")
    assert (tmp_path / "copied").read_text() == ""
    assert (tmp_path / "observed/records.csv").exists()


@pytest.mark.slow
def test_output_passes_a_terminal_that_does_not_wait(tmp_path: Path) -> None:
    """Somebody else has set O_NONBLOCK on it, as ssh does."""
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    with process_group(
        [*OBSERVE, "--", "sh", "-c", PRINTS],
        cwd=tmp_path, env=ENVIRONMENT, stdout=writing, stderr=subprocess.DEVNULL,
    ) as job:  # fmt: skip
        os.close(writing)
        with os.fdopen(reading, "rb") as pipe:
            assert len(pipe.read()) == SIZE
        assert job.wait(30) == 0
