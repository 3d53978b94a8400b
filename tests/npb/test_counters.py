"""Counters around real launches between two hosts: planted loss, corruption and a pulled cable are seen, and
where.

The tool's own count is the judge: what iperf3 sent again or missed is what the kernel counted meanwhile.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from npc.machine.load import WATCH
from npc.parsers.run.collect import collect_run
from npc.records.launch import Launch, read_launches
from npc.records.record import Record, read_csv
from npc.validity.check import examine
from tests.lab.jube_job import NPC
from tests.lab.netns import Cluster
from tests.lab.npb_job import Job, needs_root
from tests.paths import ROOT

pytestmark = [pytest.mark.netns, pytest.mark.slow, needs_root]

SERVER = "iperf3 -s -p 5201"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Two hosts over 200 Mbit/s; what is sent to port 5201 of n1 passes the table ``planted`` there."""
    with Cluster(tmp_path_factory.mktemp("hosts"), 2) as two:
        for host in two.hosts:
            two.shape(host, 200, burst_kb=256)
        two.inside("n1", "nft add table ip planted")
        two.inside("n1", "nft 'add chain ip planted input { type filter hook input priority 0; }'")
        yield two


@pytest.fixture(autouse=True)
def looking(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(WATCH)


def plant(cluster: Cluster, *rules: str) -> None:
    """Nothing else than this befalls the packets that reach n1."""
    cluster.inside("n1", "nft flush chain ip planted input")
    for rule in rules:
        cluster.inside("n1", f"nft 'add rule ip planted input {rule}'")


def measured(cluster: Cluster, out: Path, client: str) -> tuple[Launch, Mapping[str, Any], list[Record]]:
    """The one launch of an npb, what iperf3 says of it, its records."""
    job = cluster.job("--servercmd", SERVER, "--clientcmd", client, "--killserver", "--output", str(out))
    try:
        ended = job.wait(60)
    finally:
        job.kill()
    assert ended.returncode == 0, ended.stdout + ended.stderr
    (launch,) = read_launches(out).launches
    assert launch.moved is not None and set(launch.moved) == {"n1", "n2"}
    return launch, json.loads((out / launch.raw).read_text())["end"], list(read_csv(out / "records.csv"))


def test_planted_loss_is_what_tcp_sends_again(cluster: Cluster, tmp_path: Path) -> None:
    plant(cluster, "tcp dport 5201 numgen random mod 50 == 0 drop")
    launch, printed, records = measured(cluster, tmp_path / "out", "iperf3 -c HOSTNAME -p 5201 -t 1 -J")
    assert launch.moved
    moved = launch.moved["n2"]
    assert moved["tcp RetransSegs"] == pytest.approx(printed["sum_sent"]["retransmits"], rel=0.1, abs=5)
    assert 0.005 < moved["tcp RetransSegs"] / moved["tcp OutSegs"] < 0.1, "about 2 % were dropped"
    by_receiver = launch.moved["n1"].get("tcp RetransSegs", 0)
    assert by_receiver < moved["tcp RetransSegs"] / 10, "who receives sends nothing again, unless in haste"
    for record in records:
        assert f"n2 tcp RetransSegs {moved['tcp RetransSegs']}" in record.params["moved"]
    again = {record.params["moved"] for record in collect_run(tmp_path / "out", "n1")}
    assert again == {records[0].params["moved"]}, "npc records collect marks as npb does"
    _, findings = examine(tmp_path / "out", "")
    (reason,) = {finding.reason for finding in findings if finding.rule.name == "moved"}
    assert f"n2: tcp RetransSegs rose by {moved['tcp RetransSegs']} (" in reason


def test_planted_corruption_is_counted_where_it_arrives(cluster: Cluster, tmp_path: Path) -> None:
    cluster.inside("n2", "ethtool -K eth0 tx off")  # else no checksum is on the way
    plant(cluster, "udp dport 5201 numgen random mod 20 == 0 udp checksum set 0xbad")
    client = "iperf3 -c HOSTNAME -p 5201 -u -b 40M -l 1000 -t 1 -J"
    launch, printed, records = measured(cluster, tmp_path / "out", client)
    assert launch.moved
    broken, lost = launch.moved["n1"]["udp InCsumErrors"], printed["sum"]["lost_packets"]
    dropped = launch.moved["n1"].get("udp RcvbufErrors", 0)  # where a full machine reads late
    assert lost == pytest.approx(broken + dropped, rel=0.3, abs=20), launch.moved
    assert broken == pytest.approx(printed["sum"]["packets"] / 20, rel=0.4)
    assert "udp InCsumErrors" not in launch.moved["n2"]
    assert f"n1 udp InCsumErrors {broken}" in records[0].params["moved"]


def test_a_link_that_was_down_makes_the_numbers_invalid(cluster: Cluster, tmp_path: Path) -> None:
    """And frames that nobody wants are counted, but no note where they are few. Here npc records sample
    looks."""
    plant(cluster)
    out = tmp_path / "out"
    words = [str(NPC), "records", "sample", "--tool", "iperf3", "--runs", "1", "--output", str(out), "--"]
    server = subprocess.Popen([*cluster.enter("n1"), *SERVER.split()], stdout=subprocess.DEVNULL)
    job = None
    try:
        until(lambda: ":5201" in cluster.inside("n1", "ss -ltn"))
        client = "iperf3 -c 10.99.0.1 -p 5201 -t 2 -J"
        job = Job(command=[*cluster.enter("n2"), *words, *client.split()])
        until(lambda: client in (command.strip() for command in job.processes().values()))
        strangers(cluster)
        cluster.cut("n2")
        cluster.mend("n2")
        ended = job.wait(40)
    finally:
        server.kill()
        server.wait()
        if job:
            job.kill()
    assert ended.returncode == 0, ended.stdout + ended.stderr
    (launch,) = read_launches(out).launches
    assert launch.moved and set(launch.moved) == {"n2"}
    assert launch.moved["n2"]["eth0 carrier_down_count"] == 1
    assert launch.moved["n2"]["eth0 rx_dropped"] >= 10
    records = collect_run(out, "two")
    assert records and {record.status for record in records} == {
        "invalid: n2: eth0 carrier_down_count rose by 1 meanwhile"
    }
    assert all("rx_dropped" not in record.params["moved"] for record in records)


def until(done: Callable[[], bool], limit_s: float = 20.0) -> None:
    deadline = time.monotonic() + limit_s
    while not done():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_other_namespaces_interfaces_are_nobodys() -> None:
    """/sys still shows those of the namespace in which it was mounted."""
    words = [sys.executable, "-c", "from npc.machine import counters; print(*counters.read(), sep='\\n')"]
    shown = subprocess.run(
        ["unshare", "--net", *words], capture_output=True, text=True, check=True, cwd=ROOT
    ).stdout
    names = [path.name for path in Path("/sys/class/net").iterdir()]
    assert "tcp RetransSegs" in shown and not any(f"\n{name} " in shown for name in names)


def strangers(cluster: Cluster) -> None:
    """Ten frames to n2 of a protocol that nobody there speaks (IEEE 802: local experimental ethertype 1)."""
    code = (
        "import socket; s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW); s.bind(('eth0', 0))\n"
        "for _ in range(10): s.send(bytes([255] * 6 + [2, 0, 0, 0, 0, 1, 0x88, 0xb5]) + bytes(50))"
    )
    cluster.inside("n1", f'python3 -c "{code}"')
