"""Names say what they hold: the word list of CONTRIBUTING.md, as far as a program can see it."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.paths import ROOT

ROOMS: Final = ("benchmarks", "cron", "npb", "npc", "observe", "parsers", "report", "roofline")
#: A participle or an adjective alone does not say of what, and a manager may be anything.
NO_CLASSES: Final = frozenset(
    [
        "Asked", "Awaited", "Built", "Common", "Counted", "Fitted", "Found", "Half", "Had", "Held",
        "Helper", "Judged", "Kept", "Late", "Made", "Maker", "Manager", "Measured", "Past", "Ran",
        "Read", "Rose", "Said", "Seen", "Shown", "Silent", "Slow", "Taken", "Together", "Told", "Tried",
        "Util", "Utils", "Wanted", "Watched",
    ]
)  # fmt: skip
#: What a function does is said by its verb (`read_…`, `lines_of`), what it returns by a noun.
NO_FUNCTION: Final = re.compile(r"_?(be_\w+|asked|found|had|kept|said|seen|told)")
#: Names that hold anything.
EMPTY: Final = frozenset({"asked", "each", "found", "kept", "said", "seen", "told"})
#: Keys of documents, which are fields: they change only with their schema. How many of a folder.
STILL: Final[dict[str, int]] = {"observe/mpi": 4, "report/advice": 2}


def sources(folder: str) -> Iterator[tuple[Path, ast.Module]]:
    """The modules below a folder, not those that a link shows there."""
    for path in sorted((ROOT / folder).rglob("*.py")):
        if not any(above.is_symlink() for above in path.parents):
            yield path.relative_to(ROOT), ast.parse(path.read_text(encoding="utf-8"))


def given_names(tree: ast.Module) -> Iterator[str]:
    """Names that a module gives: to variables, arguments, fields, functions and classes."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.attr
        elif isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            yield node.name


def words_to_avoid() -> set[str]:
    """Names of classes in the last column of the word list."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    rows = text.partition("## Words")[2].partition("\n## ")[0].splitlines()
    columns = [row.strip("|").split("|") for row in rows if row.startswith("| ")]
    return {name for *_, avoided in columns for name in re.findall(r"`([A-Z]\w+)`(?! (?:for|of) )", avoided)}


@pytest.mark.parametrize("room", ROOMS)
def test_classes_and_functions_have_names_that_say_what_they_are(room: str) -> None:
    avoided = NO_CLASSES | words_to_avoid()
    assert {"Couple", "Weather"} <= avoided
    for path, tree in sources(room):
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                assert node.name.lstrip("_") not in avoided, path
            elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                assert not NO_FUNCTION.fullmatch(node.name), path


def test_variables_have_names_that_say_what_they_hold() -> None:
    empty: defaultdict[str, list[str]] = defaultdict(list)
    for room in ROOMS:
        for path, tree in sources(room):
            names = [name for name in given_names(tree) if name.lstrip("_") in EMPTY]
            empty[str(path.parent)] += [f"{path.name}: {name}" for name in names]
    more = {folder: names for folder, names in empty.items() if len(names) > STILL.get(folder, 0)}
    assert not more
