"""Types of parameters on the command line. What only a value needs is loaded when there is one, so that
``--help`` does not wait for it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

import click

if TYPE_CHECKING:
    from pathlib import Path

#: Parts of the benchmarks, by which jube.yml chooses them.
TAGS: Final = ("network", "memory", "compute", "rdma", "apps", "models", "tools")


class Duration(click.ParamType):
    """Seconds, or with a unit: ``90s``, ``10m``, ``2h``."""

    name = "duration"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Seconds; fails on anything that is no positive duration."""
        from npc.records.units import parse_duration

        try:
            seconds = float(value) if isinstance(value, int | float) else parse_duration(str(value))
        except ValueError as error:
            self.fail(str(error), param, ctx)
        if seconds <= 0:
            self.fail(f"{value} is not positive", param, ctx)
        return seconds


def program_first(ctx: click.Context, param: click.Parameter, command: tuple[str, ...]) -> tuple[str, ...]:
    """`command` as it is, unless it begins with an option: that is none of ours, and no program.

    For commands that take another one behind their own options and leave unknown options to it.
    """
    if command and command[0].startswith("-"):
        raise click.NoSuchOption(command[0], ctx=ctx)
    return command


class PathParameter(click.Path):
    """`click.Path` with ``path_type=pathlib.Path``, which alone would be a tenth of what ``--help`` takes."""

    def coerce_path_result(self, value: str | os.PathLike[str]) -> Path:
        """The `pathlib.Path` of a value that was checked."""
        from pathlib import Path

        return Path(value)
