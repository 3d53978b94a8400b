"""npb on six hosts in network namespaces: what it measures is true, and it names who is slow."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from npc.records.launch import read_launches
from npc.records.pair_verdicts import PAIRS, read_pairs
from npc.records.record import Record, read_csv
from npc.records.run import read_run
from tests.lab.netns import Cluster
from tests.lab.npb_job import Job, needs_root

pytestmark = [pytest.mark.netns, pytest.mark.slow, needs_root]

#: TCP's share of an Ethernet frame: 1448 bytes of 1514 (MTU 1500, timestamps).
GOODPUT = 1448 / 1514
QPERF = ("--servercmd", "qperf", "--clientcmd", "qperf HOSTNAME -t 1 -uu tcp_bw", "--killserver")


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with Cluster(tmp_path, 6) as six:
        yield six


def ended(job: Job, timeout_s: float = 60.0, cut_off: bool = False) -> tuple[int, str]:
    """(exit code, output) of a job that left nothing but MPI's own daemon on a host that was cut off."""
    try:
        done = job.wait(timeout_s)
        left = job.left_behind()
        assert all("orted" in command for command in left.values()) if cut_off else not left, left
        return done.returncode, done.stdout + done.stderr
    finally:
        job.kill()


def bandwidths(folder: Path) -> list[Record]:
    return [
        record
        for record in read_csv(folder / "records.csv")
        if record.metric == "bandwidth" and record.params.get("side") != "send"
    ]


def suspects(folder: Path) -> list[str]:
    return [suspect.whom for entry in read_pairs(folder / PAIRS) for suspect in entry.verdict.suspects]


@pytest.mark.links
def test_shaped_links_are_measured_within_three_percent(cluster: Cluster, tmp_path: Path) -> None:
    for host in ("n1", "n2"):
        cluster.shape(host, 100)
    for host in ("n3", "n4"):
        cluster.shape(host, 500, burst_kb=256)
    pairs = tmp_path / "pairs"
    pairs.write_text("n1 n2\nn3 n4\n")
    tools = {
        "qperf": ("qperf", "qperf HOSTNAME -t 4 -uu tcp_bw"),
        "iperf3": ("iperf3 -s", "iperf3 -c HOSTNAME -t 4 -O 1 -J"),
    }
    expected = {
        ("n1", "n2"): pytest.approx(100e6 / 8 * GOODPUT, rel=0.03),
        ("n3", "n4"): pytest.approx(500e6 / 8 * GOODPUT, rel=0.03),
    }
    for tool, (server, client) in tools.items():
        for out in (tmp_path / tool, tmp_path / f"{tool}-again"):
            job = cluster.job(
                "--servercmd", server, "--clientcmd", client, "--killserver", "--pairs", str(pairs),
                "--output", str(out), hosts=cluster.hosts[:4],
            )  # fmt: skip
            code, text = ended(job)
            assert code == 0, text
            values = {record.hosts: record.value for record in bandwidths(out)}
            if values == expected:
                break  # else once more: TCP that stalls for a second is no matter of the shaper
        assert values == expected, tool


@pytest.mark.parametrize(
    ("fault", "named", "runs"),
    [
        ("none", [], 1),
        ("n4 both ways", ["node n4"], 1),
        ("n4 sending", ["node n4 as sender"], 1),
        ("n2 to n5", ["link n2→n5"], 2),
    ],
)
def test_who_is_slow_is_named_and_nobody_else(
    cluster: Cluster, tmp_path: Path, fault: str, named: list[str], runs: int
) -> None:
    for host in cluster.hosts:
        cluster.shape(host, 70 if (fault, host) == ("n4 both ways", "n4") else 100)
    if fault == "n4 sending":
        cluster.shape_sending("n4", 10)
    if fault == "n2 to n5":
        cluster.slow_link("n2", "n5", 60, back_mbit=100)
    out = tmp_path / "out"
    code, text = ended(cluster.job(*QPERF, "--pairs", "all", "--runs", str(runs), "--output", str(out)), 120)
    assert code == 0, text
    first = [launch for launch in read_launches(out).launches if "attempt" not in launch.params]
    assert len({launch.hosts for launch in first}) == len(first) == 15 * runs
    assert len({frozenset(launch.hosts) for launch in first}) == 15
    assert suspects(out) == named, text


@pytest.mark.links
def test_a_slow_uplink_is_named_where_the_switches_are_known(tmp_path: Path) -> None:
    with Cluster(tmp_path, 8) as eight:
        (tmp_path / "switches").write_text("leaf1: n[1-2]\nleaf2: n[3-4]\nleaf3: n[5-6]\nleaf4: n[7-8]\n")
        for number, pair in enumerate(zip(eight.hosts[::2], eight.hosts[1::2], strict=True), 1):
            eight.leaf(f"leaf{number}", pair, uplink_mbit=70 if number == 3 else None)
        for host in eight.hosts:
            eight.shape(host, 100)
        out = tmp_path / "out"
        options = ("--pairs", "all", "--topology", str(tmp_path / "switches"), "--output", str(out))
        code, text = ended(eight.job(*QPERF, *options))
    assert code == 0, text
    assert suspects(out) == ["uplink leaf3"], text
    assert "→ error counters of leaf3's uplink ports" in text


def test_a_host_cut_off_in_a_round_costs_its_pairs_only(cluster: Cluster, tmp_path: Path) -> None:
    for host in cluster.hosts:
        cluster.shape(host, 100)
    out = tmp_path / "out"
    job = cluster.job(
        "--servercmd", "qperf", "--clientcmd", "qperf HOSTNAME -t 2 -uu tcp_bw", "--killserver",
        "--pairs", "all", "--timeout", "8", "--output", str(out),
    )  # fmt: skip
    try:
        job.await_process("qperf 10.99.0.")
        cluster.cut("n6")
        code, text = ended(job, cut_off=True)
    finally:
        job.kill()
    launches = [launch for launch in read_launches(out).launches if "attempt" not in launch.params]
    assert len(launches) == 15, text
    for launch in launches:
        assert ("n6" in launch.hosts) == (launch.status != "ok"), launch
    assert "node n6" in suspects(out), text
    assert code != 0


def test_the_interface_chosen_is_the_one_measured(cluster: Cluster, tmp_path: Path) -> None:
    both = ["n1", "n2"]
    with (tmp_path / "hosts").open("a") as names:
        for number, host in enumerate(both, 1):
            cluster.shape(host, 100)
            names.write(f"10.98.0.{number} ib-{host}\n")
            cluster.inside(host, f"ip addr add fd99::{number}/64 dev eth0 nodad")
            cluster.inside(host, f"ip addr add 10.98.0.{number}/24 dev eth0")
            cluster.inside(host, "ip link add docker0 type bridge && ip link set docker0 up")
            cluster.inside(host, "ip addr add 172.17.0.1/16 dev docker0")
            # an interface that has IPv6 alone
            cluster.inside(host, "ip link add ib0 type bridge && ip link set ib0 up")
            cluster.inside(host, f"ip addr add fd98::{number}/128 dev ib0 nodad")
            cluster.inside(host, f"ip -6 route add fd98::{3 - number}/128 via fd99::{3 - number}")
    (tmp_path / "addresses").write_text("n1 fd99::1\nn2 fd99::2\n")
    iperf3 = ("--servercmd", "iperf3 -s", "--clientcmd", "iperf3 -c HOSTNAME -t 1 -J", "--killserver")

    def address(name: str, *options: str) -> tuple[str, str]:
        """What HOSTNAME became in a measurement that went well, and the interface in its records."""
        out = tmp_path / name
        code, text = ended(cluster.job(*iperf3, *options, "--output", str(out), hosts=both))
        assert code == 0, text
        (interface,) = {record.params["interface"] for record in read_run(out)}
        return read_launches(out).launches[0].argv[2], interface

    assert address("default") == ("10.99.0.1", "eth0"), "n1's address, not its loopback's"
    assert address("replaced", "--replace-host", "n", "ib-n") == ("10.98.0.1", "eth0")
    assert address("interface", "--interface", "ib0") == ("fd98::1", "ib0")
    assert address("table", "--hostfile-addresses", str(tmp_path / "addresses")) == ("fd99::1", "eth0")
    code, text = ended(cluster.job(*iperf3, "--interface", "docker0", hosts=both))
    assert code == 2
    assert "is also the client's own" in text
