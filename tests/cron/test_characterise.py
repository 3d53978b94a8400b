"""npc characterise: the main job with small settings, and everything that can come between."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import select
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from npc import read_run
from npc.cron.characterise import exit_code, next_id
from npc.jobs.progress import Display, WorkpackageRow, rows_of
from npc.jobs.suite import paths_from_here, settings
from npc.jobs.workpackages import Progress
from npc.parsers.run.collect import collect_run
from npc.records.launch import LaunchLog, LeastKnownMedian
from npc.records.record import save_csv
from tests.lab.in_process import npc
from tests.lab.jube_job import NPC, SMALL, command, finish, path_without, platform, start
from tests.lab.npb_job import Job
from tests.lab.terminal import shown_text
from tests.made.jube_run import Run, launch, write_launches
from tests.paths import ROOT


def refused(*words: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """A command that ends before it measures anything."""
    return finish(NPC, "characterise", *words, timeout_s=20, **environment)


# -- what bad input gets -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--tag", "memroy"], ["--tag memroy", "memory"]),
        (["--platform", "localhots"], ["--platform localhots", "localhost"]),
        (["--set", "sample=3"], ["--set sample", "samples"]),
        (["--set", "qqq=3"], ["--set qqq", "samples", "qperf_time"]),
        (["--set", "samples"], ["NAME=VALUE"]),
        (["--set", "samples=many"], ["samples=many: samples is a whole number", "benchmarks/npc.xml"]),
        (["--set", "hpcc_nb=192,x"], ["hpcc_nb is a whole number", "benchmarks/hpcc/benchmark_spec.xml"]),
        (["--set", "cores=-1"], ["cores is a whole number"]),
        (["--output", "/etc/passwd"], ["/etc/passwd"]),
        (["extra"], ["extra"]),
        (["--benchmark", "qprf"], ["no such benchmark", "qperf, sockperf", "or name a JUBE file"]),
        (["--benchmark", "qperf", "--benchmark", "likwid"], ["by one, not by qperf and likwid", "--tag"]),
    ],
)
def test_a_mistake_is_usage_with_what_was_perhaps_meant(words: list[str], expected: list[str]) -> None:
    ended = npc("characterise", *words)
    assert ended.returncode == 2
    assert not ended.stdout and "Traceback" not in ended.stderr
    for text in expected:
        assert text in ended.stderr


def test_every_setting_is_found_with_the_file_that_explains_it() -> None:
    known = settings(ROOT)
    assert known["samples"] == "benchmarks/npc.xml"
    assert known["qperf_time"] == "benchmarks/qperf/benchmark_spec.xml"
    of_specs = {name.removeprefix("NPC_").lower() for name in SMALL}
    assert of_specs <= set(known), "the tests' own are real"


def test_paths_are_meant_from_where_the_user_stands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    given = {"NPC_OSU_SOURCE": "osu.tgz", "NPC_OSU_PREFIX": "/opt/{mpi},build", "NPC_OSU_KINDS": "pt2pt"}
    assert paths_from_here(given) == {
        **given, "NPC_OSU_SOURCE": f"{tmp_path}/osu.tgz", "NPC_OSU_PREFIX": f"/opt/{{mpi}},{tmp_path}/build"
    }  # fmt: skip
    assert paths_from_here({"NPC_HPCG_SOURCE": ""}) == {"NPC_HPCG_SOURCE": ""}


def test_a_container_image_is_a_file_only_where_it_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("tools.sif").touch()
    given = {"NPC_CONTAINER": "tools.sif,docker://site/tools:7,net:7"}
    assert paths_from_here(given) == {"NPC_CONTAINER": f"{tmp_path}/tools.sif,docker://site/tools:7,net:7"}


def test_settings_in_the_page_exist() -> None:
    page = (ROOT / "docs/characterise.md").read_text()
    table = page[page.index("## Parameters") : page.index("## What a run leaves")]
    named = {
        name
        for row in re.findall(r"^\| (`.*?) \|", table, re.MULTILINE)
        for name in re.findall(r"`(\w+)`", row)
    }
    assert len(named) > 10 and named <= set(settings(ROOT))


def test_an_output_that_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    ended = refused("--output", tmp_path / "file/runs")
    assert ended.returncode == 1
    assert ended.stderr.count("\n") == 1 and f"cannot write {tmp_path}/file/runs" in ended.stderr
    proc = refused("--output", Path("/proc/x")).stderr
    assert (
        proc
        == "Error: cannot write /proc/x: nothing can be made in /proc; choose another place by --output\n"
    )


@pytest.mark.skipif(os.geteuid() == 0 and not shutil.which("setpriv"), reason="root writes everywhere")
def test_a_read_only_output_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "runs").mkdir(mode=0o555)
    unprivileged = ["setpriv", "--bounding-set=-all", "--inh-caps=-all"] if os.geteuid() == 0 else []
    ended = finish(*unprivileged, NPC, "characterise", "--output", tmp_path / "runs")
    assert ended.returncode == 1
    assert (
        ended.stderr
        == f"Error: cannot write {tmp_path}/runs: Permission denied; choose another place by --output\n"
    )


@pytest.mark.slow
def test_without_jube_it_says_where_help_is(tmp_path: Path) -> None:
    ended = refused("--output", tmp_path / "runs", PATH=path_without(tmp_path / "programs", "jube"))
    assert ended.returncode == 1
    assert ended.stderr == "Error: jube is not installed: `npc doctor` says how to get it here\n"
    assert [path.name for path in (tmp_path / "runs").iterdir()] == [".characterise.lock"]


def test_tags_without_a_benchmark_are_said_and_nothing_is_measured(tmp_path: Path) -> None:
    """In a checkout whose jube.yml has nothing with those tags."""
    site, runs = tmp_path / "site", tmp_path / "runs"
    for room in ("npc", "benchmarks", "platforms"):
        shutil.copytree(ROOT / room, site / room, symlinks=room != "npc")  # whose links lead to the rooms
    suite = yaml.safe_load((ROOT / "jube.yml").read_text())
    for part in ("step", "analyser", "result"):
        suite[part] = [
            entry for entry in suite[part] if entry.get("use") == "stream" or entry.get("name") == "stream"
        ]
    (site / "jube.yml").write_text(yaml.safe_dump(suite))
    words = ["characterise", "--output", runs, "--tag", "rdma", "--tag", "apps"]
    ended = finish(
        "sh", "-c", 'cd "$1" && shift && exec "$@"', "sh", site, sys.executable, "-m", "npc", *words
    )
    assert ended.returncode == 1
    assert "no benchmark with the tag rdma or apps" in ended.stderr


# -- progress and verdict, from the folders ------------------------------------------------------------


def test_a_run_that_does_not_exist_yet_has_no_progress(tmp_path: Path) -> None:
    assert rows_of(tmp_path / "000000") == []
    (tmp_path / "workpackages.xml").write_text("<workpackages><workpack")
    assert rows_of(tmp_path) == []


def test_progress_counts_launches_of_each_workpackage(tmp_path: Path) -> None:
    run = Run(tmp_path / "000000")
    write_launches(
        run.add("stream", "done") / "launches", (launch(0), ""), (launch(1, status="failed: x"), "")
    )
    write_launches(run.add("osu") / "launches", (launch(0), ""), planned=24)
    run.add("likwid", "error")
    run.add("qperf", started=False)
    assert rows_of(run.folder) == [
        WorkpackageRow(name="stream 0", state="done", progress=Progress(2, 2, 1)),
        WorkpackageRow(name="osu 1", state="running", progress=Progress(1, 24, 0)),
        WorkpackageRow(name="likwid 2", state="failed", note="failed: JUBE says error, without a reason"),
        WorkpackageRow(name="qperf 3", state="waiting"),
    ]


def test_it_is_said_what_further_launches_are_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = Run(tmp_path / "000000")
    log = LaunchLog(run.add("qperf") / "launches", "qperf", 12)
    display = Display()

    def notice() -> str:
        display.show(rows_of(run.folder))
        return capsys.readouterr().err

    assert notice() == "qperf 0: running\n"
    log.expect(18, LeastKnownMedian(what="qperf tcp_bw", precision=0.0412, samples=9, goal=0.03))
    assert notice() == "qperf 0: running: qperf tcp_bw ±4.1 % after 9, goal ±3 %\n"
    assert rows_of(run.folder)[0].progress.planned == 18
    log.expect(18, None)
    assert notice() == "qperf 0: running\n"
    log.close()


def test_it_is_said_while_it_runs_that_others_make_the_numbers_invalid(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = Run(tmp_path / "000000")
    display = Display()

    def notice() -> str:
        display.show(rows_of(run.folder))
        return capsys.readouterr().err

    work = run.add("stream")
    assert notice() == "stream 0: running\n"
    environment: dict[str, Any] = {"cpu": {"threads": 2}, "load": {"busy": []}}
    (work / "environment.json").write_text(json.dumps(environment))
    assert notice() == "", "nobody computes"
    quiet, loud = ({"cores": 2.0, "others": [{"name": "xhpl", "cores": cores}]} for cores in (0.1, 1.0))
    log = LaunchLog(work / "launches", "stream", 3)
    log.append(launch(0, load=quiet))
    assert notice() == ""
    log.append(launch(1, load=loud))
    why = "others used 1.0 of the 2 CPUs meanwhile, the launch 2.0: xhpl 100%; measure without them"
    assert notice() == f"stream 0: running: its records will be invalid: {why}\n"
    log.append(launch(2, load=loud))
    assert notice() == "", "once is enough"
    log.close()
    work = run.add("osu")
    environment["load"]["busy"] = loud["others"]
    (work / "environment.json").write_text(json.dumps(environment))
    assert (
        "osu 1: running: its records will be invalid: others used 1.0 of the 2 CPUs just before" in notice()
    )
    (run.add("noise") / "environment.json").write_text(json.dumps(environment))
    assert notice() == "noise 2: running\n", "others are what it measures"


@pytest.mark.parametrize(
    ("statuses", "drawn", "code"),
    [
        (["ok", "ok"], 0, 0),
        (["ok", "unavailable: no such tool"], 0, 0),
        (["ok", "failed: exit code 1"], 0, 6),
        (["ok", "invalid: not validated"], 0, 6),
        (["invalid: something else ran"] * 2 + ["ok"] * 4, 0, 0),
        (["invalid: something else ran"] * 3 + ["ok"] * 3, 0, 6),
        (["failed: exit code 1", *["ok"] * 5], 0, 6),
        (["unavailable: no RDMA device"], 0, 0),
        (["unavailable: no RDMA device", "failed: exit code 1"], 0, 1),
        ([], 0, 1),
        (["ok"], 1, 1),
    ],
)
def test_the_exit_code_is_the_verdict_on_the_records(
    tmp_path: Path, statuses: list[str], drawn: int, code: int
) -> None:
    run = Run(tmp_path / "000000")
    text = (ROOT / "tests/data/stream/stream_t2.txt").read_text()
    write_launches(run.add("stream", "done") / "launches", (launch(), text))
    (record, *_) = collect_run(run.folder)
    save_csv([replace(record, status=status) for status in statuses], run.folder / "records.csv")
    assert exit_code(read_run(run.folder), drawn) == code


@pytest.mark.parametrize(
    ("folders", "expected"), [([], 0), (["000000"], 1), (["000007", "000002", "x", "qperf"], 8)]
)
def test_a_run_gets_the_next_number(tmp_path: Path, folders: list[str], expected: int) -> None:
    for name in folders:
        (tmp_path / name).mkdir()
    assert next_id(tmp_path) == expected


# -- whole runs ----------------------------------------------------------------------------------------


def expect_run(run: Path, benchmarks: set[str]) -> None:
    records = read_run(run)
    assert {record.benchmark for record in records} == benchmarks
    assert {record.status for record in records} == {"ok"}
    assert all((run / record.raw).is_file() for record in records)
    environment = json.loads((run / "environment.json").read_text())
    assert environment["host"]
    ceilings = json.loads((run / "roofline.json").read_text())
    assert ceilings
    assert (run / "jube.log").stat().st_size > 0
    assert list(run.glob("result/*.dat"))


@pytest.mark.measures
@pytest.mark.slow
def test_memory_from_end_to_end_without_a_terminal(tmp_path: Path) -> None:
    ended = finish(NPC, "characterise", "--tag", "memory", "--output", tmp_path)
    assert ended.returncode == 0, ended.stderr
    run = tmp_path / "000000"
    expect_run(run, {"stream", "memory", "likwid"})
    assert re.search(rf"^run: {run} +\d+ s$", ended.stdout, re.MULTILINE)
    assert "MEM load" in ended.stdout, "the ceilings are shown"
    assert "MEM dependent loads" in ended.stdout and "L1 latency" in ended.stdout
    assert "\x1b" not in ended.stdout + ended.stderr, "no progress display, no colour"
    for name in ("roofline.png", "roofline.svg", "roofline.html"):
        assert (run / name).stat().st_size > 1000
    assert not list(tmp_path.glob("jube-*.log"))
    (suggested,) = re.findall(r"^next: \S*npc (report \S+)", ended.stdout, re.MULTILINE)
    assert subprocess.run([NPC, *suggested.split()], check=False).returncode == 0
    page = (run / "report.html").read_text(encoding="utf-8")
    triad = [record for record in read_run(run) if record.case == "triad"]
    assert triad and all(f'href="{record.raw}"' in page for record in triad)


@pytest.mark.links
@pytest.mark.slow
def test_network_from_end_to_end_on_a_terminal(tmp_path: Path) -> None:
    """Run on a pseudo-terminal, which sees what runs and how far it is."""
    mine, theirs = pty.openpty()
    words = command(NPC, "characterise", "--tag", "network", "--output", tmp_path)
    process = subprocess.Popen(
        words, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True,
        env={**os.environ, **SMALL, "NPC_OSU_KINDS": "pt2pt", "TERM": "xterm", "COLUMNS": "120"},
    )  # fmt: skip
    os.close(theirs)
    shown = b""
    try:
        deadline = time.monotonic() + 150
        while time.monotonic() < deadline:
            if not select.select([mine], [], [], 1.0)[0]:
                continue
            try:
                shown += os.read(mine, 65536)
            except OSError:  # EIO: the last process that had the terminal has ended
                break
        assert process.wait(10) == 0, shown.decode(errors="replace")
    finally:
        process.kill()
        process.wait()
        os.close(mine)
    text = shown_text(shown.decode())
    for step in ("qperf", "sockperf", "iperf3", "osu"):
        assert re.search(rf"running +{step}\b", text), step
        assert re.search(rf"done +{step}\b", text), step
    assert re.search(r"\b1/1\b +launches", text)
    expect_run(tmp_path / "000000", {"qperf", "sockperf", "iperf3", "osu"})


@pytest.mark.slow
def test_a_tool_that_is_missing_costs_only_itself(tmp_path: Path) -> None:
    site = platform(tmp_path / "site", "a-site")
    ended = finish(
        NPC, "characterise", "--tag", "memory", "--platform", site, "--output", tmp_path / "runs",
        PATH=path_without(tmp_path / "programs", "likwid-bench"), NPC_MEMORY_PARTS="cores",
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    assert "likwid 2: unavailable: likwid-bench: not found in PATH" in ended.stderr
    assert "unavailable: likwid-bench: not found in PATH" in ended.stderr
    records = read_run(tmp_path / "runs/000000")
    assert {record.platform for record in records} == {"a-site"}
    assert {record.sample for record in records if record.benchmark == "stream"} == {0}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("benchmark", "setting", "code", "message"),
    [
        ("hpcg", "samples=1", 0, "hpcg 0: unavailable: no HPCG on "),
        ("hpcg", "hpcg_source=nowhere", 1, f"hpcg_source: cannot read {ROOT}/nowhere"),
        ("osu", "osu_source=nowhere", 1, f"osu_source: cannot read {ROOT}/nowhere"),
    ],
)
def test_a_source_that_was_named_and_is_missing_is_a_failure(
    tmp_path: Path, benchmark: str, setting: str, code: int, message: str
) -> None:
    ended = finish(
        "sh", "-c", 'cd "$1" && shift && exec "$@"', "sh", ROOT,
        NPC, "characterise", "--benchmark", benchmark, "--set", setting, "--output", tmp_path,
    )  # fmt: skip
    assert ended.returncode == code, ended.stderr
    statuses = "\n".join(record.status for record in read_run(tmp_path / "000000"))
    assert message in (ended.stderr if code == 0 else statuses)
    assert ("failed before any launch" in ended.stderr) is (code != 0)


@pytest.mark.slow
def test_who_sees_exit_code_6_is_told_what_was_not_used(tmp_path: Path) -> None:
    """make says nothing but the number."""
    (tmp_path / "libfake.so").write_text("no library")
    ended = finish(
        NPC, "characterise", "--benchmark", "blas", "--set", f"blas_libraries=OpenBLAS,{tmp_path}/libfake.so",
        "--set", "samples=1", "--output", tmp_path / "runs",
    )  # fmt: skip
    assert ended.returncode == 6, ended.stderr
    last_line = re.search(r"exit code 6: (\d+) of (\d+) records .* npc check (\S+)$", ended.stderr.strip())
    records = read_run(tmp_path / "runs/000000")
    assert last_line and (int(last_line[1]), int(last_line[2])) == (
        sum(not record.ok for record in records),
        len(records),
    )
    assert subprocess.run([NPC, "check", last_line[3]], capture_output=True, check=False).returncode in (0, 6)


# -- stopped, and twice at once ------------------------------------------------------------------------


def await_launch(job: Job, run: Path, count: int) -> None:
    """Until `count` launches of the run have ended."""
    deadline = time.monotonic() + 120
    while sum(row.progress.made for row in rows_of(run)) < count:
        assert time.monotonic() < deadline and job.process.poll() is None
        time.sleep(0.05)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)], ids=["SIGINT", "SIGTERM"]
)
def test_stopped_it_collects_what_was_measured_and_leaves_nothing(
    tmp_path: Path, number: signal.Signals, code: int
) -> None:
    """SIGTERM comes in the middle of npb, SIGINT in the middle of npc records sample; and what ``--set``
    says counts before the environment, in which there is one sample."""
    tags = ["--tag", "network"] if number == signal.SIGTERM else ["--tag", "compute", "--tag", "models"]
    job = start(
        NPC, "characterise", *tags, "--output", tmp_path, "--set", "samples=30", NPC_SAMPLES="1"
    )  # fmt: skip
    run = tmp_path / "000000"
    try:
        await_launch(job, run, 2)
        second = refused("--output", tmp_path, "--tag", "memory")
        assert second.returncode == 1
        assert "another characterisation is running" in second.stderr and "process " in second.stderr
        elsewhere = refused("--output", tmp_path / "elsewhere", "--tag", "memory")
        assert elsewhere.returncode == 1
        assert re.search(r"localhost is being measured by process \d+ on \S+, since ", elsewhere.stderr)
        (process,) = (
            pid for pid, text in job.processes().items() if "characterise" in text and "unshare" not in text
        )
        os.kill(process, number)
        ended = job.wait(40)
        assert not job.left_behind(0.5)
    finally:
        job.kill()
    assert ended.returncode == code
    assert "stopped: what had been measured is collected" in ended.stderr
    records = read_run(run)
    assert sum(record.ok for record in records) >= 2
    assert any("launches were not made" in record.status for record in records)
    started = {record.benchmark for record in records if "never started" not in record.status}
    assert ("qperf" if "network" in tags else "likwid") in started
    assert any("never started" in record.status for record in records)
    assert json.loads((run / "roofline.json").read_text())


@pytest.mark.slow
def test_a_lock_left_behind_is_free_and_what_jube_refuses_is_told_in_its_words(tmp_path: Path) -> None:
    lock = tmp_path / ".characterise.lock"
    lock.write_text("process 1")
    wrong = ("--output", tmp_path, "--tag", "memory")
    free = refused(*wrong, NPC_SAMPLES="many")
    assert free.returncode == 1 and "JUBE started nothing" in free.stderr
    assert '"many" cannot be represented as a "int"' in free.stderr
    with lock.open("a") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        held = refused(*wrong, NPC_SAMPLES="many")
    assert held.returncode == 1 and "another characterisation is running" in held.stderr
