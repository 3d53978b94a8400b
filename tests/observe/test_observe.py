"""npc observe: an MPI program runs as it would alone, and every byte it sent is found again."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from npc import parsers
from npc.jobs.session import members
from npc.launcher import UnknownProgram, program_index
from npc.observe.counters import RECEIVED, SENT, passed, read_counters
from npc.observe.flop_counters import NoCounters, counted_flop, moved_bytes
from npc.observe.monitoring import read_calls, read_flows
from npc.observe.observation import CountedFlop, Observation, ObservedNode, read_observation, to_document
from npc.observe.observer import RunPlan
from npc.observe.run import RANKS, keep_observation
from npc.parsers.observed import rank_cpus
from npc.records.record import Record, read_csv
from tests.lab.cluster import Cluster
from tests.lab.in_process import npc
from tests.lab.npb_job import MPI_ENVIRONMENT
from tests.paths import ROOT

NPC = Path(sys.executable).with_name("npc")
ENVIRONMENT = {**os.environ, **MPI_ENVIRONMENT}

#: 100 messages of 1 MB from rank 0 to rank 1, and a collective that is none of the program's messages.
PROGRAM = """
import sys
import numpy
from mpi4py import MPI
world = MPI.COMM_WORLD
block = numpy.zeros(1_000_000, "b")
for _ in range(100):
    if world.rank == 0:
        world.Send(block, 1)
    elif world.rank == 1:
        world.Recv(block, 0)
world.Allreduce(numpy.zeros(4), numpy.zeros(4))
if world.rank == 0:
    print("old rate: 1.0 GFLOP/s")
    print("rate: 12.5 GFLOP/s")
    print("to stderr", file=sys.stderr)
sys.exit(int(sys.argv[1]) if sys.argv[1:] else 0)
"""


def port(root: Path, files: Mapping[str, object]) -> Path:
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{content}\n")
    return root


INFINIBAND = "sys/class/infiniband/mlx5_0/ports/1"


def test_counts_infiniband_in_words_and_interfaces_in_bytes(tmp_path: Path) -> None:
    port(tmp_path, {
        f"{INFINIBAND}/counters/port_rcv_data": 10,
        f"{INFINIBAND}/counters/port_xmit_data": 20,
        "sys/class/net/eth0/statistics/rx_bytes": 30,
        "sys/class/net/eth0/statistics/tx_bytes": 40,
        "sys/class/net/eth0/type": 1,
    })  # fmt: skip
    assert read_counters(tmp_path) == {
        "mlx5_0/1": {"received": 10, "sent": 20, "unit": 4},
        "eth0": {"received": 30, "sent": 40, "unit": 1},
    }


def test_prefers_the_64_bit_forms_of_infiniband_counters(tmp_path: Path) -> None:
    port(tmp_path, {
        f"{INFINIBAND}/counters/port_rcv_data": 2**32 - 1,
        f"{INFINIBAND}/counters/port_xmit_data": 2**32 - 1,
        f"{INFINIBAND}/counters_ext/port_rcv_data_64": 2**40,
        f"{INFINIBAND}/counters_ext/port_xmit_data_64": 2**41,
    })  # fmt: skip
    assert read_counters(tmp_path)["mlx5_0/1"] == {"received": 2**40, "sent": 2**41, "unit": 4}


def test_counts_no_byte_twice(tmp_path: Path) -> None:
    """Left out: the loopback, what lies above another interface, IP over a port that counts itself, what is
    down."""
    for name in ("lo", "bond0", "br0", "ib0", "eth0", "eth0.100", "eth1"):
        port(tmp_path / f"sys/class/net/{name}/statistics", {"rx_bytes": 1, "tx_bytes": 1})
    port(tmp_path / INFINIBAND / "counters", {"port_rcv_data": 1, "port_xmit_data": 1})
    port(tmp_path / "sys/class/net", {
        "bond0/lower_eth0": "x", "br0/bridge/id": "x", "eth0.100/lower_eth0": "x", "ib0/type": 32,
        "eth1/operstate": "down",
    })  # fmt: skip
    assert list(read_counters(tmp_path)) == ["mlx5_0/1", "eth0"]


def test_counts_ip_over_infiniband_where_no_port_shows_counters(tmp_path: Path) -> None:
    port(tmp_path / "sys/class/net/ib0", {"statistics/rx_bytes": 1, "statistics/tx_bytes": 1, "type": 32})
    assert list(read_counters(tmp_path)) == ["ib0"]


def counted(value: int, unit: int = 1) -> dict[str, int]:
    return {RECEIVED: value, SENT: value, "unit": unit}


@given(st.integers(0, 2**63), st.integers(0, 2**40), st.sampled_from([1, 4]))
def test_bytes_are_the_difference_times_the_unit(first: int, more: int, unit: int) -> None:
    last = first + more
    if unit == 4 and last == 2**32 - 1:
        return  # full: below
    assert passed(counted(first, unit), counted(last, unit), SENT) == (more * unit, "")


def test_a_wrapped_counter_is_mended_and_said() -> None:
    size, note = passed(counted(2**32 - 100), counted(50), RECEIVED)
    assert size == 150
    assert "wrapped" in note


@pytest.mark.parametrize(
    ("first", "last", "unit", "reason"),
    [
        (10**12, 5, 1, "reset"),  # a 64-bit counter does not wrap
        (1000, 5, 1, "reset"),  # nor does one in its lower half
        (2**32 - 100, 50, 4, "reset"),  # InfiniBand's stays at its largest value
        (2**32 - 100, 2**32 - 1, 4, "full"),
    ],
)
def test_a_counter_that_cannot_be_believed_gives_no_number(
    first: int, last: int, unit: int, reason: str
) -> None:
    size, note = passed(counted(first, unit), counted(last, unit), SENT)
    assert size is None
    assert reason in note


@pytest.mark.parametrize(
    ("command", "program"),
    [
        ("python3 app.py", "python3"),
        ("mpirun -n 4 python3 app.py", "python3"),
        ("/usr/bin/mpirun --bind-to core --mca btl self,tcp -x A=1 -np 2 python3 -n 3", "python3"),
        ("mpirun --oversubscribe --map-by ppr:1:node python3", "python3"),
        ("mpirun --map-by node python3", "python3"),
        ("mpiexec -genv A 1 -ppn 2 -hosts a,b python3", "python3"),
        ("srun --mpi=pmix -n 2 -l python3", "python3"),
        ("srun --mpi pmix -N2 --exclusive python3", "python3"),
        ("mpirun -n 2 -- python3", "python3"),
    ],
)
def test_finds_the_program_in_a_launcher_s_command(command: str, program: str) -> None:
    words = command.split()
    assert words[program_index(words)] == program


@pytest.mark.parametrize(
    "command", ["mpirun -n 4", "mpirun -n 4 no-such-program", "mpirun -n 1 true : -n 1 true"]
)
def test_asks_where_it_cannot_tell_the_program(command: str) -> None:
    with pytest.raises(UnknownProgram):
        program_index(command.split())


def test_the_program_can_be_named() -> None:
    words = ["mpirun", "--new-option", "value", "./app"]
    assert words[program_index(words, "./app")] == "./app"
    with pytest.raises(UnknownProgram, match="no such word"):
        program_index(words, "app")


def seen(
    folder: Path,
    host: str,
    rank: int,
    of: int,
    received: tuple[int, int, int],
    seconds: float = 1.0,
    counted: Mapping[str, Any] | None = None,
    cpus: str = "0",
    threads: int = 1,
) -> None:
    """What a rank leaves: counters 0.3 s before it began, when it began, and when it ended."""

    def at(when: float, value: int) -> dict[str, Any]:
        return {"time": when, "counters": {"eth0": {"received": value, "sent": 0, "unit": 1}}}

    idle, begin, end = received
    rank_file = {
        "host": host, "rank": rank, "ranks": of, "idle": at(0.0, idle), "begin": at(0.3, begin),
        "end": at(0.3 + seconds, end), "status": 0, "counted": counted,
        "cpus": cpus, "threads": threads,
    }  # fmt: skip
    (folder / f"{host}.{rank}.json").write_text(json.dumps(rank_file))


#: As printOutput in LIKWID 5.2.2's likwid.lua prints two hardware threads with ``-O``, shortened by rows.
LIKWID_TABLES = """\
STRUCT,Info,3,,,
CPU type:,AMD K19 (Zen3) architecture,,,,
TABLE,Group 1 Raw,FLOPS_DP,2,,
Event,Counter,HWThread 0,HWThread 1,,
RETIRED_SSE_AVX_FLOPS_ALL,PMC2,3000000000,1500000000,,
TABLE,Group 1 Metric,FLOPS_DP,5,,
Metric,HWThread 0,HWThread 1,,,
Runtime (RDTSC) [s],1.5000,1.5000,,,
CPI,0.5100,0.7300,,,
DP [MFLOP/s],2000,1000,,,
TABLE,Group 1 Metric STAT,FLOPS_DP,5,,
Metric,Sum,Min,Max,Avg,
Runtime (RDTSC) [s] STAT,3,1.5000,1.5000,1.5000,
DP [MFLOP/s] STAT,3000,1000,2000,1500,
"""


def test_counted_flop_are_those_of_all_hardware_threads() -> None:
    assert counted_flop(LIKWID_TABLES) == pytest.approx(4.5e9)
    assert counted_flop(LIKWID_TABLES.replace("DP [", "SP [")) == pytest.approx(4.5e9)


def test_bytes_of_main_memory_are_those_of_all_sockets_with_the_idle_ratio(tmp_path: Path) -> None:
    """Metrics as LIKWID's group MEM of Ice Lake names them; a socket counts at the first of its threads."""
    metrics = "Runtime unhalted [s],1.2000,0.3000,,,\nMemory data volume [GBytes],12.5,0,,,\n"
    text = LIKWID_TABLES.replace("FLOPS_DP", "MEM").replace("DP [MFLOP/s],2000,1000,,,\n", metrics)
    moved = moved_bytes(text)
    assert moved == {"level": "MEM", "bytes": 12.5e9, "seconds": 1.5, "idle": pytest.approx(0.5)}
    assert moved_bytes(LIKWID_TABLES) is None
    seen(tmp_path, "n1", 0, 1, (0, 0, 1), counted={"group": "MEM", "moved": moved})
    text = json.dumps(to_document(read_observation(tmp_path, ["app"])))
    found = {r.metric: (r.value, r.status) for r in parsers.parse("observed", text) if "counters" in r.params}
    assert found == {"traffic": (12.5e9, "ok"), "efficiency": (pytest.approx(0.5), "ok")}


@pytest.mark.parametrize(
    "broken",
    [
        "",
        LIKWID_TABLES.replace("DP [MFLOP/s]", "CPI2"),
        LIKWID_TABLES.replace("2000,1000", "nan,1000"),
        LIKWID_TABLES.replace("[s],1.5000,1.5000", "[s],1.5000"),
    ],
)
def test_a_table_without_all_rates_counts_nothing(broken: str) -> None:
    with pytest.raises(NoCounters):
        counted_flop(broken)


def test_flop_of_all_nodes_are_added_and_one_node_without_counters_leaves_no_sum(tmp_path: Path) -> None:
    for host, flop in (("n1", {"flop": 1e9}), ("n2", {"flop": 2e9})):
        seen(tmp_path, host, 0, 2, (0, 0, 1), counted={"group": "FLOPS_DP", **flop})
        seen(tmp_path, host, 1, 2, (0, 0, 1))
    assert read_observation(tmp_path, ["app"]).counted == CountedFlop("FLOPS_DP", 3e9)
    seen(tmp_path, "n2", 0, 2, (0, 0, 1), counted={"group": "FLOPS_DP", "reason": "no right"})
    lacking = read_observation(tmp_path, ["app"]).counted
    assert lacking == CountedFlop("FLOPS_DP", None, "no counters of FLOPS_DP on n2: no right")
    for counted, expected in (
        (CountedFlop("FLOPS_SP", 3e9), [("flop", 3e9, "ok"), ("flops", 1.5e9, "ok")]),
        (lacking, [("flop", None, f"unavailable: {lacking.reason}")]),
    ):
        observed = Observation(("app",), {}, 2, (ObservedNode("n1", 1, 2.0, ()),), None, (), counted)
        readings = parsers.parse("observed", json.dumps(to_document(observed)))
        by_counters = [reading for reading in readings if "counters" in reading.params]
        assert [(r.metric, r.value, r.status) for r in by_counters] == expected


@pytest.mark.slow
def test_counters_that_cannot_be_had_are_unavailable_and_the_program_runs(tmp_path: Path) -> None:
    """Most virtual machines have none; a name that is no group of LIKWID's has none anywhere."""
    ended = subprocess.run(
        [NPC, "observe", "--counters", "NO_SUCH_GROUP", "--output", "o", "--", "echo", "as  it is"],
        cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert (ended.returncode, ended.stdout) == (0, "as  it is\n")
    (flop,) = (record for record in read_csv(tmp_path / "o/records.csv") if record.metric == "flop")
    assert flop.value is None and flop.params["counters"] == "NO_SUCH_GROUP"
    assert flop.status.startswith("unavailable: no counters of NO_SUCH_GROUP on ")
    assert f"counted: {flop.status.removeprefix('unavailable: ')}" in ended.stderr


def test_where_ranks_were_bound_is_told_in_their_order_and_what_has_too_few_cpus(tmp_path: Path) -> None:
    def told(cpus: Mapping[str, list[str]], threads: int = 1) -> tuple[str, list[str]]:
        for path in tmp_path.glob("*.json"):
            path.unlink()
        for host, each in cpus.items():
            for rank, bound in enumerate(each):
                seen(tmp_path, host, rank, len(each), (0, 0, 1), cpus=bound, threads=threads)
        observation = read_observation(tmp_path, ["app"])
        crowded = [note for note in observation.notes if "fewer CPUs" in note]
        return rank_cpus(json.dumps(to_document(observation))), crowded

    sockets = [f"{core}" for core in range(12)]
    assert told({"n1": ["0-9", "10-19"], "n2": ["0-9", "10-19"]}, 10) == ("0-9 10-19", [])
    assert told({"n1": ["0-19", "0-19"], "n2": ["0", "1"]}) == ("2 x 0-19; 0 1", [])
    assert told({"n1": sockets}) == ("12 ranks, 1 each of 0-11", []), "as rank 10 comes after rank 9"
    crowd = "n1: 2 of 2 ranks have fewer CPUs than threads (rank 0: CPU 1 for 4 threads)"
    assert told({"n1": ["1", "0"]}, 4) == ("1 0", [crowd])
    assert rank_cpus('{"nodes": [{"host": "n1"}]}') == rank_cpus("{}") == rank_cpus("") == ""


def test_a_node_s_bytes_span_its_first_and_its_last_rank(tmp_path: Path) -> None:
    seen(tmp_path, "n1", 0, 2, (0, 0, 1000), seconds=1.0)
    seen(tmp_path, "n1", 1, 2, (0, 0, 1500), seconds=2.0)
    (node,) = read_observation(tmp_path, ["app"]).nodes
    assert (node.ranks, node.seconds, node.ports[0].received) == (2, pytest.approx(2.0), 1500)


def test_says_which_ranks_and_nodes_are_missing(tmp_path: Path) -> None:
    seen(tmp_path, "n1.cluster", 0, 3, (0, 0, 1))
    notes = " / ".join(read_observation(tmp_path, ["app"], hosts=["n1", "n2"]).notes)
    assert "2 of 3 ranks left nothing (rank 1, 2)" in notes
    assert "no rank ran on n2" in notes


def test_a_damaged_file_of_a_rank_is_noted_and_its_rank_is_missing(tmp_path: Path) -> None:
    seen(tmp_path, "n1", 0, 2, (0, 0, 1))
    (tmp_path / "n1.1.json").write_text('{"host": "n1", "rank": 1, ')
    observation = read_observation(tmp_path, ["app"])
    assert [node.ranks for node in observation.nodes] == [1]
    assert observation.notes[0].startswith("n1.1.json is damaged: ")
    assert "1 of 2 ranks left nothing (rank 1)" in observation.notes[1]


def test_what_is_kept_notes_a_damaged_file_once(tmp_path: Path) -> None:
    ranks = tmp_path / f"0000.{RANKS}"
    ranks.mkdir()
    seen(ranks, "n1", 0, 2, (0, 0, 1))
    (ranks / "n1.1.json").write_text('{"host": "n1", "rank": 1, ')
    kept = keep_observation(tmp_path / "0000", ["mpirun", "app"], RunPlan(), {})
    assert [note.partition(": ")[0] for note in kept.notes if "damaged" in note] == ["n1.1.json is damaged"]
    assert any("1 of 2 ranks left nothing (rank 1)" in note for note in kept.notes)


def test_says_that_others_used_the_port(tmp_path: Path) -> None:
    seen(tmp_path, "n1", 0, 1, (0, 3_000_000, 23_000_000))
    (note,) = read_observation(tmp_path, ["app"]).notes
    assert note.startswith("n1 eth0: 10 MB/s passed before the program began; perhaps 50%")


def test_says_that_the_ports_saw_more_than_mpi_sent(tmp_path: Path) -> None:
    seen(tmp_path, "n1", 0, 2, (0, 0, 9_000_000))
    seen(tmp_path, "n2", 1, 2, (0, 0, 1_100_000))
    (tmp_path / "mpi.0.prof").write_text("E\t0\t1\t1000000 bytes\t1 msgs sent\t0\n")
    (tmp_path / "mpi.1.prof").write_text("")
    (note,) = read_observation(tmp_path, ["app"]).notes
    assert note.startswith("n1: 9 MB passed its ports, MPI accounts for 1 MB")


@pytest.mark.parametrize(("extra", "said"), [(0, False), (30_000_000, True)])
def test_tells_somebody_elses_bytes_from_the_headers_of_messages(
    tmp_path: Path, extra: int, said: bool
) -> None:
    """80 MB in large messages with 7 % for TCP, a million bytes in small ones that need 160 bytes each."""
    ports = int(80e6 * 1.07) + 1_000_000 + 160 * 20_000
    seen(tmp_path, "n1", 0, 2, (0, 0, ports + extra))
    seen(tmp_path, "n2", 1, 2, (0, 0, ports))
    (tmp_path / "mpi.0.prof").write_text(
        "E\t0\t1\t80000000 bytes\t80 msgs sent\t0\nI\t0\t1\t1000000 bytes\t20000 msgs sent\n"
    )
    (tmp_path / "mpi.1.prof").write_text("")
    notes = read_observation(tmp_path, ["app"]).notes
    assert [note.partition(":")[0] for note in notes] == ["n1"] * said


def test_says_which_ranks_were_not_watched_or_not_counted(tmp_path: Path) -> None:
    seen(tmp_path, "n1", 0, 1, (0, 0, 10))
    (tmp_path / "mpi.1.prof").write_text("")
    (tmp_path / "mpi.2.prof").write_text("")
    unwatched, uncounted = read_observation(tmp_path, ["app"]).notes
    assert unwatched.startswith("MPI ran 2 ranks, of which 2 were not watched")
    assert uncounted.startswith("1 of 1 ranks left no count")


def test_reads_open_mpi_s_flows() -> None:
    """The lines of a real file (Open MPI 4.1.4, five messages of 1000 bytes and a collective)."""
    text = (
        "# POINT TO POINT\nE\t0\t1\t5000 bytes\t5 msgs sent\t1,0,0,0,0,0,1,0,0,0,5,0\n"
        "I\t0\t1\t32 bytes\t2 msgs sent\n# OSC\n# COLLECTIVES\nC\t0\t1\t32 bytes\t2 msgs sent\n"
        "D\tMPI_COMM_WORLD\tprocs: 0,1\nA2A\t0\t32 bytes\t2 msgs sent\n"
    )
    user, internal = read_flows([text])
    assert (user.kind, user.source, user.target, user.bytes, user.messages) == ("user", 0, 1, 5000, 5)
    assert user.by_size[10] == 5
    assert (internal.kind, internal.bytes, internal.messages) == ("internal", 32, 2)


def test_counts_collective_calls_once_for_each_rank_that_takes_part() -> None:
    """Lines of real files (Open MPI 4.1.4, 4 ranks): 500 broadcasts of 8 B by rank 0 and 100 by rank 1; 1324
    calls of all, 32700 B to 3 others; 7 of 16 B in each of two communicators of 2 ranks."""
    world, alone = "D\tMPI_COMM_WORLD\tprocs: 0,1,2,3\n", "D\tMPI_COMM_SELF\tprocs: 0\n"
    of_all = "A2O\t0\t0 bytes\t0 msgs sent\nA2A\t0\t32700 bytes\t1324 msgs sent\n"
    pair = "D\tMPI COMMUNICATOR 3 SPLIT FROM 0\tprocs: 0,2\nA2A\t0\t112 bytes\t7 msgs sent\n"
    texts = [
        f"{alone}A2A\t0\t0 bytes\t9 msgs sent\n{world}O2A\t0\t{root}\n{of_all}{pair}"
        for root in ("12000 bytes\t500 msgs sent", "2400 bytes\t100 msgs sent", *["0 bytes\t0 msgs sent"] * 2)
    ]
    found = read_calls(texts)
    assert found.keys() == {"one to all", "all to all"}
    assert found["one to all"] == (600 * 4 * 8, 600 * 4)
    assert found["all to all"] == (pytest.approx(4 * 32700 / 3 + 4 * 112), 4 * (1324 + 7))


def test_a_half_written_observation_is_a_failure_and_no_number() -> None:
    (reading,) = parsers.parse("observed", '{"schema": 1, "reported": {"flops": 1')
    assert reading.value is None
    assert reading.status.startswith("failed: not an observation")


@pytest.fixture
def program(tmp_path: Path) -> Path:
    path = tmp_path / "flow.py"
    path.write_text(PROGRAM)
    return path


def observe(folder: Path, *arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [NPC, "observe", *map(str, arguments)],
        cwd=folder,
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        timeout=60,
    )


def values(records: list[Record], metric: str, **params: str) -> list[float | None]:
    return [
        record.value
        for record in records
        if record.metric == metric and params.items() <= dict(record.params).items()
    ]


@pytest.mark.slow
def test_counts_what_a_program_sends_and_leaves_its_output_alone(tmp_path: Path, program: Path) -> None:
    done = observe(
        tmp_path, "--flops", r"rate: ([0-9.]+)", "--flops-unit", "GFLOP/s", "--flop", "1e9",
        "--", "mpirun", "-n", 2, sys.executable, program,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout == "old rate: 1.0 GFLOP/s\nrate: 12.5 GFLOP/s\n"
    assert "to stderr" in done.stderr
    assert (tmp_path / "observed/raw/0000.out").read_text() == done.stdout
    records = list(read_csv(tmp_path / "observed/records.csv"))
    assert values(records, "traffic", kind="user") == [100_000_000]
    assert values(records, "messages", kind="user") == [100]
    assert values(records, "flops") == [12.5e9]
    assert values(records, "flop") == [1e9]
    assert {dict(record.params)["program"] for record in records} == {"flow.py"}
    again = observe(tmp_path, "--", "true")
    assert again.returncode == 2
    assert "holds an observation already" in again.stderr


@pytest.mark.slow
def test_the_flop_follow_from_the_rate_and_the_seconds_that_it_is_for(tmp_path: Path) -> None:
    words = ["-c", "print('setup 3 s; 2.0 GFLOP/s in 0.5 s')"]
    done = observe(
        tmp_path, "--flops", "([0-9.]+) GFLOP/s", "--flops-unit", "GFLOP/s", "--seconds", "in ([0-9.]+) s",
        "--", sys.executable, *words,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    records = list(read_csv(tmp_path / "observed/records.csv"))
    assert (values(records, "flops"), values(records, "flop")) == ([2e9], [1e9])
    silent = observe(
        tmp_path, "--output", "o", "--flops", "([0-9.]+) GFLOP/s", "--seconds", "for ([0-9]+) s",
        "--", sys.executable, *words,
    )  # fmt: skip
    assert "note: --seconds catches no number" in silent.stderr
    assert values(list(read_csv(tmp_path / "o/records.csv")), "flop") == []


@pytest.mark.slow
def test_hands_back_the_program_s_exit_code(tmp_path: Path, program: Path) -> None:
    done = observe(tmp_path, "--output", "o", "--", "mpirun", "-n", 2, sys.executable, program, 3)
    assert done.returncode == 3
    assert all(not record.ok for record in read_csv(tmp_path / "o/records.csv"))


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["--", "no-such-program"], 127, "no such program"),
        (["--", "mpirun", "-n", "2"], 2, "--program"),
        (["--nam", "x", "true"], 2, "No such option"),
        (["--flops", "rate", "--", "true"], 2, "no group"),
        (["--flops-unit", "MB/s", "--", "true"], 2, "expected FLOP/s"),
        (["--seconds", "([0-9]+) s", "--", "true"], 2, "it goes with --flops"),
        (["--output", "/proc/observed", "--", "true"], 1, "cannot write"),
        (["--parser", "linpack", "--", "true"], 2, "there is no parser 'linpack'; there are: "),
    ],
)
def test_bad_input_ends_in_one_clear_line(
    tmp_path: Path, arguments: list[str], code: int, words: str
) -> None:
    done = npc("observe", *arguments, cwd=tmp_path)
    assert done.returncode == code
    assert words in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.slow
def test_a_program_s_report_is_read_wherever_it_lies(tmp_path: Path) -> None:
    """As xhpl leaves it: HPL.out on a scratch file system, named by an absolute path, beside a folder."""
    report, scratch = ROOT / "tests/data/hpl/four_problems.txt", tmp_path / "scratch"
    (scratch / "HPL.old").mkdir(parents=True)
    copy = ["cp", "--", str(report), str(scratch / "HPL.out")]
    done = observe(tmp_path, "--parser", "hpl", "--report", f"{scratch}/HPL*", "--", *copy)
    assert done.returncode == 0, done.stderr
    records = read_csv(tmp_path / "observed" / "records.csv")
    rates = [record.value for record in records if (record.case, record.metric) == ("HPL", "flops")]
    assert rates == pytest.approx([2.535e9, 2.653e8, 8.354e8, 1.223e9])


@pytest.mark.slow
def test_a_program_without_mpi_is_observed_on_this_node(tmp_path: Path) -> None:
    done = observe(tmp_path, "--json", "--", "echo", "hello")
    head, _, document = done.stdout.partition("\n")
    assert head == "hello"
    assert json.loads(document)["nodes"][0]["ranks"] == 1


#: Touches PAGES pages in each of its two outermost regions, the second within another one as well.
COUNTING = """
#include <papi.h>
#include <stdlib.h>
#include <sys/mman.h>
#define PAGES 3000L
static void touch(void) {
    volatile char *all = mmap(0, PAGES * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (all == MAP_FAILED || madvise((void *)all, PAGES * 4096, MADV_NOHUGEPAGE)) exit(9);
    for (long page = 0; page < PAGES; page++) all[page * 4096] = 1;
}
int main(void) {
    PAPI_hl_region_begin("first");
    touch();
    PAPI_hl_region_end("first");
    touch();
    PAPI_hl_region_begin("second");
    PAPI_hl_region_begin("inner");
    touch();
    PAPI_hl_region_end("inner");
    PAPI_hl_region_end("second");
    return 0;
}
"""


@pytest.mark.slow
@pytest.mark.optional_skip("the kernel may refuse to count")
def test_what_a_program_counts_by_papi_is_the_sum_of_its_outermost_regions(tmp_path: Path) -> None:
    """By an event of the kernel's, which is there without hardware counters, and whose number is known."""
    (tmp_path / "counting.c").write_text(COUNTING)
    subprocess.run(["cc", "counting.c", "-o", "counting", "-lpapi"], cwd=tmp_path, check=True)
    alone = {**os.environ, "PAPI_EVENTS": "perf::PAGE-FAULTS", "PAPI_OUTPUT_DIRECTORY": str(tmp_path)}
    subprocess.run([tmp_path / "counting"], env=alone, check=True)
    if not list(tmp_path.rglob("rank_*.json")):
        pytest.skip("this kernel does not let programs count (perf_event_paranoid)")
    launch = ["--json", "--output", "o", "--counters", "perf::PAGE-FAULTS", "--", "mpirun", "-n", 2]
    done = observe(tmp_path, *launch, tmp_path / "counting")
    assert done.returncode == 0, done.stderr
    counted = json.loads(done.stdout)["counted"]
    assert 2 * 2 * 3000 <= counted["flop"] < 2 * 2 * 3000 + 1000, counted
    (flop,) = (record for record in read_csv(tmp_path / "o/records.csv") if record.metric == "flop")
    assert (flop.value, flop.params["counters"]) == (counted["flop"], "perf::PAGE-FAULTS")


@pytest.mark.parametrize("program", [["true"], ["sh", "-c", "mkdir -p $PAPI_OUTPUT_DIRECTORY/x && echo {} > "
                                                "$PAPI_OUTPUT_DIRECTORY/x/rank_0.json"]])  # fmt: skip
@pytest.mark.slow
def test_a_program_that_did_not_count_by_papi_has_no_number(tmp_path: Path, program: list[str]) -> None:
    """Without regions it leaves nothing, and of another version's file nobody knows what it says."""
    done = observe(tmp_path, "--json", "--output", "o", "--counters", "PAPI_DP_OPS", "--", *program)
    counted = json.loads(done.stdout)["counted"]
    assert (done.returncode, counted["flop"]) == (0, None)
    assert counted["reason"].startswith("no counters of PAPI_DP_OPS on ")
    assert "PAPI" in counted["reason"].partition(" on ")[2]


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_stop_reaches_the_ranks(tmp_path: Path, number: signal.Signals) -> None:
    waits = tmp_path / "waits.py"
    waits.write_text("from mpi4py import MPI; import time; print('up', flush=True); time.sleep(60)")
    job = subprocess.Popen(
        [NPC, "observe", "--", "mpirun", "-n", "2", sys.executable, str(waits)],
        cwd=tmp_path,
        env=ENVIRONMENT,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    )
    assert job.stdout is not None
    with job.stdout:
        assert job.stdout.readline().startswith("up")  # both ranks may share the line
        job.send_signal(number)
        assert job.wait(20) != 0
    deadline = time.monotonic() + 5
    while members(job.pid) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert members(job.pid) == []
    records = list(read_csv(tmp_path / "observed/records.csv"))
    assert records
    assert all(re.match("failed: exit code", record.status) for record in records)


@pytest.mark.slow
def test_below_npc_sample_each_launch_has_its_observation(tmp_path: Path, program: Path) -> None:
    sample = [NPC, "records", "sample", "--tool", "observed", "--runs", "2", "--in-order", "--"]
    watched = [NPC, "observe", "--", "mpirun", "-n", "2", sys.executable, program]
    subprocess.run([*sample, *watched], cwd=tmp_path, env=ENVIRONMENT, check=True, timeout=60)
    subprocess.run([NPC, "records", "collect", "launches"], cwd=tmp_path, timeout=60, capture_output=True)
    records = list(read_csv(tmp_path / "launches/records.csv"))
    assert values(records, "traffic", kind="user") == [100_000_000] * 2
    assert {record.sample for record in records} == {0, 1}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(nodes=2) as two:
        yield two


@pytest.mark.slow
@pytest.mark.slurm
@pytest.mark.parametrize("launcher", ["srun --mpi=pmix -n 2", "mpirun -n 2 --map-by node"])
def test_finds_every_byte_on_both_nodes(
    tmp_path: Path, program: Path, cluster: Cluster, launcher: str
) -> None:
    """100 MB cross the wire once: n1 sends and n2 receives them, with the headers of TCP and little else."""
    before = cluster.bytes("n2")[0]
    arguments = ["salloc", "-N2", NPC, "observe", "--output", tmp_path / "o", "--", *launcher.split()]
    done = cluster.run("head", [*arguments, sys.executable, program], env=MPI_ENVIRONMENT)
    assert done.returncode == 0, done.stderr
    records = list(read_csv(tmp_path / "o/records.csv"))
    (sent,) = values(records, "traffic", node="n1", direction="sent")
    (received,) = values(records, "traffic", node="n2", direction="received")
    assert sent is not None
    assert received is not None
    assert 100e6 < received < 103e6
    assert 100e6 < sent < 103e6
    assert received <= cluster.bytes("n2")[0] - before
    document = json.loads((tmp_path / "o/raw/0000.observed.json").read_text())
    assert 0 <= document["messages"]["sent"]["n1"] - 100_000_000 < 1000  # MPI's own messages with it
    assert records[0].hosts == ("n1", "n2")
