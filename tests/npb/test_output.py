"""What tools print: on disk, not in memory, however much; a launch whose output is not whole is not ok."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from npc.npb.children import MAX_OUTPUT_BYTES
from npc.npb.launch_result import BlamedSide, LaunchResult, cut
from npc.npb.output import Output, Stream
from npc.records.launch import read_launches
from tests.lab.npb_job import NPB, Job, free_port, listening_server, mpirun, run

#: Runs a command and prints the largest memory of any of its processes (getrusage(2): KiB).
MEASURES = (
    "import resource, subprocess, sys; code = subprocess.run(sys.argv[1:]).returncode; "
    "print('KiB', resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss); sys.exit(code)"
)


@pytest.mark.slow
def test_what_a_client_prints_takes_no_memory_and_is_kept_as_far_as_it_goes(tmp_path: Path) -> None:
    job = Job(command=[
        sys.executable, "-c", MEASURES, mpirun(), "-np", "2", str(NPB),
        "--servercmd", listening_server(free_port()), "--clientcmd", "seq 45000000", "--killserver",
        "--parser", "raw", "--output", str(tmp_path / "out"),
    ])  # fmt: skip
    try:
        ended = job.wait(120)
        assert not job.left_behind()
    finally:
        job.kill()
    assert ended.returncode == 4
    (launch,) = read_launches(tmp_path / "out").launches
    assert launch.status == "failed: output cut at 256 MiB of 376 MiB"
    assert launch.status in ended.stdout
    raw = tmp_path / "out" / launch.raw
    assert raw.stat().st_size == MAX_OUTPUT_BYTES
    whole = subprocess.Popen(["seq", "45000000"], stdout=subprocess.PIPE)
    same = subprocess.run(["cmp", "-n", str(MAX_OUTPUT_BYTES), "-", raw], stdin=whole.stdout)
    whole.kill()
    whole.communicate()
    assert same.returncode == 0
    assert int(ended.stdout.rpartition("KiB ")[2]) < 150 * 1024


@pytest.mark.slow
def test_numbers_are_not_looked_for_in_an_output_without_end(tmp_path: Path) -> None:
    """And what a tool prints stands on the disk of its node, a long text whole."""
    ended = run(
        "--servercmd", listening_server(free_port()),
        "--clientcmd", "sh -c 'readlink /proc/$$/fd/1; seq {numbers}'", "--repeat", "numbers:10,5000000",
        "--parser", "qperf", "--killserver", "--output", str(tmp_path / "out"),
    )  # fmt: skip
    assert ended.returncode == 4
    few, many = read_launches(tmp_path / "out").launches
    assert "it printed more than" not in few.status
    assert many.status.endswith("it printed more than the 32 MiB in which numbers are looked for")
    first, *_, last = (tmp_path / "out" / many.raw).read_text().splitlines()
    assert "memfd" not in first and last == "5000000"


def test_a_stream_is_whole_in_memory_or_on_disk_or_says_where_it_was_cut() -> None:
    short, text = Output.of(b"half", b"an error\n"), b"0123456789abcdef" * 2**17
    long = Output.of(text)
    long.add(short)
    assert b"".join(long.out.chunks()) == text + b"half"
    assert long.out.text() == (text + b"half").decode() and long.out.end().endswith("efhalf")
    assert long.cut == "" and long.err.end() == "an error\n"
    long.err.printed += 2**20
    assert long.cut == "output cut at 8 B of 1 MiB"
    good, bad = LaunchResult("ok", BlamedSide.NONE), LaunchResult("timeout: of 1 s", BlamedSide.TIME)
    assert cut(good, short, BlamedSide.CLIENT) == good
    assert cut(good, long, BlamedSide.SERVER, "n1: ") == (
        f"failed: n1: {long.cut}",
        BlamedSide.SERVER,
        (),
        None,
    )
    assert cut(bad, long, BlamedSide.CLIENT) == (f"timeout: of 1 s; {long.cut}", BlamedSide.TIME, (), None)


def test_a_full_disk_cuts_a_stream(tmp_path: Path) -> None:
    code = (
        "import resource; from npc.npb.output import Stream\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, 1_000_000))\n"
        "stream = Stream(b'x' * 2**20)\n"
        "for _ in range(3): stream.add(b'y' * 700_000)\n"
        "print(stream.size - 2**20, sum(map(len, stream.chunks())) - 2**20)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=30)
    assert done.stdout == "1000000 1000000\n", done.stderr


def test_the_pieces_of_a_stream_are_in_order() -> None:
    stream = Stream()
    for number in range(40):
        stream.add(bytes([number]) * 100_001)
    assert b"".join(stream.chunks()) == b"".join(bytes([number]) * 100_001 for number in range(40))
