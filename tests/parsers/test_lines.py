"""What launchers, logs and terminals put around a tool's lines changes no reading."""

from __future__ import annotations

import pytest

from npc import parsers
from tests.captured import text_of

TEXTS = [
    ("osu", "osu_latency.out"),
    ("imb", "PingPong.txt"),
    ("qperf", "conf.txt"),
    ("nccl", "alltoall_rccl.txt"),
    ("iperf3", "tcp_text.txt"),
    ("iperf3", "tcp_json.txt"),
    ("perftest", "ib_write_bw_q4.client.txt"),
    ("sockperf", "tcp_pp_m14.txt"),
    ("nuttcp", "tcp_v.txt"),
    ("netpipe", "pingpong_stderr.txt"),
]


@pytest.mark.parametrize(("tool", "name"), TEXTS)
@pytest.mark.parametrize(
    "before",
    [
        "[1,0]<stdout>:",
        "[1,0]<stdout>: ",
        "[prterun-n01-4711@1,0]<stdout>: ",
        "Mon Nov 23 01:53:04 2026<stdout>:",
        "Mon Nov 23 01:53:04 2026[1,0]<stdout>:",
        "2026-11-23T01:53:04.123456Z ",
        "[2026-11-23 01:53:04] ",
        "Mon Nov  2 01:53:04 2026 ",
        "Nov 23 01:53:04 ",
        "0: ",
        "12: ",
        "[0] ",
        "\x1b[0m\x1b[1;32m",
    ],
)
def test_what_stands_before_every_line(tool: str, name: str, before: str) -> None:
    text = text_of(tool, name)
    decorated = "".join(before + line for line in text.splitlines(keepends=True))
    assert parsers.parse(tool, decorated) == parsers.parse(tool, text)


def test_a_rank_before_most_lines_and_the_job_script_s_own() -> None:
    text = text_of("osu", "osu_latency.out")
    labelled = "".join("0: " + line for line in text.splitlines(keepends=True))
    around = f"\ufeff\x1b]0;job\x07starting on n01\n{labelled}srun: job 4711 has ended\n"
    assert parsers.parse("osu", around) == parsers.parse("osu", text)


def test_a_log_of_several_commands_with_a_label_on_some_lines_only_is_left_alone() -> None:
    text = "[0] first\nsecond\n"
    assert parsers.text.lines.complete_lines(text) == "\n" + text


@pytest.mark.parametrize(
    ("tool", "name"),
    [
        ("iperf3", "tcp_text.txt"),
        ("iperf3", "tcp_json.txt"),
        ("perftest", "ib_write_bw_a.client.txt"),
        ("perftest", "ib_write_bw_gbits_json.client.json.txt"),
        ("patterns", "pingpong_2.txt"),
    ],
)
def test_a_closing_line_without_a_number_needs_no_line_end(tool: str, name: str) -> None:
    text = text_of(tool, name)
    assert parsers.parse(tool, text.rstrip("\n")) == parsers.parse(tool, text)


def test_so_does_one_behind_the_label_of_a_rank() -> None:
    text = text_of("iperf3", "tcp_text.txt")
    labelled = "".join("0: " + line for line in text.splitlines(keepends=True)).rstrip("\n")
    assert labelled.endswith("\n0: iperf Done.")
    assert parsers.parse("iperf3", labelled) == parsers.parse("iperf3", text)


def test_a_last_line_that_may_have_lost_digits_is_no_line() -> None:
    assert parsers.text.lines.complete_lines("a 1\nb 2") == "\na 1\n"
