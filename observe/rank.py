"""Stands between the MPI launcher and one rank of the program: reads the node's counters before and after it.

    python -ES observe/rank.py FOLDER ASKED PROGRAM [ARGUMENT…]

ASKED is the JSON object that `npc.observe.options` describes: not every launcher takes its own variables to
all nodes.

The rank runs as a child with this process's environment, standard streams and binding, so MPI's start-up
protocol finds what it expects. The CPUs that the launcher has bound it to are kept; what a library binds
later is not seen. Meanwhile this process sleeps in waitid(2), and
reads what the rank's calls and the storage moved before it is gone. Signals are passed on; the exit
code, or the signal that ended the rank, is handed back. What was read goes to ``FOLDER/HOST.RANK.json``.
Only the standard library, since it starts once for every rank.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn

if not __package__:  # started by its path
    sys.path[0] = str(Path(__file__).absolute().parents[2])

from npc import own_folder
from npc.machine.sysfs import format_cpus
from npc.observe.counters import read_counters
from npc.observe.options import read_options
from npc.observe.own_session import leave_launcher
from npc.observe.passed_signals import SignalWitness, wait_for_end
from npc.observe.unchanged import end_like, given_signals, occupy_standard_descriptors, restore_environment
from npc.processes import RANK, RANKS, die_with_parent, first_number, read, storage_and_calls
from npc.terminal import guard

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from npc.observe.flop_counters import FlopCounter
    from npc.observe.options import Companion, ObservationOptions
    from npc.observe.papi import PapiCounter
    from npc.observe.unchanged import GivenSignals

#: Marks a rank that has not finished.
RUNNING: Final = "running"
_OPEN_MPI_COMMAND: Final = "OMPI_COMMAND"
_OPEN_MPI_ARGUMENTS: Final = "OMPI_ARGV"


def main(arguments: list[str]) -> NoReturn:
    """Run the rank, and end as it ends (by exit code 127 if it cannot be started, as a shell says it)."""
    occupy_standard_descriptors()
    given = given_signals()
    signal.signal(signal.SIGINT, given.action(signal.SIGINT))  # no traceback before the program begins
    folder, options, program = Path(arguments[0]), read_options(arguments[1]), arguments[2:]
    restore_environment()
    name = f"{socket.gethostname()}.{first_number(RANK) or 0}"
    running = folder / f"{name}.{RUNNING}"
    try:
        own_folder.check(folder)
    except OSError as error:  # whatever is written there, also by MPI, might go through somebody's link
        say(f"npc observe: {folder}: {error.strerror}: this rank is not observed")
        _become(program, given)
    companions = dict(_companions(options, folder, name))
    idle = _reading()
    time.sleep(options.background_s)
    counter, counted = _count(folder, options.counters)

    def finish(status: int, killed: bool = False, moved: dict[str, int] | None = None) -> None:
        end = _reading()
        if counter is not None and counted is not None and not killed:
            counted.update(counter.result())
        _save(folder / f"{name}.json", {
            "host": socket.gethostname(),
            "rank": first_number(RANK) or 0,
            "ranks": first_number(RANKS) or 1,
            "cpus": format_cpus(os.sched_getaffinity(0)),
            "threads": first_number(("OMP_NUM_THREADS",)) or 1,
            "idle": idle,
            "begin": begin,
            "end": end,
            "status": status,
            "counted": counted,
            "io": moved,
            "companions": {key: companion.end() for key, companion in companions.items()},
        })  # fmt: skip
        running.unlink(missing_ok=True)

    with contextlib.suppress(OSError):  # _save will say it
        own_folder.mark(running)
    held, release = os.pipe()
    with given.held():
        child = os.fork()
        if child == 0:
            die_with_parent(signal.SIGKILL)  # a rank must not outlive a launcher that kills us
            os.close(release)
            os.read(held, 1)  # ends when the companions are there
            os.close(held)
            for companion in companions.values():
                companion.become()
            _become(program, given)
        SignalWitness().pass_on(child)  # the witness ends with this process
    for companion in companions.values():
        companion.begin(child)
    begin = _reading()  # companions may have taken seconds
    for end in (held, release):
        os.close(end)
    files = {file for companion in companions.values() for file in companion.files}
    done = _stand_by(child, finish, files)
    wait_for_end(child)
    moved = storage_and_calls(child)
    given.ignore()  # what was read has to reach the disk
    status = os.waitpid(child, 0)[1]
    finish(status, moved=moved)
    os.write(done, b"!")
    end_like(os.waitstatus_to_exitcode(status))


def _companions(request: ObservationOptions, folder: Path, name: str) -> Iterator[tuple[str, Companion]]:
    for key, options in request.companions.items():
        try:
            yield key, options.make(folder, name)
        except Exception as error:  # a site's own may fail in any way: the program runs all the same
            say(f"npc observe: {key}: this rank is not observed: {type(error).__name__}: {error}")


def _become(program: list[str], given: GivenSignals) -> NoReturn:
    """In the rank's own process."""
    by_open_mpi = _OPEN_MPI_COMMAND in os.environ
    if by_open_mpi:  # what MPI_INFO_ENV tells the program of its command
        os.environ[_OPEN_MPI_COMMAND] = Path(program[0]).name
        os.environ[_OPEN_MPI_ARGUMENTS] = " ".join(program[1:])
        if not program[1:]:
            del os.environ[_OPEN_MPI_ARGUMENTS]
    given.hand_on()
    try:
        try:
            os.execvp(program[0], program)
        except FileNotFoundError:
            if not by_open_mpi:
                raise
            os.execv(program[0], program)  # it starts what lies in the present folder, too
    except OSError as error:
        say(f"{program[0]}: {error.strerror}")
        os._exit(127)


def _stand_by(child: int, finish: Callable[..., None], files: set[int]) -> int:
    """Start a process that finishes in our place if we are killed, as Hydra kills all ranks when one aborts.

    In a session of its own, and without what a launcher might wait for. `files` are kept open. Returns the
    descriptor to write to when all is done.
    """
    reading, writing = os.pipe()
    if os.fork():
        os.close(reading)
        return writing
    try:
        leave_launcher({reading, *files})
        if not os.read(reading, 1):
            _wait_for_end(child)
            finish(signal.SIGKILL, killed=True)
    finally:
        os._exit(0)


def _wait_for_end(process: int) -> None:
    for _ in range(200):
        if read(process) is None:
            return
        time.sleep(0.01)


def _count(folder: Path, group: str) -> tuple[FlopCounter | PapiCounter | None, dict[str, Any] | None]:
    """A counter that runs and where its result goes, if `group` is one and this rank is to count it."""
    host = socket.gethostname()
    if not group:
        return None, None
    from npc.observe.papi import EVENT, PapiCounter  # only if asked for

    if EVENT.fullmatch(group):
        papi = PapiCounter(folder, f"{host}.{first_number(RANK) or 0}", group)
        os.environ.update(papi.environment())
        return papi, {"group": group}
    try:
        own_folder.mark(folder / f"{host}.counting")
    except OSError:
        return None, None
    from npc.observe.flop_counters import FlopCounter, NoCounters  # of one rank a node, and only if asked for

    try:
        # the launcher's CPUs are the job's; a rank may have been bound to some of them
        return FlopCounter(folder, host, group, os.sched_getaffinity(os.getppid())), {"group": group}
    except (OSError, NoCounters) as error:
        return None, {"group": group, "reason": str(error)}


def _reading() -> dict[str, Any]:
    """The counters with the moment they were read (Unix time in seconds)."""
    return {"time": time.time(), "counters": read_counters()}


def _save(path: Path, content: dict[str, Any]) -> None:
    """Write the file whole or not at all; what goes wrong is said, and the rank's own exit code stands."""
    try:
        own_folder.save(path, [json.dumps(content).encode()])
    except OSError as error:
        say(f"npc observe: cannot write {path}: {error.strerror}")


def say(line: str) -> None:
    """On standard error, where that is not closed."""
    with contextlib.suppress(OSError):
        if sys.stderr is not None:
            print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    guard()
    main(sys.argv[1:])
