"""The lie detectors: each rule catches its lie, and none accuses a number that can be true."""

from __future__ import annotations

import csv
import json
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from npc import parsers
from npc.machine.load import LoadMonitor, load_average, stolen_ticks
from npc.machine.platform import Interface, Platform, link_data_rate, read_platform
from npc.parsers.run.collect import collect_run
from npc.records.launch import Launch, LaunchLog
from npc.records.record import Record, replace, save_csv
from npc.records.series import Series
from npc.records.units import METRICS
from npc.validity import all_rules, find_lies, judged
from npc.validity.arithmetic import contradiction
from npc.validity.disturbance import in_words
from npc.validity.rule import Circumstances
from npc.validity.rules.cache import last_level_bytes
from npc.validity.run import judge_run
from npc.validity.unit_errors import likely_slip
from tests import captured
from tests.lab.in_process import npc
from tests.paths import ROOT

TWO = ("n1", "n2")


def record(benchmark: str, case: str, metric: str, value: float, **fields: Any) -> Record:
    given_fields = {"nodes": 1, "hosts": ("n1",), "raw": "raw/0000.out", **fields}
    return Record(
        time="2026-11-21T08:00:00Z",
        platform="cluster",
        benchmark=benchmark,
        case=case,
        metric=metric,
        value=value,
        unit=METRICS[metric].unit,
        **given_fields,
    )


def link(name: str, link_name: str) -> dict[str, Interface]:
    return {name: Interface(name, link_name, link_data_rate(link_name))}


def cluster(**fields: Any) -> Platform:
    return Platform(name="cluster", **fields)


def found(
    *records: Record, platform: Platform | None = None, launch: Launch | None = None, **environment: Any
) -> dict[str, str]:
    """Rule → reason of all that is found."""
    raws = {each.raw for each in records}
    circumstances = Circumstances(
        platform, dict.fromkeys(raws, environment), dict.fromkeys(raws, launch) if launch else {}
    )
    return {finding.rule.name: finding.reason for finding in find_lies(records, circumstances)}


# -- what a link can carry -----------------------------------------------------------------------------


def test_the_published_ceiling_of_an_fdr_link_is_a_unit_slip() -> None:
    """The companion repository of Bartelheimer, Zhu, Neuwirth 2023 (not the paper) has 6939.56 MB/s for FDR
    (6818 MB/s): 6618.08 MiB/s × 2^20."""
    fdr = read_platform(ROOT / "platforms/fuchs-csc/platform.toml")
    bandwidth = record("qperf", "rc_bw", "bandwidth", 6939.56e6, nodes=2, hosts=TWO)
    reason = found(bandwidth, platform=fdr)["link"]
    assert "6.94 GB/s is above the 6.818 GB/s that ib0 (4x FDR) can carry" in reason
    assert "divided by 1.048576 it is 6.618 GB/s: MiB/s were taken for MB/s?" in reason
    true = record("qperf", "rc_bw", "bandwidth", 6618.08e6, nodes=2, hosts=TWO)
    assert not found(true, platform=fdr)


@pytest.mark.parametrize(
    ("case", "link_name", "mtu", "share"),
    [
        ("tcp_bw", "10 GbE", None, 1448 / 1514),
        ("tcp_bw", "10 GbE", 9000, 8948 / 9014),
        ("udp_bw", "10 GbE", None, 1.0),
        ("tcp_bw", "4x EDR", None, 1.0),
    ],
)
def test_tcp_gets_the_payload_of_an_ethernets_frames(
    case: str, link_name: str, mtu: int | None, share: float
) -> None:
    platform = cluster(interfaces=link("eth0", link_name))
    interfaces = [{"name": "eth0", "mtu": mtu}] if mtu else []
    for part, caught in ((1.02, True), (1.005, False)):
        value = link_data_rate(link_name) * share * part
        bandwidth = record("qperf", case, "bandwidth", value, nodes=2, hosts=TWO)
        assert ("link" in found(bandwidth, platform=platform, interfaces=interfaces)) is caught


@pytest.mark.parametrize(
    ("nominal", "rate", "reason"),
    [
        ("4x FDR", "56 Gb/sec (4X FDR)", ""),
        ("4x HDR", "200 Gb/sec (4X HDR)", ""),
        ("4x HDR", "100 Gb/sec (2X HDR)", "ib0 ran at 100 Gb/sec (2X HDR), nominal is 4x HDR"),
        ("4x EDR", "14 Gb/sec (1X FDR)", "ib0 ran at 14 Gb/sec (1X FDR), nominal is 4x EDR"),
    ],
)
def test_a_link_with_fewer_lanes_than_nominal_is_told(nominal: str, rate: str, reason: str) -> None:
    seen = {
        "interfaces": [{"name": "ib0", "speed_bit_s": None, "rdma_devices": ["mlx5_0"]}],
        "rdma": [{"device": "mlx5_0", "rate": rate, "rate_bit_s": int(rate.split()[0]) * 10**9}],
    }
    slow = record("qperf", "rc_bw", "bandwidth", 1e9, nodes=2, hosts=TWO)
    said = found(slow, platform=cluster(interfaces=link("ib0", nominal)), **seen)
    assert said == ({"below_nominal": reason} if reason else {})
    ethernet = [{"name": "eth0", "speed_bit_s": 10**9, "rdma_devices": []}]
    said = found(slow, platform=cluster(interfaces=link("eth0", "10 GbE")), interfaces=ethernet)
    assert said == {"below_nominal": "eth0 ran at 1 Gbit/s, nominal is 10 GbE"}


def test_what_stays_on_one_host_is_on_no_link() -> None:
    platform = cluster(interfaces=link("eth0", "1 GbE"))
    for place in ({"nodes": 1, "hosts": ("n1",)}, {"nodes": 2, "hosts": ("n1", "n1")}):
        assert not found(record("qperf", "tcp_bw", "bandwidth", 4e9, **place), platform=platform)
    assert not found(record("stream", "triad", "bandwidth", 4e9, nodes=2, hosts=TWO), platform=platform)


@pytest.mark.parametrize(
    ("benchmark", "case", "params", "nodes", "links"),
    [
        ("osu", "osu_bw", {}, 2, 1),
        ("osu", "osu_bibw", {}, 2, 2),
        ("imb", "Sendrecv", {}, 2, 2),
        ("perftest", "ib_send_bw", {"direction": "bidir"}, 2, 2),
        ("netpipe", "bidirectional", {}, 2, 2),
        ("iperf3", "udp", {"direction": "bidir_forward"}, 2, 1),
        ("patterns", "b_eff", {}, 3, 3),
        ("osu", "osu_mbw_mr", {}, 8, 4),
    ],
)
def test_both_directions_and_several_pairs_have_a_link_each(
    benchmark: str, case: str, params: Mapping[str, str], nodes: int, links: int
) -> None:
    platform = cluster(interfaces=link("ib0", "4x EDR"))
    for value, caught in ((links * 12.5e9 * 0.99, False), (links * 12.5e9 * 1.02, True)):
        hosts = tuple(f"n{number}" for number in range(nodes))
        bandwidth = record(benchmark, case, "bandwidth", value, nodes=nodes, hosts=hosts, params=params)
        assert ("link" in found(bandwidth, platform=platform)) is caught


@pytest.mark.parametrize(
    ("benchmark", "case", "params", "caught"),
    [
        ("qperf", "rc_bi_bw", {}, False),
        ("hpcc", "PingPong", {"processes": "4", "statistic": "max"}, False),
        ("hpcc", "PingPong", {"processes": "4"}, False),
        ("hpcc", "PingPong", {"processes": "4", "statistic": "min"}, True),
        ("hpcc", "PingPong", {"processes": "2", "statistic": "max"}, True),
        ("hpcc", "NaturallyOrderedRing", {"processes": "8"}, False),
        ("patterns", "b_eff", {"processes": "8"}, False),
        ("patterns", "rings", {"processes": "2"}, False),
    ],
)
def test_messages_within_a_node_and_both_ways_may_be_above_one_link(
    benchmark: str, case: str, params: Mapping[str, str], caught: bool
) -> None:
    bandwidth = record(benchmark, case, "bandwidth", 20e9, nodes=2, hosts=TWO, params=params)
    assert ("link" in found(bandwidth, platform=cluster(interfaces=link("ib0", "4x EDR")))) is caught


def test_nodes_without_a_rank_have_no_link() -> None:
    platform = cluster(interfaces=link("ib0", "4x EDR"))
    for ranks, caught in (("2", True), ("4", False)):
        bandwidth = record("osu", "osu_bw", "bandwidth", 24e9, nodes=4, hosts=(*TWO, "n3", "n4"))
        bandwidth = replace(bandwidth, params={"ranks": ranks})
        assert ("link" in found(bandwidth, platform=platform)) is caught


def test_the_kernels_speed_of_a_named_interface_is_a_ceiling_too() -> None:
    interfaces = [{"name": "eth1", "mtu": 1500, "speed_bit_s": 1e9}]
    bandwidth = record("iperf3", "tcp", "bandwidth", 940e6, nodes=2, hosts=TWO, params={"interface": "eth1"})
    reason = found(bandwidth, interfaces=interfaces)["link"]
    assert reason.endswith("divided by 8 it is 117.5 MB/s: bits were taken for bytes?")


def test_without_limits_nothing_is_claimed() -> None:
    assert not found(record("qperf", "tcp_bw", "bandwidth", 1e15, nodes=2, hosts=TWO))
    assert not found(record("likwid", "peakflops", "flops", 1e20), platform=cluster())


@given(st.floats(0.5, 1.0), st.sampled_from([2**20 / 10**6, 2**30 / 10**9, 8.0, 1e3, 1e6]))
def test_a_slip_is_named_whenever_its_factor_fits(part: float, factor: float) -> None:
    assert likely_slip(part * factor * 1e9, 1e9, "B/s")
    assert not likely_slip(1e9 * 1e13, 1e9, "B/s")


# -- what a node can do --------------------------------------------------------------------------------

FUCHS = cluster(cores=20, clock_hz=2.5e9, simd_bits=256, simd_units=2, fma=False, memory_bandwidth=119.4e9)


def test_memory_is_not_faster_than_its_channels() -> None:
    for benchmark, case, params, value, caught in (
        ("stream", "triad", {}, 125e9, True),
        ("stream", "triad", {}, 95e9, False),
        ("likwid", "load_avx", {"level": "MEM"}, 125e9, True),
        ("hpcg", "HPCG_raw", {"direction": "read"}, 125e9, True),
        ("likwid", "load_avx", {"level": "L1"}, 2e12, False),
    ):
        bandwidth = record(benchmark, case, "bandwidth", value, params=params)
        assert ("memory" in found(bandwidth, platform=FUCHS)) is caught


def test_a_raised_clock_is_noted_and_an_impossible_one_invalid() -> None:
    """Table 4 of the paper: 400 GFLOP/s a node; its companion repository has 418 measured."""
    params = {"precision": "double"}
    assert set(
        found(record("likwid", "peakflops_avx", "flops", 418.06e9, params=params), platform=FUCHS)
    ) == {"raised_clock"}
    turbo = {"frequency": {"max_hz": 3.3e9}}
    for value, rules in ((500e9, {"raised_clock"}), (540e9, {"peak"})):
        flops = record("likwid", "peakflops_avx", "flops", value, params=params)
        assert set(found(flops, platform=FUCHS, cpu=turbo)) == rules
    single = record("likwid", "peakflops_sp_avx", "flops", 790e9, params={"precision": "single"})
    assert not found(single, platform=FUCHS)


def test_a_core_has_its_part_of_the_peak() -> None:
    one = {"OMP_NUM_THREADS": "1"}
    for benchmark, case, params, value, caught in (
        ("likwid", "peakflops_avx", {"threads": "1"}, 45e9, True),
        ("likwid", "peakflops_avx", {"threads": "1"}, 35e9, False),
        ("likwid", "peakflops_avx", {"threads": "40"}, 430e9, False),
        ("hpcc", "SingleDGEMM", {"processes": "20"}, 45e9, True),
        ("hpcc", "StarDGEMM", {"processes": "20"}, 45e9, True),
        ("hpcc", "StarDGEMM", {"processes": "20", "statistic": "sum"}, 390e9, False),
        ("hpcg", "HPCG_raw", {"processes": "4", "threads": "2"}, 310e9, False),
        ("hpcg", "HPCG_raw", {"processes": "4", "threads": "2"}, 330e9, True),
    ):
        flops = record(benchmark, case, "flops", value, params=params)
        assert ("peak" in found(flops, platform=FUCHS, variables=one)) is caught, (case, value)
    single = record("hpcc", "SingleDGEMM", "flops", 45e9, params={"processes": "1"})
    assert "peak" not in found(single, platform=FUCHS), "its BLAS may have used all cores"


CACHES = [
    {"level": 1, "type": "data", "size_bytes": 32768, "instances": 20},
    {"level": 3, "type": "unified", "size_bytes": 25 * 2**20, "instances": 2},
]


@pytest.mark.parametrize(
    ("elements", "caught"), [(10_000_000, True), (26_214_400, False), (26_214_399, True)]
)
def test_stream_needs_four_times_the_last_level_caches_of_all_sockets(elements: int, caught: bool) -> None:
    assert last_level_bytes(CACHES) == 50 * 2**20
    triad = record("stream", "triad", "bandwidth", 60e9, size=24 * elements)
    assert ("arrays" in found(triad, cpu={"caches": CACHES})) is caught
    assert not found(triad, cpu={"caches": None}), "unknown caches accuse nobody"


def test_the_arrays_of_hpccs_processes_add_up() -> None:
    for processes, caught in (("1", True), ("20", False)):
        star = record(
            "hpcc", "StarSTREAM_Triad", "bandwidth", 3e9, size=24 * 2_000_000, params={"processes": processes}
        )
        assert ("arrays" in found(star, cpu={"caches": CACHES})) is caught


@pytest.mark.parametrize(
    ("case", "size", "nodes", "noted"),
    [
        ("himeno", 4 * 14 * 64 * 64 * 128, 1, True),
        ("himeno", 4 * 14 * 256 * 256 * 512, 1, False),
        ("himeno", 4 * 14 * 256 * 256 * 512, 4, True),
        ("HPCG", 600 * 2**20 - 1, 1, True),
        ("HPCG", 600 * 2**20, 1, False),
    ],
)
def test_a_program_s_arrays_are_held_against_the_caches_as_stream_s_are(
    case: str, size: int, nodes: int, noted: bool
) -> None:
    """Twelve times 50 MiB, of every node; only a note, since its FLOP/s are true."""
    bandwidth = record(case.lower(), case, "bandwidth", 60e9, size=size, nodes=nodes)
    assert ("cached" in found(bandwidth, cpu={"caches": CACHES})) is noted
    assert not found(bandwidth, cpu={"caches": None}), "unknown caches accuse nobody"


# -- file systems --------------------------------------------------------------------------------------

LIMITED = Platform(name="cluster", io_read_bandwidth=4e9, io_write_bandwidth=2e9)


@pytest.mark.parametrize(
    ("case", "value", "fields", "caught"),
    [
        ("write", 2.01e9, {}, False),
        ("write", 2.1e9, {}, True),
        ("read", 2.1e9, {}, False),
        ("read", 4.1e9, {"params": {"direct": "0"}}, True),
        ("randrw", 3e9, {"params": {"direction": "write"}}, True),
        ("randrw", 3e9, {"params": {"direction": "read"}}, False),
        ("write", 3.9e9, {"nodes": 2, "hosts": TWO}, False),
        ("write", 4.1e9, {"nodes": 2, "hosts": TWO}, True),
        ("write", 9e9, {"params": {"target": "/local"}}, False),
    ],
)
def test_a_file_system_gives_no_more_than_its_limit(
    case: str, value: float, fields: dict[str, Any], caught: bool
) -> None:
    written = record("fio", case, "bandwidth", value, **fields)
    assert ("io_limit" in found(written, platform=LIMITED)) is caught
    assert "io_limit" not in found(written), "without limits nothing is claimed"


@pytest.mark.parametrize(
    ("case", "params", "rule"),
    [
        ("write", {"direct": "0", "file_size": "1000"}, "page_cache"),
        ("write", {"direct": "0", "file_size": "1000", "end_fsync": "1"}, ""),
        ("write", {"direct": "1", "file_size": "1000"}, ""),
        ("write", {"direct": "0", "file_size": "100000000000"}, ""),
        ("read", {"direct": "0", "file_size": "1000"}, "read_cached"),
        ("read", {"direct": "1", "file_size": "1000"}, ""),
        ("read", {"direct": "0"}, ""),
        ("write", {"direct": "1", "filesystem": "tmpfs", "target": "run"}, "in_memory"),
        ("write", {"direct": "1", "filesystem": "tmpfs", "target": "/dev/shm"}, ""),
        ("write", {"direct": "1", "filesystem": "ext4", "target": "run", "filled": "0.95"}, "full"),
        ("write", {"direct": "1", "filesystem": "ext4", "target": "run", "filled": "0.2"}, ""),
        ("filestat", {"filesystem": "nfs4", "others": "0.250"}, "other_traffic"),
        ("read", {"direct": "1", "filesystem": "ext4", "others": "0.040"}, ""),
    ],
)
def test_what_is_not_the_file_system_alone_is_told(case: str, params: dict[str, str], rule: str) -> None:
    measured = record("fio", case, "bandwidth", 1e9, params=params)
    assert set(found(measured, memory={"total_bytes": 64 * 10**9})) == ({rule} if rule else set())
    without = {"page_cache", "read_cached"} & set(found(measured))
    assert not without, "unknown memory accuses nobody"


def test_files_of_iors_processes_add_up() -> None:
    params = {"direct": "0", "block": "1000000000", "segments": "2", "processes": "20"}
    for memory, noted in ((64 * 10**9, True), (32 * 10**9, False)):
        read = record("ior", "read", "bandwidth", 1e9, params=params)
        assert ("read_cached" in found(read, memory={"total_bytes": memory})) is noted


# -- numbers that contradict each other ----------------------------------------------------------------

#: Intel MPI Benchmarks tables of a master's thesis (Wang, JAIST 2023): bytes, t_max in µs, MB/s.
SENDRECV = [
    (0, 3.24, 0.00), (1, 2.86, 0.70), (2, 2.88, 1.39), (4, 2.88, 2.77), (8, 2.94, 5.44), (16, 2.91, 10.98),
    (32, 2.95, 21.67), (64, 3.79, 33.75), (128, 3.31, 77.42), (256, 3.65, 140.25), (512, 4.19, 244.36),
    (1024, 6.23, 328.99), (2048, 11.47, 357.14), (4096, 22.12, 370.30), (8192, 43.48, 376.78),
    (16384, 86.42, 379.16), (32768, 172.62, 379.65), (65536, 350.46, 373.99), (131072, 688.02, 381.01),
    (262144, 1372.33, 382.04), (524288, 2739.75, 382.73), (1048576, 5473.76, 383.13),
    (2097152, 10941.79, 383.33), (4194304, 21878.73, 383.41),
]  # fmt: skip
EXCHANGE = [
    (0, 4.59, 0.00), (1, 4.74, 0.84), (2, 4.36, 1.84), (4, 4.11, 3.89), (8, 4.14, 7.73), (16, 4.22, 15.18),
    (32, 4.11, 31.14), (64, 4.50, 56.85), (128, 4.60, 111.34), (256, 5.13, 199.44), (512, 7.40, 276.85),
    (1024, 12.13, 337.71), (2048, 22.53, 363.54), (4096, 44.13, 371.28), (8192, 86.91, 377.02),
    (16384, 172.88, 379.09), (32768, 370.07, 354.18), (65536, 714.49, 366.89), (131072, 1527.82, 343.16),
    (262144, 3003.43, 349.13), (524288, 5738.52, 365.45), (1048576, 11178.56, 375.21),
    (2097152, 22123.74, 379.17), (4194304, 44116.94, 380.29),
]  # fmt: skip


def imb(case: str, rows: list[tuple[int, float, float]]) -> list[Record]:
    records = []
    for size, t_max_us, mb_s in rows:
        records.append(record("imb", case, "bandwidth", mb_s * 1e6, size=size))
        records.append(record("imb", case, "latency", t_max_us / 1e6, size=size, params={"statistic": "max"}))
    return records


def test_imb_p2p_counts_messages_and_not_the_time() -> None:
    text = (ROOT / "tests/data/imb/p2p_pingpong.txt").read_text()
    rows = [
        Record.of(each, time="2026-11-21T08:00:00Z", platform="cluster", benchmark="imb", raw="raw/0000.out")
        for each in parsers.parse("imb", text)
    ]
    assert len(rows) > 40
    assert not {each.rule.name for each in find_lies(rows, Circumstances()) if each.rule.level == "invalid"}
    wrong = [
        replace(row, value=row.value * 1.024) if row.metric == "bandwidth" and row.value else row
        for row in rows
    ]
    assert "message_rate" in {each.rule.name for each in find_lies(wrong, Circumstances())}


def test_a_senders_count_stands_where_npb_saw_all_of_it_arrive() -> None:
    def sent(**params: str) -> Record:
        return record("sockperf", "udp_throughput", "bandwidth", 1e8, params={"side": "send", **params})

    assert "nobody knows" in found(sent())["arrived"]
    assert "nobody knows" in found(sent(received="much"))["arrived"]
    assert found(sent(received="0.450"))["arrived"] == "the sender's figure, of which 55% never arrived"
    assert not found(sent(received="0.998"))
    alone = record("iperf3", "udp", "bandwidth", 1e8, params={"side": "send"})
    for lost, rules in ((0.55, {"arrived"}), (0.001, set())):  # iperf3 before 3.11 prints nothing else
        assert set(found(alone, record("iperf3", "udp", "loss", lost))) == rules


@pytest.mark.parametrize(("case", "rows"), [("Sendrecv", SENDRECV), ("Exchange", EXCHANGE)])
def test_published_imb_rates_agree_with_their_bytes_and_times(
    case: str, rows: list[tuple[int, float, float]]
) -> None:
    assert "imb_rate" not in found(*imb(case, rows))
    assert len(rows) == 24
    for place in range(1, len(rows)):  # at size 0 there is no rate
        wrong = list(rows)
        size, t_max_us, mb_s = wrong[place]
        wrong[place] = (size, t_max_us, mb_s * 1.048576)
        findings = find_lies(imb(case, wrong), Circumstances())
        assert [(f.rule.name, f.place) for f in findings if f.rule.level == "invalid"] == [
            ("imb_rate", 2 * place)
        ]


def test_natural_oddities_are_noted_and_not_invalid() -> None:
    """The same tables: Exchange loses bandwidth at 32 KiB; Sendrecv is slower at 64 bytes than at 128."""
    for case, rows, first in (
        (
            "Exchange",
            EXCHANGE,
            "bandwidth falls from 379 MB/s at 16 KiB to 354 MB/s at 32 KiB: a protocol switch?",
        ),
        ("Sendrecv", SENDRECV, "latency falls from 3.79 µs at 64 B to 3.31 µs at 128 B: a protocol switch?"),
    ):
        findings = find_lies(imb(case, rows), Circumstances())
        assert {finding.rule.level for finding in findings} == {"note"}
        assert first in {finding.reason for finding in findings}
        assert all(each.ok for each in judged(imb(case, rows), findings))


def test_captured_imb_tables_are_not_accused() -> None:
    for tool, path in captured.all_outputs():
        if tool in ("imb", "osu", "perftest", "sockperf"):
            readings = captured.read(tool, path)
            records = [
                Record.of(reading, time="2026-11-21T08:00:00Z", platform="x", benchmark=tool, raw=path.name)
                for reading in readings
            ]
            doubtful = find_lies(records, Circumstances())
            accused = {finding.rule.name for finding in doubtful if records[finding.place].ok}
            assert accused <= {"shape", "arrived"}, path.name


def stream_text(elements: int, rows: list[tuple[str, str, str]]) -> str:
    """STREAM 5.10's output for these rows: kernel, MB/s, best time."""
    return (
        "STREAM version $Revision: 5.10 $\nThis system uses 8 bytes per array element.\n"
        f"Array size = {elements} (elements), Offset = 0 (elements)\n"
        + "".join(f"{kernel}:  {rate}  {best}  {best}  {best}\n" for kernel, rate, best in rows)
        + "Solution Validates: avg error less than 1.000000e-13 on all three arrays\n"
    )


@pytest.mark.parametrize(
    ("printed", "true", "rows"),
    [
        (100_000_000, 10_000_000, [
            ("Copy", "5768.6", "0.027736"), ("Scale", "5148.7", "0.031076"),
            ("Add", "8231.6", "0.029156"), ("Triad", "7763.7", "0.030913"),
        ]),
        (20_000_000, 2_000_000, [
            ("Copy", "13658.0572", "0.0023"), ("Scale", "14394.8657", "0.0022"),
            ("Add", "15051.3301", "0.0032"), ("Triad", "14897.6315", "0.0032"),
        ]),
    ],
)  # fmt: skip
def test_both_published_stream_tables_contradict_themselves(
    printed: int, true: int, rows: list[tuple[str, str, str]]
) -> None:
    """The same thesis: arrays a tenth of the printed ones, and then in a cache."""
    for reading in parsers.parse("stream", stream_text(printed, rows)):
        assert reading.status.startswith("invalid: ") and " is printed, but " in reading.status
    readings = parsers.parse("stream", stream_text(true, rows))
    assert len(readings) == 4 and all(reading.status == "ok" for reading in readings)
    for reading in readings:
        small = Record.of(reading, time="2026-11-21T08:00:00Z", platform="x", benchmark="stream", raw="r")
        assert "arrays" in found(small, cpu={"caches": CACHES})


@given(st.floats(1e3, 1e12), st.floats(1e-6, 1e2), st.floats(0.9, 1.1))
def test_rate_times_time_must_be_the_bytes(rate: float, seconds: float, off: float) -> None:
    said = contradiction(rate * off, rate * seconds, seconds)
    assert bool(said) is (abs(off - 1) > 0.01) or abs(abs(off - 1) - 0.01) < 1e-6


def test_a_bandwidth_must_be_its_message_rate_times_the_size() -> None:
    rate = record("osu", "osu_mbw_mr", "message_rate", 1e6, size=4096)
    for value, caught in ((4.096e9, False), (4.295e9, True), (4.096e6, True)):
        bandwidth = record("osu", "osu_mbw_mr", "bandwidth", value, size=4096)
        assert ("message_rate" in found(rate, bandwidth)) is caught


def test_what_the_receiver_never_got_is_no_bandwidth() -> None:
    sent = record("qperf", "udp_bw", "bandwidth", 3.6e9, size=61440, params={"side": "send"})
    for value, caught in ((1.45e9, True), (3.59e9, False)):
        received = record("qperf", "udp_bw", "bandwidth", value, size=61440)
        records = judged([sent, received], find_lies([sent, received], Circumstances()))
        assert [each.ok for each in records] == [not caught, True]
        assert records[0].value == 3.6e9
    alone = record("sockperf", "udp_throughput", "bandwidth", 1e9, params={"side": "send"})
    assert "nobody knows whether anything arrived" in found(alone)["arrived"]
    assert not found(record("sockperf", "tcp_throughput", "bandwidth", 1e9, params={"side": "send"}))


# -- counters ------------------------------------------------------------------------------------------


def launched(moved: Mapping[str, Mapping[str, int]] | None) -> Launch:
    return Launch(id=0, argv=("qperf",), started="", seconds=1.0, exit=0, raw="raw/0000.out", moved=moved)


BETWEEN = record("qperf", "tcp_bw", "bandwidth", 1e9, nodes=2, hosts=TWO)


@pytest.mark.parametrize(
    ("counters", "rule", "reason"),
    [
        ({"mlx5_0/1 link_downed": 1}, "link_down", "n2: mlx5_0/1 link_downed rose by 1 meanwhile"),
        ({"mlx5_0/1 symbol_error": 412}, "moved", "meanwhile on n2: mlx5_0/1 symbol_error rose by 412"),
        ({"mlx5_0/1 packet_seq_err": 1}, "moved", "meanwhile on n2: mlx5_0/1 packet_seq_err rose by 1"),
        ({"tcp RetransSegs": 9, "tcp OutSegs": 10000}, "", ""),
        ({"tcp RetransSegs": 9, "tcp OutSegs": 90}, "", "too few to say anything"),
        (
            {"tcp RetransSegs": 20, "tcp OutSegs": 10000, "eth0 rx_crc_errors": 3, "eth0 rx_packets": 9},
            "moved",
            "meanwhile on n2: eth0 rx_crc_errors rose by 3; "
            "n2: tcp RetransSegs rose by 20 (0.20% of 10000 packets)",
        ),
        (
            {"udp InErrors": 900, "udp RcvbufErrors": 880, "udp InCsumErrors": 20, "udp InDatagrams": 9000},
            "moved",
            "meanwhile on n2: udp InCsumErrors rose by 20; "
            "n2: udp RcvbufErrors rose by 880 (9.78% of 9000 packets)",
        ),
        ({"mlx5_0/1 port_xmit_wait": 99, "mlx5_0/1 port_xmit_data": 1000}, "", ""),
        (
            {"mlx5_0/1 port_xmit_wait": 500, "mlx5_0/1 port_xmit_data": 1000},
            "moved",
            "meanwhile on n2: mlx5_0/1 port_xmit_wait rose by 500",
        ),
        ({"cpu package_throttle_count": 2}, "moved", "meanwhile on n2: cpu package_throttle_count rose by 2"),
    ],
)
def test_counters_that_rose_meanwhile_are_told(counters: dict[str, int], rule: str, reason: str) -> None:
    said = found(BETWEEN, launch=launched({"n1": {}, "n2": counters}))
    assert said == ({rule: reason} if rule else {})


def test_links_are_nothing_to_memory_but_its_errors_are() -> None:
    triad = record("stream", "triad", "bandwidth", 1e9)
    rose = {"eth0 carrier_down_count": 1, "mc0/dimm3 dimm_ce_count": 2, "mlx5_0/1 symbol_error": 9}
    assert found(triad, launch=launched({"n1": rose})) == {
        "moved": "meanwhile on n1: mc0/dimm3 dimm_ce_count rose by 2"
    }
    rose = {"mc0/dimm3 dimm_ue_count": 1}
    assert "link_down" in found(triad, launch=launched({"n1": rose}))


def test_another_card_than_the_records_own_is_nothing_to_it() -> None:
    interfaces = [{"name": name, "driver": "i40e"} for name in ("eth0", "eth1")]
    launch = launched({"n1": {"eth1 rx_crc_errors": 5}})
    for name, told in (("eth0", False), ("eth1", True), ("bond0", True)):
        over = replace(BETWEEN, params={"interface": name})
        assert ("moved" in found(over, launch=launch, interfaces=interfaces)) is told


def test_a_cable_that_was_pulled_out_of_another_card_invalidates_nothing() -> None:
    def cards(*names: str) -> list[dict[str, Any]]:
        return [{"name": name, "driver": "i40e", "state": "up"} for name in names]

    launch = launched({"n1": {"eth1 carrier_down_count": 1}})
    for over, interfaces, rule in (
        ({"interface": "eth0"}, cards("eth0", "eth1"), None),
        ({"interface": "eth1"}, cards("eth0", "eth1"), "link_down"),
        ({"interface": "bond0"}, cards("eth0", "eth1"), "moved"),
        ({}, cards("eth0", "eth1"), "moved"),
        ({}, cards("eth1"), "link_down"),
        ({}, [], "link_down"),
    ):
        said = found(replace(BETWEEN, params=over), launch=launch, interfaces=interfaces)
        assert list(said) == ([rule] if rule else [])


def test_the_mark_of_a_record_tells_what_rose_where_its_files_are_gone(tmp_path: Path) -> None:
    log = LaunchLog(tmp_path, "qperf", planned=1)
    log.append(launched({"n2": {"mlx5_0/1 symbol_error": 412}}))
    log.close()
    (marked,) = judge_run(tmp_path, [BETWEEN], None)
    assert marked.ok and marked.params == {"moved": "n2 mlx5_0/1 symbol_error 412"}
    assert Series.of(marked) == Series.of(BETWEEN)
    assert found(marked) == {"moved": "meanwhile rose n2 mlx5_0/1 symbol_error 412"}


# -- curves --------------------------------------------------------------------------------------------


def test_a_fall_within_the_noise_of_repeats_is_none() -> None:
    def curve(second: list[float]) -> list[Record]:
        first = [1.0e-6, 1.1e-6, 1.2e-6, 1.3e-6, 1.4e-6, 1.5e-6]
        return [
            record("osu", "osu_latency", "latency", value, size=size, sample=number, raw=f"{number}")
            for size, values in ((8, first), (16, second))
            for number, value in enumerate(values)
        ]

    assert not found(*curve([0.9e-6, 1.0e-6, 1.0e-6, 1.1e-6, 1.1e-6, 1.2e-6]))
    assert "shape" in found(*curve([0.5e-6, 0.6e-6, 0.6e-6, 0.6e-6, 0.7e-6, 0.8e-6]))


def test_working_sets_are_no_messages() -> None:
    levels = [
        record("likwid", "load", "bandwidth", 1e12 / size, size=size, params={"level": level})
        for size, level in ((2**15, "L1"), (2**20, "L2"))
    ]
    streams = [record("stream", "triad", "bandwidth", 1e12 / n, size=n) for n in (10, 20)]
    assert not found(*levels, *streams)


@pytest.mark.parametrize(
    ("pages", "had", "noted"), [("huge", "0.420", True), ("huge", "0.998", False), ("small", "0.000", False)]
)
def test_huge_pages_that_were_not_had_are_noted(pages: str, had: str, noted: bool) -> None:
    params = {"pages": pages, "huge_pages": had}
    load = record("memory", "load", "latency", 1e-7, size=2**27, params=params)
    assert ("huge_pages" in found(load)) == noted


@pytest.mark.parametrize(
    ("params", "rule"),
    [
        ({"gpu_processes": "1"}, "gpu_shared"),
        ({"held_down_by": "power cap, hardware thermal slowdown"}, "gpu_clock"),
        ({"held_down_by": "power cap"}, ""),
        ({"gpu_processes": "0", "held_down_by": "nothing"}, ""),
    ],
)
def test_a_gpu_that_others_use_or_that_is_held_down(params: dict[str, str], rule: str) -> None:
    triad = record(
        "gpu", "triad", "bandwidth", 3e12, size=2**30, params={"gpu": "0", "level": "MEM", **params}
    )
    assert list(found(triad)) == [rule] * bool(rule)


@pytest.mark.parametrize(("clock", "noted"), [(345e6, True), (1.98e9, False)])
def test_a_gpu_that_works_at_the_clock_of_an_idle_one(clock: float, noted: bool) -> None:
    seen = record(
        "gpu", "clock", "clock", clock, params={"gpu": "0", "part": "memory", "highest_clock": "1980e6"}
    )
    assert ("gpu_clock" in found(seen)) == noted


# -- placement and load --------------------------------------------------------------------------------


def mpi_launch(*argv: str) -> Launch:
    return Launch(id=0, argv=argv, started="2026-11-21T08:00:00Z", seconds=1.0, exit=0)


@pytest.mark.parametrize(
    ("argv", "nodes", "cpus", "caught"),
    [
        (("mpirun", "-n", "4", "osu_bw"), 1, 2, True),
        (("mpirun", "-np", "4", "osu_bw"), 2, 2, False),
        (("env", "X=1", "/usr/bin/mpiexec", "-n", "3", "osu_bw"), 1, 2, True),
        (("srun", "--mpi=pmix", "-n", "2", "osu_bw"), 1, 2, False),
        (("mpirun", "-n", "2", "--oversubscribe", "osu_bw"), 1, 2, True),
        (("mpirun", "-n", "2", "--map-by", ":OVERSUBSCRIBE", "osu_bw"), 1, 4, True),
        (("osu_bw", "-n", "9"), 1, 2, False),
    ],
)
def test_ranks_that_take_turns_measure_the_scheduler(
    argv: tuple[str, ...], nodes: int, cpus: int, caught: bool
) -> None:
    hosts = tuple(f"n{number}" for number in range(nodes))
    latency = record("osu", "osu_latency", "latency", 2e-5, size=1, nodes=nodes, hosts=hosts)
    rules = found(latency, launch=mpi_launch(*argv), limits={"cpus": cpus})
    assert ("oversubscribed" in rules) is caught
    assert "oversubscribed" not in found(latency, launch=mpi_launch(*argv)), "unknown CPUs accuse nobody"


def test_more_threads_than_cpus_take_turns() -> None:
    for threads, caught in (("3", True), ("2", False), ("all", False)):
        triad = record("stream", "triad", "bandwidth", 1e9, params={"threads": threads})
        assert ("oversubscribed" in found(triad, limits={"cpus": 2})) is caught


@pytest.mark.parametrize(
    ("bound", "caught"),
    [
        ("0-9 10-19", False),
        ("0 1", True),
        ("0-9 10-11; 0-9 10-19", True),
        ("2 x 0-19", False),
        ("2 x 0-9", True),
        ("16 ranks, 10 each of 0-159", False),
        ("16 ranks, 1-2 each of 0-31", True),
        ("who knows", False),
    ],
)
def test_ten_threads_of_a_rank_need_ten_cpus_of_its_own(bound: str, caught: bool) -> None:
    hpcg = record(
        "hpcg",
        "HPCG",
        "flops",
        1e9,
        nodes=2,
        hosts=("n1", "n2"),
        params={"threads": "10", "rank_cpus": bound},
    )
    assert ("oversubscribed" in found(hpcg, limits={"cpus": 160})) is caught


@pytest.mark.parametrize(
    ("mpi", "name", "value", "caught"),
    [
        ("openmpi", "OMPI_MCA_rmaps_base_oversubscribe", "1", True),
        ("openmpi", "OMPI_MCA_rmaps_base_oversubscribe", "0", False),
        ("openmpi", "PRTE_MCA_rmaps_default_mapping_policy", ":oversubscribe", True),
        ("mpich", "OMPI_MCA_rmaps_base_oversubscribe", "1", False),
    ],
)
def test_open_mpi_is_told_to_oversubscribe_by_a_variable_too(
    mpi: str, name: str, value: str, caught: bool
) -> None:
    latency = record("osu", "osu_latency", "latency", 1e-6, params={"mpi": mpi})
    rules = found(
        latency, launch=mpi_launch("mpirun", "-n", "2"), limits={"cpus": 2}, variables={name: value}
    )
    assert ("oversubscribed" in rules) is caught
    assert not caught or f"with {name}={value}" in rules["oversubscribed"]


@pytest.mark.parametrize(
    ("server", "client", "hosts", "caught"),
    [
        ("0", "0", ("n1", "n1"), True),
        ("0", "1", ("n1", "n1"), False),
        ("0-1", "0-1", ("n1", "n1"), False),
        ("0", "0", TWO, False),
        ("?", "0", ("n1", "n1"), False),
    ],
)
def test_server_and_client_on_one_cpu(server: str, client: str, hosts: tuple[str, ...], caught: bool) -> None:
    latency = record(
        "qperf", "tcp_lat", "latency", 1e-5, hosts=hosts, nodes=len(set(hosts)),
        params={"server_cpus": server, "client_cpus": client},
    )  # fmt: skip
    assert ("one_cpu" in found(latency)) is caught


def test_a_loaded_machine() -> None:
    latency = record("osu", "osu_latency", "latency", 1e-6)
    for cores, rules in (([1.6, 0.9], {"loaded"}), ([0.6], {"disturbed"}), ([], set())):
        busy = [{"name": "xhpl", "cores": each} for each in cores]
        assert set(found(latency, load={"busy": busy}, cpu={"threads": 4})) - rules <= {"disturbed"}
        assert rules <= set(found(latency, load={"busy": busy}, cpu={"threads": 4}))
    assert not found(latency, load={"busy": None}, cpu={"threads": 4})


@pytest.mark.parametrize(
    ("own", "others", "cpus", "rules"),
    [
        (1.3, 0.67, 2, {"loaded"}),
        (63.3, 0.6, 64, {"loaded"}),
        (63.8, 0.2, 64, set()),
        (1.0, 1.0, 64, set()),
        (20.0, 2.0, 64, {"disturbed"}),
        (0.0, 1.0, 2, {"loaded"}),
        (0.0, 0.67, 2, {"disturbed"}),
        (2.0, 0.0, 2, set()),
    ],
    ids=["a third", "one thread of 64", "a daemon", "free CPUs", "some", "half", "own unknown", "nobody"],
)
def test_others_during_a_launch(own: float, others: float, cpus: int, rules: set[str]) -> None:
    listed = [{"name": "xhpl", "cores": others}] if others else []
    launch = Launch(
        id=0, argv=("osu_latency",), started="", seconds=1.0, exit=0, load={"cores": own, "others": listed}
    )
    latency = record("osu", "osu_latency", "latency", 1e-6)
    reasons = found(latency, launch=launch, cpu={"threads": cpus}, load={"busy": []})
    assert set(reasons) == rules
    assert all("meanwhile" in reason and "xhpl" in reason for reason in reasons.values())


def test_jobs_of_a_run_that_measured_on_one_node_at_once() -> None:
    """Job 1 from 0 to 10 s on both nodes, job 2 from 9.9 s on, job 3 beside it on n2, job 4 elsewhere."""
    times = {"1": (0, 10.0, TWO), "2": (9.9, 10.0, TWO), "3": (14.9, 10.0, ("n2",)), "4": (0, 99.0, ("n3",))}
    records, launches = [], {}
    for job, (begin, seconds, hosts) in times.items():
        raw = f"{job}/raw/0000.out"
        records.append(record("osu", "osu_latency", "latency", 1e-6, job=job, raw=raw, hosts=hosts))
        started = f"2026-11-21T08:00:{begin:06.3f}+00:00"
        launches[raw] = Launch(
            id=0, argv=("osu",), started=started, seconds=seconds, exit=0, hosts=hosts, raw="raw/0000.out"
        )
    lies = find_lies(records, Circumstances(None, {}, launches))
    assert [(records[lie.place].job, lie.rule.name) for lie in lies] == [("2", "beside"), ("3", "beside")]
    assert lies[0].reason.startswith("osu of job 3 measured on n2 for 50% of the time")
    later = [record("osu", "osu_latency", "latency", 1e-6, job="", raw=each.raw) for each in records]
    assert not find_lies(later, Circumstances(None, {}, launches))


@pytest.mark.parametrize(("own", "stolen", "disturbs"), [(1.0, 0.1, True), (30.0, 0.1, False)])
def test_what_the_hypervisor_stole_is_a_part_of_what_was_wanted(
    own: float, stolen: float, disturbs: bool
) -> None:
    """One CPU of 64 wanted and a tenth of it stolen: nine tenths of the speed, however many CPUs are idle."""
    load = {"cores": own, "others": [{"name": "hypervisor", "cores": stolen}]}
    launch = Launch(id=0, argv=("qperf",), started="", seconds=1.0, exit=0, load=load)
    reasons = found(record("osu", "osu_latency", "latency", 1e-6), launch=launch, cpu={"threads": 64})
    assert set(reasons) == ({"disturbed"} if disturbs else set())


def test_stolen_time_is_read_from_proc_stat(tmp_path: Path) -> None:
    folder = tmp_path / "proc"
    folder.mkdir()
    (folder / "stat").write_text("cpu  1756686 17015 335065 577414 4893 0 74077 12949 0 0\ncpu0 1 2\n")
    assert stolen_ticks(tmp_path) == 12949
    watch = LoadMonitor(tmp_path)
    (folder / "stat").write_text("cpu  1756686 17015 335065 577414 4893 0 74077 13949 0 0\ncpu0 1 2\n")
    (entry,) = watch.busy()
    assert (entry.pid, entry.name) == (0, "hypervisor") and entry.cores > 0
    (folder / "stat").write_text("cpu  1 2 3 4\n")  # Linux 2.4 has no more
    assert stolen_ticks(tmp_path) == 0


def test_a_disturbed_record_bears_the_share_that_others_took(tmp_path: Path) -> None:
    """Records, launches and environment as `npc records collect` finds them."""
    launches = LaunchLog(tmp_path / "launches", "osu", planned=3)
    for number, others in enumerate((0.0, 0.5, 0.9)):
        listed = [{"name": "xhpl", "cores": others}] if others else []
        launches.append(
            Launch(
                id=number,
                argv=("osu_latency",),
                started="",
                seconds=1.0,
                exit=0,
                raw=f"raw/{number:04d}.out",
                load={"cores": 1.0, "others": listed},
            )
        )
    launches.close()
    (tmp_path / "environment.json").write_text(json.dumps({"cpu": {"threads": 2}}))
    made = [
        replace(record("osu", "osu_latency", "latency", 1e-6), raw=f"launches/raw/{number:04d}.out")
        for number in range(3)
    ]
    judged = judge_run(tmp_path, made, None)
    assert [each.status.partition(":")[0] for each in judged] == ["ok", "ok", "invalid"]
    assert [each.params for each in judged] == [{}, {"disturbed": "0.25"}, {}]
    assert Series.of(judged[0]) == Series.of(judged[1])
    assert in_words(judged) == "1 of 2 usable records were measured while others took 25 % of the CPUs"
    assert in_words(judged[:1]) == ""
    (tmp_path / "elsewhere").mkdir()
    save_csv(judged, tmp_path / "elsewhere" / "records.csv")
    ended = npc("check", tmp_path / "elsewhere")
    assert "note: osu osu_latency: others took 0.25 of the CPUs; who is not known any more" in ended.stdout


@pytest.mark.slow
@pytest.mark.measures
def test_a_process_that_computes_is_seen_before_a_job() -> None:
    spinning = subprocess.Popen(["sh", "-c", "while :; do :; done"])
    try:
        busy = load_average(watch_s=0.5)["busy"]
    finally:
        spinning.kill()
        spinning.wait()
    assert any(entry["name"] == "sh" and entry["cores"] > 0.1 for entry in busy)


# -- all of them ---------------------------------------------------------------------------------------


def test_every_rule_says_what_it_catches_and_who_says_so() -> None:
    names = [rule.name for rule in all_rules()]
    assert len(names) == len(set(names)) > 10
    for rule in all_rules():
        assert rule.title and len(rule.source) > 20, rule.name
    page = (ROOT / "docs/validity.md").read_text(encoding="utf-8")
    assert [name for name in names if f"`{name}`" not in page] == []


def test_records_that_failed_are_left_alone() -> None:
    broken = record("qperf", "tcp_bw", "bandwidth", 1e15, nodes=2, hosts=TWO, status="failed: exit code 1")
    platform = cluster(interfaces=link("eth0", "1 GbE"))
    assert find_lies([broken], Circumstances(platform)) == []


def test_a_record_that_is_invalid_already_shows_why_and_keeps_its_words() -> None:
    lie = record("qperf", "udp_bw", "bandwidth", 1e15, nodes=2, hosts=TWO, status="invalid: an older reason")
    findings = find_lies([lie], Circumstances(cluster(interfaces=link("eth0", "1 GbE"))))
    assert [finding.rule.name for finding in findings] == ["link"]
    assert judged([lie], findings) == [lie]


# -- npc records collect and npc check
# -------------------------------------------------------------------------


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A folder of one STREAM launch on a node whose caches are larger than its arrays."""
    log = LaunchLog(tmp_path / "run", "stream", 1)
    text = (captured.DATA / "stream/stream_t2.txt").read_text()
    (tmp_path / "run/raw/0000.out").write_text(text)
    log.append(
        Launch(
            id=0, argv=("./stream",), started="2026-11-21T08:00:00Z", seconds=1.0, exit=0,
            hosts=("n1",), raw="raw/0000.out",
        )
    )  # fmt: skip
    log.close()
    caches = [{"level": 3, "type": "unified", "size_bytes": 2**30, "instances": 1}]
    (tmp_path / "run/environment.json").write_text(json.dumps({"cpu": {"caches": caches}}))
    return tmp_path / "run"


def test_collect_marks_and_check_explains(run: Path) -> None:
    collected = npc("records", "collect", run)
    assert collected.returncode == 1, "nothing usable is left"
    assert f"npc check {run}" in collected.stderr
    assert [each.value is not None and each.status[:9] for each in collect_run(run)] == ["invalid: "] * 4
    checked = npc("check", run)
    assert checked.returncode == 1
    assert "rule arrays" in checked.stdout and "McCalpin" in checked.stdout
    assert checked.stdout.endswith("4 records, 0 of them usable, 4 invalid\n")
    document = json.loads(npc("check", run, "--json").stdout)
    assert document["schema"] == 1 and document["records"] == 4
    assert {finding["rule"] for finding in document["findings"]} == {"arrays"}
    assert {finding["record"]["raw"] for finding in document["findings"]} == {"raw/0000.out"}


def test_check_of_good_records_is_silent_and_zero(run: Path) -> None:
    (run / "environment.json").unlink()
    npc("records", "collect", run)
    checked = npc("check", run / "records.csv")
    assert checked.returncode == 0 and checked.stdout.endswith(": 4 records, 4 of them usable, 0 invalid\n")


def test_what_a_parser_found_is_shown_with_it(tmp_path: Path) -> None:
    status = "invalid: validation: Fail"
    save_csv([record("osu", "osu_bw", "bandwidth", 1e9, status=status)], tmp_path / "records.csv")
    (finding,) = json.loads(npc("check", tmp_path, "--json").stdout)["findings"]
    assert (finding["rule"], finding["reason"], finding["source"]) == (
        "printed", "validation: Fail", "parsers/osu.py",
    )  # fmt: skip


def test_check_uses_the_platform_that_it_is_told(tmp_path: Path) -> None:
    (tmp_path / "fast").mkdir()
    (tmp_path / "fast/platform.toml").write_text('[interfaces.ib0]\nlink = "4x FDR"\n')
    lie = record("qperf", "rc_bw", "bandwidth", 6939.56e6, nodes=2, hosts=TWO)
    save_csv([lie], tmp_path / "records.csv")
    assert npc("check", tmp_path).returncode == 0
    checked = npc("check", tmp_path, "--platform", tmp_path / "fast/platform.toml")
    assert checked.returncode == 1 and "MiB/s were taken for MB/s?" in checked.stdout


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "name a run's folder or a records.csv"),
        (["nosuch"], "nosuch does not exist: the newest run is runs/000003"),
        (["."], "is no run: name its folder"),
        (["records.csv", "--platform", "nosuch"], "there is no such platform.toml"),
    ],
)
def test_misuse_is_one_line_and_two(tmp_path: Path, words: list[str], message: str) -> None:
    save_csv([record("osu", "osu_bw", "bandwidth", 1e9)], tmp_path / "records.csv")
    (tmp_path / "empty").mkdir()
    (tmp_path / "runs/000003").mkdir(parents=True)
    where = tmp_path / "empty" if words == ["."] else tmp_path
    ended = npc("check", *words, cwd=where)
    assert ended.returncode == 2 and message in ended.stderr
    assert "Traceback" not in ended.stderr


def test_the_list_of_rules_is_printed() -> None:
    shown = npc("check", "--rules")
    assert shown.returncode == 0
    for rule in all_rules():
        assert rule.name in shown.stdout and rule.source in shown.stdout
    rules = json.loads(npc("check", "--rules", "--json").stdout)["rules"]
    assert [rule["name"] for rule in rules] == [rule.name for rule in all_rules()]


def test_a_csv_of_ones_own_is_judged_as_well(tmp_path: Path) -> None:
    rows = imb("Sendrecv", [(1024, 6.23, 328.99 * 8)])
    save_csv(rows, tmp_path / "mine.csv")
    with (tmp_path / "mine.csv").open(newline="") as stream:
        assert len(list(csv.DictReader(stream))) == 2
    checked = npc("check", tmp_path / "mine.csv")
    assert checked.returncode == 1 and "rule imb_rate" in checked.stdout
