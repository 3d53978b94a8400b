"""``npc advise --try``: a real MPI with and without a change, in turns; and what is not tried."""

from __future__ import annotations

import json
import random
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from npc.machine.programs import BestSetting, read_programs
from npc.observe.study.remembering import remember
from npc.observe.study.trying import (
    NO_DIFFERENCE,
    NOT_CHANGED,
    TRIED,
    CannotTry,
    answer,
    choose,
    compared,
    design,
    turns,
    with_change,
    word_of,
)
from npc.records.launch import Launch, LaunchLog, command_of, read_launches
from npc.records.record import replace, save_csv
from npc.records.run import read_run
from npc.records.series import Series
from npc.report.advice import advise, gather
from npc.report.advice.rule import TrialChange
from tests.lab import in_process
from tests.lab.npb_job import MPI_ENVIRONMENT, mpirun
from tests.made.measured import records
from tests.paths import ROOT

LIMIT = TrialChange(
    set={"OMPI_MCA_btl_tcp_eager_limit": "5120", "UCX_RNDV_THRESH": "5120"}, sizes=(1024, 4096)
)


def measured(folder: Path, argv: Sequence[str], **launch: object) -> Path:
    """A run whose sweep shows an eager limit of 512 bytes that is too low, by a launch of `argv`."""
    log = LaunchLog(folder, "osu", 1)
    made = Launch(
        id=0, argv=tuple(argv), started="2026-11-21T08:00:00+00:00", seconds=0.5, exit=0, case="osu_latency",
        params={"mpi": "default"}, hosts=("n1",), raw="raw/0000.out",
    )  # fmt: skip
    log.append(Launch(**{**{name: getattr(made, name) for name in Launch.__slots__}, **launch}))
    log.close()
    (folder / "raw/0000.out").touch()
    sweep = [
        replace(record, raw="raw/0000.out")
        for power in range(21)
        for size in (2**power,)
        for record in records(
            "osu", "osu_latency", 1e-6 + size / 2e9 if size <= 512 else 4e-6 + size / 10e9,
            metric="latency", size=size, spread=(1.0, 1.01, 0.99, 1.02, 0.98, 1.0), params={"mpi": "default"},
        )
    ]  # fmt: skip
    save_csv(sweep, folder / "records.csv")
    return folder


# --- what is remembered -------------------------------------------------------------------------------


def test_what_the_platform_remembers_is_not_proposed_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, folder = measured(tmp_path / "run", ["mpirun", "osu_latency"]), tmp_path / "platforms/fuchs"
    folder.mkdir(parents=True)
    (folder / "platform.toml").touch()
    monkeypatch.chdir(tmp_path)
    assert [rule.name for rule, _ in advise(gather([run])).hints] == ["eager_limit"]
    known = BestSetting(
        program="osu osu_latency", nodes=1, setting="OMPI_MCA_btl_tcp_eager_limit=5120", times=2.5, low=2.1,
        high=2.7, against="without it", time="2026-11-23T10:00", by="npc advise --try", rule="eager_limit",
    )  # fmt: skip
    another = BestSetting(program="osu osu_latency", setting="no fork")
    for each in (known, another, BestSetting(program="himeno", setting="binding core")):
        remember(folder, each)
    advice = advise(gather([run]))
    assert not advice.hints
    assert [(rule.name, found) for rule, _, found in advice.remembered] == [("eager_limit", known)]
    assert advice.settings == (another,)
    shown = in_process.npc("advise", run).stdout
    assert "\nRemembered of fuchs, and not proposed again:\n" in shown
    assert f"  {known.words}; it answers rule eager_limit\n  osu osu_latency: no fork (by hand)\n" in shown
    assert "Nothing was found" not in shown
    document = json.loads(in_process.npc("advise", run, "--json").stdout)
    assert [each["rule"] for each in document["remembered"]] == ["eager_limit", ""]
    assert choose(advice, "eager_limit")[0].name == "eager_limit"  # to measure it again
    (folder / "programs.toml").write_text("[")
    assert "programs.toml" in advise(gather([run])).lacking


# --- the change, and the order ------------------------------------------------------------------------


def test_every_four_launches_are_abba_or_baab_and_the_lot_decides() -> None:
    seen = set()
    for seed in range(20):
        order = turns(6, random.Random(seed))
        sides = [side for side, _ in order]
        assert sorted(order) == [(side, sample) for side in (False, True) for sample in range(6)]
        for place in range(0, 12, 4):
            block = sides[place : place + 4]
            assert block == block[::-1] and sum(block) == 2
            seen.add(block[0])
    assert seen == {False, True}
    assert len(turns(5, random.Random(1))) == 10


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("mpirun -n 2 ./a", "env {set} mpirun -x UCX_RNDV_THRESH -n 2 ./a"),
        ("mpirun --mca btl_tcp_eager_limit 9 -x UCX_RNDV_THRESH=9 -n 2 ./a",
         "env {set} mpirun -x UCX_RNDV_THRESH -n 2 ./a"),
        ("taskset -c 1 mpirun -n 2 ./a", "env {set} taskset -c 1 mpirun -x UCX_RNDV_THRESH -n 2 ./a"),
        ("srun -n 2 ./a --mca btl tcp", "env {set} srun -n 2 ./a --mca btl tcp"),
        ("env UCX_RNDV_THRESH=9 ./a x=y", "env {set} env ./a x=y"),
    ],
)  # fmt: skip
def test_the_change_is_a_part_of_the_command_line(command: str, expected: str) -> None:
    assert all("{" not in value for value in LIMIT.set.values())
    told = " ".join(f"{name}={value}" for name, value in LIMIT.set.items())
    found = with_change(command.split(), LIMIT, {}, "Open MPI v4.1.4")
    assert shlex.join(found) == expected.format(set=told)
    assert command_of(found)[0] == command_of(command.split())[0]


def test_words_are_replaced_and_variables_taken_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLURM_CPU_BIND", "none")
    trial = TrialChange(clear=("SLURM_CPU_BIND", "UCX_TLS"), replace=(("--bind-to none", "--bind-to core"),))
    found = with_change(["mpirun", "--bind-to", "none", "-n", "2", "./a"], trial, {"UCX_TLS": "tcp"}, "")
    assert shlex.join(found) == "env -u SLURM_CPU_BIND mpirun --bind-to core -n 2 ./a"


def test_what_the_job_had_set_and_where_its_files_lay_are_a_part_of_both_commands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("SLURM_JOB_ID", "SLURM_JOB_NODELIST", "OMPI_MCA_pml"):
        monkeypatch.delenv(name, raising=False)
    folder = measured(tmp_path / "measured" / "launches", ["mpirun", "./latency", "in/no-file"])
    (tmp_path / "measured" / "latency").touch()
    environment = {
        "variables": {
            "OMPI_MCA_pml": "ob1",
            "SLURM_NTASKS": "2",
            "OMPI_COMM_WORLD_RANK": "0",
            "PATH": "/bin",
        },
        "mpi": {"launcher": "4.1.4", "library": "Open MPI v4.1.4, package: …"},
    }
    (folder / "environment.json").write_text(json.dumps(environment))
    found = gather([folder])
    experiment = design(found, *choose(advise(found), "1"), None, 4)
    program = [f"{tmp_path}/measured/latency", "in/no-file"]
    assert list(experiment.without) == ["env", "OMPI_MCA_pml=ob1", "mpirun", *program]
    limits = [f"OMPI_MCA_btl_{name}_eager_limit=5120" for name in ("vader", "sm", "tcp")]
    of_ucx = "UCX_RNDV_THRESH"
    # MPICH's and Intel MPI's variables are none of Open MPI's
    assert list(experiment.changed) == [
        "env", "OMPI_MCA_pml=ob1", *limits, f"{of_ucx}=5120", "mpirun", "-x", of_ucx, *program
    ]  # fmt: skip
    own = design(found, *choose(advise(found), "eager_limit"), TrialChange(set={"OMPI_MCA_pml": "ucx"}), 4)
    assert list(own.changed)[:2] == ["env", "OMPI_MCA_pml=ucx"] and own.change == "OMPI_MCA_pml=ucx"
    words = design(found, *choose(advise(found), "1"), TrialChange(replace=(("mpirun", "mpirun -n 2"),)), 4)
    assert list(words.changed)[:4] == ["env", "OMPI_MCA_pml=ob1", "mpirun", "-n"]
    assert words.change == "mpirun -n 2 instead of mpirun" and words.trial.sizes == own.trial.sizes
    with pytest.raises(CannotTry, match="its change has no effect"):
        design(found, *choose(advise(found), "eager_limit"), TrialChange(set={"OMPI_MCA_pml": "ob1"}), 4)


def test_each_hint_says_what_is_tried_or_why_nothing_is() -> None:
    files = (ROOT / "report/advice/rules.toml", *sorted((ROOT / "observe").rglob("rules.toml")))
    text = "\n".join(file.read_text(encoding="utf-8") for file in files)
    hints = [table for table in text.split("\n\n") if "\ndo = " in table]
    assert len(hints) > 15
    for table in hints:
        assert ("\ntry." in table) != ("\nuntried = " in table), table


# --- what is said -------------------------------------------------------------------------------------


def pairs_of(*ratios: float) -> list[str]:
    """The words for series whose values with the change are a median of `ratios` times those without."""
    found = []
    for place, ratio in enumerate(ratios):
        for tried, factor in ((NOT_CHANGED, 1.0), ("A=1", ratio)):
            found += records(
                "osu", "osu_latency", 1e-6 * factor, metric="latency", size=1024 << place,
                spread=(1.0, 1.03, 0.96, 1.05, 0.98, 1.01), params={TRIED: tried, "threads": tried},
            )  # fmt: skip
    pairs = compared(found, Path())
    assert all(
        (pair.low <= 1 <= pair.high) <= (word_of(pair) == NO_DIFFERENCE)
        for pair in pairs if pair.low and pair.high
    )  # fmt: skip
    return [*map(word_of, pairs), answer(pairs, LIMIT).word]


def test_an_interval_with_one_in_it_is_no_difference_shown() -> None:
    assert pairs_of(0.35, 0.36, 0.9, 1.0) == ["better"] * 3 + [NO_DIFFERENCE, "better"]
    assert pairs_of(1.0, 0.99, 1.01, 0.5) == [NO_DIFFERENCE] * 3 + ["better", NO_DIFFERENCE]
    assert pairs_of(1.5, 1.0, 0.6) == ["worse", NO_DIFFERENCE, "better", "better and worse"]


def test_two_launches_a_side_are_too_few() -> None:
    some = list(records("osu", "osu_latency", 1e-6, metric="latency", size=1024, spread=(1.0, 1.1)))
    both = [replace(record, params={TRIED: tried}) for tried in (NOT_CHANGED, "A=1") for record in some]
    (pair,) = compared(both, Path())
    assert word_of(pair) == "not comparable" and pair.reason.endswith("4 each are needed")
    assert answer([pair], LIMIT).word == "not comparable"


# --- what is not tried --------------------------------------------------------------------------------


def test_what_cannot_be_tried_is_said_with_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("SLURM_JOB_ID", "SLURM_JOB_NODELIST"):
        monkeypatch.delenv(name, raising=False)
    run = measured(tmp_path, ["mpirun", "-n", "2", "osu_latency"])

    def told(*words: str) -> tuple[int, str]:
        ended = in_process.npc("advise", run, *words)
        return ended.returncode, ended.stderr

    assert told("--try", "nothing")[0] == 2
    assert told("--try", "7")[0] == 2 and told("--set", "A=1")[0] == 2
    assert "--score and --try exclude each other" in told("--score", "--try", "1")[1]
    assert told("--try", "eager_limit", "--set", "A")[0] == 2 == told("--replace", "a", "b")[0]
    code, words = told("--try", "mtu")
    assert code == 1 and "rule mtu had nothing to judge (no TCP test between nodes)" in words
    shown = in_process.npc("advise", run).stdout
    assert f"   try:    npc advise {run} --try eager_limit\n" in shown
    (tmp_path / "raw/0000.server.out").touch()
    assert "npb made the launches" in told("--try", "eager_limit")[1]


def test_it_is_tried_where_it_was_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SLURM_JOB_ID", "SLURM_JOB_NODELIST"):
        monkeypatch.delenv(name, raising=False)
    found = gather([measured(tmp_path, ["mpirun", "osu_latency"], nodes=2, hosts=("n1", "n2"))])
    with pytest.raises(CannotTry, match=r"measured on 2 nodes of a job \(n1, n2\).*sbatch --nodes 2"):
        design(found, *choose(advise(found), "eager_limit"), None, 8)


def test_a_hint_for_root_says_its_command_and_is_not_tried(tmp_path: Path) -> None:
    found = gather([measured(tmp_path, ["mpirun", "osu_latency"])])
    rule, hint = choose(advise(found), "eager_limit")
    roots = type(hint)(seen="", do="cpupower …", of="", trial="it is root's", raw=hint.raw)
    with pytest.raises(CannotTry, match=r"not tried: it is root's\. What to do: cpupower …"):
        design(found, rule, roots, None, 8)


# --- a real MPI ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    built = tmp_path_factory.mktemp("late") / "late_receiver"
    source = ROOT / "tests/lab/late_receiver.c"
    subprocess.run(["mpicc", "-O2", "-o", str(built), str(source)], check=True)
    return built


def command(program: Path) -> list[str]:
    variables = [f"{name}={value}" for name, value in MPI_ENVIRONMENT.items() if "ALLOW" in name]
    words = "-n 2 --mca btl tcp,self --mca btl_tcp_eager_limit 512"
    return ["env", *variables, mpirun(), *words.split(), str(program)]


@pytest.mark.slow
@pytest.mark.measures
def test_an_eager_limit_that_makes_a_difference_and_one_that_makes_none(
    program: Path, tmp_path: Path
) -> None:
    run, output = measured(tmp_path / "run", command(program)), tmp_path / "tried"
    words = ("advise", run, "--try", "eager_limit", "--launches", "4", "--output", output)
    ended = in_process.npc(*words)
    assert ended.returncode == 0, ended.stderr
    before, _, after = ended.stdout.partition("in turns: about 4 s (one took 0.5 s), at most 8 min")
    assert "btl_tcp_eager_limit 512" in before and "OMPI_MCA_btl_tcp_eager_limit=5120" in before
    assert "messages of 1 KiB to 4 KiB: better" in after and "the hint says at most 2.7" in after
    assert "Nothing was changed for good; to keep it, have jobs say it: OMPI_MCA_btl_vader" in after
    (kept,) = read_programs(output)
    assert f"Remembered in {output}/programs.toml, not for the platform (there is no platform fuchs" in after
    assert (kept.program, kept.nodes, kept.rule) == ("osu osu_latency", 1, "eager_limit")
    assert kept.times and kept.low and kept.high and 2 < kept.low <= kept.times <= kept.high
    document = json.loads((output / "tried.json").read_text())
    pairs = {pair["size"]: pair for pair in document["pairs"]}
    assert document["answer"] == pairs[2048]["verdict"] == "better" and pairs[2048]["high"] < 0.5
    # the receiver is 200 ms late: above the limit one waits for it, below the limit not
    assert pairs[2048]["a"]["median"] > 0.1 and pairs[64]["a"]["median"] < 0.1
    for pair in pairs.values():
        assert pair["verdict"] == NO_DIFFERENCE or not pair["low"] <= 1 <= pair["high"]
    found = read_run(output)
    usual = {Series.of(record) for record in read_run(run)}
    assert {record.params[TRIED] for record in found} == {NOT_CHANGED, document["change"]}
    assert not usual & {Series.of(record) for record in found}
    assert all((output / record.raw).read_bytes() for record in found)
    assert (output / "environment.json").exists()
    page = tmp_path / "page.html"
    shown = in_process.npc("report", run, output, "--output", page, "--json")
    told = json.loads(shown.stdout)
    assert [Path(each["folder"]) for each in told["runs"]] == [run] and told["tried"] == [str(output)]
    text = page.read_text()
    assert f"; tried ({document['change']}): better" in text and "the hint says at most 2.7" in text
    assert "tried.json" in text and "tried/" not in text.partition("<body")[0]
    alone = in_process.npc("report", output, "--output", page, "--json")
    assert (
        json.loads(alone.stdout)["tried"] == [str(output)] and "Tried, rule eager_limit" in page.read_text()
    )
    assert in_process.npc(*words).returncode == 2  # what was measured is not written over


@pytest.mark.slow
def test_ctrl_c_leaves_what_was_measured(program: Path, tmp_path: Path) -> None:
    """By then both sides have four launches: of a variable that nothing reads, no difference is shown."""
    run, output = measured(tmp_path / "run", command(program)), tmp_path / "tried"
    words = ["--try", "eager_limit", "--set", "NOBODY_READS=1", "--launches", "500", "--output", str(output)]
    process = subprocess.Popen(
        [sys.executable, "-m", "npc", "advise", str(run), *words], stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    log = output / "launches.jsonl"
    while process.poll() is None and (not log.exists() or log.read_text().count("\n") < 9):
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    said, errors = process.communicate(timeout=60)
    assert process.returncode == 130, errors
    assert "stopped by SIGINT after" in errors and f"what was measured is kept in {output}" in errors
    made = [launch for launch in read_launches(output).launches if launch.exit == 0]
    assert len(made) >= 8
    assert "NOBODY_READS=1" in said and "messages of 1 KiB to 4 KiB: " in said
    kept = [record for record in read_run(output) if record.ok]
    assert len(kept) == 2 * len(made)
    document = json.loads((output / "tried.json").read_text())
    for pair in document["pairs"]:
        assert (pair["low"] <= 1 <= pair["high"]) <= (pair["verdict"] == NO_DIFFERENCE)
