"""Lets a rank be watched by the probes of its node.

One process a node, the keeper (`npc.observe.probes.keeper`), attaches all probes for all ranks of the node;
the first rank starts it. Ranks and keeper talk through a socket that has a name in the node's memory only: it
goes with the keeper, and the one who binds the name is the first. No access rights guard such a name, so it
is made of a number that nobody else can read, and each end asks the kernel whether the other is of its own
user. Only the standard library, as in `npc.observe.rank`.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from npc.observe.options import Companion
from npc.observe.probes.credentials import peer
from npc.observe.probes.settings import Settings, read_token
from npc.processes import RANK, first_number

#: The keeper gives up on a bpftrace long before.
_PATIENCE_S: Final = 60.0
#: A keeper that has just ended, since all ranks that it knew had, is followed by another one.
_TRIES: Final = 3


class RankProbes(Companion):
    """Has a keeper on this node attach the probes before the rank begins."""

    def __init__(self, folder: Path, name: str, settings: Mapping[str, Any]) -> None:
        self._folder, self._name = folder, name
        self._settings = Settings(**settings)  # type: ignore[typeddict-item]
        self._reason = ""
        self._keeper: socket.socket | None = None
        self._token: int | None = None
        self._join()

    @property
    def files(self) -> tuple[int, ...]:
        return (self._keeper.fileno(),) if self._keeper is not None else ()

    def begin(self, process: int) -> None:
        for _ in range(_TRIES):
            if self._answer_to({"rank": first_number(RANK) or 0}) is not None:
                return
            self._join()
        self._reason = self._reason or "the process that attaches probes has ended"

    def become(self) -> None:
        if self._token is not None:
            announce(self._token, first_number(RANK) or 0)

    def end(self) -> dict[str, Any] | None:
        if self._keeper is not None and self._answer_to({"ended": True}) is None:
            self._clear_up()
            self._reason = self._reason or "the process that attaches probes ended before the program"
        return {"reason": self._reason} if self._reason else None

    def _clear_up(self) -> None:
        """After a keeper that was killed."""
        from npc.observe.probes.settings import UNFINISHED

        for mark in self._folder.glob(f"{socket.gethostname()}.*.{UNFINISHED}"):
            mark.unlink(missing_ok=True)

    def _join(self) -> None:
        """Connect to the node's keeper; start it where there is none."""
        self._keeper = None
        try:
            self._token = read_token(self._folder)
        except (OSError, ValueError) as error:
            self._reason = f"the process that attaches probes cannot be found: {error}"
            return
        address = f"\0npc-probes-{self._token}"
        with contextlib.ExitStack() as opened:
            listening = opened.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
            try:
                listening.bind(address)
                listening.listen(socket.SOMAXCONN)
                # the launcher's CPUs are the job's; a rank may have been bound to some of them
                self._start_keeper(listening, self._token, os.sched_getaffinity(os.getppid()))
            except OSError:
                pass  # another rank was faster
            keeper = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            keeper.settimeout(_PATIENCE_S)
            try:
                keeper.connect(address)
                if (user := peer(keeper).user) != os.geteuid():
                    raise PermissionError(f"user {user} listens in its place")
                self._keeper, self._reason = keeper, ""
            except OSError as error:
                keeper.close()
                self._reason = f"the process that attaches probes cannot be reached: {error}"

    def _start_keeper(self, listening: socket.socket, token: int, cpus: Iterable[int]) -> None:
        if os.fork():
            return
        try:
            from npc.observe.probes.keeper import keep

            keep(listening, self._folder, self._name, token, self._settings, cpus)
        finally:
            os._exit(0)

    def _answer_to(self, message: dict[str, Any]) -> str | None:
        """The keeper's answer; None where it is gone."""
        if self._keeper is None:
            return None
        try:
            self._keeper.sendall(json.dumps(message).encode() + b"\n")
            return self._keeper.recv(64).decode() or None
        except OSError:
            return None


def announce(token: int, rank: int) -> None:
    """Tell whoever watches the tracepoint timer:itimer_state that this process becomes a rank."""
    signal.setitimer(signal.ITIMER_PROF, token, rank + 1)
    signal.setitimer(signal.ITIMER_PROF, 0)
