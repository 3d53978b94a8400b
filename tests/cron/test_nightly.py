"""A night on one machine, killed, stopped, repaired at every step; its lock, its journal, its crontab."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import subprocess
from datetime import datetime, time, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from npc.cron import retention
from npc.cron.commands import chosen
from npc.cron.commands.nightly import _words, nightly
from npc.cron.nightly import NightRun, Options
from npc.cron.retention import prunable
from npc.cron.schedule import blocks, script_text, systemd_units, with_block, without_block
from npc.files import append_line, read_lines
from npc.jobs.stop import Stop
from npc.records.history import History
from npc.records.journal import Journal, JournalEntry, missed
from npc.records.record import Record
from npc.records.series import REMEASURED
from tests.lab.cluster import until
from tests.lab.in_process import npc
from tests.lab.jube_job import NPC, finish, path_without, platform, start
from tests.lab.npb_job import Job
from tests.made.history import BEGUN, a_record
from tests.made.nights import CLIENT, TINY
from tests.paths import ROOT

# -- the journal ---------------------------------------------------------------------------------------


@given(st.lists(st.dictionaries(st.text(), st.text()), max_size=4), st.data())
def test_lines_cut_at_any_byte_leave_whole_ones(
    tmp_path_factory: pytest.TempPathFactory, values: list[dict[str, str]], data: st.DataObject
) -> None:
    path = tmp_path_factory.mktemp("lines") / "lines"
    ends = [0]
    for value in values:
        append_line(path, value)
        ends.append(path.stat().st_size)
    cut = data.draw(st.integers(0, ends[-1]))
    os.truncate(path, cut) if values else None
    whole = values[: sum(end <= cut for end in ends) - 1]
    assert read_lines(path)[0] == whole
    append_line(path, "next")
    assert read_lines(path)[0] == [*whole, "next"]


def night(number: int, days: float = 0.0, verdict: str = "PASS", ended: bool = True) -> JournalEntry:
    begun = datetime(2026, 11, 1, 2, 30, tzinfo=timezone.utc) + timedelta(days=days)
    return JournalEntry(f"night {number}", Path(f"/{number}"), begun, verdict=verdict, ended=ended)


@pytest.mark.parametrize(
    ("days", "now", "expected"),
    [
        ([], 0.0, 0),
        ([0], 1.01, 0),
        ([0], 3.0, 2),
        ([0, 1, 2, 3], 4.2, 0),
        ([0, 1, 2, 3], 6.9, 3),
        ([0, 7, 14, 21], 28.0, 0),  # weekly
        ([0, 7, 14, 21], 35.0, 1),
        ([0, 0.01, 0.02, 0.03], 0.5, 0),  # several by hand
        ([0, 0.5, 1, 1.5, 2], 2.5, 0),  # twice a day
        ([0, 0.5, 1, 1.5, 2], 3.5, 2),
        ([0, 1, 1.1, 1.2, 1.3], 2.3, 0),
    ],
)
def test_nights_that_did_not_begin_are_counted(days: list[float], now: float, expected: int) -> None:
    nights = [night(number, day) for number, day in enumerate(days)]
    moment = datetime(2026, 11, 1, 2, 30, tzinfo=timezone.utc) + timedelta(days=now)
    assert missed(nights, moment) == expected


def test_raw_runs_of_good_nights_are_prunable_and_of_bad_ones_never() -> None:
    verdicts = ["PASS", "DEGRADED", "PASS", "WATCH", "MISSING", "PASS", "PASS"]
    nights = [night(number, number, verdict) for number, verdict in enumerate(verdicts)]
    nights.append(night(7, 7, ended=False))
    assert [good_night.name for good_night in prunable(nights, 2)] == ["night 0", "night 2", "night 3"]
    assert prunable(nights, 14) == []


def test_retention_removes_what_the_night_made_and_nothing_that_a_journal_says(tmp_path: Path) -> None:
    """A journal may be copied, edited, or restored beside folders that somebody has moved."""
    runs, history, name = tmp_path / "runs", tmp_path / "history", "20261121T023000Z"
    moment = datetime(2026, 11, 21, 2, 30, tzinfo=timezone.utc)

    def refused(folder: Path, why: str, name: str = name, history: Path = history) -> None:
        before = sorted(tmp_path.rglob("*"))
        with pytest.raises(retention.NotOurs, match=why):
            retention.remove(JournalEntry(name, folder, moment), runs, history)
        assert sorted(tmp_path.rglob("*")) == before, "nothing is touched"

    def made(folder: Path) -> Path:
        retention.begin(folder, history)
        (folder / "first/000000").mkdir(parents=True)
        (folder / "first.log").write_text("words")
        return folder

    own, elsewhere = made(runs / name), made(tmp_path / "elsewhere" / name)
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "thesis").touch()
    refused(precious, "is no night's folder below")
    refused(elsewhere, "is no night's folder below")
    refused(runs / name / ".." / ".." / "precious", "is no night's folder below")
    refused(runs / ".." / "precious", "is no night's folder below", name="../precious")
    refused(own, "mark", history=tmp_path / "copied")
    (runs / f"{name}-1").symlink_to(elsewhere)
    refused(runs / f"{name}-1", "or a link", name=f"{name}-1")
    copied = Path(shutil.copytree(own, runs / f"{name}-2"))
    refused(copied, "mark", name=copied.name)
    (copied / retention.MARK).unlink()
    (copied / retention.MARK).symlink_to(own / retention.MARK)
    refused(copied, "mark", name=copied.name)
    if os.geteuid() == 0:
        os.chown(own, 65534, 65534)
        refused(own, "belongs to another user")
        os.chown(own, 0, 0)
    (own / "first/link").symlink_to(precious)
    retention.remove(JournalEntry(name, own, moment), runs, history)
    assert not own.exists() and (precious / "thesis").exists(), "links are removed, not followed"
    retention.remove(JournalEntry(name, own, moment), runs, history)


# -- when it runs --------------------------------------------------------------------------------------

TEXT = st.text(st.characters(blacklist_categories=["Cs", "Cc"]), min_size=0, max_size=30)


@given(st.lists(TEXT).map(lambda lines: "".join(f"{line}\n" for line in lines)), st.sampled_from("ab"))
def test_a_table_keeps_what_is_in_it(other: str, name: str) -> None:
    first = with_block(
        other, name, f"# >>> npc night run {name}\n30 2 * * * old\n# <<< npc night run {name}\n"
    )
    block = f"# >>> npc night run {name}\n30 2 * * * new\n# <<< npc night run {name}\n"
    table = with_block(first, name, block)
    assert table == other + block
    assert blocks(table)[name] == "30 2 * * * new\n"
    assert without_block(table, name) == other


def test_the_script_starts_the_night_with_the_environment_of_the_installation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MODULEPATH", "/a folder/it's one:/b")
    monkeypatch.setenv("NPC_WORKPLACE", ".")
    script = tmp_path / "nightly.sh"
    text = script_text(ROOT, ["--help"])
    script.write_text(text.replace("exec ", "env\nexec "))
    ended = subprocess.run(
        ["sh", script], env={"SLURM_JOB_ID": "7", "SBATCH_ACCOUNT": "x", "HOME": "/"},
        capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    assert "MODULEPATH=/a folder/it's one:/b\n" in ended.stdout
    assert f"NPC_WORKPLACE={ROOT}\n" in ended.stdout
    assert f"PATH={os.environ['PATH']}\n" in ended.stdout
    assert "SLURM_JOB_ID" not in ended.stdout and "SBATCH_ACCOUNT" not in ended.stdout
    assert "Usage: npc night run" in ended.stdout


@pytest.fixture
def cron_machine(tmp_path: Path) -> list[str]:
    """What to write before a command so that there is a crontab program, with tables of its own."""
    if os.geteuid() != 0:
        pytest.skip("a crontab of its own needs root")
    programs = tmp_path / "programs"
    programs.mkdir()
    (programs / "crontab").symlink_to(shutil.which("busybox") or "/bin/busybox")
    spool = tmp_path / "spool"
    (spool / "cron/crontabs").mkdir(parents=True)
    mounted = f'mount --bind {shlex.quote(str(spool))} /var/spool && PATH="{programs}:$PATH" exec "$@"'
    return ["unshare", "--mount", "sh", "-c", mounted, "sh"]


@pytest.mark.slow
def test_a_crontab_gets_the_line_and_keeps_its_own(cron_machine: list[str], tmp_path: Path) -> None:
    def run(*words: str | Path, **options: str) -> subprocess.CompletedProcess[str]:
        given = [*cron_machine, *map(str, words)]
        return subprocess.run(given, capture_output=True, text=True, timeout=60, check=False, **options)

    own = "MAILTO=root\n0 5 * * * backup # nightly\n"
    subprocess.run([*cron_machine, "crontab", "-"], input=own, text=True, check=True, timeout=20)
    history = ["--history", tmp_path / "it's 100% history"]
    install = [NPC, "night", "cron", "install", *history]
    for at, times in (("12:00,00:00", ["0 0 * * *", "0 12 * * *"]), ("23:05", ["5 23 * * *"])):
        done = run(*install, "--at", at, "--", "--tag", "network", "--limit", "2h")
        assert (done.returncode, done.stderr) == (0, "")
        table = run("crontab", "-l").stdout
        assert table.startswith(own) and table.count("npc night run") == 2
        lines = blocks(table)["localhost"].splitlines()
        assert [line.partition(" /")[0].partition(" '")[0] for line in lines] == times
    (command_line,), (line,) = lines, times
    # what cron makes of it: an escaped percent sign is one
    script = shlex.split(command_line.removeprefix(line).replace(r"\%", "%"))
    assert script == [f"{tmp_path}/it's 100% history/localhost/nightly.sh"]
    assert "night run --platform" in Path(script[0]).read_text() and os.access(script[0], os.X_OK)
    shown = run(NPC, "night", "cron", "show", *history)
    assert f"crontab: localhost: {command_line}" in shown.stdout
    assert run(NPC, "night", "cron", "remove").returncode == 0
    assert run("crontab", "-l").stdout == own
    again = run(NPC, "night", "cron", "remove")
    assert (again.returncode, again.stderr) == (
        1,
        "Error: crontab has no nights of localhost; it has: none\n",
    )


@pytest.mark.slow
def test_without_cron_it_says_what_to_do_instead(tmp_path: Path) -> None:
    path = path_without(tmp_path / "programs", "crontab", "scrontab")
    history = tmp_path / "history"
    for option, mode in ([], 0o755), (["--scrontab"], 0o777):
        history.mkdir(exist_ok=True)
        history.chmod(mode)
        words = [NPC, "night", "cron", "install", "--history", history, *option]
        ended = finish(*words, PATH=path)
        assert ended.returncode == 1
        warned = f"which will run as you: write access to {history} (everybody)\n" in ended.stderr
        assert warned == (mode == 0o777), ended.stderr
        assert "is not installed here" in ended.stderr and "npc night cron install --systemd" in ended.stderr
        assert "30 2 * * *" in ended.stderr and ("#SCRON --time=03:10:00" in ended.stderr) == bool(option)


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["--at", "25:00"], "is no time of day: write 02:30"),
        (["--at", "00:00,"], "is no time of day: write 02:30"),
        (["--", "--tag", "netwrk"], ""),
        (["--", "--limt", "2h"], "No such option"),
        (["--", "--platform", "x"], "stand before the two hyphens"),
        (["--platform", "nowhere"], "no such platform"),
    ],
)
def test_what_no_night_could_do_is_not_installed(tmp_path: Path, words: list[str], problem: str) -> None:
    ended = npc("night", "cron", "install", "--history", tmp_path, *words)
    assert ended.returncode == 2 or not problem
    assert problem in ended.stderr and "Traceback" not in ended.stderr


@pytest.mark.optional_skip("a container has no systemd")
def test_systemd_takes_the_units(tmp_path: Path) -> None:
    if not shutil.which("systemd-analyze"):
        pytest.skip("no systemd-analyze")
    script = tmp_path / "nightly.sh"
    script.write_text("#!/bin/sh\n")
    script.chmod(0o755)
    for name, text in systemd_units("lab", [time(2, 30), time(14, 30)], script, 7200).items():
        (tmp_path / name).write_text(text)
        verified = subprocess.run(
            ["systemd-analyze", "verify", tmp_path / name], capture_output=True, text=True, timeout=60,
            check=False,
        )  # fmt: skip
        about_ours = [line for line in verified.stderr.splitlines() if str(tmp_path) in line or "lab" in line]
        assert about_ours == []
    calendar = subprocess.run(
        ["systemd-analyze", "calendar", "*-*-* 02:30:00"], capture_output=True, text=True, check=False
    )
    assert "02:30:00" in calendar.stdout


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["--platform", "nowhere"], "no such platform"),
        (["--tag", "netwrk"], "there are network"),
        (["--set", "sampels=3"], "perhaps samples"),
        (["--benchmark", "qprf"], "no such benchmark"),
        (["--topology", "no/such/file"], "no/such/file"),
        (["--limit", "soon"], "soon"),
        (["--textfile", "no/such/folder"], "no/such/folder"),
    ],
)
def test_a_mistake_is_said_before_the_night_begins(tmp_path: Path, words: list[str], problem: str) -> None:
    ended = finish(
        NPC, "night", "run", "--history", tmp_path / "history", "--output", tmp_path / "runs", *words
    )
    assert (ended.returncode, ended.stdout) == (2, "")
    assert problem in ended.stderr and "Traceback" not in ended.stderr
    assert list(tmp_path.iterdir()) == []


def test_without_jube_no_night_begins(tmp_path: Path) -> None:
    path = path_without(tmp_path / "programs", "jube")
    ended = finish(
        NPC, "night", "run", "--history", tmp_path / "history", "--output", tmp_path / "runs", PATH=path
    )
    assert (ended.returncode, ended.stdout) == (1, "")
    assert ended.stderr == "Error: jube is not installed: `npc doctor` says how to get it here\n"
    assert not (tmp_path / "history").exists() and not (tmp_path / "runs").exists()


def test_files_that_cannot_be_used_are_said_before_anything_is_measured(tmp_path: Path) -> None:
    site = platform(tmp_path / "alone", "alone")
    words = ["night", "run", "--platform", site, "--history", tmp_path, "--output", tmp_path / "runs"]
    (site / "platform.toml").write_text('[bands]\n"qperf tcp_bw 4M" = { least = 3 }\n')
    ended = npc(*words)
    assert (ended.returncode, ended.stdout) == (1, "") and "is no band: write" in ended.stderr
    (site / "platform.toml").write_text("")
    (tmp_path / "alone/2026-11.csv").write_text("day,money\n1,2\n")
    ended = npc(*words)
    assert (ended.returncode, ended.stdout) == (1, "") and "it is no history of records" in ended.stderr
    ended = npc("night", "accept", "--platform", site, "--history", tmp_path, "--reason", "x")
    assert (ended.returncode, ended.stdout) == (1, "") and "it is no history of records" in ended.stderr
    (tmp_path / "alone/2026-11.csv").unlink()
    (tmp_path / "alone/accepted.jsonl").write_text("{}\n")
    ended = npc(*words)
    assert (ended.returncode, ended.stdout) == (1, "") and "accepted.jsonl:1: no acceptance" in ended.stderr
    assert not (tmp_path / "runs").exists()


def test_a_benchmark_given_as_one_word_is_two_for_whoever_plans_the_night() -> None:
    planned = set()
    for line in (["--benchmark=stream"], ["--benchmark", "stream"]):
        given = nightly.make_context("run", line).params
        *_, file, _ = chosen(given["platform"], (), (), given["benchmark"])
        planned.add(_words(given["tags"], given["given"], file, given["one_job"]))
    (words,) = planned
    assert words[0] == "--benchmark" and Path(words[1]).is_relative_to(ROOT / "benchmarks/stream")


# -- a whole night -------------------------------------------------------------------------------------


class Machine:
    """One machine without a scheduler: its platform, the benchmark, the folders of its nights."""

    def __init__(self, folder: Path, bands: str = "") -> None:
        self.folder = folder
        self.platform = platform(folder / "alone", "alone")
        (self.platform / "platform.toml").write_text(bands)
        (folder / "tiny.xml").write_text(TINY)
        self.history = folder / "history/alone"
        self.words: list[str | Path] = [
            NPC, "night", "run", "--platform", self.platform, "--benchmark", folder / "tiny.xml",
            "--history", folder / "history", "--output", folder / "runs", "--limit", "100s",
        ]  # fmt: skip

    def night(self, *options: str, client: str = CLIENT) -> tuple[int, dict[str, Any]]:
        ended = finish(*self.words, "--set", f"tiny_client={client}", *options)
        verdict = json.loads((self.history / "verdict.json").read_text())
        assert ended.stdout.startswith(f"alone, night {verdict['run']}: {verdict['verdict']} ("), ended.stderr
        return ended.returncode, verdict

    def records(self) -> list[Record]:
        return list(History(self.history).records())

    def options(self) -> Options:
        return Options(
            platform=self.platform, history=self.history, runs=self.folder / "runs",
            words=("--benchmark", str(self.folder / "tiny.xml")), limit_s=60.0,
        )  # fmt: skip


def rows(records: list[Record]) -> set[str]:
    """Records as one can compare them; fails if one is there twice."""
    as_text = [repr(record) for record in records]
    assert len(as_text) == len(set(as_text))
    return set(as_text)


@pytest.mark.parametrize(
    ("share", "parts"), [({}, 0), ({"disturbed": "0.12"}, 1)], ids=["quiet", "disturbed"]
)
def test_what_others_disturbed_is_measured_again_also_in_the_first_night(
    tmp_path: Path, share: dict[str, str], parts: int
) -> None:
    watch = NightRun(Machine(tmp_path).options(), Stop())
    watch.history.append(
        [a_record(run="one"), a_record(1, run="one", params={"runtime": "2", **share}, hosts=("n1", "n3"))]
    )
    again = watch._parts_again(night := JournalEntry("one", tmp_path, BEGUN), watch._judge(night))
    assert [part.kind for part in again] == ["again"] * parts
    assert all(part.words[:2] == watch.options.words for part in again), "the benchmark that was disturbed"


@pytest.mark.slow
def test_a_night_cut_off_at_any_step_is_finished_by_the_next(tmp_path: Path) -> None:
    """The journal is cut behind each of its lines, with and without the records of the step that was next."""
    machine = Machine(tmp_path, '[bands]\n"qperf tcp_bw *" = { low = 1e30 }\n')
    describe = (
        f'<parameter name="preprocess">{NPC} doctor --environment --output environment.json</parameter>\n'
    )
    (tmp_path / "tiny.xml").write_text(
        TINY.replace('<parameter name="executable"', f'{describe}<parameter name="executable"')
    )
    code, document = machine.night()
    stands = json.loads((machine.history / "counters.json").read_text())
    assert {node: stand["night"] for node, stand in stands.items()} == {os.uname().nodename: document["run"]}
    assert (code, document["verdict"]) == (14, "FAIL")
    records = machine.records()
    assert [REMEASURED in record.params for record in records] == [False, True], "a failure is measured again"
    assert all((tmp_path / "runs" / document["run"] / record.raw).is_file() for record in records)
    (night,) = Journal(machine.history).entries()
    node_s, places = night.parts["first"].costs["qperf"]
    assert (node_s >= 2.0, places) == (True, 1), "two ranks for a second, by the launches where no Slurm is"
    lines = (machine.history / "nights.jsonl").read_text().splitlines(keepends=True)
    events = [json.loads(line)["event"] for line in lines]
    part = ["measuring", "measured", "kept"]
    assert events == ["begun", "planned", *part, *part, "judged", "ended"]
    (month,) = machine.history.glob("*.csv")
    table = month.read_text().splitlines(keepends=True)
    for count in range(1, len(lines)):
        done = events[:count].count("kept")
        for ahead in (0, 1):
            shutil.rmtree(machine.history)
            machine.history.mkdir()
            (machine.history / "nights.jsonl").write_text("".join(lines[:count]) + lines[count][:20])
            month.write_text("".join(table[: 1 + min(done + ahead, 2)]) + table[-1][:50])
            watch = NightRun(machine.options(), Stop())
            watch.repair()
            expected = records[: max(events[:count].count("measuring"), min(done + ahead, 2))]
            assert rows(machine.records()) == rows(expected), (events[:count], ahead)
            (repaired,) = Journal(machine.history).entries()
            assert (repaired.ended, repaired.cut) == (True, True)
            verdict = json.loads((machine.history / f"verdicts/{document['run']}.json").read_text())
            assert verdict["verdict"] == ("FAIL" if expected else "MISSING")
            before = machine.records()
            watch.repair()
            assert machine.records() == before, "once is enough"


def clients(job: Job) -> list[str]:
    """Command lines of the tool's own processes."""
    return [text for text in job.processes().values() if text.startswith("qperf ")]


@pytest.mark.slow
def test_a_night_that_is_told_to_end_keeps_what_it_has_and_the_next_judges_it(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    stopped = start(*machine.words, "--set", f"tiny_client={CLIENT.replace('-t 1', '-t 30')}")
    until(lambda: any("-t 30" in text for text in clients(stopped)), "qperf measures", 60)
    by_hand = finish(NPC, "characterise", "--platform", machine.platform, "--output", tmp_path / "by hand")
    assert by_hand.returncode == 1
    night = f"alone is being measured by process {stopped.process.pid} on {os.uname().nodename}, since "
    assert night in by_hand.stderr and "Traceback" not in by_hand.stderr
    says_nothing_of_a_night_that_has_not_ended(machine)
    os.kill(stopped.process.pid, signal.SIGTERM)
    ended = stopped.wait(90)
    assert ended.returncode == 143
    assert "stopped: what was measured is kept" in ended.stderr
    assert stopped.left_behind() == {}
    (cut,) = Journal(machine.history).entries()
    assert not cut.ended
    assert {record.run for record in machine.records()} == {cut.name}
    assert {record.status for record in machine.records()} == {"failed: interrupted by SIGTERM"}
    assert f"left out: {cut.name}: this night has" in says_nothing_of_a_night_that_has_not_ended(machine)
    code, verdict = machine.night("--keep-runs", "0")
    assert (code, verdict["verdict"]) == (0, "PASS")
    assert f"the night {cut.name} was cut off: 0 records recovered, verdict MISSING" in verdict["notes"]
    accept_what_is_there(machine, verdict)
    left = {path.name for path in (tmp_path / "runs").iterdir()}
    assert left == {cut.name}, "the raw runs of the bad night stay, those of the good one go"


def says_nothing_of_a_night_that_has_not_ended(machine: Machine) -> str:
    """``npc night accept`` takes no state from it, ``npc night history`` has no verdict; its words."""
    of_site = ["--platform", machine.platform, "--history", machine.history.parent]
    refused = npc("night", "accept", *of_site, "--reason", "x")
    assert refused.returncode == 1 and "its first night has not ended" in refused.stderr
    assert not (machine.history / "accepted.jsonl").exists()
    replayed = npc("night", "history", "--replay", *of_site)
    assert (replayed.returncode, replayed.stdout) == (1, ""), replayed.stderr
    return replayed.stderr


def accept_what_is_there(machine: Machine, verdict: dict[str, Any]) -> None:
    """``npc night accept`` records who took which values as the baseline, and why; and never without a
    reason."""
    words = ["night", "accept", "--platform", machine.platform, "--history", machine.history.parent]
    accepted = npc(*words, "--reason", "as bought", "qperf tcp_*")
    assert accepted.returncode == 0, accepted.stderr
    assert accepted.stdout.startswith("qperf tcp_bw bandwidth 64 KiB")
    (line,) = read_lines(machine.history / "accepted.jsonl")[0]
    assert (line["reason"], line["pattern"]) == ("as bought", "qperf tcp_*")
    assert [row["value"] for row in line["baselines"]] == [verdict["series"][0]["value"]]
    for options, code, text in (
        (["--reason", " "], 1, "a baseline moves for a reason only"),
        (["--reason", "x", "qperf udp_*"], 1, "names no series"),
        (["--reason", "x", "--night", "yesterday"], 1, "no night yesterday"),
        ([], 2, "Missing option '--reason'"),
    ):
        refused = npc(*words, *options)
        assert (refused.returncode, text in refused.stderr) == (code, True), refused.stderr
    assert len(read_lines(machine.history / "accepted.jsonl")[0]) == 1
