"""The two readings of one text: JUBE's patterns in the specs against the parsers, on every captured output.

JUBE itself runs: a small benchmark copies one captured output a workpackage, its analyser uses the
patternset of the tool's own ``benchmark_spec.xml``. Every number that JUBE finds must be one of the
parser's, in the unit that the pattern names, and usable.
"""

from __future__ import annotations

import csv
import os
import re
import shutil
import subprocess
import xml.etree.ElementTree as ET
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from npc import parsers
from npc.records.reading import Reading
from npc.records.record import OK
from tests import captured
from tests.lab.jube_patterns import MEANINGS, METRICS_OF_UNITS, UNITS, meaning_of
from tests.paths import ROOT

pytestmark = pytest.mark.slow

BENCHMARKS: Final = ROOT / "benchmarks"
#: Some parsers read what is nobody's benchmark here: HPL, tests of GPUs.
TOOLS: Final = sorted(tool for tool in set(captured.FOLDERS.values()) if (BENCHMARKS / tool).is_dir())


#: Outputs in which JUBE finds a number that the parser does not accept, because no pattern can know.
NOT_FOR_A_PATTERN: Final = {
    ("netpipe", "stream.txt"): "streaming is no ping-pong: told above the rows, or by the command line",
    ("imb", "v2.2_pallas.txt"): "a MB of 2^20 bytes: a comparison of numbers",
    ("imb", "v3.2.txt"): "a MB of 2^20 bytes: a comparison of numbers",
    ("imb", "v4.1_update1.txt"): "a MB of 2^20 bytes: a comparison of numbers",
    ("osu", "fail_varied_window.txt"): "bandwidths of several window sizes, told above the rows",
    ("nuttcp", "sigint.txt"): "a transfer that was interrupted, told above the row",
    ("stream", "stream_cache_sized.txt"): "the printed clock ticks are too few: a comparison of numbers",
    ("hpcc", "two_processes.txt"): "STREAM's clock ticks are too few: a comparison of numbers",
    ("hpcc", "appended_twice.txt"): "STREAM's clock ticks are too few: a comparison of numbers",
    ("hpcc", "fail_threshold.txt"): "the residual failed, told above the summary",
    ("hpcc", "fail_singletons.txt"): "fewer processes than the command line asked for",
    ("likwid", "bench_two_groups.txt"): "two threads on one hardware thread: a comparison of lines",
    ("perftest", "ib_send_bw_a.server.txt"): "the server's table, which no job keeps as the client's output",
    ("perftest", "mixed_units_client_gbits.server.txt"): "the server's table, likewise",
    ("iperf3", "client_sigint_json.txt"): "retransmits of a run that ended in an error, told below them",
    ("iperf3", "client_sigterm_json.txt"): "retransmits of a run that ended in an error, told below them",
    ("iperf3", "fail_serverint_json.txt"): "retransmits of a run that ended in an error, told below them",
    ("iperf3", "v3.18_rate_json.txt"): "a rate that is not its bytes: a comparison of numbers",
    ("iperf3", "v3.18_udp_negative_loss_json.txt"): "a negative loss",
    (
        "noise",
        "fail_cut.txt",
    ): "npc records sample requires the last line, without which the launch has failed",
    ("fio", "two_nodes.txt"): "each node's own figure, of a result that is of both",
    ("blas", "openblas_t3_on_2_cpus.txt"): "more threads than CPUs: a comparison of lines",
    ("babelstream", "cuda_5.0_float_mebi.txt"): "a MB of 2^20 bytes, told in the heading",
    ("babelstream", "omp_5.0_mebi_float.txt"): "a MB of 2^20 bytes, told in the heading",
    **{
        ("sockperf", f"{name}.txt"): "fewer than a hundred observations: a comparison of numbers"
        for name in [
            "tcp_pp_debug",
            "tcp_pp_fulllog",
            "tcp_ul_m1024",
            "tcp_ul_m14",
            "tcp_ul_m256",
            "tcp_ul_m65507",
            "udp_pp_fulllog",
            "udp_ul_fulllog",
            "udp_ul_m1024",
            "udp_ul_m4096",
        ]
    },
    ("ior", "v4.1.0_collective_v.txt"): "the best of several repetitions: NPC's step makes one",
    ("blas", "openblas_tiny.txt"): "calls too short for the clock: a comparison of numbers",
}


def spec(tool: str) -> Path:
    return BENCHMARKS / tool / "benchmark_spec.xml"


def patterns(tool: str) -> dict[str, tuple[str, str]]:
    """name → (regular expression with JUBE's own patterns put in, unit)."""
    own = {"$jube_pat_fp": r"([+-]?(?:\d*\.?\d+(?:[eE][-+]?\d+)?|\d+\.))", "$jube_pat_int": r"([+-]?\d+)"}
    found = {}
    for element in ET.parse(spec(tool)).iter("pattern"):
        if element.get("mode"):  # made of another one, for a table
            continue
        text = (element.text or "").strip()
        for name, pattern in own.items():
            text = text.replace(name, pattern)
        assert "$" not in text, "a parameter of JUBE's that this test does not know"
        found[element.attrib["name"]] = (text, element.attrib["unit"])
    return found


def outputs(tool: str) -> list[Path]:
    """The captured outputs of a tool; not its stderr, which no analyser of ours reads."""
    return [path for name, path in captured.all_outputs() if name == tool and ".err" not in path.suffixes]


def stands_for(readings: list[Reading], name: str, value: float, unit: str) -> list[Reading]:
    """The readings that say the same as JUBE's `value`."""
    meaning = meaning_of(name, unit)
    return [
        reading
        for reading in readings
        if meaning.of(reading)
        and reading.value == pytest.approx(value * UNITS[unit], rel=meaning.rel, abs=0.0)
    ]


def run_jube(tool: str, folder: Path) -> dict[str, dict[str, str]]:
    """What ``jube result`` prints for each captured output: output's name → column → cell."""
    jube = shutil.which("jube")
    if jube is None:
        pytest.skip("jube is not installed: apt-get install jube, or see http://www.fz-juelich.de/jsc/jube")
    (folder / "captured").mkdir()
    for path in outputs(tool):
        text = captured.text_of(path.parent.name, path.name)
        (folder / "captured" / f"{path.parent.name}@{path.name}").write_text(text, encoding="utf-8")
    columns = "".join(
        f'<column title="{name}{part}">{name}{part}</column>'
        for name in patterns(tool)
        for part in ("_cnt", "_first", "_last", "_min", "_max")
    )
    names = ",".join(path.name for path in (folder / "captured").iterdir())
    (folder / "two_readings.xml").write_text(
        f"""<?xml version="1.0" encoding="UTF-8"?>
<jube><benchmark name="two_readings" outpath="run">
  <parameterset name="outputs"><parameter name="output">{names}</parameter></parameterset>
  <step name="read"><use>outputs</use></step>
  <analyser name="two_readings">
    <use from="{spec(tool)}">{tool}_pattern</use>
    <analyse step="read"><file>{folder}/captured/$output</file></analyse>
  </analyser>
  <result><use>two_readings</use>
    <table name="two_readings" style="csv"><column title="output">output</column>{columns}</table>
  </result>
</benchmark></jube>
""",
        encoding="utf-8",
    )
    environment = {**os.environ, "LC_ALL": "C.UTF-8"}
    for command in (["run", "--hide-animation", "two_readings.xml"], ["result", "--analyse", "run"]):
        done = subprocess.run(
            [jube, *command],
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
            timeout=200,
            check=True,
        )
    lines = done.stdout[done.stdout.index("output,") :].splitlines()
    return {row["output"]: row for row in csv.DictReader(lines)}


@pytest.mark.parametrize("tool", TOOLS)
def test_every_pattern_has_a_meaning_and_a_unit(tool: str) -> None:
    for name, (expression, unit) in patterns(tool).items():
        assert name in MEANINGS or unit in METRICS_OF_UNITS
        assert name.startswith(f"{tool}_"), "JUBE's parameters and patterns share one name space"
        assert unit in UNITS
        assert re.compile(expression, re.MULTILINE).groups == 1


@pytest.mark.parametrize("tool", TOOLS)
def test_every_pattern_finds_its_number_in_some_output(tool: str) -> None:
    texts = [path.read_text(encoding="utf-8") for path in outputs(tool)]
    for name, (expression, _) in patterns(tool).items():
        assert any(re.search(expression, text, re.MULTILINE) for text in texts), name


@pytest.mark.parametrize("tool", TOOLS)
def test_a_number_of_jube_is_a_usable_reading_of_the_parser(tool: str) -> None:
    not_usable = set()
    for path in outputs(tool):
        readings, text = captured.read(tool, path), path.read_text(encoding="utf-8")
        of_text = parsers.parse(tool, captured.text_of(path.parent.name, path.name))
        for name, (expression, unit) in patterns(tool).items():
            for match in re.findall(expression, text, re.MULTILINE):
                same = stands_for(readings, name, float(match), unit)
                # What only the command line proves wrong, no pattern can know.
                without = stands_for(of_text, name, float(match), unit)
                if not any(reading.status == OK for reading in [*same, *without]):
                    not_usable.add((tool, path.name))
                assert same or (tool, path.name) in NOT_FOR_A_PATTERN, f"{path.name}: {name} {match} {unit}"
    assert not_usable == {key for key in NOT_FOR_A_PATTERN if key[0] == tool}


@pytest.mark.parametrize("tool", TOOLS)
def test_jube_itself_finds_those_numbers(tool: str, tmp_path: Path) -> None:
    table = run_jube(tool, tmp_path)
    assert set(table) == {f"{path.parent.name}@{path.name}" for path in outputs(tool)}
    for path in outputs(tool):
        row = table[f"{path.parent.name}@{path.name}"]
        text = captured.text_of(path.parent.name, path.name)
        for name, (expression, _) in patterns(tool).items():
            matches = [float(match) for match in re.findall(expression, text, re.MULTILINE)]
            statistics: dict[str, Callable[[list[float]], float]] = {
                "_cnt": len, "_first": lambda v: v[0], "_last": lambda v: v[-1], "_min": min, "_max": max,
            }  # fmt: skip
            for part, statistic in statistics.items():
                expected = statistic(matches) if matches else None
                cell = row[name + part]
                assert (float(cell) if cell else None) == pytest.approx(expected, rel=1e-5), (
                    f"{path.name}: {name}{part}"
                )


@pytest.mark.parametrize("tool", TOOLS)
def test_a_truncated_output_gives_jube_no_other_number(tool: str) -> None:
    for path in outputs(tool):
        text = path.read_text(encoding="utf-8")
        for name, (expression, _) in patterns(tool).items():
            whole = set(re.findall(expression, text, re.MULTILINE))
            if not whole or name in LAST_ROW:
                continue
            for end in cuts(expression, text):
                found = re.compile(expression, re.MULTILINE).findall(text, 0, end)
                assert set(found) <= whole, f"{path.name}: {name} cut at {end}"


def cuts(expression: str, text: str) -> set[int]:
    """Where to cut a text: everywhere from a number to the end of its line, and at some other places."""
    places = set(range(len(text) % 97, len(text), 97))
    for match in re.finditer(expression, text, re.MULTILINE):
        places.update(range(match.start(1), (text + "\n").index("\n", match.end(1)) + 1))
    return places


#: Patterns for the largest size: of a table that was cut it is the largest that was printed.
LAST_ROW: Final = {
    *("osu_bw", "osu_bibw", "osu_get_bw", "imb_uniband_bandwidth"),
    *("imb_pingpong_bandwidth", "imb_sendrecv_bandwidth"),
    *("perftest_write_bw", "perftest_read_bw", "perftest_send_bw"),
}


def test_the_patterns_of_different_tools_share_no_name() -> None:
    names = [name for tool in TOOLS for name in patterns(tool)]
    assert len(names) == len(set(names)) and set(MEANINGS) <= set(names)
    assert set(TOOLS) <= set(parsers.names())
