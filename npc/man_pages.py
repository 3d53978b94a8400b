"""``python -m npc.man_pages FOLDER``: a man page for npc and each of its commands (``make man``).

click-man writes them from what ``--help`` says; it is installed with the tests' packages.
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import click

from npc import __version__
from npc.cli import main


def write(folder: Path) -> list[Path]:
    """Write ``npc.1`` and ``npc-COMMAND.1`` of every command into `folder`, which is made."""
    pages = importlib.import_module("click_man.core")
    folder.mkdir(parents=True, exist_ok=True)
    context = click.Context(main, info_name="npc")
    commands = {name: main.get_command(context, name) for name in main.list_commands(context)}
    # The commands are loaded by name; click-man looks for them in the group.
    group = click.Group(
        "npc",
        commands={name: command for name, command in commands.items() if command is not None},
        help=main.help,
        short_help="characterise a machine's network, memory and compute, and watch it",
        params=list(main.params),
    )
    pages.write_man_pages("npc", group, version=__version__, target_dir=str(folder))
    return sorted(folder.glob("npc*.1"))


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python -m npc.man_pages FOLDER")
    made = write(Path(sys.argv[1]))
    print(f"{len(made)} pages: man -l {made[0]}")
