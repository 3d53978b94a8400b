"""The import arrows: data goes down from npb to the report, and imports go up to npc and never back.

Every import counts: in functions, for types only, and by `import_module`.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

from npc.cli import entry_points
from npc.registration import module_names
from tests.lab.parts import PARTS as ALL_PARTS
from tests.paths import ROOT

#: What each room may import of the others (docs/code.md: "the way of one number").
ALLOWED: dict[str, set[str]] = {
    # what is in no other room
    "npc": set(),
    "parsers": {"npc"},
    "npb": {"parsers", "npc"},
    "observe": {"parsers", "npc"},
    "roofline": {"npc"},
    "cron": {"npc", "roofline"},
    "report": {"npc", "roofline"},
}
#: Program analysis: it stands on top of all, and nobody imports it.
PARTS = [part for part in ALL_PARTS if (ROOT / "observe" / part).exists()]  # any of them can be taken away
ALLOWED |= {f"observe.{part}": {"npc", "parsers", "roofline", "report", "observe", "cron"} for part in PARTS}
#: What of `cron` program analysis may import: what starts jobs.
STARTS_JOBS = {"npc.cron.characterise", "npc.cron.commands"}


def module_name(path: Path) -> str:
    """``npc/cli.py`` → ``npc.cli``, ``cron/verdict.py`` → ``npc.cron.verdict``; a package has the name of its
    folder."""
    parts = path.with_suffix("").parts
    return ".".join(parts if parts[0] == "npc" else ("npc", *parts)).removesuffix(".__init__")


def room_of(module: str) -> str:
    """``npc.cron.verdict`` → ``cron``, ``npc.observe.study.plan`` → ``observe.study``."""
    parts = module.split(".")[1:3]
    names = (".".join(parts), "".join(parts[:1]), "npc")
    return next(name for name in names if name in ALLOWED)


PATHS = {
    module_name(path.relative_to(ROOT)): path.relative_to(ROOT)
    for room in ALLOWED
    for path in sorted((ROOT / room.replace(".", "/")).rglob("*.py"))
}
#: Modules that load others by a name that only running them tells, and which ones these are.
BY_NAME = {
    "npc": ("npc.records.*",),  # `__getattr__`: what a notebook asks for
    "npc.registration": (),  # what is registered: rooms do not know each other by that
    "npc.parsers": ("npc.parsers.*",),
    "npc.observe.options": (),  # the companions that registered observers ask for
}


def names_of(source: str, module: str, is_package: bool) -> Iterator[str]:
    """The dotted name of everything that a module's source imports; ``a.*`` for the modules of a package."""
    package = module if is_package else module.rpartition(".")[0]
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package
            for _ in range(node.level - 1):
                base = base.rpartition(".")[0]
            base = ".".join(filter(None, (base if node.level else "", node.module or "")))
            yield from (f"{base}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Call):
            called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            if called in ("import_module", "__import__"):
                yield from loaded_names(node.args[0], module)


def loaded_names(argument: ast.expr, module: str) -> tuple[str, ...]:
    """What `import_module` loads: a constant, ``a.*`` for f"a.{name}", else what `BY_NAME` says."""
    if isinstance(argument, ast.Constant):
        return (str(argument.value),)
    if isinstance(argument, ast.JoinedStr) and isinstance(argument.values[0], ast.Constant):
        return (str(argument.values[0].value).rstrip(".") + ".*",)
    assert module in BY_NAME, f"{module} loads {ast.unparse(argument)}: which modules are these?"
    return BY_NAME[module]


def targets(names: Iterator[str], known: set[str]) -> set[str]:
    """The modules of the house among imported names: the longest part of each that is one."""
    found = set()
    for name in names:
        if name.endswith(".*"):
            found |= {each for each in known if each.rpartition(".")[0] == name[:-2]}
            continue
        while name and name not in known:
            name = name.rpartition(".")[0]
        found.add(name)
    return found - {""}


def arrows(sources: dict[str, tuple[str, bool]]) -> dict[str, set[str]]:
    """{module: the modules that it imports}, of {module: (source, whether it is a package)}."""
    known = set(sources)
    return {
        module: targets(names_of(source, module, is_package), known) - {module}
        for module, (source, is_package) in sources.items()
    }


def test_a_room_imports_only_rooms_below_it_and_no_module_itself_through_others() -> None:
    sources = {
        module: ((ROOT / path).read_text(encoding="utf-8"), path.name == "__init__.py")
        for module, path in PATHS.items()
    }
    found = arrows(sources)
    assert not {
        f"{module} imports {target}"
        for module, its in found.items()
        for target in its
        for room in [room_of(module)]
        if room_of(target) not in {room, *ALLOWED[room]}
    }
    above = {target for module, its in found.items() if "." in room_of(module) for target in its}
    assert {target for target in above if room_of(target) == "cron"} <= STARTS_JOBS
    TopologicalSorter(found).prepare()  # raises CycleError, which names the modules


def package_of(module: str) -> str:
    """``npc.jobs.wait`` → ``npc.jobs``; a module of `npc` itself stands for itself."""
    return ".".join(module.split(".")[:2])


def test_no_package_of_npc_imports_itself_through_others() -> None:
    """Packages make no circle either: ``npc.validity`` is imported by ``npc.jobs`` and never imports it."""
    sources = {
        module: ((ROOT / path).read_text(encoding="utf-8"), path.name == "__init__.py")
        for module, path in PATHS.items()
        if room_of(module) == "npc"
    }
    packages: dict[str, set[str]] = {}
    for module, imported in arrows(sources).items():
        package = package_of(module)
        packages.setdefault(package, set()).update(set(map(package_of, imported)) - {package})
    assert {"npc", "npc.cli", "npc.jobs", "npc.validity"} <= packages.keys()
    TopologicalSorter(packages).prepare()  # raises CycleError, which names the packages


def test_npc_imports_click_in_its_commands_alone() -> None:
    """What is below them returns what is to be printed, and raises what is in `npc.errors`."""
    of_the_command_line = {
        module
        for module, path in PATHS.items()
        if room_of(module) == "npc"
        for name in names_of((ROOT / path).read_text(encoding="utf-8"), module, path.name == "__init__.py")
        if name.partition(".")[0] == "click"
    }
    assert {module for module in of_the_command_line if package_of(module) != "npc.commands"} == {"npc.cli"}


@pytest.mark.parametrize(
    "import_back",
    [
        "import a.one",
        "from a import one",
        "from a.one import f",
        "def f():\n    from a.one import f",
        "def f():\n    import importlib\n    importlib.import_module('a.one')",
        "def f(name):\n    import importlib\n    importlib.import_module(f'a.{name}')",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from a.one import T",
        "from .one import f",
    ],
)
def test_a_circle_is_seen_wherever_the_import_stands(import_back: str) -> None:
    sources = {"a": ("", True), "a.one": ("import a.two", False), "a.two": (import_back, False)}
    with pytest.raises(CycleError):
        TopologicalSorter(arrows(sources)).prepare()


def test_every_room_is_looked_at() -> None:
    rooms = {path.parent.name for path in ROOT.glob("*/__init__.py")} - {"tests"}
    assert rooms == {room_of(module).partition(".")[0] for module in PATHS}
    assert set(map(room_of, PATHS)) == ALLOWED.keys()


def test_a_room_is_imported_by_way_of_npc_alone() -> None:
    """Installed, ``npc`` is the only name: a package ``report`` that others have installed is theirs."""
    for path in sorted(path for folder in (*ALLOWED, "tests") for path in (ROOT / folder).rglob("*.py")):
        module = module_name(path.relative_to(ROOT))
        names = names_of(path.read_text(encoding="utf-8"), module, path.name == "__init__.py")
        assert not {name for name in names if name.partition(".")[0] in ALLOWED.keys() - {"npc"}}, path


@pytest.mark.parametrize("kind", ["commands", "sections", "advice", "checks", "parsers"])
def test_what_is_registered_is_there(kind: str) -> None:
    """The command line, the page, advice, preflight and the parsers know no room: they find these."""
    assert set(module_names(kind).values()) <= set(PATHS)
    assert len(module_names(kind)) > 2


@pytest.mark.parametrize("kind", ["observations", "observers", "limits", "trials"])
def test_what_parts_have_registered_is_there(kind: str) -> None:
    """The core has none of its own."""
    assert set(module_names(kind).values()) <= set(PATHS)
    assert bool(module_names(kind)) == bool(PARTS)


def loaded_by(program: str) -> set[str]:
    """Top-level packages that a fresh Python has loaded when it has run `program`."""
    ended = subprocess.run(
        [sys.executable, "-c", f"{program}\nimport sys\nprint(*sys.modules)"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    return {name.partition(".")[0] for name in ended.stdout.splitlines()[-1].split()}


def test_the_launcher_loads_nothing_heavy() -> None:
    bare = loaded_by("")
    assert loaded_by("import npc.npb.cli") - bare - set(sys.stdlib_module_names) <= {"npc"}


def test_help_loads_no_heavy_library() -> None:
    """One command after the other, in one process: what none of them loads is not there in the end."""
    asked = [["--help"], *([*name.split(), "--help"] for name in sorted(entry_points()))]
    loaded = loaded_by(
        f"from npc.cli import main\nfor words in {asked}: main(words, standalone_mode=False)\nprint()"
    )
    assert not loaded & {"numpy", "scipy", "matplotlib", "mpi4py", "jinja2", "rich", "msgspec"}
