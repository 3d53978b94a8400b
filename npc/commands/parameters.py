"""Types of parameters on the command line, and what several commands take."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

import click

from npc.choices import AUTO


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


class Runs(click.ParamType):
    """A number of launches, None for ``auto``."""

    name = "n|auto"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int | None:
        """Fails on anything that is neither."""
        if value == AUTO:
            return None
        return int(click.IntRange(1, 10_000).convert(value, param, ctx))


def program_first(ctx: click.Context, param: click.Parameter, command: tuple[str, ...]) -> tuple[str, ...]:
    """`command` as it is, unless it begins with an option: that is none of ours, and no program.

    For commands that take another one behind their own options and leave unknown options to it.
    """
    if command and command[0].startswith("-"):
        raise click.NoSuchOption(command[0], ctx=ctx)
    return command


def name_values(option: str, texts: Sequence[str], pattern: str, expected: str) -> Iterator[tuple[str, str]]:
    """Each name and what stands behind its equals sign."""
    for text in texts:
        match = re.fullmatch(pattern, text, re.DOTALL)
        if not match:
            raise click.UsageError(f"{option} {text!r}: expected {expected}")
        yield match[1], match[2]


#: The type of a parameter that is a path.
PathParameter = partial(click.Path, path_type=Path)


class RunParameter(click.ParamType):
    """The path of a run or its records, which is there."""

    name = "run"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        """Fails with the runs that there are."""
        from npc.records.run import no_such_run

        path = Path(str(value))
        if not path.exists():
            raise click.UsageError(no_such_run(path), ctx)
        return path
