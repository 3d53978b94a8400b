"""docs/add-a-benchmark.md, carried out word for word in a copy of the checkout: nothing else is needed."""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path
from statistics import mean
from typing import NamedTuple

import pytest

from npc.records.launch import read_launches
from npc.records.record import Record, read_csv
from npc.statistics.precision import STEPS, USUAL, half_width
from tests.lab.jube_job import SMALL, command
from tests.paths import ROOT

PAGE = ROOT / "docs/add-a-benchmark.md"
COPIED = (
    "benchmarks",
    "docs",
    "npb",
    "npc",
    "observe",
    "packaging",
    "parsers",
    "platforms",
    "report",
    "roofline",
    "tests",
)
#: What the tests of the page must be: of `dd` where a test has the benchmark in its name.
TAKEN_UP = (
    "parsers/.*dd",
    "benchmarks/test_benchmark_pages.py::.*dd",
    "benchmarks/test_jube.py::.*dd",
    "npc/catalogue/test_jube_yml.py::test_jube_yml_is_current",
    "npc/catalogue/.*row",
    "report/test_plan.py::",
)


class Block(NamedTuple):
    """A fenced block: its language, its text, and the file that the line above it names."""

    language: str
    text: str
    file: str


def blocks() -> list[Block]:
    found = re.findall(
        r"(?:^`([^`\n]+)`(?:, `(\w+)`)?\n\n)?^```(\w+)\n(.*?)^```$", PAGE.read_text(), re.M | re.S
    )
    return [
        Block(language, text, " ".join(filter(None, (file, part)))) for file, part, language, text in found
    ]


def insert_row(path: Path, row: str) -> None:
    """Put a row at the end of the catalogue's table."""
    text = path.read_text()
    assert text.endswith("\n)  # fmt: skip\n")
    path.write_text(text.removesuffix(")  # fmt: skip\n") + row + ")  # fmt: skip\n")


def make_environment(checkout: Path) -> None:
    """An environment in which this checkout is installed, with all else that the tests' own has."""
    environment, own = checkout / ".venv", Path(sys.prefix)
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", environment], check=True)
    (packages,) = environment.glob("lib/python3*/site-packages")
    found = (checkout, sysconfig.get_path("purelib"))
    (packages / "checkout.pth").write_text("".join(f"{folder}\n" for folder in found))
    for program in (own / "bin").iterdir():
        ours = environment / "bin" / program.name
        if program.name in ("npc", "npb", "npc-python"):
            ours.write_text(program.read_text().replace(str(own), str(environment)))
            ours.chmod(0o755)
        elif not ours.exists():
            ours.symlink_to(program)
    (environment / "share").symlink_to(own / "share")


def run(script: str, checkout: Path) -> str:
    """What a block of shell commands prints; it ends at the first command that fails."""
    environment = {
        **os.environ, **SMALL, "NPC_DD_SIZE": "1M", "NPC_SAMPLES": "auto", "NPC_SAMPLES_MAX": "10",
        "LC_ALL": "C.UTF-8",
    }  # fmt: skip
    ended = subprocess.run(
        command("bash", "-euo", "pipefail", "-c", script), cwd=checkout, env=environment,
        capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert ended.returncode == 0, f"{script}\n{ended.stdout}{ended.stderr}"
    return ended.stdout


@pytest.mark.slow
def test_the_page_adds_a_benchmark(tmp_path: Path) -> None:
    checkout = tmp_path / "npc"
    checkout.mkdir()
    for name in COPIED:
        shutil.copytree(ROOT / name, checkout / name, symlinks=True)  # with what is compiled
    for path in (*ROOT.glob("*.toml"), *ROOT.glob("*.yml"), *ROOT.glob("*.md"), ROOT / "Makefile"):
        shutil.copy(path, checkout)
    for name in ("platform.xml", "submit.job.in"):  # links to the platform that is the default
        shutil.copy(ROOT / name, checkout, follow_symlinks=False)
    make_environment(checkout)

    printed = []
    for block in blocks():
        file, _, part = block.file.partition(" ")
        if part:
            assert part == "row"
            insert_row(checkout / file, block.text)
        elif file:
            (checkout / file).parent.mkdir(parents=True, exist_ok=True)
            (checkout / file).write_text(block.text)
        else:
            assert block.language == "bash", "a block of anything else names its file"
            printed.append(run(block.text, checkout))

    captured, expected, _, alone, *_, tests = printed
    assert re.search(r"^16777216 bytes .* copied, ", captured, re.M)
    assert "No such file or directory" in expected and "the page cache was measured" in expected
    assert re.search(r"^\| +auto \| +1M \| +[0-9.e-]+ \|$", alone, re.M), alone
    assert "0 invalid\n" in alone
    folder = checkout / "runs/dd/000000"
    check_records(folder, list(read_csv(folder / "records.csv")))
    for taken_up in TAKEN_UP:
        assert re.search(rf"^tests/{taken_up}.* PASSED ", tests, re.M), f"{taken_up}:\n{tests}"


def check_records(run_folder: Path, records: list[Record]) -> None:
    """As many launches of each block size as it takes to know it, every number as the raw output has it."""
    assert all(record.ok for record in records)
    assert {record.size for record in records} == {64 * 1024, 1024 * 1024}
    for size in (64 * 1024, 1024 * 1024):
        of_size = [record for record in records if record.size == size and record.metric == "bandwidth"]
        rates = [record.value or 0.0 for record in of_size]
        launches = read_launches((run_folder / of_size[0].raw).parents[1]).launches
        seconds = mean(launch.seconds for launch in launches)
        assert len(rates) in STEPS
        known, one_outlier = half_width(rates) <= 0.031, half_width(rates, without=1) <= 0.029
        assert known or not one_outlier or len(rates) >= USUAL.at_most(1.5 * seconds)
        assert len(rates) == 6 or half_width(rates[:6]) > 0.029, "in the order of the launches"
    assert {(record.benchmark, record.case, record.metric) for record in records} == {
        ("dd", "write", "bandwidth"),
        ("dd", "write", "time"),
    }
    for record in records:
        text = (run_folder / record.raw).with_suffix(".err").read_text()
        summary = re.search(r"^(\d+) bytes .*copied, ([0-9.]+) s, ", text, re.M)
        assert summary
        seconds = float(summary[2])
        assert record.value == (seconds if record.metric == "time" else int(summary[1]) / seconds)
        assert int(summary[1]) == 1024 * 1024


def test_the_parser_of_the_page_has_about_40_lines() -> None:
    (parser,) = (block.text for block in blocks() if block.file.startswith("parsers/"))
    tree = ast.parse(parser)
    documentation = sum(
        len(node.value.value.splitlines())
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    )
    lines = sum(1 for line in parser.splitlines() if line.strip()) - documentation
    assert lines <= 40


def test_every_block_is_a_file_or_a_command() -> None:
    found = blocks()
    assert [block.file for block in found if block.language != "bash" and not block.file] == []
    assert len(found) == PAGE.read_text().count("\n```") // 2
