"""Containers for tests: a stand-in for Apptainer, whose release is in no Debian.

`stand_in` writes a program ``apptainer`` that takes ``exec``'s options and does by bubblewrap what matters
here: each process has a user and a mount namespace of its own, and the network, the process numbers and the
environment of who starts it. An image is a text file of bubblewrap's options: what of this machine is inside.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from npc.machine.tools import find

_PROGRAM: Final = r"""#!/bin/bash
# apptainer [--silent] exec [--bind FOLDER]… IMAGE COMMAND…
[ "$1" != --silent ] || shift
[ "$1" = exec ] || { echo "FATAL: $1: only exec is here" >&2; exit 255; }
shift
binds=()
while [ "$1" = --bind ]; do
    binds+=(--bind "$2" "$2")
    shift 2
done
[ -e "$1" ] || { echo "FATAL:   could not open image $1: no such file or directory" >&2; exit 255; }
mapfile -t inside < "$1"
shift
exec bwrap --unshare-user --die-with-parent --dev-bind /dev /dev --proc /proc --bind /tmp /tmp \
    --bind "$HOME" "$HOME" "${inside[@]}" "${binds[@]}" \
    --setenv PATH "/inside:$PATH" --chdir "$PWD" -- "$@"
"""
#: The machine's programs, and a compiler by a name that there is only inside.
_INSIDE: Final = """\
--ro-bind
/usr
/usr
--ro-bind
/etc
/etc
--symlink
usr/bin
/bin
--symlink
usr/lib
/lib
--symlink
usr/lib64
/lib64
--symlink
usr/sbin
/sbin
--ro-bind
{inside}
/inside
"""


def missing() -> str:
    """What keeps the stand-in from being used here; empty if nothing does."""
    return "" if find("bwrap") else "no bwrap: apt-get install bubblewrap"


def stand_in(folder: Path) -> tuple[Path, Path]:
    """(a folder for the PATH with ``apptainer`` in it, an image of this machine's own programs)."""
    programs = folder / "programs"
    programs.mkdir()
    program = programs / "apptainer"
    program.write_text(_PROGRAM)
    program.chmod(0o755)
    image = folder / "tools.sif"
    inside = folder / "inside"
    inside.mkdir()
    compiler = inside / "mpicc.inside"
    compiler.write_text('#!/bin/sh\nexec mpicc "$@"\n')
    compiler.chmod(0o755)
    image.write_text(_INSIDE.format(inside=inside))
    return programs, image
