"""A JUBE file, in XML or YAML, as one tree: what NPC has to know of a benchmark before JUBE runs it.

JUBE makes XML of its YAML, carries out the ``<include>`` elements, and leaves out what the tags do not
choose (`jubeio.Parser`, `yaml_converter.YAML_Converter` of 2.5.1 and 2.7.1). This does the same for what is
read here, but evaluates no text of a file: ``!include FILE:["key"]:EXPRESSION`` is refused.
"""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from npc.files import parse_xml, read_bytes, valid

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

#: What may stand in an element; whatever else a mapping of JUBE's YAML has is an attribute.
_IN_BENCHMARK: Final = (
    "parameterset", "substituteset", "fileset", "patternset", "step", "analyser", "result", "comment",
)  # fmt: skip
_INSIDE: Final[Mapping[str, tuple[str, ...]]] = {
    "jube": ("benchmark", "selection", "include-path", *_IN_BENCHMARK),
    "benchmark": _IN_BENCHMARK,
    "selection": ("only", "not", "tag"),
    "step": ("use", "do"),
    "analyser": ("use", "analyse"),
    "analyse": ("file",),
    "result": ("use", "table", "syslog", "database"),
    "table": ("column",),
    "parameterset": ("parameter",),
    "substituteset": ("iofile", "sub"),
    "fileset": ("copy", "link", "prepare"),
}
#: ``FILE``, ``FILE:["key"]``, ``FILE:["key"][0]``.
_INCLUDED: Final = re.compile(r"([^:]+)(?::((?:\[[^\[\]]*\])+))?")
#: By naming one another or itself again and again, a few lines would stand for more than fits into memory.
_MOST_INCLUDES: Final = 200
_MOST_ELEMENTS: Final = 100_000
#: A tag's name, as JUBE parts them; its signs in Python.
_TAG: Final = re.compile(r"[^()|+!^\s]+")
_SIGNS: Final = {"|": " or ", "+": " and ", "!": " not "}


def read_jube_file(path: Path, tags: Collection[str] | None = None) -> Element:
    """The tree of a JUBE file; its included files are looked for in ``JUBE_INCLUDE_PATH`` and beside it.

    tags: those of ``jube run``, by which JUBE chooses what to include; None: all that is there.
    Raises OSError, and `InvalidFile` for what JUBE could not read, or NPC does not.
    """
    data = read_bytes(path)
    is_xml = path.suffix == ".xml" or (path.suffix not in (".yml", ".yaml") and data.lstrip()[:1] == b"<")
    with valid(path):
        try:
            return _from_xml(data, path, tags) if is_xml else _from_yaml(data, path)
        except RecursionError:
            raise ValueError("nested too deep") from None


def step_names(path: Path, tags: Collection[str] = ()) -> list[str]:
    """The steps of a JUBE file that the tags choose, in their order. Raises as `read_jube_file`."""
    root, chosen_by = read_jube_file(path, tags), set(tags)
    for selected in root.iterfind("selection/tag"):
        chosen_by.update(word.strip() for word in (selected.text or "").split(","))
    with valid(path):
        return [step.get("name", "") for step in _chosen(root, chosen_by) if step.tag == "step"]


def texts(root: Element) -> Iterator[str]:
    """What stands in the elements and their attributes: all of a file but its comments."""
    for element in root.iter():
        yield element.text or ""
        yield from element.attrib.values()


def holds(condition: str | None, tags: Collection[str]) -> bool:
    """Whether JUBE takes what has this condition as its ``tag``, or none: ``a|b``, ``a+!b``, ``(a|b)+c``,
    ``a^b``, and of 2.5 ``a,b,!c`` (one of a and b, and not c). Raises ValueError for what is no condition."""
    if condition is None:
        return True
    if "," in condition:
        words = [word.strip() for word in condition.split(",")]
        any_of = "|".join(word for word in words if not word.startswith("!"))
        none_of = [word for word in words if word.startswith("!")]
        condition = "+".join([*none_of, f"({any_of})"] if any_of else none_of)
    expression = _TAG.sub(lambda tag: str(tag[0] in tags), condition)
    for sign, word in _SIGNS.items():
        expression = expression.replace(sign, word)
    try:
        return _truth(ast.parse(expression.strip(), mode="eval").body)
    except SyntaxError:
        raise ValueError(f"tag {condition!r} is no condition of JUBE") from None


def _truth(node: ast.expr) -> bool:
    match node:
        case ast.Constant(value=bool(value)):
            return value
        case ast.BoolOp(op=ast.And(), values=values):
            return all(map(_truth, values))
        case ast.BoolOp(values=values):
            return any(map(_truth, values))
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return not _truth(operand)
        case ast.BinOp(left=left, op=ast.BitXor(), right=right):
            return _truth(left) ^ _truth(right)
    raise SyntaxError


def _chosen(element: Element, tags: Collection[str]) -> Iterator[Element]:
    for child in element:
        if holds(child.get("tag"), tags):
            yield child
            yield from _chosen(child, tags)


def _beside(path: Path, name: str, includes: Iterator[int]) -> Path:
    """The file that another one includes, the next of `includes`. Raises ValueError where there is none, or
    too many."""
    if next(includes, None) is None:
        raise ValueError(f"includes more than {_MOST_INCLUDES} times, or itself")
    places = [Path(place) for place in os.environ.get("JUBE_INCLUDE_PATH", "").split(":") if place]
    for folder in (*places, path.parent):
        if (folder / name).is_file():
            return folder / name
    raise ValueError(f"includes {name}, which is neither beside it nor in JUBE_INCLUDE_PATH")


# -- XML -----------------------------------------------------------------------------------------------


def _from_xml(data: bytes, path: Path, tags: Collection[str] | None) -> Element:
    root = parse_xml(data)
    _include(root, path, tags, iter(range(_MOST_INCLUDES)))
    return root


def _include(element: Element, path: Path, tags: Collection[str] | None, includes: Iterator[int]) -> None:
    """Put what the ``<include>`` elements name in their place; JUBE looks from the first file, `path`."""
    place = 0
    while place < len(element):
        child = element[place]
        if child.tag != "include" or (tags is not None and not holds(child.get("tag"), tags)):
            _include(child, path, tags, includes)
            place += 1
            continue
        other = _beside(path, child.get("from", ""), includes)
        with valid(other):
            whole = parse_xml(read_bytes(other))
        try:
            element[place : place + 1] = whole.findall(child.get("path") or ".")
        except SyntaxError as error:
            raise ValueError(f"<include path={child.get('path')!r}>: {error}") from None


# -- YAML ----------------------------------------------------------------------------------------------


def _from_yaml(data: bytes, path: Path) -> Element:
    from xml.etree.ElementTree import Element as CallStats

    root = CallStats("jube")
    value = _yaml_value(data, path, iter(range(_MOST_INCLUDES)))
    _fill(root, value if isinstance(value, dict) else {"benchmark": value}, [_MOST_ELEMENTS])
    return root


def _yaml_value(data: bytes, path: Path, includes: Iterator[int]) -> Any:
    import yaml  # most commands read no YAML

    class Loader(yaml.SafeLoader):
        """With JUBE's own tag. (libyaml, ten times as fast, crashes on what is nested 100 000 deep.)"""

    def included(_: Loader, node: yaml.Node) -> Any:
        words = _INCLUDED.fullmatch(str(node.value).strip())
        if not words:
            raise ValueError(f'!include {node.value}: NPC reads FILE, or FILE:["key"]')
        other = _beside(path, words[1], includes)
        with valid(other):
            value = _yaml_value(read_bytes(other), path, includes)
        try:
            for key in re.findall(r"\[([^\[\]]*)\]", words[2] or ""):
                value = value[ast.literal_eval(key.strip())]
        except (LookupError, TypeError, ValueError, SyntaxError):
            raise ValueError(f"!include {node.value}: there is no such part in {other}") from None
        return value

    Loader.add_constructor("!include", included)
    try:
        return yaml.load(data, Loader=Loader)  # a SafeLoader
    except yaml.YAMLError as error:
        raise ValueError(" ".join(str(error).split())) from None


def _fill(element: Element, value: Any, left: list[int]) -> None:
    """What JUBE makes of a YAML value. left: how many elements there may yet be."""
    from xml.etree.ElementTree import SubElement

    if not isinstance(value, dict):
        element.text = _scalar(value)
        return
    for key, below in value.items():
        for part in below if isinstance(below, list) else [below]:
            if key in _INSIDE.get(element.tag, ()):
                left[0] -= 1
                if left[0] < 0:
                    raise ValueError(f"more than {_MOST_ELEMENTS} elements")
                _fill(SubElement(element, key), part, left)
            elif key == "_":
                element.text = f"{element.text or ''}{_scalar(part)}"
            else:
                element.set(str(key), _scalar(part))


def _scalar(value: Any) -> str:
    """As JUBE writes it. What holds others is no text: by aliases a short file names more than fits."""
    return "" if value is None or isinstance(value, dict | list | set) else str(value)
