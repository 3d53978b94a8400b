"""What a command is doing, on one line of a terminal that the next word replaces."""

from __future__ import annotations

import sys

import click


def show(text: str) -> None:
    """Show `text` in place of what was shown before; empty clears the line. Nothing where stderr is no
    terminal."""
    if sys.stderr.isatty():
        click.echo(f"\r\x1b[K{text}", nl=False, err=True)
