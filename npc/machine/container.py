"""The container that a job starts its tools in: which it is, and what it keeps from MPI.

Two processes of one node exchange large messages by a single copy (CMA: process_vm_readv(2)) where the kernel
lets one read the other's memory. It does not between two user namespaces, and an Apptainer without setuid
gives each rank one of its own. Opening ``/proc/PID/mem`` asks for the same right (ptrace(2), access mode
checking), which a shell can do: an image need not have more. A filter of system calls is not seen this way.
"""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import threading
import uuid
from collections.abc import Sequence
from typing import Any, Final

from npc.machine.command import run
from npc.places import home
from npc.records.launch import container_of

#: What stands before a tool, in a job (``benchmarks/container.sh``); the image, where a user sets it.
COMMAND: Final = "NPC_IN_CONTAINER"
IMAGE: Final = "NPC_CONTAINER"
#: How long a container may take to start, with an image that has to be unpacked.
START_S: Final = 60.0
#: A process that names itself, and waits for the end of its input.
_WAITS: Final = 'echo "$$"; read -r line'
#: Whether it is the one with this number, and whether its memory may be read. Its mark is no argument: where
#: the number is that of another process, it may be this one.
_READS: Final = (
    'read -r mark; case "$(tr "\\0" " " < "/proc/$1/cmdline")" in '
    '*"$mark"*) : < "/proc/$1/mem" ;; *) exit 3 ;; esac'
)
#: The version in PMIx's library, that beside mpirun first: ``OpenPMIx 4.2.2``.
_PMIX: Final = """
mpirun=$(command -v mpirun) && set -- "${mpirun%/*}"/../lib*/libpmix.so.2
known=$(ldconfig -p | sed -n 's/.*libpmix.so.2 .*=> //p')
for file in "$@" $known /usr/lib*/libpmix.so.2 /usr/local/lib*/libpmix.so.2; do
    [ ! -e "$file" ] || { grep -ao 'PMIx [1-9][0-9a-z.]*' "$file"; exit; }
done
"""


def look() -> dict[str, Any] | None:
    """What ``environment.json`` has of the container; None where tools run outside of any."""
    command, problem = _command()
    if not command and not problem:
        return None
    single_copy, refusal = (None, "") if problem else _single_copy(command)
    return {
        "image": container_of([*command, "true"]) or os.environ.get(IMAGE, ""),
        "command": " ".join(command),
        "problem": problem or (refusal if single_copy is None else ""),
        "single_copy": single_copy,
        "single_copy_refused": refusal if single_copy is False else "",
        "pmix": {"inside": None if problem else _pmix(command), "outside": _pmix([])},
    }


def _command() -> tuple[list[str], str]:
    """(what stands before a tool, why nothing can); both empty where no container is asked for."""
    if os.environ.get(COMMAND) or not os.environ.get(IMAGE):
        return os.environ.get(COMMAND, "").split(), ""
    script = f'. "$0" "$@" && printf %s "${COMMAND}"'
    settings = [os.environ[IMAGE], os.environ.get("NPC_CONTAINER_RUNTIME", ""), "", str(home())]
    answer = run(["bash", "-c", script, str(home() / "benchmarks/container.sh"), *settings])
    return answer.stdout.split(), answer.stderr.strip() if answer.returncode else ""


def _single_copy(command: Sequence[str]) -> tuple[bool | None, str]:
    """(whether one container's process may read another's memory, what refused it); (None, why) where no
    container starts."""
    mark = uuid.uuid4().hex
    first = subprocess.Popen(
        [*command, "sh", "-c", _WAITS, mark], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    limit = threading.Timer(START_S, first.kill)
    limit.start()
    try:
        assert first.stdout is not None
        number = first.stdout.readline().strip()
        if not number.isdecimal():
            return None, first.communicate()[1].strip() or "it started nothing"
        second = run([*command, "sh", "-c", _READS, "sh", number], f"{mark}\n", START_S)
    finally:
        with contextlib.suppress(ValueError, subprocess.TimeoutExpired):  # it was read to its end
            first.communicate(timeout=1)  # the end of its input ends it
        limit.cancel()
        first.kill()
        first.wait()
    if second.returncode == 0:
        return True, ""
    if second.returncode == 3:
        return False, "each container has process numbers of its own"
    return False, second.text.strip().rpartition(": ")[2]


def _pmix(command: Sequence[str]) -> str | None:
    """The version of PMIx's library in the container, or here; None where none is found."""
    answer = run([*command, "sh", "-c", _PMIX], timeout_s=START_S)
    version = re.search(r"PMIx (\S+)", answer.stdout)
    return version[1] if version else None
