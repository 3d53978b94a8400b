"""What each tool's numbers really mean, fact by fact, on captured text and on variations of it."""

from __future__ import annotations

import json
import re

import pytest

from npc import parsers
from npc.records.reading import Reading
from npc.records.record import OK
from npc.records.series import identity
from tests import captured
from tests.captured import DATA, text_of


def values(readings: list[Reading], metric: str, **params: str) -> list[tuple[int | None, float | None]]:
    """(size, value) of the usable readings of a metric with exactly these qualifiers, whatever is noted."""
    return [
        (reading.size, reading.value)
        for reading in readings
        if reading.metric == metric and identity(reading.params) == params and reading.status == OK
    ]


class TestGpu:
    def reasons(self, name: str, old: str, new: str) -> list[str]:
        """Statuses of what is not usable once a real output says something else."""
        text = text_of("gpu", name)
        assert old in text
        readings = parsers.parse("gpu", text.replace(old, new, 1))
        return [reading.status for reading in readings if reading.status != OK]

    def test_no_more_than_the_memorys_bus_and_clock_allow(self) -> None:
        """2 · 2619 MHz · 5120 bits: 3352 GB/s, as the H100's data sheet says."""
        assert not self.reasons("memory.txt", "3041141.36", "3352320.00")
        (reason,) = self.reasons("memory.txt", "3041141.36", "3400000.00")
        assert reason == "invalid: the memory's bus and clock allow 3.352 TB/s"

    def test_a_clock_that_the_driver_does_not_tell_allows_everything(self) -> None:
        assert not self.reasons("memory.txt", "at most 2619 MHz", "at most 0 MHz")
        assert not self.reasons("gemm.txt", "at most 1980 MHz", "at most 0 MHz")

    def test_no_more_than_the_multiprocessors_can_do(self) -> None:
        """132 of them, 256 FLOP a cycle in double precision, 1980 MHz."""
        assert not self.reasons("gemm.txt", "56395.483", "66900.000")
        (reason,) = self.reasons("gemm.txt", "56395.483", "68000.000")
        assert reason == "invalid: 66.91 TFLOP/s is what it can do at its highest clock"

    def test_wrong_elements_are_no_result(self) -> None:
        (reason,) = self.reasons("gemm.txt", "56395.483        0", "56395.483        3")
        assert reason == "invalid: 3 elements of the result are wrong"

    def test_a_cache_is_not_slower_than_the_memory(self) -> None:
        (reason,) = self.reasons("memory.txt", "7159461.21", "2159461.21")
        assert reason.startswith("invalid: slower than the memory")

    def test_each_clock_is_of_the_product_above_it(self) -> None:
        clocks = {
            reading.params["part"]: reading.value
            for reading in parsers.parse("gpu", text_of("gpu", "gemm.txt"))
            if reading.case == "clock"
        }
        assert clocks == {
            "double": 1770e6, "single": 1965e6, "tf32": 1605e6, "half": 1470e6, "bfloat16": 1530e6
        }  # fmt: skip

    def test_a_part_that_was_not_ended_keeps_its_rows(self) -> None:
        text = text_of("gpu", "memory.txt").partition("  MEM    add")[0]
        readings = parsers.parse("gpu", text)
        assert [reading.case for reading in readings if reading.value] == ["load", "load", "copy", "scale"]
        assert readings[-1].status == "failed: memory was not ended"


class TestQperf:
    def read(self, text: str, command: str = "") -> list[Reading]:
        return parsers.parse("qperf", text, command.split())

    def test_prefixes_are_decimal_for_rates_and_binary_only_with_an_i(self) -> None:
        readings = self.read("tcp_bw:\n    bw        =  1.89 GB/sec\n    msg_size  =     1 MiB (1,048,576)\n")
        assert values(readings, "bandwidth") == [(2**20, 1.89e9)]

    def test_a_kilobyte_is_1000_bytes(self) -> None:
        readings = self.read("rc_bw:\n    bw        =  15.7 MB/sec\n    msg_size  =     1 KB\n")
        assert values(readings, "bandwidth") == [(1000, 15.7e6)]

    @pytest.mark.parametrize(
        ("printed", "seconds"),
        [("27241 ns", 27241e-9), ("27.6 us", 27.6e-6), ("1.23 ms", 1.23e-3), ("2 sec", 2)],
    )
    def test_latency_units(self, printed: str, seconds: float) -> None:
        assert values(self.read(f"tcp_lat:\n    latency  =  {printed}\n"), "latency") == [(None, seconds)]

    def test_bits_are_an_eighth_of_a_byte(self) -> None:
        assert values(self.read("tcp_bw:\n    bw  =  21.2 Gb/sec\n"), "bandwidth") == [(None, 2.65e9)]

    def test_thousands_commas(self) -> None:
        assert values(self.read("tcp_bw:\n    bw  =  1,844,117 bytes/sec\n"), "bandwidth") == [
            (None, 1844117.0)
        ]

    def test_of_udp_only_what_arrived_is_the_headline(self) -> None:
        readings = self.read("udp_bw:\n    send_bw  =  208 MB/sec\n    recv_bw  =  204 MB/sec\n")
        assert values(readings, "bandwidth") == [(None, 204e6)]
        assert values(readings, "bandwidth", side="send") == [(None, 208e6)]

    @pytest.mark.parametrize("flip", ["-f1", "--flip 1", "-f0"])
    def test_flipped_the_server_sends(self, flip: str) -> None:
        """But not over the kernel's sockets: with qperf 0.4.11's warning it is the client (`ss -ti`)."""
        warning = f"warning: {flip.partition(' ')[0]} set but not used in test tcp_bw"
        text = f"tcp_bw:\n{warning}\n    bw  =  999 MB/sec\n"
        text += "rc_bw:\n    bw  =  1 GB/sec\nrc_lat:\n    latency  =  9 us\n"
        readings = self.read(text, f"qperf h {flip} tcp_bw rc_bw rc_lat")
        reverse = {} if flip == "-f0" else {"direction": "reverse"}
        assert [dict(reading.params) for reading in readings] == [{}, reverse, {}]

    def test_zero_is_a_failure_whatever_was_sent(self) -> None:
        readings = self.read("uc_bi_bw:\n    send_bw  =  111 MB/sec\n    recv_bw  =    0 bytes/sec\n")
        assert readings[0].value is None
        assert readings[0].status == "failed: nothing arrived: the result is 0"
        assert [reading.status for reading in readings[1:]] == ["invalid: nothing was received"]

    def test_a_loop_keeps_the_size_of_each_step(self) -> None:
        readings = self.read(text_of("qperf", "loop_uu.txt"))
        assert values(readings, "bandwidth")[-1] == (65536, 1782120448.0)
        assert [size for size, _ in values(readings, "latency")] == [1, 16, 256, 4096, 65536]

    def test_a_loop_that_does_not_print_its_size_is_unusable(self) -> None:
        readings = self.read(
            text_of("qperf", "loop_plain.txt"), "qperf h -oo msg_size:1:64K:*16 tcp_bw tcp_lat"
        )
        assert len(readings) == 10
        assert {reading.status.split(":")[0] for reading in readings} == {"invalid"}

    def test_a_rounded_size_is_the_asked_one(self) -> None:
        text = "udp_bw:\n    send_bw   =  1 GB/sec\n    recv_bw   =  1 GB/sec\n    msg_size  =  65.5 KB\n"
        assert self.read(text, "qperf h -m 65507 -vu udp_bw")[0].size == 65507
        assert self.read(text, "qperf h -oo msg_size:65000:65507:507 -vu udp_bw")[0].size == 65507
        assert self.read(text)[0].size == 65500

    def test_verbose_statistics_are_no_results(self) -> None:
        readings = self.read(text_of("qperf", "unify_vv.txt"))
        assert [(r.case, r.metric, r.value, r.size) for r in readings] == [
            ("tcp_bw", "bandwidth", 1844117504.0, 65536),
            ("tcp_bw", "message_rate", 28139.0, 65536),
            ("tcp_lat", "latency", 27220e-9, 1),
            ("tcp_lat", "message_rate", 36738.0, 1),
        ]

    def test_the_reason_of_a_failure_stands_below_the_name(self) -> None:
        (reading,) = self.read("tcp_bw:\n127.0.0.1: failed to connect\n")
        assert reading.status == "failed: 127.0.0.1: failed to connect"

    def test_stderr_behind_stdout_gives_the_reason(self) -> None:
        (reading,) = self.read("sdp_bw:\nserver: unable to make SDP socket\n")
        assert reading.status == "failed: server: unable to make SDP socket"

    def test_datagrams_over_roce_cannot_be_had(self) -> None:
        out, err = (text_of("qperf-rdma", f"qperf_ud_lat{end}.txt") for end in ("", ".err"))
        (reading,) = self.read(parsers.joined(out, err), "qperf 10.99.0.1 -cm1 -t 1 -vvs ud_lat")
        assert reading.status.startswith("unavailable: ud_lat needs InfiniBand: server: failed to create")

    def test_tests_that_never_began_are_told_from_the_command(self) -> None:
        readings = self.read(text_of("qperf", "fail_good_then_bad.txt"), "qperf h -t 1 tcp_lat rc_bw udp_lat")
        assert [(r.case, r.status.split(":")[0]) for r in readings] == [
            ("tcp_lat", "ok"),
            ("rc_bw", "unavailable"),
            ("udp_lat", "failed"),
        ]

    def test_a_number_in_an_unknown_unit_is_no_result(self) -> None:
        (reading,) = self.read("tcp_bw:\n    bw  =  1.89 furlongs/sec\n")
        assert (reading.value, reading.status) == (None, "failed: no complete result was printed")

    def test_a_block_cut_before_its_size_is_no_result(self) -> None:
        whole = "tcp_bw:\n    bw        =  1.89 GB/sec\n    msg_size  =     1 MiB (1,048,576)\n"
        (reading,) = self.read(whole[: whole.index("    msg_size")])
        assert reading.value is None


class TestSockperf:
    def read(self, text: str, command: str = "sockperf ping-pong -i h") -> list[Reading]:
        return parsers.parse("sockperf", text, command.split())

    def test_bandwidth_is_rate_times_size_not_the_printed_megabytes(self) -> None:
        readings = self.read(text_of("sockperf", "udp_tp_m64.txt"), "sockperf throughput -i h --msg-size 64")
        assert values(readings, "message_rate", side="send") == [(64, 208308.0)]
        assert values(readings, "bandwidth", side="send") == [(64, 208308.0 * 64)]
        # It printed 12.714 MBps: 13.3 MB/s, because its M is 2^20.
        printed = 12.714 * 2**20
        assert printed == pytest.approx(208308 * 64, rel=1e-4)

    def test_giga_size_does_not_change_the_bandwidth(self) -> None:
        readings = self.read(
            text_of("sockperf", "tcp_tp_giga.txt"), "sockperf tp -i h --tcp -m 1400 --giga-size"
        )
        assert values(readings, "bandwidth", side="send") == [(1400, 555360.0 * 1400)]

    def test_throughput_is_always_the_senders(self) -> None:
        text = text_of("sockperf", "fail_udp_tp_noserver.txt")
        readings = self.read(text, "sockperf throughput -i h")
        assert readings
        assert {reading.params["side"] for reading in readings} == {"send"}

    def test_latency_is_half_the_round_trip(self) -> None:
        readings = self.read(text_of("sockperf", "tcp_pp_fullrtt.txt"), "sockperf pp -i h --tcp --full-rtt")
        assert values(readings, "latency") == [(14, pytest.approx(56.920e-6 / 2))]
        assert values(readings, "latency", statistic="p99") == [(14, pytest.approx(90.183e-6 / 2))]
        readings = self.read(text_of("sockperf", "udp_pp.txt"))
        assert values(readings, "latency") == [(14, pytest.approx(7.532e-6))]

    def test_percentiles_have_their_names(self) -> None:
        readings = self.read(text_of("sockperf", "tcp_pp_fulllog.txt"))
        names = [reading.params.get("statistic") for reading in readings]
        assert names == [
            None, "stdev", "max", "p99.999", "p99.99", "p99.9", "p99", "p90", "p75", "p50", "p25", "min",
        ]  # fmt: skip

    @pytest.mark.parametrize("counts", ["3; # duplicated messages = 0; # out-of-order messages = 0"])
    @pytest.mark.parametrize("place", [0, 1, 2])
    def test_lost_duplicated_or_reordered_messages_make_it_invalid(self, counts: str, place: int) -> None:
        numbers = ["0", "0", "0"]
        numbers[place] = "3"
        told = "# dropped messages = {}; # duplicated messages = {}; # out-of-order messages = {}".format(
            *numbers
        )
        none = "# dropped messages = 0; # duplicated messages = 0; # out-of-order messages = 0"
        text = text_of("sockperf", "udp_pp.txt")
        assert none in text
        readings = self.read(text.replace(none, f"\x1b[0;31m{told}\x1b[0m"))
        assert len(readings) == 12
        assert {reading.status for reading in readings} == {
            "invalid: {} dropped, {} duplicated, {} out-of-order messages".format(*numbers)
        }

    def test_without_the_count_of_lost_messages_nothing_is_sure(self) -> None:
        text = text_of("sockperf", "udp_pp.txt")
        kept = "".join(line for line in text.splitlines(keepends=True) if "# dropped" not in line)
        assert {reading.status.split(":")[0] for reading in self.read(kept)} == {"invalid"}

    @pytest.mark.parametrize(
        ("name", "reason"),
        [
            (
                "fail_tcp_pp_noserver.txt",
                "failed: ERROR: Can`t connect socket (errno=111 Connection refused)",
            ),
            (
                "fail_udp_pp_noserver.txt",
                "failed: No messages were received from the server. Is the server down?",
            ),
            ("fail_tcp_pp_sigint.txt", "failed: No messages were sent"),
            ("fail_tcp_pp_sigterm.txt", "failed: no result was printed"),
            ("fail_msgsize_small.txt", "failed: '-m' Invalid message size: 8 (min: 14)"),
            ("fail_badsub.txt", "failed: Usage: sockperf <subcommand>"),
        ],
    )
    def test_failures_that_exit_0_are_told(self, name: str, reason: str) -> None:
        (reading,) = self.read(text_of("sockperf", name))
        assert reading.value is None
        assert reading.status == reason

    def test_the_size_comes_from_the_command_and_is_14_by_default(self) -> None:
        text = text_of("sockperf", "tcp_pp_m1024.txt")
        for command, size in [
            ("sockperf ping-pong -i h", 14),
            ("sockperf ping-pong -i h -m 1024", 1024),
            ("sockperf ping-pong -i h -m1024", 1024),
            ("sockperf pp --msg-size=1024 -i h", 1024),
            ("sockperf pp --mps=50 -i h", 14),
        ]:
            assert {reading.size for reading in self.read(text, command)} == {size}
        assert {reading.size for reading in parsers.parse("sockperf", text)} == {None}

    def test_the_hint_about_1472_bytes_is_not_the_size(self) -> None:
        readings = parsers.parse("sockperf", text_of("sockperf", "udp_tp_m64.txt"))
        assert {reading.size for reading in readings} == {64}

    def test_without_any_size_the_printed_mebibytes_count(self) -> None:
        text = text_of("sockperf", "udp_tp_m64.txt")
        kept = "".join(line for line in text.splitlines(keepends=True) if "NOTE" not in line)
        readings = parsers.parse("sockperf", kept)
        assert values(readings, "bandwidth", side="send") == [(None, 12.714 * 2**20)]

    @pytest.mark.parametrize(
        ("name", "command", "case"),
        [
            ("tcp_pp_m14.txt", "sockperf ping-pong -i h --tcp", "tcp_ping_pong"),
            ("udp_ul_m1024.txt", "sockperf ul -i h", "udp_under_load"),
            ("tcp_tp.txt", "sockperf tp -i h --tcp", "tcp_throughput"),
            ("tcp_pp_m14.txt", "", "tcp_latency"),
        ],
    )
    def test_the_case_is_protocol_and_subcommand(self, name: str, command: str, case: str) -> None:
        assert {reading.case for reading in self.read(text_of("sockperf", name), command)} == {case}

    def test_an_error_beside_numbers_spoils_them(self) -> None:
        text = text_of("sockperf", "tcp_tp.txt") + "sockperf: ERROR: sendto() Failed receiver\n"
        readings = self.read(text, "sockperf tp --tcp -i h")
        assert {reading.status for reading in readings} == {"invalid: ERROR: sendto() Failed receiver"}


class TestOsu:
    def read(self, text: str, command: str = "") -> list[Reading]:
        return parsers.parse("osu", text, command.split())

    def test_the_ports_bandwidth_is_no_latency_whatever_its_heading_says(self) -> None:
        text = text_of("osu-mpi4py", "osu_bw.py.txt")
        assert "# Size [B]        Latency [us]" in text
        readings = self.read(text)
        assert {(reading.case, reading.metric) for reading in readings} == {("osu_bw", "bandwidth")}
        assert values(readings, "bandwidth")[-1] == (4194304, pytest.approx(12729.37e6))

    def test_columns_count_by_their_headings(self) -> None:
        readings = self.read(text_of("osu", "osu_allreduce_full.out"))
        params = {"datatype": "MPI_CHAR"}
        assert values(readings, "latency", **params)[0] == (1, pytest.approx(0.49e-6))
        assert values(readings, "latency", **params, statistic="min")[0] == (1, pytest.approx(0.44e-6))
        assert values(readings, "latency", **params, statistic="max")[0] == (1, pytest.approx(0.55e-6))
        assert {reading.metric for reading in readings} == {"latency"}

    def test_percentiles_beside_iterations(self) -> None:
        text = (
            "# OSU MPI Allreduce Latency Test v7.5\n# Datatype: MPI_CHAR.\n"
            "# Size       Avg Latency(us)   Min Latency(us)   Max Latency(us)  Iterations  P99 Tail Lat(us)\n"
            "4                       1.11              1.09              1.13        1000              1.40\n"
        )
        found = [(reading.params.get("statistic"), reading.value) for reading in self.read(text)]
        assert found == [
            (None, pytest.approx(1.11e-6)),
            ("min", pytest.approx(1.09e-6)),
            ("max", pytest.approx(1.13e-6)),
            ("p99", pytest.approx(1.40e-6)),
        ]

    def test_a_row_that_fails_validation_is_invalid(self) -> None:
        text = text_of("osu", "osu_latency_validation.out").replace("Pass\n4 ", "Fail\n4 ")
        readings = self.read(text)
        assert [reading.size for reading in readings if reading.status != OK] == [2]
        assert readings[1].status == "invalid: validation: Fail"

    def test_bandwidth_and_message_rate(self) -> None:
        readings = self.read(text_of("osu", "osu_mbw_mr.out"))
        params = {"pairs": "1", "window_size": "64", "datatype": "MPI_CHAR"}
        assert values(readings, "bandwidth", **params)[0] == (1, 7.94e6)
        assert values(readings, "message_rate", **params)[0] == (1, 7935199.18)

    def test_the_latency_of_a_nonblocking_collective_is_the_communication(self) -> None:
        readings = self.read(text_of("osu", "osu_ibcast.out"))
        assert {reading.case for reading in readings} == {"osu_ibcast"}
        assert values(readings, "latency", datatype="MPI_CHAR")[0] == (1, pytest.approx(0.51e-6))
        assert values(readings, "time", datatype="MPI_CHAR", part="overall")[0] == (1, pytest.approx(1.36e-6))

    def test_barriers_have_no_size(self) -> None:
        for folder, name, seconds in [
            ("osu", "osu_barrier.out", 0.18e-6),
            ("osu-mpi4py", "osu_barrier.py.txt", 0.61e-6),
        ]:
            (reading,) = self.read(text_of(folder, name))
            assert (reading.case, reading.size, reading.value) == (
                "osu_barrier",
                None,
                pytest.approx(seconds),
            )

    def test_start_up(self) -> None:
        found = [
            (r.metric, r.params.get("statistic"), r.value) for r in self.read(text_of("osu", "osu_init.out"))
        ]
        assert found == [("time", "min", 0.223), ("time", "max", 0.225), ("time", None, 0.224)]
        assert self.read(text_of("osu", "osu_hello.out")) == []

    @pytest.mark.parametrize(
        ("title", "case"),
        [
            ("OSU MPI Latency Test v7.4", "osu_latency"),
            ("OSU MPI-CUDA Latency Test v5.9", "osu_latency"),
            ("OSU MPI Multi Latency Test v7.4", "osu_multi_lat"),
            ("OSU MPI Bi-Directional Bandwidth Test v7.4", "osu_bibw"),
            ("OSU MPI All-to-All Personalized Exchange Latency Test v7.5", "osu_alltoall"),
            ("OSU MPI Non-blocking All-to-Allv Personalized Exchange Latency Test v5.6.3", "osu_ialltoallv"),
            ("OSU MPI Non-Blocking Broadcast Latency Test v7.4", "osu_ibcast"),
            ("OSU MPI_Put Latency Test v7.4", "osu_put_latency"),
            ("OSU MPI_Accumulate latency Test v7.4", "osu_acc_latency"),
            ("OSU MPI_Get_accumulate latency Test v7.4", "osu_get_acc_latency"),
            ("OSU MPI_Compare_and_swap latency Test v7.4", "osu_cas_latency"),
            ("OSU MPI_Fetch_and_op latency Test v7.4", "osu_fop_latency"),
            ("OSU MPI_Get Bandwidth Test v7.4", "osu_get_bw"),
            ("OSU MPI Reduce_scatter Latency Test v7.4", "osu_reduce_scatter"),
            ("MPI Allgather Latency Test", "osu_allgather"),
            ("MPI All-to-All Latency Test", "osu_alltoall"),
        ],
    )
    def test_the_case_is_the_programs_name(self, title: str, case: str) -> None:
        column = "Bandwidth (MB/s)" if "Bandwidth" in title else "Latency (us)"
        (reading,) = self.read(f"# {title}\n# Size      {column}\n8                       0.16\n")
        assert (reading.case, reading.size) == (case, 8)

    def test_what_stands_between_the_rows_is_passed_over(self) -> None:
        text = text_of("osu", "osu_latency.out")
        noisy = text.replace("\n8 ", "\n[host:1] 4 more processes have sent help message help-mpi.txt\n8 ")
        assert self.read(noisy) == self.read(text)

    def test_a_torn_row_shifts_no_other(self) -> None:
        text = (
            "# OSU MPI Latency Test v7.4\n# Size       Avg Latency(us)\n1  0.16\n2  0.18  0.99\n4\n8  0.19\n"
        )
        assert [(reading.size, reading.value) for reading in self.read(text)] == [
            (1, pytest.approx(0.16e-6)),
            (8, pytest.approx(0.19e-6)),
        ]

    @pytest.mark.parametrize(
        "rows", ["1 2.5 4\n3.5\n", "1..5\n", "1 1..5\n", "1 2.5.\n", "1\n2.5\n", "1 2.5 \0\n"]
    )
    def test_cells_that_run_into_other_rows_are_no_rows(self, rows: str) -> None:
        text = "# OSU MPI Latency Test v7.4\n# Size       Avg Latency(us)\n" + rows + "8  0.19\n"
        assert [(reading.size, reading.value) for reading in self.read(text)] == [(8, pytest.approx(0.19e-6))]

    def test_the_overlap_is_a_share(self) -> None:
        readings = self.read(text_of("osu", "osu_ibcast.out"))
        assert values(readings, "overlap", datatype="MPI_CHAR")[9] == (512, pytest.approx(0.1806))

    def test_start_up_tells_how_many_ranks_there_were(self) -> None:
        assert {reading.params["ranks"] for reading in self.read(text_of("osu", "osu_init.out"))} == {"2"}

    def test_too_few_processes(self) -> None:
        (reading,) = self.read(text_of("osu", "osu_bw_np1.err"), "mpirun -np 1 /opt/osu/osu_bw")
        assert (reading.case, reading.metric, reading.value) == ("osu_bw", "bandwidth", None)
        assert reading.status == "failed: This test requires exactly two processes"

    def test_the_starter_names_the_test_that_failed(self) -> None:
        (reading,) = self.read("", "mpirun -n 2 python /npc/benchmarks/osu/osu.py ibcast --max-size 8")
        assert (reading.case, reading.status) == ("osu_ibcast", "failed: no table was printed")

    def test_buffers_of_an_accelerator_are_told_from_the_hosts(self) -> None:
        (reading,) = self.read("# OSU MPI-CUDA Latency Test v7.4\n# Size  Latency (us)\n8  0.16\n")
        assert (reading.case, reading.params) == ("osu_latency", {"accelerator": "cuda"})

    def test_a_title_without_a_row_is_a_failure(self) -> None:
        (reading,) = self.read(
            "# OSU MPI Latency Test v7.4\n# Datatype: MPI_CHAR.\n# Size       Avg Latency(us)\n"
        )
        assert (reading.value, reading.status) == (None, "failed: the table has no row")


class TestStream:
    text = text_of("stream", "stream_t2.txt")

    def statuses(self, text: str) -> set[str]:
        readings = parsers.parse("stream", text)
        assert [reading.case for reading in readings] == ["copy", "scale", "add", "triad"]
        return {reading.status for reading in readings}

    def test_size_is_that_of_all_three_arrays(self) -> None:
        readings = parsers.parse("stream", self.text)
        assert values(readings, "bandwidth", array_size="40000000", threads="2") == [
            (3 * 8 * 40_000_000, pytest.approx(rate)) for rate in (36500.5e6, 37246.0e6, 35904.1e6, 35901.2e6)
        ]
        readings = parsers.parse("stream", text_of("stream", "stream_float.txt"))
        assert readings[0].size == 3 * 4 * 20_000_000
        assert readings[0].params == {"array_size": "20000000", "precision": "single"}

    def test_failed_validation(self) -> None:
        start, _, _ = self.text.partition("Solution Validates")
        text = start + "Failed Validation on array a[], AvgRelAbsErr > epsilon (1.000000e-13)\n"
        assert self.statuses(text) == {"invalid: the arrays failed STREAM's validation"}

    def test_rates_without_validation_are_not_believed(self) -> None:
        text, _, _ = self.text.partition("Solution Validates")
        assert self.statuses(text) == {"invalid: no validation of the arrays is printed"}

    def test_array_size_that_contradicts_the_printed_memory(self) -> None:
        text = self.text.replace("Array size = 40000000", "Array size = 10000000")
        assert self.statuses(text) == {"invalid: an array is of 76.3 MiB, but: Memory per array = 305.2 MiB"}

    def test_fewer_threads_than_asked_for(self) -> None:
        text = self.text.replace("Threads counted = 2", "Threads counted = 1")
        assert self.statuses(text) == {"invalid: 1 threads ran, 2 were asked for"}

    def test_fewer_clock_ticks_than_stream_asks_for(self) -> None:
        assert self.statuses(text_of("stream", "stream_cache_sized.txt")) == {
            "invalid: a test takes 12 clock ticks, STREAM asks for at least 20"
        }

    def test_a_run_cut_in_its_table(self) -> None:
        text, _, _ = self.text.partition("Add: ")
        assert [reading.value is None for reading in parsers.parse("stream", text)] == [
            False,
            False,
            True,
            True,
        ]
        assert OK not in self.statuses(text)


class TestLikwid:
    def test_units_are_decimal_and_the_size_is_the_used_one(self) -> None:
        text = text_of("likwid", "bench_stream_w_400kB_2.txt")
        readings = parsers.parse("likwid", text, ["likwid-bench", "-t", "stream", "-w", "N:400kB:2"])
        group = {"workgroup": "-w N:400kB:2", "threads": "2"}
        assert values(readings, "bandwidth", **group) == [(399936, pytest.approx(147177.64e6))]
        assert values(readings, "flops", **group, precision="double") == [(399936, pytest.approx(12264.80e6))]

    def test_no_reading_of_a_rate_of_zero(self) -> None:
        readings = parsers.parse("likwid", text_of("likwid", "bench_load_avx512_w_400kB_2.txt"))
        assert [reading.metric for reading in readings] == ["bandwidth"]

    def test_single_precision_is_told_from_the_kernel(self) -> None:
        readings = parsers.parse("likwid", text_of("likwid", "bench_peakflops_sp_avx512_fma_w_400kB_2.txt"))
        assert values(readings, "flops", threads="2", precision="single") == [
            (400000, pytest.approx(226553.15e6))
        ]

    def test_threads_that_share_a_core_make_it_invalid(self) -> None:
        readings = parsers.parse("likwid", text_of("likwid", "bench_two_groups.txt"))
        assert {r.status for r in readings} == {"invalid: 2 threads or more share a hardware thread"}

    def test_what_was_counted_is_summed_over_threads_and_agrees_with_what_is_printed(self) -> None:
        readings = parsers.parse("likwid", text_of("likwid", "perfctr_FLOPS_DP_8.txt"))
        assert [(r.case, r.metric, r.value, r.params["counted"]) for r in readings] == [
            ("FLOPS_DP", "time", 1.0671, "Runtime (RDTSC)"),
            ("FLOPS_DP", "clock", pytest.approx(1897.1203e6), "Clock"),
            ("FLOPS_DP", "flops", pytest.approx(241484.55e6, rel=1e-6), "DP"),
        ]

    def test_memory_traffic_of_one_thread_stands_behind_the_kernel_that_made_it(self) -> None:
        table, kernel = text_of("likwid", "perfctr_MEM_1.txt"), text_of("likwid", "bench_triad_w_1GB.txt")
        words = ["likwid-perfctr", "-C", "N:0", "-g", "MEM", "-m", "likwid-bench", "-t", "triad"]
        readings = parsers.parse("likwid", kernel + table, words)
        counted = {r.params["counted"]: r for r in readings if "counted" in r.params}
        assert counted["Memory bandwidth"].value == pytest.approx(42159.5705e6)
        volume = counted["Memory read data volume"]
        assert (volume.case, volume.metric, volume.value) == ("MEM", "traffic", pytest.approx(45.8748e9))
        assert {r.params["kernel"] for r in counted.values()} == {"triad"}
        assert "Runtime unhalted" not in counted and len(counted) == 8

    @pytest.mark.parametrize(("column", "value"), [("Sum", 8.5368), ("Max", 1.0671)])
    def test_columns_of_counted_tables_are_found_by_their_names(self, column: str, value: float) -> None:
        table = text_of("likwid", "perfctr_FLOPS_DP_8.txt").rpartition("|           Metric")
        swapped = table[2].replace("Sum", "?").replace("Max", "Sum").replace("?", "Max")
        text = "".join(table[:2]) + (table[2] if column == "Max" else swapped)
        (time,) = (r for r in parsers.parse("likwid", text) if r.metric == "time")
        assert time.value == value

    def test_an_old_name_of_threads_is_as_good_and_a_foreign_unit_is_passed_over(self) -> None:
        text = text_of("likwid", "perfctr_MEM_1.txt")
        assert parsers.parse("likwid", text.replace("HWThread", "Core")) == parsers.parse("likwid", text)
        for unit in ("MBytes/s", "GBytes", "MHz", "s"):
            text = text.replace(f"[{unit}]", "[MiB]")
        assert not parsers.parse("likwid", text)

    def test_the_failure_on_stderr(self) -> None:
        (reading,) = parsers.parse(
            "likwid",
            text_of("likwid", "bench_fail_domain.txt") + text_of("likwid", "bench_fail_domain.err.txt"),
            ["likwid-bench", "-t", "stream", "-w", "S7:400kB:2"],
        )
        assert (reading.case, reading.value, reading.status) == (
            "stream",
            None,
            "failed: Cannot find domain S7",
        )

    def test_a_run_without_result_has_failed(self) -> None:
        (reading,) = parsers.parse("likwid", "", ["likwid-bench", "-t", "peakflops", "-w", "N:400kB:16"])
        assert (reading.metric, reading.status) == ("flops", "failed: no result was printed")
        assert parsers.parse("likwid", text_of("likwid", "bench_h.txt"), ["likwid-bench", "-h"]) == []


class TestIperf3:
    def read(self, name: str, command: str = "iperf3 -c h") -> list[Reading]:
        return parsers.parse("iperf3", text_of("iperf3", name), command.split())

    def test_what_was_received_is_the_figure(self) -> None:
        readings = self.read("udp_overload_json.txt")
        assert values(readings, "bandwidth") == [(60000, pytest.approx(26678851237.587132 / 8))]
        assert values(readings, "bandwidth", side="send") == [(60000, pytest.approx(53190162791.825554 / 8))]
        assert values(readings, "loss") == [(60000, pytest.approx(0.49834859901637863))]
        assert values(readings, "jitter") == [(60000, pytest.approx(8.2895551997382438e-6))]

    @pytest.mark.parametrize(
        ("name", "reason"),
        [
            ("client_sigint_json.txt", "failed: interrupt - the client has terminated"),
            ("fail_serverint_json.txt", "failed: the server has terminated"),
            ("fail_noserver_json.txt", "failed: unable to connect to server: Connection refused"),
        ],
    )
    def test_an_error_with_exit_0_leaves_no_number(self, name: str, reason: str) -> None:
        (reading,) = self.read(name)
        assert (reading.value, reading.status) == (None, reason)

    def test_the_sum_of_parallel_streams(self) -> None:
        readings = self.read("tcp_P4_json.txt")
        assert values(readings, "bandwidth", streams="4") == [(131072, pytest.approx(21283379391.757042 / 8))]

    def test_directions(self) -> None:
        readings = self.read("tcp_bidir_json.txt")
        for direction, rate, retransmits in [
            ("bidir_forward", 15036006364.215019, 112),
            ("bidir_reverse", 3622503361.0823359, 23),
        ]:
            assert values(readings, "bandwidth", direction=direction) == [(131072, pytest.approx(rate / 8))]
            assert values(readings, "retransmits", direction=direction) == [(131072, retransmits)]
        readings = self.read("tcp_R_json.txt")
        assert values(readings, "bandwidth", direction="reverse") == [
            (131072, pytest.approx(20049567913.148251 / 8))
        ]

    def test_omitted_seconds_are_not_counted(self) -> None:
        assert values(self.read("tcp_omit_json.txt"), "bandwidth") == [
            (131072, pytest.approx(17358196536.786148 / 8))
        ]

    @pytest.mark.parametrize(
        ("name", "received"),
        [
            ("tcp_text.txt", 24.5e9 / 8),
            ("tcp_f_k_text.txt", 25204919e3 / 8),
            ("tcp_f_M_text.txt", 2991 * 2**20),
            ("udp_text.txt", 200e6 / 8),
        ],
    )
    def test_text_has_decimal_bits_and_binary_bytes(self, name: str, received: float) -> None:
        assert values(self.read(name), "bandwidth") == [(None, received)]

    def test_text_counts_only_when_it_is_done(self) -> None:
        text = text_of("iperf3", "tcp_text.txt")
        readings = parsers.parse("iperf3", text.replace("iperf Done.\n", ""), ["iperf3", "-c", "h"])
        assert [reading.value for reading in readings] == [None]

    def test_the_sum_line_replaces_the_streams(self) -> None:
        text = (
            "Connecting to host h, port 5201\n[ ID] Interval           Transfer     Bitrate\n"
            "[  5]   0.00-2.00   sec   954 MBytes  4.00 Gbits/sec                  receiver\n"
            "[  7]   0.00-2.00   sec   954 MBytes  4.00 Gbits/sec                  receiver\n"
            "[SUM]   0.00-2.00   sec  1.86 GBytes  8.00 Gbits/sec                  receiver\n\niperf Done.\n"
        )
        readings = parsers.parse("iperf3", text, ["iperf3", "-c", "h", "-P", "2"])
        assert values(readings, "bandwidth", streams="2") == [(None, 1e9)]

    def test_the_servers_log_has_every_test(self) -> None:
        readings = self.read("server.txt", "iperf3 -s")
        assert sum(reading.metric == "bandwidth" for reading in readings) == 23
        assert {reading.status for reading in readings} == {OK}

    def test_a_busy_server(self) -> None:
        (reading,) = self.read("fail_busy_text.err.txt")
        assert reading.status == "failed: error - the server is busy running a test. try again later"

    @pytest.mark.parametrize(
        ("name", "direction", "received"),
        [
            ("tcp_R_json.txt", {"direction": "reverse"}, 1),
            ("tcp_bidir_json.txt", {"direction": "bidir_forward"}, 1),
            ("tcp_bidir_json.txt", {"direction": "bidir_reverse"}, 1),
            ("tcp_P4_json.txt", {"streams": "4"}, 1),
        ],
    )
    def test_every_direction_and_all_streams_together(
        self, name: str, direction: dict[str, str], received: int
    ) -> None:
        readings = self.read(name)
        assert len(values(readings, "bandwidth", **direction)) == received
        assert len(values(readings, "retransmits", **direction)) == 1
        streams = json.loads(text_of("iperf3", name))["end"]
        end = (
            "sum_received_bidir_reverse" if direction.get("direction") == "bidir_reverse" else "sum_received"
        )
        (found,) = values(readings, "bandwidth", **direction)
        assert found[1] == pytest.approx(streams[end]["bits_per_second"] / 8)

    def test_the_streams_make_the_sum(self) -> None:
        text = text_of("iperf3", "tcp_P4_json.txt")
        rates = [stream["receiver"]["bits_per_second"] for stream in json.loads(text)["end"]["streams"]]
        ((_, rate),) = values(self.read("tcp_P4_json.txt"), "bandwidth", streams="4")
        assert len(rates) == 4 and rate == pytest.approx(sum(rates) / 8, rel=0.05)


class TestImb:
    def read(self, name: str, command: str = "") -> list[Reading]:
        return parsers.parse("imb", text_of("imb", name), command.split())

    @pytest.mark.parametrize(
        ("command", "cases"),
        [
            ("mpirun -n 2 IMB-MPI1 PingPong -npmin 2 -msglog 0:4", ["PingPong"]),
            ("IMB-MPI1 PingPong Sendrecv -msglog 0:4", ["PingPong", "Sendrecv"]),
            ("/opt/bin/IMB-RMA -msglog 0:4", ["IMB-RMA"]),
            ("qperf 0:4", []),
        ],
    )
    def test_a_run_without_a_table_is_a_failure_of_what_was_asked_for(
        self, command: str, cases: list[str]
    ) -> None:
        readings = parsers.parse("imb", "", command.split())
        assert [(reading.case, reading.value) for reading in readings] == [(case, None) for case in cases]

    @pytest.mark.parametrize(
        ("name", "case", "messages"),
        [("three.txt", "PingPong", 1), ("three.txt", "Sendrecv", 2), ("exchange_4ranks.txt", "Exchange", 4)],
    )
    def test_the_rate_is_bytes_by_time_in_decimal_megabytes(
        self, name: str, case: str, messages: int
    ) -> None:
        """Both are rounded to two decimals: at 1 KiB and above they agree to 3 %."""
        readings = [reading for reading in self.read(name) if reading.case == case]
        slowest = "max" if messages > 1 else None
        times = {
            reading.size: reading.value
            for reading in readings
            if reading.metric == "latency" and reading.params.get("statistic") == slowest
        }
        rates = {reading.size: reading.value for reading in readings if reading.metric == "bandwidth"}
        compared = [size for size in rates if size and size >= 1024]
        assert compared
        for size in compared:
            time, rate = times[size], rates[size]
            assert time and rate == pytest.approx(messages * size / time, rel=0.03)

    def test_a_size_of_nothing_has_a_latency_and_no_bandwidth(self) -> None:
        readings = self.read("PingPong.txt")
        assert [reading.metric for reading in readings if reading.size == 0] == ["latency"]

    def test_the_mean_over_the_ranks_is_the_headline(self) -> None:
        params = {"program": "IMB-MPI1", "ranks": "2"}
        assert values(self.read("Barrier.txt"), "latency", **params) == [(None, pytest.approx(0.20e-6))]
        readings = self.read("Alltoall.txt")
        assert values(readings, "latency", **params)[1] == (1, pytest.approx(1.17e-6))
        assert values(readings, "latency", **params, statistic="max")[1] == (1, pytest.approx(1.19e-6))

    def test_aggregated_one_sided_calls_are_told_apart(self) -> None:
        readings = self.read("rma_unidir_put.txt")
        for mode, seconds in (("non-aggregate", 0.76e-6), ("aggregate", 0.41e-6)):
            found = values(readings, "latency", program="IMB-RMA", ranks="2", mode=mode)
            assert found[-1] == (4096, pytest.approx(seconds))

    @pytest.mark.parametrize(
        ("name", "reason"),
        [
            ("fail_np1.txt", "failed: invalid for 1 processes"),
            ("unknown_name.txt", "failed: Invalid benchmark name"),
            ("time_out.txt", "failed: time-out."),
            ("out_of_memory.txt", "failed: out-of-mem."),
        ],
    )
    def test_failures_that_exit_0(self, name: str, reason: str) -> None:
        failed = [reading for reading in self.read(name) if reading.status != OK]
        assert len(failed) == 1 and failed[0].status.startswith(reason) and failed[0].value is None

    def test_ranks_that_took_part_are_told_from_those_that_waited(self) -> None:
        found = {(r.params["ranks"], r.params.get("waiting")) for r in self.read("subgroups.txt")}
        assert found == {("2", "2"), ("4", None)}
        assert {reading.params["ranks"] for reading in self.read("singletons.txt")} == {"1"}
        assert {r.params.get("group") for r in self.read("multi.txt")} == {"0", "1"}


class TestNuttcp:
    def read(self, name: str) -> list[Reading]:
        return parsers.parse("nuttcp", (DATA / "nuttcp" / name).read_text())

    def test_megabits_are_decimal_and_the_receivers(self) -> None:
        assert values(self.read("tcp_v.txt"), "bandwidth") == [(65536, pytest.approx(24545.6176e6 / 8))]
        # megabytes are 2^20 bytes: the rounded time agrees with the rate
        assert pytest.approx(24545.6176e6 / 8, rel=3e-3) == 5865.8750 * 2**20 / 2.00

    def test_loss_is_counted_in_packets_and_intervals_are_no_results(self) -> None:
        readings = self.read("udp_max.txt")
        assert values(readings, "loss") == [(8192, pytest.approx(4767 / 343328))]
        assert values(readings, "bandwidth") == [(8192, pytest.approx(11096.5579e6 / 8))]
        assert len(values(self.read("udp_i1_parse.txt"), "bandwidth", bitrate="50m")) == 1

    def test_udp_without_a_rate_is_sent_at_a_megabit(self) -> None:
        assert values(self.read("udp.txt"), "bandwidth", bitrate="1m") == [
            (None, pytest.approx(1.0012e6 / 8))
        ]

    @pytest.mark.parametrize(
        ("name", "reason"),
        [
            ("sigint.txt", "failed: the transfer was interrupted"),
            ("fail_serverkilled.txt", "failed: nothing was received"),
            ("fail_noserver.err.txt", "failed: nuttcp-t: v6.1.2: Error: connect: Connection refused"),
        ],
    )
    def test_what_was_not_received_in_whole_is_a_failure(self, name: str, reason: str) -> None:
        (reading,) = self.read(name)
        assert (reading.value, reading.status) == (None, reason)


class TestNetpipe:
    def read(self, *names: str) -> list[Reading]:
        return parsers.parse("netpipe", "".join(text_of("netpipe", name) for name in names))

    def test_a_megabit_is_2_to_the_20(self) -> None:
        readings = self.read("pingpong_stdout.txt")
        rates, times = values(readings, "bandwidth"), values(readings, "latency")
        assert len(rates) == len(times) > 40
        for (size, rate), (_, time) in zip(rates, times, strict=True):
            assert size and rate and time
            assert time == pytest.approx(size / rate, abs=0.51e-8), "printed to ten nanoseconds"

    def test_the_file_beats_the_rounded_rows_and_nothing_counts_twice(self) -> None:
        both = self.read("pingpong_stdout.txt", "pingpong_stdout.err.txt")
        assert both == self.read("pingpong_stdout.txt")
        rounded = values(self.read("pingpong_stdout.err.txt"), "bandwidth")
        assert rounded == [
            (size, pytest.approx(rate, abs=0.0051 * 2**17)) for size, rate in values(both, "bandwidth")
        ]

    def test_both_directions_are_a_case_of_their_own_and_the_size_is_one_messages(self) -> None:
        readings = self.read("bidirectional.txt")
        assert {reading.case for reading in readings} == {"bidirectional"}
        (size, rate), *_ = values(readings, "bandwidth")
        (_, time), *_ = values(readings, "latency")
        assert size == 1 and time and rate == pytest.approx(2 * size / time, rel=0.01)

    def test_streaming_has_no_latency(self) -> None:
        assert {reading.metric for reading in self.read("stream.txt")} == {"bandwidth"}


def test_likwid_s_bandwidth_agrees_with_its_volume_and_time() -> None:
    """418.8 GB in 1.908 s are 219.4 GB/s; a digit more is a lie, or a line of another run."""
    text = text_of("likwid", "bench_clcopy_w_400kB_2.txt")
    (true,) = parsers.parse("likwid", text)
    (wrong,) = parsers.parse("likwid", text.replace("219439.03", "2194390.30"))
    assert true.status == OK
    assert wrong.status == "invalid: 2.194 TB/s is printed, but 418.8 GB in 1.908 s are 219.4 GB/s"


def test_a_time_of_likwid_that_is_no_number_is_passed_over() -> None:
    text = text_of("likwid", "bench_clcopy_w_400kB_2.txt")
    broken = re.sub(r"(Time:\s+\d\.\d\d)", r"\1.", text)
    assert broken != text
    assert parsers.parse("likwid", broken) == parsers.parse("likwid", text)


class TestUnknownUnitsOfPerftest:
    @pytest.mark.parametrize(
        ("name", "known", "unknown"),
        [
            ("ib_write_bw_a_gbits.client.txt", "BW average[Gb/sec]", "BW average[KB/sec]"),
            ("ib_write_bw_a_gbits.client.txt", "MsgRate[Mpps]", "MsgRate[Kpps]"),
        ],
    )
    def test_a_heading_with_another_unit_gives_no_number_and_the_reason(
        self, name: str, known: str, unknown: str
    ) -> None:
        text = text_of("perftest", name)
        assert known in text
        (reading,) = parsers.parse("perftest", text.replace(known, unknown))
        assert (reading.value, reading.status) == (None, f"failed: unknown unit: {unknown}")

    def test_nor_does_a_latency(self) -> None:
        path = next(path for path in captured.outputs("perftest") if "t_avg[usec]" in path.read_text())
        readings = parsers.parse("perftest", path.read_text().replace("t_avg[usec]", "t_avg[cycles]"))
        assert {reading.value for reading in readings} == {None}
        assert {reading.status for reading in readings} == {"failed: unknown unit: t_avg[cycles]"}

    def test_json_says_no_unit_and_a_number_that_fits_none_is_none(self) -> None:
        text = text_of("perftest", "ib_write_bw_gbits_json.client.json.txt")
        (average,) = re.findall(r"BW_average: ([0-9.]+)|\"BW_average\": ([0-9.]+)", text)
        number = "".join(average)
        (reading,) = parsers.parse("perftest", text.replace(number, str(float(number) * 1000)))
        assert reading.value is None and reading.status.startswith("failed: unknown unit: ")


class TestHpl:
    row = "WC0           20000  1024     2     4        10.00       5.334e+02 ( 6.668e+01)\n"
    residual = "||Ax-b||_oo/(eps*(||A||_oo*||x||_oo+||b||_oo)*N)=   0.000550841189 ...... {}\n"

    def statuses(self, text: str) -> list[str]:
        return [reading.status for reading in parsers.parse("hpl", text)]

    def test_the_rate_of_all_gpus_counts(self) -> None:
        readings = parsers.parse("hpl", self.row + self.residual.format("PASSED"))
        assert [(r.metric, r.value, r.status) for r in readings][:2] == [
            ("flops", 533.4e9, OK),
            ("time", 10.0, OK),
        ]

    def test_one_residual_of_three_that_failed(self) -> None:
        text = text_of("hpl-formats", "hpl_1.0a.txt")
        assert set(self.statuses(text)) == {OK}
        worse = text.replace(
            "PASSED\n||Ax-b||_oo / ( eps * ||A||_oo", "FAILED\n||Ax-b||_oo / ( eps * ||A||_oo"
        )
        assert worse != text
        assert set(self.statuses(worse)) == {"invalid: the scaled residual failed HPL's check"}

    def test_mixed_precision_is_no_hpl_though_its_rows_look_alike(self) -> None:
        banner = "HPLinpack 2.2  --  High-Performance Linpack benchmark  --   February 24, 2016\n"
        amd = banner + self.row + "HPLMXP_pdgesv() start time x\n" + self.residual.format("PASSED")
        ai = (
            banner
            + "HPL_AI   WR03L2L2       44000   288     1     1   3.74   1.517e+04   1.32214   1.121e+04\n"
        )
        nvidia = "    N = 258048, NB = 1024\n       GFLOPS = 4.3468e+05\n ****** HPL MxP Result    ******\n"
        for text in (amd, ai, nvidia):
            assert self.statuses(text) == ["failed: HPL-MxP, in mixed precision, is not read"], text
        good = banner + self.row + self.residual.format("PASSED")
        assert self.statuses(good + nvidia) == [OK] * 3
        assert self.statuses(amd + good) == ["failed: HPL-MxP, in mixed precision, is not read", *[OK] * 3]

    def test_mixed_precision_is_told_above_the_rows_or_by_the_command(self) -> None:
        good = self.row + self.residual.format("PASSED")
        banner = "HPLinpack 2.3  --  High-Performance Linpack benchmark  --   December 2, 2018\n"
        refused = ["failed: HPL-MxP, in mixed precision, is not read"]
        assert self.statuses(f"{banner}Intel(R) Optimized HPL-AI Benchmark\n{good}") == refused
        command = ["mpirun", "-n", "2", "./xhpl-ai_intel64_dynamic"]
        assert [reading.status for reading in parsers.parse("hpl", banner + good, command)] == refused

    def test_other_programs_are_refused_by_name(self) -> None:
        (status,) = self.statuses("Intel(R) Optimized LINPACK Benchmark data\n\nNumber of CPUs: 2\n")
        assert status == "failed: Intel's LINPACK is not read"

    def test_a_run_that_finished_with_rows_of_another_form_did_not_end_early(self) -> None:
        banner = "HPLinpack 9.9  --  High-Performance Linpack benchmark  --   December 2, 2058\n"
        (status,) = self.statuses(f"{banner}WC0 of a new form\n\nFinished      1 tests with the following\n")
        assert status == "failed: it finished, and none of its rows is known"

    def test_every_run_of_a_text_without_a_row_has_failed(self) -> None:
        banner = "HPLinpack 2.3  --  High-Performance Linpack benchmark  --   December 2, 2018\n"
        good = banner + self.row + self.residual.format("PASSED")
        assert self.statuses(good + banner + good) == [
            *[OK] * 3,
            "failed: the run ended before its first result",
            *[OK] * 3,
        ]


class TestHpcg:
    text = text_of("hpcg-formats", "intel_3.0_quickpath.txt")

    def test_a_verdict_in_other_words_is_told_in_them(self) -> None:
        text = text_of("hpcg", "short_2.txt").replace(
            "is VALID with a GFLOP/s rating of",
            "is INVALID because SYMGS and SPMV were fused. GFLOP/s rating of",
        )
        statuses = {reading.status for reading in parsers.parse("hpcg", text)}
        (status,) = statuses
        assert status.startswith("invalid: HPCG result is INVALID because SYMGS and SPMV were fused.")

    def test_a_part_that_contradicts_itself_spoils_only_itself(self) -> None:
        readings = parsers.parse("hpcg", self.text.replace("Raw MG: 4.24", "Raw MG: 4.46"))
        assert {r.case for r in readings if r.status != OK} == {"HPCG_MG"}

    def test_a_verdict_that_was_cut_is_none(self) -> None:
        for end in ("HPCG result is", "HPCG result is VALID with"):
            (reading,) = parsers.parse("hpcg", self.text.partition(end)[0] + end)
            assert reading.status == "failed: the result file ends before its summary does"

    def test_an_indented_file_that_was_cut(self) -> None:
        text = self.text.partition("       After confirmation")[0]
        (reading,) = parsers.parse("hpcg", text)
        assert reading.status == "failed: the result file ends before its summary does"

    @pytest.mark.parametrize(
        "line",
        [
            "rocHPCG version: 0.8.8 (based on hpcg-3.1)",
            "HPCG result is VALID with a GFLOP/s rating of 3.289080",
        ],
    )
    def test_what_is_printed_beside_the_file_is_refused_by_name(self, line: str) -> None:
        (reading,) = parsers.parse("hpcg", line + "\n")
        assert reading.status == "failed: only HPCG's result file (HPCG-Benchmark_*.txt, *.yaml) is read"


class TestHimeno:
    text = text_of("himeno-formats", "c.txt")

    def statuses(self, text: str) -> set[str]:
        return {reading.status for reading in parsers.parse("himeno", text)}

    def test_the_loops_of_the_rehearsal_follow_from_its_rate(self) -> None:
        (flop,) = (r.value for r in parsers.parse("himeno", self.text) if r.metric == "flop")
        assert flop == 34 * 126 * 126 * 254 * (1716 + 3)
        told_wrong = self.text.replace(
            "Measure the performance in 3 times", "Measure the performance in 9 times"
        )
        assert [r.value for r in parsers.parse("himeno", told_wrong) if r.metric == "flop"] == [flop]

    def test_a_residual_that_does_not_fall_where_its_sum_can_tell(self) -> None:
        assert self.statuses(self.text.replace("Gosa : 8.330000e-05", "Gosa : 1.694000e-03")) == {
            "invalid: the residual is not below the rehearsal's"
        }
        assert self.statuses(text_of("himeno-formats", "c_mpi_large.txt")) == {OK}

    def test_an_integer_that_overflowed_in_the_count_of_operations(self) -> None:
        rate = "MFLOPS measured : 3944.250000"
        assert self.statuses(self.text.replace(rate, "MFLOPS measured : 244.250000")) == {
            "invalid: the rate is not the loops' FLOP over the time"
        }


class TestBabelstream:
    text = text_of("babelstream-formats", "cuda_4.0.txt")

    def statuses(self, text: str) -> dict[str, str]:
        return {reading.case: reading.status for reading in parsers.parse("babelstream", text)}

    def test_a_rounded_size_is_the_asked_one_or_the_default(self) -> None:
        asked = ["cuda-stream", "-s", "33550000"]
        assert {r.size for r in parsers.parse("babelstream", self.text)} == {3 * 8 * 2**25}
        assert {r.size for r in parsers.parse("babelstream", self.text, asked)} == {3 * 8 * 33_550_000}
        other = self.text.replace("Array size: 268.4 MB", "Array size: 268.6 MB")
        readings = parsers.parse("babelstream", other)
        assert {(r.size, r.params.get("array_size")) for r in readings} == {(805_800_000, None)}

    def test_a_sum_that_failed_spoils_dot_and_an_array_everything(self) -> None:
        told = "Validation failed on sum. Error 3.54711e-06\nSum was 39.79 but should be 39.80\n"
        statuses = self.statuses(self.text.replace("Function ", told + "Function "))
        assert [case for case, status in statuses.items() if status != OK] == ["dot"]
        statuses = self.statuses(self.text + "Validation failed on a[]. Average error 0.1\n")
        assert set(statuses.values()) == {"invalid: BabelStream's validation failed on a"}

    def test_a_rate_in_another_unit_than_its_heading_says(self) -> None:
        text = text_of("babelstream-formats", "omp_5.0_mebi_float.txt")
        wrong = self.statuses(text.replace("MiBytes/sec Min", "MBytes/sec  Min"))
        assert len(wrong) == 5
        assert all("is printed, but" in status for status in wrong.values())

    def test_programs_that_ran_at_once(self) -> None:
        both = "".join(line + line for line in self.text.splitlines(keepends=True))
        both = both.replace("Version: 4.0\nVersion: 4.0\n", "Version: 4.0\n")
        assert set(self.statuses(both).values()) == {"invalid: numbers of several runs below one heading"}

    def test_a_table_cut_before_its_first_row(self) -> None:
        assert OK not in self.statuses(self.text.partition("Copy ")[0]).values()

    def test_a_mean_over_all_repetitions_is_refused_by_name(self) -> None:
        text = self.text.partition("Function")[0]
        text += "-----\nRuntime (seconds): 0.05894\nBandwidth (GB/s):  1366.351\n"
        assert self.statuses(text) == {"triad": "failed: no table of several kernels was printed"}


class TestOtherStreams:
    def statuses(self, text: str) -> set[str]:
        return {reading.status for reading in parsers.parse("stream", text)}

    def test_two_programs_that_wrote_one_table(self) -> None:
        lines = text_of("stream", "stream_t2.txt").splitlines(keepends=True)
        both = "".join(line + line for line in lines)
        assert OK not in self.statuses(both)
        assert "invalid: several programs wrote this table, or one several tables" in self.statuses(both)

    def test_the_heading_says_the_unit(self) -> None:
        text = text_of("stream", "stream_t2.txt")
        in_gigabytes = re.sub(r"(?m)^(\w+: +)(\d+)(\d{3})\.\d", r"\1\2.\3", text).replace(
            "Rate MB/s", "Rate GB/s"
        )
        assert self.statuses(in_gigabytes) == {OK}
        assert parsers.parse("stream", in_gigabytes)[0].value == pytest.approx(36.5e9)
        (status,) = self.statuses(in_gigabytes.replace("Rate GB/s", "Rate MB/s").partition("Scale: ")[0]) - {
            "failed: no rate was printed"
        }
        assert status.startswith("invalid: ")

    def test_fortran_is_refused_by_name(self) -> None:
        text = (
            " Assuming 8 bytes per DOUBLE PRECISION word\n STREAM Version $Revision: 5.6 $\n"
            " Array size =    2000000\n You are running each test  10 times\n"
            "Copy:      18000.1234      0.0018      0.0018      0.0018\n Solution Validates!\n"
        )
        assert self.statuses(text) == {"failed: STREAM in Fortran is not read"}

    def test_mb_of_the_memory_of_old_stream_are_binary(self) -> None:
        text = text_of("stream-formats", "stream_5.9.txt")
        wrong = text.replace("memory required = 686.6 MB", "memory required = 720.0 MB")
        assert self.statuses(wrong) == {
            "invalid: an array is of 228.9 MiB, but: Total memory required = 720.0 MB"
        }


def test_a_core_of_old_likwid_that_threads_share() -> None:
    text = text_of("likwid-formats", "bench_4.0.txt").replace("on core 1", "on core 0")
    (reading,) = parsers.parse("likwid", text)
    assert reading.status == "invalid: 2 threads or more share a hardware thread"


def test_old_likwid_that_counts_its_data_once_for_each_work_group() -> None:
    text = text_of("likwid-formats", "bench_4.0.txt")
    twice = text.replace("134217728000", "268435456000").replace("111848.11", "223696.21")
    (reading,) = parsers.parse("likwid", twice)
    assert reading.status == "invalid: its data are counted 2 times"


def test_csv_of_likwid_perfctr_is_refused_by_name() -> None:
    (reading,) = parsers.parse("likwid", "STRUCT,Info,3\nTABLE,Group 1 Metric,MEM,2\nMetric,HWThread 0,\n")
    assert reading.status == "failed: its CSV (-O) is not read"


class TestAskedAgainstGotOfPerftest:
    @pytest.mark.parametrize(
        ("options", "said"),
        [
            ("-m 4096 -q 1 -c RC -d mlx5_2", OK),
            ("-m 2048", "invalid: asked for MTU 2048, got 4096"),
            ("--qp=4", "invalid: asked for qps 4, got 1"),
            ("-c UD", "invalid: asked for connection UD, got RC"),
            ("--ib-dev=mlx5_0", "invalid: asked for device mlx5_0, got mlx5_2"),
        ],
    )
    def test_what_was_not_asked_for_is_invalid(self, options: str, said: str) -> None:
        text = text_of("perftest-formats", "v25.01_ib_write_bw_mtu.client.txt")
        readings = parsers.parse("perftest", text, ["ib_write_bw", *options.split(), "10.1.0.7"])
        assert {reading.status for reading in readings} == {said}

    def test_two_ports_double_the_queue_pairs(self) -> None:
        text = text_of("perftest-formats", "v25.01_ib_send_bw_qos.client.txt")
        readings = parsers.parse("perftest", text, ["ib_send_bw", "-O", "-q", "1", "10.1.0.7"])
        assert {reading.status for reading in readings} == {OK}


def test_a_damaged_size_of_sockperf_contradicts_the_printed_rate() -> None:
    text = text_of("sockperf-formats", "v3.10_udp_tp_1472.txt")
    for size, said in (("1472", OK), ("184", "invalid: 478.4 MB/s is printed, but 59.8 MB in 1 s")):
        readings = parsers.parse("sockperf", text, ["sockperf", "tp", "-i", "h", "-m", size])
        (status,) = (reading.status for reading in readings if reading.metric == "bandwidth")
        assert status.startswith(said)
    assert values(parsers.parse("sockperf", text), "bandwidth", side="send") == [
        (None, pytest.approx(456.238 * 2**20))
    ]


@pytest.mark.parametrize(
    ("name", "column"), [("ib_write_bw_q4.client.txt", 3), ("ib_send_lat_D2.client.txt", 2)]
)
def test_a_counter_of_perftest_that_overflowed_is_a_failure(name: str, column: int) -> None:
    text = text_of("perftest", name)
    (row,) = re.findall(r"\n( \d+ .*)", text)
    readings = parsers.parse("perftest", text.replace(row, row.replace(row.split()[column], "-3.14")))
    assert "failed: the result is -3.14" in {reading.status for reading in readings}


def test_an_average_of_perftest_that_its_message_rate_contradicts_names_the_factor() -> None:
    text = text_of("perftest-formats", "v25.01_ib_write_bw_mtu.client.txt")
    (average,) = re.findall(r"\n 65536 +5000 +[0-9.]+ +([0-9.]+)", text)
    wrong = text.replace(average, f"{float(average) * 2**20 / 1e6:.2f}")
    statuses = {
        reading.status for reading in parsers.parse("perftest", wrong) if "statistic" not in reading.params
    }
    assert any("a factor of 1.0486, MB converted as MiB" in status for status in statuses)
