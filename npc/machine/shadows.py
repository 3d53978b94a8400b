"""Modules that Python would import instead of NPC's own, or instead of one that NPC needs.

They are in ``PYTHONPATH`` and in the user's own ``site-packages``. The commands do not look there
(`npc.start`), unless NPC itself is found by ``PYTHONPATH`` alone.
"""

from __future__ import annotations

import os
import re
import site
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import metadata
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from typing import Final

DISTRIBUTION: Final = "npc-suite"


@dataclass(frozen=True, slots=True)
class Shadow:
    """A module of NPC's, or of what NPC needs, of which there is another one."""

    #: The name under which both can be imported.
    name: str
    #: Where the other one is.
    folder: str
    #: Whether Python imports the other one here.
    taken: bool


def shadows() -> list[Shadow]:
    """All of them, in the order in which Python looks."""
    shadowed: list[Shadow] = []
    folders = _folders()
    modules = sorted(_modules().items()) if folders else []
    for folder in folders:
        for name, home in modules:
            if Path(folder) != home and _is_there(PathFinder.find_spec(name, [folder])):
                taken = PathFinder.find_spec(name, sys.path)
                shadowed.append(Shadow(name, folder, taken is not None and _folder_of(taken) == Path(folder)))
    return shadowed


def _folders() -> list[str]:
    named = os.environ.get("PYTHONPATH", "")
    folders = [str(Path(folder).absolute()) for folder in named.split(os.pathsep)] if named else []
    return list(dict.fromkeys([*folders, *([site.getusersitepackages()] if site.ENABLE_USER_SITE else [])]))


def _is_there(spec: ModuleSpec | None) -> bool:
    # a folder without __init__.py is taken only where no later folder has the package
    return spec is not None and spec.loader is not None


def _folder_of(spec: ModuleSpec) -> Path | None:
    file = Path(spec.origin) if spec.origin else None
    return file and (file.parent.parent if spec.submodule_search_locations else file.parent)


def _modules() -> Mapping[str, Path]:
    """What NPC needs by name, with the folder in which it is."""
    above = Path(__file__).resolve().parents[2]
    modules = {"npc": above}
    for distribution in _needed(DISTRIBUTION, set()):
        home = Path(str(distribution.locate_file("")))
        tops = {file.parts[0] for file in distribution.files or ()}
        for top in tops - {".."}:
            name = top.partition(".")[0] if top.endswith((".py", ".so")) else top
            if name.isidentifier() and not name.startswith("__"):
                modules[name] = home
    return modules


def _needed(name: str, known: set[str]) -> Iterator[metadata.Distribution]:
    """The distributions that one needs, and those that they need, each once; without optional ones."""
    try:
        requirements = metadata.distribution(name).requires or ()
    except metadata.PackageNotFoundError:
        return
    for requirement in requirements:
        needed = re.split(r"[^\w.-]", requirement, maxsplit=1)[0].lower()
        if "extra ==" in requirement or needed in known:
            continue
        known.add(needed)
        try:
            yield metadata.distribution(needed)
        except metadata.PackageNotFoundError:
            continue
        yield from _needed(needed, known)
