"""``npc plan``: what fits into the time, that its table is jube.yml's, and that its lines run."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from npc.cli import entry_points
from npc.parameters import TAGS
from npc.run import read_run
from report.plan.durations import STEPS, duration
from report.plan.planning import GOALS, Machine, make_plan
from tests.jube_job import NPC, ROOT, finish, steps

HERE = Machine(platform="localhost", folder="platforms/localhost", nodes=1, one_machine=True, rdma=False)
CLUSTER = Machine(platform="fuchs-csc", folder="platforms/fuchs-csc", nodes=64, one_machine=False, rdma=True)
COMMANDS = ("score", "check", "advise", "report", "compare", "roofline", "observe", "nightly")


def test_the_table_has_the_steps_and_tags_of_jube_yml() -> None:
    """A step of jube.yml that qualifies by two tags is two rows where it does other work for each."""
    wanted = {
        (step["name"], tag)
        for step in yaml.safe_load((ROOT / "jube.yml").read_text(encoding="utf-8"))["step"]
        for tag in re.findall(r"(?<!!)\b[a-z]+\b", step["tag"])
    }
    assert {(step.name.split()[0], tag) for step in STEPS for tag in step.tags} == wanted
    assert {tag for _, tag in wanted} == set(TAGS)


@given(st.sampled_from(sorted(GOALS)), st.floats(60, 1e5), st.sampled_from([HERE, CLUSTER]))
def test_a_plan_fits_and_leaves_nothing_out_that_would_fit(
    goal: str, budget: float, machine: Machine
) -> None:
    plan = make_plan(goal, machine, budget, COMMANDS)
    assert plan.seconds <= budget or plan.samples == 1
    assert 1 <= plan.samples <= 20 and plan.tags
    if plan.samples < 6:
        assert len(plan.tags) == 1 and any("no 95 % interval" in note for note in plan.notes)
    for tag in plan.left_out:
        assert plan.runs * duration([*plan.tags, tag], 6) > budget - 41  # pairs of nodes take 40 s
    assert "rdma" in plan.tags or "rdma" in plan.left_out or not machine.rdma or goal not in GOALS


def test_more_time_gives_more_tags_then_more_samples() -> None:
    plans = [make_plan("accept", HERE, budget, COMMANDS) for budget in (60, 300, 900, 7200)]
    assert plans[0].tags == ("network",) and plans[0].samples < 6
    assert [len(plan.tags) for plan in plans] == sorted(len(plan.tags) for plan in plans)
    assert plans[-1].tags == ("network", "memory", "compute", "apps", "models", "tools")
    assert plans[-1].samples == 20


def test_what_is_missing_takes_no_time_and_is_said() -> None:
    without = Machine(
        platform="localhost", folder="", nodes=1, one_machine=True, missing=frozenset({"likwid-bench"})
    )
    plan = make_plan("watch", without, 600, COMMANDS)
    assert "Missing here: likwid-bench (npc doctor --missing says how to get them)." in plan.notes
    assert plan.seconds < make_plan("watch", HERE, 600, COMMANDS).seconds or plan.samples > 6


def test_a_cluster_is_accepted_with_pairs_of_all_nodes() -> None:
    plan = make_plan("accept", CLUSTER, 7200, COMMANDS)
    (pairs,) = [line for line in plan.lines if "npb" in line]
    assert shlex.split(pairs)[:3] == ["srun", "-N", "64"]
    assert plan.characterise.startswith("npc characterise --platform fuchs-csc --tag network --tag memory")
    assert "--include-path platforms/fuchs-csc" in plan.jube
    assert not any("npb" in line for line in make_plan("accept", HERE, 7200, COMMANDS).lines)


def test_commands_that_are_not_installed_are_not_proposed() -> None:
    with_nights = make_plan("watch", CLUSTER, 900, [*COMMANDS, "cron"])
    tags = " ".join(f"--tag {tag}" for tag in with_nights.tags)
    assert with_nights.lines == (
        f"npc nightly --platform fuchs-csc {tags} --set samples={with_nights.samples}",
        f"npc cron install --platform fuchs-csc -- {tags}",
    )
    assert make_plan("watch", HERE, 600, ()).lines == (make_plan("watch", HERE, 600, ()).characterise,)


def npc(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([NPC, "plan", *words], capture_output=True, text=True, check=False)


@pytest.mark.parametrize("goal", sorted(GOALS))
def test_the_command_names_lines_that_exist(goal: str) -> None:
    ended = npc(goal, "--time", "30m", "--json")
    assert ended.returncode == 0, ended.stderr
    document = json.loads(ended.stdout)
    assert document["schema"] == 1 and document["seconds"] <= document["budget_s"] == 1800
    for line in document["lines"]:
        for command in re.findall(r"npc (\w+)", line):
            assert command in entry_points()
    shown = npc(goal, "--time", "30m").stdout
    assert all(line in shown for line in (*document["lines"], document["jube"], *document["notes"]))


def test_bad_input_is_a_usage_error() -> None:
    for words, message in (
        (("win",), "'win' is not one of"),
        (("accept", "--time", "soon"), "not a duration"),
        (("accept", "--platform", "nowhere"), "no such platform"),
        (("accept", "--nodes", "64"), "the platform localhost is one machine"),
    ):
        ended = npc(*words)
        assert ended.returncode == 2 and message in ended.stderr and "Traceback" not in ended.stderr


@pytest.mark.slow
def test_the_lines_of_a_plan_really_run(tmp_path: Path) -> None:
    """The shortest plan of the least tag, by npc and by JUBE alone: both make the same workpackages."""
    tools = Machine(platform="localhost", folder="", nodes=1, one_machine=True)
    plan = make_plan("watch", tools, 1, COMMANDS)
    for line in (plan.characterise.replace("network", "memory"), plan.jube.replace("network", "memory")):
        setting, *words = line.split() if line.startswith("NPC_") else ("", *line.split())
        environment = dict([setting.split("=")]) if setting else {}
        assert environment in ({}, {"NPC_SAMPLES": "1"})
        program, *rest = words
        out = tmp_path / program
        if program == "npc":
            ended = finish(NPC, *rest, "--output", out)
        else:
            in_checkout = ["sh", "-c", 'cd "$1" && shift && exec "$@"', "sh", ROOT]
            ended = finish(*in_checkout, program, *rest, "--hide-animation", "--outpath", out, **environment)
        assert ended.returncode == 0, ended.stdout + ended.stderr
    assert steps(tmp_path / "npc" / "000000") == steps(tmp_path / "jube" / "000000") == ["stream", "likwid"]
    assert any(record.ok for record in read_run(tmp_path / "npc" / "000000"))
