"""jube.yml is what `make jube.yml` writes, and says of every benchmark what its own file says."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest

from npc import catalogue
from npc.catalogue.jube_yml import ORDER, jube_yml
from npc.choices import TAGS
from npc.jobs.jube_file import read_jube_file
from tests.paths import ROOT

#: Elements that the suite takes from a benchmark's own file.
PARTS = ("step", "analyser", "result")


def test_jube_yml_is_current() -> None:
    assert jube_yml(ROOT) == (ROOT / "jube.yml").read_text(encoding="utf-8"), "run: make jube.yml"


def test_every_tag_has_a_benchmark() -> None:
    assert {tag for step in catalogue.steps() for tag in step.tags} == set(TAGS)


def content(element: ET.Element, folder: Path) -> tuple[Any, ...]:
    """What an element says: attributes without order, files as seen from the suite's folder."""
    attributes = dict(element.attrib)
    if attributes.get("from", "platform.xml") != "platform.xml":
        attributes["from"] = os.path.normpath(folder / attributes["from"])
    below = [content(child, folder) for child in element]
    return element.tag, attributes, (element.text or "").strip(), below


def parts_of(root: ET.Element, folder: Path) -> dict[str, list[tuple[Any, ...]]]:
    """The content of the steps, analysers and results, without the tag by which the suite chooses them."""
    parts: dict[str, list[tuple[Any, ...]]] = {part: [] for part in PARTS}
    for element in root.iter():
        if element.tag in PARTS:
            element.attrib.pop("tag", None)
            parts[element.tag].append(content(element, folder))
    return parts


def test_it_says_all_that_the_benchmarks_files_say() -> None:
    whole = parts_of(read_jube_file(ROOT / "jube.yml"), Path())
    alone: dict[str, list[tuple[Any, ...]]] = {part: [] for part in PARTS}
    for name in ORDER:
        file = ROOT / "benchmarks" / name / "benchmark.xml"
        for part, elements in parts_of(ET.parse(file).getroot(), Path("benchmarks", name)).items():
            alone[part] += elements
    assert whole == alone


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    """A copy of what jube.yml is written from."""
    for file in ROOT.glob("benchmarks/*/benchmark.xml"):
        folder = tmp_path / file.relative_to(ROOT).parent
        folder.mkdir(parents=True)
        shutil.copy(file, folder)
    return tmp_path


def test_what_a_benchmark_alone_may_say_is_said_in_the_suite(suite: Path) -> None:
    """Several uses, files and commands, further attributes, texts that YAML takes for something else."""
    file = suite / "benchmarks" / ORDER[-1] / "benchmark.xml"
    tree = ET.parse(file)
    step, analyser, table = (tree.getroot().find(f".//{tag}") for tag in ("step", "analyser", "table"))
    assert step is not None and analyser is not None and table is not None
    step.set("max_async", "2")
    ET.SubElement(step, "do", work_dir="a: b").text = "echo 'x' # {y}, \"z\": [1]"
    analyser.insert(0, ET.Element("use", {"from": "../npc.xml"}))
    analyser[0].text = "on"
    ET.SubElement(analyser, "analyse", step=ORDER[-1]).text = ""
    ET.SubElement(analyser.findall("analyse")[1], "file").text = "*.txt"
    ET.SubElement(table, "column", title="no", format="5.1f").text = "null"
    tree.write(file, encoding="unicode")
    (suite / "jube.yml").write_text(jube_yml(suite), encoding="utf-8")
    ours = {
        part: entries[-1] for part, entries in parts_of(read_jube_file(suite / "jube.yml"), Path()).items()
    }
    theirs = parts_of(tree.getroot(), Path("benchmarks", ORDER[-1]))
    assert ours == {part: entries[-1] for part, entries in theirs.items()}


def test_a_folder_without_a_place_in_the_order_is_an_error(suite: Path) -> None:
    shutil.copytree(suite / "benchmarks" / ORDER[0], suite / "benchmarks/another")
    with pytest.raises(ValueError, match=r"jube_yml\.py or in benchmarks/, not in both: \['another'\]"):
        jube_yml(suite)


def test_an_error_is_one_line_and_leaves_the_file(tmp_path: Path) -> None:
    """In a copy, whose benchmarks are not those of the order."""
    without = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "npc", tmp_path / "npc", symlinks=True, ignore=without)
    (tmp_path / "jube.yml").write_text("old")
    words = [sys.executable, "-P", "-m", "npc.catalogue.jube_yml"]
    ended = subprocess.run(
        words, cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(tmp_path)}, capture_output=True, text=True
    )
    assert (ended.returncode, ended.stdout, ended.stderr.count("\n")) == (1, "", 1)
    assert ended.stderr.startswith(
        "jube.yml: in npc/catalogue/jube_yml.py or in benchmarks/, not in both: ['ba"
    )
    assert (tmp_path / "jube.yml").read_text() == "old"
