"""The process that makes events (`events.py`), from its start to its end."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Final

from npc.machine.command import exit_words
from npc.observe.costs.cache import NoCost

_EVENTS: Final = Path(__file__).with_name("events.py")


class CostProgram:
    """Ended at the end of a ``with``."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-ES", str(_EVENTS)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.pid = self._process.pid

    def make(self, kind: str, number: int) -> float:
        """Seconds that one of `number` events took. Raises NoCost."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(kind, number, file=self._process.stdin, flush=True)
        line = self._process.stdout.readline()
        if not line:
            raise NoCost(f"{_EVENTS} ended: {exit_words(self._process.wait())}")
        return float(line)

    def __enter__(self) -> CostProgram:
        return self

    def __exit__(self, *_: BaseException | type[BaseException] | TracebackType | None) -> None:
        self._process.kill()
        self._process.communicate()
