"""``npc advise``: each rule speaks on evidence, is silent without, and finds nothing on a healthy machine."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from npc import parsers
from npc.machine.platform import Interface, Platform
from npc.records.launch import Launch, LaunchLog
from npc.records.pair_verdicts import PairSuspect, PairsVerdict, write_pairs
from npc.records.record import Record, replace, save_csv
from npc.report.advice import advise, all_rules, gather
from npc.report.advice.rule import Hint
from npc.report.runs import Run
from npc.validity.rule import Circumstances
from tests.lab import in_process
from tests.made.measured import AROUND, level, peak, records
from tests.made.observed import launch
from tests.paths import ROOT

DATA = ROOT / "tests/data"
FDR = 6.8e9
LINK = {"hosts": ("n1", "n2"), "nodes": 2}
ETHERNET = {"name": "eth0", "type": "ethernet", "state": "up", "speed_bit_s": 25e9, "mtu": 9000}
INFINIBAND = {"name": "ib0", "type": "infiniband", "state": "up", "speed_bit_s": 56e9, "mtu": 2044}
PORT = {"device": "mlx5_0", "port": 1, "state": "ACTIVE", "rate_bit_s": 56e9, "link_layer": "InfiniBand"}


def machine(**changes: Any) -> dict[str, Any]:
    """``environment.json`` of a healthy node with two sockets, as far as rules look at it."""
    nodes = [{"node": 0, "cpus": "0-9"}, {"node": 1, "cpus": "10-19"}]
    return {
        "host": {"name": "n1"},
        "cpu": {
            "sockets": 2, "cores": 20, "threads": 20, "numa_nodes": nodes,
            "frequency": {"governors": {"performance": 20}, "min_hz": 1.2e9, "max_hz": 3e9},
        },
        "limits": {"affinity": "0-19", "cpus": 20, "memlock_unlimited": True, "memlock_bytes": None},
        "memory": {"transparent_huge_pages": "madvise"},
        "interfaces": [ETHERNET, INFINIBAND],
        "rdma": [PORT],
        "variables": {},
        "load": {"busy": []},
    } | changes  # fmt: skip


def network(
    mpi: float = 6e9, mpi_latency: float = 1.5e-6, tcp: float = 2.9e9, **tcp_params: str
) -> Iterator[Record]:
    """Tests between two nodes over InfiniBand and 25 Gbit/s Ethernet."""
    yield from named("osu", "osu_bw", mpi, size=1048576)
    yield from named("osu", "osu_latency", mpi_latency, metric="latency", size=1)
    yield from named("qperf", "tcp_bw", tcp, size=61440, params={"interface": "eth0", **tcp_params})
    yield from named("qperf", "tcp_lat", 20e-6, metric="latency", size=1)
    yield from named("perftest", "ib_write_bw", 6.2e9, size=1048576)
    yield from named("perftest", "ib_write_lat", 1.1e-6, metric="latency", size=2)


def named(benchmark: str, case: str, value: float, **fields: Any) -> Iterator[Record]:
    """`records` between two nodes."""
    for record in records(benchmark, case, value, **{"nodes": 2, **fields}):
        yield replace(record, hosts=("n1", "n2"))


def memory(value: float = 80e9, threads: str = "20", workgroup: str = "N") -> Iterator[Record]:
    yield from level("MEM", "load_avx", value)
    for record in records("stream", "triad", value * 0.9):
        yield replace(record, params={"threads": threads})


def healthy() -> list[Record]:
    return [*network(), *memory(), *peak("peakflops_avx", 390e9)]


PLATFORM = Platform(
    name="fuchs", cores=20, clock_hz=2.5e9, simd_bits=256, simd_units=2, fma=False, memory_bandwidth=102.4e9,
    interfaces={"ib0": Interface("ib0", "4x FDR", FDR), "eth0": Interface("eth0", "25 GbE", 25e9 / 8)},
)  # fmt: skip


def evidence(
    records: Sequence[Record],
    environment: Mapping[str, Any] | None = None,
    platform: Platform | None = None,
    suspects: Sequence[tuple[PairSuspect, str]] = (),
    argv: Sequence[str] = (),
) -> Run:
    """A run with one environment for all records; `argv` is the command line of every launch."""
    environment = machine() if environment is None else environment
    raws = {record.raw for record in records}
    launches = {
        raw: Launch(id=0, argv=tuple(argv), started="", seconds=1.0, exit=0, raw=raw) for raw in raws if argv
    }
    run = Run(0, "fuchs", Path(), list(records), platform)
    run.circumstances = Circumstances(platform, dict.fromkeys(raws, environment), launches)
    run.environments = [environment] if environment else []
    run.suspects = list(suspects)
    return run


def hints_of(name: str, run: Run) -> list[Hint]:
    """The hints of one rule; fails if it lacks evidence."""
    judged = next(rule for rule in all_rules() if rule.name == name).judge(run)
    assert not isinstance(judged, str), judged
    return judged


def one(name: str, run: Run) -> Hint:
    (hint,) = hints_of(name, run)
    return hint


def captured(folder: str, name: str, tool: str) -> list[Record]:
    """The records of a captured output, as measured between two nodes."""
    text = (DATA / folder / name).read_text(encoding="utf-8")
    return [
        Record.of(reading, time="2026-11-21T08:00:00+00:00", platform="fuchs", benchmark=tool, nodes=2,
                  hosts=("n1", "n2"), raw=name)
        for reading in parsers.parse(tool, text)
    ]  # fmt: skip


# --- a healthy machine --------------------------------------------------------------------------------


def test_on_a_healthy_machine_nothing_is_said() -> None:
    advice = advise(evidence(healthy(), platform=PLATFORM))
    assert advice.hints == ()
    assert {"mpi_over_tcp", "small_messages", "interface", "one_socket", "governor", "huge_pages", "pinning",
            "taking_turns", "mtu"} <= {*advice.silent, *advice.lacking}  # fmt: skip
    assert {"mpi_over_tcp", "small_messages", "interface", "one_socket", "governor"} <= set(advice.silent)


def test_without_evidence_nothing_is_said_but_what_is_lacking() -> None:
    advice = advise(evidence([], environment={}))
    assert advice.hints == () and advice.silent == ()
    assert set(advice.lacking) == {rule.name for rule in all_rules()}


def test_every_rule_has_a_source_and_a_row_in_the_page() -> None:
    page = (ROOT / "docs" / "advise.md").read_text(encoding="utf-8")
    for rule in all_rules():
        assert rule.title and len(rule.source) > 10
        assert re.search(rf"^\|.*`{rule.name}`.*\|.*\|.*\|$", page, re.MULTILINE), rule.name


# --- the network --------------------------------------------------------------------------------------


def test_mpi_over_tcp_is_told_by_rate_and_latency() -> None:
    hint = one("mpi_over_tcp", evidence([*network(mpi=2.8e9, mpi_latency=25e-6)]))
    assert "osu_bw reached 2.8 GB/s, TCP 2.9 GB/s, but perftest ib_write_bw reached 6.2 GB/s" in hint.seen
    assert "osu_latency took 25 µs, qperf tcp_lat 20 µs" in hint.seen
    assert hint.gain == pytest.approx(25e-6 / 1.1e-6)
    assert hint.raw


def test_real_mpi_over_tcp_is_recognised_beside_real_tcp() -> None:
    """Open MPI forced through TCP, and qperf's TCP on the same machine."""
    of_mpi = [*captured("advice", "tcp_latency.txt", "osu"), *captured("advice", "tcp_bw.txt", "osu")]
    of_tcp = captured("qperf", "tcp_udp_vv.txt", "qperf")
    hint = one("mpi_over_tcp", evidence([*of_mpi, *of_tcp]))
    assert "osu_bw" in hint.seen and "the port carries 7 GB/s" in hint.seen
    no_rdma = evidence([*of_mpi, *of_tcp], machine(rdma=[]))
    assert advise(no_rdma).lacking["mpi_over_tcp"] == "no active RDMA port"


def test_a_setting_and_locked_memory_are_named_beside_the_evidence() -> None:
    limits = {"memlock_unlimited": False, "memlock_bytes": 65536, "affinity": "0-19", "cpus": 20}
    environment = machine(variables={"OMPI_MCA_btl": "tcp,self"}, limits=limits)
    slow = one("mpi_over_tcp", evidence([*network(mpi=2.8e9)], environment))
    assert "OMPI_MCA_btl=tcp,self is set" in slow.seen and "ulimit -l is 64 KiB on n1" in slow.seen
    assert hints_of("mpi_over_tcp", evidence([*network()], environment)) == []  # it is fast all the same
    latency_alone = [record for record in network() if record.case in ("osu_latency", "ib_write_bw")]
    setting = one("mpi_over_tcp", evidence(latency_alone, environment))
    assert setting.seen.startswith("mlx5_0/1 of n1 is active; OMPI_MCA_btl=tcp,self is set; ulimit")


def test_small_messages_between_nodes_are_held_to_the_path_below() -> None:
    slow = [*network(mpi_latency=9e-6)]
    hint = one("small_messages", evidence(slow))
    assert hint.gain == pytest.approx(9 / 1.1)
    in_python = evidence([*network(mpi_latency=5e-6)], argv=["mpirun", "-n", "2", "python", "osu.py"])
    assert hints_of("small_messages", in_python) == []  # Python's share of every call
    assert hints_of("small_messages", evidence([*network(mpi_latency=5e-6)])) != []


def test_real_ranks_that_yield_are_seen_within_a_node() -> None:
    measured = [
        replace(record, nodes=1, hosts=("n1",)) for record in captured("advice", "yield_latency.txt", "osu")
    ]
    assert "within a node" in one("small_messages", evidence(measured)).seen
    usual = [replace(record, nodes=1, hosts=("n1",)) for record in captured("osu", "osu_latency.out", "osu")]
    assert hints_of("small_messages", evidence(usual)) == []


def test_traffic_over_the_slow_interface() -> None:
    slow = dict(ETHERNET, name="eno1", speed_bit_s=1e9, mtu=1500)
    environment = machine(interfaces=[slow, ETHERNET])
    with pytest.raises(AssertionError, match="no TCP test between nodes that names an interface"):
        hints_of("interface", evidence([*network(tcp=0.117e9, interface="")], environment))
    by_name = one("interface", evidence([*network(tcp=0.05e9, interface="eno1")], environment))
    assert "over eno1 (1 Gbit/s); eth0 has 25 Gbit/s" in by_name.seen
    assert by_name.gain == pytest.approx(25 / 8 / 0.05)
    assert hints_of("interface", evidence([*network(tcp=2.9e9, interface="eth0")], environment)) == []


def test_sockets_over_infiniband() -> None:
    hint = one("ipoib", evidence([*network(tcp=1.5e9, interface="ib0")]))
    assert "over ib0 reached 1.5 GB/s, but perftest ib_write_bw reached 6.2 GB/s" in hint.seen
    assert hint.gain == pytest.approx(6.2 / 1.5)
    assert hints_of("ipoib", evidence([*network(tcp=5e9, interface="ib0")])) == []


def test_small_frames_on_a_fast_link() -> None:
    environment = machine(interfaces=[dict(ETHERNET, mtu=1500)])
    hint = one("mtu", evidence([*network(tcp=1.9e9)], environment))
    # 25 Gbit/s × 1448/1514 in frames of 1500 bytes, × 8948/9014 in those of 9000
    assert "1.9 GB/s of the 2.99 GB/s that frames of 1500 bytes leave on eth0" in hint.seen
    assert hint.gain == pytest.approx(25e9 / 8 * 8948 / 9014 / 1.9e9)
    assert hints_of("mtu", evidence([*network(tcp=2.9e9)], environment)) == []
    assert hints_of("mtu", evidence([*network(tcp=1.9e9)], machine(interfaces=[ETHERNET]))) == []


SPREAD = (1.0, 1.01, 0.99, 1.02, 0.98, 1.0)


def sweep(latency: Any) -> list[Record]:
    sizes = [2**power for power in range(21)]
    return [
        record
        for size in sizes
        for record in records(
            "osu", "osu_latency", latency(size), metric="latency", size=size, spread=SPREAD
        )
    ]  # fmt: skip


def test_an_eager_limit_too_low_or_too_high() -> None:
    """Eager costs 1 µs + m/2 GB/s, rendezvous 4 µs + m/10 GB/s: they cross at 7500 bytes."""

    def switching_at(limit: int) -> list[Record]:
        return sweep(lambda m: 1e-6 + m / 2e9 if m <= limit else 4e-6 + m / 10e9)

    low = one("eager_limit", evidence(switching_at(512)))
    assert "the limit is too low" in low.seen
    # at 1 KiB: 4.1 µs for 1.51
    assert low.gain == pytest.approx(4.1024 / 1.512, rel=0.05)
    assert re.fullmatch(r"messages of 1 KiB to 4 KiB", low.of)
    high = one("eager_limit", evidence(switching_at(131072)))
    assert "the limit is too high" in high.seen
    # at 128 KiB: 66.5 µs for 17.1
    assert high.gain == pytest.approx(66.5 / 17.1, rel=0.05)
    both = [
        replace(record, params={"mpi": mpi}) for mpi in ("openmpi", "mpich") for record in switching_at(512)
    ]
    assert {hint.seen.partition(":")[0] for hint in hints_of("eager_limit", evidence(both))} == {
        "osu_latency (mpi openmpi)", "osu_latency (mpi mpich)"
    }  # fmt: skip
    assert hints_of("eager_limit", evidence(switching_at(8192))) == []
    assert hints_of("eager_limit", evidence(sweep(lambda m: 1e-6 + m / 2e9))) == []


def test_the_eager_limit_of_a_real_sweep() -> None:
    """Open MPI's shared memory sends up to 4096 bytes eagerly, headers included (btl_vader_eager_limit)."""
    example = ROOT / "docs" / "example" / "localhost"
    hint = one("eager_limit", gather([example]))
    assert "behind the switch at 2 KiB … 4 KiB" in hint.seen and "the limit is too low" in hint.seen


# --- the node -----------------------------------------------------------------------------------------


def test_one_socket_by_its_threads() -> None:
    hint = one("one_socket", evidence([*records("stream", "triad", 40e9, params={"threads": "10"})]))
    assert "with 10 threads, but n1 has 20 cores in 2 sockets" in hint.seen and hint.gain == 2
    assert (
        hints_of("one_socket", evidence([*records("stream", "triad", 40e9, params={"threads": "20"})])) == []
    )


def test_one_socket_beside_a_single_numa_node() -> None:
    alone = [
        replace(record, params={"level": "MEM", "workgroup": "M0"})
        for record in level("MEM", "load_avx", 40e9)
    ]
    whole = [
        replace(record, params={"level": "MEM", "workgroup": "N"})
        for record in level("MEM", "load_avx", 42e9)
    ]
    assert "one of its 2 NUMA nodes alone 40 GB/s" in one("one_socket", evidence([*alone, *whole])).seen
    both = [replace(record, value=(record.value or 0) * 1.9) for record in whole]
    assert hints_of("one_socket", evidence([*alone, *both])) == []


def test_one_socket_by_affinity() -> None:
    confined = machine(limits={"affinity": "0-9", "cpus": 10, "memlock_unlimited": True})
    hint = one("one_socket", evidence([*level("MEM", "load_avx", 40e9)], confined))
    assert "on CPUs 0-9 of one NUMA node only" in hint.seen


def test_a_governor_that_saves_power() -> None:
    cpu = machine()["cpu"] | {"frequency": {"governors": {"powersave": 20}, "min_hz": 1.2e9, "max_hz": 3e9}}
    hint = one("governor", evidence(healthy(), machine(cpu=cpu)))
    assert "powersave on 20 CPUs of n1" in hint.seen and hint.gain == pytest.approx(2.5)
    slow = one("governor", evidence([*peak("peakflops_avx", 200e9)], machine(cpu=cpu), PLATFORM))
    assert "peak double reached 50% of its nominal limit" in slow.seen and slow.gain == pytest.approx(2.0)
    fast = evidence([*peak("peakflops_avx", 390e9)], machine(cpu=cpu), PLATFORM)
    assert hints_of("governor", fast) == []
    # its clocks follow the load, so nobody knows what it costs
    cpu["frequency"]["driver"] = "intel_pstate"
    dynamic = one("governor", evidence(healthy(), machine(cpu=cpu)))
    assert "intel_pstate: clocks follow the load" in dynamic.seen and dynamic.gain is None


def test_huge_pages_off() -> None:
    off = machine(memory={"transparent_huge_pages": "never"})
    hint = one("huge_pages", evidence([*memory()], off, PLATFORM))
    assert hint.gain == pytest.approx(102.4 / 80) and not isinstance(hint.trial, str)
    none = machine(memory={"transparent_huge_pages": "never", "huge_pages": 0})
    untried = one("huge_pages", evidence([*memory()], none, PLATFORM)).trial
    assert isinstance(untried, str) and "root has reserved no huge pages" in untried
    lacking = advise(evidence([*memory()], off)).lacking["huge_pages"]
    assert lacking.startswith("no nominal bandwidth of main memory")
    assert hints_of("huge_pages", evidence([*memory(101e9)], off, PLATFORM)) == []


def test_ranks_that_are_not_bound() -> None:
    unbound = ["mpirun", "--bind-to", "none", "-n", "20", "xhpl"]
    hint = one("pinning", evidence(healthy(), argv=unbound))
    assert hint.seen.startswith("--bind-to none on n1; the best launch of")
    assert hint.gain == pytest.approx(max(AROUND) / 1.0) or hint.gain == pytest.approx(1 / min(AROUND))
    named = evidence(healthy(), machine(variables={"OMP_PROC_BIND": "false"}))
    assert "OMP_PROC_BIND=false" in one("pinning", named).seen
    assert hints_of("pinning", evidence(healthy(), argv=["mpirun", "-n", "20", "xhpl"])) == []
    bare = ["env", "OMP_NUM_THREADS=20", "./stream"]
    free = one("pinning", evidence([*memory()], argv=bare))
    assert free.seen.startswith("OMP_PROC_BIND is not set for 20 threads on n1; the best launch of triad")
    assert hints_of("pinning", evidence([*memory()], argv=[*bare[:2], "OMP_PROC_BIND=spread", bare[2]])) == []
    unpinned = evidence([*memory()], argv=[*bare[:2], "OMP_PROC_BIND=false", bare[2]])
    assert one("pinning", unpinned).seen.startswith("OMP_PROC_BIND=false on n1")
    assert (
        hints_of("pinning", evidence([*memory()], machine(variables={"OMP_PLACES": "cores"}), argv=bare))
        == []
    )
    single = machine()["cpu"] | {"sockets": 1, "numa_nodes": [{"node": 0, "cpus": "0-19"}]}
    assert hints_of("pinning", evidence(healthy(), machine(cpu=single), argv=unbound)) == []


def test_ranks_that_take_turns() -> None:
    crowded = evidence(healthy(), argv=["mpirun", "-n", "64", "osu_latency"])
    assert "ranks a node on 20 CPUs: they took turns" in one("taking_turns", crowded).seen
    busy = machine(load={"busy": [{"name": "cc1", "cores": 12.0}]})
    assert "others used 12.0 of the 20 CPUs" in one("taking_turns", evidence(healthy(), busy)).seen
    assert hints_of("taking_turns", evidence(healthy())) == []


def on_nodes(slow: float) -> list[Record]:
    """Three benchmarks of each of five nodes, n3 of them slower."""
    return [
        replace(record, hosts=(f"n{node}",), value=(record.value or 0) * (slow if node == 3 else 1.0))
        for node in range(5)
        for case in ("copy", "add", "triad")
        for record in records("stream", case, 80e9)
    ]


def test_one_slow_node_of_five() -> None:
    hint = one("slow_node", evidence(on_nodes(0.8)))
    assert hint.seen.startswith("n3 reaches 80.0% of the other nodes' median") and hint.gain == pytest.approx(
        1.25
    )
    assert hints_of("slow_node", evidence(on_nodes(0.97))) == []


def test_suspects_of_measured_pairs_are_passed_on(tmp_path: Path) -> None:
    suspect = {
        "kind": "uplink", "name": "leaf1", "nodes": ["n1"], "evidence": "slower in 9 of 9", "chance": 1e-9,
        "slowdown": 0.2, "closer": "look", "dead": False,
    }  # fmt: skip
    judged = {
        "better": "higher", "nodes": 8, "judged": 8, "measurements": 28, "failed": 0, "typical": 1e9,
        "noise": 0.01, "disturbed": 0.0, "healthy": False, "suspects": [suspect], "undecided": [], "rule": [],
    }  # fmt: skip
    test = {"series": "tcp_bw", "case": "tcp_bw", "metric": "bandwidth", "size": None, "qualifiers": []}
    (tmp_path / "pairs").mkdir()
    write_pairs(tmp_path / "pairs", [msgspec.convert({**test, "verdict": judged}, PairsVerdict)])
    save_csv(healthy(), tmp_path / "records.csv")
    (tmp_path / "run").mkdir()
    save_csv(healthy(), tmp_path / "run" / "records.csv")
    save_csv([], tmp_path / "pairs" / "records.csv")
    for named in ([tmp_path], [tmp_path / "run", tmp_path / "pairs"]):
        hint = one("slow_node", gather(named))
    assert hint.seen == "uplink leaf1 in tcp_bw: slower in 9 of 9"
    assert (hint.do, hint.gain) == ("look", pytest.approx(1.25))


# --- applications -------------------------------------------------------------------------------------


def test_an_application_bound_by_memory() -> None:
    """8 GFLOP/s a node over 8 bytes a FLOP: 64 of 80 GB/s, so at most 1.25 times as fast."""
    hpcg = [
        *launch("HPCG", 1, 8e9, 8e11),
        *(
            replace(record, metric="bandwidth", unit="B/s", value=64e9)
            for record in launch("HPCG", 1, 8e9, 8e11)
            if record.metric == "flops"
        ),
    ]
    ceilings = [*level("MEM", "load_avx", 80e9), *peak("peakflops_avx", 390e9)]
    hint = one("memory_bound", evidence([*hpcg, *ceilings]))
    assert hint.gain == pytest.approx(1.25) and "MEM load" in hint.seen
    light = [
        replace(record, value=1e9) if record.metric == "bandwidth" else replace(record, value=300e9)
        if record.metric == "flops" else record
        for record in hpcg
    ]  # fmt: skip
    assert hints_of("memory_bound", evidence([*light, *ceilings])) == []
    # 2 % of the memory's bandwidth: that is not what holds it up
    slow = [
        replace(record, value=(record.value or 0) / 40) if record.metric in ("flops", "bandwidth") else record
        for record in hpcg
    ]
    lacking = advise(evidence([*slow, *ceilings])).lacking["memory_bound"]
    assert "no ceiling explains" in lacking and "HPCG reaches 0.02 of the tightest, MEM load" in lacking


def test_an_application_that_the_network_holds_up() -> None:
    """100 s of FLOP; 155 GB at 6.2 GB/s need 25 of them. Without them the peak is what is left."""
    busy = [*launch("Himeno", 2, 8e9, 8e11, received=155e9, sent=155e9), *network()]
    assert one("network_bound", evidence(busy)).gain is None
    hint = one("network_bound", evidence([*busy, *peak("peakflops_avx", 10e9)]))
    assert hint.gain == pytest.approx(2.5)  # 4 GFLOP/s a node
    quiet = [*launch("Himeno", 2, 8e9, 8e11, received=1e9, sent=1e9), *network()]
    assert hints_of("network_bound", evidence(quiet)) == []
    # 632 GB need 102 % of the time
    all_of_it = [*launch("Himeno", 2, 8e9, 8e11, received=632e9, sent=1e9), *network()]
    hint = one("network_bound", evidence([*all_of_it, *peak("peakflops_avx", 10e9)]))
    assert "its bytes alone would take 1.02 times its run time" in hint.seen and hint.gain is None


def test_an_application_observed_apart_meets_the_ceilings_of_a_run(tmp_path: Path) -> None:
    """Both folders have a raw file of one name; what is known of it stays its own."""
    busy = list(launch("Himeno", 2, 8e9, 8e11, received=155e9, sent=155e9))
    raw = busy[0].raw
    run, observed = tmp_path / "runs" / "000001", tmp_path / "observed"
    for folder, measured in ((run, [replace(record, raw=raw) for record in network()]), (observed, busy)):
        made = LaunchLog((folder / raw).parent.parent, "osu", 1)
        made.append(Launch(id=0, argv=(folder.name,), started="", seconds=1.0, exit=0, raw="raw/0000.out"))
        made.close()
        save_csv(measured, folder / "records.csv")
        (folder / "environment.json").write_text(json.dumps(machine(host={"name": folder.name})))
    assert advise(gather([run])).lacking["network_bound"].startswith("no application")
    assert advise(gather([observed])).lacking["network_bound"].startswith("no network")
    both = gather([tmp_path / "runs", observed])
    hint = one("network_bound", both)
    assert hint.raw == (f"../../observed/{raw}",)
    assert {raw: started.argv for raw, started in both.circumstances.launches.items()} == {
        raw: ("000001",), hint.raw[0]: ("observed",)
    }  # fmt: skip
    assert [name for name, _ in both.facts("cpu")] == ["000001", "observed"]
    assert both.circumstances.environments[hint.raw[0]]["host"]["name"] == "observed"
    shown = in_process.npc("advise", "runs", "observed", cwd=tmp_path).stdout
    count = len(both.records)
    assert shown.startswith(f"runs/000001 and observed: {count} of {count} records of fuchs usable\n")
    assert "(rule network_bound)" in shown and f"raw:    observed/{raw}\n" in shown
    document = json.loads(npc(tmp_path / "runs", observed, "--json").stdout)
    assert document["folders"] == [str(run), str(observed)] and document["platform"] == "fuchs"
    save_csv([replace(record, platform="localhost") for record in busy], observed / "records.csv")
    several = npc(run, observed)
    assert several.returncode == 2
    assert "records of several platforms (fuchs, localhost): choose one by --platform" in several.stderr
    chosen = npc(run, observed, "--platform", "localhost")
    assert chosen.stdout.startswith(f"{observed}: {len(busy)} of {len(busy)} records of localhost usable\n")


# --- the command --------------------------------------------------------------------------------------


def npc(*words: str | Path) -> subprocess.CompletedProcess[str]:
    return in_process.npc("advise", *words)


def test_the_command_says_what_was_found_and_what_was_not_judged(tmp_path: Path) -> None:
    save_csv([*network(mpi=2.8e9, mpi_latency=25e-6), *memory()], tmp_path / "records.csv")
    (tmp_path / "environment.json").write_text(json.dumps(machine()))
    shown = npc(tmp_path)
    assert shown.returncode == 0, shown.stderr
    assert "1. MPI over TCP although RDMA is there (rule mpi_over_tcp)" in shown.stdout
    assert re.search(r"brings: MPI messages between nodes: at most 22\.7 times as fast", shown.stdout)
    assert "Not judged, for lack of evidence:\n  eager_limit: " in shown.stdout
    document = json.loads(npc(tmp_path, "--json").stdout)
    assert document["hints"][0]["rule"] == "mpi_over_tcp"
    named = {hint["rule"] for hint in document["hints"]} | {*document["silent"], *document["lacking"]}
    assert named == {rule.name for rule in all_rules()}


def test_the_command_on_a_healthy_machine_and_on_bad_input(tmp_path: Path) -> None:
    save_csv(healthy(), tmp_path / "records.csv")
    (tmp_path / "environment.json").write_text(json.dumps(machine()))
    count = len(healthy())
    shown = npc(tmp_path).stdout
    assert shown.startswith(f"{tmp_path}: {count} of {count} records of fuchs usable\n")
    assert "Nothing was found that holds fuchs back." in shown
    for words, message in (
        ((), "name a run's folder"),
        ((tmp_path, "--platform", "nowhere"), "there is no such platform.toml"),
        ((tmp_path.parent / "nothing",), "does not exist"),
    ):
        ended = npc(*words)
        assert ended.returncode == 2 and message in ended.stderr and "Traceback" not in ended.stderr
    broken = [replace(record, value=None, status="failed: exit code 1") for record in healthy()]
    for measured, words in ((broken, "none of its records is usable"), ([], "it has no records")):
        save_csv(measured, tmp_path / "records.csv")
        ended = npc(tmp_path)
        assert ended.returncode == 1 and f": {words}.\n" in ended.stdout
        assert "Nothing could be judged" in ended.stdout and "Nothing was found" not in ended.stdout
    assert npc("--rules").stdout.count("\n") == 2 * len(all_rules())
