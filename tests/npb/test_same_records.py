"""What npb writes of a launch, and what ``npc records collect`` makes of its folder, are the same records."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from npc import parsers
from npc.npb.launch_result import BlamedSide, judge_launch
from npc.npb.measure import StepOutcome
from npc.npb.nodes import ToolEnd
from npc.npb.output import Output
from npc.npb.results import Results
from npc.npb.sweep import SweepStep
from npc.parsers.run.collect import collect_run
from npc.records.record import Record, read_csv
from npc.records.series import Series
from tests.captured import outputs, text_of
from tests.lab.jube_job import finish
from tests.lab.npb_job import NPB, free_port, mpirun

#: The benchmarks whose jobs npb starts, and an option of theirs that a sweep may set.
SWEPT = {"qperf": "msg_size", "sockperf": "msg-size", "iperf3": "l", "nuttcp": "l", "perftest": "s"}


def npb_and_collect(folder: Path, platform: str) -> tuple[list[Record], list[Record]]:
    return list(read_csv(folder / "records.csv")), collect_run(folder, platform)


@pytest.mark.parametrize("tool", SWEPT)
@pytest.mark.parametrize("code", [0, 1], ids=["exit 0", "exit 1"])
def test_captured_outputs_give_the_same_records(tool: str, code: int, tmp_path: Path) -> None:
    results = Results(tmp_path / "launches", tool, 0, 1, "fuchs", tool)
    for number, path in enumerate(outputs(tool)):
        header = path.read_text().partition("\n")[0]
        argv = tuple(parsers.split_command(header.removeprefix("#@ cmd:"))) or (tool,)
        text = text_of(tool, path.name).encode()
        ended = ToolEnd(code, 1.0, False, Output.of(text), 0)
        step = SweepStep({SWEPT[tool]: "1024"}, (tool,), argv, number)
        outcome = StepOutcome(
            step, argv, "2026-11-21T08:00:00+00:00", judge_launch(tool, argv, ended, 10**6), 1.0, ended,
            placement={"server_cpus": "0", "client_cpus": "1", "interface": "eth0"},
        )  # fmt: skip
        results.add(outcome, ("n1", "n2"), {})
    results.close()
    written, collected = npb_and_collect(tmp_path / "launches", "fuchs")
    assert len(written) > 5
    assert written == collected


@pytest.mark.parametrize(
    ("datagrams", "arrived", "blame"),
    [(483331 // 4, 0.25, BlamedSide.NONE), (None, None, BlamedSide.CLIENT)],
    ids=["npb saw a quarter arrive", "nobody knows what arrived"],
)
def test_a_rate_of_udp_that_only_the_sender_counts(
    datagrams: int | None, arrived: float | None, blame: BlamedSide, tmp_path: Path
) -> None:
    argv = ("sockperf", "throughput", "-i", "127.0.0.1")
    ended = ToolEnd(0, 1.0, False, Output.of(text_of("sockperf", "udp_tp.txt").encode()), 0)
    result = judge_launch("sockperf", argv, ended, datagrams or 10**6)
    if datagrams is None:
        result = result._replace(received=None)
    results = Results(tmp_path / "launches", "sockperf", 1, 1, "fuchs", "sockperf")
    outcome = StepOutcome(
        SweepStep({}, ("sockperf",), argv), argv, "2026-11-21T08:00:00+00:00", result, 1.0, ended
    )
    results.add(outcome, ("n1", "n2"), {})
    results.close()
    written, collected = npb_and_collect(tmp_path / "launches", "fuchs")
    assert written == collected
    sent = {record.metric: record for record in written if record.params.get("side") == "send"}
    assert len(sent) == 2 and all(record.status.startswith("invalid: ") for record in sent.values())
    good = {record.metric: record.value for record in written if record.ok}
    expected = {metric: (record.value or 0) * arrived for metric, record in sent.items()} if arrived else {}
    assert good == pytest.approx(expected, rel=1e-4)
    assert results.blames() == [blame]


def test_what_others_used_meanwhile_is_no_failure_of_the_tool(tmp_path: Path) -> None:
    busy = {"cpu": {"threads": 2}, "load": {"busy": [{"name": "xhpl", "cores": 1.9}]}}
    (tmp_path / "environment.json").write_text(json.dumps(busy))
    argv = ("sockperf", "throughput", "--tcp", "-i", "127.0.0.1")
    ended = ToolEnd(0, 1.0, False, Output.of(text_of("sockperf", "tcp_tp.txt").encode()), 0)
    results = Results(tmp_path / "launches", "sockperf", 1, 1, "fuchs", "sockperf")
    outcome = StepOutcome(
        SweepStep({}, ("sockperf",), argv), argv, "2026-11-21T08:00:00+00:00",
        judge_launch("sockperf", argv, ended, 0), 1.0, ended,
    )  # fmt: skip
    results.add(outcome, ("n1", "n2"), {})
    results.close()
    assert {record.status.partition(" of the")[0] for record in results.records} == {
        "invalid: others used 1.9"
    }
    assert results.blames() == [BlamedSide.NONE]


#: A sweep of qperf is in test_launch.
REAL = {
    "sockperf": ("sockperf server --tcp -p {port}",
                 "sockperf ping-pong -i HOSTNAME --tcp -p {port} -t 1 --repeat msg-size:64:256:*4"),
    "sockperf by UDP": ("sockperf server -p {port}", "sockperf throughput -i HOSTNAME -p {port} -t 1"),
    "iperf3": ("iperf3 -s -p {port}", "iperf3 -c HOSTNAME -p {port} -t 1 -J -repeat l:4K:64K:*16"),
    "nuttcp": ("nuttcp -S --nofork -P{port}", "nuttcp -P{port} -T1 -fparse HOSTNAME"),
    "perftest": ("ib_write_bw -p {port}", "ib_write_bw -p {port} --repeat size:64:1K:*16 HOSTNAME"),
    "a failure": ("qperf -lp {port}", "qperf HOSTNAME -lp {port} -t 1 no_such_test"),
    "a time limit": ("qperf -lp {port}", "qperf HOSTNAME -lp {port} -t 30 tcp_bw"),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("benchmark", REAL)
def test_real_tools_give_the_same_records(benchmark: str, tmp_path: Path) -> None:
    port = free_port()
    server, client = (command.format(port=port) for command in REAL[benchmark])
    limit = "2" if benchmark == "a time limit" else "5"
    finish(
        mpirun(), "-np", "2", "--oversubscribe", NPB, "--servercmd", server, "--clientcmd", client,
        "--killserver", "--runs", "2", "--timeout", limit, "--platform", "fuchs",
        "--output", tmp_path / "launches",
    )  # fmt: skip
    written, collected = npb_and_collect(tmp_path / "launches", "fuchs")
    assert written and written == collected
    repeats = [record for record in written if record.sample == 0]
    assert {Series.of(record) for record in written} == {Series.of(record) for record in repeats}
