"""fio on real file systems: what it leaves behind, its bounds, and two nodes in one folder."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from npc import parsers
from npc.records.record import read_csv
from tests.lab.cluster import Cluster
from tests.lab.jube_job import NPC
from tests.paths import ROOT

FIO = [sys.executable, str(ROOT / "benchmarks/fio/fio.py")]
CASES = [sys.executable, str(ROOT / "benchmarks/fio/cases.py")]


def cases(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*CASES, *words], capture_output=True, text=True, timeout=60)


@pytest.mark.slow
def test_files_are_made_in_a_folder_of_its_own_and_removed(tmp_path: Path) -> None:
    """Also where others' files lie there, which stay as they are."""
    (tmp_path / "data.direct.0").write_text("mine")
    words = ["--target", str(tmp_path), "--size", str(4 << 20), "--milliseconds", "20"]
    done = subprocess.run([*FIO, *words], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("data.direct.0", "mine")]
    readings = parsers.parse("fio", done.stdout)
    tests = {(reading.case, reading.params.get("direct")) for reading in readings}
    names = {(case, None) for case in ("filecreate", "filestat", "filedelete")}
    assert tests - names == {(case, "1") for case in ("write", "read", "randread", "randwrite")} | {
        ("write", "0")
    }
    head = json.loads(done.stdout.partition("# NPC fio: ")[2].partition("\n")[0])
    assert head["host"] == os.uname().nodename and head["target"] == str(tmp_path)
    mounts = subprocess.run(["findmnt", "-no", "FSTYPE", "-T", tmp_path], capture_output=True, text=True)
    assert mounts.stdout.strip() == head["filesystem"]
    assert {reading.params["filesystem"] for reading in readings} == {head["filesystem"]}


@pytest.mark.slow
@pytest.mark.parametrize("limits", ["--nofile=200:4096", "--nofile=200:200"], ids=["soft", "hard"])
def test_a_limit_of_open_files_does_not_end_the_tests_of_names(limits: str, tmp_path: Path) -> None:
    words = ["--target", str(tmp_path), "--direct", "no", "--buffered", "no", "--milliseconds", "1000"]
    done = subprocess.run(
        ["prlimit", limits, *FIO, *words, "--files", "1000"], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    assert {reading.case for reading in parsers.parse("fio", done.stdout)} == {
        "filecreate", "filestat", "filedelete"
    }  # fmt: skip


@pytest.mark.slow
def test_what_fio_complained_of_is_the_reason(tmp_path: Path) -> None:
    words = ["--target", str(tmp_path), "--size", str(4 << 20), "--milliseconds", "20"]
    done = subprocess.run(
        ["prlimit", "--fsize=1000000", *FIO, *words], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 1
    assert f"got signal={signal.SIGXFSZ:d}" in done.stderr.splitlines()[-1]
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_what_others_move_on_the_file_system_meanwhile_is_seen(tmp_path: Path) -> None:
    """On a disk of its own: a file that is mounted, where this machine lets root do so."""
    image, place = tmp_path / "image", tmp_path / "place"
    with image.open("wb") as file:
        file.truncate(200 << 20)
    place.mkdir()
    subprocess.run(["mkfs.ext4", "-q", image], check=True)
    mounting = subprocess.run(["mount", "-o", "loop", image, place], capture_output=True, text=True)
    if mounting.returncode:
        pytest.skip(f"no loop device may be mounted here: {mounting.stderr.strip()}")
    words = ["--target", str(place), "--size", str(16 << 20), "--names", "no"]

    def others() -> list[float]:
        done = subprocess.run([*FIO, *words], capture_output=True, text=True, timeout=60, check=True)
        return [float(reading.params["others"]) for reading in parsers.parse("fio", done.stdout)]

    try:
        assert max(others()) < 0.1
        planted = ["dd", "if=/dev/zero", f"of={place}/planted", "bs=64K", "oflag=direct"]
        again = f"while :; do {' '.join(planted)} count=500 conv=notrunc status=none; done"
        with subprocess.Popen(["bash", "-c", again], start_new_session=True) as running:
            seen = others()
            os.killpg(running.pid, signal.SIGTERM)
        assert min(seen) > 0.1
    finally:
        subprocess.run(["umount", "--lazy", place], check=True)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_fio_and_removes_its_files(number: signal.Signals, tmp_path: Path) -> None:
    words = ["--target", str(tmp_path), "--size", str(64 << 20), "--milliseconds", "60000"]
    words += ["--direct", "no", "--buffered", "write,randread", "--blocks", "512"]
    with subprocess.Popen([*FIO, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as running:
        deadline = time.monotonic() + 30
        while not list(tmp_path.glob("npc-io-*/data.*")) and time.monotonic() < deadline:
            time.sleep(0.01)
        assert list(tmp_path.glob("npc-io-*/data.*"))
        running.send_signal(number)
        running.communicate(timeout=30)
    assert running.returncode == 128 + number
    assert list(tmp_path.iterdir()) == []


def test_a_file_system_with_too_little_space_is_unavailable_and_says_what_is_needed(tmp_path: Path) -> None:
    words = ["--target", str(tmp_path), "--size", str(1 << 60)]
    done = subprocess.run([*FIO, *words], capture_output=True, text=True, timeout=60)
    assert done.returncode == 1 and done.stdout == ""
    assert done.stderr.startswith(f"unavailable: {tmp_path} has ") and "--set io_bytes" in done.stderr
    missing = subprocess.run([*FIO, "--target", "/nosuch/folder"], capture_output=True, text=True)
    assert missing.stderr.startswith("unavailable: /nosuch/folder on ")
    assert list(tmp_path.iterdir()) == []


def test_the_bound_is_divided_among_all_tests() -> None:
    """All launches together move at most as much as was allowed."""
    lines = cases("--samples", "3", "--paths", "run,scratch").stdout.splitlines()
    told = [json.loads(line) for line in lines]
    assert [each["name"] for each in told] == ["run 1", "scratch 1"]
    sizes = [int(each["values"]["test"].split("--size ")[1].split()[0]) for each in told]
    tests = 4 + 1  # past the page cache, and through it
    moved = sum(3 * tests * size for size in sizes)
    assert 0.9 * 1700 * 2**20 < moved <= 1700 * 2**20


def test_a_bound_that_is_too_small_says_what_is_needed_and_that_is_enough() -> None:
    words = ["--processes", "8", "--blocks", "4K,4M"]
    refused = cases("--bytes", "1G", *words)
    assert refused.returncode == 1 and refused.stdout == ""
    assert "io_bytes 1G is too little: 6 samples of 8 tests on a node, by 8 process(es)" in refused.stderr
    needed = refused.stderr.partition("--set io_bytes=")[2].partition(",")[0]
    assert cases("--bytes", needed, *words).returncode == 0


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--direct", "erase"], "fio_direct erase: of write, read, randread, randwrite, or no"),
        (["--paths", "../mine"], "io_paths ../mine: of run, scratch, or folders from the root"),
        (["--processes", "0"], "fio_processes 0: whole numbers"),
        (["--blocks", "1Q"], "fio_sizes: not a size"),
        (["--direct", "no", "--buffered", "no", "--names", "no"], "nothing to measure"),
    ],
)
def test_a_setting_that_cannot_be_is_told(words: list[str], says: str) -> None:
    refused = cases(*words)
    assert refused.returncode == 1 and says in refused.stderr, refused.stderr


def test_without_fio_it_is_unavailable_with_the_line_that_brings_it(tmp_path: Path) -> None:
    done = subprocess.run(
        CASES, capture_output=True, text=True, timeout=60, env={**os.environ, "PATH": str(tmp_path)}
    )
    assert done.returncode == 1
    assert done.stderr.startswith("unavailable: fio: not found") and "apt-get install fio" in done.stderr


def test_nodes_of_one_test_are_one_and_a_node_without_a_result_is_a_failure() -> None:
    """The sum of the bytes over the longest run time, from the documents themselves."""
    text = (ROOT / "tests/data/fio/two_nodes.txt").read_text()
    parts = text.split("# NPC fio: ")[1:]
    documents = [json.loads(part[part.index("\n{") : part.rindex("\n}") + 3]) for part in parts]
    writes = [document["jobs"][0]["write"] for document in (documents[0], documents[2])]
    longest = max(each["runtime"] for each in writes) / 1e3
    readings = parsers.parse("fio", text)
    (write, *_) = [each for each in readings if (each.case, each.metric) == ("write", "bandwidth")]
    assert write.value == pytest.approx(sum(each["io_bytes"] for each in writes) / longest)
    alone = parsers.parse("fio", "# NPC fio: ".join(text.split("# NPC fio: ")[:3]))
    assert {each.status for each in alone} == {"failed: 1 of 2 nodes have a result"}


@pytest.mark.slow
def test_two_nodes_write_to_one_folder_at_the_same_time(tmp_path: Path) -> None:
    """On a real Slurm cluster: records name both nodes and hold the bytes of both; nothing is left."""
    shared = tmp_path / "shared"
    shared.mkdir()
    settings = {
        "NPC_FIO_NODES": "2", "NPC_SAMPLES": "1", "NPC_FIO_MILLISECONDS": "50", "NPC_IO_BYTES": "200M",
        "NPC_IO_PATHS": str(shared), "NPC_FIO_DIRECT": "write", "NPC_FIO_BUFFERED": "no",
        "NPC_ENV": "export OMPI_MCA_mpi_yield_when_idle=1",
    }  # fmt: skip
    runs = tmp_path / "runs"
    jube = ["jube", "run", ROOT / "benchmarks/fio/benchmark.xml", "--hide-animation", "--outpath", runs]
    with Cluster(nodes=2) as cluster:
        words = [*jube, "--include-path", ROOT / "platforms/slurm"]
        submitted = cluster.run("head", words, env=settings, timeout=120)
        assert submitted.returncode == 0, submitted.stdout + submitted.stderr
        waited = cluster.run(
            "head", [NPC, "records", "wait", runs, "--least", "0.3s", "--most", "0.5s"], timeout=200
        )
        cluster.run("head", [NPC, "records", "collect", runs])
    assert waited.returncode == 0, waited.stdout
    records = list(read_csv(runs / "000000/records.csv"))
    assert {(record.nodes, record.hosts) for record in records} == {(2, ("n1", "n2"))}
    assert {record.case for record in records} == {"write", "filecreate", "filestat", "filedelete"}
    (write,) = (record for record in records if (record.case, record.metric) == ("write", "bandwidth"))
    assert write.value and write.params["target"] == str(shared)
    texts = (runs / "000000" / write.raw).read_text().split("# NPC fio: ")[1::2]  # what writes, of each node
    heads = [json.loads(text.partition("\n")[0]) for text in texts]
    done = [json.loads(text.partition("\n")[2])["jobs"][0]["write"] for text in texts]
    assert [head["host"] for head in heads] == ["n1", "n2"]
    assert all(f"--directory={shared}/npc-io-" in head["by_hand"] for head in heads)
    rate = sum(each["io_bytes"] for each in done) / max(each["runtime"] for each in done) * 1e3
    assert write.value == pytest.approx(rate)
    assert list(shared.iterdir()) == []
