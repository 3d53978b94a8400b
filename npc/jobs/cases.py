"""What the scripts share that make a benchmark's cases (``benchmarks/*/cases.py``) for ``npc records
sample``."""

from __future__ import annotations

import json
import shutil
import socket
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path

from npc.machine.libraries import chosen


class Unavailable(ValueError):
    """What is to be measured is not on this node; the message says how to get it."""


def write(cases: Callable[[], Iterable[Mapping[str, object]]]) -> str | None:
    """Print the cases, a line each; returns what is wrong with the settings, or missing here."""
    try:
        for case in cases():
            print(json.dumps(case))
    except Unavailable as error:
        return f"unavailable: {error}"
    except ValueError as error:
        return f"cases.py: {error}"
    return None


def words_of(setting: str, text: str, known: Collection[str], none: str = "") -> list[str]:
    """Words with commas between; `none` stands for none. Raises ValueError."""
    words = [word for word in text.split(",") if word]
    if none and words == [none]:
        return []
    if not words or not set(words) <= set(known):
        raise ValueError(f"{setting} {text}: of {', '.join(known)}{f', or {none}' if none else ''}")
    return words


def numbers_of(setting: str, text: str) -> list[int]:
    """Whole numbers with commas between. Raises ValueError."""
    words = text.split(",")
    if not all(word.isascii() and word.isdecimal() and int(word) for word in words):
        raise ValueError(f"{setting} {text}: whole numbers of at least 1, commas between")
    return [int(word) for word in words]


def libraries_of(setting: str, text: str, known: Sequence[str], package: str) -> dict[str, str]:
    """Path → name of the libraries that are asked for (`npc.machine.libraries.chosen`). Raises ValueError.
    package: Debian's of one of them."""
    try:
        names_by_path = chosen(text, known)
    except ValueError as error:
        raise ValueError(f"{setting} {error}") from None
    if not names_by_path:
        raise Unavailable(
            f"none of {', '.join(known)} on {socket.gethostname()}: apt-get install {package}, load a "
            f"module, or name one by --set {setting}=PATH"
        )
    return names_by_path


def program_of_ior(name: str, setting: str, prefix: str) -> str:
    """The path of a program of IOR's below a prefix, or on the PATH. Raises `Unavailable`."""
    below = (path for path in Path(prefix).rglob(name) if path.is_file()) if prefix else ()
    program = str(min(below, default="")) if prefix else shutil.which(name)
    if not program:
        where = f"below {setting} {prefix}" if prefix else "in PATH"
        raise Unavailable(
            f"{name}: not found {where} on {socket.gethostname()}: load the module IOR, `spack install ior`, "
            f"or build https://github.com/hpc/ior and name it by --set {setting}=PATH"
        )
    return program
