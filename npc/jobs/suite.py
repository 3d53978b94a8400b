"""The suite's platforms and benchmarks, and the settings that these read from outside."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

from npc.choices import AUTO
from npc.errors import InvalidUsage
from npc.jobs.jube_file import read_jube_file, texts
from npc.machine.container import IMAGE
from npc.machine.tools import search_path
from npc.places import workplace

#: Settings that are files or folders.
_PATH_SETTING: Final = re.compile(r"NPC_[A-Z0-9]+_(?:SOURCE|PREFIX|CACHE)")
_SETTING: Final = re.compile(r"\$\{NPC_([A-Z0-9_]+):-")
#: Numbers of launches without which nothing is measured.
_AT_LEAST_ONE: Final = ("samples", "sweep_samples")
_WHOLE_NUMBER: Final = re.compile(r'printf %s "\$\{NPC_([A-Z0-9_]+):-[^"]*"\s*\Z')
#: A number that may also be left to those who measure.
_OR_AUTO: Final = re.compile(rf'\s*printf %s "\$\{{NPC_([A-Z0-9_]+):-{AUTO}\}}"\s*')


def settings(home: Path, platform: Path | None = None, *files: Path | None) -> dict[str, str]:
    """Settings that benchmarks and a platform read from outside: the name, and the file that explains it.

    platform: a folder with a ``platform.xml``; those that its sets are initialised with are read, too.
    files: JUBE files beside the suite's own.
    """
    known: dict[str, str] = {}
    for path in _files_with_settings(home, platform, files):
        named = path.relative_to(home) if path.is_relative_to(home) else path
        for text in texts(read_jube_file(path)):
            for name in _SETTING.findall(text):
                known.setdefault(name.lower(), named.as_posix())
    return known


def default_of(platform: Path, name: str) -> str:
    """What a platform takes for a setting that nobody gives; empty where it has none."""
    default = re.compile(rf"\$\{{NPC_{name.upper()}:-([^}}]*)\}}")
    for file in platform_files(platform / "platform.xml"):
        for text in texts(read_jube_file(file)):
            if match := default.search(text):
                return match[1]
    return ""


def parameter_of(platform: Path, name: str) -> str:
    """The text of a platform's parameter, not evaluated; empty where its files have none."""
    for file in platform_files(platform / "platform.xml"):
        for parameter in read_jube_file(file).iter("parameter"):
            if parameter.get("name") == name:
                return (parameter.text or "").strip()
    return ""


def submit_command(platform: Path) -> str:
    """The program by which a platform's jobs are submitted; empty where its files do not say."""
    program = re.match(r"[^\s<$]+", parameter_of(platform, "submit"))
    return program[0] if program else ""


def whole_numbers(home: Path, platform: Path | None = None, *files: Path | None) -> tuple[set[str], set[str]]:
    """Those of the `settings` that are nothing but a parameter which JUBE takes whole numbers for, and those
    that may also be `AUTO`."""
    plain, or_auto = set(), set()
    for path in _files_with_settings(home, platform, files):
        for parameter in read_jube_file(path).iter("parameter"):
            text = parameter.text or ""
            if parameter.get("type") == "int" and (number := _WHOLE_NUMBER.search(text)):
                plain.add(number[1].lower())
            if number := _OR_AUTO.fullmatch(text):
                or_auto.add(number[1].lower())
    return plain, or_auto


def _files_with_settings(home: Path, platform: Path | None, more: Iterable[Path | None]) -> list[Path]:
    files = sorted({*(home / "benchmarks").rglob("*.xml"), *filter(None, more)})
    if platform:
        files += platform_files(platform / "platform.xml")
    return files


def platform_files(path: Path) -> list[Path]:
    """A platform's file and those over which it is written, each once; JUBE finds them from its folder."""
    files = [path]
    for file in files:
        for element in read_jube_file(file).iter():
            name = element.get("init_with", "").partition(":")[0].strip()
            other = Path(os.path.normpath(path.parent / name))
            if name and other.is_file() and other not in files:
                files.append(other)
    return files


def environment_of_settings(
    home: Path, platform: Path, given: Sequence[str], *files: Path | None
) -> dict[str, str]:
    """NPC_… variables of ``NAME=VALUE`` words.

    Raises InvalidUsage for names that nothing reads, and values that JUBE would not take.
    """
    _refuse_unread(platform)
    known = settings(home, platform, *files)
    plain, or_auto = whole_numbers(home, platform, *files)
    variables = {}
    for word in given:
        name, equals, value = word.partition("=")
        if not equals:
            raise InvalidUsage(f"--set {word!r}: expected NAME=VALUE")
        if name not in known:
            import difflib

            near = difflib.get_close_matches(name, known, 3, 0.4) or sorted(known)
            raise InvalidUsage(
                f"--set {name}: no benchmark and no platform has such a parameter; perhaps {', '.join(near)}?"
            )
        # JUBE makes a workpackage for each of several values with commas between.
        number = re.fullmatch(r"([0-9]+(,[0-9]+)*)?", value) or (name in or_auto and value == AUTO)
        if name in plain | or_auto and not number:
            auto = f" or {AUTO}" if name in or_auto else ""
            raise InvalidUsage(f"--set {word}: {name} is a whole number{auto} ({known[name]} explains it)")
        if name in _AT_LEAST_ONE and "0" in value.split(","):
            raise InvalidUsage(f"--set {word}: at least one launch of each case is needed")
        variables[f"NPC_{name.upper()}"] = value
    return variables


def _refuse_unread(platform: Path) -> None:
    """Refuse a parameter ``reservation`` over a platform that reads ``npc_reservation``: it has no effect."""
    names = {
        parameter.get("name", "")
        for file in platform_files(platform / "platform.xml")
        for parameter in read_jube_file(file).iter("parameter")
    }
    for name in sorted(names):
        if f"npc_{name}" in names:
            raise InvalidUsage(
                f"{platform / 'platform.xml'}: nothing reads its parameter {name}; call it npc_{name}"
            )


def paths_from_here(environment: Mapping[str, str]) -> dict[str, str]:
    """The environment with the files and folders among its settings as seen from where the user stands,
    because JUBE and the jobs stand elsewhere. A container image may be none: it is one where it is there."""
    return {
        name: ",".join(
            str(Path(path).absolute()) if path and (name != IMAGE or Path(path).exists()) else path
            for path in value.split(",")
        )
        if name == IMAGE or _PATH_SETTING.fullmatch(name)
        else value
        for name, value in environment.items()
    }


def environment_from_here(variables: Mapping[str, str]) -> dict[str, str]:
    """Of JUBE and all that it starts: this process's, with further variables."""
    return {**paths_from_here({**os.environ, **variables}), "PATH": search_path()}


def platform_folder(home: Path, name: str) -> Path:
    """The folder of a platform: its name below ``platforms/``, the user's own or the suite's, or any folder
    with a ``platform.xml``."""
    for folder in (workplace() / "platforms" / name, home / "platforms" / name, Path(name)):
        if (folder / "platform.xml").exists():
            return folder.resolve()
    raise _unknown("platform", name, home, "a folder")


def benchmark_file(home: Path, name: str) -> Path:
    """The JUBE file of one benchmark: its folder's name in ``benchmarks/``, or any file."""
    for file in (home / "benchmarks" / name / "benchmark.xml", Path(name)):
        if file.is_file():
            return file.resolve()
    raise _unknown("benchmark", name, home, "a JUBE file")


def _unknown(what: str, name: str, home: Path, other: str) -> InvalidUsage:
    files = (path for place in (workplace(), home) for path in (place / f"{what}s").glob(f"*/{what}.xml"))
    known = sorted({path.parent.name for path in files})
    return InvalidUsage(f"--{what} {name}: no such {what}; there are {', '.join(known)}, or name {other}")
