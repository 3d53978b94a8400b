"""The launches of a study: the words of each, what is asked of a node, and what counts as made."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest

from npc.observe.study.launches import WORK, command_of, missing_of, params_of, runs_of, state_of, unknown_of
from npc.observe.study.making import measured_in
from npc.observe.study.plan import Factors, conditions_of, network_of, placement_of
from npc.observe.study.records import ProgramRun, Study
from npc.observe.study.starters import Starters
from npc.records.launch import Launch, LaunchLog


def study(factors: Factors, *command: str) -> tuple[Study, Starters]:
    plan, _ = conditions_of(factors)
    made = Study(
        command=command, program="app", platform="localhost", started="", seed=1, runs=2,
        conditions=tuple(plan), folder="/home/me", observed=False,
    )  # fmt: skip
    words = {placement_of(each): ("srun", "--mpi=pmix", "-n", str(each.ranks)) for each in plan}
    return made, Starters(words=words, cores=8, one_machine=False)


def words_of(made: Study, starters: Starters, place: int = 0) -> list[str]:
    """From the shape of the launch on."""
    return command_of(made, made.conditions[place], starters, Path("/npc"))[3:]


def test_the_platform_starts_a_program_and_a_launcher_starts_itself() -> None:
    factors = Factors(nodes=(2,), ranks=("4",), threads=(2,), binding=("core",))
    shape = ["2", "2", "2", "", "core", "/home/me", "--", "0"]
    made, starters = study(factors, "true", "-r", "{ranks}/{nodes}")
    assert words_of(made, starters) == [*shape, "srun", "--mpi=pmix", "-n", "4", "true", "-r", "4/2"]
    made, starters = study(factors, "mpirun", "-np", "{ranks}", "true")
    assert words_of(made, starters) == [*shape, "mpirun", "-np", "4", "true"]


def test_a_mapping_stands_in_its_own_place_and_variables_before_the_command() -> None:
    made, starters = study(Factors(binding=("ppr:1:numa",), variables={"UCX_TLS": ["tcp"]}), "true")
    assert words_of(made, starters)[:7] == ["1", "1", "1", "ppr:1:numa", "", "/home/me", "UCX_TLS=tcp"]


def test_another_network_is_taken_by_the_variable_of_mpi_and_measured() -> None:
    taken = network_of("UCX_NET_DEVICES=mlx5_1:1")
    made, starters = study(Factors(ranks=("2",), network=(None, taken)), "true")
    made = dataclasses.replace(made, measured=measured_in(made.conditions))
    usual, other = (words_of(made, starters, place) for place in (0, 1))
    assert "UCX_NET_DEVICES=mlx5_1:1" in other and "UCX_NET_DEVICES=mlx5_1:1" not in usual
    assert other[5:].index("UCX_NET_DEVICES=mlx5_1:1") == 1, "before what measures it, and the program"
    assert f"{WORK}/bandwidth" in usual and f"{WORK}/bandwidth" in other
    assert "network" not in state_of(made, made.conditions[1]), "nothing of the node is shaped"
    assert params_of(made.conditions[1])["network"] == taken
    assert not made.conditions[1].usual and made.conditions[1].same_work(made.conditions[0])


def test_srun_sets_the_clock_itself() -> None:
    made, starters = study(Factors(frequency=(2.4e9,)), "true")
    assert "SLURM_CPU_FREQ_REQ=2400000" in words_of(made, starters)
    (asked,) = (json.loads(word) for word in words_of(made, starters) if word.startswith("{"))
    assert "frequency_hz" not in asked
    made, starters = study(Factors(frequency=(2.4e9,)), "mpirun", "true")
    (asked,) = (json.loads(word) for word in words_of(made, starters) if word.startswith("{"))
    assert asked["frequency_hz"] == 2.4e9


def test_all_conditions_of_a_placement_leave_the_same_cores_free() -> None:
    made, _ = study(Factors(memory=(None, 0.5, 2.0), ranks=("1", "2")), "true")
    asked = [state_of(made, each) for each in made.conditions]
    assert [(each.get("memory"), each["reserve"]) for each in asked] == 2 * [(None, 2), (0.5, 2), (2, 2)]
    assert state_of(*((plain := study(Factors(), "true")[0]), plain.conditions[0])) == {}


def made_launches(folder: Path, *launches: tuple[str, str, str, str]) -> None:
    """A log with these conditions, moments, statuses and outputs."""
    log = LaunchLog(folder / "runs/000000/000000_study/work/launches", "observed", len(launches))
    for place, (condition, started, status, printed) in enumerate(launches):
        (log.folder / f"raw/{place:04d}.out").write_text(printed)
        log.append(
            Launch(
                id=place, argv=("app",), started=started, seconds=3.5, exit=0, status=status,
                params={"condition": condition}, raw=f"raw/{place:04d}.out",
            )
        )  # fmt: skip
    log.close()


def test_what_was_stopped_is_made_again_and_what_failed_is_not(tmp_path: Path) -> None:
    made, _ = study(Factors(ranks=("1", "2")), "true")
    one, two = (each.name for each in made.conditions)
    made_launches(
        tmp_path, (two, "2026-01-02", "ok", ""), (one, "2026-01-01", "failed: exit code 1", ""),
        (one, "2026-01-03", "failed: stopped by SIGTERM", ""),
    )  # fmt: skip
    ran = runs_of(tmp_path)
    assert ran == [ProgramRun(one, 0, None, "failed: exit code 1"), ProgramRun(two, 0, 3.5, "ok")]
    assert missing_of(made, ran) == {one: 1, two: 1}
    disturbed = [*ran, ProgramRun(two, 1, None, "invalid: others used 2.0 of the 2 CPUs: xhpl 90%")]
    assert missing_of(made, disturbed) == {one: 1, two: 1}
    assert missing_of(dataclasses.replace(made, runs=1), ran) == {}


def test_what_is_not_known_after_six_runs_gets_those_that_make_it_narrower() -> None:
    made, _ = study(Factors(ranks=("1", "2")), "true")
    made = dataclasses.replace(made, runs=6, most=14)
    quiet, wide = (each.name for each in made.conditions)
    ran = [ProgramRun(quiet, n, 0.5, "ok") for n in range(6)] + [
        ProgramRun(wide, n, 0.2 + (n == 3) / 5, "ok") for n in range(6)
    ]
    assert unknown_of(made, ran) == {wide: 4}
    assert unknown_of(made, ran[:-1]) == {}, "that one is missing"
    ran += [ProgramRun(wide, n, 0.2 + (n == 8) / 5, "ok") for n in range(6, 10)]
    assert unknown_of(made, ran) == {wide: 4}
    assert unknown_of(dataclasses.replace(made, most=12), ran) == {}, "twelve are no better than ten"
    slow = [run._replace(seconds=20 * (run.seconds or 0)) for run in ran]
    assert unknown_of(made, slow) == {}, "two minutes are enough"
    assert unknown_of(dataclasses.replace(made, most=0), ran) == {}
    assert unknown_of(made, [ProgramRun(wide, n, None, "failed: exit code 1") for n in range(6)]) == {}


@pytest.mark.parametrize(
    ("printed", "seconds", "status"),
    [
        ("warm-up\n time: 0.25 s\n", 0.25, "ok"),
        ("crashed\n", None, r"failed: the output has no match of '^ time: (\\S+) s'"),
        (" time: much s\n", None, r"failed: the output has no match of '^ time: (\\S+) s'"),
    ],
)
def test_the_time_may_be_what_the_program_says(
    printed: str, seconds: float | None, status: str, tmp_path: Path
) -> None:
    made_launches(tmp_path, ("one", "2026-01-01", "ok", printed))
    assert runs_of(tmp_path, r"^ time: (\S+) s") == [ProgramRun("one", 0, seconds, status)]
