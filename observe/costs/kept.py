"""Costs are measured once for a kernel, a processor and a version of the tool, and kept in the user's cache
folder (``XDG_CACHE_HOME``, else ``~/.cache``, there ``npc/costs``)."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

import click

from npc.files import write_whole
from npc.locks import Held, only_one
from npc.machine.topology import processors

#: Measuring takes seconds; whoever waits for another process's has the same costs.
_LIMIT_S: Final = 120.0


class NoCost(RuntimeError):
    """The cost cannot be measured here; the message says why."""


def machine() -> dict[str, str]:
    """What the cost of an event depends on: kernel and processor."""
    system = os.uname()
    return {
        "kernel": f"{system.release} {system.version}",
        "processor": processors()["model"] or system.machine,
    }


def kept(kind: str, key: Mapping[str, str], measure: Callable[[], Mapping[str, float]]) -> dict[str, float]:
    """Seconds by event, from the cache or as `measure` finds them. key: what they depend on besides the
    machine. Raises NoCost."""
    known = {**machine(), **key}
    digest = hashlib.sha256(json.dumps(known, sort_keys=True).encode()).hexdigest()[:16]
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "npc" / "costs"
    path = cache / f"{kind}-{digest}.json"
    if (found := _read(path)) is not None:
        return found
    try:
        cache.mkdir(parents=True, exist_ok=True)
        with only_one(path.with_suffix(".lock"), limit_s=_LIMIT_S, wait_s=_LIMIT_S):
            if (found := _read(path)) is None:
                click.echo(f"npc observe: measuring once what watching costs here ({kind})", err=True)
                found = dict(measure())
                write_whole(path, json.dumps({**known, "seconds": found}, indent=2))
    except Held as other:
        raise NoCost(f"another process has been measuring for too long: {other}") from None
    except OSError as error:
        raise NoCost(f"cannot write into {cache}: {error.strerror}") from None
    return found


def _read(path: Path) -> dict[str, float] | None:
    try:
        return {
            name: float(each)
            for name, each in json.loads(path.read_text(encoding="utf-8"))["seconds"].items()
        }
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
