"""Costs are measured once for a kernel, a processor and a version of the tool, and kept in the user's cache
folder (``XDG_CACHE_HOME``, else ``~/.cache``, there ``npc/costs``)."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path

import click

from npc.files import parse_json, read_bytes, write_whole
from npc.machine.topology import processors
from npc.observe.built import NoLibrary, built


class NoCost(RuntimeError):
    """The cost cannot be measured here; the message says why."""


def machine() -> dict[str, str]:
    """What the cost of an event depends on: kernel and processor."""
    system = os.uname()
    return {
        "kernel": f"{system.release} {system.version}",
        "processor": processors()["model"] or system.machine,
    }


def cached_costs(
    kind: str, key: Mapping[str, str], measure: Callable[[], Mapping[str, float]]
) -> dict[str, float]:
    """Seconds by event, from the cache or as `measure` finds them. key: what they depend on besides the
    machine; `measure` may raise `npc.observe.built.NoLibrary`. Raises NoCost."""
    known = {**machine(), **key}

    def write(path: Path) -> None:
        click.echo(f"npc observe: measuring once what watching costs here ({kind})", err=True)
        write_whole(path, json.dumps({**known, "seconds": dict(measure())}, indent=2))

    try:
        path = built("costs", f"{kind}.json", [json.dumps(known, sort_keys=True)], write)
        try:
            return _read(path)
        except (ValueError, KeyError, TypeError, AttributeError):  # damaged
            write(path)
            return _read(path)
    except (NoLibrary, OSError) as error:
        raise NoCost(str(error)) from None


def _read(path: Path) -> dict[str, float]:
    seconds = parse_json(read_bytes(path))["seconds"]
    return {name: float(duration) for name, duration in seconds.items()}
