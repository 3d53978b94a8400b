"""A field of a structure is explained where it stands, by a ``#:`` comment above it.

Whoever reads the structure learns there what the field holds, in which unit, and what None or an empty value
means. A field whose type says it for a JSON schema, by ``Meta(description=…)``, needs no comment.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import pytest

from tests.paths import ROOT

ROOMS: Final = ("benchmarks", "cron", "npb", "npc", "observe", "parsers", "report", "roofline")
#: What makes a class a structure: one of these as its base, or `dataclass` as its decorator.
STRUCTURES: Final = frozenset({"NamedTuple", "Struct", "TypedDict"})
#: Words that say nothing about a field that its name does not say.
EMPTY_WORDS: Final = frozenset({"a", "an", "its", "of", "the", "this"})


def last_name(node: ast.expr) -> str:
    """``Struct`` of ``msgspec.Struct``, ``Struct[T]`` and ``Struct(…)``."""
    if isinstance(node, ast.Call):
        return last_name(node.func)
    if isinstance(node, ast.Subscript):
        return last_name(node.value)
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def structures(trees: Sequence[ast.Module]) -> set[str]:
    """Names of the classes that are structures, those that inherit from one of them among them."""
    classes = [node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
    names = {node.name for node in classes if "dataclass" in map(last_name, node.decorator_list)}
    bases = {node.name: {last_name(base) for base in node.bases} for node in classes}
    while more := {name for name in bases.keys() - names if bases[name] & (names | STRUCTURES)}:
        names |= more
    return names


def fields(tree: ast.Module, structures: set[str]) -> Iterator[tuple[str, ast.AnnAssign]]:
    """(``Class.field``, where it stands) of the fields that a module's structures have."""
    for structure in ast.walk(tree):
        if isinstance(structure, ast.ClassDef) and structure.name in structures:
            for node in structure.body:
                if (
                    isinstance(node, ast.AnnAssign)
                    and isinstance(node.target, ast.Name)
                    and last_name(node.annotation) not in ("ClassVar", "KW_ONLY")
                ):
                    yield f"{structure.name}.{node.target.id}", node


def comment_above(lines: Sequence[str], line: int) -> str:
    """The ``#:`` comment that ends just above a line, which is counted from 1; empty if there is none."""
    first = last = line - 1
    while first and lines[first - 1].strip().startswith("#:"):
        first -= 1
    return " ".join(above.strip().removeprefix("#:").strip() for above in lines[first:last])


def description(annotation: ast.expr) -> str:
    """The ``description="…"`` in a field's type; empty if there is none."""
    return " ".join(
        str(node.value.value)
        for node in ast.walk(annotation)
        if isinstance(node, ast.keyword)
        and node.arg == "description"
        and isinstance(node.value, ast.Constant)
    )


def unexplained(text: str, structures: set[str]) -> list[str]:
    """Fields of a module's structures without an explanation, or whose explanation is their name again."""
    lines = text.splitlines()
    names = []
    for name, node in fields(ast.parse(text), structures):
        explanation = comment_above(lines, node.lineno) or description(node.annotation)
        words = set(re.findall(r"\w+", explanation.lower()))
        if not words - EMPTY_WORDS - set(name.partition(".")[2].lower().split("_")):
            names.append(name)
    return names


def sources(folder: str) -> list[Path]:
    return sorted((ROOT / folder).rglob("*.py"))


@pytest.fixture(scope="module")
def all_structures() -> set[str]:
    return structures(
        [ast.parse(path.read_text(encoding="utf-8")) for room in ROOMS for path in sources(room)]
    )


@pytest.mark.parametrize("folder", ROOMS)
def test_fields_are_explained_where_they_stand(folder: str, all_structures: set[str]) -> None:
    paths = sources(folder)
    assert paths
    missing = [
        f"{path.relative_to(ROOT)}: {name}"
        for path in paths
        for name in unexplained(path.read_text(encoding="utf-8"), all_structures)
    ]
    assert not missing, "\n".join(missing)


MODULE: Final = '''
@dataclass(frozen=True)
class Link:
    """One link."""

    kind: ClassVar[str] = "link"
    #: Bandwidth in B/s,
    #: or None where nothing tells it.
    explained: float | None

    #: The name.
    name: str
    # Not by this.
    beside: int  #: Nor by this.
    first, second = 1, 2


class Wire(Link):
    below: str
    """Nor by this."""


class Shape(msgspec.Struct, frozen=True):
    width: int


class Values(Generic[T], NamedTuple):
    value: T


class Document(TypedDict):
    host: Annotated[str, Meta(description="where it ran")]
    time: Annotated[float, Meta(ge=0, description="its time")]
    schema: Required[int]


class Plain:
    variable: int
'''


def test_a_field_without_an_explanation_is_seen_in_every_kind_of_structure() -> None:
    names = structures([ast.parse(MODULE)])
    assert unexplained(MODULE, names) == [
        "Link.name",
        "Link.beside",
        "Wire.below",
        "Shape.width",
        "Values.value",
        "Document.time",
        "Document.schema",
    ]
