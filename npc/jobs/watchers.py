"""Watchers: on each other node of a Slurm job a process that sleeps, and looks around each launch there, too.

``npc records sample`` runs on one node, its launches on all of them. One job step, which takes nothing from
those of the launches (``srun --overlap``), has a watcher on each other node. It sleeps on its stdin, which
srun copies to all of them: ``look`` before a launch, ``results`` after it; each answers by a line of JSON.
Where there is no such step, or one does not answer in time, the launcher's node alone is looked at.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import selectors
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import Any, Final

from npc.jobs import session
from npc.machine.around import LaunchObservations, NodeResults
from npc.machine.command import run
from npc.machine.fabric import short_name
from npc.machine.tools import VERSION_TIMEOUT_S
from npc.python import python
from npc.terminal import guard

LOOK: Final = "look"
RESULTS: Final = "results"
#: Since then a step with --overlap shares with all others, also with those that do not ask for it (srun(1)).
OLDEST_SLURM: Final = (22, 5)
#: For the first answer, when the step and Python have to start, and for each other one.
START_S: Final = 10.0
ANSWER_S: Final = 2.0
#: A step that was told to end is killed after this.
_GRACE_S: Final = 1.0


def this_node() -> str:
    """This host by the name that Slurm has for it, else its own."""
    return os.environ.get("SLURMD_NODENAME", os.uname().nodename)


class Watchers:
    """The watchers on `hosts`; none where Slurm cannot start any."""

    def __init__(self, hosts: Sequence[str]) -> None:
        self._waiting_for = {short_name(host): host for host in hosts}
        self._step = self._start(hosts)
        self._limit_s = START_S
        self._half = b""

    def look(self) -> None:
        """Have all look, just before a launch; returns when they have."""
        self._ask(LOOK)

    def results(self) -> list[tuple[str, NodeResults]]:
        """Host and results of each watcher since `look`; none of a host that does not answer."""
        answers = self._ask(RESULTS)
        return [(host, answers[host]) for host in self._waiting_for.values() if host in answers]

    def close(self) -> None:
        """End them: they end with their stdin."""
        if self._step:
            with contextlib.suppress(OSError):
                self._step.stdin.close()  # type: ignore[union-attr]
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._step.wait(_GRACE_S)
            session.end(self._step.pid, _GRACE_S)
            self._step.wait()
            self._step.stdout.close()  # type: ignore[union-attr]
            self._step = None

    def _start(self, hosts: Sequence[str]) -> subprocess.Popen[bytes] | None:
        srun, inside = shutil.which("srun"), os.environ.get("SLURM_JOB_ID")
        # in a job of several components srun needs to be told which of them
        if not hosts or srun is None or not inside or "SLURM_HET_SIZE" in os.environ:
            return None
        version = re.search(r"(\d+)\.(\d+)", run([srun, "--version"], timeout_s=VERSION_TIMEOUT_S).stdout)
        if version is None or (int(version[1]), int(version[2])) < OLDEST_SLURM:
            return None
        argv = [
            srun, "--overlap", "--quiet", "--mpi=none", "--cpu-bind=none", "--input=all", "--unbuffered",
            f"--nodelist={','.join(hosts)}", f"--nodes={len(hosts)}", f"--ntasks={len(hosts)}",
            "--ntasks-per-node=1", "--cpus-per-task=1", *python("-m", __name__),
        ]  # fmt: skip
        with contextlib.suppress(OSError):
            return subprocess.Popen(
                argv,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        return None

    def _ask(self, what: str) -> dict[str, Any]:
        """The answers by host. From then on nobody is asked any more where one is missing."""
        answers: dict[str, Any] = {}
        if self._step is None:
            return answers
        deadline = time.monotonic() + self._limit_s
        with contextlib.suppress(OSError):
            assert self._step.stdin
            self._step.stdin.write(f"{what}\n".encode())
            self._step.stdin.flush()
            while len(answers) < len(self._waiting_for) and (lines := self._lines(deadline)):
                for answer in map(json.loads, lines):
                    if answer["to"] == what and answer["host"] in self._waiting_for:
                        answers[self._waiting_for[answer["host"]]] = answer["results"]
        if len(answers) < len(self._waiting_for):
            self.close()
            return {}
        self._limit_s = ANSWER_S
        return answers

    def _lines(self, deadline: float) -> list[bytes]:
        """The next whole lines of the step; none at its end, or at the deadline."""
        assert self._step and self._step.stdout
        with selectors.DefaultSelector() as selector:
            selector.register(self._step.stdout, selectors.EVENT_READ)
            while b"\n" not in self._half:
                if not selector.select(max(0.0, deadline - time.monotonic())):
                    return []
                data = os.read(self._step.stdout.fileno(), 2**16)
                if not data:
                    return []
                self._half += data
        *lines, self._half = self._half.split(b"\n")
        return lines


def main() -> None:
    """A watcher: answers on stdout what it is asked on stdin, until that ends."""
    around: LaunchObservations | None = None
    for line in sys.stdin:
        results = None
        if line.strip() == LOOK:
            around = LaunchObservations()
        elif around:
            results = around.result()
        answer = {"to": line.strip(), "host": short_name(this_node()), "results": results}
        os.write(1, (json.dumps(answer) + "\n").encode())  # one write: the lines of all nodes come together


if __name__ == "__main__":
    guard()
    main()
