"""The commands of this room, a module each, and the options that they share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import click

from npc.parameters import PathParameter

if TYPE_CHECKING:
    from pathlib import Path

HISTORY: Final = "history"
#: In a platform's history: held by the night that is running.
LOCK: Final = "nightly.lock"

of_history = click.option(
    "--history", type=PathParameter(file_okay=False), help="Folder of histories (history/)."
)
of_platform = click.option(
    "--platform", default="localhost", show_default=True, help="Folder in platforms/, or any other."
)


def folder_of(history: Path | None, platform: str) -> Path:
    """The history of a platform, in the folder of histories that was given or the checkout's."""
    from npc.jobs.checkout import checkout

    return ((history or checkout() / HISTORY) / platform).resolve()
