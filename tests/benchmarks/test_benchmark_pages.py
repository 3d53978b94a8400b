"""Every benchmark has its page, the README.md of its folder, in one form, with all its settings."""

from __future__ import annotations

import re

import pytest

from tests.paths import ROOT

BENCHMARKS = sorted(path.parent.name for path in ROOT.glob("benchmarks/*/benchmark.xml"))
PAGES = ROOT / "benchmarks"
HEADINGS = ["What it measures", "Settings", "How to read it", "Validity"]
_SETTING = re.compile(r"\$\{NPC_([A-Z0-9_]+):-")


@pytest.mark.parametrize("benchmark", BENCHMARKS)
def test_a_benchmark_has_its_page(benchmark: str) -> None:
    page = (PAGES / benchmark / "README.md").read_text(encoding="utf-8")
    found = re.findall(r"^## (.+)$", page, re.MULTILINE)
    assert [heading for heading in found if heading in HEADINGS] == HEADINGS


@pytest.mark.parametrize("benchmark", BENCHMARKS)
def test_its_page_explains_every_setting(benchmark: str) -> None:
    page = (PAGES / benchmark / "README.md").read_text(encoding="utf-8")
    spec = (ROOT / "benchmarks" / benchmark / "benchmark_spec.xml").read_text(encoding="utf-8")
    missing = [name.lower() for name in _SETTING.findall(spec) if name.lower() not in page]
    assert missing == []


def test_the_index_names_every_page() -> None:
    index = (PAGES / "README.md").read_text(encoding="utf-8")
    linked = re.findall(r"^\| \[(\w+)\]\(\1/README\.md\) \| \S", index, re.MULTILINE)
    assert sorted(linked) == BENCHMARKS
