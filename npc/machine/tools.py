"""The tools NPC drives: where they are, which version they are, and how a site gets a missing one.

One table serves ``npc doctor``, ``environment.json`` and the set-up script, which asks
``python3 -m npc.machine.tools`` for the Debian packages. So only the standard library is here. The table is
``tools.ini`` beside this module and in each folder of `observe` that starts some of its own; before the
set-up there are no entry points to find these by.

A tool is looked for on ``PATH`` and then beside the running interpreter, because the PyPI wheels of
Open MPI, MPICH and Intel MPI put their ``mpirun`` into the environment's ``bin``.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
import sys
from collections.abc import Mapping, Sequence
from configparser import ConfigParser
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any, Final

from npc.machine import sysfs
from npc.machine.command import run
from npc.terminal import guard

#: A tool that has not said its version by then is broken or waits for something.
VERSION_TIMEOUT_S: Final = 5.0


class ToolNeed(Enum):
    """What the main job (``npc characterise``) does without the tool."""

    REQUIRED = "required"  #: nothing can run
    BENCHMARK = "benchmark"  #: leaves one benchmark out
    OPTIONAL = "optional"  #: runs unchanged


@dataclass(frozen=True, kw_only=True)
class Tool:
    """One tool, and how a site gets it. Where a name of a package is empty, that source does not have it."""

    #: The executable that is looked for.
    command: str
    #: What people call it.
    name: str
    #: The benchmarks that start it, or what it is for.
    used_by: str
    #: What the main job does without it.
    need: ToolNeed
    #: Whether jobs of benchmarks may start it.
    in_jobs: bool = True
    #: Whether the set-up installs it although its `need` is OPTIONAL.
    set_up: bool = False
    #: Tags of ``jube.yml`` that need it.
    tags: tuple[str, ...] = ()
    #: Arguments that make it print its version; empty if nothing does: ``hpcc`` would start to benchmark. Its
    #: exit code is not looked at: perftest's ``--version`` exits 1.
    version_args: tuple[str, ...] = ("--version",)
    #: Regular expression whose groups, joined by a space, are the version; of several alternatives the first
    #: that matches counts.
    version: str = r"(\d[\w.+-]*)"
    #: Package of Debian and Ubuntu.
    debian: str = ""
    #: Package of Fedora, and of RHEL and its children with EPEL.
    fedora: str = ""
    #: Package of SUSE.
    suse: str = ""
    #: Customary name of the environment module; sites differ.
    module: str = ""
    #: Package of Spack.
    spack: str = ""
    #: Software name of EasyBuild.
    easybuild: str = ""
    #: Package of the Python package index.
    pypi: str = ""
    #: Address at which it is developed.
    source: str = ""
    #: Address of a source archive that pip can install (`npc.machine.fetch`); empty if that is not needed.
    release: str = ""
    #: SHA-256 of that archive in hexadecimal digits; empty without one.
    sha256: str = ""


def _read_tools() -> tuple[Tool, ...]:
    """The sections of all ``tools.ini``."""
    own = Path(__file__).with_suffix(".ini")
    file = ConfigParser(interpolation=None)
    for path in (own, *sorted(own.parents[1].glob("observe/*/tools.ini"))):
        file.read_string(path.read_text(encoding="utf-8"), str(path))
    tools = []
    for command in file.sections():
        keys: dict[str, Any] = dict(file[command])
        lists = {name: tuple(keys[name].split()) for name in ("tags", "version_args") if name in keys}
        need, version = ToolNeed(keys["need"]), keys.get("version", Tool.version).replace("\n", "")
        in_jobs = file.getboolean(command, "in_jobs", fallback=True)
        set_up = file.getboolean(command, "set_up", fallback=False)
        keys |= lists | {"need": need, "version": version, "in_jobs": in_jobs, "set_up": set_up}
        tools.append(Tool(command=command, **keys))
    return tuple(tools)


TOOLS: Final[tuple[Tool, ...]] = _read_tools()

#: Packages that no command of `TOOLS` stands for, with the file that shows that they are there.
OTHER_DEBIAN_PACKAGES: Final[Mapping[str, str]] = {
    "libc6-dev": "/usr/include/stdio.h",
    # JUBE 2.5.1 needs its distutils where Python has none (3.12, Ubuntu 24.04); its package does not say so
    "python3-setuptools": "/usr/lib/python3/dist-packages/setuptools/__init__.py",
    "ibverbs-providers": "/etc/libibverbs.d/mlx5.driver",  # the drivers: without them perftest sees no device
    "llvm-19": "/usr/bin/llvm-mca-19",  # Debian 12's llvm knows no processor since 2021
    # HPL and DGEMM of hpcc run at a tenth of the machine's speed with the reference BLAS it depends on.
    "libopenblas0-pthread": "/usr/share/doc/libopenblas0-pthread/copyright",
    # The benchmarks blas and fft compare these.
    "libblis4-pthread": "/usr/share/doc/libblis4-pthread/copyright",
    "libfftw3-double3": "/usr/share/doc/libfftw3-double3/copyright",
}
#: Those of them that benchmarks measure with.
_LIBRARIES: Final = ("libopenblas0-pthread", "libblis4-pthread", "libfftw3-double3")


def missing_libraries() -> list[str]:
    """Debian packages of libraries that blas, fft and hpcc would measure with, and that are not here."""
    return [name for name in _LIBRARIES if not Path(OTHER_DEBIAN_PACKAGES[name]).exists()]


@dataclass(frozen=True, slots=True)
class ToolStatus:
    """A tool as it is on this machine."""

    #: Which one.
    tool: Tool
    #: The executable, or the folder of the OSU ports; None if it is missing.
    path: Path | None
    #: As `Tool.version` takes it from its output; None if it is missing or did not tell one.
    version: str | None
    #: Why its version is not known, or why a tool that ``NPC_OSU_PREFIX`` names is missing; empty otherwise.
    problem: str = ""


def named(command: str) -> Tool:
    """The entry of `command` in `TOOLS`. Raises LookupError."""
    for tool in TOOLS:
        if tool.command == command:
            return tool
    raise LookupError(f"{command} is none of NPC's tools: {', '.join(tool.command for tool in TOOLS)}")


def search_path() -> str:
    """``PATH`` with the environment's own ``bin`` at the end, for finding tools and for starting them."""
    own = str(Path(sys.executable).parent)
    given = os.environ.get("PATH", os.defpath)
    return given if own in given.split(os.pathsep) else os.pathsep.join(filter(None, (given, own)))


def find(command: str) -> Path | None:
    """The executable that `command` is here, or None."""
    path = shutil.which(command, path=search_path())
    return Path(path) if path else None


def find_all(tools: Sequence[Tool] = TOOLS) -> list[ToolStatus]:
    """Every tool with path and version; the versions are asked for at the same time."""
    from concurrent.futures import (
        ThreadPoolExecutor,
    )  # `npc doctor --environment --help` does not wait for it

    with ThreadPoolExecutor(max_workers=max(1, len(tools))) as pool:
        return list(pool.map(look_up, tools))


def look_up(tool: Tool) -> ToolStatus:
    """`tool` as it is here; never raises and never takes longer than `VERSION_TIMEOUT_S`."""
    if tool.command == "osu_latency":
        return _look_up_osu(tool)
    path = find(tool.command)
    if path is None:
        return ToolStatus(tool, None, None)
    if not tool.version_args:
        return ToolStatus(tool, path, None, "has no way to say its version")
    answer = run([path, *tool.version_args], timeout_s=VERSION_TIMEOUT_S)
    match = re.search(tool.version, answer.text, re.MULTILINE) if not answer.problem else None
    if match is None:
        lines = answer.text.strip().splitlines()
        return ToolStatus(
            tool, path, None, answer.problem or f"says no version: {lines[0] if lines else 'nothing'}"
        )
    version = " ".join(part.strip() for part in match.groups() if part)
    return ToolStatus(tool, path, version.replace("HYDRA", "MPICH"))


#: Fetches what no package brings (`npc.machine.fetch`).
FETCH: Final = f"{sys.executable} -m npc.machine.fetch"
#: Where it puts the OSU benchmarks' ports to Python from mpi4py's source distribution.
OSU_PORTS: Final = Path(sys.prefix) / "share" / "npc" / "osu-mpi4py"


def _look_up_osu(tool: Tool) -> ToolStatus:
    """The C build that ``NPC_OSU_PREFIX`` names, as the benchmark finds it, else mpi4py's ports."""
    prefix = os.environ.get("NPC_OSU_PREFIX") or os.environ.get("OSU_PREFIX")
    if prefix:
        programs = sorted(path for path in Path(prefix).rglob(tool.command) if os.access(path, os.X_OK))
        if programs:
            return ToolStatus(tool, programs[0], "C build")
        return ToolStatus(tool, None, None, f"no {tool.command} below NPC_OSU_PREFIX={prefix}")
    if (OSU_PORTS / "osu_latency.py").exists():
        version = sysfs.text(OSU_PORTS / "VERSION") or ""
        return ToolStatus(tool, OSU_PORTS, f"ports of mpi4py {version}".rstrip())
    return ToolStatus(tool, None, None)


@dataclass(frozen=True, slots=True)
class SoftwareSource:
    """How software is installed on this machine."""

    #: Whether this process may install packages of the system itself, without sudo.
    root: bool
    #: Debian packages of the missing tools that this release has; None where there is no apt.
    apt: frozenset[str] | None
    #: Whether there are environment modules.
    modules: bool
    #: Whether there is a ``spack``.
    spack: bool
    #: Whether there is EasyBuild's ``eb``.
    easybuild: bool
    #: The command that installs packages of Fedora's family (``dnf``, ``yum``) or of SUSE (``zypper``); empty
    #: where there is none.
    rpm: str = ""

    @classmethod
    def here(cls, missing: Sequence[Tool]) -> SoftwareSource:
        """This machine's: Debian and its children by ``/etc/os-release``, the rest by their commands.

        missing: the tools to ask apt for, which may read its lists for a second.
        """
        release = os_release()
        family = {release.get("ID", ""), *release.get("ID_LIKE", "").split()}
        return cls(
            root=os.geteuid() == 0,
            apt=_apt_packages(missing) if family & {"debian", "ubuntu"} and find("apt-get") else None,
            # `module` is a shell function, so only what defines it can be seen from a process.
            modules=any(name in os.environ for name in ("MODULESHOME", "LMOD_CMD", "LOADEDMODULES")),
            spack=find("spack") is not None,
            easybuild=find("eb") is not None,
            rpm=next((command for command in _rpm_commands(family) if find(command)), ""),
        )

    def package(self, tool: Tool) -> str:
        """The system's package of `tool`, "" if there is none."""
        if self.apt is not None:
            return tool.debian if tool.debian in self.apt else ""
        return (tool.suse if self.rpm == "zypper" else tool.fedora) if self.rpm else ""

    def install(self, packages: str) -> str:
        """The command that installs packages of the system."""
        command = f"{'' if self.root else 'sudo '}{self.rpm or 'apt-get'} install {packages}"
        return command if self.rpm in ("", "zypper") else f"{command} (some are in EPEL)"


def _rpm_commands(family: set[str]) -> tuple[str, ...]:
    if family & {"fedora", "rhel", "centos"}:
        return "dnf", "yum"
    return ("zypper",) if family & {"suse", "sles", "opensuse"} else ()


def _apt_packages(tools: Sequence[Tool]) -> frozenset[str]:
    """Those of the tools' packages that apt can install here; all, if apt has no lists to ask yet."""
    names = {tool.debian for tool in tools if tool.debian}
    if not names or not any(Path("/var/lib/apt/lists").glob("*_Packages*")):
        return frozenset(names)
    # "NAME:", then "  Candidate: VERSION", which is (none) for a package that is only referred to
    answer = run(
        ["apt-cache", "policy", *sorted(names)], "", VERSION_TIMEOUT_S, {**os.environ, "LC_ALL": "C"}
    )
    known = re.findall(r"^(\S+):\n(?: .*\n)*?  Candidate: [^(]", answer.stdout, re.MULTILINE)
    return frozenset(names if answer.problem else names & set(known))


def os_release() -> dict[str, str]:
    """``/etc/os-release`` as a mapping, empty where there is none."""
    try:
        return platform.freedesktop_os_release()
    except OSError:
        return {}


def ways_to_get(tool: Tool, site: SoftwareSource) -> list[str]:
    """Commands that get `tool` here, the likeliest first; where there is none, its names in all sources."""
    ways = []
    if tool.command == "osu_latency":
        ways.append(f"{FETCH} osu (mpi4py's ports), or NPC_OSU_PREFIX=… for a C build")
    if package := site.package(tool):
        ways.append(site.install(package))
    if site.modules and tool.module:
        ways.append(f"module load {tool.module}")
    if site.spack and tool.spack:
        ways.append(f"spack install {tool.spack} && spack load {tool.spack}")
    if site.easybuild and tool.easybuild:
        ways.append(f"eb --search {tool.easybuild}")
    if tool.pypi and not site.root:
        ways.append(f"{sys.executable} -m pip install {tool.pypi}")
    if tool.release:
        ways.append(f"{FETCH} {tool.command}")
    if ways:
        return ways
    sources = {
        "environment module": tool.module,
        "Spack": tool.spack,
        "EasyBuild": tool.easybuild,
        "Debian/Ubuntu package": tool.debian,
        "RHEL/Rocky/Fedora package": tool.fedora,
        "SUSE package": tool.suse,
        "source": tool.source,
    }
    return [f"{source} {name}" for source, name in sources.items() if name or source == "source"]


def main() -> None:
    """What the set-up script reads: a line ``COMMAND-OR-FILE PACKAGE`` for each Debian package."""
    for tool in TOOLS:
        if tool.debian and (tool.need is not ToolNeed.OPTIONAL or tool.set_up):
            print(tool.command, tool.debian)
    for package, file in OTHER_DEBIAN_PACKAGES.items():
        print(file, package)


if __name__ == "__main__":
    guard()
    main()
