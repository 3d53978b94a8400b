"""Nights on a real Slurm cluster: clean ones, a slow link, the figures of the paper, every node in its turn.

Nodes are shaped to a rate, so that a healthy night is as the one before, and every night measures another
pair, as a scheduler would have it.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import pytest

from npc.hostlist import expand
from npc.records.run import read_run
from npc.statistics.suspect import whom
from tests.lab import in_process
from tests.lab.cluster import Cluster, until
from tests.lab.jube_job import NPC
from tests.lab.night_site import EARLIER, ONCE, NightSite, whole, write_earlier
from tests.made.nights import CLIENT, NODE, some_steps
from tests.paths import ROOT

pytestmark = [pytest.mark.slow, pytest.mark.slurm]

LINK_MBIT, SLOW_MBIT = 200.0, 60.0
#: Whom the clean nights measure: the first has no past, the second is judged by it and the nights before. It
#: leaves out the next night's nodes: these nights are seconds apart, and what disturbs the machine for long
#: is no node's fault.
CLEAN = ("n1,n2", "n5,n6")
#: A night of the paper (Bartelheimer, Zhu, Neuwirth 2023) in small: one launch of each.
PAPER = {
    "NPC_SAMPLES": "1",
    "NPC_ENV": "export OMPI_MCA_mpi_yield_when_idle=1",  # two nodes share two cores here
    "NPC_QPERF_KINDS": "sweep",
    "NPC_QPERF_SWEEP_TESTS": "tcp_bw",
    "NPC_QPERF_SWEEP_SIZES": "16,128,1K,4K,32K",
    "NPC_SOCKPERF_TESTS": "throughput",
    "NPC_SOCKPERF_THROUGHPUT_SIZES": "16,1K",
    "NPC_OSU_KINDS": "pt2pt",
    "NPC_OSU_TESTS": "bw",
    "NPC_OSU_MAX_SIZE": "32768",
    "NPC_STREAM_CFLAGS": "-O3 -march=native -fopenmp -DNTIMES=2",
    "NPC_HIMENO_NODES": "1,2",
    "NPC_HIMENO_TASKS": "1",
    "NPC_HIMENO_SIZE": "S",
    "NPC_HIMENO_TIME": "0.2",
}
#: Its platform: a peak of 320 GFLOP/s in single precision, and the link that the nodes are shaped to.
GIGABIT = 1000.0
LIMITS = """
[node]
cores = 2
clock_hz = 2.5e9
simd_bits = 512
simd_units = 2
fma = true
[interfaces.eth0]
link = "1 GbE"
"""


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(nodes=6, extra_conf={"SlurmdTimeout": "5"}) as six:
        for node in six.nodes:
            six.shape(node, LINK_MBIT)
        yield six


@pytest.fixture
def site(cluster: Cluster, tmp_path: Path) -> NightSite:
    return NightSite(cluster, tmp_path)


def expect_pictures(site: NightSite, nights: int) -> None:
    """Section 5.4 of the paper on these nights: performance over measurements. Each night measured one pair,
    which is compared with no other."""
    words = ["night", "history", "--platform", "slurm", "--history", site.history.parent, "--json"]
    shown = site.cluster.run("head", [NPC, *words, "--figures", site.folder / "figures"], check=True)
    (series,) = json.loads(shown.stdout)["series"]
    assert (series["case"], series["summary"]["n"]) == ("tcp_bw", nights)
    drawn = {path.name: path.read_bytes()[:8] for path in (site.folder / "figures").iterdir()}
    assert drawn == dict.fromkeys(("qperf.png", "allocation.png"), b"\x89PNG\r\n\x1a\n")


@pytest.mark.links
@pytest.mark.timeout(900)
def test_a_slow_link_is_named_in_its_night_and_the_nights_before_are_clean(site: NightSite) -> None:
    for nodes in CLEAN:
        code, verdict = site.night(nodes)
        named = [suspect["name"] for suspect in verdict["suspects"] if suspect["named"]]
        assert (code, named) == (0, []), verdict
        if nodes == CLEAN[0]:
            write_earlier(site)
    assert len({record.run for record in whole(site)}) == len(EARLIER) + len(CLEAN)

    site.cluster.shape("n3", SLOW_MBIT)
    try:
        _, first = site.night("n2,n3")
        assert first["verdict"] == "WATCH", "one night decides nothing"
        assert [(slow["kind"], slow["name"]) for slow in first["pairs"]["slow"]] == [("node", "n3")], first[
            "pairs"
        ]
        (series,) = first["series"]
        assert series["again"] == pytest.approx(series["value"], rel=0.2), "it was measured again"
        code, second = site.night("n3,n5", "--drain")
        node = site.cluster.run("head", ["scontrol", "show", "node", "n3"], check=True).stdout
        resume = ["scontrol", "update", "nodename=n3", "state=resume"]
        site.cluster.run("head", resume, check=True)
    finally:
        site.cluster.shape("n3", LINK_MBIT)
    assert (code, second["verdict"]) == (13, "DEGRADED")
    assert second["series"][0]["since"] == first["run"]
    assert [(slow["kind"], slow["name"]) for slow in second["pairs"]["slow"]] == [("node", "n3")], second[
        "pairs"
    ]
    assert [suspect["name"] for suspect in second["suspects"] if suspect["named"]] == ["n3"]
    assert "DRAIN" in node and re.search(rf"Reason=NPC {second['run']}: [67]\d% slower", node), node
    assert not any("drained" in note for note in first["notes"])
    expect_pictures(site, nights=len(EARLIER) + len(CLEAN) + 2)
    again = {(record.run, record.hosts) for record in whole(site) if "remeasured" in record.params}
    assert again >= {(first["run"], ("n2", "n3")), (second["run"], ("n3", "n5"))}, "on the same nodes"


def test_a_night_makes_the_figures_and_tables_of_the_paper(site: NightSite) -> None:
    """Figures 4 to 9, tables 1, 2, 4 and 5; nothing is asked of how fast it is but what the link allows."""
    platform = site.folder / "slurm"
    shutil.copytree(ROOT / "platforms/slurm", platform)
    (platform / "platform.toml").write_text(LIMITS)
    file = some_steps(site.folder, "qperf", "sockperf", "osu", "stream", "himeno")
    words = [NPC, "night", "run"]
    words += ["--platform", platform, "--benchmark", file, "--no-pairs", "--limit", "400s"]
    words += ["--history", site.folder / "history", "--output", site.folder / "runs", "--json"]
    try:
        for node in site.cluster.nodes:
            site.cluster.shape(node, GIGABIT)
        ended = site.cluster.run("head", words, env=PAPER, timeout=280)
    finally:
        for node in site.cluster.nodes:
            site.cluster.shape(node, LINK_MBIT)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    (run,) = (site.folder / "runs").glob("*/first/000000")
    figures = site.folder / "figures"

    sweeps = json.loads(in_process.npc("model", "sweep", run, "--output", figures, "--json").stdout)["sweeps"]
    points = {
        sweep["name"]: {point["size"]: point["median"] for point in sweep["points"]} for sweep in sweeps
    }
    assert set(points) == {"osu_bw · openmpi", "qperf tcp_bw", "sockperf tcp_throughput, side send"}
    assert set(points["qperf tcp_bw"]) == {16, 128, 1024, 4096, 32768} < set(points["osu_bw · openmpi"])
    for rates in points.values():
        assert rates[16] < rates[1024] and max(rates.values()) < 1.25 * GIGABIT * 1e6 / 8

    shown = in_process.npc(
        "roofline", run, "--platform", platform / "platform.toml", "--output", figures, "--json"
    )
    document = json.loads(shown.stdout)
    marks = {point["nodes"]: point for point in document["points"] if point["name"] == "himeno"}
    assert document["theoretical"] == {"peak single": 320e9, "peak double": 160e9}
    # 34 FLOP an inner cell of 64 × 64 × 128, halved; a plane of 64 × 128 floats sent, and one received
    planes_alone = 34 * 62 * 62 * 126 / 2 / (2 * 4 * 64 * 128)
    statuses = [(row.nodes, row.status) for row in read_run(run) if row.case == "himeno"]
    assert set(marks) == {1, 2}, statuses
    assert marks[1]["intensity"] is None
    assert planes_alone / 1.35 < marks[2]["intensity"]["median"] < planes_alone
    # the link carries both directions at a time, so half of the bytes are in its way; messages are of 32 KiB
    fastest = max(rate for rates in points.values() for rate in rates.values())
    bound = marks[2]["bounds"][0]["flops"] / (2 * marks[2]["intensity"]["median"])
    assert 0.8 * points["osu_bw · openmpi"][32768] < bound < 1.001 * fastest

    write_earlier(site)
    words = ["night", "history", "--platform", platform, "--history", site.folder / "history", "--json"]
    history_json = json.loads(in_process.npc(*words, "--figures", figures).stdout)
    rates = {
        nodes: [
            record.value or 0.0
            for record in site.records()
            if (record.case, record.metric, record.nodes) == ("himeno", "flops", nodes)
        ]
        for nodes in (1, 2)
    }
    shares = {application["nodes"]: application for application in history_json["applications"]}
    assert [(share["ranks"], share["precision"]) for share in shares.values()] == [
        (1, "single"),
        (2, "single"),
    ]
    for nodes, values in rates.items():
        assert len(values) == shares[nodes]["nights"] == len(EARLIER) + 1
        assert shares[nodes]["share"] == pytest.approx(sum(values) / len(values) / (nodes * 320e9))
        assert shares[nodes]["deviation"] == pytest.approx(stdev(values) / fmean(values))
    nights = {row["benchmark"]: (row["seen"], row["known"]) for row in history_json["nodes"]}
    assert nights["qperf"] == nights["himeno"] == (6, 6)
    assert nights["stream"] == (len({nodes.split(",")[0] for nodes in EARLIER}), 6)
    drawn = {path.stem for path in figures.glob("*.png") if path.read_bytes()[:4] == b"\x89PNG"}
    # no "nodes": each night measures one pair, which is compared with nobody
    assert drawn >= {"sweep", "roofline", "himeno", "himeno-observed", "qperf", "allocation"}


@pytest.mark.links
@pytest.mark.xdist_group("all_pairs_at_night")
@pytest.mark.timeout(300)
def test_a_node_that_sends_slowly_is_asked_and_named_although_no_median_shows_it(site: NightSite) -> None:
    """Nights that measure all pairs: a sixth of them are slow where one node is slow only when it sends."""
    everybody = [
        NPC, "night", "run", "--platform", "slurm", "--benchmark", ROOT / "cron/pairs/benchmark.xml",
        "--set", "nodelist=n1,n2,n3,n4,n5,n6", "--set", "pairs_nodes=6", "--set", "pairs_runs=1",
        "--limit", "150s", "--history", site.folder / "history", "--output", site.folder / "runs", "--json",
    ]  # fmt: skip
    nights = []
    for rate in (LINK_MBIT, SLOW_MBIT):
        site.cluster.shape_sending("n3", rate)
        try:
            ended = site.cluster.run("head", everybody, timeout=200)
        finally:
            site.cluster.shape_sending("n3", LINK_MBIT)
        nights.append(json.loads(ended.stdout))
    first, last = nights
    assert first["pairs"] is None, "nobody was suspected"
    assert {series["verdict"] for series in last["series"]} == {"PASS"}
    assert [whom(slow["kind"], slow["name"], slow["role"]) for slow in last["pairs"]["slow"]] == [
        "node n3 as sender"
    ], last["pairs"]
    assert [
        whom(suspect["kind"], suspect["name"], suspect["role"])
        for suspect in last["suspects"]
        if suspect["named"]
    ] == ["node n3 as sender"]
    assert last["verdict"] == "WATCH", "one night decides nothing"
    logs = [log.read_text() for log in sorted((site.folder / "runs").glob("*/first.log"))]
    assert "pairs of n[1-6]: none is slower" in logs[0]
    assert "pairs of n[1-6]: node n3 as sender" in logs[1]
    assert all("work/launches/heatmap.png" in log for log in logs)


@pytest.mark.xdist_group("every_node_in_its_turn")
def test_every_node_has_its_turn_and_who_has_not_is_listed_with_the_reason(site: NightSite) -> None:
    """Two nights on other nodes each: n5 is drained, n6 dead in the first one, n1 drained in the second."""

    def set_state(node: str, *words: str) -> None:
        site.cluster.run("head", ["scontrol", "update", f"nodename={node}", *words], check=True)

    def night(*options: str) -> tuple[dict[str, Any], set[tuple[str, ...]]]:
        """The verdict, and the groups of nodes that the rotation measured."""
        ended = site.cluster.run("head", [*words, *options], timeout=180)
        verdict = json.loads(ended.stdout)
        mine = [record for record in whole(site) if record.run == verdict["run"]]
        places = (record.hosts for record in mine if record.benchmark in ("likwid", "pairs"))
        return verdict, set(map(tuple, map(sorted, places)))

    def waiting(verdict: dict[str, Any]) -> dict[str, str]:
        """The nodes that have not had their turn, and why; the others may have been disturbed here."""
        missing = {
            unmeasured["node"]: unmeasured["why"].replace("*", "")
            for unmeasured in verdict["coverage"]["unmeasured"]
        }
        return {node: why for node, why in missing.items() if ": invalid: " not in why}

    (site.folder / "node.xml").write_text(NODE)
    words = [word for word in site.words("all") if word not in ("--set", "nodelist=all")]
    words[words.index(f"tiny_client={CLIENT}")] = f"--set=tiny_client={CLIENT}"
    words += ["--each-node", "--node-benchmark", site.folder / "node.xml", "--within", "4", "--no-pairs"]
    site.cluster.kill_node("n6")
    try:
        # before, a registration on its way would bring the node back
        until(
            lambda: "down*" in site.cluster.run("head", ["sinfo", "-hNn", "n6", "-o", "%t"]).stdout,
            "n6 is down",
            60,
        )
        set_state("n6", "state=down", "reason=no power")
        set_state("n5", "state=drain", "reason=bad DIMM")
        busy = [
            "sbatch",
            "--parsable",
            "--exclusive",
            "--nodelist=n2",
            "--output=/dev/null",
            "--wrap=sleep 900",
        ]
        job = site.cluster.run("head", busy, check=True).stdout.strip()
        first, of_first = night()
        site.cluster.run("head", ["scancel", job], check=True)
        site.cluster.start_slurmd("n6")
        site.cluster.await_idle(["n6"])
        set_state("n1", "state=drain", "reason=new kernel")
        second, of_second = night("--budget", "1s")
        for node in ("n2", "n6"):
            set_state(node, "state=drain", "reason=later")
        words = [NPC, "characterise", "--platform", "slurm", "--each-node", "--output", site.folder / "all"]
        words += ["--node-benchmark", site.folder / "node.xml", "--limit", "100s"]
        once = site.cluster.run("head", words, timeout=180)
    finally:
        site.cluster.run("head", ["scancel", "--user=root"])
        site.cluster.start_slurmd("n6")
        for node in ("n1", "n2", "n5", "n6"):
            set_state(node, "state=resume")
        site.cluster.await_idle()
    assert of_first == {("n1",), ("n3",), ("n1", "n3")}, "half of those that take jobs, idle ones first"
    last = "its turn has not come"
    out_of_service = {"n5": "drained (bad DIMM)", "n6": "down (no power)"}
    assert waiting(first) == {"n2": "busy (allocated)", "n4": last, **out_of_service}
    assert of_second == {("n2",), ("n4",), ("n2", "n4")}
    without = waiting(second)
    assert without.pop("n1", "drained (new kernel)") == "drained (new kernel)", "measured the night before"
    assert without == {"n5": "drained (bad DIMM)", "n6": last}
    assert [benchmark["benchmark"] for benchmark in second["postponed"]] == ["qperf"]
    assert "MISSING" not in {series["verdict"] for series in second["series"]}
    costs = site.nights()[-1].parts["nodes-1"].costs["likwid"]
    assert costs[0] >= 2 and costs[1] == 2, "two nodes for a second at least"
    shown = site.cluster.run(
        "head", [NPC, "night", "cron", "show", "--history", site.history.parent], check=True
    )
    assert "of 6 nodes measured in the last 4 nights" in shown.stdout
    left_out = [line for line in once.stderr.splitlines() if line.startswith("not measured: ")]
    names = [name for line in left_out for name in expand(line.split(": ")[1])]
    assert sorted(names) == ["n1", "n2", "n5", "n6"], once.stderr
    (run,) = [read_run(run) for run in sorted((site.folder / "all").glob("0*"))]
    assert {record.hosts for record in run if len(record.hosts) == 1} == {("n3",), ("n4",)}
    assert {frozenset(record.hosts) for record in run if record.benchmark == "pairs"} == {
        frozenset({"n3", "n4"})
    }


@pytest.mark.xdist_group("a_node_dies_in_the_night")
def test_a_node_that_goes_out_of_service_holds_up_no_other_node(site: NightSite) -> None:
    """n1 dies under its job; n6 is busy, and is drained while a job waits for it. The others are measured,
    alone and by twos, and nobody waits until the limit."""
    (site.folder / "node.xml").write_text(NODE)
    words = [NPC, "night", "run", "--platform", "slurm", "--benchmark", site.folder / "tiny.xml", "--json"]
    words += ["--set", f"tiny_client={CLIENT}", "--no-pairs", "--limit", "1h"]
    words += ["--each-node", "--node-benchmark", site.folder / "node.xml", "--within", "1"]
    words += ["--history", site.folder / "history", "--output", site.folder / "runs"]
    sleep = ["sbatch", "--parsable", "--nodelist=n6", "--exclusive", "--output=/dev/null", "--wrap=sleep 900"]
    job = site.cluster.run("head", sleep, check=True).stdout.strip()
    pipe = subprocess.PIPE
    night = site.cluster.popen("head", words, env=ONCE, stdout=pipe, stderr=pipe, text=True)

    def has_job(state: str, node: str) -> bool:
        ask = ["squeue", "--noheader", f"--name=npc-{node}", f"--states={state}", "--format=%n"]
        return node in site.cluster.run("head", ask).stdout.split()

    try:
        until(lambda: has_job("running", "n1"), "a node benchmark runs on n1", 60)
        site.cluster.kill_node("n1")
        until(lambda: has_job("pending", "n6"), "another waits for n6", 60)
        drain = ["scontrol", "update", "nodename=n6", "state=drain", "reason=fan"]
        site.cluster.run("head", drain, check=True)
        printed, shown = night.communicate(timeout=200)
    finally:
        night.kill()
        site.cluster.run("head", ["scancel", job])
        site.cluster.start_slurmd("n1")
        for node in ("n1", "n6"):
            site.cluster.run("head", ["scontrol", "update", f"nodename={node}", "state=resume"])
        site.cluster.await_idle()
    assert printed, shown
    verdict = json.loads(printed)
    notes = "\n".join(verdict["notes"])
    records = [record for record in whole(site) if record.ok and record.benchmark in ("likwid", "pairs")]
    healthy = {"n2", "n3", "n4", "n5"}
    alone = {record.hosts for record in records if record.benchmark == "likwid"}
    assert alone >= {(node,) for node in healthy}, notes
    together = {node for record in records if record.benchmark == "pairs" for node in record.hosts}
    assert together and together <= healthy, notes
    assert list(verdict["lost"]) == ["n1"]
    unmeasured = {node["node"]: node["why"] for node in verdict["coverage"]["unmeasured"]}
    assert unmeasured.keys() == {*site.cluster.nodes} - together
    partners = {why.partition(" (")[0] for node, why in unmeasured.items() if node in healthy}
    no_job = "failed: no job was started"
    assert partners <= {f"{no_job}: n1 is down*", f"{no_job}: n6 is draining"}, unmeasured
    assert all(part.in_history for part in site.nights()[-1].parts.values())
