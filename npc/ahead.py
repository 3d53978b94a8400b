"""A second process that loads slow libraries while this one reads and counts, and then works with them.

Loading Matplotlib takes as long as reading tens of thousands of records; with two processors both take the
time of one. Nothing but time depends on it: what cannot be done there is done here.
"""

from __future__ import annotations

import atexit
import contextlib
import importlib
import os
import pickle
import signal
import sys
from collections.abc import Callable
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T")


class Ahead:
    """Context: within it there is a process that has loaded `modules`, or is at it."""

    def __init__(self, *modules: str) -> None:
        self._modules = modules
        self._link: Connection | None = None

    def __enter__(self) -> Ahead:
        if not _is_worth_it(self._modules):
            return self
        # By fork, which has all that is loaded here already; there are no threads yet that it could cut off.
        context = get_context("fork")
        here, there = context.Pipe()
        self._process = context.Process(target=_serve, args=(there, here, self._modules))
        try:
            self._process.start()
            self._link = here
        except OSError:  # no more processes allowed: so be it
            here.close()
        there.close()
        return self

    def __exit__(self, *_: object) -> None:
        if self._link is not None:
            self._link.close()
            self._process.join()  # not killed: it may be writing down which fonts there are

    def begin(self, function: Callable[..., T], *arguments: Any) -> Callable[[], T]:
        """Have `function` called there; calling what is given back waits for its result or its exception.

        One at a time. Where there is no such process any more, it is called here, and then.
        """
        if self._link is None:
            return lambda: function(*arguments)
        try:
            self._link.send((function, arguments))
        except OSError:
            return lambda: function(*arguments)
        return lambda: self._end(function, arguments)

    def _end(self, function: Callable[..., T], arguments: tuple[Any, ...]) -> T:
        assert self._link is not None
        try:
            result, error = self._link.recv()
        except (EOFError, OSError):  # it was killed: the kernel ran out of memory
            return function(*arguments)
        if error is not None:
            raise error
        return result  # type: ignore[no-any-return]


def _is_worth_it(modules: tuple[str, ...]) -> bool:
    return (
        not all(module in sys.modules for module in modules)
        and len(os.sched_getaffinity(0)) > 1
        and len(list(Path("/proc/self/task").iterdir())) == 1
    )


def _serve(link: Connection, other_end: Connection, modules: tuple[str, ...]) -> None:
    """What the second process does, until the first one has closed its end."""
    other_end.close()
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # the first one says what there is to say
    atexit._clear()  # what the first one has to do at its end
    for module in modules:
        with contextlib.suppress(ImportError):  # whoever needs it will say so
            importlib.import_module(module)
    _answer(link)
    atexit._run_exitfuncs()  # before Python 3.13 nobody does: Matplotlib may have a temporary folder


def _answer(link: Connection) -> None:
    """Call what is sent and send what comes of it, until nobody waits any more."""
    while True:
        try:
            function, arguments = link.recv()
        except (EOFError, OSError):
            return
        result, failure = None, None
        try:
            result = function(*arguments)
        except Exception as error:
            failure = error
        try:
            link.send((result, failure))
        except (OSError, pickle.PicklingError, AttributeError, TypeError):
            return  # nobody waits, or it is no message: then it happens again where it can be told
