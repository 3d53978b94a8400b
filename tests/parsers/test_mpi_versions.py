"""IMB, OSU and nccl-tests: what differs between their versions, and rows that contradict themselves."""

from __future__ import annotations

import pytest

from npc import parsers
from npc.records.reading import OK, Reading
from tests.captured import text_of


def bandwidths(readings: list[Reading]) -> list[Reading]:
    return [reading for reading in readings if reading.metric == "bandwidth"]


class TestMegabytesOfImb:
    BANNER = "#    Intel (R) MPI Benchmark Suite V3.2.2, MPI-1 part\n"
    TABLE = (
        "#---------------\n# Benchmarking PingPong \n# #processes = 2 \n#---------------\n"
        "       #bytes #repetitions      t[usec]   Mbytes/sec\n"
    )

    @pytest.mark.parametrize("banner", [BANNER, ""])
    @pytest.mark.parametrize(("mb_s", "value"), [("3693.63", 3.8730503e9), ("3873.04", 3.87304e9)])
    def test_the_row_decides(self, banner: str, mb_s: str, value: float) -> None:
        text = f"{banner}{self.TABLE}      4194304           10      1082.94      {mb_s}\n"
        (reading,) = bandwidths(parsers.parse("imb", text))
        assert (reading.status, reading.value) == (OK, pytest.approx(value, rel=1e-6))

    @pytest.mark.parametrize(
        ("banner", "value"),
        [
            ("#    Intel (R) MPI Benchmarks 2017 update 2, MPI-1 part\n", 18.59 * 2**20),
            ("#    Intel(R) MPI Benchmarks 2019 Update 6, MPI-1 part\n", 18.59e6),
            ("", None),
        ],
    )
    def test_where_a_row_is_too_small_its_version_decides(self, banner: str, value: float | None) -> None:
        text = f"{banner}{self.TABLE}            1         1000         0.05        18.59\n"
        (reading,) = bandwidths(parsers.parse("imb", text))
        assert reading.value == (value and pytest.approx(value))
        assert reading.status == (
            OK if value else "failed: MB are 10^6 or 2^20 bytes: neither a row nor a version tells"
        )

    @pytest.mark.parametrize(("mb_s", "value"), [("8244.86", 8244.86e6), ("7862.91", 7862.91 * 2**20)])
    def test_so_does_a_message_rate(self, mb_s: str, value: float) -> None:
        table = self.TABLE.replace("PingPong", "Uniband").replace(
            "t[usec]   Mbytes/sec", "Mbytes/sec   Msg/sec"
        )
        (reading,) = bandwidths(parsers.parse("imb", f"{table}  16384  200  {mb_s}  503226\n"))
        assert (reading.status, reading.value) == (OK, pytest.approx(value))

    def test_a_row_against_the_others_is_invalid_and_its_factor_named(self) -> None:
        rows = [
            "1082.94      3693.63",
            "1082.94      3873.04",
            "1082.94     29549.04",
            "1082.94      7387.26",
        ]
        sizes = [4194304 + number for number in range(4)]
        rows = [f"      {size}           10      {row}\n" for size, row in zip(sizes, rows, strict=True)]
        text = (
            self.BANNER
            + self.TABLE
            + f"      2097152           10       541.47      3693.63\n{''.join(rows)}"
        )
        readings = parsers.parse("imb", text)
        invalid = [reading for reading in readings if reading.status != OK]
        assert {reading.size for reading in invalid} == set(sizes[1:])
        assert {reading.metric for reading in invalid} == {"bandwidth", "latency"}
        factors = [reading.status.partition("a factor of ")[2] for reading in bandwidths(invalid)]
        assert factors[0] == "1.0486, MB converted as MiB"
        assert factors[1] == "8, bits printed as bytes" and factors[2].startswith("2, both directions")

    @pytest.mark.parametrize(
        ("banner", "program", "version"),
        [
            ("Intel (R) MPI Benchmarks 4.1 Update 1, MPI-1 part    ", "IMB-MPI1", "4.1 Update 1"),
            ("Intel (R) MPI Benchmark Suite V3.2.2, MPI-2 part    ", None, "3.2.2"),
            ("Intel(R) MPI Benchmarks 2021.3, IMB-RMA part", "IMB-RMA", "2021.3"),
            ("PALLAS MPI Benchmark Suite V2.2, MPI-1 part    ", "IMB-MPI1", "2.2"),
        ],
    )
    def test_banners(self, banner: str, program: str | None, version: str) -> None:
        text = f"#    {banner}\n{self.TABLE}      4194304           10      1082.94      3873.04\n"
        for reading in parsers.parse("imb", text):
            assert (reading.params.get("program"), reading.tool_version) == (program, version)


class TestOsu:
    def test_a_heading_without_its_mark(self) -> None:
        readings = parsers.parse("osu", text_of("osu", "ibarrier_5.6.txt"))
        assert [reading.metric for reading in readings] == ["time", "time", "latency", "overlap"]
        assert {reading.size for reading in readings} == {None}

    @pytest.mark.parametrize("order", [("# Datatype: {}.\n", "{}"), ("{}", "# Datatype: {}.\n")])
    def test_a_datatype_stands_above_the_heading_or_below(self, order: tuple[str, str]) -> None:
        title, heading = "# OSU MPI Latency Test v7.1\n", "# Size          Latency (us)\n"
        above, below = (part.format("MPI_INT") if "Datatype" in part else "" for part in order)
        second = "# Datatype: MPI_FLOAT.\n" + (heading if above else "")
        text = f"{title}{above}{heading}{below}4      1.50\n{second}4      1.75\n"
        found = [(each.params["datatype"], each.value) for each in parsers.parse("osu", text)]
        assert found == [("MPI_INT", pytest.approx(1.5e-6)), ("MPI_FLOAT", pytest.approx(1.75e-6))]

    @pytest.mark.parametrize(
        ("line", "command", "buffers"),
        [
            ("# Send Buffer on HOST (H) and Receive Buffer on DEVICE (D)\n", "osu_bw D H", "H D"),
            ("# Rank 0 Memory on MANAGED (M) and Rank 1 Memory on DEVICE (D)\n", "osu_put_bw", "M D"),
            ("", "mpirun -n 2 osu_bw -d cuda D D", "D D"),
            ("", "mpirun -n 2 osu_bw -d cuda", None),
        ],
    )
    def test_where_the_buffers_are(self, line: str, command: str, buffers: str | None) -> None:
        text = f"# OSU MPI-CUDA Bandwidth Test v7.5\n{line}# Size      Bandwidth (MB/s)\n1      0.90\n"
        (reading,) = parsers.parse("osu", text, command.split())
        assert (reading.params["accelerator"], reading.params.get("buffers")) == ("cuda", buffers)

    @pytest.mark.parametrize(
        ("mb_s", "reason"),
        [
            ("4295.12", ""),
            ("4096.15", ": a factor of 1.0486, MiB printed as MB"),
            ("8590.24", ": a factor of 2, both"),
        ],
    )
    def test_a_rate_against_its_messages(self, mb_s: str, reason: str) -> None:
        text = "# OSU MPI Multiple Bandwidth / Message Rate Test v5.9\n# Size      MB/s        Messages/s\n"
        readings = parsers.parse("osu", f"{text}65536      {mb_s}      65538.33\n")
        assert [reading.metric for reading in readings] == ["bandwidth", "message_rate"]
        assert all((reason in reading.status) if reason else reading.status == OK for reading in readings)

    def test_xccl_between_two_ranks_has_no_title_and_is_named_by_the_command(self) -> None:
        buffers = "# Send Buffer on DEVICE (D) and Receive Buffer on DEVICE (D)\n"
        text = f"#Using NCCL\n#Using NCCL\n{buffers}# Size      Bandwidth (MB/s)\n1      0.17\n"
        (reading,) = parsers.parse("osu", text, ["mpirun", "-n", "2", "/opt/omb/osu_xccl_bw", "D", "D"])
        assert (reading.case, reading.metric) == ("osu_nccl_bw", "bandwidth")
        assert reading.params == {"accelerator": "cuda", "buffers": "D D"}

    def test_a_second_test_without_its_title_is_not_the_first_s(self) -> None:
        first = "# OSU MPI Latency Test v7.5\n# Size       Avg Latency(us)\n1      2.39\n"
        readings = parsers.parse("osu", f"{first}# Size      Bandwidth (MB/s)\n1      0.17\n")
        assert [(reading.value, reading.status) for reading in readings] == [
            (pytest.approx(2.39e-6), OK),
            (None, "failed: another heading in its table: a title is missing"),
        ]

    def test_a_table_without_its_title_is_not_called_empty(self) -> None:
        buffers = "# Send Buffer on DEVICE (D) and Receive Buffer on DEVICE (D)\n"
        (reading,) = parsers.parse("osu", buffers + "# Size      Bandwidth (MB/s)\n1      0.17\n")
        assert reading.status == "failed: the title line is missing"


class TestNccl:
    TEXT = text_of("nccl", "all_reduce_2.17.txt")

    @pytest.mark.parametrize(
        ("right", "wrong", "reason"),
        [
            ("243.51   68.90  120.57", "243.51   64.17  112.29", "a factor of 1.0737, GiB printed as GB"),
            ("243.51   68.90  120.57", "243.51   551.2  964.56", "a factor of 8, bits printed as bytes"),
            ("243.51   68.90  120.57", "243.51   68.90  137.80", "invalid: busbw of 8 ranks: 137.8 GB/s is"),
        ],
    )
    def test_a_row_that_contradicts_itself(self, right: str, wrong: str, reason: str) -> None:
        assert right in self.TEXT
        readings = parsers.parse("nccl", self.TEXT.replace(right, wrong))
        invalid = [reading for reading in readings if reading.status != OK]
        assert {(each.size, each.params["place"]) for each in invalid} == {(16777216, "out-of-place")}
        assert len(invalid) == 3 and all(reason in reading.status for reading in invalid)

    def test_other_lines_between_those_of_the_title(self) -> None:
        noisy = self.TEXT.replace("\n# Coll", "\n[n1:7] 3 more processes\n# Coll").replace(
            "\n# nThread", "\nNCCL version 2.29.3+cuda13.1\n# nThread"
        )
        assert noisy.count("\n") == self.TEXT.count("\n") + 3
        assert parsers.parse("nccl", noisy) == parsers.parse("nccl", self.TEXT)

    def test_a_log_that_somebody_shortened(self) -> None:
        text = (
            "# nccl-tests version 2.17.6\n# Collective test starting: all_gather_perf\n#\n"
            "#       size         count      type   redop    root     time   algbw   busbw  #wrong\n"
            " 17179869184    2147483648     float    none      -1   375880   45.71   22.85       0\n"
        )
        readings = parsers.parse("nccl", text)
        assert [(each.case, each.value, dict(each.params)) for each in readings] == [
            ("all_gather_perf", pytest.approx(0.37588), {"type": "float"}),
            ("all_gather_perf", 45.71e9, {"type": "float", "counted": "algbw"}),
            ("all_gather_perf", 22.85e9, {"type": "float", "counted": "busbw"}),
        ]

    def test_a_shortened_list_of_ranks_accuses_nobody(self) -> None:
        start, end = self.TEXT.index("#  Rank  4"), self.TEXT.index("#  Rank  7")
        readings = parsers.parse("nccl", self.TEXT[:start] + "...\n" + self.TEXT[end:])
        assert {(each.status, each.params["ranks"]) for each in readings} == {(OK, "8")}

    def test_elements_that_are_wrong(self) -> None:
        readings = parsers.parse("nccl", text_of("nccl", "fail_wrong.txt"))
        assert {reading.status for reading in readings} == {"invalid: #wrong is 2", "invalid: #wrong is 1"}

    def test_an_old_run_without_its_check_is_not_believed(self) -> None:
        text = text_of("nccl", "sum_2.8.txt")
        readings = parsers.parse("nccl", text[: text.index("# Out of bounds")])
        assert {reading.status for reading in readings} == {"invalid: ends before the check"}

    def test_the_command_line_names_what_the_text_does_not(self) -> None:
        command = "mpirun -n 4 ./build/reduce_scatter_perf_mpi -b 64K -g 4"
        readings = parsers.parse("nccl", text_of("nccl", "sum_2.8.txt"), command.split())
        assert {reading.case for reading in readings} == {"reduce_scatter_perf"}

    def test_the_time_until_the_call_returns_is_no_latency(self) -> None:
        readings = parsers.parse("nccl", self.TEXT.replace("    time ", " cputime "))
        assert {(reading.metric, reading.status) for reading in readings} == {("bandwidth", OK)}

    @pytest.mark.parametrize(
        ("text", "reason"),
        [
            ('{"version":2,"nccl_version":22903,"results":[', "the JSON is not whole"),
            ('{"nccl_version":22903,"results":[]}', "the JSON has no result"),
            ("numCycle,collective,ranks,rankspernode\n", "the CSV of rccl-tests is not read"),
            ("# nThread 1 nGpus 2 minBytes 8\n# nThread 1 nGpus 2 minBytes 8\n", "no table was printed"),
        ],
    )
    def test_what_is_not_read_is_refused_by_name(self, text: str, reason: str) -> None:
        readings = parsers.parse("nccl", text)
        assert readings and all(reason in each.status and each.value is None for each in readings)

    def test_runs_that_mpirun_started_beside_each_other(self) -> None:
        twice = "".join(line * 2 for line in self.TEXT.splitlines(keepends=True))
        assert all(reading.value is None for reading in parsers.parse("nccl", twice))
