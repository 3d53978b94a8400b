"""Where in a launcher's command line the program begins, so that something can stand before it.

``mpirun -n 4 --bind-to core ./app in.dat`` has its program at ``./app``. Options that take values differ from
launcher to launcher, so the known ones are named here, and what remains doubtful is asked for.
"""

from __future__ import annotations

import math
import mmap
import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePath
from typing import Final

from npc.files import open_regular

#: Programs whose reports have a parser.
PARSERS: Final = {"xhpcg": "hpcg", "xhpl": "hpl", "hpcc": "hpcc", "himeno": "himeno"}
#: Options of mpirun that are followed by a value: Open MPI 4 and 5 (mpirun(1)), Hydra of MPICH and Intel MPI.
_MPIRUN_VALUE: Final = """
    -n -np --np -c -N -npernode --npernode -npersocket --npersocket -H -host --host -hosts -hostfile
    --hostfile -machinefile --machinefile -f -rf --rankfile -bind-to --bind-to -map-by --map-by -rank-by
    --rank-by -x -wdir --wdir -wd --wd -path --path --prefix --preload-files -output-filename
    --output-filename -app --app -s --stdin -timeout --timeout -cpus-per-proc --cpus-per-proc -cpu-set
    --cpu-set -cpu-list --cpu-list -slot-list --slot-list -am --am -tune --tune --personality --output
    --runtime-options --launch-agent -genvlist -envlist -ppn -perhost -bootstrap -launcher -rmk -iface
    -usize -hostlist -outfile-pattern -errfile-pattern
"""
#: And by two: a name and its value.
_MPIRUN_PAIR: Final = "-mca --mca -gmca --gmca -genv -env --prtemca --pmixmca"
#: Options of srun(1) that are followed by a value; the long ones may be written with "=" as well.
SRUN_VALUE: Final = """
    -n -N -c -p -A -t -J -w -x -o -e -i -m -C -L -M -q -r -W -D -d -B -S --mpi --ntasks --nodes
    --partition --account --time --nodelist --exclude --cpus-per-task --ntasks-per-node --distribution
    --cpu-bind --mem-bind --mem --gres --gpus --constraint --reservation --het-group --export --output
    --container-image --container-mounts --container-name --container-workdir
    --container-env --error --job-name --chdir --qos --threads-per-core --hint --mem-per-cpu
"""
_MPIRUN: Final = dict.fromkeys(_MPIRUN_VALUE.split(), 1) | dict.fromkeys(_MPIRUN_PAIR.split(), 2)
_SRUN: Final = dict.fromkeys(SRUN_VALUE.split(), 1)
#: Words that follow an option, by launcher.
_FOLLOWING: Final[dict[str, dict[str, int]]] = {
    "srun": _SRUN,
    **dict.fromkeys(("mpirun", "mpiexec", "orterun", "prterun", "prun", "mpiexec.hydra"), _MPIRUN),
    **dict.fromkeys(("mpirun.openmpi", "mpiexec.openmpi", "mpirun.mpich", "mpiexec.mpich"), _MPIRUN),
}
#: What starts the ranks of an MPI program.
MPI_STARTERS: Final = frozenset(_FOLLOWING)


class UnknownProgram(ValueError):
    """It cannot be told where the program begins; the message says how to tell it."""


def program_index(command: Sequence[str], program: str = "") -> int:
    """The place of the program in `command`: 0 without a launcher; `program` names it where that is needed.

    Raises `UnknownProgram`.
    """
    if program:
        if program not in command:
            raise UnknownProgram(f"--program {program}: the command has no such word")
        return command.index(program)
    following = _FOLLOWING.get(PurePath(command[0]).name)
    if following is None:
        return 0
    if ":" in command:
        raise UnknownProgram("several programs in one command (':') cannot be observed together")
    place = 1
    while place < len(command):
        word = command[place]
        if word == "--":
            place += 1
            break
        if not word.startswith("-"):
            break
        place += 1 + following.get(word, 0)
    if place >= len(command) or not _is_program(command[place]):
        what = f"{command[place]!r} is no program" if place < len(command) else "it has no program"
        raise UnknownProgram(
            f"cannot tell where the program of this command begins ({what}): name it by --program"
        )
    return place


def _is_program(word: str) -> bool:
    # mpirun also starts what lies in its folder without a path before it.
    return shutil.which(word) is not None or (Path(word).is_file() and os.access(word, os.X_OK))


@contextmanager
def content_of(program: str) -> Iterator[mmap.mmap | bytes]:
    """The bytes of a program's file; none where it is not there, cannot be read, or is empty."""
    try:
        with open_regular(Path(shutil.which(program) or program), math.inf) as stream:
            content = mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ)
    except (OSError, ValueError):
        yield b""
        return
    with content:
        yield content
