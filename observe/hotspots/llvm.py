"""Which version of LLVM has a model of which processor, and which llvm-mca is installed.

A model is used only for the processors that it was made for, and only from the first version of LLVM in which
additions, multiplications, loads and stores have the rates of the vendor's optimisation guide. Older versions
silently use another processor's model (LLVM 16: Skylake's for Ice Lake), or a wrong one (LLVM 15: Zen 3 with
one FMA of 256 bits per cycle instead of two).
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, NamedTuple

from npc.machine.command import run

_TIMEOUT_S: Final = 10.0
_TOOL: Final = re.compile(r"llvm-mca(?:-\d+(?:\.\d+)?)?")
_VERSION: Final = re.compile(r"LLVM version (\d+[\d.]*)")


class NoModel(Exception):
    """Why there is no model, as a message for the user."""


class Core(NamedTuple):
    """A processor as LLVM knows it."""

    #: LLVM's.
    name: str
    #: The first version of LLVM whose model of it is believed.
    since: int


_INTEL: Final[dict[int, Core]] = {
    **dict.fromkeys((0x2A, 0x2D, 0x3A, 0x3E), Core("sandybridge", 14)),  # Ivy Bridge has the same core
    **dict.fromkeys((0x3C, 0x3F, 0x45, 0x46), Core("haswell", 14)),
    **dict.fromkeys((0x3D, 0x47, 0x4F, 0x56), Core("broadwell", 14)),
    **dict.fromkeys((0x4E, 0x5E, 0x8E, 0x9E, 0xA5, 0xA6), Core("skylake", 14)),
    0x55: Core("skylake-avx512", 14),  # Cascade Lake and Cooper Lake have the same core
    **dict.fromkeys((0x6A, 0x6C), Core("icelake-server", 19)),
    0xA7: Core("rocketlake", 19),
    **dict.fromkeys((0x8F, 0xCF), Core("sapphirerapids", 19)),  # Emerald Rapids has the same core
}
#: (family, first model, last model) of AMD's.
_AMD: Final[dict[tuple[int, int, int], Core]] = {
    (0x17, 0x00, 0x2F): Core("znver1", 14),
    (0x17, 0x30, 0xFF): Core("znver2", 14),
    (0x19, 0x00, 0x0F): Core("znver3", 16),
    (0x19, 0x20, 0x5F): Core("znver3", 16),
    (0x19, 0x10, 0x1F): Core("znver4", 19),
    (0x19, 0x60, 0xAF): Core("znver4", 19),
}


class Model(NamedTuple):
    """An llvm-mca with the processor that it models."""

    #: Path of llvm-mca.
    tool: str
    #: LLVM's.
    version: str
    #: The processor's name in LLVM.
    core: str

    @property
    def name(self) -> str:
        return f"llvm-mca {self.version}, {self.core}"


def model_of(processor: Mapping[str, Any]) -> Model:
    """The model of a processor (`npc.observe.hotspots.processor.node_processor`). Raises NoModel."""
    core = core_of(processor)
    tool, version = newest_tool()
    if not tool:
        raise NoModel("llvm-mca is not installed here (Debian: apt install llvm)")
    if _numbers(version)[0] < core.since:
        raise NoModel(
            f"llvm-mca {version} has no model of {_described(processor)}, {core.name}: LLVM "
            f"{core.since} or newer has (Debian: apt install llvm-{core.since})"
        )
    return Model(tool, version, core.name)


def core_of(processor: Mapping[str, Any]) -> Core:
    """The processor in LLVM. Raises NoModel for one without a model that is used here."""
    if processor.get("machine", "x86_64") not in ("x86_64", "AMD64"):
        raise NoModel(f"loops are modelled on x86-64 only, not on {processor['machine']}")
    family, number = processor.get("family"), processor.get("model")
    simulated: Core | None = None
    if isinstance(family, int) and isinstance(number, int):
        if processor.get("vendor") == "GenuineIntel" and family == 6:
            simulated = _INTEL.get(number)
        elif processor.get("vendor") == "AuthenticAMD":
            simulated = next(
                (
                    core
                    for (its, first, last), core in _AMD.items()
                    if its == family and first <= number <= last
                ),
                None,
            )
    if simulated is None:
        raise NoModel(f"no model of LLVM's is known here for {_described(processor)}: nothing is guessed")
    if processor.get("amx") and simulated.name != "sapphirerapids":
        raise NoModel(
            f"{_described(processor)} has no AMX, and this one has: a virtual machine hides its name"
        )
    return simulated


@lru_cache(maxsize=1)
def newest_tool() -> tuple[str, str]:
    """Path and version of the newest llvm-mca in PATH; empty ones without."""
    versions = [("", "")]
    for folder in map(Path, os.environ.get("PATH", "").split(os.pathsep)):
        for path in folder.glob("llvm-mca*") if folder.is_dir() else ():
            if _TOOL.fullmatch(path.name) and (
                match := _VERSION.search(run([path, "--version"], timeout_s=_TIMEOUT_S).stdout)
            ):
                versions.append((str(path), match[1]))
    return max(versions, key=lambda version: _numbers(version[1]))


def _described(processor: Mapping[str, Any]) -> str:
    number = f"family {processor.get('family', '?')} model {processor.get('model', '?')}"
    return f"{processor.get('name') or processor.get('vendor') or 'this processor'} ({number})"


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(number) for number in version.split(".") if number.isdecimal())
