"""Counters of errors, losses and congestion: what is read, what rose, and what it means."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from npc.machine import counters
from npc.machine.counters import CounterIncreases, by_host, meaning, rise
from tests.made.sysfs_tree import tree

#: A port of a ConnectX-7 as its owner published it: pull request 943 of leptonai/gpud, 2025.
PORT = {
    "unicast_rcv_packets": "240037171331", "port_xmit_data": "205143497464492",
    "port_xmit_constraint_errors": "0", "VL15_dropped": "0", "port_rcv_errors": "0",
    "port_xmit_wait": "4294967295", "link_error_recovery": "0", "multicast_rcv_packets": "0",
    "multicast_xmit_packets": "0", "port_rcv_remote_physical_errors": "0", "port_rcv_packets": "240037171331",
    "unicast_xmit_packets": "242071897216", "excessive_buffer_overrun_errors": "15",
    "port_rcv_data": "205128687774249", "port_rcv_constraint_errors": "0", "link_downed": "255",
    "local_link_integrity_errors": "0", "port_xmit_discards": "65535", "port_rcv_switch_relay_errors": "2",
    "port_xmit_packets": "242071897216", "symbol_error": "0",
}  # fmt: skip


def test_a_port_is_read_with_the_counters_that_are_full(tmp_path: Path) -> None:
    port = "sys/class/infiniband/mlx5_0/ports/1"
    root = tree(tmp_path, {f"{port}/counters/{name}": value for name, value in PORT.items()})
    tree(
        root,
        {f"{port}/hw_counters/{name}": "0" for name in ("out_of_sequence", "lifespan", "rx_read_requests")},
    )
    # i40iw, which has no such counters (issue 966 of prometheus/node_exporter)
    tree(root, {"sys/class/infiniband/i40iw0/ports/1/counters/symbol_error": "N/A (no PMA)"})
    before = counters.read(root)
    assert counters.raised(before) == {
        "mlx5_0/1 link_downed": 255, "mlx5_0/1 port_xmit_discards": 65535,
        "mlx5_0/1 port_xmit_wait": 4294967295, "mlx5_0/1 excessive_buffer_overrun_errors": 15,
        "mlx5_0/1 port_rcv_switch_relay_errors": 2,
    }  # fmt: skip
    full = {name for name, value in before.items() if counters.is_full(name, value)}
    assert full == {f"mlx5_0/1 {name}" for name in (
        "link_downed", "port_xmit_discards", "port_xmit_wait", "excessive_buffer_overrun_errors",
    )}  # fmt: skip
    assert before["mlx5_0/1 out_of_sequence"] == 0 and "mlx5_0/1 lifespan" not in before
    (root / port / "counters/symbol_error").write_text("412\n")
    (root / port / "counters/port_rcv_packets").write_text("240037171431\n")
    (root / port / "counters/link_downed").write_text("1\n")
    assert rise(before, counters.read(root)) == {
        "mlx5_0/1 symbol_error": 412, "mlx5_0/1 port_rcv_packets": 100, "mlx5_0/1 link_downed": 1,
    }, "link_downed was reset, and has counted one since"  # fmt: skip


def test_memory_processor_and_pcie_devices_of_a_node(tmp_path: Path) -> None:
    memory, cpus = "sys/devices/system/edac/mc", "sys/devices/system/cpu"
    root = tree(tmp_path, {
        f"{memory}/mc0/ce_count": "7", f"{memory}/mc0/ue_count": "0", f"{memory}/mc0/ce_noinfo_count": "1",
        f"{memory}/mc0/dimm3/dimm_ce_count": "6", f"{memory}/mc0/dimm3/dimm_ue_count": "0",
        f"{memory}/mc1/ce_count": "2",
        f"{cpus}/cpu0/thermal_throttle/core_throttle_count": "3",
        f"{cpus}/cpu0/thermal_throttle/package_throttle_count": "40",
        f"{cpus}/cpu1/thermal_throttle/core_throttle_count": "4",
        f"{cpus}/cpu1/thermal_throttle/package_throttle_count": "40",
        "proc/interrupts": "  CPU0 CPU1\nMCE:  0  1  Machine checks\nMCP:  9  9  Polls",
        "sys/bus/pci/devices/0000:3b:00.0/infiniband/mlx5_0/node_guid": "1",
        "sys/bus/pci/devices/0000:3b:00.0/aer_dev_correctable": "RxErr 3\nBadTLP 9\nTOTAL_ERR_COR 12",
        "sys/bus/pci/devices/0000:3b:00.0/aer_dev_fatal": "Undefined 0\nTOTAL_ERR_FATAL 0",
    })  # fmt: skip
    assert counters.raised(counters.read(root)) == {
        "mc0 ce_noinfo_count": 1, "mc0/dimm3 dimm_ce_count": 6, "mc1 ce_count": 2, "cpu MCE": 1,
        "cpu core_throttle_count": 7, "cpu package_throttle_count": 40, "mlx5_0 aer_dev_correctable": 12,
    }  # fmt: skip


def test_interfaces_and_protocols_of_a_node(tmp_path: Path) -> None:
    """Bridges and what hangs on them only pass on what others count; a link that is down was up before."""
    net = "sys/class/net"
    root = tree(tmp_path, {
        f"{net}/eth0/operstate": "up", f"{net}/eth0/device/vendor": "0x15b3", f"{net}/eth0/brport/state": "3",
        f"{net}/eth0/statistics/rx_crc_errors": "5", f"{net}/eth0/statistics/rx_bytes": "9",
        f"{net}/eth0/carrier_down_count": "2",
        f"{net}/br0/bridge/x": "", f"{net}/br0/statistics/rx_dropped": "8",
        f"{net}/veth1/brport/state": "3", f"{net}/veth1/statistics/rx_dropped": "8",
        f"{net}/eth1/operstate": "down", f"{net}/eth1/statistics/rx_dropped": "8",
        f"{net}/eth1/carrier_down_count": "1",
        f"{net}/lo/statistics/rx_dropped": "8",
        "proc/self/net/snmp": "Tcp: OutSegs RetransSegs\nTcp: 1000 33\nIcmp: InErrors\nIcmp: 5",
        "proc/self/net/netstat": "TcpExt: TCPTimeouts\nTcpExt: 2\nIpExt: InCEPkts InOctets\nIpExt: 4 100",
        "proc/self/net/snmp6": "Ip6InReceives 3\nUdp6RcvbufErrors 6",
    })  # fmt: skip
    assert counters.raised(counters.read(root)) == {
        "eth0 rx_crc_errors": 5, "eth0 carrier_down_count": 2, "eth1 carrier_down_count": 1,
        "tcp RetransSegs": 33, "tcp TCPTimeouts": 2, "ip InCEPkts": 4, "udp6 RcvbufErrors": 6,
    }  # fmt: skip


def test_datagrams_that_a_full_buffer_loses_are_counted_by_this_machines_kernel() -> None:
    look = CounterIncreases()
    with socket.socket(type=socket.SOCK_DGRAM) as receiver, socket.socket(type=socket.SOCK_DGRAM) as sender:
        receiver.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        receiver.bind(("127.0.0.1", 0))
        for _ in range(200):
            sender.sendto(bytes(1000), receiver.getsockname())
        arrived = 0
        receiver.setblocking(False)
        with pytest.raises(BlockingIOError):
            while receiver.recv(2000):
                arrived += 1
    moved = look.result()
    assert moved["udp RcvbufErrors"] >= 200 - arrived > 0
    assert moved["udp InErrors"] >= moved["udp RcvbufErrors"]
    assert moved["udp InDatagrams"] >= arrived, "what losses are held against"


@pytest.mark.parametrize(
    ("means", "names"),
    [
        (
            "down",
            "link_downed carrier_down_count link_down_events_phy dimm_ue_count ue_count MCE aer_dev_fatal",
        ),
        (
            "error",
            "symbol_error link_error_recovery port_rcv_errors local_link_integrity_errors rx_crc_errors "
            "rx_pcs_symbol_err_phy rx_icrc_encapsulated tx_carrier_errors dimm_ce_count aer_dev_correctable "
            "rx_fcs_err_frames InCsumErrors",
        ),
        (
            "loss",
            "port_xmit_discards excessive_buffer_overrun_errors out_of_sequence out_of_buffer packet_seq_err "
            "local_ack_timeout_err rnr_nak_retry_err rcvd_rnr_err roce_adp_retrans duplicate_request "
            "rx_dropped rx_missed_errors rx_discards_phy rx_total_discard_pkts RetransSegs RcvbufErrors",
        ),
        (
            "congestion",
            "port_xmit_wait np_cnp_sent rp_cnp_handled np_ecn_marked_roce_packets roce_slow_restart "
            "rx_pause_ctrl_phy tx_prio3_pause rx_pause_frames link_xoff_rx InCEPkts bw_in_allowance_exceeded",
        ),
        ("throttling", "core_throttle_count package_throttle_count"),
        ("traffic", "InSegs OutSegs InDatagrams rx_packets port_xmit_packets"),
        (
            None,
            "rx_bytes rx_corrected_bits_phy rx_err_lane_0_phy resp_cqe_flush_error req_cqe_error "
            "ack_deferred rx_nohandler lifespan rx_csum_complete tx_csum_none rx_interrupts multicast",
        ),
    ],
)
def test_a_name_says_what_its_rising_means(means: str | None, names: str) -> None:
    assert {name: meaning(f"owner {name}") for name in names.split()} == dict.fromkeys(names.split(), means)


def test_only_what_rose_is_told_with_the_traffic_beside_it() -> None:
    before = {"a err": 3, "a rx_packets": 10, "b drops": 5, "b rx_packets": 10, "c drops": 9, "d drops": 1}
    after = {"a err": 3, "a rx_packets": 20, "b drops": 7, "b rx_packets": 30, "c drops": 2, "e drops": 4}
    assert rise(before, after) == {"b drops": 2, "b rx_packets": 20, "c drops": 2}, "c was reset, e is new"


def test_of_two_looks_on_one_host_the_longer_one_counts() -> None:
    assert by_host([("n1", {"a err": 3}), ("n1", {"a err": 2})]) == {"n1": {"a err": 3}}
    assert by_host([("n1", {"a err": 3}), ("n2", {})]) == {"n1": {"a err": 3}, "n2": {}}
    assert by_host([("n1", None), ("n2", None)]) is None


def test_a_counter_of_a_narrow_field_counts_no_more_when_it_is_full() -> None:
    assert counters.is_full("mlx5_0/1 symbol_error", 65535)
    assert counters.is_full("mlx5_0/1 local_link_integrity_errors", 15)
    assert not counters.is_full("mlx5_0/1 symbol_error", 65534)
    assert not counters.is_full("eth0 symbol_error", 65535)
