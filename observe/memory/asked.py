"""What `npc observe --memory` asks of the companion in each rank."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from typing import Any, Final

from npc.jobs.launcher import content_of
from npc.observe.built import NoLibrary
from npc.observe.memory.build import memory_library
from npc.observe.memory.companion import VALGRIND

#: The library that programs of ``npc program cc`` are linked with.
_COUNTS: Final = b"libnpc-memory-count.so"
_INTERVAL_S: Final = 0.1
#: Of sampling without a limit, as parts of the run time: the most that the library takes for one.
_NO_LIMIT: Final = 10.0


def memory_settings(
    mode: str, program: str, interval: float | None, budget: float | None
) -> Mapping[str, Any]:
    """mode: ``count``, ``sample``, ``valgrind``; ``auto``: what the program was built for. interval: s;
    budget: of the run time, None without a limit. Raises `npc.observe.built.NoLibrary`, and ValueError for
    what does not go together."""
    counts = is_counting(program)
    if mode == "auto":
        mode = "count" if counts else "sample"
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
