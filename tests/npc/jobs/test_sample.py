"""npc records sample: fresh processes in shuffled order, every outcome on record, nothing left behind."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import string
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from npc.jobs import session
from npc.jobs.sample import Case, cases_of_product, fill_in, plan, read_cases
from npc.machine.load import LoadMonitor
from npc.records.launch import Launch, last_words, read_launches
from tests.lab.in_process import npc
from tests.lab.jube_job import NPC
from tests.lab.npb_job import Job, mpirun

PYTHON = sys.executable


def sample(output: Path, *words: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """One whole ``npc records sample``; fails if a process of it is left behind."""
    job = start(output, *words, **environment)
    try:
        ended = job.wait(30)
        assert not job.left_behind(1)
        return ended
    finally:
        job.kill()


def refused(output: Path, *words: str | Path) -> subprocess.CompletedProcess[str]:
    """An ``npc records sample`` that ends before its first launch."""
    return npc("records", "sample", "--tool", "raw", "--output", output, *words)


def start(output: Path, *words: str | Path, **environment: str) -> Job:
    command = [str(NPC), "records", "sample", "--tool", "raw", "--output", str(output), *map(str, words)]
    return Job(command=command, **environment)


def launches(output: Path) -> list[Launch]:
    return list(read_launches(output).launches)


# -- the plan ------------------------------------------------------------------------------------------

names = st.text(string.ascii_lowercase + string.digits + "_", min_size=1, max_size=8)
#: Words without braces, which would be placeholders.
plain = st.text(st.characters(blacklist_characters="{}", blacklist_categories=("Cs",)), max_size=12)


@given(st.lists(plain))
def test_a_command_without_placeholders_stays_as_it_is(command: list[str]) -> None:
    assert fill_in(command, {"unused": "value"}) == command


@given(names, st.lists(plain), plain, plain)
def test_a_placeholder_of_its_own_becomes_the_words_a_shell_would_make(
    name: str, words: list[str], before: str, after: str
) -> None:
    command = [before, f"{{{name}}}", after]
    assert fill_in(command, {name: shlex.join(words)}) == [before, *words, after]


@given(names, plain, plain, plain)
def test_a_placeholder_inside_a_word_never_splits_it(name: str, value: str, before: str, after: str) -> None:
    word = f"-{before}{{{name}}}{after}"
    assert fill_in([word], {name: value}) == [f"-{before}{value}{after}"]


@given(names, names)
def test_a_placeholder_without_a_value_is_named(name: str, other: str) -> None:
    known = {} if name == other else {other: "value"}
    with pytest.raises(ValueError, match=rf"\{{{name}\}}"):
        fill_in(["tool", f"--size={{{name}}}"], known)


@given(st.dictionaries(names, st.lists(plain, min_size=1, max_size=3), max_size=3), st.integers(1, 4))
def test_a_product_has_every_combination_once(values: dict[str, list[str]], runs: int) -> None:
    cases = cases_of_product(list(values.items()), runs)
    expected = 1
    for of_name in values.values():
        expected *= len(of_name)
    assert len(cases) == expected
    assert all(case.runs == runs and set(case.values) == set(values) for case in cases)


@given(st.lists(st.integers(0, 5), max_size=6), st.one_of(st.none(), st.integers(0, 2**64)))
def test_a_plan_has_every_sample_of_every_case_once_whatever_its_order(
    runs: list[int], seed: int | None
) -> None:
    cases = [Case(str(number), {}, count) for number, count in enumerate(runs)]
    planned = Counter((case.name, number) for case, number in plan(cases, seed))
    assert planned == Counter((case.name, number) for case in cases for number in range(case.runs))


@given(st.integers(0, 2**64))
def test_a_plan_is_the_same_for_the_same_seed(seed: int) -> None:
    cases = [Case(name, {}, 20) for name in "abc"]
    assert plan(cases, seed) == plan(cases, seed)


def test_a_plan_is_shuffled_over_all_cases_and_differs_by_seed() -> None:
    cases = [Case(name, {}, 20) for name in "abc"]
    orders = {tuple(case.name for case, _ in plan(cases, seed)) for seed in range(5)}
    assert len(orders) == 5
    assert tuple("a" * 20 + "b" * 20 + "c" * 20) not in orders
    assert [case.name for case, _ in plan(cases, None)] == list("a" * 20 + "b" * 20 + "c" * 20)


def test_cases_are_read_from_lines_with_their_runs_and_params(tmp_path: Path) -> None:
    path = tmp_path / "cases.jsonl"
    path.write_text(
        '{"name": "triad L1", "values": {"case": "-t triad"}, "runs": 2, "params": {"level": "L1"}}\n'
        '{"name": "load", "values": {"case": "-t load"}}\n'
    )
    assert read_cases(path, 6) == [
        Case("triad L1", {"case": "-t triad"}, 2, {"level": "L1"}),
        Case("load", {"case": "-t load"}, 6, {}),
    ]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ('{"values": {}}', "'name' is missing"),
        ('{"name": "x"}', "'values' is missing"),
        ('{"name": "x", "values": {"case": 5}}', "are texts"),
        ('{"name": "x", "values": {}, "params": {"level": 1}}', "are texts"),
        ('{"name": "x", "values": ["case"]}', "not a case"),
        ('{"name": "x", "values": {}, "runs": "many"}', "not a case"),
        ("[]", "not a case"),
        ("", "not a case"),
        ('{"name": "x", ', "not a case"),
    ],
)
def test_a_line_that_is_no_case_is_named(tmp_path: Path, line: str, reason: str) -> None:
    path = tmp_path / "cases.jsonl"
    path.write_text('{"name": "x", "values": {}}\n' + line + "\n")
    with pytest.raises(ValueError, match=rf"cases.jsonl:2: .*{reason}"):
        read_cases(path, 6)


# -- what a launch leaves ------------------------------------------------------------------------------


def test_every_output_is_kept_and_every_launch_is_logged(tmp_path: Path) -> None:
    ended = sample(
        tmp_path / "out", "--runs", "3", "--each", "word=a,b", "--each", "end=1", "--seed", "7", "--",
        "sh", "-c", "echo {word}$$; echo whispered >&2", "{end}",
    )  # fmt: skip
    assert ended.returncode == 0
    assert ended.stdout == f"6 of 6 launches of 2 cases worked: {tmp_path / 'out'}\n"
    folder = read_launches(tmp_path / "out")
    assert (folder.tool, folder.planned) == ("raw", 6)
    assert json.loads((tmp_path / "out/launches.jsonl").read_text().splitlines()[0])["seed"] == 7
    expected = plan(cases_of_product([("word", ["a", "b"]), ("end", ["1"])], 3), 7)
    assert [(launch.case, launch.sample) for launch in folder.launches] == [
        (case.name, number) for case, number in expected
    ]
    processes = set()
    for launch in folder.launches:
        out = (tmp_path / "out" / launch.raw).read_text()
        assert out[0] == launch.case[0]
        processes.add(out[1:])
        assert (tmp_path / "out" / launch.raw).with_suffix(".err").read_text() == "whispered\n"
        assert (launch.exit, launch.status, launch.nodes, len(launch.hosts)) == (0, "ok", 1, 1)
        assert launch.argv[-1] == "1"
    assert len(processes) == 6, "each in a process of its own"


def test_in_order_means_in_order(tmp_path: Path) -> None:
    sample(tmp_path / "out", "--runs", "2", "--each", "n=1,2,3", "--in-order", "--", "echo", "{n}")
    assert [launch.case for launch in launches(tmp_path / "out")] == ["1", "1", "2", "2", "3", "3"]


def test_options_of_the_command_are_its_own(tmp_path: Path) -> None:
    ended = sample(tmp_path / "out", "--runs", "1", "--", "echo", "--runs", "5", "--help")
    assert ended.returncode == 0
    assert (tmp_path / "out/raw/0000.out").read_text() == "--runs 5 --help\n"


# -- exit codes ----------------------------------------------------------------------------------------


def test_some_failed_is_six_and_the_failures_are_shown_with_their_command(tmp_path: Path) -> None:
    ended = sample(
        tmp_path / "out", "--runs", "1", "--each", "code=0,3", "--in-order", "--",
        "sh", "-c", "echo oh dear >&2; exit {code}",
    )  # fmt: skip
    assert ended.returncode == 6
    assert "3 #0: failed: exit code 3: oh dear" in ended.stderr
    assert "by hand: sh -c 'echo oh dear >&2; exit 3'" in ended.stderr
    assert "1 of 2 launches of 2 cases worked" in ended.stdout
    good, bad = launches(tmp_path / "out")
    assert (good.status, bad.status, bad.exit) == ("ok", "failed: exit code 3: oh dear", 3)


def test_a_tool_that_is_not_there_has_the_last_words(tmp_path: Path) -> None:
    ended = sample(tmp_path / "out", "--runs", "2", "--", "no-such-tool")
    assert ended.returncode == 1
    assert ended.stderr.splitlines()[-1] == "unavailable: no-such-tool: No such file or directory"


def test_failures_that_are_alike_are_told_once_and_counted(tmp_path: Path) -> None:
    ended = sample(tmp_path / "out", "--runs", "4", "--each", "code=3,4", "--", "sh", "-c", "exit {code}")
    assert ended.returncode == 1
    assert ended.stderr.count("by hand: sh -c 'exit 3'") == ended.stderr.count("by hand:") - 1 == 1
    assert "npc records sample: 4 times in all: failed: exit code 4: sh -c 'exit 4'" in ended.stderr
    assert len(launches(tmp_path / "out")) == 8


@pytest.mark.parametrize(
    ("command", "status"),
    [
        (["false"], "failed: exit code 1"),
        (["sh", "-c", "kill -SEGV $$"], "failed: signal 11"),
        (["sh", "-c", "echo only here; exit 2"], "failed: exit code 2: only here"),
        (["no-such-tool", "x"], "unavailable: no-such-tool: No such file or directory"),
        (["/etc/passwd"], "unavailable: /etc/passwd: Permission denied"),
        (["sh", "-c", "echo unavailable: no device; exit 1"], "unavailable: no device"),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_a_command_that_never_works_is_one(tmp_path: Path, command: list[str], status: str) -> None:
    ended = sample(tmp_path / "out", "--runs", "2", "--", *command)
    assert ended.returncode == 1
    assert [launch.status for launch in launches(tmp_path / "out")] == [status, status]


def test_output_without_what_is_required_has_failed(tmp_path: Path) -> None:
    words = ("--runs", "1", "--require", "^MB/s: [0-9]+", "--", "printf")
    assert sample(tmp_path / "good", *words, "a\nMB/s: 7\n").returncode == 0
    assert sample(tmp_path / "bad", *words, "a MB/s: 7\n").returncode == 1
    (launch,) = launches(tmp_path / "bad")
    assert launch.status == "failed: the output has no match of '^MB/s: [0-9]+'"
    assert (tmp_path / "bad/raw/0000.out").read_text() == "a MB/s: 7\n"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--", "echo", "{size}"], "{size}"),
        (["--each", "size=1", "--", "echo"], "--each size: the command has no {size}"),
        (["--each", "size", "--", "echo", "{size}"], "NAME=VALUE"),
        (["--each", "a-b=1", "--", "echo"], "NAME=VALUE"),
        (["--param", "mpi", "--", "echo"], "--param 'mpi': expected NAME=VALUE"),
        (["--require", "(", "--", "echo"], "missing )"),
        (["--runs", "0", "--", "echo"], "--runs"),
        (["--timeout", "0", "--", "echo"], "--timeout"),
        (["--cases", "/no/such/file", "--", "echo"], "/no/such/file"),
        (["--runz", "1", "--", "echo"], "No such option"),
        ([], "COMMAND"),
    ],
)
def test_usage_is_two_and_nothing_is_written(tmp_path: Path, words: Sequence[str], message: str) -> None:
    ended = refused(tmp_path / "out", *words)
    assert ended.returncode == 2
    assert message in ended.stderr and "Traceback" not in ended.stderr
    assert not (tmp_path / "out").exists()


def test_params_are_noted_beside_every_launch_and_a_cases_own_win(tmp_path: Path) -> None:
    (tmp_path / "cases").write_text(
        '{"name": "a", "values": {}}\n{"name": "b", "values": {}, "params": {"mpi": "other"}}\n'
    )
    words = ["--param", "mpi=mpich", "--param", "ranks=2", "--param", "empty=", "--runs", "1", "--in-order"]
    assert sample(tmp_path / "out", *words, "--cases", tmp_path / "cases", "--", "echo", "x").returncode == 0
    assert [launch.params for launch in launches(tmp_path / "out")] == [
        {"mpi": "mpich", "ranks": "2"},
        {"mpi": "other", "ranks": "2"},
    ]


def test_unbalanced_quotes_in_a_case_are_usage(tmp_path: Path) -> None:
    (tmp_path / "cases").write_text('{"name": "x", "values": {"case": "-t \'a"}}\n')
    ended = refused(tmp_path / "out", "--cases", tmp_path / "cases", "--", "echo", "{case}")
    assert ended.returncode == 2 and "quotation" in ended.stderr


def test_cases_and_each_exclude_each_other(tmp_path: Path) -> None:
    (tmp_path / "cases").write_text('{"name": "x", "values": {"n": "1"}}\n')
    ended = refused(tmp_path / "out", "--cases", tmp_path / "cases", "--each", "n=1", "--", "echo", "{n}")
    assert ended.returncode == 2 and "exclude" in ended.stderr


@pytest.mark.parametrize("text", ["", '{"name": "x", "values": {}, "runs": 0}\n'])
def test_cases_that_ask_for_nothing_are_no_success(tmp_path: Path, text: str) -> None:
    (tmp_path / "cases").write_text(text)
    ended = refused(tmp_path / "out", "--cases", tmp_path / "cases", "--", "echo")
    assert ended.returncode == 1
    assert "nothing to measure" in ended.stderr


def test_a_folder_that_holds_launches_is_left_alone(tmp_path: Path) -> None:
    sample(tmp_path / "out", "--runs", "1", "--", "echo", "first")
    before = (tmp_path / "out/launches.jsonl").read_bytes()
    ended = sample(tmp_path / "out", "--runs", "1", "--", "echo", "second")
    assert ended.returncode == 2
    assert "holds launches already" in ended.stderr
    assert (tmp_path / "out/launches.jsonl").read_bytes() == before
    assert (tmp_path / "out/raw/0000.out").read_text() == "first\n"


def test_a_folder_that_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    """Below a file nobody can write, root neither."""
    (tmp_path / "file").write_text("")
    ended = sample(tmp_path / "file/out", "--runs", "1", "--", "echo")
    assert ended.returncode == 1
    assert ended.stderr.count("\n") == 1 and str(tmp_path / "file/out") in ended.stderr


@pytest.mark.skipif(os.geteuid() == 0 and not shutil.which("setpriv"), reason="root writes everywhere")
def test_a_read_only_folder_is_one_line(tmp_path: Path) -> None:
    folder = tmp_path / "out"
    folder.mkdir(mode=0o555)
    as_nobody = ["setpriv", "--bounding-set=-all", "--inh-caps=-all"] if os.geteuid() == 0 else []
    job = Job(
        command=[*as_nobody, str(NPC), "records", "sample", "--tool", "raw", "--output", str(folder), "echo"]
    )
    ended = job.wait()
    assert ended.returncode == 1
    assert (
        ended.stderr == f"Error: cannot write {folder}: Permission denied; choose another place by --output\n"
    )


# -- ends ----------------------------------------------------------------------------------------------

#: Starts a grandchild that ignores SIGTERM, as it does itself, and waits.
STUBBORN = (
    "import signal, subprocess, sys, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); "
    "subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)']); "
    "print('half a result', flush=True); time.sleep(60)"
)


@pytest.mark.slow
def test_a_timeout_ends_the_launch_with_all_its_descendants(tmp_path: Path) -> None:
    began = time.monotonic()
    ended = sample(tmp_path / "out", "--runs", "1", "--timeout", "1", "--", PYTHON, "-c", STUBBORN)
    assert time.monotonic() - began < 15
    assert ended.returncode == 1
    (launch,) = launches(tmp_path / "out")
    assert launch.status == "timeout: not done after 1 s"
    assert launch.exit == -signal.SIGKILL
    assert (tmp_path / "out/raw/0000.out").read_text() == "half a result\n"


@pytest.mark.slow
def test_a_timeout_ends_the_ranks_of_mpirun_in_their_own_process_groups(tmp_path: Path) -> None:
    code = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(60)"
    ended = sample(
        tmp_path / "out", "--runs", "1", "--timeout", "2", "--", mpirun(), "-n", "2", PYTHON, "-c", code
    )
    assert ended.returncode == 1
    assert launches(tmp_path / "out")[0].status == "timeout: not done after 2 s"


def test_what_a_launch_leaves_in_the_background_does_not_disturb_the_next(tmp_path: Path) -> None:
    ended = sample(tmp_path / "out", "--runs", "2", "--", "sh", "-c", "sleep 60 >&- 2>&- & echo ok")
    assert ended.returncode == 0


def test_a_session_is_found_and_ended_across_process_groups() -> None:
    leader = subprocess.Popen(
        [PYTHON, "-c", "import os, time; pid = os.fork(); pid or os.setpgid(0, 0); time.sleep(60)"],
        start_new_session=True,
    )
    try:
        deadline = time.monotonic() + 10
        while len(session.members(leader.pid)) < 2 and time.monotonic() < deadline:
            time.sleep(0.01)
        assert len(session.members(leader.pid)) == 2
    finally:
        session.end(leader.pid, 0.2)
    assert leader.wait() == -signal.SIGTERM
    assert session.members(leader.pid) == []


def await_launches(output: Path, count: int) -> None:
    """Until `count` launches have ended, and the next has begun."""
    deadline = time.monotonic() + 20
    while not (output / f"raw/{count:04d}.out").exists():
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)], ids=["SIGTERM", "SIGINT"]
)
def test_a_signal_keeps_what_was_measured(tmp_path: Path, number: signal.Signals, code: int) -> None:
    output = tmp_path / "out"
    job = start(
        output, "--runs", "5", "--each", "s=0,60", "--in-order", "--", "sh", "-c", "echo begun; sleep {s}"
    )
    try:
        await_launches(output, 5)
        os.kill(job.process.pid, number)
        ended = job.wait(15)
        assert not job.left_behind(1)
    finally:
        job.kill()
    assert ended.returncode == code
    assert f"stopped by {number.name}" in ended.stderr and "Traceback" not in ended.stderr
    folder = read_launches(output)
    assert folder.planned == 10
    assert [launch.status for launch in folder.launches] == [
        *["ok"] * 5, f"failed: stopped by {number.name}",
    ]  # fmt: skip


@pytest.mark.slow
def test_no_launch_is_lost_or_left_when_the_signal_comes_at_any_moment(tmp_path: Path) -> None:
    """Very short launches, so that the signal finds the moments between them."""
    for attempt in range(6):
        output = tmp_path / str(attempt)
        job = start(output, "--runs", "5000", "--", "echo", "a number")
        try:
            await_launches(output, 3 + 5 * attempt)
            os.kill(job.process.pid, signal.SIGTERM)
            assert job.wait(10).returncode == 143
            assert not job.left_behind(1)
        finally:
            job.kill()
        made = launches(output)
        assert all(launch.status == "ok" for launch in made[:-1])
        assert {path.stem for path in output.glob("raw/*.out")} == {f"{launch.id:04d}" for launch in made}


def test_killed_outright_it_leaves_what_was_measured(tmp_path: Path) -> None:
    output = tmp_path / "out"
    job = start(output, "--runs", "2", "--each", "s=0,60", "--in-order", "--", "sleep", "{s}")
    try:
        await_launches(output, 2)
        os.kill(job.process.pid, signal.SIGKILL)
    finally:
        job.kill()
    assert [launch.status for launch in launches(output)] == ["ok", "ok"]


# -- who is to blame -----------------------------------------------------------------------------------

RULE = "-" * 74
SAYS = "mpirun detected that one or more processes exited with non-zero status"
FULL = (
    f"{RULE}\nA call to mkdir was unable to create the desired directory:\n\n  Directory: /tmp/ompi.n1.0\n"
    f"  Error:     No space left on device\n\nPlease check to ensure you have adequate permissions to\n"
    f"perform the desired operation.\n{RULE}\n"
    "[n1:17161] [[12279,0],0] ORTE_ERROR_LOG: Error in file ../../../orte/util/session_dir.c at line 346\n"
)
MPIRUN = f"{RULE}\n{SAYS}\n  Exit code: 1\n{RULE}\n"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", ""),
        ("one\ntwo\n\n  \n", "two"),
        ("told\n=====\n", "told"),
        (f"ValueError: boom\n{MPIRUN}", "ValueError: boom"),
        (f"ValueError: boom{MPIRUN}", "ValueError: boom"),
        (MPIRUN, SAYS),
        (f"unavailable: no port\ncleaning up\n{MPIRUN}", "unavailable: no port"),
        ("x" * 1000, "x" * 200),
        ("begin\n" + "noise\n" * 10_000 + "end\n", "end"),
        ("no such host\n+ JUBE_ERR_CODE=3\n+ '[' 3 -ne 0 ']'\n+ touch error\n+ exit 3\n", "no such host"),
        ("Unable to run job: unknown queue\nExiting.\n", "Unable to run job: unknown queue"),
        (FULL, "No space left on device: /tmp/ompi.n1.0"),
        (
            "npb: each rank is alone\nsrun: error: n1: task 0: Exited with exit code 2\n"
            "srun: launch/slurm: _step_signal: Terminating StepId=3.0\n"
            "srun: Job step aborted: Waiting up to 2 seconds for job step to finish.\n"
            "slurmstepd-n2: error: *** STEP 3.0 ON n1 CANCELLED AT 2026-11-28T12:00:00 ***\n"
            "srun: error: n[2-3]: tasks 1-2: Exited with exit code 2\n",
            "npb: each rank is alone",
        ),
        (
            "srun: error: n1: task 0: Exited with exit code 2\n",
            "srun: error: n1: task 0: Exited with exit code 2",
        ),
    ],
    ids=[
        "nothing",
        "last",
        "rule",
        "before a frame",
        "no line end",
        "framed",
        "unavailable",
        "long line",
        "long file",
        "trace of bash -x",
        "qsub",
        "full disk",
        "srun",
        "srun alone",
    ],
)
def test_last_words_are_the_programs_and_not_the_launchers(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "err").write_text(text)
    assert last_words(tmp_path / "err") == words


@pytest.mark.slow
def test_a_rank_that_fails_under_mpirun_is_quoted(tmp_path: Path) -> None:
    sample(tmp_path / "out", "--runs", "1", "--", mpirun(), "-n", "1", PYTHON, "-c", "raise OSError('gone')")
    assert launches(tmp_path / "out")[0].status == "failed: exit code 1: OSError: gone"


# -- what others compute meanwhile -------------------------------------------------------------------------

COMPUTE = "import time; end = time.monotonic() + 0.7\nwhile time.monotonic() < end: pass"
FOR_EVER = [PYTHON, "-c", "while True: pass"]


def test_what_others_compute_during_a_launch_is_noted(tmp_path: Path) -> None:
    spinning = subprocess.Popen(FOR_EVER)
    try:
        ended = sample(tmp_path, "--runs", "1", "--", PYTHON, "-c", COMPUTE, NPC_WATCH="1")
    finally:
        spinning.kill()
        spinning.wait()
    assert ended.returncode == 0, ended.stderr
    (launch,) = launches(tmp_path)
    assert launch.load and launch.load["cores"] > 0.05
    assert any(entry["name"].startswith("python") for entry in launch.load["others"])


def test_nobody_looks_where_the_variable_says_so(tmp_path: Path) -> None:
    assert sample(tmp_path, "--runs", "1", "--", "true", NPC_WATCH="0").returncode == 0
    assert launches(tmp_path)[0].load is None


def test_what_began_later_is_none_of_the_others() -> None:
    """As are ranks that a batch system starts for a launch, which are no children of it."""
    before = subprocess.Popen(FOR_EVER)
    watch = LoadMonitor()
    later = subprocess.Popen(FOR_EVER)
    try:
        seen, deadline = set[int](), time.monotonic() + 30
        while before.pid not in seen and time.monotonic() < deadline:
            time.sleep(0.5)
            seen = {entry.pid for entry in watch.busy(at_least=0.05)}
    finally:
        for process in (before, later):
            process.kill()
            process.wait()
    assert before.pid in seen and later.pid not in seen
