"""OS noise: planted noise is found and named by its core; what the parser makes of the text."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from npc.parsers.noise import expected_largest, parse
from npc.records.reading import OK, Reading
from npc.records.record import Record
from npc.records.units import METRICS
from npc.validity import find_lies
from npc.validity.rule import Circumstances
from tests.paths import ROOT

SOURCE = ROOT / "benchmarks/noise/noise.c"


@pytest.fixture(scope="module")
def noise(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("noise")
    words = ["bash", ROOT / "benchmarks/noise/build.sh", SOURCE.parent, "cc", "-O2 -Wall -Wextra -Werror"]
    subprocess.run(words, cwd=folder, check=True)
    return folder / "noise"


def real_time(priority: int) -> list[str]:
    """Before others' work on a full machine, where this machine lets us (sched(7))."""
    words = ["chrt", "-f", str(priority)]
    allowed = shutil.which("chrt") and not subprocess.run([*words, "true"], capture_output=True).returncode
    return words if allowed else []


def readings(noise: Path, *words: str, before: Sequence[str] = ()) -> list[Reading]:
    text = subprocess.run(
        [*before, noise, *words], capture_output=True, text=True, check=True, timeout=60
    ).stdout
    return list(parse(text, ["noise"]))


def records(found: list[Reading]) -> list[Record]:
    return [
        Record.of(
            each, time="2026-11-24T12:00:00Z", platform="here", benchmark="noise", hosts=("n7",), raw="0.out"
        )
        for each in found
    ]


def of_core(found: list[Reading], core: int) -> Reading:
    """The share of its detours, and what is known of them."""
    (one,) = [
        each for each in found
        if (each.case, each.metric, each.params.get("core")) == ("detour", "noise", str(core))
    ]  # fmt: skip
    return one


def lost(found: list[Reading], core: int) -> float:
    return of_core(found, core).value or 0.0


@pytest.mark.slow
@pytest.mark.measures
def test_planted_noise_is_found_and_named_by_its_core(noise: Path, tmp_path: Path) -> None:
    """A loop of 1 ms every 10 ms on one core; how much it took it measures itself, by its own CPU time."""
    planted = tmp_path / "planted"
    subprocess.run(["cc", "-O2", ROOT / "tests/benchmarks/planted.c", "-o", planted], check=True)
    cores = sorted(os.sched_getaffinity(0))
    core, tried = cores[-1], []
    first, second = real_time(20), real_time(10)
    for _ in range(10):  # others' work is noise as well
        usual = lost(readings(noise, before=second), core)
        with subprocess.Popen([*first, planted, str(core)], stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == "there\n"
            found = readings(noise, before=second)
            process.terminate()
            truth = float(process.stdout.readline())
        params = of_core(found, core).params
        tried.append((lost(found, core) - usual, truth, params.get("period", "")))
        regular = "period" in params and abs(float(params["period"]) - 0.010) < 0.0002
        if abs(tried[-1][0] - truth) < 0.1 * truth and regular:
            break
    else:
        pytest.fail(f"(found, planted, period): {tried}")
    assert truth > 0.05
    assert "planted" in params["ran"]
    if len(cores) > 1 and lost(found, core) > 4 * max(lost(found, each) for each in cores[:-1]):
        (said,) = {finding.reason for finding in find_lies(records(found), Circumstances())}
        assert said.startswith(f"core {core} of n7 lost ") and "every 10 ms" in said and "planted" in said


@pytest.mark.slow
def test_every_core_has_its_rows(noise: Path) -> None:
    found = readings(noise, "-s", "0.1", "-q", "200", "-t", "2")
    assert {each.status for each in found} == {OK}
    cores = {str(core) for core in os.sched_getaffinity(0)}
    for case, metrics in (("detour", ("noise", "detour", "detour_rate")), ("fwq", ("noise", "detour"))):
        for metric in metrics:
            rows = [each for each in found if (each.case, each.metric) == (case, metric)]
            assert {each.params.get("core", "") for each in rows} == cores | {""}
            by_core = [each.value or 0.0 for each in rows if "core" in each.params]
            (node,) = [each.value for each in rows if "core" not in each.params]
            expected = max(by_core) if metric == "detour" else sum(by_core) / len(by_core)
            assert node == pytest.approx(expected)
            assert metric != "noise" or all(0 <= each < 1 for each in by_core)
    overhead = [each.value or 0.0 for each in found if each.case == "collective"]
    assert len(overhead) > 3 and overhead == sorted(overhead)


def test_what_cannot_be_is_said(noise: Path) -> None:
    for words in (["-s", "0"], ["-q", "nothing"], ["-x"]):
        ended = subprocess.run([noise, *words], capture_output=True, text=True, check=False)
        assert ended.returncode == 2 and len(ended.stderr.splitlines()) == 1


def test_the_largest_of_n_is_that_of_real_draws() -> None:
    """Of a skewed distribution, drawn and not computed."""
    rng = random.Random(1)
    sample = [round(rng.paretovariate(2.5) * 1e-6, 9) for _ in range(3000)]
    delays = {delay: sample.count(delay) for delay in set(sample)}
    assert expected_largest(delays, 1) == pytest.approx(sum(sample) / len(sample))
    drawn = [max(rng.choice(sample) for _ in range(64)) for _ in range(4000)]
    assert expected_largest(delays, 64) == pytest.approx(sum(drawn) / len(drawn), rel=0.05)


def test_a_core_is_named_only_beside_quieter_ones() -> None:
    def of(*shares: float) -> list[str]:
        found = [
            Record(
                time="2026-11-24T12:00:00Z", platform="here", benchmark="noise", case="detour",
                metric="noise", value=share * factor, unit=METRICS["noise"].unit, hosts=("n7",),
                sample=sample, raw=f"{sample}", params={"core": str(core), "steal": "0"},
            )
            for core, share in enumerate(shares)
            for sample, factor in enumerate((0.9, 1.0, 1.2))
        ]  # fmt: skip
        return sorted(
            {finding.reason.partition(" lost ")[0] for finding in find_lies(found, Circumstances())}
        )

    assert of(0.002, 0.1, 0.003, 0.002) == ["core 1 of n7"]
    assert of(0.1, 0.1, 0.12, 0.09) == []  # all of them: a node's matter, which its history knows
    assert of(0.0001, 0.004, 0.0001) == []  # less than anybody would see
