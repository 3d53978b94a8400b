"""``npc model fit`` and ``npc model predict`` as a user meets them, on captured outputs of real tools."""

from __future__ import annotations

import json
import math
import re
import subprocess
import sys
from pathlib import Path
from statistics import median
from typing import Any

import pytest

from npc.records.reading import Reading
from npc.records.record import Record, replace
from npc.roofline.fit_commands import fit, predict
from npc.roofline.sweeps import find_series, kind_of
from tests import captured
from tests.made.sweeps import fitted, of_output, run, saved, sweep
from tests.paths import ROOT

#: Ping-pongs of real tools, one launch each.
PINGPONGS = [("osu", "osu_latency.out"), ("osu-mpi4py", "osu_latency.py.txt"), ("imb", "PingPong.txt")]

DISTURBED = (
    "Disturbed: 1 of {} usable records were measured while others took 25 % of the CPUs "
    "(npc check says by whom)."
)


def parameters(entry: dict[str, Any]) -> dict[str, float]:
    return {parameter["name"]: parameter["value"] for parameter in entry["parameters"]}


# -- fit -----------------------------------------------------------------------------------------------


def test_a_latency_and_a_bandwidth_sweep_say_different_things(tmp_path: Path) -> None:
    """A windowed test has no α: what looks like one is the gap."""
    windowed = sweep(case="osu_bw", metric="bandwidth", alpha=0.3e-6, beta=0.5e-9)
    document = fitted(saved(tmp_path, [*sweep(), *windowed]))
    gap, hockney = sorted(document["fits"], key=lambda entry: str(entry["sweep"]["case"]))
    assert (hockney["model"], gap["model"]) == ("Hockney", "LogGP gap")
    assert parameters(hockney)["α"] == pytest.approx(2e-6, rel=0.02)
    assert parameters(hockney)["1/β"] == pytest.approx(1e9, rel=0.02)
    assert parameters(gap)["g"] == pytest.approx(0.3e-6, rel=0.02)
    assert parameters(gap)["1/G"] == pytest.approx(2e9, rel=0.02)


def test_the_table_names_parameters_intervals_range_and_errors(tmp_path: Path) -> None:
    result = run(fit, saved(tmp_path, sweep(nodes=2, hosts=("a", "b"))))
    assert result.exit_code == 0
    lines = [" ".join(line.split()) for line in result.stdout.splitlines()]
    assert "Hockney, one line: T(m) = α + β·m" in lines
    assert "osu_latency on fuchs (2 nodes: a, b)" in lines
    assert any(line.startswith("α 1.99") or line.startswith("α 2") for line in lines)
    assert any("1 B … 512 KiB latency: time before the first byte" in line for line in lines)
    assert any("20 points, 6 launches; residuals" in line and "held out" in line for line in lines)
    said = "Which model to believe where, by the median error on sizes it was not shown: half round trip"
    assert said in lines


def test_sweeps_of_different_places_are_not_mixed(tmp_path: Path) -> None:
    records = [
        *sweep(hosts=("a", "b"), nodes=2),
        *sweep(hosts=("a", "c"), nodes=2, alpha=9e-6),
        *sweep(params={"interface": "ib0"}),
    ]
    found = fitted(saved(tmp_path, records))["fits"]
    assert len(found) == 3
    assert {round(parameters(entry)["α"] * 1e6) for entry in found} == {2, 9}


def test_a_parameter_that_repeats_the_size_parts_nothing(tmp_path: Path) -> None:
    records = [
        Record.of(reading_of, time=record.time, platform="p", benchmark="qperf", sample=record.sample)
        for record in sweep("qperf", "tcp_lat")
        for reading_of in [
            Reading(record.case, "latency", record.value, record.size, params={"msg_size": str(record.size)})
        ]
    ]
    (entry,) = fitted(saved(tmp_path, records))["fits"]
    assert entry["launches"] == 6


@pytest.mark.parametrize(
    "changes",
    [
        {"status": "invalid: lost"},
        {"params": {"statistic": "p99"}},
        {"params": {"side": "send"}},
        {"case": "osu_multi_lat"},
        {"metric": "time"},
    ],
)
def test_what_is_no_half_round_trip_is_not_fitted(tmp_path: Path, changes: dict[str, Any]) -> None:
    records = sweep(**changes)
    assert {kind_of(record) for record in records} == {""}
    result = run(fit, saved(tmp_path, records))
    assert result.exit_code == 1
    assert "none of the 120 records is part of a sweep over the message size" in result.stderr
    assert "This measures one:\n  npc characterise --benchmark osu --platform fuchs --set" in result.stderr


def test_the_bandwidth_of_a_ping_pong_is_not_taken_for_a_stream(tmp_path: Path) -> None:
    records = of_output("imb", "PingPong.txt")
    assert {record.metric for record in records} == {"latency", "bandwidth"}
    assert [series.kind for series in find_series(records)] == ["half round trip"]


def test_too_few_sizes_are_said(tmp_path: Path) -> None:
    result = run(fit, saved(tmp_path, [*sweep(), *sweep("qperf", "tcp_lat", sizes=(1, 4096))]))
    assert result.exit_code == 0
    assert "Not fitted: qperf tcp_lat: a model needs 5 sizes, not 2." in result.stdout
    measures = "npc characterise --benchmark qperf --platform fuchs --set qperf_kinds=latency"
    assert f"This measures the rest:\n  {measures}" in result.stdout
    few = run(fit, saved(tmp_path, sweep("qperf", "tcp_lat", sizes=(1, 4096))), "--json")
    assert few.exit_code == 1 and "--set qperf_latency_sizes=16,64," in few.stderr


def test_all_models_come_from_the_models_benchmark(tmp_path: Path) -> None:
    outputs = [
        path.name for path in captured.outputs("models") if not path.name.startswith(("fail", "ring_3"))
    ]
    records = [record for name in outputs for record in of_output("models", name, run="000000")]
    document = fitted(saved(tmp_path, records))
    models = [entry["model"] for entry in document["fits"]]
    assert sorted(models) == sorted(["Hockney", "Hockney", "LogGP", "LogfP", "log_3P", "BSP", "τ-Lop"])
    assert not document["skipped"]
    assert {each["observable"]: tuple(each["errors"]) for each in document["comparisons"]} == {
        "half round trip": ("Hockney, one line", "Hockney, by pieces", "LogGP"),
        "burst of messages": ("Hockney", "LogGP", "LogfP"),
        "half round trip of strided data": ("Hockney", "log_3P"),
        "superstep": ("Hockney", "BSP"),
        "2 concurrent transfers": ("Hockney", "τ-Lop"),
    }
    for each in document["comparisons"]:
        assert min(each["errors"], key=each["errors"].get) in (each["best"], *each["tied"])


def test_a_pattern_that_lacks_its_others_is_said(tmp_path: Path) -> None:
    records = [record for record in of_output("models", "prtt.txt") if record.case == "prtt"]
    result = run(fit, saved(tmp_path, records))
    assert result.exit_code == 1
    assert "models prtt: not all patterns of its model were measured" in result.stderr


def test_held_out_sizes_of_real_captures_are_predicted_within_ten_per_cent_on_median(tmp_path: Path) -> None:
    errors: list[float] = []
    for folder, name in PINGPONGS:
        document = fitted(saved(tmp_path, of_output(folder, name)))
        for entry in document["fits"][-1:]:
            held_out = [abs(pow(2.718281828459045, point["held_out"]) - 1) for point in entry["points"]]
            assert median(held_out) == pytest.approx(entry["held_out_median"], rel=1e-6)
            errors += held_out
    assert len(errors) > 60
    assert median(errors) < 0.10


def believed_points(document: dict[str, Any], fit: dict[str, Any]) -> list[dict[str, Any]]:
    """The points of the sweep of `fit` as the model believed at each has them."""
    compared = [each for each in document["comparisons"] if each["sweep"] == fit["sweep"]]
    fits = {each["name"]: each for each in document["fits"] if each["sweep"] == fit["sweep"]}
    ranges = [(each["first"], each["last"], fits[each["best"]]) for each in compared]
    return [
        point
        for first, last, entry in ranges or [(fit["first"], fit["last"], fit)]
        for point in entry["points"]
        if first <= point["x"] <= last
    ]


def errors_and_scatter(folder: str, name: str, path: Path) -> dict[str, tuple[int, float, float]]:
    """sweep → (sizes, median error held out, median distance from the line between a size's neighbours)."""
    document = fitted(saved(path, of_output(folder, name)))
    found = {}
    for entry in document["fits"]:
        points = believed_points(document, entry)
        between = [
            (
                here["time"],
                low["time"] + (high["time"] - low["time"]) * (here["x"] - low["x"]) / (high["x"] - low["x"]),
            )
            for low, here, high in zip(points, points[1:], points[2:], strict=False)
        ]
        found[entry["sweep"]["name"]] = (
            len(points),
            median(abs(math.expm1(point["held_out"])) for point in points),
            median(abs(time / line - 1) for time, line in between),
        )
    return found


def test_the_errors_of_every_capture_are_those_of_the_page_and_of_its_noise(tmp_path: Path) -> None:
    """The table of docs/models.md. What is above ten per cent is in the data: neighbours differ as much."""
    page = (ROOT / "docs" / "models.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\S+)/(\S+)` \| (.*?) \| (\d+) \| (\S+) % \| (\S+) % \|", page, re.MULTILINE)
    assert len(rows) > 20
    for folder, name, case, sizes, error, scatter in rows:
        found = errors_and_scatter(folder, name, tmp_path)[case]
        assert (str(found[0]), f"{100 * found[1]:.2g}", f"{100 * found[2]:.2g}") == (sizes, error, scatter), (
            name
        )
        assert found[1] < max(0.10, 2.5 * found[2]), name


@pytest.mark.slow
def test_files_are_written_and_pictures_drawn(tmp_path: Path) -> None:
    path = saved(tmp_path, sweep())
    result = run(fit, path, "--output", tmp_path / "fit.json", "--plot", tmp_path / "fit.png")
    assert result.exit_code == 0, result.output
    assert json.loads((tmp_path / "fit.json").read_text())["schema"] == 1
    assert (tmp_path / "fit.png").read_bytes().startswith(b"\x89PNG")
    assert sorted(each.name for each in tmp_path.iterdir()) == ["fit.json", "fit.png", "records.csv"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nowhere.csv"], "nowhere.csv does not exist"),
        (["{records}", "--output", "/sys/nothing/fit.json"], "cannot write /sys/nothing/fit.json"),
        (
            ["{records}", "--plot", "/sys/nothing/fit.png"],
            "cannot write /sys/nothing/fit.png",
        ),
        (["{records}", "--plot", "fit.unknown"], "cannot draw fit.unknown: a picture is .png, .svg or .pdf"),
        (["{folder}"], "is no run: name its folder"),
    ],
)
def test_what_cannot_be_read_or_written_is_one_line(
    tmp_path: Path, arguments: list[str], message: str
) -> None:
    (tmp_path / "empty").mkdir()
    places = {"records": str(saved(tmp_path, sweep())), "folder": str(tmp_path / "empty")}
    result = run(fit, *(word.format(**places) for word in arguments))
    assert result.exit_code == 2
    assert message in result.stderr
    assert "Traceback" not in result.output


def test_every_key_of_the_document_is_described(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "models.md").read_text(encoding="utf-8")

    def keys(value: object) -> set[str]:
        if isinstance(value, dict):
            return set(value) | {name for child in value.values() for name in keys(child)}
        return {name for child in value for name in keys(child)} if isinstance(value, list) else set()

    document = fitted(saved(tmp_path, [*sweep(), *sweep(case="osu_bcast", params={"ranks": "4"})]))
    document["comparisons"][0]["errors"] = {}
    assert document["collectives"]
    assert not sorted(name for name in keys(document) if f"`{name}`" not in page)


# -- predict -------------------------------------------------------------------------------------------


@pytest.fixture
def fits(tmp_path: Path) -> Path:
    records = [
        *sweep(),
        *sweep("qperf", "tcp_lat", alpha=30e-6),
        *sweep("stream", "add", metric="bandwidth", sizes=(9,)),
    ]
    records[0] = replace(records[0], params={**records[0].params, "disturbed": "0.25"})
    result = run(fit, saved(tmp_path, records), "--output", tmp_path / "fit.json")
    assert result.exit_code == 0, result.output
    assert result.stdout.splitlines()[-1] == DISTURBED.format(len(records))
    return tmp_path / "fit.json"


def predictions(*arguments: str | Path) -> dict[str, Any]:
    result = run(predict, *arguments, "--json")
    assert result.exit_code == 0, result.output
    document = json.loads(result.stdout)
    assert isinstance(document, dict)
    return document


def test_a_message_s_time_is_the_fitted_line_s(fits: Path) -> None:
    document = predictions(fits, "--operation", "send", "--size", "3000,100000")
    assert document["sweep"]["name"] == "osu_latency", "MPI's own before a transport's"
    for made in document["predictions"]:
        assert made["time"] == pytest.approx(2e-6 + 1e-9 * made["size"], rel=0.01)
        assert made["low"] < 2e-6 + 1e-9 * made["size"] < made["high"]
        assert made["coverage"] > 0.9


def test_another_sweep_can_be_named(fits: Path) -> None:
    document = predictions(fits, "--sweep", "tcp_lat", "--operation", "send", "--size", "8")
    assert document["predictions"][0]["time"] == pytest.approx(30e-6, rel=0.02)


def test_the_table_marks_extrapolation_and_the_fastest(fits: Path) -> None:
    words = ("--operation", "allreduce", "--processes", "16", "--size", "1K,16M", "--reduction", "0")
    shown = {
        flags: [" ".join(line.split()) for line in run(predict, fits, *words, *flags).stdout.splitlines()]
        for flags in ((), ("--extrapolate",))
    }
    for lines in shown.values():
        assert any(
            line.startswith("allreduce recursive doubling 16 1 KiB 12.") and "fastest" in line
            for line in lines
        )
        assert any(
            line.startswith("allreduce ring 16 16 MiB") and "extrapolated to 1 MiB" in line for line in lines
        )
        assert any("No link is shared" in line for line in lines)
        assert any(line.startswith("Disturbed: 1 of ") for line in lines)
    # 16M in one message is 32 times what was fitted; of 16M no algorithm is the fastest of all.
    doubling = "allreduce recursive doubling 16 16 MiB"
    assert not any(line.startswith(doubling) for line in shown[()])
    assert any(line.startswith("Left out: 2 with messages of more than 4 times") for line in shown[()])
    assert any(line.startswith(doubling) for line in shown["--extrapolate",])
    assert not any("16 MiB" in line and "fastest" in line for lines in shown.values() for line in lines)


def test_each_message_is_predicted_by_the_model_believed_at_its_size(tmp_path: Path) -> None:
    """Of a ping-pong with two protocols."""
    small = [2**power for power in range(11)]
    large = [2**power for power in range(11, 22)]
    records = [*sweep(sizes=small), *sweep(sizes=large, alpha=20e-6, beta=0.5e-9)]
    path = saved(tmp_path, records)
    result = run(fit, path, "--output", tmp_path / "fit.json")
    assert "Hockney, one line: T(m) = α + β·m" in result.stdout
    assert "Hockney, by pieces: T(m) = α + β·m" in result.stdout
    document = json.loads((tmp_path / "fit.json").read_text())
    assert [each["best"] for each in document["comparisons"]] == ["Hockney, by pieces"] * 2
    asked = (tmp_path / "fit.json", "--operation", "send", "--size", "8,1M")
    (few, many) = predictions(*asked)["predictions"]
    assert few["time"] == pytest.approx(2e-6, rel=0.02)
    assert many["time"] == pytest.approx(20e-6 + 0.5e-9 * 2**20, rel=0.02)
    # what is believed decides, not what happens to be stored
    document["comparisons"][0]["best"] = "Hockney, one line"
    (tmp_path / "fit.json").write_text(json.dumps(document))
    (one, same) = predictions(*asked)["predictions"]
    values = next(each for each in document["fits"] if each["name"] == "Hockney, one line")["lines"]["values"]
    assert one["time"] == pytest.approx(values[0] + 8 * values[1])
    assert abs(one["time"] / few["time"] - 1) > 0.1
    assert same["time"] == many["time"]
    said = run(predict, *asked).stdout
    assert "1 B … 1 KiB Hockney, one line; 2 KiB … 2 MiB Hockney, by pieces" in said
    # messages of both models in one prediction
    both = (tmp_path / "fit.json", "--operation", "bcast", "--processes", "256", "--size", "64K")
    geijn = predictions(*both)["predictions"][1]
    assert geijn["low"] < geijn["time"] < geijn["high"]


def test_a_model_that_cannot_be_told_from_a_simpler_one_is_not_believed(tmp_path: Path) -> None:
    from npc.roofline.cross_validation import ModelComparison

    source = find_series(sweep())[0].source
    line = [0.02, 0.03, 0.01, 0.025, 0.015]
    better = [0.015, 0.035, 0.012, 0.021, 0.015]
    tie = ModelComparison.of(source, "time", 1, 16, {"line": line, "pieces": better})
    assert (tie.best, tie.tied) == ("line", ("pieces",))
    assert tie.errors["pieces"] < tie.errors["line"]
    clear = ModelComparison.of(source, "time", 1, 16, {"line": [5 * each for each in line], "pieces": better})
    assert (clear.best, clear.tied) == ("pieces", ())
    # errors of a line that bends away differ much from size to size, and are all far larger
    bent = fitted(saved(tmp_path, of_output("osu-mpi4py", "osu_latency.py.txt")))["comparisons"][2]
    assert bent["errors"]["Hockney, one line"] > 10 * bent["errors"]["Hockney, by pieces"]
    assert (bent["best"], bent["tied"]) == ("Hockney, by pieces", [])
    endless = ModelComparison.of(source, "time", 1, 16, {"line": [float("inf")] * 5, "pieces": better})
    assert endless.best == "pieces"


def test_reduction_is_measured_given_or_said_to_be_left_out(fits: Path, tmp_path: Path) -> None:
    add = json.loads(fits.read_text())
    asked = ("--operation", "allreduce", "--processes", "2", "--size", "1024")
    assert predictions(fits, *asked)["reduction"] == pytest.approx(add["reduction"])
    assert predictions(fits, *asked, "--reduction", "2e-9")["reduction"] == 2e-9
    add["reduction"] = None
    (tmp_path / "without.json").write_text(json.dumps(add))
    assert "arithmetic of all-reduce is not in it" in run(predict, tmp_path / "without.json", *asked).stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--processes", "1"], "numbers from 2 on"),
        (["--processes", "many"], "numbers from 2 on"),
        (["--reduction", "inf"], "inf is no time"),
        (["--reduction", "nan"], "nan"),
        (["--size", "huge"], "not a size in bytes"),
        (["--sweep", "imb"], "--sweep imb: there are osu_latency, qperf tcp_lat"),
        (["--operation", "gather"], "gather"),
        (["--reduction", "-1"], "-1"),
    ],
)
def test_bad_arguments_are_refused(fits: Path, arguments: list[str], message: str) -> None:
    result = run(predict, fits, *arguments)
    assert result.exit_code == 2
    assert message in result.stderr


DAMAGED = {
    "model": "Hockney",
    "sweep": {"name": "osu_latency", "case": "osu_latency", "nodes": 1, "benchmark": "osu"},
}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "npc model fit RECORDS"),
        ("{", "no JSON"),
        ("[]", "no fit.json"),
        ('{"schema": 2, "fits": []}', "schema 2"),
        (json.dumps({"schema": 1, "fits": [DAMAGED]}), "damaged"),
    ],
)
def test_what_is_no_document_is_refused(tmp_path: Path, content: str | None, message: str) -> None:
    path = tmp_path / "fit.json"
    if content is not None:
        path.write_text(content)
    result = run(predict, path)
    assert result.exit_code == 2
    assert message in result.stderr and "Traceback" not in result.output


def test_a_document_without_a_latency_sweep_says_so(tmp_path: Path) -> None:
    path = saved(tmp_path, sweep(case="osu_bw", metric="bandwidth"))
    run(fit, path, "--output", tmp_path / "fit.json")
    result = run(predict, tmp_path / "fit.json")
    assert result.exit_code == 1
    assert "a latency sweep gives one" in result.stderr


def test_importing_loads_nothing_heavy() -> None:
    code = (
        "import sys, npc.roofline.fit_commands\n"
        "print([n for n in ('numpy', 'matplotlib', 'scipy', 'rich') if n in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.strip() == "[]"
