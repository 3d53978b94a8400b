"""What `npc observe --memory` asks of the companion in each rank."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from typing import Any, Final

from npc.launcher import content_of
from npc.observe.built import NoLibrary
from npc.observe.memory.build import memory_library
from npc.observe.memory.companion import VALGRIND

#: The library that programs of ``npc program cc`` are linked with.
_COUNTS: Final = b"libnpc-memory-count.so"
_INTERVAL_S: Final = 0.1
#: The budget of sampling without a limit, as a multiple of the run time: the largest that the library
#: accepts.
_NO_LIMIT: Final = 10.0
#: What to do with a program that does not count by itself.
_THREE_WAYS: Final = """{program} was not built by npc program cc, c++ or fc. Choose one of three ways:

  build it again, CC="npc program cc"
      counts every access of its own code; an access takes 5 to 7 ns more
      (--memory=count for a script that starts a program so built)
  --memory=valgrind
      counts every access of the program as it is, libraries included, about half
      a million accesses a second; does not tell threads apart
  --memory=sample
      EXPERIMENTAL: takes the access to pages away from the program as it is, and
      catches SIGSEGV, SIGSYS and system calls; it may disturb or end a program
      that handles these itself; it sees first accesses alone: a hint, no proof

docs/memory.md says more of each."""


def memory_settings(
    mode: str, program: str, interval: float | None, budget: float | None
) -> Mapping[str, Any]:
    """Settings of the companion.

    mode: ``count``, ``sample``, ``valgrind``; ``auto``: count, if the program was built for it. interval: s;
    budget: share of the run time, None without a limit. Raises `npc.observe.built.NoLibrary`, and ValueError
    for settings that do not go together, also for ``auto`` and a program that was not built to count: the
    other modes are never chosen by themselves.
    """
    counts = is_counting(program)
    if mode == "auto" and not counts:
        raise ValueError(_THREE_WAYS.format(program=program))
    if mode == "auto":
        mode = "count"
    if mode != "sample" and interval is not None:
        raise ValueError("--interval goes with --memory=sample: counting sees every access")
    if mode == "sample" and counts:
        raise ValueError(f"{program} was built by npc program cc and counts: build it as usual to sample it")
    if mode == "valgrind":
        if shutil.which(VALGRIND[0]) is None:
            raise NoLibrary("no valgrind: apt-get install valgrind")
        return {
            "mode": mode,
            "library": str(memory_library("count")),
            "source": "every access, by Valgrind's lackey, of all threads as one",
        }
    if mode == "count":
        return {
            "mode": mode,
            "library": str(memory_library("count")),
            "source": "every access of code by npc program cc",
        }
    every = interval or _INTERVAL_S
    return {
        "mode": mode,
        "library": str(memory_library("sample")),
        "interval": every,
        "budget": _NO_LIMIT if budget is None else budget,
        "source": f"first accesses of a page, every {every:g} s",
    }


def is_counting(program: str) -> bool:
    """Whether it was built by ``npc program cc``."""
    with content_of(program) as content:
        return content.find(_COUNTS) >= 0
