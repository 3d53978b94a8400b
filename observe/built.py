"""Libraries in C that are built on the user's machine, once, by the site's own compiler.

They are kept in the user's cache folder (``XDG_CACHE_HOME``, else ``~/.cache``) by what they are made of.
Programs load them: so nothing is taken from where others may write, nor built there.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Final

from npc.locks import LockHeld, only_one
from npc.machine.command import run
from npc.trust import make_private, others_may_write

_LIMIT_S: Final = 120.0


class NoLibrary(RuntimeError):
    """There is no library for this program; the message says why."""


def built(kind: str, name: str, made_of: Iterable[str], build: Callable[[Path], None]) -> Path:
    """The library ``CACHE/npc/KIND/DIGEST/NAME``; where there is none yet, `build` writes it to the path that
    it is given, in a folder of its own. made_of: texts that decide what comes out, sources and compiler.

    Raises `NoLibrary`, which `build` may raise as well.
    """
    digest = hashlib.sha256()
    for text in made_of:
        digest.update(text.encode())
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "npc" / kind
    library = cache / digest.hexdigest()[:24] / name
    try:
        if library.exists():
            _refuse_others(library)
            return library
        make_private(library.parent)
        _refuse_others(library.parent)
        with only_one(library.with_suffix(".lock"), limit_s=2 * _LIMIT_S, wait_s=_LIMIT_S):
            if not library.exists():
                build(library)
                library.chmod(library.stat().st_mode & ~0o022)  # whatever the umask is
    except LockHeld as other:
        raise NoLibrary(f"another process has been building {library.parent} for too long: {other}") from None
    except OSError as error:
        raise NoLibrary(f"cannot write into {library.parent}: {error.strerror}") from None
    return library


def _refuse_others(path: Path) -> None:
    if writable := others_may_write(path):
        raise NoLibrary(
            f"nothing is loaded from {path}, since others may write to {', '.join(writable)}: set "
            "XDG_CACHE_HOME to a folder of your own that all nodes share"
        )


def compile_library(command: Sequence[str], library: Path, what: str) -> None:
    """Run a compiler's command, whose ``-o FILE`` is left to this, and put the file in its place.

    Raises `NoLibrary`. what: of the library, for the message.
    """
    partial = library.with_name(f"{library.name}.partial")
    compiled = run([*command, "-o", str(partial)])
    if compiled.returncode:
        partial.unlink(missing_ok=True)
        first = next(
            (line for line in compiled.stderr.splitlines() if "error" in line), compiled.stderr.strip()
        )
        raise NoLibrary(f"{command[0]} does not build {what}: {first}")
    partial.replace(library)
