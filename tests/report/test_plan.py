"""``npc plan``: what fits into the time, that its table is jube.yml's, and that its lines run."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import shlex
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from npc import catalogue
from npc.catalogue.row import JOB_S
from npc.cli import entry_points
from npc.jobs.suite import settings
from npc.records.run import read_run
from npc.report.compare.difference import ENOUGH_RUNS
from npc.report.plan.command import QUESTIONS, _machine
from npc.report.plan.earlier import EarlierStep, steps_seen
from npc.report.plan.planning import GOALS, Machine, TooLittleTime, duration, make_model_plan, make_plan
from npc.roofline import choice
from npc.roofline.fits import fit_records
from npc.roofline.sweeps import LEAST_SIZES
from tests import captured
from tests.lab import in_process
from tests.lab.jube_job import NPC, finish, platform, steps
from tests.made.jube_run import Run, launch, write_launches
from tests.made.sweeps import of_output
from tests.paths import ROOT

HERE = Machine(
    platform="localhost",
    name="localhost",
    folder="platforms/localhost",
    nodes=1,
    one_machine=True,
    rdma=False,
)
CLUSTER = Machine(
    platform="fuchs-csc", name="fuchs-csc", folder="platforms/fuchs-csc", nodes=64, one_machine=False,
    submit="sbatch",
    rdma=True, queue="fuchs", timed=True,
)  # fmt: skip
COMMANDS = ("check", "advise", "report", "compare", "roofline", "observe", "night run")


def test_a_comparison_has_the_runs_that_show_how_runs_differ() -> None:
    assert GOALS["compare"].runs == ENOUGH_RUNS


def test_sizes_are_the_defaults_of_the_specs() -> None:
    """Every setting of a size stands in the table, with what the benchmark takes without it."""
    wanted: dict[str, dict[str, str]] = {}
    for spec in (ROOT / "benchmarks").glob("*/benchmark_spec.xml"):
        wanted[spec.parent.name] = {
            name.lower(): default
            for name, default in re.findall(r"\$\{NPC_(\w+):-([^}]*)\}", spec.read_text(encoding="utf-8"))
            if re.search(r"(_|_MAX_|_ARRAY_|_LOAD_)SIZES?$|_N$|_MSGLOG$", name)
        }
    defaults: dict[str, dict[str, str]] = {name: {} for name in wanted}
    for step in catalogue.steps():
        defaults[step.name.split()[0]].update(step.sizes)
    assert {name: set(sizes) for name, sizes in defaults.items()} == {n: set(s) for n, s in wanted.items()}
    for name, sizes in wanted.items():
        for setting, default in sizes.items():
            assert defaults[name][setting].split(", ")[0] == default or (
                not default and re.search("cache|thread", defaults[name][setting])
            )


def test_settings_of_nodes_are_those_of_the_specs() -> None:
    for step in catalogue.steps():
        spec = ROOT / "benchmarks" / step.name.split()[0] / "benchmark_spec.xml"
        # a number, or a list that has more where the platform has several nodes
        least = r"(?:else list=(\d+); .*)?\$\{NPC_(\w+_NODES):-(\d+|\$list)\}"
        sizes = re.findall(least, spec.read_text(encoding="utf-8"))
        assert [(name.lower(), int(alone or nodes)) for alone, name, nodes in sizes] == (
            [(step.scales, step.nodes[0])] if step.scales else []
        )
        if not step.scales:
            (fixed,) = re.findall(r'name="nodes" type="int">(\d)<', spec.read_text(encoding="utf-8"))
            assert step.nodes == (int(fixed),)
    assert {name for step in catalogue.steps() for name in step.site} <= settings(ROOT).keys()


@given(st.sampled_from(sorted(GOALS)), st.floats(400, 1e5), st.sampled_from([HERE, CLUSTER]))
@pytest.mark.slow
def test_a_plan_fits_and_leaves_nothing_out_that_would_fit(
    goal: str, budget: float, machine: Machine
) -> None:
    plan = make_plan(goal, machine, budget, COMMANDS)
    assert plan.seconds <= budget or plan.samples == 1
    assert 1 <= plan.samples <= 20 and plan.tags
    if plan.samples < 6:
        assert len(plan.tags) == 1 and any("no 95 % interval" in note for note in plan.notes)
    for tag in plan.left_out:
        needed = plan.runs * duration([*plan.tags, tag], 6, machine)
        assert needed > budget - 41  # pairs of nodes take 40 s
    assert "rdma" in plan.tags or "rdma" in plan.left_out or not machine.rdma or goal not in GOALS


def test_more_time_gives_more_tags_then_more_samples() -> None:
    plans = [make_plan("accept", HERE, budget, COMMANDS) for budget in (90, 300, 900, 7200)]
    assert plans[0].tags == ("network",) and plans[0].samples < 6
    assert [len(plan.tags) for plan in plans] == sorted(len(plan.tags) for plan in plans)
    assert plans[-1].tags == ("network", "memory", "compute", "io", "gpu", "apps", "models", "tools")
    assert plans[-1].samples == 20


def test_what_is_missing_takes_no_time_and_is_said() -> None:
    without = dataclasses.replace(HERE, missing=frozenset({"likwid-bench"}))
    plan = make_plan("watch", without, 600, COMMANDS)
    assert "Missing here: likwid-bench (npc doctor --missing says how to get them)." in plan.notes
    assert plan.seconds < make_plan("watch", HERE, 600, COMMANDS).seconds or plan.samples > 6


def test_stream_takes_longer_where_a_core_has_more_cache() -> None:
    """Its arrays are four times the last-level caches; the seconds of the table are of 16.8 MB a core."""
    times = {
        factor: next(
            step.duration(6) - step.duration(0)
            for step in make_plan("accept", dataclasses.replace(HERE, caches=factor), 7200, COMMANDS).steps
            if step.name == "stream"
        )
        for factor in (0.1, 1.0, 9.0)
    }
    assert times[0.1] == times[1.0] and times[9.0] == pytest.approx(9 * times[1.0])
    assert _machine("localhost", None).caches > 0 and _machine("fuchs-csc", None).caches == 1.0


def test_programs_that_a_site_has_to_name_take_no_time_until_it_does(monkeypatch: pytest.MonkeyPatch) -> None:
    named = make_plan("accept", HERE, 7200, COMMANDS)
    without = make_plan("accept", dataclasses.replace(HERE, missing=frozenset({"xhpcg"})), 7200, COMMANDS)
    assert named.seconds - without.seconds == pytest.approx(6 * 60), "a launch of a minute is made six times"
    assert any(
        "xhpcg; --set hpcg_prefix=FOLDER or --set hpcg_source=FOLDER" in note for note in without.notes
    )
    monkeypatch.delenv("NPC_HPCG_PREFIX", raising=False)
    monkeypatch.delenv("NPC_HPCG_SOURCE", raising=False)
    assert "xhpcg" in _machine("localhost", None).missing
    monkeypatch.setenv("NPC_HPCG_PREFIX", "/opt/hpcg")
    assert "xhpcg" not in _machine("localhost", None).missing


def test_gpus_are_in_a_plan_where_a_tool_of_theirs_is() -> None:
    tools = {command for step in catalogue.steps(("gpu",)) for command in step.commands}
    without = dataclasses.replace(HERE, missing=frozenset(tools))
    assert "gpu" not in make_plan("accept", without, 7200, COMMANDS).tags
    one = dataclasses.replace(HERE, missing=frozenset(tools - {"nvcc"}))
    assert "gpu" in make_plan("accept", one, 7200, COMMANDS).tags


def test_durations_are_those_of_the_platforms_last_run(tmp_path: Path) -> None:
    """Of two cases one needed six launches, the other fourteen; another platform's run does not count."""
    needed = {"load L1": 6, "load MEM": 14}
    for number, (name, seconds) in enumerate([("localhost", 0.5), ("localhost", 3.0), ("elsewhere", 9.0)]):
        work = Run(tmp_path / f"{number:06d}", name).add("likwid", "done")
        made = [(case, sample) for case, count in needed.items() for sample in range(count)]
        launches = [
            (launch(place, case=case, sample=sample, seconds=seconds), "")
            for place, (case, sample) in enumerate(made)
        ]
        write_launches(work / "launches", *launches, tool="likwid")
    earlier = steps_seen(tmp_path, "localhost")
    assert earlier == {"likwid": EarlierStep(3.0, (6, 14), "000001")}
    plan = make_plan("slow", dataclasses.replace(HERE, earlier_steps=earlier), 7200, COMMANDS)
    (step,) = [step for step in plan.steps if step.name == "likwid"]
    assert step.duration(20) == step.jobs * JOB_S + 20 * 3.0
    assert step.duration(10) == step.jobs * JOB_S + 16 * 3.0
    assert "As long, and as often, as in the runs 000001: likwid." in plan.notes


def test_more_nodes_are_measured_where_benchmarks_scale() -> None:
    few = make_plan("accept", dataclasses.replace(CLUSTER, nodes=1), 20000, COMMANDS)
    many = make_plan("accept", CLUSTER, 20000, COMMANDS)
    assert "_nodes" not in few.characterise
    for words, text in (("--set {}", many.characterise), ("NPC_{}", many.jube)):
        for name, nodes in (
            ("hpcc", "1,64"), ("himeno", "1,64"), ("hpcg", "1,64"), ("patterns", "2,64"), ("ior", "2,64"),
            ("mdtest", "2,64"), ("fio", "1,64"),
        ):  # fmt: skip
            setting = f"{name}_nodes"
            assert words.format(setting if "--" in words else setting.upper()) + f"={nodes}" in text
    jobs = {step.name: step.jobs for step in many.steps}
    assert {name: number / jobs[name] for name, number in ((s.name, s.jobs) for s in few.steps)} == {
        name: 0.5 if name in ("hpcc", "himeno", "hpcg", "patterns", "ior", "mdtest", "fio") else 1.0
        for name in jobs
    }
    # HPCC's job on all nodes may take longer than Slurm is told by default
    assert "--set timelimit=" in many.characterise and "NPC_TIMELIMIT=" in many.jube
    assert "timelimit" not in make_plan("slow", CLUSTER, 20000, COMMANDS).characterise
    unknown = make_plan("accept", dataclasses.replace(CLUSTER, missing=frozenset({"xhpcg"})), 7200, COMMANDS)
    assert "hpcg_nodes" not in unknown.characterise


def test_too_little_time_is_an_error() -> None:
    with pytest.raises(TooLittleTime, match="of the tag network takes 53 s"):
        make_plan("slow", HERE, 50, COMMANDS)
    assert make_plan("slow", HERE, 54, COMMANDS).samples == 1


def test_records_get_the_platform_s_name() -> None:
    lines = make_plan("slow", CLUSTER, 900, COMMANDS).lines
    assert "npc observe --platform fuchs-csc -- mpirun -n RANKS ./app" in lines
    assert "npc observe -- mpirun -n RANKS ./app" in make_plan("slow", HERE, 900, COMMANDS).lines
    assert any("npc observe --help" in note for note in make_plan("slow", HERE, 900, COMMANDS).notes)
    machine = _machine("deep-cm", None)
    assert (machine.name, machine.queue, machine.account, machine.timed) == ("deep-cm", "dp-cn", "", True)


def test_pairs_are_measured_by_the_batch_system_that_there_is() -> None:
    machine = _machine("sge", 16)
    assert (machine.one_machine, machine.submit) == (False, "qsub")
    (pairs,) = [line for line in make_plan("accept", machine, 7200, COMMANDS).lines if "pairs_nodes" in line]
    assert pairs.startswith(
        "npc characterise --platform sge --benchmark cron/pairs/benchmark.xml --output pairs"
    )
    assert not any("srun" in line for line in make_plan("accept", machine, 7200, COMMANDS).lines)


def test_what_a_shell_starts_is_one_machine_wherever_its_file_comes_from(tmp_path: Path) -> None:
    text = (ROOT / "platforms/localhost/platform.xml").read_text()
    (tmp_path / "platform.xml").write_text(
        text.replace("<!-- One machine", "<!-- No sbatch here. One machine")
    )
    assert _machine(str(tmp_path), None).one_machine


def test_a_cluster_is_accepted_with_pairs_of_all_nodes() -> None:
    plan = make_plan("accept", CLUSTER, 7200, COMMANDS)
    (pairs,) = [line for line in plan.lines if "npb" in line]
    assert shlex.split(pairs)[:5] == ["srun", "-N", "64", "--ntasks-per-node=1", "--partition=fuchs"]
    assert pairs.endswith("--platform fuchs-csc --output pairs")
    assert {"npc report runs pairs", "npc advise runs pairs"} <= set(plan.lines)
    with_account = dataclasses.replace(CLUSTER, account="a b")
    assert any("--account='a b'" in line for line in make_plan("accept", with_account, 7200, COMMANDS).lines)
    assert plan.characterise.startswith("npc characterise --platform fuchs-csc --tag network --tag memory")
    assert "--include-path platforms/fuchs-csc" in plan.jube
    assert not any("npb" in line for line in make_plan("accept", HERE, 7200, COMMANDS).lines)


def test_commands_that_are_not_installed_are_not_proposed() -> None:
    with_nights = make_plan("watch", CLUSTER, 900, [*COMMANDS, "night cron"])
    tags = " ".join(f"--tag {tag}" for tag in with_nights.tags)
    assert with_nights.lines == (
        f"npc night run --platform fuchs-csc {tags} --set samples_max={with_nights.samples} "
        "--set fio_nodes=1,64",
        f"npc night cron install --platform fuchs-csc -- {tags}",
    )
    assert make_plan("watch", HERE, 600, ()).lines == (make_plan("watch", HERE, 600, ()).characterise,)


def test_a_platform_is_what_its_elements_say_however_they_are_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One over localhost, with sbatch in a comment, its name in single quotes, and a queue."""
    monkeypatch.delenv("NPC_QUEUE", raising=False)
    localhost = ROOT / "platforms/localhost/platform.xml"
    (tmp_path / "platform.xml").write_text(
        f"""<jube><!-- later: sbatch, a <parameter name="npc_platform_name">slurm</parameter> -->
  <parameterset name="executeset" init_with="{localhost}"/>
  <parameterset name='systemParameter' init_with='{localhost}'>
    <parameter  name='npc_platform_name' >
      desk</parameter>
    <parameter name='queue' mode='shell'>printf %s "${{NPC_QUEUE:-short}}"</parameter>
  </parameterset></jube>"""
    )
    machine = _machine(str(tmp_path), None)
    assert (machine.name, machine.one_machine, machine.queue) == ("desk", True, "short")


def test_every_question_has_its_model_and_measurements_that_there_are() -> None:
    """What questions.toml names: models as npc model fit calls them, settings of the benchmarks, sizes
    enough."""
    outputs = [path for path in captured.outputs("models") if not path.name.startswith(("fail", "ring_3"))]
    fitted = fit_records([
        *(record for path in outputs for record in of_output("models", path.name, run="0")),
        *of_output("osu", "osu_get_bw.out"),
    ])  # fmt: skip
    models = {fit.name for fit in fitted.fits}
    assert set(QUESTIONS) == set(choice.QUESTIONS)
    for question in choice.QUESTIONS.values():
        assert question.model.startswith(tuple(models)), question.model
        assert all(any(measurement.of == of for measurement in choice.MEASUREMENTS) for of in question.of)
    for measurement in choice.MEASUREMENTS:
        assert measurement.set.keys() | measurement.cluster.keys() <= settings(ROOT).keys()
        for name, value in measurement.set.items():
            assert not name.endswith("_sizes") or len(value.split(",")) >= LEAST_SIZES


@pytest.mark.parametrize("name", QUESTIONS)
def test_a_question_is_answered_by_what_its_model_needs_on_this_machine(name: str) -> None:
    for machine in (HERE, CLUSTER, dataclasses.replace(CLUSTER, rdma=None)):
        plan = make_model_plan(name, machine, 3600)
        assert plan.seconds <= 3600 and plan.samples >= 6
        measured = [step.name for step in plan.steps]
        assert [line.split()[3] for line in plan.lines if "characterise" in line] == measured
        below = [] if machine is HERE else ["perftest" if machine.rdma else "qperf"]
        assert measured == {
            "message": ["osu", *below], "stream": ["osu", *below], "collective": ["osu"],
            "superstep": ["models", "osu"],
        }.get(name, ["models"])  # fmt: skip
        assert f"npc model fit model-{name}/0*" in plan.lines[len(measured)]
        assert plan.jube.count("jube run") == len(measured)
    with pytest.raises(TooLittleTime, match="a single launch of each test takes "):
        make_model_plan(name, CLUSTER, 5)


def test_one_job_measures_all_that_a_benchmark_has_of_a_model() -> None:
    (osu,) = [line for line in make_model_plan("collective", HERE, 600).lines if "osu" in line]
    assert "--set osu_kinds=pt2pt,collective " in osu
    several = make_model_plan("contention", CLUSTER, 600).lines[0]
    assert "--set models_tests=ring --set models_tasks=4 " in several
    assert "models_tasks" not in make_model_plan("contention", HERE, 600).lines[0]


def npc(*words: str) -> subprocess.CompletedProcess[str]:
    return in_process.npc("plan", *words)


@pytest.mark.parametrize("goal", [*sorted(GOALS), "collective"])
def test_the_command_names_lines_that_exist(goal: str) -> None:
    ended = npc(goal, "--time", "30m", "--json")
    assert ended.returncode == 0, ended.stderr
    document = json.loads(ended.stdout)
    assert document["schema"] == 1 and document["seconds"] <= document["budget_s"] == 1800
    for line in document["lines"]:
        for first, second in re.findall(r"npc (\w+)(?: (\w+))?", line):
            assert first in entry_points() or f"{first} {second}" in entry_points()
    assert [set(step["sizes"]) for step in document["steps"] if step["name"] == "stream"] in (
        [], [{"stream_array_size"}]
    )  # fmt: skip
    assert all(step["nodes"] == max(step["all_nodes"]) for step in document["steps"])
    shown = npc(goal, "--time", "30m").stdout
    assert all(line in shown for line in (*document["lines"], document["jube"], *document["notes"]))


def test_a_plan_says_what_the_platform_remembers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "platforms/localhost"
    folder.mkdir(parents=True)
    (folder / "platform.toml").touch()
    monkeypatch.chdir(tmp_path)
    assert "Remembered" not in npc("slow", "--time", "30m").stdout
    known = 'program = "himeno"\nsetting = "binding core"\nby = "npc program study"\nrun = "/home/me/study"\n'
    (folder / "programs.toml").write_text(f"[[setting]]\n{known}")
    shown = npc("slow", "--time", "30m").stdout
    assert (
        "\n\nRemembered of this platform:\n  himeno: binding core (npc program study, /home/me/study)\n"
        in shown
    )
    document = json.loads(npc("slow", "--time", "30m", "--json").stdout)
    assert [setting["setting"] for setting in document["remembered"]] == ["binding core"]


def test_bad_input_is_a_usage_error() -> None:
    for words, message in (
        (("win",), "'win' is not one of"),
        (("accept", "--time", "soon"), "not a duration"),
        (("accept", "--platform", "nowhere"), "no such platform"),
        # how many follows from this checkout's own runs, if it has any
        (("slow", "--time", "5"), "--time 5: a single launch of each test of the tag network takes "),
        (("watch", "--time", "0"), "--time 0: a single launch"),
        (("accept", "--nodes", "64"), "the platform localhost is one machine"),
    ):
        ended = npc(*words)
        assert ended.returncode == 2 and message in ended.stderr and "Traceback" not in ended.stderr


@pytest.mark.slow
@pytest.mark.xdist_group("lines_of_a_plan")
def test_the_lines_of_a_plan_really_run(tmp_path: Path) -> None:
    """The shortest plan of the least tag, on another platform than localhost: NPC and JUBE alone both make
    the same workpackages; what is to be typed then finds the records of the line before."""
    lab = platform(tmp_path / "lab", "lab")
    tools = Machine(platform=str(lab), name="lab", folder=str(lab), nodes=1, one_machine=True)
    plan = make_plan("slow", tools, 75, COMMANDS)
    first, *after = plan.lines
    assert first == plan.characterise and len(after) == 4

    least = {"NPC_LIKWID_THREADS": "1"}

    def typed(line: str, *more: str | Path, where: Path = tmp_path) -> str:
        """What the line prints; the environment in front of it is set as a shell does it."""
        line = line.replace("network", "compute").replace("-n RANKS ./app", "-n 2 sleep 0.1")
        in_folder = ["sh", "-c", f'cd "$1" && shift && {line} "$@"', "sh", where, *more]
        ended = finish(*in_folder, timeout_s=240, PATH=f"{NPC.parent}:{os.environ['PATH']}", **least)
        assert ended.returncode == 0, (line, ended.stdout, ended.stderr)
        return ended.stdout

    typed(first, "--output", tmp_path / "runs")
    typed(plan.jube, "--hide-animation", "--outpath", tmp_path / "jube", where=ROOT)
    run = tmp_path / "runs" / "000000"
    assert steps(run) == steps(tmp_path / "jube" / "000000") == ["likwid", "blas", "fft"]
    assert any(record.ok for record in read_run(run))
    observe, roofline, advise, report = after
    typed(observe)
    assert "Roofline of lab" in typed(roofline)
    both = [*read_run(run), *read_run(tmp_path / "observed")]
    assert {record.platform for record in both} == {"lab"}
    usable = sum(record.ok for record in both)
    judged = f"runs/000000 and observed: {usable} of {len(both)} records of lab usable"
    assert typed(advise).startswith(judged)
    assert "report.html" in typed(report)


def test_the_table_writes_sizes_as_everywhere() -> None:
    shown = " ".join(npc("slow", "--time", "30m").stdout.split())
    assert "1 MiB" in shown and "1048576" not in shown
    assert "1d:4096, 3d:64" in shown, "points are no bytes"
