"""npb when things go wrong: every failure has its message and exit code, and nothing outlives its job."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import socket
import time
from pathlib import Path

import pytest

from npc.npb import cli
from npc.npb.coordinator import Conductor
from npc.npb.nodes import AgentReception
from npc.records.launch import read_launches
from npc.records.record import read_csv
from tests.lab.npb_job import (
    NPB,
    Job,
    ancestors_of,
    environment_of_test,
    free_port,
    listening_server,
    python,
    run,
)

pytestmark = pytest.mark.slow

RAW = ("--parser", "raw", "--killserver")


def statuses(folder: Path) -> list[str]:
    return [launch.status for launch in read_launches(folder).launches]


# -- tools that fail -----------------------------------------------------------------------------------


def test_a_server_that_dies_in_mid_step_stops_the_client_at_once(tmp_path: Path) -> None:
    dies = (
        "import socket, sys, time; s = socket.create_server(('', int(sys.argv[1]))); time.sleep(1); "
        "sys.exit('memory on fire')"
    )
    began = time.monotonic()
    ended = run(
        "--servercmd", python(dies, str(free_port())), "--clientcmd", "sleep 30", *RAW,
        "--output", str(tmp_path / "out"),
    )  # fmt: skip
    assert time.monotonic() - began < 12
    assert ended.returncode == 3
    (status,) = statuses(tmp_path / "out")
    assert status.startswith("failed: server on") and "exit code 1: memory on fire" in status
    assert "memory on fire" in (tmp_path / "out/raw/0000.server.err").read_text()
    (record,) = read_csv(tmp_path / "out/records.csv")
    assert record.value is None and record.status == status


def test_a_server_killed_under_qperf_is_a_failure_of_the_server(tmp_path: Path) -> None:
    port = free_port()
    job = Job(
        "--servercmd", f"qperf -lp {port}", "--clientcmd", f"qperf HOSTNAME -lp {port} -t 20 tcp_bw",
        "--killserver", "--output", str(tmp_path / "out"),
    )  # fmt: skip
    try:
        job.await_process(f"-lp {port} -t 20")
        os.kill(job.await_process(f"qperf -lp {port}"), signal.SIGKILL)
        assert job.wait(15).returncode == 3
        assert "signal 9" in statuses(tmp_path / "out")[0]
        assert not job.left_behind()
    finally:
        job.kill()


def test_a_client_that_fails_is_recorded_and_the_sweep_goes_on(tmp_path: Path) -> None:
    client = "import sys; sys.exit('no route' if sys.argv[2] == '2' else 0)"
    command = python(client) + " --repeat n:1:3:+1"
    ended = run(
        "--servercmd", listening_server(free_port()), "--clientcmd", command, *RAW,
        "--output", str(tmp_path / "out"),
    )  # fmt: skip
    assert ended.returncode == 6
    assert [status == "ok" for status in statuses(tmp_path / "out")] == [True, False, True]
    assert "exit code 1: no route" in statuses(tmp_path / "out")[1]
    assert "no route" in ended.stdout


def test_fail_fast_stops_at_the_first_failure(tmp_path: Path) -> None:
    ended = run(
        "--servercmd", listening_server(free_port()), "--clientcmd", "false --repeat n:1:3:+1", *RAW,
        "--fail-fast", "--output", str(tmp_path / "out"),
    )  # fmt: skip
    assert ended.returncode == 4
    assert len(statuses(tmp_path / "out")) == 1


@pytest.mark.parametrize(
    ("server", "client", "code", "side"),
    [("no-such-tool", "true", 3, "server"), ("listen", "no-such-tool HOSTNAME", 4, "client")],
)
def test_a_missing_tool_is_named(server: str, client: str, code: int, side: str) -> None:
    command = listening_server(free_port()) if server == "listen" else server
    ended = run("--servercmd", command, "--clientcmd", client, *RAW)
    assert ended.returncode == code
    assert f"{side} on " in ended.stdout and "no-such-tool: not found in PATH" in ended.stdout


def test_a_client_that_prints_nothing_has_measured_nothing() -> None:
    ended = run(
        "--servercmd",
        listening_server(free_port()),
        "--clientcmd",
        "true",
        "--parser",
        "qperf",
        "--killserver",
    )
    assert ended.returncode == 4
    assert "exited 0 without a result" in ended.stdout


def test_sockperf_that_sends_to_nobody_is_not_believed(tmp_path: Path) -> None:
    port = free_port()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as unread:
        unread.bind(("", 0))  # no other test's server can be there
        ended = run(
            "--servercmd", f"sockperf server -p {port}",
            "--clientcmd", f"sockperf throughput -i HOSTNAME -p {unread.getsockname()[1]} -t 1",
            "--killserver", "--output", str(tmp_path / "out"),
        )  # fmt: skip
    assert ended.returncode == 4
    assert "invalid: the server received 0" in statuses(tmp_path / "out")[0]
    assert all(not record.ok for record in read_csv(tmp_path / "out/records.csv"))


def test_sockperf_ping_pong_without_an_answer_fails_although_it_exits_0() -> None:
    port, nobody = free_port(), free_port()
    ended = run(
        "--servercmd", f"sockperf server -p {port}",
        "--clientcmd", f"sockperf ping-pong -i HOSTNAME -p {nobody} -t 1", "--killserver",
    )  # fmt: skip
    assert ended.returncode == 4
    assert "failed: " in ended.stdout


def test_a_server_that_never_listens_is_ended_with_its_last_lines() -> None:
    silent = "import time; print('waiting for a licence', flush=True); time.sleep(100)"
    ended = run("--servercmd", python(silent), "--clientcmd", "true", *RAW, "--ready-timeout", "1")
    assert ended.returncode == 3
    assert "did not listen within 1 s" in ended.stdout and "waiting for a licence" in ended.stdout


def test_a_port_in_use_is_said_by_the_server_that_could_not_have_it() -> None:
    with socket.create_server(("", 0)) as taken:
        port = taken.getsockname()[1]
        ended = run(
            "--servercmd", f"iperf3 -s -p {port}", "--clientcmd", f"iperf3 -c HOSTNAME -p {port}", *RAW
        )
    assert ended.returncode == 3
    assert "before it listened" in ended.stdout and "in use" in ended.stdout


def test_without_a_visible_socket_the_user_says_when_it_is_ready() -> None:
    ended = run("--servercmd", "sleep 100", "--clientcmd", "echo hello", *RAW, "--ready-after", "0.2")
    assert ended.returncode == 0, ended.stdout
    assert ended.stdout == "hello\n", "where nothing is parsed, what the tool printed"
    assert "1 of 1 launches ok; no number was read of 1" in ended.stderr


# -- limits --------------------------------------------------------------------------------------------


def test_a_step_has_its_limit_and_the_next_one_runs(tmp_path: Path) -> None:
    ended = run(
        "--servercmd", listening_server(free_port()), "--clientcmd", "sleep {s}", "--repeat", "s:100,0", *RAW,
        "--timeout", "1", "--output", str(tmp_path / "out"),
    )  # fmt: skip
    assert ended.returncode == 6
    assert statuses(tmp_path / "out")[0] == "timeout: sleep still ran after its limit of 1 s"
    assert statuses(tmp_path / "out")[1] == "ok"


def test_the_whole_has_its_limit_and_keeps_what_was_measured(tmp_path: Path) -> None:
    ended = run(
        "--servercmd", listening_server(free_port()), "--clientcmd", "sleep {s}", "--repeat", "s:0,100", *RAW,
        "--total-timeout", "2", "--output", str(tmp_path / "out"),
    )  # fmt: skip
    assert ended.returncode == 5
    assert statuses(tmp_path / "out") == ["ok", "timeout: the whole run reached its limit of 2 s"]


# -- deaths and signals --------------------------------------------------------------------------------

#: Notes the time of SIGTERM in the file of its last argument, and ends.
NOTES_ITS_END = """
import signal, socket, sys, time
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
if len(sys.argv) > 2:
    listener = socket.create_server(("", int(sys.argv[1])))
signal.sigwait([signal.SIGTERM])
open(sys.argv[-1], "w").write(repr(time.monotonic()))
"""


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_client_then_the_server_within_two_seconds(tmp_path: Path, signum: int) -> None:
    server, client = tmp_path / "server", tmp_path / "client"
    job = Job(
        "--servercmd", python(NOTES_ITS_END, str(free_port()), str(server)),
        "--clientcmd", python(NOTES_ITS_END, str(client)), *RAW, "--output", str(tmp_path / "out"),
    )  # fmt: skip
    try:
        job.await_process(str(client))
        time.sleep(0.5)  # until it waits for its signal
        began = time.monotonic()
        job.process.send_signal(signum)
        assert not job.left_behind(10)
        ended = job.wait(10)
        assert float(server.read_text()) - began < 2 + 2, "two seconds, on a loaded machine four"
        assert float(client.read_text()) < float(server.read_text())
        assert ended.returncode not in (0, 2)
        assert "interrupted by SIG" in statuses(tmp_path / "out")[0]
    finally:
        job.kill()


def running_job(tmp_path: Path, *options: str) -> tuple[Job, int, int]:
    """A job in mid-step: (job, a daemon as server, a grandchild that ignores SIGTERM as client)."""
    port = free_port()
    stubborn = f"sh -c 'trap \"\" TERM; sleep 101 & sleep 102; echo {tmp_path}'"
    job = Job("--servercmd", f"iperf3 -s -D -p {port}", "--clientcmd", stubborn, *RAW, *options)
    client = job.await_process("sleep 102")
    job.await_process("sleep 101")
    return job, job.await_process(f"iperf3 -s -D -p {port}"), client


def npb_processes(job: Job, child: int) -> tuple[int, int]:
    """(agent, rank) above a tool's process."""
    own = set(job.agents_and_ranks())
    chain = [pid for pid in ancestors_of(child) if pid in own]
    return chain[0], chain[1]


@pytest.mark.parametrize("side", ["server", "client"])
@pytest.mark.parametrize("victim", ["agent", "rank"])
def test_nothing_outlives_an_agent_or_a_rank_that_was_killed(tmp_path: Path, side: str, victim: str) -> None:
    job, server, client = running_job(tmp_path)
    try:
        agent, rank = npb_processes(job, server if side == "server" else client)
        os.kill(agent if victim == "agent" else rank, signal.SIGKILL)
        assert not job.left_behind(10)
        assert job.wait(10).returncode != 0
    finally:
        job.kill()


def test_a_pair_whose_node_is_lost_is_not_measured_on(tmp_path: Path) -> None:
    job, _, client = running_job(tmp_path, "--runs", "50", "--output", str(tmp_path / "out"))
    try:
        os.kill(npb_processes(job, client)[0], signal.SIGKILL)
        assert not job.left_behind(10)
        assert job.wait(10).returncode != 0
    finally:
        job.kill()
    (status,) = statuses(tmp_path / "out")
    assert re.match("failed: (lost |interrupted by SIGTERM)", status)


def test_nothing_outlives_a_launcher_that_was_killed(tmp_path: Path) -> None:
    job, _, _ = running_job(tmp_path)
    try:
        job.process.kill()
        assert not job.left_behind(10)
    finally:
        job.kill()


def test_nothing_outlives_a_coordinator_that_was_killed(tmp_path: Path) -> None:
    job, server, _ = running_job(tmp_path)
    try:
        agent, _ = npb_processes(job, server)
        (coordinator,) = [pid for pid in job.agents_and_ranks() if agent == next(ancestors_of(pid))]
        os.kill(coordinator, signal.SIGKILL)
        assert not job.left_behind(10)
        assert job.wait(10).returncode != 0
    finally:
        job.kill()


def test_a_client_that_leaves_processes_behind_is_swept_before_the_next_step(tmp_path: Path) -> None:
    ended = run(
        "--servercmd", listening_server(free_port()),
        "--clientcmd", "sh -c 'setsid sleep 103 & echo done'", *RAW,
        "--runs", "2", "--output", str(tmp_path / "out"),
    )  # fmt: skip
    assert ended.returncode == 0, ended.stdout


def test_a_folder_that_vanishes_ends_the_job_with_its_reason(tmp_path: Path) -> None:
    out = tmp_path / "out"
    fill = f"import pathlib, shutil; shutil.rmtree(pathlib.Path({str(out)!r}) / 'raw')"
    ended = run(
        "--servercmd", listening_server(free_port()), "--clientcmd", python(fill), *RAW, "--output", str(out)
    )  # fmt: skip
    assert ended.returncode == 2
    assert "cannot write " in ended.stderr and "Traceback" not in ended.stderr


# -- usage ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--clientcmd", "echo --repeat m:1:4:*1"), "never ends"),
        (("--clientcmd", "echo", "--parser", "nosuch"), "there is no parser 'nosuch'"),
        (("--clientcmd", "echo", "--server-cpus", "4000"), "CPU 4000 is not among those of this job on"),
        (("--clientcmd", "echo", "--interface", "nosuch0"), "no such interface with an address; it has: "),
        (("--clientcmd", "echo", "--hostfile-addresses", "/nonexistent"), "No such file"),
        (("--clientcmd", "echo", "--output", "/dev/null/out"), "cannot write /dev/null/out"),
        (("--clientcmd", "echo", "--runs", "0"), "not a number of runs"),
        (("--clientcmd", "echo", "--heatmap", "map.txt"), "not the name of a .png, .svg or .pdf"),
    ],
)  # fmt: skip
def test_a_mistake_is_explained_once_before_anything_starts(options: tuple[str, ...], message: str) -> None:
    """One of each kind: what else a kind finds is in test_rules."""
    ended = run("--servercmd", "no-such-server", *options)
    assert ended.returncode == 2, ended.stderr
    assert ended.stderr.count(message) == 1, ended.stderr
    assert "Traceback" not in ended.stderr


def test_an_unresolvable_second_network_is_an_error() -> None:
    name = socket.gethostname()
    ended = run("--servercmd", "s", "--clientcmd", "c", "--modify_hostname", name, f"{name}-ib.invalid")
    assert ended.returncode == 2
    assert f"cannot resolve '{name}-ib.invalid'" in ended.stderr


def test_one_process_alone_is_told_what_it_lacks() -> None:
    ended = run("--servercmd", "s", "--clientcmd", "c", ranks=1)
    assert ended.returncode == 2
    assert "at least two processes" in ended.stderr


def test_three_processes_need_pairs() -> None:
    ended = run("--servercmd", "s", "--clientcmd", "c", ranks=3)
    assert ended.returncode == 2
    assert "--pairs" in ended.stderr


def test_a_launcher_of_another_mpi_is_recognised() -> None:
    import subprocess

    ended = subprocess.run(
        [NPB, "--servercmd", "s", "--clientcmd", "c"],
        env=environment_of_test({"SLURM_NTASKS": "2", "SLURM_PROCID": "0"}),
        capture_output=True,
        text=True,
        timeout=30,
    )
    assert ended.returncode == 2
    assert "each is alone in its MPI" in ended.stderr and "--mpi=pmix" in ended.stderr


def test_an_agent_that_ends_before_the_nodes_have_met_is_one_line(capfd: pytest.CaptureFixture[str]) -> None:
    """What a signal does that comes while npb starts."""
    options = cli.options_of(["--servercmd", "qperf", "--clientcmd", "qperf HOSTNAME tcp_bw"])
    ours, theirs = socket.socketpair()
    ours.close()
    conductor = Conductor(options, ["n1", "n2"])
    conductor.interrupt(signal.SIGINT)
    conducted = conductor.conduct(AgentReception([], b"", conductor.interrupt), [], theirs)
    assert asyncio.run(conducted) == 130
    assert capfd.readouterr().err == "npb: stopped before anything was measured\n"
