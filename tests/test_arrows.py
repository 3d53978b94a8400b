"""The import arrows: data goes down from npb to the report, and imports go up to npc and never back."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

from npc.cli import entry_points

ROOT = Path(__file__).parent.parent
#: What each room may import of the others (README and docs: "the way data flows").
ALLOWED = {
    "npc": set[str](),
    "parsers": {"npc"},
    "npb": {"parsers", "npc"},
    "observe": {"parsers", "npc"},
    "roofline": {"npc"},
    "cron": {"npc", "roofline"},
    "report": {"npc", "roofline"},
}
MODULES = sorted(path.relative_to(ROOT) for room in ALLOWED for path in (ROOT / room).rglob("*.py"))


def module_name(path: Path) -> str:
    """``npc/record.py`` → ``npc.record``."""
    return ".".join(path.with_suffix("").parts).removesuffix(".__init__")


def imports(path: Path, everywhere: bool) -> Iterator[str]:
    """Dotted names that the module imports: anywhere in it, or where it runs when it is imported."""
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    pending: list[ast.AST] = [tree]
    while pending:
        node = pending.pop()
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            package = (
                module_name(path) if path.name == "__init__.py" else module_name(path).rpartition(".")[0]
            )
            for _ in range(node.level - 1):
                package = package.rpartition(".")[0]
            base = ".".join(filter(None, (package if node.level else "", node.module or "")))
            yield base
            yield from (f"{base}.{alias.name}" for alias in node.names)
        is_function = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        for_types_only = isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)
        if everywhere or not (is_function or for_types_only):
            pending += ast.iter_child_nodes(node)


@pytest.mark.parametrize("path", MODULES, ids=str)
def test_a_room_imports_only_rooms_below_it(path: Path) -> None:
    room = path.parts[0]
    imported = {name.partition(".")[0] for name in imports(path, everywhere=True)}
    forbidden = imported & set(ALLOWED) - ALLOWED[room] - {room}
    assert not forbidden, f"{path} imports {sorted(forbidden)}"


def loaded_by(module: str) -> dict[str, str]:
    """What importing `module` loads, without what its functions import: {name: which module asks for it}."""
    paths = {module_name(path): path for path in MODULES}
    loaded = {module: "the command line"}
    pending = [module]
    while pending:
        asking = pending.pop()
        for name in imports(paths[asking], everywhere=False):
            if name not in loaded:
                loaded[name] = asking
                if name in paths:
                    pending.append(name)
    return loaded


def test_the_launcher_loads_nothing_heavy() -> None:
    allowed = {*sys.stdlib_module_names, "mpi4py", "npb", "npc", "parsers"}
    loaded = loaded_by("npb.cli")
    foreign = {name: asking for name, asking in loaded.items() if name.partition(".")[0] not in allowed}
    assert not foreign


#: A command's help as click alone makes it.
BARE = """
import sys, click
bare = click.Command("bare", params=[click.Option(["--path"], type=click.Path(), help="A path.")])
bare(["--help"], standalone_mode=False)
print(*sys.modules)
"""
HELP = """
import sys
from npc.cli import main
main([*sys.argv[1:], "--help"], standalone_mode=False)
print(*sys.modules)
"""
#: What a command's module may load besides: all of it is small.
LIGHT = {
    *sys.builtin_module_names, "importlib._abc", "importlib.util", "npc", "npc.cli", "npc.parameters",
    "npc.status", "npc.status_line", "pkgutil", "shlex",
}  # fmt: skip


def modules_after(program: str, *arguments: str) -> set[str]:
    """What a fresh Python has loaded when it has run `program`, which prints it last."""
    command = [sys.executable, "-c", program, *arguments]
    ended = subprocess.run(command, capture_output=True, text=True, check=True)
    return set(ended.stdout.splitlines()[-1].split())


@pytest.fixture(scope="module")
def modules_of_click() -> set[str]:
    return modules_after(BARE)


@pytest.mark.parametrize("name", ["", *sorted(entry_points())])
def test_help_loads_only_click_and_the_module_of_the_command(name: str, modules_of_click: set[str]) -> None:
    own = entry_points()[name].partition(":")[0] if name else "npc.cli"
    packages = {own[:place] for place, letter in enumerate(own) if letter == "."}
    loaded = modules_after(HELP, *filter(None, [name]))
    assert own in loaded
    assert not loaded - modules_of_click - LIGHT - packages - {own}


def test_the_command_line_itself_loads_no_records() -> None:
    program = "import sys, npc.cli; print(*sys.modules); from npc import *; print(read_run, Record, Reading)"
    shown = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    loaded, names = shown.stdout.splitlines()
    assert "npc.cli" in loaded.split() and "npc.record" not in loaded.split()
    assert "read_run" in names and "npc.record.Record" in names


def test_no_module_imports_itself_through_others() -> None:
    known = {module_name(path) for path in MODULES}
    graph = {
        module_name(path): {
            name for name in imports(path, everywhere=False) if name in known and name != module_name(path)
        }
        for path in MODULES
    }
    # A package's __init__ that gathers its modules' names is imported by them in passing only.
    for package in ALLOWED:
        for module, targets in graph.items():
            if module.startswith(f"{package}."):
                targets.discard(package)
    TopologicalSorter(graph).prepare()  # raises CycleError, which names the modules


def test_every_room_is_looked_at() -> None:
    rooms = {path.parent.name for path in ROOT.glob("*/*.py")} - {"tests", "benchmarks"}
    assert rooms == {path.parts[0] for path in MODULES}
