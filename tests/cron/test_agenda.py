"""The agenda of a night: its parts, of what a journal and a history say; the steps that tags choose."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from npc.choices import TAGS
from npc.cron.agenda import Agenda
from npc.cron.costs import Cost, RunCosts
from npc.cron.node_parts import NodeRotation, parts_of_nodes
from npc.cron.rotation import NODES, WorkItem
from npc.cron.verdict import NightVerdict
from npc.jobs.jube_file import step_names
from npc.jobs.suite import default_of
from npc.records.history import History, LastMeasured
from npc.records.journal import Journal, JournalEntry, Part
from npc.records.verdicts import (
    Coverage,
    PostponedBenchmark,
    UnmeasuredNode,
    Verdict,
    last_night,
    write_night,
)
from tests.lab.in_process import npc
from tests.made.history import a_record
from tests.paths import ROOT

BEGUN = datetime(2026, 11, 1, 2, 30, tzinfo=timezone.utc)
WORDS = ("--tag", "network", "--tag", "memory")


def past(folder: Path, costs: list[dict[str, float]]) -> list[JournalEntry]:
    """Nights in the history and in the journal, each with the node time (s) that its benchmarks took."""
    folder.mkdir(exist_ok=True)
    history, journal = History(folder), Journal(folder)
    for number, night in enumerate(costs):
        name = f"{BEGUN + timedelta(days=number):%Y%m%dT%H%M%SZ}"
        history.append(a_record(benchmark=benchmark, run=name, hosts=("n1",)) for benchmark in night)
        journal.note(name, "begun", folder=str(folder / name), words=WORDS)
        journal.note(name, "measuring", part="first", kind="first", words=WORDS, hosts=[])
        cost = {benchmark: [seconds, 1] for benchmark, seconds in night.items()}
        journal.note(name, "measured", part="first", exit=0, costs=cost, unmeasured={})
    return journal.entries()


def agenda(folder: Path, nights: list[JournalEntry], budget_s: float | None = None) -> Agenda:
    platform = ROOT / "platforms/localhost"
    return Agenda(platform=platform, history=History(folder), words=WORDS, nights=nights, budget_s=budget_s)


def plan_of(tonight: Agenda) -> Iterator[Part]:
    """What it chooses, part by part."""
    tonight.plan_tonight()
    return measured(tonight)


def measured(tonight: Agenda) -> Iterator[Part]:
    """The parts of its plan as a night measures them."""
    while begun := tonight.begin_next():
        work, parts = begun
        yield from parts
        tonight.end(work)


COSTS = {
    "qperf": 100.0,
    "sockperf": 100.0,
    "iperf3": 100.0,
    "osu": 200.0,
    "stream": 20.0,
    "likwid": 20.0,
    "memory": 20.0,
}


def test_without_a_budget_a_night_is_one_part(tmp_path: Path) -> None:
    tonight = agenda(tmp_path, [])
    (part,) = tonight.whole_suite()
    assert list(plan_of(tonight)) == []
    assert (part.name, part.words) == ("first", WORDS)


def test_a_budget_measures_what_waits_longest_and_names_what_is_left_out(tmp_path: Path) -> None:
    nights = past(tmp_path, [COSTS, COSTS, COSTS, {name: s for name, s in COSTS.items() if name != "osu"}])
    tonight = agenda(tmp_path, nights, budget_s=370.0)
    names = []
    for part in plan_of(tonight):
        benchmark = part.name.removeprefix("first-")
        assert part.words == (*WORDS, "--benchmark", benchmark)
        names.append(part.name)
        tonight.add_costs(RunCosts({benchmark: Cost(COSTS[benchmark], 1)}, {}))
    assert names == ["first-osu", "first-iperf3", "first-likwid", "first-memory", "first-stream"]
    last = f"measured last in night {nights[-1].name}"
    assert tonight.summary() == [
        f"budget: 6 min of 6 min 10 s node time spent; left out: qperf ({last}), sockperf ({last})"
    ]
    assert tonight.affords("stream") is False, "nor is there any for measuring again"


def test_what_nobody_knows_the_cost_of_is_measured_until_the_budget_is_spent(tmp_path: Path) -> None:
    tonight = agenda(tmp_path, [], budget_s=60.0)
    names = []
    for part in plan_of(tonight):
        names.append(part.name)
        tonight.add_costs(RunCosts({part.name: Cost(30.0, 1)}, {}))
    assert len(names) == 2
    assert [work.since for work in tonight.postponed()] == [""] * 5


def test_a_suspect_that_was_left_out_stays_one(tmp_path: Path) -> None:
    nights = past(tmp_path, [COSTS] * 3)
    left_out = (PostponedBenchmark(benchmark="sockperf", since="", suspect=True),)
    night = NightVerdict(platform="p", run="x", time="", verdict=Verdict.PASS, series=(), postponed=left_out)
    write_night(tmp_path, night.document())
    parts = plan_of(agenda(tmp_path, nights, budget_s=250.0))
    assert next(parts).name == "first-sockperf"


def test_a_benchmark_that_always_fails_does_not_come_first_every_night(tmp_path: Path) -> None:
    """Its jobs cost node time, and leave no record with a host."""
    nights = past(tmp_path, [{name: s for name, s in COSTS.items() if name != "osu"}] * 3)
    journal = Journal(tmp_path)
    for night in nights:
        journal.note(night.name, "measured", part="first", exit=0, costs={"osu": [50.0, 1]}, unmeasured={})
    first = next(plan_of(agenda(tmp_path, [*journal.entries()], budget_s=1e6)))
    assert first.name == "first-iperf3"


def test_a_night_without_time_leaves_out_the_rest(tmp_path: Path) -> None:
    tonight = agenda(tmp_path, past(tmp_path, [COSTS] * 3), budget_s=1e6)
    tonight.plan_tonight()
    while begun := tonight.begin_next():
        work, (part,) = begun
        if part.name == "first-likwid":
            tonight.leave_out_rest(work)
        tonight.end(work)
    assert [work.benchmark for work in tonight.postponed()] == [
        "likwid",
        "memory",
        "osu",
        "qperf",
        "sockperf",
        "stream",
    ]


def test_nodes_get_a_job_each_and_pairs_one_for_both() -> None:
    words = ("--tag", "network", "--set", "samples=3", "--set", "pairs_runs=1", "--set", "tiny_client=x")
    rotation = NodeRotation(benchmarks=("stream",))
    (part,) = parts_of_nodes(4, [("n1", "n2"), ("n3",)], rotation, ROOT / "platforms/slurm", words)
    assert part.name == "nodes-4"
    assert part.words == (
        "--each-node", "--set", "samples=3", "--set", "pairs_runs=1",
        "--node-benchmark", str(ROOT / "benchmarks/stream/benchmark.xml"),
        "--pair", "n1,n2", "--pair", "n3", "--at-once", "8",
    ), "without what only another benchmark knows"  # fmt: skip
    assert part.hosts == ("n1", "n2", "n3")


def test_a_work_that_waits_holds_up_no_other_and_works_in_a_window_share_no_node(tmp_path: Path) -> None:
    """Six pairs, four jobs at once: two pairs at a time, and the first one never ends."""
    works = [WorkItem(name=NODES, nodes=(f"a{n}", f"b{n}"), cost_s=10.0) for n in range(6)]
    rotation = NodeRotation(benchmarks=("stream",), at_once=4)
    platform = ROOT / "platforms/slurm"
    tonight = Agenda(platform=platform, history=History(tmp_path), rotation=rotation, budget_s=45.0)
    tonight.follow(works, {"qperf": Part(name="first-qperf", kind="first")})
    stuck, order = tonight.begin_next(), list[WorkItem]()
    while begun := tonight.begin_next():
        work, parts = begun
        assert [part.hosts for part in parts] == [work.nodes]
        assert tonight.begin_next() is None, "no more than two at once"
        order.append(work)
        tonight.add_costs(RunCosts({"stream": Cost(10.0, 1)}, {}))
        tonight.end(work)
    assert stuck is not None and stuck[0] == works[0]
    assert order == works[1:4], "the budget is kept for those that have begun"
    assert tonight.left_out == works[4:]


def test_a_benchmark_on_any_nodes_is_measured_alone(tmp_path: Path) -> None:
    pair, alone = WorkItem(name=NODES, nodes=("a", "b")), WorkItem(name="qperf")
    rotation = NodeRotation(benchmarks=("stream",))
    tonight = Agenda(platform=ROOT / "platforms/slurm", history=History(tmp_path), rotation=rotation)
    tonight.follow([pair, alone, pair, pair], {"qperf": Part(name="first-qperf", kind="first")})
    running, names = list[WorkItem](), list[list[str]]()
    while True:
        while begun := tonight.begin_next():
            running.append(begun[0])
        if not running:
            break
        names.append([work.name for work in running])
        while running:
            tonight.end(running.pop())
    assert names == [[NODES], ["qperf"], [NODES, NODES]]


def test_a_history_knows_where_it_measured_last(tmp_path: Path) -> None:
    history = History(tmp_path)
    history.append(
        a_record(day=day, benchmark="stream", run=f"night {day}", hosts=(host,), status=status)
        for day, host, status in [(1, "n1", "ok"), (2, "n1", "ok"), (3, "n1", "failed: x"), (2, "n2", "ok")]
    )
    assert set(history.places()) == {
        LastMeasured("stream", ("n1",), "night 2", "ok"),
        LastMeasured("stream", ("n1",), "night 3", "failed: x"),
        LastMeasured("stream", ("n2",), "night 2", "ok"),
    }


def test_coverage_names_the_nodes_by_their_reasons(tmp_path: Path) -> None:
    unmeasured = [UnmeasuredNode(node=f"n{n}", last="", why="drained (bad DIMM)") for n in range(12)]
    coverage = Coverage(
        within=14, nodes=64, unmeasured=(*unmeasured, UnmeasuredNode(node="x", last="y", why="busy"))
    )
    night = NightVerdict(platform="p", run="x", time="", verdict=Verdict.PASS, series=(), coverage=coverage)
    write_night(tmp_path, night.document())
    last = last_night(tmp_path)
    assert last and last.coverage
    assert last.coverage.lines() == [
        "51 of 64 nodes measured in the last 14 nights",
        "not measured: n[0-11]: drained (bad DIMM), never measured",
        "not measured: x: busy",
    ]
    assert last_night(tmp_path / "nothing") is None


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (
            ["night", "run", "--each-node"],
            "--each-node needs Slurm, and a platform that has the setting nodelist",
        ),
        (["characterise", "--each-node"], "--each-node needs Slurm, and a platform that has the setting"),
        (["characterise", "--each-node", "--tag", "network"], "--each-node goes with --node-benchmark, not"),
        (["night", "run", "--budget", "8 node-hours"], "Invalid value for '--budget'"),
    ],
)
def test_what_cannot_be_is_told_before_anything_runs(words: list[str], says: str, tmp_path: Path) -> None:
    ended = npc(*words, "--output", tmp_path, "--platform", "localhost")
    assert ended.returncode == 2
    assert says in ended.stderr
    assert not list(tmp_path.iterdir())


def test_a_platform_has_a_default_for_its_partition() -> None:
    defaults = [
        default_of(ROOT / "platforms" / name, "queue") for name in ("fuchs-csc", "slurm", "localhost")
    ]
    assert defaults == ["fuchs", "", ""]


@pytest.mark.slow
def test_tags_choose_the_steps_that_jube_runs() -> None:
    """By JUBE's own judgement of the tags in jube.yml, with JUBE's own interpreter."""
    jube = shutil.which("jube")
    assert jube
    program = """if True:
        import json, sys, yaml
        try:
            from jube2.util.util import valid_tags
        except ImportError:
            from jube.util.util import valid_tags
        steps = yaml.safe_load(open(sys.argv[1]))["step"]
        found = [[each["name"] for each in steps if valid_tags(each["tag"], set(tags))]
                 for tags in json.loads(sys.argv[2])]
        print(json.dumps(found))
    """
    python = Path(jube).read_text().splitlines()[0].removeprefix("#!").split()
    tag_sets = [[], *([tag] for tag in TAGS), ["network", "rdma"], ["memory", "compute"]]
    words = [*python, "-c", program, ROOT / "jube.yml", json.dumps(tag_sets)]
    printed = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    assert [step_names(ROOT / "jube.yml", tags) for tags in tag_sets] == json.loads(printed)


def test_a_benchmark_that_had_another_name_in_past_nights_is_measured(tmp_path: Path) -> None:
    former = {name.replace("memory", "chase"): seconds for name, seconds in COSTS.items()}
    parts = [part.name for part in plan_of(agenda(tmp_path, past(tmp_path, [former] * 3), budget_s=1e6))]
    assert parts[0] == "first-memory" and "first-chase" not in parts
