"""Durations on the command line."""

from __future__ import annotations

import click

from npc.units import parse_duration


class Duration(click.ParamType):
    """Seconds, or with a unit: ``90s``, ``10m``, ``2h``."""

    name = "duration"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Seconds; fails on anything that is no positive duration."""
        try:
            seconds = float(value) if isinstance(value, int | float) else parse_duration(str(value))
        except ValueError as error:
            self.fail(str(error), param, ctx)
        if seconds <= 0:
            self.fail(f"{value} is not positive", param, ctx)
        return seconds
