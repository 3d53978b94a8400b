"""``npc records parse`` as a user sees it: what it prints, what it complains of, how it exits."""

from __future__ import annotations

import csv
import io
import json
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from npc.parsers.commands.parse import parse
from tests import captured

QPERF = str(captured.DATA / "qperf" / "loop_uu.txt")
PARTLY = str(captured.DATA / "qperf" / "fail_good_then_bad.txt")
FAILED = str(captured.DATA / "qperf" / "fail_rds.txt")
INVALID = str(captured.DATA / "likwid" / "bench_two_groups.txt")


def run(*arguments: str, stdin: str | bytes | None = None) -> Result:
    return CliRunner().invoke(parse, arguments, input=stdin)


def test_table_shows_readings_with_engineering_units() -> None:
    result = run("qperf", QPERF)
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert lines[0].split() == ["case", "size", "metric", "value", "params", "status"]
    assert lines[5].split() == ["tcp_bw", "64", "KiB", "bandwidth", "1.782", "GB/s", "ok"]
    assert lines[6].split() == ["tcp_lat", "1", "B", "latency", "27.24", "µs", "ok"]
    assert len(lines) == 11


def test_csv_is_tidy_in_si_units() -> None:
    result = run("sockperf", str(captured.DATA / "sockperf" / "tcp_pp_m64.txt"), "--format", "csv")
    assert result.exit_code == 0
    rows = list(csv.DictReader(io.StringIO(result.stdout)))
    assert list(rows[0]) == ["case", "metric", "value", "unit", "size", "status", "params"]
    assert rows[0] == {
        "case": "tcp_ping_pong", "metric": "latency", "value": "2.3179e-05", "unit": "s", "size": "64",
        "status": "ok", "params": "",
    }  # fmt: skip
    assert json.loads(rows[1]["params"]) == {"statistic": "stdev"}


def test_json_is_a_list_of_readings() -> None:
    rows = json.loads(
        run("stream", str(captured.DATA / "stream" / "stream_t2.txt"), "--format", "json").stdout
    )
    assert [row["case"] for row in rows] == ["copy", "scale", "add", "triad"]
    assert rows[0] == {
        "case": "copy", "metric": "bandwidth", "value": 36500500000.0, "unit": "B/s", "size": 960000000,
        "status": "ok", "params": {"array_size": "40000000", "threads": "2"},
    }  # fmt: skip


@pytest.mark.parametrize("form", ["csv", "json", "table"])
def test_several_files_say_where_each_reading_is_from(form: str) -> None:
    result = run("qperf", QPERF, PARTLY, "--format", form)
    assert result.exit_code == 0
    assert result.stdout.count(QPERF) == (1 if form == "table" else 10)
    if form == "csv":
        assert {row["file"] for row in csv.DictReader(io.StringIO(result.stdout))} == {QPERF, PARTLY}


def test_standard_input_and_the_command_from_the_option() -> None:
    text = captured.text_of("sockperf", "tcp_pp_m1024.txt")
    result = run(
        "sockperf", "-", "--format", "json", "--command", "sockperf pp -i h --tcp -m 1024", stdin=text
    )
    assert result.exit_code == 0
    assert {(row["case"], row["size"]) for row in json.loads(result.stdout)} == {("tcp_ping_pong", 1024)}


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
def test_a_text_that_windows_has_redirected(encoding: str) -> None:
    text = captured.text_of("iperf3", "tcp_text.txt")
    result = run("iperf3", "-", stdin=text.replace("\n", "\r\n").encode(encoding))
    assert result.exit_code == 0
    assert result.stdout == run("iperf3", "-", stdin=text).stdout


def test_a_failure_beside_a_result_is_shown_and_is_no_error() -> None:
    result = run("qperf", PARTLY)
    assert result.exit_code == 0
    said = " ".join(result.stdout.split())
    assert "unavailable: no RDMA device" in said


@pytest.mark.parametrize(
    ("arguments", "stdin", "code", "message"),
    [
        (
            ["nosuch", QPERF],
            None,
            2,
            "'nosuch' is no tool, no program of one and no file; the tools are: babel",
        ),
        (["commands", QPERF], None, 2, "'commands' is no tool, no program"),
        ([], None, 2, "Missing argument '[TOOL] FILE...'"),
        (["qperf"], None, 2, "Missing FILE: 'qperf' is a tool"),
        (["qperf", "/nonexistent/x.txt"], None, 2, "/nonexistent/x.txt: No such file or directory"),
        (["qperf", "/"], None, 2, "/: Is a directory"),
        (["qperf", QPERF, "--format", "xml"], None, 2, "'xml' is not one of"),
        (["qperf", "-"], "", 1, "standard input: empty"),
        (["qperf", "-"], "  \n", 1, "standard input: empty"),
        (["qperf", "-"], b"\xff\xfe\x00\n", 1, "standard input: no supported tool's output is"),
        (["osu", QPERF], None, 1, "looks like the output of qperf, not of osu"),
        (["qperf", FAILED], None, 1, "no usable reading: rds_bw failed: connect failed: Connection refused"),
        (["likwid", INVALID], None, 1, "no usable reading: stream invalid: 2 threads or more share"),
    ],
)
def test_bad_input_gets_one_message_and_an_exit_code(
    arguments: list[str], stdin: str | bytes | None, code: int, message: str
) -> None:
    result = run(*arguments, stdin=stdin)
    assert result.exit_code == code
    assert result.stderr.count("Error: ") == 1
    assert message in result.stderr
    assert "Traceback" not in result.output


def test_what_is_usable_is_printed_beside_the_complaint() -> None:
    result = run("qperf", FAILED, QPERF, "--format", "csv")
    assert result.exit_code == 1
    assert len(list(csv.DictReader(io.StringIO(result.stdout)))) == 11
    assert f"{FAILED}: no usable reading" in result.stderr
    assert QPERF not in result.stderr


def test_the_installed_command_reads_a_pipe() -> None:
    npc = Path(sys.executable).with_name("npc")
    done = subprocess.run(
        [npc, "records", "parse", "osu", "-", "--format", "csv"],
        input=captured.text_of("osu", "osu_latency.out"),
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert len(done.stdout.splitlines()) == 24
