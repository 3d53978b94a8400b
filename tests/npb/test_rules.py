"""npb's rules without a launcher: sweeps, CPU lists, addresses, messages, verdicts."""

from __future__ import annotations

import itertools
import json
import math
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from npc.machine.fabric import load
from npc.machine.load import busiest
from npc.npb import cli, processes
from npc.npb.addresses import NoAddress, choose, fill, interface_of, names_to_try
from npc.npb.cluster import PairAttempt, by_series, describe, localise_all, pairs_to_repeat
from npc.npb.interfaces import Address, HostView
from npc.npb.launch_result import BlamedSide, LaunchResult, judge_launch, parser_of
from npc.npb.messages import BadMessage, Decoder, encode
from npc.npb.nodes import ToolEnd
from npc.npb.output import Output
from npc.npb.schedule import schedule
from npc.npb.sweep import MAX_STEPS, BadRepeat, parse_repeat, plan
from npc.processes import read
from npc.records.reading import Reading

numbers = st.integers(-(10**6), 10**6)


# -- sweeps --------------------------------------------------------------------------------------------


@given(numbers, numbers, st.sampled_from("+-*/"), st.integers(-50, 50))
def test_every_repeat_ends_or_is_refused(start: int, end: int, operator: str, by: int) -> None:
    try:
        values = [int(value) for value in parse_repeat(f"n:{start}:{end}:{operator}{by}").values]
    except BadRepeat as error:
        assert "never ends" in str(error) or "steps" in str(error) or "zero" in str(error)
        return
    assert values[0] == start and len(values) <= MAX_STEPS
    steps = list(itertools.pairwise(values))
    apply = {"+": lambda x: x + by, "-": lambda x: x - by, "*": lambda x: x * by, "/": lambda x: x // by}[
        operator
    ]
    assert all(apply(one) == two for one, two in steps), "each follows from the one before"
    assert all((two > one) == (end > start) for one, two in steps), "towards the end"
    low, high = sorted((start, end))
    assert all(low <= value <= high for value in values)
    following = apply(values[-1])
    assert start == end or not low <= following <= high, "and as far as it goes"


def test_the_example_of_the_readme_makes_twelve_runs() -> None:
    steps = plan(["qperf"], ["qperf", "HOSTNAME", "--repeat", "msg_size:16:32768:*2", "tcp_bw"])
    assert [step.values["msg_size"] for step in steps] == [str(2**power) for power in range(4, 16)]
    assert steps[0].client == ("qperf", "HOSTNAME", "--msg_size", "16", "tcp_bw")


@pytest.mark.parametrize(
    ("client", "options", "message"),
    [
        ("echo --repeat m:1:4:-1", (), "leads away from 4"),
        ("echo --repeat m:1:20000:+1", (), "more than 10000 steps"),
        ("echo", ("m:1:4:+1",), "put {m} into a command"),
    ],
)
def test_a_repeat_that_cannot_be_is_explained(client: str, options: tuple[str, ...], message: str) -> None:
    with pytest.raises(BadRepeat, match=re.escape(message)):
        plan(["no-such-server"], client.split(), options)


@pytest.mark.parametrize("rank", ["0", "1"])
def test_a_command_line_that_cannot_be_is_explained_by_one_rank(
    rank: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OMPI_COMM_WORLD_RANK", rank)
    with pytest.raises(SystemExit) as ended:
        cli.main(["--servercmd", "no-such-server", "--clientcmd", "echo 'open"])
    assert ended.value.code == 2
    assert capsys.readouterr().err.count("No closing quotation") == (rank == "0")


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("m:16,64,4K", ("16", "64", "4096")),
        ("m:4K:1:/4", ("4096", "1024", "256", "64", "16", "4", "1")),
        ("m:1M:4M:*2", ("1048576", "2097152", "4194304")),
        ("t:0.5:1.5:+0.5", ("0.5", "1", "1.5")),
        ("test:tcp_bw,tcp_lat", ("tcp_bw", "tcp_lat")),
        ("n:5:1:-2", ("5", "3", "1")),
        ("n:7:7:+1", ("7",)),
        ("n:10:3:/2", ("10", "5")),
    ],
)
def test_values_of_a_repeat(text: str, values: tuple[str, ...]) -> None:
    assert parse_repeat(text).values == values


@pytest.mark.parametrize(
    "text",
    [
        "m",
        "m:",
        "m:1:2",
        "m:1:2:",
        "m:1:2:3",
        "m:1:2:^2",
        "m:x:2:+1",
        "m:1,,2",
        ":1,2",
        "m:1:2:+x",
        "m:4:1:/0",
    ],
)
def test_what_is_no_repeat_is_refused(text: str) -> None:
    with pytest.raises(BadRepeat, match="--repeat"):
        parse_repeat(text)


@given(st.lists(st.integers(1, 9), min_size=1, max_size=3), st.integers(1, 3))
def test_several_repeats_make_their_product(lengths: list[int], runs: int) -> None:
    client = ["tool"]
    for number, length in enumerate(lengths):
        client += ["-repeat", f"n{number}:1:{length}:+1"]
    steps = plan(["server"], client, runs=runs)
    assert len(steps) == math.prod(lengths) * runs
    assert len({(step.sample, step.client) for step in steps}) == len(steps)
    assert all(step.client[1::2] == tuple(f"-n{number}" for number in range(len(lengths))) for step in steps)


def test_a_product_of_too_many_steps_is_refused() -> None:
    with pytest.raises(BadRepeat, match="make 40000 steps"):
        plan(["s"], ["c", "--repeat", "a:1:200:+1", "--repeat", "b:1:200:+1"])


def test_hyphens_are_carried_over_and_the_same_name_runs_in_step_on_both_sides() -> None:
    steps = plan(["ib_send_bw", "-repeat", "s:2:8:*2"], ["ib_send_bw", "-repeat=s:2:8:*2", "HOSTNAME"])
    assert [(step.server, step.client) for step in steps] == [
        (("ib_send_bw", "-s", size), ("ib_send_bw", "-s", size, "HOSTNAME")) for size in "248"
    ]
    with pytest.raises(BadRepeat, match="twice with different values"):
        plan(["s", "--repeat", "n:1,2"], ["c", "--repeat", "n:1,3"])


# -- CPU lists -----------------------------------------------------------------------------------------


# -- messages ------------------------------------------------------------------------------------------


@given(st.lists(st.tuples(st.dictionaries(st.text(), st.integers()), st.binary())), st.integers(1, 50))
def test_messages_survive_any_cut_of_the_stream(
    messages: list[tuple[dict[str, int], bytes]], cut: int
) -> None:
    messages = [
        ({k: v for k, v in message.items() if k != "payload"}, payload) for message, payload in messages
    ]
    stream = b"".join(encode(message, payload) for message, payload in messages)
    decoder = Decoder()
    decoded = [
        got for start in range(0, len(stream), cut) for got in decoder.feed(stream[start : start + cut])
    ]
    assert [
        ({k: v for k, v in message.items() if k != "payload"}, payload) for message, payload in decoded
    ] == messages


@pytest.mark.parametrize("line", [b"GET / HTTP/1.1\n", b"[1]\n", b'{"payload": -1}\n', b"{}\n"])
def test_a_stranger_is_not_understood(line: bytes) -> None:
    with pytest.raises(BadMessage):
        list(Decoder().feed(line))


# -- addresses -----------------------------------------------------------------------------------------

LO = Address("lo", "127.0.0.1", 8)
DOCKER = Address("docker0", "172.17.0.1", 16)
A = HostView("a", "a", (LO, DOCKER, Address("eth0", "10.0.0.1", 24), Address("ib0", "10.1.0.1", 24)))
B = HostView("b", "b", (LO, DOCKER, Address("eth0", "10.0.0.2", 24), Address("ib0", "10.1.0.2", 24)))


@pytest.mark.parametrize(
    ("resolved", "address"),
    [
        (["10.0.0.1"], "10.0.0.1"),
        (["10.1.0.1"], "10.1.0.1"),
        (["127.0.1.1"], "10.0.0.1"),  # Debian's line for a host's own name
        (["127.0.0.1"], "10.0.0.1"),
        (["172.17.0.1"], "10.0.0.1"),  # every node has this one
        (["10.0.0.99"], "10.0.0.1"),  # another host's
        ([], "10.0.0.1"),
    ],
)
def test_an_address_is_taken_only_if_it_leads_to_the_server(resolved: list[str], address: str) -> None:
    assert choose(A, B, {"a": resolved}) == address


def test_on_one_host_its_loopback_is_as_good_as_its_name() -> None:
    assert choose(A, A, {"a": ["127.0.0.1"]}) == "127.0.0.1"


def test_a_second_network_by_name_by_interface_and_by_table() -> None:
    assert names_to_try(A, ("a", "a-ib")) == ["a-ib"]
    assert choose(A, B, {"a-ib": ["10.1.0.1"]}, replace=("a", "a-ib")) == "10.1.0.1"
    assert choose(A, B, {}, interface="ib0") == "10.1.0.1"
    assert choose(A, B, {}, table={"a": "198.51.100.7"}) == "198.51.100.7"


def test_the_interface_of_an_address_is_known_between_two_hosts() -> None:
    assert interface_of(A, B, "10.1.0.1") == "ib0"
    assert interface_of(A, B, "198.51.100.7") == "", "an address that the host itself does not know"
    assert interface_of(A, A, "10.1.0.1") == "", "what stays on one host goes over no interface"
    local = HostView("a", "a", (LO, Address("eth1", "fe80::1", 64)))
    assert interface_of(local, B, "fe80::1%eth1") == "eth1"


def test_a_wrong_second_network_is_an_error_that_says_why() -> None:
    with pytest.raises(NoAddress, match="cannot resolve 'a-ib'"):
        choose(A, B, {"a-ib": []}, replace=("a", "a-ib"))
    with pytest.raises(NoAddress, match="does not occur in the host name"):
        names_to_try(A, ("zzz", "ib"))
    with pytest.raises(NoAddress, match="not an address of a alone"):
        choose(A, B, {"a-ib": ["10.0.0.2"]}, replace=("a", "a-ib"))
    with pytest.raises(NoAddress, match="it has: lo, docker0, eth0, ib0"):
        choose(A, B, {}, interface="ib7")
    with pytest.raises(NoAddress, match="also the client's own"):
        choose(A, B, {}, interface="docker0")
    with pytest.raises(NoAddress, match="no address for a; it has: x"):
        choose(A, B, {}, table={"x": "1.2.3.4"})


def test_an_interface_with_ipv6_only_gives_ipv6_with_a_scope_where_it_needs_one() -> None:
    six = HostView("a", "a", (LO, Address("eth1", "fe80::1", 64), Address("eth1", "fd00::1", 64)))
    assert choose(six, B, {}, interface="eth1") == "fd00::1"
    local = HostView("a", "a", (LO, Address("eth1", "fe80::1", 64)))
    assert choose(local, B, {}, interface="eth1") == "fe80::1%eth1"


def test_hostname_is_replaced_where_it_is_a_word() -> None:
    argv = (
        "HOSTNAME",
        "--ip=HOSTNAME",
        "tcp://HOSTNAME:80",
        "$HOSTNAME",
        "${HOSTNAME}",
        "MYHOSTNAME",
        "HOSTNAMES",
        "PORT",
        "-p=PORT+1",
        "$PORT",
        "PORTS",
    )
    filled = fill(argv, "h", 7)
    left = ("$HOSTNAME", "${HOSTNAME}", "MYHOSTNAME", "HOSTNAMES")
    assert filled == ("h", "--ip=h", "tcp://h:80", *left, "7", "-p=8", "$PORT", "PORTS")


# -- verdicts ------------------------------------------------------------------------------------------


def end(out: str = "", err: str = "", code: int = 0, timed_out: bool = False) -> ToolEnd:
    return ToolEnd(code, 1.0, timed_out, Output.of(out.encode(), err.encode()), 0)


@pytest.mark.parametrize(
    ("argv", "ended", "status", "blame"),
    [
        (
            ("qperf", "h", "tcp_bw"),
            end("tcp_bw:\n    bw  =  2 GB/sec\n", code=3),
            "code 3",
            BlamedSide.CLIENT,
        ),
        (("qperf", "h", "tcp_bw"), end("tcp_bw:\n    bw  =  0 bytes/sec\n"), "failed:", BlamedSide.CLIENT),
        (("qperf", "h", "tcp_bw"), end(""), "failed: it never began", BlamedSide.CLIENT),
        (("qperf", "h", "quit"), end("quit:\n"), "ok", BlamedSide.NONE),
        (("qperf", "h", "tcp_bw"), end(code=-9), "signal 9", BlamedSide.CLIENT),
        (("qperf", "h", "tcp_bw"), end(code=-15, timed_out=True), "timeout:", BlamedSide.TIME),
        (("qperf", "h", "tcp_bw"), end("tcp_bw:\n    bw  =  2 GB/sec\n"), "ok", BlamedSide.NONE),
    ],
)  # fmt: skip
def test_an_exit_code_is_not_enough(
    argv: tuple[str, ...], ended: ToolEnd, status: str, blame: BlamedSide
) -> None:
    verdict = judge_launch("qperf", argv, ended, 0)
    assert status in verdict.status
    assert verdict.blame is blame


def test_the_parser_follows_the_tool() -> None:
    known = ["iperf3", "perftest", "qperf"]
    assert parser_of(["/usr/bin/qperf", "h"], known) == "qperf"
    assert parser_of(["ib_send_bw", "h"], known) == "perftest"
    assert parser_of(["taskset", "-c", "1", "qperf", "h"], known) == "qperf"
    assert parser_of(["mine"], known) == "raw"


# -- processes -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("listed", [True, False])
def test_descendants_are_found_with_and_without_the_kernels_lists(
    listed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes, "_LISTS_CHILDREN", listed)
    script = "sleep 60 & (sleep 61 & exec sleep 62) & echo; wait"
    with subprocess.Popen(["sh", "-c", script], stdout=subprocess.PIPE) as shell:
        try:
            assert shell.stdout is not None
            shell.stdout.readline()
            deadline = time.monotonic() + 5
            while len(below := processes.descendants(shell.pid)) < 3 and time.monotonic() < deadline:
                time.sleep(0.01)
            known = [read(pid) for pid in below]
            assert sorted(entry.parent for entry in known if entry) == sorted(
                [shell.pid, shell.pid, below[1]]
            )
            assert below[1] not in processes.descendants(shell.pid, without=[below[1]])
        finally:
            processes.signal_each([*processes.descendants(shell.pid), shell.pid], signal.SIGKILL)


# -- many nodes ----------------------------------------------------------------------------------------


def test_a_slow_uplink_is_named_from_the_readings_of_all_pairs(tmp_path: Path) -> None:
    (tmp_path / "switches").write_text("leaf1: n[1-4]\nleaf2: n[5-8]\nleaf3: n[9-12]\n")
    known = load(str(tmp_path / "switches"))
    hosts = [f"n{number}" for number in range(1, 13)]
    attempts = []
    for number, pairs in enumerate(schedule("all", hosts)):
        for server, client in pairs:
            slow = (5 <= server + 1 <= 8) != (5 <= client + 1 <= 8)
            # what was only sent is not judged
            readings = (
                Reading("tcp_bw", "bandwidth", (8e8 if slow else 1e9) * (1 + 0.01 * (server % 3))),
                Reading("tcp_bw", "bandwidth", 1.0, params={"side": "send"}),
            )
            verdict = LaunchResult("ok", BlamedSide.NONE, readings)
            attempts.append(PairAttempt(hosts[server], hosts[client], number, 0, verdict, 4096))
    series = by_series(attempts)
    ((which, verdict),) = localise_all(series, known, hosts).items()
    assert str(which) == "tcp_bw bandwidth 4 KiB"
    assert [(suspect.kind, suspect.name) for suspect in verdict.suspects] == [("uplink", "leaf2")]
    assert "to blame: uplink leaf2" in describe(which, verdict)
    assert {host for pair in pairs_to_repeat(series, known) for host in pair} >= set(hosts[4:8])


def test_a_pair_is_disturbed_on_the_node_where_others_took_more() -> None:
    def used(cores: float, *others: float) -> dict[str, Any]:
        return {"cores": cores, "others": [{"name": "xhpl", "cores": other} for other in others]}

    quiet, busy = used(0.5), used(0.8, 0.3, 0.2)
    by_xhpl = [{"name": "xhpl", "cores": 0.3, "host": "n2"}, {"name": "xhpl", "cores": 0.2, "host": "n2"}]
    assert busiest([("n1", quiet), ("n2", busy)]) == {"cores": 0.8, "others": by_xhpl}
    assert busiest([("n1", quiet), ("n1", busy)]) == {"cores": 1.3, "others": []}, (
        "the client's others: the server"
    )
    assert busiest([("n1", quiet)]) == quiet, "of npc records sample"
    assert busiest([("n1", quiet), ("n2", None)]) is None


# -- start-up ------------------------------------------------------------------------------------------


def test_what_every_node_loads_before_mpi_is_little() -> None:
    code = "import npc.npb.cli, sys, json; print(json.dumps(sorted(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=30
    )
    loaded = set(json.loads(done.stdout))
    heavy = {"asyncio", "numpy", "mpi4py", "click", "subprocess", "dataclasses", "psutil", "npc.parsers"}
    assert not loaded & heavy
    of_npc = {name for name in loaded if name.startswith("npc.") and not name.startswith("npc.npb")}
    assert of_npc == {"npc.machine", "npc.machine.sysfs", "npc.processes", "npc.terminal", "npc.version"}
