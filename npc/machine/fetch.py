"""Fetch into this Python's environment what no package brings: ``python -m npc.machine.fetch osu jube``.

osu: the OSU benchmarks' ports in mpi4py's source distribution, of the mpi4py that is installed.
jube: JUBE's release, whose address and sum ``tools.ini`` has, where there is no ``jube`` yet.

The set-up calls it, and people who have installed NPC from a wheel; hence only the standard library.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
import tarfile
import tempfile
from http.client import HTTPException
from importlib import metadata
from pathlib import Path
from typing import Final
from urllib.request import urlopen

from npc.machine.tools import OSU_PORTS, find, named
from npc.python import python
from npc.terminal import guard

#: Seconds after which an address that does not answer is taken to be out of reach.
_PATIENCE_S: Final = 20.0


class NotFetched(Exception):
    """Something could not be fetched; the message says why and what to do instead."""


def fetch_osu() -> str:
    """Put mpi4py's ports of the OSU benchmarks (``demo/osu_*.py``) beside the environment. Returns what was
    done, in words; "" if they are there already.

    pip gets the sources from wherever this site gets its packages, and asks the build back end for the
    metadata, but compiles nothing. Raises `NotFetched`.
    """
    without = "no OSU benchmarks: mpi4py's sources could not be fetched; name a C build with NPC_OSU_PREFIX"
    try:
        version = metadata.version("mpi4py")
    except metadata.PackageNotFoundError:
        raise NotFetched(f"mpi4py is not installed\n{without}") from None
    stamp = OSU_PORTS / "VERSION"
    if stamp.exists() and stamp.read_text(encoding="utf-8").strip() == version:
        return ""
    with tempfile.TemporaryDirectory() as scratch:
        sources = ["--no-deps", "--no-binary", "mpi4py", f"mpi4py=={version}"]
        pip("download", "-d", scratch, *sources, instead=without)
        (archive,) = Path(scratch).glob("mpi4py-*.tar.gz")
        with tarfile.open(archive) as packed:
            members = [
                entry for entry in packed if Path(entry.name).match("*/demo/osu_*.py") and entry.isfile()
            ]
            OSU_PORTS.mkdir(parents=True, exist_ok=True)
            for member in members:
                source = packed.extractfile(member)
                assert source is not None
                with source, (OSU_PORTS / Path(member.name).name).open("wb") as target:
                    shutil.copyfileobj(source, target)
    stamp.write_text(f"{version}\n", encoding="utf-8")
    return f"the OSU benchmarks of mpi4py {version} are in {OSU_PORTS}"


def fetch_jube() -> str:
    """Install JUBE's release by pip, once its checksum is right. Returns what was done, in words; "" if there
    is a ``jube`` already.

    Raises `NotFetched` with the commands that do it by hand.
    """
    if find("jube"):
        return ""
    tool = named("jube")
    file = tool.release.rpartition("=")[2].rpartition("/")[2]
    by_hand = (
        "no JUBE: load its module, or install it from its release, which a machine with internet can get:\n"
        f"  curl -fL -o {file} '{tool.release}' && echo '{tool.sha256}  {file}' | sha256sum -c\n"
        f"  {sys.executable} -m pip install ./{file}"
    )
    with tempfile.TemporaryDirectory() as scratch:
        archive = Path(scratch, file)
        try:
            with urlopen(tool.release, timeout=_PATIENCE_S) as source, archive.open("wb") as target:
                shutil.copyfileobj(source, target)
        except (OSError, HTTPException) as error:
            raise NotFetched(f"{tool.release}: {getattr(error, 'reason', error)}\n{by_hand}") from None
        digest = hashlib.sha256(archive.read_bytes()).hexdigest()
        if digest != tool.sha256:
            raise NotFetched(f"{tool.release}: SHA-256 is {digest}, not {tool.sha256}\n{by_hand}")
        pip("install", str(archive), instead=by_hand)
    return f"JUBE ({file}) is in {sys.prefix}"


def pip(*words: str, instead: str) -> None:
    """Run this environment's pip. Raises `NotFetched` with its last error and what to do `instead`."""
    command = python("-m", "pip", "--disable-pip-version-check", "--no-input", *words, "-q")
    ended = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if ended.returncode:
        lines = [line.strip() for line in (ended.stderr + ended.stdout).splitlines()]
        errors = [line for line in lines if line.startswith("ERROR:")] or lines
        raise NotFetched("\n".join([*errors[-1:], instead]))


def main(words: list[str]) -> int:
    """Fetch what the words name. Returns the exit code: 0, 1 if one of them could not be fetched, 2 if one is
    not known."""
    known = {"osu": fetch_osu, "jube": fetch_jube}
    if not words or set(words) - set(known):
        print(f"usage: python -m npc.machine.fetch {'|'.join(known)}", file=sys.stderr)
        return 2
    code = 0
    for word in words:
        try:
            if done := known[word]():
                print(done)
        except (NotFetched, OSError) as error:
            print(error, file=sys.stderr)
            code = 1
    return code


if __name__ == "__main__":
    guard()
    sys.exit(main(sys.argv[1:]))
