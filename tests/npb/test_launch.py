"""npb with real tools on loopback: what is measured, written and shown."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from shutil import which

import pytest

from npc.machine.load import WATCH
from npc.parsers.run.collect import collect_run
from npc.records.launch import read_launches
from npc.records.record import read_csv
from npc.records.series import Series
from npc.statistics.precision import USUAL
from tests.lab.npb_job import MPI_ENVIRONMENT, Job, free_port, listening_server, python, run
from tests.paths import ROOT

pytestmark = pytest.mark.slow


def qperf(port: int, client: str) -> tuple[str, str, str, str]:
    return ("--servercmd", f"qperf -lp {port}", "--clientcmd", f"qperf HOSTNAME -lp {port} -t 1 {client}")


def test_of_sockperf_by_udp_what_arrived_is_the_number(tmp_path: Path) -> None:
    port = free_port()
    ended = run(
        "--servercmd", f"taskset -c 0 sockperf server -p {port}",
        "--clientcmd", f"LD_BIND_NOW=1 timeout 20 sockperf throughput -i HOSTNAME -p {port} -t 1",
        "--killserver", "--output", str(tmp_path / "out"),
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    received = float(read_launches(tmp_path / "out").launches[0].params["received"])
    assert 0 < received <= 1
    records = list(read_csv(tmp_path / "out/records.csv"))
    rates = {(record.metric, record.params.get("side")): record for record in records}
    for metric in ("bandwidth", "message_rate"):
        sent, arrived = rates[metric, "send"], rates[metric, None]
        assert sent.ok if received >= 0.99 else "never arrived" in sent.status
        assert arrived.ok and sent.value and arrived.value == pytest.approx(received * sent.value)
    server = (tmp_path / "out/raw/0000.server.out").read_text()
    handled = re.search(r"Total (\d+) messages received and handled", server)
    count = re.search(r"Total of (\d+) messages sent", (tmp_path / "out/raw/0000.out").read_text())
    assert handled and count, "ended so that it could print its count"
    assert received == pytest.approx(int(handled[1]) / int(count[1]), rel=0.01), "by sockperf's own counts"


def test_a_sweep_makes_records_in_si_units_with_their_raw_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And what others computed beside each launch, which no environment.json says how to judge."""
    monkeypatch.delenv(WATCH)
    out = tmp_path / "out"
    sweep = "--repeat msg_size:1K:16K:*16 tcp_bw tcp_lat"
    spinning = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        ended = run(
            *qperf(free_port(), f"-uu -vu {sweep}"), "--killserver", "--runs", "2",
            "--platform", "fuchs", "--output", str(out),
        )  # fmt: skip
    finally:
        spinning.kill()
        spinning.wait()
    assert ended.returncode == 0, ended.stderr
    launches = read_launches(out)
    names: set[str] = set()
    for launch in launches.launches:
        assert launch.load and launch.load["cores"] > 0.1, "client and server"
        names |= {entry["name"] for entry in launch.load["others"]}
    # of each launch the busiest are told: on a full machine there may be busier ones in some
    assert any(name.startswith("python") for name in names) and "qperf" not in names
    assert (launches.tool, launches.planned, len(launches.launches)) == ("qperf", 4, 4)
    assert [launch.sample for launch in launches.launches] == [0, 0, 1, 1]
    assert [launch.params["msg_size"] for launch in launches.launches] == ["1024", "16384"] * 2
    rows = list(read_csv(out / "records.csv"))
    assert rows == collect_run(out, "fuchs")
    records = [record for record in rows if record.metric not in ("energy", "power")]  # where it may be read
    assert {(record.case, record.metric, record.size) for record in records} == {
        (case, metric, size)
        for case, metric in (("tcp_bw", "bandwidth"), ("tcp_lat", "latency"))
        for size in (1024, 16384)
    }
    for record in records:
        assert record.ok
        assert (out / record.raw).read_text().startswith("tcp_bw:")
        assert record.value is not None
        if record.metric == "latency":
            assert 1e-7 < record.value < 1e-2
        else:
            assert 1e6 < record.value < 1e12
    assert len({Series.of(record) for record in records}) == 4, "both samples are of one series"


def test_shuffled_runs_follow_their_recorded_seed(tmp_path: Path) -> None:
    port = free_port()
    orders = []
    for name in ("a", "b"):
        ended = run(
            "--servercmd", listening_server(port), "--clientcmd", "echo --repeat n:1:8:+1", "--parser", "raw",
            "--killserver", "--shuffle", "7", "--runs", "2", "--output", str(tmp_path / name),
        )  # fmt: skip
        assert ended.returncode == 0, ended.stderr
        header = json.loads((tmp_path / name / "launches.jsonl").read_text().splitlines()[0])
        assert header["seed"] == 7
        launches = read_launches(tmp_path / name).launches
        orders.append([(launch.sample, launch.params["n"]) for launch in launches])
    assert orders[0] == orders[1] != sorted(orders[0])
    assert len(set(orders[0])) == 16


def test_auto_stops_where_a_median_is_known_and_goes_on_where_it_is_not(tmp_path: Path) -> None:
    """One step whose clients print the same number, one of whose clients one is slower."""
    slower = f"mkdir {tmp_path}/been 2> /dev/null && n=1 || n=0"
    printed = 'printf "tcp_lat:\\n    latency  =  %d ns\\n" $((20000 + n * {spread}))'
    client = f"sh -c '[ {{spread}} = 0 ] || {slower}; {printed}'"
    out = tmp_path / "out"
    ended = run(
        "--servercmd", listening_server(free_port()), "--clientcmd", client, "--killserver",
        "--parser", "qperf", "--benchmark", "qperf", "--repeat", "spread:0,5000",
        "--runs", "auto", "--samples-max", "10", "--shuffle", "5", "--output", str(out),
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    folder = read_launches(out)
    made = [(launch.params["spread"], launch.sample) for launch in folder.launches]
    assert sorted(made) == [*(("0", n) for n in range(6)), *(("5000", n) for n in range(10))]
    assert [sample for _, sample in made[:12]] == [n for n in range(6) for _ in range(2)]
    assert folder.planned == 16
    assert len(list(read_csv(out / "records.csv"))) == 16
    pairs = run("--servercmd", "true", "--clientcmd", "true", "--pairs", "all", "--runs", "auto")
    assert pairs.returncode == 2 and "takes a number" in pairs.stderr


def test_the_help_tells_what_is_usual() -> None:
    text = run("--help").stdout
    for value in (100 * USUAL.precision, USUAL.most, USUAL.case_s):
        assert f"({value:g})" in " ".join(text.split())


def test_iperf3_that_serves_one_client_is_started_for_each(tmp_path: Path) -> None:
    port = free_port()
    ended = run(
        "--servercmd", f"iperf3 -s -1 -p {port}", "--clientcmd", f"iperf3 -c HOSTNAME -p {port} -t 1 -J",
        "--runs", "2", "--output", str(tmp_path / "out"),
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    for number in range(2):
        assert "Server listening" in (tmp_path / f"out/raw/{number:04d}.server.out").read_text()


def test_a_server_that_daemonises_serves_and_is_ended() -> None:
    port = free_port()
    ended = run(
        "--servercmd", f"iperf3 -s -D -p {port}", "--clientcmd", f"iperf3 -c HOSTNAME -p {port} -t 1 -J",
        "--runs", "2", "--killserver", "--format", "csv",
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.count(",bandwidth,") >= 2


def test_qperf_quit_ends_the_server_and_the_next_run_has_a_new_one() -> None:
    ended = run(*qperf(free_port(), "-uu tcp_lat quit"), "--runs", "2", "--format", "csv")
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert ended.stdout.count("tcp_lat") == 2


def test_an_unknown_tool_whose_server_ends_after_each_client_is_learned() -> None:
    port = free_port()
    once = "import socket, sys; s = socket.create_server(('', int(sys.argv[1]))); s.accept()"
    client = "import socket, sys; socket.create_connection((sys.argv[1], int(sys.argv[2])))"
    ended = run(
        "--servercmd", python(once, str(port)), "--clientcmd", python(client, "HOSTNAME", str(port)),
        "--parser", "raw", "--runs", "4",
    )  # fmt: skip
    assert ended.returncode == 0, ended.stdout + ended.stderr


def test_repeats_on_both_sides_run_in_step(tmp_path: Path) -> None:
    port = free_port()
    ended = run(
        "--servercmd", listening_server(port) + " --repeat s:1:4:*2",
        "--clientcmd", "echo --repeat s:1:4:*2 {word} $HOSTNAME", "--repeat", "word:up,down",
        "--parser", "raw", "--killserver", "--output", str(tmp_path / "out"),
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    printed = [path.read_text() for path in sorted((tmp_path / "out/raw").glob("????.out"))]
    assert printed == [f"--s {s} {word} $HOSTNAME\n" for s in (1, 2, 4) for word in ("up", "down")]


def test_raw_format_is_the_tools_own_bytes() -> None:
    code = r"import sys; sys.stdout.buffer.write(b'\xff\x00\r\n\xfe')"
    job = Job(
        "--servercmd", listening_server(free_port()), "--clientcmd", python(code), "--format", "raw",
        "--killserver",
    )  # fmt: skip
    try:
        assert job.process.stdout is not None
        out = job.process.stdout.buffer.read()  # type: ignore[attr-defined]
        job.process.wait(10)
        assert out == b"\xff\x00\r\n\xfe"
        assert not job.left_behind()
    finally:
        job.kill()


@pytest.mark.parametrize("form", ["json", "csv", "table"])
def test_every_format_shows_the_reading(form: str) -> None:
    ended = run(*qperf(free_port(), "-uu tcp_lat"), "--killserver", "--format", form)
    assert ended.returncode == 0
    assert "tcp_lat" in ended.stdout
    if form == "json":
        (row,) = json.loads(ended.stdout)
        assert row["unit"] == "s"


def test_a_tool_gets_the_jobs_cpus_and_not_the_ranks(tmp_path: Path) -> None:
    cpus = sorted(os.sched_getaffinity(0))
    if len(cpus) < 2:
        pytest.skip("one CPU only")
    show = "import os; print(sorted(os.sched_getaffinity(0)))"
    serve = (
        "import os, socket, sys, time; print(sorted(os.sched_getaffinity(0)), flush=True); "
        "s = socket.create_server(('', int(sys.argv[1]))); time.sleep(100)"
    )

    def affinities(name: str, *options: str) -> tuple[str, str, dict[str, str]]:
        ended = run(
            "--servercmd", python(serve, str(free_port())), "--clientcmd", python(show), "--parser", "raw",
            "--killserver", "--output", str(tmp_path / name), *options, launcher=("--bind-to", "core"),
        )  # fmt: skip
        assert ended.returncode == 0, ended.stderr
        raw = tmp_path / name / "raw"
        params = dict(read_launches(tmp_path / name).launches[0].params)
        return (raw / "0000.server.out").read_text().strip(), (raw / "0000.out").read_text().strip(), params

    server, client, params = affinities("default")
    assert server == client == str(cpus)
    server, client, params = affinities(
        "placed", "--server-cpus", str(cpus[0]), "--client-cpus", f"{cpus[1]}"
    )
    assert (server, client) == (str(cpus[:1]), str(cpus[1:2]))
    assert params == {"server_cpus": str(cpus[0]), "client_cpus": str(cpus[1])}


@pytest.mark.parametrize(
    "launcher", filter(which, ("mpirun", "mpiexec", "orterun", "mpirun.openmpi", "mpiexec.openmpi"))
)
def test_a_launcher_is_known_by_each_of_its_names(launcher: str) -> None:
    """A rank that it binds to a core knows the CPUs of the job."""
    show = "import os; from npc.npb.placement import job_cpus; print(job_cpus(os.getpid()))"
    ended = subprocess.run(
        [launcher, "-n", "1", "--bind-to", "core", sys.executable, "-c", show],
        capture_output=True, text=True, cwd=ROOT, env={**os.environ, **MPI_ENVIRONMENT}, timeout=60,
    )  # fmt: skip
    assert ended.stdout.strip() == str(os.sched_getaffinity(0)), ended.stderr


def test_nothing_of_npb_runs_while_the_tool_does() -> None:
    port = free_port()
    job = Job(
        "--servercmd", listening_server(port), "--clientcmd", "sleep 3", "--parser", "raw", "--killserver"
    )  # fmt: skip
    try:
        job.await_process("sleep 3")

        def ticks() -> int:
            total = 0
            for pid in job.agents_and_ranks():
                fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
                total += int(fields[11]) + int(fields[12])
            return total

        import time

        assert len(job.agents_and_ranks()) >= 5, "two ranks, two agents, a coordinator"
        time.sleep(0.3)
        before = ticks()
        time.sleep(2.0)
        assert ticks() - before <= 2, "1 % of a core is 2 ticks of 10 ms in 2 s"
        assert job.wait().returncode == 0
    finally:
        job.kill()


def test_pairs_on_one_host_one_at_a_time_end_in_a_verdict(tmp_path: Path) -> None:
    port = free_port()
    ended = run(
        "--servercmd", f"qperf -lp {port}", "--clientcmd", f"qperf HOSTNAME -lp {port} -t 1 -uu tcp_lat",
        "--killserver", "--pairs", "ring", "--serial", "--output", str(tmp_path / "out"), ranks=3,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    launches = [
        launch for launch in read_launches(tmp_path / "out").launches if "attempt" not in launch.params
    ]
    assert len({launch.hosts for launch in launches}) == 3
    assert "rule: " in ended.stdout
    (row,) = json.loads((tmp_path / "out/pairs.json").read_text())
    assert (row["case"], row["metric"]) == ("tcp_lat", "latency")
    assert (tmp_path / "out/heatmap.png").read_bytes().startswith(b"\x89PNG")
