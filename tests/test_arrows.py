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


@pytest.mark.parametrize("module", sorted({target.partition(":")[0] for target in entry_points().values()}))
def test_a_command_loads_heavy_packages_only_when_it_runs(module: str) -> None:
    heavy = {"numpy", "matplotlib", "plotly", "rich", "mpi4py", "scipy", "ruptures"}
    found = {name: asking for name, asking in loaded_by(module).items() if name.partition(".")[0] in heavy}
    assert not found


def test_the_help_of_no_command_waits_for_what_only_running_it_needs() -> None:
    dear = {
        "concurrent", "email", "fractions", "html", "http", "numpy", "random", "rich", "sqlite3", "ssl",
        "statistics", "tempfile", "npc.tools", "urllib.request", "xml.etree", "xml.sax",
    }  # fmt: skip
    modules = sorted({target.partition(":")[0] for target in entry_points().values()})
    program = f"import sys, npc.cli, {', '.join(modules)}; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert set(modules) <= set(loaded.stdout.split())
    assert not dear & set(loaded.stdout.split())


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
