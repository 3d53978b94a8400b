"""A launch folder: what was appended is read back, also when the writer was killed in the middle."""

from __future__ import annotations

import dataclasses
import json
import signal
import subprocess
import sys
import time
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from npc.records.launch import (
    LAUNCHES,
    RAW,
    Launch,
    LaunchLog,
    batch_job,
    command_of,
    container_of,
    not_inside,
    now,
    read_launches,
    tool_of,
)

FIRST = Launch(
    id=0,
    argv=("qperf", "-uu", "n1", "tcp_bw"),
    started="2026-01-02T03:04:05.678+00:00",
    seconds=2.25,
    exit=0,
    case="tcp_bw",
    params={"msg_size": "4096", "server_cpus": "0-3,8"},
    nodes=2,
    hosts=("n1", "n2"),
    raw="raw/0000.out",
)
SECOND = dataclasses.replace(FIRST, id=1, exit=None, status="failed: no such program", sample=1, raw="")


def test_launches_are_read_back_in_their_order(tmp_path: Path) -> None:
    log = LaunchLog(tmp_path / "new" / "folder", "qperf", planned=3)
    log.append(FIRST)
    log.append(SECOND)
    log.close()
    read = read_launches(tmp_path / "new" / "folder")
    assert (read.tool, read.planned) == ("qperf", 3)
    assert read.launches == (FIRST, SECOND)
    assert (tmp_path / "new" / "folder" / RAW).is_dir()


def test_launches_of_older_versions_are_read(tmp_path: Path) -> None:
    log = LaunchLog(tmp_path, "qperf", planned=2)
    log.append(dataclasses.replace(FIRST, moved={"n1": {"tcp RetransSegs": 3}}))
    log.close()
    header, line = (tmp_path / LAUNCHES).read_text().splitlines()
    older = {key: value for key, value in json.loads(line).items() if key not in ("moved", "energy", "load")}
    (tmp_path / LAUNCHES).write_text(f"{header}\n{json.dumps(older)}\n{line}\n")
    first, second = read_launches(tmp_path).launches
    assert first == FIRST and (first.moved, first.energy) == (None, None)
    assert second.moved == {"n1": {"tcp RetransSegs": 3}}


texts = st.text(max_size=20)  # lone surrogates too: arguments need not be UTF-8


@settings(max_examples=40)
@given(
    st.builds(
        Launch,
        id=st.integers(min_value=0, max_value=2**63 - 1),
        argv=st.lists(texts, max_size=4).map(tuple),
        started=texts,
        seconds=st.floats(min_value=0, allow_infinity=False),
        exit=st.none() | st.integers(min_value=-64, max_value=255),
        status=texts,
        params=st.dictionaries(texts, texts, max_size=3),
        hosts=st.lists(texts, max_size=3).map(tuple),
    )
)
def test_any_launch_is_read_back(tmp_path_factory: pytest.TempPathFactory, launch: Launch) -> None:
    folder = tmp_path_factory.mktemp("launch")
    log = LaunchLog(folder, "tool", planned=1)
    log.append(launch)
    log.close()
    assert read_launches(folder).launches == (launch,)


def test_a_launch_can_be_read_before_the_log_is_closed(tmp_path: Path) -> None:
    log = LaunchLog(tmp_path, "qperf", planned=2)
    assert read_launches(tmp_path).launches == ()
    log.append(FIRST)
    assert read_launches(tmp_path).launches == (FIRST,)
    log.close()


def test_a_file_cut_anywhere_gives_the_launches_that_are_whole(tmp_path: Path) -> None:
    log = LaunchLog(tmp_path, "qperf", planned=2)
    log.append(FIRST)
    log.append(SECOND)
    log.close()
    whole = (tmp_path / LAUNCHES).read_bytes()
    ends = [position + 1 for position, byte in enumerate(whole) if byte == ord("\n")]
    for length in range(len(whole) + 1):
        (tmp_path / LAUNCHES).write_bytes(whole[:length])
        complete = sum(end <= length for end in ends)
        assert read_launches(tmp_path).launches == (FIRST, SECOND)[: max(0, complete - 1)], length


def test_a_killed_writer_leaves_what_it_had_finished(tmp_path: Path) -> None:
    program = (
        "import sys, time; from pathlib import Path; from npc.records.launch import *\n"
        "log = LaunchLog(Path(sys.argv[1]), 'endless', 10**6)\n"
        "for number in range(10**6):\n"
        "    log.append(Launch(id=number, argv=('x' * 3000,), started=now(), seconds=0.0, exit=0))\n"
    )
    folder = tmp_path / "run"
    writer = subprocess.Popen([sys.executable, "-c", program, str(folder)])
    try:
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            if (folder / LAUNCHES).exists() and (folder / LAUNCHES).stat().st_size > 100_000:
                break
            time.sleep(0.01)
    finally:
        writer.send_signal(signal.SIGKILL)
        writer.wait()
    read = read_launches(folder)
    assert len(read.launches) > 10
    assert [launch.id for launch in read.launches] == list(range(len(read.launches)))


def test_a_folder_that_holds_launches_is_not_written_again(tmp_path: Path) -> None:
    LaunchLog(tmp_path, "qperf", planned=1).close()
    before = (tmp_path / LAUNCHES).read_bytes()
    with pytest.raises(FileExistsError):
        LaunchLog(tmp_path, "qperf", planned=1)
    assert (tmp_path / LAUNCHES).read_bytes() == before


def test_a_folder_without_launches_is_said_to_be_missing_them(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=LAUNCHES):
        read_launches(tmp_path)


@pytest.mark.parametrize(
    ("line", "number"),
    [("", 2), ("{}", 2), ("[1]", 2), ("nonsense", 2), ('{"id": 1, "argv": 3, "hosts": []}', 2)],
)
def test_a_damaged_line_in_the_middle_is_named(tmp_path: Path, line: str, number: int) -> None:
    good = json.dumps(dataclasses.asdict(FIRST))
    (tmp_path / LAUNCHES).write_text(f'{{"tool": "qperf", "planned": 2}}\n{line}\n{good}\n', encoding="utf-8")
    with pytest.raises(ValueError, match=rf"{LAUNCHES}:{number}: not a launch"):
        read_launches(tmp_path)


@pytest.mark.parametrize("header", ["{}", '"qperf"', "[]", '{"tool": "x", "planned": "many"}', "null"])
def test_a_damaged_header_is_named(tmp_path: Path, header: str) -> None:
    (tmp_path / LAUNCHES).write_text(f"{header}\n", encoding="utf-8")
    with pytest.raises(ValueError, match=rf"{LAUNCHES}:1: not a launch"):
        read_launches(tmp_path)


@pytest.mark.parametrize("variable", ["SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID"])
def test_the_batch_job_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str) -> None:
    for other in ("SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID"):
        monkeypatch.delenv(other, raising=False)
    assert batch_job() == ""
    monkeypatch.setenv(variable, "4711")
    LaunchLog(tmp_path, "qperf", planned=0).close()
    assert read_launches(tmp_path).job == "4711"


def test_now_is_utc_with_its_offset() -> None:
    moment = datetime.fromisoformat(now())
    assert moment.utcoffset() == timedelta(0)
    assert abs(moment.timestamp() - time.time()) < 60


def test_a_folder_that_cannot_be_made_is_an_os_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(OSError, match="file"):
        LaunchLog(tmp_path / "file" / "run", "qperf", planned=1)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


@pytest.mark.parametrize(
    ("command", "tool"),
    [
        ("/usr/bin/qperf h tcp_bw", "qperf"),
        ("taskset -c 1 qperf h", "qperf"),
        ("taskset ff qperf h", "qperf"),
        ("numactl -N 0 --membind=0 -- qperf h", "qperf"),
        ("numactl --cpunodebind 0 qperf h", "qperf"),
        ("env -i -u PATH A=1 B= qperf h", "qperf"),
        ("LD_PRELOAD=/x.so:/y.so sockperf server", "sockperf"),
        ("nice -n 5 ionice -c 3 qperf h", "qperf"),
        ("nice -10 qperf h", "qperf"),
        ("stdbuf -oL -e 0 qperf h", "qperf"),
        ("timeout -k 5 --signal=INT 10 qperf h", "qperf"),
        ("chrt -f 99 qperf h", "qperf"),
        ("chrt -b qperf h", "qperf"),
        ("setarch x86_64 -R qperf h", "qperf"),
        ("ip netns exec blue qperf h", "qperf"),
        ("prlimit --memlock=unlimited ib_write_bw h", "ib_write_bw"),
        ("timeout 9 taskset -ac 0-3 env X=Y nice qperf h", "qperf"),
        ("nice -n 5", "nice"),
        ("ip link", "ip"),
        ("timeoutd 3 qperf", "timeoutd"),
        ("", ""),
    ],
)
def test_the_tool_stands_behind_what_people_put_before_it(command: str, tool: str) -> None:
    assert tool_of(command.split()) == tool


@pytest.mark.parametrize(
    ("command", "image"),
    [
        ("apptainer exec /images/net.sif qperf n1 tcp_bw", "net.sif"),
        (
            "apptainer --quiet exec --cleanenv -B /a:/b --env X=1 net.sif taskset -c 1 qperf n1 tcp_bw",
            "net.sif",
        ),
        ("singularity run --bind=/a docker://site/net:7 env LC_ALL=C qperf n1 tcp_bw", "net:7"),
        ("numactl -N 0 podman run --rm --network host -v /a:/a net:7 /usr/bin/qperf n1 tcp_bw", "net:7"),
        ("docker run --rm --net=host -e A=1 net qperf n1 tcp_bw", "net"),
        ("enroot start --rw -m /a:/a net.sqsh qperf n1 tcp_bw", "net.sqsh"),
        ("ch-run -b /a:/a /images/net -- qperf n1 tcp_bw", "net"),
        ("shifter --image=site/net:7 qperf n1 tcp_bw", "net:7"),
        ("srun --overlap -N1 -w n1 --container-image=site+net.sqsh qperf n1 tcp_bw", "site+net.sqsh"),
        ("srun -n 1 --container-image /images/net.sqsh qperf n1 tcp_bw", "net.sqsh"),
        ("srun --mpi=pmix -n 1 qperf n1 tcp_bw", ""),
        ("taskset -c 1 qperf n1 tcp_bw", ""),
    ],
)
def test_a_tool_in_a_container_is_the_tool_and_its_image_is_known(command: str, image: str) -> None:
    argv = command.split()
    assert tool_of(argv) == "qperf" and command_of(argv)[1:] == ["n1", "tcp_bw"]
    assert container_of(argv) == image


def test_an_image_is_known_behind_a_launcher_of_ranks() -> None:
    assert (
        container_of(
            ["mpirun", "-n", "2", "-x", "A", "apptainer", "exec", "-B", "/a", "/images/osu.sif", "osu_bw"]
        )
        == "osu.sif"
    )
    assert container_of(["srun", "-n", "2", "--container-image=osu.sqsh", "./osu_bw"]) == "osu.sqsh"
    assert container_of(["mpirun", "-n", "2", "--host", "docker,n2", "./osu_bw"]) == ""
    assert container_of(["apptainer", "exec", "osu.sif"]) == "", "no tool follows"


#: As Apptainer 1.5 prints it.
FATAL = 'FATAL:   "iperf3": executable file not found in $PATH'


@pytest.mark.parametrize(
    ("command", "printed"),
    [
        ("apptainer exec net.sif iperf3 -s", FATAL),
        (
            "mpirun -n 2 apptainer exec net.sif iperf3",
            FATAL,
        ),
        (
            "podman run --rm net.sif iperf3 -s",
            "Error: runc: runc create failed: unable to start container process: exec: "
            '"iperf3": executable file not found in $PATH: OCI runtime attempted to invoke a command',
        ),
        (
            "podman run net.sif iperf3",
            "Error: crun: executable file `iperf3` not found in $PATH: No such file",
        ),
    ],
)
def test_a_tool_that_an_image_lacks_is_unavailable(command: str, printed: str) -> None:
    status = not_inside(command.split(), f"WARNING: of something else\n{printed}\n")
    assert status == "unavailable: iperf3: not found in PATH of the container net.sif"
    assert not_inside(["iperf3", "-s"], printed) == "", "in no container"
    assert not_inside(command.split(), "iperf3: error - unable to connect") == ""
