"""Counters of errors, losses and congestion: what is read, what rose, and what it means."""

from __future__ import annotations

import socket

import pytest

from npc.machine import counters
from npc.machine.counters import Rise, by_host, meaning, rise


def test_datagrams_that_a_full_buffer_loses_are_counted_by_this_machines_kernel() -> None:
    look = Rise()
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
    moved = look.seen()
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
            "local_ack_timeout_err rnr_nak_retry_err roce_adp_retrans duplicate_request rx_dropped "
            "rx_missed_errors rx_discards_phy rx_total_discard_pkts RetransSegs TCPTimeouts RcvbufErrors",
        ),
        (
            "congestion",
            "port_xmit_wait np_cnp_sent rp_cnp_handled np_ecn_marked_roce_packets roce_slow_restart "
            "rx_pause_ctrl_phy tx_prio3_pause rx_pause_frames link_xoff_rx InCEPkts bw_in_allowance_exceeded",
        ),
        ("throttling", "core_throttle_count package_throttle_count"),
        ("traffic", "OutSegs InDatagrams rx_packets port_xmit_packets"),
        (
            None,
            "rx_bytes rx_corrected_bits_phy rx_err_lane_0_phy resp_cqe_flush_error req_cqe_error "
            "rx_nohandler lifespan rx_csum_complete tx_csum_none rx_interrupts port_rcv_data multicast",
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
