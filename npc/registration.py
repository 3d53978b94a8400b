"""Finds extensions by their registration: the core's own, those of program analysis, a site's, in one way.

Each kind of extension is a group of entry points: ``npc.commands``, ``npc.sections`` (of the page),
``npc.advice`` (rules), ``npc.trials`` (of their hints), ``npc.checks`` (preflight), ``npc.parsers``,
``npc.observations`` (parts of what `npc observe` keeps), ``npc.limits`` (what a program's own code allows
it). An entry names a module; one that names a package stands for each module in it, under the module's own
name. So what is added to a package of NPC's needs no entry, and a folder of NPC's can be taken away: entries
of its modules are then passed over.
What a site has registered and cannot be loaded is reported, with the reason; `unloadable` lists it for all
groups.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator
from functools import cache
from importlib import metadata
from importlib.metadata import EntryPoint
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Final, NamedTuple

_NPC: Final = Path(__file__).parent


class Extension(NamedTuple):
    """A module that was registered."""

    #: The entry's, or the module's own in a package.
    name: str
    #: None where it cannot be loaded.
    module: ModuleType | None
    #: Why it cannot be loaded; empty where it can.
    problem: str = ""


class UnloadableModule(NamedTuple):
    """A module that was registered and cannot be loaded."""

    #: Of its entry, with the prefix: ``npc.limits``.
    group: str
    #: Its dotted name, with a colon and the object where the entry names one.
    module: str
    #: Name and version of the distribution that registered it.
    distribution: str
    #: The exception's type and text.
    error: str


@cache
def entry_points(kind: str) -> dict[str, EntryPoint]:
    """The entries of a kind of every installed distribution by name; the first on ``sys.path`` wins."""
    entries: dict[str, EntryPoint] = {}
    for entry in metadata.entry_points(group=f"npc.{kind}"):
        if not _is_taken_away(entry.module):
            entries.setdefault(entry.name, entry)
    return entries


@cache
def module_names(kind: str) -> dict[str, str]:
    """Name → dotted module of all that is registered as `kind`, sorted; these modules are not loaded."""
    modules: dict[str, str] = {}
    for entry in entry_points(kind).values():
        for name, module in _modules_of(entry):
            modules.setdefault(name, module)
    return dict(sorted(modules.items()))


def extensions(kind: str) -> Iterator[Extension]:
    """All modules that are registered as `kind`, loaded, in the order of their names."""
    for name, module in module_names(kind).items():
        try:
            yield Extension(name, importlib.import_module(module))
        except Exception as error:  # a site's own module may fail in any way while it is imported
            yield Extension(name, None, f"cannot be loaded: {type(error).__name__}: {error}")


def unloadable() -> Iterator[UnloadableModule]:
    """All that is registered, in any group of NPC's, and cannot be loaded; loads the rest (about 0.3 s)."""
    for group in sorted(metadata.entry_points().groups):
        if not group.startswith("npc."):
            continue
        for entry in entry_points(group.removeprefix("npc.")).values():
            modules = [entry.value] if entry.attr else [module for _, module in _modules_of(entry)]
            for module in modules:
                try:
                    EntryPoint(entry.name, module, group).load()
                except Exception as error:  # as in `extensions`
                    distribution = f"{entry.dist.name} {entry.dist.version}" if entry.dist else "?"
                    yield UnloadableModule(group, module, distribution, f"{type(error).__name__}: {error}")


def _modules_of(entry: EntryPoint) -> Iterator[tuple[str, str]]:
    try:
        spec = find_spec(entry.module)
    except Exception:  # of the packages above it; whoever loads it will report that
        spec = None
    if spec is None or spec.submodule_search_locations is None:
        yield entry.name, entry.module
        return
    for module in pkgutil.iter_modules(spec.submodule_search_locations):
        if not module.ispkg:
            yield module.name, f"{entry.module}.{module.name}"


def _is_taken_away(module: str) -> bool:
    """Whether it is a module of NPC's that is not there."""
    path = _NPC.parent.joinpath(*module.split("."))
    ours = module.partition(".")[0] == _NPC.name
    return ours and not (path.with_suffix(".py").exists() or (path / "__init__.py").exists())
