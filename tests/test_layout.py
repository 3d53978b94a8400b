"""How the tests lie: what several need is in ``made`` or ``lab``, and every bench can be started."""

from __future__ import annotations

import ast
import importlib
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.lab.parts import needs_parts
from tests.paths import ROOT

TESTS = ROOT / "tests"
BENCHES = sorted(path.stem for path in (TESTS / "bench").glob("*.py"))
#: Those of program analysis.
OF_PARTS = ("counting", "observe", "study")


def imported(path: Path) -> Iterator[str]:
    """Every module that a file imports, wherever in it."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def test_no_test_imports_from_another_test() -> None:
    found = [
        f"{path.relative_to(ROOT)}: {name}"
        for path in sorted(TESTS.rglob("*.py"))
        for name in imported(path)
        if name.startswith("tests.") and any(part.startswith("test_") for part in name.split("."))
    ]
    assert not found


def test_what_is_shipped_is_what_is_tested() -> None:
    """But for its own test, `conftest` alone says which tests do not look for others that compute."""
    own = {"conftest.py", "test_layout.py", "test_sample.py"}
    paths = [path for path in TESTS.rglob("*.py") if "NPC_WATCH" in path.read_text(encoding="utf-8")]
    assert {path.name for path in paths} == own


def test_the_name_of_a_class_stands_for_one_idea() -> None:
    places: defaultdict[str, list[str]] = defaultdict(list)
    for room in ("benchmarks", "cron", "npb", "npc", "observe", "parsers", "report", "roofline"):
        for path in sorted((ROOT / room).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.ClassDef):
                    places[node.name].append(str(path.relative_to(ROOT)))
    assert not {name: where for name, where in places.items() if len(where) > 1}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[needs_parts] if name in OF_PARTS else []) for name in BENCHES]
)
def test_every_bench_can_be_started(name: str) -> None:
    assert callable(importlib.import_module(f"tests.bench.{name}").main)
