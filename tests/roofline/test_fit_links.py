"""Fits on links of a known speed: real tools between network namespaces, through npb and ``npc model
fit``."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from npc.records.record import read_csv
from npc.roofline.fit_commands import fit, predict
from npc.statistics.medians import summarise
from tests.lab.netns import Cluster
from tests.lab.npb_job import Job, needs_root

pytestmark = [pytest.mark.slow, pytest.mark.links, pytest.mark.netns, needs_root]

RATE_MBIT = 100.0
#: Payload of a full TCP segment over its bytes on an Ethernet's wire, without preamble and gap.
GOODPUT = RATE_MBIT / 8 * 1e6 * 1448 / 1514


def start(cluster: Cluster, folder: Path, hosts: Sequence[str], *words: str) -> Job:
    """A qperf sweep from the second of the hosts to the first; its records are in the folder then."""
    qperf = ("--servercmd", "qperf", "--killserver", "--benchmark", "qperf")
    return cluster.job(*qperf, "--output", str(folder), *words, hosts=hosts)


def fitted(*records: Path) -> dict[str, Any]:
    """test → its fit; fit.json is beside the first file."""
    output = records[0].with_name("fit.json")
    ended = CliRunner().invoke(fit, [*map(str, records), "--json", "--output", str(output)])
    assert ended.exit_code == 0, ended.output
    return {entry["sweep"]["case"]: entry for entry in json.loads(ended.stdout)["fits"]}


def test_a_shaped_link_gives_back_its_rate_and_its_latency(tmp_path: Path) -> None:
    bandwidth, latency = tmp_path / "bandwidth", tmp_path / "latency"
    with Cluster(tmp_path, 4) as cluster:
        for host in cluster.hosts:
            cluster.shape(host, RATE_MBIT)
        # both at once, on two links; a token bucket lets a burst pass at once: long enough runs, and messages
        # that do not empty it
        jobs = [
            start(
                cluster, bandwidth, ("n1", "n2"), "--clientcmd",
                "qperf HOSTNAME -t 2 -uu -vu --repeat msg_size:4K:64K:*2 tcp_bw",
            ),
            start(
                cluster, latency, ("n3", "n4"), "--runs", "6", "--shuffle", "--clientcmd",
                "qperf HOSTNAME -t 1 -uu -vu --repeat msg_size:1,16,64,128,256 tcp_lat",
            ),
        ]  # fmt: skip
        try:
            for job in jobs:
                ended = job.wait(120)
                assert ended.returncode == 0, ended.stdout + ended.stderr
        finally:
            for job in jobs:
                job.kill()
    latency, bandwidth = latency / "records.csv", bandwidth / "records.csv"
    entries = fitted(latency, bandwidth)
    gap = {parameter["name"]: parameter for parameter in entries["tcp_bw"]["parameters"]}
    assert gap["1/G"]["value"] == pytest.approx(GOODPUT, rel=0.03)
    assert entries["tcp_bw"]["sweep"]["nodes"] == 2
    assert entries["tcp_bw"]["held_out_median"] < 0.10

    alpha = entries["tcp_lat"]["parameters"][0]
    assert (alpha["name"], entries["tcp_lat"]["evidence"]) == ("α", "launches")
    small = summarise([record.value or 0 for record in read_csv(latency) if record.size == 1])
    assert small.n == 6 and small.low is not None and small.high is not None
    # two estimates of one time: by all sizes together, and by the smallest of them alone
    assert alpha["value"] == pytest.approx(small.median, rel=0.25)
    assert alpha["low"] <= alpha["value"] <= alpha["high"]
    assert alpha["low"] <= small.high and small.low <= alpha["high"]

    asked = ["--operation", "send", "--size", "100", "--json"]
    made = json.loads(CliRunner().invoke(predict, [str(latency.with_name("fit.json")), *asked]).stdout)
    (message,) = made["predictions"]
    assert small.median / 2 < message["time"] < 2 * small.median
    assert not message["beyond"]
