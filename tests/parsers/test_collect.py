"""npc records collect: what JUBE and the launches leave behind becomes records, whatever went wrong."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from npc import Record, read_run
from npc.jobs.workpackages import NoRun, find_run
from npc.parsers.run.collect import collect_run
from npc.validity import unusable
from tests.lab.in_process import npc
from tests.lab.jube_job import NPC
from tests.made.jube_run import Run, launch, write_launches
from tests.paths import ROOT

STREAM = (ROOT / "tests/data/stream/stream_t2.txt").read_text()


def collect(*words: str | Path) -> subprocess.CompletedProcess[str]:
    return npc("records", "collect", *words)


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return Run(tmp_path / "runs/000000")


# -- what a record says --------------------------------------------------------------------------------


def test_a_record_has_its_provenance_and_its_raw_file(run: Run) -> None:
    work = run.add("stream", "done")
    placed = launch(0, case="x", params={"client_cpus": "0-3"}, nodes=2, hosts=("n1", "n2"))
    write_launches(work / "launches", (placed, STREAM), (launch(1), STREAM))
    records = collect_run(run.folder)
    assert [(record.case, record.sample) for record in records] == [
        (case, number) for number in (0, 1) for case in ("copy", "scale", "add", "triad")
    ]
    first = records[0]
    assert (first.benchmark, first.platform, first.run) == ("stream", "cluster", "000000")
    assert (first.nodes, first.hosts, first.time) == (2, ("n1", "n2"), "2026-11-21T08:00:00.000+00:00")
    assert first.params["client_cpus"] == "0-3"
    assert first.ok and first.value and first.unit == "B/s"
    assert first.raw == "000000_stream/work/launches/raw/0000.out"
    assert all((run.folder / record.raw).is_file() for record in records)


def test_the_platform_is_the_options_or_the_platform_files_or_this_host(tmp_path: Path) -> None:
    for platform, option, expected in (
        ("fuchs", "", "fuchs"),
        ("fuchs", "other", "other"),
        ("", "", os.uname().nodename),
    ):
        run = Run(tmp_path / f"{platform}-{option}", platform)
        write_launches(run.add("stream", "done") / "launches", (launch(), STREAM))
        assert {record.platform for record in collect_run(run.folder, option)} == {expected}


def test_a_platform_name_may_be_the_result_of_a_parameter(run: Run) -> None:
    write_launches(run.add("stream", "done") / "launches", (launch(), STREAM))
    path = run.folder / "workpackages.xml"
    path.write_text(
        path.read_text().replace("<value>cluster</value>", "<value>$x</value><selection> n7 </selection>")
    )
    assert {record.platform for record in collect_run(run.folder)} == {"n7"}


def test_a_swept_size_is_the_records_size_and_no_param_beside_it(tmp_path: Path) -> None:
    text = (ROOT / "tests/data/sockperf/tcp_pp_m1024.txt").read_text()
    swept = launch(
        argv=("sockperf", "ping-pong", "--tcp", "--msg-size", "1024"),
        params={"msg-size": "1024", "server_cpus": "0"},
    )
    write_launches(tmp_path / "launches", (swept, text), tool="sockperf")
    records = collect_run(tmp_path / "launches")
    assert {record.size for record in records} == {1024}
    assert all("msg-size" not in record.params and record.params["server_cpus"] == "0" for record in records)
    assert {record.benchmark for record in records} == {"sockperf"}, "the tool's name, without JUBE around it"


# -- what went wrong -----------------------------------------------------------------------------------


def test_numbers_of_a_launch_that_failed_are_kept_with_its_status(run: Run) -> None:
    work = run.add("stream", "error")
    bad = launch(0, exit=139, status="failed: exit code 139: Segmentation fault")
    write_launches(work / "launches", (bad, STREAM))
    records = collect_run(run.folder)
    assert len(records) == 4
    assert all(record.value and record.status == bad.status for record in records)


@pytest.mark.parametrize(
    "status", ["timeout: not done after 120 s", "unavailable: ./stream: No such file or directory"]
)
def test_a_launch_without_a_number_has_the_launchers_reason(run: Run, status: str) -> None:
    work = run.add("stream", "error")
    write_launches(work / "launches", (launch(0, exit=None, status=status, case="all cores"), ""))
    (record,) = collect_run(run.folder)
    assert (record.status, record.value, record.benchmark) == (status, None, "stream")


def test_the_launchers_reason_beats_what_a_parser_makes_of_nothing(run: Run) -> None:
    work = run.add("qperf", "error")
    status = "unavailable: server on n1: qperf: not found in PATH"
    argv = ("qperf", "n1", "-t", "1", "tcp_bw", "tcp_lat")
    write_launches(work / "launches", (launch(0, argv=argv, exit=None, status=status), ""), tool="qperf")
    records = collect_run(run.folder)
    assert {record.status for record in records} == {status}


@pytest.mark.parametrize(
    ("name", "asked", "expected"),
    [
        ("singletons.txt", "2", {"invalid: 1 MPI ranks ran, 2 were asked for"}),
        ("Barrier.txt", "2", {"ok"}),
        ("subgroups.txt", "4", {"ok"}),
    ],
)
def test_another_number_of_ranks_than_was_asked_for_is_invalid(
    run: Run, name: str, asked: str, expected: set[str]
) -> None:
    """One MPI's launcher with another one's library: every process is a world of its own, and exits 0."""
    text = (ROOT / "tests/data/imb" / name).read_text()
    counted = launch(0, params={"mpi": "openmpi", "ranks": asked})
    write_launches(run.add("imb", "done") / "launches", (counted, text), tool="imb")
    records = collect_run(run.folder)
    assert {record.status for record in records} == expected
    assert {record.params["mpi"] for record in records} == {"openmpi"}


def test_one_row_of_a_sweep_without_a_result_says_nothing_against_the_others(run: Run) -> None:
    text = (ROOT / "tests/data/perftest/ib_write_bw_a.client.txt").read_text()
    row = next(line for line in text.splitlines() if line.split()[:1] == ["2"])
    torn = text.replace(row, " 2          100              0.00               0.00   \t\t   0.000000")
    status = "failed: the result is 0.00"
    work = run.add("perftest", "done")
    given = launch(0, argv=("ib_write_bw", "-a", "n1"), status=status)
    write_launches(work / "launches", (given, torn), tool="perftest")
    records = collect_run(run.folder)
    assert {record.size for record in records if record.status == status} == {2}
    assert {record.size for record in records if record.ok} == {2**power for power in range(2, 24)}


def test_a_test_that_failed_beside_one_that_worked_keeps_its_own_reason(run: Run) -> None:
    text = (ROOT / "tests/data/qperf/fail_good_then_bad.txt").read_text()
    first, _, text = text.partition("\n")
    argv = tuple(first.removeprefix("#@ cmd:").split())
    bad = launch(0, argv=argv, exit=1, status="failed: exit code 1")
    write_launches(run.add("qperf", "error") / "launches", (bad, text), tool="qperf")
    records = collect_run(run.folder)
    assert any(record.value is not None for record in records)
    own = [record.status for record in records if record.value is None]
    assert [status.partition(":")[0] for status in own] == ["unavailable", "failed"]
    assert bad.status not in own
    assert not any(record.ok for record in records)


@pytest.mark.parametrize("cut", [0, 1, 400, len(STREAM) // 2, len(STREAM) - 200])
def test_an_output_that_was_cut_gives_no_usable_number(run: Run, cut: int) -> None:
    write_launches(run.add("stream", "done") / "launches", (launch(), STREAM[:cut]))
    records = collect_run(run.folder)
    assert records and not any(record.ok for record in records)


def test_a_raw_file_that_is_gone_is_a_failure(run: Run) -> None:
    folder = write_launches(run.add("stream", "done") / "launches", (launch(), STREAM))
    (folder / "raw/0000.out").unlink()
    (record,) = collect_run(run.folder)
    assert record.status.startswith("failed: ")


def test_stderr_names_the_reason_too(run: Run) -> None:
    text = (ROOT / "tests/data/osu/osu_bw_np1.err").read_text()
    folder = write_launches(run.add("osu", "done") / "launches", (launch(argv=("osu_bw",)), ""), tool="osu")
    (folder / "raw/0000.err").write_text(text)
    (record,) = collect_run(run.folder)
    assert record.case == "osu_bw" and "requires exactly two processes" in record.status


def test_half_a_number_stays_none_beside_a_line_end_of_stderr(run: Run) -> None:
    text = "# OSU MPI Bandwidth Test v7.4\n# Size      Bandwidth (MB/s)\n1    6.25\n2    12"
    folder = write_launches(run.add("osu", "done") / "launches", (launch(argv=("osu_bw",)), text), tool="osu")
    (folder / "raw/0000.err").write_text("\nslurmstepd: error: *** JOB 7 ON n1 CANCELLED ***\n")
    assert [record.value for record in collect_run(run.folder)] == [6.25e6]


def test_a_half_written_last_line_costs_only_itself(run: Run) -> None:
    folder = write_launches(
        run.add("stream") / "launches", (launch(0), STREAM), (launch(1), STREAM), planned=6
    )
    path = folder / "launches.jsonl"
    path.write_text(path.read_text()[:-20])
    records = collect_run(run.folder)
    assert [record.ok for record in records] == [True] * 4 + [False]
    assert records[-1].status.startswith("failed: 5 of 6 launches were not made")


def test_launches_that_were_planned_and_never_made_are_one_record(run: Run) -> None:
    write_launches(run.add("stream", "error") / "launches", planned=6)
    (record,) = collect_run(run.folder)
    assert record.status.startswith("failed: 6 of 6 launches were not made")
    assert record.raw == "000000_stream/work/launches/launches.jsonl"


def test_a_damaged_line_is_a_record_with_its_place(run: Run) -> None:
    folder = write_launches(run.add("stream", "done") / "launches", (launch(0), STREAM))
    with (folder / "launches.jsonl").open("a") as stream:
        stream.write("{nonsense}\n")
    (record,) = collect_run(run.folder)
    assert "launches.jsonl:3: not a launch" in record.status


def test_a_tool_without_a_parser_is_said_for_each_launch(run: Run) -> None:
    write_launches(run.add("x", "done") / "launches", (launch(), "text"), tool="no-such-tool")
    (record,) = collect_run(run.folder)
    assert "no parser 'no-such-tool'" in record.status and "qperf" in record.status


@pytest.mark.parametrize(
    ("files", "texts", "status"),
    [
        ((), {}, "failed: it has not ended, or was lost"),
        (("error",), {}, "failed: JUBE says error, without a reason"),
        (("error",), {"error": "Error while running\n"}, "failed: Error while running"),
        (("error",), {"work/job.err": "cc: nothing\nmake: stop\n", "error": "x"}, "failed: make: stop"),
        (("error",), {"work/job.err": "unavailable: no C compiler\n"}, "unavailable: no C compiler"),
        (("error",), {"work/stderr": "sbatch: error: no partition\n"}, "failed: sbatch: error: no"),
        (("done",), {}, "failed: its job ended, but made no launches"),
    ],
    ids=["lost", "no reason", "JUBE's", "the job's", "unavailable", "sbatch's", "done"],
)  # fmt: skip
def test_a_workpackage_without_launches_is_a_record_with_the_reason(
    run: Run, files: tuple[str, ...], texts: Mapping[str, str], status: str
) -> None:
    work = run.add("stream", *files)
    for name, text in texts.items():
        (work.parent / name).write_text(text)
    (record,) = collect_run(run.folder)
    assert record.status.startswith(status)
    assert (record.benchmark, record.platform, record.value) == ("stream", "cluster", None)


def test_a_workpackage_that_was_never_started_is_a_record_too(run: Run) -> None:
    run.add("qperf", started=False)
    (record,) = collect_run(run.folder)
    assert record.benchmark == "qperf" and "never started" in record.status


def test_one_broken_workpackage_does_not_cost_the_others(run: Run) -> None:
    run.add("likwid", "error")
    write_launches(run.add("stream", "done") / "launches", (launch(), STREAM))
    assert [(record.benchmark, record.ok) for record in collect_run(run.folder)] == [
        ("likwid", False), *[("stream", True)] * 4,
    ]  # fmt: skip


def test_failures_that_differ_in_numbers_only_are_counted_together() -> None:
    made = [
        Record(
            time="2026-11-21T08:00:00+00:00", platform="p", benchmark="qperf", case="", metric="time",
            value=None, unit="s", status=f"failed: exit code {code}",
        )
        for code in (3, 4, 3)
    ]  # fmt: skip
    other = replace(made[0], benchmark="osu")
    assert unusable([*made, other]) == [made, [other]]


# -- which run -----------------------------------------------------------------------------------------


def test_the_newest_run_is_meant_by_the_folder_above(tmp_path: Path) -> None:
    for name in ("000002", "000010", "000009"):
        Run(tmp_path / name).add("stream")
    (tmp_path / "000011").mkdir()
    (tmp_path / "qperf").mkdir()
    assert find_run(tmp_path).name == "000010"
    assert find_run(tmp_path / "000002").name == "000002"


def test_a_folder_without_a_run_is_usage(tmp_path: Path) -> None:
    with pytest.raises(NoRun, match=r"no workpackages.xml"):
        find_run(tmp_path)
    ended = collect(tmp_path)
    assert ended.returncode == 2
    assert str(tmp_path) in ended.stderr and "Traceback" not in ended.stderr
    assert collect(tmp_path / "nowhere").returncode == 2


@pytest.mark.parametrize(
    "text", ["", "<workpackages>", "no xml", '<workpackages><workpackage id="x"/></workpackages>']
)
def test_a_damaged_workpackages_file_is_usage(run: Run, text: str) -> None:
    (run.folder / "workpackages.xml").write_text(text)
    ended = collect(run.folder)
    assert ended.returncode == 2
    assert "workpackages.xml" in ended.stderr and "Traceback" not in ended.stderr


# -- the command ---------------------------------------------------------------------------------------


def test_the_command_writes_records_that_a_notebook_reads(run: Run) -> None:
    work = run.add("stream", "done")
    write_launches(work / "launches", (launch(), STREAM), planned=2)
    (work / "environment.json").write_text('{"schema": 1}')
    ended = collect(run.folder.parent)
    assert ended.returncode == 0
    assert ended.stdout == f"5 records, 4 of them usable: {run.folder}/records.csv\n"
    assert "1 × stream: failed: 1 of 2 launches were not made" in ended.stderr
    assert read_run(run.folder) == collect_run(run.folder)
    assert json.loads((run.folder / "environment.json").read_text()) == {"schema": 1}


def test_a_run_keeps_its_own_environment(run: Run) -> None:
    (run.folder / "environment.json").write_text("mine")
    (run.add("stream") / "environment.json").write_text("the job's")
    collect(run.folder)
    assert (run.folder / "environment.json").read_text() == "mine"


def test_no_usable_record_is_one_and_the_file_is_there(run: Run) -> None:
    run.add("stream", "error")
    ended = collect(run.folder)
    assert ended.returncode == 1
    assert len(read_run(run.folder)) == 1


def test_collecting_again_gives_the_same_file(run: Run) -> None:
    write_launches(run.add("stream", "done") / "launches", (launch(), STREAM))
    collect(run.folder)
    first = (run.folder / "records.csv").read_bytes()
    collect(run.folder)
    assert (run.folder / "records.csv").read_bytes() == first


def test_records_may_go_elsewhere_and_the_run_is_left_as_it_is(run: Run, tmp_path: Path) -> None:
    work = run.add("stream", "done")
    write_launches(work / "launches", (launch(), STREAM))
    (work / "environment.json").write_text("{}")
    before = sorted(run.folder.rglob("*"))
    assert collect(run.folder, "--output", tmp_path / "mine.csv", "--platform", "other").returncode == 0
    assert {record.platform for record in read_run(tmp_path / "mine.csv")} == {"other"}
    assert sorted(run.folder.rglob("*")) == before


def test_an_output_that_cannot_be_written_is_one_line(run: Run, tmp_path: Path) -> None:
    write_launches(run.add("stream", "done") / "launches", (launch(), STREAM))
    (tmp_path / "file").write_text("")
    ended = collect(run.folder, "--output", tmp_path / "file/records.csv")
    assert ended.returncode == 1
    assert ended.stderr.count("\n") == 1
    assert "the raw output is untouched" in ended.stderr


@pytest.mark.skipif(os.geteuid() == 0 and not shutil.which("setpriv"), reason="root writes everywhere")
def test_a_read_only_run_is_one_line_and_stays_as_it_is(run: Run) -> None:
    write_launches(run.add("stream", "done") / "launches", (launch(), STREAM))
    run.folder.chmod(0o555)
    unprivileged = ["setpriv", "--bounding-set=-all", "--inh-caps=-all"] if os.geteuid() == 0 else []
    try:
        ended = subprocess.run(
            [*unprivileged, NPC, "records", "collect", run.folder],
            capture_output=True, text=True, check=False, timeout=60,
        )  # fmt: skip
    finally:
        run.folder.chmod(0o755)
    assert ended.returncode == 1
    assert ended.stderr.startswith(f"Error: cannot write {run.folder}/records.csv: Permission denied")
    assert ended.stderr.count("\n") == 1


def test_reading_a_run_that_was_not_collected_names_the_command(run: Run) -> None:
    with pytest.raises(FileNotFoundError, match=rf"npc records collect {run.folder}"):
        read_run(run.folder)


def test_a_folder_of_launches_alone_is_collected(tmp_path: Path) -> None:
    """What `npc records sample` writes, without JUBE."""
    made = subprocess.run(
        [NPC, "records", "sample", "--tool", "stream", "--runs", "2", "--output", tmp_path / "out", "--",
         "cat", ROOT / "tests/data/stream/stream_t2.txt"],
        capture_output=True, check=True,
    )  # fmt: skip
    assert made.returncode == 0
    assert collect(tmp_path / "out").returncode == 0
    records = read_run(tmp_path / "out")
    assert len(records) == 8 and all(record.ok for record in records)
    assert {record.raw for record in records} == {"raw/0000.out", "raw/0001.out"}
    assert {record.benchmark for record in records} == {"stream"}
    assert asdict(records[0])["hosts"] == (os.uname().nodename,)
